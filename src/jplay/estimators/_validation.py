"""Checks that the estimators share; every message names the parameter and the remedy."""

import warnings
from importlib import import_module
from numbers import Integral

import numpy as np
import scipy.sparse
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.multiclass import check_classification_targets, type_of_target, unique_labels
from sklearn.utils.validation import check_array, column_or_1d

from jplay._array_api import is_numpy, like, namespace, to_numpy
from jplay.exceptions import MissingDependencyError
from jplay.numerics.graph import EXACT_UP_TO, NeighborGraph, heat_affinity, neighbor_graph


def check_scale(X, smallest, largest):
    """Raise a ``ValueError`` where the samples' magnitude is beyond what a solver can handle."""
    xp = namespace(X)
    magnitude = float(xp.max(xp.abs(X)))
    if magnitude > 0 and not smallest <= magnitude <= largest:
        raise ValueError(
            f"`X` should hold values of magnitude between {smallest:g} and {largest:g}, got a "
            f"largest magnitude of {magnitude:g}. Scale the samples, for example with "
            "sklearn.preprocessing.Normalizer(norm='max')."
        )


def check_rank(rank):
    """Raise a ``ValueError`` where the samples are all equal."""
    if rank == 0:
        raise ValueError(
            "`X` should hold samples that differ, got a constant `X`. Check that its rows are "
            "samples and that preprocessing left their differences."
        )


def build_affinity(X, affinity, n_neighbors, bandwidth):
    """Graph over the rows of ``X`` from the estimator's parameters.

    Returns
    -------
    affinity : csr_array of shape (n_samples, n_samples), or NeighborGraph
        The latter for samples that are not in NumPy arrays.
    bandwidth : float or None
        Width of the heat kernel; ``None`` for a graph that was given.
    """
    n_samples = X.shape[0]
    if not is_numpy(X):
        return _device_affinity(X, affinity, n_neighbors, bandwidth)
    if isinstance(affinity, str):
        if n_samples < 2:
            raise ValueError(
                f"A graph needs at least 2 samples, got n_samples={n_samples}. Fit on more samples."
            )
        build = heat_affinity if n_samples <= EXACT_UP_TO else _large_heat_affinity
        graph, width = build(X, check_n_neighbors(n_neighbors, n_samples), bandwidth)
        raise_if_no_edges(graph.max(), bandwidth)
        return graph, width
    if callable(affinity):
        affinity = affinity(X)
    return check_affinity(affinity, n_samples), None


def raise_if_no_edges(largest_weight, bandwidth):
    """Refuse a graph all of whose weights are zero."""
    if largest_weight == 0:
        raise ValueError(
            f"`bandwidth` should be near the distances between neighbours, got {bandwidth:g}, "
            "for which all weights of the graph vanish. Choose a larger one, or 'median'."
        )


def _large_heat_affinity(X, n_neighbors, bandwidth):
    """Approximate graph of many samples, or the exact one where no package can search."""
    scale = import_module("jplay.scale.graph")  # a layer above this one
    try:
        return scale.approximate_heat_affinity(X, n_neighbors, bandwidth)
    except MissingDependencyError as error:
        warnings.warn(
            f"The exact search for the neighbours of {X.shape[0]} samples takes long. {error}",
            UserWarning,
            stacklevel=4,
        )
        return heat_affinity(X, n_neighbors, bandwidth)


def _device_affinity(X, affinity, n_neighbors, bandwidth):
    if isinstance(affinity, str):
        return neighbor_graph(X, check_n_neighbors(n_neighbors, X.shape[0]), bandwidth)
    if callable(affinity):
        affinity = affinity(X)
    if not isinstance(affinity, NeighborGraph) or affinity.shape[0] != X.shape[0]:
        raise ValueError(
            "`affinity` should be 'heat' or a jplay.numerics.graph.NeighborGraph over the "
            f"{X.shape[0]} samples where `X` is not a NumPy array, got {affinity!r}. Build it with "
            "neighbor_graph, or pass `X` as a NumPy array."
        )
    return affinity, None


def check_n_neighbors(n_neighbors, n_samples):
    """``n_neighbors``, or with a warning all other samples where there are fewer."""
    if n_neighbors < n_samples:
        return n_neighbors
    warnings.warn(
        f"`n_neighbors` should be less than {n_samples} (the number of samples), got "
        f"{n_neighbors}. All {n_samples - 1} other samples are used; set a smaller `n_neighbors`.",
        UserWarning,
        stacklevel=4,
    )
    return n_samples - 1


