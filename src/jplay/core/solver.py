"""The fast solver: one loop that moves all projections together.

The published solver solves every layer problem to the end, many times over (:mod:`.paper`). Here
each iteration makes one pass over the samples, which updates the splits of the constraints
(:class:`.samples.ConstraintSplit`), then computes the label projection and the objective from
second moments (:mod:`.objective`), and steps on every projection (:mod:`.step`). The penalty
parameter grows until features and constraints agree; a last repair (:mod:`.repair`) makes the
chain exactly feasible. One problem or a stack of problems, along leading axes, runs through the
same loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import numpy as np

from jplay.core.arrays import Array, inner, like, multiply_chain, namespace, to_numpy
from jplay.core.checks import raise_if_collapsed
from jplay.core.objective import (
    Objective,
    compute_objective,
    evaluate_chain,
    solve_label_projection,
)
from jplay.core.options import check_options
from jplay.core.problem import Problem
from jplay.core.repair import repair
from jplay.core.result import (
    ObjectiveTerms,
    SolverCallback,
    SolverProgress,
    SolverResult,
    Status,
)
from jplay.core.samples import ConstraintSplit
from jplay.core.start import add_layers, pad_rows, scale_into_ball
from jplay.core.step import QuadraticPull, build_preconditioner, update_projections
from jplay.exceptions import CollapsedSolutionError

DIVERGED = 30.0
"""Root mean square distance from the constraints, in radii of the unit ball, that counts as
divergence. Features start within the ball, and converging runs stay below two."""

RUNNING, SETTLED, AT_LIMIT, RESIDUAL_LEFT, OUT_OF_ITERATIONS, STOPPED, LOST = range(7)
"""Why a problem ended."""


@dataclass(frozen=True)
class FastSolver:
    """Options of the single loop over all layers: penalty parameter, steps and stopping rule.

    A chain of several layers starts with some iterations on its first layer alone. They cost a
    fraction of the others, and leave little to do for them. The loop ends when the objective is
    settled and the features meet the constraints to ``tol``, or when the penalty parameter has
    reached ``mu_max``. The projections are then made exactly feasible.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-4
        The objective is settled when it changes by at most ``tol`` times ``sqrt(1 + alpha)`` per
        sample. The constraints are met when the root mean square distance of the features from
        them is at most ``tol``, in every layer.
    mu : float, default=1.0
        First penalty parameter, of the first layer alone and again once all layers are there.
    growth : float, default=1.12
        Factor by which the penalty parameter grows after each iteration: its square for several
        layers, its root while the objective still changes by a twentieth of itself. Smaller values
        take more iterations and end at a lower objective.
    settled_growth : float, default=1.5
        Growth factor once the objective is settled and only the residual is left to close.
        Anything from 1.12 to 2 ends within two thousandths of the same objective.
    mu_max : float, default=1e5
        Largest penalty parameter, at which the loop ends in any case.
    relaxation : float, default=1.7
        Over-relaxation of the splits: 1 follows the features exactly, more goes beyond. 1 ends
        0.4 % higher on the digits, after more iterations; from 1.4 to 1.9 it hardly matters.
    damping : float, default=0.3
        Added to the curvature of every step, as a fraction of its mean. It keeps steps bounded;
        from 0.03 to 3 the final objective changes by three thousandths.
    first_layer_iter : int, default=25
        Iterations on the first layer alone if there are several, at most ``max_iter``. They do not
        count as iterations of the fit.

    See Also
    --------
    PaperSolver : The published solver.

    Examples
    --------
    >>> from jplay import FastSolver
    >>> FastSolver(max_iter=200).tol
    0.0001
    """

    max_iter: int = 1000
    tol: float = 1e-4
    mu: float = 1.0
    growth: float = 1.12
    settled_growth: float = 1.5
    mu_max: float = 1e5
    relaxation: float = 1.7
    damping: float = 0.3
    first_layer_iter: int = 25

    def __post_init__(self) -> None:
        check_options(self)


class FirstSplit(Protocol):
    """Split of the first projection itself, which carries a penalty on it."""

    def update(self, theta: Array, mu: Array, dual_scale: Array) -> tuple[QuadraticPull, Array]:
        """Return the pull of the split on the projection, and the squared residual."""

    def value(self, theta: Array) -> Array:
        """Return the penalty of a projection, (1, 1)."""

    def finish(self, theta: Array) -> Array:
        """Return the final projection."""


def minimize(
    problem: Problem,
    layer_sizes: Sequence[int],
    objective: Objective,
    options: FastSolver,
    callback: SolverCallback | None = None,
    *,
    start: Sequence[Array] | None = None,
    first_split: FirstSplit | None = None,
) -> SolverResult:
    """Minimize Eq. 6 over a chain of projections and the label projection.

    Parameters
    ----------
    problem : Problem
    layer_sizes : sequence of int
        Output dimension of each layer.
    objective : Objective
    options : FastSolver
    callback : callable, default=None
        Called with a :class:`SolverProgress` after each iteration; a true value stops. Iterations
        on the first layer alone are ``"pretraining"``.
    start : sequence of arrays of shape (n_out, n_in), default=None
        Projections to start from, all layers at once, in the place of locality preserving ones.
    first_split : FirstSplit, default=None
        Split with a further penalty on the first projection.

    Returns
    -------
    SolverResult
    """
    iterations = iterate(problem, layer_sizes, objective, options, callback, start, first_split)
    if bool(namespace(iterations.reason).all(iterations.reason == LOST)):
        raise CollapsedSolutionError(
            "No solution was found because the iterations diverged: lower `alpha` (now "
            f"{objective.alpha:g}), raise `mu` (now {options.mu:g}) or `damping` (now "
            f"{options.damping:g}) of the solver, or scale the samples to norms near one."
        )
    # Before the repair, which lifts features that are zero.
    components = multiply_chain(iterations.thetas)
    raise_if_collapsed(problem.moments.gram, components, problem.moments.n_samples)
    [result] = finish(problem, objective, options, iterations, first_split)
    assert result is not None
    return result


@dataclass(frozen=True, eq=False)
class Iterations:
    """Outcome of the loop, with one number of shape (1, 1) per problem."""

    thetas: list[Array]
    n_iter: Array
    reason: Array
    """Why the problem ended."""
    terms: list[Array]
    """(n_terms, ..., 1, 1) terms of the objective, one entry per iteration."""
    residuals: list[Array]
    """(n_layers, ..., 1, 1) root mean square distances of features from their constraints."""


# What overflows is not finite, and so found to have diverged.
@np.errstate(over="ignore", invalid="ignore")
def iterate(
    problem: Problem,
    layer_sizes: Sequence[int],
    objective: Objective,
    options: FastSolver,
    callback: SolverCallback | None = None,
    start: Sequence[Array] | None = None,
    first_split: FirstSplit | None = None,
) -> Iterations:
    """Run the loop from a start until a stopping rule applies to every problem."""
    n_samples, (A, M, labels) = problem.moments.n_samples, problem.quadratics
    thetas = list(start or [start_first_layer(problem, layer_sizes[0], objective)])
    preconditioner = build_preconditioner(A, M, labels)
    split = ConstraintSplit(
        problem.samples, objective.nonnegative, objective.unit_ball, options.relaxation
    )
    xp = namespace(A)
    zero = 0 * inner(thetas[0], thetas[0])
    mu = mu_before = first_mu = zero + min(options.mu, options.mu_max)
    value_before, n_iter, reason = zero + xp.inf, zero, zero
    history: tuple[list[Array], list[Array]] = ([], [])
    n_pretraining = min(options.first_layer_iter, options.max_iter)
    iteration = 0
    for step in count(1):
        pretraining = len(thetas) < len(layer_sizes) and step <= n_pretraining
        if not pretraining:
            iteration += 1
            if len(thetas) < len(layer_sizes):
                # The other layers select among the features of the first, and the penalty
                # parameter starts again.
                gram = thetas[0] @ A @ thetas[0].mT
                thetas = [*thetas, *add_layers(gram, layer_sizes[1:])]
                mu, value_before = first_mu, zero + xp.inf
        # Duals are in units of the penalty parameter: they shrink when it has grown.
        split_cross, squared_residuals = split.update(thetas, mu_before / mu)
        layers, last = evaluate_chain(A, M, labels, thetas)
        P = solve_label_projection(layers[-1].out_gram, last, objective)
        terms = compute_objective(layers, last, P, objective)
        pull = None
        if first_split is not None:
            pull, square = first_split.update(thetas[0], mu, mu_before / mu)
            squared_residuals = xp.concat([squared_residuals, square[None, ...]])
            terms = xp.concat([terms, first_split.value(thetas[0])[None, ...]])
        residuals = xp.sqrt(squared_residuals / n_samples)
        value, residual = xp.sum(terms, axis=0), xp.max(residuals, axis=0)

        # With features in the unit ball the objective of a sample is of the order of one for
        # reconstruction and of alpha for prediction; their geometric mean is found by experiment.
        change = xp.abs(value - value_before)
        settled = change <= options.tol * n_samples * (1 + objective.alpha) ** 0.5
        lost = ~(xp.isfinite(value) & (residual < DIVERGED))
        if pretraining:
            end = zero + RUNNING
            if callback and callback(SolverProgress("pretraining", step, n_pretraining)):
                n_pretraining = step
        else:
            history[0].append(terms)
            history[1].append(residuals)
            n_iter = xp.where(reason == RUNNING, n_iter + 1, n_iter)
            state = (iteration, options.max_iter, float(xp.sum(value)), thetas, P)
            stop = bool(callback and callback(SolverProgress("fine-tuning", *state)))
            end = decide_end(settled, residual, mu, iteration, options, stop)
        reason = xp.where(reason == RUNNING, xp.where(lost, zero + LOST, end), reason)
        if bool(xp.all(reason != RUNNING)):
            return Iterations(thetas, n_iter, reason, *history)

        updated = update_projections(
            layers, P, split_cross, mu, objective, preconditioner, options.damping, pull
        )
        thetas = [
            xp.where(reason == RUNNING, new, old) for new, old in zip(updated, thetas, strict=True)
        ]
        mu_before, value_before = mu, value
        if objective.n_constraints or first_split is not None:
            # A chain that goes on from a pretrained layer is near its solution. While the objective
            # falls by a twentieth of itself, a slower growth avoids freezing the features early.
            speed = 2 if len(thetas) > 1 else 1
            falling = xp.isfinite(change) & (change > 0.05 * xp.abs(value))
            growth = options.growth ** (speed * xp.where(falling, zero + 0.5, zero + 1))
            growth = xp.where(settled, zero + options.settled_growth, growth)
            mu = xp.minimum(mu * growth, zero + options.mu_max)
    raise AssertionError  # `count` does not end


def start_first_layer(problem: Problem, n_out: int, objective: Objective) -> Array:
    """Return locality preserving projections, scaled into the unit ball."""
    # Non-negativity moves the intercepts; without it they would stay at the saddle point zero.
    start = problem.start if objective.nonnegative else problem.start_with_intercepts
    theta = start[..., :n_out, :]
    if theta.shape[-2] < n_out:
        theta = like(pad_rows(to_numpy(theta), n_out), theta)
    return scale_into_ball(theta, problem.moments.gram, problem.moments.n_samples)


def decide_end(
    settled: Array, residual: Array, mu: Array, iteration: int, options: FastSolver, stop: bool
) -> Array:
    """Return why each problem ends, or ``RUNNING``.

    At the largest penalty parameter nothing changes any more, so the loop ends there. A residual
    of up to ten times ``tol`` still counts as success: the repair closes it, at a cost to the
    objective of the same order.
    """
    xp = namespace(residual)
    zero = 0 * residual
    at_limit = mu >= options.mu_max
    end = xp.where(residual <= 10 * options.tol, zero + AT_LIMIT, zero + RESIDUAL_LEFT)
    end = xp.where(at_limit, end, zero + RUNNING)
    if iteration >= options.max_iter:
        end = zero + OUT_OF_ITERATIONS
    if stop:
        end = zero + STOPPED
    return xp.where((settled | at_limit) & (residual <= options.tol), zero + SETTLED, end)


def finish(
    problem: Problem,
    objective: Objective,
    options: FastSolver,
    iterations: Iterations,
    first_split: FirstSplit | None = None,
) -> list[SolverResult | None]:
    """Repair the chains, and describe each by the label projection and objective it then has.

    Returns
    -------
    results : list of SolverResult
        One per problem of a stack, in order; ``None`` for a problem that diverged.
    """
    thetas = iterations.thetas
    xp = namespace(thetas[0])
    mean = problem.moments.mean[..., None, :]
    if first_split is not None:
        # A repair along a direction without the zeros of the split would fill its columns.
        thetas = [first_split.finish(thetas[0]), *thetas[1:]]
        used = xp.any(thetas[0] != 0, axis=-2, keepdims=True)
        mean = xp.where(used, mean, xp.zeros_like(mean))
    thetas, feasible = repair(
        problem.samples,
        mean,
        thetas,
        nonnegative=objective.nonnegative,
        unit_ball=objective.unit_ball,
    )
    A, M, labels = problem.quadratics
    layers, last = evaluate_chain(A, M, labels, thetas)
    coef = solve_label_projection(layers[-1].out_gram, last, objective)
    terms = compute_objective(layers, last, coef, objective)
    if first_split is not None:
        terms = xp.concat([terms, first_split.value(thetas[0])[None, ...]])
    history = xp.stack([*iterations.terms[:-1], terms]) if iterations.terms else terms[None, ...]

    def flatten(array: Array, n_kept: int) -> Array:
        """Return an array with one axis over all problems, after ``n_kept`` others."""
        return xp.reshape(array, (*array.shape[:n_kept], -1, *array.shape[-2:]))

    history = to_numpy(flatten(history, 2))[..., 0, 0]
    residuals = [to_numpy(flatten(r, 1))[..., 0, 0] for r in iterations.residuals]
    numbers = [
        to_numpy(flatten(xp.astype(n, xp.float64), 0))[:, 0, 0]
        for n in (iterations.n_iter, iterations.reason, feasible)
    ]
    thetas, coef = [flatten(theta, 0) for theta in thetas], flatten(coef, 0)
    results: list[SolverResult | None] = []
    for p, (n_iter, reason, is_feasible) in enumerate(zip(*numbers, strict=True)):
        if reason == LOST:
            results.append(None)
            continue
        n = int(n_iter)
        rows = [*history[: n - 1, :, p], history[-1, :, p]]
        residual = float(residuals[n - 1][:, p].max())
        status = describe_end(int(reason), residual, options)
        results.append(
            SolverResult(
                thetas=[theta[p, ...] for theta in thetas],
                coef=coef[p, ...],
                n_iter=n,
                status=status if is_feasible else describe_infeasible(status),
                objective_terms=[ObjectiveTerms(*row.tolist()) for row in rows],
                residuals=[[np.array([[r]]) for r in layer[:, p]] for layer in residuals[:n]],
            )
        )
    return results


def describe_end(reason: int, residual: float, options: FastSolver) -> Status:
    """Say how a solve ended, and what can be changed."""
    messages = {
        SETTLED: f"objective settled, constraints met to {residual:.1g} before repair",
        AT_LIMIT: f"constraints met to {residual:.1g} at the largest penalty, before repair",
        STOPPED: "stopped by a callback",
        RESIDUAL_LEFT: f"constraint gap {residual:.2g} above tol={options.tol:g} at the largest "
        "penalty: scale the samples to norms near one, or lower alpha",
        OUT_OF_ITERATIONS: f"no convergence within max_iter={options.max_iter} iterations (root "
        f"mean square constraint gap {residual:.2g}): increase max_iter or tol={options.tol:g}",
    }
    return Status(reason in (SETTLED, AT_LIMIT, STOPPED), messages[reason])


def describe_infeasible(status: Status) -> Status:
    """Add to a status that the chain could not be repaired."""
    before = "" if status.converged else f"{status.message}; "
    return Status(
        False,
        f"{before}the projections could not be made non-negative, since no combination of the "
        "features is known to be positive for all samples: add a constant feature to the samples",
    )
