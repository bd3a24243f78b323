"""Fit an estimator and write down what it was fitted on."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder

from jplay.estimators import JPlay, JPlayCommittee, LiftedJPlay
from jplay.inspection import choose_scaling, estimate_accuracy
from jplay.persistence._model import ModelMetadata, TrainedModel

METHODS = {"jplay": JPlay, "lifted": LiftedJPlay, "committee": JPlayCommittee}


def default_estimator(
    method: str = "jplay",
    *,
    norm: str | None = None,
    impute: str | None = None,
    encode: Sequence[str] = (),
    **settings: Any,
) -> Any:
    """A model of the family after the preparation that its samples need.

    The model itself centres and scales each column.

    Parameters
    ----------
    method : {"jplay", "lifted", "committee"}, default="jplay"
    norm : {"max", "l1", "l2"} or None, default=None
        What each sample is divided by first; ``None`` leaves samples as they are.
        :func:`jplay.inspection.choose_scaling` tells what suits.
    impute : {"median", "mean"} or None, default=None
        What a missing value is replaced by: the median or mean of its column.
    encode : sequence of str, default=()
        Columns of a frame whose values become 0/1 columns.
    **settings
        Parameters of the model.

    Examples
    --------
    >>> from jplay.persistence import default_estimator
    >>> default_estimator(norm="max", n_components=3)[0]
    Normalizer(norm='max')
    """
    if method not in METHODS:
        raise ValueError(f"`method` should be one of {', '.join(METHODS)}, got {method!r}.")
    steps: list[Any] = []
    fill = None if impute is None else SimpleImputer(strategy=impute)
    if encode:
        encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        steps.append(
            ColumnTransformer(
                [("text", encoder, list(encode))],
                remainder="passthrough" if fill is None else fill,
            )
        )
    elif fill is not None:
        steps.append(fill)
    if norm is not None:
        steps.append(Normalizer(norm=norm))
    model = METHODS[method](**settings)
    return make_pipeline(*steps, model) if steps else model


def train_model(
    X: Any,
    y: Any,
    estimator: Any = None,
    *,
    metadata: ModelMetadata | None = None,
    source: str | None = None,
    cv: int | None = None,
    groups: Any = None,
    group_name: str = "group",
    peers: bool = True,
    random_state: int = 0,
    progress: Callable[[int, int], Any] | None = None,
) -> TrainedModel:
    """Fit an estimator and keep facts about its training with it.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_labels)
    estimator : scikit-learn classifier, optional
        Fitted in place; by default :class:`jplay.JPlay`, with samples that are like spectra
        divided by their maximum each.
    metadata : ModelMetadata, optional
        What is known beside the samples.
    source : str, optional
        Where the samples come from.
    cv : int, optional
        Number of folds by which :func:`jplay.inspection.estimate_accuracy` estimates the
        accuracy, beside the fit to all samples.
    groups : array-like of shape (n_samples,), optional
        Which samples belong together and are left out together.
    group_name : str, default="group"
        What a group is called in notes.
    peers : bool, default=True
        Whether shrinkage LDA and a random forest are estimated as well.
    random_state : int, default=0
        For the folds.
    progress : callable, optional
        Called with the number of fits done and of all fits.

    Returns
    -------
    TrainedModel

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from jplay.persistence import train_model
    >>> X, y = load_iris(return_X_y=True)
    >>> model = train_model(X, y, cv=3, peers=False)
    >>> model.metadata.accuracy["overall_accuracy"] > 0.9
    True
    """
    if estimator is None:
        estimator = default_estimator(norm=choose_scaling(X).norm)
    metadata = metadata or ModelMetadata()
    accuracy = None
    if cv is not None:
        accuracy = estimate_accuracy(
            estimator,
            X,
            y,
            groups=groups,
            peers=peers,
            n_folds=cv,
            random_state=random_state,
            # The fit to all samples is the last one.
            progress=progress and (lambda done, total: progress(done, total + 1)),
            class_names=_names(y, metadata),
            group_name=group_name,
        ).to_dict()
    started = perf_counter()
    estimator.fit(X, y)
    if progress is not None:
        progress(1, 1)
    training = {
        **metadata.training,
        **({"source": source} if source else {}),
        "samples_per_class": _counts(y, estimator.classes_),
        "n_samples": len(y),
        "seconds": round(perf_counter() - started, 3),
    }
    return TrainedModel(estimator, replace(metadata, training=training, accuracy=accuracy))


def _names(y, metadata):
    if metadata.class_names is None or np.ndim(y) == 2:
        return None
    return dict(zip(np.unique(y).tolist(), metadata.class_names, strict=True))


def _counts(y, classes):
    y = np.asarray(y)
    if y.ndim == 2:
        return {str(label): int(count) for label, count in zip(classes, y.sum(axis=0), strict=True)}
    counts = Counter(str(label) for label in y.tolist())
    return {str(label): counts[str(label)] for label in np.asarray(classes).tolist()}