def check_affinity(affinity, n_samples):
    """A symmetric non-negative graph as ``csr_array``, or an error that says what is wrong."""
    affinity = check_array(
        affinity,
        accept_sparse="csr",
        dtype=np.float64,
        input_name="affinity",
        ensure_min_samples=1,
    )
    if affinity.shape != (n_samples, n_samples):
        raise ValueError(
            f"`affinity` should have shape ({n_samples}, {n_samples}), one row and column per "
            f"sample, got {affinity.shape}. Build it from the samples that are passed to fit."
        )
    affinity = scipy.sparse.csr_array(affinity)
    if affinity.nnz and affinity.data.min() < 0:
        raise ValueError(
            f"`affinity` should be non-negative, got a smallest weight of "
            f"{affinity.data.min():g}. Pass similarities, not distances or kernels with sign."
        )
    if affinity.nnz == 0 or affinity.max() == 0:
        raise ValueError(
            "`affinity` should have an edge, got a graph whose weights are all zero. Connect "
            "similar samples with positive weights."
        )
    asymmetry = abs(affinity - affinity.T)
    if asymmetry.nnz and asymmetry.max() > 1e-10 * affinity.max():
        raise ValueError(
            f"`affinity` should be symmetric, got a largest difference of {asymmetry.max():g} "
            "from its transpose. Use for example (W + W.T) / 2."
        )
    return affinity


def encode_targets(y, X):
    """Indicator matrix of class labels or of a multi-label target, beside the samples ``X``.

    Returns
    -------
    Y : array of shape (n_samples, n_outputs)
        With at least two columns for class labels: one per class. Same library, device and
        dtype as ``X``.
    classes : array of shape (n_outputs,)
        Same library as ``y``.
    multilabel : bool
    """
    if scipy.sparse.issparse(y) or is_numpy(y):
        Y, classes, multilabel = encode_host_targets(y)
        return like(Y, X), classes, multilabel
    Y, classes, multilabel = encode_host_targets(to_numpy(y))
    return like(Y, X), like(classes, y), multilabel


def encode_host_targets(y):
    """:func:`encode_targets` for NumPy arrays and sparse matrices, as float64."""
    if not scipy.sparse.issparse(y) and y.ndim == 2 and y.shape[1] == 1:
        y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y")
    if kind == "multiclass-multioutput":
        raise ValueError(
            "`y` should hold one class per sample or be a 0/1 indicator matrix, got a matrix of "
            "several class labels. Fit one estimator per column or binarise the labels."
        )
    if kind == "multilabel-indicator":
        Y = y.toarray() if scipy.sparse.issparse(y) else np.asarray(y)
        return Y.astype(np.float64), np.arange(Y.shape[1]), True
    classes = unique_labels(y)
    if len(classes) < 2:
        raise ValueError(
            f"`y` should contain at least 2 classes, got 1 class ({classes.tolist()[0]!r}). "
            "Add samples of another class, or use AutoRULe for data without labels."
        )
    Y = LabelBinarizer().fit_transform(y).astype(np.float64)
    if len(classes) == 2:
        Y = np.concatenate([1 - Y, Y], axis=1)
    return Y, classes, False


def resolve_layer_sizes(layer_sizes, n_layers, n_components, rank):
    """Output size of every layer from the estimator's parameters.

    Parameters
    ----------
    layer_sizes : None, "paper" or sequence of int
    n_layers : int
    n_components : int or None
    rank : int
        Dimension that the samples support.
    """
    check_rank(rank)
    if layer_sizes is not None and not isinstance(layer_sizes, str):
        return _explicit_layer_sizes(layer_sizes, n_components, rank)
    if n_components is None:
        n_components = min(20, rank)
    elif n_components > rank:
        raise ValueError(
            f"`n_components` should be at most {rank} (the dimension that the samples span "
            f"around their mean), got {n_components}. Choose a smaller number, or None."
        )
    sizes = np.linspace(rank, n_components, n_layers + 1)[1:]
    if layer_sizes == "paper":
        # 220 -> 20 in three layers reads 150, 85, 20 there: multiples of five.
        rounded = [max(int(size // 5 * 5), n_components) for size in sizes[:-1]]
        return [*rounded, n_components]
    return [int(size) for size in np.rint(sizes)]


def _explicit_layer_sizes(layer_sizes, n_components, rank):
    sizes = list(layer_sizes)
    if not sizes or not all(
        isinstance(size, Integral) and not isinstance(size, bool) and size > 0 for size in sizes
    ):
        raise ValueError(
            f"`layer_sizes` should be a non-empty sequence of positive integers, got {sizes}."
        )
    if max(sizes) > rank:
        raise ValueError(
            f"`layer_sizes` should be at most {rank} (the dimension that the samples span "
            f"around their mean), got {sizes}. Choose smaller layers."
        )
    if n_components is not None and n_components != sizes[-1]:
        raise ValueError(
            f"`n_components` should equal the last of `layer_sizes` ({sizes[-1]}), got "
            f"{n_components}. Set only one of the two."
        )
    return [int(size) for size in sizes]
