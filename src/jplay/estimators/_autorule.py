"""Auto-reconstructing unsupervised learning, the single unsupervised layer (Algorithm 2)."""

from numbers import Integral, Real
from typing import Any, Literal, Self

from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from jplay._fitting import stores_at_end
from jplay.estimators._linear import (
    ReconstructingTransformer,
    validated_samples,
    warn_if_not_converged,
)
from jplay.estimators._lpp import GRAPH_CONSTRAINTS
from jplay.problems import described, solve
from jplay.problems.tasks import LayerTask
from jplay.solvers.model import ModelSettings
from jplay.solvers.schedules import LayerSchedule

MODEL_CONSTRAINTS = {
    "constraints": [StrOptions({"both", "nonnegative", "unit_ball"}), None],
    "reconstruction": ["boolean"],
}


def constraint_switches(constraints: str | None) -> dict[str, bool]:
    """The solver's two switches from the parameter ``constraints``."""
    return {
        "nonnegative": constraints in ("both", "nonnegative"),
        "unit_ball": constraints in ("both", "unit_ball"),
    }


class AutoRULe(ReconstructingTransformer, BaseEstimator):
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
        task = LayerTask(
            n_components=self.n_components,
            eta=self.eta,
            model=ModelSettings(
                **constraint_switches(self.constraints), reconstruction=self.reconstruction
            ),
            schedule=LayerSchedule(max_iter=self.max_iter, tol=self.tol),
        )
        with described(
            X,
            graph=self.graph,
            n_components=self.n_components,
        ) as problem:
            solution = solve(problem, task)
        self.n_features_in_ = problem.first_layer.n_features
        self.affinity_, self.bandwidth_ = problem.affinity, problem.bandwidth
        self.__dict__.update(solution.attributes)
        warn_if_not_converged(solution.status, "AutoRULe")
        return self
