import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg
from sklearn.cross_decomposition import CCA
from sklearn.datasets import (
    load_iris,
    make_classification,
    make_multilabel_classification,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import f1_score
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import jplay
from jplay.baselines.ccf import CanonicalCorrelationForestClassifier, _estimators
from jplay.baselines.ccf._canonical import canonical_directions, orthonormal_basis
from jplay.baselines.ccf._targets import ClassTargets, LabelTargets
from jplay.baselines.ccf._tree import TreeSettings, grow_tree


@parametrize_with_checks([CanonicalCorrelationForestClassifier(15, random_state=0)])
def test_forest_follows_scikit_learn(estimator, check):
    check(estimator)


def inverse_square_root(S, tolerance=1e-8):
    values, vectors = linalg.eigh(S)
    keep = values > tolerance * values[-1]
    return vectors[:, keep] / np.sqrt(values[keep]) @ vectors[:, keep].T


def textbook_cca(X, Y):
    """Canonical correlations by whitening both covariance matrices (Hotelling 1936)."""
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    whiten_x = inverse_square_root(X.T @ X)
    left, correlations, _ = linalg.svd(whiten_x @ X.T @ Y @ inverse_square_root(Y.T @ Y))
    rank = min(np.linalg.matrix_rank(X), np.linalg.matrix_rank(Y))
    return whiten_x @ left[:, :rank], correlations[:rank]


def assert_same_directions(actual, expected, rtol=1e-7):
    """Equal columns up to sign and length."""
    actual = actual / np.linalg.norm(actual, axis=0)
    expected = expected / np.linalg.norm(expected, axis=0)
    assert actual.shape == expected.shape
    signs = np.sign((actual * expected).sum(axis=0))
    assert_allclose(actual * signs, expected, atol=rtol)


def class_problem(seed=0, n_samples=120, n_features=5, n_classes=4):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=n_samples)])
    means = rng.normal(size=(n_classes, n_features))
    X = means[codes] + rng.normal(size=(len(codes), n_features)) * rng.uniform(0.3, 3, n_features)
    return X, codes


@pytest.mark.parametrize("n_features", [2, 3, 6])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_class_directions_equal_textbook_cca(n_features, n_classes):
    X, codes = class_problem(n_features=n_features, n_classes=n_classes)
    targets = ClassTargets.of(codes, n_classes)
    directions, correlations = canonical_directions(X, *targets.basis(np.arange(len(X))))
    expected, expected_correlations = textbook_cca(X, np.eye(n_classes)[codes])
    assert_allclose(correlations, expected_correlations, rtol=1e-10)
    assert_same_directions(directions, expected)


def test_label_directions_equal_textbook_cca():
    X, _ = class_problem(n_classes=3)
    rng = np.random.default_rng(1)
    Y = (X[:, :3] + rng.normal(size=(len(X), 3)) > 0).astype(float)
    targets = LabelTargets.of(Y)
    directions, correlations = canonical_directions(X, *targets.basis(np.arange(len(X))))
    expected, expected_correlations = textbook_cca(X, Y)
    assert_allclose(correlations, expected_correlations, rtol=1e-10)
    assert_same_directions(directions, expected)


def test_directions_equal_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    Y = X[:, :2] * [3, 1] + rng.normal(size=(200, 2))
    directions, correlations = canonical_directions(X, orthonormal_basis(Y), 2)
    cca = CCA(n_components=2, scale=False, max_iter=10_000, tol=1e-14).fit(X, Y)
    assert_same_directions(directions, cca.x_rotations_, rtol=1e-5)
    scores = cca.transform(X, Y)
    expected = [np.corrcoef(scores[0][:, k], scores[1][:, k])[0, 1] for k in range(2)]
    assert_allclose(correlations, expected, rtol=1e-6)


def test_class_basis_agrees_with_centred_one_hot_labels():
    X, codes = class_problem()
    Y = np.eye(4)[codes]
    fast = canonical_directions(X, *ClassTargets.of(codes, 4).basis(np.arange(len(X))))
    general = canonical_directions(X, orthonormal_basis(Y), 3)
    assert_allclose(fast[1], general[1], rtol=1e-10)
    assert_same_directions(fast[0], general[0])


