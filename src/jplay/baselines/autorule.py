"""Auto-reconstructing unsupervised learning, the single unsupervised layer (Algorithm 2)."""

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Literal, Self

from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import Interval

from jplay._estimator_base import (
    GRAPH_CONSTRAINTS,
    MODEL_CONSTRAINTS,
    ReconstructingTransformer,
    prepare_problem,
    translate_linalg_errors,
    validated_samples,
    warn_if_not_converged,
)
from jplay._fitting import stores_at_end
from jplay.core.arrays import namespace
from jplay.core.checks import choose_layer_sizes, raise_if_collapsed
from jplay.core.objective import Objective
from jplay.core.paper import PaperSolver, fit_autorule
from jplay.core.result import SolverResult


class AutoRULe(ReconstructingTransformer, BaseEstimator):
    r"""Auto-reconstructing unsupervised learning: one constrained layer without labels.

    Minimizes :math:`\frac12 \|X - X \Theta^T \Theta\|_F^2 + \frac\eta2
    \mathrm{tr}(\Theta X^T L X \Theta^T)` subject to non-negative projected samples in the unit
    ball (Eq. 11), by ADMM from a start by locality preserving projections.

    Parameters
    ----------
    n_components : int, default=None
        Dimension of the subspace. ``None`` means 20, or fewer where the samples' rank is
        smaller.
    eta : float, default=0.1
        Weight of the manifold term.
    graph : HeatGraph, callable, matrix of shape (n_samples, n_samples) or None, default=None
        The graph, see :class:`LPP`.
    max_iter : int, default=1000
    tol : float, default=1e-6
        Frobenius norm below which all four primal residuals must fall.
    constraints : {"both", "nonnegative", "unit_ball"} or None, default="both"
        What projected samples must be, see :class:`JPlay`.
    reconstruction : bool, default=True
        Whether the reconstruction term is part of the model.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
    intercept_ : ndarray of shape (n_components,)
    affinity_ : csr_array of shape (n_samples, n_samples)
        ``None`` for samples in blocks.
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

    _training_attributes = ("affinity_", "result_")

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "eta": [Interval(Real, 0, None, closed="left")],
        **GRAPH_CONSTRAINTS,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        **MODEL_CONSTRAINTS,
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        eta: float = 0.1,
        graph: Any = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
        constraints: Literal["both", "nonnegative", "unit_ball"] | None = "both",
        reconstruction: bool = True,
    ) -> None:
        self.n_components = n_components
        self.eta = eta
        self.graph = graph
        self.max_iter = max_iter
        self.tol = tol
        self.constraints = constraints
        self.reconstruction = reconstruction

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
        objective = Objective(
            nonnegative=self.constraints in ("both", "nonnegative"),
            unit_ball=self.constraints in ("both", "unit_ball"),
            reconstruction=self.reconstruction,
        )
        options = PaperSolver(eta=self.eta, inner_max_iter=self.max_iter, inner_tol=self.tol)
        with (
            translate_linalg_errors(),
            prepare_problem(X, None, graph=self.graph, n_components=self.n_components) as problem,
        ):
            [n_components] = choose_layer_sizes(1, self.n_components, problem.rank)
            layer = fit_autorule(problem, n_components, objective, options)
            moments = problem.moments
            raise_if_collapsed(moments.gram, layer.theta, moments.n_samples)
            components, intercept = problem.transform.compose(layer.theta)
        # The remedy of a layer problem names the parameters of JPlay.
        status = replace(layer.status, message=layer.status.message.replace("inner_", ""))
        xp = namespace(components)
        self.components_ = xp.astype(components, problem.dtype)
        self.intercept_ = xp.astype(intercept, problem.dtype)
        self.affinity_, self.bandwidth_ = problem.graph, problem.bandwidth
        self.n_features_in_, self.n_iter_ = problem.transform.n_features, layer.n_iter
        self.result_ = SolverResult([layer.theta], None, layer.n_iter, status, [], [layer])
        warn_if_not_converged(status, "AutoRULe")
        return self
