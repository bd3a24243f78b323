"""What the estimators share that learn a chain of projections."""

import logging
from numbers import Real
from typing import Any

import numpy as np
from sklearn.callback import CallbackSupportMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from jplay._array_api import like, namespace
from jplay.estimators._autorule import MODEL_CONSTRAINTS, constraint_switches
from jplay.estimators._linear import ReconstructingTransformer, float_dtypes, warn_if_not_converged
from jplay.estimators._lpp import GRAPH_CONSTRAINTS
from jplay.estimators._rowwise import by_rows
from jplay.problems import solve
from jplay.problems.targets import LabelPenalty
from jplay.solvers.model import ModelSettings
from jplay.solvers.schedules import FastSchedule, PaperSchedule

logger = logging.getLogger("jplay")

SCHEDULES = {"fast": FastSchedule, "paper": PaperSchedule}

CHAIN_CONSTRAINTS: dict = {
    "alpha": [Interval(Real, 0, None, closed="neither")],
    "beta": [Interval(Real, 0, None, closed="left")],
    "gamma": [Interval(Real, 0, None, closed="left")],
    **GRAPH_CONSTRAINTS,
    **MODEL_CONSTRAINTS,
    "solver": [StrOptions(set(SCHEDULES)), *SCHEDULES.values()],
    "scaling": [StrOptions({"standard", "norm"}), None],
}


class ChainEstimator(ReconstructingTransformer, CallbackSupportMixin):
    """Mixin of estimators with the parameters of Eq. 6 and a chain of projections."""

    _training_attributes = ("affinity_", "result_", "_skl_callbacks")

    @property
    def _model(self):
        penalty = self.gamma
        if not isinstance(penalty, LabelPenalty):
            penalty = LabelPenalty(penalty)
        return ModelSettings(
            alpha=self.alpha,
            beta=self.beta,
            gamma=penalty.ridge,
            sparsity=penalty.absolute,
            reconstruction=self.reconstruction,
            **constraint_switches(self.constraints),
        )

    @property
    def _schedule(self):
        return SCHEDULES[self.solver]() if isinstance(self.solver, str) else self.solver

    def _store(self, problem, task, known, X, y, solution=None):
        """Solve a described problem, unless it is solved already, and store the solution."""
        self.__dict__.update(known)
        if solution is None:
            solution = solve(problem, task, self._reporter(known, X, y))
        self.__dict__.update(solution.attributes)
        self.affinity_, self.bandwidth_ = problem.affinity, problem.bandwidth
        self.objective_history_ = np.asarray(self.result_.objective)
        self.n_iter_ = self.result_.n_iter
        warn_if_not_converged(solution.status, type(self).__name__)

    def _ended(self, X, y):
        """Tell callbacks that the fit has ended."""
        self._callback_fit_ctx.call_on_fit_task_end(
            estimator=self, X=X, y=y, reconstruction_attributes={}
        )
        return self

    def _reporter(self, known, X, y):
        """Translate the solver's progress into scikit-learn's callbacks and log lines."""
        # How many iterations there will be is not known: a run that diverges is started again,
        # and soft labels have the model solved once more.
        context = self._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)

        def report(progress, attributes):
            if progress.objective is not None:
                logger.info("iteration %d: objective %.8g", progress.iteration, progress.objective)
            subcontext = context.subcontext(task_name=progress.stage)
            subcontext.call_on_fit_task_begin(estimator=self, X=X, y=y)
            state = None if progress.coef is None else lambda: known | attributes()
            return subcontext.call_on_fit_task_end(
                estimator=self, X=X, y=y, reconstruction_attributes=state
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
        """Every latent subspace in turn.

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