def test_directions_of_dependent_features_leave_the_surplus_out():
    X, codes = class_problem(n_features=3)
    X = np.column_stack([X, X[:, 0] + X[:, 1], X[:, 2] * (1 + 1e-9)])
    targets = ClassTargets.of(codes, 4)
    directions, correlations = canonical_directions(X, *targets.basis(np.arange(len(X))))
    assert np.count_nonzero(np.any(directions != 0, axis=1)) == 3
    _, expected = textbook_cca(X[:, :3], np.eye(4)[codes])
    assert_allclose(correlations, expected, rtol=1e-7)


def test_root_splits_along_a_canonical_direction_of_its_samples():
    X, codes = class_problem()
    tree = grow_tree(
        X,
        ClassTargets.of(codes, 4),
        TreeSettings(
            n_sampled_features=5, max_depth=1, min_samples_leaf=1, projection_bootstrap=False
        ),
        bagged=False,
        seed=0,
    )
    expected, _ = textbook_cca(X[:, tree.features[0]], np.eye(4)[codes])
    cosines = np.abs(expected.T @ tree.weights[0]) / np.linalg.norm(expected, axis=0)
    assert_allclose(cosines.max() / np.linalg.norm(tree.weights[0]), 1, rtol=1e-10)


def entropy(codes):
    share = np.unique(codes, return_counts=True)[1] / len(codes)
    return -(share * np.log(share)).sum() if len(codes) else 0.0


def brute_force_gains(impurity, y, order):
    """Total impurity before minus after the split at each position."""
    return np.array(
        [
            [
                len(o) * impurity(y)
                - k * impurity(y[o[:k]])
                - (len(o) - k) * (impurity(y[o[k:]]) if k < len(o) else 0)
                for k in range(1, len(o) + 1)
            ]
            for o in order
        ]
    )


@pytest.mark.parametrize("repeat_rows", [False, True])
def test_gains_equal_brute_force(repeat_rows):
    rng = np.random.default_rng(3)
    codes = rng.integers(5, size=40)
    labels = rng.integers(2, size=(40, 3))
    labels[:, 1] = 1
    rows = rng.integers(0, 40, 30) if repeat_rows else rng.permutation(40)[:30]
    order = np.array([rng.permutation(30) for _ in range(3)])

    gains = ClassTargets.of(codes, 6).gains(rows, order)
    assert_allclose(gains, brute_force_gains(entropy, codes[rows], order), atol=1e-10)

    gains = LabelTargets.of(labels).gains(rows, order)
    expected = sum(brute_force_gains(entropy, labels[rows, k], order) for k in range(3))
    assert_allclose(gains, expected, atol=1e-10)


def oblique_problem(seed, n_samples=300):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 10))
    return X, (X.sum(axis=1) > 0).astype(int)


def test_forest_beats_axis_aligned_trees_on_an_oblique_boundary():
    X, y = oblique_problem(0)
    canonical = CanonicalCorrelationForestClassifier(50, random_state=0)
    axis_aligned = RandomForestClassifier(50, random_state=0)
    accuracy = cross_val_score(canonical, X, y, cv=3).mean()
    assert accuracy > cross_val_score(axis_aligned, X, y, cv=3).mean() + 0.02
    assert accuracy > 0.85


def test_forest_does_not_depend_on_the_scale_of_features():
    X, y = oblique_problem(1)
    scale, shift = 2.0 ** np.arange(-20, 20, 4), 4.0
    plain = CanonicalCorrelationForestClassifier(20, random_state=0).fit(X, y)
    scaled = CanonicalCorrelationForestClassifier(20, random_state=0).fit(X * scale + shift, y)
    X_test, _ = oblique_problem(2)
    assert_allclose(
        scaled.predict_proba(X_test * scale + shift), plain.predict_proba(X_test), atol=1e-12
    )


def constant(n):
    return np.ones((n, 4))


DEGENERATE = {
    "one sample per class": (np.random.default_rng(0).normal(size=(6, 3)), np.arange(6)),
    "one class of one sample": (np.random.default_rng(1).normal(size=(9, 3)), [0] * 8 + [1]),
    "one class": (np.random.default_rng(2).normal(size=(9, 3)), [7] * 9),
    "all features constant": (constant(6), [0, 0, 0, 1, 1, 2]),
    "one constant feature": (np.c_[np.ones(8), np.arange(8)], [0, 0, 0, 0, 1, 1, 1, 1]),
    "most features constant": (np.c_[np.ones((8, 60)), np.arange(8)], [0, 1] * 4),
    "constant up to rounding": (constant(6) * 0.1 + 1e-17, [0, 0, 0, 1, 1, 2]),
    "duplicated points": (np.repeat(np.eye(3), 4, axis=0), [0, 1, 2, 0] * 3),
    "two distinct points": (np.repeat(np.eye(4)[:2], 3, axis=0), [0, 0, 0, 1, 1, 1]),
    "fewer samples than features": (
        np.random.default_rng(3).normal(size=(5, 400)),
        [0, 0, 1, 1, 2],
    ),
    "one feature": (np.arange(12.0)[:, np.newaxis], [0] * 4 + [1] * 4 + [0] * 4),
    "one sample": (np.ones((1, 3)), ["a"]),
    "tiny and huge scales": (
        np.random.default_rng(4).normal(size=(12, 3)) * [1e-150, 1.0, 1e150],
        [0, 1] * 6,
    ),
}


