"""ADMM for one layer with everything else fixed (Algorithm 2 and Eqs. 18 to 20).

The splits ``H = X Theta^T`` and ``G = Theta`` are updated on compressed samples (a few rows
with the same second moments); only the two inequality splits pass over the real ones.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from jplay._array_api import eigh_generalized, identity, namespace, solve_positive
from jplay.numerics.eigen import symmetrize
from jplay.solvers.result import LayerResult, Status


@dataclass(frozen=True)
class PenaltySchedule:
    """Growth of the penalty ``mu`` over the iterations of one solve."""

    mu: float = 1e-3
    growth: float = 2.0
    mu_max: float = 1e6

    def next(self, mu):
        return min(self.growth * mu, self.mu_max)


@dataclass(frozen=True)
class LayerProblem:
    """One layer of the model with its neighbours fixed.

    ``X`` (n_rows, n_in) and ``Y`` (n_rows, n_outputs) are compressed samples; ``coef``
    (n_outputs, n_out) leads from this layer to the labels, ``None`` without labels.
    """

    X: Any
    laplacian_gram: Any
    manifold_weight: float
    n_constraints: int
    Y: Any = None
    coef: Any = None
    alpha: float = 0.0
    reconstruction: bool = True


class ThetaSystem:
    """Factor ``w M + mu ((k + 1) X^T X + I)`` once for every ``mu``.

    One generalised eigendecomposition serves all iterations, since only ``mu`` changes.
    """

    def __init__(self, X, laplacian_gram, n_constraints):
        gram = (n_constraints + 1) * (X.mT @ X) + identity(X.shape[1], X)
        self.values, self.vectors = eigh_generalized(symmetrize(laplacian_gram), gram)

    def solve(self, right_hand_side, manifold_weight, mu):
        scale = manifold_weight * self.values + mu
        return ((right_hand_side @ self.vectors) / scale) @ self.vectors.mT


def update_H(problem, Z, G, dual_H, mu):
    """Minimise over the split of the projected samples (Eq. 20), in rows."""
    system = mu * identity(G.shape[0], G)
    right = mu * Z - dual_H
    if problem.reconstruction:
        system = system + G @ G.mT
        right = right + problem.X @ G.mT
    if problem.coef is not None:
        system = system + problem.alpha * (problem.coef.mT @ problem.coef)
        right = right + problem.alpha * (problem.Y @ problem.coef)
    return solve_positive(system, right.mT).mT


def update_G(problem, theta, H, HX, dual_G, mu):
    """Minimise over the split of the decoder (Algorithm 2, step 5).

    Without the reconstruction term nothing but the split's own coupling is left, which makes
    it a proximal term on ``theta``.
    """
    if not problem.reconstruction:
        return theta - dual_G / mu
    system = H.mT @ H + mu * identity(H.shape[1], H)
    return solve_positive(system, HX + mu * theta - dual_G)


def solve_layer(problem, constraint_pass, theta, *, schedule, max_iter, tol, system=None):
    """Run ADMM on one layer until all four primal residuals are below ``tol``.

    Parameters
    ----------
    problem : LayerProblem
    constraint_pass : ConstraintPass
        Fresh pass over the real samples of this layer's input.
    theta : array of shape (n_out, n_in)
        Start; the split ``H`` begins at ``X Theta^T``, everything else at zero.
    schedule : PenaltySchedule
    max_iter : int
    tol : float
    system : ThetaSystem, default=None
        Reused where the layer's input has not changed.

    Returns
    -------
    LayerResult
    """
    xp = namespace(theta)
    X = problem.X
    if system is None:
        system = ThetaSystem(X, problem.laplacian_gram, problem.n_constraints)
    H = X @ theta.mT
    HX = H.mT @ X
    G, dual_G, dual_HX, pull = (xp.zeros_like(theta) for _ in range(4))
    dual_H = xp.zeros_like(H)
    mu = schedule.mu
    residuals = []
    converged = False
    while len(residuals) < max_iter and not converged:
        mu_next = schedule.next(mu)
        right = mu * HX + dual_HX + mu * G + dual_G + pull
        theta = system.solve(right, problem.manifold_weight, mu)
        Z = X @ theta.mT
        H = update_H(problem, Z, G, dual_H, mu)
        HX = H.mT @ X
        G = update_G(problem, theta, H, HX, dual_G, mu)
        pull, pos_residual, ball_residual = constraint_pass(theta, mu, mu_next)
        gap_H, gap_G = H - Z, G - theta
        dual_H = dual_H + mu * gap_H
        dual_HX = dual_H.mT @ X
        dual_G = dual_G + mu * gap_G
        residuals.append(
            (
                float(xp.linalg.vector_norm(gap_H)),
                float(xp.linalg.vector_norm(gap_G)),
                pos_residual,
                ball_residual,
            )
        )
        converged = max(residuals[-1]) < tol
        mu = mu_next
    status = Status(
        converged,
        f"all residuals below {tol:g}"
        if converged
        else f"largest residual {max(residuals[-1]):.2g} after {max_iter} inner iterations, "
        f"above inner_tol={tol:g}: increase inner_max_iter or inner_tol",
    )
    return LayerResult(theta, len(residuals), np.asarray(residuals), status)
