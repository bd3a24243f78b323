"""Ways to divide labelled samples into training and test sets."""

import numbers

import numpy as np
from sklearn.utils import check_random_state

from jplay.numerics.stratification import iterative_folds


def split_per_class(y, n_train=50, *, small=15, small_below=100, random_state=None):
    """Draw a fixed number of training samples from each class; the others are for testing.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels.
    n_train : int, default=50
        Training samples per class.
    small : int or None, default=15
        Training samples of a class with fewer than ``small_below`` samples. ``None`` treats every
        class alike.
    small_below : int, default=100
        Where a class begins to count as small.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same draw every time.

    Returns
    -------
    train_indices, test_indices : ndarray of int
        Sorted positions in ``y``. Every sample is in exactly one of them.

    Examples
    --------
    >>> import numpy as np
    >>> from jplay.datasets import split_per_class
    >>> y = np.repeat([1, 2], [300, 40])
    >>> train, test = split_per_class(y, n_train=50, random_state=0)
    >>> np.bincount(y[train]).tolist(), np.bincount(y[test]).tolist()
    ([0, 50, 15], [0, 250, 25])
    """
    y = _check_labels(y)
    check_count("n_train", n_train)
    if small is not None:
        check_count("small", small)
    rng = check_random_state(random_state)
    is_train = np.zeros(y.size, dtype=bool)
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        wanted = small if small is not None and members.size < small_below else n_train
        if wanted >= members.size:
            name = "small" if small is not None and members.size < small_below else "n_train"
            raise ValueError(
                f"`{name}` should be smaller than the size of every class it applies to, got "
                f"{wanted} with {members.size} samples in class {label!r}. Draw fewer or leave "
                "that class out."
            )
        is_train[rng.permutation(members)[:wanted]] = True
    return np.flatnonzero(is_train), np.flatnonzero(~is_train)


class RepeatedPerClassSplit:
    """Draw ``n_train`` samples of every class for training, several times; a ``cv`` object.

    Parameters
    ----------
    n_train : int, default=10
        Training samples per class.
    n_repeats : int, default=10
        Number of independent draws.
    small, small_below : int
        As in :func:`split_per_class`; classes are treated alike by default.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same draws every time ``split`` is called.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from jplay.datasets import RepeatedPerClassSplit
    >>> X, y = load_digits(return_X_y=True)
    >>> cv = RepeatedPerClassSplit(n_train=10, n_repeats=3, random_state=0)
    >>> cross_val_score(KNeighborsClassifier(1), X, y, cv=cv).shape
    (3,)
    """

    def __init__(self, n_train=10, *, n_repeats=10, small=None, small_below=100, random_state=None):
        self.n_train = n_train
        self.n_repeats = n_repeats
        self.small = small
        self.small_below = small_below
        self.random_state = random_state

    def split(self, X, y, groups=None):
        """Yield ``(train_indices, test_indices)`` of each draw."""
        check_count("n_repeats", self.n_repeats)
        rng = check_random_state(self.random_state)
        for _ in range(self.n_repeats):
            yield split_per_class(
                y, self.n_train, small=self.small, small_below=self.small_below, random_state=rng
            )

    def get_n_splits(self, X=None, y=None, groups=None):
        """Return the number of draws."""
        return self.n_repeats

    def __repr__(self):
        return (
            f"{type(self).__name__}(n_train={self.n_train}, n_repeats={self.n_repeats}, "
            f"random_state={self.random_state})"
        )


def repeated_per_class_splits(n_train=10, *, n_repeats=10, random_state=None):
    """Return a :class:`RepeatedPerClassSplit`: the protocol of the face data, ten draws of ten.

    Examples
    --------
    >>> from jplay.datasets import repeated_per_class_splits
    >>> repeated_per_class_splits(10, random_state=0).get_n_splits()
    10
    """
    return RepeatedPerClassSplit(n_train, n_repeats=n_repeats, random_state=random_state)