@pytest.mark.parametrize("bootstrap", ["auto", "projection", "tree"])
@pytest.mark.parametrize("case", DEGENERATE)
def test_forest_survives_degenerate_data(case, bootstrap):
    X, y = DEGENERATE[case]
    forest = CanonicalCorrelationForestClassifier(20, bootstrap=bootstrap, random_state=0)
    probabilities = forest.fit(X, y).predict_proba(X)
    assert probabilities.shape == (len(X), len(np.unique(y)))
    assert_allclose(probabilities.sum(axis=1), 1)
    assert np.isin(forest.predict(X), y).all()


@pytest.mark.parametrize(
    "case", ["one sample per class", "one constant feature", "two distinct points", "one feature"]
)
def test_unbagged_forest_separates_distinct_points(case):
    X, y = DEGENERATE[case]
    forest = CanonicalCorrelationForestClassifier(10, bootstrap="projection", random_state=0)
    assert_array_equal(forest.fit(X, y).predict(X), y)


def test_leaves_hold_the_class_frequencies_of_points_that_cannot_be_told_apart():
    X = np.repeat([[0.0, 1.0, 2.0], [3.0, 1.0, 0.0]], [4, 2], axis=0)
    y = [0, 0, 0, 1, 1, 1]
    forest = CanonicalCorrelationForestClassifier(5, bootstrap="projection", random_state=0)
    expected = np.repeat([[0.75, 0.25], [0.0, 1.0]], [4, 2], axis=0)
    assert_allclose(forest.fit(X, y).predict_proba(X), expected)


def test_two_points_are_split_with_the_largest_margin():
    Z = np.array([[0.0, 0.0, 0.0], [2.0, -1.0, 4.0]])
    tree = grow_tree(
        Z,
        ClassTargets.of(np.array([0, 1]), 2),
        TreeSettings(
            n_sampled_features=3, max_depth=None, min_samples_leaf=1, projection_bootstrap=True
        ),
        bagged=False,
        seed=0,
    )
    normal = np.zeros(3)
    normal[tree.features[0]] = tree.weights[0]
    assert_allclose(np.abs(normal), np.abs(Z[1]))
    assert_allclose(tree.thresholds[0], 0.5 * normal @ (Z[0] + Z[1]))


def test_overflowing_feature_is_named():
    X = np.array([[0.0, 1e300], [1.0, -1e300], [2.0, 1e300]])
    with pytest.raises(ValueError, match=r"feature 1 overflows. Rescale"):
        CanonicalCorrelationForestClassifier(3).fit(X, [0, 1, 0])


def test_too_many_features_are_refused_with_the_limit():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"`max_features` should be at most 4 .* got 5. Choose"):
        CanonicalCorrelationForestClassifier(3, max_features=5).fit(X, y)


def test_several_columns_of_classes_are_refused():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"indicator of labels, got 2 columns"):
        CanonicalCorrelationForestClassifier(3).fit(X, np.column_stack([y, y]))


@pytest.mark.parametrize(
    ("max_features", "n_features", "expected"),
    [
        ("log2", 1, 1),
        ("log2", 2, 2),
        ("log2", 3, 2),
        ("log2", 4, 3),
        ("log2", 200, 9),
        ("log2", 2580, 13),
        ("sqrt", 200, 14),
        (0.5, 5, 2),
        (0.01, 5, 1),
        (1.0, 5, 5),
        (1, 5, 1),
        (None, 5, 5),
    ],
)
def test_number_of_sampled_features(max_features, n_features, expected):
    assert _estimators._n_sampled_features(max_features, n_features) == expected


