"""J-Play: joint and progressive subspace learning (Hong et al. 2018)."""

import logging
from functools import partial
from numbers import Integral, Real

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from jplay._array_api import is_numpy, like, namespace, to_numpy
from jplay.estimators._autorule import CONSTRAINT_SWITCHES, AffineMap
from jplay.estimators._chain import prepared_samples, raise_if_collapsed, warn_if_not_converged
from jplay.estimators._large import by_rows, scale_for
from jplay.estimators._linear import float_dtypes
from jplay.estimators._lpp import GRAPH_CONSTRAINTS
from jplay.estimators._selection import choose_architecture
from jplay.estimators._targets import encode_partial_targets, soft_targets
from jplay.estimators._validation import resolve_layer_sizes
from jplay.numerics.discriminant import nearest_mean_rule
from jplay.numerics.graph import NeighborGraph, heat_affinity, weighted_by_features
from jplay.solvers.alternating import ModelSettings, PaperSchedule, collapse, solve_jplay
from jplay.solvers.joint import JointSchedule, solve_joint
from jplay.solvers.pretraining import locality_preserving_projections
from jplay.solvers.samples import ArraySamples

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
    n_components : int, "auto" or None, default=None
        Dimension of the last subspace. ``None`` means 20, or fewer where the samples' rank is
        smaller. ``"auto"`` chooses it on the training samples: the smallest with a five-fold
        cross-validated score (accuracy, or squared loss for multi-label targets) within one
        standard error of the best.
    n_layers : int or "auto", default=3
        Number of projections; ignored where ``layer_sizes`` lists them. ``"auto"`` chooses
        between 1, 2 and 3 likewise; among equals the smaller dimension, then the smaller depth.
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
    pretraining : bool, default=True
        Whether layers start from AutoRULe, one after the other, or from locality preserving
        projections; ``"paper"`` only.
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
    class_weight : None, "balanced" or dict, default=None
        Weight of each class in the prediction loss; ``"balanced"`` gives every class the same
        total. A dict also weighs the decision by class means, as prior probabilities would.
        For multi-label targets the weight of each label (column of ``y``), by which rare labels
        shape the subspace as much as frequent ones.
    unlabelled : {"auto", -1, None}, default="auto"
        What marks a sample without label. ``"auto"`` takes -1 (for indicator matrices a row of
        -1), as scikit-learn's semi-supervised estimators do, unless -1 and 1 are the only
        values: these are two classes. -1 makes no exception; with ``None`` every value is a
        class. Samples without label take part in graph, reconstruction and constraints.
    propagation : float, default=0.0
        Weight of soft labels, relative to a true one, that samples without label get from their
        neighbours: over the graph with its edges weighed by distance in the learned subspace,
        or over the neighbours there, whichever tells held-out labels better. Each also counts
        by its certainty. Zero for none.
    propagation_rounds : int, default=2
        How often soft labels are found anew and the model solved again.
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
        ``None`` for samples in blocks.
    bandwidth_ : float or None
    objective_history_ : ndarray of shape (n_iter_,)
        Objective after each (outer) iteration, the last one exactly feasible.
    n_iter_ : int
    selection_ : Selection
        Candidates, their scores in every fold, the best and the chosen one; with ``"auto"``.
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
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "n_layers": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
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
        "pretraining": ["boolean"],
        **CONSTRAINT_SWITCHES,
        "decision": [StrOptions({"centroid", "projection"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "unlabelled": [StrOptions({"auto"}), Options(Integral, {-1}), None],
        "propagation": [Interval(Real, 0, None, closed="left")],
        "propagation_rounds": [Interval(Integral, 1, None, closed="left")],
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
        pretraining=True,
        nonnegative=True,
        unit_ball=True,
        reconstruction=True,
        fit_intercept="auto",
        decision="centroid",
        class_weight=None,
        unlabelled="auto",
        propagation=0.0,
        propagation_rounds=2,
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
        self.pretraining = pretraining
        self.nonnegative = nonnegative
        self.unit_ball = unit_ball
        self.reconstruction = reconstruction
        self.fit_intercept = fit_intercept
        self.decision = decision
        self.class_weight = class_weight
        self.unlabelled = unlabelled
        self.propagation = propagation
        self.propagation_rounds = propagation_rounds
        self.verbose = verbose
        self.random_state = random_state

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Learn the chain of projections and the label projection.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A Dask or Zarr array, a Dask-backed DataArray or a :func:`jplay.scale.blocked`
            array is fitted in blocks, each with a graph of its own.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Class labels, or a 0/1 indicator matrix (dense or sparse) for multi-label targets;
            -1 for samples without label, see ``unlabelled``.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the prediction loss and in the rule by class means. The
            other terms see every sample once: a weight of two is not a sample repeated, which
            would be its own nearest neighbour in the graph.

        Returns
        -------
        self
        """
        scale = scale_for(X)
        if scale is not None:
            return self._fit_blocks(scale, X, y)
        X, y = self._validated(X, y)
        targets = encode_partial_targets(
            y, self.unlabelled, sample_weight=sample_weight, class_weight=self.class_weight
        )
        self._check_solver_takes(targets)
        self.classes_, self._multilabel = targets.classes, targets.multilabel
        architecture = self._architecture(X, y, sample_weight)
        settings = self._sample_settings() | {"n_components": architecture[0]}
        with prepared_samples(
            X, like(targets.Y, X), label_weight=targets.weight_like(X), **settings
        ) as (samples, first_input, self.affinity_, self.bandwidth_):
            statistics = samples.statistics()
            result, fitted_map = self._solve(
                X, y, samples, statistics, first_input, targets, architecture
            )
        self._store(result, fitted_map, statistics, X.shape[0])
        self._callback_fit_ctx.call_on_fit_task_end(
            estimator=self, X=X, y=y, reconstruction_attributes={}
        )
        return self

    def _fit_blocks(self, scale, X, y):
        """Fit on samples that are not an array in memory."""
        with scale.prepared_fit(self, X, y) as (samples, first_layer, dtype):
            statistics = samples.statistics()
            result, fitted_map = self._solve(X, y, samples, statistics, first_layer, dtype=dtype)
        self._store(result, fitted_map, statistics, statistics.n_samples)
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

    def _solve(
        self,
        X,
        y,
        samples,
        statistics,
        first_input,
        targets=None,
        architecture=None,
        dtype=None,
    ):
        """Run the solver on prepared samples."""
        n_components, n_layers = architecture or (self.n_components, self.n_layers)
        rank = locality_preserving_projections(statistics).shape[0]
        self.layer_sizes_ = resolve_layer_sizes(self.layer_sizes, n_layers, n_components, rank)
        dtype = dtype or X.dtype
        fitted_map = partial(self._fitted_map, dtype, statistics, first_input, targets=targets)
        solve = partial(
            solve_joint if self.solver == "fast" else solve_jplay,
            layer_sizes=self.layer_sizes_,
            model=self._model(),
            schedule=self._schedule(),
            callback=self._progress_callback(X, y, fitted_map),
        )
        result = solve(samples, statistics=statistics)
        if self.propagation > 0 and targets is not None and not targets.labelled.all():
            result, targets, statistics = self._propagated(samples, targets, solve, result)
            fitted_map = partial(self._fitted_map, dtype, statistics, first_input, targets=targets)
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

    def _architecture(self, X, y, sample_weight):
        """Dimension and depth, chosen by cross-validation where they are ``"auto"``."""
        listed = self.layer_sizes is not None and not isinstance(self.layer_sizes, str)
        if "auto" not in (self.n_components, self.n_layers) or listed:
            return None if self.n_components == "auto" else self.n_components, self.n_layers
        if sample_weight is not None:
            sample_weight = to_numpy(sample_weight)
        host_y = y if scipy.sparse.issparse(y) or is_numpy(y) else to_numpy(y)
        self.selection_ = choose_architecture(self, X, host_y, sample_weight)
        return self.selection_.chosen

    def _check_solver_takes(self, targets):
        if self.solver != "fast" and targets.weight is not None:
            raise ValueError(
                f"`solver` should be 'fast' where samples lack a label or differ in weight, got "
                f"{self.solver!r}, whose published updates know neither. Use solver='fast'."
            )

    def _propagated(self, samples, targets, solve, result):
        """Solve again with soft labels from the neighbours in the learned subspace."""
        n_neighbors = min(self.n_neighbors, samples.X.shape[0] - 1)
        graph = samples.affinity
        if isinstance(graph, NeighborGraph):
            graph = graph.to_sparse()
        for _ in range(self.propagation_rounds):
            features = to_numpy(samples.X @ like(collapse(result.thetas), samples.X).mT)
            graphs = [
                weighted_by_features(graph, features),
                heat_affinity(features, n_neighbors)[0],
            ]
            soft = soft_targets(graphs, targets, self.propagation)
            samples = ArraySamples(
                samples.X,
                like(soft.Y, samples.X),
                samples.affinity,
                samples.pool,
                soft.weight_like(samples.X),
            )
            statistics = samples.statistics()
            result = solve(samples, statistics=statistics)
        return result, soft, statistics

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
            pretraining=self.pretraining,
        )

    def _fitted_map(self, dtype, statistics, first_input, thetas, coef, targets=None):
        """Fitted attributes that transform and predict need, from a solver's state."""
        xp = namespace(coef)
        if targets is not None and targets.output_scale is not None:
            coef = coef / like(targets.output_scale, coef)[:, None]
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
            rule = nearest_mean_rule(
                X_root @ collapse(thetas).mT,
                Y_root,
                None if targets is None else targets.sizes_like(Y_root),
            )
            intercept = rule.intercept
            if targets is not None and targets.log_prior is not None:
                intercept = intercept + like(targets.log_prior, intercept)
            fitted["class_means_"] = xp.astype(rule.means, dtype)
            fitted["_centroid_coef"] = xp.astype(rule.coef, dtype)
            fitted["_centroid_intercept"] = xp.astype(intercept, dtype)
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

    @by_rows
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

    @by_rows
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

    @by_rows
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
