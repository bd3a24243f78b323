"""Nearest-neighbour graphs with heat-kernel weights, always sparse."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from jplay._array_api import (
    like,
    namespace,
    smallest_per_row,
    sum_by_index,
    to_numpy,
)

EXACT_UP_TO = 50_000  # samples; the exact search grows with their square
_BLOCK_ELEMENTS = 4_000_000
_DEVICE_BLOCK_ELEMENTS = 256_000_000
_SPARE_CANDIDATES = 6  # re-ranked by exact distance, so that rounding decides no tie


def nearest_neighbors(X, n_neighbors):
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
    n_samples, n_features = X.shape
    squared_norms = np.einsum("ij,ij->i", X, X)
    indices = np.empty((n_samples, n_neighbors), dtype=np.intp)
    squared_distances = np.empty((n_samples, n_neighbors))
    rounding = 8 * np.finfo(squared_norms.dtype).eps * float(squared_norms.max())
    n_candidates = min(n_neighbors + _SPARE_CANDIDATES, n_samples - 1)
    block = max(1, _BLOCK_ELEMENTS // max(n_samples, n_candidates * n_features))
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
        # Where the last neighbour is no nearer than the last candidate, rounding or a tie may
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


def _nearest_candidates(X, centres, candidates, n_neighbors):
    """The nearest of each centre's ``candidates``, which are in order, by exact distance."""
    differences = X[candidates].astype(np.float64) - centres[:, None, :]
    exact = np.einsum("ijk,ijk->ij", differences, differences)
    order = np.argsort(exact, axis=1, kind="stable")[:, :n_neighbors]
    return np.take_along_axis(candidates, order, axis=1), np.take_along_axis(exact, order, axis=1)


def median_bandwidth(squared_distances):
    """Median distance to the farthest kept neighbour; the mean where that is zero."""
    farthest = np.sqrt(squared_distances[:, -1])
    width = float(np.median(farthest)) or float(np.mean(farthest))
    return width or 1.0


def symmetric_affinity(indices, weights):
    """``max(W, W^T)`` of the directed graph with ``weights`` on the edges to ``indices``."""
    n_samples, n_neighbors = indices.shape
    rows = np.repeat(np.arange(n_samples), n_neighbors)
    directed = scipy.sparse.csr_array(
        (weights.ravel(), (rows, indices.ravel())), shape=(n_samples, n_samples)
    )
    affinity = directed.maximum(directed.T).tocsr()
    affinity.sort_indices()
    return affinity


def heat_affinity(X, n_neighbors=10, bandwidth="median"):
    """Symmetric nearest-neighbour graph with weights ``exp(-|x_i - x_j|^2 / (2 t^2))``.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    n_neighbors : int, default=10
    bandwidth : float or "median", default="median"
        The width ``t``. ``"median"`` takes the median distance to the last neighbour.

    Returns
    -------
    affinity : csr_array of shape (n_samples, n_samples), float64
    bandwidth : float
        The width that was used.

    Examples
    --------
    >>> import numpy as np
    >>> affinity, width = heat_affinity(np.array([[0.0], [1.0], [3.0]]), n_neighbors=1)
    >>> width
    1.0
    >>> affinity.toarray().round(3)
    array([[0.   , 0.607, 0.   ],
           [0.607, 0.   , 0.135],
           [0.   , 0.135, 0.   ]])
    """
    indices, squared_distances = nearest_neighbors(X, n_neighbors)
    if bandwidth == "median":
        bandwidth = median_bandwidth(squared_distances)
    weights = np.exp(squared_distances / (-2 * bandwidth**2))
    return symmetric_affinity(indices, weights), float(bandwidth)


def weighted_by_features(affinity, features, bandwidth="median"):
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


