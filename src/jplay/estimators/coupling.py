"""Decisions of several tasks that know of each other.

Samples labelled for two tasks tell which classes go together: a pixel of maize that was not
ploughed is a pixel of maize. A task with few labels then need not find out by itself what one
with many knows.
"""

import numpy as np

from jplay.core.arrays import Array, namespace

_COUNTS = np.geomspace(0.1, 1000.0, 17)
"""Samples, so many, that the overall shares may count for."""


def estimate_composition(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
    r"""Share of every other class among samples of a class, smoothed.

    The observed shares are mixed with the overall ones,
    :math:`(n_{fg} + m \pi_g) / (n_f + m)`, where :math:`m` makes left-out samples most likely: it
    is small if one class tells the other, and large if they have nothing to do with each other.

    Parameters
    ----------
    counts : ndarray of shape (n_classes, n_others)
        Samples with both labels.
    prior : ndarray of shape (n_others,)
        Overall shares.

    Returns
    -------
    shares : ndarray of shape (n_classes, n_others)

    Examples
    --------
    >>> import numpy as np
    >>> estimate_composition(np.array([[8, 0], [0, 8]]), np.array([0.5, 0.5])).round(2)
    array([[0.99, 0.01],
           [0.01, 0.99]])
    """
    totals = counts.sum(axis=1, keepdims=True)
    seen = counts > 0
    best, likelihood = _COUNTS[-1], -np.inf
    for count in _COUNTS:
        with np.errstate(divide="ignore", invalid="ignore"):
            left_out = np.log((counts - 1 + count * prior) / (totals - 1 + count))
        value = float((counts[seen] * left_out[seen]).sum())
        if value > likelihood:
            best, likelihood = count, value
    return (counts + best * prior) / (totals + best)


def apply_composition(probabilities: Array, others: Array, shares: Array) -> Array:
    r"""Probabilities of classes that agree with what is known of another task.

    Together :math:`p_f S_{fg}` is the probability of both classes. It is scaled so that the other
    task's classes have the probabilities that they are known to have (Jeffrey 1965),

    .. math:: p'_f = p_f \sum_g q_g \frac{S_{fg}}{\sum_h p_h S_{hg}}.

    Parameters
    ----------
    probabilities : array of shape (n_samples, n_classes)
        :math:`p`, rows sum to one.
    others : array of shape (n_samples, n_others)
        :math:`q`, likewise.
    shares : array of shape (n_classes, n_others)
        :math:`S`, from :func:`estimate_composition`.

    Examples
    --------
    >>> import numpy as np
    >>> apply_composition(np.array([[0.6, 0.4]]), np.array([[0.1, 0.9]]), np.eye(2))
    array([[0.1, 0.9]])
    """
    xp = namespace(probabilities)
    expected = probabilities @ shares
    # Shares are smoothed, so the sum is positive; rounding may make it zero.
    least = float(xp.finfo(expected.dtype).eps) ** 2
    found = probabilities * ((others / (expected + least)) @ shares.mT)
    return found / xp.sum(found, axis=1)[:, None]
