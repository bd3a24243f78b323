r"""The neighbor graph over the samples, and what the manifold term (Eq. 9) needs of it.

:func:`build_graph` turns the parameter ``graph`` of an estimator into a graph over samples in
memory: a sparse matrix :math:`W` for NumPy samples, a :class:`NeighborGraph` for samples of another
library or device. :func:`sum_over_edges` then reduces it to moments of the Laplacian
:math:`L = D - W` with the degrees :math:`D`, so that the graph itself is not needed any more.

Samples in blocks have one graph per block, joined to the blocks before and after by rows that
overlap: see :func:`find_block_neighbors` and :func:`build_block_graph`.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import array_api_compat
import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_array

from jplay._optional import import_optional
from jplay.core.arrays import (
    Array,
    is_numpy,
    like,
    namespace,
    rows_of,
    symmetrize,
    to_numpy,
    zeros_like_shape,
)
from jplay.core.checks import check_positive, check_whole
from jplay.exceptions import MissingDependencyError

Method = Literal["auto", "exact", "approximate"]
METHODS = get_args(Method)
Bandwidth = float | Literal["median"]

EXACT_UP_TO = 50_000
"""Number of NumPy samples up to which ``"auto"`` is exact; time grows with the square of it."""
SPARE_CANDIDATES = 6
"""Candidates beyond the requested neighbors. With more of them, fewer rows are ranked twice."""
CACHED_ELEMENTS = 50_000
"""Entries of differences between NumPy samples at a time, which stay in the processor's cache."""
HOST_ELEMENTS = 2**21
"""Entries of other temporary arrays of NumPy: 16 MB in double precision."""
DEVICE_ELEMENTS = 2**28
"""Entries of temporary arrays of other libraries: 2 GiB in double precision."""
SEARCHED_ROWS = 16_384
"""Rows whose approximate neighbors are searched at a time."""
N_QUANTILES = 1001
"""Quantiles of the distances in a block, from which the common median is estimated."""


@dataclass(frozen=True)
class HeatGraph:
    """Symmetric nearest-neighbor graph with heat-kernel weights, for the parameter ``graph``.

    On a Dask array or other samples in blocks, every block has a separate graph, joined to the
    graphs of the blocks before and after if ``overlap`` is positive.

    Parameters
    ----------
    n_neighbors : int, default=10
        Number of neighbors of every sample. Two samples are joined if either is a neighbor of the
        other.
    bandwidth : float or "median", default="median"
        Bandwidth ``t`` of ``exp(-|x_i - x_j|^2 / (2 t^2))``; ``"median"`` takes the median distance
        to the last neighbor, over all blocks.
    method : {"auto", "exact", "approximate"}, default="auto"
        Search for neighbors. ``"auto"`` is exact for up to 50,000 samples (of a block), and for
        any number of samples in arrays that are not of NumPy. The approximate search is for NumPy
        arrays and blocks, and needs the extra ``ann``.
    overlap : int, default=0
        Number of rows of the block before and of the block after that are searched for neighbors
        too. It is worthwhile where the order of rows is meaningful, as in an image. An edge between
        two blocks gets the mean of its weights in the two graphs.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((100, 5))
    >>> HeatGraph(n_neighbors=3)(X).shape
    (100, 100)
    """

    n_neighbors: int = 10
    bandwidth: Bandwidth = "median"
    method: Method = "auto"
    overlap: int = 0

    def __post_init__(self) -> None:
        check_whole("n_neighbors", self.n_neighbors, 1)
        check_whole("overlap", self.overlap, 0)
        if self.method not in METHODS:
            raise ValueError(f"`method` should be one of {METHODS}, got {self.method!r}.")
        if self.bandwidth != "median":
            check_positive("bandwidth", self.bandwidth, "'median' or above 0")
            if not 1e-150 <= float(self.bandwidth) <= 1e150:  # its square must be in range
                raise ValueError(
                    f"`bandwidth` should be between 1e-150 and 1e150, got {self.bandwidth!r}. "
                    "Choose one near the distances between neighbors, or 'median'."
                )

    def __call__(self, X: Array) -> Any:
        return heat_graph(X, self.n_neighbors, self.bandwidth, self.method)[0]


