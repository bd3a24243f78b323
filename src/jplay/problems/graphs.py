"""The graph over the samples, from whatever the parameter ``graph`` holds."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_array

from jplay._array_api import in_host_memory, is_numpy
from jplay.blocks.graph import HeatGraph, heat_graph
from jplay.numerics.graph import (
    EXACT_ON_DEVICE_UP_TO,
    EXACT_UP_TO,
    NeighborGraph,
    neighbor_graph,
)
from jplay.numerics.rows import FormedRows


def as_graph(graph: Any) -> Any:
    """The graph that the parameter stands for; ``None`` is the usual one."""
    return HeatGraph() if graph is None else graph


def build_affinity(X: Any, graph: Any) -> tuple[Any, float | None]:
    """Graph over the rows of ``X``.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), or FormedRows
        An array, if the graph is a function of it.
    graph : HeatGraph, callable or matrix

    Returns
    -------
    affinity : csr_array of shape (n_samples, n_samples), or NeighborGraph
        The latter for samples that are not in NumPy arrays.
    bandwidth : float or None
        Width of the heat kernel; ``None`` for a graph that was given.
    """
    if isinstance(graph, HeatGraph):
        return _heat_affinity(X, graph)
    if callable(graph):
        graph = graph(X)
    if is_numpy(X):
        return check_affinity(graph, X.shape[0]), None
    if not isinstance(graph, NeighborGraph) or graph.shape[0] != X.shape[0]:
        raise ValueError(
            "`graph` should be a HeatGraph or a jplay.numerics.graph.NeighborGraph over the "
            f"{X.shape[0]} samples if `X` is not a NumPy array, got {graph!r}. Build it with "
            "neighbor_graph, or pass `X` as a NumPy array."
        )
    return graph, None


def _heat_affinity(X: Any, graph: HeatGraph) -> tuple[Any, float]:
    n_samples = X.shape[0]
    if n_samples < 2:
        raise ValueError(
            f"A graph needs at least 2 samples, got n_samples={n_samples}. Fit on more samples."
        )
    if graph.overlap:
        raise ValueError(
            f"`overlap` should be 0 for samples in memory, got {graph.overlap}: they have one "
            "graph, not one per block. Leave it out."
        )
    n_neighbors = check_n_neighbors(graph.n_neighbors, n_samples)
    if is_numpy(X) or isinstance(X, FormedRows):
        affinity, width = heat_graph(X, n_neighbors, graph.bandwidth, graph.method)
        raise_if_no_edges(affinity.max(), graph.bandwidth)
        return affinity, width
    exact_up_to = EXACT_UP_TO if in_host_memory(X) else EXACT_ON_DEVICE_UP_TO
    approximate = graph.method == "approximate" or (
        graph.method == "auto" and n_samples > exact_up_to
    )
    return neighbor_graph(X, n_neighbors, graph.bandwidth, approximate=approximate)


def raise_if_no_edges(largest_weight: float, bandwidth: Any) -> None:
    """Refuse a graph all of whose weights are zero."""
    if largest_weight == 0:
        raise ValueError(
            f"`bandwidth` should be near the distances between neighbours, got {bandwidth:g}, "
            "for which all weights of the graph vanish. Choose a larger one, or 'median'."
        )


def check_n_neighbors(n_neighbors: int, n_samples: int) -> int:
    """``n_neighbors``, or with a warning all other samples if there are fewer."""
    if n_neighbors < n_samples:
        return n_neighbors
    warnings.warn(
        f"`n_neighbors` should be less than {n_samples} (the number of samples), got "
        f"{n_neighbors}. All {n_samples - 1} other samples are used; set a smaller `n_neighbors`.",
        UserWarning,
        stacklevel=4,
    )
    return n_samples - 1


def check_affinity(affinity: Any, n_samples: int) -> Any:
    """A symmetric non-negative graph as ``csr_array``, or an error that says what is wrong."""
    affinity = check_array(
        affinity, accept_sparse="csr", dtype=np.float64, input_name="graph", ensure_min_samples=1
    )
    if affinity.shape != (n_samples, n_samples):
        raise ValueError(
            f"`graph` should have shape ({n_samples}, {n_samples}), one row and column per "
            f"sample, got {affinity.shape}. Build it from the samples that are passed to fit."
        )
    affinity = scipy.sparse.csr_array(affinity)
    if affinity.nnz and affinity.data.min() < 0:
        raise ValueError(
            f"`graph` should be non-negative, got a smallest weight of "
            f"{affinity.data.min():g}. Pass similarities, not distances or kernels with sign."
        )
    if affinity.nnz == 0 or affinity.max() == 0:
        raise ValueError(
            "`graph` should have an edge, got a graph whose weights are all zero. Connect "
            "similar samples with positive weights."
        )
    asymmetry = abs(affinity - affinity.T)
    if asymmetry.nnz and asymmetry.max() > 1e-10 * affinity.max():
        raise ValueError(
            f"`graph` should be symmetric, got a largest difference of {asymmetry.max():g} "
            "from its transpose. Use for example (W + W.T) / 2."
        )
    return affinity
