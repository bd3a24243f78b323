"""Scenes of every format are read lazily, with their bands, nodata and georeferencing."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest

rasterio = pytest.importorskip("rasterio", reason="image files need the extra raster")
xarray = pytest.importorskip("xarray", reason="image files need the extra raster")
pytest.importorskip("spectral", reason="ENVI headers need the extra raster")

from jplay.exceptions import CorruptFileError  # noqa: E402
from jplay.raster import Block, open_labels, open_scene  # noqa: E402
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


@pytest.fixture(scope="module")
def image():
    return make_image()


def _whole(scene, bands=None):
    height, width, n_bands = scene.shape
    X, valid = scene.read(Block(0, height, 0, width), np.arange(n_bands))
    return X.reshape(height, width, n_bands), valid.reshape(height, width)


def _netcdf(path, image):
    array = xarray.DataArray(
        image.counts,
        dims=("y", "x", "band"),
        coords={
            "y": 5_400_000.0 - 30.0 * (np.arange(image.counts.shape[0]) + 0.5),
            "x": 500_000.0 + 30.0 * (np.arange(image.counts.shape[1]) + 0.5),
            "wavelength": ("band", image.wavelengths, {"units": "nm"}),
            "good_wavelengths": ("band", (~image.absorption_bands).astype(np.uint8)),
        },
        name="radiance",
    )
    import rioxarray  # noqa: F401

    dataset = array.rio.write_crs(EPSG).to_dataset()
    if path.suffix == ".zarr":
        dataset.to_zarr(path, zarr_format=2)
    else:
        dataset.to_netcdf(path, engine="h5netcdf")
    return path


@pytest.fixture(
    params=["envi-bil", "envi-bip", "envi-bsq", "tiff", "tiff-tiled", "netcdf", "zarr", "vrt"]
)
def scene_file(request, image, tmp_path):
    kind = request.param
    if kind.startswith("envi"):
        return write_envi(tmp_path, image, interleave=kind[-3:])
    if kind == "tiff":
        return write_cube(tmp_path / "scene.tif", image)
    if kind == "tiff-tiled":
        return write_cube(tmp_path / "scene.tif", image, tiled=True, blockxsize=16, blockysize=16)
    if kind == "vrt":
        import rasterio.shutil

        write_cube(tmp_path / "scene.tif", image)
        rasterio.shutil.copy(tmp_path / "scene.tif", tmp_path / "scene.vrt", driver="VRT")
        return tmp_path / "scene.vrt"
    if kind == "zarr":
        pytest.importorskip("zarr", reason="Zarr stores need zarr")
    return _netcdf(tmp_path / ("scene.nc" if kind == "netcdf" else "scene.zarr"), image)


def test_every_format_gives_the_same_scene(scene_file, image):
    with open_scene(scene_file) as scene:
        values, valid = _whole(scene)
        np.testing.assert_array_equal(values, image.counts)
        assert valid.all()
        np.testing.assert_allclose(scene.wavelengths, image.wavelengths, rtol=1e-6)
        np.testing.assert_array_equal(scene.good_bands, ~image.absorption_bands)
        assert scene.crs.to_epsg() == EPSG
        np.testing.assert_allclose(scene.transform[:6], transform()[:6], atol=1e-6)


def test_big_endian_envi_with_an_offset(image, tmp_path):
    header = write_envi(tmp_path, image, interleave="bip")
    (tmp_path / "scene.img").write_bytes(bytes(100) + image.counts.astype(">u2").tobytes())
    text = header.read_text().replace("byte order = 0", "byte order = 1")
    header.write_text(text.replace("header offset = 0", "header offset = 100"))
    np.testing.assert_array_equal(_whole(open_scene(header))[0], image.counts)


def test_reading_is_lazy(scene_file, image):
    """What is read of a block is no more than the block: the array itself stays on disk."""
    with open_scene(scene_file) as scene:
        X, _ = scene.read(Block(10, 13, 5, 9), np.array([3, 7]))
        expected = image.counts[10:13, 5:9, [3, 7]].reshape(-1, 2)
        np.testing.assert_array_equal(X, expected)
        assert not scene.array.variable._in_memory


def test_matlab_cubes_of_both_versions(image, tmp_path):
    import h5py
    from scipy.io import savemat

    savemat(tmp_path / "old.mat", {"cube": image.counts, "gt": image.ground_truth})
    with h5py.File(tmp_path / "new.mat", "w", userblock_size=512) as file:
        file["cube"] = image.counts.T
    with (tmp_path / "new.mat").open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(128))
    for name in ("old.mat", "new.mat"):
        with open_scene(tmp_path / name) as scene:
            np.testing.assert_array_equal(_whole(scene)[0], image.counts)
            assert scene.transform is None
    labels = open_labels(tmp_path / "old.mat", open_scene(tmp_path / "old.mat"))
    np.testing.assert_array_equal(labels.read(Block(0, 48, 0, 40)), image.ground_truth)


def test_variable_must_be_named_where_several_fit(image, tmp_path):
    from scipy.io import savemat

    savemat(tmp_path / "two.mat", {"one": image.counts, "two": image.counts + 1})
    with pytest.raises(ValueError, match="several images: one, two"):
        open_scene(tmp_path / "two.mat")
    with pytest.raises(ValueError, match="`variable` should be one of one, two"):
        open_scene(tmp_path / "two.mat", variable="three")
    assert _whole(open_scene(tmp_path / "two.mat", variable="two"))[0][0, 0, 0] == (
        image.counts[0, 0, 0] + 1
    )


def test_data_arrays_of_any_axis_order_and_dask(image):
    dask = pytest.importorskip("dask.array", reason="a lazy array")
    array = xarray.DataArray(
        dask.from_array(image.counts.transpose(2, 0, 1), chunks=(-1, 16, -1)),
        dims=("wavelength", "line", "sample"),
        coords={"wavelength": image.wavelengths},
    )
    scene = open_scene(array)
    assert scene.source_block == (16, 40)
    np.testing.assert_array_equal(_whole(scene)[0], image.counts)
    np.testing.assert_allclose(scene.wavelengths, image.wavelengths)
    with pytest.raises(ValueError, match="Rename them"):
        open_scene(xarray.DataArray(image.counts, dims=("a", "b", "c")))


@pytest.mark.parametrize("source_block", [(1, 40), (16, 16), (48, 1), (7, 40)])
@pytest.mark.parametrize("block_bytes", [1, 40 * 4 * 10, 40 * 4 * 333, 10**9])
def test_blocks_cover_the_scene_once_within_the_limit(image, source_block, block_bytes):
    from dataclasses import replace

    scene = open_scene(xarray.DataArray(image.counts, dims=("y", "x", "band")))
    scene = replace(scene, source_block=source_block)
    covered = np.zeros(scene.shape[:2], dtype=int)
    for block in scene.blocks(block_bytes):
        covered[block.top : block.bottom, block.left : block.right] += 1
        assert block.n_pixels * scene.n_bands * 4 <= max(block_bytes, scene.n_bands * 4)
    assert (covered == 1).all()


def test_pixels_without_data(image, tmp_path):
    counts = image.counts.astype(np.float32)
    counts[0] = -9999.0
    counts[1, 2, 3] = np.nan
    counts[1, 3, 4] = np.inf
    counts[2, 0] = 0.0
    counts[2, 1, 5] = -9999.0
    path = write_tiff(tmp_path / "scene.tif", counts.transpose(2, 0, 1), nodata=-9999.0)
    _, valid = _whole(open_scene(path))
    expected = np.ones(valid.shape, dtype=bool)
    expected[0] = expected[1, 2] = expected[1, 3] = expected[2, 0] = expected[2, 1] = False
    np.testing.assert_array_equal(valid, expected)
    # Bands that are not used do not make a pixel invalid.
    _, valid = open_scene(path).read(Block(2, 3, 0, 2), np.array([0, 1]))
    assert valid.tolist() == [False, True]


def test_zero_as_nodata_does_not_take_dark_pixels(image, tmp_path):
    counts = image.counts.copy()
    counts[0, 0] = 0
    counts[0, 1, 3] = 0
    path = write_tiff(tmp_path / "scene.tif", counts.transpose(2, 0, 1), nodata=0)
    _, valid = _whole(open_scene(path))
    assert not valid[0, 0]
    assert valid[0, 1]


def test_overrides_replace_what_the_file_says(image, tmp_path):
    path = write_cube(tmp_path / "scene.tif", image)
    scene = open_scene(path, bad_bands=[0, 39], wavelengths=np.arange(40) + 1.0, nodata=7)
    assert np.flatnonzero(~scene.good_bands).tolist() == [0, 39]
    assert (scene.wavelengths[5], scene.nodata) == (6.0, 7.0)
    with pytest.raises(ValueError, match="from 0 to 39"):
        open_scene(path, bad_bands=[40])
    with pytest.raises(ValueError, match="40 finite numbers"):
        open_scene(path, wavelengths=[1.0])
    with pytest.raises(ValueError, match="no good band"):
        open_scene(path, bad_bands=range(40))


def test_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.tif"):
        open_scene(tmp_path / "nowhere.tif")


@pytest.mark.parametrize("interleave", ["bil", "bsq"])
def test_truncated_envi_file_is_refused(image, tmp_path, interleave):
    header = write_envi(tmp_path, image, interleave=interleave)
    data = tmp_path / "scene.img"
    data.write_bytes(data.read_bytes()[:-100])
    for path in (header, data):
        with pytest.raises(CorruptFileError, match="truncated"):
            open_scene(path)


@pytest.mark.parametrize("suffix", [".tif", ".nc", ".mat", ".img"])
@pytest.mark.parametrize("content", [b"", b"garbage" * 100, b"II*\x00\xff\xff\xff\x7f"])
def test_garbage_is_refused_by_name(tmp_path, suffix, content):
    path = tmp_path / f"scene{suffix}"
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=f"scene{suffix}"):
        open_scene(path)


def test_truncated_tiff_is_refused_when_its_pixels_are_read(image, tmp_path):
    path = write_cube(tmp_path / "scene.tif", image)
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(CorruptFileError, match=r"scene\.tif"):
        _whole(open_scene(path))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of h5netcdf
@pytest.mark.parametrize("kind", ["tiff", "envi-header", "netcdf"])
def test_damaged_bytes_never_end_in_a_foreign_error(image, tmp_path, kind):
    """Random damage is refused by name or not noticed; nothing else comes out."""
    small = make_image(height=12, width=10, n_bands=8)
    path = {
        "tiff": lambda: write_cube(tmp_path / "scene.tif", small, compress="deflate"),
        "envi-header": lambda: write_envi(tmp_path, small),
        "netcdf": lambda: _netcdf(tmp_path / "scene.nc", small),
    }[kind]()
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    messages = []
    for position in rng.integers(0, min(len(content), 4000), 30).tolist():
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged))
        try:
            with open_scene(path) as scene:
                scene.read(scene.blocks()[0])
        except ValueError as error:
            messages.append(str(error))
    assert messages
    assert [message for message in messages if path.stem not in message] == []


def test_truncated_netcdf_is_refused(image, tmp_path):
    path = _netcdf(tmp_path / "scene.nc", image)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(CorruptFileError, match=r"scene\.nc"):
        _whole(open_scene(path))


def test_header_that_promises_an_absurd_size_is_refused(image, tmp_path):
    header = write_envi(tmp_path, image)
    text = header.read_text().replace("lines   = 48", "lines   = 2000000000")
    header.write_text(text)
    with pytest.raises(CorruptFileError, match="promises"):
        open_scene(header)


def test_header_with_a_wrong_number_of_wavelengths_is_refused(image, tmp_path):
    header = write_envi(tmp_path, image)
    header.write_text(header.read_text().replace("wavelength = {", "wavelength = {0.3, "))
    with pytest.raises(CorruptFileError, match="should list 40 numbers under 'wavelength'"):
        open_scene(header)


def test_header_without_its_data_file_is_refused(image, tmp_path):
    header = write_envi(tmp_path, image)
    (tmp_path / "scene.img").unlink()
    with pytest.raises(CorruptFileError, match="data file is missing"):
        open_scene(header)


def test_labels_from_rasters(image, tmp_path):
    scene = open_scene(write_cube(tmp_path / "scene.tif", image))
    labels = open_labels(write_labels(tmp_path / "labels.tif", image), scene)
    np.testing.assert_array_equal(labels.read(Block(3, 20, 5, 9)), image.ground_truth[3:20, 5:9])


def test_labels_on_another_grid_are_refused(image, tmp_path):
    from rasterio.transform import from_origin

    scene = open_scene(write_cube(tmp_path / "scene.tif", image))
    codes = image.ground_truth.astype(np.uint8)[np.newaxis]
    shifted = write_tiff(tmp_path / "a.tif", codes, transform=from_origin(0, 0, 30, 30))
    with pytest.raises(ValueError, match="another grid"):
        open_labels(shifted, scene)
    other_crs = write_tiff(tmp_path / "b.tif", codes, crs="EPSG:32633")
    with pytest.raises(ValueError, match="another grid"):
        open_labels(other_crs, scene)
    small = write_tiff(tmp_path / "c.tif", codes[:, :10])
    with pytest.raises(ValueError, match="48 x 40 pixels"):
        open_labels(small, scene)
    with pytest.raises(ValueError, match="one band of class codes"):
        open_labels(tmp_path / "scene.tif", scene)
    with pytest.raises(ValueError, match="whole class numbers"):
        open_labels(image.ground_truth + 0.5, scene)


@pytest.mark.parametrize("suffix", ["gpkg", "geojson", "shp"])
@pytest.mark.parametrize("by_name", [True, False])
def test_labels_from_polygons_in_another_system(image, tmp_path, suffix, by_name):
    """Polygons drawn around the labelled pixels give these pixels back, block by block."""
    scene = open_scene(write_cube(tmp_path / "scene.tif", image))
    path = write_polygons(tmp_path / f"labels.{suffix}", image, by_name=by_name)
    labels = open_labels(path, scene, field="class")
    found = np.zeros(scene.shape[:2], dtype=int)
    for block in scene.blocks(40 * 4 * 150):
        found[block.top : block.bottom, block.left : block.right] = labels.read(block)
    assert (found != image.ground_truth).mean() < 0.005
    if by_name:
        assert labels.names == dict(enumerate(image.target_names, start=1))


def test_polygons_need_a_known_field_and_a_georeferenced_scene(image, tmp_path):
    scene = open_scene(write_cube(tmp_path / "scene.tif", image))
    path = write_polygons(tmp_path / "labels.gpkg", image)
    with pytest.raises(ValueError, match="class, remark"):
        open_labels(path, scene)
    with pytest.raises(ValueError, match="got 'kind'"):
        open_labels(path, scene, field="kind")
    plain = open_scene(xarray.DataArray(image.counts, dims=("y", "x", "band")))
    with pytest.raises(ValueError, match="not georeferenced"):
        open_labels(path, plain, field="class")
    (tmp_path / "broken.gpkg").write_bytes(b"SQLite format 3\x00" + b"x" * 100)
    with pytest.raises(CorruptFileError, match=r"broken\.gpkg"):
        open_labels(tmp_path / "broken.gpkg", scene)


@pytest.mark.parametrize(
    ("entry", "spoiled"),
    [
        ("interleave = bil", "interleave = xyz"),
        ("byte order = 0", "byte order = 7"),
        ("data type = 12", "data type = 6"),
        ("data type = 12", "data type = 9"),
        ("wavelength = {", "wavelength = {nan}\nformer = {"),
    ],
)
def test_envi_header_that_means_nothing_is_refused(image, tmp_path, entry, spoiled):
    header = write_envi(tmp_path, image)
    text = header.read_text()
    assert entry in text
    header.write_text(text.replace(entry, spoiled))
    data = header.with_suffix(".img")
    data.write_bytes(data.read_bytes() * 8)
    with pytest.raises(ValueError, match=r"Correct the header|real numbers"):
        open_scene(header)


def test_wavelengths_that_are_no_numbers_are_refused_unless_given(image, tmp_path):
    n_bands = image.counts.shape[2]
    header = write_envi(tmp_path, image)
    missing = ", ".join(["nan"] * n_bands)
    lines = [
        f"wavelength = {{{missing}}}" if line.startswith("wavelength = ") else line
        for line in header.read_text().splitlines()
    ]
    header.write_text("\n".join(lines))
    with pytest.raises(CorruptFileError, match=f"lacks the wavelength of {n_bands} of {n_bands}"):
        open_scene(header)
    assert open_scene(header, wavelengths=image.wavelengths).n_bands == n_bands


def test_complex_image_is_refused(image, tmp_path):
    path = write_tiff(tmp_path / "waves.tif", np.zeros((2, 4, 5), dtype=np.complex64))
    with pytest.raises(ValueError, match="real numbers, found complex64"):
        open_scene(path)


@pytest.fixture
def server():
    """A server that counts what is asked of it; its address, and the requests so far."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}/scene.tif", requests
        running.shutdown()


