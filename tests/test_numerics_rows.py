"""Samples whose rows are formed when they are asked for."""

from dataclasses import replace

import numpy as np
import pytest

from jplay.numerics.rows import AS_THEY_ARE, FormedRows, RowForm, formed, row_blocks

N_SAMPLES, N_FEATURES = 23, 4


@pytest.fixture(params=["float64", "float32"])
def samples(request):
    return np.random.default_rng(0).random((N_SAMPLES, N_FEATURES)).astype(request.param)


FORMS = {
    "scaled": RowForm(scale=np.arange(1.0, 5.0)),
    "shifted": RowForm(scale=np.arange(1.0, 5.0), shift=np.linspace(0, 1, N_FEATURES)),
    "affine": RowForm(np.arange(1.0, 5.0), np.linspace(0, 1, N_FEATURES), constant=2.0),
    "constant alone": RowForm(constant=2.0),
}


def expected(X, form):
    Z = X if form.shift is None else X - form.shift
    Z = Z if form.scale is None else Z * form.scale
    return Z if form.constant is None else np.column_stack([Z, np.full(len(Z), form.constant)])


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_rows_are_shifted_scaled_and_followed_by_the_constant(samples, name, rounded):
    form = FORMS[name]
    if rounded:
        form = form.rounded(samples.dtype)
    rows, whole = FormedRows(samples, form), expected(samples, form)
    tolerance = 4 * np.finfo(samples.dtype).eps
    assert rows.shape == whole.shape
    for chosen in (slice(None), slice(3, 9), slice(None, None, 5), np.array([7, 2, 2])):
        assert rows[chosen].dtype == samples.dtype
        np.testing.assert_allclose(rows[chosen], whole[chosen], rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(np.asarray(rows), formed(samples, form))
    assert np.asarray(rows, dtype=np.float64).dtype == np.float64


@pytest.mark.parametrize("rows", [None, slice(4, 17)])
@pytest.mark.parametrize("size", [1, 5, 100])
def test_blocks_hold_every_row_once(samples, size, rows):
    form = FORMS["affine"].rounded(samples.dtype)
    for X in (samples, FormedRows(samples, form)):
        found = [(place, block.copy()) for place, block in row_blocks(X, size, rows)]
        assert all(len(block) <= size for _, block in found)
        for place, block in found:
            np.testing.assert_array_equal(block, X[place])
        whole = X[:] if rows is None else X[rows]
        np.testing.assert_array_equal(np.concatenate([block for _, block in found]), whole)


def test_plain_form_leaves_the_samples(samples):
    assert formed(samples, AS_THEY_ARE) is samples


@pytest.mark.parametrize("name", FORMS)
def test_other_libraries_form_the_same_samples(samples, name):
    xp = pytest.importorskip("array_api_strict")
    others = formed(xp.asarray(samples), FORMS[name])
    np.testing.assert_array_equal(np.asarray(others), formed(samples, FORMS[name]))


def test_small_spread_around_a_large_mean_survives_single_precision():
    exact = 1e6 + 0.5 * np.arange(-4, 5)[:, None]
    X = exact.astype(np.float32)
    np.testing.assert_array_equal(X, exact)
    form = RowForm(scale=np.ones(1), shift=np.array([1e6 + 1e-3]))
    np.testing.assert_allclose(formed(X, form), exact - form.shift, rtol=1e-6)
    unit = float(X.max())
    relative = RowForm(form.scale, form.shift / unit, unit=unit)
    np.testing.assert_allclose(formed(X, relative), (exact - form.shift) / unit, rtol=1e-6)
    rounded = form.rounded(np.float32)
    np.testing.assert_array_equal(formed(X, rounded), exact - rounded.shift)


def test_feature_whose_scale_is_out_of_range_counts_as_constant():
    form = RowForm(scale=np.array([1.0, 1e42])).rounded(np.float32)
    np.testing.assert_array_equal(form.scale, [1.0, 0.0])
    without = replace(form, constant=1.0).without_constant
    assert without.constant is None
    assert without.scale is form.scale