@dataclass(frozen=True, eq=False)
class NeighborGraph:
    """The symmetric graph ``W = C + C^T`` of neighbor lists, in any array library.

    ``C`` has ``weights[i, k]`` on the edge from ``i`` to ``indices[i, k]``: the weight of the edge,
    or half of it if both samples list each other.

    Parameters
    ----------
    indices, weights : arrays of shape (n_samples, n_neighbors)
    """

    indices: Array
    weights: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.indices.shape[0], self.indices.shape[0]

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the graph as a sparse matrix in host memory."""
        half = stack_lists(to_numpy(self.indices), to_numpy(self.weights))
        return (half + half.T).tocsr()


def build_graph(X: Array, scaled: Any, graph: Any) -> tuple[Any, float | None]:
    """Build the graph of samples in memory from the parameter ``graph`` of an estimator.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples as the user passed them, the argument of a callable.
    scaled : array or TransformedRows of shape (n_samples, n_features)
        Samples between which a :class:`HeatGraph` measures distances.
    graph : HeatGraph, callable, matrix, NeighborGraph or None
        ``None`` means ``HeatGraph()``.

    Returns
    -------
    graph : csr_array of shape (n_samples, n_samples), or NeighborGraph
        A sparse matrix for NumPy samples.
    bandwidth : float or None
        Bandwidth of the heat kernel; ``None`` for a graph that was passed or called.
    """
    n_samples = X.shape[0]
    graph = HeatGraph() if graph is None else graph
    if isinstance(graph, HeatGraph):
        n_neighbors = check_heat_graph(graph, n_samples)
        affinity, bandwidth = heat_graph(scaled, n_neighbors, graph.bandwidth, graph.method)
        weights = affinity if scipy.sparse.issparse(affinity) else affinity.weights
        largest = weights.max() if weights is affinity else namespace(weights).max(weights)
        check_edges(float(largest), bandwidth)
        return affinity, bandwidth
    if callable(graph):
        graph = graph(X)
    if is_numpy(X):
        graph = graph.to_sparse() if isinstance(graph, NeighborGraph) else graph
        return check_affinity(graph, n_samples), None
    if not isinstance(graph, NeighborGraph) or graph.shape[0] != n_samples:
        raise ValueError(
            f"`graph` should be a HeatGraph or a NeighborGraph over the {n_samples} samples if `X` "
            f"is not a NumPy array, got {graph!r}. Call a HeatGraph with `X` to build one, or pass "
            "`X` as a NumPy array."
        )
    return graph, None


def check_heat_graph(graph: HeatGraph, n_samples: int) -> int:
    """Return the number of neighbors for samples in memory, at most all others."""
    if n_samples < 2:
        raise ValueError(
            f"A graph needs at least 2 samples, got n_samples={n_samples}. Fit on more samples."
        )
    if graph.overlap:
        raise ValueError(
            f"`overlap` should be 0 for samples in memory, got {graph.overlap}: they have one "
            "graph, not one per block. Leave it out."
        )
    if graph.n_neighbors >= n_samples:
        warnings.warn(
            f"`n_neighbors` should be less than {n_samples} (the number of samples), got "
            f"{graph.n_neighbors}. All {n_samples - 1} other samples are used; set a smaller "
            "`n_neighbors`.",
            UserWarning,
            stacklevel=5,  # the caller of fit
        )
    return min(graph.n_neighbors, n_samples - 1)


def check_affinity(affinity: Any, n_samples: int) -> scipy.sparse.csr_array:
    """Return a symmetric non-negative graph as a sparse matrix, or raise a ``ValueError``."""
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


def check_edges(largest_weight: float, bandwidth: float) -> None:
    """Raise a ``ValueError`` if all weights of a heat graph are zero."""
    if largest_weight == 0:
        raise ValueError(
            f"`bandwidth` should be near the distances between neighbors, got {bandwidth:g}, "
            "for which all weights of the graph vanish. Choose a larger one, or 'median'."
        )


def heat_graph(
    X: Any, n_neighbors: int, bandwidth: Bandwidth = "median", method: Method = "auto"
) -> tuple[Any, float]:
    """Join every sample to its neighbors, with weights ``exp(-|x_i - x_j|^2 / (2 t^2))``.

    Parameters
    ----------
    X : array or TransformedRows of shape (n_samples, n_features)
    n_neighbors : int
        Less than ``n_samples``.
    bandwidth : float or "median", default="median"
    method : {"auto", "exact", "approximate"}, default="auto"

    Returns
    -------
    graph : csr_array of shape (n_samples, n_samples), or NeighborGraph
        The entrywise maximum of the directed graph and its transpose.
    bandwidth : float
        The bandwidth ``t`` that was used.
    """
    indices, squares = find_neighbors(X, n_neighbors, method)
    if bandwidth == "median":
        farthest = np.sqrt(to_numpy(squares[:, -1]))
        bandwidth = float(np.median(farthest)) or float(np.mean(farthest)) or 1.0
    weights = apply_kernel(squares, bandwidth)
    if is_numpy(weights):
        return symmetrize_lists(indices, weights), float(bandwidth)
    return NeighborGraph(indices, halve_mutual(indices, weights)), float(bandwidth)


def apply_kernel(squares: Array, bandwidth: float) -> Array:
    """Return the weights of edges from squared distances."""
    with np.errstate(over="ignore"):  # a quotient out of range gives the weight zero
        return namespace(squares).exp(squares / (-2 * bandwidth**2))


def stack_lists(indices: np.ndarray, weights: np.ndarray) -> scipy.sparse.csr_array:
    """Return the directed graph of neighbor lists."""
    n_samples, n_neighbors = indices.shape
    ends = n_neighbors * np.arange(n_samples + 1)
    lists = weights.ravel(), indices.ravel(), ends
    return scipy.sparse.csr_array(lists, shape=(n_samples, n_samples)).sorted_indices()


def symmetrize_lists(indices: np.ndarray, weights: np.ndarray) -> scipy.sparse.csr_array:
    """Return ``max(W, W^T)`` of the directed graph ``W`` of neighbor lists."""
    directed = stack_lists(indices, weights)
    affinity = directed.maximum(directed.T).tocsr()
    affinity.sort_indices()
    return affinity


def halve_mutual(indices: Array, weights: Array) -> Array:
    """Halve the weights of edges that both samples list, see :class:`NeighborGraph`."""
    xp = namespace(weights)
    n_samples, n_neighbors = indices.shape
    numbers = like(np.arange(n_samples), indices)[:, None, None]
    mutual = []
    for rows in split_rows(n_samples, n_neighbors**2, weights):
        listed = xp.take(indices, xp.reshape(indices[rows, :], (-1,)), axis=0)
        listed = xp.reshape(listed, (-1, n_neighbors, n_neighbors))
        mutual.append(xp.any(listed == numbers[rows, :, :], axis=2))
    return xp.where(xp.concat(mutual), weights / 2, weights)


def split_rows(
    n_rows: int, row_elements: int, X: Any, host_elements: int | None = None
) -> Iterator[slice]:
    """Return consecutive slices of rows whose temporary arrays are of bounded size."""
    elements = DEVICE_ELEMENTS if is_on_device(X) else host_elements or HOST_ELEMENTS
    size = max(1, elements // row_elements)
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


def is_on_device(X: Any) -> bool:
    """Whether ``X`` is an array of another library than NumPy, wherever it is."""
    return array_api_compat.is_array_api_obj(X) and not is_numpy(X)


def find_neighbors(X: Any, n_neighbors: int, method: Method = "auto") -> tuple[Array, Array]:
    """Find the nearest neighbors of every sample among the other samples.

    Parameters
    ----------
    X : array or TransformedRows of shape (n_samples, n_features)
    n_neighbors : int
        Less than ``n_samples``.
    method : {"auto", "exact", "approximate"}, default="auto"
        See :class:`HeatGraph`.

    Returns
    -------
    indices : array of shape (n_samples, n_neighbors)
        Neighbors sorted by distance, then by index.
    squared_distances : array of shape (n_samples, n_neighbors), float64
    """
    if method not in METHODS:
        raise ValueError(f"`method` should be one of {METHODS}, got {method!r}.")
    if is_on_device(X) and method == "approximate":
        raise ValueError(
            "`method` should be 'auto' or 'exact' for arrays that are not of NumPy, got "
            "'approximate'. Leave it out, or pass `X` as a NumPy array."
        )
    many = X.shape[0] > EXACT_UP_TO and not is_on_device(X)
    if method == "approximate" or (method == "auto" and many):
        try:
            return search_approximately(X, n_neighbors)
        except MissingDependencyError as error:
            if method == "approximate":
                raise
            warnings.warn(
                f"The exact search for the neighbors of {X.shape[0]} samples takes long. {error}",
                UserWarning,
                stacklevel=6,  # the caller of fit
            )
    return search_exactly(X, n_neighbors)


def search_exactly(X: Any, n_neighbors: int) -> tuple[Array, Array]:
    """Compare all samples, where they are, see :func:`find_neighbors`.

    Candidates come from one product per block of rows, in single precision. Distances of candidates
    are recomputed in double precision. Where rounding or a tie may have left a neighbor out,
    :func:`rank_again` looks at all samples that may be as near.
    """
    n_samples, n_features = X.shape
    Z, unit = center_rows(X)
    xp = namespace(Z)
    n_candidates = min(n_neighbors + 1 + SPARE_CANDIDATES, n_samples)  # one is the sample itself
    # The error of a sum of d terms grows like sqrt(d) units in the last place.
    rounding = (16 + n_features**0.5) * float(xp.finfo(xp.float32).eps)
    # Below the smallest normal number products are coarse, or zero on some devices.
    tiny = n_features * float(xp.finfo(xp.float32).smallest_normal)
    numbers = like(np.arange(n_samples), Z, dtype=xp.int64)
    found: list[tuple] = []
    again: list[tuple] = []
    for rows in split_rows(n_samples, max(n_samples, n_candidates * n_features), X):
        own, block = numbers[rows], Z[rows, :]
        # |y|^2 - 2 x.y = |x - y|^2 - |x|^2, whose order within a row is the order of distances.
        left = xp.concat([-2 * block[:, :-1], xp.ones_like(block[:, :1])], axis=1)
        scores = left @ Z.mT
        candidates = find_smallest(scores, n_candidates)
        last = xp.max(xp.take_along_axis(scores, candidates, axis=1), axis=1)
        found.append(rank_candidates(X, own, candidates, n_neighbors))
        # A neighbor y within the radius r has |y| <= |x| + r, which bounds the terms of its score.
        radius, norm = xp.sqrt(found[-1][1][:, -1]) / unit, xp.astype(block[:, -1], xp.float64)
        reach = radius**2 - norm + rounding * (xp.sqrt(norm) + radius) ** 2 + tiny
        doubtful = xp.nonzero(reach >= xp.astype(last, xp.float64))[0]
        if n_candidates < n_samples and doubtful.shape[0] > 0:
            scores, reach = xp.take(scores, doubtful, axis=0), xp.take(reach, doubtful)
            again += rank_again(X, xp.take(own, doubtful), scores, reach, n_neighbors)
    # What was found last for a sample counts.
    source = np.arange(n_samples)
    if again:
        ranked = np.concatenate([to_numpy(own) for own, _, _ in again])
        source[ranked] = n_samples + np.arange(len(ranked))
    indices = xp.concat([part[-2] for part in (*found, *again)])
    squares = xp.concat([part[-1] for part in (*found, *again)])
    return rows_of(indices, source), rows_of(squares, source)


def center_rows(X: Any) -> tuple[Array, float]:
    """Return ``[z, |z|^2]`` in single precision for ``z = (x - mean) / unit``, and the unit.

    Centered samples have the smallest norms, which rounding is relative to; in the unit, the
    largest magnitude, their squares are in range.
    """
    n_samples, n_features = X.shape
    first = X[:1, :]
    xp = namespace(first)
    blocks = list(split_rows(n_samples, n_features, X))
    mean = sum(xp.sum(X[rows, :] / n_samples, axis=0) for rows in blocks)
    unit = max(float(xp.max(xp.abs(X[rows, :] - mean))) for rows in blocks) or 1.0
    Z = zeros_like_shape((n_samples, n_features + 1), first, dtype=xp.float32)
    for rows in blocks:
        Z[rows, :-1] = xp.astype((X[rows, :] - mean) / unit, xp.float32)
        Z[rows, -1] = xp.linalg.vecdot(Z[rows, :-1], Z[rows, :-1])
    return Z, unit


def find_smallest(matrix: Array, count: int) -> Array:
    """Return the columns of the ``count`` smallest entries of each row, in no particular order.

    The smallest entries of a long row are in the chunks with the smallest minima. A chunk has
    columns that are far apart, so that minima of neighboring chunks are found side by side.
    """
    xp = namespace(matrix)
    n_rows, n_columns = matrix.shape
    size = int((n_columns / count) ** 0.5)  # as many minima as entries of the chosen chunks
    if size >= 8:
        n_chunks = n_columns // size
        chunks = xp.reshape(matrix[:, : size * n_chunks], (n_rows, size, n_chunks))
        chosen = find_smallest(xp.min(chunks, axis=1), count)
        columns = like(np.arange(n_columns), matrix, dtype=chosen.dtype)
        within = chosen[:, :, None] + columns[: size * n_chunks : n_chunks]
        rest = xp.broadcast_to(columns[size * n_chunks :], (n_rows, n_columns - size * n_chunks))
        columns = xp.concat([xp.reshape(within, (n_rows, -1)), rest], axis=1)
        smallest = find_smallest(xp.take_along_axis(matrix, columns, axis=1), count)
        return xp.take_along_axis(columns, smallest, axis=1)
    if hasattr(xp, "topk"):  # PyTorch
        return xp.topk(matrix, count, dim=1, largest=False, sorted=False).indices
    if hasattr(xp, "argpartition"):  # NumPy, CuPy
        return xp.argpartition(matrix, count - 1, axis=1)[:, :count]
    return xp.argsort(matrix, axis=1)[:, :count]


def rank_candidates(X: Any, own: Array, candidates: Array, n_neighbors: int) -> tuple[Array, Array]:
    """Return the nearest candidates of the samples ``own``, and their squared distances."""
    xp = namespace(candidates)
    n_candidates, n_features = candidates.shape[1], X.shape[1]
    candidates = xp.sort(candidates, axis=1)
    parts = []
    for rows in split_rows(own.shape[0], n_candidates * n_features, X, CACHED_ELEMENTS):
        differences = rows_of(X, xp.reshape(candidates[rows, :], (-1,)))  # a copy
        differences = xp.reshape(
            xp.astype(differences, xp.float64, copy=False), (-1, n_candidates, n_features)
        )
        differences -= xp.astype(rows_of(X, own[rows]), xp.float64, copy=False)[:, None, :]
        # Not by BLAS, in which the rounding of a row may depend on its address: ties would break.
        if is_numpy(differences):
            parts.append(np.einsum("ijk,ijk->ij", differences, differences))
        else:
            parts.append(xp.linalg.vecdot(differences, differences))
    squares = xp.where(candidates == own[:, None], xp.inf, xp.concat(parts))
    order = xp.argsort(squares, axis=1, stable=True)[:, :n_neighbors]
    return xp.take_along_axis(candidates, order, axis=1), xp.take_along_axis(squares, order, axis=1)


def rank_again(
    X: Any, own: Array, scores: Array, reach: Array, n_neighbors: int
) -> Iterator[tuple[Array, Array, Array]]:
    """Rank samples whose scores are within reach, more and more of them in the order of indices.

    A row is done when all of them are ranked, or when the first ones are duplicates of the sample.
    """
    xp = namespace(scores)
    n_samples = scores.shape[1]
    numbers = like(np.arange(n_samples), scores, dtype=xp.int32)
    count = 4 * (n_neighbors + SPARE_CANDIDATES)
    while own.shape[0] > 0:
        near = scores <= xp.astype(reach, xp.float32)[:, None]
        candidates = find_smallest(xp.where(near, numbers, n_samples), min(count, n_samples))
        indices, squares = rank_candidates(X, own, candidates, n_neighbors)
        yield own, indices, squares
        n_near = xp.sum(xp.astype(near, xp.int64), axis=1)
        rest = xp.nonzero((n_near > count) & (squares[:, -1] > 0))[0]
        own, reach = xp.take(own, rest), xp.take(reach, rest)
        scores, count = xp.take(scores, rest, axis=0), 8 * count


def search_approximately(X: Any, n_neighbors: int) -> tuple[np.ndarray, np.ndarray]:
    """Compare NumPy samples with those of the nearest cells only, see :func:`find_neighbors`.

    An inverted file with as many cells as the square root of ``n_samples``, of which a sixteenth,
    but at least 16, is searched for every sample. Candidates are found in single precision.
    """
    faiss = import_optional("faiss", feature="An approximate neighbor graph", extra="ann")

    def round_rows(rows: slice) -> np.ndarray:
        return np.ascontiguousarray(X[rows], dtype=np.float32)

    n_samples, n_features = X.shape
    n_cells = max(1, int(np.sqrt(n_samples)))
    quantizer = faiss.IndexFlatL2(n_features)
    index = faiss.IndexIVFFlat(quantizer, n_features, n_cells, faiss.METRIC_L2)
    index.train(round_rows(slice(None, None, max(1, n_samples // (64 * n_cells)))))
    blocks = [
        slice(a, min(a + SEARCHED_ROWS, n_samples)) for a in range(0, n_samples, SEARCHED_ROWS)
    ]
    for rows in blocks:
        index.add(round_rows(rows))
    index.nprobe = min(n_cells, max(16, n_cells // 16))
    found = []
    for rows in blocks:
        own = np.arange(rows.start, rows.stop)
        _, candidates = index.search(round_rows(rows), min(n_neighbors + 3, n_samples))
        # An unfilled place (-1) counts as the sample itself, which comes last.
        candidates = np.where(candidates < 0, own[:, None], candidates)
        found.append(rank_candidates(X, own, candidates, n_neighbors))
    indices, squares = (np.concatenate(part) for part in zip(*found, strict=True))
    return indices, squares


@dataclass(frozen=True, eq=False)
class GraphMoments:
    """Sums over the edges of a graph, in double precision. Those of two blocks add up."""

    laplacian_gram: Array
    """``X^T L X``"""
    degree_gram: Array
    """``X^T D X``"""
    degree_sum: Array
    """``X^T D 1``"""
    total_degree: float

    def __add__(self, other: "GraphMoments") -> "GraphMoments":
        sums = (getattr(self, f.name) + getattr(other, f.name) for f in fields(self))
        return GraphMoments(*sums)


def sum_over_edges(X: Any, graph: Any) -> GraphMoments:
    """Compute the moments of a graph in blocks of rows, without its Laplacian.

    Parameters
    ----------
    X : array or TransformedRows of shape (n_samples, n_features)
    graph : csr_array of shape (n_samples, n_samples), or NeighborGraph
    """
    if is_numpy(X):
        X = np.ascontiguousarray(X)  # as sparse products would at every block
    n_samples, n_features = X.shape
    xp = namespace(X[:1, :])
    if isinstance(graph, NeighborGraph):
        degrees, n_neighbors = sum_lists(graph), graph.indices.shape[1]
    else:
        degrees, n_neighbors = np.asarray(graph.sum(axis=1)).ravel(), graph.nnz // n_samples
    laplacian_gram, degree_gram, degree_sum = 0.0, 0.0, 0.0
    for rows in split_rows(n_samples, (n_neighbors + 4) * n_features, X):
        block = xp.astype(X[rows, :], xp.float64)
        weighted = degrees[rows][:, None] * block
        degree_gram += block.mT @ weighted
        degree_sum += xp.sum(weighted, axis=0)
        # L X = D X - W X. For lists 2 C takes the place of W = C + C^T: the result is symmetrized.
        laplacian_gram += block.mT @ (weighted - multiply_rows(graph, rows, X))
    total = float(xp.sum(degrees))
    return GraphMoments(symmetrize(laplacian_gram), degree_gram, degree_sum, total)


def sum_lists(graph: NeighborGraph) -> Array:
    """Return the degrees: sums of the weights of edges that leave and that arrive."""
    xp = namespace(graph.weights)
    indices, weights = (xp.reshape(part, (-1,)) for part in (graph.indices, graph.weights))
    if hasattr(xp, "bincount"):
        received = xp.bincount(indices, weights=weights, minlength=graph.shape[0])
    else:
        counts = np.bincount(to_numpy(indices), to_numpy(weights), graph.shape[0])
        received = like(counts, weights)
    return xp.sum(graph.weights, axis=1) + received


def multiply_rows(graph: Any, rows: slice, X: Any) -> Array:
    """Return some rows of ``W X`` or, for lists, of ``2 C X``, from the neighbors of the rows."""
    if isinstance(graph, NeighborGraph):
        xp = namespace(graph.weights)
        indices, weights = graph.indices[rows, :], graph.weights[rows, :]
        neighbors = xp.astype(rows_of(X, xp.reshape(indices, (-1,))), xp.float64)
        return 2 * (weights[:, None, :] @ xp.reshape(neighbors, (*indices.shape, -1)))[:, 0, :]
    edges = graph[rows]
    if is_numpy(X) and X.dtype == np.float64:
        return edges @ X
    neighbors, columns = np.unique(edges.indices, return_inverse=True)
    shape = edges.shape[0], len(neighbors)
    edges = scipy.sparse.csr_array((edges.data, columns, edges.indptr), shape=shape)
    return edges @ X[neighbors].astype(np.float64, copy=False)


def find_block_neighbors(X: Array, graph: HeatGraph) -> tuple[tuple, tuple]:
    """Find the nearest neighbors within a block.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        Scaled samples of the block, between the rows of the blocks before and after that overlap.
    graph : HeatGraph

    Returns
    -------
    neighbors : tuple of indices and squared distances
        See :func:`find_neighbors`; fewer neighbors if the block has fewer rows.
    distances : tuple of ndarrays
        Quantiles of the distances to the last neighbor, and their weights. Arrays of several
        blocks are concatenated for :func:`choose_bandwidth`.
    """
    n_rows = X.shape[0]
    if n_rows < 2:
        return (np.zeros((n_rows, 0), np.int32), np.zeros((n_rows, 0))), (np.zeros(0), np.zeros(0))
    indices, squares = find_neighbors(to_numpy(X), min(graph.n_neighbors, n_rows - 1), graph.method)
    levels = np.linspace(0, 1, min(n_rows, N_QUANTILES))
    quantiles = np.quantile(np.sqrt(squares[:, -1]), levels)
    return (indices.astype(np.int32), squares), (
        quantiles,
        np.full_like(levels, n_rows / len(levels)),
    )


def choose_bandwidth(bandwidth: Bandwidth, distances: np.ndarray, weights: np.ndarray) -> float:
    """Return a given bandwidth, or the weighted median of the distances in all blocks."""
    if bandwidth != "median":
        return float(bandwidth)
    order = np.argsort(distances)
    cumulative = np.cumsum(weights[order])
    median = distances[order][np.searchsorted(cumulative, cumulative[-1] / 2)]
    return float(median) or float(np.average(distances, weights=weights)) or 1.0


def build_block_graph(
    neighbors: tuple[np.ndarray, np.ndarray], bandwidth: float, own: slice = slice(None)
) -> scipy.sparse.csr_array:
    """Return the edges that a block adds to the graph of all blocks.

    An edge between two blocks is in the graphs of both, each of which adds half of its weight.

    Parameters
    ----------
    neighbors : tuple of indices and squared distances
    bandwidth : float
    own : slice, default=slice(None)
        Rows that are in the block; the other rows overlap.
    """
    indices, squares = neighbors
    affinity = symmetrize_lists(indices, apply_kernel(squares, bandwidth))
    halves = np.zeros(len(indices))
    halves[own] = 0.5
    halves = scipy.sparse.diags_array(halves)
    return scipy.sparse.csr_array(halves @ affinity + affinity @ halves)


def partition_affinity(
    X: np.ndarray, block_sizes: Sequence[int], graph: HeatGraph
) -> scipy.sparse.csr_array:
    """Return the graph that samples in blocks get, as one sparse matrix in memory.

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
    parts = []
    for start, stop in pairwise(np.cumsum([0, *block_sizes])):
        first, last = max(0, start - graph.overlap), min(n_samples, stop + graph.overlap)
        neighbors, _ = find_block_neighbors(X[first:last], graph)
        edges = build_block_graph(
            neighbors, graph.bandwidth, slice(start - first, stop - first)
        ).tocoo()
        parts.append((edges.data, edges.row + first, edges.col + first))
    weights, rows, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
    # Equal places are added up: an edge between two blocks has a half from each.
    return scipy.sparse.csr_array((weights, (rows, columns)), shape=(n_samples, n_samples))


