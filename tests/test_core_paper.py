"""The published solver of the core: Algorithms 1 and 2 on samples in blocks."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, dataclass, fields
from types import SimpleNamespace
from typing import NamedTuple

import array_api_strict
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import jplay.core.paper as paper
import plain_transcription as plain
from jplay.core.objective import Objective, Ridge
from jplay.core.paper import LayerProblem, PaperSolver, fit_autorule, minimize_paper, solve_layer
from jplay.core.samples import Block, Samples, compute_moments, wrap_arrays
from jplay.solvers.model import ModelSettings
from jplay.solvers.pretraining import autorule, locality_preserving_projections
from jplay.solvers.samples import ArraySamples
from jplay.solvers.schedules import LayerSchedule, PaperSchedule
from jplay.solvers.solve import solve

CONSTRAINTS = [
    {"nonnegative": True, "unit_ball": True},
    {"nonnegative": True, "unit_ball": False},
    {"nonnegative": False, "unit_ball": True},
    {"nonnegative": False, "unit_ball": False},
]


class Edges(NamedTuple):
    laplacian_gram: np.ndarray
    degree_gram: np.ndarray
    degree_sum: np.ndarray
    total_degree: float


def lpp_of_edges(edges, mean):
    """The solver's start from graph moments, which the old solver takes from its statistics."""
    gram = edges.degree_gram / edges.total_degree
    values, vectors = np.linalg.eigh(gram)
    root = (vectors * np.sqrt(np.maximum(values, 0))).T
    statistics = SimpleNamespace(
        X_root=root, sample_sum=mean, n_samples=1.0, n_features=len(mean), **edges._asdict()
    )
    return locality_preserving_projections(statistics)


@pytest.fixture(autouse=True)
def _lpp(monkeypatch):
    monkeypatch.setattr(paper, "compute_lpp", lpp_of_edges)


def make_data(n_samples=60, n_features=8, seed=0):
    """Non-negative samples around few prototypes, with a graph and labels."""
    rng = np.random.default_rng(seed)
    prototypes = rng.random((4, n_features))
    X = prototypes[np.arange(n_samples) % 4] + 0.3 * rng.random((n_samples, n_features))
    Y = np.eye(4)[rng.permutation(np.arange(n_samples) % 4)]
    return X, Y, plain.heat_affinity(X, 5, 0.5)


def make_problem(X, Y, affinity, samples=None):
    degrees = affinity.sum(axis=1)
    edges = Edges(
        X.T @ plain.graph_laplacian(affinity) @ X,
        X.T @ (degrees[:, None] * X),
        X.T @ degrees,
        degrees.sum(),
    )
    samples = samples or wrap_arrays(X, Y)
    moments = compute_moments(samples)
    start = lpp_of_edges(edges, X.mean(axis=0))
    return SimpleNamespace(samples=samples, moments=moments, edges=edges, start=start)


def relative_error(actual, expected):
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


# Agreement with the solver that this one replaces.


@pytest.mark.parametrize("reconstruction", [True, False])
@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("layer_sizes", [[5], [7, 5, 3]])
@pytest.mark.parametrize("pretraining", [True, False])
def test_the_old_solver_gives_the_same(pretraining, layer_sizes, constraints, reconstruction):
    X, Y, affinity = make_data()
    weights = {"alpha": 2.0, "beta": 0.2, **constraints, "reconstruction": reconstruction}
    options = {"max_iter": 3, "inner_max_iter": 60, "tol": 0.0, "pretraining": pretraining}
    old = solve(
        ArraySamples(X, Y, scipy.sparse.csr_array(affinity)),
        layer_sizes,
        ModelSettings(gamma=0.5, **weights),
        PaperSchedule(**options),
    )
    objective = Objective(penalty=Ridge(0.5), **weights)
    new = minimize_paper(make_problem(X, Y, affinity), layer_sizes, objective, PaperSolver(**options))
    print(
        [relative_error(a, b) for a, b in zip(new.thetas, old.thetas, strict=True)],
        relative_error(new.coef, old.coef),
        relative_error(np.array(new.objective), np.array(old.objective)),
        new.status == old.status
    )
