"""Proximal maps: constraints of the model (Eqs. 14 and 15), sparse entries and columns."""

from jplay._array_api import Array, namespace


def project_nonnegative(V: Array) -> Array:
    """Nearest matrix with non-negative entries, ``max(V, 0)`` (Eq. 14)."""
    xp = namespace(V)
    return xp.where(V > 0, V, xp.zeros_like(V))


def project_unit_ball(V: Array, radius: float = 1.0) -> Array:
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


def project_constraints(V: Array, nonnegative: bool, unit_ball: bool) -> Array:
    """Nearest matrix in both constraint sets at once: clip at zero, then shrink the rows.

    The order matters, and this one is exact: for a convex cone and a ball around its apex, the
    nearest point of their intersection is the nearest point of the cone, shrunk into the ball.
    """
    if nonnegative:
        V = project_nonnegative(V)
    return project_unit_ball(V) if unit_ball else V


def shrink_entries(V: Array, threshold: Array) -> Array:
    r"""Proximal map of :math:`t \|V\|_1`: every entry comes nearer to zero by ``t``, or is zero.

    Examples
    --------
    >>> import numpy as np
    >>> shrink_entries(np.array([[3.0, -0.3], [-4.0, 0.5]]), 1.0)
    array([[ 2.,  0.],
           [-3.,  0.]])
    """
    return project_nonnegative(V - threshold) - project_nonnegative(-V - threshold)


def shrink_columns(V: Array, threshold: Array) -> Array:
    r"""Proximal map of :math:`\sum_j t_j \|v_j\|`, a sum over the columns of a matrix.

    Every column loses its threshold in length; one that is no longer than it becomes zero.

    Parameters
    ----------
    V : array of shape (n_out, n_in)
    threshold : array of shape (n_in,)
        Non-negative.

    Examples
    --------
    >>> import numpy as np
    >>> shrink_columns(np.array([[3.0, 0.3], [4.0, 0.4]]), np.array([1.0, 1.0]))
    array([[2.4, 0. ],
           [3.2, 0. ]])
    """
    xp = namespace(V)
    norms = xp.linalg.vector_norm(V, axis=0)
    kept = norms > threshold
    share = 1 - threshold / xp.where(kept, norms, xp.ones_like(norms))
    return V * xp.where(kept, share, xp.zeros_like(share))