def weight_by_features(
    affinity: scipy.sparse.sparray, features: np.ndarray, bandwidth: Bandwidth = "median"
) -> scipy.sparse.csr_array:
    """Multiply the weight of every edge by ``exp(-|z_i - z_j|^2 / (2 t^2))``.

    Parameters
    ----------
    affinity : sparse array of shape (n_samples, n_samples)
    features : ndarray of shape (n_samples, n_features)
    bandwidth : float or "median", default="median"
        The bandwidth ``t``. ``"median"`` takes the median distance over the edges.

    Returns
    -------
    csr_array of shape (n_samples, n_samples)
    """
    edges = scipy.sparse.coo_array(affinity)
    rows, columns = edges.coords
    squares = np.empty(len(rows))
    for part in split_rows(len(rows), features.shape[1], features):
        differences = features[rows[part]] - features[columns[part]]
        squares[part] = np.einsum("ij,ij->i", differences, differences)
    if bandwidth == "median":
        bandwidth = (float(np.sqrt(np.median(squares))) if len(squares) else 0.0) or 1.0
    weights = edges.data * apply_kernel(squares, bandwidth)
    return scipy.sparse.csr_array((weights, (rows, columns)), shape=edges.shape)


class GraphQuality(NamedTuple):
    """Difference between a graph and the exact one."""

    recall: float
    """Fraction of the exact nearest neighbors that are edges of the graph."""
    gram_error: float
    """``|G - G_exact|_F / |G_exact|_F`` for ``G = X^T L X``, on the edges of the probes."""
    n_probes: int


