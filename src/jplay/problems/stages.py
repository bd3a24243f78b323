"""What the stages of a committee's chains share."""

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from jplay._array_api import Array, like, namespace, to_numpy
from jplay.blocks.graph import HeatGraph
from jplay.problems.problem import FitProblem, described
from jplay.problems.stacks import Inputs
from jplay.solvers.model import ModelSettings
from jplay.solvers.schedules import FastSchedule

FIRST = ModelSettings(alpha=1.0, beta=0.1, gamma=0.01)
"""Of a J-Play that sees features, and not similarities."""
LOOSE = FastSchedule(tol=1e-2)
"""Schedule of all stages. A hundred times the usual tolerance takes a third of the iterations and
made no difference to the accuracy over 27 problems."""


def columns_of(X: Array, columns: Any) -> Array:
    """Some features of samples; all if ``None``."""
    return X if columns is None else X[:, like(columns, X, dtype=namespace(X).int64)]


def described_stage(inputs: Inputs, *, tuned: bool = False) -> AbstractContextManager[FitProblem]:
    """The problem of unscaled samples, with the usual graph, or one of all if they are few."""
    graph = HeatGraph(max(1, min(HeatGraph.n_neighbors, inputs.X.shape[0] - 1)))
    return described(inputs.X, inputs.y, graph=graph, tuned=tuned, **inputs.of_targets)


def single(array: Array) -> np.ndarray:
    """An array of half the size, in host memory."""
    return to_numpy(array).astype(np.float32)


def relevance(slopes: Array, X: Array) -> Any:
    """How much outputs with these slopes rely on each feature of samples, (n_features,)."""
    xp = namespace(slopes)
    apart = xp.linalg.vector_norm(slopes - xp.mean(slopes, axis=0), axis=0)
    return to_numpy(apart * xp.std(X, axis=0))


def reliance(columns: Any, relevance: Any, n_features: int) -> np.ndarray:
    """Relevance of some columns, as shares of all features that sum to one."""
    total = np.zeros(n_features)
    total[slice(None) if columns is None else columns] = relevance
    return total / (total.sum() or 1.0)
