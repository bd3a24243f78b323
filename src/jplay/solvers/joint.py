"""The fast solver: one loop over all layers, preconditioned, on second moments.

The published schedule solves every layer problem to the end, from scratch, many times over.
Here one loop moves everything together:

* one split per layer on the intersection of both constraint sets, with a single scaled
  multiplier that stays warm;
* one streaming pass over the samples per iteration, through all layers at once;
* a step on every projection, from the last to the first, along the gradient of the whole
  objective and of the penalties of all layers behind it (:func:`.descent.backward`);
* for several layers, some cheap iterations on the first layer alone, whose features the others
  start with;
* for several large layers, principal axes and single precision in most iterations (:mod:`.large`);
* a final repair that makes the projections exactly feasible (:mod:`.repair`).
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np

from jplay._array_api import Array, linalg_errors, namespace, zeros_like_shape
from jplay.numerics.objective import ObjectiveTerms
from jplay.solvers.descent import (
    ColumnSplit,
    Diverged,
    Iterate,
    JointProblem,
    deepened,
    ending,
    in_double_precision,
    in_single_precision,
    measured,
    stepped,
)
from jplay.solvers.large import PrincipalAxes, bears_single_precision, is_large, is_rough
from jplay.solvers.model import ModelSettings
from jplay.solvers.moments import forward, label_coef, weighted_terms
from jplay.solvers.pretraining import starting_projections
from jplay.solvers.repair import repair
from jplay.solvers.result import SolverCallback, SolverProgress, SolverResult, Status
from jplay.solvers.samples import JointPass, Samples, Statistics
from jplay.solvers.schedules import FastSchedule


def solve_joint(
    samples: Samples,
    layer_sizes: Sequence[int],
    model: ModelSettings,
    schedule: FastSchedule,
    *,
    statistics: Statistics | None = None,
    projections: Array | None = None,
    callback: SolverCallback | None = None,
    column_penalty: Array | None = None,
    start: Sequence[Array] | None = None,
) -> SolverResult:
    """Fit the model by the single loop.

    If the iterations diverge, the result has no iterations, and its status says what to change.

    Parameters
    ----------
    samples : Samples
    layer_sizes : sequence of int
    model : ModelSettings
    schedule : FastSchedule
    statistics : Statistics, default=None
        Of the same samples, if the caller has them already.
    projections : array of shape (n_found, n_features), default=None
        Locality preserving projections of the same samples, if the caller has them already.
    callback : callable, default=None
        Called with a :class:`SolverProgress` after each iteration; a true value stops. Iterations
        on the first layer alone are ``"pretraining"``.
    column_penalty : array of shape (n_features,), default=None
        Weight of the norm of each column of the first projection, added to the objective.
        Columns of features that are not worth it become exactly zero.
    start : sequence of arrays of shape (n_out, n_in), default=None
        Projections to start from, all layers at once, in the place of locality preserving ones.

    Returns
    -------
    SolverResult
    """
    if statistics is None:
        statistics = samples.statistics()
    starts = list(start or starting_projections(statistics, layer_sizes[:1], projections))
    if column_penalty is None and is_large(samples, statistics, layer_sizes):
        axes = PrincipalAxes.of(statistics)
        result = _solved(
            *axes.turned(samples, statistics),
            axes.turned_start(starts),
            layer_sizes,
            model,
            schedule,
            axes.reporting_to(callback),
            single_precision=bears_single_precision(model),
        )
        return replace(result, thetas=axes.turned_back(result.thetas))
    return _solved(
        samples, statistics, starts, layer_sizes, model, schedule, callback, column_penalty
    )


def _solved(
    samples: Samples,
    statistics: Statistics,
    starts: list[Array],
    layer_sizes: Sequence[int],
    model: ModelSettings,
    schedule: FastSchedule,
    callback: SolverCallback | None,
    column_penalty: Array | None = None,
    single_precision: bool = False,
) -> SolverResult:
    """Solve the problem; in double precision if single precision diverges or is not asked for."""
    problem = JointProblem.of(statistics, model.alpha)
    for in_single in (True, False) if single_precision else (False,):
        # What overflows is not finite, and so found to have diverged.
        overflowing = np.errstate(over="ignore", invalid="ignore")
        with suppress(Diverged, *linalg_errors(starts[0])), overflowing:
            columns = None
            if column_penalty is not None:
                columns = ColumnSplit(problem, column_penalty, starts[0])
            sweep = samples.joint_pass(
                layer_sizes, **model.constraints, relaxation=schedule.relaxation
            )
            working, iterate = problem, Iterate.start(starts, schedule.mu)
            if in_single:
                working, iterate = in_single_precision(problem, iterate)
            if len(starts) < len(layer_sizes):
                iterate = _pretrained(working, iterate, sweep, model, schedule, callback, columns)
                iterate = deepened(working, iterate, layer_sizes[1:], schedule.mu)
            return _run_to_the_end(
                samples, statistics, working, iterate, sweep, model, schedule, callback, columns
            )
    sizes = [statistics.n_features, *layer_sizes]
    thetas = [zeros_like_shape((n_out, n_in), starts[0]) for n_in, n_out in pairwise(sizes)]
    return SolverResult(
        thetas=thetas,
        coef=0 * label_coef(forward(problem.first, thetas).moments[-1], model),
        n_iter=0,
        status=Status(
            False,
            f"the iterations diverged: lower `alpha` (now {model.alpha:g}), raise `mu` (now "
            f"{schedule.mu:g}) or `damping` (now {schedule.damping:g}) of the schedule, or scale "
            "the samples to norms near one",
        ),
    )


def _pretrained(
    problem: JointProblem,
    iterate: Iterate,
    sweep: JointPass,
    model: ModelSettings,
    schedule: FastSchedule,
    callback: SolverCallback | None,
    columns: ColumnSplit | None,
) -> Iterate:
    """Iterate on the first layer of several alone; raises :class:`Diverged`."""
    n_iter = schedule.pretraining_iter(model.n_constraints)
    for iteration in range(1, n_iter + 1):
        measurement = measured(problem, iterate, sweep, model, schedule, columns)
        if measurement.diverged[0]:
            raise Diverged
        iterate = stepped(problem, iterate, measurement, model, schedule)
        progress = SolverProgress("pretraining", iteration, n_iter)
        if callback is not None and callback(progress):
            break
    return iterate


def _run_to_the_end(
    samples: Samples,
    statistics: Statistics,
    problem: JointProblem,
    iterate: Iterate,
    sweep: JointPass,
    model: ModelSettings,
    schedule: FastSchedule,
    callback: SolverCallback | None,
    columns: ColumnSplit | None,
) -> SolverResult:
    """Iterate from a start until a stopping rule applies; raises :class:`Diverged`."""
    history, gaps = [], []
    while True:
        if not is_rough(iterate):
            problem, iterate = in_double_precision(problem, iterate)
        measurement = measured(problem, iterate, sweep, model, schedule, columns)
        if measurement.diverged[0]:
            raise Diverged
        history.append(ObjectiveTerms(*measurement.terms[:, 0].tolist()))
        gaps.append(measurement.gaps[:, 0])
        progress = SolverProgress(
            "fine-tuning",
            len(history),
            schedule.max_iter,
            history[-1].total,
            iterate.thetas,
            measurement.coef,
        )
        stop_requested = callback is not None and bool(callback(progress))
        status = ending(measurement, len(history), schedule, stop_requested=stop_requested)
        if status is not None:
            break
        iterate = stepped(problem, iterate, measurement, model, schedule)
    problem, iterate = in_double_precision(problem, iterate)
    thetas = iterate.thetas
    if columns is not None:
        # The copy has the zeros. A repair along a direction without them would fill the columns.
        thetas = [columns.copy, *thetas[1:]]
        xp = namespace(columns.copy)
        kept = xp.linalg.vector_norm(columns.copy, axis=0) > 0
        total = statistics.sample_sum
        statistics = replace(statistics, sample_sum=xp.where(kept, total, xp.zeros_like(total)))
    result = feasible_result(samples, statistics, problem, thetas, model, len(history), status)
    if columns is not None:
        terms = [replace(result.objective_terms[0], columns=columns.cost(result.thetas[0]))]
        result = replace(result, objective_terms=terms)
    return replace(
        result,
        objective_terms=[*history[:-1], *result.objective_terms],
        residuals=[[np.array([[gap]]) for gap in layers] for layers in gaps],
    )


def feasible_result(
    samples: Samples,
    statistics: Statistics,
    problem: JointProblem,
    thetas: Sequence[Array],
    model: ModelSettings,
    n_iter: int,
    status: Status,
) -> SolverResult:
    """Repair a chain, and describe it with the label projection and objective it then has."""
    thetas, feasible = repair(samples, statistics, thetas, **model.constraints)
    if not feasible:
        ended = "" if status.converged else f"{status.message}; "
        status = Status(
            False,
            f"{ended}the projections could not be made non-negative, since no combination of the "
            "features is known to be positive for all samples: add a constant feature to the "
            "samples",
        )
    chain = forward(problem.first, thetas)
    coef = label_coef(chain.moments[-1], model)
    terms = weighted_terms(chain, coef, problem.label_square, model)
    return SolverResult(
        thetas=thetas,
        coef=coef,
        n_iter=n_iter,
        status=status,
        objective_terms=[ObjectiveTerms(*(float(term[0, 0]) for term in terms))],
    )
