"""Multi-label prediction on top of J-Play: neighbours, label correlation, thresholds."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from jplay.estimators._jplay import JPlay
from jplay.estimators._linear import float_dtypes
from jplay.estimators._validation import encode_host_targets
from jplay.numerics.stratification import iterative_folds
from jplay.numerics.thresholds import best_f1_threshold


class MultiLabelJPlay(ClassifierMixin, BaseEstimator):
    r"""J-Play for several labels per sample.

    Two heads look at the learned subspace: the label projection, and the labels of the nearest
    training samples. Both are computed out of fold, and a logistic regression per label
    combines them with the leading principal components of all scores: a low-rank coupling
    through which labels inform each other. Thresholds are chosen on out-of-fold scores. Folds
    hold every label in its proportion.

    Parameters
    ----------
    estimator : JPlay, default=None
        The subspace; ``None`` for one layer with default weights. Its ``class_weight``
        weighs the labels.
    head : {"stacked", "projection", "neighbors"}, default="stacked"
        What scores labels: both heads combined as above, or one of them.
    n_neighbors : int, default=30
        Training samples that the neighbours' head asks, weighed by inverse distance.
    coupling : int, default=10
        Principal components of the scores of all labels that the combination sees; 0 keeps
        labels apart.
    thresholds : {"macro_f1", "micro_f1"} or float, default="macro_f1"
        Best F1 of every label, one threshold with the best F1 over all labels together, or a
        given one; 0.5 is best for the Hamming loss.
    cv : int, default=5
        Number of folds.
    random_state : int, RandomState instance or None, default=0
        Deals the samples to folds.

    Attributes
    ----------
    model_ : JPlay
    thresholds_ : ndarray of shape (n_labels,)
    out_of_fold_scores_ : ndarray of shape (n_samples, n_labels) or None
        On which the thresholds were chosen.
    classes_ : ndarray of shape (n_labels,)
    n_features_in_ : int

    Notes
    -----
    Class labels, one per sample, are taken as well: the largest score is predicted.

    Examples
    --------
    >>> from jplay import MultiLabelJPlay
    >>> from sklearn.datasets import make_multilabel_classification
    >>> X, Y = make_multilabel_classification(n_samples=100, random_state=0)
    >>> MultiLabelJPlay(n_neighbors=5).fit(X / 10, Y).predict(X / 10).shape
    (100, 5)
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "transform", "decision_function"]), None],
        "head": [StrOptions({"stacked", "projection", "neighbors"})],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "coupling": [Interval(Integral, 0, None, closed="left")],
        "thresholds": [StrOptions({"macro_f1", "micro_f1"}), Real],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator=None,
        *,
        head="stacked",
        n_neighbors=30,
        coupling=10,
        thresholds="macro_f1",
        cv=5,
        random_state=0,
    ):
        self.estimator = estimator
        self.head = head
        self.n_neighbors = n_neighbors
        self.coupling = coupling
        self.thresholds = thresholds
        self.cv = cv
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None):
        """Learn the subspace, the heads and the thresholds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_labels) or (n_samples,)
            A 0/1 indicator matrix (dense or sparse), or class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the prediction loss, as a neighbour and in the combination
            of the heads; see :meth:`JPlay.fit`.

        Returns
        -------
        self
        """
        X, y = validate_data(
            self, X, y, dtype=float_dtypes(X), multi_output=True, ensure_min_samples=4
        )
        Y, self.classes_, self._multilabel = encode_host_targets(y)
        Y = Y.astype(np.int64)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        self._heads = self._fit_heads(X, Y, sample_weight)
        self.model_ = self._heads.model
        self._combiner = None
        self.out_of_fold_scores_ = None
        if self.head == "stacked" or isinstance(self.thresholds, str):
            folds = iterative_folds(
                Y, min(self.cv, len(Y) // 2), check_random_state(self.random_state)
            )
            scores = self._out_of_fold(X, Y, folds, sample_weight)
            if self.head == "stacked":
                self._combiner, scores = _combine(scores, Y, folds, self.coupling, sample_weight)
            else:
                scores = scores[0 if self.head == "projection" else 1]
            self.out_of_fold_scores_ = scores
        return self.choose_thresholds(self.thresholds)

    def choose_thresholds(self, thresholds):
        """Choose thresholds anew, without another fit.

        Parameters
        ----------
        thresholds : {"macro_f1", "micro_f1"} or float

        Returns
        -------
        self
        """
        check_is_fitted(self, "model_")
        if isinstance(thresholds, str) and self.out_of_fold_scores_ is None:
            raise ValueError(
                f"`thresholds` should be a number for a model without out-of-fold scores, got "
                f"{thresholds!r}. Set it before fit."
            )
        self.thresholds_ = _choose_thresholds(thresholds, self.out_of_fold_scores_, self._heads.Y)
        return self

    def _fit_heads(self, X, Y, weight):
        model = JPlay(n_layers=1) if self.estimator is None else clone(self.estimator)
        model.set_params(unlabelled=None).fit(X, Y, sample_weight=weight)
        return _Heads(model, NearestNeighbors().fit(model.transform(X)), Y, weight)

    def _out_of_fold(self, X, Y, folds, weight):
        """Scores (2, n_samples, n_labels) by models that have not seen the sample."""
        scores = np.zeros((2, *Y.shape))
        for fold in np.unique(folds):
            held = folds == fold
            heads = self._fit_heads(X[~held], Y[~held], None if weight is None else weight[~held])
            scores[:, held] = heads.scores(X[held], self.n_neighbors)
        return scores

    def decision_function(self, X):
        """Score of every label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples, n_labels), or (n_samples,) for two classes
            Probabilities with the stacked head. For two classes the score of the second minus
            that of the first.
        """
        check_is_fitted(self, "model_")
        X = validate_data(self, X, dtype=float_dtypes(X), reset=False)
        scores = self._heads.scores(X, self.n_neighbors)
        if self.head == "stacked":
            scores = self._combiner(scores)
        else:
            scores = scores[0 if self.head == "projection" else 1]
        if self._multilabel or scores.shape[1] > 2:
            return scores
        return scores[:, 1] - scores[:, 0]

    def predict(self, X):
        """Indicators of the labels whose score is above their threshold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of int of shape (n_samples, n_labels), or class labels of shape (n_samples,)
        """
        scores = self.decision_function(X)
        if self._multilabel:
            return (scores > self.thresholds_).astype(int)
        if scores.ndim == 1:
            return self.classes_[(scores > 0).astype(int)]
        return self.classes_[scores.argmax(axis=1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


@dataclass(frozen=True)
class _Heads:
    """The label projection, and the neighbours in the subspace."""

    model: Any
    index: Any
    Y: Any
    weight: Any

    def scores(self, X, n_neighbors):
        """Scores (2, n_samples, n_labels) of the label projection and of the neighbours."""
        Z = self.model.transform(X)
        distances, neighbors = self.index.kneighbors(Z, n_neighbors=min(n_neighbors, len(self.Y)))
        weights = 1 / (distances + 1e-3 * distances.mean(axis=1, keepdims=True) + 1e-12)
        if self.weight is not None:
            weights = weights * self.weight[neighbors]
        totals = weights.sum(axis=1, keepdims=True)
        weights /= np.where(totals > 0, totals, 1)
        by_neighbors = np.stack(
            [np.einsum("ij,ij->i", weights, column[neighbors]) for column in self.Y.T], axis=1
        )
        return np.stack([Z @ self.model.coef_.T, by_neighbors])


class _Combiner:
    """One logistic regression per label, on its own two scores and a few of all labels."""

    def __init__(self, scores, Y, coupling, weight):
        both = np.concatenate(list(scores), axis=1)
        self.mean = both.mean(axis=0)
        n_components = min(coupling, *both.shape)
        _, _, axes = np.linalg.svd(both - self.mean, full_matrices=False)
        self.axes = axes[:n_components]
        self.rules = [
            self._rule(self._features(scores, label), Y[:, label], weight)
            for label in range(Y.shape[1])
        ]

    @staticmethod
    def _rule(features, truth, weight):
        if truth.min() == truth.max():
            return float(truth[0])
        scale = features.std(axis=0) + 1e-12
        rule = LogisticRegression(max_iter=1000).fit(features / scale, truth, sample_weight=weight)
        return rule, scale

    def _features(self, scores, label):
        both = np.concatenate(list(scores), axis=1) - self.mean
        return np.concatenate([scores[:, :, label].T, both @ self.axes.T], axis=1)

    def __call__(self, scores):
        combined = np.empty(scores.shape[1:])
        for label, rule in enumerate(self.rules):
            if isinstance(rule, float):
                combined[:, label] = rule
            else:
                regression, scale = rule
                features = self._features(scores, label) / scale
                combined[:, label] = regression.predict_proba(features)[:, 1]
        return combined


def _combine(scores, Y, folds, coupling, weight):
    """The combination of the heads, and its own out-of-fold scores."""
    out_of_fold = np.empty(Y.shape)
    for fold in np.unique(folds):
        held = folds == fold
        seen = None if weight is None else weight[~held]
        combiner = _Combiner(scores[:, ~held], Y[~held], coupling, seen)
        out_of_fold[held] = combiner(scores[:, held])
    return _Combiner(scores, Y, coupling, weight), out_of_fold


def _choose_thresholds(thresholds, scores, Y):
    n_labels = Y.shape[1]
    if thresholds == "macro_f1":
        return np.array([best_f1_threshold(scores[:, k], Y[:, k]) for k in range(n_labels)])
    if thresholds == "micro_f1":
        return np.full(n_labels, best_f1_threshold(scores.ravel(), Y.ravel()))
    return np.full(n_labels, float(thresholds))
