"""How sure a map is: probabilities, the second-best class, thresholds, masks, units and styles."""

import json
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import LinearSVC

rasterio = pytest.importorskip("rasterio", reason="image files need the extra raster")
xarray = pytest.importorskip("xarray", reason="image files need the extra raster")
pytest.importorskip("spectral", reason="ENVI headers need the extra raster")

from jplay import JPlay, JPlayCommittee, LiftedJPlay  # noqa: E402
from jplay.exceptions import ModelMismatchError  # noqa: E402
from jplay.palette import BACKGROUND  # noqa: E402
from jplay.persistence import load_model, save_model  # noqa: E402
from jplay.raster import assess_map, fit_scene, map_scene, open_scene, predict_scene  # noqa: E402
from raster_files import make_image, transform, write_cube, write_labels, write_tiff  # noqa: E402

NAMES = {1: "water", 2: "wood", 3: "field", 4: "town"}


@pytest.fixture(scope="module")
def image():
    """Noisy enough that some pixels are in doubt."""
    image = make_image()
    noise = np.random.default_rng(0).normal(0, 1200, image.counts.shape)
    image.counts = (image.counts + noise).clip(1).astype(np.uint16)
    return image


@pytest.fixture(scope="module")
def folder(image, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    write_cube(folder / "scene.tif", image)
    write_labels(folder / "labels.tif", image)
    return folder


def fitted(folder, estimator=None):
    return fit_scene(
        folder / "scene.tif",
        folder / "labels.tif",
        estimator,
        class_names=NAMES,
        max_per_class=20,
    )


@pytest.fixture(scope="module")
def model(folder):
    return fitted(folder)


def read(path):
    with rasterio.open(path) as dataset:
        return dataset.read()


ESTIMATORS = {
    "jplay": lambda: JPlay(5, 1),
    "lifted": lambda: LiftedJPlay(random_state=0),
    "committee": lambda: JPlayCommittee(n_estimators=5, random_state=0),
    "lda": LinearDiscriminantAnalysis,
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_probabilities_of_any_classifier(folder, image, tmp_path, name):
    model = fitted(folder, make_pipeline(Normalizer(norm="max"), ESTIMATORS[name]()))
    paths = {key: tmp_path / f"{key}.tif" for key in ("probabilities", "confidence", "second")}
    scene = folder / "scene.tif"
    path = map_scene(scene, model, tmp_path / "map.tif", **paths, block_bytes=40 * 4 * 300)
    X = image.counts.reshape(-1, 40)[:, model.metadata.band_indices].astype(np.float32)
    shares = read(paths["probabilities"])
    expected = model.estimator.predict_proba(X).T.reshape(shares.shape)
    distances = np.abs(shares - expected)
    if name == "committee":
        # Which of two equally near samples votes is a matter of rounding, which differs by block.
        assert np.quantile(distances, 0.99) < 2e-3
        assert np.median(distances) < 2e-5
    else:
        assert distances.max() < 2e-5
    codes, second = read(path)[0], read(paths["second"])[0]
    # The class is that of the map without probabilities, and its probability the confidence.
    np.testing.assert_array_equal(codes, read(map_scene(scene, model, tmp_path / "plain.tif"))[0])
    confidence = read(paths["confidence"])[0]
    taken = np.take_along_axis(shares, codes[np.newaxis].astype(int) - 1, axis=0)[0]
    np.testing.assert_array_equal(confidence, taken)
    assert (second != codes).all()
    np.testing.assert_array_equal(np.sort(shares, axis=0)[-2], shares_at(shares, second))
    with rasterio.open(paths["probabilities"]) as dataset:
        assert dataset.descriptions == tuple(NAMES.values())


def shares_at(shares, codes):
    return np.take_along_axis(shares, codes[np.newaxis].astype(int) - 1, axis=0)[0]


def test_threshold_leaves_doubtful_pixels_open(folder, image, model, tmp_path):
    sure = tmp_path / "sure.tif"
    plain = read(map_scene(folder / "scene.tif", model, tmp_path / "plain.tif", confidence=sure))[0]
    confidence = read(sure)[0]
    threshold = float(np.quantile(confidence, 0.2))
    path = map_scene(folder / "scene.tif", model, tmp_path / "map.tif", threshold=threshold)
    codes = read(path)[0]
    open_pixels = confidence < threshold
    assert 0.1 < open_pixels.mean() < 0.3
    np.testing.assert_array_equal(codes, np.where(open_pixels, 5, plain))
    with rasterio.open(path) as dataset:
        assert json.loads(dataset.tags()["class_names"])["5"] == "unclassified"
        assert dataset.colormap(1)[5] == (*BACKGROUND, 255)
    # What is left is more often right, and the assessment does not count the others.
    before = assess_map(tmp_path / "plain.tif", image.ground_truth, class_names=NAMES)
    after = assess_map(path, image.ground_truth, class_names=NAMES)
    assert after.report.overall_accuracy > before.report.overall_accuracy
    labelled = image.ground_truth > 0
    assert after.n_unclassified == (open_pixels & labelled).sum()
    assert after.n_compared + after.n_unclassified == before.n_compared


def test_model_without_probabilities_is_refused_before_anything_is_written(folder, tmp_path):
    model = fitted(folder, make_pipeline(Normalizer(norm="max"), LinearSVC()))
    for wish in ({"confidence": tmp_path / "c.tif"}, {"threshold": 0.5}):
        with pytest.raises(ValueError, match=r"needs a model with `predict_proba`, got LinearSVC"):
            map_scene(folder / "scene.tif", model, tmp_path / "map.tif", **wish)
    assert not list(tmp_path.iterdir())


def test_bad_thresholds_and_names_are_refused(folder, model, tmp_path):
    with pytest.raises(ValueError, match="`threshold` should be a probability"):
        map_scene(folder / "scene.tif", model, tmp_path / "map.tif", threshold=60)
    with pytest.raises(ValueError, match=r"should end in \.tif.*map\.tif"):
        map_scene(folder / "scene.tif", model, tmp_path / "map.png")
    with pytest.raises(ValueError, match="two results"):
        map_scene(
            folder / "scene.tif", model, tmp_path / "map.tif", confidence=tmp_path / "map.tiff"
        )
    assert not list(tmp_path.iterdir())


def test_gaps_stay_gaps_in_every_result(image, model, tmp_path):
    counts = image.counts.astype(np.float32)
    counts[:9] = np.nan
    counts[20, 3:7] = -9999.0
    scene = write_tiff(
        tmp_path / "scene.tif",
        counts.transpose(2, 0, 1),
        nodata=-9999.0,
        band_wavelengths=image.wavelengths,
    )
    paths = {key: tmp_path / f"{key}.tif" for key in ("probabilities", "confidence", "second")}
    codes = read(map_scene(scene, model, tmp_path / "map.tif", **paths, threshold=0.9))[0]
    gap = np.zeros(codes.shape, dtype=bool)
    gap[:9] = gap[20, 3:7] = True
    np.testing.assert_array_equal(codes == 0, gap)
    np.testing.assert_array_equal(read(paths["second"])[0] == 0, gap)
    for key in ("probabilities", "confidence"):
        values = read(paths[key])
        np.testing.assert_array_equal(np.isnan(values), np.broadcast_to(gap, values.shape))


def test_mask_of_the_file_and_mask_of_the_user(image, model, tmp_path):
    kept = np.ones(image.ground_truth.shape, dtype=bool)
    kept[5:15, 7:20] = False
    scene = write_cube(tmp_path / "scene.tif", image)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(scene, "r+") as dataset:
        dataset.write_mask(kept)
    codes = read(map_scene(scene, model, tmp_path / "map.tif", block_bytes=40 * 4 * 300))[0]
    np.testing.assert_array_equal(codes > 0, kept)
    wanted = np.zeros_like(kept)
    wanted[10:30] = True
    codes = read(map_scene(scene, model, tmp_path / "part.tif", mask=wanted.astype(int)))[0]
    np.testing.assert_array_equal(codes > 0, kept & wanted)
    whole = predict_scene(open_scene(scene), model)
    np.testing.assert_array_equal(whole > 0, kept)


def test_scene_without_georeference(image, model, tmp_path):
    scene = open_scene(
        xarray.DataArray(image.counts, dims=("y", "x", "band")), wavelengths=image.wavelengths
    )
    sure = tmp_path / "sure.tif"
    path = map_scene(scene, model, tmp_path / "map.tif", confidence=sure, cog=True)
    with pytest.warns(rasterio.errors.NotGeoreferencedWarning):
        written = [read(path), read(sure)]
    assert all((values > 0).all() for values in written)


def test_statistics_and_pixels_per_class(folder, image, model, tmp_path):
    sure = tmp_path / "sure.tif"
    path = map_scene(
        folder / "scene.tif", model, tmp_path / "map.tif", confidence=sure, block_bytes=40 * 4 * 300
    )
    values, codes = read(sure)[0], read(path)[0]
    with rasterio.open(sure) as dataset:
        tags = {key: float(value) for key, value in dataset.tags(1).items()}
    assert tags["STATISTICS_MEAN"] == pytest.approx(values.mean(dtype=float), rel=1e-6)
    assert tags["STATISTICS_STDDEV"] == pytest.approx(values.std(dtype=float), rel=1e-6)
    assert tags["STATISTICS_MINIMUM"] == values.min()
    assert tags["STATISTICS_VALID_PERCENT"] == 100.0
    rows = ElementTree.parse(f"{path}.aux.xml").findall(".//Row")
    table = {row[2].text: int(row[1].text) for row in rows}
    assert table == {name: (codes == code).sum() for code, name in NAMES.items()}


@pytest.mark.skipif(shutil.which("gdalinfo") is None, reason="gdalinfo is not installed")
def test_gdalinfo_sees_cog_palette_names_and_statistics(folder, model, tmp_path):
    sure = tmp_path / "sure.tif"
    path = map_scene(folder / "scene.tif", model, tmp_path / "map.tif", confidence=sure, cog=True)
    told = subprocess.run(["gdalinfo", str(path)], check=True, capture_output=True, text=True)
    for text in ("LAYOUT=COG", "2: wood", "Color Table", "<GDALRasterAttributeTable"):
        assert text in told.stdout
    told = subprocess.run(["gdalinfo", str(sure)], check=True, capture_output=True, text=True)
    assert "STATISTICS_MEAN" in told.stdout
    assert "LAYOUT=COG" in told.stdout


def test_styles_hold_colours_and_names(folder, model, tmp_path):
    map_scene(folder / "scene.tif", model, tmp_path / "map.tif", confidence=tmp_path / "sure.tif")
    entries = ElementTree.parse(tmp_path / "map.qml").findall(".//paletteEntry")
    assert {int(entry.get("value")): entry.get("label") for entry in entries} == NAMES
    colors = ["#{:02x}{:02x}{:02x}".format(*color) for color in model.metadata.class_colors]
    assert [entry.get("color") for entry in entries] == colors
    assert len(ElementTree.parse(tmp_path / "sure.qml").findall(".//item")) == 5


QGIS_CHECK = """
import json, sys
from qgis.core import QgsApplication, QgsRasterLayer
app = QgsApplication([], False)
app.initQgis()
layer = QgsRasterLayer(sys.argv[1] + "/map.tif")
loaded = layer.loadNamedStyle(sys.argv[1] + "/map.qml")[1]
classes = {int(entry.value): entry.label for entry in layer.renderer().classes()}
sure = QgsRasterLayer(sys.argv[1] + "/sure.tif")
loaded_sure = sure.loadNamedStyle(sys.argv[1] + "/sure.qml")[1]
print(json.dumps([loaded, classes, loaded_sure, sure.renderer().type()]))
"""


def has_qgis():
    if shutil.which("qgis_process") is None:
        return False
    answer = subprocess.run(["/usr/bin/python3", "-c", "import qgis.core"], capture_output=True)
    return answer.returncode == 0


@pytest.mark.skipif(not has_qgis(), reason="QGIS is not installed")
def test_qgis_takes_the_styles(folder, model, tmp_path):
    map_scene(folder / "scene.tif", model, tmp_path / "map.tif", confidence=tmp_path / "sure.tif")
    told = subprocess.run(
        ["/usr/bin/python3", "-c", QGIS_CHECK, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "QT_QPA_PLATFORM": "offscreen", "HOME": str(tmp_path)},
    )
    loaded, classes, loaded_sure, kind = json.loads(told.stdout.splitlines()[-1])
    assert loaded
    assert loaded_sure
    assert classes == {str(code): name for code, name in NAMES.items()}
    assert kind == "singlebandpseudocolor"


def test_values_in_another_unit_are_refused_or_scaled(folder, image, tmp_path):
    """Reflectance from 0 to 1 in place of counts up to 10,000, for a model that does not divide."""
    model = fitted(folder, LinearDiscriminantAnalysis())
    model = load_model(save_model(model, tmp_path / "model.skops"))
    array = xarray.DataArray(image.counts / np.float32(10_000), dims=("y", "x", "band"))
    reflectance = open_scene(array, wavelengths=image.wavelengths)
    counts = predict_scene(folder / "scene.tif", model)
    with pytest.raises(ModelMismatchError, match=r"another unit.*--scale 10000"):
        predict_scene(reflectance, model)
    scaled = predict_scene(reflectance, model, scale=10_000)
    assert (scaled.values == counts.values).mean() > 0.99
    assert (predict_scene(reflectance, model, scale=1).values != counts.values).any()
    with pytest.raises(ValueError, match="`scale`"):
        predict_scene(reflectance, model, scale=0)
    # A model that divides every spectrum by its norm does not mind.
    free = fitted(folder, make_pipeline(Normalizer(norm="max"), JPlay()))
    counts = predict_scene(folder / "scene.tif", free)
    assert (predict_scene(reflectance, free).values == counts.values).mean() > 0.99


def test_bands_in_another_order_and_unit_of_wavelength(folder, image, model, tmp_path):
    order = np.random.default_rng(0).permutation(40)
    array = xarray.DataArray(
        image.counts[:, :, order],
        dims=("y", "x", "band"),
        coords={"wavelength": ("band", image.wavelengths[order] / 1000, {"units": "µm"})},
    )
    expected = predict_scene(folder / "scene.tif", model)
    np.testing.assert_array_equal(predict_scene(array, model).values, expected.values)


def test_unknown_unit_of_wavelength_is_refused(image):
    array = xarray.DataArray(
        image.counts,
        dims=("y", "x", "band"),
        coords={"wavelength": ("band", 1e7 / image.wavelengths, {"units": "cm-1"})},
    )
    with pytest.raises(ValueError, match="got the unit 'cm-1'"):
        open_scene(array)
    angstroms = array.assign_coords(
        wavelength=("band", 10 * image.wavelengths, {"units": "Angstroms"})
    )
    np.testing.assert_allclose(open_scene(angstroms).wavelengths, image.wavelengths)


def test_options_on_the_command_line(folder, model, tmp_path):
    pytest.importorskip("typer", reason="the command line needs typer")
    from typer.testing import CliRunner

    from jplay.cli._app import app

    def run(*args):
        return CliRunner().invoke(app, [str(arg) for arg in args], prog_name="jplay")

    save_model(model, tmp_path / "model.skops")
    out = tmp_path / "map.tif"
    arguments = ("map", folder / "scene.tif", "--model", tmp_path / "model.skops", "-o", out)
    wishes = ("--confidence", tmp_path / "sure.tif", "--threshold", 0.7, "--cog")
    told = run(*arguments, *wishes, "--mask", folder / "labels.tif", "--json")
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["threshold"] == 0.7
    labelled = read(folder / "labels.tif")[0] > 0
    np.testing.assert_array_equal(read(out)[0] > 0, labelled)
    before = out.read_bytes()
    for more, text in (
        ((), "--force"),
        (("--force", "--confidence", tmp_path / "model.skops"), "read by this command"),
        (("-o", tmp_path / "picture.png"), ".tif"),
    ):
        refused = run(*arguments, *more)
        assert (refused.exit_code, text in refused.stderr) == (2, True), refused.stderr
    assert out.read_bytes() == before
    out.unlink()
    assert "map.qml" in run(*arguments).stderr  # a style that somebody may have changed
    assert run(*arguments, "--force").exit_code == 0


def lazy(image, chunks):
    dask = pytest.importorskip("dask.array", reason="a lazy array")
    height, width, _ = image.counts.shape
    place = transform()
    return xarray.DataArray(
        dask.from_array(image.counts, chunks=chunks),
        dims=("y", "x", "band"),
        coords={
            "wavelength": ("band", image.wavelengths),
            "y": place.f + place.e * (np.arange(height) + 0.5),
            "x": place.c + place.a * (np.arange(width) + 0.5),
            "time": np.datetime64("2020-06-01", "ns"),
        },
    )


def assert_same_up_to_rounding(found, whole, threshold=0.0):
    """Compare predictions of blocks of other sizes, and return which pixels are no near tie.

    The order of the sums in a product may depend on its number of rows. Probabilities are of single
    precision; 1e-5 is ten times the largest difference on several processors.
    """
    rounding = 1e-5
    found, whole = (part.compute().transpose("y", "x", "class_name") for part in (found, whole))
    for name in ("confidence", "probabilities"):
        np.testing.assert_allclose(found[name], whole[name], rtol=0, atol=rounding)
    leads = np.diff(np.sort(whole.probabilities.values, axis=-1)[..., -3:], axis=-1)
    clear = (leads > 2 * rounding).all(axis=-1)
    clear &= np.abs(whole.confidence.values - threshold) > rounding
    assert clear.mean() > 0.99
    for name in ("codes", "second"):
        np.testing.assert_array_equal(found[name].values[clear], whole[name].values[clear])
    return clear


def test_chunked_array_stays_lazy_and_keeps_its_place(folder, image, model):
    array = lazy(image, (17, 13, 7)).rio.write_crs(32632)
    found = predict_scene(array, model, probabilities=True, threshold=0.7)
    assert found.codes.chunks is not None
    assert found.probabilities.dims == ("y", "x", "class_name")
    assert found.class_name.values.tolist() == list(NAMES.values())
    whole = predict_scene(array.compute(), model, probabilities=True, threshold=0.7)
    assert_same_up_to_rounding(found, whole, threshold=0.7)
    for name in ("codes", "second", "confidence", "probabilities"):
        for place in ("y", "x", "time"):
            np.testing.assert_array_equal(found[name][place], array[place])
    for result in (found, whole):
        assert result.rio.crs == array.rio.crs
        assert result.codes.rio.nodata == 0
        assert np.isnan(result.confidence.rio.nodata)
        assert result.rio.transform().almost_equals(transform())
        assert "wavelength" not in result.coords


def test_other_chunked_arrays_of_xarray(image, model, tmp_path):
    cubed = pytest.importorskip("cubed", reason="another kind of chunked array")
    pytest.importorskip("cubed_xarray", reason="xarray does not know cubed's arrays without it")
    spec = cubed.Spec(work_dir=str(tmp_path / "work"), allowed_mem="500MB")
    array = xarray.DataArray(
        image.counts, dims=("y", "x", "band"), coords={"wavelength": ("band", image.wavelengths)}
    )
    chunked = array.chunk(
        {"y": 16, "x": 20, "band": 10},
        chunked_array_type="cubed",
        from_array_kwargs={"spec": spec},
    )
    found = predict_scene(chunked, model, probabilities=True)
    assert isinstance(found.codes.data, cubed.Array)
    whole = predict_scene(array, model, probabilities=True)
    clear = assert_same_up_to_rounding(found, whole)
    path = map_scene(chunked, model, tmp_path / "map.tif")
    with pytest.warns(rasterio.errors.NotGeoreferencedWarning):
        np.testing.assert_array_equal(read(path)[0][clear], whole.codes.values[clear])


def test_result_goes_through_netcdf_and_geotiff(folder, image, model, tmp_path):
    found = predict_scene(lazy(image, (24, 40, 40)).rio.write_crs(32632), model)
    assert found.attrs["flag_meanings"] == "water wood field town"
    found.to_netcdf(tmp_path / "map.nc", engine="h5netcdf")
    with xarray.open_dataset(
        tmp_path / "map.nc", engine="h5netcdf", mask_and_scale=False, decode_coords="all"
    ) as back:
        np.testing.assert_array_equal(back["codes"].values, found.values)
        assert back.rio.crs.to_epsg() == 32632
    found.rio.to_raster(tmp_path / "map.tif")
    assessed = assess_map(tmp_path / "map.tif", image.ground_truth, class_names=NAMES)
    assert assessed.class_names == list(NAMES.values())


def test_file_scene_gives_coordinates_and_reference_system(folder, model):
    found = predict_scene(folder / "scene.tif", model)
    assert found.rio.crs.to_epsg() == 32632
    assert found.rio.transform() == transform()
    assert float(found.x[0]) == 500_015.0


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_inside_the_wrapper_of_sklearn_raster(image):
    sklearn_raster = pytest.importorskip("sklearn_raster", reason="the wrapper is not installed")
    X = image.counts.reshape(-1, 40).astype(np.float64)
    labelled = image.ground_truth.ravel() > 0
    rows = np.flatnonzero(labelled)[::5]
    estimator = make_pipeline(Normalizer(norm="max"), JPlay(5, 1))
    wrapped = sklearn_raster.FeatureArrayEstimator(estimator)
    wrapped.fit(X[rows], image.ground_truth.ravel()[rows])
    array = lazy(image, (24, 40, 40)).transpose("band", "y", "x").astype(np.float64)
    found = wrapped.predict(array).compute()
    plain = make_pipeline(Normalizer(norm="max"), JPlay(5, 1))
    plain.fit(X[rows], image.ground_truth.ravel()[rows])
    np.testing.assert_array_equal(found.values.ravel(), plain.predict(X))


MEMORY_CHECK = """
import resource, sys
from jplay.raster import map_scene
folder, scene = sys.argv[1:]
map_scene(
    f"{folder}/{scene}.hdr", f"{folder}/model.skops", f"{folder}/{scene}-map.tif",
    probabilities=f"{folder}/{scene}-shares.tif", block_bytes=2**21,
)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_scene(image, tmp_path):
    """Thirty times the pixels, 110 megabytes in place of 4, in about the same memory."""
    pytest.importorskip("resource", reason="memory is measured on Unix systems")
    lines = image.counts.transpose(0, 2, 1)  # rows, bands, columns: interleaved by line
    wide = np.tile(lines, (1, 1, 7))
    model = fit_scene(xarray.DataArray(image.counts, dims=("y", "x", "band")), image.ground_truth)
    save_model(model, tmp_path / "model.skops")
    used = []
    for name, n_times in (("short", 3), ("tall", 100)):
        with (tmp_path / f"{name}.img").open("wb") as file:
            for _ in range(n_times):
                file.write(wide.tobytes())
        (tmp_path / f"{name}.hdr").write_text(
            f"ENVI\nsamples = {wide.shape[2]}\nlines = {n_times * len(wide)}\n"
            f"bands = {wide.shape[1]}\ndata type = 12\ninterleave = bil\nbyte order = 0\n"
            "header offset = 0\n"
        )
        told = subprocess.run(
            [sys.executable, "-c", MEMORY_CHECK, str(tmp_path), name],
            check=True,
            capture_output=True,
            text=True,
        )
        used.append(int(told.stdout))
    assert (tmp_path / "tall.img").stat().st_size > 100 * 2**20
    assert used[1] < 1.25 * used[0]
