import logging
import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse
from scipy.linalg import eigvalsh
from sklearn.base import clone
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_multilabel_classification,
)
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import contract
from closeness import assert_close
from graphs import heat_affinity
from jplay import FastSolver, HeatGraph, JPlay, LabelPenalty, PaperSolver
from jplay.exceptions import CollapsedSolutionError
from statistics_of import shrunk_covariance_of

IRIS, IRIS_TARGET = load_iris(return_X_y=True)
COLLAPSING = {"beta": 1e6, "reconstruction": False}
"""Parameters with which next to nothing but zero is worth its manifold term."""


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    return X / X.max(axis=1, keepdims=True), y


@pytest.fixture(scope="module")
def distinct_digits(digits):
    """Digits without ties between neighbours, which would be broken by position."""
    X, y = digits
    return X + 0.01 * np.random.default_rng(0).random(X.shape), y


@pytest.fixture(scope="module")
def digits_model(digits):
    return JPlay(n_layers=[30, 20, 10]).fit(*digits)


@pytest.fixture(scope="module")
def multilabel():
    X, Y = make_multilabel_classification(
        n_samples=120, n_features=15, n_classes=4, random_state=0, allow_unlabeled=True
    )
    return X / X.max(axis=1, keepdims=True), Y


def test_fitted_attributes_have_their_promised_shapes(digits, digits_model):
    X, y = digits
    model = digits_model
    assert model.layer_sizes_ == [30, 20, 10]
    assert [theta.shape for theta in model.projections_] == [(30, 64), (20, 30), (10, 20)]
    assert model.components_.shape == (10, 64)
    assert model.intercept_.shape == (10,)
    assert model.first_intercept_.shape == (30,)
    assert model.coef_.shape == (10, 10)
    assert model.class_means_.shape == (10, 10)
    np.testing.assert_array_equal(model.classes_, np.arange(10))
    assert model.affinity_.shape == (300, 300)
    assert scipy.sparse.issparse(model.affinity_)
    assert model.bandwidth_ > 0
    assert len(model.objective_history_) >= model.n_iter_
    assert model.n_features_in_ == 64
    assert model.result_.status.converged
    assert model.predict(X).shape == y.shape
    assert model.decision_function(X).shape == (300, 10)
    assert model.score(X, y) > 0.95


def test_training_features_fulfil_the_constraints_at_every_layer(digits, digits_model):
    X, _ = digits
    for Z in digits_model.transform_layers(X):
        assert Z.min() > -1e-6
        assert np.linalg.norm(Z, axis=1).max() < 1 + 1e-6


@pytest.mark.parametrize("scaling", [None, "norm", "standard"])
def test_transform_layers_ends_in_transform_without_whitening(digits, scaling):
    X, y = digits
    model = JPlay(
        n_layers=[20, 10], scaling=scaling, whiten=False, solver=FastSolver(max_iter=2)
    ).fit(X, y)
    layers = model.transform_layers(X)
    assert [Z.shape[1] for Z in layers] == [20, 10]
    np.testing.assert_allclose(layers[-1], model.transform(X), atol=1e-12)
    np.testing.assert_allclose(
        model.transform(X), X @ model.components_.T + model.intercept_, atol=1e-12
    )
    assert_close(layers[0], X @ model.projections_[0].T + model.first_intercept_, 1e-7)
    # Digits are not negative: a linear map will do unless they are centred.
    assert np.any(model.intercept_) == (scaling == "standard")


@pytest.mark.parametrize("n_samples", [300, 40])
def test_whitened_features_are_centred_and_comparable(digits, n_samples):
    """Also with fewer samples than features, whose covariance is singular unless shrunk."""
    X, y = digits[0][:n_samples], digits[1][:n_samples]
    model = JPlay(n_components=8).fit(X, y)
    Z = model.transform(X)
    last = model.transform_layers(X)[-1]
    np.testing.assert_allclose(Z, (last - last.mean(axis=0)) @ model.whitener_.T, atol=1e-8)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-8)
    scaled = (X - model.feature_mean_) * model.feature_scale_
    shrunk, _ = shrunk_covariance_of(scaled, y)
    varies = model.feature_scale_ > 0
    matrix = model.whitener_ @ model.components_[:, varies] / model.feature_scale_[varies]
    carried = matrix @ shrunk[np.ix_(varies, varies)] @ matrix.T
    shares = np.bincount(y) / len(y)
    apart = model.class_means_ - shares @ model.class_means_
    spread = model.whitener_ @ (apart.T * shares) @ apart @ model.whitener_.T
    # Along axes of variance v between classes, of one within, features are shortened.
    kept, v = np.linalg.eigvalsh(carried), eigvalsh(spread, carried)
    np.testing.assert_allclose(kept, np.sort((v + 0.3) / (v + 1)), atol=1e-5)
    np.testing.assert_allclose(carried @ spread, spread @ carried, atol=1e-5)


