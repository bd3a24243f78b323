"""Euclidean projections on the constraint sets of the model (Eqs. 14 and 15)."""

from jplay._array_api import namespace


def project_nonnegative(V):
    """Nearest matrix with non-negative entries, ``max(V, 0)`` (Eq. 14)."""
    xp = namespace(V)
    return xp.where(V > 0, V, xp.zeros_like(V))


def project_unit_ball(V, radius=1.0):
    """Nearest matrix whose rows have Euclidean norm at most ``radius`` (Eq. 15).

    Parameters
    ----------
    V : array of shape (n_samples, n_out)
    radius : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> project_unit_ball(np.array([[3.0, 4.0], [0.3, 0.4]]))
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """
    xp = namespace(V)
    norms = xp.linalg.vector_norm(V, axis=-1, keepdims=True)
    return V / xp.where(norms > radius, norms / radius, xp.ones_like(norms))
