"""J-Play: joint and progressive subspace learning (Hong et al. 2018)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.callback import with_callbacks
from sklearn.utils._param_validation import Options, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from jplay._estimator_base import (
    float_dtypes,
    prepare_problem,
    warn_if_not_converged,
)
from jplay._fitting import stores_at_end
from jplay.core.arrays import like, multiply_chain, namespace
from jplay.core.blocked import check_rows, check_weight_rows, is_in_blocks
from jplay.core.decision import estimate_covariance
from jplay.core.graph import HeatGraph, heat_graph, weight_by_features
from jplay.core.paper import PaperSolver
from jplay.core.problem import Problem, replace_targets
from jplay.core.result import SolverResult
from jplay.core.samples import gather_features
from jplay.core.solver import FastSolver
from jplay.core.targets import Targets, encode_targets, put_classes_like
from jplay.estimators._chain import (
    CHAIN_CONSTRAINTS,
    ChainEstimator,
    check_equal_weights,
    choose_sizes,
    describe_chain,
    describe_coef,
    describe_decision,
    describe_fit,
    minimize_chain,
)
from jplay.estimators._outputs import ScoreClassifier
from jplay.estimators._selection import choose_architecture
from jplay.estimators.label_penalty import LabelPenalty
from jplay.estimators.soft_labels import SoftLabelPropagation, add_soft_labels

PROJECTION_TEMPERATURE = 8.0
"""Inverse temperature of the label projection's outputs, which lie near 0 and 1."""


