"""Which samples are labelled, and how much each label counts."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from array_api_compat import is_array_api_obj
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_sample_weight

from jplay._array_api import is_numpy, like, to_numpy
from jplay.estimators._validation import encode_host_targets
from jplay.numerics.propagation import best_graph_for_labels, confidence, propagate_labels


@dataclass(frozen=True)
class Targets:
    """Encoded targets of a fit, some of which may be missing; NumPy arrays."""

    Y: Any
    """Indicator matrix (n_samples, n_outputs), each column times ``output_scale``; rows of
    samples without label are zero."""
    classes: Any
    multilabel: bool
    labelled: Any
    """(n_samples,) of bool: whether the label of the sample is known."""
    weight: Any
    """Weight (n_samples,) of each sample in the prediction loss; ``None`` where all weigh one."""
    output_scale: Any = None
    """(n_outputs,) square roots of the outputs' weights; ``None`` for ones."""
    log_prior: Any = None
    """What the rule by class means adds to each class's score; ``None`` for nothing."""
    class_sizes: Any = None
    """Total weight of each class where labels are soft."""

    def weight_like(self, X):
        """Weights as an array like ``X``, or ``None``."""
        return None if self.weight is None else like(self.weight, X)

    def sizes_like(self, Y):
        """Class sizes as an array like ``Y``, or ``None``."""
        return None if self.class_sizes is None else like(self.class_sizes, Y)


def labelled_samples(y, unlabelled):
    """Whether each sample has a label, by scikit-learn's convention for missing ones.

    Parameters
    ----------
    y : ndarray or sparse matrix of shape (n_samples,) or (n_samples, n_labels)
    unlabelled : {"auto", -1, None}
        ``"auto"`` takes -1 for a missing label, unless -1 and 1 are the only values of a
        one-dimensional ``y``: these are two classes. -1 does so without exception; with
        ``None`` every value is a class.

    Returns
    -------
    ndarray of bool of shape (n_samples,)
    """
    everything = np.ones(y.shape[0], dtype=bool)
    if unlabelled is None or scipy.sparse.issparse(y) or y.dtype.kind not in "ifO":
        return everything
    missing = y == -1
    if y.ndim == 2 and y.shape[1] > 1:
        labelled = ~missing.all(axis=1)
        if missing[labelled].any():
            raise ValueError(
                "`y` should hold -1 for all labels of an unlabelled sample, got rows with some. "
                "Fill a row with -1, or the missing entries with 0."
            )
    else:
        missing = missing.reshape(-1)
        if unlabelled == "auto" and _is_binary_of_signs(y, missing):
            return everything
        labelled = ~missing
    if not labelled.any():
        raise ValueError(
            f"`y` should have a label for some samples, got {len(y)} times -1, which marks "
            "samples without label. Label some of them, or use AutoRULe for data without labels."
        )
    return labelled


def _is_binary_of_signs(y, missing):
    others = np.unique(y.reshape(-1)[~missing].astype(str))
    return len(others) == 1 and float_or_none(others[0]) == 1.0


def float_or_none(text):
    try:
        return float(text)
    except ValueError:
        return None


