"""Class labels and indicator matrices as the solvers want them, in one pass or block by block.

Encoding takes two looks. The first summarises the targets: which classes there are, how many
samples each has, what the weights add up to. Summaries of blocks add up. The second turns the
targets of each block into an indicator matrix, and into weights if samples differ in weight.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse
from array_api_compat import is_array_api_obj
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from jplay._array_api import is_numpy, like, to_numpy
from jplay.blocks.containers import is_in_blocks
from jplay.blocks.graph import check_positive, check_whole
from jplay.numerics.propagation import best_graph_for_labels, confidence, propagate_labels


@dataclass(frozen=True)
class Propagation:
    """Soft labels for samples without one, for the parameter ``unlabelled`` of :class:`JPlay`.

    Samples without label get labels from their neighbours: over the graph with its edges
    weighed by distance in the learned subspace, or over the neighbours there, whichever tells
    held-out labels better. The model is then solved again with them.

    Parameters
    ----------
    weight : float, default=1.0
        Weight of a soft label relative to a true one. Each also counts by its certainty.
    rounds : int, default=2
        How often soft labels are found anew and the model solved again.
    marker : {"auto", -1}, default="auto"
        What marks a sample without label, as the values of ``unlabelled`` do.

    Examples
    --------
    >>> from jplay import JPlay, Propagation
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> y[::2] = -1
    >>> JPlay(3, unlabelled=Propagation(weight=0.5)).fit(X, y).classes_
    array([0, 1, 2])
    """

    weight: float = 1.0
    rounds: int = 2
    marker: Literal["auto", -1] = "auto"

    def __post_init__(self) -> None:
        check_positive("weight", self.weight)
        check_whole("rounds", self.rounds, 1)
        if self.marker not in ("auto", -1):
            raise ValueError(f"`marker` should be 'auto' or -1, got {self.marker!r}.")


@dataclass(frozen=True)
class LabelPenalty:
    r"""What the label projection :math:`P` costs, for the parameter ``gamma`` of :class:`JPlay`.

    It is :math:`\tfrac r2 \|P\|_F^2 + a \|P\|_1`. With absolute values some entries of ``coef_``
    are zero: each class is told from few components. That takes the fast solver.

    Parameters
    ----------
    ridge : float, default=0.1
        The weight :math:`r` of the squares; a number as ``gamma`` is this weight alone.
    absolute : float, default=0.0
        The weight :math:`a` of the absolute values.

    Examples
    --------
    >>> from jplay import JPlay, LabelPenalty
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = JPlay(4, gamma=LabelPenalty(absolute=2.0)).fit(X, y)
    >>> int((model.coef_ == 0).sum()) > 0
    True
    """

    ridge: float = 0.1
    absolute: float = 0.0

    def __post_init__(self) -> None:
        for name, weight in (("ridge", self.ridge), ("absolute", self.absolute)):
            if weight != 0:
                check_positive(name, weight, "0 or above")


@dataclass(frozen=True, eq=False)
class TargetSummary:
    """What must be known of all targets before one is encoded. Summaries of blocks add up."""

    values: Any
    """Distinct class labels in order; of an indicator matrix its distinct entries."""
    counts: Any
    """Number of samples with each class label; with each label set, for indicators."""
    weights: Any
    """Total sample weight behind each of ``counts``."""
    squares: Any
    """Total squared sample weight behind each of ``counts``."""
    n_samples: int
    n_missing: int
    """Samples marked as having no label."""
    missing_weight: float
    missing_square: float
    n_labels: int | None
    """Columns of an indicator matrix; ``None`` for class labels."""
    equal_weights: bool
    """Whether every sample weight is one."""

    def __add__(self, other: "TargetSummary") -> "TargetSummary":
        values = np.union1d(self.values, other.values)
        sums: dict[str, Any] = {
            "n_samples": self.n_samples + other.n_samples,
            "n_missing": self.n_missing + other.n_missing,
            "missing_weight": self.missing_weight + other.missing_weight,
            "missing_square": self.missing_square + other.missing_square,
            "equal_weights": self.equal_weights and other.equal_weights,
        }
        for name in ("counts", "weights", "squares"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if self.n_labels is not None:
                sums[name] = mine + theirs
                continue
            sums[name] = np.zeros(len(values), dtype=mine.dtype)
            sums[name][np.searchsorted(values, self.values)] += mine
            sums[name][np.searchsorted(values, other.values)] += theirs
        return replace(self, values=values, **sums)


@dataclass(frozen=True, eq=False)
class TargetCode:
    """How class labels or indicators become numbers."""

    classes: Any
    multilabel: bool
    partial: bool
    """Whether some samples have no label."""
    class_factors: Any = None
    """Weight of each class in the prediction loss; ``None`` for ones."""
    output_scale: Any = None
    """(n_outputs,) square roots of the labels' weights; ``None`` for ones."""
    spread: float = 1.0
    """Samples for each labelled one, so that ``alpha`` means the same whatever their share."""
    unit: float = 1.0
    """Weight that stands for one sample in the decision: the sum of squared weights over their sum.

    Their number is then the effective one (Kish 1965), ``(sum w)^2 / sum w^2``.
    """
    weighted: bool = False
    """Whether samples differ in weight."""

    def encode(self, y: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
        """Indicator matrix, weights and which samples are labelled, for some of the targets.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_outputs)
            Each column times ``output_scale``; rows of samples without label are zero.
        weight : ndarray of shape (n_samples,) or None
            In the prediction loss; ``None`` if all samples weigh one.
        labelled : ndarray of bool of shape (n_samples,)
        """
        n_samples = y.shape[0]
        labelled = np.ones(n_samples, dtype=bool)
        if self.partial:
            labelled = ~_missing(y)
        if self.multilabel:
            Y = (y.toarray() if scipy.sparse.issparse(y) else np.asarray(y)).astype(np.float64)
            Y[~labelled] = 0
        else:
            codes = np.searchsorted(self.classes, _comparable(y[labelled]))
            Y = np.zeros((n_samples, len(self.classes)))
            Y[np.flatnonzero(labelled), codes] = 1
        if self.output_scale is not None:
            Y = Y * self.output_scale
        if not self.weighted:
            return Y, None, labelled
        weight = np.ones(n_samples) if sample_weight is None else sample_weight.astype(np.float64)
        weight = np.where(labelled, weight, 0.0)
        if self.class_factors is not None:
            weight[labelled] *= self.class_factors[codes]
        return Y, weight * self.spread, labelled


@dataclass(frozen=True, eq=False)
class Targets:
    """Encoded targets of samples in memory; NumPy arrays."""

    code: TargetCode
    Y: Any
    weight: Any
    labelled: Any
    guesses: Any = None
    """One-hot rows of the most likely classes if labels are soft: the decision is made by them.

    A covariance within soft classes would hold much of what lies between them.
    """

    def weight_like(self, X: Any) -> Any:
        """Weights as an array like ``X``, or ``None``."""
        return None if self.weight is None else like(self.weight, X)


def _missing(y: Any) -> Any:
    """Rows of -1, or entries of -1 in a vector."""
    return (y == -1).all(axis=1) if y.ndim == 2 else y == -1


def _comparable(y: Any) -> Any:
    """Labels that can be sorted: an array of Python objects as one of their common type."""
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


def host_targets(y: Any) -> Any:
    """Targets as a NumPy array or sparse matrix; a single column becomes a vector."""
    if not scipy.sparse.issparse(y):
        y = to_numpy(y) if is_array_api_obj(y) else np.asarray(y)
        if y.ndim == 2 and y.shape[1] == 1:
            return column_or_1d(y, warn=True)
    return y


def marker_of(unlabelled: Any) -> Any:
    """The marker of missing labels that the parameter ``unlabelled`` stands for."""
    return unlabelled.marker if isinstance(unlabelled, Propagation) else unlabelled


def summarize_targets(y: Any, unlabelled: Any, sample_weight: Any = None) -> TargetSummary:
    """Summary of the targets of one block.

    Parameters
    ----------
    y : ndarray or sparse matrix of shape (n_samples,) or (n_samples, n_labels)
    unlabelled : {"auto", -1, None} or Propagation
        Unless ``None``, -1 (for indicator matrices a row of -1) is a missing label.
    sample_weight : ndarray of shape (n_samples,), default=None
    """
    n_samples = y.shape[0]
    weight = np.ones(n_samples) if sample_weight is None else sample_weight
    missing = np.zeros(n_samples, dtype=bool)
    if unlabelled is not None and not scipy.sparse.issparse(y) and y.dtype.kind in "ifO":
        missing = _missing(y)
    common = {
        "n_samples": n_samples,
        "n_missing": int(missing.sum()),
        "missing_weight": float(weight[missing].sum()),
        "missing_square": float((weight[missing] ** 2).sum()),
        "equal_weights": bool(np.all(weight == 1)),
    }
    known = y[~missing]
    if y.ndim == 2:
        entries = known.data if scipy.sparse.issparse(known) else known
        if unlabelled is not None and np.any(entries == -1):
            raise ValueError(
                "`y` should hold -1 for all labels of an unlabelled sample, got rows with some. "
                "Fill a row with -1, or the missing entries with 0."
            )
        is_set = (known != 0).astype(np.float64)
        return TargetSummary(
            values=np.unique(entries),
            counts=np.asarray(is_set.sum(axis=0)).ravel(),
            weights=np.asarray(weight[~missing] @ is_set).ravel(),
            squares=np.asarray(weight[~missing] ** 2 @ is_set).ravel(),
            n_labels=y.shape[1],
            **common,
        )
    values, codes = np.unique(_comparable(known), return_inverse=True)
    return TargetSummary(
        values=values,
        counts=np.bincount(codes, minlength=len(values)),
        weights=np.bincount(codes, weights=weight[~missing], minlength=len(values)),
        squares=np.bincount(codes, weights=weight[~missing] ** 2, minlength=len(values)),
        n_labels=None,
        **common,
    )


def target_code(summary: TargetSummary, unlabelled: Any, class_weight: Any) -> TargetCode:
    """How targets with this summary are encoded, or an error that says what is wrong with them.

    Parameters
    ----------
    summary : TargetSummary
    unlabelled : {"auto", -1, None} or Propagation
        With ``"auto"``, class labels -1 and 1 alone are two classes.
    class_weight : None, "balanced" or dict
    """
    summary = _with_signs(summary, unlabelled)
    if summary.n_missing == summary.n_samples:
        raise ValueError(
            f"`y` should have a label for some samples, got {summary.n_samples} times -1, which "
            "marks samples without label. Label some of them, or use AutoRULe for data without "
            "labels."
        )
    if summary.n_labels is not None:
        return _label_code(summary, class_weight)
    _check_classes(summary, unlabelled)
    return _class_code(summary, class_weight)


def _with_signs(summary: TargetSummary, unlabelled: Any) -> TargetSummary:
    """-1 as a class if the only other one is 1, unless -1 is said to mark missing labels."""
    if summary.n_labels is not None or not summary.n_missing or marker_of(unlabelled) != "auto":
        return summary
    if len(summary.values) != 1 or _number(summary.values[0]) != 1.0:
        return summary
    return replace(
        summary,
        values=np.array([-1, 1], dtype=summary.values.dtype),
        counts=np.array([summary.n_missing, summary.counts[0]]),
        weights=np.array([summary.missing_weight, summary.weights[0]]),
        squares=np.array([summary.missing_square, summary.squares[0]]),
        n_missing=0,
        missing_weight=0.0,
        missing_square=0.0,
    )


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _check_classes(summary: TargetSummary, unlabelled: Any) -> None:
    classes = summary.values
    if classes.dtype.kind == "f" and np.isnan(classes).any():
        raise ValueError("Input y contains NaN. Drop the samples without a label.")
    # scikit-learn warns if most samples have a class of their own: let it see whether they do. To
    # whole numbers that occur often it has no objection, which takes it as long as a small solve.
    share = 1 if 2 * len(classes) > summary.counts.sum() else 2
    if share == 1 or classes.dtype.kind not in "biu":
        check_classification_targets(np.repeat(classes, share))
    if len(classes) < 2:
        remedy = "Add samples of another class, or use AutoRULe for data without labels."
        if summary.n_missing:
            marker = "marker" if isinstance(unlabelled, Propagation) else "unlabelled"
            remedy = f"If -1 is a class and no missing label, change `{marker}`."
        raise ValueError(
            f"`y` should contain at least 2 classes, got 1 class ({classes.tolist()[0]!r}). "
            f"{remedy}"
        )


def _class_code(summary: TargetSummary, class_weight: Any) -> TargetCode:
    classes = summary.values
    n_known = int(summary.counts.sum())
    factors = None
    if class_weight == "balanced":
        factors = n_known / (len(classes) * summary.counts)
    elif class_weight is not None:
        factors = compute_class_weight(class_weight, classes=classes, y=classes)
    totals = summary.weights if factors is None else summary.weights * factors
    squares = summary.squares if factors is None else summary.squares * factors**2
    _check_totals(totals, classes)
    spread = summary.n_samples / n_known
    return TargetCode(
        classes=classes,
        multilabel=False,
        partial=summary.n_missing > 0,
        class_factors=factors,
        spread=spread,
        unit=spread * float(squares.sum() / totals.sum()),
        weighted=_is_weighted(summary, factors),
    )


def _label_code(summary: TargetSummary, class_weight: Any) -> TargetCode:
    assert summary.n_labels is not None
    if not np.isin(summary.values, [0, 1]).all():
        raise ValueError(
            "`y` should hold one class per sample or be a 0/1 indicator matrix, got a matrix of "
            f"values from {summary.values[0]} to {summary.values[-1]}. Fit one estimator per "
            "column or binarise the labels."
        )
    n_known = summary.n_samples - summary.n_missing
    scale = None
    if class_weight is not None:
        scale = np.sqrt(_label_weights(class_weight, summary.counts, n_known))
    if not summary.equal_weights and not summary.weights.any():
        _check_totals(np.zeros(1), None)
    return TargetCode(
        classes=np.arange(summary.n_labels),
        multilabel=True,
        partial=summary.n_missing > 0,
        output_scale=scale,
        spread=summary.n_samples / n_known,
        weighted=_is_weighted(summary, None),
    )


def _is_weighted(summary: TargetSummary, factors: Any) -> bool:
    """Whether the weights of the samples differ from one, after those of their classes."""
    if summary.n_missing or not summary.equal_weights:
        return True
    return factors is not None and not np.all(factors == 1)


def _label_weights(class_weight: Any, positives: Any, n_samples: int) -> Any:
    """Weight of every label of an indicator matrix."""
    n_labels = len(positives)
    if isinstance(class_weight, str):
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


def _check_totals(totals: Any, classes: Any) -> None:
    if not totals.any():
        raise ValueError(
            "`sample_weight` should be positive for some labelled samples, got zero for all. "
            "Raise the weight of the samples to learn from."
        )
    if not totals.all():
        empty = [classes[k].item() for k in np.flatnonzero(totals == 0)]
        raise ValueError(
            f"`sample_weight` and `class_weight` should leave every class a positive weight, got "
            f"zero for {empty}. Leave these samples out, or raise their weight."
        )


def marked(known: np.ndarray, n_samples: int, multilabel: bool) -> np.ndarray:
    """Targets in plain numbers from indicators of the first samples; -1 for the others."""
    targets = known if multilabel else known.argmax(axis=1)
    marks = np.full((n_samples, *targets.shape[1:]), -1)
    marks[: len(known)] = targets
    return marks


@dataclass(frozen=True, eq=False)
class RealSummary:
    """What must be known of all real targets before one is encoded. Summaries of blocks add up."""

    n_samples: int
    n_missing: int
    weight: float
    square: float
    """Total squared sample weight."""
    sums: Any
    """Weighted sum of each target, (n_targets,)."""
    squares: Any
    """Weighted sum of each target's squares, (n_targets,)."""
    equal_weights: bool

    def __add__(self, other: "RealSummary") -> "RealSummary":
        sums = {
            name: getattr(self, name) + getattr(other, name)
            for name in ("n_samples", "n_missing", "weight", "square", "sums", "squares")
        }
        return RealSummary(**sums, equal_weights=self.equal_weights and other.equal_weights)


@dataclass(frozen=True, eq=False)
class RealCode(TargetCode):
    """How real targets become numbers: centred, with unit variance."""

    center: Any = None
    """Weighted mean of each target, (n_targets,)."""
    total_weight: float = 0.0
    """Of all samples with targets, as ``encode`` weighs them."""
    effective_samples: float = 0.0
    """Their effective number (Kish 1965)."""

    def encode(self, y: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
        """Standardised targets, weights and which samples have targets, for some of them."""
        y = _columns(y)
        labelled = ~np.isnan(y).any(axis=1)
        Y = np.where(labelled[:, None], (y - self.center) * self.output_scale, 0.0)
        if not self.weighted:
            return Y, None, labelled
        weight = np.ones(len(y)) if sample_weight is None else sample_weight.astype(np.float64)
        return Y, np.where(labelled, weight, 0.0) * self.spread, labelled


def _columns(y: Any) -> Any:
    """Real targets as a matrix of double precision."""
    return y.astype(np.float64).reshape(len(y), -1)


def summarize_real_targets(y: Any, sample_weight: Any = None) -> RealSummary:
    """Summary of the real targets of one block; a row of NaN is a sample without targets."""
    y = _columns(y)
    missing = np.isnan(y)
    if np.isinf(y).any() or (missing.any(axis=1) & ~missing.all(axis=1)).any():
        raise ValueError(
            "`y` should hold finite numbers, or NaN for all targets of a sample without them, got "
            "infinity or rows with some NaN. Drop these samples, or fill them."
        )
    known = ~missing.any(axis=1)
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    w = weight[known]
    return RealSummary(
        n_samples=len(y),
        n_missing=int((~known).sum()),
        weight=float(w.sum()),
        square=float((w**2).sum()),
        sums=w @ y[known],
        squares=w @ y[known] ** 2,
        equal_weights=bool(np.all(weight == 1)),
    )


def real_code(summary: RealSummary) -> RealCode:
    """How real targets with this summary are encoded."""
    n_known = summary.n_samples - summary.n_missing
    if n_known < 2 or summary.weight <= 0:
        raise ValueError(
            f"`y` should have targets for at least 2 samples of positive weight, got {n_known}. "
            "Add samples with targets, or raise `sample_weight`."
        )
    center = summary.sums / summary.weight
    variance = np.maximum(summary.squares / summary.weight - center**2, 0.0)
    # What does not vary beyond rounding is predicted by its mean.
    varies = variance > 1e-14 * summary.squares / summary.weight
    spread = summary.n_samples / n_known
    return RealCode(
        classes=np.arange(len(center)),
        multilabel=True,
        partial=summary.n_missing > 0,
        output_scale=np.where(varies, 1 / np.sqrt(np.where(varies, variance, 1.0)), 1.0),
        spread=spread,
        weighted=summary.n_missing > 0 or not summary.equal_weights,
        center=center,
        total_weight=spread * summary.weight,
        effective_samples=summary.weight**2 / summary.square,
    )


def encode_real_targets(y: Any, *, sample_weight: Any = None) -> Targets:
    """Real targets of samples in memory.

    Parameters
    ----------
    y : array of shape (n_samples,) or (n_samples, n_targets)
        NaN marks samples without targets.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    Targets
    """
    y = to_numpy(y) if is_array_api_obj(y) else np.asarray(y)
    weight = check_sample_weight(sample_weight, y)
    code = real_code(summarize_real_targets(y, weight))
    return Targets(code, *code.encode(y, weight))


def check_sample_weight(sample_weight: Any, y: Any) -> Any:
    """Weights as float64 on the host, one per sample and none negative; ``None`` stays."""
    if sample_weight is None:
        return None
    if is_array_api_obj(sample_weight):
        sample_weight = to_numpy(sample_weight)
    return _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)


def encode_targets(
    y: Any,
    unlabelled: Any = None,
    *,
    sample_weight: Any = None,
    class_weight: Any = None,
) -> Targets:
    """Targets of samples in memory.

    Parameters
    ----------
    y : array or sparse matrix of shape (n_samples,) or (n_samples, n_labels)
    unlabelled : {"auto", -1, None} or Propagation, default=None
    sample_weight : array-like of shape (n_samples,), default=None
    class_weight : None, "balanced" or dict, default=None

    Returns
    -------
    Targets

    Examples
    --------
    >>> import numpy as np
    >>> targets = encode_targets(np.array(["b", "a", "b"]))
    >>> targets.code.classes
    array(['a', 'b'], dtype='<U1')
    >>> targets.Y
    array([[0., 1.],
           [1., 0.],
           [0., 1.]])
    """
    host_y = host_targets(y)
    weight = check_sample_weight(sample_weight, host_y)
    summary = summarize_targets(host_y, unlabelled, weight)
    if not scipy.sparse.issparse(host_y) and host_y.ndim == 2:
        _check_kind(host_y, unlabelled)
    code = target_code(summary, unlabelled, class_weight)
    return Targets(code, *code.encode(host_y, weight))


def _check_kind(y: Any, unlabelled: Any) -> None:
    """Refuse matrices that are no indicators, in scikit-learn's words if it has some."""
    known = y if unlabelled is None or y.dtype.kind not in "ifO" else y[~_missing(y)]
    if len(known) and type_of_target(known, input_name="y") != "multilabel-indicator":
        check_classification_targets(known)
        raise ValueError(
            "`y` should hold one class per sample or be a 0/1 indicator matrix, got a matrix of "
            "several class labels. Fit one estimator per column or binarise the labels."
        )


def classes_like(classes: Any, y: Any) -> Any:
    """Classes in the array library of ``y``; of NumPy if ``y`` is in blocks."""
    if scipy.sparse.issparse(y) or not is_array_api_obj(y) or is_numpy(y) or is_in_blocks(y):
        return classes
    return like(classes, y, dtype=y.dtype if y.ndim == 1 else None)


def soft_targets(graphs: Sequence[Any], targets: Targets, share: float) -> Targets:
    """Targets and weights with soft labels for samples that have none.

    Parameters
    ----------
    graphs : list of sparse arrays of shape (n_samples, n_samples)
        Of which the one that tells held-out labels best is used; the last for multi-label
        targets.
    targets : Targets
    share : float
        Weight of a certain soft label relative to a true one.

    Returns
    -------
    Targets
        Whose weights have the same sum.
    """
    labelled = targets.labelled
    if targets.code.multilabel:
        Y, certainty = _soft_indicators(graphs[-1], targets)
    else:
        graph = best_graph_for_labels(graphs, targets.Y, labelled)
        Y = propagate_labels(graph, targets.Y, labelled)
        certainty = confidence(Y)
    typical = targets.weight[labelled].mean()
    weight = np.where(labelled, targets.weight, share * typical * certainty)
    weight *= targets.weight.sum() / weight.sum()
    guesses = None
    if not targets.code.multilabel:
        guesses = np.eye(Y.shape[1])[Y.argmax(axis=1)] * (Y.sum(axis=1) > 0)[:, None]
    return replace(targets, Y=Y, weight=weight, guesses=guesses)


def _soft_indicators(graph: Any, targets: Targets) -> tuple[Any, Any]:
    """Every label against its absence, spread one by one."""
    scale = 1.0 if targets.code.output_scale is None else targets.code.output_scale
    scaled = targets.Y / scale
    Y, certainty = np.zeros_like(scaled), np.zeros(len(scaled))
    for label in range(scaled.shape[1]):
        both = np.stack([1 - scaled[:, label], scaled[:, label]], axis=1)
        soft = propagate_labels(graph, both, targets.labelled, balanced=False, sharpness=1.0)
        Y[:, label] = soft[:, 1]
        certainty += confidence(soft)
    Y[targets.labelled] = scaled[targets.labelled]
    return Y * scale, certainty / scaled.shape[1]
