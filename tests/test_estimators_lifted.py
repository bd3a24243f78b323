"""J-Play on similarities to landmarks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, make_circles, make_multilabel_classification
from sklearn.utils.estimator_checks import parametrize_with_checks

from jplay import JPlay, LiftedJPlay
from jplay.datasets import split_per_class
from jplay.estimators.lifted_chain import View, coordinate_basis, mean_kernel, with_landmarks
from jplay.numerics.votes import expected_calibration_error


def expected_failures(estimator):
    # As in JPlay: weights enter the prediction loss; a repeated sample is a neighbour as well.
    return {
        "check_sample_weight_equivalence_on_dense_data": (
            "sample_weight weighs the prediction loss, it does not repeat samples in the graph"
        )
    }


@parametrize_with_checks([LiftedJPlay()], expected_failed_checks=expected_failures)
def test_lifted_fulfils_sklearn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    train, test = split_per_class(y, 20, random_state=0)
    return X[train], y[train], X[test], y[test]


def test_classes_inside_each_other_are_told_apart():
    X, y = make_circles(400, noise=0.05, factor=0.5, random_state=0)
    lifted = LiftedJPlay().fit(X[:200], y[:200])
    linear = JPlay().fit(X[:200], y[:200])
    assert lifted.score(X[200:], y[200:]) > 0.97
    assert linear.score(X[200:], y[200:]) < 0.7


def test_probabilities_are_calibrated(digits):
    X, y, X_test, y_test = digits
    model = LiftedJPlay().fit(X, y)
    probabilities = model.predict_proba(X_test)
    assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)
    assert_array_equal(probabilities.argmax(axis=1), model.predict(X_test))
    assert expected_calibration_error(probabilities, y_test) < 0.05
    assert model.score(X_test, y_test) > 0.94


def test_features_fulfil_the_constraints(digits):
    X, y, _, _ = digits
    Z = LiftedJPlay().fit_transform(X, y)
    assert Z.min() > -1e-6
    assert np.linalg.norm(Z, axis=1).max() < 1 + 1e-6


def test_samples_without_label_help(digits):
    X, y, X_test, y_test = digits
    few, _ = split_per_class(y, 2, random_state=0)
    alone = LiftedJPlay().fit(X[few], y[few]).score(X_test, y_test)
    partly = np.full(len(y), -1)
    partly[few] = y[few]
    helped = LiftedJPlay().fit(X, partly)
    assert_array_equal(helped.classes_, np.arange(10))
    assert helped.score(X_test, y_test) > alone - 0.02


def test_multi_label_targets():
    X, Y = make_multilabel_classification(n_samples=200, n_classes=4, random_state=0)
    model = LiftedJPlay().fit(X[:120], Y[:120])
    assert model.predict(X).shape == Y.shape
    assert_array_equal(model.predict(X), model.predict_proba(X) > 0.5)
    common = np.maximum(Y.mean(axis=0), 1 - Y.mean(axis=0)).mean()
    assert np.mean(model.predict(X[120:]) == Y[120:]) > common


def test_fewer_landmarks_cost_little(digits):
    X, y, X_test, y_test = digits
    all_samples = LiftedJPlay().fit(X, y)
    half = LiftedJPlay(n_landmarks=100).fit(X, y)
    assert all_samples.chain_.read_out.shape[0] == 200
    assert half.chain_.read_out.shape[0] == 100
    assert half.score(X_test, y_test) > all_samples.score(X_test, y_test) - 0.03


def test_a_diagonal_map_is_a_map():
    X = np.random.default_rng(0).normal(size=(6, 4))
    features, scale = np.array([0, 2, 3]), np.array([1.0, 0.5, 2.0])
    expected = View(features, np.diag(scale)).outputs(X)
    assert_allclose(View(features, scale).outputs(X), expected, rtol=1e-12)


@pytest.mark.parametrize("widths", [(0.5, 2.0), (0.7,)])
def test_kernel_is_the_mean_of_gaussians_in_median_distances(widths):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    view = with_landmarks(View(None, None), X, np.arange(20), widths)
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    unit = np.sqrt(np.median(distances[distances > 0]))
    expected = np.mean([np.exp(-distances / (2 * (w * unit) ** 2)) for w in widths], axis=0)
    assert_allclose(view.kernel(X), expected, atol=1e-12)
    assert_allclose(mean_kernel(distances, view.widths), expected, atol=1e-12)


def test_torch_agrees_with_numpy(digits):
    torch = pytest.importorskip("torch")
    X, y, X_test, _ = digits
    model = LiftedJPlay().fit(X, y)
    features, outputs = model.chain_(torch.asarray(X_test))
    assert_allclose(features.numpy(), model.transform(X_test), atol=1e-8)
    assert_allclose(outputs.numpy().argmax(axis=1), model.predict(X_test))


def test_blocks_agree_with_memory(digits):
    da = pytest.importorskip("dask.array")
    X, y, X_test, _ = digits
    model = LiftedJPlay().fit(X, y)
    lazy = model.predict(da.from_array(X_test, chunks=(400, -1)))
    assert_array_equal(lazy.compute(), model.predict(X_test))


def test_bad_widths_are_refused(digits):
    X, y, _, _ = digits
    with pytest.raises(ValueError, match="`widths` should be"):
        LiftedJPlay(widths=[0.0, 1.0]).fit(X, y)


@pytest.mark.parametrize("n_coordinates", [40, 25])
def test_inner_products_of_coordinates_are_the_kernel(n_coordinates):
    landmarks = np.random.default_rng(0).normal(size=(40, 6))
    view = with_landmarks(View(None, None), landmarks, np.arange(40), [0.5])
    kernel = view.kernel(landmarks)
    basis = coordinate_basis(kernel, n_coordinates)
    values, vectors = np.linalg.eigh(kernel)
    kept = slice(40 - n_coordinates, None)
    nearest = (vectors[:, kept] * values[kept]) @ vectors[:, kept].T
    assert basis.shape == (40, n_coordinates)
    assert_allclose((kernel @ basis) @ (kernel @ basis).T, nearest, atol=1e-10)


def test_coordinates_of_equal_landmarks_span_what_these_do():
    landmarks = np.repeat(np.random.default_rng(0).normal(size=(10, 6)), 2, axis=0)
    view = with_landmarks(View(None, None), landmarks, np.arange(20), [0.5])
    kernel = view.kernel(landmarks)
    basis = coordinate_basis(kernel, 20)
    assert basis.shape == (20, 10)
    assert_allclose((kernel @ basis) @ (kernel @ basis).T, kernel, atol=1e-10)
