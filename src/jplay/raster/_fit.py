"""Fit a model to the labelled pixels of a scene."""

from dataclasses import dataclass, replace

import numpy as np

from jplay.datasets import connected_fields, draw_per_class
from jplay.palette import class_colors
from jplay.persistence import ModelMetadata, train_model
from jplay.raster._bands import typical_level
from jplay.raster._labels import open_labels
from jplay.raster._open import open_scene


def fit_scene(
    scene,
    labels,
    estimator=None,
    *,
    field=None,
    class_names=None,
    max_per_class=None,
    cv=None,
    peers=True,
    random_state=0,
    progress=None,
    fold_progress=None,
):
    """Fit a classifier to the labelled pixels of a scene.

    Only blocks with labels are read, and only the labelled spectra are kept.

    Parameters
    ----------
    scene : str, path-like, xarray.DataArray or Scene
        See :func:`open_scene`.
    labels : str, path-like, array, GeoDataFrame or Labels
        See :func:`open_labels`.
    estimator : scikit-learn classifier, optional
        Fitted in place. By default
        :class:`jplay.JPlay`, with spectra divided by their maximum each if neighbouring bands go
        together.
    field : str, optional
        Attribute of the polygons with the class.
    class_names : dict of int to str, optional
        Names of class codes, in place of those the labels carry.
    max_per_class : int, optional
        Maximum number of training pixels of a class, drawn at random.
    cv : int, optional
        Number of folds by which to estimate the accuracy. Whole fields are left out: polygons,
        or connected pixels of one class in a raster.
    peers : bool, default=True
        Whether shrinkage LDA and a random forest are estimated as well.
    random_state : int, RandomState instance or None, default=0
        For the draw and the folds.
    progress : callable, optional
        Called with the number of pixels done and of all pixels, while spectra are gathered.
    fold_progress : callable, optional
        Called with the number of fits done and of all fits.

    Returns
    -------
    TrainedModel
        Carries wavelengths, bands, class names and colours.

    Examples
    --------
    >>> import xarray
    >>> from jplay.datasets import make_hyperspectral_scene
    >>> from jplay.raster import fit_scene, predict_scene
    >>> image = make_hyperspectral_scene(32, 32, n_bands=40, random_state=0)
    >>> array = xarray.DataArray(image.cube, dims=("y", "x", "band"))
    >>> model = fit_scene(array, image.ground_truth)
    >>> predict_scene(array, model).shape
    (32, 32)
    """
    found = scene_samples(
        scene,
        labels,
        field=field,
        class_names=class_names,
        max_per_class=max_per_class,
        random_state=random_state,
        progress=progress,
    )
    return train_model(
        found.X,
        found.y,
        estimator,
        metadata=found.metadata,
        source=found.source,
        cv=cv,
        groups=found.fields,
        group_name="field",
        peers=peers,
        random_state=random_state,
        progress=fold_progress,
    )


@dataclass(frozen=True, eq=False)
class SceneSamples:
    """Labelled pixels of a scene; made by :func:`scene_samples`."""

    X: np.ndarray
    """(n_samples, n_good_bands) spectra."""
    y: np.ndarray
    """(n_samples,) class codes."""
    fields: np.ndarray
    """(n_samples,) number of the polygon, or of the connected pixels of one class."""
    pixels: np.ndarray
    """(n_samples, 2) row and column of each."""
    metadata: ModelMetadata
    """What a model should know of the scene and its labels."""
    source: str
    """Where the samples come from, in words."""


def scene_samples(
    scene,
    labels,
    *,
    field=None,
    class_names=None,
    max_per_class=None,
    random_state=0,
    progress=None,
):
    """Gather the labelled pixels of a scene.

    Parameters are those of :func:`fit_scene`.

    Returns
    -------
    SceneSamples

    Examples
    --------
    >>> import xarray
    >>> from jplay.datasets import make_hyperspectral_scene
    >>> from jplay.raster import scene_samples
    >>> image = make_hyperspectral_scene(32, 32, n_bands=40, random_state=0)
    >>> array = xarray.DataArray(image.cube, dims=("y", "x", "band"))
    >>> scene_samples(array, image.ground_truth, max_per_class=10).X.shape
    (60, 40)
    """
    scene = open_scene(scene)
    labels = open_labels(labels, scene, field=field)
    X, y, fields, pixels = _labelled_spectra(
        scene, labels, max_per_class=max_per_class, random_state=random_state, progress=progress
    )
    if len(np.unique(y)) < 2:
        raise ValueError(
            f"'{labels.source}' should label at least two classes with data in '{scene.name}', "
            f"found {np.unique(y).tolist()}. Label pixels of every class you want on the map."
        )
    metadata = _metadata(scene, labels, np.unique(y), class_names or {})
    metadata = replace(metadata, training={"typical_level": typical_level(X)})
    source = f"{scene.name} with labels of {labels.source}"
    return SceneSamples(X, y, fields, pixels, metadata, source)


