"""Symmetric eigenproblems, generalised ones too, whose right-hand matrix may be singular."""

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from jplay._array_api import Array, is_numpy, namespace


def symmetrize(matrix: Array) -> Array:
    """Nearest symmetric matrix, which takes the rounding of a product away."""
    return (matrix + matrix.mT) / 2


def range_basis(matrix: Array, rtol: float | None = None) -> tuple[Array, Array]:
    """Eigenpairs of a positive semi-definite ``matrix`` with non-zero eigenvalue.

    Parameters
    ----------
    matrix : array of shape (n_features, n_features)
    rtol : float, default=None
        Eigenvalues up to ``rtol`` times the largest count as zero. ``None`` means
        ``10 * n_features`` times the precision of the dtype.

    Returns
    -------
    values : array of shape (rank,)
    vectors : array of shape (n_features, rank)
    """
    xp = namespace(matrix)
    values, vectors = xp.linalg.eigh(symmetrize(matrix))
    if rtol is None:
        rtol = 10 * matrix.shape[-1] * float(xp.finfo(matrix.dtype).eps)
    # Rounding may leave a matrix of zeros with nothing but negative eigenvalues.
    rank = int(xp.sum(xp.astype(values > rtol * xp.max(xp.abs(values)), xp.int64)))
    return values[values.shape[0] - rank :], vectors[:, vectors.shape[1] - rank :]


def principal_axes(X: np.ndarray, n_axes: int) -> np.ndarray:
    """Leading principal axes of samples, in columns; fewer if the samples vary along fewer.

    From the products of samples or of features, whichever are fewer.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    n_axes : int
        At most as many as samples and as features.

    Examples
    --------
    >>> import numpy as np
    >>> np.abs(principal_axes(np.array([[0.0, 1.0], [3.0, 1.0], [6.0, 1.0]]), 1)).round(6)
    array([[1.],
           [0.]])
    """
    X = X - X.mean(axis=0)
    wide, size = X.shape[1] > X.shape[0], min(X.shape)
    values, vectors = scipy.linalg.eigh(
        X @ X.T if wide else X.T @ X,
        subset_by_index=[size - n_axes, size - 1],
        check_finite=False,
    )
    kept = values > 1e-12 * values[-1]
    vectors = vectors[:, kept]
    return X.T @ (vectors / np.sqrt(values[kept])) if wide else vectors


def is_well_conditioned(matrix: Array, rtol: float) -> bool:
    """Whether all eigenvalues of a symmetric ``matrix`` are clearly above ``rtol`` of the largest.

    A Cholesky factor tells in a tenth of the time that the eigenvalues take, by an estimate that is
    rarely wrong by more than a factor of three. ``False`` in case of doubt, for stacks, and for
    arrays that LAPACK cannot take.
    """
    if not is_numpy(matrix) or matrix.dtype != np.float64 or matrix.ndim != 2:
        return False
    factor, failed = lapack.dpotrf(matrix, lower=True)
    if failed:
        return False
    # The ratio of the extreme eigenvalues is at least the reciprocal condition in this norm.
    reciprocal, _ = lapack.dpocon(factor, np.linalg.norm(matrix, 1), uplo="L")
    return bool(reciprocal > 10 * rtol)
