"""The few array operations that the array API standard leaves to each library.

Everything else in this package is written for any library that ``array_api_compat`` knows, and for
arrays with leading axes: a stack of matrices is a stack of problems.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import scipy.linalg

from jplay._array_api import (
    eigh,
    identity,
    is_numpy,
    largest_magnitude,
    like,
    linalg_errors,
    namespace,
    rows_of,
    solve_positive,
    to_numpy,
    zeros_like_shape,
)

__all__ = [
    "Array",
    "concat_rows",
    "eigh",
    "eigh_generalized",
    "identity",
    "inner",
    "is_numpy",
    "is_plain",
    "largest_magnitude",
    "like",
    "linalg_errors",
    "multiply_chain",
    "namespace",
    "rows_of",
    "solve_positive",
    "symmetrize",
    "to_numpy",
    "trace",
    "whiten_range",
    "zeros_like_shape",
]

Array = Any
"""An array of any library. The standard defines no common base class."""


def is_plain(array: Array) -> bool:
    """Whether ``array`` is a single NumPy matrix, which SciPy's LAPACK wrappers accept."""
    return is_numpy(array) and array.ndim == 2


def symmetrize(matrix: Array) -> Array:
    """Return the nearest symmetric matrix, which removes the rounding of a product."""
    return (matrix + matrix.mT) / 2


def trace(matrix: Array) -> Array:
    """Return the trace, of shape (..., 1, 1)."""
    if is_numpy(matrix):  # much faster than through the namespace
        return matrix.trace(axis1=-2, axis2=-1)[..., None, None]
    return namespace(matrix).linalg.trace(matrix)[..., None, None]


def inner(left: Array, right: Array) -> Array:
    """Return the inner product ``tr(left^T right)``, of shape (..., 1, 1)."""
    return namespace(left).sum(left * right, axis=(-2, -1), keepdims=True)


def concat_rows(arrays: list[Array]) -> Array:
    """Stack matrices on top of each other."""
    return arrays[0] if len(arrays) == 1 else namespace(*arrays).concat(arrays, axis=-2)


def eigh_generalized(a: Array, b: Array) -> tuple[Array, Array]:
    """Solve ``a v = lambda b v`` for positive definite ``b``, with ``V^T b V = I``."""
    if is_plain(a):
        return scipy.linalg.eigh(a, b, check_finite=False)
    # With b = L L^T and v = L^-T w the problem is L^-1 a L^-T w = lambda w.
    xp = namespace(a)
    unit = xp.broadcast_to(identity(b.shape[-1], b), b.shape)
    inverse = xp.linalg.solve(xp.linalg.cholesky(b), unit)
    values, vectors = eigh(symmetrize(inverse @ a @ inverse.mT))
    return values, inverse.mT @ vectors


def multiply_chain(thetas: Sequence[Array]) -> Array:
    """Return the product ``Theta_m ... Theta_1``."""
    return reduce(lambda product, theta: theta @ product, thetas)


def whiten_range(matrix: Array, rtol: float) -> Array:
    """Return ``W`` with ``W^T matrix W = I`` on the range of a positive semi-definite matrix.

    Eigenvalues up to ``rtol`` times the largest count as zero; ``W`` has one column per other
    eigenvalue.
    """
    xp = namespace(matrix)
    values, vectors = xp.linalg.eigh(symmetrize(matrix))
    rank = int(xp.sum(xp.astype(values > rtol * xp.max(xp.abs(values)), xp.int64)))
    first = values.shape[0] - rank
    return vectors[:, first:] / xp.sqrt(values[first:])
