r"""ADMM for one layer with everything else fixed (Algorithm 2 and Eqs. 18 to 20).

The layer problem, in rows (Eq. 12, and Eq. 18 with labels), is

.. math::

    \min \tfrac12 \|X - H G\|_F^2 + \tfrac\alpha2 \|Y - H P_l^T\|_F^2
    + \tfrac\omega2 \mathrm{tr}(\Theta X^T L X \Theta^T)
    \quad \text{with} \quad H = Q = S = X \Theta^T, \; G = \Theta, \; Q \ge 0, \; \|s_k\| \le 1.

``H`` and ``G`` take the place of the features and of the decoder in the reconstruction term, which
makes each of them a least-squares problem; ``Q`` and ``S`` carry one constraint each. Every block
below minimises the augmented Lagrangian (Eq. 13) over one of them with the others fixed.

``H`` and its multiplier start as linear functions of ``[X, Y]`` and every update keeps them so.
Nothing but ``H^T X``, ``H^T H`` and norms enters the other updates, and these depend on second
moments alone: ``H`` is therefore kept on compressed samples, a few rows with the same moments,
and gives the iterates of the paper all the same. Only ``Q`` and ``S``, which are not linear, pass
over the real samples.
"""

from dataclasses import dataclass

import numpy as np

from jplay._array_api import Array, eigh_generalized, identity, namespace, solve_positive
from jplay.numerics.eigen import symmetrize
from jplay.solvers.result import LayerResult, Status
from jplay.solvers.samples import ConstraintPass
from jplay.solvers.schedules import LayerSchedule


@dataclass(frozen=True, eq=False)
class LayerProblem:
    """One layer of the model with its neighbours fixed.

    ``X`` (n_rows, n_in) and ``Y`` (n_rows, n_outputs) are compressed samples; ``coef``
    (n_outputs, n_out) leads from this layer to the labels (``P_l`` of Eq. 19), ``None`` without
    labels. ``manifold_weight`` is ``eta`` in pre-training and ``beta`` after it.
    """

    X: Array
    laplacian_gram: Array
    manifold_weight: float
    n_constraints: int
    Y: Array = None
    coef: Array = None
    alpha: float = 0.0
    reconstruction: bool = True


class ThetaSystem:
    """Factor ``w M + mu ((k + 1) X^T X + I)`` once for every ``mu``.

    The update of ``Theta`` (Algorithm 2, step 3) has this matrix, with ``k`` inequality splits
    and ``H`` coupled to ``X Theta^T`` and ``G`` to ``Theta``; the paper's 3 is ``k + 1`` with
    both constraints. Only ``mu`` changes over the iterations. With ``M V = N V diag(lambda)``,
    ``N = (k + 1) X^T X + I`` and ``V^T N V = I`` the inverse is
    ``V diag(1 / (w lambda + mu)) V^T``, so one eigendecomposition serves all of them. ``N`` is
    positive definite by its identity, and ``lambda >= 0``: no divisor is below ``mu``.
    """

    def __init__(self, X: Array, laplacian_gram: Array, n_constraints: int) -> None:
        gram = (n_constraints + 1) * (X.mT @ X) + identity(X.shape[1], X)
        self.values, self.vectors = eigh_generalized(symmetrize(laplacian_gram), gram)

    def solve(self, right_hand_side: Array, manifold_weight: float, mu: float) -> Array:
        scale = manifold_weight * self.values + mu
        return ((right_hand_side @ self.vectors) / scale) @ self.vectors.mT


def update_H(problem: LayerProblem, Z: Array, G: Array, dual_H: Array, mu: float) -> Array:
    """Minimise over the split of the projected samples (Eq. 20), in rows.

    ``H (alpha P_l^T P_l + G G^T + mu I) = alpha Y P_l + X G^T + mu Z - dual_H``.
    """
    system = mu * identity(G.shape[0], G)
    right = mu * Z - dual_H
    if problem.reconstruction:
        system = system + G @ G.mT
        right = right + problem.X @ G.mT
    if problem.coef is not None:
        system = system + problem.alpha * (problem.coef.mT @ problem.coef)
        right = right + problem.alpha * (problem.Y @ problem.coef)
    return solve_positive(system, right.mT).mT


def update_G(
    problem: LayerProblem, theta: Array, H: Array, HX: Array, dual_G: Array, mu: float
) -> Array:
    """Minimise over the split of the decoder (Algorithm 2, step 5).

    ``(H^T H + mu I) G = H^T X + mu Theta - dual_G``; where the algorithm box has ``X_i`` the
    input ``X_{l-1}`` is meant. Without the reconstruction term nothing but the split's own
    coupling is left, which makes it a proximal term on ``theta``.
    """
    if not problem.reconstruction:
        return theta - dual_G / mu
    system = H.mT @ H + mu * identity(H.shape[1], H)
    return solve_positive(system, HX + mu * theta - dual_G)


def solve_layer(
    problem: LayerProblem,
    constraint_pass: ConstraintPass,
    theta: Array,
    schedule: LayerSchedule,
    *,
    system: ThetaSystem | None = None,
) -> LayerResult:
    """Run ADMM on one layer until all four primal residuals are below the tolerance.

    The penalty doubles with each iteration, as published, so that the residuals shrink whatever
    the objective does: a few dozen iterations end the solve, and where it ends depends on where
    it began.

    Parameters
    ----------
    problem : LayerProblem
    constraint_pass : ConstraintPass
        Fresh pass over the real samples of this layer's input.
    theta : array of shape (n_out, n_in)
        Start; the split ``H`` begins at ``X Theta^T``, everything else at zero.
    schedule : LayerSchedule
    system : ThetaSystem, default=None
        Reused if the layer's input has not changed.

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
    residuals: list[tuple[float, float, float, float]] = []
    converged = False
    while len(residuals) < schedule.max_iter and not converged:
        mu_next = schedule.next_mu(mu)
        # The order is that of the algorithm box: Theta, H, G, both inequality splits (in the
        # pass, which also prepares their part of the next right-hand side), multipliers.
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
        converged = max(residuals[-1]) < schedule.tol
        mu = mu_next
    status = Status(
        converged,
        f"all residuals below {schedule.tol:g}"
        if converged
        else f"largest residual {max(residuals[-1]):.2g} after {schedule.max_iter} inner "
        f"iterations, above inner_tol={schedule.tol:g}: increase inner_max_iter or inner_tol",
    )
    return LayerResult(theta, len(residuals), np.asarray(residuals), status)
