"""Locality preserving projections (He and Niyogi 2003)."""

from numbers import Integral
from typing import Any, Self

from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import Interval

from jplay._estimator_base import (
    GRAPH_CONSTRAINTS,
    CenteredTransformer,
    prepare_problem,
    validated_samples,
)
from jplay._fitting import stores_at_end
from jplay.core.arrays import namespace
from jplay.core.checks import choose_layer_sizes


class LPP(CenteredTransformer, BaseEstimator):
    r"""Locality preserving projections: a linear map that keeps neighbors close.

    Maximizes :math:`a^T X^T W X a` subject to :math:`a^T X^T D X a = 1` for centered samples,
    with :math:`W` the heat-kernel graph of nearest neighbors and :math:`D` its degrees.

    Parameters
    ----------
    n_components : int, default=None
        Dimension of the subspace. ``None`` means 20, or fewer where the samples' rank is
        smaller.
    graph : HeatGraph, callable, matrix of shape (n_samples, n_samples) or None, default=None
        The graph: built from the samples, returned by a function of them, or given. ``None``
        means ``HeatGraph()``, ten neighbors with weights by their distance.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Unit-length directions.
    mean_ : ndarray of shape (n_features,)
    affinity_ : csr_array of shape (n_samples, n_samples)
        ``None`` for samples in blocks.
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

    _training_attributes = ("affinity_",)

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        **GRAPH_CONSTRAINTS,
    }

    def __init__(self, n_components: int | None = None, *, graph: Any = None) -> None:
        self.n_components = n_components
        self.graph = graph

    @stores_at_end
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the projection.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in blocks are taken as :meth:`JPlay.fit` takes them.
        y : ignored

        Returns
        -------
        self
        """
        X = validated_samples(self, X)
        with prepare_problem(X, None, graph=self.graph) as problem:
            [n_components] = choose_layer_sizes(1, self.n_components, problem.rank)
            components, _ = problem.transform.compose(problem.start[:n_components, :])
            mean, _ = problem.transform.compose(problem.moments.mean[None, :])
        xp = namespace(components)
        self.components_ = xp.astype(components, problem.dtype)
        self.mean_ = xp.astype(mean[0, :], problem.dtype)
        self.affinity_, self.bandwidth_ = problem.graph, problem.bandwidth
        self.n_features_in_ = problem.transform.n_features
        return self
