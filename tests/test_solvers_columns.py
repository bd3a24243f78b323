"""The penalty on the columns of the first projection: its optimality conditions, and its zeros."""

from dataclasses import replace

import numpy as np
import pytest

from jplay import HeatGraph
from jplay.solvers.descent import ColumnSplit, Iterate, JointProblem, measured, stepped
from jplay.solvers.joint import solve_joint
from jplay.solvers.model import ModelSettings
from jplay.solvers.pretraining import starting_projections
from jplay.solvers.samples import ArraySamples
from jplay.solvers.schedules import FastSolver

N_FEATURES = 8
FREE = ModelSettings(10.0, 0.01, 0.1, nonnegative=False, unit_ball=False, reconstruction=False)
BOUND = ModelSettings(10.0, 0.01, 0.1, reconstruction=False)
FIXED = FastSolver(growth=1.0, settled_growth=1.0)


@pytest.fixture(scope="module")
def samples():
    """Three classes that differ in three of eight features, and a constant feature."""
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    X = rng.standard_normal((90, N_FEATURES))
    X[:, :3] += 1.5 * rng.standard_normal((3, 3))[labels]
    X = (X - X.mean(axis=0)) / X.std(axis=0) / np.sqrt(N_FEATURES)
    constant = np.full((90, 1), 1.5)
    return ArraySamples(np.hstack([X, constant]), np.eye(3)[labels], HeatGraph(5)(X))


def penalty_of(weight):
    return weight * np.append(np.ones(N_FEATURES), 0.0)


def solved_at_fixed_penalty(samples, model, weight, n_iter=1000):
    """Iterate with a constant penalty; copy, and gradient of all but the penalty on columns."""
    statistics = samples.statistics()
    problem = JointProblem.of(statistics, model.alpha)
    iterate = Iterate.start(starting_projections(statistics, [3]), 1.0)
    columns = ColumnSplit(problem, penalty_of(weight), iterate.thetas[0])
    sweep = samples.joint_pass([3], **model.constraints)
    for _ in range(n_iter):
        measurement = measured(problem, iterate, sweep, model, FIXED, columns)
        iterate = stepped(problem, iterate, measurement, model, FIXED)
    first, theta, coef = problem.first, columns.copy, measurement.coef
    gradient = model.alpha * coef.T @ (coef @ theta @ first.A - first.C)
    gradient += model.beta * theta @ first.M
    # mu (Z - S - D)^T X: the multipliers of the constraints, as the gradient feels them.
    gradient += iterate.mu[0] * (theta @ first.A - measurement.pulls[0])
    return theta, gradient


@pytest.mark.parametrize("model", [FREE, BOUND], ids=["free", "bound"])
@pytest.mark.parametrize("weight", [2.0, 200.0])
def test_penalised_projection_is_stationary(samples, model, weight):
    theta, gradient = solved_at_fixed_penalty(samples, model, weight)
    norms = np.linalg.norm(theta, axis=0)[:N_FEATURES]
    kept = np.flatnonzero(norms)
    zero = np.flatnonzero(norms == 0)
    np.testing.assert_allclose(
        gradient[:, kept], -weight * theta[:, kept] / norms[kept], atol=5e-3 * weight
    )
    assert np.all(np.linalg.norm(gradient[:, zero], axis=0) <= 1.01 * weight)
    if weight > 100:
        assert 0 < len(kept) < N_FEATURES


def test_no_penalty_changes_nothing(samples):
    plain = solve_joint(samples, [3], BOUND, FastSolver())
    penalised = solve_joint(samples, [3], BOUND, FastSolver(), column_penalty=penalty_of(1e-9))
    assert penalised.objective[-1] == pytest.approx(plain.objective[-1], rel=1e-2)


def test_zero_columns_survive_the_repair_and_features_are_feasible(samples):
    result = solve_joint(samples, [3], BOUND, FastSolver(), column_penalty=penalty_of(200.0))
    theta = result.thetas[0]
    norms = np.linalg.norm(theta[:, :N_FEATURES], axis=0)
    assert 0 < np.count_nonzero(norms) < N_FEATURES
    features = samples.X @ theta.T
    assert features.min() > -1e-9
    assert np.linalg.norm(features, axis=1).max() < 1 + 1e-9
    assert result.objective_terms[-1].columns == pytest.approx(200.0 * norms.sum())


def test_dear_features_are_dropped_first(samples):
    penalty = penalty_of(30.0)
    penalty[0] = 1e5
    result = solve_joint(samples, [3], BOUND, FastSolver(), column_penalty=penalty)
    norms = np.linalg.norm(result.thetas[0], axis=0)
    assert norms[0] == 0
    assert norms[1] > 0


def test_warm_start_reaches_the_objective_of_a_cold_one(samples):
    schedule = replace(FastSolver(), tol=1e-5)
    cold = solve_joint(samples, [3], BOUND, schedule, column_penalty=penalty_of(30.0))
    warm = solve_joint(
        samples, [3], BOUND, schedule, column_penalty=penalty_of(30.0), start=cold.thetas
    )
    assert warm.objective[-1] == pytest.approx(cold.objective[-1], rel=1e-2)
