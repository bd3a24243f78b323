"""Files of strangers: nothing is read outside them, nothing runs, nothing fills the memory."""

import json
import shutil
import struct
import zipfile
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread

import numpy as np
import pytest

h5py = pytest.importorskip("h5py", reason="writes HDF5 files")
h5netcdf = pytest.importorskip("h5netcdf", reason="writes NetCDF files")
rasterio = pytest.importorskip("rasterio", reason="image files need the extra raster")
xarray = pytest.importorskip("xarray", reason="image files need the extra raster")
pytest.importorskip("zarr", reason="image files need the extra raster")

from jplay.app._files import check_source  # noqa: E402
from jplay.datasets.readers import read_arrays  # noqa: E402
from jplay.raster import Block, open_scene  # noqa: E402
from jplay.tables import iter_table, read_table  # noqa: E402

FOREIGN = 200
SHAPE = (16, 16, 4)
pytestmark = pytest.mark.filterwarnings("ignore")


def whole(path):
    """Values of an image, read whole and thinned."""
    with open_scene(path) as scene:
        block = Block(0, scene.shape[0], 0, scene.shape[1])
        return [scene.read(block, np.arange(scene.n_bands), step=step)[0].max() for step in (1, 4)]


@pytest.fixture
def foreign(tmp_path):
    """Files outside the upload, in each of three formats."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    cube = np.full(SHAPE, FOREIGN, np.uint8)
    (folder / "raw").write_bytes(cube.tobytes())
    with h5py.File(folder / "other.h5", "w") as file:
        file["cube"] = cube
    write(folder / "secret.tif", FOREIGN)
    return folder


# -- HDF5


def link(file, foreign):
    file["cube"] = h5py.ExternalLink(str(foreign / "other.h5"), "/cube")


def nested_link(file, foreign):
    file["cube"] = np.ones(SHAPE, np.uint8)
    file.create_group("a/b")["c"] = h5py.ExternalLink(str(foreign / "other.h5"), "/")


def soft_link(file, foreign):
    file["out"] = h5py.ExternalLink(str(foreign / "other.h5"), "/")
    file["cube"] = h5py.SoftLink("/out/cube")


def storage(file, foreign):
    file.create_dataset("cube", SHAPE, "u1", external=[(str(foreign / "raw"), 0, 1024)])


def virtual(file, foreign):
    layout = h5py.VirtualLayout(SHAPE, "u1")
    layout[:] = h5py.VirtualSource(str(foreign / "other.h5"), "cube", SHAPE)
    file.create_virtual_dataset("cube", layout)


@pytest.mark.parametrize("how", [link, nested_link, soft_link, storage, virtual])
@pytest.mark.parametrize("block", [0, 512, 1024, 2048])
@pytest.mark.parametrize("suffix", [".h5", ".mat"])
def test_hdf5_file_never_reaches_into_other_files(tmp_path, foreign, how, block, suffix):
    path = tmp_path / f"upload{suffix}"
    with h5py.File(path, "w", userblock_size=block) as file:
        how(file, foreign)
    if block:
        with path.open("r+b") as file:
            file.write(b"MATLAB 7.3 MAT-file".ljust(128))
    with pytest.raises(ValueError, match="refers to other files"):
        whole(path)
    if suffix == ".mat":
        with pytest.raises(ValueError, match="refers to other files"):
            read_arrays(path)


@pytest.mark.parametrize("how", ["double", "cycle"])
def test_hard_links_that_multiply_the_work_are_refused(tmp_path, how):
    path = tmp_path / "upload.mat"
    with h5py.File(path, "w") as file:
        file["cube"] = np.ones(SHAPE, np.uint8)
        group = file
        for _ in range(200):
            deeper = group.create_group("a")
            group["b" if how == "double" else "top"] = deeper if how == "double" else file
            group = deeper
    for read in (whole, read_arrays):
        with pytest.raises(ValueError, match="a group to which several links lead"):
            read(path)


def test_scene_is_no_link_out_of_its_folder(tmp_path, foreign):
    folder = tmp_path / "given"
    folder.mkdir()
    write(folder / "scene.img", 1, "ENVI")
    check_source(folder / "scene.hdr")
    shutil.move(folder / "scene.img", foreign / "scene.img")
    (folder / "scene.img").symlink_to(foreign / "scene.img")
    with pytest.raises(ValueError, match="link out of its folder"):
        check_source(folder / "scene.hdr")
    (folder / "linked.tif").symlink_to(foreign / "secret.tif")
    (folder / "scene.vrt").write_text(vrt("linked.tif", 32))
    with pytest.raises(ValueError, match="link out of its folder"):
        whole(folder / "scene.vrt")


# -- GDAL


def write(path, value, driver="GTiff", **tags):
    with rasterio.open(
        path, "w", driver=driver, width=32, height=32, count=1, dtype="uint8"
    ) as file:
        file.write(np.full((1, 32, 32), value, np.uint8))
        if tags:
            file.update_tags(ns="OVERVIEWS", **tags)


def vrt(source, size):
    return (
        f"<VRTDataset rasterXSize='{size}' rasterYSize='{size}'><Metadata>"
        "<MDI key='INTERNAL_MASK_FLAGS_1'>2</MDI></Metadata><VRTRasterBand dataType='Byte' "
        f"band='1'><SimpleSource><SourceFilename relativeToVRT='1'>{source}</SourceFilename>"
        "</SimpleSource></VRTRasterBand></VRTDataset>"
    )


@pytest.fixture
def server():
    requests, numbers = [], count()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield lambda: f"http://127.0.0.1:{running.server_port}/{next(numbers)}.tif", requests
        running.shutdown()


@pytest.mark.parametrize("driver", ["GTiff", "HFA", "ENVI"])
@pytest.mark.parametrize("how", ["overviews", "aux", "ovr", "msk", "source", "vrt"])
@pytest.mark.parametrize("where", ["disk", "vsicurl", "http"])
def test_image_never_makes_gdal_read_other_files(tmp_path, foreign, server, driver, how, where):
    url, requests = server
    target = {
        "disk": str(foreign / "secret.tif"),
        "vsicurl": f"/vsicurl/{url()}",
        "http": url(),
    }[where]
    path = tmp_path / f"upload{ {'GTiff': '.tif', 'HFA': '.img', 'ENVI': '.dat'}[driver] }"
    write(path, 1, driver, **({"OVERVIEW_FILE": target} if how in ("overviews", "source") else {}))
    tag = f"<Metadata domain='OVERVIEWS'><MDI key='OVERVIEW_FILE'>{target}</MDI></Metadata>"
    if how == "aux":
        path.with_name(f"{path.name}.aux.xml").write_text(f"<PAMDataset>{tag}</PAMDataset>")
    elif how in ("ovr", "msk"):
        text = vrt(target, 16 if how == "ovr" else 32).replace("relativeToVRT='1'", "")
        path.with_name(f"{path.name}.{how}").write_text(text)
    elif how in ("source", "vrt"):
        text = vrt(path.name, 8 if how == "source" else 32)
        path = tmp_path / "upload.vrt"
        path.write_text(text.replace("<Metadata>", f"{tag}<Metadata>") if how == "vrt" else text)
    try:
        values = whole(path)
    except ValueError:
        values = []
    assert requests == []
    assert FOREIGN not in values
    if how in ("aux", "ovr", "msk"):
        assert values == [1, 1]


def test_text_next_to_an_image_still_places_it(tmp_path):
    from rasterio.crs import CRS

    path = tmp_path / "scene.tif"
    write(path, 1)
    (tmp_path / "scene.tfw").write_text("30\n0\n0\n-30\n500015\n5399985\n")
    assert open_scene(path).transform[:6] == (30, 0, 500000, 0, -30, 5400000)
    (tmp_path / "scene.tif.aux.xml").write_text(
        f"<PAMDataset><SRS>{CRS.from_epsg(32616).to_wkt()}</SRS>"
        "<GeoTransform>1, 2, 0, 3, 0, -2</GeoTransform>"
        "<PAMRasterBand band='1'><NoDataValue>7</NoDataValue></PAMRasterBand></PAMDataset>"
    )
    scene = open_scene(path)
    assert scene.crs.to_epsg() == 32616
    assert scene.transform[:6] == (2, 0, 1, 0, -2, 3)
    assert scene.nodata == 7


# -- Zarr


@pytest.mark.parametrize("how", ["objects", "record", "filter", "compressor", "consolidated", "v3"])
def test_zarr_store_never_unpickles(tmp_path, how):
    path = tmp_path / "upload.zarr"
    cube = xarray.Dataset({"cube": (("y", "x", "band"), np.ones(SHAPE))})
    cube.to_zarr(path, zarr_format=3 if how == "v3" else 2)
    assert whole(path) == [1, 1]
    name = {"consolidated": ".zmetadata", "v3": "cube/zarr.json"}.get(how, "cube/.zarray")
    document = json.loads((path / name).read_text())
    array = document["metadata"]["cube/.zarray"] if how == "consolidated" else document
    if how in ("objects", "consolidated"):
        array |= {"dtype": "|O", "filters": [{"id": "pickle", "protocol": 4}]}
    elif how == "record":
        array["dtype"] = [["a", "<f8"], ["b", "|O"]]
    elif how == "v3":
        array["codecs"] = [{"name": "numcodecs.pickle", "configuration": {}}]
    else:
        pickled = {"id": "pickle", "protocol": 4}
        array |= {"filters": [pickled]} if how == "filter" else {"compressor": pickled}
    (path / name).write_text(json.dumps(document))
    with pytest.raises(ValueError, match="Python objects, which may run code"):
        whole(path)


# -- bombs


def workbook(path, rows):
    import openpyxl

    openpyxl.Workbook().save(path)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    sheet = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    entries["xl/worksheets/sheet1.xml"] = f"{sheet}<sheetData>{rows}</sheetData></worksheet>"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def wide_workbook(folder):
    rows = "".join(f'<row r="{r}"><c r="XFD{r}"><v>1</v></c></row>' for r in range(1, 2001))
    workbook(folder / "bomb.xlsx", rows)


def long_workbook(folder):
    workbook(folder / "bomb.xlsx", '<row r="1048576"><c r="ZZ1048576"><v>1</v></c></row>')


def short_rows(folder):
    header = ",".join(f"c{i}" for i in range(15_000))
    (folder / "bomb.csv").write_text(header + "\n" + "1\n" * 5000)


def mat_with_cells(folder):
    zeros = struct.pack("<II", 9, 2**29) + bytes(2**29)
    packed = zlib.compress(struct.pack("<II", 14, len(zeros)) + zeros)
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    (folder / "bomb.mat").write_bytes(head + struct.pack("<II", 15, len(packed)) + packed)


def chunk_of_netcdf(folder):
    shape = (20_000, 20_000, 1)
    with h5netcdf.File(folder / "bomb.nc", "w") as file:
        file.dimensions = dict(zip(("y", "x", "band"), shape, strict=True))
        file.create_variable("cube", ("y", "x", "band"), "u1", chunks=shape, compression="gzip")


def block_of_tiff(folder):
    size = 20_000
    with rasterio.open(
        folder / "bomb.tif", "w", driver="GTiff", width=size, height=size, count=1, dtype="uint8",
        tiled=True, blockxsize=size, blockysize=size, compress="deflate", SPARSE_OK=True,
    ):  # fmt: skip
        pass


@pytest.mark.parametrize(
    "bomb",
    [wide_workbook, long_workbook, short_rows, mat_with_cells, chunk_of_netcdf, block_of_tiff],
)
def test_bomb_is_refused_and_the_option_that_raises_the_limit_named(tmp_path, bomb):
    bomb(tmp_path)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_size < 2**20
    read = open_scene if path.suffix in (".nc", ".tif") else read_table
    with pytest.raises(ValueError, match="set the environment variable JPLAY_MAX_UNPACKED_MIB to"):
        read(path)


def test_limit_can_be_raised(tmp_path, monkeypatch):
    chunk_of_netcdf(tmp_path)
    monkeypatch.setenv("JPLAY_MAX_UNPACKED_MIB", "400")
    with open_scene(tmp_path / "bomb.nc") as scene:
        assert scene.shape == (20_000, 20_000, 1)
    short_rows(tmp_path)
    monkeypatch.delenv("JPLAY_MAX_UNPACKED_MIB")
    assert len(next(iter_table(tmp_path / "bomb.csv", n_rows=10, allow_missing=True, target=())).X)
    monkeypatch.setenv("JPLAY_MAX_UNPACKED_MIB", "much")
    with pytest.raises(ValueError, match="whole number of MiB, got 'much'"):
        open_scene(tmp_path / "bomb.nc")