def test_many_samples_have_unit_covariance_along_which_classes_differ():
    """With many samples the covariance is hardly shrunk, and the plain one tells the same."""
    rng = np.random.default_rng(0)
    y = np.arange(6000) % 3
    X = rng.normal(size=(6000, 5)) @ rng.normal(size=(5, 5)) + 20 * rng.normal(size=(3, 5))[y]
    Z = JPlay(n_components=3).fit(X, y).transform(X)
    means = np.stack([Z[y == c].mean(axis=0) for c in range(3)])
    residual = Z - means[y]
    # Three means span a plane: across it the classes do not differ.
    across = np.linalg.svd(means - means.mean(axis=0))[2][2]
    within = residual.T @ residual / 5997
    np.testing.assert_allclose(across @ within @ across, 0.3, atol=0.03)
    np.testing.assert_allclose(np.linalg.eigvalsh(within)[1:], 1, atol=0.1)


def test_fit_transform_is_transform_after_fit(digits, digits_model):
    X, y = digits
    model = clone(digits_model)
    np.testing.assert_array_equal(model.fit_transform(X, y), digits_model.transform(X))


def test_inverse_transform_goes_through_the_transposed_chain(digits):
    X, y = digits
    model = JPlay(n_layers=[30, 20, 10], scaling=None, whiten=False).fit(X, y)
    Z = model.transform(X)
    expected = Z
    for theta in reversed(model.projections_):
        expected = expected @ theta
    rebuilt = model.inverse_transform(Z)
    assert rebuilt.shape == X.shape
    np.testing.assert_allclose(rebuilt, expected, atol=1e-12)


@pytest.mark.parametrize("scaling", [None, "norm", "standard"])
def test_inverse_transform_undoes_whitening_and_scaling(digits, scaling):
    X, y = digits
    model = JPlay(n_components=10, scaling=scaling).fit(X, y)
    rebuilt = model.inverse_transform(model.transform(X))
    last = model.transform_layers(X)[-1]
    model.set_params(whiten=False)
    np.testing.assert_allclose(model.inverse_transform(last), rebuilt, atol=1e-9)
    # In scaled features the way back is the transposed map.
    scale = np.where(model.feature_scale_ > 0, model.feature_scale_, 1)
    chain = model.components_ / scale
    np.testing.assert_allclose(
        (rebuilt - model.feature_mean_) * scale, last @ chain, rtol=1e-7, atol=1e-9
    )


def test_inverse_transform_rebuilds_samples_from_as_many_features():
    """Nearly: with all dimensions and a light prediction loss little is lost.

    Positive samples of a common unit need no intercept, which would take one of the dimensions.
    """
    rng = np.random.default_rng(0)
    X, y = 5 + rng.random((200, 4)) * [1, 10, 100, 1000], np.arange(200) % 2
    settings = {"alpha": 1e-3, "beta": 0.0, "constraints": None, "scaling": "norm"}
    model = JPlay(n_components=4, **settings).fit(X, y)
    lost = X - model.inverse_transform(model.transform(X))
    assert np.linalg.norm(lost) < 0.05 * np.linalg.norm(X - X.mean(axis=0))


@pytest.mark.parametrize(
    "method", ["transform", "predict", "decision_function", "transform_layers"]
)
def test_methods_before_fit_raise(method):
    with pytest.raises(NotFittedError, match="JPlay instance is not fitted"):
        getattr(JPlay(), method)(IRIS)


@pytest.mark.parametrize(
    "labels", [np.array(["no", "yes"]), np.array([False, True]), np.array([-1, 1])]
)
@pytest.mark.parametrize("decision", ["centroid", "projection"])
def test_binary_targets(labels, decision):
    X, y = IRIS[:100], labels[(IRIS_TARGET[:100] > 0).astype(int)]
    model = JPlay(n_components=2, n_layers=2, decision=decision, solver=FastSolver(max_iter=5)).fit(
        X, y
    )
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.coef_.shape == (2, 2)
    scores = model.decision_function(X)
    assert scores.shape == (100,)
    np.testing.assert_array_equal(model.predict(X) == labels[1], scores > 0)
    assert model.predict(X).dtype == labels.dtype
    assert model.score(X, y) > 0.95


