import subprocess
import sys

import numpy as np
import pytest

from jplay.palette import BACKGROUND, PALETTE, class_colors

# Machado, Oliveira and Fernandes (2009), table of severity 1.0; for linear RGB.
MACHADO = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}
# Smallest CIEDE2000 difference among the first k colours under any of the three, as found.
FLOORS = {
    2: 60.9,
    3: 27.2,
    4: 27.2,
    5: 27.2,
    6: 23.1,
    7: 20.9,
    8: 18.9,
    9: 16.9,
    10: 16.9,
    11: 15.2,
    12: 15.2,
    13: 13.7,
    14: 13.7,
    15: 13.1,
    16: 12.1,
    20: 10.3,
    24: 9.3,
    28: 8.3,
    32: 7.6,
}


def seen(colors, vision):
    """CIELAB coordinates of colours as someone with this vision sees them."""
    color = pytest.importorskip("skimage.color", reason="colour differences need scikit-image")
    rgb = np.asarray(colors, dtype=float) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    light = np.clip(linear @ MACHADO[vision].T, 0, 1)
    return color.rgb2lab(
        np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    )


def differences(first, second, vision):
    from skimage.color import deltaE_ciede2000

    return deltaE_ciede2000(seen(first, vision)[:, None], seen(second, vision)[None])


@pytest.mark.parametrize("vision", MACHADO)
def test_first_colours_are_far_apart(vision):
    found = differences(PALETTE, PALETTE, vision) + 1e9 * np.eye(len(PALETTE))
    smallest = {k: found[:k, :k].min() for k in FLOORS}
    assert all(smallest[k] >= floor for k, floor in FLOORS.items()), smallest


@pytest.mark.parametrize("vision", MACHADO)
def test_every_colour_stands_out_from_the_backgrounds(vision):
    dark, white = differences(PALETTE, [BACKGROUND, (255, 255, 255)], vision).T
    assert dark.min() >= 17
    assert white.min() >= 12


def test_difference_is_the_published_one():
    """A pair of Sharma, Wu and Dalal (2005), whose tables test implementations of CIEDE2000."""
    color = pytest.importorskip("skimage.color", reason="colour differences need scikit-image")
    found = color.deltaE_ciede2000([50.0, 2.6772, -79.7751], [50.0, 0.0, -82.7485])
    assert found == pytest.approx(2.0425, abs=1e-4)


@pytest.mark.parametrize("n_classes", [1, 16, 32, 33, 100])
def test_class_colors_begin_with_the_palette_and_are_distinct(n_classes):
    colors = class_colors(n_classes)
    assert colors.dtype == np.uint8
    assert len(np.unique(colors, axis=0)) == n_classes
    np.testing.assert_array_equal(colors[:32], PALETTE[:n_classes])


def test_no_class_is_refused():
    with pytest.raises(ValueError, match="`n_classes` should be at least 1"):
        class_colors(0)


def test_report_map_and_figure_show_the_same_colours(tmp_path):
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    pytest.importorskip("jinja2", reason="the report needs Jinja2")
    pytest.importorskip("rasterio", reason="maps need rasterio")
    xarray = pytest.importorskip("xarray", reason="maps need xarray")
    from matplotlib import pyplot

    from jplay.plotting import plot_class_map
    from jplay.raster import fit_scene
    from jplay.report import Run, write_report

    pyplot.switch_backend("agg")
    names = ["wood", "water", "road"]
    run = Run(title="Three", facts={}, class_names=names, confusion=np.eye(3, dtype=int))
    page = write_report(run, tmp_path / "report.html").read_text()
    cube = np.random.default_rng(0).random((6, 6, 5)) + np.arange(36).reshape(6, 6, 1) // 12
    labels = np.arange(36).reshape(6, 6) // 12 + 1
    model = fit_scene(xarray.DataArray(cube, dims=("y", "x", "band")), labels)
    image = plot_class_map(labels, class_names=names).images[0].get_array()
    pyplot.close("all")
    for k, color in enumerate(PALETTE[:3]):
        assert f".class-{k + 1}{{--c:#{bytes(color).hex()}}}" in page
        assert tuple(model.metadata.class_colors[k]) == color
        np.testing.assert_allclose(image[2 * k, 0] * 255, color)


def test_importing_the_palette_loads_neither_matplotlib_nor_scikit_learn():
    code = "import sys, jplay.palette; sys.exit(bool({'matplotlib', 'sklearn'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
