"""Targets as the solver needs them: an indicator matrix (or real targets), and weights of samples.

Targets are in host memory, one number (or one row) per sample, wherever the samples are. Indicator
rows of class labels are made block by block.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from array_api_compat import is_array_api_obj, is_dask_array
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from jplay.core.arrays import is_numpy, like, to_numpy


@dataclass(frozen=True, eq=False)
class Targets:
    """Encoded targets."""

    y: np.ndarray
    """(n_samples,) class indices, -1 without a label; or (n_samples, n_outputs) numbers."""
    labeled: np.ndarray
    """(n_samples,) bool"""
    weight: np.ndarray | None
    """(n_samples,) weight in the prediction loss, zero without a label; ``None`` for ones."""
    classes: np.ndarray
    multilabel: bool = False
    """Whether there is one output per label, and not one per class."""
    output_scale: np.ndarray | None = None
    """(n_outputs,) factor of each column of indicators; of real targets one over the deviation."""
    center: np.ndarray | None = None
    """(n_outputs,) weighted mean of real targets; ``None`` for classes and labels."""
    unequal_weights: str = ""
    """Why samples differ in weight; empty if they do not."""
    soft_classes: np.ndarray | None = None
    """(n_samples, n_classes) one-hot rows of the likeliest class if labels are soft; decisions use
    them, since a covariance within soft classes contains much of what lies between classes."""

    @property
    def n_outputs(self) -> int:
        return len(self.classes) if self.y.ndim == 1 else self.y.shape[1]

    @property
    def has_unlabeled(self) -> bool:
        return not bool(self.labeled.all())

    @property
    def unit_weight(self) -> float:
        """Weight of one effective sample: weights then sum to the effective sample size (Kish)."""
        if self.weight is None:
            return 1.0
        # Relative to the largest, so that squares stay in range.
        relative = self.weight / self.weight.max()
        return float(self.weight.max() * (relative @ relative) / relative.sum())

    def encode(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return targets (n_samples, n_outputs) and label weights (n_samples, 1)."""
        y = self.y
        Y = y if y.ndim == 2 else (y[:, None] == np.arange(len(self.classes))).astype(np.float64)
        return Y, None if self.weight is None else self.weight[:, None]

    def take(self, rows: slice | np.ndarray) -> "Targets":
        """Return the targets of some samples."""
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, y=self.y[rows], labeled=self.labeled[rows], weight=weight)


def encode_targets(
    y: Any,
    *,
    unlabeled: Any = None,
    sample_weight: Any = None,
    class_weight: Any = None,
) -> Targets:
    """Encode class labels or an indicator matrix.

    Parameters
    ----------
    y : array or sparse matrix of shape (n_samples,) or (n_samples, n_labels)
    unlabeled : {"auto", -1, None}, default=None
        Marker of samples without a label. ``"auto"`` is -1 unless -1 and 1 are the only values,
        which are two classes then. For indicators a row of -1 is a sample without a label.
    sample_weight : array-like of shape (n_samples,), default=None
    class_weight : None, "balanced" or dict, default=None

    Returns
    -------
    Targets

    Examples
    --------
    >>> import numpy as np
    >>> targets = encode_targets(np.array(["b", "a", "b"]))
    >>> targets.classes.tolist(), targets.encode()[0].tolist()
    (['a', 'b'], [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    """
    y = to_host(y)
    weight = check_sample_weight(sample_weight, y)
    if scipy.sparse.issparse(y) or y.ndim == 2:
        return _encode_labels(y, unlabeled, weight, class_weight)
    return _encode_classes(y, unlabeled, weight, class_weight)


def to_host(y: Any) -> Any:
    """Return targets as a NumPy array or sparse matrix; a single column becomes a vector."""
    if not scipy.sparse.issparse(y):
        y = to_numpy(y) if is_array_api_obj(y) else np.asarray(y)
        if y.ndim == 2 and y.shape[1] == 1:
            return column_or_1d(y, warn=True)
    return y


def put_classes_like(classes: np.ndarray, y: Any) -> Any:
    """Return the classes in the array library of ``y``, where that is one on a device."""
    if scipy.sparse.issparse(y) or not is_array_api_obj(y) or is_numpy(y) or is_dask_array(y):
        return classes
    return like(classes, y, dtype=y.dtype if y.ndim == 1 else None)


def check_sample_weight(sample_weight: Any, y: Any) -> np.ndarray | None:
    """Return weights as float64 in host memory, one per sample, none negative; ``None`` stays."""
    if sample_weight is None:
        return None
    if is_array_api_obj(sample_weight):
        sample_weight = to_numpy(sample_weight)
    sample_weight = np.asarray(sample_weight)
    if sample_weight.dtype.kind in "iuf" and not (
        np.isfinite(sample_weight).all() and (sample_weight >= 0).all()
    ):
        raise ValueError(
            "`sample_weight` should hold one finite number per sample, none negative, got "
            f"{sample_weight[~(np.isfinite(sample_weight) & (sample_weight >= 0))].flat[0]:g}. "
            "Negative values in data passed to `sample_weight`, NaN and infinity are rejected."
        )
    return _check_sample_weight(sample_weight, y, dtype=np.float64)


