"""Open raster files with GDAL so that it reads no other file and asks no network.

GDAL looks next to a file for masks, overviews and metadata, which may be of any kind and name other
files or addresses, and a file may name the file of its overviews itself. Here the driver is named,
side files are off, and a file that names its overviews is refused. The coordinate system, position
and value without data that text files next to an image hold are read by :func:`sidecar_facts`.
"""

import threading
import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from xarray import DataArray
from xarray.backends import BackendArray
from xarray.core import indexing

from jplay._optional import import_optional

SELF_CONTAINED = ("GTiff", "JP2OpenJPEG", "VRT")
"""Drivers whose masks and overviews are within the file if side files are off. ENVI and HFA look
next to it all the same, so their masks and overviews are never used."""
_SETTINGS = {
    "GDAL_PAM_ENABLED": "NO",
    "CPL_VSIL_CURL_ALLOWED_FILENAME": "none",
    "GDAL_HTTP_PROXY": "127.0.0.1:9",  # nothing answers there
    "GDAL_HTTPS_PROXY": "127.0.0.1:9",
    "GDAL_HTTP_MAX_RETRY": "0",
}
_MAX_SIDECAR_BYTES = 2**20


def closed_env(driver, **settings):
    """Return the rasterio environment in which a file may be opened and read."""
    rasterio = import_optional("rasterio", feature="Reading image files", extra="raster")
    # The header of an ENVI image is a file next to it, which GDAL would not find with EMPTY_DIR.
    siblings = "TRUE" if driver == "ENVI" else "EMPTY_DIR"
    return rasterio.Env(**_SETTINGS, GDAL_DISABLE_READDIR_ON_OPEN=siblings, **settings)


def open_raster(path, driver):
    """Open a raster file, which must be a plain file, with the driver of this name.

    Parameters
    ----------
    path : path-like
    driver : str

    Returns
    -------
    rasterio.io.DatasetReader

    Raises
    ------
    ValueError
        If the overviews of the file are in another one.
    """
    rasterio = import_optional("rasterio", feature="Reading image files", extra="raster")
    name = str(Path(path).absolute())
    if name.lower().startswith("/vsi"):
        raise ValueError(f"'{name}' is not a plain file")
    with warnings.catch_warnings(), closed_env(driver):
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        dataset = rasterio.open(name, driver=driver, sharing=False)
        overviews = dataset.tags(ns="OVERVIEWS").get("OVERVIEW_FILE")
        if overviews is not None:
            dataset.close()
            raise ValueError(
                f"its overviews are in another file, '{overviews:.80}'. Copy the image without "
                "them, for example with gdal_translate"
            )
        return dataset


class RasterArray(BackendArray):
    """Lazy array of shape (n_bands, height, width) over a file; each thread opens it once.

    Parameters
    ----------
    path : path-like
    driver : str
    """

    def __init__(self, path, driver):
        self._path, self._driver = path, driver
        self._local, self._opened, self._lock = threading.local(), [], threading.Lock()
        dataset = self._dataset()
        self.shape = (dataset.count, dataset.height, dataset.width)
        name = dataset.dtypes[0]
        # NumPy has no complex integers.
        self.dtype = np.dtype("complex64" if name.startswith("complex_int") else name)

    def _dataset(self):
        if not hasattr(self._local, "dataset"):
            self._local.dataset = open_raster(self._path, self._driver)
            with self._lock:
                self._opened.append(self._local.dataset)
        return self._local.dataset

    def __getitem__(self, key):
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.BASIC, self._read
        )

    def _read(self, key):
        spans, within = [], []
        for one, size in zip(key, self.shape, strict=True):
            if isinstance(one, slice):
                start, stop, step = one.indices(size)
                spans.append(range(start, stop))
                within.append(slice(None, None, step))
            else:
                spans.append(range(one, one + 1))
                within.append(0)
        if not all(map(len, spans)):
            return np.empty([len(span) for span in spans], self.dtype)[tuple(within)]
        bands, rows, columns = spans
        window = ((rows.start, rows.stop), (columns.start, columns.stop))
        with closed_env(self._driver):
            values = self._dataset().read([band + 1 for band in bands], window=window)
        return values[tuple(within)]

    def close(self):
        """Close the file in all threads."""
        with self._lock:
            for dataset in self._opened:
                dataset.close()
            self._opened.clear()


def raster_array(path, driver):
    """Return a raster file as a lazy ``DataArray``, and what closes it."""
    backend = RasterArray(path, driver)
    array = DataArray(indexing.LazilyIndexedArray(backend), dims=("band", "y", "x"))
    return array, backend.close


def sidecar_facts(path):
    """Return ``crs``, ``transform`` and ``nodata`` from the text files next to a raster.

    Parameters
    ----------
    path : path-like
        The raster. GDAL and QGIS write ``.aux.xml`` next to it; a world file (``.tfw``, ``.wld``)
        holds six numbers.

    Returns
    -------
    dict
    """
    path = Path(path)
    suffix = path.suffix
    found = {}
    for name in (f"{suffix[:2]}{suffix[-1:]}w", f"{suffix}w", ".wld"):
        numbers = _numbers(_text(path.with_suffix(name)).split())
        if len(numbers) == 6:
            a, d, b, e, c, f = numbers  # of the center of the first pixel
            found["transform"] = _affine(a, b, c - (a + b) / 2, d, e, f - (d + e) / 2)
            break
    text = _text(path.with_name(f"{path.name}.aux.xml"))
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return found
    srs, nodata = root.findtext("SRS"), root.findtext("PAMRasterBand[@band='1']/NoDataValue")
    numbers = _numbers((root.findtext("GeoTransform") or "").split(","))
    if len(numbers) == 6:
        c, a, b, f, d, e = numbers
        found["transform"] = _affine(a, b, c, d, e, f)
    if srs:
        found["crs"] = _crs(srs)
    if nodata and (numbers := _numbers([nodata])):
        found["nodata"] = numbers[0]
    return {name: value for name, value in found.items() if value is not None}


def _text(path):
    try:
        with path.open("rb") as file:
            return file.read(_MAX_SIDECAR_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _numbers(parts):
    try:
        return [float(part) for part in parts]
    except ValueError:
        return []


def _affine(*numbers):
    from affine import Affine

    return Affine(*numbers) if np.isfinite(numbers).all() else None


def _crs(wkt):
    from rasterio.crs import CRS
    from rasterio.errors import CRSError

    try:
        return CRS.from_wkt(wkt)
    except CRSError:
        return None
