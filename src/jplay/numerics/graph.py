"""Nearest-neighbour graphs with heat-kernel weights, always sparse."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse

from jplay._array_api import (
    Array,
    like,
    namespace,
    on_cuda,
    product_of_halves,
    smallest_per_row,
    sum_by_index,
    to_numpy,
)
from jplay.numerics.inverted_file import SPARE_CANDIDATES, cell_neighbors, nearest_of
from jplay.numerics.rows import FormedRows, row_blocks

# Samples; the exact search grows with their square.
EXACT_UP_TO = 50_000
EXACT_ON_DEVICE_UP_TO = 2_000_000  # a million with 200 features took 4.8 s on an H200
_BLOCK_ELEMENTS = 4_000_000  # 32 MB in double precision
_CACHED_ELEMENTS = 50_000  # of differences between samples at a time: they stay in cache
_DEVICE_BLOCK_ELEMENTS = 2**28  # 2 GiB in double precision
_DEVICE_DISTANCES = 2**30  # at a time; 4 GiB in single precision
_GRAM_ROWS = 8192  # of one block of the Laplacian's moments: a few megabytes
_GATHERED_ROWS = 1024  # whose neighbours are copied at a time, some ten times as many

Bandwidth = float | Literal["median"]
"""Width of the heat kernel, or how to choose it."""


def nearest_neighbors(X: np.ndarray, n_neighbors: int) -> tuple[np.ndarray, np.ndarray]:
    """Exact nearest neighbours of every sample among the others, in blocks of rows.

    Candidates come from one matrix product per block; their distances are then
    recomputed from differences, so that they are exact for near-duplicates too. Among
    equally distant samples the one that comes first in ``X`` is the nearer.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    n_neighbors : int
        Less than ``n_samples``.

    Returns
    -------
    indices : ndarray of shape (n_samples, n_neighbors)
        Sorted by distance, the sample itself left out.
    squared_distances : ndarray of shape (n_samples, n_neighbors), float64
    """
    n_samples = X.shape[0]
    squared_norms = np.einsum("ij,ij->i", X, X)
    indices = np.empty((n_samples, n_neighbors), dtype=np.intp)
    squared_distances = np.empty((n_samples, n_neighbors))
    # |x|^2 - 2 x.y + |y|^2 is off by a few units in the last place of the largest of its terms;
    # eight cover them, and a bound too large costs only a second look.
    rounding = 8 * np.finfo(squared_norms.dtype).eps * float(squared_norms.max())
    n_candidates = min(n_neighbors + SPARE_CANDIDATES, n_samples - 1)
    block = max(1, _BLOCK_ELEMENTS // n_samples)
    for start in range(0, n_samples, block):
        rows = slice(start, min(start + block, n_samples))
        approximate = X[rows] @ X.T
        approximate *= -2
        approximate += squared_norms
        within = np.arange(rows.stop - rows.start)
        approximate[within, within + start] = np.inf
        candidates = np.argpartition(approximate, n_candidates - 1, axis=1)[:, :n_candidates]
        candidates.sort(axis=1)
        indices[rows], squared_distances[rows] = _nearest_candidates(
            X, X[rows], candidates, n_neighbors
        )
        if n_candidates == n_samples - 1:
            continue
        # If the last neighbour is no nearer than the last candidate, rounding or a tie may
        # have left a sample out: look at all that may be as near.
        reach = squared_distances[rows, -1] - squared_norms[rows] + rounding
        last_candidate = np.take_along_axis(approximate, candidates, axis=1).max(axis=1)
        for row in np.flatnonzero(reach >= last_candidate):
            near = np.flatnonzero(approximate[row] <= reach[row])[None]
            i = start + row
            indices[i], squared_distances[i] = _nearest_candidates(
                X, X[i : i + 1], near, n_neighbors
            )
    return indices, squared_distances


def _nearest_candidates(
    X: np.ndarray, centres: np.ndarray, candidates: np.ndarray, n_neighbors: int
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest of each centre's ``candidates``, which are in order, by exact distance."""
    exact = np.empty(candidates.shape)
    block = max(1, _CACHED_ELEMENTS // (candidates.shape[1] * X.shape[1]))
    for start in range(0, len(candidates), block):
        rows = slice(start, start + block)
        differences = X[candidates[rows]].astype(np.float64, copy=False)
        differences -= centres[rows, None, :]
        np.einsum("ijk,ijk->ij", differences, differences, out=exact[rows])
    order = np.argsort(exact, axis=1, kind="stable")[:, :n_neighbors]
    return np.take_along_axis(candidates, order, axis=1), np.take_along_axis(exact, order, axis=1)


def median_bandwidth(squared_distances: np.ndarray) -> float:
    """Median distance to the farthest kept neighbour; the mean if that is zero."""
    farthest = np.sqrt(squared_distances[:, -1])
    width = float(np.median(farthest)) or float(np.mean(farthest))
    return width or 1.0


def symmetric_affinity(indices: np.ndarray, weights: np.ndarray) -> scipy.sparse.csr_array:
    """``max(W, W^T)`` of the directed graph with ``weights`` on the edges to ``indices``."""
    n_samples, n_neighbors = indices.shape
    ends = np.arange(0, indices.size + 1, n_neighbors)
    directed = scipy.sparse.csr_array(
        (weights.ravel(), indices.ravel(), ends), shape=(n_samples, n_samples)
    ).sorted_indices()
    affinity = directed.maximum(directed.T).tocsr()
    affinity.sort_indices()
    return affinity


def weighted_by_features(
    affinity: scipy.sparse.sparray, features: np.ndarray, bandwidth: Bandwidth = "median"
) -> scipy.sparse.csr_array:
    """The same edges, each times ``exp(-|z_i - z_j|^2 / (2 t^2))``.

    Parameters
    ----------
    affinity : sparse array of shape (n_samples, n_samples)
    features : ndarray of shape (n_samples, n_features)
    bandwidth : float or "median", default="median"
        The width ``t``. ``"median"`` takes the median distance over the edges.

    Returns
    -------
    csr_array of shape (n_samples, n_samples)
    """
    edges = scipy.sparse.coo_array(affinity)
    rows, columns = edges.coords
    squares = np.empty(len(rows))
    block = max(1, _BLOCK_ELEMENTS // features.shape[1])
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        differences = features[rows[part]] - features[columns[part]]
        squares[part] = np.einsum("ij,ij->i", differences, differences)
    if bandwidth == "median":
        bandwidth = (float(np.sqrt(np.median(squares))) if len(squares) else 0.0) or 1.0
    weights = edges.data * np.exp(squares / (-2 * bandwidth**2))
    return scipy.sparse.csr_array((weights, (rows, columns)), shape=edges.shape)


def laplacian_gram(
    X: np.ndarray | FormedRows, affinity: scipy.sparse.sparray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """``X^T L X`` and the degree moments of the graph, in float64, without forming ``L``.

    Rows are taken in blocks, so that samples are not copied.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), or FormedRows
    affinity : sparse array of shape (n_samples, n_samples)

    Returns
    -------
    gram : ndarray of shape (n_features, n_features)
        ``X^T (D - W) X``.
    degree_gram : ndarray of shape (n_features, n_features)
        ``X^T D X``.
    degree_sum : ndarray of shape (n_features,)
        ``X^T D 1``.
    total_degree : float
    """
    if isinstance(X, np.ndarray):
        X = np.ascontiguousarray(X)  # as sparse products would at every block
    n_features = X.shape[1]
    degrees = np.asarray(affinity.sum(axis=1)).ravel()
    affinity = affinity.tocsr()
    gram, degree_gram = np.zeros((2, n_features, n_features))
    degree_sum = np.zeros(n_features)
    for rows, here in row_blocks(X, _GRAM_ROWS):
        block = here.astype(np.float64, copy=False)
        weighted = degrees[rows, None] * block
        degree_gram += block.T @ weighted
        degree_sum += weighted.sum(axis=0)
        _subtract_neighbors(weighted, X, affinity[rows])
        gram += block.T @ weighted
    return (gram + gram.T) / 2, degree_gram, degree_sum, float(degrees.sum())


def _subtract_neighbors(
    weighted: np.ndarray, X: np.ndarray | FormedRows, affinity: scipy.sparse.csr_array
) -> None:
    """Subtract ``affinity @ X`` from some rows, which need no others than their neighbours."""
    if X.dtype == np.float64 and isinstance(X, np.ndarray):
        weighted -= affinity @ X
        return
    for start in range(0, len(weighted), _GATHERED_ROWS):
        rows = slice(start, start + _GATHERED_ROWS)
        edges = affinity[rows]
        neighbors, places = np.unique(edges.indices, return_inverse=True)
        among = (edges.data, places, edges.indptr)
        among = scipy.sparse.csr_array(among, shape=(edges.shape[0], len(neighbors)))
        weighted[rows] -= among @ X[neighbors].astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class NeighborGraph:
    """The symmetric graph ``C + C^T`` of fixed-size neighbour lists, on any device.

    ``C`` holds ``weights[i, k]`` on the edge from ``i`` to ``indices[i, k]``, half the weight
    if both ends list each other.
    """

    indices: Array
    """(n_samples, n_neighbors)"""
    weights: Array
    """(n_samples, n_neighbors)"""

    @property
    def shape(self) -> tuple[int, int]:
        n_samples = self.indices.shape[0]
        return n_samples, n_samples

    def to_sparse(self) -> scipy.sparse.csr_array:
        """The same graph as ``csr_array`` in host memory."""
        n_samples, n_neighbors = self.indices.shape
        rows = np.repeat(np.arange(n_samples), n_neighbors)
        columns, weights = to_numpy(self.indices).ravel(), to_numpy(self.weights).ravel()
        half = scipy.sparse.csr_array((weights, (rows, columns)), shape=self.shape)
        return (half + half.T).tocsr()

    def degrees(self) -> Array:
        """Weights that leave each sample and those that arrive, summed."""
        xp = namespace(self.weights)
        received = sum_by_index(
            xp.reshape(self.indices, (-1,)), xp.reshape(self.weights, (-1,)), self.shape[0]
        )
        return xp.sum(self.weights, axis=1) + received

    def half_products(self, X: Array, rows: slice) -> Array:
        """``C X`` for some rows."""
        xp = namespace(X)
        indices, weights = self.indices[rows, :], self.weights[rows, :]
        neighbors = xp.reshape(
            xp.take(X, xp.reshape(indices, (-1,)), axis=0), (*indices.shape, X.shape[1])
        )
        return (weights[:, None, :] @ xp.astype(neighbors, weights.dtype))[:, 0, :]


@dataclass(frozen=True, eq=False)
class _Distances:
    """Squared distances between samples, less the squared norm of the first, as one product."""

    left: Array
    right: Array
    squared_norms: Array
    """(n_samples,)"""
    unit: float
    """In which norms and products are measured."""
    rounding: float
    """By which a product may be wrong."""
    product: Callable[[Array, Array], Array]

    def from_rows(self, rows: Array | slice) -> Array:
        """Distances of some samples to all."""
        return self.product(self.left[rows, :], self.right)


def _plain_distances(Z: Array) -> _Distances:
    """Products in the precision of the samples."""
    xp = namespace(Z)
    norms = xp.sum(Z * Z, axis=1)
    left = xp.concat([Z, xp.ones_like(Z[:, :1])], axis=1)
    right = xp.concat([-2 * Z, norms[:, None]], axis=1)
    rounding = 8 * float(xp.finfo(Z.dtype).eps) * float(xp.max(norms))
    return _Distances(left, right, norms, 1.0, rounding, lambda A, B: A @ B.mT)


def _distances_by_halves(Z: Array) -> _Distances:
    """Products in half precision, which a GPU forms fastest, with the accuracy of single.

    A number ``z`` is the sum of its rounding ``h`` to half precision and a remainder ``l / 64``,
    rounded again; of the products only that of two remainders is left out. All are columns of one
    product, and so are the norms.
    """
    xp = namespace(Z)
    norms = xp.sum(xp.astype(Z, xp.float64) ** 2, axis=1)
    unit = float(xp.max(norms)) or 1.0
    norms = norms / unit

    def halves(values: Array) -> tuple[Array, Array]:
        high = xp.astype(values, xp.float16)
        return high, xp.astype(64 * (values - high), xp.float16)

    (high, low), (high_norm, low_norm) = halves(Z / unit**0.5), halves(norms[:, None])
    one = xp.ones_like(high_norm)
    # A multiple of eight columns: rows that begin at multiples of 16 bytes.
    padding = xp.zeros_like(high[:, :1]).expand(-1, -(3 * Z.shape[1] + 2) % 8)
    left = xp.concat([high, high / 64, low, one, one / 64, padding], axis=1)
    right = xp.concat([-2 * high, -2 * low, high / -32, high_norm, low_norm, padding], axis=1)
    # On an H200 five millionths were the largest error for 200 features.
    rounding = 2.0**-16 * max(1.0, Z.shape[1] / 200)
    return _Distances(left, right, norms, unit, rounding, product_of_halves)


def _neighbor_lists(X: Array, n_neighbors: int) -> tuple[Array, Array]:
    """Nearest neighbours of every sample and their exact squared distances, by distance.

    Candidates come from products of low precision. If rounding may have left a nearer sample
    out, those of double precision decide.
    """
    xp = namespace(X)
    n_samples = X.shape[0]
    n_candidates = min(n_neighbors + 1 + SPARE_CANDIDATES, n_samples)
    Z = X - xp.mean(X, axis=0)
    distances = _distances_by_halves(Z) if on_cuda(Z) else _plain_distances(Z)
    positions = like(np.arange(n_samples), X, dtype=xp.int64)
    found = []
    for rows in _row_blocks(n_samples, n_samples):
        candidates, scores = smallest_per_row(distances.from_rows(rows), n_candidates)
        nearest, squares = nearest_of(X, positions[rows], candidates, n_neighbors)
        reach = squares[:, -1] / distances.unit - distances.squared_norms[rows]
        doubtful = reach + distances.rounding > xp.max(scores, axis=1)
        found.append((nearest, squares, doubtful & (squares[:, -1] > 0)))
    indices, squares, doubtful = (xp.concat(list(parts)) for parts in zip(*found, strict=True))
    if n_candidates == n_samples or not bool(xp.any(doubtful)):
        return indices, squares
    distances = _plain_distances(xp.astype(Z, xp.float64))
    again = xp.nonzero(doubtful)[0]
    for rows in _row_blocks(again.shape[0], n_samples):
        candidates, _ = smallest_per_row(distances.from_rows(again[rows]), n_candidates)
        nearest, exact = nearest_of(X, again[rows], candidates, n_neighbors)
        indices, squares = xp.concat([indices, nearest]), xp.concat([squares, exact])
    source = n_samples - 1 + xp.cumulative_sum(xp.astype(doubtful, xp.int64))
    source = xp.where(doubtful, source, positions)
    return xp.take(indices, source, axis=0), xp.take(squares, source, axis=0)


def _row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Rows of a matrix, as many at a time as fit in a block."""
    size = max(1, _DEVICE_DISTANCES // n_columns)
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


def neighbor_graph(
    X: Array,
    n_neighbors: int = 10,
    bandwidth: Bandwidth = "median",
    *,
    approximate: bool = False,
) -> tuple[NeighborGraph, float]:
    """Symmetric graph with heat-kernel weights as neighbour lists, computed where ``X`` lives.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    n_neighbors : int, default=10
    bandwidth : float or "median", default="median"
    approximate : bool, default=False
        Whether :func:`jplay.numerics.inverted_file.cell_neighbors` searches, much faster for
        millions of samples.

    Returns
    -------
    graph : NeighborGraph
    bandwidth : float
    """
    search = cell_neighbors if approximate else _neighbor_lists
    indices, distances = search(X, n_neighbors)
    if bandwidth == "median":
        bandwidth = median_bandwidth(to_numpy(distances[:, n_neighbors - 1 :]))
    weights = namespace(X).exp(distances / (-2 * bandwidth**2))
    return symmetric_lists(indices, weights), float(bandwidth)


def symmetric_lists(indices: Array, weights: Array) -> NeighborGraph:
    """The symmetric graph ``max(W, W^T)`` of neighbour lists with symmetric weights."""
    xp = namespace(weights)
    n_samples, n_neighbors = indices.shape
    positions = like(np.arange(n_samples), indices)
    mutual = []
    block = max(1, _DEVICE_BLOCK_ELEMENTS // n_neighbors**2)
    for start in range(0, n_samples, block):
        rows = slice(start, min(start + block, n_samples))
        listed = xp.reshape(indices[rows, :], (-1,))
        theirs = xp.reshape(
            xp.take(indices, listed, axis=0), (rows.stop - start, n_neighbors, n_neighbors)
        )
        mutual.append(xp.any(theirs == positions[rows][:, None, None], axis=2))
    return NeighborGraph(indices, xp.where(xp.concat(mutual), weights / 2, weights))


def neighbor_laplacian_gram(X: Array, graph: NeighborGraph) -> tuple[Array, Array, Array, float]:
    """:func:`laplacian_gram` for a :class:`NeighborGraph`, in blocks, in float64.

    ``X^T (D - C - C^T) X`` needs ``X^T C X`` and its transpose only.
    """
    xp = namespace(X)
    degrees = graph.degrees()
    block = max(1, _DEVICE_BLOCK_ELEMENTS // (graph.indices.shape[1] * X.shape[1]))
    cross: Array = 0
    degree_gram: Array = 0
    degree_sum: Array = 0
    for start in range(0, X.shape[0], block):
        rows = slice(start, min(start + block, X.shape[0]))
        here = xp.astype(X[rows, :], xp.float64)
        weighted = degrees[rows][:, None] * here
        degree_gram = degree_gram + here.mT @ weighted
        degree_sum = degree_sum + xp.sum(weighted, axis=0)
        cross = cross + here.mT @ graph.half_products(X, rows)
    return degree_gram - cross - cross.mT, degree_gram, degree_sum, float(xp.sum(degrees))
