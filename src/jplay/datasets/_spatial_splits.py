"""Division of an image by place: blocks, fields, and belts between training and test pixels."""

import warnings

import numpy as np
from sklearn.utils import check_random_state

from jplay.datasets.splits import check_count
from jplay.numerics.places import blocks_of, class_counts, deal, fields_of, within_reach

N_TRIALS = 100
"""Partitions tried if classes are missing on a side; the one that misses the fewest is taken."""


def connected_fields(labels, *, diagonal=True):
    """Number the fields of a label image: connected pixels of one class.

    Pixels of one field were labelled together and are near copies of each other. As groups of
    scikit-learn's cross-validators, fields keep training and test pixels in different places.

    Parameters
    ----------
    labels : array-like of int of shape (height, width)
        Class of each pixel, 0 if unknown.
    diagonal : bool, default=True
        Whether pixels that touch at a corner only are connected.

    Returns
    -------
    fields : ndarray of int of shape (height, width)
        Number of the field of each pixel, from 1; 0 if unknown. ``fields[labels > 0]`` are the
        groups of the labelled pixels in row-major order.

    Examples
    --------
    >>> from jplay.datasets import connected_fields
    >>> connected_fields([[1, 1, 0, 1], [2, 0, 0, 1]])
    array([[1, 1, 0, 2],
           [3, 0, 0, 2]])
    """
    return fields_of(_check_map(labels, "labels"), diagonal=diagonal)


class SpatialBlockSplit:
    """Divide an image by place and keep each block or field together; a ``cv`` object.

    Neighbouring pixels are near copies of each other, so a random draw of pixels tests on what was
    all but seen in training. Here all labelled pixels of a block (or of a field) are on one side,
    and no test pixel lies within ``buffer`` of a training pixel: the Chebyshev distance ``max(|row
    - row'|, |column - column'|)`` between any two is greater than ``buffer``. Training pixels that
    are too close to a test pixel are dropped.

    The grid of blocks begins at a random place. Blocks are dealt to the folds in a random order
    such that every fold gets its share of each class as far as whole blocks allow. If a class is
    then missing on the training or the test side of a fold, other partitions are drawn, and the
    one that misses the fewest is taken; :meth:`split` warns of classes that it still misses.

    One partition says little: accuracies of two partitions of the same image differ by ten points
    and more. Give the mean over at least ten values of ``random_state``.

    Parameters
    ----------
    ground_truth : array-like of shape (height, width)
        Class of each pixel, 0 if unknown. The samples are its labelled pixels in row-major
        order, as in the ``data`` of the fetchers.
    n_splits : int, default=5
        Number of folds.
    block_size : int, default=16
        Side of a block in pixels.
    buffer : int, default=0
        Width of the belt around test pixels in which there is no training pixel.
    units : {"blocks", "fields"} or array-like of int of shape (height, width), default="blocks"
        What is kept together: square blocks, the fields of :func:`connected_fields`, or pixels
        with the same number, such as those of a polygon.
    shift : pair of int or None, default=None
        Rows and columns by which the grid of blocks is shifted; ``None`` draws them.
    random_state : int, RandomState instance or None, default=None
        Draws the partition. Pass an int for the same one every time.

    Examples
    --------
    >>> import numpy as np
    >>> from jplay.datasets import SpatialBlockSplit
    >>> ground_truth = np.ones((20, 20), dtype=int)
    >>> cv = SpatialBlockSplit(
    ...     ground_truth, n_splits=4, block_size=10, buffer=2, shift=(0, 0), random_state=0
    ... )
    >>> train, test = next(cv.split(np.zeros((400, 3))))
    >>> train.size, test.size  # the corner of 12 x 12 pixels around the test block is left out
    (256, 100)
    """

    def __init__(
        self,
        ground_truth,
        n_splits=5,
        *,
        block_size=16,
        buffer=0,
        units="blocks",
        shift=None,
        random_state=None,
    ):
        self.ground_truth = ground_truth
        self.n_splits = n_splits
        self.block_size = block_size
        self.buffer = buffer
        self.units = units
        self.shift = shift
        self.random_state = random_state

    def split(self, X=None, y=None, groups=None):
        """Yield ``(train_indices, test_indices)`` of each fold: rows of the labelled pixels.

        ``X`` and ``y`` serve to check that there is one sample per labelled pixel.
        """
        ground_truth = _check_map(self.ground_truth)
        labelled = ground_truth > 0
        for name, value in (("X", X), ("y", y)):
            if value is not None and _n_samples(value) != labelled.sum():
                raise ValueError(
                    f"`{name}` should have one sample per labelled pixel of `ground_truth` "
                    f"({labelled.sum()}), got {_n_samples(value)}. Pass the labelled pixels in "
                    "row-major order."
                )
        sides = self._sides(self.fold_map(), ground_truth)
        for fold, (is_train, _) in enumerate(sides):
            if not is_train.any():
                raise ValueError(
                    f"`buffer` should leave training pixels in every fold, got {self.buffer} with "
                    f"none in fold {fold}. Choose a smaller buffer or a larger `block_size`."
                )
        _warn_of_missing(_missing(sides, ground_truth))
        for is_train, is_test in sides:
            yield np.flatnonzero(is_train[labelled]), np.flatnonzero(is_test[labelled])

    def get_n_splits(self, X=None, y=None, groups=None):
        """Return the number of folds."""
        return self.n_splits

    def fold_map(self):
        """Return the fold, 0 to ``n_splits - 1``, of each pixel: shape (height, width)."""
        ground_truth = _check_map(self.ground_truth)
        check_count("n_splits", self.n_splits, minimum=2)
        check_count("block_size", self.block_size)
        check_count("buffer", self.buffer, minimum=0)
        rng = check_random_state(self.random_state)
        fewest, best = np.inf, None
        for _ in range(N_TRIALS):
            unit = self._units(ground_truth, rng)
            counts = class_counts(unit, ground_truth)
            n_units = np.count_nonzero(counts.any(axis=1))
            if n_units < self.n_splits:
                continue  # another grid may have more blocks
            fold_map = deal(counts, self.n_splits, rng)[unit]
            n_missing = len(_missing(self._sides(fold_map, ground_truth), ground_truth))
            if n_missing < fewest:
                fewest, best = n_missing, fold_map
            if n_missing <= self._unavoidable(counts):
                break
        if best is None:
            raise ValueError(
                "`n_splits` should be at most the number of blocks or fields with labelled pixels "
                f"({n_units}), got {self.n_splits}. Choose fewer folds or a smaller `block_size`."
            )
        return best

    def _unavoidable(self, counts):
        """Sides from which classes are missing however the units are dealt."""
        if isinstance(self.units, str) and self.units == "blocks" and self.shift is None:
            return 0  # another grid may divide the class
        n_units = np.count_nonzero(counts, axis=0)
        return np.maximum(self.n_splits - n_units, 0).sum() + np.count_nonzero(n_units == 1)

    def _sides(self, fold_map, ground_truth):
        """Training and test pixels of every fold."""
        labelled = ground_truth > 0
        tests = [labelled & (fold_map == fold) for fold in range(self.n_splits)]
        return [(labelled & ~within_reach(is_test, self.buffer), is_test) for is_test in tests]

    def _units(self, ground_truth, rng):
        """Number, from 0, of the block or field of each pixel."""
        if isinstance(self.units, str) and self.units == "blocks":
            shift = rng.randint(self.block_size, size=2) if self.shift is None else self.shift
            down, right = (int(pixels) % self.block_size for pixels in shift)
            return blocks_of(ground_truth.shape, self.block_size, (down, right))
        if isinstance(self.units, str):
            if self.units != "fields":
                raise ValueError(
                    "`units` should be 'blocks', 'fields' or an image of numbers, got "
                    f"{self.units!r}."
                )
            return connected_fields(ground_truth)
        units = np.asarray(self.units)
        if units.shape != ground_truth.shape:
            raise ValueError(
                f"`units` should have shape {ground_truth.shape}, as `ground_truth`, got "
                f"{units.shape}."
            )
        return np.unique(units, return_inverse=True)[1].reshape(units.shape)

    def __repr__(self):
        units = self.units if isinstance(self.units, str) else "given"
        return (
            f"{type(self).__name__}(n_splits={self.n_splits}, block_size={self.block_size}, "
            f"buffer={self.buffer}, units={units!r}, random_state={self.random_state})"
        )


