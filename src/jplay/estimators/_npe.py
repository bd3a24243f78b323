"""Neighbourhood preserving embedding."""

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import validate_data

from jplay._fitting import stores_at_end
from jplay.estimators._linear import CenteredTransformer, check_n_components, check_squares
from jplay.solvers.spectral import solve_npe


class NPE(CenteredTransformer, BaseEstimator):
    r"""Neighbourhood preserving embedding, locally linear embedding with a linear map.

    Every sample is written as a weighted sum of its nearest neighbours, and the
    directions are those along which the same weights reconstruct the projected
    samples best:

    .. math:: \min_a \; a^T X^T (I - S)^T (I - S) X a
        \quad \text{subject to} \quad a^T X^T X a = 1,

    where row ``i`` of ``S`` holds the reconstruction weights of sample ``i``, which sum to one,
    and ``X`` is centred.

    Parameters
    ----------
    n_components : int, default=2
        Dimension of the subspace.
    n_neighbors : int, default=5
        Neighbours that reconstruct a sample. At most ``n_samples - 1`` are used.
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
        result = solve_npe(
            X.astype(np.float64, copy=False),
            self.n_components,
            n_neighbors=min(self.n_neighbors, X.shape[0] - 1),
            reg=self.reg,
        )
        check_n_components(
            self.n_components,
            len(result.components),
            f"the rank of the {X.shape[0]} centred samples",
            "Choose fewer components, or give more distinct samples.",
        )
        self.components_ = result.components.astype(X.dtype, copy=False)
        self.reconstruction_errors_ = result.eigenvalues.astype(X.dtype, copy=False)
        self.mean_ = result.mean.astype(X.dtype, copy=False)
        return self
