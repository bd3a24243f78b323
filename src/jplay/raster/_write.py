"""Rasters that appear complete, and checked, or not at all."""

import json
import math
import warnings
import zlib
from contextlib import ExitStack, contextmanager
from xml.etree import ElementTree

import numpy as np

from jplay import __version__
from jplay._files import atomic_path
from jplay._optional import import_optional
from jplay.exceptions import MapWriteError

NO_DATA = "no data"
"""Name of code 0: pixels without data."""
UNCLASSIFIED = "unclassified"
"""Name of the class of pixels that a map leaves open because no class is likely enough."""
_CACHE_BYTES = 128 * 2**20
_COPY_CACHE_BYTES = 48 * 2**20  # a few tiles of all bands: a copy goes from tile to tile
_TILE = 256


class RasterSink:
    """Takes blocks of an output raster and remembers a checksum of each.

    It gathers what is written at the end: pixels per class, or statistics of every band.
    """

    def __init__(self, dataset, *, is_class_map):
        self._dataset = dataset
        self._sums = {}
        self._moments = None if is_class_map else [_Moments() for _ in range(dataset.count)]
        self.class_pixels = np.zeros(0, dtype=np.int64)

    def write(self, block, values):
        """Write an array of shape (height, width) or (n_bands, height, width)."""
        values = np.ascontiguousarray(values if values.ndim == 3 else values[np.newaxis])
        self._dataset.write(values, window=block.rasterio_window())
        self._sums[block] = zlib.crc32(values)
        if self._moments is None:
            counts = np.bincount(values.ravel(), minlength=len(self.class_pixels))
            counts[: len(self.class_pixels)] += self.class_pixels
            self.class_pixels = counts
        else:
            for moments, band in zip(self._moments, values, strict=True):
                moments.add(band)

    def write_statistics(self):
        """Store the statistics of every band under the names that GDAL and QGIS read."""
        for number, moments in enumerate(self._moments or (), start=1):
            self._dataset.update_tags(number, **moments.tags())

    def verify(self, dataset, name):
        """Raise :class:`MapWriteError` where the file does not hold what was written."""
        for block, expected in self._sums.items():
            values = dataset.read(window=block.rasterio_window())
            if zlib.crc32(np.ascontiguousarray(values)) != expected:
                raise MapWriteError(
                    f"Rows {block.top} to {block.bottom} of '{name}' did not reach the file. Is "
                    "the disk full? Nothing was left under that name."
                )


class _Moments:
    """Range, mean and deviation of the finite values of a band, block by block."""

    def __init__(self):
        self.n_pixels = self.n_valid = 0
        self.minimum, self.maximum, self.mean, self.scatter = math.inf, -math.inf, 0.0, 0.0

    def add(self, band):
        self.n_pixels += band.size
        values = band[np.isfinite(band)]
        if not values.size:
            return
        self.minimum = min(self.minimum, float(values.min()))
        self.maximum = max(self.maximum, float(values.max()))
        # Chan, Golub and LeVeque (1983): means and squared deviations of two parts joined.
        mean, n_valid = float(values.mean(dtype=np.float64)), self.n_valid + values.size
        gap = mean - self.mean
        self.scatter += float(np.square(values - mean, dtype=np.float64).sum())
        self.scatter += gap**2 * self.n_valid * values.size / n_valid
        self.mean += gap * values.size / n_valid
        self.n_valid = n_valid

    def tags(self):
        if not self.n_valid:
            return {}
        return {
            "STATISTICS_MINIMUM": self.minimum,
            "STATISTICS_MAXIMUM": self.maximum,
            "STATISTICS_MEAN": self.mean,
            "STATISTICS_STDDEV": math.sqrt(self.scatter / self.n_valid),
            "STATISTICS_VALID_PERCENT": 100 * self.n_valid / self.n_pixels,
        }


