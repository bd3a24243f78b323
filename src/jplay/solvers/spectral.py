"""Subspaces that one generalised eigenproblem gives: LFDA and NPE."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jplay._array_api import Array, identity, namespace
from jplay.core.graph import find_neighbors
from jplay.numerics.eigen import leading_generalized_eigenvectors
from jplay.numerics.reconstruction import reconstruction_residuals
from jplay.numerics.scatter import centring_noise, local_scatters


@dataclass(frozen=True, eq=False)
class SpectralResult:
    """Eigenvectors as rows of ``components``, with their eigenvalues and the mean of the samples.

    ``components`` has fewer rows than were asked for when the rank does not allow more.
    """

    components: Array
    eigenvalues: Array
    mean: Array


def _largest_entry_positive(components: Array) -> Array:
    """Fix the sign of every row: its entry of largest magnitude is positive."""
    xp = namespace(components)
    largest = xp.max(components, axis=1)
    flip = -xp.min(components, axis=1) > largest
    return xp.where(flip[:, None], -components, components)


def solve_lfda(
    X: Array,
    class_indices: Sequence[Array],
    n_components: int | None,
    *,
    n_neighbors: int,
    embedding: str,
    reg: float,
) -> SpectralResult:
    """Local Fisher discriminant analysis; see :class:`jplay.LFDA` for the parameters.

    The largest eigenvalues of ``S_between a = lambda S_within a``. A ridge on ``S_within`` is
    relative to its mean eigenvalue, so that it does not depend on the unit of the features.

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
        ridge = reg * xp.linalg.trace(within) / X.shape[1]
        within = within + ridge * identity(X.shape[1], X)
    values, vectors = leading_generalized_eigenvectors(between, within, n_components)
    if embedding == "weighted":
        vectors = vectors * xp.sqrt(xp.where(values > 0, values, xp.zeros_like(values)))
    elif embedding == "orthonormalized" and vectors.shape[1]:
        vectors, _ = xp.linalg.qr(vectors)
    components = _largest_entry_positive(vectors.mT) if vectors.shape[1] else vectors.mT
    return SpectralResult(components, values, xp.mean(X, axis=0))


def solve_npe(
    X: np.ndarray, n_components: int | None, *, n_neighbors: int, reg: float
) -> SpectralResult:
    """Neighbourhood preserving embedding; see :class:`jplay.NPE` for the parameters.

    With ``M = (I - S)^T (I - S)`` for reconstruction weights ``S``, the smallest eigenvalues of
    ``X^T M X a = lambda X^T X a``. ``M`` is not formed: ``X^T M X`` is the Gram matrix of the
    residuals ``(I - S) X``.
    """
    mean = X.mean(axis=0)
    centred = X - mean
    neighbors, _ = find_neighbors(centred, n_neighbors, "exact")
    residuals = reconstruction_residuals(centred, neighbors, reg)
    scatter = centred.T @ centred
    spread = float(np.trace(scatter)) or 1.0
    precision = 10 * X.shape[1] * float(np.finfo(X.dtype).eps)
    values, vectors = leading_generalized_eigenvectors(
        residuals.T @ residuals,
        scatter,
        n_components,
        largest=False,
        rtol=max(precision, centring_noise(X) ** 2 / spread),
    )
    components = _largest_entry_positive(vectors.T) if vectors.shape[1] else vectors.T
    return SpectralResult(components, values, mean)
