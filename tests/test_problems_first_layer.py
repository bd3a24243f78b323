"""The samples as the solver sees them."""

import tracemalloc

import numpy as np
import pytest

from jplay.problems.checks import check_scale
from jplay.problems.first_layer import first_layer_of, scaled

N_SAMPLES, N_FEATURES = 300_000, 10


@pytest.fixture(scope="module")
def samples():
    return np.random.default_rng(0).random((N_SAMPLES, N_FEATURES)) + 0.1


@pytest.mark.parametrize(("scaling", "n_copies"), [(None, 0), ("norm", 1), ("standard", 1)])
def test_samples_are_copied_once_if_scaled_else_never(samples, scaling, n_copies):
    tracemalloc.start()
    try:
        check_scale(samples, scaling)
        kept = first_layer_of(samples, scaling)
        peak = tracemalloc.get_traced_memory()[1] / samples.nbytes
    finally:
        tracemalloc.stop()
    # Blocks of rows are a fifth of the samples, the constant feature a tenth.
    assert n_copies <= peak < n_copies + 0.6
    assert kept[2].shape == (N_SAMPLES, N_FEATURES + (scaling == "standard"))


def test_standard_scaling_centres_and_divides_by_deviations(samples):
    X = samples * np.linspace(1, 5, N_FEATURES)
    layer, Z, solver_X = first_layer_of(X, "standard")
    # No feature reaches further than two deviations, the limit from which a scale would differ.
    expected = (X - X.mean(axis=0)) / X.std(axis=0) / np.sqrt(N_FEATURES)
    np.testing.assert_allclose(Z, expected, atol=1e-12)
    np.testing.assert_allclose((X - layer.shift) * layer.scale, expected, atol=1e-12)
    norm = np.linalg.norm(expected, axis=1).max()
    np.testing.assert_allclose(solver_X[:, -1], norm, rtol=1e-12)
    np.testing.assert_array_equal(solver_X[:, :-1], Z)


def test_norm_scaling_makes_the_mean_square_norm_one(samples):
    Z, scale, shift = scaled(7 * samples, "norm")
    assert shift is None
    np.testing.assert_allclose(Z, 7 * samples * scale, rtol=1e-12)
    assert np.mean(np.sum(Z**2, axis=1)) == pytest.approx(1.0)


def test_scaled_samples_keep_their_precision_and_the_callers_array(samples):
    X = samples[:50].astype(np.float32)
    before = X.copy()
    _, Z, solver_X = first_layer_of(X, "standard")
    assert Z.dtype == solver_X.dtype == np.float32
    np.testing.assert_array_equal(X, before)
