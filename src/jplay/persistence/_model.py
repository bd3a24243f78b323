"""A fitted model together with what one must know to use it on other data."""

import os
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from jplay import __version__

FORMAT_VERSION = 2
"""Number of the format of model files. It grows when fitted models have other attributes or classes
than before: their files are refused, since a model without what it needs may predict wrongly."""


@dataclass(frozen=True)
class ModelMetadata:
    """Facts about a fitted model, all plain values, that its file carries as JSON.

    Attributes
    ----------
    feature_names : list of str or None
        Names of the input features, in the order of the model.
    class_names : list of str or None
        One name per class of the model.
    class_colors : list of (red, green, blue) or None
        One colour per class, 0 to 255.
    wavelengths : list of float or None
        Centre of every band the model uses, in nm.
    band_indices : list of int or None
        Position of these bands among all bands of the training scene.
    n_scene_bands : int or None
        Number of all bands of the training scene.
    training : dict
        What it was fitted on: source, numbers of samples per class, seconds.
    accuracy : dict or None
        Cross-validated figures, where they were computed.
    jplay_version, sklearn_version, created : str
        Filled in when the model is made.
    """

    feature_names: list[str] | None = None
    class_names: list[str] | None = None
    class_colors: list[Any] | None = None
    wavelengths: list[float] | None = None
    band_indices: list[int] | None = None
    n_scene_bands: int | None = None
    training: dict[str, Any] = field(default_factory=dict)
    accuracy: dict[str, Any] | None = None
    jplay_version: str = __version__
    sklearn_version: str = ""
    created: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ModelMetadata":
        """Read what :meth:`to_dict` wrote; entries of later versions are left out.

        Raises
        ------
        ValueError
            If an entry is of another type than :meth:`to_dict` writes.
        """
        known = {entry.name for entry in fields(cls)}
        values = {name: value for name, value in values.items() if name in known}
        for name, value in values.items():
            _check_type(name, value)
        return cls(**values)


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A fitted scikit-learn estimator (usually a pipeline) and its metadata.

    Parameters
    ----------
    estimator : fitted estimator
        A classifier, regressor or transformer; preprocessing belongs into it.
    metadata : ModelMetadata, optional

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer
    >>> from jplay import JPlay
    >>> from jplay.persistence import TrainedModel
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TrainedModel(make_pipeline(Normalizer(norm="max"), JPlay(3, 2)).fit(X, y))
    >>> model.predict(X).shape, model.n_features
    ((150,), 4)
    """

    estimator: Any
    metadata: ModelMetadata = field(default_factory=ModelMetadata)

    def __post_init__(self) -> None:
        if not hasattr(self.estimator, "predict") and not hasattr(self.estimator, "transform"):
            raise TypeError(
                "`estimator` should be a fitted estimator with `predict` or `transform`, got "
                f"{type(self.estimator).__name__}."
            )
        check_is_fitted(self.estimator)
        stamp = {}
        if not self.metadata.created:
            stamp["created"] = _now()
        if not self.metadata.sklearn_version:
            stamp["sklearn_version"] = _sklearn_version()
        if self.metadata.feature_names is None and hasattr(self.estimator, "feature_names_in_"):
            stamp["feature_names"] = [str(name) for name in self.estimator.feature_names_in_]
        if self.metadata.class_names is None and len(self.classes):
            stamp["class_names"] = [str(name) for name in self.classes]
        object.__setattr__(self, "metadata", replace(self.metadata, **stamp))
        self._check_lengths()

    def _check_lengths(self):
        expected = {
            "feature_names": self.n_features,
            "wavelengths": self.n_features,
            "band_indices": self.n_features,
            "class_names": len(self.classes),
            "class_colors": len(self.classes),
        }
        for name, length in expected.items():
            values = getattr(self.metadata, name)
            if values is not None and len(values) != length:
                raise ValueError(
                    f"`metadata.{name}` should have {length} entries, as the model does, got "
                    f"{len(values)}. The metadata belong to another model."
                )

    @property
    def classes(self) -> np.ndarray:
        """Labels in the order of the scores; empty if the estimator is no classifier."""
        return np.asarray(getattr(self.estimator, "classes_", ()))

    @property
    def n_features(self) -> int:
        """Number of input features."""
        return int(self.estimator.n_features_in_)

    @property
    def final_step(self) -> Any:
        """The classifier at the end of a pipeline, or the estimator itself."""
        return self.estimator[-1] if hasattr(self.estimator, "steps") else self.estimator

    def predict(self, X: Any) -> Any:
        """Labels of samples; see the estimator."""
        return self.estimator.predict(X)

    def decision_function(self, X: Any) -> Any:
        """Scores of samples; see the estimator."""
        return self.estimator.decision_function(X)

    def transform(self, X: Any) -> Any:
        """Features of samples in the last subspace; see the estimator."""
        return self.estimator.transform(X)

    def save(self, path: str | os.PathLike) -> Path:
        """Write the model to a file; see :func:`save_model`."""
        from jplay.persistence._files import save_model

        return save_model(self, path)


_TYPES: dict[str, Any] = {
    "feature_names": [str],
    "class_names": [str],
    "class_colors": [list],
    "wavelengths": [float, int],
    "band_indices": [int],
    "n_scene_bands": int,
    "training": dict,
    "accuracy": dict,
    "jplay_version": str,
    "sklearn_version": str,
    "created": str,
}
"""Types of the entries as JSON gives them back; in brackets those of a list's items."""
_ALWAYS = ("training", "jplay_version", "sklearn_version", "created")


def _check_type(name, value):
    expected = _TYPES[name]
    if value is None and name not in _ALWAYS:
        return
    if isinstance(expected, list):
        right = isinstance(value, list) and all(type(item) in expected for item in value)
    else:
        right = type(value) is expected
    if not right:
        raise ValueError(f"its metadata have {value!r:.60} as `{name}`")


def as_trained_model(model: Any) -> TrainedModel:
    """Return ``model`` itself, or a fitted estimator without metadata wrapped as one."""
    return model if isinstance(model, TrainedModel) else TrainedModel(model)


def _now():
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds")


def _sklearn_version():
    from sklearn import __version__ as version

    return version
