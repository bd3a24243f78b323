"""Features as ramps between their quantiles, so that what is linear in them bends.

A ramp is 0 below one quantile of a feature, 1 above the next, and linear in between. A sum of
ramps is a curve of the feature: a projection of ramps gives every feature a curve of its own, as
an additive model does (Hastie and Tibshirani 1990), at the cost of a linear one.
"""

from collections.abc import Sequence

import numpy as np

from jplay._array_api import Array, is_numpy, like, namespace

_NARROW = 1e-6
"""Of the range of a feature, below which no ramp can rise: rounding would decide on it."""


def quantile_ramps(X: np.ndarray, n_ramps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the ramps of every feature begin, how steep they are, and how much each counts.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    n_ramps : int
        Between quantiles of equal distance. Those between equal quantiles are flat.

    Returns
    -------
    starts, slopes, heights : ndarray of shape (n_ramps, n_features)
        Heights are the share of the samples that lie between, half of those at the ends included.

    Examples
    --------
    >>> import numpy as np
    >>> starts, slopes, heights = quantile_ramps(np.array([[0.0], [1.0], [5.0]]), 2)
    >>> starts.ravel(), slopes.ravel(), heights.ravel().round(2)
    (array([0., 1.]), array([1.  , 0.25]), array([0.33, 0.33]))
    """
    knots = np.quantile(X, np.linspace(0, 1, n_ramps + 1), axis=0)
    below = np.stack([np.less(X, knot).mean(axis=0) for knot in knots])
    up_to = np.stack([np.less_equal(X, knot).mean(axis=0) for knot in knots])
    widths = np.diff(knots, axis=0)
    rises = widths > _NARROW * (knots[-1] - knots[0])
    slopes = rises / np.where(rises, widths, 1.0)
    return knots[:-1], slopes, np.diff((below + up_to) / 2, axis=0) * rises


def ramp(X: Array, start: Array, slope: Array) -> Array:
    """One ramp of every feature: numbers from 0 to 1.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    start, slope : array of shape (n_features,)

    Returns
    -------
    array of shape (n_samples, n_features)
    """
    rises = X - start
    rises *= slope
    if is_numpy(rises):
        return np.clip(rises, 0.0, 1.0, out=rises)
    return namespace(X).clip(rises, 0.0, 1.0)


def ramp_products(X: Array, starts: Array, slopes: Array, matrices: Sequence[Array]) -> list[Array]:
    """Products of all ramps with matrices, one ramp of every feature at a time.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    starts, slopes : array of shape (n_ramps, n_features)
    matrices : sequence of array of shape (n_outputs, n_ramps, n_features)

    Returns
    -------
    list of array of shape (n_samples, n_outputs)
    """
    starts, slopes = like(starts, X), like(slopes, X)
    matrices = [like(matrix, X) for matrix in matrices]
    totals: list = [0.0] * len(matrices)
    for number in range(starts.shape[0]):
        values = ramp(X, starts[number, :], slopes[number, :])
        totals = [
            total + values @ matrix[:, number, :].mT
            for total, matrix in zip(totals, matrices, strict=True)
        ]
    return totals