def laplacian_gram(X, affinity):
    """``X^T L X`` and the degree moments of the graph, without forming ``L``.

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
    degrees = np.asarray(affinity.sum(axis=1)).ravel()
    weighted = degrees[:, None] * X
    degree_gram = X.T @ weighted
    degree_sum = weighted.sum(axis=0)
    weighted -= affinity @ X
    gram = X.T @ weighted
    return (gram + gram.T) / 2, degree_gram, degree_sum, float(degrees.sum())


@dataclass(frozen=True)
class NeighborGraph:
    """The symmetric graph ``C + C^T`` of fixed-size neighbour lists, on any device.

    ``C`` holds ``weights[i, k]`` on the edge from ``i`` to ``indices[i, k]``, half the weight
    where both ends list each other.
    """

    indices: Any
    """(n_samples, n_neighbors)"""
    weights: Any
    """(n_samples, n_neighbors)"""

    @property
    def shape(self):
        return (self.indices.shape[0],) * 2

    def to_sparse(self):
        """The same graph as ``csr_array`` in host memory."""
        n_samples, n_neighbors = self.indices.shape
        rows = np.repeat(np.arange(n_samples), n_neighbors)
        columns, weights = to_numpy(self.indices).ravel(), to_numpy(self.weights).ravel()
        half = scipy.sparse.csr_array((weights, (rows, columns)), shape=self.shape)
        return (half + half.T).tocsr()

    def degrees(self):
        xp = namespace(self.weights)
        received = sum_by_index(
            xp.reshape(self.indices, (-1,)), xp.reshape(self.weights, (-1,)), self.shape[0]
        )
        return xp.sum(self.weights, axis=1) + received

    def half_products(self, X, rows):
        """``C X`` for some rows."""
        xp = namespace(X)
        indices, weights = self.indices[rows, :], self.weights[rows, :]
        neighbors = xp.reshape(
            xp.take(X, xp.reshape(indices, (-1,)), axis=0), (*indices.shape, X.shape[1])
        )
        return (weights[:, None, :] @ xp.astype(neighbors, weights.dtype))[:, 0, :]


def neighbor_graph(X, n_neighbors=10, bandwidth="median"):
    """The graph of :func:`heat_affinity` as neighbour lists, computed where ``X`` lives.

    Returns
    -------
    graph : NeighborGraph
    bandwidth : float
    """
    xp = namespace(X)
    n_samples = X.shape[0]
    squared_norms = xp.sum(X * X, axis=1)
    n_candidates = min(n_neighbors + _SPARE_CANDIDATES, n_samples - 1)
    block = max(1, _DEVICE_BLOCK_ELEMENTS // max(n_samples, n_candidates * X.shape[1]))
    positions = like(np.arange(n_samples), X, dtype=xp.int64)
    indices, distances = [], []
    for start in range(0, n_samples, block):
        rows = slice(start, min(start + block, n_samples))
        approximate = squared_norms - 2 * (X[rows, :] @ X.mT)
        itself = positions[rows][:, None] == positions[None, :]
        approximate = xp.where(itself, xp.asarray(xp.inf, dtype=X.dtype), approximate)
        candidates = xp.sort(smallest_per_row(approximate, n_candidates), axis=1)
        neighbors = xp.take(X, xp.reshape(candidates, (-1,)), axis=0)
        neighbors = xp.reshape(neighbors, (*candidates.shape, X.shape[1]))
        differences = xp.astype(neighbors - X[rows, None, :], xp.float64)
        exact = xp.sum(differences * differences, axis=2)
        order = xp.argsort(exact, axis=1, stable=True)[:, :n_neighbors]
        indices.append(xp.take_along_axis(candidates, order, axis=1))
        distances.append(xp.take_along_axis(exact, order, axis=1))
    indices, distances = xp.concat(indices), xp.concat(distances)
    if bandwidth == "median":
        bandwidth = median_bandwidth(to_numpy(distances[:, n_neighbors - 1 :]))
    weights = xp.exp(distances / (-2 * bandwidth**2))
    mutual = []
    for start in range(0, n_samples, block):
        rows = slice(start, min(start + block, n_samples))
        listed = xp.reshape(indices[rows, :], (-1,))
        theirs = xp.reshape(
            xp.take(indices, listed, axis=0), (rows.stop - start, n_neighbors, n_neighbors)
        )
        mutual.append(xp.any(theirs == positions[rows][:, None, None], axis=2))
    weights = xp.where(xp.concat(mutual), weights / 2, weights)
    return NeighborGraph(indices, weights), float(bandwidth)


def neighbor_laplacian_gram(X, graph):
    """:func:`laplacian_gram` for a :class:`NeighborGraph`, in blocks, in float64."""
    xp = namespace(X)
    degrees = graph.degrees()
    block = max(1, _DEVICE_BLOCK_ELEMENTS // (graph.indices.shape[1] * X.shape[1]))
    cross = degree_gram = degree_sum = 0
    for start in range(0, X.shape[0], block):
        rows = slice(start, min(start + block, X.shape[0]))
        here = xp.astype(X[rows, :], xp.float64)
        weighted = degrees[rows][:, None] * here
        degree_gram = degree_gram + here.mT @ weighted
        degree_sum = degree_sum + xp.sum(weighted, axis=0)
        cross = cross + here.mT @ graph.half_products(X, rows)
    return degree_gram - cross - cross.mT, degree_gram, degree_sum, float(xp.sum(degrees))
