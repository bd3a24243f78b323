"""Neighbour graphs of many samples: exact in blocks, approximate beyond, and how good they are."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import scipy.sparse

from jplay._optional import import_optional
from jplay.exceptions import MissingDependencyError
from jplay.numerics.graph import (
    EXACT_UP_TO,
    median_bandwidth,
    nearest_neighbors,
    symmetric_affinity,
)
from jplay.numerics.rows import row_blocks

Method = Literal["auto", "exact", "approximate"]
METHODS = get_args(Method)

_SEARCHED_ROWS = 16_384  # whose neighbours are sought at a time


def neighbors(X: Any, n_neighbors: int, method: Method = "auto") -> tuple[Any, Any]:
    """Nearest neighbours of every sample among the others.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), or FormedRows
        The exact search needs all rows at once, and forms them for as long as it takes.
    n_neighbors : int
    method : {"auto", "exact", "approximate"}, default="auto"
        ``"auto"`` is exact up to 50,000 samples.

    Returns
    -------
    indices : ndarray of shape (n_samples, n_neighbors)
    squared_distances : ndarray of shape (n_samples, n_neighbors), float64
    """
    if method not in METHODS:
        raise ValueError(f"`method` should be one of {METHODS}, got {method!r}.")
    if method == "exact" or (method == "auto" and X.shape[0] <= EXACT_UP_TO):
        return nearest_neighbors(np.asarray(X), n_neighbors)
    return approximate_neighbors(X, n_neighbors)


def approximate_neighbors(
    X: Any, n_neighbors: int, *, n_lists: int | None = None, n_probes: int | None = None
) -> tuple[Any, Any]:
    """Nearest neighbours by an inverted file: only the cells nearest to a sample are searched.

    Candidates are found in single precision; their distances are recomputed in double.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), or FormedRows
    n_neighbors : int
    n_lists : int, default=None
        Number of cells; ``None`` means the square root of ``n_samples``.
    n_probes : int, default=None
        Cells searched per sample; ``None`` means a sixteenth of all, at least 16.

    Returns
    -------
    indices, squared_distances : ndarrays of shape (n_samples, n_neighbors)
        As :func:`jplay.numerics.graph.nearest_neighbors` returns them.
    """
    faiss = import_optional("faiss", feature="An approximate neighbour graph", extra="ann")
    n_samples, n_features = X.shape
    n_lists = n_lists or max(1, int(np.sqrt(n_samples)))
    quantizer = faiss.IndexFlatL2(n_features)
    index = faiss.IndexIVFFlat(quantizer, n_features, n_lists, faiss.METRIC_L2)
    index.train(_in_single(X[:: max(1, n_samples // (64 * n_lists))]))
    for _, block in row_blocks(X, _SEARCHED_ROWS):
        index.add(_in_single(block))
    index.nprobe = min(n_lists, n_probes or max(16, n_lists // 16))
    indices = np.empty((n_samples, n_neighbors), dtype=np.intp)
    squared_distances = np.empty((n_samples, n_neighbors))
    for rows, block in row_blocks(X, _SEARCHED_ROWS):
        _, found = index.search(_in_single(block), min(n_neighbors + 3, n_samples))
        # An unfilled place counts as the sample itself, and the sample itself comes last.
        own = np.arange(rows.start, rows.stop)[:, None]
        found = np.where(found < 0, own, found)
        exact = np.empty(found.shape)
        for column in range(found.shape[1]):
            differences = X[found[:, column]].astype(np.float64) - block
            exact[:, column] = np.einsum("ij,ij->i", differences, differences)
        exact[found == own] = np.inf
        order = np.argsort(exact, axis=1, kind="stable")[:, :n_neighbors]
        indices[rows] = np.take_along_axis(found, order, axis=1)
        squared_distances[rows] = np.take_along_axis(exact, order, axis=1)
    return indices, squared_distances


def _in_single(X: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(X, dtype=np.float32)


@dataclass(frozen=True)
class HeatGraph:
    """Symmetric nearest-neighbour graph with heat-kernel weights, for the parameter ``graph``.

    On a Dask array or other samples in blocks, every block gets a graph of its own, joined to
    those of its neighbours where ``overlap`` asks for it.

    Parameters
    ----------
    n_neighbors : int, default=10
    bandwidth : float or "median", default="median"
        Width ``t`` of ``exp(-|x_i - x_j|^2 / (2 t^2))``; ``"median"`` takes the median
        distance to the last neighbour, over all blocks.
    method : {"auto", "exact", "approximate"}, default="auto"
        ``"auto"`` searches exactly up to 50,000 samples (of a block), on a GPU up to two
        million. NumPy arrays and blocks need the extra ``ann`` for an approximate search,
        arrays of other libraries need nothing and are searched where they are.
    overlap : int, default=0
        Rows of the block before and of the one after among which neighbours are sought as
        well. Worth it where the order of rows means something, as in an image. An edge
        between two blocks gets the mean of the weights that each of them gives it.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((100, 5))
    >>> HeatGraph(n_neighbors=3)(X).shape
    (100, 100)
    """

    n_neighbors: int = 10
    bandwidth: float | Literal["median"] = "median"
    method: Method = "auto"
    overlap: int = 0

    def __post_init__(self) -> None:
        check_whole("n_neighbors", self.n_neighbors, 1)
        check_whole("overlap", self.overlap, 0)
        if self.method not in METHODS:
            raise ValueError(f"`method` should be one of {METHODS}, got {self.method!r}.")
        if self.bandwidth != "median":
            check_positive("bandwidth", self.bandwidth, "'median' or above 0")
            if not 1e-150 <= float(self.bandwidth) <= 1e150:  # its square is computed with
                raise ValueError(
                    f"`bandwidth` should be between 1e-150 and 1e150, got {self.bandwidth!r}. "
                    "Choose a width near the distances between neighbours, or 'median'."
                )

    def __call__(self, X: Any) -> Any:
        return heat_graph(X, self.n_neighbors, self.bandwidth, self.method)[0]


def check_whole(name: str, value: Any, smallest: int) -> None:
    """Raise a ``ValueError`` unless ``value`` is a whole number of at least ``smallest``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < smallest:
        raise ValueError(
            f"`{name}` should be a whole number of at least {smallest}, got {value!r}."
        )