def test_string_classes_give_the_fit_of_their_codes():
    names = np.array(["setosa", "versicolor", "virginica"])[IRIS_TARGET]
    by_name = JPlay(n_components=3, n_layers=1, solver=FastSolver(max_iter=5)).fit(IRIS, names)
    by_code = JPlay(n_components=3, n_layers=1, solver=FastSolver(max_iter=5)).fit(
        IRIS, IRIS_TARGET
    )
    np.testing.assert_array_equal(by_name.components_, by_code.components_)
    np.testing.assert_array_equal(by_name.predict(IRIS), names[::50][by_code.predict(IRIS)])


def test_column_vector_target_is_raveled_with_a_warning():
    model = JPlay(n_components=3, n_layers=1, solver=FastSolver(max_iter=2))
    with pytest.warns(UserWarning, match="column-vector y"):
        model.fit(IRIS, IRIS_TARGET[:, None])
    assert model.predict(IRIS).shape == (150,)


def test_multilabel_targets_dense_and_sparse(multilabel):
    X, Y = multilabel
    model = JPlay(n_layers=[10, 5], alpha=100.0, gamma=0.01, solver=FastSolver(max_iter=5)).fit(
        X, Y
    )
    predicted = model.predict(X)
    assert predicted.shape == Y.shape
    assert set(np.unique(predicted)) <= {0, 1}
    assert model.decision_function(X).shape == Y.shape
    np.testing.assert_array_equal(predicted, model.decision_function(X) > 0.5)
    np.testing.assert_array_equal(model.classes_, np.arange(4))
    assert not hasattr(model, "class_means_")
    assert np.mean(predicted == Y) > 0.7 > np.mean(np.zeros_like(Y) == Y)
    assert 0 <= model.score(X, Y) <= 1
    for format in (scipy.sparse.csr_array, scipy.sparse.csc_matrix):
        sparse = clone(model).fit(X, format(Y))
        np.testing.assert_array_equal(sparse.predict(X), predicted)