def _encode_classes(
    y: np.ndarray, unlabeled: Any, weight: np.ndarray | None, class_weight: Any
) -> Targets:
    """Encode class labels as class indices."""
    labeled = ~_find_unlabeled(y, unlabeled)
    _raise_if_unlabeled(labeled)
    classes, codes = np.unique(_to_sortable(y[labeled]), return_inverse=True)
    _check_classes(classes, codes, unlabeled, labeled)
    indices = np.full(len(y), -1)
    indices[labeled] = codes

    factors = None
    if class_weight == "balanced":
        factors = len(codes) / (len(classes) * np.bincount(codes))
    elif class_weight is not None:
        factors = compute_class_weight(class_weight, classes=classes, y=classes)
    targets = Targets(indices, labeled, None, classes)
    of_classes = None if factors is None else np.where(labeled, factors[indices], 0.0)
    targets = _weigh_samples(targets, weight, of_classes)
    if targets.weight is not None:
        _check_totals(np.bincount(codes, targets.weight[labeled], len(classes)), classes)
    return targets


def _encode_labels(y: Any, unlabeled: Any, weight: np.ndarray | None, class_weight: Any) -> Targets:
    """Encode an indicator matrix, each column times the square root of its label's weight."""
    if scipy.sparse.issparse(y):
        y = y.toarray()
    unlabeled_rows = _find_unlabeled(y, unlabeled)
    labeled = ~unlabeled_rows
    _raise_if_unlabeled(labeled)
    if unlabeled is not None and y.dtype.kind in "ifO" and (y[labeled] == -1).any():
        raise ValueError(
            "`y` should hold -1 for all labels of an unlabeled sample, got rows with some. "
            "Fill a row with -1, or the missing entries with 0."
        )
    _check_indicators(y[labeled])
    Y = np.zeros(y.shape)
    Y[labeled] = y[labeled]
    scale = None
    if class_weight is not None:
        scale = np.sqrt(_weigh_labels(class_weight, Y[labeled]))
        Y *= scale
    targets = Targets(Y, labeled, None, np.arange(y.shape[1]), multilabel=True, output_scale=scale)
    targets = _weigh_samples(targets, weight)
    if targets.weight is not None:
        _check_totals(np.atleast_1d(targets.weight.sum()), None)
    return targets


def encode_real_targets(y: Any, *, sample_weight: Any = None) -> Targets:
    """Encode real targets: centered, with unit variance.

    Parameters
    ----------
    y : array of shape (n_samples,) or (n_samples, n_targets)
        A row of NaN is a sample without targets.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    Targets
    """
    y = to_numpy(y) if is_array_api_obj(y) else np.asarray(y)
    weight = check_sample_weight(sample_weight, y)
    y = y.astype(np.float64).reshape(len(y), -1)
    missing = np.isnan(y)
    labeled = ~missing.any(axis=1)
    if np.isinf(y).any() or (~labeled & ~missing.all(axis=1)).any():
        raise ValueError(
            "`y` should hold finite numbers, or NaN for all targets of a sample without them, got "
            "infinity or rows with some NaN. Drop these samples, or fill them."
        )
    counts = np.ones(len(y)) if weight is None else weight
    counts = np.where(labeled, counts, 0.0)
    if labeled.sum() < 2 or not counts.any():
        raise ValueError(
            "`y` should have targets for at least 2 samples of positive weight, got "
            f"{labeled.sum()}. Add samples with targets, or raise `sample_weight`."
        )
    share = counts[labeled] / counts.sum()
    center = share @ y[labeled]
    deviation = np.sqrt(share @ (y[labeled] - center) ** 2)
    # A target that does not vary beyond rounding is predicted by its mean.
    varies = deviation > 1e-7 * np.sqrt(share @ y[labeled] ** 2)
    scale = np.where(varies, 1 / np.where(varies, deviation, 1.0), 1.0)
    Y = np.where(labeled[:, None], (y - center) * scale, 0.0)
    targets = Targets(
        Y, labeled, None, np.arange(Y.shape[1]), multilabel=True, output_scale=scale, center=center
    )
    return _weigh_samples(targets, weight)


def _weigh_samples(
    targets: Targets, weight: np.ndarray | None, class_factors: np.ndarray | None = None
) -> Targets:
    """Combine weights of samples and classes; labeled samples stand for all.

    ``alpha`` so means the same whatever fraction of the samples is labeled.
    """
    labeled = targets.labeled
    total = labeled.astype(np.float64)
    reason = "samples lack a label (see `unlabeled`)" if targets.has_unlabeled else ""
    for factor, name in ((weight, "sample_weight"), (class_factors, "class_weight")):
        if factor is not None and not np.all(factor[labeled] == 1):
            total *= factor
            subject = "samples" if name == "sample_weight" else "classes"
            reason = reason or f"{subject} differ in weight (`{name}`)"
    if not reason:
        return targets
    return replace(targets, weight=total * (len(total) / labeled.sum()), unequal_weights=reason)


