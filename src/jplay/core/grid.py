"""Many problems at once: folds along the first axis, settings of the objective along the second.

There is nothing to it but shapes. Every function of the solver takes leading axes, and a number of
a problem has the shape (..., 1, 1). Folds are padded with rows and columns of zeros, which add
nothing to any sum, and broadcast against the settings. On a device, where a small product takes no
longer than the call that starts it, a grid takes about as long as its slowest problem.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jplay.core.arrays import Array, is_numpy, like, namespace, zeros_like_shape
from jplay.core.graph import GraphMoments
from jplay.core.objective import Objective, Ridge
from jplay.core.problem import Problem
from jplay.core.result import SolverResult
from jplay.core.samples import Block, Samples, compute_moments
from jplay.core.solver import FastSolver, finish, iterate

HOST_BYTES, DEVICE_BYTES = 2**26, 2**31
"""Size of one array of features of all problems that are solved together. On the CPU larger stacks
leave the cache and save no time; on a device some ten such arrays must fit into its memory."""


def minimize_grid(
    folds: Sequence[Problem],
    objectives: Sequence[Objective],
    layer_sizes: Sequence[int],
    options: FastSolver,
) -> list[list[SolverResult | None]]:
    """Minimize Eq. 6 for every fold and every setting of its weights.

    Parameters
    ----------
    folds : sequence of Problem
        In memory, with equally many inputs.
    objectives : sequence of Objective
        They may differ in ``alpha``, ``beta`` and ``gamma``, with a ridge as penalty.
    layer_sizes : sequence of int
    options : FastSolver

    Returns
    -------
    results : list over folds of lists over objectives
        ``None`` for a problem that diverged.
    """
    starts = [
        fold.start if objectives[0].nonnegative else fold.start_with_intercepts for fold in folds
    ]
    stack = stack_folds(folds, [start[: layer_sizes[0], :] for start in starts])
    n_settings = count_together(stack, layer_sizes)
    results: list[list[SolverResult | None]] = [[] for _ in folds]
    for first in range(0, len(objectives), n_settings):
        objective = stack_objectives(objectives[first : first + n_settings], stack.moments.gram)
        start = stack.start + 0 * objective.alpha
        problem = replace(stack)
        # The same for every setting of a fold.
        problem.__dict__.update(start=start, start_with_intercepts=start)
        flat = finish(
            problem, objective, options, iterate(problem, layer_sizes, objective, options)
        )
        for fold, of_fold in enumerate(results):
            n = len(flat) // len(folds)
            of_fold += flat[fold * n : (fold + 1) * n]
    return results


def count_together(stack: Problem, layer_sizes: Sequence[int]) -> int:
    """Return the number of settings that are solved together."""
    [block] = stack.samples.blocks
    budget = HOST_BYTES if is_numpy(block.X) else DEVICE_BYTES
    n_folds, _, n_samples, _ = block.X.shape
    return max(1, budget // (8 * n_folds * n_samples * max(layer_sizes)))


def stack_objectives(objectives: Sequence[Objective], reference: Array) -> Objective:
    """Return one objective whose weights have the shape (n_settings, 1, 1)."""

    def stack_weights(weights: list[Any]) -> Array:
        return like(np.array(weights, dtype=float).reshape(-1, 1, 1), reference)

    return replace(
        objectives[0],
        alpha=stack_weights([o.alpha for o in objectives]),
        beta=stack_weights([o.beta for o in objectives]),
        penalty=Ridge(stack_weights([ridge_of(o) for o in objectives])),
    )


def ridge_of(objective: Objective) -> Array:
    """Return the weight of the ridge on the label projection."""
    assert isinstance(objective.penalty, Ridge)
    return objective.penalty.gamma


def stack_folds(folds: Sequence[Problem], starts: Sequence[Array]) -> Problem:
    """Return the problems of all folds as a stack with the axes (n_folds, 1)."""
    xp = namespace(folds[0].moments.gram)
    parts = [[block.load() for block in fold.samples.blocks] for fold in folds]
    X = [xp.concat([block.X for block in fold]) for fold in parts]
    Y = [xp.concat([block.Y for block in fold]) for fold in parts]
    weight = None
    if any(block.weight is not None for fold in parts for block in fold):
        ones = [[xp.ones_like(block.Y[:, :1]) for block in fold] for fold in parts]
        weight = pad_stack(
            [
                xp.concat(
                    [one if b.weight is None else b.weight for b, one in zip(*pair, strict=True)]
                )
                for pair in zip(parts, ones, strict=True)
            ]
        )
    samples = Samples([Block(pad_stack(X), pad_stack(Y), weight)])
    counts = np.array([fold.moments.n_samples for fold in folds], dtype=float)
    moments = compute_moments(samples)
    moments = replace(moments, n_samples=like(counts.reshape(-1, 1, 1, 1), moments.gram))
    laplacian_gram = pad_stack([fold.edges.laplacian_gram for fold in folds])
    edges = GraphMoments(laplacian_gram, None, None, 0.0)
    stack = Problem(samples, moments, edges, folds[0].transform)
    stack.__dict__["start"] = pad_stack(starts)
    return stack


def pad_stack(matrices: Sequence[Array]) -> Array:
    """Return matrices padded with zeros to one shape, (n_matrices, 1, n_rows, n_columns)."""
    n_rows, n_columns = (max(matrix.shape[axis] for matrix in matrices) for axis in (0, 1))
    stack = zeros_like_shape((len(matrices), 1, n_rows, n_columns), matrices[0])
    for number, matrix in enumerate(matrices):
        stack[number, 0, : matrix.shape[0], : matrix.shape[1]] = matrix
    return stack
