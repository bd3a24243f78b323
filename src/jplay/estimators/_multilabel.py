"""Several labels per sample: probabilities of a committee, and thresholds chosen for it."""

from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from jplay._estimator_base import float_dtypes
from jplay._fitting import stores_at_end
from jplay._rowwise import by_rows
from jplay.core.targets import encode_targets
from jplay.estimators._committee import JPlayCommittee
from jplay.numerics.stratification import iterative_folds
from jplay.numerics.thresholds import best_f1_threshold


class MultiLabelJPlay(ClassifierMixin, BaseEstimator):
    r"""J-Play for several labels per sample, with thresholds for the measure that counts.

    A probability above one half is the right rule for the Hamming loss, and a poor one for F1
    if labels are rare. Thresholds are therefore chosen on probabilities of samples that the
    members of the committee have not seen.

    Parameters
    ----------
    estimator : classifier with predict_proba or None, default=None
        What gives the probabilities of the labels; ``None`` for :class:`JPlayCommittee`. Any
        other is fitted in folds as well, unless it has ``held_out_proba_`` after its fit.
    thresholds : {"macro_f1", "micro_f1"} or float, default="macro_f1"
        Best F1 of every label, one threshold with the best F1 over all labels together, or a
        given one; 0.5 is best for the Hamming loss.
    cv : int, default=5
        Number of folds for an estimator without held-out probabilities. Folds hold every label
        in its proportion.
    random_state : int, RandomState instance or None, default=0
        Of the committee, and of the folds.

    Attributes
    ----------
    model_ : classifier
    thresholds_ : ndarray of shape (n_labels,)
    held_out_proba_ : ndarray of shape (n_samples, n_labels)
        On which the thresholds were chosen.
    classes_ : ndarray of shape (n_labels,)
    multilabel_ : bool
    n_features_in_ : int

    Notes
    -----
    Class labels, one per sample, are taken as well: the most likely one is predicted.

    Examples
    --------
    >>> from jplay import MultiLabelJPlay
    >>> from sklearn.datasets import make_multilabel_classification
    >>> X, Y = make_multilabel_classification(n_samples=100, random_state=0)
    >>> MultiLabelJPlay().fit(X, Y).predict(X).shape
    (100, 5)
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict_proba"]), None],
        "thresholds": [StrOptions({"macro_f1", "micro_f1"}), Interval(Real, 0, 1, closed="both")],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        thresholds: Literal["macro_f1", "micro_f1"] | float = "macro_f1",
        cv: int = 5,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.thresholds = thresholds
        self.cv = cv
        self.random_state = random_state

    @stores_at_end
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit the classifier and choose the thresholds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_labels) or (n_samples,)
            A 0/1 indicator matrix (dense or sparse), or class labels.

        Returns
        -------
        self
        """
        X, y = validate_data(
            self, X, y, dtype=float_dtypes(X), multi_output=True, ensure_min_samples=4
        )
        targets = encode_targets(y)
        self.classes_, self.multilabel_ = targets.classes, targets.multilabel
        self._Y = targets.encode()[0].astype(np.int64)
        y = self._Y if self.multilabel_ else y
        self.model_ = self._fresh().fit(X, y)
        self.held_out_proba_ = getattr(self.model_, "held_out_proba_", None)
        if self.held_out_proba_ is None and self.multilabel_ and isinstance(self.thresholds, str):
            self.held_out_proba_ = self._in_folds(X)
        return self.choose_thresholds(self.thresholds)

    def _fresh(self):
        if self.estimator is None:
            return JPlayCommittee(random_state=self.random_state)
        return clone(self.estimator)

    def _in_folds(self, X):
        """Probabilities by classifiers that have not seen the sample."""
        rng = check_random_state(self.random_state)
        folds = iterative_folds(self._Y, min(self.cv, len(self._Y) // 2), rng)
        probabilities = np.zeros(self._Y.shape)
        for fold in np.unique(folds):
            held = folds == fold
            model = self._fresh().fit(X[~held], self._Y[~held])
            probabilities[held] = label_probabilities(model, X[held])
        return probabilities

    def choose_thresholds(self, thresholds: Literal["macro_f1", "micro_f1"] | float) -> Self:
        """Choose thresholds anew, without another fit.

        Parameters
        ----------
        thresholds : {"macro_f1", "micro_f1"} or float

        Returns
        -------
        self
        """
        check_is_fitted(self, "model_")
        n_labels = self._Y.shape[1]
        if not self.multilabel_ or not isinstance(thresholds, str):
            value = 0.5 if isinstance(thresholds, str) else float(thresholds)
            self.thresholds_ = np.full(n_labels, value)
            return self
        if self.held_out_proba_ is None:
            raise ValueError(
                f"`thresholds` should be a number for a model without held-out probabilities, got "
                f"{thresholds!r}. Set it before fit."
            )
        seen = np.isfinite(self.held_out_proba_).all(axis=1)
        found, truth = self.held_out_proba_[seen], self._Y[seen]
        if thresholds == "micro_f1":
            common = best_f1_threshold(found.ravel(), truth.ravel())
            self.thresholds_ = np.full(n_labels, common)
        else:
            chosen = [best_f1_threshold(found[:, k], truth[:, k]) for k in range(n_labels)]
            self.thresholds_ = np.array(chosen)
        return self

    @by_rows
    def predict_proba(self, X: Any) -> Any:
        """Probability of every label, or of every class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_labels)
        """
        check_is_fitted(self, "model_")
        X = validate_data(self, X, dtype=float_dtypes(X), reset=False)
        return label_probabilities(self.model_, X)

    @by_rows
    def predict(self, X: Any) -> Any:
        """Indicators of the labels whose probability is above their threshold, or classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of int of shape (n_samples, n_labels), or class labels of shape (n_samples,)
        """
        probabilities = self.predict_proba(X)
        if self.multilabel_:
            return (probabilities > self.thresholds_).astype(int)
        return self.classes_[probabilities.argmax(axis=1)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def label_probabilities(model, X):
    """Probabilities as one matrix; some classifiers give a list with one array per label."""
    found = model.predict_proba(X)
    if not isinstance(found, list):
        return found
    return np.stack(
        [part[:, 1] if part.shape[1] > 1 else np.zeros(len(part)) for part in found], axis=1
    )