def _labelled_spectra(scene, labels, *, max_per_class=None, random_state=0, progress=None):
    """Gather spectra, class codes, fields and positions of labelled pixels with data."""
    blocks = scene.blocks()
    found = [_labelled(labels, number, block) for number, block in enumerate(blocks)]
    where, codes, fields = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if not len(codes):
        raise ValueError(
            f"'{labels.source}' labels no pixel of '{scene.name}'. Check that both cover the same "
            "place, and that labels are numbers from 1."
        )
    positions = _positions(blocks, where)
    if labels.read_fields is None:
        fields = _connected(positions, codes)
    if max_per_class is not None:
        kept = draw_per_class(codes, max_per_class, random_state=random_state)
        where, codes, fields, positions = where[kept], codes[kept], fields[kept], positions[kept]
    spectra, usable, done = [], np.zeros(len(codes), dtype=bool), 0
    starts = np.searchsorted(where[:, 0], np.arange(len(blocks) + 1))
    for number, block in enumerate(blocks):
        chosen = slice(starts[number], starts[number + 1])
        if starts[number] < starts[number + 1]:
            X, valid = scene.read(block)
            pixels = where[chosen, 1]
            usable[chosen] = valid[pixels]
            spectra.append(X[pixels[valid[pixels]]].astype(np.float64))
        done += block.n_pixels
        if progress is not None:
            progress(done, scene.n_pixels)
    if not usable.any():
        raise ValueError(f"'{scene.name}' has no data at any labelled pixel.")
    return np.concatenate(spectra), codes[usable], fields[usable], positions[usable]


def _labelled(labels, number, block):
    """Positions (block, pixel), codes and polygons of the labelled pixels of a block."""
    codes = labels.read(block).ravel()
    pixels = np.flatnonzero(codes)
    where = np.column_stack([np.full(len(pixels), number), pixels])
    fields = codes if labels.read_fields is None else labels.read_fields(block).ravel()
    return where, codes[pixels], fields[pixels]


def _positions(blocks, where):
    """Rows and columns in the scene."""
    corners = np.array([(block.top, block.left, block.shape[1]) for block in blocks])
    top, left, width = corners[where[:, 0]].T
    return np.column_stack([top + where[:, 1] // width, left + where[:, 1] % width])


def _connected(positions, codes):
    """Number the connected pixels of one class, in the rectangle around all labelled pixels."""
    rows, columns = (positions - positions.min(axis=0)).T
    image = np.zeros((rows.max() + 1, columns.max() + 1), dtype=np.int64)
    image[rows, columns] = codes
    return connected_fields(image)[rows, columns]


def _metadata(scene, labels, classes, class_names):
    names = labels.names | {int(code): str(name) for code, name in class_names.items()}
    bands = np.flatnonzero(scene.good_bands)
    classes = [int(code) for code in classes]
    unnamed = [code for code in classes if code not in names]
    if class_names and unnamed:
        raise ValueError(
            f"`class_names` should name every class of '{labels.source}', got none for "
            f"{', '.join(map(str, unnamed))}. Name them all, or none."
        )
    colors = dict(zip(classes, class_colors(len(classes)).tolist(), strict=True)) | labels.colors
    return ModelMetadata(
        class_names=[names.get(code, f"class {code}") for code in classes],
        class_colors=[list(colors[code]) for code in classes],
        wavelengths=None if scene.wavelengths is None else scene.wavelengths[bands].tolist(),
        band_indices=bands.tolist(),
        n_scene_bands=scene.n_bands,
    )
