"""Subspaces that one generalised eigenproblem gives: LFDA and NPE."""

from dataclasses import dataclass
from typing import Any

from jplay._array_api import identity, namespace
from jplay.numerics.eigen import leading_generalized_eigenvectors
from jplay.numerics.graph import nearest_neighbors
from jplay.numerics.reconstruction import reconstruction_residuals
from jplay.numerics.scatter import local_scatters


@dataclass(frozen=True)
class SpectralResult:
    """Eigenvectors as rows of ``components``, with their eigenvalues and the mean of the samples.

    ``components`` has fewer rows than were asked for when the rank does not allow more.
    """

    components: Any
    eigenvalues: Any
    mean: Any


def _largest_entry_positive(components):
    """Fix the sign of every row: its entry of largest magnitude is positive."""
    xp = namespace(components)
    largest = xp.max(components, axis=1)
    flip = -xp.min(components, axis=1) > largest
    return xp.where(flip[:, None], -components, components)


def _trace(matrix):
    xp = namespace(matrix)
    return xp.sum(xp.linalg.diagonal(matrix))


def solve_lfda(X, class_indices, n_components, *, n_neighbors, embedding, reg):
    """Local Fisher discriminant analysis; see :class:`jplay.LFDA` for the parameters.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), float64
    class_indices : list of integer arrays
        Indices of the samples of each class.

    Returns
    -------
    result : SpectralResult
        Without rows when the within-class scatter is zero.
    """
    xp = namespace(X)
    within, between = local_scatters(X, class_indices, n_neighbors)
    if reg > 0:
        ridge = reg * _trace(within) / X.shape[1]
        within = within + ridge * identity(X.shape[1], X)
    values, vectors = leading_generalized_eigenvectors(between, within, n_components)
    if embedding == "weighted":
        vectors = vectors * xp.sqrt(xp.where(values > 0, values, xp.zeros_like(values)))
    elif embedding == "orthonormalized" and vectors.shape[1]:
        vectors, _ = xp.linalg.qr(vectors)
    components = _largest_entry_positive(vectors.mT) if vectors.shape[1] else vectors.mT
    return SpectralResult(components, values, xp.mean(X, axis=0))


def solve_npe(X, n_components, *, n_neighbors, reg):
    """Neighbourhood preserving embedding; see :class:`jplay.NPE` for the parameters."""
    mean = X.mean(axis=0)
    centred = X - mean
    neighbors, _ = nearest_neighbors(centred, n_neighbors)
    residuals = reconstruction_residuals(centred, neighbors, reg)
    values, vectors = leading_generalized_eigenvectors(
        residuals.T @ residuals, centred.T @ centred, n_components, largest=False
    )
    components = _largest_entry_positive(vectors.T) if vectors.shape[1] else vectors.T
    return SpectralResult(components, values, mean)
