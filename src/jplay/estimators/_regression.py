"""J-Play for real targets."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Literal, Self

from sklearn.base import BaseEstimator, RegressorMixin, _fit_context
from sklearn.callback import with_callbacks
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from jplay._array_api import like
from jplay._fitting import stores_at_end
from jplay.blocks.containers import is_in_blocks
from jplay.estimators._chain import CHAIN_CONSTRAINTS, ChainEstimator
from jplay.estimators._linear import float_dtypes
from jplay.estimators._rowwise import by_rows
from jplay.problems import described
from jplay.problems.tasks import RegressionTask
from jplay.solvers.schedules import FastSchedule, PaperSchedule


class JPlayRegressor(ChainEstimator, RegressorMixin, BaseEstimator):
    r"""Joint and progressive subspace learning for real targets.

    The chain of projections is learned as by :class:`JPlay` (Eq. 6), with standardised targets
    in the place of indicators: squared loss is the model's own. Targets are then predicted
    from the last features by ridge regression with intercept, whose penalty is that of the input
    space and whose strength has the least generalised cross-validation error there. It serves
    where partial least squares does: spectra with more, correlated features than samples.

    Parameters
    ----------
    n_components : int or None, default=None
        Dimension of the last subspace. ``None`` means 30 or twice the number of targets,
        whichever is larger, or fewer if the samples' rank is smaller.
    n_layers : int or sequence of int, default=1
        Number of projections, or the size of each, see :class:`JPlay`.
    alpha : float, default=10.0
        Weight of the prediction loss.
    beta : float, default=0.01
        Weight of the manifold term.
    gamma : float, default=0.1
        Weight of the ridge on the label projection.
    graph : HeatGraph, callable, matrix of shape (n_samples, n_samples) or None, default=None
        The graph of the manifold term, see :class:`JPlay`.
    constraints : {"both", "nonnegative", "unit_ball"} or None, default="both"
        What projected samples must be: non-negative, of norm at most one, both, or neither.
    reconstruction : bool, default=True
        Whether the reconstruction term is part of the model.
    solver : {"fast", "paper"}, FastSchedule or PaperSchedule, default="fast"
        See :class:`JPlay`.
    scaling : {"standard", "norm"} or None, default="standard"
        What is done to features before the first layer, see :class:`JPlay`.

    Attributes
    ----------
    projections_ : list of ndarray of shape (n_out, n_in)
    components_ : ndarray of shape (n_components, n_features)
        Product of the chain, for features as they come.
    intercept_ : ndarray of shape (n_components,)
    coef_ : ndarray of shape (n_targets, n_components)
        Label projection :math:`P` of the model.
    output_coef_ : ndarray of shape (n_targets, n_components)
    output_intercept_ : ndarray of shape (n_targets,)
        Predictions are linear in the features.
    ridge_ : float
        Strength of the ridge by which targets are predicted.
    layer_sizes_ : list of int
    affinity_ : csr_array of shape (n_samples, n_samples)
        ``None`` for samples in blocks.
    bandwidth_ : float or None
    objective_history_ : ndarray of shape (n_iter_,)
    n_iter_ : int
    result_ : SolverResult
    n_features_in_ : int

    See Also
    --------
    JPlay : The same for classes and labels.
    sklearn.cross_decomposition.PLSRegression : The usual method for spectra.

    Examples
    --------
    >>> from jplay import JPlayRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = JPlayRegressor().fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.4
    True
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "n_layers": [Interval(Integral, 1, None, closed="left"), "array-like"],
        **CHAIN_CONSTRAINTS,
    }

    def __init__(
        self,
        n_components: int | None = None,
        n_layers: int | Sequence[int] = 1,
        *,
        alpha: float = 10.0,
        beta: float = 0.01,
        gamma: float = 0.1,
        graph: Any = None,
        constraints: Literal["both", "nonnegative", "unit_ball"] | None = "both",
        reconstruction: bool = True,
        solver: Literal["fast", "paper"] | FastSchedule | PaperSchedule = "fast",
        scaling: Literal["standard", "norm"] | None = "standard",
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.graph = graph
        self.constraints = constraints
        self.reconstruction = reconstruction
        self.solver = solver
        self.scaling = scaling

    @stores_at_end
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the chain of projections and the prediction.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in blocks are taken as :meth:`JPlay.fit` takes them.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Real targets; NaN for all targets of a sample without them, which then takes part
            in graph, reconstruction and constraints.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the prediction loss and in the prediction.

        Returns
        -------
        self
        """
        if not is_in_blocks(X):
            X, y = self._validated(X, y)
        task = RegressionTask(
            n_components=self.n_components,
            n_layers=self.n_layers,
            model=self._model,
            schedule=self._schedule,
        )
        with described(
            X,
            y,
            sample_weight,
            graph=self.graph,
            scaling=self.scaling,
            n_components=self.n_components,
            tuned=False,
            real=True,
        ) as problem:
            known = {
                "n_features_in_": problem.first_layer.n_features,
                "_single_target": y.ndim == 1,
            }
            self._store(problem, task, known, X, y)
        return self._ended(X, y)

    def _validated(self, X, y):
        X, y = validate_data(
            self,
            X,
            y,
            validate_separately=(
                {"dtype": float_dtypes(X), "ensure_min_samples": 2},
                {"dtype": "numeric", "ensure_2d": False, "ensure_all_finite": "allow-nan"},
            ),
        )
        if y.shape[0] != X.shape[0]:
            raise ValueError(
                f"`y` should have as many rows as `X` ({X.shape[0]}), got {y.shape[0]}: "
                "inconsistent numbers of samples."
            )
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        return X, y

    @by_rows
    def predict(self, X: Any) -> Any:
        """Predicted targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self, "components_")
        matrix, offset = self._after_chain(self.output_coef_)
        predicted = self._product(X, matrix, offset + like(self.output_intercept_, matrix))
        return predicted[:, 0] if self._single_target else predicted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
