"""Neighborhood preserving embedding (He et al. 2005)."""

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import validate_data

from jplay._estimator_base import CenteredTransformer, check_n_components, check_squares
from jplay._fitting import stores_at_end
from jplay.baselines._linalg import (
    centering_noise,
    fix_signs,
    reduce_to_row_space,
    solve_eigenproblem,
)
from jplay.core.graph import find_neighbors

BLOCK_ELEMENTS = 4_000_000
"""Maximum number of entries of the differences between samples and their neighbors, which are made
in blocks: 32 MB. Larger blocks take more memory. Chosen by hand."""


class NPE(CenteredTransformer, BaseEstimator):
    r"""Neighborhood preserving embedding, locally linear embedding with a linear map.

    Every sample is written as a weighted sum of its nearest neighbors, and the
    directions are those along which the same weights reconstruct the projected
    samples best:

    .. math:: \min_a \; a^T X^T (I - S)^T (I - S) X a
        \quad \text{subject to} \quad a^T X^T X a = 1,

    where row ``i`` of ``S`` holds the reconstruction weights of sample ``i``, which sum to one,
    and ``X`` is centered.

    Parameters
    ----------
    n_components : int, default=2
        Dimension of the subspace.
    n_neighbors : int, default=5
        Neighbors that reconstruct a sample. At most ``n_samples - 1`` are used.
    reg : float, default=1e-3
        Ridge of the local least-squares problems, as a fraction of the trace of each
        local Gram matrix. Below 1e-12 it would be rounding, and they could not be solved.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The directions, smallest reconstruction error first.
    reconstruction_errors_ : ndarray of shape (n_components,)
        Squared reconstruction error along every direction as a fraction of its variance.
    mean_ : ndarray of shape (n_features,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when ``X`` has feature names that are all strings.

    References
    ----------
    X. He, D. Cai, S. Yan and H.-J. Zhang, "Neighborhood preserving embedding", ICCV 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from jplay import NPE
    >>> X, _ = load_digits(return_X_y=True)
    >>> NPE(n_components=3).fit_transform(X).shape
    (1797, 3)
    """

    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "reg": [Interval(Real, 1e-12, 1e10, closed="both")],
    }

    def __init__(self, n_components: int = 2, *, n_neighbors: int = 5, reg: float = 0.001) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.reg = reg

    @stores_at_end
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the subspace.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        self : NPE
        """
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_squares(X)
        check_n_components(
            self.n_components,
            X.shape[1],
            f"the number of features, n_features={X.shape[1]}",
            "Choose fewer components.",
        )
        samples = X.astype(np.float64, copy=False)
        mean = samples.mean(axis=0)
        centered = samples - mean
        neighbors, _ = find_neighbors(centered, min(self.n_neighbors, len(X) - 1), "exact")
        centered, basis = reduce_to_row_space(centered)
        residuals = reconstruction_residuals(centered, neighbors, self.reg)
        scatter = centered.T @ centered
        # Directions in which samples vary by no more than rounding have no reconstruction error.
        precision = 10 * X.shape[1] * float(np.finfo(np.float64).eps)
        spread = float(np.trace(scatter)) or 1.0
        rtol = max(precision, centering_noise(samples) ** 2 / spread)
        # X^T (I - S)^T (I - S) X is the Gram matrix of the residuals.
        errors, directions = solve_eigenproblem(
            residuals.T @ residuals, scatter, self.n_components, largest=False, rtol=rtol
        )
        check_n_components(
            self.n_components,
            len(errors),
            f"the rank of the {X.shape[0]} centered samples",
            "Choose fewer components, or give more distinct samples.",
        )
        directions = directions if basis is None else basis @ directions
        self.components_ = fix_signs(directions.T).astype(X.dtype, copy=False)
        self.reconstruction_errors_ = errors.astype(X.dtype, copy=False)
        self.mean_ = mean.astype(X.dtype, copy=False)
        return self


def reconstruction_residuals(X: np.ndarray, neighbors: np.ndarray, reg: float) -> np.ndarray:
    """Return ``(I - S) X``, the part of each sample that its neighbors do not reconstruct.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    neighbors : ndarray of shape (n_samples, n_neighbors)
        Indices of the neighbors of each sample.
    reg : float
        See :func:`reconstruction_weights`.

    Returns
    -------
    residuals : ndarray of shape (n_samples, n_features)
    """
    n_samples, n_features = X.shape
    residuals = np.empty_like(X)
    height = max(1, BLOCK_ELEMENTS // (neighbors.shape[1] * n_features))
    for start in range(0, n_samples, height):
        rows = slice(start, start + height)
        differences = X[neighbors[rows]] - X[rows, None, :]
        weights = reconstruction_weights(differences, reg)
        residuals[rows] = -np.einsum("ij,ijk->ik", weights, differences)
    return residuals


def reconstruction_weights(differences: np.ndarray, reg: float) -> np.ndarray:
    """Return the weights with sum one that reconstruct each sample from its neighbors best.

    With the neighbors' differences from the sample ``E`` the error is ``|E^T w|^2 = w^T E E^T w``.
    Under ``1^T w = 1`` it is least at a multiple of ``(E E^T)^-1 1``.

    Parameters
    ----------
    differences : ndarray of shape (n_samples, n_neighbors, n_features)
        Neighbors minus sample.
    reg : float
        Ridge, as a fraction of the trace of each local Gram matrix.

    Returns
    -------
    weights : ndarray of shape (n_samples, n_neighbors)
    """
    n_neighbors = differences.shape[1]
    gram = differences @ differences.mT
    trace = np.trace(gram, axis1=1, axis2=2)
    # All neighbors are duplicates of the sample: any weights reconstruct it.
    ridge = np.where(trace > 0, reg * trace, 1.0)
    diagonal = np.arange(n_neighbors)
    gram[:, diagonal, diagonal] += ridge[:, None]
    weights = np.linalg.solve(gram, np.ones((len(gram), n_neighbors, 1)))[..., 0]
    return weights / weights.sum(axis=1, keepdims=True)
