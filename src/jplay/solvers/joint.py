"""The fast solver: one loop over all layers, preconditioned, on second moments.

The published schedule solves every layer problem to the end, from scratch, many times over.
Here one loop moves everything together:

* one split per layer on the intersection of both constraint sets (its projection is exact:
  clip at zero, then shrink into the ball), with a single scaled multiplier that stays warm;
* one streaming pass over the samples per iteration, through all layers at once;
* a step on every projection, from the last to the first, along the gradient of the whole
  objective and of the penalties of all layers behind it (the published layer problems leave
  out what a layer does to those behind it; without these penalties deep chains with a large
  ``alpha`` diverge), preconditioned by the Kronecker structure ``S1 (x) A + S2 (x) I`` of its
  curvature;
* a final repair that makes the projections exactly feasible by moving them a little along one
  strictly feasible direction, so that the loop need not drive the penalty to infinity.
"""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from jplay._array_api import (
    eigh_generalized,
    identity,
    is_numpy,
    like,
    linalg_errors,
    namespace,
    solve_positive,
    to_numpy,
)
from jplay.numerics.eigen import symmetrize
from jplay.numerics.objective import ObjectiveTerms
from jplay.solvers.pretraining import locality_preserving_projections, padded
from jplay.solvers.result import Progress, SolverResult, Status

_DIVERGED = 30.0  # root mean square distance of features from the unit ball


@dataclass(frozen=True)
class JointSchedule:
    """Penalty and stopping rule of the single loop.

    Features live in the unit ball, so the penalty has a natural scale: the concave part of
    the reconstruction term has curvature 2. A slowly growing penalty finds better solutions
    than a fixed one; once the objective is settled it grows fast to close the last gap. The
    loop ends when the objective is settled and the constraints are met to ``tol``, or when the
    penalty reaches ``mu_max``.
    """

    max_iter: int = 1000
    tol: float = 1e-4
    mu: float = 2.0
    growth: float = 1.06
    settled_growth: float = 1.25
    mu_max: float = 1e5
    damping: float = 0.3
    restarts: int = 4


@dataclass(frozen=True)
class Moments:
    """Second moments of the input ``Z`` of one layer."""

    A: Any
    """``Z^T Z``"""
    M: Any
    """``Z^T L Z``"""
    B: Any
    """``Z^T S Z`` with the label weights ``S``; the very array ``A`` where all weigh one."""
    C: Any
    """``Y^T S Z``"""


@dataclass(frozen=True)
class Forward:
    """Moments along the chain, and the products that the backward sweep needs again."""

    moments: list
    upstream: list
    """Product of all projections before each layer; ``None`` for the first."""
    theta_A: list
    theta_M: list
    theta_B: list


def forward(first, thetas):
    moments, upstream, theta_A, theta_M, theta_B = [first], [None], [], [], []
    for theta in thetas:
        here = moments[-1]
        all_equal = here.B is here.A
        theta_A.append(theta @ here.A)
        theta_M.append(theta @ here.M)
        theta_B.append(theta_A[-1] if all_equal else theta @ here.B)
        A = symmetrize(theta_A[-1] @ theta.mT)
        B = A if all_equal else symmetrize(theta_B[-1] @ theta.mT)
        moments.append(Moments(A, symmetrize(theta_M[-1] @ theta.mT), B, here.C @ theta.mT))
        upstream.append(theta if upstream[-1] is None else theta @ upstream[-1])
    return Forward(moments, upstream, theta_A, theta_M, theta_B)


def ridge_coef(last, model):
    """Label projection from the moments of the last subspace (Eq. 17)."""
    unit = identity(last.B.shape[-1], last.B)
    # Without a ridge, the limit up to rounding, also where features are dependent.
    floor = 1e-12 * model.alpha * trace(last.B) + 1e-300
    system = model.alpha * last.B + (model.gamma + floor) * unit
    return solve_positive(system, model.alpha * last.C.mT).mT


def trace(matrix):
    """Trace that broadcasts against matrices."""
    xp = namespace(matrix)
    return xp.linalg.trace(matrix)[..., None, None]


def total(matrix):
    """Sum of the entries of each matrix, broadcasting against matrices."""
    xp = namespace(matrix)
    return xp.sum(matrix, axis=(-2, -1), keepdims=True)


