"""Hyperspectral scenes: Indian Pines and Houston 2013."""

import numpy as np
from sklearn.utils import Bunch

from jplay._optional import import_optional
from jplay.datasets._folder import find_file, not_found, require_file
from jplay.datasets._pines_cube import check_ground_truth, intact_cube
from jplay.datasets.line_ends import check_not_converted
from jplay.datasets.readers import check_labels, pick_array, read_arrays
from jplay.datasets.registry import DATASETS
from jplay.datasets.splits import fixed_halves, split_per_class
from jplay.exceptions import CorruptFileError

_SPATIAL_BUFFER = 2

_PINES = DATASETS["indian_pines"]
_PINES_SHAPE = (145, 145)
# The masks number the classes in an order of their own: entry k is the standard class of theirs.
_PINES_MASK_CLASSES = np.array([0, 2, 3, 4, 5, 6, 8, 10, 11, 12, 13, 14, 15, 16, 1, 7, 9])
# Bands of the 220 that are removed for water absorption, counted from 1.
_WATER_INDEX = np.array([*range(104, 109), *range(150, 164), 220]) - 1

_HOUSTON_SHAPE = (349, 1905)
_HOUSTON = DATASETS["houston2013"]


def fetch_indian_pines(
    *,
    data_home=None,
    n_bands=200,
    split="auto",
    random_state=0,
    dtype=np.float64,
    return_X_y=False,
):
    """Load the Indian Pines scene: 145 x 145 pixels, 200 bands, 16 classes of land cover.

    Nothing is downloaded: unless the data folder holds ``Indian_pines_corrected`` and
    ``Indian_pines_gt`` (``.mat``, ``.npy``, ``.tif``), the cube comes from inside the package
    ``tensorly`` (extra ``data``). That copy was converted as text, which made 116,644 values 768
    too low, and is repaired. An original is recognized and left as it is.

    Parameters
    ----------
    data_home : path-like, optional
        Data folder, see :func:`get_data_home`.
    n_bands : {200, 220}, default=200
        220 keeps the water-absorption bands and needs the uncorrected cube ``Indian_pines`` in the
        data folder.
    split : {"auto", "fixed", "random", "spatial"} or None, default="auto"
        "fixed" are the 695 training and 9671 test pixels of the masks ``IndianTR123_temp123.tif``
        and ``IndianTE123_temp123.tif`` in the data folder. "random" draws 50 pixels per class, 15
        of a class with fewer than 90. "spatial" keeps blocks of 8 x 8 pixels together, half of
        them for training, with a belt of 2 pixels between; a class found in one place only may
        then be on one side only. "auto" is "fixed" where the masks are present, else "random"; the
        field ``split`` says which it was. None makes no split.
    random_state : int, RandomState instance or None, default=0
        For "random" and "spatial".
    dtype : dtype, default=float64
        Type of ``cube`` and ``data``.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    Bunch
        ``cube`` (145, 145, n_bands); ``ground_truth`` (145, 145), 0 = unknown, classes 1 to 16;
        ``data`` (n_labelled, n_bands) and ``target`` (n_labelled,), the labelled pixels in
        row-major order; ``pixel_indices`` (n_labelled,), their positions in the flattened image;
        ``target_names`` (16,), of which ``target_names[k - 1]`` is class k; ``wavelengths``
        (n_bands,) in nm; ``split``, ``train_indices``, ``test_indices`` (rows of ``data``),
        ``train_map``, ``test_map`` (label maps); ``standard_ground_truth``; ``DESCR``, ``source``,
        ``licence``, ``filenames``.

    Notes
    -----
    The fixed masks label 10366 pixels, the standard ground truth 10249. The two never disagree on a
    class, but 256 pixels are only in the masks and 139 only in the standard. With the fixed split
    ``ground_truth`` is that of the masks.

    The wavelengths are nominal: 220 equal steps from 400 to 2500 nm, less the removed bands.

    Examples
    --------
    >>> from jplay.datasets import fetch_indian_pines
    >>> scene = fetch_indian_pines(split="random")
    >>> scene.cube.shape, scene.data.shape, scene.train_indices.size
    ((145, 145, 200), (10249, 200), 695)
    """
    if n_bands not in (200, 220):
        raise ValueError(
            f"`n_bands` should be 200 (corrected) or 220 (all bands), got {n_bands!r}."
        )
    cube, standard, filenames = _read_pines(data_home, n_bands)
    maps = None
    if split in ("auto", "fixed"):
        maps, mask_files = _read_pines_masks(data_home, required=split == "fixed")
        filenames += mask_files
        split = "random" if maps is None else "fixed"
    every_band = np.linspace(400.0, 2500.0, 220)
    scene = _scene(
        _PINES,
        cube=cube.astype(dtype, order="C"),
        ground_truth=standard if maps is None else sum(maps),
        maps=maps,
        split=split,
        random_state=random_state,
        wavelengths=every_band if n_bands == 220 else np.delete(every_band, _WATER_INDEX),
        notes="Wavelengths are nominal (equal steps from 400 to 2500 nm).",
        filenames=filenames,
        block_size=8,
        standard_ground_truth=standard,
    )
    return (scene.data, scene.target) if return_X_y else scene


