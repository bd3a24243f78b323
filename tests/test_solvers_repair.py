"""The chain that the fast solver returns is feasible, however far the loop came."""

from itertools import pairwise

import array_api_strict
import numpy as np
import pytest

from closeness import assert_close
from jplay.numerics.graph import heat_affinity
from jplay.solvers.model import ModelSettings
from jplay.solvers.repair import repair, repaired_stack
from jplay.solvers.samples import ArraySamples
from jplay.solvers.schedules import FastSchedule
from jplay.solvers.solve import solve

BOTH = {"nonnegative": True, "unit_ball": True}
SIZES = [[1], [5], [6, 1], [6, 4, 3], [6, 6, 5, 5, 4, 2]]


def make_samples(kind="positive", n_samples=60, seed=0):
    """Samples on which some linear map is positive, for different reasons."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 6))
    if kind == "positive":
        X = np.abs(X)
    elif kind == "with zero samples":
        X = np.abs(X) * (np.arange(n_samples) % 7 > 0)[:, None]
    elif kind == "sparse":
        X = np.where(rng.random(X.shape) < 0.3, np.abs(X), 0.0)
    elif kind == "centred with a constant":
        X -= X.mean(axis=0)
        constant = np.linalg.norm(X, axis=1).max()
        X = np.column_stack([X, np.full(n_samples, constant)])
    elif kind == "centred":
        X -= X.mean(axis=0)
    Y = np.eye(3)[np.arange(n_samples) % 3]
    return ArraySamples(X, Y, heat_affinity(X, 5)[0])


FEASIBLE_KINDS = ["positive", "with zero samples", "sparse", "centred with a constant"]


def random_chain(samples, sizes, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(b, a)) for a, b in pairwise([samples.X.shape[1], *sizes])]


def layers_of(samples, thetas):
    features = [samples.X]
    for theta in thetas:
        features.append(features[-1] @ theta.T)
    return features[1:]


def assert_feasible(layers, *, nonnegative=True, unit_ball=True, atol=1e-12):
    for Z in layers:
        if nonnegative:
            assert Z.min() >= -atol
        if unit_ball:
            assert np.linalg.norm(Z, axis=1).max() <= 1 + atol


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("kind", FEASIBLE_KINDS)
def test_random_chains_become_feasible(kind, sizes):
    samples = make_samples(kind)
    lowest = []
    for seed in range(5):
        thetas = random_chain(samples, sizes, seed)
        lowest.append(min(Z.min() for Z in layers_of(samples, thetas)))
        repaired, feasible = repair(samples, samples.statistics(), thetas, **BOTH)
        layers = layers_of(samples, repaired)
        assert feasible
        assert_feasible(layers)
        assert np.abs(layers[-1]).max() > 1e-3  # zero would be feasible too
    assert min(lowest) < -1


@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize("unit_ball", [True, False])
def test_only_the_constraints_of_the_model_are_met(nonnegative, unit_ball):
    samples = make_samples()
    thetas = [10 * theta for theta in random_chain(samples, [5, 3])]
    constraints = {"nonnegative": nonnegative, "unit_ball": unit_ball}
    repaired, feasible = repair(samples, samples.statistics(), thetas, **constraints)
    layers = layers_of(samples, repaired)
    assert feasible
    assert_feasible(layers, **constraints)
    assert nonnegative or min(Z.min() for Z in layers) < -0.1
    assert unit_ball or max(np.linalg.norm(Z, axis=1).max() for Z in layers) > 2


def selection_chain(samples, sizes):
    """A feasible chain that touches the constraints: some of the input features, scaled."""
    largest = np.linalg.norm(samples.X, axis=1).max()
    first, *others = pairwise([samples.X.shape[1], *sizes])
    return [np.eye(first[1], first[0]) / largest, *(np.eye(b, a) for a, b in others)]


def test_feasible_chain_stays_as_it_is():
    samples = make_samples("sparse")
    thetas = [0.99 * theta for theta in selection_chain(samples, [6, 5, 4])]
    repaired, feasible = repair(samples, samples.statistics(), thetas, **BOTH)
    assert feasible
    for actual, expected in zip(repaired, thetas, strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("size", [1e-2, 1e-4, 1e-6])
def test_nearly_feasible_features_move_as_little_as_they_miss(size):
    samples = make_samples("sparse", seed=3)
    rng = np.random.default_rng(2)
    thetas = selection_chain(samples, [6, 5, 4])
    thetas = [theta + size * rng.normal(size=theta.shape) for theta in thetas]
    before = layers_of(samples, thetas)
    after = layers_of(samples, repair(samples, samples.statistics(), thetas, **BOTH).thetas)
    assert min(Z.min() for Z in before) < 0
    assert_feasible(after)
    for old, new in zip(before, after, strict=True):
        assert np.abs(new - old).max() < 50 * size + 1e-3


def test_no_positive_combination_is_said_and_the_ball_is_kept():
    samples = make_samples("centred")
    thetas = random_chain(samples, [5, 3])
    repaired, feasible = repair(samples, samples.statistics(), thetas, **BOTH)
    assert not feasible
    assert_feasible(layers_of(samples, repaired), nonnegative=False)


@pytest.mark.parametrize("kind", ["positive", "centred with a constant"])
def test_other_array_libraries_give_the_same_chain(kind):
    samples = make_samples(kind)
    thetas = random_chain(samples, [5, 3])
    expected = repair(samples, samples.statistics(), thetas, **BOTH).thetas
    strict = array_api_strict.asarray
    statistics = samples.statistics()
    moved = ArraySamples(strict(samples.X), strict(samples.Y), samples.affinity)
    statistics = type(statistics)(
        **{
            name: strict(value) if isinstance(value, np.ndarray) else value
            for name, value in vars(statistics).items()
        }
    )
    actual = repair(moved, statistics, [strict(theta) for theta in thetas], **BOTH).thetas
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("max_iter", [1, 2, 5])
@pytest.mark.parametrize("kind", FEASIBLE_KINDS)
def test_a_solve_cut_short_ends_feasible(kind, max_iter, sizes):
    samples = make_samples(kind)
    result = solve(samples, sizes, ModelSettings(), FastSchedule(max_iter=max_iter))
    assert not result.status.converged
    assert result.status.message.startswith(f"no convergence within max_iter={max_iter} ")
    assert result.n_iter == max_iter
    assert_feasible(layers_of(samples, result.thetas))


def test_status_says_if_the_end_is_not_feasible():
    samples = make_samples("centred")
    result = solve(samples, [5, 3], ModelSettings(), FastSchedule(max_iter=2))
    assert not result.status.converged
    assert "no convergence within max_iter=2" in result.status.message
    assert "could not be made non-negative" in result.status.message
    assert "add a constant feature to the samples" in result.status.message
    without = solve(samples, [5, 3], ModelSettings(nonnegative=False), FastSchedule(max_iter=2))
    assert "non-negative" not in without.status.message


@pytest.mark.parametrize("xp", [np, array_api_strict], ids=lambda xp: xp.__name__)
@pytest.mark.parametrize("sizes", [[4], [6, 4, 3]], ids=str)
def test_stack_is_repaired_as_its_chains_are(sizes, xp):
    """Nearly feasible chains, one that is feasible, and one too far off for the first way."""
    made = [make_samples("positive", count, seed) for seed, count in enumerate((60, 55, 60))]
    chains = []
    for number, samples in enumerate(made):
        rng = np.random.default_rng(number)
        thetas = [0.2 * abs(theta) for theta in random_chain(samples, sizes, number)]
        if number < 2:
            thetas = [theta - 0.02 * number * rng.random(theta.shape) for theta in thetas]
        else:
            thetas = random_chain(samples, sizes, number)
        chains.append(thetas)
    X = np.stack([np.pad(samples.X, ((0, 60 - len(samples.X)), (0, 0))) for samples in made])
    mean = np.stack([samples.X.mean(axis=0) for samples in made])
    thetas = [xp.asarray(np.stack(layers)) for layers in zip(*chains, strict=True)]
    found, done = repaired_stack(xp.asarray(X), xp.asarray(mean), thetas, **BOTH)
    assert done.tolist() == [True, True, False]
    for number, samples in enumerate(made[:2]):
        expected, _ = repair(samples, samples.statistics(), chains[number], **BOTH)
        own = [np.asarray(theta)[number] for theta in found]
        for a, b in zip(own, expected, strict=True):
            assert_close(a, b, 1e-10)
        assert_feasible(layers_of(samples, own))
