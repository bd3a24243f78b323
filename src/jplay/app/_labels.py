"""Classes, polygons and points that a person drew on a scene, in pixels of the image."""

import json
import math
import re

import numpy as np

from jplay._optional import import_optional
from jplay.palette import class_colors
from jplay.raster import Block

MAX_CLASSES = 255
MAX_SHAPES = 5000
MAX_VERTICES = 5000
MAX_NAME = 80
FEW_PIXELS = 10
MAX_PIXELS = 20_000
"""A larger polygon is read on a coarser grid."""
_COLOR = re.compile(r"#[0-9a-f]{6}")
_IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,40}")


def color_of(number):
    """Colour of the class with this number, from 1, as hexadecimal text."""
    return "#{:02x}{:02x}{:02x}".format(*class_colors(number)[-1].tolist())


def checked_class(values, number):
    """Return a class with a name and a colour, or raise an error that names what is wrong."""
    name = " ".join(str(values.get("name") or "").split())[:MAX_NAME] or f"Class {number}"
    color = str(values.get("color") or color_of(number)).lower()
    if not _COLOR.fullmatch(color):
        raise ValueError(f"`color` should be like #1f77b4, got {color!r}.")
    return {"id": number, "name": name, "color": color}


def checked_shape(identifier, values, classes, height, width):
    """Return a shape with its rings in pixels, or raise an error that names what is wrong."""
    if not _IDENTIFIER.fullmatch(identifier):
        raise ValueError("The name of a shape should be letters and digits.")
    if values.get("class") not in {one["id"] for one in classes}:
        raise ValueError("The shape's class does not exist any more. Choose another class.")
    kind = values.get("kind")
    rings = [[_point(point) for point in ring] for ring in values.get("rings") or []]
    fewest = {"polygon": 3, "point": 1}.get(kind)
    if fewest is None or not rings or any(len(ring) < fewest for ring in rings):
        raise ValueError("A polygon needs at least three corners, a point one.")
    if sum(len(ring) for ring in rings) > MAX_VERTICES:
        raise ValueError(f"A shape has at most {MAX_VERTICES} corners. Draw it more simply.")
    shape = {"id": identifier, "class": values["class"], "kind": kind, "rings": rings}
    if not len(pixels_of(shape, height, width)[0]):
        raise ValueError(
            f"This {kind} covers no pixel of the image. Draw it inside the image, and larger than "
            "a pixel."
        )
    return shape


def _point(point):
    x, y = (float(value) for value in point)
    if not (math.isfinite(x) and math.isfinite(y) and max(abs(x), abs(y)) < 1e7):
        raise ValueError("The corners of a shape should be finite numbers.")
    return [round(x, 3), round(y, 3)]


