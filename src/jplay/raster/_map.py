"""Classify every pixel of a scene, block by block."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from jplay.palette import BACKGROUND, class_colors
from jplay.persistence import as_trained_model, collapse_model, load_model
from jplay.raster._bands import select_bands
from jplay.raster._labels import LARGEST_CODE, open_labels
from jplay.raster._open import open_scene
from jplay.raster._scene import BLOCK_BYTES
from jplay.raster._style import class_style, share_style
from jplay.raster._write import UNCLASSIFIED, ClassTable, raster_sink

_LIKELIHOODS = {"probabilities", "confidence", "second"}
"""Results that need probabilities."""


def map_scene(
    scene,
    model,
    path,
    *,
    probabilities=None,
    confidence=None,
    second=None,
    scores=None,
    features=None,
    threshold=None,
    mask=None,
    resample=False,
    scale=None,
    cog=False,
    block_bytes=BLOCK_BYTES,
    progress=None,
):
    """Write the class map of a scene as a GeoTIFF on the scene's grid.

    The scene is read, classified and written in blocks; two of them are in memory at a time. The
    map has a colour table, category names and the number of pixels of each class, 0 where a pixel
    has no data, and a style for QGIS beside it (``map.qml``). Every file appears complete under
    its name or not at all.

    Parameters
    ----------
    scene : str, path-like, xarray.DataArray or Scene
        See :func:`open_scene`.
    model : TrainedModel, fitted classifier, str or path-like
        A string or path is loaded with :func:`jplay.persistence.load_model`.
    path : str or path-like
        Where to write the map; ends in ``.tif``.
    probabilities : str or path-like, optional
        Where to write the probability of every class, one band each, as a cloud-optimised GeoTIFF.
    confidence : str or path-like, optional
        Where to write the probability of the class on the map, likewise.
    second : str or path-like, optional
        Where to write a map of the most likely class but one.
    scores : str or path-like, optional
        Where to write the classes' scores, one band each, as a cloud-optimised GeoTIFF.
    features : str or path-like, optional
        Where to write the features of the last subspace, likewise.
    threshold : float, optional
        Pixels whose class has a smaller probability get the code after the last class, named
        "unclassified".
    mask : str, path-like, array or GeoDataFrame, optional
        Where to map, see :func:`open_labels`: a raster that is 0 elsewhere, or polygons. Other
        pixels get 0, as those without data.
    resample : bool, default=False
        Whether to interpolate the spectra to the model's wavelengths where the scene has others.
    scale : float, optional
        Factor from the values of the scene to those the model was fitted to, if they are in
        another unit.
    cog : bool, default=False
        Whether maps are cloud-optimised GeoTIFFs, too.
    block_bytes : int
        Maximum number of bytes of a block's spectra.
    progress : callable, optional
        Called with the number of pixels done and of all pixels.

    Returns
    -------
    pathlib.Path
        The map's.
    """
    scene, classifier = open_scene(scene), BlockClassifier(_loaded(model), threshold=threshold)
    bands = select_bands(scene, classifier.model, resample=resample, scale=scale)
    if mask is not None:
        scene = _masked(scene, mask)
    places = {
        "codes": path,
        "probabilities": probabilities,
        "confidence": confidence,
        "second": second,
        "scores": scores,
        "features": features,
    }
    places = {name: Path(place) for name, place in places.items() if place is not None}
    _check_outputs(scene, list(places.values()))
    with ExitStack() as stack:
        sinks = {
            name: stack.enter_context(raster_sink(place, scene, **classifier.layout(name, cog)))
            for name, place in places.items()
        }
        done = 0
        for block, X, valid in _prefetched(scene, bands, scene.blocks(block_bytes)):
            for name, values in classifier(X, valid, list(places)).items():
                sinks[name].write(block, _as_bands(values, block))
            done += block.n_pixels
            if progress is not None:
                progress(done, scene.n_pixels)
    return places["codes"]


def predict_scene(
    scene,
    model,
    *,
    probabilities=False,
    threshold=None,
    resample=False,
    scale=None,
    block_bytes=BLOCK_BYTES,
):
    """Class map of a scene as an xarray object with the scene's coordinates and reference system.

    A chunked array stays lazy: nothing is read until the result is computed or written.

    Parameters
    ----------
    scene, model, threshold, resample, scale, block_bytes
        See :func:`map_scene`.
    probabilities : bool, default=False
        Whether to return the probability of every class as well.

    Returns
    -------
    xarray.DataArray of shape (height, width), or xarray.Dataset
        Class codes, 0 where a pixel has no data. ``attrs`` has ``class_names``, a JSON object
        from code to name, as the tag of the GeoTIFF, and ``flag_values`` and ``flag_meanings`` of
        the CF conventions. With ``probabilities`` a Dataset with these as ``codes``, the most
        likely class but one as ``second``, ``confidence``, and ``probabilities`` along the axis
        ``class_name``.

    Examples
    --------
    >>> import xarray
    >>> from jplay.datasets import make_hyperspectral_scene
    >>> from jplay.raster import fit_scene, predict_scene
    >>> image = make_hyperspectral_scene(32, 32, n_bands=40, random_state=0)
    >>> array = xarray.DataArray(image.cube, dims=("y", "x", "band"))
    >>> model = fit_scene(array, image.ground_truth)
    >>> found = predict_scene(array, model, probabilities=True)
    >>> bool((found.confidence <= found.probabilities.max("class_name")).all())
    True
    """
    scene, classifier = open_scene(scene), BlockClassifier(_loaded(model), threshold=threshold)
    bands = select_bands(scene, classifier.model, resample=resample, scale=scale)
    wanted = ["codes"]
    if probabilities:
        wanted += ["second", "confidence", "probabilities"]
    if scene.array.chunks is not None:
        arrays = _lazy_arrays(scene, classifier, bands, wanted)
    else:
        arrays = _filled_arrays(scene, classifier, bands, wanted, block_bytes)
    result = in_place(arrays, scene)
    for name, array in result.items():
        array.attrs |= classifier.attributes(str(name))
    if not probabilities:
        return result["codes"]
    return result.assign_coords(class_name=list(classifier.model.metadata.class_names))


def _filled_arrays(scene, classifier, bands, wanted, block_bytes):
    import xarray

    y, x, _ = scene.dims
    layouts = {name: classifier.layout(name) for name in wanted}
    cubes = {
        name: np.zeros((layout["n_bands"], *scene.shape[:2]), dtype=layout["dtype"])
        for name, layout in layouts.items()
    }
    for block, X, valid in _prefetched(scene, bands, scene.blocks(block_bytes)):
        for name, values in classifier(X, valid, wanted).items():
            part = np.s_[:, block.top : block.bottom, block.left : block.right]
            cubes[name][part] = _as_bands(values, block)
    return {
        name: xarray.DataArray(cube, dims=("class_name", y, x))
        if name == "probabilities"
        else xarray.DataArray(cube[0], dims=(y, x))
        for name, cube in cubes.items()
    }


def _lazy_arrays(scene, classifier, bands, wanted):
    """The same by xarray, chunk by chunk, on whatever chunked array it knows.

    All results are one array, since not every kind of chunked array can have several from one
    function. Codes are exact in float32, being at most 65535.
    """
    import xarray

    band = scene.dims[2]
    layouts = [classifier.layout(name) for name in wanted]
    ends = np.cumsum([layout["n_bands"] for layout in layouts]).tolist()
    dtype = np.result_type(*(layout["dtype"] for layout in layouts))

    def predicted(cube):
        X = cube.reshape(-1, cube.shape[-1])[:, bands.bands]
        found = classifier(bands.features(X), scene.valid(X), wanted)
        stacked = np.concatenate([found[name] for name in wanted], axis=1, dtype=dtype)
        return stacked.reshape(*cube.shape[:-1], -1)

    stacked = xarray.apply_ufunc(
        predicted,
        _with_whole_spectra(scene.array, band),
        input_core_dims=[[band]],
        output_core_dims=[["class_name"]],
        exclude_dims={band},
        dask="parallelized",
        output_dtypes=[dtype],
        dask_gufunc_kwargs={"output_sizes": {"class_name": ends[-1]}},
    )
    arrays = {}
    for name, layout, end in zip(wanted, layouts, ends, strict=True):
        first = end - layout["n_bands"]
        part = slice(first, end) if name == "probabilities" else first
        arrays[name] = stacked.isel(class_name=part).astype(layout["dtype"])
    return arrays


def _with_whole_spectra(array, band):
    """The array with every band of a pixel in one chunk, of whichever kind its chunks are."""
    if len(array.chunksizes[band]) == 1:
        return array
    from xarray.namedarray.parallelcompat import get_chunked_array_type

    return array.chunk({band: -1}, chunked_array_type=get_chunked_array_type(array.data))


def in_place(arrays, scene):
    """A Dataset with the coordinates, the reference system and the geotransform of a scene."""
    import xarray

    y, x, band = scene.dims
    coords = {
        name: values for name, values in scene.array.coords.items() if band not in values.dims
    }
    transform = scene.transform
    if transform is not None and not transform.b and not transform.d:
        height, width, _ = scene.shape
        if x not in coords:
            coords[x] = transform.c + transform.a * (np.arange(width) + 0.5)
        if y not in coords:
            coords[y] = transform.f + transform.e * (np.arange(height) + 0.5)
    result = xarray.Dataset({name: array.drop_vars(array.coords) for name, array in arrays.items()})
    result = result.assign_coords(coords)
    if scene.crs is None:
        return result
    import rioxarray  # noqa: F401  adds the accessor .rio

    result = result.rio.set_spatial_dims(x_dim=x, y_dim=y).rio.write_crs(scene.crs)
    return result if transform is None else result.rio.write_transform(transform)


class BlockClassifier:
    """Predicts the spectra of blocks with whatever a model offers.

    A J-Play behind a per-sample scaling is one matrix product from the bands to the scores; it
    is used in that form, in float32. Any other estimator predicts by itself.

    Parameters
    ----------
    model : TrainedModel
    threshold : float, optional
        Smallest probability of a class that is put on the map.
    """

    def __init__(self, model, *, threshold=None):
        self.model, self.threshold = model, threshold
        if getattr(model.final_step, "multilabel_", False):
            raise ValueError(
                "`model` should give every pixel one class, got a multi-label model. Fit it to "
                "one class per pixel."
            )
        self.codes = _class_codes(model.classes)
        metadata = model.metadata
        colors = metadata.class_colors or class_colors(len(self.codes))
        self.second_table = ClassTable(self.codes, metadata.class_names, colors)
        self.table = self.second_table
        if threshold is not None:
            self._check_threshold()
            self.table = ClassTable(
                [*self.codes, self.unclassified],
                [*metadata.class_names, UNCLASSIFIED],
                [*colors, BACKGROUND],
            )
        try:
            self._collapsed = collapse_model(model)
        except TypeError:
            self._collapsed = None

    @property
    def unclassified(self):
        """Code of pixels below the threshold."""
        return int(self.codes.max()) + 1

    def _check_threshold(self):
        if not 0 < self.threshold <= 1:
            raise ValueError(
                f"`threshold` should be a probability between 0 and 1, got {self.threshold}."
            )
        self._probability_method("threshold")
        if self.unclassified > LARGEST_CODE:
            raise ValueError(
                f"`threshold` needs a code for unclassified pixels, but the classes have codes up "
                f"to {LARGEST_CODE}. Number them from 1."
            )

    def __call__(self, X, valid, wanted=("codes",)):
        """Arrays of shape (n_pixels, n_bands) by name; 0 or NaN where ``valid`` is false.

        Names are those of :meth:`layout`.
        """
        layouts = {name: self.layout(name) for name in wanted}
        result = {
            name: np.full((len(X), layout["n_bands"]), layout["nodata"], dtype=layout["dtype"])
            for name, layout in layouts.items()
        }
        if valid.any():
            used = X if valid.all() else X[valid]
            for name, values in self._predict(used, wanted).items():
                if name in result:
                    result[name][valid] = values.reshape(len(used), -1)
        return result

    def _predict(self, X, wanted):
        X = np.asarray(X, dtype=np.float64 if X.dtype == np.float64 else np.float32)
        if self._collapsed is not None:
            found = self._predict_collapsed(X, wanted)
        else:
            estimator = self.model.estimator
            found = {"positions": np.searchsorted(self.model.classes, self.model.predict(X))}
            if "scores" in wanted:
                found["scores"] = getattr(estimator, self._score_method())(X)
            if "features" in wanted:
                found["features"] = self.model.transform(X)
        positions = found.pop("positions")
        found["codes"] = self.codes[positions]
        if self.threshold is None and not _LIKELIHOODS & set(wanted):
            return found
        shares = self._probability_method("probabilities")(X)
        return found | self._judged(positions, shares, wanted)

    def _judged(self, positions, shares, wanted):
        """Codes by the threshold, and what the probabilities tell beside them."""
        rows = np.arange(len(shares))
        confidence = shares[rows, positions]
        found = {"probabilities": shares, "confidence": confidence, "codes": self.codes[positions]}
        if self.threshold is not None:
            found["codes"] = np.where(
                confidence < self.threshold, self.unclassified, found["codes"]
            )
        if "second" in wanted:
            others = shares.copy()
            others[rows, positions] = -1.0
            found["second"] = self.codes[others.argmax(axis=1)]
        return found

    def _predict_collapsed(self, X, wanted):
        model = self._collapsed
        X = np.asarray(X, dtype=np.float32)
        scale = _norms(X, model.norm)
        found = {}
        if "features" in wanted:
            Z = _affine(X, scale, model.components, model.intercept)
            f = Z @ model.label_coef.T.astype(np.float32) + model.label_intercept.astype(np.float32)
            found["features"] = Z
        else:
            coef = model.label_coef @ model.components
            intercept = model.label_coef @ model.intercept + model.label_intercept
            f = _affine(X, scale, coef, intercept)
        found["positions"] = f.argmax(axis=1)
        if "scores" in wanted:
            found["scores"] = f[:, 1] - f[:, 0] if len(self.codes) == 2 else f
        return found

    def layout(self, name, cog=False):
        """How the raster of one result is written, as :func:`raster_sink` takes it."""
        if name in ("codes", "second"):
            if name == "second":
                self._probability_method(name)
            table = self.table if name == "codes" else self.second_table
            return {
                "n_bands": 1,
                "dtype": table.dtype,
                "nodata": 0,
                "classes": table,
                "style": class_style(table),
                "cog": cog,
            }
        shares = {"n_bands": 1, "dtype": "float32", "nodata": float("nan"), "cog": True}
        if name == "features":
            return shares | {"n_bands": self._n_features_out()}
        if name == "scores":
            names = self.score_names()
            return shares | {"n_bands": len(names), "descriptions": names}
        self._probability_method(name)
        if name == "confidence":
            return shares | {"descriptions": ["confidence"], "style": share_style()}
        names = list(self.model.metadata.class_names)
        return shares | {"n_bands": len(names), "descriptions": names, "style": share_style()}

    def attributes(self, name):
        """What is said about a result beside its values."""
        if name in ("confidence", "probabilities"):
            return {"_FillValue": np.float32("nan"), "units": "1"}
        table = self.table if name == "codes" else self.second_table
        names = {code: text for code, text in table.names.items() if code}
        return {
            "_FillValue": np.dtype(table.dtype).type(0),
            "class_names": json.dumps(table.names),
            "flag_values": np.array(list(names), dtype=table.dtype),
            "flag_meanings": " ".join("_".join(text.split()) for text in names.values()),
        }

    def _probability_method(self, name):
        found = getattr(self.model.estimator, "predict_proba", None)
        if found is None:
            raise ValueError(
                f"`{name}` needs a model with `predict_proba`, got "
                f"{type(self.model.final_step).__name__}. Leave `{name}` out, or fit another model."
            )
        return found

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

    def _n_features_out(self):
        if not hasattr(self.model.estimator, "transform"):
            raise ValueError(
                "`features` needs a model with `transform`, got "
                f"{type(self.model.final_step).__name__}. Leave `features` out."
            )
        if self._collapsed is not None:
            return len(self._collapsed.components)
        return len(self.model.estimator.get_feature_names_out())


def _masked(scene, mask):
    """The scene without the pixels where a mask is 0."""
    wanted = open_labels(mask, scene)

    def is_wanted(block):
        return wanted.read(block).ravel() > 0

    return scene.restricted(is_wanted)


def _check_outputs(scene, outputs):
    """Refuse to write over the scene, two results to one file, or a GeoTIFF by another name."""
    places = [output.resolve() for output in outputs]
    source = Path(scene.name).resolve()
    for number, place in enumerate(places):
        is_tiff = place.suffix.lower() in (".tif", ".tiff")
        beside = place.exists() and place.with_suffix("") == source.with_suffix("") and not is_tiff
        if place == source or beside:
            raise ValueError(f"'{place}' belongs to the scene. Write the map under another name.")
        if not is_tiff:
            raise ValueError(
                f"'{outputs[number]}' should end in .tif: maps are written as GeoTIFF. Name it "
                f"'{outputs[number].with_suffix('.tif')}'."
            )
        if place.with_suffix("") in [other.with_suffix("") for other in places[:number]]:
            raise ValueError(f"'{place}' is named for two results. Give each its own file.")


def _loaded(model):
    if isinstance(model, (str, Path)):
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


def _as_bands(values, block):
    return values.T.reshape(-1, *block.shape)


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
