"""J-Play: joint and progressive subspace learning (Hong et al. 2018)."""

import logging
from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from jplay._array_api import is_numpy, like, namespace, to_numpy
from jplay.estimators._autorule import CONSTRAINT_SWITCHES, AffineMap
from jplay.estimators._chain import prepared_samples, raise_if_collapsed, warn_if_not_converged
from jplay.estimators._linear import float_dtypes
from jplay.estimators._lpp import GRAPH_CONSTRAINTS
from jplay.estimators._validation import encode_targets, resolve_layer_sizes
from jplay.numerics.discriminant import nearest_mean_rule
from jplay.solvers.alternating import ModelSettings, PaperSchedule, collapse, solve_jplay
from jplay.solvers.joint import JointSchedule, solve_joint
from jplay.solvers.pretraining import locality_preserving_projections

logger = logging.getLogger("jplay")


class JPlay(AffineMap, CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    r"""Joint and progressive subspace learning: a chain of projections and a classifier.

    Learns projections :math:`\Theta_1 \dots \Theta_m` and a label projection :math:`P` that
    minimise (Eq. 6)

    .. math::

        \tfrac12 \sum_l \|X_{l-1} - X_{l-1} \Theta_l^T \Theta_l\|_F^2
        + \tfrac\alpha2 \|Y - X_m P^T\|_F^2
        + \tfrac\beta2 \sum_l \mathrm{tr}(X_l^T L X_l) + \tfrac\gamma2 \|P\|_F^2

    subject to :math:`X_l = X_{l-1} \Theta_l^T \ge 0` and rows of :math:`X_l` in the unit ball,
    at every layer. Like ``LinearDiscriminantAnalysis`` it is a transformer and a classifier.

    Parameters
    ----------
    n_components : int, default=None
        Dimension of the last subspace. ``None`` means 20, or fewer where the samples' rank is
        smaller.
    n_layers : int, default=3
        Number of projections; ignored where ``layer_sizes`` lists them.
    layer_sizes : sequence of int, "paper" or None, default=None
        Output dimension of each layer. ``None`` spaces them evenly between the samples' rank
        and ``n_components``; ``"paper"`` also rounds them down to multiples of five.
    alpha : float, default=1.0
        Weight of the prediction loss.
    beta : float, default=0.1
        Weight of the manifold term.
    gamma : float, default=0.1
        Weight of the ridge on the label projection.
    eta : float, default=0.1
        Weight of the manifold term during pre-training; ``solver="paper"`` only.
    n_neighbors : int, default=10
        Neighbours of each sample in the graph.
    bandwidth : float or "median", default="median"
        Width ``t`` of the heat kernel ``exp(-|x_i - x_j|^2 / (2 t^2))``; ``"median"`` takes
        the median distance to the last neighbour.
    affinity : "heat", callable or matrix of shape (n_samples, n_samples), default="heat"
        The graph: built from the samples, returned by a function of them, or given.
    solver : {"fast", "paper"}, default="fast"
        ``"fast"`` moves all layers together in one preconditioned loop and ends exactly
        feasible, at a lower objective than ``"paper"``, which follows the published schedule.
    max_iter : int, default=1000
        Most (outer) iterations.
    tol : float, default=1e-4
        With ``"paper"`` the relative change of the objective at which the outer iterations
        stop; with ``"fast"`` the change per sample, and the root mean square constraint gap
        that the final repair closes.
    inner_max_iter : int, default=1000
        Most iterations of each layer problem; ``"paper"`` only.
    inner_tol : float, default=1e-6
        Frobenius norm below which the residuals of a layer problem must fall; ``"paper"`` only.
    nonnegative : bool, default=True
        Whether projected samples must be non-negative.
    unit_ball : bool, default=True
        Whether projected samples must have norm at most one.
    reconstruction : bool, default=True
        Whether the reconstruction term is part of the model.
    fit_intercept : bool or "auto", default="auto"
        Whether the first layer is affine. On centred samples no linear map but zero is
        non-negative everywhere, so ``"auto"`` adds a constant feature, as large as the largest
        sample norm, whenever some sample has a non-positive inner product with the mean.
    decision : {"centroid", "projection"}, default="centroid"
        How ``predict`` decides between classes: by the nearest class mean in the last subspace,
        under the pooled within-class covariance, or by the largest output of the label
        projection, which may mask classes that lie between others. Multi-label targets always
        use the label projection, above one half.
    verbose : int, default=0
        With 1 a progress line per outer iteration on the logger ``"jplay"``.
    random_state : int, RandomState instance or None, default=None
        The fit is deterministic; kept for the scikit-learn interface.

    Attributes
    ----------
    projections_ : list of ndarray of shape (n_out, n_in)
        One projection per layer.
    first_intercept_ : ndarray of shape (layer_sizes_[0],)
        Intercept of the first layer; zero for a linear one.
    components_ : ndarray of shape (n_components, n_features)
        Product of the chain.
    intercept_ : ndarray of shape (n_components,)
    coef_ : ndarray of shape (n_outputs, n_components)
        Label projection :math:`P`.
    class_means_ : ndarray of shape (n_classes, n_components)
        Class means in the last subspace; absent for multi-label targets.
    classes_ : ndarray of shape (n_classes,)
    layer_sizes_ : list of int
    affinity_ : csr_array of shape (n_samples, n_samples)
    bandwidth_ : float or None
    objective_history_ : ndarray of shape (n_iter_,)
        Objective after each (outer) iteration, the last one exactly feasible.
    n_iter_ : int
    result_ : SolverResult
        Status and full history: objective, its four terms, all residuals.
    n_features_in_ : int

    References
    ----------
    D. Hong, N. Yokoya, J. Xu, X. Zhu. "Joint & progressive learning from high-dimensional data
    for multi-label classification." ECCV 2018.

    Examples
    --------
    >>> from jplay import JPlay
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = JPlay(n_components=3, n_layers=2).fit(X, y)
    >>> model.transform(X).shape
    (150, 3)
    >>> model.score(X, y) > 0.9
    True
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "n_layers": [Interval(Integral, 1, None, closed="left")],
        "layer_sizes": ["array-like", StrOptions({"paper"}), None],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "beta": [Interval(Real, 0, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="left")],
        "eta": [Interval(Real, 0, None, closed="left")],
        **GRAPH_CONSTRAINTS,
        "solver": [StrOptions({"fast", "paper"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "inner_max_iter": [Interval(Integral, 1, None, closed="left")],
        "inner_tol": [Interval(Real, 0, None, closed="neither")],
        **CONSTRAINT_SWITCHES,
        "decision": [StrOptions({"centroid", "projection"})],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components=None,
        n_layers=3,
        *,
        layer_sizes=None,
        alpha=1.0,
        beta=0.1,
        gamma=0.1,
        eta=0.1,
        n_neighbors=10,
        bandwidth="median",
        affinity="heat",
        solver="fast",
        max_iter=1000,
        tol=1e-4,
        inner_max_iter=1000,
        inner_tol=1e-6,
        nonnegative=True,
        unit_ball=True,
        reconstruction=True,
        fit_intercept="auto",
        decision="centroid",
        verbose=0,
        random_state=None,
    ):
        self.n_components = n_components
        self.n_layers = n_layers
        self.layer_sizes = layer_sizes
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.eta = eta
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.affinity = affinity
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.inner_max_iter = inner_max_iter
        self.inner_tol = inner_tol
        self.nonnegative = nonnegative
        self.unit_ball = unit_ball
        self.reconstruction = reconstruction
        self.fit_intercept = fit_intercept
        self.decision = decision
        self.verbose = verbose
        self.random_state = random_state

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Learn the chain of projections and the label projection.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Class labels, or a 0/1 indicator matrix (dense or sparse) for multi-label targets.

        Returns
        -------
        self
        """
        X, y = self._validated(X, y)
        Y, self.classes_, self._multilabel = encode_targets(y, X)
        with prepared_samples(X, Y, **self._sample_settings()) as (
            samples,
            first_input,
            self.affinity_,
            self.bandwidth_,
        ):
            statistics = samples.statistics()
            result, fitted_map = self._solve(X, y, samples, statistics, first_input)
        self._store(result, fitted_map, statistics, X.shape[0])
        self._callback_fit_ctx.call_on_fit_task_end(
            estimator=self, X=X, y=y, reconstruction_attributes={}
        )
        return self

    def _validated(self, X, y):
        return validate_data(
            self, X, y, dtype=float_dtypes(X), multi_output=True, ensure_min_samples=2
        )

    def _sample_settings(self):
        """Parameters that decide how samples are prepared."""
        return {
            "affinity": self.affinity,
            "n_neighbors": self.n_neighbors,
            "bandwidth": self.bandwidth,
            "fit_intercept": self.fit_intercept,
            "n_components": self.n_components,
        }

    def _remember_input(self, other, classes, multilabel, affinity, bandwidth):
        """Take over what another estimator learned of the same samples."""
        self.classes_, self._multilabel = classes, multilabel
        self.affinity_, self.bandwidth_ = affinity, bandwidth
        self.n_features_in_ = other.n_features_in_
        if hasattr(other, "feature_names_in_"):
            self.feature_names_in_ = other.feature_names_in_

    def _solve(self, X, y, samples, statistics, first_input):
        """Run the solver on prepared samples."""
        rank = locality_preserving_projections(statistics).shape[0]
        self.layer_sizes_ = resolve_layer_sizes(
            self.layer_sizes, self.n_layers, self.n_components, rank
        )
        fitted_map = partial(self._fitted_map, X.dtype, statistics, first_input)
        solve = solve_joint if self.solver == "fast" else solve_jplay
        result = solve(
            samples,
            self.layer_sizes_,
            self._model(),
            self._schedule(),
            statistics=statistics,
            callback=self._progress_callback(X, y, fitted_map),
        )
        return result, fitted_map

    def _store(self, result, fitted_map, statistics, n_samples):
        """Keep what a solver returned as fitted attributes."""
        raise_if_collapsed(
            statistics.X_root, collapse(result.thetas), n_samples, self.fit_intercept
        )
        for name, value in fitted_map(result.thetas, result.coef).items():
            setattr(self, name, value)
        self.result_ = result
        self.objective_history_ = np.asarray(result.objective)
        self.n_iter_ = result.n_iter
        warn_if_not_converged(result.status, "JPlay")

    def _model(self):
        return ModelSettings(
            alpha=self.alpha,
            beta=self.beta,
            gamma=self.gamma,
            eta=self.eta,
            nonnegative=self.nonnegative,
            unit_ball=self.unit_ball,
            reconstruction=self.reconstruction,
        )

    def _schedule(self):
        if self.solver == "fast":
            return JointSchedule(max_iter=self.max_iter, tol=self.tol)
        return PaperSchedule(
            max_iter=self.max_iter,
            tol=self.tol,
            inner_max_iter=self.inner_max_iter,
            inner_tol=self.inner_tol,
        )

    def _fitted_map(self, dtype, statistics, first_input, thetas, coef):
        """Fitted attributes that transform and predict need, from a solver's state."""
        xp = namespace(coef)
        first, first_intercept = first_input.first_projection(thetas[0])
        intercept = collapse([first_intercept[:, None], *thetas[1:]])[:, 0]
        components = collapse([first, *thetas[1:]])
        fitted = {
            "first_intercept_": xp.astype(first_intercept, dtype),
            "components_": xp.astype(components, dtype),
            "intercept_": xp.astype(intercept, dtype),
            "coef_": xp.astype(coef, dtype),
            "classes_": self.classes_,
            "_multilabel": self._multilabel,
            "n_features_in_": self.n_features_in_,
            "layer_sizes_": self.layer_sizes_,
            "projections_": [xp.astype(theta, dtype) for theta in (first, *thetas[1:])],
        }
        if not self._multilabel:
            X_root, Y_root = statistics.label_roots
            rule = nearest_mean_rule(X_root @ collapse(thetas).mT, Y_root)
            fitted["class_means_"] = xp.astype(rule.means, dtype)
            fitted["_centroid_coef"] = xp.astype(rule.coef, dtype)
            fitted["_centroid_intercept"] = xp.astype(rule.intercept, dtype)
        return fitted

    def _progress_callback(self, X, y, fitted_map):
        """Translate the solver's progress into scikit-learn's callbacks and log lines."""
        n_layers = len(self.layer_sizes_)
        context = self._init_callback_context(max_subtasks=n_layers + self.max_iter)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)

        def report(progress):
            if self.verbose and progress.objective is not None:
                logger.info("iteration %d: objective %.8g", progress.iteration, progress.objective)
            subcontext = context.subcontext(task_name=progress.stage)
            subcontext.call_on_fit_task_begin(estimator=self, X=X, y=y)
            state = None
            if progress.coef is not None:

                def state():
                    return fitted_map(progress.thetas, progress.coef)

            return subcontext.call_on_fit_task_end(
                estimator=self, X=X, y=y, reconstruction_attributes=state
            )

        return report

    def transform_layers(self, X):
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

    def decision_function(self, X):
        """Scores of every class or label; the largest (or above one half) is predicted.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            For two classes the score of the second minus that of the first.
        """
        check_is_fitted(self, "components_")
        Z = self._transform(validate_data(self, X, dtype=float_dtypes(X), reset=False))
        if self.decision == "projection" or self._multilabel:
            scores = Z @ like(self.coef_, Z).mT
        else:
            scores = Z @ like(self._centroid_coef, Z).mT + like(self._centroid_intercept, Z)
        if self._multilabel or scores.shape[1] > 2:
            return scores
        return scores[:, 1] - scores[:, 0]

    def predict(self, X):
        """Class labels, or an indicator matrix for multi-label targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_labels)
        """
        scores = self.decision_function(X)
        xp = namespace(scores)
        if self._multilabel:
            return xp.astype(scores > 0.5, xp.int64)
        chosen = xp.astype(scores > 0, xp.int64) if scores.ndim == 1 else xp.argmax(scores, axis=1)
        if is_numpy(self.classes_):
            return self.classes_[to_numpy(chosen)]
        return namespace(self.classes_).take(self.classes_, chosen)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
