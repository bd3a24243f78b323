import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="plotting needs matplotlib")

from matplotlib import pyplot
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest

from jplay import LPP, AutoRULe, JPlay
from jplay.inspection import feature_relevance
from jplay.plotting import (
    BandsDisplay,
    ConvergenceDisplay,
    RelevanceDisplay,
    SubspaceDisplay,
    align_planes,
    leading_plane,
    within_rim,
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
    return JPlay(n_components=2, n_layers=[3, 2]).fit(*iris)


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
    expected = model.transform_layers(iris[0])[1]
    np.testing.assert_allclose(display.layers[1], expected)
    drawn = np.concatenate([points.get_offsets() for points in display.axes_[1].collections])
    planes = [leading_plane(layer) for layer in display.layers]
    np.testing.assert_allclose(drawn, within_rim(align_planes(planes)[1]))


@pytest.mark.parametrize("estimator", [AutoRULe(2), LPP(2)], ids=["AutoRULe", "LPP"])
def test_subspace_display_shows_the_one_subspace_of_other_transformers(iris, estimator):
    X, y = iris
    display = SubspaceDisplay.from_estimator(estimator.fit(X), X, y)
    (ax,) = display.axes_
    drawn = np.concatenate([points.get_offsets() for points in ax.collections])
    np.testing.assert_allclose(drawn, within_rim(leading_plane(estimator.transform(X))))


def test_relevance_display_draws_the_shares_of_every_class(iris):
    X, y = iris
    labels = np.array(["a", "b", "c"])[y]
    model = JPlay(n_layers=[3, 2]).fit(X, labels)
    display = RelevanceDisplay.from_estimator(model, X, labels, wavelengths=[10, 20, 30, 40])
    assert [ax.get_title() for ax in display.axes_] == ["a", "b", "c"]
    shares = feature_relevance(model, X, labels).shares()
    for ax, row in zip(display.axes_, shares, strict=True):
        np.testing.assert_allclose(ax.lines[0].get_data(), [[10, 20, 30, 40], row])
    first = RelevanceDisplay.from_estimator(model, X, labels, layer=0, image_shape=(2, 2))
    expected = feature_relevance(model, X, labels).shares(0)[2].reshape(2, 2)
    np.testing.assert_allclose(first.axes_[2].images[0].get_array(), expected)
    figure, axes = pyplot.subplots(1, 3)
    assert display.plot(axes=axes).figure_ is figure


@pytest.mark.parametrize(
    "draw", [ConvergenceDisplay.from_estimator, RelevanceDisplay.from_estimator]
)
def test_displays_refuse_an_unfitted_model(iris, draw):
    arguments = iris if draw == RelevanceDisplay.from_estimator else []
    with pytest.raises(NotFittedError):
        draw(JPlay(), *arguments)


def test_bands_display_marks_chosen_bands(iris):
    X, y = iris
    selector = SelectKBest(k=2).fit(X, y)
    display = BandsDisplay.from_estimator(selector, X, y, wavelengths=[10, 20, 30, 40])
    places = [line.get_xdata()[0] for line in display.lines_]
    assert places == [30, 40]
    spectra = [line for line in display.ax_.lines if line not in display.lines_]
    assert len(spectra) == 3
    np.testing.assert_allclose(spectra[0].get_ydata(), X[y == 0].mean(axis=0))


def test_bands_display_dashes_bands_of_resamples_only(iris):
    X, y = iris
    display = BandsDisplay(
        X=X, y=y, support=np.array([True, False, False, True]), stability=[0.5, 0.25, 0.0, 1.0]
    ).plot()
    assert [line.get_xdata()[0] for line in display.lines_] == [0, 1, 3]
    assert [line.get_linestyle() for line in display.lines_] == ["-", "--", "-"]
    assert display.lines_[2].get_alpha() > display.lines_[0].get_alpha()
