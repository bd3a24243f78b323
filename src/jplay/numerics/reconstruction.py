"""Reconstruction of every sample from its nearest neighbours, as in locally linear embedding."""

import numpy as np

_BLOCK_ELEMENTS = 4_000_000


def reconstruction_weights(differences: np.ndarray, reg: float) -> np.ndarray:
    """Weights that sum to one and reconstruct each sample from its neighbours best.

    With the neighbours' differences from the sample ``E`` the error is ``|E^T w|^2 = w^T E E^T w``.
    Under ``1^T w = 1`` it is least at a multiple of ``(E E^T)^-1 1``.

    Parameters
    ----------
    differences : ndarray of shape (n_samples, n_neighbors, n_features)
        Neighbours minus sample.
    reg : float
        Ridge, as a fraction of the trace of each local Gram matrix.

    Returns
    -------
    weights : ndarray of shape (n_samples, n_neighbors)
    """
    n_neighbors = differences.shape[1]
    gram = differences @ differences.mT
    trace = np.trace(gram, axis1=1, axis2=2)
    # All neighbours are duplicates of the sample: any weights reconstruct it.
    ridge = np.where(trace > 0, reg * trace, 1.0)
    diagonal = np.arange(n_neighbors)
    gram[:, diagonal, diagonal] += ridge[:, None]
    weights = np.linalg.solve(gram, np.ones((len(gram), n_neighbors, 1)))[..., 0]
    return weights / weights.sum(axis=1, keepdims=True)


def reconstruction_residuals(X: np.ndarray, neighbors: np.ndarray, reg: float) -> np.ndarray:
    """``(I - S) X``, the part of each sample that its neighbours do not reconstruct.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    neighbors : ndarray of shape (n_samples, n_neighbors)
        Indices of the neighbours of each sample.
    reg : float
        See :func:`reconstruction_weights`.

    Returns
    -------
    residuals : ndarray of shape (n_samples, n_features)
    """
    n_samples, n_features = X.shape
    residuals = np.empty_like(X)
    height = max(1, _BLOCK_ELEMENTS // (neighbors.shape[1] * n_features))
    for start in range(0, n_samples, height):
        rows = slice(start, start + height)
        differences = X[neighbors[rows]] - X[rows, None, :]
        weights = reconstruction_weights(differences, reg)
        residuals[rows] = -np.einsum("ij,ijk->ik", weights, differences)
    return residuals
