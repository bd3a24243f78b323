"""Auto-reconstructing unsupervised learning, the single unsupervised layer (Algorithm 2)."""

from dataclasses import replace
from numbers import Integral, Real

from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from jplay._array_api import like, namespace
from jplay.estimators._chain import prepared_samples, raise_if_collapsed, warn_if_not_converged
from jplay.estimators._large import by_rows
from jplay.estimators._linear import float_dtypes
from jplay.estimators._lpp import GRAPH_CONSTRAINTS
from jplay.estimators._validation import resolve_layer_sizes
from jplay.solvers.layer import PenaltySchedule
from jplay.solvers.pretraining import autorule, locality_preserving_projections
from jplay.solvers.result import SolverResult

CONSTRAINT_SWITCHES = {
    "nonnegative": ["boolean"],
    "unit_ball": ["boolean"],
    "reconstruction": ["boolean"],
    "fit_intercept": ["boolean", StrOptions({"auto"})],
}


class AffineMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Mixin of estimators with ``transform(X) = X @ components_.T + intercept_``."""

    @by_rows
    def transform(self, X):
        """Project samples on the learned subspace with one matrix product.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self, "components_")
        return self._product(X, self.components_, self.intercept_)

    def _product(self, X, matrix, offset):
        """``X @ matrix.T + offset`` of samples as they come, in one pass over them.

        A value that is not finite makes the result so, which is far smaller: only then are the
        samples looked through for it.
        """
        checks = {"dtype": float_dtypes(X), "reset": False}
        X = validate_data(self, X, ensure_all_finite=False, **checks)
        xp = namespace(X)
        Z = X @ like(matrix, X).mT
        if bool(namespace(offset).any(offset != 0)):
            Z += like(offset, X)
        if not bool(xp.all(xp.isfinite(Z))):
            validate_data(self, X, **checks)
        return Z

    def inverse_transform(self, X):
        """Rebuild samples from their features through the transposed map, ``X @ components_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self, "components_")
        X = check_array(X, dtype=float_dtypes(X))
        n_components = self.components_.shape[0]
        if X.shape[1] != n_components:
            raise ValueError(
                f"`X` should have {n_components} features (the dimension of the subspace), "
                f"got {X.shape[1]}. Pass the output of transform."
            )
        return X @ self.components_

    @property
    def _n_features_out(self):
        return self.components_.shape[0]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class AutoRULe(AffineMap, BaseEstimator):
    r"""Auto-reconstructing unsupervised learning: one constrained layer without labels.

    Minimises :math:`\frac12 \|X - X \Theta^T \Theta\|_F^2 + \frac\eta2
    \mathrm{tr}(\Theta X^T L X \Theta^T)` subject to non-negative projected samples in the unit
    ball (Eq. 11), by ADMM from a start by locality preserving projections.

    Parameters
    ----------
    n_components : int, default=None
        Dimension of the subspace. ``None`` means 20, or fewer where the samples' rank is
        smaller.
    eta : float, default=0.1
        Weight of the manifold term.
    n_neighbors : int, default=10
        Neighbours of each sample in the graph.
    bandwidth : float or "median", default="median"
        Width of the heat kernel, see :class:`LPP`.
    affinity : "heat", callable or matrix of shape (n_samples, n_samples), default="heat"
        The graph, see :class:`LPP`.
    max_iter : int, default=1000
    tol : float, default=1e-6
        Frobenius norm below which all four primal residuals must fall.
    nonnegative, unit_ball, reconstruction : bool, default=True
        Drop a constraint or the reconstruction term.
    fit_intercept : bool or "auto", default="auto"
        Whether the map is affine, see :class:`JPlay`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
    intercept_ : ndarray of shape (n_components,)
    affinity_ : csr_array of shape (n_samples, n_samples)
    bandwidth_ : float or None
    n_iter_ : int
    result_ : SolverResult
        Residuals of every iteration and how the solve ended.
    n_features_in_ : int

    Examples
    --------
    >>> from jplay import AutoRULe
    >>> from sklearn.datasets import load_iris
    >>> X, _ = load_iris(return_X_y=True)
    >>> Z = AutoRULe(n_components=2).fit_transform(X)
    >>> bool(Z.min() > -1e-6)
    True
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "eta": [Interval(Real, 0, None, closed="left")],
        **GRAPH_CONSTRAINTS,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        **CONSTRAINT_SWITCHES,
    }

    def __init__(
        self,
        n_components=None,
        *,
        eta=0.1,
        n_neighbors=10,
        bandwidth="median",
        affinity="heat",
        max_iter=1000,
        tol=1e-6,
        nonnegative=True,
        unit_ball=True,
        reconstruction=True,
        fit_intercept="auto",
    ):
        self.n_components = n_components
        self.eta = eta
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.affinity = affinity
        self.max_iter = max_iter
        self.tol = tol
        self.nonnegative = nonnegative
        self.unit_ball = unit_ball
        self.reconstruction = reconstruction
        self.fit_intercept = fit_intercept

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Learn the projection.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        X = validate_data(self, X, dtype=float_dtypes(X), ensure_min_samples=2)
        with prepared_samples(
            X,
            X[:, :0],
            affinity=self.affinity,
            n_neighbors=self.n_neighbors,
            bandwidth=self.bandwidth,
            fit_intercept=self.fit_intercept,
            n_components=self.n_components,
        ) as (samples, first_input, self.affinity_, self.bandwidth_):
            statistics = samples.statistics()
            start = locality_preserving_projections(statistics)
            [n_components] = resolve_layer_sizes(None, 1, self.n_components, start.shape[0])
            layer = autorule(
                samples,
                statistics,
                start[:n_components, :],
                eta=self.eta,
                constraints={"nonnegative": self.nonnegative, "unit_ball": self.unit_ball},
                reconstruction=self.reconstruction,
                options={
                    "schedule": PenaltySchedule(),
                    "max_iter": self.max_iter,
                    "tol": self.tol,
                },
            )
        raise_if_collapsed(statistics.X_root, layer.theta, X.shape[0], self.fit_intercept)
        xp = namespace(X)
        components, intercept = first_input.first_projection(layer.theta)
        self.components_ = xp.astype(components, X.dtype)
        self.intercept_ = xp.astype(intercept, X.dtype)
        self.n_iter_ = layer.n_iter
        # The layer's remedy names the parameters of JPlay, which has an outer loop around it.
        status = replace(layer.status, message=layer.status.message.replace("inner_", ""))
        self.result_ = SolverResult([layer.theta], None, layer.n_iter, status, [], [layer])
        warn_if_not_converged(status, "AutoRULe")
        return self
