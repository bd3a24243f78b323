"""The collapsed model as plain arrays."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from jplay import __version__
from jplay._files import atomic_path
from jplay.persistence._collapsed import collapse_model
from jplay.persistence._model import as_trained_model


def export_npz(model: Any, path: str | os.PathLike) -> Path:
    """Write the matrices of a model to a plain NumPy archive, readable without pickle.

    Entries: those of :class:`CollapsedModel` (``norm`` is ``""`` where samples are not scaled),
    ``projection_0``, ``projection_1``, ... with ``first_intercept``, the chain layer by layer,
    ``whitener`` and ``center``, by which the last layer becomes the features if they are whitened,
    and ``wavelengths``, ``feature_names``, ``class_names`` where the model has them.

    Parameters
    ----------
    model : TrainedModel, JPlay or Pipeline of Normalizer and JPlay
    path : str or path-like

    Returns
    -------
    pathlib.Path
    """
    model = as_trained_model(model)
    collapsed, metadata, path = collapse_model(model), model.metadata, Path(path)
    entries = {
        "norm": np.array(collapsed.norm or ""),
        "components": collapsed.components,
        "intercept": collapsed.intercept,
        "label_coef": collapsed.label_coef,
        "label_intercept": collapsed.label_intercept,
        "classes": _without_objects(collapsed.classes),
        "multilabel": np.array(collapsed.multilabel),
        "first_intercept": model.final_step.first_intercept_,
        "whitener": model.final_step.whitener_,
        "center": model.final_step.center_,
        "jplay_version": np.array(__version__),
    }
    for layer, projection in enumerate(model.final_step.projections_):
        entries[f"projection_{layer}"] = projection
    for name in ("wavelengths", "feature_names", "class_names"):
        if getattr(metadata, name) is not None:
            entries[name] = np.asarray(getattr(metadata, name))
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **entries)
    return path


def _without_objects(classes):
    return classes.astype(str) if classes.dtype.kind == "O" else classes
