"""Known classes of some pixels, from a raster or from polygons."""

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from jplay._optional import import_optional
from jplay.exceptions import CorruptFileError

VECTOR_SUFFIXES = (".gpkg", ".geojson", ".json", ".shp", ".fgb")
LARGEST_CODE = 65535
_PLACE_COLUMNS = ("id", "row", "column", "x", "y")


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
    has_codes : bool
        False if the source has names only, to which codes were given in alphabetical order.
    read_fields : callable or None
        From a ``Block`` to the number of the polygon of each pixel, if there are polygons.
    """

    read: Any
    names: dict[int, str]
    colors: dict[int, tuple[int, int, int]]
    source: str
    has_codes: bool = True
    read_fields: Any = None


def open_labels(source, scene, *, field=None):
    """Take training or reference labels on the grid of a scene.

    Parameters
    ----------
    source : str, path-like, array of shape (height, width), DataArray, GeoDataFrame or Labels
        An array of class codes (with names in ``attrs["class_names"]`` if it is a DataArray),
        a raster of class codes on the scene's grid (GeoTIFF, ENVI, MATLAB, NumPy; 0 and the nodata
        value mean no label), polygons or points in any coordinate system (GeoPackage, GeoJSON,
        shapefile), or a CSV table of single pixels with columns ``row`` and ``column`` (from 0),
        or ``x`` and ``y`` in the scene's coordinate system.
    scene : Scene
    field : str, optional
        Attribute of the polygons, points or table with the class, as numbers from 1 or as names;
        the only one by default. For a MATLAB file or an NPZ, the name of the array.

    Returns
    -------
    Labels
    """
    if isinstance(source, Labels):
        return source
    if hasattr(source, "geometry"):
        return _from_vectors(source, scene, field, "polygons")
    if not isinstance(source, (str, Path)):
        names = getattr(source, "attrs", {}).get("class_names", {})
        return _from_array(np.asarray(source), scene, "labels", names)
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(
            f"The labels '{path}' do not exist. Check the name, or give the full path."
        )
    if path.suffix.lower() in VECTOR_SUFFIXES:
        return _from_vectors(_read_polygons(path), scene, field, str(path))
    if path.suffix.lower() == ".csv":
        return _from_table(path, scene, field)
    if path.suffix.lower() in (".mat", ".npy", ".npz"):
        return _from_array(_read_array(path, field), scene, str(path))
    return _from_raster(path, scene)


def _read_array(path, field):
    from jplay.datasets.readers import read_arrays

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


def _from_array(codes, scene, source, names=()):
    _check_shape(codes.shape, scene, source)
    codes = _as_codes(codes, source)

    def read(block):
        return codes[block.top : block.bottom, block.left : block.right]

    names = json.loads(names) if isinstance(names, str) else dict(names)
    names = {int(code): str(name) for code, name in names.items()}
    return Labels(read=read, names=names, colors={}, source=source)


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
    from jplay.raster._gdal import open_raster
    from jplay.raster._open import envi_header, raster_source

    header = envi_header(Path(path))
    names = {}
    if header is not None:
        listed = header.entries.get("class names") or []
        names = {code: str(name) for code, name in enumerate(listed) if code > 0}
    data_path, driver = raster_source(Path(path), header)
    with open_raster(data_path, driver) as dataset:
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
    names = names or _category_names(Path(f"{data_path}.aux.xml"))
    colors = {
        int(code): (int(color[0]), int(color[1]), int(color[2]))
        for code, color in palette.items()
        if code > 0 and any(color[:3])
    }
    return names, colors


def _category_names(path):
    """Names of the classes that GDAL keeps in a file beside a raster."""
    try:
        found = ElementTree.parse(path).findall("PAMRasterBand[@band='1']/CategoryNames/Category")
    except (OSError, ElementTree.ParseError):
        return {}
    return {code: entry.text for code, entry in enumerate(found) if code > 0 and entry.text}


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


def _from_vectors(shapes, scene, field, source):
    """Labels from polygons, or from points."""
    if scene.transform is None:
        raise ValueError(
            f"'{scene.name}' is not georeferenced, so polygons cannot be laid over it. Give labels "
            "as a raster, or as a CSV table with columns row and column."
        )
    if scene.crs is not None and shapes.crs is not None and shapes.crs != scene.crs:
        shapes = shapes.to_crs(scene.crs)
    attributes = [name for name in shapes.columns if name != shapes.geometry.name]
    field = _class_field(attributes, field, source)
    shapes = shapes[~shapes.geometry.isna() & ~shapes.geometry.is_empty]
    codes, names, has_codes = _attribute_codes(shapes[field], source)
    shapes, codes = shapes[codes > 0], codes[codes > 0]
    fields = None
    if len(shapes) and (shapes.geometry.geom_type == "Point").all():
        rows, columns = _pixels_at(shapes.geometry.x, shapes.geometry.y, scene)
        read = _pixel_reader(rows, columns, codes, scene, source)
    else:
        read = _polygon_reader(shapes, codes, scene)
        fields = _polygon_reader(shapes, np.arange(1, len(shapes) + 1), scene)
    return Labels(
        read=read, names=names, colors={}, source=source, has_codes=has_codes, read_fields=fields
    )


def _from_table(path, scene, field):
    """Labels of single pixels from a CSV table."""
    pandas = import_optional("pandas", feature="Reading tables of pixels", extra="raster")
    try:
        table = pandas.read_csv(path)
    except (ValueError, pandas.errors.ParserError) as error:
        raise CorruptFileError(f"'{path}' cannot be read as a CSV table ({error}).") from error
    field = _class_field(list(table.columns), field, str(path))
    codes, names, has_codes = _attribute_codes(table[field], str(path))
    table, codes = table[codes > 0], codes[codes > 0]
    if {"row", "column"} <= set(table.columns):
        rows, columns = (_as_positions(table[name], path) for name in ("row", "column"))
    elif {"x", "y"} <= set(table.columns) and scene.transform is not None:
        rows, columns = _pixels_at(table["x"], table["y"], scene)
    else:
        raise ValueError(
            f"'{path}' should have the columns row and column (from 0), or x and y if the scene "
            f"is georeferenced, found {', '.join(map(str, table.columns))}."
        )
    read = _pixel_reader(rows, columns, codes, scene, str(path))
    return Labels(read=read, names=names, colors={}, source=str(path), has_codes=has_codes)


def _as_positions(values, path):
    values = values.to_numpy()
    if values.dtype.kind not in "iuf" or (values != np.floor(values)).any():
        raise ValueError(f"'{path}' should have whole numbers as row and column.")
    return values.astype(np.int64)


def _pixels_at(x, y, scene):
    """Rows and columns of the pixels that contain places of the map."""
    a, b, c, d, e, f = (~scene.transform)[:6]
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    columns, rows = a * x + b * y + c, d * x + e * y + f
    return np.floor(rows).astype(np.int64), np.floor(columns).astype(np.int64)


def _pixel_reader(rows, columns, codes, scene, source):
    height, width = scene.shape[:2]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    rows, columns, codes = rows[inside], columns[inside], codes[inside]
    order = np.lexsort((columns, rows))
    rows, columns, codes = rows[order], columns[order], codes[order]
    again = (np.diff(rows) == 0) & (np.diff(columns) == 0)
    if (again & (np.diff(codes) != 0)).any():
        first = int(np.flatnonzero(again & (np.diff(codes) != 0))[0])
        raise ValueError(
            f"'{source}' gives two classes to one pixel (row {rows[first]}, column "
            f"{columns[first]}). Keep one of them."
        )

    def read(block):
        here = slice(*np.searchsorted(rows, [block.top, block.bottom]))
        near = (columns[here] >= block.left) & (columns[here] < block.right)
        labels = np.zeros(block.shape, dtype=np.int64)
        at = rows[here][near] - block.top, columns[here][near] - block.left
        labels[at] = codes[here][near]
        return labels

    return read


def _polygon_reader(polygons, codes, scene):
    features = import_optional("rasterio.features", feature="Labels from polygons", extra="raster")
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

    return read


def _outline(transform, shape):
    from shapely.geometry import Polygon

    (a, b, c, d, e, f), (height, width) = transform[:6], shape
    corners = [(0, 0), (width, 0), (width, height), (0, height)]
    return Polygon([(a * x + b * y + c, d * x + e * y + f) for x, y in corners])


def _class_field(attributes, field, source):
    if field is None:
        candidates = [name for name in attributes if name not in _PLACE_COLUMNS]
        if len(candidates) != 1:
            raise ValueError(
                f"`field` should name the attribute of '{source}' with the class, one of "
                f"{', '.join(map(str, attributes)) or 'none'}."
            )
        return candidates[0]
    if field not in attributes:
        raise ValueError(
            f"`field` should be an attribute of '{source}' "
            f"({', '.join(map(str, attributes)) or 'it has none'}), got {field!r}."
        )
    return field


def _attribute_codes(values, source):
    """Numbers stay; names are numbered from 1 in alphabetical order.

    Returns codes, names by code, and whether the codes are those of the source.
    """
    values = values.to_numpy()
    if values.dtype.kind in "biuf":
        return _as_codes(values, source), {}, True
    texts = np.array(["" if value is None or value != value else str(value) for value in values])
    known = sorted(set(texts.tolist()) - {""})
    number = {name: code for code, name in enumerate(known, start=1)} | {"": 0}
    codes = np.array([number[text] for text in texts], dtype=np.int64)
    return codes, {code: name for name, code in number.items() if code}, False