def pixels_of(shape, height, width):
    """Rows, columns and spacing of the pixels whose centre is inside a shape."""
    if shape["kind"] == "point":
        x, y = shape["rings"][0][0]
        inside = 0 <= x < width and 0 <= y < height
        return np.array([int(y)] * inside, int), np.array([int(x)] * inside, int), 1
    corners = np.array(shape["rings"][0])
    left, top = np.floor(np.clip(corners.min(axis=0), 0, (width, height))).astype(int)
    right, bottom = np.ceil(np.clip(corners.max(axis=0), 0, (width, height))).astype(int)
    if right <= left or bottom <= top:
        return np.empty(0, int), np.empty(0, int), 1
    features = import_optional("rasterio.features", feature="Drawing labels", extra="app")
    from affine import Affine

    step = max(1, math.ceil(math.sqrt((right - left) * (bottom - top) / MAX_PIXELS / 4)))
    # The centre of a coarse cell lies on the centre of the pixel that is read for it.
    grid = Affine(step, 0, left - (step - 1) / 2, 0, step, top - (step - 1) / 2)
    mask = features.geometry_mask(
        [{"type": "Polygon", "coordinates": shape["rings"]}],
        (-(-(bottom - top) // step), -(-(right - left) // step)),
        grid,
        invert=True,
    )
    rows, columns = np.nonzero(mask)
    return top + step * rows, left + step * columns, step


def read_pixels(on_screen, shape):
    """Read what a shape covers: rows, columns, spectra; pixels without data are left out."""
    rows, columns, step = pixels_of(shape, on_screen.height, on_screen.width)
    top, left = rows.min(), columns.min()
    block = Block(int(top), int(rows.max()) + 1, int(left), int(columns.max()) + 1)
    X, valid = on_screen.read(block, on_screen.good, step)
    width = -(-block.shape[1] // step)
    places = (rows - top) // step * width + (columns - left) // step
    kept = valid[places]
    return rows[kept], columns[kept], X[places[kept]].astype(np.float64)


def as_geojson(labels, scene):
    """Shapes as GeoJSON features, in the scene's coordinates if it has any, else in pixels."""
    names = {one["id"]: one for one in labels["classes"]}

    def placed(point):
        return list(point if scene.transform is None else _moved(scene.transform, point))

    features = []
    for shape in labels["shapes"]:
        rings = [[placed(point) for point in ring] for ring in shape["rings"]]
        if shape["kind"] == "point":
            x, y = shape["rings"][0][0]
            geometry = {"type": "Point", "coordinates": placed((int(x) + 0.5, int(y) + 0.5))}
        else:
            closed = [[*ring, ring[0]] for ring in rings]
            geometry = {"type": "Polygon", "coordinates": closed}
        one = names[shape["class"]]
        properties = {"class": one["name"], "code": one["id"], "color": one["color"]}
        features.append({"type": "Feature", "properties": properties, "geometry": geometry})
    return {"type": "FeatureCollection", "features": features}


def as_frame(labels, scene):
    """Shapes as a GeoDataFrame with the scene's coordinate system."""
    geopandas = import_optional("geopandas", feature="Writing polygons", extra="app")
    features = as_geojson(labels, scene)["features"]
    columns = ["class", "code", "color", "geometry"]
    return geopandas.GeoDataFrame.from_features(features, crs=scene.crs, columns=columns)


def write_geojson(labels, scene, path):
    """Write shapes as GeoJSON, with the name of the coordinate system as QGIS reads it."""
    collection = as_geojson(labels, scene)
    authority = None if scene.crs is None else scene.crs.to_authority()
    if authority is not None:
        name = f"urn:ogc:def:crs:{authority[0]}::{authority[1]}"
        collection["crs"] = {"type": "name", "properties": {"name": name}}
    path.write_text(json.dumps(collection), encoding="utf-8")


def read_shapes(path, scene):
    """Read polygons and points from a GeoPackage or GeoJSON file.

    The content decides, not the name: GDAL would open a file that names other files.

    Returns
    -------
    list of (name, color or None, kind, rings)
        Rings in pixels of the image.
    """
    geopandas = import_optional("geopandas", feature="Reading polygons", extra="app")
    with path.open("rb") as file:
        is_package = file.read(16) == b"SQLite format 3\0"
    if is_package:
        frame = geopandas.read_file(f"GPKG:{path}", engine="pyogrio")
    else:
        frame = _from_geojson(path, geopandas)
    if scene.transform is not None and scene.crs is not None and frame.crs is not None:
        frame = frame.to_crs(scene.crs)
    attributes = [name for name in frame.columns if name != frame.geometry.name]
    named = [n for n in attributes if str(n).lower() in ("class", "klass", "class_name", "label")]
    field = (named or attributes or [None])[0]
    if field is None:
        raise ValueError("The file has no attribute with the class. Add one, named 'class'.")
    inverse = (lambda point: point) if scene.transform is None else _inverse(scene.transform)
    colors = frame["color"] if "color" in attributes else [None] * len(frame)
    found = []
    for name, color, geometry in zip(frame[field], colors, frame.geometry, strict=True):
        if geometry is None or geometry.is_empty or name is None or name != name:
            continue
        if isinstance(name, float) and name.is_integer():
            name = int(name)
        known = color if isinstance(color, str) and _COLOR.fullmatch(color) else None
        for part in getattr(geometry, "geoms", [geometry]):
            if part.geom_type == "Polygon":
                loops = [part.exterior, *part.interiors]
                rings = [[inverse(point[:2]) for point in loop.coords[:-1]] for loop in loops]
                found.append((str(name), known, "polygon", rings))
            elif part.geom_type == "Point":
                found.append((str(name), known, "point", [[inverse((part.x, part.y))]]))
    if not found:
        raise ValueError("The file has no polygon and no point with a class.")
    return found


def _from_geojson(path, geopandas):
    try:
        collection = json.loads(path.read_text(encoding="utf-8"))
        features = collection["features"]
        name = collection.get("crs", {}).get("properties", {}).get("name", "EPSG:4326")
        return geopandas.GeoDataFrame.from_features(features, crs=name)
    except Exception as error:  # parsers raise whatever a wrong byte leads them to
        raise ValueError(
            f"The file is neither a GeoPackage nor GeoJSON ({error}). Save the polygons as one of "
            "them."
        ) from error


def _inverse(transform):
    back = ~transform
    return lambda point: _moved(back, point)


def _moved(transform, point):
    """Apply an affine map to a point."""
    (a, b, c, d, e, f), (x, y) = transform[:6], point
    return a * x + b * y + c, d * x + e * y + f
