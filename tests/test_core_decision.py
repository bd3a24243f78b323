"""The rule by class means: moments, shrinkage and temperature against fits without each sample."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.covariance import oas
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import core_oracle as oracle
from jplay import HeatGraph, JPlay

SHARES = (0.3, 1.0, 3.0, 10.0, 30.0)  # multiples of the estimated shrinkage that are compared
GRAPH = HeatGraph(4)


def make_classes(seed=0, sizes=(30, 20, 25), n_features=4, apart=3.0):
    """Classes with one covariance, which is not that of the identity."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    centres = apart * rng.normal(size=(len(sizes), n_features))
    mixing = rng.normal(size=(n_features, n_features))
    return rng.normal(size=(len(y), n_features)) @ mixing + centres[y], y


def class_means(X, y):
    return np.stack([X[y == c].mean(axis=0) for c in np.unique(y)])


def pooled(X, y):
    residual = X - class_means(X, y)[np.searchsorted(np.unique(y), y)]
    return residual.T @ residual / (len(y) - len(np.unique(y)))


def estimated_share(S, y):
    """Of Chen et al. 2010, for features in units of their standard deviation."""
    d, freedom = S.shape[1], len(y) - len(np.unique(y))
    deviation = S.std(axis=0)
    R = pooled(S, y) / np.outer(deviation, deviation)
    mean, square = np.trace(R) / d, np.sum(R * R) / d**2
    gap = (freedom + 1) * (square - mean**2 / d)
    return 1.0 if gap <= 0 else min(1.0, (square + mean**2) / gap)


def left_out_scores(S, y, share):
    """Minus half the squared distances of each sample to means of the others, by brute force."""
    target, weight = np.diag(S.var(axis=0)), (1 - share) / (len(y) - len(np.unique(y)))
    scores = []
    for i, x in enumerate(S):
        rest = np.arange(len(S)) != i
        means = class_means(S[rest], y[rest])
        residual = S[rest] - means[y[rest]]
        covariance = weight * residual.T @ residual + share * target
        covariance += 1e-9 * np.trace(target) / len(target) * np.eye(len(target))
        d = x - means
        scores.append(-0.5 * np.einsum("ci,ij,cj->c", d, np.linalg.inv(covariance), d))
    return np.array(scores)


def losses(scores, y, temperature):
    """Mean of ``-log p`` of the true class, and of ``-log(p + 0.01)``."""
    tempered = temperature * scores + np.log(np.bincount(y) / len(y))
    tempered -= tempered.max(axis=1, keepdims=True)
    p = np.exp(tempered)
    p = (p / p.sum(axis=1, keepdims=True))[np.arange(len(y)), y]
    return -np.log(np.maximum(p, 1e-300)).mean(), -np.log(p + 0.01).mean()


def rule_in_features(model):
    """Coefficients of the scores over scaled features, without what all classes share."""
    matrix = model.decision_coef_ @ model.components_ / model.feature_scale_
    return matrix - matrix.mean(axis=0)


def expected_rule(model, S, y, share):
    """The same of the nearest mean under the shrunk covariance in the subspace."""
    W = model.components_ / model.feature_scale_
    covariance = (1 - share) * pooled(S, y) + share * np.diag(S.var(axis=0))
    inverse = np.linalg.pinv(W @ covariance @ W.T, rcond=1e-10)
    matrix = (class_means(S, y) @ W.T) @ inverse @ W
    return matrix - matrix.mean(axis=0)


