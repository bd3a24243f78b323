"""Nearest-neighbour graphs with heat-kernel weights, always sparse."""

import numpy as np
import scipy.sparse

_BLOCK_ELEMENTS = 4_000_000
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
