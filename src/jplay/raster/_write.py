"""Rasters that appear complete, and checked, or not at all."""

import json
import warnings
import zlib
from contextlib import ExitStack, contextmanager
from xml.etree import ElementTree

import numpy as np

from jplay import __version__
from jplay._optional import import_optional
from jplay.exceptions import MapWriteError
from jplay.persistence import atomic_path

UNCLASSIFIED = "unclassified"
_CACHE_BYTES = 128 * 2**20
_TILE = 256


class RasterSink:
    """Takes blocks of an output raster and remembers a checksum of each."""

    def __init__(self, dataset):
        self._dataset = dataset
        self._sums = {}

    def write(self, block, values):
        """Write an array of shape (height, width) or (n_bands, height, width)."""
        values = np.ascontiguousarray(values if values.ndim == 3 else values[np.newaxis])
        self._dataset.write(values, window=block.rasterio_window())
        self._sums[block] = zlib.crc32(values)

    def verify(self, dataset, name):
        """Raise :class:`MapWriteError` where the file does not hold what was written."""
        for block, expected in self._sums.items():
            values = dataset.read(window=block.rasterio_window())
            if zlib.crc32(np.ascontiguousarray(values)) != expected:
                raise MapWriteError(
                    f"Rows {block.top} to {block.bottom} of '{name}' did not reach the file. Is "
                    "the disk full? Nothing was left under that name."
                )


@contextmanager
def raster_sink(path, scene, *, n_bands, dtype, nodata, classes=None, descriptions=None, cog=False):
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
        "compress": "deflate",
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
                sink = RasterSink(dataset)
                yield sink
            if cog:
                import rasterio.shutil

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
            temporary.with_name(temporary.name + ".aux.xml").write_bytes(classes.auxiliary_xml())


class ClassTable:
    """Codes of the classes on a map, with names and colours; code 0 is no class.

    Parameters
    ----------
    codes : sequence of int
    names : sequence of str
    colors : sequence of (red, green, blue)
    """

    def __init__(self, codes, names, colors):
        self.names = {
            0: UNCLASSIFIED,
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

    def auxiliary_xml(self):
        """Category names in the file that GDAL keeps beside a raster: GeoTIFF has no place."""
        root = ElementTree.Element("PAMDataset")
        band = ElementTree.SubElement(root, "PAMRasterBand", band="1")
        categories = ElementTree.SubElement(band, "CategoryNames")
        for code in range(max(self.names) + 1):
            ElementTree.SubElement(categories, "Category").text = self.names.get(code, "")
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="utf-8") + b"\n"
