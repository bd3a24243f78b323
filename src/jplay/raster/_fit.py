"""Fit a model to the labelled pixels of a scene."""

import numpy as np
from sklearn.utils import check_random_state

from jplay.persistence import ModelMetadata, train_model
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
        Fitted in place. By default every spectrum is divided by its maximum and given
        to :class:`jplay.JPlay`.
    field : str, optional
        Attribute of the polygons with the class.
    class_names : dict of int to str, optional
        Names of class codes, in place of those the labels carry.
    max_per_class : int, optional
        Most training pixels of a class, drawn at random.
    cv : int, optional
        Number of folds by which to estimate the accuracy. Neighbouring pixels fall into different
        folds, so the figure is optimistic; assess the map against other places for an honest one.
    random_state : int, RandomState instance or None, default=0
        For the draw and the folds.
    progress : callable, optional
        Called with the number of pixels done and of all pixels, while spectra are gathered.
    fold_progress : callable, optional
        Called with the number of folds done and of all folds.

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
    scene = open_scene(scene)
    labels = open_labels(labels, scene, field=field)
    X, y = labelled_spectra(
        scene, labels, max_per_class=max_per_class, random_state=random_state, progress=progress
    )
    if len(np.unique(y)) < 2:
        raise ValueError(
            f"'{labels.source}' should label at least two classes with data in '{scene.name}', "
            f"found {np.unique(y).tolist()}. Label pixels of every class you want on the map."
        )
    return train_model(
        X,
        y,
        estimator,
        metadata=_metadata(scene, labels, np.unique(y), class_names or {}),
        source=f"{scene.name} with labels of {labels.source}",
        cv=cv,
        random_state=random_state,
        progress=fold_progress,
    )


def labelled_spectra(scene, labels, *, max_per_class=None, random_state=0, progress=None):
    """Gather the spectra and class codes of labelled pixels with data.

    Returns
    -------
    X : ndarray of shape (n_samples, n_good_bands), float64
    y : ndarray of shape (n_samples,), int64
    """
    blocks = scene.blocks()
    found = [_labelled(labels, number, block) for number, block in enumerate(blocks)]
    where = np.concatenate([entry[0] for entry in found])
    codes = np.concatenate([entry[1] for entry in found])
    if not len(codes):
        raise ValueError(
            f"'{labels.source}' labels no pixel of '{scene.name}'. Check that both cover the same "
            "place, and that labels are numbers from 1."
        )
    if max_per_class is not None:
        kept = _draw(codes, max_per_class, check_random_state(random_state))
        where, codes = where[kept], codes[kept]
    spectra, classes, done = [], [], 0
    starts = np.searchsorted(where[:, 0], np.arange(len(blocks) + 1))
    for number, block in enumerate(blocks):
        chosen = slice(starts[number], starts[number + 1])
        if starts[number] < starts[number + 1]:
            X, valid = scene.read(block)
            pixels = where[chosen, 1]
            usable = valid[pixels]
            spectra.append(X[pixels[usable]].astype(np.float64))
            classes.append(codes[chosen][usable])
        done += block.n_pixels
        if progress is not None:
            progress(done, scene.n_pixels)
    return np.concatenate(spectra), np.concatenate(classes)


def _labelled(labels, number, block):
    """Positions (block, pixel) and codes of the labelled pixels of a block."""
    codes = labels.read(block).ravel()
    pixels = np.flatnonzero(codes)
    return np.column_stack([np.full(len(pixels), number), pixels]), codes[pixels]


def _draw(codes, most, random_state):
    kept = []
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        if len(members) > most:
            members = random_state.choice(members, most, replace=False)
        kept.append(members)
    return np.sort(np.concatenate(kept))


def _metadata(scene, labels, classes, class_names):
    names = labels.names | {int(code): str(name) for code, name in class_names.items()}
    bands = np.flatnonzero(scene.good_bands)
    classes = [int(code) for code in classes]
    colors = default_colors(classes) | labels.colors
    return ModelMetadata(
        class_names=[names.get(code, f"class {code}") for code in classes],
        class_colors=[list(colors[code]) for code in classes],
        wavelengths=None if scene.wavelengths is None else scene.wavelengths[bands].tolist(),
        band_indices=bands.tolist(),
        n_scene_bands=scene.n_bands,
    )


def default_colors(codes):
    """Distinct colours by code: hues a golden section apart, in three strengths."""
    import colorsys

    colors = {}
    for position, code in enumerate(codes):
        hue = (0.33 + 0.6180339887498949 * position) % 1.0
        saturation, value = ((0.75, 0.9), (0.55, 0.65), (0.9, 0.75))[position % 3]
        red, green, blue = colorsys.hsv_to_rgb(hue, saturation, value)
        colors[int(code)] = (round(255 * red), round(255 * green), round(255 * blue))
    return colors
