"""A batch gives what its problems give alone."""

import numpy as np
import pytest

from graphs import heat_affinity
from jplay._array_api import to_numpy
from jplay.numerics.graph import neighbor_graph
from jplay.solvers import descent
from jplay.solvers.batch import solve_joint_batch
from jplay.solvers.joint import solve_joint
from jplay.solvers.model import ModelSettings
from jplay.solvers.pretraining import locality_preserving_projections
from jplay.solvers.samples import ArraySamples
from jplay.solvers.schedules import FastSolver

SIZES = [6, 4]
SETTINGS = [ModelSettings(alpha=a, beta=b, gamma=0.2) for a in (0.1, 20.0) for b in (0.01, 0.5)]


def make_fold(n_samples, seed, library="numpy"):
    rng = np.random.default_rng(seed)
    prototypes = rng.random((3, 8))
    X = prototypes[np.arange(n_samples) % 3] + 0.4 * rng.random((n_samples, 8))
    X /= X.max(axis=1, keepdims=True)
    Y = np.eye(3)[np.arange(n_samples) % 3]
    if library == "torch":
        torch = pytest.importorskip("torch")
        X, Y = torch.asarray(X), torch.asarray(Y)
        samples = ArraySamples(X, Y, neighbor_graph(X, 5)[0])
    else:
        samples = ArraySamples(X, Y, heat_affinity(X, 5)[0])
    return samples, samples.statistics()


def assert_same_result(actual, expected):
    assert actual.status == expected.status
    assert actual.n_iter == expected.n_iter
    assert actual.objective[-1] == pytest.approx(expected.objective[-1], rel=1e-8)
    for a, b in zip([*actual.thetas, actual.coef], [*expected.thetas, expected.coef], strict=True):
        np.testing.assert_allclose(to_numpy(a), to_numpy(b), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize(
    "schedule",
    [FastSolver(), FastSolver(max_iter=7), FastSolver(mu_max=20.0), FastSolver(tol=1e-2)],
    ids=["default", "few iterations", "small penalty", "loose"],
)
def test_problems_of_a_batch_end_as_they_do_alone(schedule, library):
    folds = [make_fold(n_samples, seed, library) for seed, n_samples in enumerate((40, 55))]
    batch = solve_joint_batch(folds, SIZES, SETTINGS, schedule)
    iterations = set()
    for (samples, statistics), results in zip(folds, batch, strict=True):
        for model, result in zip(SETTINGS, results, strict=True):
            alone = solve_joint(samples, SIZES, model, schedule, statistics=statistics)
            assert_same_result(result, alone)
            iterations.add(result.n_iter)
    if schedule == FastSolver():
        assert len(iterations) > 3  # some left the batch before others


@pytest.mark.parametrize(
    "parts",
    [{"nonnegative": False}, {"unit_ball": False}, {"reconstruction": False}],
    ids=str,
)
def test_parts_of_the_model_are_those_of_the_settings(parts):
    folds = [make_fold(40, 0)]
    model = ModelSettings(**parts)
    [[result]] = solve_joint_batch(folds, SIZES, [model], FastSolver())
    assert_same_result(result, solve_joint(folds[0][0], SIZES, model, FastSolver()))


def test_projections_found_before_are_used(monkeypatch):
    folds = [make_fold(40, 0), make_fold(50, 1)]
    expected = solve_joint_batch(folds, SIZES, SETTINGS[:2], FastSolver())
    found = [locality_preserving_projections(statistics) for _, statistics in folds]
    monkeypatch.setattr("jplay.solvers.pretraining.locality_preserving_projections", None)
    actual = solve_joint_batch(folds, SIZES, SETTINGS[:2], FastSolver(), projections=found)
    for fold in range(2):
        for setting in range(2):
            assert_same_result(actual[fold][setting], expected[fold][setting])


def test_problem_that_diverges_has_no_result_and_leaves_the_others_alone(monkeypatch):
    """One problem is made to look lost after five iterations."""
    folds = [make_fold(40, 0), make_fold(50, 1)]
    expected = solve_joint_batch(folds, SIZES, SETTINGS[:2], FastSolver())
    measured, n_calls = descent.measured, 0

    def spoiled(problem, iterate, *rest):
        nonlocal n_calls
        n_calls += 1
        if n_calls == 5:
            iterate.thetas[0][2, ...] *= 1e4
        return measured(problem, iterate, *rest)

    monkeypatch.setattr("jplay.solvers.batch.measured", spoiled)
    actual = solve_joint_batch(folds, SIZES, SETTINGS[:2], FastSolver())
    assert actual[1][0] is None
    for fold, setting in [(0, 0), (0, 1), (1, 1)]:
        assert_same_result(actual[fold][setting], expected[fold][setting])


def test_batch_whose_numbers_are_not_finite_has_no_results():
    folds = [make_fold(40, 0)]
    samples = folds[0][0]
    samples.X = samples.X * np.nan
    assert solve_joint_batch(folds, SIZES, SETTINGS[:2], FastSolver()) == [[None, None]]
