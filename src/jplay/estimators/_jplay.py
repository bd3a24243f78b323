"""J-Play: joint and progressive subspace learning (Hong et al. 2018)."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.callback import with_callbacks
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from jplay._array_api import like, namespace
from jplay._fitting import stores_at_end
from jplay.blocks.containers import is_in_blocks
from jplay.estimators._chain import CHAIN_CONSTRAINTS, ChainEstimator
from jplay.estimators._linear import float_dtypes
from jplay.estimators._outputs import ScoreClassifier
from jplay.estimators._selection import choose_architecture
from jplay.problems import described
from jplay.problems.targets import LabelPenalty, Propagation, classes_like
from jplay.problems.tasks import ChainTask
from jplay.solvers.schedules import FastSchedule, PaperSchedule

PROJECTION_SHARPNESS = 8.0
"""Of the label projection's outputs, which lie near 0 and 1, as logarithms of probabilities."""


class JPlay(ChainEstimator, ScoreClassifier, BaseEstimator):
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
        or given. ``None`` means ``HeatGraph()``, ten neighbours with weights by distance.
    constraints : {"both", "nonnegative", "unit_ball"} or None, default="both"
        What projected samples must be: non-negative, of norm at most one, both, or neither.
    reconstruction : bool, default=True
        Whether the reconstruction term is part of the model.
    solver : {"fast", "paper"}, FastSchedule or PaperSchedule, default="fast"
        ``"fast"`` moves all layers together in one preconditioned loop and ends exactly
        feasible, at a lower objective than ``"paper"``, which follows the published schedule.
        An object of the schedule carries its settings: ``FastSchedule(max_iter=200)``.
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
    unlabelled : {"auto", -1, None} or Propagation, default="auto"
        What marks a sample without label. ``"auto"`` takes -1 (for indicator matrices a row of
        -1), as scikit-learn's semi-supervised estimators do, unless -1 and 1 are the only
        values: these are two classes. -1 makes no exception; with ``None`` every value is a
        class. Samples without label take part in graph, reconstruction and constraints. A
        :class:`Propagation` gives them soft labels as well.
    scaling : {"standard", "norm"} or None, default="standard"
        What is done to features before the first layer: ``"standard"`` centres each and divides
        it by its standard deviation, or by half of its largest deviation if that is larger, so
        that no unit matters and no rare value dominates; ``"norm"`` divides all by the root
        mean square norm of the samples, so that their common unit does not matter; ``None``
        leaves them as they are, as in the paper. The first layer is affine whenever a linear
        map cannot be non-negative on the samples.
    whiten : bool, default=True
        Whether ``transform`` gives centred features in which neighbours are comparable, or the
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
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "n_layers": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
            "array-like",
        ],
        **CHAIN_CONSTRAINTS,
        "gamma": [*CHAIN_CONSTRAINTS["gamma"], LabelPenalty],
        "decision": [StrOptions({"auto", "centroid", "projection"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "unlabelled": [StrOptions({"auto"}), Options(Integral, {-1}), Propagation, None],
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
        solver: Literal["fast", "paper"] | FastSchedule | PaperSchedule = "fast",
        decision: Literal["auto", "centroid", "projection"] = "auto",
        class_weight: Literal["balanced"] | dict | None = None,
        unlabelled: Literal["auto", -1] | Propagation | None = "auto",
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
        self.unlabelled = unlabelled
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
        if not is_in_blocks(X):
            X, y = self._validated(X, y)
        task = self._task(*self._architecture(X, y, sample_weight))
        with described(
            X, y, sample_weight, n_components=task.n_components, **self._description()
        ) as problem:
            self._fit_problem(problem, task, X, y)
        return self._ended(X, y)

    def _validated(self, X, y):
        return validate_data(
            self, X, y, dtype=float_dtypes(X), multi_output=True, ensure_min_samples=2
        )

    def _description(self):
        """Parameters that describe the problem, whatever is asked of it."""
        return {
            "graph": self.graph,
            "scaling": self.scaling,
            "unlabelled": self.unlabelled,
            "class_weight": self.class_weight,
        }

    def _task(self, n_components, n_layers):
        """What is asked of the problem."""
        return ChainTask(
            n_components=n_components,
            n_layers=n_layers,
            model=self._model,
            schedule=self._schedule,
            unlabelled=self.unlabelled,
        )

    def _architecture(self, X, y, sample_weight):
        """Dimension and layers, chosen by cross-validation if they are ``"auto"``."""
        chosen = [isinstance(size, str) for size in (self.n_components, self.n_layers)]
        if not any(chosen):
            return self.n_components, self.n_layers
        if is_in_blocks(X):
            name = "n_components" if chosen[0] else "n_layers"
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

    def _fit_problem(self, problem, task, X, y, *, solution=None):
        """Solve a described problem, unless it is solved already, and store the solution."""
        if problem.code.multilabel and self.decision == "centroid":
            raise ValueError(
                "`decision` should be 'auto' or 'projection' for multi-label targets, got "
                "'centroid': labels that occur together have no class means."
            )
        known = {
            "classes_": classes_like(problem.code.classes, y),
            "multilabel_": problem.code.multilabel,
            "n_features_in_": problem.first_layer.n_features,
        }
        self._store(problem, task, known, X, y, solution)

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
        """Factor of the scores, as logarithms of probabilities."""
        return PROJECTION_SHARPNESS if self._decides_by_projection else 1.0