class IterativeStratifiedKFold:
    """Folds of multi-label samples that hold every label in its proportion; a ``cv`` object.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    random_state : int, RandomState instance or None, default=None
        Breaks ties.

    References
    ----------
    K. Sechidis, G. Tsoumakas, I. Vlahavas. "On the stratification of multi-label data." ECML
    PKDD 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from jplay.datasets import IterativeStratifiedKFold
    >>> Y = np.repeat([[1, 0, 1], [0, 1, 0], [0, 0, 1]], [6, 9, 12], axis=0)
    >>> cv = IterativeStratifiedKFold(3, random_state=0)
    >>> [Y[test].sum(axis=0).tolist() for _, test in cv.split(Y, Y)]
    [[2, 3, 6], [2, 3, 6], [2, 3, 6]]
    """

    def __init__(self, n_splits=5, *, random_state=None):
        self.n_splits = n_splits
        self.random_state = random_state

    def split(self, X, y, groups=None):
        """Yield ``(train_indices, test_indices)`` of each fold."""
        check_count("n_splits", self.n_splits, minimum=2)
        y = np.asarray(y.todense()) if hasattr(y, "todense") else np.asarray(y)
        if y.ndim != 2:
            raise ValueError(
                f"`y` should be an indicator matrix of shape (n_samples, n_labels), got shape "
                f"{y.shape}. Use sklearn.model_selection.StratifiedKFold for class labels."
            )
        if len(y) < self.n_splits:
            raise ValueError(
                f"`n_splits` should be at most {len(y)} (the number of samples), got "
                f"{self.n_splits}. Choose fewer folds."
            )
        folds = iterative_folds(y, self.n_splits, check_random_state(self.random_state))
        for fold in range(self.n_splits):
            yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)

    def get_n_splits(self, X=None, y=None, groups=None):
        """Return the number of folds."""
        return self.n_splits

    def __repr__(self):
        return f"{type(self).__name__}(n_splits={self.n_splits}, random_state={self.random_state})"


