"""Transforms that are one matrix product."""

import numpy as np
import pytest

from jplay import LPP, HeatGraph, JPlay, _estimator_base

N_SAMPLES = 200


@pytest.fixture
def samples():
    rng = np.random.default_rng(0)
    y = np.arange(N_SAMPLES) % 3
    return rng.random((3, 8))[y] + 0.3 * rng.random((N_SAMPLES, 8)), y


@pytest.fixture(params=[LPP, JPlay])
def model(request, samples):
    return request.param(2, graph=HeatGraph(5)).fit(*samples)


@pytest.fixture
def many_blocks(monkeypatch):
    monkeypatch.setattr(_estimator_base, "_CACHED_BYTES", 1)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_blocks_of_rows_are_transformed_as_the_whole(model, samples, dtype, monkeypatch):
    X = samples[0].astype(dtype)
    whole = model.transform(X)
    monkeypatch.setattr(_estimator_base, "_CACHED_BYTES", 1)
    blocks = model.transform(X)
    assert blocks.dtype == dtype
    np.testing.assert_allclose(blocks, whole, rtol=100 * np.finfo(dtype).eps, atol=1e-6)
    matrix, offset = model._affine_map
    np.testing.assert_allclose(blocks, X @ matrix.T + offset, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("bad", "message"), [(np.nan, "contains NaN"), (np.inf, "infinity")])
@pytest.mark.parametrize("row", [0, N_SAMPLES - 1])
def test_value_that_is_not_finite_is_refused_in_any_block(
    model, samples, bad, message, row, many_blocks
):
    X = samples[0].copy()
    X[row, 3] = bad
    with pytest.raises(ValueError, match=message):
        model.transform(X)
