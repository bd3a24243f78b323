"""Many problems at once: folds along the first axis, settings of the model along the second.

There is nothing to it but shapes. Every function of the solver takes leading axes, and a number of a
problem has the shape (..., 1, 1). Folds are padded with rows and columns of zeros, which add nothing
to any sum, and broadcast against the settings. On a device, where a small product takes no longer
than the call that starts it, a grid takes about as long as its slowest problem.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jplay.core.arrays import Array, namespace
from jplay.core.objective import Model
from jplay.core.problem import Problem
from jplay.core.samples import Block, Samples, compute_moments
from jplay.core.solver import FastSchedule, Solution, minimize


def minimize_grid(
    folds: Sequence[Problem],
    models: Sequence[Model],
    layer_sizes: Sequence[int],
    schedule: FastSchedule,
) -> Solution:
    """Solve one problem per fold and setting; the solution has the axes (folds, settings, ...).

    Parameters
    ----------
    folds : sequence of Problem
        In memory, with unweighted targets.
    models : sequence of Model
        They may differ in ``alpha``, ``beta`` and ``gamma``.
    """
    blocks = [[block.load() for block in fold.samples.blocks] for fold in folds]
    samples = Samples(
        [
            Block(
                pad_stack([np.concatenate([block.X for block in fold]) for fold in blocks]),
                pad_stack([np.concatenate([block.Y for block in fold]) for fold in blocks]),
                None,
            )
        ]
    )
    counts = np.array([fold.moments.n_samples for fold in folds], dtype=float)
    moments = replace(compute_moments(samples), n_samples=counts.reshape(-1, 1, 1, 1))
    laplacian_gram = pad_stack([fold.laplacian_gram for fold in folds])
    start = pad_stack([fold.start for fold in folds])
    weights = {
        name: np.array([float(getattr(model, name)) for model in models]).reshape(-1, 1, 1)
        for name in ("alpha", "beta", "gamma")
    }
    # The start of every setting of a fold is the same.
    problem = Problem(samples, moments, laplacian_gram, start + 0 * weights["alpha"])
    return minimize(problem, layer_sizes, replace(models[0], **weights), schedule)


def pad_stack(arrays: Sequence[Array]) -> Array:
    """Matrices of several folds, padded with zeros, (folds, 1, n_rows, n_columns)."""
    xp = namespace(*arrays)
    shape = [max(array.shape[axis] for array in arrays) for axis in (0, 1)]
    stack = xp.zeros((len(arrays), 1, *shape), dtype=xp.float64)
    for fold, array in enumerate(arrays):
        stack[fold, 0, : array.shape[0], : array.shape[1]] = array
    return stack
