"""Graphs that tests compare with, and how far a graph is from another."""

import numpy as np

from jplay.numerics.graph import (
    laplacian_gram,
    median_bandwidth,
    nearest_neighbors,
    symmetric_affinity,
)


def heat_affinity(X, n_neighbors=10, bandwidth="median"):
    """Symmetric nearest-neighbor graph with weights exp(-|x_i - x_j|^2 / (2 t^2)), and t."""
    indices, squared_distances = nearest_neighbors(X, n_neighbors)
    if bandwidth == "median":
        bandwidth = median_bandwidth(squared_distances)
    weights = np.exp(squared_distances / (-2 * bandwidth**2))
    return symmetric_affinity(indices, weights), float(bandwidth)


def gram_error(X, affinity, exact_affinity):
    """Relative error of X^T L X that one graph causes in the place of another."""
    X = np.asarray(X, dtype=np.float64)
    gram, exact = (laplacian_gram(X, graph)[0] for graph in (affinity, exact_affinity))
    return float(np.linalg.norm(gram - exact) / np.linalg.norm(exact))