def test_decision_by_class_means_does_not_mask_the_middle_class():
    """Three classes on a line: least squares on one-hot targets never predicts the middle one."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    X = np.column_stack([1.0 + y + 0.1 * rng.normal(size=120), 0.05 * rng.random(120)])
    options = {"n_components": 1, "n_layers": 1, "constraints": "nonnegative"}
    centroid = JPlay(decision="centroid", **options).fit(X, y)
    projection = JPlay(decision="projection", **options).fit(X, y)
    np.testing.assert_array_equal(centroid.components_, projection.components_)
    assert centroid.score(X, y) > 0.98
    assert projection.score(X, y) < 0.8


def test_projection_decision_is_the_largest_output_of_the_label_projection(digits):
    X, y = digits
    model = JPlay(n_layers=[20, 10], decision="projection", solver=FastSolver(max_iter=3)).fit(X, y)
    scores = model.transform_layers(X)[-1] @ model.coef_.T
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), scores.argmax(axis=1))


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"n_components": 4, "n_layers": 1}, [4]),
        ({"n_components": 4, "n_layers": 3}, [9, 7, 4]),
        ({"n_components": 12, "n_layers": 2}, [12, 12]),
        ({"n_layers": 2}, [12, 12]),
        ({"n_layers": [5]}, [5]),
        ({"n_layers": (7, 3)}, [7, 3]),
        ({"n_layers": np.array([7, 3]), "n_components": 3}, [7, 3]),
        ({"n_layers": [3, 8]}, [3, 8]),
    ],
    ids=str,
)
def test_layer_sizes(parameters, expected):
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 12)), np.arange(40) % 3
    model = JPlay(**parameters, solver=FastSolver(max_iter=1)).fit(X, y)
    assert model.layer_sizes_ == expected
    assert all(isinstance(size, int) for size in model.layer_sizes_)
    assert model.transform(X).shape == (40, expected[-1])


def test_default_components_follow_the_rank():
    rng = np.random.default_rng(0)
    X = rng.random((50, 4)) @ rng.random((4, 30))
    model = JPlay(n_layers=2, solver=FastSolver(max_iter=3)).fit(X, np.arange(50) % 2)
    assert model.layer_sizes_ == [4, 4]
    wide = JPlay(n_layers=2, solver=FastSolver(max_iter=1)).fit(
        rng.random((80, 50)), np.arange(80) % 2
    )
    assert wide.layer_sizes_[-1] == 30


def test_centred_samples_get_an_affine_first_layer(digits):
    X, y = digits
    X = X - X.mean(axis=0)
    model = JPlay(n_layers=[20, 10], scaling=None).fit(X, y)
    assert np.any(model.intercept_)
    assert model.projections_[0].shape == (20, 64)
    Z = model.transform_layers(X)[-1]
    assert Z.min() > -1e-6
    assert np.linalg.norm(Z, axis=1).max() < 1 + 1e-6
    assert model.score(X, y) > 0.9


def test_diverging_iterations_are_refused_with_remedies_that_work():
    """Long steps at a small penalty diverge under a heavy prediction term."""
    settings = {"n_components": 3, "n_layers": 3, "graph": HeatGraph(5, 0.7)}

    def fitted(alpha=1e4, mu=0.001, damping=0.001):
        schedule = FastSolver(mu=mu, damping=damping)
        return JPlay(alpha=alpha, solver=schedule, **settings).fit(contract.X, contract.CLASSES)

    message = r"diverged: lower `alpha` \(now 10000\), raise `mu` \(now 0.001\) or `damping` \(now"
    with pytest.raises(CollapsedSolutionError, match=message):
        fitted()
    for remedy in ({"alpha": 10.0}, {"mu": 1.0}):
        assert fitted(**remedy).result_.status.converged


@pytest.mark.parametrize("n_layers", [[10], [20, 10]])
def test_heavy_manifold_term_collapses_with_a_remedy(digits, n_layers):
    X, y = digits
    with pytest.raises(CollapsedSolutionError, match="Lower the weight of the manifold term"):
        JPlay(n_layers=n_layers, **COLLAPSING).fit(X, y)


@pytest.mark.parametrize("scaling", [None, "norm"])
def test_intercept_is_left_out_if_a_linear_map_suffices(digits, scaling):
    assert not np.any(JPlay(n_layers=[10], scaling=scaling).fit(*digits).intercept_)


def test_graph_may_be_a_matrix_or_a_function(digits, digits_model):
    X, y = digits
    width = digits_model.bandwidth_
    graph, _ = heat_affinity(X, 10, width)
    options = {"n_layers": [10], "solver": FastSolver(max_iter=3), "scaling": None}
    expected = JPlay(**options, graph=HeatGraph(bandwidth=width)).fit(X, y)
    for affinity in (graph, graph.toarray(), lambda samples: heat_affinity(samples, 10, width)[0]):
        model = JPlay(**options, graph=affinity).fit(X, y)
        np.testing.assert_allclose(model.components_, expected.components_, atol=1e-9)
        assert model.bandwidth_ is None


@pytest.mark.parametrize("scaling", [None, "norm", "standard"])
def test_heat_graph_is_that_of_scaled_samples(digits, scaling):
    X, y = digits
    model = JPlay(n_layers=[5], scaling=scaling, solver=FastSolver(max_iter=1)).fit(X, y)
    scaled = (X - model.feature_mean_) * model.feature_scale_
    expected, width = heat_affinity(scaled, 10)
    assert model.bandwidth_ == pytest.approx(width, rel=1e-9)
    assert abs(model.affinity_ - expected).max() < 1e-9


def test_standard_scaling_centres_and_limits_what_rare_values_reach():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 4)) * [1.0, 5.0, 0.1, 1.0] + 3, np.arange(100) % 2
    X[:, 1] = 5 * (np.arange(100) % 4 < 2)  # two values
    X[:, 2] = 0.7  # constant
    X[0, 3] = 50.0  # rare
    model = JPlay(n_components=2).fit(X, y)
    scaled = (X - model.feature_mean_) * model.feature_scale_
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    assert np.sqrt(np.mean(np.sum(scaled**2, axis=1))) == pytest.approx(1)
    assert model.feature_scale_[2] == 0
    # Two values lie within two deviations; normal ones and the rare one would reach farther.
    unit = scaled[:, 1].std()
    np.testing.assert_allclose(np.abs(scaled[:, [0, 3]]).max(axis=0), 2 * unit)
    assert scaled[:, 3].std() < 0.5 * unit


@pytest.mark.parametrize(
    "switches",
    [
        {"constraints": "unit_ball"},
        {"constraints": "nonnegative"},
        {"reconstruction": False},
        {"constraints": None},
    ],
    ids=str,
)
def test_switches_drop_a_part_of_the_model(digits, switches):
    X, y = digits
    model = JPlay(n_layers=[20, 10], **switches, solver=FastSolver(max_iter=10)).fit(X, y)
    Z = model.transform_layers(X)[-1]
    constraints = switches.get("constraints", "both")
    assert (Z.min() < -1e-3) == (constraints in ("unit_ball", None))
    if constraints in ("unit_ball", "both"):
        assert np.linalg.norm(Z, axis=1).max() < 1 + 1e-5
    else:
        assert np.linalg.norm(Z, axis=1).max() > 1.01
    reconstruction = [terms.reconstruction for terms in model.result_.objective_terms]
    assert np.any(reconstruction) == switches.get("reconstruction", True)
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("name", ["beta", "gamma"])
def test_zero_weights_work(digits, name):
    X, y = digits
    model = JPlay(n_layers=[20, 10], **{name: 0}, solver=FastSolver(max_iter=10)).fit(X, y)
    assert np.isfinite(model.transform(X)).all()
    assert model.score(X, y) > 0.9
    if name == "gamma":
        assert model.result_.objective_terms[-1].ridge == 0


@pytest.mark.parametrize("reconstruction", [True, False])
def test_pretraining_works_without_its_manifold_term(digits, reconstruction):
    X, y = digits
    schedule = PaperSolver(max_iter=2, eta=0.0)
    model = JPlay(n_layers=[20, 10], reconstruction=reconstruction, solver=schedule).fit(X, y)
    assert np.isfinite(model.transform(X)).all()
    assert model.score(X, y) > 0.8


def test_all_weights_may_be_zero_at_once(digits):
    X, y = digits
    model = JPlay(n_layers=[20, 10], beta=0, gamma=0, solver=FastSolver(max_iter=10)).fit(X, y)
    assert model.score(X, y) > 0.9


def test_whitened_features_are_rounded_once_in_single_precision():
    """A whitener has entries in the hundreds, by which it multiplies what was rounded before."""
    X, y = load_iris(return_X_y=True)
    model = JPlay(3, 2, alpha=1.0).fit(X.astype(np.float32), np.column_stack([y == 0, y > 1]))
    whitener, intercept, center = (
        np.asarray(array, dtype=float)
        for array in (model.whitener_, model.intercept_, model.center_)
    )
    expected = whitener @ (intercept - center)
    features = model.transform(np.zeros((1, 4), dtype=np.float32))[0]
    assert_close(features, expected, np.finfo(np.float32).eps)


def test_float32_stays_float32(digits):
    X, y = digits
    model = JPlay(n_layers=[20, 10], solver=FastSolver(max_iter=5)).fit(X.astype(np.float32), y)
    for name in ("components_", "intercept_", "coef_", "class_means_", "first_intercept_"):
        assert getattr(model, name).dtype == np.float32, name
    assert all(theta.dtype == np.float32 for theta in model.projections_)
    Z = model.transform(X.astype(np.float32))
    assert Z.dtype == np.float32
    assert all(layer.dtype == np.float32 for layer in model.transform_layers(X.astype(np.float32)))
    assert model.inverse_transform(Z).dtype == np.float32
    assert model.decision_function(X.astype(np.float32)).dtype == np.float32
    double = JPlay(n_layers=[20, 10], solver=FastSolver(max_iter=5)).fit(X, y)
    assert np.mean(double.predict(X) == model.predict(X.astype(np.float32))) > 0.97


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_digits])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_single_and_double_precision_agree(load, n_layers):
    X, y = load(return_X_y=True)
    single = X.astype(np.float32)
    double_model = JPlay(n_layers=n_layers).fit(X, y)
    single_model = JPlay(n_layers=n_layers).fit(single, y)
    same = single_model.predict(single) == double_model.predict(X)
    assert same.mean() >= 0.999
    np.testing.assert_allclose(
        single_model.predict_proba(single), double_model.predict_proba(X), atol=1e-2
    )


@pytest.mark.parametrize("load", [load_wine, load_digits])
@pytest.mark.parametrize("scaling", ["standard", "norm"])
@pytest.mark.parametrize("unit", [1e-3, 1000.0])
def test_common_unit_of_the_features_does_not_matter(load, scaling, unit):
    X, y = load(return_X_y=True)
    model, other = (JPlay(scaling=scaling).fit(samples, y) for samples in (X, unit * X))
    np.testing.assert_array_equal(other.predict(unit * X), model.predict(X))
    np.testing.assert_allclose(other.predict_proba(unit * X), model.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
def test_units_and_offsets_of_single_features_do_not_matter(load):
    X, y = load(return_X_y=True)
    rng = np.random.default_rng(0)
    units = 10.0 ** rng.integers(-3, 4, X.shape[1])
    offsets = 10 * units * X.std(axis=0) * rng.normal(size=X.shape[1])
    model, other = JPlay().fit(X, y), JPlay().fit(X * units + offsets, y)
    np.testing.assert_array_equal(other.predict(X * units + offsets), model.predict(X))
    np.testing.assert_allclose(
        other.predict_proba(X * units + offsets), model.predict_proba(X), atol=1e-6
    )


@pytest.mark.parametrize("decision", ["centroid", "projection"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_sum_to_one_and_follow_the_prediction(decision, n_classes):
    kept = n_classes > IRIS_TARGET
    X, y = IRIS[kept], np.array(["c", "a", "b"])[IRIS_TARGET[kept]]
    model = JPlay(decision=decision).fit(X, y)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (len(y), n_classes)
    assert probabilities.min() >= 0
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), probabilities, atol=1e-12)


def test_probabilities_are_honest_on_new_samples():
    """Few samples in many dimensions: without tempering the rule would be far too sure."""
    rng = np.random.default_rng(0)
    centres = 0.25 * rng.normal(size=(3, 40))
    y = np.arange(3090) % 3
    X = rng.normal(size=(3090, 40)) + centres[y]
    model = JPlay().fit(X[:90], y[:90])
    probabilities = model.predict_proba(X[90:])
    assert abs(probabilities.max(axis=1).mean() - model.score(X[90:], y[90:])) < 0.1


def test_labels_of_multilabel_targets_have_probabilities_each(multilabel):
    X, Y = multilabel
    model = JPlay(n_components=5).fit(X, Y)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == Y.shape
    assert ((probabilities > 0) & (probabilities < 1)).all()
    np.testing.assert_array_equal(probabilities > 0.5, model.predict(X) == 1)


def test_feature_names_and_pandas_output(digits):
    X, y = digits
    frame = pd.DataFrame(X, columns=[f"pixel {i}" for i in range(64)])
    model = (
        JPlay(n_layers=[10, 3], solver=FastSolver(max_iter=2))
        .set_output(transform="pandas")
        .fit(frame, y)
    )
    np.testing.assert_array_equal(model.feature_names_in_, frame.columns)
    np.testing.assert_array_equal(model.get_feature_names_out(), ["jplay0", "jplay1", "jplay2"])
    Z = model.transform(frame)
    assert isinstance(Z, pd.DataFrame)
    assert list(Z.columns) == ["jplay0", "jplay1", "jplay2"]
    assert model.predict(frame).shape == (300,)
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame.rename(columns={"pixel 0": "other"}))


def test_clone_and_pickle_keep_the_model(digits, digits_model):
    X, _ = digits
    copy = pickle.loads(pickle.dumps(digits_model))
    np.testing.assert_array_equal(copy.transform(X), digits_model.transform(X))
    np.testing.assert_array_equal(copy.predict(X), digits_model.predict(X))
    fresh = clone(digits_model)
    assert fresh.get_params() == digits_model.get_params()
    assert not hasattr(fresh, "components_")


def test_pipeline_and_grid_search():
    search = GridSearchCV(
        make_pipeline(
            StandardScaler(), JPlay(n_components=3, n_layers=1, solver=FastSolver(max_iter=5))
        ),
        {"jplay__alpha": [1.0, 10.0]},
        cv=2,
    ).fit(IRIS, IRIS_TARGET)
    assert search.best_score_ > 0.9


def test_outer_iterations_that_run_out_are_reported(digits):
    message = (
        r"JPlay did not converge: no convergence within max_iter=2 outer iterations "
        r"\(relative change of the objective .*\): increase max_iter or tol=0\.0001\."
    )
    with pytest.warns(ConvergenceWarning, match=message):
        model = JPlay(n_layers=[20, 10], solver=PaperSolver(max_iter=2)).fit(*digits)
    assert model.n_iter_ == 2
    assert not model.result_.status.converged


def test_inner_iterations_that_run_out_are_reported(digits):
    message = r"increase inner_max_iter or inner_tol"
    with pytest.warns(ConvergenceWarning, match=message):
        JPlay(n_layers=[20, 10], solver=PaperSolver(inner_max_iter=10, tol=0.1)).fit(*digits)


def test_logger_tells_every_iteration(digits, caplog):
    with caplog.at_level(logging.INFO, logger="jplay"):
        model = JPlay(n_layers=[10], solver=FastSolver(max_iter=3, tol=0))
        model.fit(*digits)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert lines[1] == f"iteration 2: objective {model.objective_history_[1]:.8g}"


class Recorder:
    """Callback that notes every task and stops after a number of fine-tuning iterations."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.begun, self.ended, self.scores = [], [], []
        self.events = []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        self.ended.append(context.task_name)
        if fitted_estimator is not None:
            self.scores.append(fitted_estimator.score(X, y))
        return self.stop_after is not None and self.ended.count("fine-tuning") >= self.stop_after


