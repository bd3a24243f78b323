"""Draws of labelled samples, and ways to divide them into training and test sets."""

import numbers

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state

from jplay.numerics.places import blocks_of, class_counts, deal, within_reach
from jplay.numerics.stratification import iterative_folds


def draw_per_class(y, size, *, random_state=None):
    """Draw samples from every class: at most a number of each, or a share of each.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, n_labels)
        Labels. From an indicator matrix samples are drawn regardless of their labels.
    size : int or float
        An int is the maximum number of samples per class; a class with fewer is taken whole. A
        float between 0 and 1 is the share of every class, of which at least one sample is drawn.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same draw every time.

    Returns
    -------
    ndarray of int
        Sorted positions in ``y``.

    Examples
    --------
    >>> import numpy as np
    >>> from jplay.datasets import draw_per_class
    >>> y = np.repeat([1, 2], [300, 40])
    >>> np.bincount(y[draw_per_class(y, 50, random_state=0)]).tolist()
    [0, 50, 40]
    >>> np.bincount(y[draw_per_class(y, 0.1, random_state=0)]).tolist()
    [0, 30, 4]
    """
    y = np.asarray(y)
    codes = np.zeros(len(y), dtype=int) if y.ndim == 2 else _check_labels(y)
    if isinstance(size, numbers.Integral):
        check_count("size", size)
        return _draw(codes, lambda members: size, random_state)
    if not 0 < size < 1:
        raise ValueError(
            f"`size` should be a number of samples or a share between 0 and 1, got {size!r}. "
            "Choose for example 10 or 0.5."
        )
    return _draw(codes, lambda members: max(1, round(size * members.size)), random_state)


def _draw(y, wanted, random_state):
    """Draw ``wanted(members)`` samples of each class, or the whole class if it has no more."""
    rng = check_random_state(random_state)
    drawn = []
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        n_drawn = wanted(members)
        drawn.append(members if n_drawn >= members.size else rng.permutation(members)[:n_drawn])
    return np.sort(np.concatenate(drawn))


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
        Size below which a class counts as small.
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

    def wanted(members):
        is_small = small is not None and members.size < small_below
        number = small if is_small else n_train
        if number >= members.size:
            raise ValueError(
                f"`{'small' if is_small else 'n_train'}` should be smaller than the size of every "
                f"class it applies to, got {number} with {members.size} samples in class "
                f"{y[members[0]]!r}. Draw fewer or leave that class out."
            )
        return number

    train = _draw(y, wanted, random_state)
    return train, np.setdiff1d(np.arange(y.size), train)


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


def fixed_halves(ground_truth, *, block_size=16, buffer=2, random_state=None):
    """Divide a scene into halves as its fetcher does: the same blocks whatever the seed.

    The grid begins at the corner and large blocks are dealt first, so that a seed swaps the sides
    and little more. This never changes, because records refer to it; for several partitions take
    :class:`jplay.datasets.SpatialBlockSplit`.

    Returns
    -------
    train_indices, test_indices : ndarray of int
        Rows of the labelled pixels in row-major order.
    """
    unit = blocks_of(ground_truth.shape, block_size, (0, 0))
    rng = check_random_state(random_state)
    is_test = deal(class_counts(unit, ground_truth), 2, rng, jitter=False)[unit] == 0
    labelled = ground_truth > 0
    is_test &= labelled
    is_train = labelled & ~within_reach(is_test, buffer)
    return np.flatnonzero(is_train[labelled]), np.flatnonzero(is_test[labelled])


def stratified_folds(y, cv, *, random_state=None):
    """Return shuffled folds each of which holds its share of every class or label.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, n_labels)
        Class labels, or an indicator matrix.
    cv : int
        Number of folds.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same folds every time.

    Returns
    -------
    StratifiedKFold or IterativeStratifiedKFold

    Examples
    --------
    >>> import numpy as np
    >>> from jplay.datasets import stratified_folds
    >>> y = np.repeat([1, 2], [6, 3])
    >>> folds = stratified_folds(y, 3, random_state=0)
    >>> [np.bincount(y[test]).tolist() for _, test in folds.split(y, y)]
    [[0, 2, 1], [0, 2, 1], [0, 2, 1]]
    """
    if np.ndim(y) == 2:
        return IterativeStratifiedKFold(cv, random_state=random_state)
    smallest = int(np.unique(_check_labels(y), return_counts=True)[1].min())
    if not 2 <= cv <= smallest:
        raise ValueError(
            f"`cv` should be from 2 to {smallest} (the samples of the smallest class), got {cv}. "
            "Choose fewer folds or label more samples."
        )
    return StratifiedKFold(cv, shuffle=True, random_state=random_state)


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


def _check_labels(y):
    y = np.asarray(y)
    if y.ndim != 1 or y.size == 0:
        raise ValueError(
            f"`y` should be one-dimensional with at least one label, got shape {y.shape}. "
            "Pass one label per sample."
        )
    return y


def check_count(name, value, minimum=1):
    """Refuse what is not an integer of at least ``minimum``."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < minimum:
        raise ValueError(
            f"`{name}` should be an integer of at least {minimum}, got {value!r}. Choose a larger "
            "whole number."
        )
