"""Which original features each class relies on."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from jplay import JPlay
from jplay.inspection import feature_relevance, relevance_stability
from jplay.plotting import plot_relevance


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300] / 16, y[:300]


@pytest.fixture(scope="module")
def model(digits):
    return JPlay(n_components=12, n_layers=2).fit(*digits)


@pytest.fixture
def planted():
    """Class 0 differs in feature 2, class 1 in feature 7; the others are noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(5, 0.5, (240, 10))
    y = np.arange(240) % 3
    X[y == 0, 2] += 3
    X[y == 1, 7] += 3
    return X / 10, y


def test_layer_shares_add_up_to_the_distance_of_the_class_mean(digits, model):
    X, y = digits
    relevance = feature_relevance(model, X, y)
    for Z, rows in zip(model.transform_layers(X), relevance.layers, strict=True):
        for k, label in enumerate(model.classes_):
            distance = np.sum((Z[y == label].mean(axis=0) - Z.mean(axis=0)) ** 2)
            assert_allclose(rows[k].sum(), distance, rtol=1e-8)


@pytest.mark.parametrize("decision", ["centroid", "projection"])
def test_overall_shares_add_up_to_the_mean_score(digits, decision):
    X, y = digits
    model = JPlay(n_components=12, n_layers=2, decision=decision).fit(X, y)
    scores = model.decision_function(X)
    scores = scores - scores.mean(axis=1, keepdims=True)
    relevance = feature_relevance(model, X, y)
    for k, label in enumerate(model.classes_):
        lift = scores[y == label, k].mean() - scores[:, k].mean()
        assert_allclose(relevance.overall[k].sum(), lift, rtol=1e-8)


def test_relevance_of_another_linear_classifier(digits):
    X, y = digits
    lda = LinearDiscriminantAnalysis(shrinkage=0.1, solver="lsqr").fit(X, y)
    relevance = feature_relevance(lda, X, y)
    weights = lda.coef_ - lda.coef_.mean(axis=0)
    deltas = np.stack([X[y == k].mean(axis=0) for k in lda.classes_]) - X.mean(axis=0)
    assert_allclose(relevance.overall, weights * deltas, rtol=1e-6, atol=1e-9)
    assert relevance.layers == []


def test_relevance_of_two_classes_sums_to_half_the_difference_of_their_scores(digits):
    X, y = digits[0][digits[1] < 2], digits[1][digits[1] < 2]
    model = LogisticRegression().fit(X, y)
    relevance = feature_relevance(model, X, y)
    scores = model.decision_function(X)
    for k, sign in enumerate((-1, 1)):
        lift = sign * (scores[y == k].mean() - scores.mean()) / 2
        assert_allclose(relevance.overall[k].sum(), lift, rtol=1e-8)


def test_relevance_does_not_change_if_every_class_gets_the_same_further_score(digits):
    X, y = digits
    lda = LinearDiscriminantAnalysis(shrinkage=0.1, solver="lsqr").fit(X, y)
    before = feature_relevance(lda, X, y).overall
    lda.coef_ = lda.coef_ + np.linspace(-1, 1, X.shape[1])
    assert_allclose(feature_relevance(lda, X, y).overall, before, atol=1e-9)


def test_feature_that_never_varies_has_no_relevance(digits):
    X, y = np.column_stack([digits[0], np.ones(300)]), digits[1]
    relevance = feature_relevance(JPlay(n_components=12, n_layers=1).fit(X, y), X, y)
    assert_allclose(relevance.overall[:, -1], 0, atol=1e-12)


def test_scores_in_single_precision_give_the_same_shares(digits, model):
    X, y = digits
    single = JPlay(n_components=12, n_layers=2).fit(X.astype(np.float32), y)
    shares = feature_relevance(single, X.astype(np.float32), y).shares()
    assert_allclose(shares, feature_relevance(model, X, y).shares(), atol=2e-3)


