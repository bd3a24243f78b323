"""The fast solver for many problems at once, as one batch of array operations.

Problems share the number of features, the layer sizes and the parts of the model; their
samples (folds of a cross-validation) and weights differ. Each runs through the iterations of
:func:`jplay.solvers.joint.solve_joint` and stops by the same rule; those that have ended leave
the batch from time to time.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jplay._array_api import like, namespace, to_numpy, zeros_like_shape
from jplay.solvers.joint import (
    _DIVERGED,
    Moments,
    _first_moments,
    _largest_ratio,
    backward,
    eigenbasis,
    forward,
    objective_from_moments,
    repair,
    ridge_coef,
    starting_projections,
    total,
    weighted_terms,
)
from jplay.solvers.result import SolverResult, Status
from jplay.solvers.samples import project_constraints


@dataclass(frozen=True)
class BatchWeights:
    """Stands in for ``ModelSettings`` with one weight per problem, (n_problems, 1, 1)."""

    alpha: Any
    beta: Any
    gamma: Any
    reconstruction: bool


@dataclass(frozen=True)
class _State:
    """Everything that belongs to the problems still running, first axis the problem."""

    problem: Any
    X: Any
    first: Moments
    basis: tuple
    label_square: Any
    n_samples: Any
    manifold_bound: Any
    label_bound: Any
    weights: BatchWeights
    thetas: list
    duals: list
    mu: Any
    mu_before: Any
    objective: Any

    def select(self, kept):
        """The state of some problems."""
        xp = namespace(self.mu)

        def pick(array):
            return xp.take(array, kept, axis=0)

        return replace(
            self,
            problem=pick(self.problem),
            X=pick(self.X),
            first=_pick_moments(self.first, pick),
            basis=tuple(pick(part) for part in self.basis),
            label_square=pick(self.label_square),
            n_samples=pick(self.n_samples),
            manifold_bound=pick(self.manifold_bound),
            label_bound=pick(self.label_bound),
            weights=replace(
                self.weights,
                alpha=pick(self.weights.alpha),
                beta=pick(self.weights.beta),
                gamma=pick(self.weights.gamma),
            ),
            thetas=[pick(theta) for theta in self.thetas],
            duals=[pick(dual) for dual in self.duals],
            mu=pick(self.mu),
            mu_before=pick(self.mu_before),
            objective=pick(self.objective),
        )


def _pick_moments(moments, pick):
    A = pick(moments.A)
    B = A if moments.B is moments.A else pick(moments.B)
    return Moments(A, pick(moments.M), B, pick(moments.C))


def solve_joint_batch(folds, layer_sizes, settings, schedule):
    """Solve one problem per fold and setting.

    Parameters
    ----------
    folds : list of (ArraySamples, Statistics)
        On one device, with the same number of features.
    layer_sizes : list of int
    settings : list of ModelSettings
        They may differ in ``alpha``, ``beta`` and ``gamma`` only.
    schedule : JointSchedule

    Returns
    -------
    results : list over folds of lists over settings of SolverResult
        ``None`` for a problem that diverged: it deserves a solve of its own, with restarts.
    """
    state = _initial_state(folds, layer_sizes, settings, schedule)
    xp = namespace(state.mu)
    model = settings[0]
    finished: dict[int, SolverResult | None] = {}
    n_problems = len(folds) * len(settings)
    alive = np.ones(n_problems, dtype=bool)
    for iteration in range(1, schedule.max_iter + 1):
        pulls, duals, gaps = _pass(state, **model.constraints)
        chain = forward(state.first, state.thetas)
        coef = ridge_coef(chain.moments[-1], state.weights)
        terms = weighted_terms(chain, state.thetas, coef, state.label_square, state.weights)
        objective = sum(terms)
        change = xp.abs(objective - state.objective)
        settled = change <= schedule.tol * state.n_samples * xp.sqrt(1 + state.weights.alpha)
        worst = xp.max(xp.stack(gaps), axis=0)
        diverged = ~xp.isfinite(objective) | (worst > _DIVERGED)
        at_limit = state.mu >= schedule.mu_max
        met = (settled & (worst <= schedule.tol)) | (at_limit & (worst <= 10 * schedule.tol))
        ended = met | at_limit | diverged
        if iteration == schedule.max_iter:
            ended = xp.ones_like(ended)
        flags = to_numpy(xp.stack([ended, diverged, met]))
        flags = flags[:, :, 0, 0] & alive
        for row in np.flatnonzero(flags[0]):
            number = int(state.problem[row])
            finished[number] = (
                None
                if flags[1, row]
                else _finish(folds, settings, state, row, number, iteration, bool(flags[2, row]))
            )
        alive &= ~flags[0]
        if not alive.any():
            break
        updated = backward(
            chain,
            state.thetas,
            coef,
            pulls,
            state.mu,
            state.weights,
            state.manifold_bound,
            state.label_bound,
            state.basis,
            schedule.damping,
        )
        growth = xp.where(settled, schedule.settled_growth, schedule.growth)
        mu = xp.where(
            state.mu * growth > schedule.mu_max,
            xp.asarray(schedule.mu_max, dtype=state.mu.dtype),
            state.mu * growth,
        )
        state = replace(
            state, thetas=updated, duals=duals, mu=mu, mu_before=state.mu, objective=objective
        )
        if alive.sum() <= 0.7 * len(alive):
            state = state.select(like(np.flatnonzero(alive), state.mu, dtype=xp.int64))
            alive = np.ones(int(alive.sum()), dtype=bool)
    n_settings = len(settings)
    return [
        [finished[fold * n_settings + setting] for setting in range(n_settings)]
        for fold in range(len(folds))
    ]


def _initial_state(folds, layer_sizes, settings, schedule):
    reference = folds[0][1].X_root
    xp = namespace(reference)
    n_settings, n_problems = len(settings), len(folds) * len(settings)
    fold_of = like(np.repeat(np.arange(len(folds)), n_settings), reference, dtype=xp.int64)

    def per_problem(arrays):
        return xp.take(xp.stack(arrays), fold_of, axis=0)

    def column(values):
        values = np.asarray(values, dtype=float).reshape(-1, 1, 1)
        return like(values, reference)

    firsts = [_first_moments(statistics) for _, statistics in folds]
    bases = [eigenbasis(first.A) for first in firsts]
    starts = [starting_projections(statistics, layer_sizes) for _, statistics in folds]
    n_rows = max(samples.X.shape[0] for samples, _ in folds)
    A = per_problem([first.A for first in firsts])
    all_equal = all(first.B is first.A for first in firsts)
    weights = [
        [getattr(setting, name) for setting in settings] * len(folds)
        for name in ("alpha", "beta", "gamma")
    ]
    return _State(
        problem=like(np.arange(n_problems), reference, dtype=xp.int64),
        X=per_problem([_with_empty_rows(samples.X, n_rows) for samples, _ in folds]),
        first=Moments(
            A,
            per_problem([first.M for first in firsts]),
            A if all_equal else per_problem([first.B for first in firsts]),
            per_problem([first.C for first in firsts]),
        ),
        basis=tuple(per_problem(parts) for parts in zip(*bases, strict=True)),
        label_square=per_problem(
            [total(statistics.label_roots[1] ** 2) for _, statistics in folds]
        ),
        n_samples=column(np.repeat([statistics.n_samples for _, statistics in folds], n_settings)),
        manifold_bound=column(
            np.repeat(
                [
                    _largest_ratio(first.M, basis)
                    for first, basis in zip(firsts, bases, strict=True)
                ],
                n_settings,
            )
        ),
        label_bound=column(
            np.repeat(
                [
                    1.0 if first.B is first.A else _largest_ratio(first.B, basis)
                    for first, basis in zip(firsts, bases, strict=True)
                ],
                n_settings,
            )
        ),
        weights=BatchWeights(*(column(w) for w in weights), settings[0].reconstruction),
        thetas=[per_problem(layer) for layer in zip(*starts, strict=True)],
        duals=[zeros_like_shape((n_problems, n_rows, size), folds[0][0].X) for size in layer_sizes],
        mu=column([schedule.mu] * n_problems),
        mu_before=column([schedule.mu] * n_problems),
        objective=column([np.inf] * n_problems),
    )


def _with_empty_rows(X, n_rows):
    """``X`` with zero rows below: a zero sample is feasible and pulls on nothing."""
    xp = namespace(X)
    return xp.concat([X, zeros_like_shape((n_rows - X.shape[0], X.shape[1]), X)])


def _pass(state, *, nonnegative, unit_ball):
    """One pass through all layers of all problems."""
    xp = namespace(state.mu)
    Z = state.X
    shrink = xp.astype(state.mu_before / state.mu, Z.dtype)
    pulls, duals, gaps = [], [], []
    for theta, dual in zip(state.thetas, state.duals, strict=True):
        features = Z @ xp.astype(theta, Z.dtype).mT
        V = features - shrink * dual
        split = project_constraints(V, nonnegative, unit_ball)
        duals.append(split - V)
        gap = total((split - features) ** 2)
        gaps.append(xp.sqrt(xp.astype(gap, state.mu.dtype) / state.n_samples))
        pulls.append(xp.astype((split + duals[-1]).mT @ state.X, theta.dtype))
        Z = features
    return pulls, duals, gaps


def _finish(folds, settings, state, row, number, n_iter, converged):
    """Repair one problem and describe it as a solve of its own would."""
    samples, statistics = folds[number // len(settings)]
    model = settings[number % len(settings)]
    thetas = [theta[row, ...] for theta in state.thetas]
    thetas, repaired = repair(samples, statistics, thetas, **model.constraints)
    chain = forward(_first_moments(statistics), thetas)
    coef = ridge_coef(chain.moments[-1], model)
    label_square = total(statistics.label_roots[1] ** 2)
    message = "objective settled" if converged else "no convergence within max_iter"
    return SolverResult(
        thetas=thetas,
        coef=coef,
        n_iter=n_iter,
        status=Status(converged and repaired, message),
        objective_terms=[objective_from_moments(chain, thetas, coef, label_square, model)],
    )
