from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from jplay import FastSolver, JPlay
from jplay.experiments import _protocol, _steps
from jplay.experiments._protocol import (
    choose_parameters,
    coordinate_search,
    fit_scaler,
    make_folds,
)
from jplay.experiments._recipe import Classifier, Search
from jplay.experiments._settings import PUBLISHED
from jplay.experiments._steps import MLkNNClassifier, RBFSVMClassifier, UncentredSVD


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:240] / 16, y[:240]


def test_coordinate_search_evaluates_no_point_twice_and_ends_at_a_coordinatewise_best():
    seen = []

    def score(point):
        seen.append((point["a"], point["b"]))
        return -3 * (point["a"] - 2) ** 2 - (point["b"] - point["a"]) ** 2

    grid = {"a": [0, 1, 2, 3], "b": [0, 1, 2, 3]}
    best, trials = coordinate_search(score, grid, {"a": 0, "b": 0}, n_rounds=10)
    assert best == {"a": 2, "b": 2}
    assert len(seen) == len(set(seen)) == len(trials)


def test_coordinate_search_prefers_where_it_began_among_equals():
    best, _ = coordinate_search(lambda p: 1.0, {"a": [0, 1, 2]}, {"a": 1})
    assert best == {"a": 1}


def test_folds_fit_the_preprocessing_on_their_own_training_part(digits, monkeypatch):
    X, y = digits
    seen = []

    class Watcher(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            seen.append(X)
            return self

        def transform(self, X):
            return X

        def __sklearn_is_fitted__(self):
            return True

    monkeypatch.setitem(_steps.STEPS, "watcher", lambda _: Watcher())
    folds = make_folds(X, y, ["watcher"], n_folds=4, random_state=0)
    assert len(folds) == len(seen) == 4
    for fold, fitted_on in zip(folds, seen, strict=True):
        np.testing.assert_array_equal(fitted_on, fold.X_train)
        rows = {row.tobytes() for row in fold.X_train}
        assert not any(row.tobytes() in rows for row in fold.X_test)
        assert set(fold.y_test) == set(y), "classes are spread over the folds"


def test_choice_is_the_best_of_the_cross_validated_grid(digits):
    X, y = digits
    search = Search(
        name="s",
        kind="jplay",
        params={"n_layers": 1, "n_components": 6, "gamma": 0.1},
        grid={"alpha": [0.01, 1.0, 100.0]},
        preprocessing=("sample-max",),
        n_folds=3,
    )
    choice = choose_parameters(search, X, y, seed=0)
    expected = {}
    for alpha in search.grid["alpha"]:
        scores = []
        for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(X, y):
            top = X.max(axis=1, keepdims=True)
            settings = {**PUBLISHED, "n_layers": 1, "n_components": 6, "gamma": 0.1}
            model = JPlay(**settings, alpha=alpha)
            Z = model.fit(X[train] / top[train], y[train]).transform(X / top)
            scores.append(KNeighborsClassifier(1).fit(Z[train], y[train]).score(Z[test], y[test]))
        expected[alpha] = np.mean(scores)
    tried = {trial["alpha"]: trial["score"] for trial in choice.trials}
    assert tried == pytest.approx(expected)
    assert choice.parameters["alpha"] == max(expected, key=expected.get)
    assert choice.n_fits == 9


def test_choice_passes_over_weights_that_cannot_be_fitted(digits, monkeypatch):
    X, y = digits

    def make(kind, params, seed):
        if params["alpha"] > 1:
            raise np.linalg.LinAlgError("broke down")
        return JPlay(n_layers=1, n_components=4, solver=FastSolver(max_iter=3), **params)

    monkeypatch.setattr(_protocol, "make_method", make)
    search = Search("s", "jplay", {"alpha": [10.0, 1.0]}, n_folds=2)
    choice = choose_parameters(search, X, y)
    assert choice.parameters == {"alpha": 1.0}
    assert {t["alpha"]: t["score"] is None for t in choice.trials} == {10.0: True, 1.0: False}
    with pytest.raises(ValueError, match="kind of a classifier"):
        choose_parameters(replace(search, classifier=Classifier("score", "own")), X, y)
    hopeless = Search("s", "jplay", {"alpha": [10.0, 100.0]}, n_folds=2)
    with pytest.raises(ValueError, match="Widen its grid"):
        choose_parameters(hopeless, X, y)


def test_scaling_sees_test_samples_only_when_asked():
    train, test = np.array([[0.0], [1.0]]), np.array([[3.0], [-1.0]])
    inductive = fit_scaler(["unit-range"], train, test)
    np.testing.assert_allclose(inductive.transform(test), [[3.0], [-1.0]])
    transductive = fit_scaler(["unit-range"], train, test, scaling="transductive")
    np.testing.assert_allclose(transductive.transform(test), [[1.0], [0.0]])
    with pytest.raises(ValueError, match="inductive, transductive"):
        fit_scaler([], train, test, scaling="both")


def test_uncentred_svd_keeps_what_it_can_and_rebuilds_exactly(digits):
    X, _ = digits
    svd = UncentredSVD(10).fit(X)
    _, _, right = np.linalg.svd(X, full_matrices=False)
    expected = X @ right[:10].T
    np.testing.assert_allclose(np.abs(svd.transform(X)), np.abs(expected), atol=1e-10)
    low_rank = np.outer(np.arange(1.0, 6.0), np.arange(1.0, 4.0))
    svd = UncentredSVD(3).fit(low_rank)
    assert svd.transform(low_rank).shape == (5, 1)
    np.testing.assert_allclose(svd.inverse_transform(svd.transform(low_rank)), low_rank)


def test_rbf_svm_agrees_with_scikit_learns_grid_search(digits):
    X, y = digits
    X_train, y_train, X_test = X[:150], y[:150], X[150:]
    ours = RBFSVMClassifier(random_state=0).fit(X_train, y_train)
    scale = 1 / (X_train.shape[1] * X_train.var())
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    grid = {"C": ours.C_grid, "gamma": [scale * g for g in ours.gamma_grid]}
    theirs = GridSearchCV(SVC(), grid, cv=folds, scoring="accuracy").fit(X_train, y_train)
    assert ours.cv_score_ == pytest.approx(theirs.best_score_, abs=0.007)
    reference = SVC(C=ours.C_, gamma=ours.gamma_).fit(X_train, y_train)
    np.testing.assert_array_equal(ours.predict(X_test), reference.predict(X_test))


def test_ml_knn_posterior_follows_bayes_rule_on_a_case_by_hand():
    # Two far groups; the label is carried by all of one group and none of the other.
    X = np.concatenate([np.arange(5.0), np.arange(100.0, 105.0)])[:, None]
    Y = np.repeat([[1], [0]], 5, axis=0)
    model = MLkNNClassifier(n_neighbors=3, smoothing=1.0).fit(X, Y)
    prior = 6 / 12
    likely, unlikely = (1 + 5) / (4 + 5), (1 + 0) / (4 + 5)
    expected = prior * likely / (prior * likely + (1 - prior) * unlikely)
    assert model.decision_function([[2.1]])[0, 0] == pytest.approx(expected)
    assert model.decision_function([[101.0]])[0, 0] == pytest.approx(1 - expected)


def test_preprocessing_and_scaling_of_a_row_match_a_plain_pipeline(digits):
    X, y = digits
    svm = make_pipeline(MinMaxScaler(), RBFSVMClassifier(random_state=0)).fit(X[:150], y[:150])
    scaler = fit_scaler(["unit-range"], X[:150], X[150:])
    alone = RBFSVMClassifier(random_state=0).fit(scaler.transform(X[:150]), y[:150])
    np.testing.assert_array_equal(svm.predict(X[150:]), alone.predict(scaler.transform(X[150:])))
