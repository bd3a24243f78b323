"""Neighbour graphs of many small sets of samples at once, as few large array operations.

Sets lie in one array, one after the other along its first axis, with zero rows below those that
have fewer samples. All graphs are one graph over all rows, none of whose edges leaves a set.
"""

import numpy as np

from jplay._array_api import Array, like, namespace, smallest_per_row, to_numpy
from jplay.numerics.graph import NeighborGraph, median_bandwidth, symmetric_lists

_BLOCK_ELEMENTS = 2**26  # of neighbours' features at a time; 512 MiB in double precision


def stacked_graphs(X: Array, n_rows: np.ndarray, n_neighbors: int) -> tuple[NeighborGraph, list]:
    """Symmetric graph with heat-kernel weights of every set, with the median bandwidth of each.

    Distances come from products in double precision around the mean of each set.

    Parameters
    ----------
    X : array of shape (n_sets, n_samples, n_features)
    n_rows : ndarray of int of shape (n_sets,)
        Samples of each set; what lies below is empty.
    n_neighbors : int
        Less than each of them.

    Returns
    -------
    graph : NeighborGraph
        Over ``n_sets * n_samples`` rows; those of empty rows have weight zero.
    bandwidths : list of float
    """
    xp = namespace(X)
    n_sets, n_samples, _ = X.shape
    filled = like(np.arange(n_samples) < n_rows[:, None], X, dtype=xp.bool)
    X = xp.astype(X, xp.float64)
    counts = like(n_rows[:, None, None], X)
    Z = X - xp.sum(X, axis=1, keepdims=True) / counts
    norms = xp.sum(Z * Z, axis=2)
    # An empty row is no neighbour of any other, and no sample one of itself.
    norms = xp.where(filled, norms, xp.full_like(norms, xp.inf))
    distances = norms[:, :, None] - 2 * (Z @ Z.mT) + norms[:, None, :]
    own = like(np.eye(n_samples, dtype=bool), X, dtype=xp.bool)
    distances = xp.where(own, xp.full_like(distances, xp.inf), distances)
    columns, squares = smallest_per_row(
        xp.reshape(distances, (n_sets * n_samples, n_samples)), n_neighbors
    )
    squares = xp.where(squares > 0, squares, xp.zeros_like(squares))
    farthest = to_numpy(xp.reshape(xp.max(squares, axis=1), (n_sets, n_samples)))
    bandwidths = [
        median_bandwidth(own[:count, None]) for own, count in zip(farthest, n_rows, strict=True)
    ]
    widths = like(np.repeat(bandwidths, n_samples)[:, None], X)
    first = like(np.repeat(np.arange(n_sets) * n_samples, n_samples)[:, None], columns)
    weights = xp.exp(squares / (-2 * widths**2))
    return symmetric_lists(columns + first, weights), bandwidths


def stacked_laplacian_grams(
    X: Array, graph: NeighborGraph
) -> tuple[Array, Array, Array, np.ndarray]:
    """:func:`.graph.laplacian_gram` of every set, in float64.

    Returns
    -------
    grams : array of shape (n_sets, n_features, n_features)
        ``X^T (D - W) X``.
    degree_grams : array of shape (n_sets, n_features, n_features)
        ``X^T D X``.
    degree_sums : array of shape (n_sets, n_features)
        ``X^T D 1``.
    total_degrees : ndarray of shape (n_sets,)
    """
    xp = namespace(X)
    n_sets, n_samples, n_features = X.shape
    X = xp.astype(X, xp.float64)
    flat = xp.reshape(X, (n_sets * n_samples, n_features))
    block = max(1, _BLOCK_ELEMENTS // (graph.indices.shape[1] * n_features))
    halves = xp.concat(
        [
            graph.half_products(flat, slice(start, min(start + block, flat.shape[0])))
            for start in range(0, flat.shape[0], block)
        ]
    )
    degrees = xp.reshape(graph.degrees(), (n_sets, n_samples))
    weighted = degrees[:, :, None] * X
    degree_grams = X.mT @ weighted
    cross = X.mT @ xp.reshape(halves, X.shape)
    total_degrees = to_numpy(xp.sum(degrees, axis=1))
    return degree_grams - cross - cross.mT, degree_grams, xp.sum(weighted, axis=1), total_degrees
