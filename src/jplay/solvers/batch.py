"""The fast solver for many problems at once, as one batch of array operations.

Problems share the number of features, the layer sizes and the parts of the model; their samples
(folds of a cross-validation) and weights differ. Every problem goes through the iterations of
:func:`jplay.solvers.joint.solve_joint`, by the very same functions: matrices get one axis more,
and numbers become one number per problem. No problem feels the others. On a device, where a
small matrix product takes no longer than the call that starts it, a batch takes about as long as
its slowest problem.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from jplay._array_api import Array, like, linalg_errors, namespace, zeros_like_shape
from jplay.solvers.descent import (
    Diverged,
    Iterate,
    JointProblem,
    Preconditioner,
    deepened,
    ending,
    in_double_precision,
    in_single_precision,
    measured,
    settling_scale,
    stepped,
)
from jplay.solvers.joint import feasible_result
from jplay.solvers.large import PrincipalAxes, bears_single_precision, is_large, is_rough
from jplay.solvers.model import ModelSettings
from jplay.solvers.pretraining import starting_projections
from jplay.solvers.result import SolverResult
from jplay.solvers.samples import ArraySamples, PlainJointPass, Statistics
from jplay.solvers.schedules import FastSchedule

# Share of the batch that must be left running; below it the ended problems are dropped. Dropping
# copies everything, keeping them computes for nothing: found by experiment.
_KEPT_SHARE = 0.7


@dataclass(frozen=True)
class BatchWeights:
    """Stands in for ``ModelSettings`` with one weight per problem, (n_problems, 1, 1)."""

    alpha: Array
    beta: Array
    gamma: Array
    reconstruction: bool
    sparsity: float


@dataclass(frozen=True)
class _Batch:
    """The problems still in the batch, first axis the problem."""

    numbers: np.ndarray
    """Which problem each is; ``fold * n_settings + setting``."""
    problem: JointProblem
    weights: BatchWeights
    iterate: Iterate
    sweep: PlainJointPass

    @property
    def rounded_weights(self) -> BatchWeights:
        """The weights in the precision of the iterations."""
        A = self.problem.first.A
        return replace(
            self.weights,
            alpha=like(self.weights.alpha, A),
            beta=like(self.weights.beta, A),
            gamma=like(self.weights.gamma, A),
        )

    def in_single_precision(self) -> "_Batch":
        problem, iterate = in_single_precision(self.problem, self.iterate)
        return replace(self, problem=problem, iterate=iterate)

    def in_double_precision(self) -> "_Batch":
        problem, iterate = in_double_precision(self.problem, self.iterate)
        return replace(self, problem=problem, iterate=iterate)

    def select(self, kept: np.ndarray) -> "_Batch":
        """The batch of some of its problems."""
        xp = namespace(self.problem.first.A)
        indices = like(kept, self.problem.first.A, dtype=xp.int64)

        def pick(array: Array) -> Array:
            return xp.take(array, indices, axis=0)

        self.sweep.X = pick(self.sweep.X)
        self.sweep.points = [pick(point) for point in self.sweep.points]
        return replace(
            self,
            numbers=self.numbers[kept],
            problem=_selected_problem(self.problem, kept, pick),
            weights=replace(
                self.weights,
                alpha=pick(self.weights.alpha),
                beta=pick(self.weights.beta),
                gamma=pick(self.weights.gamma),
            ),
            iterate=replace(
                self.iterate,
                thetas=[pick(theta) for theta in self.iterate.thetas],
                mu=self.iterate.mu[kept],
                mu_before=self.iterate.mu_before[kept],
                objective_before=self.iterate.objective_before[kept],
                preconditioner=_selected(self.iterate.preconditioner, kept, pick),
            ),
        )


def _selected_problem(
    problem: JointProblem, kept: np.ndarray, pick: Callable[[Array], Array]
) -> JointProblem:
    """Some of the problems of a batch."""
    return JointProblem(
        first=problem.first.mapped(pick),
        basis=(pick(problem.basis[0]), pick(problem.basis[1])),
        label_square=pick(problem.label_square),
        manifold_bound=pick(problem.manifold_bound),
        label_bounds=tuple(pick(bound) for bound in problem.label_bounds),
        n_samples=problem.n_samples[kept],
        settling_scale=problem.settling_scale[kept],
        exact=problem.exact and _selected_problem(problem.exact, kept, pick),
    )


def _selected(
    preconditioner: Preconditioner | None, kept: np.ndarray, pick: Callable[[Array], Array]
) -> Preconditioner | None:
    """The part of a preconditioner that belongs to some of the problems."""
    if preconditioner is None:
        return None
    layers = [layer.mapped(pick) for layer in preconditioner.layers]
    return Preconditioner(layers, preconditioner.made_at[kept])


def solve_joint_batch(
    folds: Sequence[tuple[ArraySamples, Statistics]],
    layer_sizes: Sequence[int],
    settings: Sequence[ModelSettings],
    schedule: FastSchedule,
    *,
    projections: Sequence[Array] | None = None,
) -> list[list[SolverResult | None]]:
    """Solve one problem per fold and setting.

    Parameters
    ----------
    folds : sequence of (ArraySamples, Statistics)
        On one device, with the same number of features.
    layer_sizes : sequence of int
    settings : sequence of ModelSettings
        They may differ in ``alpha``, ``beta`` and ``gamma`` only.
    schedule : FastSchedule
    projections : sequence of arrays of shape (n_found, n_features), default=None
        Locality preserving projections of each fold's samples, if the caller has them already.

    Returns
    -------
    results : list over folds of lists over settings of SolverResult
        ``None`` for a problem that diverged: it deserves a solve of its own, which starts again
        with larger penalties.
    """
    starts = [
        starting_projections(statistics, layer_sizes[:1], projections and projections[fold])
        for fold, (_, statistics) in enumerate(folds)
    ]
    if not all(is_large(*fold, layer_sizes) for fold in folds):
        return _solved(folds, starts, layer_sizes, settings, schedule)
    axes = [PrincipalAxes.of(statistics) for _, statistics in folds]
    results = _solved(
        [turn.turned(*fold) for turn, fold in zip(axes, folds, strict=True)],
        [turn.turned_start(start) for turn, start in zip(axes, starts, strict=True)],
        layer_sizes,
        settings,
        schedule,
        single_precision=bears_single_precision(settings[0]),
    )
    return [
        [result and replace(result, thetas=turn.turned_back(result.thetas)) for result in of_fold]
        for turn, of_fold in zip(axes, results, strict=True)
    ]


def _solved(
    folds: Sequence[tuple[ArraySamples, Statistics]],
    starts: Sequence[list[Array]],
    layer_sizes: Sequence[int],
    settings: Sequence[ModelSettings],
    schedule: FastSchedule,
    single_precision: bool = False,
) -> list[list[SolverResult | None]]:
    """The results of all problems from these starts of the first layer."""
    problems = [JointProblem.of(statistics, settings[0].alpha) for _, statistics in folds]
    batch = _stacked(folds, problems, [start[0] for start in starts], settings, schedule)
    if single_precision:
        batch = batch.in_single_precision()
    n_settings = len(settings)
    finished: dict[int, SolverResult] = {}

    running = np.ones(len(batch.numbers), dtype=bool)
    # If everything that is left diverges or a factorisation fails, it has no result.
    with suppress(Diverged, *linalg_errors(starts[0][0])):
        if len(layer_sizes) > 1:
            n_iter = schedule.pretraining_iter(settings[0].n_constraints)
            batch = _pretrained(batch, layer_sizes[1:], schedule, n_iter)
            running = np.ones(len(batch.numbers), dtype=bool)
        for iteration in range(1, schedule.max_iter + 1):
            if not is_rough(batch.iterate):
                batch = batch.in_double_precision()
            measurement = measured(
                batch.problem, batch.iterate, batch.sweep, batch.rounded_weights, schedule
            )
            running &= ~measurement.diverged
            for row in np.flatnonzero(running & measurement.may_end(iteration, schedule)):
                status = ending(measurement, iteration, schedule, number=int(row))
                if status is None:
                    continue
                running[row] = False
                fold, setting = divmod(int(batch.numbers[row]), n_settings)
                finished[int(batch.numbers[row])] = feasible_result(
                    *folds[fold],
                    problems[fold],
                    [theta[row, ...] for theta in batch.in_double_precision().iterate.thetas],
                    settings[setting],
                    iteration,
                    status,
                )
            if not running.any():
                break
            iterate = stepped(
                batch.problem, batch.iterate, measurement, batch.rounded_weights, schedule
            )
            batch = replace(batch, iterate=iterate)
            # One matrix that is not finite makes a factorisation of the whole batch fail, so
            # problems that diverge leave it while they are still finite.
            if measurement.diverged.any() or running.sum() <= _KEPT_SHARE * len(running):
                batch = batch.select(np.flatnonzero(running))
                running = np.ones(len(batch.numbers), dtype=bool)
    return [
        [finished.get(fold * n_settings + setting) for setting in range(n_settings)]
        for fold in range(len(folds))
    ]


def _pretrained(
    batch: _Batch, layer_sizes: Sequence[int], schedule: FastSchedule, n_iter: int
) -> _Batch:
    """All layers after some iterations on the first alone, without the problems that diverged."""
    for _ in range(n_iter):
        weights = batch.rounded_weights
        measurement = measured(batch.problem, batch.iterate, batch.sweep, weights, schedule)
        iterate = stepped(batch.problem, batch.iterate, measurement, weights, schedule)
        batch = replace(batch, iterate=iterate)
        if measurement.diverged.all():
            raise Diverged
        if measurement.diverged.any():
            batch = batch.select(np.flatnonzero(~measurement.diverged))
    mu = schedule.first_penalty()
    return replace(batch, iterate=deepened(batch.problem, batch.iterate, layer_sizes, mu))


def _stacked(
    folds: Sequence[tuple[ArraySamples, Statistics]],
    problems: Sequence[JointProblem],
    starts: Sequence[Array],
    settings: Sequence[ModelSettings],
    schedule: FastSchedule,
) -> _Batch:
    """The first layer of all problems: every fold once per setting, settings inside."""
    reference = problems[0].first.A
    xp = namespace(reference)
    n_settings, n_problems = len(settings), len(folds) * len(settings)
    fold_of = np.repeat(np.arange(len(folds)), n_settings)
    fold_indices = like(fold_of, reference, dtype=xp.int64)

    def stack(*arrays: Array) -> Array:
        return xp.take(xp.stack(arrays), fold_indices, axis=0)

    def column(values: Sequence[float] | np.ndarray) -> Array:
        """Numbers, one per problem, that broadcast against matrices."""
        return like(np.asarray(values, dtype=float)[:, None, None], reference)

    of_problem = [problem for problem in problems for _ in settings]
    weights = {
        name: np.tile([float(getattr(setting, name)) for setting in settings], len(folds))
        for name in ("alpha", "beta", "gamma")
    }
    n_samples = np.asarray([statistics.n_samples for _, statistics in folds])[fold_of]
    n_rows = max(samples.X.shape[0] for samples, _ in folds)
    X = stack(*(_with_empty_rows(samples.X, n_rows) for samples, _ in folds))
    return _Batch(
        numbers=np.arange(n_problems),
        problem=JointProblem(
            first=problems[0].first.mapped(stack, *(problem.first for problem in problems[1:])),
            basis=(
                stack(*(problem.basis[0] for problem in problems)),
                stack(*(problem.basis[1] for problem in problems)),
            ),
            label_square=stack(*(problem.label_square for problem in problems)),
            manifold_bound=column([problem.manifold_bound for problem in of_problem]),
            label_bounds=tuple(
                column(bounds) for bounds in zip(*(p.label_bounds for p in of_problem), strict=True)
            ),
            n_samples=n_samples,
            settling_scale=settling_scale(n_samples, weights["alpha"]),
        ),
        weights=BatchWeights(
            **{name: column(values) for name, values in weights.items()},
            reconstruction=settings[0].reconstruction,
            sparsity=settings[0].sparsity,
        ),
        iterate=Iterate.start([stack(*starts)], schedule.first_penalty(), n_problems),
        # Not compiled: that takes seconds, more than most batches.
        sweep=PlainJointPass(
            X,
            **settings[0].constraints,
            relaxation=schedule.relaxation,
            compiled=False,
        ),
    )


def _with_empty_rows(X: Array, n_rows: int) -> Array:
    """``X`` with zero rows below: a zero sample is feasible and pulls on nothing."""
    xp = namespace(X)
    return xp.concat([X, zeros_like_shape((n_rows - X.shape[0], X.shape[1]), X)])