class JPlay(ChainEstimator, ScoreClassifier, BaseEstimator):
    r"""Joint and progressive subspace learning: a chain of projections and a classifier.

    Learns projections :math:`\Theta_1 \dots \Theta_m` and a label projection :math:`P` that
    minimize (Eq. 6)

    .. math::

        \tfrac12 \sum_l \|X_{l-1} - X_{l-1} \Theta_l^T \Theta_l\|_F^2
        + \tfrac\alpha2 \|Y - X_m P^T\|_F^2
        + \tfrac\beta2 \sum_l \mathrm{tr}(X_l^T L X_l) + \tfrac\gamma2 \|P\|_F^2

    subject to :math:`X_l = X_{l-1} \Theta_l^T \ge 0` and rows of :math:`X_l` in the unit ball,
    at every layer. Like ``LinearDiscriminantAnalysis`` it is a transformer and a classifier.

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Dimension of the last subspace. ``None`` means 30 or twice the number of classes,
        whichever is larger, or fewer if the samples' rank is smaller. ``"auto"`` chooses it on
        the training samples: the smallest with a five-fold cross-validated score (accuracy, or
        squared loss for multi-label targets) within one standard error of the best.
    n_layers : int, "auto" or sequence of int, default=1
        Number of projections, whose sizes are spaced evenly between the samples' rank and
        ``n_components``; or the size of each. ``"auto"`` chooses between 1, 2 and 3 as
        ``n_components`` does; among equals the smaller dimension, then the smaller depth.
    alpha : float, default=3.0
        Weight of the prediction loss.
    beta : float, default=0.01
        Weight of the manifold term.
    gamma : float or LabelPenalty, default=0.1
        Weight of the ridge on the label projection; a :class:`LabelPenalty` makes it sparse.
    graph : HeatGraph, callable, matrix of shape (n_samples, n_samples) or None, default=None
        The graph of the manifold term: built from the samples, returned by a function of them,
        or given. ``None`` means ``HeatGraph()``, ten neighbors with weights by distance.
    constraints : {"both", "nonnegative", "unit_ball"} or None, default="both"
        What projected samples must be: non-negative, of norm at most one, both, or neither.
    reconstruction : bool, default=True
        Whether the reconstruction term is part of the model.
    solver : {"fast", "paper"}, FastSolver or PaperSolver, default="fast"
        ``"fast"`` moves all layers together in one preconditioned loop and ends exactly
        feasible, at a lower objective than ``"paper"``, the published solver.
        An object of the schedule carries its settings: ``FastSolver(max_iter=200)``.
    decision : {"auto", "centroid", "projection"}, default="auto"
        How ``predict`` decides: by the nearest class mean in the last subspace under the pooled
        within-class covariance, which is shrunk in the space of the input, or by the label
        projection, which may mask classes that lie between others. ``"auto"`` is the first for
        class labels and the second, above one half, for multi-label targets.
    class_weight : None, "balanced" or dict, default=None
        Weight of each class in the prediction loss and in the prior probabilities of the
        decision; ``"balanced"`` gives every class the same total.
        For multi-label targets the weight of each label (column of ``y``), by which rare labels
        shape the subspace as much as frequent ones.
    unlabeled : {"auto", -1, None} or SoftLabelPropagation, default="auto"
        What marks a sample without label. ``"auto"`` takes -1 (for indicator matrices a row of
        -1), as scikit-learn's semi-supervised estimators do, unless -1 and 1 are the only
        values: these are two classes. -1 makes no exception; with ``None`` every value is a
        class. Samples without label take part in graph, reconstruction and constraints. A
        :class:`SoftLabelPropagation` gives them soft labels as well.
    scaling : {"standard", "norm"} or None, default="standard"
        What is done to features before the first layer: ``"standard"`` centres each and divides
        it by its standard deviation, or by half of its largest deviation if that is larger, so
        that no unit matters and no rare value dominates; ``"norm"`` divides all by the root
        mean square norm of the samples, so that their common unit does not matter; ``None``
        leaves them as they are, as in the paper. The first layer is affine whenever a linear
        map cannot be non-negative on the samples.
    whiten : bool, default=True
        Whether ``transform`` gives centred features in which neighbors are comparable, or the
        constrained features of the model, like the last of :meth:`transform_layers`. The first
        have unit covariance within classes, like those of ``LinearDiscriminantAnalysis``, and
        are shortened along directions in which the classes do not differ, to 0.55 at least.
        Those of multi-label targets have unit covariance.

    Attributes
    ----------
    projections_ : list of ndarray of shape (n_out, n_in)
        One projection per layer.
    first_intercept_ : ndarray of shape (layer_sizes_[0],)
        Intercept of the first layer; zero for a linear one.
    components_ : ndarray of shape (n_components, n_features)
        Product of the chain, for features as they come.
    intercept_ : ndarray of shape (n_components,)
    whitener_ : ndarray of shape (n_components, n_components)
        What ``transform`` multiplies the features of the chain by, see ``whiten``.
    center_ : ndarray of shape (n_components,)
        Mean of the training samples' features, which whitening subtracts.
    coef_ : ndarray of shape (n_outputs, n_components)
        Label projection :math:`P`.
    class_means_ : ndarray of shape (n_classes, n_components)
        Class means in the last subspace; absent for multi-label targets.
    decision_coef_ : ndarray of shape (n_outputs, n_components)
    decision_intercept_ : ndarray of shape (n_outputs,)
        The rule that ``decision`` names: scores are linear in the features.
    feature_scale_, feature_mean_ : ndarray of shape (n_features,)
        What each feature is multiplied by after its mean was subtracted; see ``scaling``.
    multilabel_ : bool
        Whether the targets were an indicator matrix.
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
    >>> model = JPlay(n_components=3).fit(X, y)
    >>> model.transform(X).shape
    (150, 3)
    >>> model.score(X, y) > 0.9
    True
    """

    _parameter_constraints: dict = {
        **CHAIN_CONSTRAINTS,
        "n_components": [*CHAIN_CONSTRAINTS["n_components"], StrOptions({"auto"})],
        "n_layers": [*CHAIN_CONSTRAINTS["n_layers"], StrOptions({"auto"})],
        "gamma": [*CHAIN_CONSTRAINTS["gamma"], LabelPenalty],
        "decision": [StrOptions({"auto", "centroid", "projection"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "unlabeled": [StrOptions({"auto"}), Options(Integral, {-1}), SoftLabelPropagation, None],
        "whiten": ["boolean"],
    }

    def __init__(
        self,
        n_components: int | Literal["auto"] | None = None,
        n_layers: int | Literal["auto"] | Sequence[int] = 1,
        *,
        alpha: float = 3.0,
        beta: float = 0.01,
        gamma: float | LabelPenalty = 0.1,
        graph: Any = None,
        constraints: Literal["both", "nonnegative", "unit_ball"] | None = "both",
        reconstruction: bool = True,
        solver: Literal["fast", "paper"] | FastSolver | PaperSolver = "fast",
        decision: Literal["auto", "centroid", "projection"] = "auto",
        class_weight: Literal["balanced"] | dict | None = None,
        unlabeled: Literal["auto", -1] | SoftLabelPropagation | None = "auto",
        scaling: Literal["standard", "norm"] | None = "standard",
        whiten: bool = True,
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
        self.decision = decision
        self.class_weight = class_weight
        self.unlabeled = unlabeled
        self.scaling = scaling
        self.whiten = whiten

    @stores_at_end
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the chain of projections and the label projection.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A Dask or Zarr array, a Dask-backed DataArray or a :func:`jplay.blocks.blocked`
            array is fitted in blocks, each with a separate graph.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Class labels, or a 0/1 indicator matrix (dense or sparse) for multi-label targets;
            -1 for samples without label, see ``unlabeled``.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the prediction loss and in the rule by class means. In the
            other terms every sample has weight one: a weight of two is not a sample repeated,
            which would be its own nearest neighbor in the graph.

        Returns
        -------
        self
        """
        X, y = self._check_inputs(X, y)
        sample_weight = check_weight_rows(sample_weight, X)
        n_components, n_layers = self._choose_architecture(X, y, sample_weight)
        targets = self._encode_targets(y, sample_weight)
        with prepare_problem(
            X, targets, graph=self.graph, scaling=self.scaling, n_components=n_components
        ) as problem:
            attributes = self._solve(problem, n_components, n_layers, X, y)
        self.__dict__.update(attributes)
        warn_if_not_converged(self.result_.status, type(self).__name__)
        return self._end_fit(X, y)

    def _check_inputs(self, X, y):
        """Validated samples and targets; samples in blocks are validated as they are read."""
        if is_in_blocks(X):
            if isinstance(self.unlabeled, SoftLabelPropagation):
                raise ValueError(
                    "`unlabeled` should be 'auto', -1 or None for samples in blocks, got a "
                    "SoftLabelPropagation: labels propagate over one graph, and each block has a "
                    "separate one. Fit an array in memory."
                )
            return X, check_rows(y, X, "y")
        return validate_data(
            self, X, y, dtype=float_dtypes(X), multi_output=True, ensure_min_samples=2
        )

    def _encode_targets(self, y, sample_weight):
        targets = encode_targets(
            y,
            unlabeled=getattr(self.unlabeled, "marker", self.unlabeled),
            sample_weight=sample_weight,
            class_weight=self.class_weight,
        )
        if targets.multilabel and self.decision == "centroid":
            raise ValueError(
                "`decision` should be 'auto' or 'projection' for multi-label targets, got "
                "'centroid': labels that occur together have no class means."
            )
        return targets

    def _choose_architecture(self, X, y, sample_weight):
        """Dimension and layers, chosen by cross-validation if they are ``"auto"``."""
        auto = [isinstance(size, str) for size in (self.n_components, self.n_layers)]
        if not any(auto):
            return self.n_components, self.n_layers
        if is_in_blocks(X):
            name = "n_components" if auto[0] else "n_layers"
            raise ValueError(
                f"`{name}` should be a number for samples in blocks, got 'auto', which needs "
                "samples in memory to choose. Choose it on a part of them."
            )
        if np.ndim(self.n_layers):
            raise ValueError(
                "`n_components` should be None if `n_layers` lists the sizes of the layers, got "
                "'auto'. Set only one of the two."
            )
        self.selection_ = choose_architecture(self, X, y, sample_weight)
        return self.selection_.chosen

    def _solve(self, problem: Problem, n_components, n_layers, X=None, y=None) -> dict:
        """Minimize the objective, and return all fitted attributes.

        With ``X`` and ``y`` callbacks are told of every iteration.
        """
        solver, targets = self._solver_options, problem.targets
        check_equal_weights(solver, targets)
        sizes = choose_sizes(problem, n_components, n_layers, targets.n_outputs)
        callback = None
        if X is not None:
            callback = self._make_callback(X, y, self._make_description(problem, y))
        result = minimize_chain(problem, sizes, self._objective, solver, callback)
        if isinstance(self.unlabeled, SoftLabelPropagation) and targets.has_unlabeled:
            for _ in range(self.unlabeled.rounds):
                problem = propagate(problem, result.thetas, targets, self)
                result = minimize_chain(problem, sizes, self._objective, solver, callback)
        return self._describe(problem, result, y)

    def _describe(self, problem: Problem, result: SolverResult, y=None) -> dict:
        """Return all fitted attributes."""
        describe = self._make_description(problem, y)
        return describe(result.thetas, result.coef) | describe_fit(problem, result)

    def _make_description(self, problem, y):
        """Return the function from an iterate to what ``transform`` and ``predict`` need."""
        targets = problem.targets
        # The covariance depends neither on the iterate nor on the weights of a grid: it is
        # estimated once for a problem, if at all.
        compute = cache(lambda: estimate_covariance(*harden(problem)))
        estimate = problem.__dict__.setdefault("_estimate", compute)

        def describe(thetas, coef):
            coef = namespace(coef).astype(describe_coef(coef, targets), problem.dtype)
            return {
                "classes_": put_classes_like(targets.classes, y),
                "multilabel_": targets.multilabel,
                "coef_": coef,
                **describe_chain(problem, thetas),
                **describe_decision(problem, multiply_chain(thetas), estimate(), targets),
            }

        return describe

    @property
    def _affine_map(self):
        if self.whiten:
            return self._after_chain(self.whitener_, self.center_)
        return self.components_, self.intercept_

    def _rebuilt(self, Z):
        if self.whiten:
            Z = Z @ namespace(self.whitener_).linalg.inv(self.whitener_).mT + self.center_
        return super()._rebuilt(Z)

    @property
    def decision_coef_(self) -> Any:
        """Coefficients of the rule that ``decision`` names, (n_outputs, n_components)."""
        return self.coef_ if self._decides_by_projection else self.mean_rule_coef_

    @property
    def decision_intercept_(self) -> Any:
        """Intercepts of the rule that ``decision`` names, (n_outputs,)."""
        if self._decides_by_projection:
            return namespace(self.coef_).zeros_like(self.coef_[:, 0])
        return self.mean_rule_intercept_

    @property
    def _decides_by_projection(self):
        check_is_fitted(self, "components_")
        return self.multilabel_ or self.decision == "projection"

    def _outputs(self, X):
        """Scores of every class or label by the rule that ``decision`` names."""
        check_is_fitted(self, "components_")
        matrix, offset = self._after_chain(self.decision_coef_)
        return self._product(X, matrix, offset + like(self.decision_intercept_, matrix))

    @property
    def _sharpness(self):
        """Inverse temperature of the scores."""
        return PROJECTION_TEMPERATURE if self._decides_by_projection else 1.0


def harden(problem: Problem) -> tuple[Problem, Targets]:
    """Return the problem with the likeliest classes in the place of soft labels."""
    targets = problem.targets
    if targets.soft_classes is None:
        return problem, targets
    codes = np.where(targets.soft_classes.any(axis=1), targets.soft_classes.argmax(axis=1), -1)
    weight = np.where(codes >= 0, targets.weight, 0.0)
    hard = replace(targets, y=codes, labeled=codes >= 0, weight=weight, soft_classes=None)
    return replace_targets(problem, hard), hard


def propagate(problem: Problem, thetas: Sequence[Any], targets: Targets, estimator: Any) -> Problem:
    """Return the problem with soft labels, propagated over neighbors in the learned subspace."""
    features = gather_features(problem.samples, multiply_chain(thetas))
    affinity = problem.graph
    if hasattr(affinity, "to_sparse"):
        affinity = affinity.to_sparse()
    n_neighbors = getattr(estimator.graph, "n_neighbors", HeatGraph.n_neighbors)
    n_neighbors = min(n_neighbors, len(features) - 1)
    graphs = [weight_by_features(affinity, features), heat_graph(features, n_neighbors)[0]]
    return replace_targets(problem, add_soft_labels(graphs, targets, estimator.unlabeled.weight))
