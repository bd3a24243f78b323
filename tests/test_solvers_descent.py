"""Parts of one iteration of the fast solver against brute force."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg

from closeness import assert_close
from jplay._array_api import eigh_generalized
from jplay.numerics.graph import heat_affinity
from jplay.numerics.objective import objective_terms
from jplay.numerics.prox import project_constraints
from jplay.solvers.descent import (
    Curvature,
    Iterate,
    JointProblem,
    Measurement,
    Preconditioner,
    best_length,
    deepened,
    eigenbasis,
    ending,
    largest_ratio,
    measured,
    preconditioned_step,
    relative_size,
    stepped,
)
from jplay.solvers.model import ModelSettings
from jplay.solvers.moments import first_moments, forward, label_coef, total, weighted_terms
from jplay.solvers.pretraining import (
    has_full_rank,
    locality_preserving_projections,
    starting_projections,
)
from jplay.solvers.samples import ArraySamples
from jplay.solvers.schedules import FastSchedule


def make_samples(n_samples=50, weighted=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n_samples, 7))
    Y = np.eye(3)[np.arange(n_samples) % 3]
    weight = rng.random(n_samples) if weighted else None
    return ArraySamples(X, Y, heat_affinity(X, 5)[0], label_weight=weight)


def semidefinite(size, rank, rng):
    root = rng.normal(size=(size, rank))
    return root @ root.T


def curvature(S1, S2, A):
    return Curvature(*eigh_generalized(S1, S2), *eigenbasis(A), relative_size(S1, S2, A))


@pytest.mark.parametrize("rank", [6, 2, 0])
def test_step_solves_the_kronecker_system(rank):
    rng = np.random.default_rng(rank)
    S1, A = semidefinite(4, 3, rng), semidefinite(6, rank, rng)
    S2, gradient = semidefinite(4, 4, rng) + np.eye(4), rng.normal(size=(4, 6))
    step = preconditioned_step(gradient, curvature(S1, S2, A))
    system = np.kron(S1, A) + np.kron(S2, np.eye(6))
    assert_close(step.ravel(), np.linalg.solve(system, -gradient.ravel()), 1e-9)
    assert np.sum(step * gradient) < 0


def test_curvature_of_another_size_gives_the_step_once_both_sizes_are_known():
    rng = np.random.default_rng(0)
    S1, S2, A = (semidefinite(5, 5, rng) for _ in range(3))
    gradient = rng.normal(size=(5, 5))
    fresh = preconditioned_step(gradient, curvature(30 * S1, 0.2 * S2, 0.1 * A))
    old = curvature(S1, S2, A)
    growth = relative_size(30 * S1, 0.2 * S2, 0.1 * A) / old.size
    stale = preconditioned_step(gradient, old, growth)
    length = best_length(stale, 0.1 * stale @ A, gradient, 30 * S1, 0.2 * S2)
    assert_close(length * stale, fresh, 1e-8)


def test_best_length_is_that_of_the_quadratic_model():
    rng = np.random.default_rng(0)
    S1, S2, A = (semidefinite(4, 4, rng) for _ in range(3))
    gradient, step = rng.normal(size=(2, 4, 4))

    def model(length):
        D = length * step
        return np.sum(gradient * D) + np.sum(D * (S1 @ D @ A + S2 @ D)) / 2

    best = best_length(step, step @ A, gradient, S1, S2).item()
    assert model(best) < min(model(0), model(0.99 * best), model(1.01 * best))
    assert best_length(0 * step, 0 * step, gradient, S1, S2) == 0


def test_curvature_is_kept_ever_longer():
    made_at = [1]
    for step in range(2, 40):
        if Preconditioner([], np.array(made_at[-1:])).is_old(step)[0]:
            made_at.append(step)
    assert made_at == [1, 2, 3, 5, 7, 10, 14, 19, 26, 35]


@pytest.mark.parametrize("falling", [True, False])
def test_curvature_of_several_layers_is_kept_unless_the_objective_falls_fast(falling):
    samples, model, schedule = make_samples(), ModelSettings(), FastSchedule()
    statistics = samples.statistics()
    problem = JointProblem.of(statistics, model.alpha)
    sweep = samples.joint_pass([5, 3], **model.constraints)
    iterate = Iterate.start(starting_projections(statistics, [5, 3]), 1.0)
    for _ in range(3):
        measurement = measured(problem, iterate, sweep, model, schedule)
        iterate = stepped(problem, iterate, measurement, model, schedule)
    measurement = measured(problem, iterate, sweep, model, schedule)
    before = measurement.objective * (2 if falling else 1.001)
    after = stepped(
        problem, replace(iterate, objective_before=before), measurement, model, schedule
    )
    assert after.preconditioner.made_at == (4 if falling else 3)
    assert (after.preconditioner.layers[1] is iterate.preconditioner.layers[1]) == (not falling)


def test_curvature_of_one_layer_is_always_new():
    samples, model, schedule = make_samples(), ModelSettings(), FastSchedule()
    problem = JointProblem.of(samples.statistics(), model.alpha)
    iterate = Iterate.start(starting_projections(samples.statistics(), [4]), 1.0)
    sweep = samples.joint_pass([4], **model.constraints)
    measurement = measured(problem, iterate, sweep, model, schedule)
    assert stepped(problem, iterate, measurement, model, schedule).preconditioner is None


def test_layers_join_with_a_feasible_choice_of_features_and_the_multipliers_stay():
    samples, model, schedule = make_samples(), ModelSettings(), FastSchedule()
    problem = JointProblem.of(samples.statistics(), model.alpha)
    sweep = samples.joint_pass([5, 3], **model.constraints, relaxation=schedule.relaxation)
    iterate = Iterate.start(starting_projections(samples.statistics(), [5]), 1.0)
    for _ in range(4):
        measurement = measured(problem, iterate, sweep, model, schedule)
        iterate = stepped(problem, iterate, measurement, model, schedule)
    whole = deepened(problem, iterate, [3], 0.5)
    assert whole.thetas[0] is iterate.thetas[0]
    np.testing.assert_array_equal(whole.thetas[1].sum(axis=1), 1)
    # Multipliers are stored over the penalty of the last pass, so they grow as it falls.
    np.testing.assert_array_equal(whole.mu, 0.5)
    np.testing.assert_array_equal(whole.mu_before, iterate.mu_before)
    assert np.isinf(whole.objective_before)


def test_steps_of_a_batch_are_those_of_its_problems():
    rng = np.random.default_rng(0)
    S1, S2, A = (np.stack([semidefinite(k, 5, rng) for _ in range(3)]) for k in (4, 4, 6))
    gradient = rng.normal(size=(3, 4, 6))
    S2 = S2 + np.eye(4)
    batch = preconditioned_step(gradient, curvature(S1, S2, A))
    for k in range(3):
        alone = preconditioned_step(gradient[k], curvature(S1[k], S2[k], A[k]))
        np.testing.assert_allclose(batch[k], alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rank", [6, 3])
def test_largest_ratio_bounds_the_quotient_and_is_reached(rank):
    rng = np.random.default_rng(rank)
    root = rng.normal(size=(6, rank))
    A, M = root @ root.T, root @ semidefinite(rank, 2, rng) @ root.T
    bound = largest_ratio(M, A, eigenbasis(A))
    basis = scipy.linalg.orth(root)
    values = scipy.linalg.eigh(basis.T @ M @ basis, basis.T @ A @ basis, eigvals_only=True)
    assert bound == pytest.approx(values[-1], rel=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_roots_of_few_samples_have_the_moments_of_the_reduced_ones(weighted):
    statistics = make_samples(25, weighted=weighted).statistics()
    reduced = statistics.reduced()
    assert statistics.X_root.shape == (25, 7)
    assert reduced.X_root.shape == (10, 7)
    for few, fewer in zip(statistics.label_roots, reduced.label_roots, strict=True):
        np.testing.assert_allclose(moments_of(few), moments_of(fewer), atol=1e-12)


def moments_of(roots):
    both = np.hstack(roots)
    return both.T @ both


def with_last_feature(last):
    samples = make_samples()
    X = np.column_stack([samples.X, last(samples.X)])
    return ArraySamples(X, samples.Y, samples.affinity).statistics()


def test_few_projections_are_the_first_of_all():
    statistics = make_samples().statistics()
    assert has_full_rank(statistics)
    expected = locality_preserving_projections(statistics)
    assert expected.shape == (7, 7)
    for count in (3, 7, 9):
        found = locality_preserving_projections(statistics, count, full_rank=True)
        np.testing.assert_allclose(found, expected[:count], atol=1e-9)


@pytest.mark.parametrize("last", [lambda X: np.full(len(X), 1.3), lambda X: X[:, 0] - X[:, 1]])
def test_dependent_features_are_left_to_the_eigenvectors(last):
    statistics = with_last_feature(last)
    assert not has_full_rank(statistics)
    assert locality_preserving_projections(statistics).shape == (7, 8)


@pytest.mark.parametrize("reconstruction", [True, False])
def test_objective_from_moments_is_that_of_the_samples(reconstruction):
    samples, rng = make_samples(), np.random.default_rng(1)
    model = ModelSettings(alpha=3.0, beta=0.2, gamma=0.4, reconstruction=reconstruction)
    thetas = [rng.normal(size=(5, 7)), rng.normal(size=(2, 5))]
    coef = rng.normal(size=(3, 2))
    statistics = samples.statistics()
    chain = forward(first_moments(statistics), thetas)
    actual = weighted_terms(chain, coef, total(statistics.Y_root**2), model)
    expected = objective_terms(
        samples.X,
        samples.Y,
        statistics.laplacian_gram,
        thetas,
        coef,
        alpha=3.0,
        beta=0.2,
        gamma=0.4,
        reconstruction=reconstruction,
    )
    values = (expected.reconstruction, expected.prediction, expected.manifold, expected.ridge)
    np.testing.assert_allclose(np.ravel(actual), values, rtol=1e-10)


@pytest.mark.parametrize("gamma", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [True, False])
def test_label_projection_is_a_weighted_ridge_regression(weighted, gamma):
    samples = make_samples(weighted=weighted)
    model = ModelSettings(alpha=2.0, gamma=gamma)
    coef = label_coef(first_moments(samples.statistics()), model)
    weight = np.ones(50) if samples.label_weight is None else samples.label_weight
    residuals = weight[:, None] * (samples.X @ coef.T - samples.Y)
    np.testing.assert_allclose(2.0 * residuals.T @ samples.X + gamma * coef, 0, atol=1e-8)


def augmented_lagrangian(samples, thetas, targets, mu, model):
    """The objective at the best label projection, and the distances from fixed targets."""
    statistics = samples.statistics()
    chain = forward(first_moments(statistics), thetas)
    coef = label_coef(chain.moments[-1], model)
    value = sum(weighted_terms(chain, coef, total(statistics.Y_root**2), model))
    Z = samples.X
    for theta, target in zip(thetas, targets, strict=True):
        Z = Z @ theta.T
        value = value + 0.5 * mu * np.sum((Z - target) ** 2)
    return value.item()


@pytest.mark.parametrize("sizes", [[3], [6, 4], [7, 6, 5, 4, 3]], ids=str)
@pytest.mark.parametrize("alpha", [0.1, 1.0, 100.0])
def test_iterations_descend_the_augmented_lagrangian(sizes, alpha):
    """With splits and multipliers fixed, a step lowers what it is meant to lower."""
    samples, model, schedule = make_samples(), ModelSettings(alpha=alpha), FastSchedule()
    statistics = samples.statistics()
    problem = JointProblem.of(statistics, model.alpha)
    sweep = samples.joint_pass(sizes, **model.constraints, relaxation=schedule.relaxation)
    start = starting_projections(statistics, sizes)
    iterate = Iterate.start(start, schedule.first_penalty())
    for _ in range(15):
        measurement = measured(problem, iterate, sweep, model, schedule)
        targets = []
        for V in sweep.points:
            split = project_constraints(V, nonnegative=True, unit_ball=True)
            targets.append(2 * split - V)  # the split and its new multiplier
        after = stepped(problem, iterate, measurement, model, schedule)
        mu = iterate.mu[0]
        before = augmented_lagrangian(samples, iterate.thetas, targets, mu, model)
        assert augmented_lagrangian(samples, after.thetas, targets, mu, model) < before
        iterate = after


def test_penalty_grows_faster_once_the_objective_is_settled_and_up_to_its_limit():
    samples, model = make_samples(), ModelSettings()
    statistics = samples.statistics()
    problem = JointProblem.of(statistics, model.alpha)
    schedule = FastSchedule(mu=1.0, growth=2.0, settled_growth=3.0, mu_max=5.0, tol=1e3)
    sweep = samples.joint_pass([4], **model.constraints)
    iterate = Iterate.start(starting_projections(statistics, [4]), schedule.mu)
    penalties = []
    for _ in range(4):
        penalties.append(float(iterate.mu[0]))
        measurement = measured(problem, iterate, sweep, model, schedule)
        iterate = stepped(problem, iterate, measurement, model, schedule)
        np.testing.assert_array_equal(iterate.mu_before, penalties[-1])
    # With such a tolerance the objective is settled from the second iteration on.
    assert penalties == [1.0, 2.0, 5.0, 5.0]


def measurement_with(settled, at_limit, worst_gap):
    number = np.array([0.0])
    return Measurement(
        pulls=[],
        chain=None,
        coef=None,
        terms=np.zeros((4, 1)),
        objective=number,
        gaps=np.array([[worst_gap]]),
        worst_gap=np.array([worst_gap]),
        settled=np.array([settled]),
        at_limit=np.array([at_limit]),
        diverged=np.array([False]),
    )


@pytest.mark.parametrize(
    ("settled", "at_limit", "gap", "iteration", "stop", "converged", "message"),
    [
        (True, False, 1e-5, 3, False, True, "objective settled, constraints met to 1e-05"),
        (False, True, 1e-5, 3, False, True, "objective settled, constraints met to 1e-05"),
        (True, False, 1e-5, 9, True, True, "objective settled"),
        (True, False, 5e-4, 3, False, None, None),
        (False, False, 1e-5, 3, False, None, None),
        (False, False, 1.0, 3, True, True, "stopped by a callback"),
        (
            False,
            False,
            0.25,
            9,
            False,
            False,
            r"within max_iter=9 .* gap 0\.25\): increase max_iter",
        ),
        (False, True, 5e-4, 9, False, False, "within max_iter=9"),
        (False, True, 5e-4, 3, False, True, "met to 0.0005 at the largest penalty"),
        (True, True, 0.5, 3, False, False, "gap 0.5 above tol=0.0001 at the largest penalty"),
    ],
)
def test_stopping_rule(settled, at_limit, gap, iteration, stop, converged, message):
    schedule = FastSchedule(max_iter=9)
    measurement = measurement_with(settled, at_limit, gap)
    status = ending(measurement, iteration, schedule, stop_requested=stop)
    if converged is None:
        assert status is None
    else:
        assert status.converged is converged
        assert re.search(message, status.message)
        assert stop or measurement.may_end(iteration, schedule)[0]
