"""Samples at the edge of what can be computed with: a right result or a clear error."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_wine

from jplay import (
    LFDA,
    LPP,
    LSDR,
    LSQMID,
    NPE,
    AutoRULe,
    FastSolver,
    HeatGraph,
    JPlay,
    JPlayCommittee,
    LiftedJPlay,
    PaperSolver,
    SpatialJPlay,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 6))
y = RNG.integers(0, 3, 40)


@pytest.mark.parametrize("shape", [(33, 1), (33, 3), (5, 2)])
@pytest.mark.parametrize("value", [0.7, 1 / 3, 0.0, -5.1, 1e4])
@pytest.mark.parametrize("estimator", [LPP(), AutoRULe(), NPE(1), JPlay(1), LSDR(1), LSQMID(1)])
@pytest.mark.filterwarnings("ignore:`n_neighbors` should be less")
def test_constant_samples_are_refused(estimator, shape, value):
    constant = np.full(shape, value)
    with pytest.raises(ValueError, match=r"constant|rank|differ"):
        clone(estimator).fit(constant, np.arange(len(constant)) % 2)


@pytest.mark.parametrize("magnitude", [1e-300, 1e-290, 1e-200, 1e-130, 1e130, 1e200, 1e290, 1e300])
@pytest.mark.parametrize(
    "estimator", [LPP(), AutoRULe(), NPE(), LFDA(), LSDR(max_iter=2), LSQMID(max_iter=2)]
)
def test_samples_beyond_the_range_of_squares_are_refused_by_name(estimator, magnitude):
    with pytest.raises(ValueError, match="magnitude between"):
        clone(estimator).fit(X * magnitude, y)


@pytest.mark.parametrize("magnitude", [1e-300, 1e-240, 1e-200, 1e200, 1e240, 1e300])
def test_scaled_model_is_the_same_or_refuses_by_name(magnitude):
    expected = JPlay(3).fit(X, y).predict(X)
    try:
        model = JPlay(3).fit(X * magnitude, y)
    except ValueError as error:
        message = str(error)
    else:
        assert_array_equal(model.predict(X * magnitude), expected)
        return
    assert "magnitude between" in message


@pytest.mark.parametrize("bandwidth", [1e300, 1e-300, 1e151, 0, -1, np.nan, np.inf])
def test_width_beyond_computing_is_refused(bandwidth):
    with pytest.raises(ValueError, match="`bandwidth` should be"):
        HeatGraph(bandwidth=bandwidth)


@pytest.mark.parametrize("max_iter", [1, 2, 5])
@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore:JPlay did not converge")
def test_fast_solver_ends_feasible_however_early(max_iter, n_layers, dtype):
    samples = X.astype(dtype)
    solver = FastSolver(max_iter=max_iter)
    model = JPlay(3, n_layers, solver=solver, whiten=False).fit(samples, y)
    rounding = 50 * np.finfo(dtype).eps
    for features in model.transform_layers(samples):
        assert features.min() >= -rounding
        assert np.linalg.norm(features, axis=1).max() <= 1 + rounding


@pytest.mark.parametrize("unit", [10.0, 1e-3, 1024.0, 3.7e8])
@pytest.mark.parametrize("estimator", [JPlay(), JPlay(scaling="norm"), LiftedJPlay()])
def test_predictions_do_not_depend_on_the_unit(estimator, unit):
    samples, target = load_wine(return_X_y=True)
    expected = clone(estimator).fit(samples, target).predict(samples)
    actual = clone(estimator).fit(samples * unit, target).predict(samples * unit)
    assert_array_equal(actual, expected)


@pytest.mark.parametrize("unit", [10.0, 1e-3])
def test_predictions_do_not_depend_on_the_units_of_single_features(unit):
    samples, target = load_wine(return_X_y=True)
    units = unit ** np.arange(samples.shape[1])
    expected = JPlay().fit(samples, target).predict(samples)
    assert_array_equal(JPlay().fit(samples * units, target).predict(samples * units), expected)


@pytest.mark.parametrize(
    "estimator", [JPlay(), LiftedJPlay(random_state=0), JPlayCommittee(2, random_state=0)]
)
def test_sparse_labels_are_as_dense_ones(estimator):
    labels = (RNG.random((40, 3)) > 0.5).astype(int)
    expected = clone(estimator).fit(X, labels).predict(X)
    actual = clone(estimator).fit(X, csr_array(labels)).predict(X)
    assert_array_equal(np.asarray(actual), np.asarray(expected))


def test_image_of_one_pixel_is_refused_and_one_of_two_is_mapped():
    cube = RNG.normal(size=(1, 2, 6))
    with pytest.raises(ValueError, match="at least 2 labelled pixels"):
        SpatialJPlay().fit(cube[:, :1], np.array([[1]]))
    model = SpatialJPlay(JPlay(graph=HeatGraph(1)), radius=1)
    assert model.fit_predict(cube, np.array([[1, 2]])).tolist() == [[1, 2]]


@pytest.mark.parametrize("alpha", [1e20, 1e300])
@pytest.mark.parametrize("solver", ["fast", PaperSolver(max_iter=2, inner_max_iter=10)])
def test_weights_beyond_computing_are_named(alpha, solver):
    model = JPlay(alpha=alpha, gamma=1.0, scaling=None, solver=solver)
    with pytest.raises(ValueError, match=r"could not be solved.*alpha|iterations diverged"):
        model.fit(2 * X, y)


@pytest.mark.parametrize("estimator", [NPE(reg=1e300), NPE(reg=1e-300), LFDA(reg=1e300)])
def test_ridge_beyond_computing_is_refused(estimator):
    with pytest.raises(ValueError, match="'reg' parameter"):
        estimator.fit(X * 1e12, y)
