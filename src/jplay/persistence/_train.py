"""Fit an estimator and write down what it was fitted on."""

from collections import Counter
from dataclasses import replace
from time import perf_counter

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from jplay.estimators import JPlay
from jplay.numerics.metrics import AccuracyReport
from jplay.persistence._model import ModelMetadata, TrainedModel


def default_estimator(*, norm="max", **settings):
    """Divide each sample by its norm, then J-Play; ``norm=None`` leaves samples as they are."""
    model = JPlay(**settings)
    return model if norm is None else make_pipeline(Normalizer(norm=norm), model)


def train_model(
    X, y, estimator=None, *, metadata=None, source=None, cv=None, random_state=0, progress=None
):
    """Fit an estimator and keep facts about its training with it.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_labels)
    estimator : scikit-learn classifier, optional
        Fitted in place; by default each sample is divided by its maximum and given to
        :class:`jplay.JPlay`.
    metadata : ModelMetadata, optional
        What is known beside the samples.
    source : str, optional
        Where the samples come from.
    cv : int, optional
        Number of folds by which to estimate the accuracy, beside the fit to all samples.
    random_state : int, RandomState instance or None, default=0
        For the folds.
    progress : callable, optional
        Called with the number of folds done and of all folds.

    Returns
    -------
    TrainedModel

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from jplay.persistence import train_model
    >>> X, y = load_iris(return_X_y=True)
    >>> model = train_model(X, y, cv=3)
    >>> model.metadata.accuracy["overall_accuracy"] > 0.9
    True
    """
    estimator = default_estimator() if estimator is None else estimator
    accuracy = None
    if cv is not None:
        accuracy = _cross_validated(estimator, X, y, cv, random_state, progress)
    started = perf_counter()
    estimator.fit(X, y)
    training = {
        **({"source": source} if source else {}),
        "samples_per_class": _counts(y, estimator.classes_),
        "n_samples": len(y),
        "seconds": round(perf_counter() - started, 3),
    }
    metadata = metadata or ModelMetadata()
    return TrainedModel(estimator, replace(metadata, training=training, accuracy=accuracy))


def _counts(y, classes):
    y = np.asarray(y)
    if y.ndim == 2:
        return {str(label): int(count) for label, count in zip(classes, y.sum(axis=0), strict=True)}
    counts = Counter(str(label) for label in y.tolist())
    return {str(label): counts[str(label)] for label in np.asarray(classes).tolist()}


def _cross_validated(estimator, X, y, cv, random_state, progress):
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(
            "`cv` needs one class per sample, got several labels. Leave `cv` out and measure on "
            "samples of your own."
        )
    predicted = np.empty_like(y)
    folds = stratified_folds(y, cv, random_state)
    for fold, (train, test) in enumerate(folds.split(np.zeros(len(y)), y), start=1):
        predicted[test] = clone(estimator).fit(_rows(X, train), y[train]).predict(_rows(X, test))
        if progress is not None:
            progress(fold, cv)
    report = AccuracyReport.from_labels(y, predicted).to_dict()
    return {
        "method": f"{cv}-fold cross-validation over single samples",
        **{name: report[name] for name in ("overall_accuracy", "average_accuracy", "kappa")},
    }


def stratified_folds(y, cv, random_state):
    """Return ``cv`` shuffled folds, each of which holds samples of every class."""
    smallest = int(np.unique(y, return_counts=True)[1].min())
    if not 2 <= cv <= smallest:
        raise ValueError(
            f"`cv` should be from 2 to {smallest} (the samples of the smallest class), got {cv}. "
            "Choose fewer folds or label more samples."
        )
    return StratifiedKFold(cv, shuffle=True, random_state=random_state)


def _rows(X, rows):
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]
