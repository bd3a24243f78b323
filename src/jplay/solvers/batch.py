"""The fast solver for many problems at once, as one batch of array operations.

Problems share the number of features, the layer sizes and the parts of the model; their samples
(folds of a cross-validation) and weights differ. Every problem goes through the iterations of
:func:`jplay.solvers.joint.solve_joint`, by the very same functions: matrices get one axis more,
and numbers become one number per problem. No problem feels the others. On a device, where a
small matrix product takes no longer than the call that starts it, a batch takes about as long as
its slowest problem.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jplay._array_api import (
    Array,
    like,
    linalg_errors,
    namespace,
    to_numpy,
    zeros_like_shape,
)
from jplay.numerics.objective import ObjectiveTerms
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
from jplay.solvers.moments import forward, label_coef, weighted_terms
from jplay.solvers.pretraining import starting_projections
from jplay.solvers.repair import repaired_stack
from jplay.solvers.result import SolverResult, Status
from jplay.solvers.samples import ArraySamples, PlainJointPass, Samples, Statistics
from jplay.solvers.schedules import FastSchedule

# Share of the batch that must be left running; below it the ended problems are dropped. Dropping
# copies everything, keeping them computes for nothing: found by experiment.
_KEPT_SHARE = 0.7


@dataclass(frozen=True, eq=False)
class BatchWeights:
    """Stands in for ``ModelSettings`` with one weight per problem, (n_problems, 1, 1)."""

    alpha: Array
    beta: Array
    gamma: Array
    reconstruction: bool
    sparsity: float

    def mapped(self, function: Callable[[Array], Array]) -> "BatchWeights":
        """``function`` of each kind of weight."""
        weights = {name: function(getattr(self, name)) for name in ("alpha", "beta", "gamma")}
        return replace(self, **weights)


@dataclass(frozen=True, eq=False)
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
        return self.weights.mapped(lambda weight: like(weight, A))

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
            weights=self.weights.mapped(pick),
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
    problem: JointProblem, kept: Any, pick: Callable[[Array], Array]
) -> JointProblem:
    """The part of a batch's problem that ``pick`` takes of arrays, and ``kept`` of numbers."""
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
        ``None`` for a problem that diverged.
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

    def result_of(number: int, thetas: list[Array], n_iter: int, status: Status) -> SolverResult:
        fold, setting = divmod(number, n_settings)
        model = settings[setting]
        return feasible_result(*folds[fold], problems[fold], thetas, model, n_iter, status)

    found = _run_to_the_end(batch, layer_sizes, settings[0].n_constraints, schedule, result_of)
    return [found[start : start + n_settings] for start in range(0, len(found), n_settings)]


def solve_joint_stack(
    samples: Sequence[Samples],
    X: Array,
    statistics: Statistics,
    starts: Array,
    model: ModelSettings,
    schedule: FastSchedule,
) -> list[SolverResult | None]:
    """Solve problems of one layer and one setting whose statistics are stacked already.

    Parameters
    ----------
    samples : sequence of Samples
        Of each problem.
    X : array of shape (n_problems, n_rows, n_features)
        The same samples in one array, with zero rows below.
    statistics : Statistics
        Of all problems.
    starts : array of shape (n_problems, n_out, n_features)
        Projections to start from.
    model : ModelSettings
    schedule : FastSchedule

    Returns
    -------
    results : list of SolverResult
        ``None`` for a problem that diverged, see :func:`solve_joint_batch`.
    """
    problem = JointProblem.of(statistics, model.alpha)
    n_problems = len(samples)
    batch = _Batch(
        numbers=np.arange(n_problems),
        problem=problem,
        weights=_batch_weights([model] * n_problems, starts),
        iterate=Iterate.start([starts], schedule.mu, n_problems),
        sweep=_batch_pass(X, model, schedule),
    )

    def result_of(number: int, thetas: list[Array], n_iter: int, status: Status) -> SolverResult:
        own = _selected_problem(problem, slice(number, number + 1), lambda a: a[number, ...])
        here = statistics.of_problem(number)
        return feasible_result(samples[number], here, own, thetas, model, n_iter, status)

    return _run_to_the_end(batch, [starts.shape[-2]], model.n_constraints, schedule, result_of)