def fetch_houston2013(
    *, data_home=None, split="auto", random_state=0, dtype=np.float64, return_X_y=False
):
    """Load the Houston scene of the 2013 data fusion contest: 349 x 1905 pixels, 144 bands.

    The full cube needs a licence from the IEEE GRSS. Where it is absent but the training spectra
    ``HSI_TrSet`` are present, those are loaded alone and divided by location.

    Parameters
    ----------
    data_home : path-like, optional
        Data folder, see :func:`get_data_home`. It must hold the label maps ``TRLabel`` and
        ``TSLabel`` (349 x 1905) and one of: the cube (349 x 1905 x 144, ``.mat``, ``.tif`` or
        ``.npy``), or the spectra ``HSI_TrSet`` (2832 x 144) with or without ``HSI_TeSet`` (12197 x
        144), rows in row-major order of the maps.
    split : {"auto", "fixed", "random", "spatial"} or None, default="auto"
        "fixed" are the contest's 2832 training and 12197 test pixels. "random" draws 50 pixels per
        class. "spatial" keeps blocks of 16 x 16 pixels together, half of them for training, with
        a belt of 2 pixels between. "auto" is "fixed" where spectra of both sets are present, else
        "spatial". None makes no split.
    random_state : int, RandomState instance or None, default=0
        For "random" and "spatial".
    dtype : dtype, default=float64
        Type of ``cube`` and ``data``.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    Bunch
        As for :func:`fetch_indian_pines`, with 144 bands and 15 classes; ``cube`` is None where
        only spectra are present, and ``ground_truth`` then marks the pixels whose spectra are.

    Notes
    -----
    The spectra of ``HSI_TrSet`` are scaled to [0, 1] per band, the cube is not. The wavelengths are
    nominal: 144 equal steps from 380 to 1050 nm.

    Examples
    --------
    >>> from jplay.datasets import fetch_houston2013
    >>> scene = fetch_houston2013(split="spatial")  # doctest: +SKIP
    """
    train_map, test_map, filenames = _read_houston_maps(data_home)
    cube, spectra, spectra_files = _read_houston_spectra(data_home, train_map, test_map)
    filenames += spectra_files
    has_both = cube is not None or len(spectra) > np.count_nonzero(train_map)
    if split == "fixed" and not has_both:
        raise not_found(_HOUSTON, ["test_spectra", "cube"], data_home)
    if split == "auto":
        split = "fixed" if has_both else "spatial"
    scene = _scene(
        _HOUSTON,
        cube=None if cube is None else cube.astype(dtype, order="C"),
        spectra=None if spectra is None else spectra.astype(dtype),
        ground_truth=train_map + test_map if has_both else train_map,
        maps=(train_map, test_map) if split == "fixed" else None,
        split=split,
        random_state=random_state,
        wavelengths=np.linspace(380.0, 1050.0, _HOUSTON.n_features),
        notes="Wavelengths are nominal (equal steps from 380 to 1050 nm).",
        filenames=filenames,
    )
    return (scene.data, scene.target) if return_X_y else scene


