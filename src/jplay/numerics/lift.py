"""Which samples are the landmarks of a lifted chain."""

import numpy as np
from numpy.typing import ArrayLike


def landmark_indices(labels: ArrayLike, n_landmarks: int, rng: np.random.Generator) -> np.ndarray:
    """Samples that stand for all others, the classes in turn, so that no class goes without.

    Parameters
    ----------
    labels : ndarray of int of shape (n_samples,)
    n_landmarks : int
    rng : numpy.random.Generator

    Returns
    -------
    indices : ndarray of int of shape (min(n_landmarks, n_samples),)
        In increasing order.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([0] * 98 + [1, 1])
    >>> chosen = landmark_indices(labels, 4, np.random.default_rng(0))
    >>> labels[chosen].tolist()
    [0, 0, 1, 1]
    """
    labels = np.asarray(labels)
    shuffled = rng.permutation(len(labels))
    turn = np.empty(len(labels))
    for label in np.unique(labels):
        members = shuffled[labels[shuffled] == label]
        turn[members] = np.arange(len(members))
    order = np.lexsort((rng.permutation(len(labels)), turn))
    return np.sort(order[:n_landmarks])