def weighted_terms(chain, thetas, coef, label_square, model):
    """The four weighted terms of Eq. 6 from second moments, broadcasting against matrices."""
    rebuilt = manifold = 0.0 * label_square
    for here, ahead, theta in zip(chain.moments, chain.moments[1:], thetas, strict=False):
        if model.reconstruction:
            overlap = total((theta @ theta.mT) * ahead.A)
            rebuilt = rebuilt + trace(here.A) - 2 * trace(ahead.A) + overlap
        manifold = manifold + trace(ahead.M)
    last = chain.moments[-1]
    misfit = label_square - 2 * total(coef * last.C) + total((coef @ last.B) * coef)
    return (
        rebuilt / 2,
        model.alpha / 2 * misfit,
        model.beta / 2 * manifold,
        model.gamma / 2 * total(coef * coef),
    )


def objective_from_moments(chain, thetas, coef, label_square, model):
    return ObjectiveTerms(
        *(float(t[0, 0]) for t in weighted_terms(chain, thetas, coef, label_square, model))
    )


def preconditioned_step(gradient, S1, S2, basis):
    """Solve ``S1 D A + S2 D = -gradient`` with ``A = V diag(w) V^T``."""
    weights, vectors = basis
    values, modes = eigh_generalized(S1, S2)
    scale = values[..., :, None] * weights[..., None, :] + 1
    return -(modes @ ((modes.mT @ gradient @ vectors) / scale) @ vectors.mT)


def eigenbasis(A):
    xp = namespace(A)
    if is_numpy(A) and A.ndim == 2:
        weights, vectors = scipy.linalg.eigh(A, check_finite=False, driver="evd")
    else:
        weights, vectors = xp.linalg.eigh(A)
    return xp.where(weights > 0, weights, xp.zeros_like(weights)), vectors


def backward(
    chain, thetas, coef, pulls, mu, model, manifold_bound, label_bound, first_basis, damping
):
    """Step on every projection, from the last to the first, with those behind it updated.

    Parameters
    ----------
    chain : Forward
    thetas : list of arrays of shape (n_out, n_in)
    coef : array of shape (n_outputs, n_components)
    pulls : list of arrays of shape (n_out, n_features)
        From the pass over the samples: split plus scaled multiplier, times the samples.
    mu : float
    model : ModelSettings
    manifold_bound, label_bound : float
        Largest generalised eigenvalues of ``(M, A)`` and ``(B, A)`` of the samples.
    first_basis : tuple of arrays
        Eigendecomposition of the samples' ``A``.
    damping : float
    """
    xp = namespace(coef)
    alpha, beta = model.alpha, model.beta
    updated = list(thetas)
    downstream_coef = coef
    # What the layers behind cost as a quadratic form of this layer's output.
    rebuild_form = xp.zeros_like(coef.mT @ coef)
    manifold_form = beta * identity(coef.shape[-1], coef)
    penalty_form = identity(coef.shape[-1], coef)
    pull = pulls[-1]
    for layer in reversed(range(len(thetas))):
        theta, theta_A = thetas[layer], chain.theta_A[layer]
        here, out_gram = chain.moments[layer], chain.moments[layer + 1].A
        unit = identity(theta.shape[-2], theta)
        label_form = alpha * (downstream_coef.mT @ downstream_coef)
        row_gram = theta @ theta.mT
        form = rebuild_form + mu * penalty_form
        if model.reconstruction:
            form = form + row_gram - 2 * unit
        gradient = (
            form @ theta_A
            + label_form @ chain.theta_B[layer]
            + manifold_form @ chain.theta_M[layer]
            - alpha * (downstream_coef.mT @ here.C)
            - mu * (pull if layer == 0 else pull @ chain.upstream[layer].mT)
        )
        S1 = (
            label_bound * label_form
            + rebuild_form
            + manifold_bound * manifold_form
            + mu * penalty_form
        )
        S2 = (damping * trace(out_gram) / theta.shape[-2] + 1e-12) * unit
        if model.reconstruction:
            gradient = gradient + out_gram @ theta
            S1, S2 = S1 + 2 * row_gram, S2 + out_gram
        basis = first_basis if layer == 0 else eigenbasis(here.A)
        theta = theta + preconditioned_step(gradient, symmetrize(S1), S2, basis)
        updated[layer] = theta
        if layer:
            unit = identity(theta.shape[-1], theta)
            lost = unit - theta.mT @ theta
            rebuild_form = theta.mT @ rebuild_form @ theta
            if model.reconstruction:
                rebuild_form = rebuild_form + lost @ lost
            manifold_form = beta * unit + theta.mT @ manifold_form @ theta
            penalty_form = unit + theta.mT @ penalty_form @ theta
            pull = pulls[layer - 1] + theta.mT @ pull
            downstream_coef = downstream_coef @ theta
    return updated