def encode_partial_targets(y, unlabelled, *, sample_weight=None, class_weight=None):
    """Targets of a fit from what the user passed.

    Parameters
    ----------
    y : array or sparse matrix of shape (n_samples,) or (n_samples, n_labels)
    unlabelled : {"auto", -1, None}
    sample_weight : array-like of shape (n_samples,) or None
    class_weight : None, "balanced" or dict

    Returns
    -------
    Targets
        Whose ``classes`` are of the library of ``y``.
    """
    host_y = y if scipy.sparse.issparse(y) or is_numpy(y) else to_numpy(y)
    labelled = labelled_samples(host_y, unlabelled)
    complete = bool(labelled.all())
    known = host_y if complete else host_y[labelled]
    if not complete and known.ndim == 1 and known.dtype.kind == "O":
        known = np.array(known.tolist())
    known_Y, classes, multilabel = encode_host_targets(known)
    targets = Targets(
        Y=_spread_rows(known_Y, labelled),
        classes=classes if host_y is y else like(classes, y),
        multilabel=multilabel,
        labelled=labelled,
        weight=None,
    )
    if complete and sample_weight is None and class_weight is None:
        return targets
    weight = np.ones(len(labelled))
    if sample_weight is not None:
        weight = _check_sample_weight(
            to_numpy(sample_weight) if is_array_api_obj(sample_weight) else sample_weight,
            host_y,
            dtype=np.float64,
            ensure_non_negative=True,
        ).copy()
    weight[~labelled] = 0
    if class_weight is not None and multilabel:
        scale = np.sqrt(_label_weights(class_weight, known_Y))
        targets = replace(targets, Y=targets.Y * scale, output_scale=scale)
    elif class_weight is not None:
        weight[labelled] *= compute_sample_weight(class_weight, known)
        targets = replace(targets, log_prior=_log_prior(class_weight, classes))
    if complete and np.all(weight == 1):
        return targets
    _check_each_class_weighs(targets.Y, weight, classes, multilabel)
    if not complete:
        # The sum over the labelled samples stands for the sum over all: alpha keeps its
        # meaning whatever share of the samples is labelled.
        weight *= len(labelled) / np.count_nonzero(labelled)
    return replace(targets, weight=weight)


def _spread_rows(rows, where):
    """Rows put where the mask is true, zeros elsewhere."""
    if where.all():
        return rows
    spread = np.zeros((len(where), rows.shape[1]), dtype=rows.dtype)
    spread[where] = rows
    return spread


def _log_prior(class_weight, classes):
    """Logarithm of given class weights; balanced ones are what the rule assumes anyway."""
    if not isinstance(class_weight, dict):
        return None
    weights = [float(class_weight.get(label, 1.0)) for label in classes.tolist()]
    return np.log(np.maximum(weights, np.finfo(float).tiny))


def soft_targets(graphs, targets, share):
    """Targets and weights with soft labels where labels are missing.

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
    if targets.multilabel:
        Y, certainty = _soft_indicators(graphs[-1], targets)
    else:
        graph = best_graph_for_labels(graphs, targets.Y, labelled)
        Y = propagate_labels(graph, targets.Y, labelled)
        certainty = confidence(Y)
    typical = targets.weight[labelled].mean()
    weight = np.where(labelled, targets.weight, share * typical * certainty)
    weight *= targets.weight.sum() / weight.sum()
    sizes = None if targets.multilabel else weight @ Y
    return replace(targets, Y=Y, weight=weight, class_sizes=sizes)


def _soft_indicators(graph, targets):
    """Every label against its absence, spread one by one."""
    scale = 1.0 if targets.output_scale is None else targets.output_scale
    scaled = targets.Y / scale
    Y, certainty = np.zeros_like(scaled), np.zeros(len(scaled))
    for label in range(scaled.shape[1]):
        both = np.stack([1 - scaled[:, label], scaled[:, label]], axis=1)
        soft = propagate_labels(graph, both, targets.labelled, balanced=False, sharpness=1.0)
        Y[:, label] = soft[:, 1]
        certainty += confidence(soft)
    Y[targets.labelled] = scaled[targets.labelled]
    return Y * scale, certainty / scaled.shape[1]


def _label_weights(class_weight, Y):
    """Weight of every label of a multi-label target."""
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


def _check_each_class_weighs(Y, weight, classes, multilabel):
    if not weight.any():
        raise ValueError(
            "`sample_weight` should be positive for some labelled samples, got zero for all. "
            "Raise the weight of the samples to learn from."
        )
    totals = weight @ (Y != 0)
    if not multilabel and not totals.all():
        empty = [classes[k].item() for k in np.flatnonzero(totals == 0)]
        raise ValueError(
            f"`sample_weight` and `class_weight` should leave every class a positive weight, got "
            f"zero for {empty}. Leave these samples out, or raise their weight."
        )


def is_multilabel(y):
    """Whether ``y``, perhaps with rows of -1, is an indicator matrix."""
    if scipy.sparse.issparse(y):
        return True
    y = np.asarray(y)
    return (
        y.ndim == 2
        and y.shape[1] > 1
        and type_of_target(np.where(y == -1, 0, y)) == "multilabel-indicator"
    )
