"""Generalized eigenproblems of NPE and LFDA, and what rounding leaves of centered samples."""

from jplay.core.arrays import Array, namespace, symmetrize, whiten_range


def solve_eigenproblem(
    a: Array,
    b: Array,
    n_components: int | None,
    *,
    largest: bool = True,
    rtol: float | None = None,
) -> tuple[Array, Array]:
    """Solve ``a v = lambda b v`` within the range of a positive semi-definite ``b``.

    With ``W`` such that ``W^T b W = I`` and ``v = W w`` it is the ordinary problem
    ``W^T a W w = lambda w``.

    Parameters
    ----------
    a, b : arrays of shape (n_features, n_features)
        Symmetric matrices; ``b`` may be singular.
    n_components : int or None
        Maximum number of eigenvectors; ``None`` means the rank of ``b``, which is the limit.
    largest : bool, default=True
        Whether the largest eigenvalues come first, or the smallest.
    rtol : float, default=None
        Eigenvalues of ``b`` up to ``rtol`` times the largest count as zero. ``None`` means
        ``10 * n_features`` times the precision of the dtype.

    Returns
    -------
    values : array of shape (n_found,)
    vectors : array of shape (n_features, n_found)
        Columns with ``vectors.T @ b @ vectors = I``.
    """
    xp = namespace(a, b)
    if rtol is None:
        rtol = 10 * b.shape[0] * float(xp.finfo(b.dtype).eps)
    whitener = whiten_range(b, rtol)
    values, vectors = xp.linalg.eigh(symmetrize(whitener.mT @ a @ whitener))
    if largest:
        values, vectors = xp.flip(values), xp.flip(vectors, axis=1)
    n_found = min(n_components or values.shape[0], values.shape[0])
    return values[:n_found], whitener @ vectors[:, :n_found]


def reduce_to_row_space(X: Array) -> tuple[Array, Array | None]:
    """Return coordinates of centered samples, and the basis that leads back to features.

    If features outnumber samples, coordinates in an orthonormal basis of the samples' row space
    replace them, and no matrix of the size of the features squared is formed: directions outside
    of it do not vary. Otherwise the samples are their own coordinates, and the basis is ``None``.
    """
    if X.shape[1] <= X.shape[0]:
        return X, None
    basis, coordinates = namespace(X).linalg.qr(X.mT)
    return coordinates.mT, basis


def fix_signs(components: Array) -> Array:
    """Return rows with such signs that the entry of largest magnitude is positive."""
    xp = namespace(components)
    flip = -xp.min(components, axis=1) > xp.max(components, axis=1)
    return xp.where(flip[:, None], -components, components)


def centering_noise(X: Array) -> float:
    """Return the largest singular value that rounding alone leaves of centered samples.

    Subtracting the mean leaves errors of a few units in the last place of the largest entry, in
    every entry. Eight units cover the rounding of the mean as well.
    """
    xp = namespace(X)
    n_entries = X.shape[0] * X.shape[1]
    return 8 * float(xp.finfo(X.dtype).eps) * n_entries**0.5 * float(xp.max(xp.abs(X)))