def starting_projections(statistics, layer_sizes):
    """Locality preserving projections, then for deeper layers a choice of their features.

    A selection of non-negative features in the unit ball is itself feasible, and keeps most
    of what the layer before holds when it is chosen by pivoted QR.
    """
    theta = padded(locality_preserving_projections(statistics, layer_sizes[0]), layer_sizes[0])
    xp = namespace(theta)
    size = xp.linalg.vector_norm(statistics.X_root @ theta.mT) / math.sqrt(statistics.n_samples)
    thetas = [theta * (0.7 / size)]
    root = statistics.X_root @ theta.mT
    for n_out in layer_sizes[1:]:
        pivots = scipy.linalg.qr(to_numpy(root), mode="r", pivoting=True)[1][:n_out]
        chosen = np.eye(root.shape[1])[np.sort(pivots)]
        thetas.append(padded(like(chosen, theta), n_out))
        root = root @ thetas[-1].mT
    return thetas


def solve_joint(samples, layer_sizes, model, schedule, *, statistics=None, callback=None):
    """Fit the model by the single loop.

    Parameters
    ----------
    samples : Samples
    layer_sizes : sequence of int
    model : ModelSettings
    schedule : JointSchedule
    statistics : Statistics, default=None
        Of the same samples, where the caller has them already.
    callback : callable, default=None
        Called with a :class:`Progress` after each iteration; a true value stops.

    Returns
    -------
    SolverResult
    """
    if statistics is None:
        statistics = samples.statistics()
    starts = starting_projections(statistics, layer_sizes)
    for _ in range(schedule.restarts):
        with suppress(*linalg_errors(starts[0])):
            result = _run(samples, statistics, starts, model, schedule, callback)
            if result is not None:
                return result
        schedule = replace(schedule, mu=4 * schedule.mu)
    return SolverResult(
        thetas=[0 * theta for theta in starts],
        coef=0 * ridge_coef(forward(_first_moments(statistics), starts).moments[-1], model),
        n_iter=0,
        status=Status(False, "the iterations diverged: scale the samples to a norm near one"),
    )


def _first_moments(statistics):
    X = statistics.X_root
    X_labelled, Y_labelled = statistics.label_roots
    A = X.mT @ X
    B = A if X_labelled is X else X_labelled.mT @ X_labelled
    return Moments(A, symmetrize(statistics.laplacian_gram), B, Y_labelled.mT @ X_labelled)


def _run(samples, statistics, thetas, model, schedule, callback):
    """One attempt from ``thetas``; ``None`` when it diverges."""
    n_samples = statistics.n_samples
    first = _first_moments(statistics)
    first_basis = eigenbasis(first.A)
    label_square = total(statistics.label_roots[1] ** 2)
    manifold_bound = _largest_ratio(first.M, first_basis)
    label_bound = 1.0 if first.B is first.A else _largest_ratio(first.B, first_basis)
    sweep = samples.joint_pass([theta.shape[0] for theta in thetas], **model.constraints)
    mu, mu_before = schedule.mu, schedule.mu
    history, residuals = [], []
    status = None
    while status is None:
        pulls, gaps = sweep(thetas, mu_before / mu)
        residuals.append(gaps / math.sqrt(n_samples))
        if not math.isfinite(sum(residuals[-1])):
            return None
        chain = forward(first, thetas)
        coef = ridge_coef(chain.moments[-1], model)
        history.append(objective_from_moments(chain, thetas, coef, label_square, model))
        if not math.isfinite(history[-1].total) or max(residuals[-1]) > _DIVERGED:
            return None
        progress = Progress(
            "fine-tuning", len(history), schedule.max_iter, history[-1].total, thetas, coef
        )
        stop_requested = callback is not None and callback(progress)
        settled = _is_settled(history, n_samples * math.sqrt(1 + model.alpha), schedule.tol)
        status = _status(settled, residuals, history, schedule, mu, stop_requested)
        if status is None:
            thetas = backward(
                chain,
                thetas,
                coef,
                pulls,
                mu,
                model,
                manifold_bound,
                label_bound,
                first_basis,
                schedule.damping,
            )
            growth = schedule.settled_growth if settled else schedule.growth
            mu_before, mu = mu, min(mu * growth, schedule.mu_max)
    thetas, repaired = repair(samples, statistics, thetas, **model.constraints)
    if not repaired and status.converged:
        status = Status(
            False, "the projections could not be made exactly feasible: lower tol or alpha"
        )
    chain = forward(first, thetas)
    coef = ridge_coef(chain.moments[-1], model)
    history[-1] = objective_from_moments(chain, thetas, coef, label_square, model)
    return SolverResult(
        thetas=thetas,
        coef=coef,
        n_iter=len(residuals),
        status=status,
        objective_terms=history,
        residuals=[[np.array([[gap]]) for gap in gaps] for gaps in residuals],
    )


