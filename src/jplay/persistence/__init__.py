"""Models that travel: one file that loads without running code, and exports for other tools."""

from jplay.persistence._atomic import atomic_path
from jplay.persistence._card import model_card
from jplay.persistence._collapsed import CollapsedModel, collapse_model
from jplay.persistence._export import export_npz, export_onnx
from jplay.persistence._files import TRUSTED_TYPES, load_model, save_model
from jplay.persistence._model import ModelMetadata, TrainedModel
from jplay.persistence._train import default_estimator, train_model

__all__ = [
    "TRUSTED_TYPES",
    "CollapsedModel",
    "ModelMetadata",
    "TrainedModel",
    "atomic_path",
    "collapse_model",
    "default_estimator",
    "export_npz",
    "export_onnx",
    "load_model",
    "model_card",
    "save_model",
    "train_model",
]