def _find_unlabeled(y: np.ndarray, unlabeled: Any) -> np.ndarray:
    """Return the mask of samples without a label."""
    if unlabeled is None or y.dtype.kind not in "ifO":
        return np.zeros(len(y), dtype=bool)
    if y.ndim == 2:
        return (y == -1).all(axis=1)
    missing = y == -1
    known = y[~missing]
    if unlabeled == "auto" and len(known) and all(_is_one(value) for value in set(known.tolist())):
        return np.zeros(len(y), dtype=bool)  # two classes, -1 and 1
    return missing


def _is_one(value: Any) -> bool:
    return isinstance(value, int | float) and value == 1


def _to_sortable(y: np.ndarray) -> np.ndarray:
    """Convert Python objects to an array of their common type."""
    if y.dtype.kind != "O":
        return y
    labels = y.tolist()
    common = np.array(labels)
    # NumPy would write numbers among strings as strings, which are other labels.
    if common.dtype.kind == "O" or len({isinstance(label, str) for label in labels}) > 1:
        kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
        raise ValueError(
            f"Unknown label type: `y` should hold labels of one kind, numbers or strings, got "
            f"{kinds}. Convert them, for example with y.astype(str)."
        )
    return common


def _raise_if_unlabeled(labeled: np.ndarray) -> None:
    if not labeled.any():
        raise ValueError(
            f"`y` should have a label for some samples, got {len(labeled)} times -1, which "
            "marks samples without label. Label some of them, or use AutoRULe for data without "
            "labels."
        )


def _check_classes(
    classes: np.ndarray, codes: np.ndarray, unlabeled: Any, labeled: np.ndarray
) -> None:
    if classes.dtype.kind == "f" and np.isnan(classes).any():
        raise ValueError("Input y contains NaN. Drop the samples without a label.")
    # scikit-learn warns if most samples have a class of their own. To whole numbers that occur
    # often it has no objection, and finding that takes as long as a small solve.
    many_classes = 2 * len(classes) > len(codes)
    if many_classes or classes.dtype.kind not in "biu":
        check_classification_targets(np.repeat(classes, 1 if many_classes else 2))
    if len(classes) < 2:
        remedy = "Add samples of another class, or use AutoRULe for data without labels."
        if not labeled.all():
            remedy = (
                "If -1 is a class and no missing label, change `unlabeled`, or the `marker` of its "
                "SoftLabelPropagation."
            )
        raise ValueError(
            f"`y` should contain at least 2 classes, got 1 class ({classes.tolist()[0]!r}). "
            f"{remedy}"
        )


def _check_indicators(Y: np.ndarray) -> None:
    """Reject matrices that are not indicators, in scikit-learn's words if it has some."""
    if type_of_target(Y, input_name="y") == "multilabel-indicator":
        return
    values = np.unique(Y)
    if not np.isin(values, [0, 1]).all():
        check_classification_targets(Y)
        raise ValueError(
            "`y` should hold one class per sample or be a 0/1 indicator matrix, got a matrix of "
            f"values from {values[0]} to {values[-1]}. Fit one estimator per column or binarize "
            "the labels."
        )


def _weigh_labels(class_weight: Any, Y: np.ndarray) -> np.ndarray:
    """Return the weight of every label of an indicator matrix."""
    n_samples, n_labels = Y.shape
    if isinstance(class_weight, str):
        positives = Y.sum(axis=0)
        rare = np.minimum(positives, n_samples - positives)
        weights = n_samples / (2 * np.maximum(rare, 1))
        return weights / weights.mean()
    unknown = sorted(set(class_weight) - set(range(n_labels)), key=str)
    if unknown:
        raise ValueError(
            f"`class_weight` should have keys from 0 to {n_labels - 1} (the labels), got "
            f"{unknown}. Name labels by their column in `y`."
        )
    return np.array([float(class_weight.get(label, 1.0)) for label in range(n_labels)])


def _check_totals(totals: np.ndarray, classes: np.ndarray | None) -> None:
    """Raise unless every class (or label) has a positive total weight."""
    if not totals.any():
        raise ValueError(
            "`sample_weight` should be positive for some labeled samples, got zero for all. "
            "Raise the weight of the samples to learn from."
        )
    if classes is not None and not totals.all():
        empty = [classes[k].item() for k in np.flatnonzero(totals == 0)]
        raise ValueError(
            f"`sample_weight` and `class_weight` should leave every class a positive weight, got "
            f"zero for {empty}. Leave these samples out, or raise their weight."
        )
