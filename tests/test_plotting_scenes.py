import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="plotting needs matplotlib")

from matplotlib import pyplot

from jplay.palette import class_colors
from jplay.plotting import (
    false_color,
    plot_class_map,
    plot_maps,
    plot_spectra,
    plot_split,
)


@pytest.fixture(autouse=True)
def _figures_without_screen():
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def ramp_cube(n_bands=10):
    """Band b holds b + a horizontal ramp from 0 to 1."""
    return np.linspace(0, 1, 101)[None, :, None] + np.zeros((3, 1, 1)) + np.arange(n_bands)


def legend_texts(legend):
    return [text.get_text() for text in legend.get_texts()]


def test_false_color_stretches_each_band_between_the_percentiles():
    image = false_color(ramp_cube(), bands=[9, 5, 0], percentiles=(10, 90))
    np.testing.assert_allclose(image[..., 0], image[..., 2], atol=1e-12)
    np.testing.assert_allclose(image[0, :11, 0], 0, atol=1e-12)
    np.testing.assert_allclose(image[0, 90:, 0], 1)
    assert image[0, 50, 0] == pytest.approx(0.5)


def test_false_color_takes_the_bands_nearest_to_the_wavelengths():
    cube = np.random.default_rng(0).random((5, 6, 40))
    wavelengths = np.linspace(400, 2500, 40)
    bands = [np.abs(wavelengths - w).argmin() for w in (860, 650, 550)]
    np.testing.assert_array_equal(
        false_color(cube, wavelengths=wavelengths), false_color(cube, bands=bands)
    )


def test_false_color_of_a_constant_band_is_finite():
    assert np.isfinite(false_color(np.ones((2, 2, 3)))).all()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"bands": [0, 1]}, "`bands`"),
        ({"bands": [0, 1, 10]}, "`bands`"),
        ({"wavelengths": [1, 2]}, "`wavelengths`"),
    ],
)
def test_false_color_names_the_wrong_parameter(kwargs, message):
    with pytest.raises(ValueError, match=message):
        false_color(ramp_cube(), **kwargs)


def test_class_map_gives_each_class_its_colour_and_name():
    labels = np.array([[0, 1], [3, 2]])
    ax = plot_class_map(labels, class_names=["a", "b", "c", "absent"], background="white")
    image = np.asarray(ax.images[0].get_array())
    colors = class_colors(4) / 255
    np.testing.assert_allclose(image[0, 0], 1.0)
    np.testing.assert_allclose(image[0, 1], colors[0])
    np.testing.assert_allclose(image[1, 0], colors[2])
    np.testing.assert_allclose(image[1, 1], colors[1])
    assert legend_texts(ax.get_legend()) == ["a", "b", "c", "absent"]
    faces = [handle.get_facecolor()[:3] for handle in ax.get_legend().get_patches()]
    np.testing.assert_allclose(faces, colors)


def test_class_map_without_names_lists_the_labels_that_occur():
    ax = plot_class_map(np.array([[0, 7], [7, 3]]))
    assert legend_texts(ax.get_legend()) == ["3", "7"]


def test_class_map_can_do_without_legend():
    assert plot_class_map([[1, 2]], legend=False).get_legend() is None


def test_class_map_refuses_labels_without_name():
    with pytest.raises(ValueError, match="`class_names` should name every class"):
        plot_class_map([[1, 3]], class_names=["a", "b"])


@pytest.mark.parametrize("labels", [[1, 2], [[0.5, 1.0]]])
def test_class_map_refuses_what_is_no_map(labels):
    with pytest.raises(ValueError, match="class map"):
        plot_class_map(labels)


def test_class_map_refuses_too_few_colours():
    with pytest.raises(ValueError, match="`colors`"):
        plot_class_map([[1, 2]], colors=[[0, 0, 0]])


def test_maps_share_colours_and_one_legend():
    truth, predicted = np.array([[0, 1, 3]]), np.array([[3, 1, 1]])
    image = np.full((1, 3, 3), 0.25)
    axes = plot_maps({"image": image, "truth": truth, "predicted": predicted})
    assert [ax.get_title() for ax in axes] == ["image", "truth", "predicted"]
    shown = [np.asarray(ax.images[0].get_array()) for ax in axes]
    np.testing.assert_array_equal(shown[0], image)
    np.testing.assert_array_equal(shown[1][0, 2], shown[2][0, 0])
    np.testing.assert_array_equal(shown[1][0, 0], 0)
    assert legend_texts(axes[0].figure.legends[0]) == ["1", "3"]


def test_maps_need_one_axes_each():
    _, axes = pyplot.subplots(1, 3)
    with pytest.raises(ValueError, match="`axes` should hold 1 axes"):
        plot_maps({"truth": np.array([[1]])}, axes=axes)
    with pytest.raises(ValueError, match="`maps`"):
        plot_maps({})


def test_split_shows_both_sides_and_what_is_on_neither():
    truth = np.array([[1, 0, 2], [2, 2, 1]])
    shown = plot_split(truth, [0, 1], [3, 4])
    image = np.asarray(shown.images[0].get_array())
    assert legend_texts(shown.get_legend()) == ["training", "test", "neither"]
    np.testing.assert_array_equal(image[0, 0], image[0, 2])
    np.testing.assert_array_equal(image[1, 1], image[1, 2])
    assert len(np.unique(image.reshape(-1, 3), axis=0)) == 4, "unknown pixels have another colour"
    complete = plot_split(truth, [0, 1, 2], [3, 4])
    assert legend_texts(complete.get_legend()) == ["training", "test"]


def test_spectra_are_means_with_a_band_of_one_deviation():
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 5)), np.repeat([2, 5], 15)
    wavelengths = np.array([400, 500, 600, 700, 800])
    ax = plot_spectra(X, y, wavelengths=wavelengths, class_names=["oak", "ash"])
    assert [line.get_label() for line in ax.lines] == ["oak", "ash"]
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), wavelengths)
    np.testing.assert_allclose(ax.lines[1].get_ydata(), X[15:].mean(axis=0))
    edge = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert edge.max() == pytest.approx((X[:15].mean(axis=0) + X[:15].std(axis=0)).max())
    assert ax.get_xlabel() == "Wavelength (nm)"


def test_spectra_without_spread_or_wavelengths_number_the_bands():
    ax = plot_spectra(np.eye(4), [0, 0, 1, 1], spread=False)
    assert not ax.collections
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), np.arange(4))
    assert ax.get_xlabel() == "Band"


def test_spectra_refuse_labels_of_another_length():
    with pytest.raises(ValueError, match="`y`"):
        plot_spectra(np.eye(4), [0, 1])