def _read_pines(data_home, n_bands):
    """Return the cube, the standard ground truth and the files they came from."""
    cube, cube_path = _read_pines_cube(data_home, n_bands)
    truth_path = find_file(_PINES, "ground_truth", data_home)
    if cube is None or truth_path is None:
        packaged_cube, truth = _packaged_pines()
        cube = intact_cube(packaged_cube, "the package tensorly") if cube is None else cube
    if truth_path is not None:
        truth = _read_map(
            truth_path, ["indian_pines_gt"], _PINES_SHAPE, _PINES.n_classes, _PINES.n_samples
        )
    check_ground_truth(truth, f"'{truth_path or 'the package tensorly'}'")
    return cube, truth, [str(path) for path in (cube_path, truth_path) if path is not None]


def _read_pines_cube(data_home, n_bands):
    """Return the cube and its file, or ``(None, None)`` where the packaged one will do."""
    if n_bands == 200:
        path = find_file(_PINES, "cube", data_home)
        if path is not None:
            stored = _read_cube(path, ["indian_pines_corrected"], (*_PINES_SHAPE, 200))
            return intact_cube(stored, f"'{path}'"), path
    look = require_file if n_bands == 220 else find_file
    path = look(_PINES, "every_band", data_home)
    if path is None:
        return None, None
    every_band = _read_cube(path, ["indian_pines"], (*_PINES_SHAPE, 220))
    kept = np.delete(every_band, _WATER_INDEX, axis=2)
    cube = intact_cube(kept, f"'{path}'")
    if n_bands == 200:
        return cube, path
    if not np.array_equal(cube, kept):
        raise CorruptFileError(
            f"'{path}' should hold the original of 220 bands, but it was converted as text, and "
            "only 200 of its bands can be repaired. Choose `n_bands=200`, or obtain the file again "
            "from https://doi.org/10.4231/R7RX991C."
        )
    return every_band, path


def _packaged_pines():
    tensorly_data = import_optional(
        "tensorly.datasets", feature="Indian Pines without a file", extra="data"
    )
    packaged = tensorly_data.load_indian_pines()
    return np.asarray(packaged.tensor), np.asarray(packaged.ticks[0]).astype(np.int64)


def _read_pines_masks(data_home, *, required):
    """Return the two label maps in standard classes, or None where a mask is absent."""
    look = require_file if required else find_file
    paths = [look(_PINES, role, data_home) for role in ("train_mask", "test_mask")]
    if None in paths:
        return None, []
    maps = [
        _PINES_MASK_CLASSES[_read_map(path, [path.stem], _PINES_SHAPE, _PINES.n_classes, counts)]
        for path, counts in zip(paths, (695, 9671), strict=True)
    ]
    _check_disjoint(paths[0], paths[1], *maps)
    return tuple(maps), [str(path) for path in paths]


def _read_houston_maps(data_home):
    maps, paths = [], []
    for role, counts in (("train_map", _HOUSTON.n_train), ("test_map", _HOUSTON.n_test)):
        path = require_file(_HOUSTON, role, data_home)
        stems = _HOUSTON.files[role].stems
        maps.append(_read_map(path, stems, _HOUSTON_SHAPE, _HOUSTON.n_classes, counts))
        paths.append(str(path))
    _check_disjoint(*paths, *maps)
    return maps[0], maps[1], paths


def _read_houston_spectra(data_home, train_map, test_map):
    """Return ``(cube, None, files)`` or ``(None, spectra of the labelled pixels, files)``."""
    path = find_file(_HOUSTON, "cube", data_home)
    if path is not None:
        shape = (*_HOUSTON_SHAPE, _HOUSTON.n_features)
        cube = _read_cube(path, [path.stem], shape)
        check_not_converted(path, cube)
        return cube, None, [str(path)]
    train_path = find_file(_HOUSTON, "train_spectra", data_home)
    if train_path is None:
        raise not_found(_HOUSTON, ["cube", "train_spectra"], data_home)
    train = _read_spectra(train_path, "HSI_TrSet", train_map)
    test_path = find_file(_HOUSTON, "test_spectra", data_home)
    if test_path is None:
        return None, train, [str(train_path)]
    test = _read_spectra(test_path, "HSI_TeSet", test_map)
    pixels = np.concatenate([np.flatnonzero(train_map), np.flatnonzero(test_map)])
    merged = np.concatenate([train, test])[np.argsort(pixels)]
    return None, merged, [str(train_path), str(test_path)]


