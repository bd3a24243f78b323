"""J-Play for real targets."""

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
import scipy.linalg
from sklearn.base import BaseEstimator, RegressorMixin, _fit_context
from sklearn.callback import with_callbacks
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from jplay._estimator_base import (
    float_dtypes,
    prepare_problem,
    warn_if_not_converged,
)
from jplay._fitting import stores_at_end
from jplay._rowwise import by_rows
from jplay.core.arrays import Array, like, multiply_chain, namespace, to_numpy
from jplay.core.blocked import check_rows, check_weight_rows, is_in_blocks
from jplay.core.paper import PaperSolver
from jplay.core.problem import Problem
from jplay.core.solver import FastSolver
from jplay.core.targets import Targets, encode_real_targets
from jplay.estimators._chain import (
    CHAIN_CONSTRAINTS,
    ChainEstimator,
    check_equal_weights,
    choose_sizes,
    describe_chain,
    describe_coef,
    describe_fit,
    minimize_chain,
)
from jplay.estimators.ridge import RegressionMoments, fit_coupled_ridges, fit_ridge


class JPlayRegressor(ChainEstimator, RegressorMixin, BaseEstimator):
    r"""Joint and progressive subspace learning for real targets.

    The chain of projections is learned as by :class:`JPlay` (Eq. 6), with standardized targets
    in the place of indicators: squared loss is the model's own. Targets are then predicted
    from the last features by ridge regression with intercept, whose penalty is that of the input
    space and whose strength has the least generalized cross-validation error there. It serves
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
    solver : {"fast", "paper"}, FastSolver or PaperSolver, default="fast"
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
        solver: Literal["fast", "paper"] | FastSolver | PaperSolver = "fast",
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
            Samples in blocks are fitted as by :meth:`JPlay.fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Real targets; NaN for all targets of a sample without them, which is still used in
            graph, reconstruction and constraints.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the prediction loss and in the prediction.

        Returns
        -------
        self
        """
        X, y = self._check_inputs(X, y)
        sample_weight = check_weight_rows(sample_weight, X)
        targets = encode_real_targets(y, sample_weight=sample_weight)
        solver = self._solver_options
        check_equal_weights(solver, targets)
        with prepare_problem(
            X, targets, graph=self.graph, scaling=self.scaling, n_components=self.n_components
        ) as problem:
            sizes = choose_sizes(problem, self.n_components, self.n_layers, targets.n_outputs)

            def describe(thetas, coef):
                coef = namespace(coef).astype(describe_coef(coef, targets), problem.dtype)
                predictions = describe_predictions([(problem, targets)], multiply_chain(thetas))
                return {"coef_": coef} | describe_chain(problem, thetas) | predictions[0]

            callback = self._make_callback(X, y, describe)
            result = minimize_chain(problem, sizes, self._objective, solver, callback)
            attributes = describe(result.thetas, result.coef) | describe_fit(problem, result)
        self.__dict__.update(attributes, _single_target=y.ndim == 1)
        warn_if_not_converged(result.status, "JPlayRegressor")
        return self._end_fit(X, y)

    def _check_inputs(self, X, y):
        """Validated samples and targets; samples in blocks are validated as they are read."""
        if is_in_blocks(X):
            return X, check_rows(y, X, "y")
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
        """Predict real targets.

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


def describe_predictions(
    parts: Sequence[tuple[Problem, Targets]], theta: Array, *, coupled: bool = False
) -> list[dict]:
    """Return the fitted attributes of ridge regressions of real targets on the last features.

    Parameters
    ----------
    parts : sequence of (Problem, Targets)
        Problems of the same samples, one for each task.
    theta : array of shape (n_components, n_inputs)
        Product of the chain.
    coupled : bool, default=False
        Whether regressions of several parts, of one target each, learn from each other.
    """
    if not parts:
        return []
    transform = parts[0][0].transform
    inside = find_centered_range(parts[0][0])
    scaled = to_numpy(transform.pull_back(like(inside.T, theta)))[:, : transform.n_features]
    metric, subspace = scaled @ scaled.T, to_numpy(theta) @ inside
    moments, means = zip(*(center_moments(*part, inside) for part in parts), strict=True)
    if coupled:
        fits = fit_coupled_ridges(moments, metric, subspace)
    else:
        fits = [fit_ridge(of_task, metric, subspace) for of_task in moments]
    predictions = []
    for (problem, targets), mean, fit in zip(parts, means, fits, strict=True):
        assert targets.output_scale is not None
        assert targets.center is not None
        coef = fit.coef / targets.output_scale[:, None]
        intercept = targets.center - coef @ (to_numpy(theta) @ mean)
        predictions.append(
            {
                "output_coef_": like(coef, theta, dtype=problem.dtype),
                "output_intercept_": like(intercept, theta, dtype=problem.dtype),
                "ridge_": fit.ridge,
            }
        )
    return predictions


def find_centered_range(problem: Problem) -> np.ndarray:
    """Return an orthonormal basis, in columns, of the inputs in which centered samples lie."""
    gram = problem.moments.gram
    constant = problem.transform.find_constant(gram)
    if constant is None:
        return np.eye(gram.shape[0])
    return scipy.linalg.null_space(to_numpy(constant)[None, :])


def center_moments(
    problem: Problem, targets: Targets, inside: np.ndarray
) -> tuple[RegressionMoments, np.ndarray]:
    """Return the moments of centered samples and standardized targets, and the samples' mean."""
    moments = problem.moments
    weight = np.ones(len(targets.y)) if targets.weight is None else targets.weight
    total = float(weight.sum())
    effective = total**2 / float((weight**2).sum())
    if moments.label_grams is None:
        gram, mean = moments.gram, moments.mean
    else:
        [gram] = moments.label_grams
        constant = problem.transform.find_constant(gram)
        if constant is None:
            raise ValueError(
                "`scaling` should be 'standard' if samples lack targets or differ in weight, got "
                "samples that need no intercept. Set scaling='standard'."
            )
        mean = gram @ constant / total
    mean, unit = to_numpy(mean), total / effective  # weight of one effective sample
    center = inside.T @ mean
    return (
        RegressionMoments(
            inside.T @ to_numpy(gram) @ inside / unit - effective * np.outer(center, center),
            inside.T @ to_numpy(moments.cross).T / unit,
            float(moments.label_square[0, 0]) / unit,
            effective,
        ),
        mean,
    )
