"""Graphs that tests compare with, and how far a graph is from another."""

import numpy as np

from jplay.core.graph import heat_graph, sum_over_edges


def heat_affinity(X, n_neighbors=10, bandwidth="median"):
    """Symmetric nearest-neighbor graph with weights exp(-|x_i - x_j|^2 / (2 t^2)), and t."""
    return heat_graph(X, n_neighbors, bandwidth, "exact")


def gram_error(X, affinity, exact_affinity):
    """Relative error of X^T L X that one graph causes in the place of another."""
    gram, exact = (sum_over_edges(X, graph).laplacian_gram for graph in (affinity, exact_affinity))
    return float(np.linalg.norm(gram - exact) / np.linalg.norm(exact))
