"""Several labels per sample: folds, thresholds, heads."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.metrics import f1_score, label_ranking_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from jplay import JPlay, MultiLabelJPlay
from jplay.datasets import IterativeStratifiedKFold
from jplay.numerics.stratification import iterative_folds
from jplay.numerics.thresholds import best_f1_threshold


@pytest.mark.filterwarnings("ignore:`n_neighbors` should be less:UserWarning")
@parametrize_with_checks(
    [MultiLabelJPlay(JPlay(n_layers=1), cv=2)],
    # As with JPlay: a repeated sample would be its own neighbour.
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": "weights do not repeat samples"
    },
)
def test_estimator_fulfils_sklearn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def problem():
    X, Y = make_multilabel_classification(
        n_samples=400, n_features=30, n_classes=6, n_labels=2, random_state=2
    )
    X = X / X.max()
    return X[:250], Y[:250], X[250:], Y[250:]


@pytest.fixture(scope="module")
def fitted(problem):
    return MultiLabelJPlay(n_neighbors=10, cv=3).fit(*problem[:2])


@pytest.mark.parametrize("n_splits", [2, 3, 5])
def test_folds_hold_every_label_in_its_proportion(n_splits):
    rng = np.random.default_rng(0)
    Y = (rng.random((300, 8)) < [0.5, 0.3, 0.2, 0.1, 0.05, 0.05, 0.02, 0.0]).astype(int)
    folds = iterative_folds(Y, n_splits, np.random.RandomState(0))
    sizes = np.bincount(folds, minlength=n_splits)
    assert sizes.sum() == 300
    assert np.ptp(sizes) <= 0.1 * 300 / n_splits
    counts = np.stack([Y[folds == k].sum(axis=0) for k in range(n_splits)])
    assert np.all(np.abs(counts - Y.sum(axis=0) / n_splits) <= np.maximum(1, 0.05 * counts.max(0)))


def test_stratified_folds_beat_plain_ones_on_rare_labels():
    rng = np.random.default_rng(1)
    Y = (rng.random((200, 10)) < 0.03).astype(int)
    stratified = iterative_folds(Y, 3, np.random.RandomState(0))
    plain = rng.permutation(np.arange(200) % 3)

    def imbalance(folds):
        return np.ptp([Y[folds == k].sum(axis=0) for k in range(3)], axis=0).mean()

    assert imbalance(stratified) < 0.6 * imbalance(plain)


def test_cv_object_partitions_and_checks_its_input(problem):
    X, Y = problem[:2]
    splits = list(IterativeStratifiedKFold(4, random_state=0).split(X, scipy.sparse.csr_matrix(Y)))
    assert len(splits) == 4
    assert_array_equal(np.sort(np.concatenate([test for _, test in splits])), np.arange(len(Y)))
    for train, test in splits:
        assert not set(train) & set(test)
    with pytest.raises(ValueError, match="StratifiedKFold for class labels"):
        next(IterativeStratifiedKFold(4).split(X, Y[:, 0]))
    with pytest.raises(ValueError, match="`n_splits` should be at most 3"):
        next(IterativeStratifiedKFold(4).split(X[:3], Y[:3]))


def test_threshold_is_best_by_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores = rng.integers(0, 6, 30) / 5
        truth = rng.integers(0, 2, 30)
        found = f1_score(truth, scores > best_f1_threshold(scores, truth))
        best = max(f1_score(truth, scores > t, zero_division=0) for t in np.arange(-1, 7) / 5)
        assert_allclose(found, best)


def test_threshold_without_positives_predicts_none():
    scores = np.array([0.2, 0.9])
    assert (scores > best_f1_threshold(scores, np.zeros(2))).sum() == 0


def test_chosen_thresholds_raise_macro_f1(problem, fitted):
    _, _, X, Y = problem
    chosen = f1_score(Y, fitted.predict(X), average="macro")
    half = f1_score(Y, fitted.decision_function(X) > 0.5, average="macro")
    assert chosen > half
    assert fitted.thresholds_.shape == (6,)


def test_stacked_head_sees_what_a_linear_map_cannot():
    rng = np.random.default_rng(0)
    X = rng.random((400, 3))
    Y = np.stack([(X[:, 0] > 0.5) != (X[:, 1] > 0.5), X[:, 2] > 0.5], axis=1).astype(int)
    plain = JPlay(n_layers=1).fit(X[:300], Y[:300])
    stacked = MultiLabelJPlay(n_neighbors=10, cv=3).fit(X[:300], Y[:300])
    wrong = [(m.decision_function(X[300:]) > 0.5)[:, 0] != Y[300:, 0] for m in (plain, stacked)]
    assert wrong[1].mean() < 0.2 < wrong[0].mean()


def test_coupling_lets_labels_inform_each_other():
    """A label that is the parity of none of the features but follows another label."""
    rng = np.random.default_rng(0)
    X = rng.random((300, 10))
    first = (X[:, 0] + X[:, 1] > 1).astype(int)
    second = np.where(rng.random(300) < 0.05, 1 - first, first)
    Y = np.stack([first, second, (X[:, 2] > 0.5).astype(int)], axis=1)
    losses = [
        label_ranking_loss(
            Y[200:],
            MultiLabelJPlay(coupling=coupling, n_neighbors=10, cv=3)
            .fit(X[:200], Y[:200])
            .decision_function(X[200:]),
        )
        for coupling in (0, 4)
    ]
    assert losses[1] <= losses[0]


@pytest.mark.parametrize("head", ["projection", "neighbors"])
def test_single_heads(problem, head):
    X, Y, X_test, Y_test = problem
    model = MultiLabelJPlay(head=head, thresholds=0.5, n_neighbors=10).fit(X, Y)
    assert model.out_of_fold_scores_ is None
    assert_array_equal(model.thresholds_, 0.5)
    assert f1_score(Y_test, model.predict(X_test), average="micro") > 0.5
    if head == "projection":
        assert_allclose(model.decision_function(X_test), model.model_.decision_function(X_test))
    with pytest.raises(ValueError, match="`thresholds` should be a number"):
        model.choose_thresholds("macro_f1")


def test_thresholds_can_be_chosen_anew(problem, fitted):
    X, Y = problem[:2]
    again = MultiLabelJPlay(n_neighbors=10, cv=3, thresholds="micro_f1").fit(X, Y)
    assert len(set(again.thresholds_)) == 1
    assert_array_equal(
        again.choose_thresholds("macro_f1").thresholds_,
        fitted.choose_thresholds("macro_f1").thresholds_,
    )


def test_label_without_positive_samples_is_never_predicted(problem):
    X, Y = problem[:2]
    Y = np.concatenate([Y, np.zeros((len(Y), 1), dtype=int)], axis=1)
    model = MultiLabelJPlay(n_neighbors=10, cv=2).fit(X, Y)
    assert model.predict(X)[:, -1].sum() == 0


def test_class_labels_are_taken_too():
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    model = MultiLabelJPlay(n_neighbors=5, cv=3).fit(X, names)
    assert model.score(X, names) > 0.93


@pytest.mark.parametrize("head", ["projection", "neighbors", "stacked"])
def test_sample_weights_reach_every_head(problem, head):
    """Samples with wrong labels hardly matter once they weigh next to nothing."""
    X, Y, X_test, Y_test = problem
    wrong = np.arange(len(Y)) % 3 == 0
    noisy = np.where(wrong[:, None], 1 - Y, Y)
    settings = {"head": head, "thresholds": 0.5, "n_neighbors": 10, "cv": 3}
    plain = MultiLabelJPlay(**settings).fit(X, noisy)
    weighted = MultiLabelJPlay(**settings).fit(X, noisy, sample_weight=np.where(wrong, 1e-6, 1.0))
    losses = [
        label_ranking_loss(Y_test, model.decision_function(X_test)) for model in (plain, weighted)
    ]
    assert losses[1] < losses[0]
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        MultiLabelJPlay(**settings).fit(X, Y, sample_weight=-np.ones(len(Y)))