def test_models_without_linear_scores_are_refused(digits):
    X, y = digits
    with pytest.raises(ValueError, match="linear in the features"):
        feature_relevance(SVC(decision_function_shape="ovr").fit(X, y), X, y)
    with pytest.raises(AttributeError, match="decision_function"):
        feature_relevance(RandomForestClassifier(3).fit(X, y), X, y)


def test_planted_features_are_found(planted):
    X, y = planted
    relevance = feature_relevance(JPlay(n_components=5, n_layers=2).fit(X, y), X, y)
    strongest = np.argsort(-relevance.shares(), axis=1)
    assert strongest[0, 0] == 2
    assert strongest[1, 0] == 7
    assert set(strongest[2, :2]) == {2, 7}
    for layer in (0, 1):
        assert relevance.shares(layer)[0].argmax() == 2
    assert_allclose(np.abs(relevance.shares()).sum(axis=1), 1)


def test_planted_features_are_stable_and_noise_is_not(planted):
    X, y = planted
    stability = relevance_stability(
        JPlay(n_components=4, n_layers=1), X, y, n_resamples=6, random_state=0
    )
    assert stability.correlation.min() > 0.8
    assert stability.sign_agreement[0, 2] == 1
    assert stability.mean[0, 2] > 5 * stability.spread[0, 2]
    noise = np.random.default_rng(0).permutation(y)
    lost = relevance_stability(
        JPlay(n_components=4, n_layers=1), X, noise, n_resamples=6, random_state=0
    )
    assert lost.correlation.mean() < stability.correlation.mean() - 0.2


def test_stability_is_reproducible(planted):
    X, y = planted
    settings = {"n_resamples": 3, "random_state": 1}
    first, second = (relevance_stability(JPlay(n_layers=1), X, y, **settings) for _ in range(2))
    assert_array_equal(first.mean, second.mean)


def test_several_labels_per_sample():
    X, Y = make_multilabel_classification(n_samples=100, n_classes=3, random_state=0)
    X = X / X.max()
    model = JPlay(n_layers=1, n_components=5).fit(X, Y)
    relevance = feature_relevance(model, X, Y)
    scores = model.decision_function(X)
    lift = scores[Y[:, 1] == 1, 1].mean() - scores[:, 1].mean()
    assert_allclose(relevance.overall[1].sum(), lift)


def test_bad_input_is_refused(digits, model):
    X, y = digits
    with pytest.raises(ValueError, match="`X` should have 64 features"):
        feature_relevance(model, X[:, :5], y)
    with pytest.raises(ValueError, match="`y` should have 300 entries"):
        feature_relevance(model, X, y[:10])
    with pytest.raises(ValueError, match="`fraction` should be between 0 and 1"):
        relevance_stability(JPlay(), X, y, fraction=2)
    with pytest.raises(ValueError, match="`n_resamples` should be at least 2"):
        relevance_stability(JPlay(), X, y, n_resamples=1)


def test_plot_as_curves_and_as_images(digits, model):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    relevance = feature_relevance(model, *digits)
    shares = relevance.shares()
    images = plot_relevance(shares, image_shape=(8, 8), class_names=model.classes_)
    assert len(images) == 10
    assert_allclose(images[3].images[0].get_array(), shares[3].reshape(8, 8))
    curves = plot_relevance(
        shares[:2], wavelengths=np.linspace(400, 2400, 64), spread=0.01 + 0 * shares[:2]
    )
    assert_allclose(curves[1].lines[0].get_ydata(), shares[1])
    assert curves[0].get_xlabel() == "Wavelength (nm)"
    assert len(curves[0].collections) == 1
    with pytest.raises(ValueError, match="`image_shape` should stand for 64 features"):
        plot_relevance(shares, image_shape=(8, 7))
    with pytest.raises(ValueError, match="`class_names` should hold 10 names"):
        plot_relevance(shares, class_names=["a"])