def test_callbacks_follow_the_fit_and_may_stop_it(digits):
    X, y = digits
    recorder = Recorder(stop_after=3)
    model = JPlay(n_layers=[20, 10], solver=PaperSolver(tol=0))
    model.set_callbacks(recorder).fit(X, y)
    assert model.n_iter_ == 3
    assert model.result_.status.message == "stopped by a callback"
    steps = ["pretraining", "pretraining", "fine-tuning", "fine-tuning", "fine-tuning"]
    assert recorder.begun == ["fit", *steps]
    assert recorder.ended == [*steps, "fit"]
    assert recorder.events == ["setup", "teardown"]
    assert recorder.scores[-1] == recorder.scores[-2] == model.score(X, y)


def test_callbacks_are_torn_down_after_an_error(digits):
    X, y = digits
    recorder = Recorder()
    model = JPlay(n_layers=[20, 10], **COLLAPSING).set_callbacks(recorder)
    with pytest.raises(CollapsedSolutionError):
        model.fit(X, y)
    assert recorder.events == ["setup", "teardown"]


def test_callbacks_do_not_change_the_fit(digits):
    X, y = digits
    plain = JPlay(n_layers=[20, 10], solver=FastSolver(max_iter=3)).fit(X, y)
    watched = (
        JPlay(n_layers=[20, 10], solver=FastSolver(max_iter=3)).set_callbacks(Recorder()).fit(X, y)
    )
    np.testing.assert_array_equal(plain.components_, watched.components_)


