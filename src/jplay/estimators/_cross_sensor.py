"""Two sensors at training, one of them afterwards."""

from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from jplay._fitting import stores_at_end
from jplay._rowwise import by_rows
from jplay.core.blocked import check_in_host_memory
from jplay.core.targets import encode_targets
from jplay.estimators._committee import JPlayCommittee
from jplay.numerics.subsets import surest_of_each_class

N_FOLDS = 5


def _transforms(self):
    return hasattr(self._fresh(self.estimator), "transform")


class CrossSensorJPlay(ClassifierMixin, BaseEstimator):
    r"""A classifier for one sensor, taught by a richer one that saw the training samples too.

    A hyperspectral flight covers a part of what a multispectral satellite sees. Where both have
    been, a classifier of the richer sensor (the teacher) learns from the labelled samples and
    labels the others. A classifier of the poorer sensor learns from all of these, and predicts
    from that sensor alone.

    Samples without label help if they are like those that will be predicted, and harm if they are
    of classes that have no label at all. So there are two fits, with the taught samples and
    without, and the one that is more accurate on labelled samples that it has not seen is kept.

    This estimator is experimental: its interface and results may change.

    Parameters
    ----------
    estimator : classifier with predict_proba or None, default=None
        Of the poorer sensor, cloned; ``None`` for :class:`JPlayCommittee`.
    teacher : classifier with predict_proba or None, default=None
        Of the richer sensor, cloned; ``None`` for :class:`JPlayCommittee`.
    n_taught : int, default=250
        Samples of each class that the teacher labels, at most, drawn from the surer half of
        those that it gives this class.
    random_state : int or None, default=0
        Of both committees, and of the draw.

    Attributes
    ----------
    model_ : classifier
        Of the poorer sensor.
    teacher_ : classifier or None
        Of the richer sensor; ``None`` if there was nothing to teach. Not stored in a file.
    taught_ : ndarray of int
        Rows of ``X`` that ``model_`` learnt from with the teacher's labels; none if it is better
        without.
    held_out_scores_ : dict
        Accuracy on labelled samples that the classifier had not seen, ``"alone"`` and
        ``"taught"``; empty if there was nothing to teach.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int

    See Also
    --------
    JPlayCommittee : The classifier behind both sensors.

    Notes
    -----
    If the samples without label are those that are predicted later, the result is transductive:
    their richer measurements, not their labels, have been seen.

    Examples
    --------
    >>> import numpy as np
    >>> from jplay import CrossSensorJPlay, JPlay
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> poor = X.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)  # 4 x 4 pixels
    >>> seen = np.where(np.arange(500) < 60, y[:500], -1)  # labels of the first 60
    >>> model = CrossSensorJPlay(JPlay(), teacher=JPlay())
    >>> model = model.fit(poor[:500], seen, X_rich=X[:500])
    >>> alone = JPlay().fit(poor[:60], y[:60])
    >>> model.score(poor[500:], y[500:]) > alone.score(poor[500:], y[500:])
    True
    """

    _training_attributes = ("teacher_",)
    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict_proba"]), None],
        "teacher": [HasMethods(["fit", "predict_proba"]), None],
        "n_taught": [Interval(Integral, 1, None, closed="left")],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        teacher: Any = None,
        n_taught: int = 250,
        random_state: int | None = 0,
    ) -> None:
        self.estimator = estimator
        self.teacher = teacher
        self.n_taught = n_taught
        self.random_state = random_state

    @stores_at_end
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, X_rich: Any = None) -> Self:
        """Learn from both sensors.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            What the poorer sensor measured, which is there for predictions too.
        y : array-like of shape (n_samples,)
            Class labels, -1 for samples without label.
        X_rich : array-like of shape (n_samples, n_rich_features), default=None
            What the richer sensor measured of the same samples. Needed if some have no label.

        Returns
        -------
        self
        """
        check_in_host_memory(X=X, y=y, X_rich=X_rich)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        targets = encode_targets(y, unlabeled="auto")
        labelled = np.flatnonzero(targets.labeled)
        others = np.flatnonzero(~targets.labeled)
        if X_rich is not None:
            X_rich = check_array(X_rich, dtype=[np.float64, np.float32], input_name="X_rich")
            check_consistent_length(X, X_rich)
        elif len(others):
            raise ValueError(
                f"`X_rich` should be given for samples without label, got None and {len(others)} "
                "of them. Pass the other sensor, or the labelled samples alone."
            )
        self.model_ = self._fresh(self.estimator).fit(X[labelled], y[labelled])
        self.teacher_, self.taught_ = None, others[:0]
        self.held_out_scores_: dict[str, float] = {}
        if len(others):
            self._teach(X, y, X_rich, labelled, others)
        self.classes_ = self.model_.classes_
        return self

    def _teach(self, X, y, X_rich, labelled, others):
        """Fit the teacher, then the classifier again with its labels; keep the better one."""
        self.teacher_ = self._fresh(self.teacher).fit(X_rich[labelled], y[labelled])
        probabilities = self.teacher_.predict_proba(X_rich[others])
        rng = np.random.default_rng(self.random_state)
        drawn = surest_of_each_class(
            probabilities.argmax(axis=1), probabilities.max(axis=1), self.n_taught, rng
        )
        rows = np.concatenate([labelled, others[drawn]])
        labels = np.concatenate(
            [y[labelled], self.teacher_.classes_[probabilities[drawn].argmax(axis=1)]]
        )
        taught = self._fresh(self.estimator).fit(X[rows], labels)
        n_labelled = len(labelled)
        before = self._held_out(self.model_, X[labelled], y[labelled], n_labelled)
        after = self._held_out(taught, X[rows], labels, n_labelled)
        judged = np.isfinite(before) & np.isfinite(after)
        if judged.any():
            scores = {"alone": before[judged].mean(), "taught": after[judged].mean()}
            self.held_out_scores_ = {name: float(value) for name, value in scores.items()}
            if scores["taught"] < scores["alone"]:
                return
        self.model_, self.taught_ = taught, others[drawn]

    def _held_out(self, model, X, y, n_labelled):
        """Which labelled samples are right if they are not seen: 1, 0, or NaN if unknown."""
        right = np.full(n_labelled, np.nan)
        known = y[:n_labelled]
        found = getattr(model, "held_out_proba_", None)
        if found is not None:
            judged = np.isfinite(found[:n_labelled]).all(axis=1)
            chosen = model.classes_[found[:n_labelled][judged].argmax(axis=1)]
            right[judged] = chosen == known[judged]
            return right
        n_folds = min(N_FOLDS, np.unique(known, return_counts=True)[1].min())
        if n_folds < 2:
            return right
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
        taught = np.arange(n_labelled, len(X))
        for train, test in folds.split(X[:n_labelled], known):
            rows = np.concatenate([train, taught])
            fold = self._fresh(self.estimator).fit(X[rows], y[rows])
            right[test] = fold.predict(X[test]) == known[test]
        return right

    def _fresh(self, estimator):
        if estimator is None:
            return JPlayCommittee(random_state=self.random_state)
        return clone(estimator)

    def _checked(self, X):
        check_is_fitted(self, "model_")
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=False)

    @by_rows
    def predict(self, X: Any) -> Any:
        """Class labels, from the poorer sensor alone.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        X = self._checked(X)
        return self.model_.predict(X)

    @by_rows
    def predict_proba(self, X: Any) -> Any:
        """Probability of every class, from the poorer sensor alone.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        X = self._checked(X)
        return self.model_.predict_proba(X)

    @available_if(_transforms)
    @by_rows
    def transform(self, X: Any) -> Any:
        """Features in the last subspace, if ``estimator`` is a transformer.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components)
        """
        X = self._checked(X)
        return self.model_.transform(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        return tags