def _largest_ratio(M, basis):
    """Bound on ``v^T M v / v^T A v`` over the directions that ``A`` spans."""
    xp = namespace(M)
    weights, vectors = basis
    kept = weights > 1e-10 * xp.max(weights)
    scale = xp.where(kept, weights, xp.ones_like(weights)) ** -0.5
    scale = xp.where(kept, scale, xp.zeros_like(scale))
    whitened = (vectors * scale).mT @ M @ (vectors * scale)
    return float(xp.linalg.matrix_norm(symmetrize(whitened), ord=2))


def _is_settled(history, scale, tol):
    if len(history) < 2:
        return False
    return abs(history[-1].total - history[-2].total) <= tol * scale


def _status(settled, residuals, history, schedule, mu, stop_requested):
    """Status if the loop should end now, else ``None``."""
    worst = max(residuals[-1])
    if (settled or mu >= schedule.mu_max) and worst <= schedule.tol:
        return Status(True, f"objective settled, constraints met to {worst:.1g} before repair")
    if stop_requested:
        return Status(True, "stopped by a callback")
    if len(history) >= schedule.max_iter:
        return Status(
            False,
            f"no convergence within max_iter={schedule.max_iter} iterations (root mean square "
            f"constraint gap {worst:.2g}): increase max_iter or tol={schedule.tol:g}",
        )
    if mu >= schedule.mu_max and worst <= 10 * schedule.tol:
        return Status(True, f"constraints met to {worst:.1g} at the largest penalty, before repair")
    if mu >= schedule.mu_max:
        return Status(
            False,
            f"constraint gap {worst:.2g} above tol={schedule.tol:g} at the largest penalty: scale "
            "the samples to norms near one, or lower alpha",
        )
    return None


def repair(samples, statistics, thetas, *, nonnegative, unit_ball):
    """Make a nearly feasible chain exactly feasible without disturbing it.

    Let ``w = Z_m a`` be a positive combination of the last features, so that every layer
    holds it too: ``w = Z_l u_l`` with ``u_l = Theta_{l+1}^T ... Theta_m^T a``. The features of
    each layer become ``(Z_l + w nu_l^T) / s_l``, with ``nu_l`` just large enough for
    non-negativity and ``s_l`` for the unit ball; the projections that map one layer's repaired
    features to the next are known in closed form, so nothing is amplified along the chain.

    Returns
    -------
    thetas : list of arrays
    repaired : bool
        Whether such a ``w`` was found.
    """
    xp = namespace(thetas[0])
    if not nonnegative and not unit_ball:
        return thetas, True
    directions = _positive_combination(statistics, thetas)
    ratios, lowest = samples.lowest_ratios(thetas, directions[0])
    repaired = lowest > 0 or not nonnegative
    shifts = [
        xp.where(ratio < 0, -ratio, xp.zeros_like(ratio))
        if nonnegative and lowest > 0
        else xp.zeros_like(ratio)
        for ratio in ratios
    ]
    norms = samples.largest_norms(thetas, directions[0], shifts)
    scales = [max(1.0, norm) if unit_ball else 1.0 for norm in norms]
    updated = []
    shift_before, scale_before = xp.zeros_like(directions[0]), 1.0
    for theta, direction, shift, scale in zip(thetas, directions, shifts, scales, strict=False):
        reader = direction / (1 + xp.sum(shift_before * direction))
        correction = (shift - theta @ shift_before)[:, None] * reader[None, :]
        updated.append((scale_before / scale) * (theta + correction))
        shift_before, scale_before = shift, scale
    return updated, repaired


def _positive_combination(statistics, thetas):
    """``u_0 ... u_m`` with ``Z_l u_l`` the same along the chain and near one."""
    xp = namespace(thetas[0])
    mean = statistics.sample_sum / statistics.n_samples
    for theta in thetas:
        mean = theta @ mean
    directions = [mean / xp.sum(mean * mean)]
    for theta in reversed(thetas):
        directions.append(theta.mT @ directions[-1])
    return directions[::-1]