def test_progress_bar_of_scikit_learn(digits, capsys):
    JPlay(n_layers=[10], solver=FastSolver(max_iter=3)).set_callbacks(ProgressBar()).fit(*digits)
    assert "JPlay - fit" in capsys.readouterr().out


def test_scoring_monitor_of_scikit_learn(digits):
    X, y = digits
    monitor = ScoringMonitor(scoring="accuracy")
    model = JPlay(n_layers=[10]).set_callbacks(monitor).fit(X, y)
    rows = monitor.get_logs().data
    assert [row["task_name"] for row in rows].count("fine-tuning") == model.n_iter_
    # The repair after the last iteration moves converged features too little to matter.
    assert rows[-1]["accuracy"] == pytest.approx(model.score(X, y))


def test_sample_order_does_not_matter(distinct_digits):
    X, y = distinct_digits
    order = np.random.default_rng(0).permutation(len(X))
    # Every outer iteration magnifies the rounding of sums taken in another order.
    options = {"n_layers": [20, 10], "solver": FastSolver(max_iter=2)}
    model = JPlay(**options).fit(X, y)
    shuffled = JPlay(**options).fit(X[order], y[order])
    np.testing.assert_allclose(shuffled.transform(X), model.transform(X), atol=1e-7)
    np.testing.assert_allclose(shuffled.coef_, model.coef_, atol=1e-6)


