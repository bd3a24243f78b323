"""J-Play on similarities to landmarks: one lifted chain on all features."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from jplay._estimator_base import float_dtypes
from jplay._fitting import stores_at_end
from jplay._rowwise import by_rows
from jplay.core.arrays import is_numpy, to_numpy
from jplay.core.decision import compute_whitener, estimate_covariance
from jplay.core.graph import HeatGraph
from jplay.core.objective import Objective, Ridge
from jplay.core.problem import prepare
from jplay.core.targets import encode_targets, put_classes_like
from jplay.estimators._outputs import ScoreClassifier
from jplay.estimators.lifted_chain import Lift, View, lifted_chain, with_landmarks
from jplay.estimators.stages import StageData, merge_labels
from jplay.numerics.lift import landmark_indices
from jplay.numerics.votes import softmax

SHARPNESS = np.geomspace(2.0, 64.0, 21)
"""Factors of the outputs that are compared, before they become probabilities."""
N_FOLDS = 5
LEAST_SHARE = 0.05
"""Of the diagonal in the covariance by which features are whitened: similarities count every
direction alike, those that only seem to have no spread within classes too."""
_ROWS_AT_ONCE = 2048


class LiftedJPlay(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ScoreClassifier, BaseEstimator
):
    r"""J-Play behind a kernel feature map, as easy to use as a support vector machine.

    A linear model cannot tell classes with several modes apart. Here samples are compared with
    landmarks among the training samples, and J-Play learns from the similarities,

    .. math::

        k(x, l) = \tfrac1{2|T|} \sum_{t \in T} e^{-\|x - l\|^2 / 2t^2}
        + e^{-\|A (x - l)\|^2 / 2t^2},

    once with standardised features and once with features whitened by :math:`A`: in the metric
    of J-Play's decision, where the covariance within classes is the identity. Widths are half,
    one, two and four times the median distance. Kernel values are non-negative and bounded,
    which is what the constraints of the model ask for.

    Parameters
    ----------
    n_components : int or None, default=None
        Dimension of the last subspace; ``None`` means 20 or twice the number of classes,
        whichever is larger.
    widths : sequence of float, default=(0.5, 1.0, 2.0, 4.0)
        Of the kernels, in median distances between landmarks.
    n_landmarks : int, default=1000
        Training samples to which similarities are measured, at most, drawn from all classes in
        turn. Memory of a fit is about ``8 * n_samples * n_landmarks`` bytes, and time grows in
        proportion to ``n_samples``.
    n_coordinates : int, default=400
        Coordinates of the similarities that J-Play sees.
    alpha, beta, gamma : float, default=1.0, 0.01, 0.1
        Weights of prediction loss, manifold term and ridge, see :class:`JPlay`.
    class_weight : None, "balanced" or dict, default=None
        Weight of each class in the prediction loss.
    unlabeled : {"auto", -1, None}, default="auto"
        What marks a sample without label, see :class:`JPlay`. Such samples take part in the
        graph, the reconstruction and the constraints.
    random_state : int, RandomState instance or None, default=0
        Draws the landmarks, and the folds by which probabilities are calibrated.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    multilabel_ : bool
    chain_ : LiftedChain
        Views of the samples, landmarks, and what reads the similarities out.
    sharpness_ : float
        Factor of the outputs in the probabilities, chosen by five folds of the training samples.
    n_features_in_ : int

    See Also
    --------
    JPlayCommittee : Many lifted chains on shares of the features; more accurate, slower.

    Examples
    --------
    >>> from jplay import LiftedJPlay
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LiftedJPlay().fit(X, y)
    >>> model.transform(X).shape
    (150, 20)
    >>> model.score(X, y) > 0.9
    True
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "widths": ["array-like"],
        "n_landmarks": [Interval(Integral, 2, None, closed="left")],
        "n_coordinates": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "beta": [Interval(Real, 0, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="left")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "unlabeled": [StrOptions({"auto"}), Options(Integral, {-1}), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        widths: Sequence[float] = (0.5, 1.0, 2.0, 4.0),
        n_landmarks: int = 1000,
        n_coordinates: int = 400,
        alpha: float = 1.0,
        beta: float = 0.01,
        gamma: float = 0.1,
        class_weight: Literal["balanced"] | dict | None = None,
        unlabeled: Literal["auto", -1] | None = "auto",
        random_state: Any = 0,
    ) -> None:
        self.n_components = n_components
        self.widths = widths
        self.n_landmarks = n_landmarks
        self.n_coordinates = n_coordinates
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.class_weight = class_weight
        self.unlabeled = unlabeled
        self.random_state = random_state

    @stores_at_end
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the metric, the similarities and the subspace.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Class labels, or a 0/1 indicator matrix (dense or sparse) for multi-label targets;
            -1 for samples without label.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the prediction loss.

        Returns
        -------
        self
        """
        X, y = validate_data(
            self, X, y, dtype=float_dtypes(X), multi_output=True, ensure_min_samples=2
        )
        widths = np.asarray(self.widths, dtype=float)
        if widths.ndim != 1 or not widths.size or not (widths > 0).all():
            raise ValueError(
                f"`widths` should be a sequence of numbers above 0, got {self.widths!r}."
            )
        targets = encode_targets(
            y,
            unlabeled=self.unlabeled,
            sample_weight=sample_weight,
            class_weight=self.class_weight,
        )
        self.classes_ = put_classes_like(targets.classes, y)
        self.multilabel_ = targets.multilabel
        self.n_components_ = self.n_components or max(20, 2 * len(self.classes_))
        # Labelled samples first; what marks the others is -1 from here on.
        order = np.argsort(~targets.labeled, kind="stable")
        labelled = int(targets.labeled.sum())
        samples = to_numpy(X)[order].astype(np.float64)
        known = targets.encode()[0][order][:labelled]
        known = (known > 0).astype(np.float64)
        marks = merge_labels(known, len(samples), self.multilabel_)
        weight = None if sample_weight is None else to_numpy(np.asarray(sample_weight))[order]
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        with threadpool_limits(1, "blas"):
            self.sharpness_ = self._best_sharpness(samples, known, marks, weight, rng)
            self.chain_ = self._chain(samples, known, marks, weight, rng)
        return self

    def _chain(self, X, known, marks, weight, rng):
        """The lifted chain of samples whose labels come first."""
        class_weight = self.class_weight
        if isinstance(class_weight, dict) and not self.multilabel_:
            names = to_numpy(self.classes_).tolist()
            class_weight = {names.index(k): v for k, v in class_weight.items() if k in names}
        graph = HeatGraph(max(1, min(HeatGraph.n_neighbors, len(X) - 1)))
        targets = encode_targets(marks, unlabeled=-1)
        with prepare(X, targets, graph=graph, scaling="standard") as problem:
            views = _metric_views(problem)
        codes = np.full(len(X), known.shape[1])
        codes[: len(known)] = known.argmax(axis=1)
        rows = landmark_indices(codes, self.n_landmarks, rng)
        lift = Lift(
            StageData(X, marks, -1, weight, class_weight),
            known,
            [with_landmarks(view, X, rows, self.widths) for view in views],
            rows,
            Objective(self.alpha, self.beta, Ridge(self.gamma)),
            self.n_components_,
            self.n_coordinates,
        )
        chain, _ = lifted_chain(lift)
        return chain

    def _best_sharpness(self, X, known, marks, weight, rng):
        """Factor that makes the labels of samples left out most likely."""
        codes = known.argmax(axis=1)
        smallest = np.bincount(codes, minlength=1)[np.unique(codes)].min()
        if self.multilabel_ or smallest < 2:
            return 8.0
        folds = StratifiedKFold(min(N_FOLDS, int(smallest)), shuffle=True, random_state=0)
        outputs, truth = [], []
        for train, test in folds.split(codes, codes):
            rows = np.concatenate([train, np.arange(len(known), len(X))])
            part = None if weight is None else weight[rows]
            chain = self._chain(X[rows], known[train], marks[rows], part, rng)
            outputs.append(chain(X[test])[1])
            truth.append(known[test])
        scores, truth = np.concatenate(outputs), np.concatenate(truth)

        def loss(sharpness):
            return -np.log((softmax(scores, sharpness) * truth).sum(axis=1) + 1e-6).mean()

        return float(min(SHARPNESS, key=loss))

    def _read(self, X, which):
        """Features or outputs of samples, some at a time."""
        check_is_fitted(self, "chain_")
        X = validate_data(self, X, dtype=float_dtypes(X), reset=False)
        if not is_numpy(X):
            return self.chain_(X)[which]
        starts = range(0, max(1, len(X)), _ROWS_AT_ONCE)
        parts = [self.chain_(X[start : start + _ROWS_AT_ONCE])[which] for start in starts]
        return np.concatenate(parts)

    @by_rows
    def transform(self, X: Any) -> Any:
        """Features of samples in the last subspace.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components)
        """
        return self._read(X, 0)

    def _outputs(self, X):
        return self._read(X, 1)

    @property
    def _sharpness(self):
        return self.sharpness_

    @property
    def _n_features_out(self) -> int:
        return self.chain_.coef.shape[1]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _metric_views(problem):
    """Samples in standardised features, and whitened in the metric of the decision."""
    transform = problem.transform.fold_unit()
    statistics = estimate_covariance(problem, problem.targets)
    matrix = statistics.covariance(max(statistics.shrinkage, LEAST_SHARE))
    whitener = compute_whitener(matrix)
    if transform.basis is not None:
        whitener = whitener @ transform.basis.T
    scale = np.asarray(transform.scale)
    return [View(None, scale), View(None, whitener[:, : transform.n_features] * scale)]
