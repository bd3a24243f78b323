import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import plain_transcription as plain
from graphs import heat_affinity
from jplay import AutoRULe, HeatGraph
from jplay.exceptions import CollapsedSolutionError


@pytest.fixture(scope="module")
def digits():
    X = load_digits().data[:200]
    return X / X.max(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def digits_model(digits):
    return AutoRULe(n_components=10).fit(digits)


def test_fitted_model_keeps_its_promises(digits, digits_model):
    Z = digits_model.transform(digits)
    assert Z.shape == (200, 10)
    assert digits_model.components_.shape == (10, 64)
    assert digits_model.intercept_.shape == (10,)
    assert not np.any(digits_model.intercept_)
    assert digits_model.n_iter_ == len(digits_model.result_.pretraining[0].residuals)
    assert digits_model.result_.status.converged
    assert Z.min() > -1e-6
    assert np.linalg.norm(Z, axis=1).max() < 1 + 1e-6


@pytest.mark.parametrize("shape", [(60, 12), (20, 40)], ids=["n > d", "n < d"])
def test_components_equal_the_plain_transcription(shape):
    X = np.random.default_rng(0).random(shape)
    model = AutoRULe(n_components=4, eta=0.3, graph=HeatGraph(n_neighbors=5, bandwidth=1.0)).fit(X)
    [expected] = plain.pretrain(X, plain.heat_affinity(X, 5, 1.0), [4], plain.Settings(eta=0.3))
    np.testing.assert_allclose(model.components_, expected, atol=1e-6)


def test_reconstruction_improves_with_the_number_of_components(digits):
    errors = []
    for n_components in (2, 10, 40):
        model = AutoRULe(n_components=n_components, constraints="nonnegative").fit(digits)
        rebuilt = model.inverse_transform(model.transform(digits))
        assert rebuilt.shape == digits.shape
        errors.append(np.linalg.norm(digits - rebuilt))
    assert np.linalg.norm(digits) > errors[0] > errors[1] > errors[2]


def test_manifold_weight_smooths_the_features(digits):
    def roughness(eta):
        model = AutoRULe(n_components=5, eta=eta).fit(digits)
        Z = model.transform(digits)
        laplacian = plain.graph_laplacian(model.affinity_.toarray())
        return np.trace(Z.T @ laplacian @ Z) / np.sum(Z**2)

    assert roughness(10.0) < roughness(0.0)


def test_centred_samples_get_an_affine_map(digits):
    X = digits - digits.mean(axis=0)
    model = AutoRULe(n_components=10).fit(X)
    assert np.any(model.intercept_)
    assert not np.any(AutoRULe(n_components=10).fit(digits).intercept_)
    Z = model.transform(X)
    np.testing.assert_allclose(Z, X @ model.components_.T + model.intercept_, atol=1e-12)
    assert Z.min() > -1e-6
    assert np.linalg.norm(Z, axis=1).max() < 1 + 1e-6


def test_heavy_manifold_term_collapses_with_a_remedy(digits):
    with pytest.raises(CollapsedSolutionError, match="Lower the weight of the manifold term"):
        AutoRULe(n_components=10, eta=1e9, reconstruction=False).fit(digits)


@pytest.mark.parametrize("constraints", ["nonnegative", "unit_ball", None])
def test_only_the_constraints_asked_for_hold(digits, constraints):
    Z = AutoRULe(n_components=10, constraints=constraints).fit_transform(digits)
    if constraints == "nonnegative":
        assert Z.min() > -1e-6
    else:
        assert Z.min() < -0.01
    if constraints == "unit_ball":
        assert np.linalg.norm(Z, axis=1).max() < 1 + 1e-6
    else:
        assert np.linalg.norm(Z, axis=1).max() > 1.1


def test_eta_zero_rebuilds_better_than_a_large_eta(digits):
    def error(eta):
        model = AutoRULe(n_components=5, eta=eta, constraints="nonnegative").fit(digits)
        return np.linalg.norm(digits - model.inverse_transform(model.transform(digits)))

    assert error(0.0) < 0.99 * error(100.0)


def test_without_reconstruction_features_stay_feasible_and_do_not_vanish(digits):
    Z = AutoRULe(n_components=5, eta=0.0, reconstruction=False).fit_transform(digits)
    assert Z.min() > -1e-6
    assert np.linalg.norm(Z, axis=1).max() < 1 + 1e-6
    assert np.linalg.norm(Z) > 0.1


def test_affinity_may_be_a_matrix_or_a_function(digits):
    expected = AutoRULe(n_components=4, graph=HeatGraph(bandwidth=1.0)).fit(digits)
    graph, _ = heat_affinity(digits, 10, 1.0)
    for affinity in (graph, graph.toarray(), lambda samples: heat_affinity(samples, 10, 1.0)[0]):
        model = AutoRULe(n_components=4, graph=affinity).fit(digits)
        np.testing.assert_allclose(model.components_, expected.components_, atol=1e-8)


def test_default_components_are_the_rank_or_twenty(digits):
    rng = np.random.default_rng(0)
    low_rank = rng.random((40, 3)) @ rng.random((3, 9))
    assert AutoRULe().fit(low_rank).components_.shape == (3, 9)
    assert AutoRULe().fit(digits).components_.shape == (20, 64)


def test_iterations_that_run_out_are_reported(digits):
    message = r"AutoRULe did not converge: largest residual .*: increase max_iter or tol\."
    with pytest.warns(ConvergenceWarning, match=message):
        model = AutoRULe(n_components=5, max_iter=5).fit(digits)
    assert model.n_iter_ == 5


def test_float32_stays_float32(digits, digits_model):
    X = digits.astype(np.float32)
    model = AutoRULe(n_components=10).fit(X)
    Z = model.transform(X)
    assert model.components_.dtype == model.intercept_.dtype == Z.dtype == np.float32
    assert model.inverse_transform(Z).dtype == np.float32


def test_feature_names_pandas_clone_and_pickle():
    X, _ = load_iris(return_X_y=True, as_frame=True)
    model = AutoRULe(n_components=2).set_output(transform="pandas").fit(X)
    Z = model.transform(X)
    assert isinstance(Z, pd.DataFrame)
    assert list(Z.columns) == ["autorule0", "autorule1"]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X), Z)
    assert clone(model).get_params() == model.get_params()


def test_inverse_transform_checks_its_input(digits_model):
    with pytest.raises(ValueError, match=r"`X` should have 10 features .* got 3\. Pass the output"):
        digits_model.inverse_transform(np.ones((2, 3)))


@pytest.mark.parametrize("method", ["transform", "inverse_transform"])
def test_methods_before_fit_raise(digits, method):
    with pytest.raises(NotFittedError, match="AutoRULe instance is not fitted"):
        getattr(AutoRULe(), method)(digits)


def test_sample_order_and_rotation_do_not_matter():
    rng = np.random.default_rng(0)
    X = rng.random((50, 8))
    order = rng.permutation(50)
    rotation = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    options = {"n_components": 4, "graph": HeatGraph(n_neighbors=5)}
    expected = AutoRULe(**options).fit_transform(X)
    np.testing.assert_allclose(
        AutoRULe(**options).fit_transform(X[order]), expected[order], atol=1e-6
    )
    np.testing.assert_allclose(AutoRULe(**options).fit_transform(X @ rotation), expected, atol=1e-6)
