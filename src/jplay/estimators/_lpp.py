"""Locality preserving projections (He and Niyogi 2003)."""

from numbers import Integral
from typing import Any, Self

from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import Interval

from jplay._fitting import stores_at_end
from jplay.estimators._linear import CenteredTransformer, validated_samples
from jplay.problems import described, solve
from jplay.problems.tasks import EmbeddingTask

GRAPH_CONSTRAINTS = {"graph": [callable, "array-like", "sparse matrix", None]}


class LPP(CenteredTransformer, BaseEstimator):
    r"""Locality preserving projections: a linear map that keeps neighbours close.

    Maximises :math:`a^T X^T W X a` subject to :math:`a^T X^T D X a = 1` for centred samples,
    with :math:`W` the heat-kernel graph of nearest neighbours and :math:`D` its degrees.

    Parameters
    ----------
    n_components : int, default=None
        Dimension of the subspace. ``None`` means 20, or fewer where the samples' rank is
        smaller.
    graph : HeatGraph, callable, matrix of shape (n_samples, n_samples) or None, default=None
        The graph: built from the samples, returned by a function of them, or given. ``None``
        means ``HeatGraph()``, ten neighbours with weights by their distance.

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
        with described(X, graph=self.graph) as problem:
            solution = solve(problem, EmbeddingTask(self.n_components))
        self.n_features_in_ = problem.first_layer.n_features
        self.affinity_, self.bandwidth_ = problem.affinity, problem.bandwidth
        self.__dict__.update(solution.attributes)
        return self