@pytest.mark.parametrize(
    ("seed", "sizes", "n_features", "apart"),
    [
        (0, (30, 20, 25), 4, 3.0),
        (1, (9, 8, 7), 12, 1.0),
        (2, (9, 8, 7), 12, 1.0),
        (3, (6, 5, 5), 20, 2.0),
        (4, (40, 10), 6, 0.7),
    ],
)
def test_shrinkage_and_temperature_make_left_out_samples_most_likely(
    seed, sizes, n_features, apart
):
    X, y = make_classes(seed, sizes, n_features, apart)
    model = JPlay(min(3, n_features), graph=GRAPH).fit(X, y)
    S = oracle.scaled(X)
    found = rule_in_features(model)
    estimate = estimated_share(S, y)
    misfits, tried = {}, {}
    for share in {min(1.0, multiple * estimate) for multiple in SHARES}:
        expected = expected_rule(model, S, y, share)
        temperature = np.sum(found * expected) / np.sum(expected**2)
        misfits[share] = np.linalg.norm(found - temperature * expected) / np.linalg.norm(found)
        scores = left_out_scores(S, y, share)
        grid = np.logspace(-2.5, 0.5, 121)
        own = np.array([losses(scores, y, t) for t in grid])
        tried[share] = own[:, 0].min(), temperature, losses(scores, y, temperature)[1], own
    chosen = min(misfits, key=misfits.get)
    # The rule is that of one of the shares, up to its temperature ...
    assert misfits[chosen] < 1e-5
    # ... the one whose best temperature makes left-out samples most likely ...
    best = min(loss for loss, *_ in tried.values())
    assert tried[chosen][0] <= best + 5e-3
    # ... at the temperature that does so if no sample counts for too much.
    bounded, own = tried[chosen][2], tried[chosen][3]
    assert bounded <= own[:, 1].min() + 2e-3


def test_estimated_share_of_the_oracle_is_that_of_scikit_learn():
    X = np.random.default_rng(0).normal(size=(40, 8)) * np.arange(1, 9)
    R = X.T @ X / len(X)
    mean, square = np.trace(R) / 8, np.sum(R * R) / 64
    assert (square + mean**2) / (41 * (square - mean**2 / 8)) == pytest.approx(
        oas(X, assume_centered=True)[1]
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_half_way_between_two_means_the_prior_decides(weighted):
    X, y = make_classes()
    weight = np.random.default_rng(0).random(len(y)) + 0.2 if weighted else np.ones(len(y))
    model = JPlay(3, graph=GRAPH).fit(X, y, sample_weight=weight if weighted else None)
    Z, prior = model.transform_layers(X)[-1], np.bincount(y, weight) / weight.sum()
    means = np.stack([np.average(Z[y == c], axis=0, weights=weight[y == c]) for c in range(3)])
    assert_allclose(model.class_means_, means, atol=1e-8 * np.abs(means).max())
    for a, b in [(0, 1), (1, 2), (2, 0)]:
        scores = model.decision_coef_ @ (means[a] + means[b]) / 2 + model.decision_intercept_
        assert scores[a] - scores[b] == pytest.approx(np.log(prior[a] / prior[b]), abs=1e-6)


def test_probabilities_are_the_softmax_of_the_scores():
    X, y = make_classes(1, apart=1.0)
    model = JPlay(3, graph=GRAPH).fit(X, y)
    scores = model.decision_function(X)
    expected = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    assert_allclose(model.predict_proba(X), expected, atol=1e-9)


def test_a_constant_weight_changes_no_decision():
    """Samples that all weigh two are not twice as many: the effective number counts."""
    X, y = make_classes(2, (9, 8, 7), 6, 1.0)
    plain, heavy = (
        JPlay(3, graph=GRAPH, alpha=alpha).fit(X, y, sample_weight=weight)
        for alpha, weight in ((6.0, None), (3.0, np.full(len(y), 2.0)))
    )
    assert_allclose(heavy.predict_proba(X), plain.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("class_weight", [{1: 4.0}, {0: 0.5, 2: 3.0}, "balanced"])
@pytest.mark.parametrize("weighted", [False, True])
def test_class_weights_count_in_the_decision_as_weights_of_samples(class_weight, weighted):
    X, y = make_classes(3, (30, 12, 18), 5, 0.6)
    weight = np.random.default_rng(0).random(len(y)) + 0.2 if weighted else np.ones(len(y))
    if class_weight == "balanced":
        factors = len(y) / (3 * np.bincount(y))
    else:
        factors = np.array([class_weight.get(c, 1.0) for c in range(3)])
    model = JPlay(3, graph=GRAPH, class_weight=class_weight)
    by_class = model.fit(X, y, sample_weight=weight if weighted else None).predict_proba(X)
    by_sample = JPlay(3, graph=GRAPH).fit(X, y, sample_weight=weight * factors[y]).predict_proba(X)
    plain = JPlay(3, graph=GRAPH).fit(X, y).predict_proba(X)
    assert_allclose(by_class, by_sample, atol=1e-7)
    assert np.abs(by_class - plain).max() > 0.02


def test_rule_is_discriminant_analysis_under_its_covariance():
    """Without shrinkage that matters: many samples, and as many components as features."""
    X, y = make_classes(0, (2000, 1500, 1000), 3, 1.0)
    model = JPlay(3, graph=GRAPH).fit(X, y)
    lda = LinearDiscriminantAnalysis().fit(X, y)
    assert np.mean(model.predict(X) == lda.predict(X)) > 0.99
    assert np.abs(model.predict_proba(X) - lda.predict_proba(X)).max() < 0.1


def test_far_from_the_origin_the_decision_is_the_same():
    X, y = make_classes(1, apart=1.0)
    near, far = (JPlay(3, graph=GRAPH).fit(X + offset, y) for offset in (0.0, 1e6))
    assert_allclose(far.predict_proba(X + 1e6), near.predict_proba(X), atol=1e-4)


def test_units_of_features_do_not_change_the_decision():
    X, y = make_classes(1, apart=1.0)
    units = np.array([1e-2, 1.0, 20.0, 1e3])
    expected, found = (JPlay(3, graph=GRAPH).fit(Z, y).predict_proba(Z) for Z in (X, X * units))
    assert_allclose(found, expected, atol=1e-6)


def test_a_constant_feature_hardly_counts():
    X, y = make_classes(2, (9, 8, 7), 6, 1.0)
    wide = np.column_stack([X, np.full(len(X), 7.0)])
    expected, found = (JPlay(3, graph=GRAPH).fit(Z, y) for Z in (X, wide))
    assert_allclose(found.predict_proba(wide), expected.predict_proba(X), atol=0.05)
    assert not found.components_[:, -1].any()


def test_a_feature_without_spread_in_the_classes_does_not_decide_alone():
    """It equals the class label on the training samples and misleads on others."""
    X, y = make_classes(0, apart=3.0)
    wide = np.column_stack([X, y.astype(float)])
    model = JPlay(4, graph=GRAPH).fit(wide, y)
    moved = wide.copy()
    moved[:, -1] = 1.0
    assert model.score(moved, y) > 0.5  # 0.27 if it did


def test_more_features_than_samples_are_shrunk_as_features_not_as_coordinates():
    """The rule of a rotation of the samples in their row space is not that of the features."""
    X, y = make_classes(5, (6, 6, 6), 60, 1.5)
    model = JPlay(3, graph=GRAPH).fit(X, y)
    S = oracle.scaled(X)
    estimate = estimated_share(S, y)
    found = rule_in_features(model)
    misfits = []
    for multiple in SHARES:
        expected = expected_rule(model, S, y, min(1.0, multiple * estimate))
        temperature = np.sum(found * expected) / np.sum(expected**2)
        misfits.append(np.linalg.norm(found - temperature * expected) / np.linalg.norm(found))
    assert min(misfits) < 1e-4


def test_few_samples_in_many_dimensions_are_less_sure_than_they_seem():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 100)), np.arange(40) % 2
    model = JPlay(2, graph=GRAPH).fit(X, y)
    other = rng.normal(size=(400, 100))
    assert model.predict_proba(other).max(axis=1).mean() < 0.75