def _read_spectra(path, name, label_map):
    shape = (np.count_nonzero(label_map), _HOUSTON.n_features)
    spectra = pick_array(path, read_arrays(path), [name], shape)
    check_not_converted(path, spectra)
    return spectra


def _read_cube(path, names, shape):
    """Read an image cube; one stored with the bands first is turned round."""
    arrays = read_arrays(path, examine_bytes=False)  # the callers do, and raise
    bands_first = (shape[2], *shape[:2])
    turned = {
        name: np.moveaxis(value, 0, -1) if value.shape == bands_first else value
        for name, value in arrays.items()
    }
    return pick_array(path, turned, names, shape)


def _read_map(path, names, shape, n_classes, counts):
    return check_labels(path, pick_array(path, read_arrays(path), names, shape), n_classes, counts)


def _check_disjoint(train_path, test_path, train_map, test_map):
    shared = np.count_nonzero((train_map > 0) & (test_map > 0))
    if shared:
        raise CorruptFileError(
            f"'{train_path}' and '{test_path}' should label different pixels, {shared} are in "
            "both. They are not masks of one split: replace them."
        )


def _scene(entry, *, notes, filenames, **content):
    """Assemble the Bunch of a real scene."""
    fields = scene_fields(target_names=entry.class_names, **content)
    height, width = fields["ground_truth"].shape
    n_pixels, n_bands = fields["data"].shape
    return Bunch(
        **fields,
        DESCR=(
            f"{entry.title}\n\n{n_pixels} labelled pixels of a scene of {height} x {width} pixels, "
            f"{n_bands} bands, {len(fields['target_names'])} classes. Split: {fields['split']}. "
            f"{notes}\n\nSource: {entry.source}.\nLicence: {entry.licence}."
        ),
        source=entry.source,
        licence=entry.licence,
        filenames=filenames,
    )


def scene_fields(
    *,
    cube,
    ground_truth,
    split,
    random_state,
    target_names,
    wavelengths,
    maps=None,
    spectra=None,
    block_size=16,
    **extra,
):
    """Derive what every scene has from its maps and its cube or the spectra of labelled pixels."""
    pixel_indices = np.flatnonzero(ground_truth)
    data = cube.reshape(-1, cube.shape[2])[pixel_indices] if spectra is None else spectra
    train, test = _split(ground_truth, maps, split, random_state, block_size)
    return {
        "cube": cube,
        "ground_truth": ground_truth,
        "data": data,
        "target": ground_truth.ravel()[pixel_indices],
        "pixel_indices": pixel_indices,
        "target_names": np.array(target_names),
        "wavelengths": wavelengths,
        "split": split,
        "train_indices": train,
        "test_indices": test,
        "train_map": _label_map(ground_truth, pixel_indices, train),
        "test_map": _label_map(ground_truth, pixel_indices, test),
        **extra,
    }


def _split(ground_truth, maps, split, random_state, block_size):
    """Return training and test rows among the labelled pixels for a named split."""
    labelled = ground_truth > 0
    if split is None:
        return None, None
    if split == "fixed" and maps is not None:
        return tuple(np.flatnonzero(part[labelled]) for part in maps)
    if split == "random":
        # 90 and not 100, so that class sizes are those of the fixed masks of Indian Pines.
        return split_per_class(ground_truth[labelled], small_below=90, random_state=random_state)
    if split == "spatial":
        return fixed_halves(
            ground_truth, block_size=block_size, buffer=_SPATIAL_BUFFER, random_state=random_state
        )
    raise ValueError(
        "`split` should be 'random', 'spatial' or None, or for a real scene 'auto' or 'fixed', "
        f"got {split!r}. Choose one of them."
    )


def _label_map(ground_truth, pixel_indices, rows):
    """Return the label map of some of the labelled pixels, 0 elsewhere."""
    if rows is None:
        return None
    chosen = np.zeros(ground_truth.size, dtype=ground_truth.dtype)
    chosen[pixel_indices[rows]] = ground_truth.ravel()[pixel_indices[rows]]
    return chosen.reshape(ground_truth.shape)
