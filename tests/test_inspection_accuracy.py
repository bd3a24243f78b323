"""Accuracy on samples that a model has not seen."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.dummy import DummyClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from jplay import JPlay
from jplay.inspection import estimate_accuracy
from jplay.inspection._accuracy import accuracy_interval


def patches(n_groups=12, size=20, spread=3.0, seed=0):
    """Two classes in groups whose members are much more alike than two groups of a class."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), size)
    y = groups % 2
    centres = rng.normal(size=(n_groups, 8)) * spread
    X = centres[groups] + 0.5 * y[:, None] + 0.1 * rng.normal(size=(len(y), 8))
    return X, y, groups


def test_interval_of_single_samples_is_wilsons():
    right = np.repeat([1.0, 0.0], [90, 10])
    n, p = 100, 0.9
    from scipy.stats import t

    z = t.ppf(0.975, n - 1)
    # Wilson's ends solve (p - q)^2 = z^2 q (1 - q) / n; the variance has n - 1, as that of a mean.
    effective = n - 1
    for end in accuracy_interval(right, np.arange(n)):
        assert (p - end) ** 2 == pytest.approx(z**2 * end * (1 - end) / effective, rel=1e-9)


def test_interval_is_as_wide_as_that_of_the_groups_if_members_agree():
    right = np.repeat([1.0, 0.0, 1.0, 1.0, 0.0, 1.0], 50)
    by_group = accuracy_interval(right, np.repeat(np.arange(6), 50))
    of_groups = accuracy_interval(right[::50], np.arange(6))
    assert by_group == pytest.approx(of_groups)
    alone = accuracy_interval(right, np.arange(len(right)))
    assert by_group[0] < alone[0] < alone[1] < by_group[1]


def test_interval_covers_the_truth_of_clustered_answers():
    rng, covered = np.random.default_rng(0), 0
    for _ in range(300):
        share = rng.beta(4, 2, size=15)  # accuracy of each group; the mean is two thirds
        right = (rng.random((15, 20)) < share[:, None]).ravel()
        low, high = accuracy_interval(right, np.repeat(np.arange(15), 20))
        covered += low <= 2 / 3 <= high
    assert covered >= 0.92 * 300


def test_perfect_answers_have_an_interval():
    low, high = accuracy_interval(np.ones(5), np.arange(5))
    assert low < 0.6
    assert high == 1.0


def test_whole_groups_are_left_out():
    X, y, groups = patches()
    nearest = KNeighborsClassifier(1)
    random = estimate_accuracy(nearest, X, y, peers=False)
    grouped = estimate_accuracy(nearest, X, y, groups=groups, peers=False)
    assert (random.folds, grouped.folds) == ("random", "groups")
    assert random.model.accuracy > 0.99
    assert grouped.model.accuracy < 0.8
    assert grouped.n_units == 12
    assert any("too good" in note for note in random.notes)
    assert not any("too good" in note for note in grouped.notes)


def test_no_fold_sees_a_tested_group():
    X, y, groups = patches()

    class Spy(KNeighborsClassifier):
        def fit(self, X, y):
            self.seen_ = set(groups_of(X))
            return super().fit(X, y)

        def predict(self, X):
            assert not self.seen_ & set(groups_of(X))
            return super().predict(X)

    def groups_of(X):
        return X[:, 0].tolist()

    estimate_accuracy(Spy(1), np.column_stack([groups, X]), y, groups=groups, peers=False)


def test_class_with_one_group_trains_and_is_not_counted():
    X, y, groups = patches()
    y = np.where(groups == 11, 7, y)
    found = estimate_accuracy(KNeighborsClassifier(1), X, y, groups=groups, peers=False)
    assert not np.any(y[found.rows] == 7)
    assert len(found.model.predicted) == len(found.rows) == np.sum(y != 7)
    assert any(note.startswith("One group only: 7.") for note in found.notes)


def test_groups_that_nothing_can_be_tested_on_give_random_folds_and_say_so():
    X, y, _ = patches()
    found = estimate_accuracy(KNeighborsClassifier(1), X, y, groups=y, peers=False)
    assert found.folds == "random"
    assert "No class has two groups" in found.notes[0]


def test_class_with_two_groups_is_always_trained_on():
    X, y, groups = patches()
    y = np.where(np.isin(groups, [10, 11]), 5, y)
    for seed in range(5):
        found = estimate_accuracy(
            DummyClassifier(), X, y, groups=groups, peers=False, random_state=seed
        )
        assert not any("no sample was left" in note for note in found.notes)


def test_peers_get_the_steps_of_the_pipeline():
    X, y = load_iris(return_X_y=True)
    X = X.copy()
    X[::7, 2] = np.nan
    from sklearn.impute import SimpleImputer

    model = make_pipeline(SimpleImputer(), StandardScaler(), JPlay())
    found = estimate_accuracy(model, X, y)
    assert [row.name for row in found.methods] == ["JPlay", "Shrinkage LDA", "Random forest"]
    assert all(row.accuracy > 0.85 for row in found.methods)
    assert found.methods[1].low < found.methods[1].accuracy < found.methods[1].high


def test_plain_values_hold_the_same_figures():
    X, y = load_iris(return_X_y=True)
    found = estimate_accuracy(JPlay(), X, y, peers=False)
    stored = found.to_dict()
    right = found.model.predicted == y[found.rows]
    assert stored["overall_accuracy"] == pytest.approx(right.mean())
    assert stored["compared"][0]["low"] == stored["low"] == found.model.low
    assert "random samples" in stored["method"]


def test_multilabel_targets_count_every_label():
    X, Y = make_multilabel_classification(120, 10, n_classes=3, random_state=0)
    found = estimate_accuracy(JPlay(), X, Y)
    assert len(found.methods) == 3
    assert found.model.accuracy == pytest.approx(np.mean(found.model.predicted == Y[found.rows]))
    assert found.model.kappa is None


def test_progress_starts_at_once_and_can_end_the_work():
    X, y = load_iris(return_X_y=True)
    calls = []
    estimate_accuracy(
        KNeighborsClassifier(), X, y, peers=False, progress=lambda *call: calls.append(call)
    )
    assert calls == [(done, 5) for done in range(6)]

    class Stop(Exception):
        pass

    def stop(done, total):
        if done == 2:
            raise Stop

    with pytest.raises(Stop):
        estimate_accuracy(KNeighborsClassifier(), X, y, progress=stop)


def test_few_samples_are_noted_and_a_single_one_is_left_out():
    X, y = load_iris(return_X_y=True)
    rows = [*range(30), *range(50, 80), *range(100, 104)]
    found = estimate_accuracy(KNeighborsClassifier(3), X[rows], y[rows], peers=False)
    assert "Fewer than 10 samples: 2 (4)." in found.notes
    rows = rows[:-3]
    found = estimate_accuracy(KNeighborsClassifier(3), X[rows], y[rows], peers=False)
    assert any(note.startswith("One sample only: 2.") for note in found.notes)


def test_wrong_arguments_are_refused():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="one entry per sample"):
        estimate_accuracy(KNeighborsClassifier(), X, y, groups=[1, 2])
    with pytest.raises(ValueError, match="`n_folds`"):
        estimate_accuracy(KNeighborsClassifier(), X, y, n_folds=1)
    with pytest.raises(ValueError, match="two samples or more"):
        estimate_accuracy(KNeighborsClassifier(), X[:3], [1, 2, 3])
