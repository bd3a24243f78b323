"""Gaussian kernels between samples and a few centres."""

import numpy as np

from jplay._array_api import Array, is_numpy, namespace, to_numpy


def squared_distances(A: Array, B: Array, *, clipped: bool = True) -> Array:
    """Squared distances between the rows of ``A`` (n, p) and of ``B`` (b, p), shape (n, b).

    Rounding makes some that should be zero slightly negative; unless ``clipped`` they stay so,
    which saves a pass over the distances.
    """
    distances = _scaled_distances(A, B, 1.0)
    if not clipped:
        return distances
    if is_numpy(distances):
        return np.maximum(distances, 0, out=distances)
    return namespace(distances).where(distances > 0, distances, 0 * distances)


def _scaled_distances(A: Array, B: Array, factor: float) -> Array:
    """``factor`` times the squared distances, up to rounding.

    ``|a|^2 - 2 a b + |b|^2`` as one product of rows ``(a, |a|^2, 1)`` and ``(-2 b, 1, |b|^2)``:
    the sums cost nothing there, and a pass over the distances each otherwise. So does the factor,
    which goes into the second rows.
    """
    xp = namespace(A, B)
    ones_A, ones_B = xp.ones_like(A[:, :1]), xp.ones_like(B[:, :1])
    left = xp.concat([A, xp.sum(A * A, axis=1)[:, None], ones_A], axis=1)
    right = xp.concat([-2 * B, ones_B, xp.sum(B * B, axis=1)[:, None]], axis=1)
    return left @ (factor * right).mT


def median_distance(distances: Array) -> float:
    """Root of the median of the ``distances`` (squared) that are not zero; 1 if all are."""
    distances = to_numpy(distances)
    positive = distances[distances > 1e-12 * distances.max(initial=0.0)]
    return float(np.sqrt(np.median(positive))) if positive.size else 1.0


def gaussian_similarities(A: Array, B: Array, width: float) -> Array:
    """``exp(-|a - b|^2 / (2 width^2))`` of all pairs of rows, (n, b), in a product and a pass.

    Examples
    --------
    >>> import numpy as np
    >>> gaussian_similarities(np.array([[0.0], [2.0]]), np.array([[0.0]]), 1.0).round(3)
    array([[1.   ],
           [0.135]])
    """
    exponents = _scaled_distances(A, B, -0.5 / width**2)
    if is_numpy(exponents):
        return np.exp(exponents, out=exponents)
    return namespace(exponents).exp(exponents)
