"""Classify every pixel of a scene, block by block."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from jplay.persistence import collapse_model
from jplay.persistence._model import as_trained_model
from jplay.raster._bands import select_bands
from jplay.raster._fit import default_colors
from jplay.raster._labels import LARGEST_CODE
from jplay.raster._open import open_scene
from jplay.raster._scene import BLOCK_BYTES
from jplay.raster._write import ClassTable, raster_sink


def map_scene(
    scene,
    model,
    path,
    *,
    scores=None,
    features=None,
    resample=False,
    block_bytes=BLOCK_BYTES,
    progress=None,
):
    """Write the class map of a scene as a GeoTIFF on the scene's grid.

    The scene is read, classified and written in blocks; two of them are in memory at a time. The
    map has a colour table and category names, 0 where a pixel has no data. Every file appears
    complete under its name or not at all.

    Parameters
    ----------
    scene : str, path-like, xarray.DataArray or Scene
        See :func:`open_scene`.
    model : TrainedModel, fitted classifier, str or path-like
        A string or path is loaded with :func:`jplay.persistence.load_model`.
    path : str or path-like
        Where to write the map.
    scores : str or path-like, optional
        Where to write the classes' scores, one band each, as a cloud-optimised GeoTIFF.
    features : str or path-like, optional
        Where to write the features of the last subspace, likewise.
    resample : bool, default=False
        Whether to interpolate the spectra to the model's wavelengths where the scene has others.
    block_bytes : int
        Most bytes of a block's spectra.
    progress : callable, optional
        Called with the number of pixels done and of all pixels.

    Returns
    -------
    pathlib.Path
        The map's.
    """
    scene, classifier = open_scene(scene), BlockClassifier(_loaded(model))
    bands = select_bands(scene, classifier.model, resample=resample)
    path = Path(path)
    _check_outputs(scene, [path, scores, features])
    table = classifier.table
    with ExitStack() as stack:
        open_sink = _sink_opener(stack, scene)
        class_sink = open_sink(path, 1, table.dtype, 0, classes=table)
        score_sink = scores and open_sink(
            Path(scores), *classifier.score_bands(), descriptions=classifier.score_names(), cog=True
        )
        feature_sink = features and open_sink(Path(features), *classifier.feature_bands(), cog=True)
        done = 0
        for block, X, valid in _prefetched(scene, bands, scene.blocks(block_bytes)):
            codes, block_scores, block_features = classifier(
                X, valid, scores=bool(scores), features=bool(features)
            )
            class_sink.write(block, codes.reshape(block.shape))
            if score_sink:
                score_sink.write(block, _as_bands(block_scores, block))
            if feature_sink:
                feature_sink.write(block, _as_bands(block_features, block))
            done += block.n_pixels
            if progress is not None:
                progress(done, scene.n_pixels)
    return path


def predict_scene(scene, model, *, resample=False, block_bytes=BLOCK_BYTES):
    """Class map of a scene in memory.

    Parameters
    ----------
    scene, model, resample, block_bytes
        See :func:`map_scene`.

    Returns
    -------
    xarray.DataArray of shape (height, width)
        Class codes with the scene's coordinates, 0 where a pixel has no data. ``attrs`` has
        ``class_names``, a dict from code to name.
    """
    import xarray

    scene, classifier = open_scene(scene), BlockClassifier(_loaded(model))
    bands = select_bands(scene, classifier.model, resample=resample)
    codes = np.zeros(scene.shape[:2], dtype=classifier.table.dtype)
    for block, X, valid in _prefetched(scene, bands, scene.blocks(block_bytes)):
        found, _, _ = classifier(X, valid)
        codes[block.top : block.bottom, block.left : block.right] = found.reshape(block.shape)
    y, x, band = scene.dims
    coords = {
        name: values for name, values in scene.array.coords.items() if band not in values.dims
    }
    return xarray.DataArray(
        codes,
        dims=(y, x),
        coords=coords,
        name="class",
        attrs={"class_names": classifier.table.names, "_FillValue": 0},
    )


class BlockClassifier:
    """Predicts the spectra of blocks with whatever a model offers.

    A J-Play behind a per-sample scaling is one matrix product from the bands to the scores; it
    is used in that form, in float32. Any other estimator predicts by itself.

    Parameters
    ----------
    model : TrainedModel
    """

    def __init__(self, model):
        self.model = model
        if getattr(model.final_step, "_multilabel", False):
            raise ValueError(
                "`model` should give every pixel one class, got a multi-label model. Fit it to "
                "one class per pixel."
            )
        self.codes = _class_codes(model.classes)
        metadata = model.metadata
        colors = metadata.class_colors or list(default_colors(self.codes).values())
        self.table = ClassTable(self.codes, metadata.class_names, colors)
        try:
            self._collapsed = collapse_model(model)
        except TypeError:
            self._collapsed = None

    def __call__(self, X, valid, *, scores=False, features=False):
        """Codes, scores and features of pixels; 0 or NaN where ``valid`` is false."""
        codes = np.zeros(len(X), dtype=self.table.dtype)
        if not valid.any():
            return (
                codes,
                _missing(len(X), self.score_bands()[0]) if scores else None,
                _missing(len(X), self.feature_bands()[0]) if features else None,
            )
        used = X if valid.all() else X[valid]
        positions, used_scores, used_features = self._predict(used, scores, features)
        codes[valid] = self.codes[positions]
        return codes, _spread(used_scores, valid), _spread(used_features, valid)

    def _predict(self, X, scores, features):
        if self._collapsed is not None:
            return self._predict_collapsed(X, scores, features)
        X = np.asarray(X, dtype=np.float64 if X.dtype == np.float64 else np.float32)
        positions = np.searchsorted(self.model.classes, self.model.predict(X))
        return (
            positions,
            getattr(self.model.estimator, self._score_method())(X) if scores else None,
            self.model.transform(X) if features else None,
        )

    def _predict_collapsed(self, X, scores, features):
        model = self._collapsed
        X = np.asarray(X, dtype=np.float32)
        scale = _norms(X, model.norm)
        if features:
            Z = _affine(X, scale, model.components, model.intercept)
            f = Z @ model.label_coef.T.astype(np.float32) + model.label_intercept.astype(np.float32)
        else:
            coef = model.label_coef @ model.components
            intercept = model.label_coef @ model.intercept + model.label_intercept
            Z, f = None, _affine(X, scale, coef, intercept)
        positions = f.argmax(axis=1)
        if not scores:
            f = None
        elif len(self.codes) == 2:
            f = f[:, 1] - f[:, 0]
        return positions, f, Z

    def score_bands(self):
        """Number, type and missing value of the score raster's bands."""
        return len(self.score_names()), "float32", float("nan")

    def _score_method(self):
        for name in ("decision_function", "predict_proba"):
            if hasattr(self.model.estimator, name):
                return name
        raise ValueError(
            "`scores` needs a model with `decision_function` or `predict_proba`, got "
            f"{type(self.model.final_step).__name__}. Leave `scores` out."
        )

    def score_names(self):
        """One name per band of the score raster."""
        names = self.model.metadata.class_names
        if len(names) == 2 and self._score_method() == "decision_function":
            return [f"{names[1]} minus {names[0]}"]
        return list(names)

    def feature_bands(self):
        """Number, type and missing value of the feature raster's bands."""
        if not hasattr(self.model.estimator, "transform"):
            raise ValueError(
                "`features` needs a model with `transform`, got "
                f"{type(self.model.final_step).__name__}. Leave `features` out."
            )
        if self._collapsed is not None:
            n_bands = len(self._collapsed.components)
        else:
            n_bands = len(self.model.estimator.get_feature_names_out())
        return n_bands, "float32", float("nan")


