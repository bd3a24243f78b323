"""Where the solver starts: locality preserving projections, then a selection of their features."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jplay.core.arrays import Array, inner, like, namespace, symmetrize, to_numpy, whiten_range

START_NORM = 0.7
"""Root mean square norm of the first features: well inside the unit ball, and large enough that its
constraint is felt. Between 0.35 and 1.4 the final objective changes by a thousandth."""


def compute_lpp(edges: Any, mean: Array) -> Array:
    """Compute locality preserving projections (Eq. 3) of centered samples.

    They are the largest solutions of ``X^T W X a = lambda X^T D X a``, in rows of unit length.
    Centering turns ``X^T D X`` into ``X^T D X - s m^T - m s^T + d m m^T`` with ``s = X^T D 1``,
    the mean ``m`` and the total degree ``d``; it does not change the Laplacian.

    Parameters
    ----------
    edges : GraphMoments
    mean : array of shape (n_inputs,)
        Mean of the samples.

    Returns
    -------
    theta : array of shape (rank, n_inputs)
        As many projections as the samples support. The features have a non-negative mean; if it is
        rounding, as for centered samples, a non-negative mean weighted by degrees; or else the
        largest coefficient is positive.
    """
    xp = namespace(edges.degree_gram)
    shift = edges.degree_sum[:, None] * mean[None, :]
    outer = edges.total_degree * (mean[:, None] * mean[None, :])
    centered = edges.degree_gram - shift - shift.mT + outer

    # Below the tolerance eigenvalues are rounding: of the centered matrix, or of the subtraction.
    before, after = (float(xp.max(xp.abs(A))) for A in (edges.degree_gram, centered))
    tolerance = 10 * centered.shape[0] * float(xp.finfo(centered.dtype).eps)
    tolerance = tolerance * max(1.0, before / after) if after > 0 else 1.0

    # X^T W X = X^T D X - X^T L X; whitened by the range of X^T D X the problem is an ordinary one.
    whitener = whiten_range(centered, tolerance)
    affinity_gram = centered - edges.laplacian_gram
    values, vectors = xp.linalg.eigh(symmetrize(whitener.mT @ affinity_gram @ whitener))
    theta = xp.flip(rotate_equal(to_numpy(values), whitener @ vectors).mT, axis=0)
    theta = theta / xp.linalg.vector_norm(theta, axis=1, keepdims=True)

    # A mean below a millionth of the features' size is rounding, also of samples in single
    # precision (1e-7), and its sign carries nothing.
    size = 1e-6 * xp.sqrt(xp.sum((theta @ edges.degree_gram) * theta, axis=1) / edges.total_degree)
    signs = xp.max(theta, axis=1) + xp.min(theta, axis=1)
    for center in (edges.degree_sum / edges.total_degree, mean):
        signs = xp.where(xp.abs(theta @ center) > size, theta @ center, signs)
    return xp.where(signs[:, None] < 0, -theta, theta)


def rotate_equal(values: np.ndarray, vectors: Array) -> Array:
    """Make eigenvectors of equal eigenvalues orthogonal, the shortest first.

    A graph in several pieces has one such vector for each piece. Any rotation of them solves the
    eigenproblem, and rounding would choose one: another processor would start elsewhere.
    """
    if not len(values):
        return vectors
    xp = namespace(vectors)
    starts = np.flatnonzero(np.diff(values, prepend=-np.inf) > 1e-9 * np.abs(values).max())
    rotated = []
    for start, stop in zip(starts, [*starts[1:], len(values)], strict=True):
        part = vectors[:, int(start) : int(stop)]
        if stop - start > 1:
            part = part @ xp.linalg.eigh(symmetrize(part.mT @ part))[1]
        rotated.append(part)
    return xp.concat(rotated, axis=1)


def scale_into_ball(theta: Array, gram: Array, n_samples: Any) -> Array:
    """Scale a projection so that its features lie inside the unit ball on average."""
    norm = namespace(theta).sqrt(inner(theta @ gram, theta) / n_samples)
    return theta * (START_NORM / norm)


def pad_rows(theta: np.ndarray, n_rows: int) -> np.ndarray:
    """Append rows of zeros if the samples support fewer projections than requested."""
    return np.pad(theta, ((0, max(0, n_rows - len(theta))), (0, 0)))


def add_layers(gram: Array, sizes: Sequence[int]) -> list[Array]:
    """Return layers that select among the features of the layer before.

    A selection of feasible features is feasible. Selected are features of which those selected
    before explain least, by a pivoted Cholesky factorization.

    Parameters
    ----------
    gram : array of shape (..., n_features, n_features)
        Second moments of the features.
    sizes : sequence of int
        Output sizes of the layers.

    Returns
    -------
    thetas : list of arrays of shape (..., n_out, n_in)
    """
    grams = to_numpy(gram)
    chains = [select_features(matrix, sizes) for matrix in grams.reshape(-1, *grams.shape[-2:])]
    layers = (np.stack(layer) for layer in zip(*chains, strict=True))
    return [like(layer.reshape(*grams.shape[:-2], *layer.shape[-2:]), gram) for layer in layers]


def select_features(gram: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """Return the layers of :func:`add_layers` for one problem."""
    residual = gram.diagonal().copy()
    rows = np.zeros((min(sizes[0], len(gram)), len(gram)))
    pivots: list[int] = []
    for row in rows:
        pivot = int(np.argmax(residual))
        # A feature that the others explain up to rounding explains nothing in its turn.
        if residual[pivot] > 0:
            row[:] = (gram[pivot] - rows[:, pivot] @ rows) / np.sqrt(residual[pivot])
        residual -= row**2
        residual[pivot] = -np.inf
        pivots.append(pivot)
    thetas, before = [], np.eye(len(gram))
    for size in sizes:
        selection = pad_rows(np.eye(len(gram))[sorted(pivots[:size])], size)
        thetas.append(selection @ before.T)
        before = selection
    return thetas
