"""Known classes of some pixels, from a raster or from polygons."""

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jplay._optional import import_optional
from jplay.exceptions import CorruptFileError

VECTOR_SUFFIXES = (".gpkg", ".geojson", ".json", ".shp", ".fgb")
LARGEST_CODE = 65535


@dataclass(frozen=True, eq=False)
class Labels:
    """Class codes on the grid of a scene, read block by block; made by :func:`open_labels`.

    Attributes
    ----------
    read : callable
        From a ``Block`` to an array of its shape with class codes, 0 where none is known.
    names : dict of int to str
        Names of the classes that have one.
    colors : dict of int to (red, green, blue)
        Colours of the classes that have one.
    source : str
        For messages.
    """

    read: Any
    names: dict[int, str]
    colors: dict[int, tuple[int, int, int]]
    source: str


def open_labels(source, scene, *, field=None):
    """Take training or reference labels on the grid of a scene.

    Parameters
    ----------
    source : str, path-like, array of shape (height, width), DataArray, GeoDataFrame or Labels
        A raster of class codes on the scene's grid (GeoTIFF, ENVI, MATLAB, NumPy; 0 and the nodata
        value mean no label), or polygons in any coordinate system (GeoPackage, GeoJSON,
        shapefile).
    scene : Scene
    field : str, optional
        Attribute of the polygons with the class, as numbers from 1 or as names; the only one by
        default. For a MATLAB file or an NPZ, the name of the array.

    Returns
    -------
    Labels
    """
    if isinstance(source, Labels):
        return source
    if hasattr(source, "geometry"):
        return _from_polygons(source, scene, field, "polygons")
    if not isinstance(source, (str, Path)):
        return _from_array(np.asarray(source), scene, "labels")
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(
            f"The labels '{path}' do not exist. Check the name, or give the full path."
        )
    if path.suffix.lower() in VECTOR_SUFFIXES:
        return _from_polygons(_read_polygons(path), scene, field, str(path))
    if path.suffix.lower() in (".mat", ".npy", ".npz"):
        return _from_array(_read_array(path, field), scene, str(path))
    return _from_raster(path, scene)


def _read_array(path, field):
    from jplay.datasets._readers import read_arrays

    maps = {name: value for name, value in read_arrays(path).items() if value.ndim == 2}
    maps = {name: value for name, value in maps.items() if min(value.shape) > 1} or maps
    if field is not None and field in maps:
        return maps[field]
    if len(maps) != 1 or field is not None:
        raise ValueError(
            f"`field` should name one of the two-dimensional arrays of '{path}': "
            f"{', '.join(sorted(maps)) or 'it has none'}; got {field!r}."
        )
    return next(iter(maps.values()))


def _from_array(codes, scene, source):
    _check_shape(codes.shape, scene, source)
    codes = _as_codes(codes, source)

    def read(block):
        return codes[block.top : block.bottom, block.left : block.right]

    return Labels(read=read, names={}, colors={}, source=source)


def _from_raster(path, scene):
    from jplay.raster._open import open_scene

    opened = open_scene(path)
    if opened.n_bands != 1:
        raise ValueError(
            f"'{path}' should hold one band of class codes, found {opened.n_bands}. Give the "
            "label raster, not the image."
        )
    _check_shape(opened.shape[:2], scene, str(path))
    if not scene.same_grid(opened.transform, opened.crs):
        raise ValueError(
            f"'{path}' lies on another grid than '{scene.name}' (other geotransform or coordinate "
            "system). Warp it to the scene's grid first, for example with gdalwarp -r near."
        )
    names, colors = class_table(path)
    all_bands = np.array([0])

    def read(block):
        values, valid = opened.read(block, all_bands)
        codes = np.where(valid, values[:, 0], 0).reshape(block.shape)
        return _as_codes(codes, str(path))

    return Labels(read=read, names=names, colors=colors, source=str(path))


