"""Accuracy of a classification: overall, average, kappa, and per class.

Everything is a function of the confusion matrix, whose rows are the true classes and whose columns
are the predicted ones.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def confusion_matrix(
    y_true: ArrayLike, y_pred: ArrayLike, *, labels: ArrayLike | None = None
) -> np.ndarray:
    """Count how often each true class was given each predicted class.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        True and predicted labels.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of rows and columns; by default the sorted classes of ``y_true``
        and ``y_pred``. A sample whose label is not listed is an error, since dropping it would
        silently change the accuracy.

    Returns
    -------
    ndarray of shape (n_classes, n_classes), dtype int64
        Entry ``(i, j)`` counts the samples of class ``labels[i]`` that were called ``labels[j]``.

    Examples
    --------
    >>> from jplay.numerics.metrics import confusion_matrix
    >>> confusion_matrix([1, 1, 2, 3], [1, 2, 2, 3]).tolist()
    [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
    """
    y_true, y_pred = _check_pair(y_true, y_pred)
    labels = _check_labels(labels, y_true, y_pred)
    order = np.argsort(labels, kind="stable")
    rows = _positions(y_true, labels, order, "y_true")
    columns = _positions(y_pred, labels, order, "y_pred")
    n_classes = labels.size
    counts = np.bincount(rows * n_classes + columns, minlength=n_classes**2)
    return counts.reshape(n_classes, n_classes).astype(np.int64, copy=False)


def overall_accuracy(confusion: ArrayLike) -> float:
    """Share of all samples that are right, ``trace(C) / sum(C)``.

    Examples
    --------
    >>> from jplay.numerics.metrics import overall_accuracy
    >>> overall_accuracy([[3, 1], [0, 4]])
    0.875
    """
    confusion = _check_confusion(confusion)
    return float(np.trace(confusion) / confusion.sum())


def producers_accuracy(confusion: ArrayLike) -> np.ndarray:
    """Share of each true class that was found (recall), ``C_kk / sum_j C_kj``.

    A class without a true sample has no such share: its entry is NaN.

    Examples
    --------
    >>> from jplay.numerics.metrics import producers_accuracy
    >>> producers_accuracy([[3, 1], [0, 4]]).tolist()
    [0.75, 1.0]
    """
    confusion = _check_confusion(confusion)
    return _ratio(np.diag(confusion), confusion.sum(axis=1))


def users_accuracy(confusion: ArrayLike) -> np.ndarray:
    """Share of each predicted class that is right (precision), ``C_kk / sum_i C_ik``.

    A class that was never predicted has no such share: its entry is NaN.

    Examples
    --------
    >>> from jplay.numerics.metrics import users_accuracy
    >>> users_accuracy([[3, 1], [0, 4]]).tolist()
    [1.0, 0.8]
    """
    confusion = _check_confusion(confusion)
    return _ratio(np.diag(confusion), confusion.sum(axis=0))


def average_accuracy(confusion: ArrayLike) -> float:
    """Mean of the producer's accuracies over the classes that occur in the truth.

    Examples
    --------
    >>> from jplay.numerics.metrics import average_accuracy
    >>> average_accuracy([[3, 1], [0, 4]])
    0.875
    """
    return float(np.nanmean(producers_accuracy(confusion)))


def cohen_kappa(confusion: ArrayLike) -> float:
    r"""Agreement beyond chance, :math:`\kappa = (p_o - p_e) / (1 - p_e)`.

    :math:`p_o` is the overall accuracy and
    :math:`p_e = \sum_k (\sum_j C_{kj}) (\sum_i C_{ik}) / n^2` the agreement of two independent
    raters with the same marginals. Where truth and prediction are one and the same single class,
    chance explains everything (0 / 0) and the result is NaN.

    Examples
    --------
    >>> from jplay.numerics.metrics import cohen_kappa
    >>> cohen_kappa([[3, 1], [0, 4]])
    0.75
    """
    confusion = _check_confusion(confusion).astype(np.float64)
    n_samples = confusion.sum()
    observed = np.trace(confusion) / n_samples
    by_chance = confusion.sum(axis=1) @ confusion.sum(axis=0) / n_samples**2
    return float((observed - by_chance) / (1.0 - by_chance)) if by_chance < 1.0 else float("nan")


@dataclass(frozen=True, eq=False)
class AccuracyReport:
    """The figures customary in remote sensing, as fractions between 0 and 1.

    Attributes
    ----------
    labels : ndarray of shape (n_classes,)
        The classes, in the order of the arrays below.
    confusion : ndarray of shape (n_classes, n_classes)
        Rows are true classes, columns predicted ones.
    overall_accuracy, average_accuracy, kappa : float
        OA, AA and Cohen's kappa.
    producers_accuracy, users_accuracy : ndarray of shape (n_classes,)
        Recall and precision of each class; NaN where not defined.

    Examples
    --------
    >>> from jplay.numerics.metrics import AccuracyReport
    >>> report = AccuracyReport.from_labels([1, 1, 1, 1, 2, 2, 2, 2], [1, 1, 1, 2, 2, 2, 2, 2])
    >>> report.overall_accuracy, report.kappa
    (0.875, 0.75)
    """

    labels: np.ndarray
    confusion: np.ndarray
    overall_accuracy: float
    average_accuracy: float
    kappa: float
    producers_accuracy: np.ndarray
    users_accuracy: np.ndarray

    @classmethod
    def from_labels(
        cls, y_true: ArrayLike, y_pred: ArrayLike, *, labels: ArrayLike | None = None
    ) -> "AccuracyReport":
        """Compare predicted with true labels; parameters as for :func:`confusion_matrix`."""
        y_true, y_pred = _check_pair(y_true, y_pred)
        labels = _check_labels(labels, y_true, y_pred)
        return cls.from_confusion(confusion_matrix(y_true, y_pred, labels=labels), labels=labels)

    @classmethod
    def from_confusion(
        cls, confusion: ArrayLike, *, labels: ArrayLike | None = None
    ) -> "AccuracyReport":
        """Derive every figure from a confusion matrix; ``labels`` are 0, 1, ... unless given."""
        confusion = _check_confusion(confusion)
        labels = np.arange(len(confusion)) if labels is None else np.asarray(labels)
        if labels.shape != (len(confusion),):
            raise ValueError(
                f"`labels` should name the {len(confusion)} classes of `confusion`, got shape "
                f"{labels.shape}. Pass one label per row."
            )
        return cls(
            labels=labels,
            confusion=confusion,
            overall_accuracy=overall_accuracy(confusion),
            average_accuracy=average_accuracy(confusion),
            kappa=cohen_kappa(confusion),
            producers_accuracy=producers_accuracy(confusion),
            users_accuracy=users_accuracy(confusion),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, ready for JSON; an undefined figure is ``None``."""
        return {
            "labels": self.labels.tolist(),
            "confusion": self.confusion.tolist(),
            "overall_accuracy": self.overall_accuracy,
            "average_accuracy": self.average_accuracy,
            "kappa": _none_for_nan(self.kappa),
            "producers_accuracy": [_none_for_nan(v) for v in self.producers_accuracy.tolist()],
            "users_accuracy": [_none_for_nan(v) for v in self.users_accuracy.tolist()],
        }


def _check_pair(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    for name, y in (("y_true", y_true), ("y_pred", y_pred)):
        if y.ndim != 1 or y.size == 0:
            raise ValueError(
                f"`{name}` should be one-dimensional with at least one label, got shape {y.shape}. "
                "Pass one label per sample (select the labelled pixels of a map first)."
            )
    if y_true.shape != y_pred.shape:
        raise ValueError(
            f"`y_pred` should have as many labels as `y_true` ({y_true.size}), got {y_pred.size}. "
            "Pass predictions for exactly the samples of `y_true`."
        )
    return y_true, y_pred


def _check_labels(labels: ArrayLike | None, y_true: np.ndarray, y_pred: np.ndarray) -> np.ndarray:
    if labels is None:
        return np.union1d(y_true, y_pred)
    labels = np.asarray(labels)
    if labels.ndim != 1 or labels.size == 0 or np.unique(labels).size != labels.size:
        raise ValueError(
            "`labels` should be a one-dimensional list of distinct classes, got "
            f"{labels.tolist()!r}. Name every class once."
        )
    return labels


def _positions(y: np.ndarray, labels: np.ndarray, order: np.ndarray, name: str) -> np.ndarray:
    found = np.searchsorted(labels, y, sorter=order)
    positions = order[np.minimum(found, labels.size - 1)]
    unknown = labels[positions] != y
    if unknown.any():
        raise ValueError(
            f"`{name}` should contain only the classes in `labels`, got also "
            f"{np.unique(y[unknown]).tolist()[:5]!r}. Add them to `labels` or leave `labels` out."
        )
    return positions


def _check_confusion(confusion: ArrayLike) -> np.ndarray:
    confusion = np.asarray(confusion)
    if confusion.ndim != 2 or confusion.shape[0] != confusion.shape[1]:
        raise ValueError(f"`confusion` should be a square matrix, got shape {confusion.shape}.")
    if not confusion.sum() > 0 or (confusion < 0).any():
        raise ValueError("`confusion` should hold counts of at least one sample, none negative.")
    return confusion


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)


def _none_for_nan(value: float) -> float | None:
    return None if np.isnan(value) else value
