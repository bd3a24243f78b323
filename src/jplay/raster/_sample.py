"""Reference pixels to look up: how many of each class of a map, and where."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from jplay._files import atomic_path
from jplay._optional import import_optional
from jplay.raster._area import SamplePlan, plan_sample
from jplay.raster._labels import open_labels
from jplay.raster._open import open_scene

_DRIVERS = {".gpkg": "GPKG", ".geojson": "GeoJSON", ".json": "GeoJSON"}


@dataclass(frozen=True, eq=False)
class ReferenceSample:
    """Pixels drawn at random within each class of a map; made by :func:`draw_sample`.

    Attributes
    ----------
    plan : SamplePlan
        Classes by name, and how many pixels of each.
    rows, columns : ndarray of int of shape (n_pixels,)
        In random order, so that they do not tell the class on the map.
    x, y : ndarray of shape (n_pixels,) or None
        Centres of the pixels in the map's coordinate system, if it has one.
    crs : rasterio.crs.CRS or None
    """

    plan: SamplePlan
    rows: np.ndarray
    columns: np.ndarray
    x: np.ndarray | None
    y: np.ndarray | None
    crs: object

    @staticmethod
    def checked_path(path):
        """Return the path of a file that :meth:`save` can write, or raise an error."""
        path = Path(path)
        if path.suffix.lower() not in (".csv", *_DRIVERS):
            raise ValueError(f"'{path}' should end in .csv, .gpkg or .geojson.")
        return path

    def save(self, path):
        """Write the pixels with an empty column ``class`` to fill in.

        Parameters
        ----------
        path : str or path-like
            A CSV table, or points as GeoPackage or GeoJSON, by the suffix.
        """
        path = self.checked_path(path)
        pandas = import_optional("pandas", feature="Writing samples", extra="raster")
        place = {} if self.x is None else {"x": self.x, "y": self.y}
        frame = pandas.DataFrame(
            {
                "id": np.arange(1, len(self.rows) + 1),
                "row": self.rows,
                "column": self.columns,
                **place,
                "class": np.full(len(self.rows), "", dtype=object),
            }
        )
        if path.suffix.lower() == ".csv":
            with atomic_path(path) as temporary:
                frame.to_csv(temporary, index=False)
            return
        if self.x is None:
            raise ValueError(
                f"'{path}' needs a map with coordinates, which this one has not. Write a CSV table."
            )
        geopandas = import_optional("geopandas", feature="Writing points", extra="raster")
        points = geopandas.points_from_xy(self.x, self.y)
        shapes = geopandas.GeoDataFrame(frame, geometry=points, crs=self.crs)
        with atomic_path(path) as temporary:
            shapes.to_file(temporary, driver=_DRIVERS[path.suffix.lower()], engine="pyogrio")


def draw_sample(
    map_path,
    *,
    half_width=0.02,
    users_accuracy=0.8,
    class_accuracy=None,
    minimum=50,
    n_pixels=None,
    exclude=None,
    confidence=0.95,
    random_state=0,
    progress=None,
):
    """Draw reference pixels from every class of a map, as many as a precision needs.

    The map is read twice, block by block: once to count its classes, once to find the pixels.

    Parameters
    ----------
    map_path : str, path-like or xarray.DataArray of shape (height, width)
        A raster of class codes, 0 where there is none.
    half_width, users_accuracy, minimum, confidence
        See :func:`plan_sample`.
    class_accuracy : dict of str to float, optional
        Expected user's accuracy of single classes by name, in place of ``users_accuracy``.
    n_pixels : int, optional
        Pixels of each class, in place of a plan for a precision.
    exclude : str, path-like, array or GeoDataFrame, optional
        Labels of pixels not to draw, as those the model was trained on.
    random_state : int, RandomState instance or None, default=0
        Two draws with the same number are the same.
    progress : callable, optional
        Called with the number of pixels done and of all pixels, over both passes.

    Returns
    -------
    ReferenceSample

    Examples
    --------
    >>> import numpy as np
    >>> import xarray
    >>> from jplay.raster import draw_sample
    >>> codes = np.repeat([1, 2], 500).reshape(20, 50)
    >>> sample = draw_sample(xarray.DataArray(codes, dims=("y", "x")), n_pixels=30)
    >>> np.bincount(codes[sample.rows, sample.columns]).tolist()
    [0, 30, 30]
    """
    is_array = hasattr(map_path, "dims") and map_path.ndim == 2
    scene = open_scene(map_path.expand_dims("band", axis=2) if is_array else map_path)
    labels = open_labels(map_path, scene)
    left_out = None if exclude is None else open_labels(exclude, scene)
    blocks = scene.blocks()
    tick = _Ticker(progress, 2 * scene.n_pixels)
    mapped, free = Counter(), Counter()
    for block in blocks:
        codes = labels.read(block)
        mapped.update(_counts(codes))
        free.update(_counts(_free(codes, left_out, block)))
        tick(block)
    classes = sorted(code for code in mapped if code > 0)
    if not classes:
        raise ValueError(f"'{scene.name}' has no pixel with a class. Give a class map.")
    names = [labels.names.get(code, f"class {code}") for code in classes]
    plan = plan_sample(
        [mapped[code] for code in classes],
        half_width=half_width,
        users_accuracy=_expected(users_accuracy, class_accuracy or {}, names),
        minimum=minimum,
        classes=names,
        confidence=confidence,
    )
    wanted = plan.n_pixels if n_pixels is None else np.full(len(classes), n_pixels)
    plan = plan.with_pixels(np.minimum(wanted, [free[code] for code in classes]))
    rng = check_random_state(random_state)
    numbers = {
        code: np.sort(sample_without_replacement(free[code], n_wanted, random_state=rng))
        for code, n_wanted in zip(classes, plan.n_pixels, strict=True)
    }
    rows, columns = _found(numbers, blocks, labels, left_out, tick)
    order = rng.permutation(len(rows))
    rows, columns = rows[order], columns[order]
    x, y = _centres(rows, columns, scene)
    return ReferenceSample(plan=plan, rows=rows, columns=columns, x=x, y=y, crs=scene.crs)


class _Ticker:
    def __init__(self, progress, total):
        self._progress, self._total, self._done = progress, total, 0

    def __call__(self, block):
        self._done += block.n_pixels
        if self._progress is not None:
            self._progress(self._done, self._total)


def _counts(codes):
    values, counts = np.unique(codes, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _free(codes, left_out, block):
    return codes if left_out is None else np.where(left_out.read(block) > 0, 0, codes)


def _expected(users_accuracy, class_accuracy, names):
    unknown = set(class_accuracy) - set(names)
    if unknown:
        raise ValueError(
            f"`class_accuracy` should name classes of the map ({', '.join(names)}), got "
            f"{sorted(unknown)[0]!r}."
        )
    return [class_accuracy.get(name, users_accuracy) for name in names]


def _found(numbers, blocks, labels, left_out, tick):
    """Rows and columns of the pixels with given numbers within their class."""
    seen, rows, columns = Counter(), [], []
    for block in blocks:
        codes = _free(labels.read(block), left_out, block)
        for code, count in _counts(codes).items():
            if code in numbers:
                first, last = np.searchsorted(numbers[code], [seen[code], seen[code] + count])
                inside = numbers[code][first:last] - seen[code]
                down, right = np.unravel_index(np.flatnonzero(codes == code)[inside], codes.shape)
                rows.append(block.top + down)
                columns.append(block.left + right)
                seen[code] += count
        tick(block)
    return np.concatenate(rows), np.concatenate(columns)


def _centres(rows, columns, scene):
    if scene.transform is None:
        return None, None
    a, b, c, d, e, f = scene.transform[:6]
    right, down = columns + 0.5, rows + 0.5
    return a * right + b * down + c, d * right + e * down + f