def _run_to_the_end(
    batch: _Batch,
    layer_sizes: Sequence[int],
    n_constraints: int,
    schedule: FastSchedule,
    result_of: Callable[[int, list[Array], int, Status], SolverResult],
) -> list[SolverResult | None]:
    """Iterate until every problem has ended.

    ``result_of`` gives the result of one, from its number and what it ended with.
    """
    finished: list[SolverResult | None] = [None] * len(batch.numbers)
    running = np.ones(len(batch.numbers), dtype=bool)
    # If everything that is left diverges or a factorisation fails, it has no result.
    with suppress(Diverged, *linalg_errors(batch.problem.first.A)):
        if len(layer_sizes) > 1:
            n_iter = schedule.pretraining_iter(n_constraints)
            batch = _pretrained(batch, layer_sizes[1:], schedule, n_iter)
            running = np.ones(len(batch.numbers), dtype=bool)
        for iteration in range(1, schedule.max_iter + 1):
            if not is_rough(batch.iterate):
                batch = batch.in_double_precision()
            measurement = measured(
                batch.problem, batch.iterate, batch.sweep, batch.rounded_weights, schedule
            )
            running &= ~measurement.diverged
            ended = {}
            for row in np.flatnonzero(running & measurement.may_end(iteration, schedule)):
                status = ending(measurement, iteration, schedule, number=int(row))
                if status is not None:
                    ended[int(row)] = status
            if ended:
                running[list(ended)] = False
                exact = batch.in_double_precision()
                for number, result in _results(exact, ended, iteration, result_of):
                    finished[number] = result
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
    return finished


def _results(
    batch: _Batch,
    ended: dict[int, Status],
    n_iter: int,
    result_of: Callable[[int, list[Array], int, Status], SolverResult],
) -> Iterator[tuple[int, SolverResult]]:
    """Number and result of the problems in some rows, repaired together where that is easy."""
    rows = np.asarray(list(ended))
    xp = namespace(batch.problem.first.A)
    indices = like(rows, batch.problem.first.A, dtype=xp.int64)

    def pick(array: Array) -> Array:
        return xp.take(array, indices, axis=0)

    problem, weights = _selected_problem(batch.problem, rows, pick), batch.weights.mapped(pick)
    before = [pick(theta) for theta in batch.iterate.thetas]
    X = pick(batch.sweep.X)
    nonnegative, unit_ball = batch.sweep.constraints
    counts = like(problem.n_samples[:, None], before[0])
    mean = xp.astype(xp.sum(X, axis=1, dtype=xp.float64), before[0].dtype) / counts
    thetas, done = repaired_stack(X, mean, before, nonnegative=nonnegative, unit_ball=unit_ball)
    chain = forward(problem.first, thetas)
    coef = label_coef(chain.moments[-1], weights)
    terms = to_numpy(xp.stack(weighted_terms(chain, coef, problem.label_square, weights)))
    for place, row in enumerate(rows.tolist()):
        number, status = int(batch.numbers[row]), ended[row]
        if not done[place]:
            own = [theta[place, ...] for theta in before]
            yield number, result_of(number, own, n_iter, status)
            continue
        yield (
            number,
            SolverResult(
                thetas=[theta[place, ...] for theta in thetas],
                coef=coef[place, ...],
                n_iter=n_iter,
                status=status,
                objective_terms=[ObjectiveTerms(*terms[:, place].ravel().tolist())],
            ),
        )


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
    mu = schedule.mu
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

    def column(values: Sequence[float]) -> Array:
        return _column(values, reference)

    of_problem = [problem for problem in problems for _ in settings]
    setting_of = [setting for _ in folds for setting in settings]
    n_samples = np.asarray([statistics.n_samples for _, statistics in folds])[fold_of]
    n_rows = max(samples.X.shape[0] for samples, _ in folds)
    X = stack(*(with_empty_rows(samples.X, n_rows) for samples, _ in folds))
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
            settling_scale=settling_scale(
                n_samples, np.asarray([setting.alpha for setting in setting_of])
            ),
        ),
        weights=_batch_weights(setting_of, reference),
        iterate=Iterate.start([stack(*starts)], schedule.mu, n_problems),
        sweep=_batch_pass(X, settings[0], schedule),
    )


def _column(values: Sequence[float], reference: Array) -> Array:
    """Numbers, one per problem, that broadcast against matrices."""
    return like(np.asarray(values, dtype=float)[:, None, None], reference)


def _batch_weights(settings: Sequence[ModelSettings], reference: Array) -> BatchWeights:
    """Weights of one setting per problem."""
    return BatchWeights(
        alpha=_column([setting.alpha for setting in settings], reference),
        beta=_column([setting.beta for setting in settings], reference),
        gamma=_column([setting.gamma for setting in settings], reference),
        reconstruction=settings[0].reconstruction,
        sparsity=settings[0].sparsity,
    )


def _batch_pass(X: Array, model: ModelSettings, schedule: FastSchedule) -> PlainJointPass:
    # Not compiled: that takes seconds, more than most batches.
    return PlainJointPass(X, **model.constraints, relaxation=schedule.relaxation, compiled=False)


def with_empty_rows(X: Array, n_rows: int) -> Array:
    """``X`` with zero rows below: a zero sample is feasible and pulls on nothing."""
    xp = namespace(X)
    return xp.concat([X, zeros_like_shape((n_rows - X.shape[0], X.shape[1]), X)])
