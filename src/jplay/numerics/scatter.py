"""Scatter matrices of local Fisher discriminant analysis, one class at a time."""

from collections.abc import Sequence

import numpy as np

from jplay._array_api import Array, is_numpy, namespace, zeros_like_shape

_BLOCK_ELEMENTS = 4_000_000


def centring_noise(X: Array) -> float:
    """Largest singular value that rounding alone leaves of centred samples.

    Subtracting the mean leaves errors of a few units in the last place of the largest entry, in
    every entry. Eight units cover the rounding of the mean as well.
    """
    xp = namespace(X)
    n_entries = X.shape[0] * X.shape[1]
    return 8 * float(xp.finfo(X.dtype).eps) * n_entries**0.5 * float(xp.max(xp.abs(X)))


def _squared_distances(rows: Array, X: Array, row_norms: Array, norms: Array) -> Array:
    """Squared distances; what rounding cannot tell from zero is zero."""
    xp = namespace(rows, X)
    scale = row_norms[:, None] + norms[None, :]
    distances = scale - 2 * (rows @ X.mT)
    noise = 4 * X.shape[1] * float(xp.finfo(X.dtype).eps) * scale
    return xp.where(distances > noise, distances, xp.zeros_like(distances))


def _kth_smallest(values: Array, k: int) -> Array:
    """``k``-th smallest entry (from zero) of every row."""
    if is_numpy(values):
        return np.partition(values, k, axis=1)[:, k]
    return namespace(values).sort(values, axis=1)[:, k]


def _scaled_affinity(distances: Array, row_widths: Array, widths: Array) -> Array:
    """``exp(-d_ij / (s_i s_j))``; where a width is zero, one for duplicates and zero else."""
    xp = namespace(distances)
    product = row_widths[:, None] * widths[None, :]
    positive = product > 0
    safe = xp.where(positive, product, xp.ones_like(product))
    duplicate = xp.astype(distances == 0, distances.dtype)
    return xp.where(positive, xp.exp(-distances / safe), duplicate)


def local_class_scatter(X: Array, n_neighbors: int = 7) -> Array:
    """``X^T (diag(A 1) - A) X`` of one class with local scaling.

    ``A_ij = exp(-|x_i - x_j|^2 / (s_i s_j))``, ``s_i`` the distance of sample ``i`` to its
    ``n_neighbors``-th nearest neighbour in ``X`` (to the farthest sample where there are
    fewer). ``A`` is made in blocks of rows.

    Parameters
    ----------
    X : array of shape (n_class_samples, n_features)
    n_neighbors : int, default=7

    Returns
    -------
    scatter : array of shape (n_features, n_features)
    """
    xp = namespace(X)
    n_samples, n_features = X.shape
    scatter = zeros_like_shape((n_features, n_features), X)
    if n_samples == 1:
        return scatter
    X = X - xp.mean(X, axis=0)
    norms = xp.sum(X * X, axis=1)
    height = max(1, _BLOCK_ELEMENTS // n_samples)
    blocks = [slice(i, min(i + height, n_samples)) for i in range(0, n_samples, height)]
    neighbor = min(n_neighbors, n_samples - 1)
    widths = xp.concat(
        [
            xp.sqrt(_kth_smallest(_squared_distances(X[rows, :], X, norms[rows], norms), neighbor))
            for rows in blocks
        ]
    )
    for rows in blocks:
        distances = _squared_distances(X[rows, :], X, norms[rows], norms)
        affinity = _scaled_affinity(distances, widths[rows], widths)
        degrees = xp.sum(affinity, axis=1)
        scatter = scatter + X[rows, :].mT @ (degrees[:, None] * X[rows, :] - affinity @ X)
    return (scatter + scatter.mT) / 2


def local_scatters(
    X: Array, class_indices: Sequence[Array], n_neighbors: int = 7
) -> tuple[Array, Array]:
    """Local within-class and between-class scatter matrices.

    The pairwise definition is ``1/2 sum_ij w_ij (x_i - x_j)(x_i - x_j)^T`` with weights

    - within: ``A_ij / n_c`` for two samples of class ``c``, zero for different classes;
    - between: ``A_ij (1 / n - 1 / n_c)`` for the same class ``c``, ``1 / n`` for different ones.

    Both are summed per class here, in ``O(n_c^2 d + n d^2)``.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    class_indices : list of integer arrays
        Indices of the samples of each class.
    n_neighbors : int, default=7

    Returns
    -------
    within, between : arrays of shape (n_features, n_features)
    """
    xp = namespace(X)
    n_samples, n_features = X.shape
    X = X - xp.mean(X, axis=0)
    within = zeros_like_shape((n_features, n_features), X)
    between = zeros_like_shape((n_features, n_features), X)
    for indices in class_indices:
        members = xp.take(X, indices, axis=0)
        n_members = members.shape[0]
        scatter = local_class_scatter(members, n_neighbors)
        total = xp.sum(members, axis=0)
        within = within + scatter / n_members
        between = between + (
            scatter / n_samples
            + (1 - n_members / n_samples) * (members.mT @ members)
            + total[:, None] * total[None, :] / n_samples
        )
    # The sum of all rows is zero after centring, so its outer product drops out.
    between = between - within
    return within, (between + between.mT) / 2
