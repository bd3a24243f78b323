"""Canonical correlations between a few features and a target, for one node of a tree."""

import numpy as np
from scipy.linalg.lapack import dgeqp3, dtrtrs

RANK_TOLERANCE = 1e-4


def pivoted_triangle(A):
    """Leading triangle of the pivoted QR factorization of ``A``, cut at its numerical rank.

    Returns
    -------
    R : ndarray of shape (rank, rank)
        Upper triangle with ``A[:, pivots].T @ A[:, pivots] = R.T @ R``.
    pivots : ndarray of shape (rank,)
        The columns of ``A`` it belongs to.
    """
    factor, pivots, *_ = dgeqp3(A)
    diagonal = np.abs(factor.diagonal())
    rank = np.count_nonzero(diagonal > RANK_TOLERANCE * diagonal[0])
    return factor[:rank, :rank], pivots[:rank] - 1


def orthonormal_basis(Y):
    """Orthonormal basis of the columns of ``Y`` after centring, of shape (n_samples, rank)."""
    centered = Y - Y.mean(axis=0)
    R, pivots = pivoted_triangle(centered)
    if not R.size:
        return np.empty((len(Y), 0))
    basis, _ = dtrtrs(R, centered[:, pivots].T, trans=1)
    return basis.T


def canonical_directions(X, target_basis, target_rank):
    r"""Directions of ``X`` with the largest correlation to a target.

    With the centered block :math:`X \Pi = Q_x R_x` (pivoted QR) and an orthonormal basis
    :math:`Q_y` of the targets, the singular vectors of :math:`Q_y^T Q_x = U \Sigma V^T` give
    the directions :math:`\Pi R_x^{-1} V`. :math:`Q_x` is never formed:
    :math:`Q_y^T Q_x = (Q_y^T X \Pi) R_x^{-1}`.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    target_basis : ndarray of shape (n_samples, n_basis)
        Orthonormal columns that span the targets. The constant vector may lie in their span,
        since it is orthogonal to the centered ``X``.
    target_rank : int
        Rank of the centered targets.

    Returns
    -------
    directions : ndarray of shape (n_features, n_directions)
        In order of decreasing correlation. The projections of the centered ``X`` are
        orthonormal.
    correlations : ndarray of shape (n_directions,)
        The canonical correlations.
    """
    n_features = X.shape[1]
    centered = X - X.mean(axis=0)
    R, pivots = pivoted_triangle(centered)
    rank = min(len(pivots), target_rank)
    if rank == 0:
        return np.empty((n_features, 0)), np.empty(0)
    cross = target_basis.T @ centered[:, pivots]
    whitened, _ = dtrtrs(R, cross.T, trans=1)
    left, correlations, _ = np.linalg.svd(whitened, full_matrices=False)
    directions = np.zeros((n_features, rank))
    directions[pivots], _ = dtrtrs(R, left[:, :rank])
    return directions, correlations[:rank]