@contextmanager
def raster_sink(
    path,
    scene,
    *,
    n_bands,
    dtype,
    nodata,
    classes=None,
    descriptions=None,
    style=None,
    cog=False,
):
    """Open an output raster on the grid of a scene; it appears at ``path`` when all went well.

    Parameters
    ----------
    path : pathlib.Path
    scene : Scene
        Gives size, coordinate system and geotransform.
    n_bands : int
    dtype : str
    nodata : float
    classes : ClassTable, optional
        Colours and names, for a class map.
    descriptions : list of str, optional
        Names of the bands.
    style : bytes, optional
        What to write beside it for QGIS, see :func:`style_path`.
    cog : bool, default=False
        Whether to write a cloud-optimised GeoTIFF.

    Yields
    ------
    RasterSink
    """
    rasterio = import_optional("rasterio", feature="Writing maps", extra="raster")
    height, width, _ = scene.shape
    profile = {
        "driver": "GTiff",
        "height": height,
        "width": width,
        "count": n_bands,
        "dtype": dtype,
        "nodata": nodata,
        "crs": scene.crs,
        "compress": "none" if cog else "deflate",  # a draft is compressed when it is copied
        "tiled": True,
        "blockxsize": _TILE,
        "blockysize": _TILE,
        "interleave": "band",
        "BIGTIFF": "IF_SAFER",
        **({} if scene.transform is None else {"transform": scene.transform}),
    }
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        stack.enter_context(rasterio.Env(GDAL_CACHEMAX=_CACHE_BYTES))
        if style is not None:  # moved into its place after the raster
            stack.enter_context(atomic_path(style_path(path))).write_bytes(style)
        temporary = stack.enter_context(atomic_path(path))
        try:
            draft = temporary.with_name("draft.tif") if cog else temporary
            with rasterio.open(draft, "w", **profile) as dataset:
                dataset.update_tags(software=f"jplay {__version__}")
                if descriptions is not None:
                    dataset.descriptions = descriptions
                if classes is not None:
                    dataset.write_colormap(1, classes.palette())
                    dataset.update_tags(class_names=json.dumps(classes.names))
                sink = RasterSink(dataset, is_class_map=classes is not None)
                yield sink
                sink.write_statistics()
            if cog:
                import rasterio.shutil

                with rasterio.Env(GDAL_CACHEMAX=_COPY_CACHE_BYTES):
                    rasterio.shutil.copy(
                        draft, temporary, driver="COG", COMPRESS="DEFLATE", BIGTIFF="IF_SAFER"
                    )
            with rasterio.open(temporary) as dataset:
                sink.verify(dataset, path)
        except (rasterio.errors.RasterioError, rasterio._err.CPLE_BaseError) as error:
            raise MapWriteError(
                f"'{path}' could not be written ({error}). Is the disk full? Nothing was left "
                "under that name."
            ) from error
        if classes is not None:
            temporary.with_name(temporary.name + ".aux.xml").write_bytes(
                classes.auxiliary_xml(sink.class_pixels)
            )


def style_path(path):
    """Where QGIS looks for the style of a raster."""
    return path.with_suffix(".qml")


class ClassTable:
    """Codes of the classes on a map, with names and colours; code 0 is no data.

    Parameters
    ----------
    codes : sequence of int
    names : sequence of str
    colors : sequence of (red, green, blue)
    """

    def __init__(self, codes, names, colors):
        self.names = {
            0: NO_DATA,
            **{int(code): str(name) for code, name in zip(codes, names, strict=True)},
        }
        self.colors = {
            int(code): tuple(int(part) for part in color)
            for code, color in zip(codes, colors, strict=True)
        }

    @property
    def dtype(self):
        """Smallest type that holds every code."""
        return "uint8" if max(self.names) <= 255 else "uint16"

    def palette(self):
        """Colours with opacity by code, as GDAL takes them."""
        return {0: (0, 0, 0, 0)} | {code: (*color, 255) for code, color in self.colors.items()}

    def auxiliary_xml(self, class_pixels):
        """Category names and pixels per class in the file that GDAL keeps beside a raster.

        GeoTIFF has no place for them.
        """
        root = ElementTree.Element("PAMDataset")
        band = ElementTree.SubElement(root, "PAMRasterBand", band="1")
        categories = ElementTree.SubElement(band, "CategoryNames")
        for code in range(max(self.names) + 1):
            ElementTree.SubElement(categories, "Category").text = self.names.get(code, "")
        self._add_attribute_table(band, class_pixels)
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="utf-8") + b"\n"

    def _add_attribute_table(self, band, class_pixels):
        table = ElementTree.SubElement(band, "GDALRasterAttributeTable", tableType="thematic")
        for index, (title, kind, usage) in enumerate(_ATTRIBUTES):
            field = ElementTree.SubElement(table, "FieldDefn", index=str(index))
            for tag, text in (("Name", title), ("Type", kind), ("Usage", usage)):
                ElementTree.SubElement(field, tag).text = str(text)
        for index, (code, color) in enumerate(sorted(self.colors.items())):
            row = ElementTree.SubElement(table, "Row", index=str(index))
            count = int(class_pixels[code]) if code < len(class_pixels) else 0
            for value in (code, count, self.names[code], *color):
                ElementTree.SubElement(row, "F").text = str(value)


_ATTRIBUTES = (
    ("Value", 0, 5),
    ("Count", 0, 1),
    ("Class", 2, 2),
    ("Red", 0, 6),
    ("Green", 0, 7),
    ("Blue", 0, 8),
)
"""Columns of the attribute table with GDAL's numbers of type (0 integer, 2 text) and usage."""
