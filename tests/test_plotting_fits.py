import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="plotting needs matplotlib")

from matplotlib import pyplot
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA

from jplay import FastSolver, JPlay
from jplay.exceptions import MissingDependencyError
from jplay.plotting import plot_convergence, plot_images, plot_subspaces, within_rim


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
    return JPlay(n_components=2, n_layers=[3, 2], solver=FastSolver(max_iter=6, tol=0)).fit(*iris)


def line(ax, label):
    return next(drawn for drawn in ax.lines if drawn.get_label() == label)


def test_convergence_shows_the_history(model):
    objective, residuals = plot_convergence(model)
    np.testing.assert_allclose(line(objective, "objective").get_ydata(), model.objective_history_)
    terms = model.result_.objective_terms
    np.testing.assert_allclose(
        line(objective, "prediction").get_ydata(), [term.prediction for term in terms]
    )
    assert len(residuals.lines) == len(model.layer_sizes_)
    assert len(line(residuals, "layer 2").get_ydata()) == model.n_iter_
    assert residuals.get_yscale() == "log"


def test_convergence_takes_a_result_and_given_axes(model):
    figure, axes = pyplot.subplots(1, 2)
    returned = plot_convergence(model.result_, axes=axes)
    assert list(returned) == list(axes)
    assert len(figure.axes) == 2


def test_convergence_without_residuals_leaves_their_axes_empty(model):
    objective, residuals = plot_convergence(replace(model.result_, residuals=[]))
    assert objective.lines
    assert not residuals.lines


def test_convergence_refuses_an_unfitted_model():
    with pytest.raises(ValueError, match="Call fit first"):
        plot_convergence(JPlay())


def test_subspaces_show_the_principal_axes_of_each_layer(iris, model):
    X, y = iris
    layers = model.transform_layers(X)
    axes = plot_subspaces(layers, y, class_names=["setosa", "versicolor", "virginica"])
    assert len(axes) == 2
    expected = np.abs(within_rim(PCA(2).fit_transform(layers[0])))
    for k, points in enumerate(axes[0].collections):
        np.testing.assert_allclose(np.abs(points.get_offsets()), expected[y == k], atol=1e-6)
    assert axes[0].get_title() == "Layer 1: 3 dimensions"
    texts = [text.get_text() for text in axes[-1].get_legend().get_texts()]
    assert texts == ["setosa", "versicolor", "virginica"]


def test_subspaces_of_one_dimension_lie_on_a_line(iris):
    X, y = iris
    (ax,) = plot_subspaces([X[:, :1]], y)
    offsets = np.concatenate([points.get_offsets() for points in ax.collections])
    np.testing.assert_array_equal(offsets[:, 1], 0)
    assert abs(np.corrcoef(offsets[:, 0], X[:, 0])[0, 1]) > 0.95


def test_layers_are_turned_to_agree_with_the_one_before(iris):
    X, y = iris
    mirrored = X @ np.diag([-1.0, 1, 1, -1])
    first, second = plot_subspaces([X, mirrored], y)
    for before, after in zip(first.collections, second.collections, strict=True):
        np.testing.assert_allclose(before.get_offsets(), after.get_offsets(), atol=1e-6)


def test_few_far_samples_do_not_press_the_others_into_a_corner():
    points = np.random.default_rng(0).normal(size=(300, 2))
    points[:9] += [4000, -9000]
    plain = points / np.abs(points).max()
    assert np.ptp(plain[9:]) < 0.01
    shown = within_rim(points)
    assert np.abs(shown).max() == pytest.approx(1)
    assert np.ptp(shown[9:], axis=0).min() > 0.5
    np.testing.assert_allclose(within_rim(-3 * points), -shown, atol=1e-12)


def test_subspaces_refuse_labels_of_another_length(iris):
    X, y = iris
    with pytest.raises(ValueError, match=r"`layers\[0\]`"):
        plot_subspaces([X], y[:-1])


def test_images_show_the_rows_in_order():
    rows = np.arange(18.0).reshape(3, 6)
    axes = plot_images(rows, (2, 3), titles=["a", "b", "c"], n_columns=2)
    for row, ax in zip(rows, axes, strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), row.reshape(2, 3))
    assert [ax.get_title() for ax in axes] == ["a", "b", "c"]
    assert len(axes[0].figure.axes) == 3


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [({"image_shape": (2, 2)}, "`rows`"), ({"image_shape": (2, 3), "titles": ["a"]}, "`titles`")],
)
def test_images_name_the_wrong_parameter(kwargs, message):
    with pytest.raises(ValueError, match=message):
        plot_images(np.zeros((2, 6)), **kwargs)


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingDependencyError, match=r"\[plot\]'"):
        plot_images(np.zeros((1, 4)), (2, 2))


def test_importing_the_package_does_not_import_matplotlib():
    code = "import sys, jplay.plotting; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
