"""Least squares with a penalty on absolute values, from second moments."""

from jplay._array_api import Array, identity, namespace, solve_positive
from jplay.numerics.prox import shrink_entries

_SWEEPS = 2  # over the columns, between two solutions on the entries that are not zero
_MAX_ROUNDS = 200
_TOLERANCE = 1e-9  # of the largest entry


def sparse_rows(system: Array, right: Array, weight: float) -> Array:
    r"""Minimise :math:`\tfrac12 \mathrm{tr}(P H P^T) - \mathrm{tr}(P R^T) + w \|P\|_1`.

    Coordinate descent, one column after the other, finds out which entries are zero. With those
    and the signs of the others the rest is a linear system, whose solution a row takes if it lowers
    the objective of that row. If the guess was right the row is exact; if not, the descent goes
    on.

    Parameters
    ----------
    system : array of shape (..., n_columns, n_columns)
        ``H``, positive definite.
    right : array of shape (..., n_rows, n_columns)
        ``R``.
    weight : float
        ``w``, positive.

    Returns
    -------
    array of shape (..., n_rows, n_columns)

    Examples
    --------
    >>> import numpy as np
    >>> sparse_rows(np.eye(3), np.array([[3.0, -0.5, -2.0]]), 1.0)
    array([[ 2.,  0., -1.]])
    """
    xp = namespace(system)
    curvature = xp.linalg.diagonal(system)[..., None, :]
    unit = identity(system.shape[-1], system)

    def costs(P: Array) -> Array:
        cost = 0.5 * P * (P @ system) - P * right + weight * xp.abs(P)
        return xp.sum(cost, axis=-1, keepdims=True)

    def best_alone(P: Array, gradient: Array) -> Array:
        """Every entry as it would be best if the others stayed."""
        return shrink_entries(P - gradient / curvature, weight / curvature)

    P = solve_positive(system, right.mT).mT
    for _ in range(_MAX_ROUNDS):
        gradient = P @ system - right
        for column in list(range(system.shape[-1])) * _SWEEPS:
            change = (best_alone(P, gradient) - P) * unit[column, :]
            P, gradient = P + change, gradient + change @ system
        solved = _with_signs(system, right - weight * xp.sign(P), xp.astype(P != 0, P.dtype))
        P = xp.where(costs(solved) <= costs(P), solved, P)
        off = float(xp.max(xp.abs(best_alone(P, P @ system - right) - P)))
        if off <= _TOLERANCE * float(xp.max(xp.abs(P))):
            break
    return P


def _with_signs(system: Array, right: Array, kept: Array) -> Array:
    """Solution of every row in its kept entries; the others are zero."""
    unit = identity(system.shape[-1], system)
    inside = kept[..., :, None] * kept[..., None, :]
    own = inside * system[..., None, :, :] + (1 - kept)[..., None] * unit
    return namespace(own).linalg.solve(own, (kept * right)[..., None])[..., 0]
