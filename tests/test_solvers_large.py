"""Principal axes and single precision of large chains against a solve without them."""

from dataclasses import replace

import numpy as np
import pytest

from closeness import assert_close
from jplay.numerics.graph import heat_affinity
from jplay.solvers import batch, joint, large
from jplay.solvers.batch import solve_joint_batch
from jplay.solvers.descent import (
    Curvature,
    Iterate,
    JointProblem,
    eigenbasis,
    in_double_precision,
    in_single_precision,
    measured,
    preconditioned_step,
    stepped,
)
from jplay.solvers.joint import solve_joint
from jplay.solvers.large import PrincipalAxes, bears_single_precision, is_large, is_rough
from jplay.solvers.model import ModelSettings
from jplay.solvers.moments import Moments, first_moments, forward
from jplay.solvers.pretraining import starting_projections
from jplay.solvers.samples import ArraySamples
from jplay.solvers.schedules import FastSchedule

SIZES = [7, 5, 3]
MODEL = ModelSettings()


def make_samples(n_samples=60, seed=0, scale=1.0, dtype=np.float64, weakest=1e-3):
    rng = np.random.default_rng(seed)
    labels = np.arange(n_samples) % 3
    X = rng.random((3, 9))[labels] + 0.4 * rng.random((n_samples, 9))
    # Directions of very different strength, as those of spectra.
    X = X * np.geomspace(1, weakest, 9) @ np.linalg.qr(rng.normal(size=(9, 9)))[0]
    X = scale * np.hstack([X, np.ones((n_samples, 1))])
    return ArraySamples(X.astype(dtype), np.eye(3)[labels], heat_affinity(X, 5)[0])


@pytest.fixture
def every_chain_is_large(monkeypatch):
    monkeypatch.setattr(large, "_LARGE_PROJECTION", 0)


def features_of(samples, thetas):
    Z = [samples.X]
    for theta in thetas:
        Z.append(Z[-1] @ theta.T)
    return Z[1:]


def test_chains_are_large_if_products_take_the_time(every_chain_is_large):
    def large_with(sizes, **kwargs):
        samples = make_samples(**kwargs)
        return is_large(samples, samples.statistics(), sizes)

    assert large_with(SIZES)
    assert not large_with([3])
    assert not large_with(SIZES, n_samples=101)
    assert not large_with(SIZES, dtype=np.float32)
    assert not large_with(SIZES, scale=1e7)
    assert not large_with(SIZES, scale=1e-7)
    assert not is_large(object(), make_samples().statistics(), SIZES)


def test_small_chains_are_not_large():
    samples = make_samples()
    assert not is_large(samples, samples.statistics(), SIZES)


def test_samples_on_principal_axes_have_the_same_features_and_diagonal_moments():
    samples = make_samples()
    statistics = samples.statistics()
    assert first_moments(statistics).A_diagonal is None
    axes = PrincipalAxes.of(statistics)
    turned, turned_statistics = axes.turned(samples, statistics)
    first = first_moments(turned_statistics)
    np.testing.assert_allclose(first.A_diagonal, np.sum(turned.X**2, axis=0), rtol=1e-6)
    thetas = starting_projections(statistics, SIZES)
    there = axes.turned_start(thetas)
    for Z, Z_turned in zip(features_of(samples, thetas), features_of(turned, there), strict=True):
        np.testing.assert_allclose(Z_turned, Z, atol=1e-12)
    np.testing.assert_allclose(axes.turned_back(there)[0], thetas[0], atol=1e-12)