def _check_outputs(scene, outputs):
    """Refuse to write over the scene, or two results to one file."""
    places = [Path(output).resolve() for output in outputs if output is not None]
    source = Path(scene.name).resolve()
    for number, place in enumerate(places):
        is_tiff = place.suffix.lower() in (".tif", ".tiff")
        beside = place.exists() and place.with_suffix("") == source.with_suffix("") and not is_tiff
        if place == source or beside:
            raise ValueError(f"'{place}' belongs to the scene. Write the map under another name.")
        if place in places[:number]:
            raise ValueError(f"'{place}' is named for two results. Give each its own file.")


def _loaded(model):
    if isinstance(model, (str, Path)):
        from jplay.persistence import load_model

        return load_model(model)
    return as_trained_model(model)


def _class_codes(classes):
    """Numbers on the map: the labels themselves where they can be, else 1, 2, ..."""
    if classes.dtype.kind in "iu" and classes.min() > 0 and classes.max() <= LARGEST_CODE:
        return classes.astype(np.int64)
    if len(classes) > LARGEST_CODE:
        raise ValueError(f"A map holds at most {LARGEST_CODE} classes, got {len(classes)}.")
    return np.arange(1, len(classes) + 1)


def _norms(X, norm):
    """Norm of each sample, 1 where it is zero; None where samples are not scaled."""
    if norm is None:
        return None
    if norm == "max":
        norms = np.maximum(X.max(axis=1), -X.min(axis=1))
    else:
        norms = np.linalg.norm(X, ord={"l1": 1, "l2": 2}[norm], axis=1)
    return np.where(norms == 0, np.float32(1), norms)[:, np.newaxis]


def _affine(X, scale, coef, intercept):
    """``(X / scale) @ coef.T + intercept``, scaling the short product instead of the samples."""
    result = X @ coef.T.astype(np.float32)
    if scale is not None:
        result /= scale
    result += intercept.astype(np.float32)
    return result


def _missing(n_pixels, n_bands):
    return np.full((n_pixels, n_bands), np.nan, dtype=np.float32)


def _spread(values, valid):
    if values is None:
        return None
    values = values.reshape(len(values), -1)
    spread = _missing(len(valid), values.shape[1])
    spread[valid] = values
    return spread


def _as_bands(values, block):
    return values.T.reshape(-1, *block.shape)


def _sink_opener(stack, scene):
    def open_sink(path, n_bands, dtype, nodata, **options):
        return stack.enter_context(
            raster_sink(path, scene, n_bands=n_bands, dtype=dtype, nodata=nodata, **options)
        )

    return open_sink


def _prefetched(scene, bands, blocks):
    """Blocks with the model's features, the next one read while one is worked on."""

    def read(block):
        X, valid = scene.read(block, bands.bands)
        return block, bands.features(X), valid

    with ThreadPoolExecutor(1, thread_name_prefix="jplay-read") as pool:
        coming = pool.submit(read, blocks[0])
        for following in [*blocks[1:], None]:
            current = coming.result()
            if following is not None:
                coming = pool.submit(read, following)
            yield current
