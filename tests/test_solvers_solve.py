"""One entrance to both solvers."""

import numpy as np
import pytest
import scipy.linalg

from graphs import heat_affinity
from jplay._array_api import to_numpy
from jplay.solvers import descent, pretraining
from jplay.solvers.alternating import solve_alternating
from jplay.solvers.joint import solve_joint
from jplay.solvers.model import ModelSettings, collapse
from jplay.solvers.pretraining import (
    leading_features,
    locality_preserving_projections,
    selections,
    starting_projections,
)
from jplay.solvers.samples import ArraySamples
from jplay.solvers.schedules import FastSolver, LayerSchedule, PaperSolver
from jplay.solvers.solve import solve

SCHEDULES = [
    FastSolver(),
    PaperSolver(max_iter=2),
    PaperSolver(max_iter=2, pretraining=False),
]


def make_samples(n_samples=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n_samples, 6))
    Y = np.eye(3)[np.arange(n_samples) % 3]
    return ArraySamples(X, Y, heat_affinity(X, 5)[0])


def assert_same_chain(actual, expected, **tolerances):
    for a, b in zip([*actual.thetas, actual.coef], [*expected.thetas, expected.coef], strict=True):
        np.testing.assert_allclose(a, b, **tolerances)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedule_chooses_the_solver(schedule):
    direct = solve_joint if isinstance(schedule, FastSolver) else solve_alternating
    expected = direct(make_samples(), [4, 2], ModelSettings(), schedule)
    actual = solve(make_samples(), [4, 2], ModelSettings(), schedule)
    assert_same_chain(actual, expected, rtol=0)
    assert actual.objective == expected.objective


@pytest.mark.parametrize("schedule", ["fast", None, LayerSchedule()])
def test_other_schedules_are_refused(schedule):
    with pytest.raises(ValueError, match="`schedule` should be a FastSolver or a PaperSolver"):
        solve(make_samples(), [4, 2], ModelSettings(), schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_projections_found_before_are_not_sought_again(monkeypatch, schedule):
    samples = make_samples()
    expected = solve(samples, [4], ModelSettings(), schedule)
    found = locality_preserving_projections(samples.statistics())
    monkeypatch.setattr(pretraining, "locality_preserving_projections", None)
    actual = solve(samples, [4], ModelSettings(), schedule, projections=found)
    assert_same_chain(actual, expected, rtol=1e-7, atol=1e-9)


def test_starts_are_cut_and_padded_to_the_first_layer():
    statistics = make_samples().statistics()
    found = locality_preserving_projections(statistics)
    np.testing.assert_allclose(
        starting_projections(statistics, [3, 2], found)[0],
        starting_projections(statistics, [3, 2])[0],
        atol=1e-10,
    )
    wide = starting_projections(statistics, [6], found[:4])[0]
    assert wide.shape == (6, 6)
    np.testing.assert_array_equal(wide[4:], 0)
    assert np.all(np.linalg.norm(wide[:4], axis=1) > 0)


def test_start_of_a_deeper_layer_selects_features():
    statistics = make_samples().statistics()
    _, second = starting_projections(statistics, [5, 3])
    assert second.shape == (3, 5)
    np.testing.assert_array_equal(np.sort(second, axis=1), np.eye(5)[[4, 4, 4]])
    assert np.linalg.matrix_rank(second) == 3


@pytest.mark.parametrize("library", ["numpy", "array_api_strict", "torch"])
def test_selected_features_are_the_pivots_of_a_qr_decomposition(library):
    xp = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(3, 20, 8)) * rng.permutation(np.geomspace(0.1, 10, 8))
    pivots = [scipy.linalg.qr(root, mode="r", pivoting=True)[1][:5] for root in roots]
    grams = xp.asarray(roots.transpose(0, 2, 1) @ roots)
    np.testing.assert_array_equal(to_numpy(leading_features(grams, 5)), pivots)
    first, second = (to_numpy(theta) for theta in selections(grams, [5, 3]))
    for k in range(3):
        np.testing.assert_array_equal(first[k], np.eye(8)[np.sort(pivots[k])])
        np.testing.assert_array_equal(second[k] @ first[k], np.eye(8)[np.sort(pivots[k][:3])])
        np.testing.assert_array_equal(to_numpy(leading_features(grams[k, ...], 5)), pivots[k])


def test_selection_of_dependent_or_too_few_features_is_padded_and_finite():
    [theta] = selections(np.diag([1.0, 0.0, 4.0]), [5])
    np.testing.assert_array_equal(theta, np.eye(5, 3))
    column = np.arange(1.0, 4.0)
    np.testing.assert_array_equal(selections(np.outer(column, column), [1])[0], [[0, 0, 1]])


@pytest.mark.parametrize("n_iter", [0, 4])
def test_several_layers_start_from_iterations_on_the_first_alone(n_iter):
    """They are reported as pre-training, at most as many as the fit may have, and change it."""
    seen = []
    schedule = FastSolver(first_layer_iter=n_iter, max_iter=6)
    result = solve(
        make_samples(),
        [4, 2],
        ModelSettings(),
        schedule,
        callback=lambda p: seen.append((p.stage, p.iteration)),
    )
    assert seen == [("pretraining", i) for i in range(1, n_iter + 1)] + [
        ("fine-tuning", i) for i in range(1, 7)
    ]
    assert result.n_iter == 6
    assert [theta.shape for theta in result.thetas] == [(4, 6), (2, 4)]
    seen.clear()
    free = ModelSettings(nonnegative=False, unit_ball=False)
    for sizes, model in [([4], ModelSettings()), ([4, 2], free)]:
        solve(make_samples(), sizes, model, schedule, callback=lambda p: seen.append(p.stage))
    assert set(seen) == {"fine-tuning"}


def test_size_of_the_published_pretraining_term_is_that_of_the_schedule():
    few, many = (
        solve(make_samples(), [3], ModelSettings(), PaperSolver(max_iter=1, eta=eta))
        for eta in (0.0, 50.0)
    )
    laplacian = make_samples().statistics().laplacian_gram
    sizes = [
        np.trace(r.pretraining[0].theta @ laplacian @ r.pretraining[0].theta.T) for r in (few, many)
    ]
    assert sizes[1] < sizes[0] / 2


def test_diverging_run_is_given_up(monkeypatch):
    monkeypatch.setattr(descent, "_DIVERGED", -1.0)
    result = solve(make_samples(), [4, 2], ModelSettings(), FastSolver())
    assert not result.status.converged
    assert "diverged" in result.status.message
    np.testing.assert_array_equal(collapse(result.thetas), 0)


@pytest.mark.parametrize("schedule", [FastSolver(tol=0.0), PaperSolver(tol=0.0)])
def test_callback_may_stop(schedule):
    seen = []

    def stop_at_three(progress):
        if progress.stage == "fine-tuning":
            seen.append((progress.iteration, progress.objective))
        return len(seen) == 3

    result = solve(make_samples(), [4, 2], ModelSettings(), schedule, callback=stop_at_three)
    assert [iteration for iteration, _ in seen] == [1, 2, 3]
    assert result.n_iter == 3
    assert result.status.message == "stopped by a callback"
    # The fast solver repairs what it returns; before that all objectives were told.
    assert result.objective[:2] == [objective for _, objective in seen[:2]]