@pytest.mark.parametrize(
    "source",
    [
        "/vsicurl/{url}",
        "/vsizip//vsicurl/{url}",
        "{url}",
        "WMS:{url}",
        "{nested}",
        "&lt;GDAL_WMS&gt;&lt;ServerUrl&gt;{url}&lt;/ServerUrl&gt;&lt;/GDAL_WMS&gt;",
    ],
)
def test_virtual_raster_makes_no_network_request(image, tmp_path, server, source):
    url, requests = server
    good = write_cube(tmp_path / "scene.tif", image)
    nested = tmp_path / "nested.dat"
    for path, named in ((nested, f"/vsicurl/{url}"), (tmp_path / "outer.vrt", source)):
        path.write_text(_VRT.format(source=named.format(url=url, nested=nested)))
    with pytest.raises(CorruptFileError, match=r"plain file"):
        _whole(open_scene(tmp_path / "outer.vrt"))
    assert requests == []
    (tmp_path / "local.vrt").write_text(_VRT.format(source=good))
    assert open_scene(tmp_path / "local.vrt").n_bands == 1


def test_virtual_raster_of_itself_is_refused(tmp_path):
    path = tmp_path / "loop.vrt"
    path.write_text(_VRT.format(source=path))
    with pytest.raises(CorruptFileError, match="leads back to itself"):
        open_scene(path)


_VRT = """<VRTDataset rasterXSize="40" rasterYSize="48">
  <VRTRasterBand dataType="UInt16" band="1">
    <SimpleSource><SourceFilename>{source}</SourceFilename><SourceBand>1</SourceBand></SimpleSource>
  </VRTRasterBand>
</VRTDataset>
"""
