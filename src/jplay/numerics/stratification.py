"""Folds of multi-label samples that hold every label in its proportion (Sechidis et al. 2011)."""

import numpy as np


def iterative_folds(Y: np.ndarray, n_splits: int, rng: np.random.RandomState) -> np.ndarray:
    """Deal samples to folds, those of the rarest label first.

    Each sample of the label with fewest samples left goes to the fold that still lacks that
    label most, then to the one that lacks samples most, then to a random one of these.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, n_labels)
        Indicators.
    n_splits : int
    rng : numpy.random.RandomState

    Returns
    -------
    folds : ndarray of int of shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> Y = np.array([[1, 0], [1, 0], [1, 1], [1, 1], [0, 0], [0, 0]])
    >>> folds = iterative_folds(Y, 2, np.random.RandomState(0))
    >>> [Y[folds == k].sum(axis=0).tolist() for k in (0, 1)]
    [[2, 1], [2, 1]]
    """
    Y = np.asarray(Y) != 0
    n_samples, n_labels = Y.shape
    folds = np.full(n_samples, -1)
    wanted_samples = np.full(n_splits, n_samples / n_splits)
    wanted_labels = np.tile(Y.sum(axis=0) / n_splits, (n_splits, 1))
    members = [np.flatnonzero(Y[:, label]) for label in range(n_labels)]
    left = Y.sum(axis=0)

    def deal(sample: int, wish: np.ndarray) -> None:
        best = np.flatnonzero(wish == wish.max())
        best = best[wanted_samples[best] == wanted_samples[best].max()]
        fold = best[0] if len(best) == 1 else rng.choice(best)
        folds[sample] = fold
        wanted_samples[fold] -= 1
        wanted_labels[fold, Y[sample]] -= 1
        left[Y[sample]] -= 1

    while left.any():
        label = int(np.argmin(np.where(left > 0, left, n_samples + 1)))
        waiting = members[label][folds[members[label]] < 0]
        for sample in rng.permutation(waiting):
            deal(sample, wanted_labels[:, label])
    for sample in rng.permutation(np.flatnonzero(folds < 0)):
        deal(sample, wanted_samples)
    return folds