def _missing(sides, ground_truth):
    """``(fold, side, class)`` of every class that has no pixel on one side of a fold."""
    classes = np.unique(ground_truth[ground_truth > 0])
    return [
        (fold, side, value)
        for fold, masks in enumerate(sides)
        for side, mask in zip(("training", "test"), masks, strict=True)
        for value in np.setdiff1d(classes, ground_truth[mask])
    ]


def _warn_of_missing(missing):
    if not missing:
        return
    parts = []
    for fold, side in sorted({(fold, side) for fold, side, _ in missing}):
        values = [str(value) for *place, value in missing if place == [fold, side]]
        parts.append(f"{', '.join(values)} on the {side} side of fold {fold}")
    warnings.warn(
        f"Classes are missing: {'; '.join(parts)}. They lie in too few places for this division; "
        "take smaller blocks, a smaller `buffer` or fewer folds, or give the accuracy of the "
        "other classes as well.",
        stacklevel=3,
    )


def _check_map(ground_truth, name="ground_truth"):
    ground_truth = np.asarray(ground_truth)
    if ground_truth.ndim != 2 or not (ground_truth > 0).any():
        raise ValueError(
            f"`{name}` should be an image of shape (height, width) with labels above 0, got "
            f"shape {ground_truth.shape}. Mark unlabeled pixels with 0."
        )
    return ground_truth


def _n_samples(value):
    return value.shape[0] if hasattr(value, "shape") else len(value)
