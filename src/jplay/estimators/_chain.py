"""Shared parts of the estimators that learn a chain of projections."""

import logging
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.callback import CallbackSupportMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from jplay._estimator_base import (
    GRAPH_CONSTRAINTS,
    MODEL_CONSTRAINTS,
    ReconstructingTransformer,
    float_dtypes,
    translate_linalg_errors,
)
from jplay._rowwise import by_rows
from jplay.core.arrays import Array, like, multiply_chain, namespace
from jplay.core.checks import choose_layer_sizes, raise_if_collapsed
from jplay.core.decision import (
    ClassStatistics,
    compute_mean_rule,
    compute_neighbor_metric,
    compute_whitener,
)
from jplay.core.objective import CoefPenalty, Objective, Ridge
from jplay.core.paper import PaperSolver, minimize_paper
from jplay.core.problem import Problem
from jplay.core.result import SolverCallback, SolverResult
from jplay.core.solver import FastSolver, minimize
from jplay.core.targets import Targets

logger = logging.getLogger("jplay")

SOLVERS = {"fast": FastSolver, "paper": PaperSolver}

CHAIN_CONSTRAINTS: dict = {
    "n_components": [Interval(Integral, 1, None, closed="left"), None],
    "n_layers": [Interval(Integral, 1, None, closed="left"), "array-like"],
    "alpha": [Interval(Real, 0, None, closed="neither")],
    "beta": [Interval(Real, 0, None, closed="left")],
    "gamma": [Interval(Real, 0, None, closed="left")],
    **GRAPH_CONSTRAINTS,
    **MODEL_CONSTRAINTS,
    "solver": [StrOptions(set(SOLVERS)), *SOLVERS.values()],
    "scaling": [StrOptions({"standard", "norm"}), None],
}

MIN_COMPONENTS = 30
"""Default dimension of the last subspace, if the samples' rank allows. With 20 instead, digits of
784 pixels lose two to three points and the mean over 40 problems 0.1; with 40 nothing changes."""


def minimize_chain(
    problem: Problem,
    sizes: Sequence[int],
    objective: Objective,
    solver: FastSolver | PaperSolver,
    callback: SolverCallback | None = None,
) -> SolverResult:
    """Minimize the objective by the solver that the options belong to, and check the result."""
    with translate_linalg_errors():
        if isinstance(solver, PaperSolver):
            result = minimize_paper(problem, sizes, objective, solver, callback)
            moments = problem.moments
            raise_if_collapsed(moments.gram, multiply_chain(result.thetas), moments.n_samples)
            return result
        return minimize(problem, sizes, objective, solver, callback)


def check_equal_weights(solver: FastSolver | PaperSolver, targets: Targets) -> None:
    """Raise if samples differ in weight, which the published solver does not support."""
    if isinstance(solver, PaperSolver) and targets.unequal_weights:
        raise ValueError(
            f"`solver` should be 'fast' if {targets.unequal_weights}, got the published "
            "solver, whose updates know one weight for all. Use solver='fast'."
        )


def choose_sizes(
    problem: Problem, n_components: int | None, n_layers: Any, n_outputs: int
) -> list[int]:
    """Return the output size of every layer."""
    if n_components is None and isinstance(n_layers, Integral):
        n_components = min(max(MIN_COMPONENTS, 2 * n_outputs), problem.rank)
    return choose_layer_sizes(n_layers, n_components, problem.rank)


def describe_chain(problem: Problem, thetas: Sequence[Array]) -> dict:
    """Return the fitted attributes that map samples to every subspace."""
    xp, transform = namespace(thetas[0]), problem.transform
    first, first_intercept = transform.compose(thetas[0])
    ones = xp.ones_like(first[0, :])
    folded = transform.fold_unit()
    scale, shift = folded.scale, folded.shift
    attributes = {
        "first_intercept_": first_intercept,
        "components_": multiply_chain([first, *thetas[1:]]),
        "intercept_": multiply_chain([first_intercept[:, None], *thetas[1:]])[:, 0],
        "feature_scale_": ones if scale is None else like(scale, first),
        "feature_mean_": 0 * ones if shift is None else like(shift, first),
        "projections_": [first, *thetas[1:]],
    }
    attributes = round_attributes(attributes, problem.dtype)
    return attributes | {"layer_sizes_": [int(theta.shape[0]) for theta in thetas]}


def describe_coef(coef: Array, targets: Targets) -> Array:
    """Return the label projection for targets in their own units."""
    scale = targets.output_scale
    return coef if scale is None else coef / like(scale, coef)[:, None]


