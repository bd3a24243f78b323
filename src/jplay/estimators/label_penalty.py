"""Penalties on the label projection other than the ridge of Eq. 10."""

from dataclasses import dataclass

from jplay.core.arrays import Array, identity, inner, namespace, solve_positive
from jplay.core.checks import check_positive
from jplay.core.objective import add_ridge

MAX_ROUNDS = 200
"""Maximum number of rounds of coordinate descent; most problems need fewer than ten."""
SWEEPS = 2
"""Sweeps over the columns between two solutions for the signs found."""
TOLERANCE = 1e-9
"""Largest change of an entry, relative to the largest entry, that counts as none."""


@dataclass(frozen=True)
class LabelPenalty:
    r"""Penalty on the label projection :math:`P`, for the parameter ``gamma`` of :class:`JPlay`.

    The penalty is :math:`\tfrac r2 \|P\|_F^2 + a \|P\|_1`. With absolute values some entries of
    ``coef_`` are zero: each class depends on few components. That takes the fast solver.

    Parameters
    ----------
    ridge : float, default=0.1
        The weight :math:`r` of the squares; a number as ``gamma`` is this weight alone.
    absolute : float, default=0.0
        The weight :math:`a` of the absolute values.

    Examples
    --------
    >>> from jplay import JPlay, LabelPenalty
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = JPlay(4, gamma=LabelPenalty(absolute=2.0)).fit(X, y)
    >>> int((model.coef_ == 0).sum()) > 0
    True
    """

    ridge: float = 0.1
    absolute: float = 0.0

    def __post_init__(self) -> None:
        for name, weight in (("ridge", self.ridge), ("absolute", self.absolute)):
            if weight != 0:
                check_positive(name, weight, "0 or above")

    def solve(self, B: Array, C: Array, alpha: Array) -> Array:
        """Return the minimizer of the prediction loss and the penalty for given features."""
        system = add_ridge(B, self.ridge, alpha)
        if not self.absolute:
            return solve_positive(system, alpha * C.mT).mT
        return solve_lasso(system, alpha * C, self.absolute)

    def value(self, P: Array) -> Array:
        """Return the penalty, of shape (1, 1)."""
        absolute = namespace(P).sum(abs(P), axis=(-2, -1), keepdims=True)
        return self.ridge / 2 * inner(P, P) + self.absolute * absolute


def solve_lasso(H: Array, R: Array, weight: float) -> Array:
    r"""Minimize :math:`\tfrac12 \mathrm{tr}(P H P^T) - \mathrm{tr}(P R^T) + w \|P\|_1`.

    Coordinate descent, one column after the other, finds which entries are zero. With those and
    the signs of the others the rest is a linear system, whose solution a row takes if it lowers
    the objective of that row. If zeros and signs were right the row is exact; otherwise the descent
    goes on.

    Parameters
    ----------
    H : array of shape (n_columns, n_columns)
        Positive definite.
    R : array of shape (n_rows, n_columns)
    weight : float
        The weight :math:`w`, positive.

    Returns
    -------
    P : array of shape (n_rows, n_columns)

    Examples
    --------
    >>> import numpy as np
    >>> solve_lasso(np.eye(3), np.array([[3.0, -0.5, -2.0]]), 1.0)
    array([[ 2.,  0., -1.]])
    """
    xp = namespace(H)
    curvature = xp.linalg.diagonal(H)[..., None, :]
    unit = identity(H.shape[-1], H)

    def compute_values(P: Array) -> Array:
        value = 0.5 * P * (P @ H) - P * R + weight * xp.abs(P)
        return xp.sum(value, axis=-1, keepdims=True)

    def minimize_entries(P: Array, gradient: Array) -> Array:
        """Return each entry as the minimizer with the others fixed."""
        V, threshold = P - gradient / curvature, weight / curvature
        return xp.sign(V) * xp.maximum(xp.abs(V) - threshold, 0 * V)

    P = solve_positive(H, R.mT).mT
    for _ in range(MAX_ROUNDS):
        gradient = P @ H - R
        for column in list(range(H.shape[-1])) * SWEEPS:
            change = (minimize_entries(P, gradient) - P) * unit[column, :]
            P, gradient = P + change, gradient + change @ H
        signed = solve_nonzero(H, R - weight * xp.sign(P), xp.astype(P != 0, P.dtype))
        P = xp.where(compute_values(signed) <= compute_values(P), signed, P)
        change = xp.max(xp.abs(minimize_entries(P, P @ H - R) - P))
        if float(change) <= TOLERANCE * float(xp.max(xp.abs(P))):
            break
    return P


def solve_nonzero(H: Array, R: Array, nonzero: Array) -> Array:
    """Solve ``P H = R`` in the nonzero entries of each row; the others stay zero."""
    unit = identity(H.shape[-1], H)
    both = nonzero[..., :, None] * nonzero[..., None, :]
    systems = both * H[..., None, :, :] + (1 - nonzero)[..., None] * unit
    return namespace(H).linalg.solve(systems, (nonzero * R)[..., None])[..., 0]