class SpatialBlockSplit:
    """Divide an image into square blocks and keep each block together; a ``cv`` object.

    Neighbouring pixels are near copies of each other, so a random draw of pixels tests on what was
    all but seen in training. Here all labelled pixels of a block are on one side, and no test pixel
    lies within ``buffer`` of a training pixel: the Chebyshev distance ``max(|row - row'|, |column -
    column'|)`` between any two is greater than ``buffer``. Training pixels that are too close to a
    test block are dropped.

    Blocks are dealt to the folds so that every fold gets its share of each class as far as whole
    blocks allow. A class confined to one block is then in one fold only.

    Parameters
    ----------
    ground_truth : array-like of shape (height, width)
        Class of each pixel, 0 where unknown. The samples are its labelled pixels in row-major
        order, as in the ``data`` of the fetchers.
    n_splits : int, default=5
        Number of folds.
    block_size : int, default=16
        Side of a block in pixels.
    buffer : int, default=0
        Width of the belt around test pixels in which there is no training pixel.
    random_state : int, RandomState instance or None, default=None
        Decides which block goes to which fold.

    Examples
    --------
    >>> import numpy as np
    >>> from jplay.datasets import SpatialBlockSplit
    >>> ground_truth = np.ones((20, 20), dtype=int)
    >>> cv = SpatialBlockSplit(ground_truth, n_splits=4, block_size=10, buffer=2, random_state=0)
    >>> train, test = next(cv.split(np.zeros((400, 3))))
    >>> train.size, test.size  # the corner of 12 x 12 pixels around the test block is left out
    (256, 100)
    """

    def __init__(self, ground_truth, n_splits=5, *, block_size=16, buffer=0, random_state=None):
        self.ground_truth = ground_truth
        self.n_splits = n_splits
        self.block_size = block_size
        self.buffer = buffer
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
        fold_map = self.fold_map()
        for fold in range(self.n_splits):
            is_test = labelled & (fold_map == fold)
            is_train = labelled & ~_dilate(is_test, self.buffer)
            if not is_train.any():
                raise ValueError(
                    f"`buffer` should leave training pixels in every fold, got {self.buffer} with "
                    f"none in fold {fold}. Choose a smaller buffer or a larger `block_size`."
                )
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
        height, width = ground_truth.shape
        n_block_columns = -(-width // self.block_size)
        block_of_row = np.arange(height) // self.block_size
        block_of_column = np.arange(width) // self.block_size
        block = block_of_row[:, np.newaxis] * n_block_columns + block_of_column
        fold_of_block = _deal_blocks(
            _class_counts(block, ground_truth), self.n_splits, check_random_state(self.random_state)
        )
        return fold_of_block[block]

    def __repr__(self):
        return (
            f"{type(self).__name__}(n_splits={self.n_splits}, block_size={self.block_size}, "
            f"buffer={self.buffer}, random_state={self.random_state})"
        )


def _class_counts(block, ground_truth):
    """Count the pixels of each class in each block: (n_blocks, n_classes)."""
    classes, position = np.unique(ground_truth, return_inverse=True)
    counts = np.zeros((block.max() + 1, classes.size), dtype=np.int64)
    np.add.at(counts, (block, position.reshape(ground_truth.shape)), 1)
    return counts[:, classes > 0]


def _deal_blocks(counts, n_splits, rng):
    """Give each block to the fold that lacks its classes most, the largest blocks first."""
    occupied = np.flatnonzero(counts.sum(axis=1))
    if occupied.size < n_splits:
        raise ValueError(
            "`n_splits` should be at most the number of blocks with labelled pixels "
            f"({occupied.size}), got {n_splits}. Choose fewer folds or a smaller `block_size`."
        )
    share = counts / counts.sum(axis=0)
    held = np.zeros((n_splits, counts.shape[1]))
    fold_of_block = rng.permutation(np.arange(len(counts)) % n_splits)
    shuffled = rng.permutation(occupied)
    for block in shuffled[np.argsort(-share[shuffled].max(axis=1), kind="stable")]:
        cost = held @ share[block]
        lightest = np.flatnonzero(cost == cost.min())
        fold = lightest[np.argmin(held[lightest].sum(axis=1))]
        held[fold] += share[block]
        fold_of_block[block] = fold
    return fold_of_block


def _dilate(mask, radius):
    """Grow a mask by ``radius`` pixels in the Chebyshev distance, one axis after the other."""
    for axis in (0, 1):
        grown = mask.copy()
        for shift in range(1, min(radius, mask.shape[axis] - 1) + 1):
            lower = [slice(None)] * 2
            upper = [slice(None)] * 2
            lower[axis], upper[axis] = slice(None, -shift), slice(shift, None)
            grown[tuple(lower)] |= mask[tuple(upper)]
            grown[tuple(upper)] |= mask[tuple(lower)]
        mask = grown
    return mask


def _check_labels(y):
    y = np.asarray(y)
    if y.ndim != 1 or y.size == 0:
        raise ValueError(
            f"`y` should be one-dimensional with at least one label, got shape {y.shape}. "
            "Pass one label per sample."
        )
    return y


def _check_map(ground_truth):
    ground_truth = np.asarray(ground_truth)
    if ground_truth.ndim != 2 or not (ground_truth > 0).any():
        raise ValueError(
            "`ground_truth` should be an image of shape (height, width) with labels above 0, got "
            f"shape {ground_truth.shape}. Mark unlabelled pixels with 0."
        )
    return ground_truth


def check_count(name, value, minimum=1):
    """Refuse what is not an integer of at least ``minimum``."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < minimum:
        raise ValueError(
            f"`{name}` should be an integer of at least {minimum}, got {value!r}. Choose a larger "
            "whole number."
        )


def _n_samples(value):
    return value.shape[0] if hasattr(value, "shape") else len(value)