def test_depth_and_leaf_size_are_bounded():
    X, y = make_classification(300, 10, n_informative=6, n_classes=3, random_state=0)
    free = CanonicalCorrelationForestClassifier(10, random_state=0).fit(X, y)
    shallow = CanonicalCorrelationForestClassifier(10, max_depth=2, random_state=0).fit(X, y)
    broad = CanonicalCorrelationForestClassifier(10, min_samples_leaf=15, random_state=0).fit(X, y)
    assert max(tree.depth for tree in free.estimators_) > 3
    assert min(tree.leaf_sizes.min() for tree in free.estimators_) < 15
    assert max(tree.depth for tree in shallow.estimators_) == 2
    assert max(len(tree.leaf_values) for tree in shallow.estimators_) <= 4
    Z = (X - broad.mean_) / broad.scale_
    for tree in broad.estimators_:
        sizes = np.bincount(tree.apply(Z), minlength=len(tree.leaf_sizes))
        assert_array_equal(sizes, tree.leaf_sizes)
        assert sizes.min() >= 15


def test_training_samples_arrive_in_the_leaves_they_grew():
    X, y = make_classification(300, 12, n_informative=6, n_classes=3, random_state=0)
    forest = CanonicalCorrelationForestClassifier(10, random_state=0).fit(X, y)
    assert_array_equal(forest.predict_proba(X), np.eye(3)[y])


@pytest.mark.parametrize("kind", ["classes", "labels"])
def test_forest_is_the_same_whatever_n_jobs(kind):
    if kind == "classes":
        X, y = make_classification(150, 20, n_informative=6, random_state=0)
    else:
        X, y = make_multilabel_classification(100, 20, random_state=0)
    fits = [
        CanonicalCorrelationForestClassifier(25, n_jobs=n_jobs, random_state=3).fit(X, y)
        for n_jobs in (None, 1, 2)
    ]
    for other in fits[1:]:
        for tree, same in zip(fits[0].estimators_, other.estimators_, strict=True):
            assert_array_equal(tree.weights, same.weights)
            assert_array_equal(tree.thresholds, same.thresholds)
        assert_array_equal(fits[0].predict_proba(X), other.predict_proba(X))


def test_random_state_decides():
    X, y = make_classification(150, 20, n_informative=6, flip_y=0.2, random_state=0)
    first, second = (
        CanonicalCorrelationForestClassifier(5, random_state=seed).fit(X[:100], y[:100])
        for seed in (0, 1)
    )
    assert not np.array_equal(first.predict_proba(X[100:]), second.predict_proba(X[100:]))


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_prediction_in_blocks_equals_one_block(monkeypatch, n_jobs):
    X, y = make_classification(150, 20, n_informative=6, n_classes=3, random_state=0)
    forest = CanonicalCorrelationForestClassifier(10, random_state=0).fit(X[:70], y[:70])
    whole = forest.predict_proba(X)
    labels = forest.predict(X)
    monkeypatch.setattr(_estimators, "ROWS_PER_BLOCK", 7)
    forest.set_params(n_jobs=n_jobs)
    assert_array_equal(forest.predict_proba(X), whole)
    assert_array_equal(forest.predict(X), labels)


def test_prediction_equals_a_descent_sample_by_sample():
    X, y = make_classification(150, 20, n_informative=6, n_classes=3, flip_y=0.2, random_state=0)
    forest = CanonicalCorrelationForestClassifier(5, random_state=0).fit(X[:70], y[:70])
    Z = (X - forest.mean_) / forest.scale_
    expected = np.zeros((len(X), 3))
    for tree in forest.estimators_:
        for z, total in zip(Z, expected, strict=True):
            node = 0
            while node >= 0:
                goes_right = z[tree.features[node]] @ tree.weights[node] > tree.thresholds[node]
                node = tree.children[node, int(goes_right)]
            total += tree.leaf_values[~node]
    assert_allclose(forest.predict_proba(X), expected / 5)


def test_many_rows_take_no_call_per_row(monkeypatch):
    X, y = load_iris(return_X_y=True)
    forest = CanonicalCorrelationForestClassifier(3, random_state=0).fit(X, y)
    n_blocks = 0
    predict_block = _estimators._predict_block

    def counting(*arguments):
        nonlocal n_blocks
        n_blocks += 1
        return predict_block(*arguments)

    monkeypatch.setattr(_estimators, "_predict_block", counting)
    many = np.tile(X, (700, 1))
    assert_array_equal(forest.predict(many), np.tile(forest.predict(X), 700))
    assert 0 < n_blocks <= len(many) / 1000