def describe_decision(
    problem: Problem, theta: Array, statistics: ClassStatistics, targets: Targets
) -> dict:
    """Return the fitted attributes of the whitening and of the rule by class means."""
    xp, moments = namespace(theta), problem.moments
    whitener = compute_whitener(theta @ statistics.covariance() @ theta.mT)
    attributes = {"center_": theta @ moments.mean, "whitener_": whitener}
    if not targets.multilabel:
        means, log_prior = statistics.means @ theta.mT, statistics.log_prior
        coef, intercept = compute_mean_rule(means, whitener, log_prior, statistics.temperature)
        attributes |= {
            "whitener_": compute_neighbor_metric(whitener, means, xp.exp(log_prior)),
            "class_means_": means,
            "mean_rule_coef_": coef,
            "mean_rule_intercept_": intercept,
        }
    return round_attributes(attributes, problem.dtype)


def describe_fit(problem: Problem, result: SolverResult) -> dict:
    """Return the fitted attributes of graph and solver."""
    graph = problem.graph
    return {
        "affinity_": graph,
        "bandwidth_": problem.bandwidth,
        "result_": result,
        "objective_history_": np.asarray(result.objective),
        "n_iter_": result.n_iter,
        "n_features_in_": problem.transform.n_features,
    }


def round_attributes(attributes: dict, dtype: Any) -> dict:
    """Round arrays, and lists of arrays, to the precision of the samples."""

    def round_array(array: Array) -> Array:
        return namespace(array).astype(array, dtype)

    return {
        name: [round_array(array) for array in value]
        if isinstance(value, list)
        else round_array(value)
        for name, value in attributes.items()
    }


class ChainEstimator(ReconstructingTransformer, CallbackSupportMixin):
    """Mixin of estimators with the parameters of Eq. 6 and a chain of projections."""

    _training_attributes = ("affinity_", "result_", "_skl_callbacks")

    @property
    def _objective(self):
        penalty: CoefPenalty = self.gamma if hasattr(self.gamma, "solve") else Ridge(self.gamma)
        return Objective(
            alpha=self.alpha,
            beta=self.beta,
            penalty=penalty,
            nonnegative=self.constraints in ("both", "nonnegative"),
            unit_ball=self.constraints in ("both", "unit_ball"),
            reconstruction=self.reconstruction,
        )

    @property
    def _solver_options(self):
        return SOLVERS[self.solver]() if isinstance(self.solver, str) else self.solver

    def _end_fit(self, X, y):
        """Tell callbacks that the fit has ended."""
        self._callback_fit_ctx.call_on_fit_task_end(
            estimator=self, X=X, y=y, reconstruction_attributes={}
        )
        return self

    def _make_callback(
        self, X: Any, y: Any, describe: Callable[[list, Array], dict]
    ) -> SolverCallback:
        """Translate the solver's progress into scikit-learn's callbacks and log lines.

        ``describe(thetas, coef)`` returns the fitted attributes of an iterate.
        """
        # The number of iterations is not known in advance, and soft labels take several fits.
        context = self._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)

        def report(progress):
            if progress.objective is not None:
                logger.info("iteration %d: objective %.8g", progress.iteration, progress.objective)
            task = context.subcontext(task_name=progress.stage)
            task.call_on_fit_task_begin(estimator=self, X=X, y=y)
            attributes = None
            if progress.coef is not None:
                attributes = lambda: describe(progress.thetas, progress.coef)  # noqa: E731
            return task.call_on_fit_task_end(
                estimator=self, X=X, y=y, reconstruction_attributes=attributes
            )

        return report

    def _after_chain(self, matrix, center=None):
        """Matrix and offset of the map ``z -> matrix (z - center)`` after the chain.

        In double precision, from the first difference on: a whitener has entries in the hundreds,
        and products of matrices with large entries cancel in single.
        """
        xp = namespace(matrix)
        matrix, components, intercept = (
            xp.astype(array, xp.float64) for array in (matrix, self.components_, self.intercept_)
        )
        if center is not None:
            intercept = intercept - xp.astype(center, xp.float64)
        return matrix @ components, matrix @ intercept

    def _rebuilt(self, Z):
        """Samples from features of the chain."""
        # The chain maps scaled features, and its transpose gives them back.
        scale = self.feature_scale_
        inverse = 1 / namespace(scale).where(scale == 0, namespace(scale).ones_like(scale), scale)
        return (Z @ (self.components_ * inverse)) * inverse + self.feature_mean_

    @by_rows
    def transform_layers(self, X: Any) -> list:
        """Compute the features of every subspace.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        layers : list of ndarray of shape (n_samples, layer_sizes_[l])
        """
        check_is_fitted(self, "components_")
        X = validate_data(self, X, dtype=float_dtypes(X), reset=False)
        layers = [X @ like(self.projections_[0], X).mT + like(self.first_intercept_, X)]
        for theta in self.projections_[1:]:
            layers.append(layers[-1] @ like(theta, X).mT)
        return layers