def test_diagonal_moments_lead_to_the_same_chain_and_step():
    rng = np.random.default_rng(0)
    A, M = np.diag(rng.random(6)), np.cov(rng.normal(size=(6, 20)))
    C, thetas = rng.normal(size=(2, 6)), [rng.normal(size=(5, 6)), rng.normal(size=(3, 5))]
    dense = Moments(A, M, (A,), C, (slice(0, 2),))
    diagonal = Moments(A, M, (A,), C, (slice(0, 2),), np.diag(A))
    expected, actual = forward(dense, thetas), forward(diagonal, thetas)
    for a, b in zip(actual.moments[1:], expected.moments[1:], strict=True):
        np.testing.assert_allclose(a.A, b.A, atol=1e-12)
    for a, b in zip(actual.theta_A, expected.theta_A, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    values, modes, gradient = rng.random(5), rng.normal(size=(5, 5)), rng.normal(size=(5, 6))
    assert_close(
        preconditioned_step(gradient, Curvature(values, modes, np.diag(A), None, 1.0)),
        preconditioned_step(gradient, Curvature(values, modes, *eigenbasis(A), 1.0)),
        1e-7,
    )


def test_large_chains_end_where_they_do_in_double_precision(every_chain_is_large, monkeypatch):
    samples = make_samples()
    result = solve_joint(samples, SIZES, MODEL, FastSchedule())
    monkeypatch.setattr(joint, "in_single_precision", lambda *exact: exact)
    exact = solve_joint(samples, SIZES, MODEL, FastSchedule())
    monkeypatch.setattr(joint, "is_large", lambda *_: False)
    plain = solve_joint(samples, SIZES, MODEL, FastSchedule())
    assert exact.objective[-1] == pytest.approx(plain.objective[-1], rel=1e-6)
    assert result.objective[-1] == pytest.approx(plain.objective[-1], rel=1e-4)
    assert result.status.converged
    assert all(theta.dtype == np.float64 for theta in [*result.thetas, result.coef])
    for Z in features_of(samples, result.thetas):
        assert Z.min() > -1e-10
        assert np.linalg.norm(Z, axis=1).max() < 1 + 1e-10


@pytest.mark.parametrize("in_single", [True, False])
def test_large_problems_of_a_batch_end_as_they_do_alone(
    every_chain_is_large, in_single, monkeypatch
):
    for solver in (joint, batch) if not in_single else ():
        monkeypatch.setattr(solver, "in_single_precision", lambda *exact: exact)
    both = make_samples(60, 0, weakest=0.5), make_samples(50, 1, weakest=0.5)
    folds = [(samples, samples.statistics()) for samples in both]
    settings = [ModelSettings(), ModelSettings(alpha=0.1), ModelSettings(beta=1.0)]
    found = solve_joint_batch(folds, SIZES, settings, FastSchedule())
    for (samples, statistics), results in zip(folds, found, strict=True):
        for model, result in zip(settings, results, strict=True):
            alone = solve_joint(samples, SIZES, model, FastSchedule(), statistics=statistics)
            tolerance = 1e-5 if in_single else 1e-9
            assert result.objective[-1] == pytest.approx(alone.objective[-1], rel=tolerance)
            assert all(theta.dtype == np.float64 for theta in result.thetas)


def test_callbacks_are_told_of_the_samples_as_they_were(every_chain_is_large):
    samples, seen = make_samples(), []
    schedule = FastSchedule(max_iter=1)
    start = starting_projections(samples.statistics(), SIZES)
    solve_joint(samples, SIZES, MODEL, schedule, callback=seen.append, start=start)
    np.testing.assert_allclose(seen[-1].thetas[0], start[0], atol=1e-6)


def test_what_diverges_in_single_precision_is_tried_again_in_double(
    every_chain_is_large, monkeypatch
):
    samples = make_samples()
    precisions = []

    def failing(problem, iterate, *arguments):
        precisions.append(iterate.thetas[0].dtype)
        if problem.exact is not None:
            raise joint.Diverged
        return measured(problem, iterate, *arguments)

    monkeypatch.setattr(joint, "measured", failing)
    assert solve_joint(samples, SIZES, MODEL, FastSchedule()).status.converged
    assert precisions[:2] == [np.float32, np.float64]


def test_iterations_go_on_in_double_precision_where_single_precision_left_them():
    samples, schedule = make_samples(), FastSchedule()
    statistics = samples.statistics()
    exact = JointProblem.of(statistics, MODEL.alpha)
    start = Iterate.start(starting_projections(statistics, SIZES), 1.0)
    assert in_double_precision(exact, start) == (exact, start)
    problem, iterate = in_single_precision(exact, start)
    sweep = samples.joint_pass(SIZES, **MODEL.constraints)
    for _ in range(2):
        measurement = measured(problem, iterate, sweep, MODEL, schedule)
        iterate = stepped(problem, iterate, measurement, MODEL, schedule)
    assert {theta.dtype for theta in iterate.thetas} == {np.dtype("float32")}
    assert {point.dtype for point in sweep.points} == {np.dtype("float32")}
    problem, iterate = in_double_precision(problem, iterate)
    assert problem is exact
    measured(problem, iterate, sweep, MODEL, schedule)
    assert {point.dtype for point in sweep.points} == {np.dtype("float64")}
    curvature = iterate.preconditioner.layers[0]
    assert {part.dtype for part in curvature} == {np.dtype("float64")}


def test_single_precision_is_for_early_iterations_and_small_penalties():
    start = Iterate.start([], 1.0, n_problems=2)
    assert is_rough(start)
    assert not is_rough(replace(start, n_steps=100))
    assert not is_rough(replace(start, mu=np.array([1.0, 1e4])))


def test_single_precision_is_for_bounded_features_and_dense_label_projections():
    assert bears_single_precision(MODEL)
    assert not bears_single_precision(replace(MODEL, unit_ball=False))
    assert not bears_single_precision(replace(MODEL, sparsity=0.1))
