"""Many small problems of one layer, those of one shape described and solved as one stack.

On a device a small array operation takes no longer than the call that starts it. A stack makes as
many calls as a single problem.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jplay._array_api import Array, like, linalg_errors, namespace, rows_of, to_numpy
from jplay.blocks.graph import HeatGraph
from jplay.numerics.stacked_graphs import stacked_graphs, stacked_laplacian_grams
from jplay.problems.checks import UNSCALED_MAGNITUDES
from jplay.problems.first_layer import FirstLayer
from jplay.problems.problem import FitProblem
from jplay.problems.targets import Targets, encode_targets
from jplay.problems.tasks import ChainTask, Solution, chain_solution
from jplay.solvers.batch import solve_joint_stack, with_empty_rows
from jplay.solvers.model import ModelSettings
from jplay.solvers.pretraining import inside_ball, stacked_projections
from jplay.solvers.samples import ArraySamples, Statistics
from jplay.solvers.schedules import FastSchedule

_STACK_ELEMENTS = 2**26
"""Of the largest array of a stack: 512 MiB in double precision. Some five are needed at a time."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """Samples and targets of one problem, as :func:`jplay.problems.described` takes them."""

    X: Array
    y: Any
    unlabelled: Any = None
    sample_weight: Any = None
    class_weight: Any = None

    @property
    def of_targets(self) -> dict:
        """What tells how targets are encoded."""
        return {
            "unlabelled": self.unlabelled,
            "sample_weight": self.sample_weight,
            "class_weight": self.class_weight,
        }


@dataclass(frozen=True, eq=False)
class _Part:
    """One problem among those to be solved."""

    number: int
    X: Array
    targets: Targets
    n_components: int
    model: ModelSettings

    @property
    def shape(self) -> tuple:
        """Problems with the same can be stacked."""
        weighted, n_classes = self.targets.weight is not None, len(self.targets.code.classes)
        return self.X.shape[1], self.X.dtype, n_classes, weighted, self.n_components, self.model


def solve_together(
    inputs: Sequence[Inputs], tasks: Sequence[ChainTask]
) -> list[tuple[FitProblem, Solution] | None]:
    """Describe and solve problems of one layer, with the usual graph of unscaled samples.

    Parameters
    ----------
    inputs : sequence of Inputs
        On one device.
    tasks : sequence of ChainTask
        What is asked of each; they differ in the number of components and the model at most.

    Returns
    -------
    found : list of (FitProblem, Solution)
        ``None`` for a problem that deserves a look of its own: if it diverged, if its solution
        was refused, if its samples have a small rank, or if they are very few.
    """
    parts = []
    for number, (own, task) in enumerate(zip(inputs, tasks, strict=True)):
        if own.X.shape[0] > HeatGraph.n_neighbors:
            targets = encode_targets(own.y, **own.of_targets)
            n_components = min(task.wanted_components([targets.code]), own.X.shape[1])
            parts.append(_Part(number, own.X, targets, n_components, task.model))
    found: list[tuple[FitProblem, Solution] | None] = [None] * len(inputs)
    for shape in dict.fromkeys(part.shape for part in parts):
        alike = [part for part in parts if part.shape == shape]
        n_rows = max(part.X.shape[0] for part in alike)
        size = max(1, _STACK_ELEMENTS // (n_rows * max(n_rows, alike[0].X.shape[1])))
        for start in range(0, len(alike), size):
            for number, solved in _solved(alike[start : start + size], tasks[alike[0].number]):
                found[number] = solved
    return found


def _solved(parts: list[_Part], task: ChainTask) -> list[tuple[int, Any]]:
    """Solve problems of one shape; those with a constant feature apart from those without."""
    xp = namespace(parts[0].X)
    n_rows = np.asarray([part.X.shape[0] for part in parts])
    X = xp.stack([with_empty_rows(part.X, int(n_rows.max())) for part in parts])
    filled = like(np.arange(X.shape[1]) < n_rows[:, None], X, dtype=xp.bool)
    magnitudes = to_numpy(xp.max(xp.abs(X), axis=(1, 2)))
    smallest, largest = UNSCALED_MAGNITUDES
    safe = (magnitudes >= smallest) & (magnitudes <= largest)
    # A linear map cannot be non-negative on samples that lie on both sides of the origin.
    sides = (X @ xp.sum(X, axis=1)[:, :, None])[:, :, 0]
    one_sided = to_numpy(xp.all((sides > 0) | ~filled, axis=1))
    norms = xp.linalg.vector_norm(X, axis=2)
    constants = to_numpy(xp.max(norms, axis=1)).astype(float)
    found = []
    for chosen, affine in ((safe & one_sided, False), (safe & ~one_sided, True)):
        kept = np.flatnonzero(chosen)
        if not kept.size:
            continue
        inside = rows_of(X, kept)
        if affine:
            column = like(constants[kept, None], X) * xp.astype(rows_of(filled, kept), X.dtype)
            inside = xp.concat([inside, column[:, :, None]], axis=2)
        own = [float(constants[i]) if affine else None for i in kept]
        found += _stack_solved([parts[i] for i in kept], inside, n_rows[kept], own, task)
    return found


def _stack_solved(
    parts: list[_Part], X: Array, n_rows: np.ndarray, constants: list, task: ChainTask
) -> list[tuple[int, Any]]:
    """Solve a stack of problems whose samples are complete."""
    xp, n_features = namespace(X), parts[0].X.shape[1]
    assert isinstance(task.schedule, FastSchedule)
    graph, bandwidths = stacked_graphs(X[:, :, :n_features], n_rows, HeatGraph.n_neighbors)
    bases = None
    if X.shape[2] > X.shape[1]:
        # Every iterate lies in the row space.
        bases, coordinates = xp.linalg.qr(X.mT)
        X = xp.asarray(coordinates.mT, copy=True)
    Y, weights = _stacked_targets(parts, X)
    statistics = _statistics(X, Y, weights, graph, n_rows)
    try:
        starts, ranks = stacked_projections(statistics, parts[0].n_components)
    except linalg_errors(X):
        return []
    problems = [
        FitProblem(
            samples=ArraySamples(
                X[i, :count, :],
                Y[i, :count, :],
                None,
                label_weight=None if weights is None else weights[i, :count],
            ),
            statistics=statistics.of_problem(i),
            first_layer=FirstLayer(
                n_features, constants[i], None if bases is None else bases[i, ...]
            ),
            dtype=X.dtype,
            affinity=None,
            bandwidth=bandwidths[i],
            code=part.targets.code,
            targets=part.targets,
        )
        for i, (part, count) in enumerate(zip(parts, n_rows.tolist(), strict=True))
    ]
    results = solve_joint_stack(
        [problem.samples for problem in problems],
        X,
        statistics,
        inside_ball(starts, statistics),
        task.model,
        task.schedule,
    )
    found = []
    for part, problem, result, rank in zip(parts, problems, results, ranks, strict=True):
        if result is None or rank < part.n_components:
            continue
        try:
            solution = chain_solution(problem, result, task.attributes)
        except ValueError:
            continue
        found.append((part.number, (problem, solution)))
    return found


def _stacked_targets(parts: list[_Part], X: Array) -> tuple[Array, Array | None]:
    """Indicators and label weights of all problems, zero in empty rows."""
    shape = (len(parts), X.shape[1])
    Y = np.zeros((*shape, parts[0].targets.Y.shape[1]))
    weights = None if parts[0].targets.weight is None else np.zeros(shape)
    for i, part in enumerate(parts):
        Y[i, : part.X.shape[0]] = part.targets.Y
        if weights is not None:
            weights[i, : part.X.shape[0]] = part.targets.weight
    return like(Y, X), None if weights is None else like(weights, X)


def _statistics(
    X: Array, Y: Array, weights: Array | None, graph: Any, n_rows: np.ndarray
) -> Statistics:
    """Second moments of all problems; the samples themselves are their roots."""
    xp = namespace(X)
    X, Y = xp.astype(X, xp.float64), xp.astype(Y, xp.float64)
    grams, degree_grams, degree_sums, total_degrees = stacked_laplacian_grams(X, graph)
    task_roots = None
    if weights is not None:
        scale = xp.sqrt(xp.astype(weights, xp.float64))[:, :, None]
        task_roots = ((X * scale, Y * scale),)
    return Statistics(
        X_root=X,
        Y_root=Y,
        sample_sum=xp.sum(X, axis=1),
        laplacian_gram=grams,
        degree_gram=degree_grams,
        degree_sum=degree_sums,
        total_degree=total_degrees,
        n_samples=n_rows,
        task_roots=task_roots,
    )
