"""The one way from a described problem to what an estimator stores."""

from collections.abc import Sequence

import numpy as np

from jplay._array_api import arrays_on_host
from jplay.problems.problem import FitProblem
from jplay.problems.tasks import (
    ChainTask,
    EmbeddingTask,
    LayerTask,
    Report,
    Solution,
    chain_solution,
)
from jplay.solvers.batch import solve_joint_batch
from jplay.solvers.result import SolverResult
from jplay.solvers.samples import ArraySamples, Statistics
from jplay.solvers.schedules import FastSchedule


def solve(
    problem: FitProblem, task: ChainTask | LayerTask | EmbeddingTask, report: Report | None = None
) -> Solution:
    """Solve a problem. Every fit of the J-Play family goes through here.

    Parameters
    ----------
    problem : FitProblem
        From :func:`jplay.problems.described`.
    task : ChainTask, LayerTask or EmbeddingTask
        What is asked of it.
    report : callable, default=None
        Called after every iteration with the solver's progress and a function that gives the
        attributes so far; a true value stops the solver.

    Returns
    -------
    Solution

    Raises
    ------
    ValueError
        If the weights are so far apart that the equations of a step cannot be solved.
    """
    try:
        return task.run(problem, report)
    except (np.linalg.LinAlgError, OverflowError) as error:
        raise ValueError(
            f"The equations of the fit could not be solved in double precision ({error}). Bring "
            "the weights (alpha, beta, gamma, eta) nearer to one, and scale the samples."
        ) from error


def solve_batch(
    problems: Sequence[FitProblem], tasks: Sequence[ChainTask]
) -> list[list[Solution | ValueError | None]]:
    """Solve several tasks for each of several problems, as few large array operations.

    The tasks may differ in the weights of the model only. Solutions are in host memory: what makes
    attributes of them is a few small matrices.

    Returns
    -------
    solutions : list over problems of lists over tasks
        ``None`` for a problem that diverged: solved individually, it says what to change. An
        error in the place of a solution that was refused.
    """
    solutions: list[list] = [[] for _ in problems]
    schedule = tasks[0].schedule
    assert isinstance(schedule, FastSchedule)
    # Folds with fewer samples than features differ in the number of coordinates.
    shapes = [(problem.statistics.n_features, *tasks[0].sizes(problem)) for problem in problems]
    for shape in dict.fromkeys(shapes):
        members = [i for i, own in enumerate(shapes) if own == shape]
        results = solve_joint_batch(
            [_in_memory(problems[i]) for i in members],
            list(shape[1:]),
            [task.model for task in tasks],
            schedule,
            projections=[problems[i].start for i in members],
        )
        for i, own_results in zip(members, results, strict=True):
            problem = problems[i].on_host()
            for result in own_results:
                solutions[i].append(_checked(problem, arrays_on_host(result)))
    return solutions


def _in_memory(problem: FitProblem) -> tuple[ArraySamples, Statistics]:
    """Samples and statistics for a batch, which is made of whole arrays."""
    assert isinstance(problem.samples, ArraySamples)
    return problem.samples.whole(), problem.statistics


def _checked(problem: FitProblem, result: SolverResult | None) -> Solution | ValueError | None:
    if result is None:
        return None
    try:
        return chain_solution(problem, result)
    except ValueError as error:
        return error
