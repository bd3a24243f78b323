"""J-Play as a stage of a kernel model or of a committee's member."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from jplay.core.arrays import Array, like, namespace, to_numpy
from jplay.core.graph import HeatGraph
from jplay.core.objective import Objective, Ridge
from jplay.core.problem import Problem, prepare
from jplay.core.result import SolverResult
from jplay.core.solver import FastSolver
from jplay.core.targets import Targets, encode_targets
from jplay.estimators._chain import choose_sizes, minimize_chain

FIRST = Objective(alpha=1.0, beta=0.1, penalty=Ridge(0.01))
"""Objective of a J-Play on features, and not on similarities."""
LOOSE = FastSolver(tol=1e-2)
"""Solver of all stages. A hundred times the usual tolerance takes a third of the iterations and
made no difference to the accuracy over 27 problems."""


@dataclass(frozen=True, eq=False)
class StageData:
    """Samples of a stage with their targets as plain numbers; -1 for samples without a label."""

    X: Array
    y: Any
    unlabeled: Any = None
    sample_weight: Any = None
    class_weight: Any = None

    def encode(self) -> Targets:
        """Return the encoded targets."""
        return encode_targets(
            self.y,
            unlabeled=self.unlabeled,
            sample_weight=self.sample_weight,
            class_weight=self.class_weight,
        )


@contextmanager
def prepare_stage(data: StageData) -> Iterator[Problem]:
    """Prepare the problem of unscaled samples, with the usual graph, or that of all if few."""
    graph = HeatGraph(max(1, min(HeatGraph.n_neighbors, data.X.shape[0] - 1)))
    with prepare(data.X, data.encode(), graph=graph) as problem:
        yield problem


def minimize_stage(
    problem: Problem, objective: Objective, n_components: int | None = None
) -> SolverResult:
    """Minimize the objective of a stage over a single layer."""
    assert problem.targets is not None
    sizes = choose_sizes(problem, n_components, 1, problem.targets.n_outputs)
    return minimize_chain(problem, sizes, objective, LOOSE)


def merge_labels(Y: np.ndarray, n_samples: int, multilabel: bool) -> np.ndarray:
    """Return targets as plain numbers from indicators of the first samples; -1 for the others."""
    known = Y if multilabel else Y.argmax(axis=1)
    targets = np.full((n_samples, *known.shape[1:]), -1)
    targets[: len(known)] = known
    return targets


def take_columns(X: Array, columns: Any) -> Array:
    """Return some features of samples; all if ``None``."""
    return X if columns is None else X[:, like(columns, X, dtype=namespace(X).int64)]


def round_to_single(array: Array) -> np.ndarray:
    """Return an array in single precision, in host memory."""
    return to_numpy(array).astype(np.float32)


def measure_importance(slopes: Array, X: Array) -> np.ndarray:
    """Return how much outputs with these slopes depend on each feature of samples."""
    xp = namespace(slopes)
    differences = xp.linalg.vector_norm(slopes - xp.mean(slopes, axis=0), axis=0)
    return to_numpy(differences * xp.std(X, axis=0))


def spread_importance(columns: Any, importance: Any, n_features: int) -> np.ndarray:
    """Return the importance of some columns as fractions over all features; they sum to one."""
    total = np.zeros(n_features)
    total[slice(None) if columns is None else columns] = importance
    return total / (total.sum() or 1.0)
