"""Several labels per sample."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import f1_score, hamming_loss, label_ranking_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from closeness import assert_close
from jplay import JPlay, JPlayCommittee, LiftedJPlay, MultiLabelJPlay
from jplay.datasets import fetch_multilabel
from jplay.exceptions import DatasetNotFoundError
from jplay.numerics.stratification import iterative_folds
from jplay.numerics.thresholds import best_f1_threshold


@pytest.fixture(scope="module")
def labels():
    X, Y = make_multilabel_classification(
        n_samples=300, n_features=20, n_classes=6, n_labels=2, random_state=0
    )
    return X[:200], Y[:200], X[200:], Y[200:]


@pytest.fixture(scope="module")
def fitted(labels):
    X, Y, _, _ = labels
    return MultiLabelJPlay(JPlayCommittee(12, random_state=0)).fit(X, Y)


@parametrize_with_checks([MultiLabelJPlay(JPlayCommittee(4, random_state=0))])
def test_estimator_fulfils_sklearn_contract(estimator, check):
    check(estimator)


def test_the_committee_gives_the_probabilities_and_the_held_out_ones(labels, fitted):
    X, Y, X_test, _ = labels
    committee = JPlayCommittee(12, random_state=0).fit(X, Y)
    assert_close(fitted.predict_proba(X_test), committee.predict_proba(X_test), 1e-7)
    assert_close(fitted.held_out_proba_, committee.held_out_proba_, 1e-7)
    assert isinstance(MultiLabelJPlay().fit(X[:60], Y[:60]).model_, JPlayCommittee)


@pytest.mark.parametrize(("rule", "average"), [("macro_f1", "macro"), ("micro_f1", "micro")])
def test_thresholds_are_best_for_their_measure_on_held_out_probabilities(
    labels, fitted, rule, average
):
    _, Y, X_test, _ = labels
    chosen = fitted.choose_thresholds(rule).thresholds_
    seen = np.isfinite(fitted.held_out_proba_).all(axis=1)
    held, truth = fitted.held_out_proba_[seen], Y[seen]

    def score(thresholds):
        return f1_score(truth, held > thresholds, average=average, zero_division=0)

    assert score(chosen) >= score(0.5)
    for step in (-0.05, 0.05):
        assert score(chosen) >= score(np.clip(chosen + step, 0, 1)) - 1e-12
    assert_array_equal(fitted.predict(X_test), fitted.predict_proba(X_test) > chosen)
    if rule == "micro_f1":
        assert np.ptp(chosen) == 0


def test_a_given_threshold_is_taken(labels, fitted):
    _, _, X_test, Y_test = labels
    fitted.choose_thresholds(0.5)
    assert_array_equal(fitted.thresholds_, np.full(6, 0.5))
    common = np.maximum(Y_test.mean(axis=0), 1 - Y_test.mean(axis=0)).mean()
    assert 1 - hamming_loss(Y_test, fitted.predict(X_test)) > common


@pytest.mark.parametrize("estimator", [JPlay(), LiftedJPlay(), RandomForestClassifier(30)])
def test_any_classifier_with_probabilities_will_do(labels, estimator):
    X, Y, X_test, Y_test = labels
    model = MultiLabelJPlay(estimator, cv=3).fit(X, Y)
    assert model.held_out_proba_.shape == Y.shape
    assert f1_score(Y_test, model.predict(X_test), average="macro") > 0.4
    assert label_ranking_loss(Y_test, model.predict_proba(X_test)) < 0.3


def test_numbers_as_thresholds_need_no_folds(labels):
    X, Y, _, _ = labels
    model = MultiLabelJPlay(JPlay(), thresholds=0.5).fit(X, Y)
    assert model.held_out_proba_ is None
    with pytest.raises(ValueError, match="without held-out probabilities"):
        model.choose_thresholds("macro_f1")


def test_class_labels_are_taken_too():
    rng = np.random.default_rng(0)
    y = np.array(["ash", "elm", "oak"])[np.arange(90) % 3]
    X = rng.normal(size=(90, 5)) + 3 * (np.arange(90) % 3)[:, None]
    model = MultiLabelJPlay(JPlayCommittee(4, random_state=0)).fit(X, y)
    assert_array_equal(model.classes_, ["ash", "elm", "oak"])
    assert model.score(X, y) > 0.9


def test_best_threshold_by_brute_force():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 60)
    scores = truth + rng.normal(size=60)
    threshold = best_f1_threshold(scores, truth)
    best = max(f1_score(truth, scores > cut) for cut in np.r_[-10, scores])
    assert f1_score(truth, scores > threshold) == pytest.approx(best)


def test_folds_hold_every_label_in_its_proportion():
    rng = np.random.RandomState(0)
    Y = (rng.rand(200, 4) < [0.5, 0.2, 0.1, 0.05]).astype(int)
    folds = iterative_folds(Y, 5, rng)
    for label in range(4):
        counts = np.bincount(folds[Y[:, label] == 1], minlength=5)
        assert np.ptp(counts) <= 2


@pytest.mark.slow
def test_emotions_against_a_forest():
    try:
        emotions = fetch_multilabel("emotions")
    except DatasetNotFoundError as error:
        pytest.skip(str(error))
    train, test = emotions.train_indices, emotions.test_indices
    X, Y = emotions.data, emotions.target
    model = MultiLabelJPlay().fit(X[train], Y[train])
    forest = RandomForestClassifier(300, random_state=0).fit(X[train], Y[train])
    theirs = np.stack([part[:, 1] for part in forest.predict_proba(X[test])], axis=1)
    ours = model.predict_proba(X[test])
    assert label_ranking_loss(Y[test], ours) <= label_ranking_loss(Y[test], theirs)