def test_labels_are_learned_together():
    X, Y = make_multilabel_classification(
        400, 20, n_classes=4, allow_unlabeled=True, random_state=0
    )
    forest = CanonicalCorrelationForestClassifier(50, random_state=0).fit(X[:250], Y[:250])
    reference = RandomForestClassifier(50, random_state=0).fit(X[:250], Y[:250])
    predicted = forest.predict(X[250:])
    assert predicted.shape == (150, 4)
    assert set(np.unique(predicted)) <= {0, 1}
    score = f1_score(Y[250:], predicted, average="micro")
    assert score > f1_score(Y[250:], reference.predict(X[250:]), average="micro") - 0.02
    probabilities = forest.predict_proba(X[250:])
    assert len(probabilities) == len(forest.classes_) == 4
    for label, probability in enumerate(probabilities):
        assert_allclose(probability.sum(axis=1), 1)
        assert_array_equal(probability[:, 1] > 0.5, predicted[:, label] == 1)


def test_constant_labels_are_predicted():
    X, Y = make_multilabel_classification(60, 10, n_classes=3, random_state=0)
    Y[:, 0], Y[:, 2] = 1, 0
    predicted = CanonicalCorrelationForestClassifier(10, random_state=0).fit(X, Y).predict(X)
    assert_array_equal(predicted, Y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_of_the_input_is_kept(dtype):
    X, y = load_iris(return_X_y=True)
    X = X.astype(dtype)
    classifier = CanonicalCorrelationForestClassifier(5, random_state=0).fit(X, y)
    assert classifier.predict_proba(X).dtype == dtype


class Recorder:
    def __init__(self, stop_after=None):
        self.n_trees = []
        self.stop_after = stop_after

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        if context.task_name == "trees":
            fitted_estimator.predict(X)
            self.n_trees.append(len(fitted_estimator.estimators_))
        return self.stop_after is not None and len(self.n_trees) >= self.stop_after


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_callbacks_see_the_forest_grow_and_may_end_it(n_jobs):
    X, y = load_iris(return_X_y=True)
    watch, stop = Recorder(), Recorder(stop_after=1)
    forest = CanonicalCorrelationForestClassifier(25, n_jobs=n_jobs, random_state=0)
    whole = forest.set_callbacks(watch).fit(X, y).estimators_
    assert watch.n_trees == [10, 20, 25]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        begun = forest.set_callbacks(stop).fit(X, y).estimators_
    assert len(begun) == 10
    for tree, same in zip(begun, whole, strict=False):
        assert_array_equal(tree.weights, same.weights)


def test_fitted_forest_is_pickled():
    X, y = load_iris(return_X_y=True)
    forest = CanonicalCorrelationForestClassifier(5, random_state=0).fit(X, y)
    copy = pickle.loads(pickle.dumps(forest))
    assert_array_equal(copy.predict_proba(X), forest.predict_proba(X))


def test_name_is_public():
    assert jplay.CanonicalCorrelationForestClassifier is CanonicalCorrelationForestClassifier


@st.composite
def small_problems(draw):
    n_samples = draw(st.integers(1, 12))
    shape = (n_samples, draw(st.integers(1, 5)))
    values = st.one_of(
        st.integers(-2, 2).map(float),
        st.floats(-1e6, 1e6, allow_subnormal=False),
    )
    X = draw(hnp.arrays(np.float64, shape, elements=values))
    y = draw(hnp.arrays(np.int64, n_samples, elements=st.integers(0, 3)))
    return X, y


@settings(max_examples=80, deadline=None, derandomize=True)
@given(small_problems(), st.integers(1, 3), st.sampled_from(["projection", "tree"]))
def test_any_small_problem_gives_a_valid_forest(problem, min_samples_leaf, bootstrap):
    X, y = problem
    forest = CanonicalCorrelationForestClassifier(
        3, min_samples_leaf=min_samples_leaf, bootstrap=bootstrap, random_state=0
    ).fit(X, y)
    probabilities = forest.predict_proba(X)
    assert_allclose(probabilities.sum(axis=1), 1)
    assert (probabilities >= 0).all()
    Z = (X - forest.mean_) / forest.scale_
    for tree in forest.estimators_:
        assert tree.leaf_sizes.sum() == len(X)
        assert len(tree.leaf_sizes) == len(tree.thresholds) + 1
        assert tree.leaf_sizes.min() >= min(min_samples_leaf, len(X))
        if bootstrap == "projection":
            arrived = np.bincount(tree.apply(Z), minlength=len(tree.leaf_sizes))
            assert_array_equal(arrived, tree.leaf_sizes)
