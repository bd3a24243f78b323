"""Places of labelled pixels: blocks and fields, and how they are dealt to folds."""

import numpy as np
from scipy.ndimage import label, maximum_filter


def fields_of(labels: np.ndarray, *, diagonal: bool = True) -> np.ndarray:
    """Number, from 1, of the connected pixels of one class that each pixel is of; 0 if unknown."""
    fields = np.zeros(labels.shape, dtype=np.int64)
    neighbours = np.ones((3, 3), dtype=bool) if diagonal else None
    n_fields = 0
    for value in np.unique(labels[labels > 0]):
        parts, n_parts = label(labels == value, neighbours)
        fields[parts > 0] = parts[parts > 0] + n_fields
        n_fields += n_parts
    return fields


def blocks_of(image_shape: tuple[int, int], side: int, shift: tuple[int, int]) -> np.ndarray:
    """Number, from 0, of the square block of each pixel.

    Examples
    --------
    >>> blocks_of((2, 5), 2, (0, 1))
    array([[0, 1, 1, 2, 2],
           [0, 1, 1, 2, 2]])
    """
    height, width = image_shape
    block_of_row = (np.arange(height) + shift[0]) // side
    block_of_column = (np.arange(width) + shift[1]) // side
    return block_of_row[:, np.newaxis] * (block_of_column[-1] + 1) + block_of_column


def class_counts(unit: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Count the pixels of each class in each block or field: (n_units, n_classes)."""
    labelled = labels > 0
    classes, position = np.unique(labels[labelled], return_inverse=True)
    n_units = int(unit.max()) + 1
    places = unit[labelled] * classes.size + position
    counts = np.bincount(places, minlength=n_units * classes.size)
    return counts.reshape(n_units, classes.size)


def deal(
    counts: np.ndarray, n_folds: int, rng: np.random.RandomState, *, jitter: bool = True
) -> np.ndarray:
    """Give each unit to a fold that lacks its classes most, large ones sooner than small ones.

    Parameters
    ----------
    counts : ndarray of int of shape (n_units, n_classes)
        Pixels of each class; at least ``n_folds`` units have some.
    n_folds : int
    rng : RandomState
    jitter : bool, default=True
        Whether sizes vary at random by a factor of up to two. Without it, large units are dealt
        alike whatever the random numbers, but for the names of the folds.

    Returns
    -------
    ndarray of int of shape (n_units,)
    """
    occupied = np.flatnonzero(counts.sum(axis=1))
    share = counts / counts.sum(axis=0)
    held = np.zeros((n_folds, counts.shape[1]))
    fold_of_unit = rng.permutation(np.arange(len(counts)) % n_folds)
    units = occupied if jitter else rng.permutation(occupied)
    sizes = share[units].max(axis=1)
    if jitter:
        sizes = sizes * rng.uniform(1, 2, sizes.size)
    for unit in units[np.argsort(-sizes, kind="stable")]:
        cost = held @ share[unit]
        lightest = np.flatnonzero(cost == cost.min())
        fold = rng.choice(lightest) if jitter else lightest[held[lightest].sum(axis=1).argmin()]
        held[fold] += share[unit]
        fold_of_unit[unit] = fold
    # No fold may stay empty: it takes the smallest unit of the fold with the most.
    for fold in np.flatnonzero(~np.isin(np.arange(n_folds), fold_of_unit[occupied])):
        fullest = np.bincount(fold_of_unit[occupied], minlength=n_folds).argmax()
        members = occupied[fold_of_unit[occupied] == fullest]
        fold_of_unit[members[share[members].max(axis=1).argmin()]] = fold
    return fold_of_unit


def within_reach(mask: np.ndarray, reach: int) -> np.ndarray:
    """Pixels of which one of the mask is at most ``reach`` rows and columns away."""
    return maximum_filter(mask, 2 * reach + 1, mode="constant") if reach else mask
