"""From a scene and labels to a model and a map, and what may go wrong on the way."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

rasterio = pytest.importorskip("rasterio", reason="image files need the extra raster")
xarray = pytest.importorskip("xarray", reason="image files need the extra raster")
pytest.importorskip("spectral", reason="ENVI headers need the extra raster")

from jplay import JPlay  # noqa: E402
from jplay.exceptions import CorruptFileError, MapWriteError, ModelMismatchError  # noqa: E402
from jplay.persistence import load_model, save_model  # noqa: E402
from jplay.raster import (  # noqa: E402
    Block,
    assess_map,
    fit_scene,
    map_scene,
    open_scene,
    predict_scene,
)
from raster_files import (  # noqa: E402
    EPSG,
    make_image,
    transform,
    write_cube,
    write_envi,
    write_labels,
    write_polygons,
    write_tiff,
)

NAMES = {1: "water", 2: "wood", 3: "field", 4: "town"}


@pytest.fixture(scope="module")
def image():
    return make_image()


@pytest.fixture(scope="module")
def folder(image, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    write_envi(folder, image)
    write_cube(folder / "scene.tif", image)
    write_labels(folder / "labels.tif", image)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return fit_scene(
        folder / "scene.hdr", folder / "labels.tif", class_names=NAMES, max_per_class=40
    )


def _pixels(image, bands):
    return image.counts.reshape(-1, image.counts.shape[2])[:, bands].astype(float)


def _read(path):
    with rasterio.open(path) as dataset:
        return dataset.read()


def _files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_three_lines_from_scene_to_map(folder, image, tmp_path):
    scene = open_scene(folder / "scene.hdr")
    model = fit_scene(scene, folder / "labels.tif")
    path = map_scene(scene, model, tmp_path / "map.tif")
    labelled = image.ground_truth > 0
    assert (_read(path)[0] == image.ground_truth)[labelled].mean() > 0.95


def test_map_equals_the_prediction_of_the_pipeline(folder, image, model, tmp_path):
    """Block by block in float32 or at once in float64: the same classes."""
    X = _pixels(image, model.metadata.band_indices)
    expected = model.predict(X).reshape(image.ground_truth.shape)
    for name, block_bytes in (("one.tif", 10**9), ("many.tif", 40 * 4 * 77)):
        path = map_scene(
            folder / "scene.tif",
            model,
            tmp_path / name,
            block_bytes=block_bytes,
            scores=tmp_path / f"scores-{name}",
            features=tmp_path / f"features-{name}",
        )
        assert (_read(path)[0] == expected).mean() > 0.999
        scores = _read(tmp_path / f"scores-{name}")
        reference = model.decision_function(X).T.reshape(scores.shape)
        assert np.abs(scores - reference).max() < 1e-4 * np.abs(reference).max()
        features = _read(tmp_path / f"features-{name}")
        reference = model.transform(X).T.reshape(features.shape)
        assert np.abs(features - reference).max() < 1e-5 * np.abs(reference).max()


def test_georeferencing_colours_and_names_of_the_map(folder, model, tmp_path):
    path = map_scene(folder / "scene.tif", model, tmp_path / "map.tif")
    with rasterio.open(folder / "scene.tif") as source, rasterio.open(path) as result:
        assert result.crs == source.crs
        assert result.transform == source.transform
        assert result.bounds == source.bounds
        assert (result.height, result.width, result.count) == (source.height, source.width, 1)
        assert (result.dtypes, result.nodata) == (("uint8",), 0)
        palette = result.colormap(1)
        for code, color in zip(model.classes, model.metadata.class_colors, strict=True):
            assert palette[code] == (*color, 255)
        assert palette[0] == (0, 0, 0, 0)
        assert json.loads(result.tags()["class_names"])["2"] == "wood"
        assert result.block_shapes == [(256, 256)]


@pytest.mark.skipif(shutil.which("gdalinfo") is None, reason="gdalinfo is not installed")
def test_gdalinfo_sees_the_same_place_with_names_and_colours(folder, model, tmp_path):
    path = map_scene(
        folder / "scene.hdr", model, tmp_path / "map.tif", scores=tmp_path / "scores.tif"
    )

    def facts(path):
        answer = subprocess.run(
            ["gdalinfo", "-json", str(path)], check=True, capture_output=True, text=True
        )
        return json.loads(answer.stdout)

    source, result = facts(folder / "scene.img"), facts(path)
    assert result["geoTransform"] == source["geoTransform"]
    assert result["cornerCoordinates"] == source["cornerCoordinates"]
    assert result["stac"]["proj:epsg"] == EPSG
    (band,) = result["bands"]
    assert band["colorInterpretation"] == "Palette"
    assert band["colorTable"]["entries"][1] == [*model.metadata.class_colors[0], 255]
    text = subprocess.run(["gdalinfo", str(path)], check=True, capture_output=True, text=True)
    assert "2: wood" in text.stdout
    scores = facts(tmp_path / "scores.tif")
    assert scores["metadata"]["IMAGE_STRUCTURE"]["LAYOUT"] == "COG"
    assert [band["description"] for band in scores["bands"]] == list(NAMES.values())
    assert scores["geoTransform"] == source["geoTransform"]


def test_rotated_geotransform_is_kept(image, model, tmp_path):
    from affine import Affine

    rotated = Affine(25.0, 5.0, 500_000.0, 4.0, -26.0, 5_400_000.0)
    scene = write_cube(tmp_path / "scene.tif", image, transform=rotated)
    with rasterio.open(map_scene(scene, model, tmp_path / "map.tif")) as result:
        assert result.transform == rotated


def test_scene_without_georeferencing_gives_a_map_without(image, model, tmp_path):
    array = xarray.DataArray(image.counts, dims=("y", "x", "band"))
    scene = open_scene(array, wavelengths=image.wavelengths)
    path = map_scene(scene, model, tmp_path / "map.tif")
    with pytest.warns(rasterio.errors.NotGeoreferencedWarning), rasterio.open(path) as result:
        assert result.crs is None


def test_data_array_in_data_array_out(image):
    array = xarray.DataArray(
        image.counts,
        dims=("y", "x", "wavelength"),
        coords={"wavelength": image.wavelengths, "y": np.arange(48.0), "x": np.arange(40.0)},
    )
    model = fit_scene(array, image.ground_truth, class_names=NAMES)
    result = predict_scene(array, model)
    assert result.dims == ("y", "x")
    assert json.loads(result.attrs["class_names"])["3"] == "field"
    np.testing.assert_array_equal(result.y, array.y)
    labelled = image.ground_truth > 0
    assert (result.values == image.ground_truth)[labelled].mean() > 0.95


def test_lazy_dask_scene_is_mapped_in_blocks(image, model, tmp_path):
    dask = pytest.importorskip("dask.array", reason="a lazy array")
    array = xarray.DataArray(
        dask.from_array(image.counts, chunks=(8, -1, -1)),
        dims=("y", "x", "wavelength"),
        coords={"wavelength": image.wavelengths},
    )
    path = map_scene(array, model, tmp_path / "map.tif", block_bytes=40 * 40 * 4 * 8)
    whole = map_scene(array, model, tmp_path / "whole.tif")
    with pytest.warns(rasterio.errors.NotGeoreferencedWarning):
        np.testing.assert_array_equal(_read(path), _read(whole))


def test_preprocessing_and_metadata_travel_with_the_model(folder, image, model, tmp_path):
    path = save_model(model, tmp_path / "model.skops")
    loaded = load_model(path)
    assert loaded.metadata.wavelengths == model.metadata.wavelengths
    assert loaded.metadata.n_scene_bands == 40
    assert loaded.metadata.class_names == list(NAMES.values())
    first = map_scene(folder / "scene.hdr", model, tmp_path / "a.tif")
    second = map_scene(folder / "scene.hdr", path, tmp_path / "b.tif")
    np.testing.assert_array_equal(_read(first), _read(second))
    # Twice as bright is the same spectrum after division by its maximum.
    brighter = xarray.DataArray(2.0 * image.counts, dims=("y", "x", "band"))
    result = predict_scene(open_scene(brighter, wavelengths=image.wavelengths), loaded)
    assert (result.values == _read(first)[0]).mean() > 0.999


def test_bad_bands_are_not_used(image, model):
    assert model.n_features == int((~image.absorption_bands).sum())
    np.testing.assert_allclose(
        model.metadata.wavelengths, image.wavelengths[~image.absorption_bands], rtol=1e-6
    )


def test_polygons_and_raster_give_the_same_kind_of_model(folder, image, tmp_path):
    polygons = write_polygons(tmp_path / "polygons.gpkg", image)
    model = fit_scene(folder / "scene.tif", polygons, field="class", max_per_class=40)
    assert model.metadata.class_names == list(image.target_names)
    path = map_scene(folder / "scene.tif", model, tmp_path / "map.tif")
    assessment = assess_map(path, polygons, field="class")
    assert assessment.report.overall_accuracy > 0.95
    assert assessment.class_names == list(image.target_names)


def test_other_estimators_make_maps_too(folder, image, tmp_path):
    estimator = make_pipeline(Normalizer(norm="max"), KNeighborsClassifier(1))
    model = fit_scene(folder / "scene.tif", folder / "labels.tif", estimator, max_per_class=30)
    path = map_scene(folder / "scene.tif", model, tmp_path / "map.tif")
    X = _pixels(image, model.metadata.band_indices)
    expected = model.predict(X.astype(np.float32)).reshape(image.ground_truth.shape)
    np.testing.assert_array_equal(_read(path)[0], expected)
    map_scene(folder / "scene.tif", model, path, scores=tmp_path / "scores.tif")
    shares = _read(tmp_path / "scores.tif")
    np.testing.assert_array_equal(shares.argmax(axis=0) + 1, expected)
    np.testing.assert_allclose(shares.sum(axis=0), 1.0, rtol=1e-6)
    (tmp_path / "scores.tif").unlink()
    with pytest.raises(ValueError, match="needs a model with `transform`"):
        map_scene(folder / "scene.tif", model, tmp_path / "m.tif", features=tmp_path / "f.tif")
    assert _files(tmp_path) == ["map.qml", "map.tif", "map.tif.aux.xml"]


def test_two_classes_and_names_as_labels(image, tmp_path):
    X = _pixels(image, slice(None))
    y = np.array(["", "one", "two"])[np.clip(image.ground_truth.ravel(), 0, 2)]
    known = np.flatnonzero(image.ground_truth.ravel() > 0)[::7]
    fitted = make_pipeline(Normalizer(norm="max"), JPlay(5, 1)).fit(X[known], y[known])
    path = write_cube(tmp_path / "scene.tif", image)
    scene = open_scene(path, bad_bands=[])
    out = map_scene(scene, fitted, tmp_path / "map.tif", scores=tmp_path / "scores.tif")
    codes, scores = _read(out)[0], _read(tmp_path / "scores.tif")
    assert set(np.unique(codes)) == {1, 2}
    assert len(scores) == 1
    np.testing.assert_array_equal(codes == 2, scores[0] > 0)


def test_multi_label_model_is_refused(image, tmp_path):
    X = _pixels(image, slice(None))[::20]
    codes = image.ground_truth.ravel()[::20]
    fitted = JPlay(5, 1).fit(X, np.column_stack([codes > 1, codes > 2]).astype(int))
    with pytest.raises(ValueError, match="multi-label"):
        map_scene(
            xarray.DataArray(image.counts, dims=("y", "x", "band")), fitted, tmp_path / "map.tif"
        )


def test_block_without_any_data(image, model, tmp_path):
    counts = image.counts.astype(np.float32)
    counts[:20] = -1.0
    counts[30, 4:9] = np.nan
    scene = write_tiff(
        tmp_path / "scene.tif",
        counts.transpose(2, 0, 1),
        nodata=-1.0,
        band_wavelengths=image.wavelengths,
    )
    path = map_scene(
        scene,
        model,
        tmp_path / "map.tif",
        block_bytes=40 * 40 * 4 * 7,
        scores=tmp_path / "scores.tif",
        features=tmp_path / "features.tif",
    )
    codes, scores = _read(path)[0], _read(tmp_path / "scores.tif")
    empty = np.zeros(codes.shape, dtype=bool)
    empty[:20] = empty[30, 4:9] = True
    np.testing.assert_array_equal(codes == 0, empty)
    np.testing.assert_array_equal(np.isnan(scores), np.broadcast_to(empty, scores.shape))
    assert np.isnan(_read(tmp_path / "features.tif")[:, empty]).all()


def test_scene_that_is_empty_everywhere_gives_an_empty_map(image, model, tmp_path):
    counts = np.zeros_like(image.counts)
    scene = write_tiff(
        tmp_path / "scene.tif", counts.transpose(2, 0, 1), band_wavelengths=image.wavelengths
    )
    assert not _read(map_scene(scene, model, tmp_path / "map.tif")).any()


def test_model_for_another_number_of_bands_is_refused(image, tmp_path):
    codes = image.ground_truth
    first = xarray.DataArray(image.counts, dims=("y", "x", "band"))
    fitted = fit_scene(first, codes, max_per_class=20)
    with pytest.raises(ModelMismatchError, match=r"expects 40 bands.*has 39"):
        map_scene(first[:, :, :39], fitted, tmp_path / "map.tif")
    assert _files(tmp_path) == []


def test_other_wavelengths_are_refused_by_name_or_resampled(image, model, tmp_path):
    """The same spectra on another grid of wavelengths give nearly the same map."""
    shifted = np.linspace(395.0, 2505.0, 90)
    spectra = image.counts.reshape(-1, 40).astype(float)
    finer = np.stack([np.interp(shifted, image.wavelengths, pixel) for pixel in spectra])
    array = xarray.DataArray(finer.reshape(48, 40, 90), dims=("y", "x", "band"))
    scene = open_scene(array, wavelengths=shifted)
    with pytest.raises(ModelMismatchError, match=r"other wavelengths: nearest to .* nm is .* nm"):
        map_scene(scene, model, tmp_path / "map.tif")
    resampled = predict_scene(scene, model, resample=True)
    original = predict_scene(
        open_scene(xarray.DataArray(image.counts, dims=("y", "x", "band")),
                   wavelengths=image.wavelengths),
        model,
    )  # fmt: skip
    assert (resampled.values == original.values).mean() > 0.97


def test_resampling_does_not_extrapolate(image, model):
    array = xarray.DataArray(image.counts[:, :, :20], dims=("y", "x", "band"))
    scene = open_scene(array, wavelengths=image.wavelengths[:20])
    with pytest.raises(ModelMismatchError, match="outside of it"):
        predict_scene(scene, model, resample=True)
    with pytest.raises(ModelMismatchError, match="the scene has none"):
        predict_scene(open_scene(array), model, resample=True)


def test_band_that_turned_bad_is_named(image, model):
    array = xarray.DataArray(image.counts, dims=("y", "x", "band"))
    scene = open_scene(array, wavelengths=image.wavelengths, bad_bands=[3])
    with pytest.raises(ModelMismatchError, match=r"Band 3 .* bad-band list"):
        predict_scene(scene, model)
    assert predict_scene(scene, model, resample=True).shape == (48, 40)


def test_bands_in_another_order_are_found_by_wavelength(image, model):
    array = xarray.DataArray(image.counts, dims=("y", "x", "band"))
    forward = predict_scene(open_scene(array, wavelengths=image.wavelengths), model)
    backward = predict_scene(
        open_scene(array[:, :, ::-1], wavelengths=image.wavelengths[::-1]), model
    )
    np.testing.assert_array_equal(forward, backward)


def test_truncated_scene_leaves_no_map(image, model, tmp_path):
    scene = write_cube(tmp_path / "scene.tif", image)
    scene.write_bytes(scene.read_bytes()[:100_000])
    with pytest.raises(CorruptFileError, match=r"scene\.tif"):
        map_scene(scene, model, tmp_path / "map.tif", block_bytes=40 * 40 * 4)
    assert _files(tmp_path) == ["scene.tif"]


def test_full_disk_leaves_no_map(image, model, tmp_path):
    """A limit on file sizes stands for a disk that fills up while the map is written."""
    resource = pytest.importorskip("resource", reason="limits need a Unix system")
    import signal

    noise = np.random.default_rng(0).integers(1, 10_000, (600, 700, 40), dtype=np.uint16)
    scene = open_scene(
        xarray.DataArray(noise, dims=("y", "x", "band")), wavelengths=image.wavelengths
    )
    (tmp_path / "map.tif").write_text("an older map")
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, hard))
        with pytest.raises(MapWriteError, match=r"map\.tif.*disk full"):
            map_scene(scene, model, tmp_path / "map.tif", block_bytes=700 * 40 * 4 * 50)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert (tmp_path / "map.tif").read_text() == "an older map"
    assert _files(tmp_path) == ["map.tif"]


def test_lost_write_is_found_out(folder, model, tmp_path, monkeypatch):
    """A block that the system accepted but that never reached the file."""
    from jplay.raster import _write

    honest = _write.RasterSink.write

    def lossy(self, block, values):
        honest(self, block, values)
        if block.top > 10:
            first_row = Block(0, 1, 0, 40).rasterio_window()
            self._dataset.write(np.zeros((1, 1, 40), dtype=values.dtype), window=first_row)

    monkeypatch.setattr(_write.RasterSink, "write", lossy)
    with pytest.raises(MapWriteError, match="did not reach the file"):
        map_scene(folder / "scene.tif", model, tmp_path / "map.tif", block_bytes=40 * 40 * 4 * 6)
    assert _files(tmp_path) == []


def test_interruption_leaves_no_map(folder, model, tmp_path):
    def interrupt(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        map_scene(
            folder / "scene.tif",
            model,
            tmp_path / "map.tif",
            scores=tmp_path / "scores.tif",
            block_bytes=40 * 40 * 4 * 6,
            progress=interrupt,
        )
    assert _files(tmp_path) == []


def test_scene_is_never_written_over(image, model, tmp_path):
    header = write_envi(tmp_path, image)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for name in ("scene.hdr", "scene.img"):
        with pytest.raises(ValueError, match="belongs to the scene"):
            map_scene(header, model, tmp_path / name)
    with pytest.raises(ValueError, match="two results"):
        map_scene(header, model, tmp_path / "map.tif", scores=tmp_path / "map.tif")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_progress_ends_at_the_number_of_pixels(folder, model, tmp_path):
    steps = []
    map_scene(
        folder / "scene.tif",
        model,
        tmp_path / "map.tif",
        block_bytes=40 * 40 * 4 * 6,
        progress=lambda done, total: steps.append((done, total)),
    )
    assert len(steps) == 8
    assert steps[-1] == (48 * 40, 48 * 40)


def test_training_needs_labels_with_data(folder, image):
    with pytest.raises(ValueError, match="labels no pixel"):
        fit_scene(folder / "scene.tif", np.zeros((48, 40), dtype=int))
    with pytest.raises(ValueError, match="at least two classes"):
        fit_scene(folder / "scene.tif", (image.ground_truth == 1).astype(int))


def test_most_pixels_per_class_and_cross_validation(folder, image):
    model = fit_scene(folder / "scene.tif", folder / "labels.tif", max_per_class=15, cv=3)
    assert set(model.metadata.training["samples_per_class"].values()) == {15}
    assert 0.5 < model.metadata.accuracy["overall_accuracy"] <= 1.0
    again = fit_scene(folder / "scene.hdr", folder / "labels.tif", max_per_class=15)
    np.testing.assert_array_equal(again.final_step.components_, model.final_step.components_)


def test_assessment_equals_the_confusion_by_hand(image, tmp_path):
    truth = image.ground_truth.astype(np.uint8)
    wrong = truth.copy()
    wrong[truth == 2] = 3
    wrong[:5] = 0
    map_path = write_tiff(tmp_path / "map.tif", wrong[np.newaxis])
    reference = write_labels(tmp_path / "truth.tif", image)
    result = assess_map(map_path, reference)
    compared = (truth > 0) & (wrong > 0)
    assert result.n_compared == compared.sum()
    assert result.n_unclassified == ((truth > 0) & (wrong == 0)).sum()
    expected = (truth == wrong)[compared].mean()
    assert result.report.overall_accuracy == pytest.approx(expected)
    assert result.report.confusion[1, 2] == ((truth == 2) & (wrong == 3)).sum()

    training = np.zeros_like(truth)
    training[::2] = truth[::2]
    excluding = assess_map(map_path, reference, exclude=training)
    assert excluding.n_excluded == (training > 0).sum()
    assert excluding.n_compared == (compared & (training == 0)).sum()
    with pytest.raises(ValueError, match="one band"):
        assess_map(write_cube(tmp_path / "cube.tif", image), reference)
    with pytest.raises(ValueError, match="no labelled pixel"):
        assess_map(map_path, np.zeros_like(truth))


def test_colours_of_the_labels_stay_on_the_map(folder, image, tmp_path):
    labels = tmp_path / "labels.tif"
    with rasterio.open(
        labels,
        "w",
        driver="GTiff",
        count=1,
        height=48,
        width=40,
        dtype="uint8",
        crs=f"EPSG:{EPSG}",
        transform=transform(),
    ) as dataset:
        dataset.write(image.ground_truth.astype(np.uint8), 1)
        dataset.write_colormap(1, {1: (10, 20, 30, 255), 3: (200, 100, 0, 255)})
    model = fit_scene(folder / "scene.tif", labels, max_per_class=20)
    with rasterio.open(map_scene(folder / "scene.tif", model, tmp_path / "map.tif")) as result:
        assert result.colormap(1)[1] == (10, 20, 30, 255)
        assert result.colormap(1)[3] == (200, 100, 0, 255)


def test_many_classes_need_more_than_a_byte(tmp_path):
    from jplay.raster._write import ClassTable

    table = ClassTable([1, 300], ["a", "b"], [(1, 2, 3), (4, 5, 6)])
    assert table.dtype == "uint16"
    assert table.auxiliary_xml(np.zeros(0)).count(b"<Category") == 1 + 301


def test_scene_without_wavelengths_does_not_pass_for_one_with(image, model, tmp_path):
    path = write_tiff(tmp_path / "plain.tif", image.counts.transpose(2, 0, 1))
    with pytest.raises(ModelMismatchError, match="has none"):
        map_scene(path, model, tmp_path / "map.tif")
    assert _files(tmp_path) == ["plain.tif"]
    scene = open_scene(path, wavelengths=image.wavelengths)
    map_scene(scene, model, tmp_path / "map.tif")


def test_too_few_class_names_are_refused(folder):
    with pytest.raises(ValueError, match="got none for 3, 4"):
        fit_scene(folder / "scene.hdr", folder / "labels.tif", class_names={1: "a", 2: "b"})
