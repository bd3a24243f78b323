"""Classifiers that a user would take instead, with their usual tuning on the training samples."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from jplay._fitting import stores_at_end
from jplay.numerics.votes import softmax


def training_folds(y, n_folds, random_state):
    """Return shuffled stratified folds, fewer if the smallest class has fewer samples."""
    smallest = int(np.unique(y, return_counts=True)[1].min())
    return StratifiedKFold(max(2, min(n_folds, smallest)), shuffle=True, random_state=random_state)


class ShrinkageLDAClassifier(ClassifierMixin, BaseEstimator):
    r"""Linear discriminant analysis whose shrinkage is chosen by cross-validation.

    The covariance within classes :math:`S` is replaced by :math:`(1 - a) S + a m I` with the mean
    :math:`m` of its diagonal. One singular value decomposition per fold serves every :math:`a`.

    Parameters
    ----------
    shrinkages : sequence of float
        Values of :math:`a`, above 0.
    n_folds : int
    random_state : int or None
    """

    def __init__(
        self,
        shrinkages=(1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 0.6, 1.0),
        n_folds=5,
        random_state=None,
    ):
        self.shrinkages = shrinkages
        self.n_folds = n_folds
        self.random_state = random_state

    @stores_at_end
    def fit(self, X, y):
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_, codes = np.unique(y, return_inverse=True)
        scores = np.zeros(len(self.shrinkages))
        for train, test in training_folds(y, self.n_folds, self.random_state).split(X, y):
            known, within = np.unique(codes[train], return_inverse=True)
            rules = _discriminants(X[train], within, self.shrinkages)
            scores += [np.mean(known[_best(X[test], rule)] == codes[test]) for rule in rules]
        self.shrinkage_ = self.shrinkages[int(np.argmax(scores))]
        ((self.coef_, self.intercept_),) = _discriminants(X, codes, [self.shrinkage_])
        return self

    def decision_function(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return X @ self.coef_.T + self.intercept_

    def predict(self, X):
        scores = self.decision_function(X)
        return self.classes_[np.argmax(scores, axis=1)]

    def predict_proba(self, X):
        return softmax(self.decision_function(X))


def _discriminants(X, codes, shrinkages):
    """Return coefficients and intercepts of the linear rule, for every shrinkage."""
    counts = np.bincount(codes)
    means = np.stack([X[codes == k].mean(axis=0) for k in range(counts.size)])
    _, singular, basis = np.linalg.svd(X - means[codes], full_matrices=False)
    spread = singular**2 / len(X)
    level = max(spread.sum() / X.shape[1], np.finfo(float).tiny)
    inside = means @ basis.T
    outside = means - inside @ basis
    rules = []
    for share in shrinkages:
        # The inverse on the span of the centred samples, and on all that is orthogonal to it.
        coef = (inside / ((1 - share) * spread + share * level)) @ basis
        coef += outside / (share * level)
        rules.append((coef, np.log(counts / len(X)) - 0.5 * np.sum(coef * means, axis=1)))
    return rules


def _best(X, rule):
    coef, intercept = rule
    return np.argmax(X @ coef.T + intercept, axis=1)


class PLSDAClassifier(ClassifierMixin, BaseEstimator):
    """Partial least squares regression on class indicators; the largest output wins.

    The number of components is chosen by cross-validation. The first components of a fit are those
    of a fit with fewer, so that one fit per fold serves every number. Features are standardised.

    Parameters
    ----------
    n_components : sequence of int
        Candidates; those beyond the samples' rank are left out.
    n_folds : int
    random_state : int or None
    """

    def __init__(self, n_components=(2, 4, 8, 12, 16, 24, 32), n_folds=5, random_state=None):
        self.n_components = n_components
        self.n_folds = n_folds
        self.random_state = random_state

    @stores_at_end
    def fit(self, X, y):
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_, codes = np.unique(y, return_inverse=True)
        targets = np.eye(self.classes_.size)[codes]
        folds = list(training_folds(y, self.n_folds, self.random_state).split(X, y))
        rank = min(X.shape[1], *(train.size - 1 for train, _ in folds))
        sizes = [n for n in self.n_components if n <= rank] or [rank]
        scores = np.zeros(len(sizes))
        for train, test in folds:
            outputs = _LeastSquares(X[train], targets[train], sizes[-1])
            scores += [np.mean(outputs(X[test], n).argmax(axis=1) == codes[test]) for n in sizes]
        self.n_components_ = sizes[int(np.argmax(scores))]
        self._outputs = _LeastSquares(X, targets, self.n_components_)
        return self

    def predict(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self.classes_[self._outputs(X, self.n_components_).argmax(axis=1)]


class _LeastSquares:
    """A partial least squares fit that predicts with any number of its components."""

    def __init__(self, X, targets, n_components):
        self._scaler = StandardScaler().fit(X)
        self._mean = targets.mean(axis=0)
        self._fit = PLSRegression(n_components, scale=False).fit(self._scaler.transform(X), targets)

    def __call__(self, X, n_components):
        scores = self._fit.transform(self._scaler.transform(X))[:, :n_components]
        return scores @ self._fit.y_loadings_[:, :n_components].T + self._mean


class TunedLogisticClassifier(ClassifierMixin, BaseEstimator):
    """Logistic regression on standardised features, its penalty chosen by cross-validation.

    With more features than samples the model is fitted in the span of the samples. That is a
    rotation, which the penalty does not notice.

    Parameters
    ----------
    C_grid : sequence of float
    n_folds : int
    max_iter : int
    random_state : int or None
    """

    def __init__(
        self,
        C_grid=(0.01, 0.1, 1.0, 10.0, 100.0, 1000.0),
        n_folds=5,
        max_iter=200,
        random_state=None,
    ):
        self.C_grid = C_grid
        self.n_folds = n_folds
        self.max_iter = max_iter
        self.random_state = random_state

    @stores_at_end
    def fit(self, X, y):
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_ = np.unique(y)
        self._scaler = StandardScaler().fit(X)
        X = self._scaler.transform(X)
        self._basis = None
        if X.shape[1] > X.shape[0]:
            self._basis = np.linalg.svd(X, full_matrices=False)[2].T
            X = X @ self._basis
        scores = np.zeros(len(self.C_grid))
        for train, test in training_folds(y, self.n_folds, self.random_state).split(X, y):
            scores += [
                self._model(C).fit(X[train], y[train]).score(X[test], y[test]) for C in self.C_grid
            ]
        self.C_ = self.C_grid[int(np.argmax(scores))]
        self.model_ = self._model(self.C_).fit(X, y)
        return self

    def _model(self, C):
        return LogisticRegression(C=C, max_iter=self.max_iter)

    def _inputs(self, X):
        check_is_fitted(self)
        X = self._scaler.transform(validate_data(self, X, dtype=np.float64, reset=False))
        return X if self._basis is None else X @ self._basis

    def predict(self, X):
        X = self._inputs(X)
        return self.model_.predict(X)

    def predict_proba(self, X):
        X = self._inputs(X)
        return self.model_.predict_proba(X)
