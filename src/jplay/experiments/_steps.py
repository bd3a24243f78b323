"""Preprocessing, methods and classifiers by the names that recipes use."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    StandardScaler,
)
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted, validate_data

from jplay._fitting import stores_at_end
from jplay.baselines import (
    LFDA,
    LPP,
    LSDR,
    LSQMID,
    NPE,
    CanonicalCorrelationForestClassifier,
)
from jplay.estimators import JPlay
from jplay.experiments._named import make_named
from jplay.experiments._rivals import (
    PLSDAClassifier,
    ShrinkageLDAClassifier,
    TunedLogisticClassifier,
    training_folds,
)
from jplay.experiments._settings import PUBLISHED, estimator_parameters, graph_parameters
from jplay.experiments._suite_scenes import EdgeAwareJPlay, SceneClassifier


class UncentredSVD(TransformerMixin, BaseEstimator):
    """Coordinates on the leading right singular vectors of the samples, which are not centred.

    Centring would make the non-negativity of J-Play's subspaces unattainable.

    Parameters
    ----------
    n_components : int
        Fewer are kept where the samples' rank is smaller.
    """

    def __init__(self, n_components=100):
        self.n_components = n_components

    @stores_at_end
    def fit(self, X, y=None):
        X = validate_data(self, X)
        _, singular, right = np.linalg.svd(X, full_matrices=False)
        rank = int(np.sum(singular > singular[0] * max(X.shape) * np.finfo(X.dtype).eps))
        self.components_ = right[: min(self.n_components, rank)]
        return self

    def transform(self, X):
        check_is_fitted(self)
        return validate_data(self, X, reset=False) @ self.components_.T

    def inverse_transform(self, X):
        return np.asarray(X) @ self.components_


class RBFSVMClassifier(ClassifierMixin, BaseEstimator):
    r"""RBF support vector machine with :math:`C` and :math:`\gamma` chosen by cross-validation.

    Distances are computed once per fold; every pair of parameters then costs one fit on a ready
    kernel matrix.

    Parameters
    ----------
    C_grid : sequence of float
    gamma_grid : sequence of float
        Multiples of ``1 / (n_features * X.var())``.
    n_folds : int
        Fewer where the smallest class has fewer samples.
    random_state : int or None
    """

    def __init__(
        self,
        C_grid=(1.0, 10.0, 100.0, 1000.0),
        gamma_grid=(0.03, 0.1, 0.3, 1.0, 3.0),
        n_folds=5,
        random_state=None,
    ):
        self.C_grid = C_grid
        self.gamma_grid = gamma_grid
        self.n_folds = n_folds
        self.random_state = random_state

    @stores_at_end
    def fit(self, X, y):
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_ = np.unique(y)
        scale = 1.0 / (X.shape[1] * max(X.var(), np.finfo(float).tiny))
        distances = euclidean_distances(X, squared=True)
        folds = training_folds(y, self.n_folds, self.random_state)
        scores = np.zeros((len(self.gamma_grid), len(self.C_grid)))
        for train, test in folds.split(X, y):
            for i, multiple in enumerate(self.gamma_grid):
                kernel = np.exp(-multiple * scale * distances[:, train])
                for j, C in enumerate(self.C_grid):
                    model = SVC(C=C, kernel="precomputed").fit(kernel[train], y[train])
                    scores[i, j] += model.score(kernel[test], y[test]) / folds.n_splits
        best = np.unravel_index(np.argmax(scores), scores.shape)
        self.gamma_ = self.gamma_grid[best[0]] * scale
        self.C_ = self.C_grid[best[1]]
        self.cv_score_ = float(scores[best])
        self.X_fit_ = X
        self.svc_ = SVC(C=self.C_, kernel="precomputed").fit(np.exp(-self.gamma_ * distances), y)
        return self

    def predict(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        blocks = np.array_split(X, max(1, len(X) // 4096))
        return np.concatenate(
            [
                self.svc_.predict(
                    np.exp(-self.gamma_ * euclidean_distances(block, self.X_fit_, squared=True))
                )
                for block in blocks
            ]
        )


class MLkNNClassifier(ClassifierMixin, BaseEstimator):
    r"""Multi-label k nearest neighbours: the posterior of a label given its neighbours' count.

    With :math:`k` neighbours of which :math:`j` carry the label, Bayes' rule on the training
    samples' own counts gives :math:`P(y = 1 \mid j)`; all counts are smoothed by ``smoothing``.

    Parameters
    ----------
    n_neighbors : int
    smoothing : float
    """

    def __init__(self, n_neighbors=10, smoothing=1.0):
        self.n_neighbors = n_neighbors
        self.smoothing = smoothing

    @stores_at_end
    def fit(self, X, y):
        self._neighbours = NearestNeighbors(n_neighbors=self.n_neighbors).fit(X)
        Y = np.asarray(y, dtype=np.int64)
        k, s = self.n_neighbors, self.smoothing
        counts = Y[self._neighbours.kneighbors(return_distance=False)].sum(axis=1)
        self._Y = Y
        with_label = np.stack([((counts == j) & (Y == 1)).sum(axis=0) for j in range(k + 1)])
        without = np.stack([((counts == j) & (Y == 0)).sum(axis=0) for j in range(k + 1)])
        prior = (s + Y.sum(axis=0)) / (2 * s + len(Y))
        likely = (s + with_label) / (s * (k + 1) + with_label.sum(axis=0))
        unlikely = (s + without) / (s * (k + 1) + without.sum(axis=0))
        self._posterior = prior * likely / (prior * likely + (1 - prior) * unlikely)
        return self

    def decision_function(self, X):
        check_is_fitted(self, "_posterior")
        neighbours = self._neighbours.kneighbors(X, return_distance=False)
        counts = self._Y[neighbours].sum(axis=1)
        return np.take_along_axis(self._posterior, counts, axis=0)


STEPS = {
    "median": lambda _: SimpleImputer(strategy="median"),
    "mean": lambda _: SimpleImputer(strategy="mean"),
    "sample-max": lambda _: Normalizer(norm="max"),
    "unit-length": lambda _: Normalizer(norm="l2"),
    "unit-sum": lambda _: Normalizer(norm="l1"),
    "unit-range": lambda _: MinMaxScaler(),
    "standard": lambda _: StandardScaler(),
    "column-max": lambda _: MaxAbsScaler(),
    "svd": UncentredSVD,
    "pca": lambda kept: PCA(kept, svd_solver="full"),
}

METHODS = {
    "identity": lambda params, seed: FunctionTransformer(**params),
    "pca": lambda params, seed: PCA(**{"svd_solver": "full", **params}),
    "lpp": lambda params, seed: LPP(**graph_parameters(params)),
    "npe": lambda params, seed: NPE(**params),
    "lda": lambda params, seed: LinearDiscriminantAnalysis(**params),
    "lfda": lambda params, seed: LFDA(**params),
    "lsdr": lambda params, seed: LSDR(**params, random_state=seed),
    "lsqmid": lambda params, seed: LSQMID(**params, random_state=seed),
    "estimator": make_named,
    "jplay": lambda params, seed: JPlay(**PUBLISHED | estimator_parameters(params)),
}

CLASSIFIERS = {
    "nn": lambda params, seed: KNeighborsClassifier(**{"n_neighbors": 1, **params}),
    "ksvm": lambda params, seed: RBFSVMClassifier(**params, random_state=seed),
    "ccf": lambda params, seed: CanonicalCorrelationForestClassifier(
        **{"n_estimators": 300, **params}, random_state=seed
    ),
    "ridge": lambda params, seed: RidgeCV(**{"alphas": (0.1, 1.0, 10.0, 100.0, 1000.0), **params}),
    "ml-knn": lambda params, seed: MLkNNClassifier(**params),
    "forest": lambda params, seed: RandomForestClassifier(
        **{"n_estimators": 300, **params}, random_state=seed
    ),
    "lda-cv": lambda params, seed: ShrinkageLDAClassifier(**params, random_state=seed),
    "pls-da": lambda params, seed: PLSDAClassifier(**params, random_state=seed),
    "logistic": lambda params, seed: TunedLogisticClassifier(**params, random_state=seed),
}

OWN = "own"
"""The kind of classifier that asks the method itself; ``decision`` says how."""


def make_steps(steps):
    """Build preprocessing steps from their names, or tables ``{name: argument}``."""
    built = []
    for step in steps:
        name, argument = next(iter(step.items())) if isinstance(step, dict) else (step, None)
        built.append(_lookup(STEPS, name, "preprocessing")(argument))
    return built


def make_method(kind, params, seed, cube=None):
    """Build the estimator of a row: one that makes features, or a classifier by itself.

    The kind "scene" is a spatial model with a classifier of another kind, or with its own;
    "edge-aware" is what that model was before.
    """
    if kind == "edge-aware":
        return EdgeAwareJPlay(cube, random_state=seed, **params)
    if kind == "scene":
        head = params.get("head")
        classifier = None if head is None else _lookup(CLASSIFIERS, head, "head")({}, seed)
        if "steps" in params:
            classifier = make_pipeline(*make_steps(params["steps"]), classifier)
        single_input = params.get("single_input")
        return SceneClassifier(classifier, params.get("options"), cube, seed, single_input)
    return _lookup({**METHODS, **CLASSIFIERS}, kind, "kind of a method")(params, seed)


def make_classifier(classifier, seed):
    """Build the classifier of a column."""
    return _lookup(CLASSIFIERS, classifier.kind, "kind of a classifier")(classifier.params, seed)


def label_scores(model, X):
    """Return one score per sample and label; a label is predicted above one half."""
    if hasattr(model, "predict_proba") and not hasattr(model, "decision_function"):
        per_label = model.predict_proba(X)
        columns = zip(per_label, model.classes_, strict=True)
        return np.column_stack([p[:, 1] if len(c) == 2 else p[:, 0] * c[0] for p, c in columns])
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return model.predict(X)


def _lookup(table, name, what):
    if name not in table:
        raise ValueError(f"`{what}` should be one of {', '.join(table)}, got {name!r}.")
    return table[name]