def graph_quality(
    X: np.ndarray,
    affinity: Any,
    n_neighbors: int = 10,
    *,
    bandwidth: float,
    n_probes: int = 1000,
    random_state: int = 0,
) -> GraphQuality:
    """Measure the recall of a graph and the relative error that it causes in ``X^T L X``.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    affinity : sparse array of shape (n_samples, n_samples)
    n_neighbors : int, default=10
    bandwidth : float
        Bandwidth of the heat kernel with which the graph was built.
    n_probes : int, default=1000
        Number of random samples whose exact neighbors are searched. Their ``n_neighbors`` heaviest
        edges are compared with the exact ones.
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
    found = 0
    gram, exact_gram = np.zeros((2, X.shape[1], X.shape[1]))
    for i in probes:
        distances = squared_norms - 2 * (X @ X[i])
        distances[i] = np.inf
        exact = np.argpartition(distances, n_neighbors - 1)[:n_neighbors]
        edges = slice(affinity.indptr[i], affinity.indptr[i + 1])
        columns, weights = affinity.indices[edges], affinity.data[edges]
        found += len(np.intersect1d(exact, columns))
        heaviest = np.argsort(-weights, kind="stable")[:n_neighbors]
        for total, others in ((gram, columns[heaviest]), (exact_gram, exact)):
            differences = X[others].astype(np.float64) - X[i]
            squares = np.einsum("ij,ij->i", differences, differences)
            total += (differences.T * apply_kernel(squares, bandwidth)) @ differences
    error = np.linalg.norm(gram - exact_gram) / np.linalg.norm(exact_gram)
    return GraphQuality(found / (n_neighbors * len(probes)), float(error), len(probes))
