"""Gaussian kernels between samples and a few centres."""

import numpy as np


def squared_distances(A, B):
    """Squared distances between the rows of ``A`` (n, p) and of ``B`` (b, p), shape (n, b)."""
    distances = np.einsum("ij,ij->i", A, A)[:, None] + np.einsum("ij,ij->i", B, B)
    distances -= 2 * (A @ B.T)
    return np.maximum(distances, 0, out=distances)


def median_distance(distances):
    """Root of the median of the ``distances`` (squared) that are not zero; 1 if all are."""
    positive = distances[distances > 1e-12 * distances.max(initial=0.0)]
    return float(np.sqrt(np.median(positive))) if positive.size else 1.0


def gaussian(distances, width):
    """``exp(-distances / (2 width^2))`` of squared ``distances``."""
    return np.exp(distances / (-2 * width**2))


def weighted_pair_products(weights, A, A_centers, B, B_centers):
    """``sum_ik weights_ik (a_i - a_k)(b_i - b_k)^T`` over samples ``i`` and centres ``k``.

    Parameters
    ----------
    weights : ndarray of shape (n, b)
    A, A_centers : ndarrays of shape (n, p), (b, p)
    B, B_centers : ndarrays of shape (n, q), (b, q)

    Returns
    -------
    products : ndarray of shape (p, q)
    """
    rows = weights.sum(axis=1)[:, None] * A - weights @ A_centers
    columns = weights.sum(axis=0)[:, None] * A_centers - weights.T @ A
    return rows.T @ B + columns.T @ B_centers
