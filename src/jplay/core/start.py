"""Where the solver starts: locality preserving projections, then a selection of their features."""

from collections.abc import Sequence

import numpy as np

from jplay.core.arrays import Array, inner, like, namespace, symmetrize, to_numpy, whiten_range

START_SIZE = 0.7
"""Root mean square norm of the first features: well inside the unit ball, and large enough to feel it.
Between 0.35 and 1.4 the objective reached changes by a thousandth."""


def compute_lpp(
    laplacian_gram: Array, degree_gram: Array, degree_sum: Array, total_degree: Array, mean: Array
) -> Array:
    """Locality preserving projections (Eq. 3) of centred samples, from moments of the graph.

    The largest solutions of ``X^T W X a = lambda X^T D X a``, in rows of unit length. Centring
    turns ``X^T D X`` into ``X^T D X - s m^T - m s^T + d m m^T`` with ``s = X^T D 1``, the mean ``m``
    and the total degree ``d``; it does not change the Laplacian.

    Returns
    -------
    theta : array of shape (rank, n_inputs)
    """
    xp = namespace(degree_gram)
    shift = degree_sum[:, None] * mean[None, :]
    centred = degree_gram - shift - shift.mT + total_degree * (mean[:, None] * mean[None, :])

    # Below the tolerance eigenvalues are rounding: of the centred matrix, or of the centring itself.
    before, after = (float(xp.max(xp.abs(matrix))) for matrix in (degree_gram, centred))
    tolerance = 10 * centred.shape[0] * float(xp.finfo(centred.dtype).eps)
    if after > 0:
        tolerance *= max(1.0, before / after)

    # X^T W X = X^T D X - X^T L X; whitened by the range of X^T D X the problem is an ordinary one.
    whitener = whiten_range(centred, tolerance)
    _, vectors = xp.linalg.eigh(symmetrize(whitener.mT @ (centred - laplacian_gram) @ whitener))
    theta = xp.flip((whitener @ vectors).mT, axis=0)
    theta = theta / xp.linalg.vector_norm(theta, axis=1, keepdims=True)

    # Features are to be non-negative, so the sign matters: their mean is positive; if it is rounding,
    # as for centred samples, that weighted by degree, or else the largest coefficient.
    size = 1e-6 * xp.sqrt(xp.sum((theta @ degree_gram) * theta, axis=1) / total_degree)
    signs = xp.max(theta, axis=1) + xp.min(theta, axis=1)
    for centre in (degree_sum / total_degree, mean):
        signs = xp.where(xp.abs(theta @ centre) > size, theta @ centre, signs)
    return xp.where(signs[:, None] < 0, -theta, theta)


def scale_into_ball(theta: Array, gram: Array, n_samples: int) -> Array:
    """Scale a projection so that its features lie inside the unit ball on average."""
    size = namespace(theta).sqrt(inner(theta @ gram, theta) / n_samples)
    return theta * (START_SIZE / size)


def pad_rows(theta: np.ndarray, n_rows: int) -> np.ndarray:
    """``theta`` with rows of zeros, if the samples support fewer projections than are asked for."""
    return np.pad(theta, ((0, max(0, n_rows - len(theta))), (0, 0)))


def select_features(gram: Array, sizes: Sequence[int]) -> list[Array]:
    """Layers that select among the features of the layer before, which are feasible already.

    By a pivoted Cholesky factorisation: each feature chosen is the one of which those before
    explain least.

    Parameters
    ----------
    gram : array of shape (..., n_features, n_features)
        Second moments of the features.
    sizes : sequence of int
        Of the layers.
    """
    grams = to_numpy(gram)
    stacks = [select_from(matrix, sizes) for matrix in grams.reshape(-1, *grams.shape[-2:])]
    layers = (np.stack(layer) for layer in zip(*stacks, strict=True))
    return [like(layer.reshape(*grams.shape[:-2], *layer.shape[-2:]), gram) for layer in layers]


def select_from(gram: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """The same for one problem."""
    residual, rows, chosen = gram.diagonal().copy(), [], []
    for _ in range(min(sizes[0], len(gram))):
        pivot = int(np.argmax(residual))
        row = gram[pivot] - sum(before[pivot] * before for before in rows)
        rows.append(row / np.sqrt(residual[pivot]) if residual[pivot] > 0 else 0 * row)
        residual -= rows[-1] ** 2
        residual[pivot] = -np.inf
        chosen.append(pivot)
    thetas, before = [], np.eye(len(gram))
    for size in sizes:
        selection = pad_rows(np.eye(len(gram))[sorted(chosen[:size])], size)
        thetas.append(selection @ before.T)
        before = selection
    return thetas