@pytest.mark.parametrize("affine", [False, True])
def test_rotated_features_give_the_same_training_features(distinct_digits, affine):
    X, y = distinct_digits
    X = X - X.mean(axis=0) if affine else X
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(64, 64)))[0]
    schedule = FastSolver(max_iter=2)
    options = {"n_layers": [20, 10], "solver": schedule, "scaling": None, "whiten": False}
    expected = JPlay(**options).fit_transform(X, y)
    rotated = JPlay(**options).fit_transform(X @ rotation, y)
    np.testing.assert_allclose(rotated, expected, atol=1e-5)


@pytest.mark.parametrize("affine", [False, True])
def test_more_features_than_samples_are_handled_in_the_row_space(affine):
    """The same samples in a larger space have the same features and no part outside their span."""
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 8)), np.arange(30) % 3
    X += np.eye(3, 8)[y]
    X = X - X.mean(axis=0) if affine else X
    embedding = np.linalg.qr(rng.normal(size=(50, 8)))[0].T
    schedule = FastSolver(max_iter=3)
    options = {"n_layers": [6, 3], "solver": schedule, "scaling": None, "whiten": False}
    model = JPlay(**options).fit(X, y)
    wide = JPlay(**options).fit(X @ embedding, y)
    assert wide.components_.shape == (3, 50)
    np.testing.assert_allclose(wide.transform(X @ embedding), model.transform(X), atol=1e-7)
    np.testing.assert_allclose(wide.components_, model.components_ @ embedding, atol=1e-7)


