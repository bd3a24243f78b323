"""Nearest-neighbour graph with heat-kernel weights, and the moments of its Laplacian (Eq. 9)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from jplay.core.arrays import Array, like, namespace, to_numpy

BLOCK_ELEMENTS = 4_000_000  # distances computed at a time: 32 MB in double precision
SPARE = 6  # candidates beyond the neighbours, in case rounding has swapped some


def find_neighbors(X: Array, n_neighbors: int) -> tuple[Array, Array]:
    """Nearest neighbours of every sample among the others, by exact search in blocks.

    Returns
    -------
    indices, squared_distances : arrays of shape (n_samples, n_neighbors)
        Sorted by distance.
    """
    xp = namespace(X)
    X = xp.astype(X, xp.float64)
    n_samples = X.shape[0]
    n_candidates = min(n_neighbors + SPARE, n_samples - 1)
    squared_norms = xp.sum(X * X, axis=1)
    rows = max(1, BLOCK_ELEMENTS // n_samples)
    parts = []
    for start in range(0, n_samples, rows):
        stop = min(start + rows, n_samples)
        block = X[start:stop, :]
        # |x - y|^2 = |x|^2 - 2 x.y + |y|^2, whose first term does not change the order
        distances = squared_norms - 2 * (block @ X.mT)
        own = like(np.arange(start, stop)[:, None] == np.arange(n_samples), X, dtype=xp.bool)
        distances = xp.where(own, xp.inf, distances)  # a sample is no neighbour of itself
        candidates = find_smallest(distances, n_candidates)
        # Recomputed from differences, exact for near-duplicates; of equals the first comes first.
        candidates = xp.sort(candidates, axis=1)
        differences = (xp.take(X, candidates[:, k], axis=0) - block for k in range(n_candidates))
        exact = xp.stack([xp.sum(difference**2, axis=1) for difference in differences], axis=1)
        order = xp.argsort(exact, axis=1, stable=True)[:, :n_neighbors]
        parts.append([xp.take_along_axis(array, order, axis=1) for array in (candidates, exact)])
    indices, squared_distances = (xp.concat(list(part)) for part in zip(*parts, strict=True))
    return indices, squared_distances


def find_smallest(matrix: Array, count: int) -> Array:
    """Column indices of the ``count`` smallest entries of each row, in no particular order."""
    xp = namespace(matrix)
    if isinstance(matrix, np.ndarray):
        return np.argpartition(matrix, count - 1, axis=1)[:, :count]
    return xp.argsort(matrix, axis=1)[:, :count]


@dataclass(frozen=True)
class NeighborGraph:
    """The symmetric graph ``W = C + C^T`` of neighbour lists, on any device.

    ``C`` has ``weights[i, k]`` on the edge from ``i`` to ``indices[i, k]``, half of the edge's
    weight if both ends list each other.
    """

    indices: Array
    weights: Array

    def to_sparse(self) -> scipy.sparse.csr_array:
        """The same graph in host memory."""
        n_samples, n_neighbors = self.indices.shape
        ends = np.arange(0, n_samples * n_neighbors + 1, n_neighbors)
        lists = to_numpy(self.weights).ravel(), to_numpy(self.indices).ravel(), ends
        directed = scipy.sparse.csr_array(lists, shape=(n_samples, n_samples))
        return (directed + directed.T).tocsr()


def build_heat_graph(X: Array, n_neighbors: int, bandwidth: Any = "median") -> tuple[Any, float]:
    """Join every sample with its neighbours, with weights ``exp(-|x_i - x_j|^2 / (2 t^2))``.

    Returns
    -------
    graph : NeighborGraph
    bandwidth : float
        The width ``t``; ``"median"`` takes the median distance to the last neighbour.
    """
    xp = namespace(X)
    indices, squares = find_neighbors(X, min(n_neighbors, X.shape[0] - 1))
    if bandwidth == "median":
        farthest = np.sqrt(to_numpy(squares[:, -1]))
        bandwidth = float(np.median(farthest)) or float(np.mean(farthest)) or 1.0
    weights = xp.exp(squares / (-2 * bandwidth**2))
    # An edge found from both sides is listed twice: sample i is among the neighbours of j = ij[i, k].
    numbers = xp.reshape(xp.arange(X.shape[0]), (-1, 1, 1))
    listed = xp.reshape(xp.take(indices, xp.reshape(indices, (-1,)), axis=0), (*indices.shape, -1))
    mutual = xp.any(listed == numbers, axis=2)
    return NeighborGraph(indices, xp.where(mutual, weights / 2, weights)), bandwidth


def sum_over_edges(X: Array, graph: Any) -> tuple[Array, Array, Array, Array]:
    """``X^T L X``, ``X^T D X``, ``X^T D 1`` and the total degree, in float64, without forming L."""
    xp = namespace(X)
    X = xp.astype(X, xp.float64)
    if isinstance(graph, NeighborGraph):
        # Column k of the lists adds w_ik x_j for the k-th neighbour j of every sample i.
        columns = range(graph.indices.shape[1])
        half = sum(
            graph.weights[:, k, None] * xp.take(X, graph.indices[:, k], axis=0) for k in columns
        )
        affinity_gram = X.mT @ half
        affinity_gram = affinity_gram + affinity_gram.mT
        received = np.bincount(
            to_numpy(graph.indices).ravel(), to_numpy(graph.weights).ravel(), X.shape[0]
        )
        degrees = xp.sum(graph.weights, axis=1) + like(received, X)
    else:
        degrees = like(np.asarray(graph.sum(axis=1)).ravel(), X)
        affinity_gram = X.mT @ (graph @ X)
    weighted = degrees[:, None] * X
    degree_gram = X.mT @ weighted
    laplacian_gram = degree_gram - affinity_gram
    laplacian_gram = (laplacian_gram + laplacian_gram.mT) / 2
    return laplacian_gram, degree_gram, xp.sum(weighted, axis=0), xp.sum(degrees)


@dataclass(frozen=True, eq=False)
class GraphMoments:
    laplacian_gram: Array
    degree_gram: Array
    degree_sum: Array
    total_degree: Any


_sum = sum_over_edges


def sum_over_edges(X, graph):
    return GraphMoments(*_sum(X, graph))


def build_graph(X, scaled, graph):
    if graph is None:
        return build_heat_graph(scaled, 10)
    return graph, None
