import array_api_strict as strict
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jplay.numerics.ramps import quantile_ramps, ramp, ramp_products


def all_ramps(X, starts, slopes):
    return np.stack([ramp(X, *each) for each in zip(starts, slopes, strict=True)], axis=1)


def test_ramps_weighed_by_height_are_ranks():
    X = np.random.default_rng(0).lognormal(size=(1001, 3))
    starts, slopes, heights = quantile_ramps(X, 10)
    curves = (all_ramps(X, starts, slopes) * heights).sum(axis=1)
    ranks = X.argsort(axis=0).argsort(axis=0) / len(X)
    assert np.abs(curves - ranks).max() < 0.07
    assert_allclose(heights.sum(axis=0), 1, atol=2e-3)


def test_ramps_do_not_leave_0_and_1_beyond_the_samples():
    starts, slopes, _ = quantile_ramps(np.arange(20.0)[:, None], 4)
    outside = all_ramps(np.array([[-1e6], [1e6]]), starts, slopes)[:, :, 0]
    assert_array_equal(outside, [[0] * 4, [1] * 4])


def test_equal_quantiles_make_flat_ramps():
    X = np.column_stack([np.zeros(30), np.repeat([0.0, 1.0], [25, 5])])
    _, slopes, heights = quantile_ramps(X, 6)
    assert not slopes[:, 0].any()
    assert not heights[:, 0].any()
    # Two values are apart by half of the samples: their mean ranks differ by that.
    assert not slopes[:4, 1].any()
    assert heights[:, 1].sum() == pytest.approx(0.5)


def test_products_are_those_of_all_ramps_at_once():
    rng = np.random.default_rng(1)
    X, matrix = rng.normal(size=(40, 5)), rng.normal(size=(3, 6, 5))
    starts, slopes, _ = quantile_ramps(X, 6)
    [found] = ramp_products(X, starts, slopes, [matrix])
    expected = np.einsum("nrf,orf->no", all_ramps(X, starts, slopes), matrix)
    assert_allclose(found, expected, atol=1e-12)
    [elsewhere] = ramp_products(strict.asarray(X), starts, slopes, [matrix])
    assert_allclose(np.asarray(elsewhere), expected, atol=1e-12)
