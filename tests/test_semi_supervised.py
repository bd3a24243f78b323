"""Samples without label, and weights of those that have one."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, make_multilabel_classification

from graphs import heat_affinity
from jplay import JPlay, SoftLabelPropagation
from jplay.core.targets import encode_targets
from jplay.estimators import soft_labels
from jplay.estimators.soft_labels import choose_graph, compute_confidence, propagate_labels


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16, y[:600]


def with_few_labels(y, seed):
    """Five labels per class, the others hidden."""
    rng = np.random.default_rng(seed)
    kept = np.concatenate([rng.permutation(np.flatnonzero(y == k))[:5] for k in range(10)])
    partial = np.full_like(y, -1)
    partial[kept] = y[kept]
    return partial


@pytest.fixture(scope="module")
def few_labels(digits):
    return with_few_labels(digits[1], 0)


def test_all_labelled_is_the_supervised_fit(digits):
    X, y = digits
    plain = JPlay(n_components=10, n_layers=2).fit(X, y)
    for fit in (
        JPlay(n_components=10, n_layers=2, unlabeled=SoftLabelPropagation(1.0, marker=-1)).fit(
            X, y
        ),
        JPlay(n_components=10, n_layers=2).fit(X, y, sample_weight=np.ones(len(y))),
    ):
        assert_array_equal(fit.components_, plain.components_)
        assert_array_equal(fit.coef_, plain.coef_)
        assert_array_equal(fit.decision_function(X), plain.decision_function(X))


def test_hidden_labels_do_not_enter(digits, few_labels):
    """Only what -1 hides may not matter: weight zero with any label gives the same fit."""
    X, y = digits
    labelled = few_labels != -1
    hidden = JPlay(n_components=10, n_layers=1).fit(X, few_labels)
    # weights scaled as the estimator scales those of the labelled samples
    weight = labelled * (len(y) / labelled.sum())
    weighted = JPlay(n_components=10, n_layers=1).fit(X, y, sample_weight=weight)
    assert_allclose(hidden.components_, weighted.components_, atol=1e-8)
    assert_array_equal(hidden.predict(X), weighted.predict(X))


def test_unlabeled_samples_take_part_in_constraints_and_graph(digits, few_labels):
    X, _ = digits
    model = JPlay(n_components=10, n_layers=2).fit(X, few_labels)
    assert model.affinity_.shape == (len(X), len(X))
    for Z in model.transform_layers(X):
        assert Z.min() >= -1e-10
        assert np.linalg.norm(Z, axis=1).max() <= 1 + 1e-10


def test_unlabeled_samples_help_on_digits(digits):
    """In the mean of five draws: that of one moves by more than the gain."""
    X, y = digits
    settings = {"n_layers": 1, "n_components": 20, "beta": 1.0}
    scores = []
    for seed in range(5):
        partial = with_few_labels(y, seed)
        labelled = partial != -1
        supervised = JPlay(**settings).fit(X[labelled], y[labelled])
        semi = JPlay(**settings).fit(X, partial)
        soft = JPlay(**settings, unlabeled=SoftLabelPropagation(1.0)).fit(X, partial)
        scores.append([m.score(X[~labelled], y[~labelled]) for m in (supervised, semi, soft)])
    known, helped, guessed = np.mean(scores, axis=0)
    assert helped > known + 0.02
    assert guessed > helped + 0.02


def test_propagation_prefers_the_graph_that_tells_the_labels():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 30)
    good, _ = heat_affinity(truth[:, None] * 3 + rng.normal(size=(60, 1)), 5)
    bad, _ = heat_affinity(rng.normal(size=(60, 1)), 5)
    labelled = np.arange(60) % 3 == 0
    Y = np.eye(2)[truth]
    assert choose_graph([bad, good], Y, labelled) is good
    assert choose_graph([good, bad], Y, labelled) is good


@pytest.mark.parametrize(
    ("y", "unlabeled", "expected"),
    [
        ([0, 1, -1, 2], "auto", [1, 1, 0, 1]),
        ([-1, 1, -1, 1], "auto", [1, 1, 1, 1]),
        ([-1.0, 1.0, -1.0, 1.0], "auto", [1, 1, 1, 1]),
        ([-1, 1, -1, 2], -1, [0, 1, 0, 1]),
        ([-1, 3, -1, 4], "auto", [0, 1, 0, 1]),
        ([-1, 0, 1, 2], None, [1, 1, 1, 1]),
        (["a", "b", "-1", "a"], "auto", [1, 1, 1, 1]),
        ([[0, 1], [-1, -1], [1, 1]], "auto", [1, 0, 1]),
    ],
)
def test_what_counts_as_unlabeled(y, unlabeled, expected):
    labelled = encode_targets(np.array(y), unlabeled=unlabeled).labeled
    assert_array_equal(labelled, np.array(expected, dtype=bool))


def test_many_classes_are_no_regression_unless_most_samples_have_their_own():
    assert len(encode_targets(np.arange(60) // 2).classes) == 30
    with pytest.warns(UserWarning, match="could represent a regression problem"):
        encode_targets(np.arange(30))


def test_sign_targets_stay_two_classes(digits):
    X, y = digits
    signs = np.where(y % 2, 1, -1)
    model = JPlay(n_components=5, n_layers=1).fit(X, signs)
    assert_array_equal(model.classes_, [-1, 1])
    assert model.score(X, signs) > 0.8


def test_strings_among_unlabeled_objects(digits):
    X, y = digits
    names = np.array(["zero", "one", "two"], dtype=object)[y % 3]
    names[::2] = -1
    model = JPlay(n_components=5, n_layers=1).fit(X, names)
    assert_array_equal(model.classes_, ["one", "two", "zero"])


@pytest.mark.parametrize("y", [np.full(20, -1), np.full((20, 3), -1)])
def test_no_label_at_all_raises(y):
    X = np.random.default_rng(0).random((20, 4))
    with pytest.raises(ValueError, match=r"should have a label for some samples.*AutoRULe"):
        JPlay().fit(X, y)


def test_half_a_row_of_missing_labels_raises():
    with pytest.raises(ValueError, match="-1 for all labels of an unlabeled sample"):
        encode_targets(np.array([[0, -1], [1, 0]]), unlabeled="auto")


def test_published_solver_refuses_what_it_cannot_do(digits, few_labels):
    X, y = digits
    model = JPlay(n_components=5, n_layers=1, solver="paper")
    with pytest.raises(ValueError, match="`solver` should be 'fast'"):
        model.fit(X, few_labels)
    with pytest.raises(ValueError, match="`solver` should be 'fast'"):
        model.fit(X, y, sample_weight=np.arange(len(y)) + 1.0)


def test_class_without_weight_raises(digits):
    X, y = digits
    with pytest.raises(ValueError, match=r"every class a positive weight.*3"):
        JPlay(n_components=5).fit(X, y, sample_weight=(y != 3).astype(float))
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        JPlay(n_components=5).fit(X, y, sample_weight=-np.ones(len(y)))


def test_class_weights_are_sample_weights(digits):
    X, y = digits
    by_class = JPlay(n_components=8, n_layers=1, class_weight={3: 5.0}).fit(X, y)
    by_sample = JPlay(n_components=8, n_layers=1).fit(X, y, sample_weight=1 + 4.0 * (y == 3))
    assert_allclose(by_class.components_, by_sample.components_, atol=1e-10)


def test_balanced_weights_help_the_rare_class():
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(3, 1, (300, 5)), rng.normal(3.8, 1, (15, 5))]
    y = np.repeat([0, 1], [300, 15])
    recall = [
        JPlay(n_layers=1, n_components=3, decision="projection", class_weight=weight)
        .fit(X, y)
        .predict(X)[y == 1]
        .mean()
        for weight in (None, "balanced")
    ]
    assert recall[1] > recall[0] + 0.3


def test_prediction_loss_counts_labelled_samples_only(digits, few_labels):
    X, _ = digits
    model = JPlay(n_components=10, n_layers=1).fit(X, few_labels)
    targets = encode_targets(few_labels, unlabeled="auto")
    misfit = targets.encode()[0] - model.transform_layers(X)[-1] @ model.coef_.T
    expected = 0.5 * model.alpha * float(targets.weight @ np.einsum("ij,ij->i", misfit, misfit))
    assert_allclose(model.result_.objective_terms[-1].prediction, expected, rtol=1e-8)


def test_multilabel_rows_of_minus_one():
    X, Y = make_multilabel_classification(n_samples=120, n_classes=4, random_state=0)
    X = X / X.max()
    partial = Y.copy()
    partial[60:] = -1
    for unlabeled in ("auto", SoftLabelPropagation(0.5)):
        model = JPlay(n_layers=1, n_components=6, unlabeled=unlabeled).fit(X, partial)
        assert model.predict(X).shape == Y.shape
        assert (model.predict(X[60:]) == Y[60:]).mean() > 0.65


def test_multilabel_label_weights_lower_the_loss_of_their_label():
    X, Y = make_multilabel_classification(n_samples=150, n_classes=6, random_state=1)
    X = X / X.max()

    def loss(model):
        return ((Y - model.decision_function(X))[:, 2] ** 2).mean()

    plain = JPlay(n_layers=1, n_components=2).fit(X, Y)
    heavy = JPlay(n_layers=1, n_components=2, class_weight={2: 50.0}).fit(X, Y)
    assert loss(heavy) < loss(plain)
    with pytest.raises(ValueError, match="`class_weight` should have keys from 0 to 5"):
        JPlay(class_weight={7: 1.0}).fit(X, Y)


def test_propagation_solves_its_linear_system():
    rng = np.random.default_rng(0)
    X = rng.random((40, 3))
    graph, _ = heat_affinity(X, 5)
    labelled = np.arange(40) < 6
    Y = np.eye(2)[np.arange(40) % 2]
    soft = propagate_labels(graph, Y, labelled, balanced=False, exponent=1)
    scale = 1 / np.sqrt(graph.sum(axis=1))
    exact = np.linalg.solve(
        np.eye(40) - soft_labels.REACH * scale[:, None] * graph.toarray() * scale,
        Y * labelled[:, None],
    )
    exact /= exact.sum(axis=1, keepdims=True)
    assert_allclose(soft[~labelled], exact[~labelled], atol=1e-3)
    assert_array_equal(soft[labelled], Y[labelled])


def test_propagation_leaves_unreached_samples_without_label():
    graph = scipy.sparse.csr_array(np.kron(np.eye(2), 1 - np.eye(3)))
    soft = propagate_labels(
        graph, np.eye(2)[[0, 1, 0, 0, 0, 0]], np.array([True, True] + [False] * 4)
    )
    assert_array_equal(soft[3:], 0)
    assert_array_equal(compute_confidence(soft)[3:], 0)
    assert_allclose(compute_confidence(soft)[:2], 1)