def test_renamed_and_reordered_classes_permute_the_label_projection(digits):
    X, y = digits
    options = {"n_layers": [10], "solver": FastSolver(max_iter=2)}
    model = JPlay(**options).fit(X, y)
    reversed_classes = JPlay(**options).fit(X, 9 - y)
    np.testing.assert_allclose(reversed_classes.coef_[::-1], model.coef_, atol=1e-7)


@pytest.mark.parametrize(("n_layers", "alpha"), [(5, 100.0), (7, 100.0), (6, 1000.0)])
def test_deep_chains_with_a_heavy_prediction_loss_converge(digits, n_layers, alpha):
    X, y = digits
    shallow = JPlay(n_layers=1, n_components=30, alpha=alpha, gamma=10.0).fit(X, y)
    deep = JPlay(n_layers=n_layers, n_components=30, alpha=alpha, gamma=10.0).fit(X, y)
    assert deep.result_.status.converged
    assert deep.objective_history_[-1] < 1.2 * shallow.objective_history_[-1]


@pytest.mark.slow
def test_ar_faces_reach_the_accuracy_of_the_prototype():
    folder = os.environ.get("JPLAY_DATA")
    path = Path(folder or ".") / "ar" / "AR_DAT.mat"
    if folder is None or not path.exists():
        pytest.skip("the AR faces are not in $JPLAY_DATA/ar/AR_DAT.mat")
    stored = scipy.io.loadmat(path)
    train, test = (
        Normalizer(norm="max").fit_transform(stored[name].T.astype(float))
        for name in ("NewTrain_DAT", "NewTest_DAT")
    )
    y_train, y_test = (stored[name].ravel() for name in ("trainlabels", "testlabels"))
    axes = np.linalg.svd(train, full_matrices=False)[2][:300].T
    train, test = train @ axes, test @ axes
    model = JPlay(
        n_layers=[270, 240, 210],
        beta=0.1,
        gamma=1.0,
        decision="projection",
        graph=HeatGraph(bandwidth=1.0),
        scaling=None,
        whiten=False,
    ).fit(train, y_train)
    nearest = KNeighborsClassifier(1).fit(model.transform(train), y_train)
    assert nearest.score(model.transform(test), y_test) >= 0.85
    assert model.score(test, y_test) >= 0.89


@pytest.mark.parametrize("n_layers", [1, 2])
def test_sparse_label_projection_is_optimal_for_its_features(digits, n_layers):
    X, y = digits
    model = JPlay(12, n_layers, gamma=LabelPenalty(0.2, 1.0), whiten=False).fit(X, y)
    Z, Y = model.transform(X), (y[:, None] == model.classes_).astype(float)
    P = model.coef_
    assert 0.1 < np.mean(P == 0) < 0.9
    gradient = model.alpha * (P @ Z.T - Y.T) @ Z + 0.2 * P
    np.testing.assert_allclose(gradient[P != 0], -np.sign(P[P != 0]), rtol=1e-4)
    assert np.abs(gradient[P == 0]).max() < 1.0001
    # Both penalties are part of the objective that the solver reports.
    penalty = 0.1 * np.sum(P**2) + np.abs(P).sum()
    assert model.result_.objective_terms[-1].ridge == pytest.approx(penalty)


def test_sparse_label_projection_takes_the_fast_solver(digits):
    X, y = digits
    with pytest.raises(ValueError, match=r"`solver` should be 'fast' if `gamma`"):
        JPlay(5, solver="paper", gamma=LabelPenalty(absolute=1.0)).fit(X, y)
