"""Models that travel: one file that loads without running code, and exports for other tools."""

from jplay.persistence._card import model_card
from jplay.persistence._collapsed import CollapsedModel, collapse_model
from jplay.persistence._export import export_npz
from jplay.persistence._files import is_trusted_type, load_model, save_model
from jplay.persistence._model import ModelMetadata, TrainedModel, as_trained_model
from jplay.persistence._onnx import export_onnx
from jplay.persistence._train import default_estimator, train_model

__all__ = [
    "CollapsedModel",
    "ModelMetadata",
    "TrainedModel",
    "as_trained_model",
    "collapse_model",
    "default_estimator",
    "export_npz",
    "export_onnx",
    "is_trusted_type",
    "load_model",
    "model_card",
    "save_model",
    "train_model",
]
