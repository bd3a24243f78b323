r"""The fast solver: one loop that moves all projections together.

The published schedule solves every layer problem to the end, many times over (Algorithms 1 and 2).
Here each iteration makes one pass over the samples, which updates the split of the constraints
(:class:`.samples.ConstraintSplit`), then computes the label projection and the objective from second
moments (:mod:`.objective`), and steps on every projection (:mod:`.step`). The penalty grows until
features and constraints agree; a last repair (:mod:`.repair`) makes the chain exactly feasible.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from jplay.core.arrays import Array, inner, namespace, to_numpy
from jplay.core.objective import Model, compute_objective, evaluate_chain, solve_label_projection
from jplay.core.problem import Problem
from jplay.core.repair import repair
from jplay.core.samples import ConstraintSplit, project_constraints
from jplay.core.start import scale_into_ball, select_features
from jplay.core.step import compute_largest_ratio, update_projections

LOST = 30.0
"""Root mean square distance from the constraints, in radii of the unit ball, that is divergence."""


@dataclass(frozen=True)
class FastSchedule:
    """Penalty, step size and stopping rule of the loop.

    Parameters
    ----------
    max_iter : int, default=1000
    tol : float, default=1e-4
        Of the change of the objective, relative to ``sqrt(1 + alpha)`` per sample, and of the root
        mean square distance of the features from the constraints.
    mu, mu_max : float, default=1.0, 1e5
        First and largest penalty.
    growth, deep_growth, settled_growth : float, default=1.12, 1.3, 1.5
        Factor of the penalty after each iteration: of one layer, of several, and once the
        objective has settled.
    relaxation : float, default=1.7
        How far the split follows the features, see :class:`.samples.ConstraintSplit`.
    damping : float, default=0.3
        Of the curvature, relative to its mean.
    first_layer_iter : int, default=25
        Iterations on the first layer alone, if there are several: cheap, and the others start
        from its features.
    attempts : int, default=4
        How often a run that diverges is started again, with four times the penalty.
    """

    max_iter: int = 1000
    tol: float = 1e-4
    mu: float = 1.0
    mu_max: float = 1e5
    growth: float = 1.12
    deep_growth: float = 1.3
    settled_growth: float = 1.5
    relaxation: float = 1.7
    damping: float = 0.3
    first_layer_iter: int = 25
    attempts: int = 4


@dataclass(frozen=True)
class Solution:
    """Where the solver ended."""

    thetas: list[Array]
    coef: Array
    """Label projection ``P``."""
    history: np.ndarray
    """(n_iter, 4) terms of the objective (Eq. 6); the last row is that of the feasible chain."""
    n_iter: np.ndarray
    converged: np.ndarray


class Diverged(ArithmeticError):
    """The iterates have left what can be computed with."""


def minimize(
    problem: Problem,
    layer_sizes: Sequence[int],
    model: Model,
    schedule: FastSchedule,
    callback: Callable[..., Any] | None = None,
) -> Solution:
    """Minimise Eq. 6 over a chain of projections and the label projection.

    Parameters
    ----------
    problem : Problem
    layer_sizes : sequence of int
    model : Model
    schedule : FastSchedule
    callback : callable, default=None
        Called as ``callback(iteration, objective, thetas, coef)``; a true value stops.

    Returns
    -------
    Solution
    """
    for attempt in range(schedule.attempts):
        try:
            mu = min(4.0**attempt * schedule.mu, schedule.mu_max)
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows has diverged
                thetas, history, n_iter, converged = iterate(
                    problem, layer_sizes, model, schedule, mu, callback
                )
            break
        except (Diverged, np.linalg.LinAlgError):
            continue
    else:
        raise ValueError("The iterations diverged. Scale the samples to a norm near one.")

    moments = problem.moments
    mean = moments.sample_sum[..., None, :] / moments.n_samples
    thetas, feasible = repair(problem.samples, mean, thetas, model.nonnegative, model.unit_ball)
    layers, B, C = evaluate_chain(*problem.matrices, thetas)
    coef = solve_label_projection(B, C, model)
    history[-1] = compute_objective(layers, B, C, coef, moments.label_square, model)
    history = to_numpy(namespace(coef).stack(history))[..., 0, 0]
    return Solution(thetas, coef, history, to_numpy(n_iter), to_numpy(converged & feasible))


def iterate(
    problem: Problem,
    layer_sizes: Sequence[int],
    model: Model,
    schedule: FastSchedule,
    mu: float,
    callback: Callable[..., Any] | None,
) -> tuple[list[Array], list[Array], Array, Array]:
    """The loop, from a start of the first layer until a stopping rule applies to every problem.

    Returns
    -------
    thetas, history : list of arrays
    n_iter, converged : arrays of shape (1, 1)
    """
    moments, n_samples = problem.moments, problem.moments.n_samples
    start = scale_into_ball(problem.start[..., : layer_sizes[0], :], moments.gram, n_samples)
    xp = namespace(start)
    A, M, B, _ = problem.matrices
    basis = xp.linalg.eigh(A)
    bounds = (
        1.0 if B is None else compute_largest_ratio(B, *basis),
        compute_largest_ratio(M, *basis),
    )

    project = partial(project_constraints, nonnegative=model.nonnegative, unit_ball=model.unit_ball)
    split = ConstraintSplit(problem.samples, project, schedule.relaxation)
    thetas, history = [start], []
    # One number for every problem, of shape (..., 1, 1).
    zero = 0 * inner(start, start)
    first_mu = mu = mu_before = zero + mu
    objective_before = zero + xp.inf
    done, converged, n_iter = zero > 0, zero > 0, zero
    n_warm_up = min(schedule.first_layer_iter, schedule.max_iter) if len(layer_sizes) > 1 else 0
    for iteration in count(1 - n_warm_up):
        # Multipliers are in units of the penalty: they shrink when it has grown.
        pulls, squared_gaps = split.update(thetas, mu_before / mu)
        layers, last_B, last_C = evaluate_chain(*problem.matrices, thetas)
        P = solve_label_projection(last_B, last_C, model)
        terms = compute_objective(layers, last_B, last_C, P, moments.label_square, model)

        objective = xp.sum(terms, axis=0)
        gap = xp.sqrt(xp.max(squared_gaps, axis=0) / n_samples)
        lost = ~(xp.isfinite(objective) & (gap < LOST))
        if bool(xp.all(lost | done) & xp.any(lost)):
            raise Diverged
        change = xp.abs(objective - objective_before)
        settled = change <= schedule.tol * n_samples * (1 + model.alpha) ** 0.5
        at_limit = mu >= schedule.mu_max  # where nothing changes any more
        if iteration >= 1:
            history.append(terms)
            n_iter = xp.where(done, n_iter, n_iter + 1)
            stop = callback is not None and callback(iteration, objective, thetas, P)
            met = (settled & (gap <= schedule.tol)) | (at_limit & (gap <= 10 * schedule.tol))
            converged = xp.where(done, converged, met)
            done = done | met | at_limit | lost
            if stop or iteration == schedule.max_iter or bool(xp.all(done)):
                return thetas, history, n_iter, converged

        updated = update_projections(layers, P, pulls, mu, model, bounds, basis, schedule.damping)
        thetas = [xp.where(done, old, new) for old, new in zip(thetas, updated, strict=True)]
        growth = schedule.growth if len(layer_sizes) == 1 or iteration < 1 else schedule.deep_growth
        # While the objective falls by a twentieth of itself the penalty grows more slowly.
        falling = xp.isfinite(change) & (change > 0.05 * xp.abs(objective))
        factor = xp.where(falling, zero + growth**0.5, zero + growth)
        factor = xp.where(settled, zero + schedule.settled_growth, factor)
        mu_before, mu = mu, xp.minimum(mu * factor, zero + schedule.mu_max)
        objective_before = objective
        if n_warm_up and iteration == 0:
            # The other layers choose among the features of the first, and the penalty starts again.
            gram = thetas[0] @ A @ thetas[0].mT
            thetas = [*thetas, *select_features(gram, layer_sizes[1:])]
            mu, objective_before = first_mu, zero + xp.inf
    raise AssertionError  # ``count`` does not end
