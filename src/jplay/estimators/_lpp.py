"""Locality preserving projections (He and Niyogi 2003)."""

from numbers import Integral, Real

from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from jplay._array_api import namespace
from jplay.estimators._linear import LinearTransformer, float_dtypes
from jplay.estimators._validation import build_affinity, check_rank, check_scale
from jplay.solvers.pretraining import locality_preserving_projections
from jplay.solvers.samples import ArraySamples
from jplay.solvers.threads import sample_threads

GRAPH_CONSTRAINTS = {
    "n_neighbors": [Interval(Integral, 1, None, closed="left")],
    "bandwidth": [StrOptions({"median"}), Interval(Real, 0, None, closed="neither")],
    "affinity": [StrOptions({"heat"}), "array-like", "sparse matrix", callable],
}


class LPP(LinearTransformer, BaseEstimator):
    r"""Locality preserving projections: a linear map that keeps neighbours close.

    Maximises :math:`a^T X^T W X a` subject to :math:`a^T X^T D X a = 1` for centred samples,
    with :math:`W` the heat-kernel graph of nearest neighbours and :math:`D` its degrees.

    Parameters
    ----------
    n_components : int, default=None
        Dimension of the subspace. ``None`` means 20, or fewer where the samples' rank is
        smaller.
    n_neighbors : int, default=10
        Neighbours of each sample in the graph.
    bandwidth : float or "median", default="median"
        Width ``t`` of the heat kernel ``exp(-|x_i - x_j|^2 / (2 t^2))``; ``"median"`` takes
        the median distance to the last neighbour.
    affinity : "heat", callable or matrix of shape (n_samples, n_samples), default="heat"
        The graph: built from the samples, returned by a function of them, or given.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Unit-length directions.
    mean_ : ndarray of shape (n_features,)
    affinity_ : csr_array of shape (n_samples, n_samples)
    bandwidth_ : float or None
    n_features_in_ : int

    Examples
    --------
    >>> from jplay import LPP
    >>> from sklearn.datasets import load_iris
    >>> X, _ = load_iris(return_X_y=True)
    >>> LPP(n_components=2).fit_transform(X).shape
    (150, 2)
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        **GRAPH_CONSTRAINTS,
    }

    def __init__(self, n_components=None, *, n_neighbors=10, bandwidth="median", affinity="heat"):
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.affinity = affinity

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
        check_scale(X, 1e-15, 1e15)
        with sample_threads(X.shape[0] * X.shape[1] ** 2) as pool:
            self.affinity_, self.bandwidth_ = build_affinity(
                X, self.affinity, self.n_neighbors, self.bandwidth
            )
            statistics = ArraySamples(X, X[:, :0], self.affinity_, pool).statistics()
            components = locality_preserving_projections(statistics)
        rank = components.shape[0]
        check_rank(rank)
        n_components = min(20, rank) if self.n_components is None else self.n_components
        if n_components > rank:
            raise ValueError(
                f"`n_components` should be at most {rank} (the dimension that the samples span "
                f"around their mean), got {n_components}. Choose a smaller number, or None."
            )
        xp = namespace(X)
        self.components_ = xp.astype(components[:n_components, :], X.dtype)
        self.mean_ = xp.mean(X, axis=0)
        return self