def class_table(path):
    """Names and colours of the classes that a raster file carries, each by code."""
    import rasterio

    from jplay.raster._open import envi_header, raster_source

    header = envi_header(Path(path))
    names = {}
    if header is not None:
        listed = header.entries.get("class names") or []
        names = {code: str(name) for code, name in enumerate(listed) if code > 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        data_path, driver = raster_source(Path(path), header)
        with rasterio.open(data_path, driver=driver) as dataset:
            text = dataset.tags().get("class_names")
            try:
                palette = dataset.colormap(1)
            except ValueError:
                palette = {}
    if text:
        try:
            names = {int(code): str(name) for code, name in json.loads(text).items()}
        except (ValueError, AttributeError):
            names = names or {}
    colors = {
        int(code): (int(color[0]), int(color[1]), int(color[2]))
        for code, color in palette.items()
        if code > 0 and any(color[:3])
    }
    return names, colors


def _check_shape(shape, scene, source):
    if tuple(shape) != scene.shape[:2]:
        raise ValueError(
            f"'{source}' should have {scene.shape[0]} x {scene.shape[1]} pixels, as "
            f"'{scene.name}' does, got {' x '.join(str(n) for n in shape)}. Use labels on the "
            "grid of the scene, or polygons."
        )


def _as_codes(codes, source):
    if codes.dtype.kind not in "buif":
        raise ValueError(f"'{source}' should hold class numbers, got {codes.dtype}.")
    if codes.dtype.kind == "f":
        codes = np.nan_to_num(codes)
    whole = codes.astype(np.int64)
    if (whole != codes).any() or whole.min(initial=0) < 0 or whole.max(initial=0) > LARGEST_CODE:
        raise ValueError(
            f"'{source}' should hold whole class numbers from 0 (no label) to {LARGEST_CODE}, "
            f"found values from {codes.min():g} to {codes.max():g}. Is it the label raster?"
        )
    return whole


def _read_polygons(path):
    geopandas = import_optional("geopandas", feature="Reading polygons", extra="raster")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of attributes that are not used here
            return geopandas.read_file(path, engine="pyogrio")
    except Exception as error:  # GDAL raises whatever a damaged byte leads it to
        raise CorruptFileError(
            f"'{path}' cannot be read as polygons ({error}). It is damaged or of another kind."
        ) from error


def _from_polygons(polygons, scene, field, source):
    features = import_optional("rasterio.features", feature="Labels from polygons", extra="raster")
    if scene.transform is None:
        raise ValueError(
            f"'{scene.name}' is not georeferenced, so polygons cannot be laid over it. Give labels "
            "as a raster."
        )
    if scene.crs is not None and polygons.crs is not None and polygons.crs != scene.crs:
        polygons = polygons.to_crs(scene.crs)
    field = _class_field(polygons, field, source)
    polygons = polygons[~polygons.geometry.isna() & ~polygons.geometry.is_empty]
    codes, names = _polygon_codes(polygons[field], source)
    polygons, codes = polygons[codes > 0], codes[codes > 0]
    index = polygons.sindex

    def read(block):
        transform = scene.block_transform(block)
        inside = np.sort(index.query(_outline(transform, block.shape)))
        if not len(inside):
            return np.zeros(block.shape, dtype=np.int64)
        shapes = zip(polygons.geometry.iloc[inside], codes[inside].tolist(), strict=True)
        return features.rasterize(
            shapes, out_shape=block.shape, transform=transform, fill=0, dtype="int32"
        ).astype(np.int64)

    return Labels(read=read, names=names, colors={}, source=source)


def _outline(transform, shape):
    from shapely.geometry import Polygon

    (a, b, c, d, e, f), (height, width) = transform[:6], shape
    corners = [(0, 0), (width, 0), (width, height), (0, height)]
    return Polygon([(a * x + b * y + c, d * x + e * y + f) for x, y in corners])


def _class_field(polygons, field, source):
    attributes = [name for name in polygons.columns if name != polygons.geometry.name]
    if field is None:
        if len(attributes) != 1:
            raise ValueError(
                f"`field` should name the attribute of '{source}' with the class, one of "
                f"{', '.join(map(str, attributes)) or 'none'}."
            )
        return attributes[0]
    if field not in attributes:
        raise ValueError(
            f"`field` should be an attribute of '{source}' "
            f"({', '.join(map(str, attributes)) or 'it has none'}), got {field!r}."
        )
    return field


def _polygon_codes(values, source):
    """Numbers stay; names are numbered from 1 in alphabetical order."""
    values = values.to_numpy()
    if values.dtype.kind in "biuf":
        return _as_codes(values, source), {}
    texts = np.array(["" if value is None or value != value else str(value) for value in values])
    known = sorted(set(texts.tolist()) - {""})
    number = {name: code for code, name in enumerate(known, start=1)} | {"": 0}
    codes = np.array([number[text] for text in texts], dtype=np.int64)
    return codes, {code: name for name, code in number.items() if code}
