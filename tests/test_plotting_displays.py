import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="plotting needs matplotlib")

from matplotlib import pyplot
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from jplay import JPlay
from jplay.plotting import (
    ConvergenceDisplay,
    RelianceDisplay,
    SubspaceDisplay,
    feature_reliance,
    leading_plane,
    plot_reliance,
)


@pytest.fixture(autouse=True)
def _figures_without_screen():
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def model(iris):
    return JPlay(n_components=2, layer_sizes=[3, 2]).fit(*iris)


def test_convergence_display_draws_the_history_and_again_on_given_axes(model):
    display = ConvergenceDisplay.from_estimator(model)
    np.testing.assert_allclose(display.axes_[0].lines[0].get_ydata(), model.objective_history_)
    assert display.figure_ is display.axes_[0].figure
    figure, axes = pyplot.subplots(1, 2)
    assert display.plot(axes=axes) is display
    assert display.figure_ is figure


def test_subspace_display_shows_every_layer(iris, model):
    names = ["setosa", "versicolor", "virginica"]
    display = SubspaceDisplay.from_estimator(model, *iris, class_names=names)
    assert len(display.axes_) == 2
    np.testing.assert_allclose(display.layers[1], model.transform(iris[0]))
    drawn = np.concatenate([points.get_offsets() for points in display.axes_[1].collections])
    np.testing.assert_allclose(drawn, leading_plane(model.transform(iris[0])))


@pytest.mark.parametrize("decision", ["centroid", "projection"])
def test_reliance_display_names_the_classes(iris, decision):
    X, y = iris
    labels = np.array(["a", "b", "c"])[y]
    model = JPlay(n_components=2, n_layers=1, decision=decision).fit(X, labels)
    display = RelianceDisplay.from_estimator(model, X, positions=[10, 20, 30, 40], x_label="nm")
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["a", "b", "c"]
    assert display.ax_.get_xlabel() == "nm"
    assert display.ax_.get_xlim() == (10, 40)
    np.testing.assert_allclose(display.ax_.images[0].get_array().max(axis=1), 1)


@pytest.mark.parametrize(
    "draw", [ConvergenceDisplay.from_estimator, RelianceDisplay.from_estimator]
)
def test_displays_refuse_an_unfitted_model(iris, draw):
    arguments = [iris[0]] if draw == RelianceDisplay.from_estimator else []
    with pytest.raises(NotFittedError):
        draw(JPlay(), *arguments)


def test_reliance_is_the_formula_for_known_weights(iris):
    X, y = iris
    lda = LinearDiscriminantAnalysis().fit(X, y)
    centred = np.abs(lda.coef_ - lda.coef_.mean(axis=0)) * X.std(axis=0)
    expected = centred / centred.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(feature_reliance(lda, X), expected, rtol=1e-8)


def test_reliance_of_two_classes_is_the_same_for_both(iris):
    X, y = iris[0][:100], iris[1][:100]
    model = LogisticRegression().fit(X, y)
    reliance = feature_reliance(model, X)
    expected = np.abs(model.coef_[0]) * X.std(axis=0)
    np.testing.assert_allclose(reliance, np.tile(expected / expected.sum(), (2, 1)), rtol=1e-8)


def test_reliance_of_labels_is_not_centred():
    X, Y = make_multilabel_classification(80, 6, n_classes=3, random_state=0)
    model = JPlay(n_components=3, n_layers=1).fit(X, Y)
    weights = np.abs(model.coef_ @ model.components_) * X.std(axis=0)
    expected = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(feature_reliance(model, X), expected, rtol=1e-6)


def test_reliance_ignores_a_feature_that_never_varies(iris):
    X, y = iris
    X = np.column_stack([X, np.ones(len(X))])
    reliance = feature_reliance(JPlay(n_components=2, n_layers=1).fit(X, y), X)
    np.testing.assert_array_equal(reliance[:, -1], 0)
    np.testing.assert_allclose(reliance.sum(axis=1), 1)


def test_reliance_refuses_scores_that_are_not_linear(iris):
    model = SVC(decision_function_shape="ovr").fit(*iris)
    with pytest.raises(ValueError, match="linear in the features"):
        feature_reliance(model, iris[0])


def test_reliance_refuses_a_model_without_scores(iris):
    forest = RandomForestClassifier(3).fit(*iris)
    with pytest.raises(AttributeError, match="decision_function"):
        feature_reliance(forest, iris[0])


def test_positions_of_another_length_are_refused():
    with pytest.raises(ValueError, match="`positions`"):
        plot_reliance(np.eye(3), positions=[1, 2])
