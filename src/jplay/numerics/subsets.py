"""Which features and samples a member of a committee sees, and which samples teach others."""

import numpy as np
from numpy.typing import ArrayLike

_FEWEST = 6  # features, if there are as many
_LARGEST_SHARE = 0.4  # of the features, so that members differ
_SAMPLES_PER_FEATURE = 4  # a supervised stage on more features fits their noise


def supervised_subset_sizes(n_samples: int, n_features: int) -> list[int]:
    """Numbers of features for members whose first stage has seen the labels.

    Up to a quarter of the number of samples and four tenths of the features such a stage does
    not fit noise; half and a quarter of that make the members more diverse. Beyond, three
    tenths of the features and all of them: right for faces, wrong if features are about as many
    as samples, which held-out votes tell.

    Parameters
    ----------
    n_samples, n_features : int

    Returns
    -------
    list of int
        Five sizes between 1 and ``n_features``.

    Examples
    --------
    >>> supervised_subset_sizes(695, 200)
    [20, 40, 80, 60, 200]
    >>> supervised_subset_sizes(160, 200)
    [10, 20, 40, 60, 200]
    >>> supervised_subset_sizes(40, 5)
    [5, 5, 5, 5, 5]
    """
    fewest = min(_FEWEST, n_features)
    whole = min(int(_LARGEST_SHARE * n_features), n_samples // _SAMPLES_PER_FEATURE)
    sizes = [whole // 4, whole // 2, whole, int(0.3 * n_features), n_features]
    return [max(fewest, size) for size in sizes]


def class_folds(labels: ArrayLike, n_folds: int, rng: np.random.Generator) -> np.ndarray:
    """Fold of every sample, each class spread evenly over the folds.

    Every class begins at a fold of its own, so that small classes do not all leave their
    samples in the first folds. A class of one sample is absent from the training part of its
    fold.

    Parameters
    ----------
    labels : ndarray of int of shape (n_samples,)
    n_folds : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of int of shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.repeat([0, 1], 10)
    >>> folds = class_folds(labels, 5, np.random.default_rng(0))
    >>> [np.bincount(folds[labels == k]).tolist() for k in (0, 1)]
    [[2, 2, 2, 2, 2], [2, 2, 2, 2, 2]]
    """
    labels = np.asarray(labels)
    folds = np.empty(len(labels), dtype=np.intp)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        folds[members] = (np.arange(len(members)) + rng.integers(n_folds)) % n_folds
    return folds


def surest_of_each_class(
    labels: np.ndarray, confidence: np.ndarray, n_per_class: int, rng: np.random.Generator
) -> np.ndarray:
    """Samples drawn from the surer half of each class.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Class that each sample is given.
    confidence : ndarray of shape (n_samples,)
    n_per_class : int
        Maximum number of samples drawn of a class.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of int
        Indices, in ascending order.

    Examples
    --------
    >>> import numpy as np
    >>> confidence = np.array([0.5, 0.9, 0.6, 0.8])
    >>> surest_of_each_class(np.array([0, 0, 1, 1]), confidence, 5, np.random.default_rng(0))
    array([1, 3])
    """
    drawn = [np.empty(0, dtype=np.int64)]
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        own = own[confidence[own] >= np.median(confidence[own])]
        drawn.append(rng.permutation(own)[:n_per_class])
    return np.sort(np.concatenate(drawn))


def surest_share(labels: np.ndarray, confidence: np.ndarray, share: float) -> np.ndarray:
    """The surest samples of each class, the same share of every one.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Class that each sample is given.
    confidence : ndarray of shape (n_samples,)
    share : float
        Above 0, at most 1; at least one sample of each class is taken.

    Returns
    -------
    ndarray of int
        Indices, class by class, the surest first.

    Examples
    --------
    >>> import numpy as np
    >>> surest_share(np.array([0, 0, 1, 1]), np.array([0.5, 0.9, 0.6, 0.8]), 0.5)
    array([1, 3])
    """
    taken = [np.empty(0, dtype=np.int64)]
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        surest = own[np.argsort(-confidence[own], kind="stable")]
        taken.append(surest[: int(np.ceil(len(own) * share))])
    return np.concatenate(taken)