def test_few_samples_far_on_the_wrong_side_do_not_make_the_others_cautious():
    X, y = make_classes(0, (100, 100), 3, 4.0)
    wrong = y.copy()
    wrong[::50] = 1 - wrong[::50]
    sure = JPlay(2, graph=GRAPH).fit(X, y).predict_proba(X).max(axis=1)
    cautious = JPlay(2, graph=GRAPH).fit(X, wrong).predict_proba(X).max(axis=1)
    assert np.median(cautious) > 0.9
    assert np.median(sure) > 0.9


@pytest.mark.parametrize("sizes", [(1, 1, 1), (9, 1, 1), (12, 12, 1)], ids=str)
def test_classes_of_one_sample_get_a_finite_rule(sizes):
    X, y = make_classes(4, sizes, 5, 4.0)
    model = JPlay(2, graph=HeatGraph(2)).fit(X, y)
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    assert_allclose(p.sum(axis=1), 1)
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("case", ["no spread", "collinear"])
def test_degenerate_features_get_a_finite_rule(case):
    y = np.arange(15) // 5
    X = {"no spread": np.eye(3)[y], "collinear": np.outer(np.arange(15.0), np.ones(4))}[case]
    model = JPlay(1 if case == "collinear" else 2, graph=HeatGraph(3)).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert_array_equal(model.predict(X), y)