def check_positive(name: str, value: Any, expected: str = "above 0") -> None:
    """Raise a ``ValueError`` unless ``value`` is a finite number above zero."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < np.inf:
        raise ValueError(f"`{name}` should be {expected}, got {value!r}.")


def heat_graph(
    X: Any,
    n_neighbors: int,
    bandwidth: float | Literal["median"] = "median",
    method: Method = "auto",
) -> tuple[Any, float]:
    """The graph of :class:`HeatGraph` over samples in memory, and the width of its kernel.

    With ``"auto"`` and many samples it is approximate, or exact with a warning if the package
    that searches approximately is missing.
    """
    try:
        indices, squared_distances = neighbors(X, n_neighbors, method)
    except MissingDependencyError as error:
        if method != "auto":
            raise
        warnings.warn(
            f"The exact search for the neighbours of {X.shape[0]} samples takes long. {error}",
            UserWarning,
            stacklevel=5,
        )
        indices, squared_distances = neighbors(X, n_neighbors, "exact")
    width = float(median_bandwidth(squared_distances) if bandwidth == "median" else bandwidth)
    return symmetric_affinity(indices, np.exp(squared_distances / (-2 * width**2))), width


def partition_affinity(X: Any, block_sizes: Sequence[int], graph: HeatGraph) -> Any:
    """The graph that samples in blocks get, as one sparse matrix in memory.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    block_sizes : sequence of int
        Number of rows of each block, in order.
    graph : HeatGraph
        With a number for ``bandwidth``.

    Returns
    -------
    affinity : csr_array of shape (n_samples, n_samples)
    """
    if graph.bandwidth == "median":
        raise ValueError(
            "`graph` should have a number for `bandwidth`, got 'median'. Take `bandwidth_` of "
            "the estimator that was fitted on the blocks."
        )
    n_samples = X.shape[0]
    edges = np.cumsum([0, *block_sizes])
    parts = []
    for start, stop in pairwise(edges):
        first, last = max(0, start - graph.overlap), min(n_samples, stop + graph.overlap)
        rows = np.arange(first, last)
        own = scipy.sparse.diags_array(((rows >= start) & (rows < stop)) / 2)
        local = graph(X[first:last]).tocsr()
        local = (own @ local + local @ own).tocoo()
        parts.append((local.data, local.row + first, local.col + first))
    weights, rows, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
    # Equal places are added up: an edge between two blocks has a share in each.
    return scipy.sparse.csr_array((weights, (rows, columns)), shape=(n_samples, n_samples))


class GraphQuality(NamedTuple):
    """How a graph compares with the exact one."""

    recall: float
    """Share of the exact nearest neighbours that are edges of the graph."""
    gram_error: float
    """``|G - G_exact|_F / |G_exact|_F`` for ``G = X^T L X``, on the sampled rows' edges."""
    n_probes: int


def graph_quality(
    X: Any,
    affinity: Any,
    n_neighbors: int = 10,
    *,
    bandwidth: float,
    n_probes: int = 1000,
    random_state: Any = 0,
) -> GraphQuality:
    """Recall of a graph and the relative error that it causes in ``X^T L X``.

    Both are measured on the edges of randomly chosen samples, whose exact neighbours are
    searched among all others; the error is that of
    ``sum_i sum_j w_ij (x_i - x_j)(x_i - x_j)^T`` over those samples ``i`` and their
    ``n_neighbors`` heaviest edges.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    affinity : sparse array of shape (n_samples, n_samples)
    n_neighbors : int, default=10
    bandwidth : float
        Width of the heat kernel with which the graph was built.
    n_probes : int, default=1000
    random_state : int, default=0

    Returns
    -------
    GraphQuality
    """
    n_samples = X.shape[0]
    affinity = scipy.sparse.csr_array(affinity)
    rng = np.random.default_rng(random_state)
    probes = np.sort(rng.choice(n_samples, min(n_probes, n_samples), replace=False))
    squared_norms = np.einsum("ij,ij->i", X, X)
    found = shared = 0
    gram, exact_gram = np.zeros((2, X.shape[1], X.shape[1]))
    for i in probes:
        distances = squared_norms - 2 * (X @ X[i]) + squared_norms[i]
        distances[i] = np.inf
        exact = np.argpartition(distances, n_neighbors - 1)[:n_neighbors]
        edges = slice(affinity.indptr[i], affinity.indptr[i + 1])
        columns, weights = affinity.indices[edges], affinity.data[edges]
        shared += len(np.intersect1d(exact, columns))
        found += n_neighbors
        heaviest = np.argsort(-weights, kind="stable")[:n_neighbors]
        for total, others in ((gram, columns[heaviest]), (exact_gram, exact)):
            differences = X[others].astype(np.float64) - X[i]
            squares = np.einsum("ij,ij->i", differences, differences)
            total += (differences.T * np.exp(squares / (-2 * bandwidth**2))) @ differences
    error = np.linalg.norm(gram - exact_gram) / np.linalg.norm(exact_gram)
    return GraphQuality(shared / found, float(error), len(probes))
