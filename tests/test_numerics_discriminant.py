import array_api_strict
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.covariance import oas
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import log_loss

from closeness import assert_close
from jplay.numerics.discriminant import (
    MULTIPLES,
    TEMPERATURES,
    best_temperature,
    class_moments,
    left_out_scores,
    nearest_mean_rule,
    oas_share,
    overall_moments,
    shrunk_covariance,
    tuned_covariance,
    whitening,
)
from jplay.solvers.samples import reduced_rows


def make_classes(seed=0, sizes=(30, 20, 25), n_features=4, apart=3.0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    mixing = rng.normal(size=(n_features, n_features))
    centres = apart * rng.normal(size=(len(sizes), n_features))
    X = rng.normal(size=(len(y), n_features)) @ mixing + centres[y]
    return X, y, np.eye(len(sizes))[y]


class GivenCovariance:
    """Covariance estimator that returns what it was given, for scikit-learn's LDA."""

    def __init__(self, covariance):
        self.covariance = covariance

    def fit(self, X):
        self.covariance_ = self.covariance
        return self

    def get_params(self, deep=True):
        return {"covariance": self.covariance}


def residuals(X, y):
    return X - np.stack([X[y == c].mean(axis=0) for c in np.unique(y)])[y]


def pooled_covariance(X, y):
    return residuals(X, y).T @ residuals(X, y) / (len(y) - len(np.unique(y)))


def rule_of(X, Y, temperature=1.0):
    moments = class_moments(X, Y)
    covariance = shrunk_covariance(moments).matrix()
    rule = nearest_mean_rule(moments.means, whitening(covariance), moments.log_prior, temperature)
    return rule, covariance


def test_moments_are_those_of_the_classes():
    X, y, Y = make_classes()
    moments = class_moments(X, Y)
    assert_close(moments.means, [X[y == c].mean(axis=0) for c in range(3)], 1e-12)
    assert_close(moments.covariance, pooled_covariance(X, y), 1e-12)
    assert_close(moments.total_covariance, np.cov(X.T, bias=True), 1e-12)
    assert_allclose(moments.sizes, [30, 20, 25])
    assert_allclose(moments.log_prior, np.log(np.array([30, 20, 25]) / 75))
    assert moments.freedom == 72


def test_compressed_rows_give_the_same_moments():
    X, _, Y = make_classes(2)
    compressed, expected = class_moments(*reduced_rows(X, Y)), class_moments(X, Y)
    for name in ("means", "covariance", "total_covariance", "sizes", "freedom"):
        assert_close(getattr(compressed, name), getattr(expected, name), 1e-10)


def test_unit_is_the_weight_of_one_sample():
    X, _, Y = make_classes()
    expected, heavy = class_moments(X, Y), class_moments(2 * X, 2 * Y, unit=4.0)
    for name in ("means", "covariance", "total_covariance", "sizes", "freedom"):
        assert_close(getattr(heavy, name), getattr(expected, name), 1e-12)


def test_samples_without_classes_have_one_mean():
    X, _, Y = make_classes()
    root, _ = reduced_rows(X, Y)
    moments = overall_moments(root, X.sum(axis=0), len(X))
    assert_allclose(moments.means, X.mean(axis=0)[None, :])
    assert_close(moments.covariance, np.cov(X.T), 1e-10)
    assert_close(moments.total_covariance, np.cov(X.T, bias=True), 1e-10)
    assert moments.freedom == len(X) - 1


def test_covariance_far_from_the_origin_is_positive_and_exact():
    X, y, Y = make_classes()
    X[:, 3] = 0  # constant
    moments = class_moments(X + 1e7, Y)
    assert_allclose(moments.covariance, pooled_covariance(X, y), rtol=1e-6, atol=1e-8)
    assert np.linalg.eigvalsh(moments.covariance).min() > -1e-14


@pytest.mark.parametrize("n_samples", [5, 20, 200])
def test_share_is_that_of_scikit_learn(n_samples):
    X = np.random.default_rng(n_samples).normal(size=(n_samples, 8)) * np.arange(1, 9)
    X -= X.mean(axis=0)
    S = X.T @ X / n_samples
    _, expected = oas(X, assume_centered=True)
    assert_allclose(oas_share(np.trace(S), np.sum(S * S), 8, n_samples), expected, rtol=1e-10)


def test_share_is_that_of_features_in_units_of_their_deviation():
    X, y, Y = make_classes()
    S = pooled_covariance(X, y)
    variances = X.var(axis=0)
    scaled = S / np.sqrt(np.outer(variances, variances))
    expected = oas_share(np.trace(scaled), np.sum(scaled**2), 4, 72)
    shrunk = shrunk_covariance(class_moments(X, Y))
    assert 0 < shrunk.share < 1
    assert_allclose(shrunk.share, expected, rtol=1e-10)
    mixed = (1 - expected) * S + expected * np.diag(variances)
    assert_allclose(shrunk.matrix(), mixed, rtol=1e-7)


def test_target_within_classes_has_a_floor():
    X, y, Y = make_classes()
    X[:, 1] = Y @ [0.0, 1.0, 2.0]  # does not vary within classes
    shrunk = shrunk_covariance(class_moments(X, Y), within=True)
    expected = np.diag(pooled_covariance(X, y)).copy()
    expected[1] = 1e-4 * X[:, 1].var()
    assert_allclose(shrunk.target, np.diag(expected), rtol=1e-7, atol=1e-12)


def test_share_does_not_depend_on_the_units_of_the_features():
    X, _, Y = make_classes()
    units = np.array([1e-2, 1.0, 20.0, 1e3])
    expected, other = (shrunk_covariance(class_moments(Z, Y)) for Z in (X, X * units))
    assert_allclose(other.share, expected.share, rtol=1e-10)
    assert_close(other.target / np.outer(units, units), expected.target, 1e-10)


def test_coordinates_in_a_basis_give_the_covariance_of_the_features():
    X, _, Y = make_classes(sizes=(4, 3, 3), n_features=30)
    basis, coordinates = np.linalg.qr(X.T)
    expected = shrunk_covariance(class_moments(X, Y))
    shrunk = shrunk_covariance(class_moments(coordinates.T, Y), basis)
    assert_allclose(shrunk.share, expected.share, rtol=1e-10)
    for name in ("covariance", "target"):
        carried = basis.T @ getattr(expected, name) @ basis
        assert_allclose(getattr(shrunk, name), carried, atol=1e-10)


def test_constant_feature_does_not_count():
    X, _, Y = make_classes()
    expected = shrunk_covariance(class_moments(X, Y))
    wide = np.column_stack([X, np.full(len(X), 7.0)])
    shrunk = shrunk_covariance(class_moments(wide, Y), n_features=4)
    assert_allclose(shrunk.share, expected.share, rtol=1e-10)
    assert_close(shrunk.target[:4, :4], expected.target, 1e-10)
    assert_array_equal(shrunk.target[4], 0)
    assert np.linalg.eigvalsh(shrunk.matrix()).min() > 0


def test_constant_feature_among_coordinates_does_not_count():
    X, _, Y = make_classes(sizes=(4, 3, 3), n_features=30)
    wide = np.column_stack([X, np.full(len(X), 7.0)])
    basis, coordinates = np.linalg.qr(wide.T)
    expected = shrunk_covariance(class_moments(X, Y))
    shrunk = shrunk_covariance(class_moments(coordinates.T, Y), basis, n_features=30)
    assert_allclose(shrunk.share, expected.share, rtol=1e-8)
    carried = basis[:30].T @ expected.target @ basis[:30]
    assert_allclose(shrunk.target, carried, atol=1e-8)


def test_feature_without_spread_in_classes_does_not_decide_alone():
    X, y, Y = make_classes()
    X = np.column_stack([X, y.astype(float)])
    shrunk = shrunk_covariance(class_moments(X, Y))
    assert_allclose(np.diag(shrunk.target)[4], np.var(y), rtol=1e-9)


def test_rule_equals_discriminant_analysis_with_the_same_covariance():
    X, y, Y = make_classes()
    rule, covariance = rule_of(X, Y)
    lda = LinearDiscriminantAnalysis(
        solver="lsqr", covariance_estimator=GivenCovariance(covariance)
    ).fit(X, y)
    # Scores are equal up to what all classes share.
    scores, expected = X @ rule.coef.T + rule.intercept, lda.decision_function(X)
    assert_allclose(scores - scores[:, :1], expected - expected[:, :1], rtol=1e-7, atol=1e-9)
    assert_close(rule.means, lda.means_, 1e-12)


def test_temperature_divides_distances_and_leaves_the_prior():
    X, _, Y = make_classes(1)
    rule, covariance = rule_of(X, Y, temperature=0.3)
    differences = X[:, None, :] - rule.means
    precision = np.linalg.inv(covariance)
    distances = np.einsum("nci,ij,ncj->nc", differences, precision, differences)
    expected = -0.15 * distances + class_moments(X, Y).log_prior
    scores = X @ rule.coef.T + rule.intercept
    assert_allclose(scores - scores[:, :1], expected - expected[:, :1], atol=1e-7)


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_left_out_scores_equal_fits_without_the_sample(share):
    X, y, Y = make_classes(sizes=(8, 5, 2))
    moments = class_moments(X, Y)
    shrunk = shrunk_covariance(moments)
    weight = (1 - share) / moments.freedom
    scores = left_out_scores(X, Y, moments, shrunk.matrix(share), weight)
    ridge = shrunk.matrix(share) - (1 - share) * shrunk.covariance - share * shrunk.target
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        means = np.stack([X[rest & (y == c)].mean(axis=0) for c in range(3)])
        within = residuals(X[rest], y[rest]).T @ residuals(X[rest], y[rest])
        # The target and the divisor stay: a sample is left out of the sum of squares.
        covariance = weight * within + share * shrunk.target + ridge
        d = X[i] - means
        expected = -0.5 * np.einsum("ci,ij,cj->c", d, np.linalg.inv(covariance), d)
        assert_close(scores[i], expected, 1e-7)


@pytest.mark.parametrize("true_temperature", [0.05, 0.4, 1.5])
def test_temperature_has_the_smallest_loss(true_temperature):
    rng = np.random.default_rng(0)
    log_prior = np.log([0.5, 0.3, 0.2])
    scores = 3 / true_temperature * rng.normal(size=(3000, 3))
    p = np.exp(true_temperature * scores + log_prior)
    p /= p.sum(axis=1, keepdims=True)
    y = np.array([rng.choice(3, p=row) for row in p])

    def probabilities(temperature):
        tempered = temperature * scores + log_prior
        tempered = np.exp(tempered - tempered.max(axis=1, keepdims=True))
        return tempered / tempered.sum(axis=1, keepdims=True)

    def loss(temperature):
        return -np.log(probabilities(temperature)[np.arange(len(y)), y] + 0.01).mean()

    temperature, smallest = best_temperature(scores, np.eye(3)[y], log_prior)
    coarse = min(TEMPERATURES, key=loss)
    tried = np.concatenate([TEMPERATURES, coarse * np.logspace(-0.125, 0.125, 9)])
    assert_allclose(temperature, min(tried, key=loss), rtol=1e-9)
    assert_allclose(smallest, min(log_loss(y, probabilities(t)) for t in tried), rtol=1e-9)
    assert abs(np.log(temperature / true_temperature)) < np.log(10) / 16


def test_few_samples_far_on_the_wrong_side_do_not_make_others_cautious():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(1000, 3))
    y = scores.argmax(axis=1)
    scores[:20] *= 50
    y[:20] = scores[:20].argmin(axis=1)
    temperature, _ = best_temperature(scores, np.eye(3)[y], np.zeros(3))
    assert temperature > 1


def tried(X, Y):
    """Loss of left-out samples and temperature for every share that is compared."""
    moments = class_moments(X, Y)
    shrunk = shrunk_covariance(moments)
    results = {}
    for share in {min(1.0, multiple * shrunk.share) for multiple in MULTIPLES}:
        weight = (1 - share) / moments.freedom
        scores = left_out_scores(X, Y, moments, shrunk.matrix(share), weight)
        results[share] = best_temperature(scores, Y, moments.log_prior)
    return moments, shrunk, results


@pytest.mark.parametrize("seed", range(3))
def test_tuned_share_has_the_smallest_left_out_loss(seed):
    X, _, Y = make_classes(seed, sizes=(9, 8, 7), n_features=12, apart=1.0)
    moments, shrunk, results = tried(X, Y)
    tuned = tuned_covariance(shrunk, moments, X, Y)
    assert results[tuned.share][1] == min(loss for _, loss in results.values())
    assert results[tuned.share][0] == tuned.temperature
    assert tuned.temperature < 1  # few samples in many dimensions are less sure than they seem


def test_classes_of_one_sample_do_not_take_part_in_tuning():
    X, _, Y = make_classes(sizes=(9, 8, 1, 1))
    moments = class_moments(X, Y)
    shrunk = shrunk_covariance(moments)
    found = tuned_covariance(shrunk, moments, X, Y)
    expected = tuned_covariance(shrunk, moments, X[:17], Y[:17])
    assert (found.share, found.temperature) == (expected.share, expected.temperature)
    assert_array_equal(found.covariance, expected.covariance)
    assert_array_equal(found.target, expected.target)
    alone = class_moments(X[-2:], np.eye(2))
    assert tuned_covariance(shrunk, alone, X[-2:], np.eye(2)) is shrunk


def test_strict_namespace_tunes_the_same():
    X, _, Y = make_classes(sizes=(9, 8, 1))
    strict_X, strict_Y = array_api_strict.asarray(X), array_api_strict.asarray(Y)
    found = []
    for samples, labels in ((X, Y), (strict_X, strict_Y)):
        moments = class_moments(samples, labels)
        found.append(tuned_covariance(shrunk_covariance(moments), moments, samples, labels))
    assert found[0].share == pytest.approx(found[1].share, rel=1e-9)
    assert found[0].temperature == found[1].temperature


def test_whitened_features_have_unit_covariance():
    X, y, _ = make_classes()
    covariance = pooled_covariance(X, y)
    matrix = whitening(covariance)
    assert_allclose(matrix, matrix.T, atol=1e-12)
    assert_allclose(matrix @ covariance @ matrix, np.eye(4), atol=1e-9)
    assert np.isfinite(whitening(np.diag([1.0, 0.0, -1e-20]))).all()


@pytest.mark.parametrize("case", ["one sample per class", "no spread", "collinear", "zero"])
def test_degenerate_features_give_a_finite_rule(case):
    threes = np.eye(3)[np.arange(9) // 3]
    X, Y = {
        "one sample per class": make_classes(4, (1, 1, 1))[::2],
        "no spread": (np.repeat(np.eye(3), 5, axis=0), np.repeat(np.eye(3), 5, axis=0)),
        "collinear": (np.outer(np.arange(9.0), np.ones(4)), threes),
        "zero": (np.zeros((9, 4)), threes),
    }[case]
    moments = class_moments(X, Y)
    shrunk = tuned_covariance(shrunk_covariance(moments), moments, X, Y)
    rule = nearest_mean_rule(
        moments.means, whitening(shrunk.matrix()), moments.log_prior, shrunk.temperature
    )
    assert np.isfinite(rule.coef).all()
    assert np.isfinite(rule.intercept).all()
    if case != "zero":
        assert_array_equal(np.argmax(X @ rule.coef.T + rule.intercept, axis=1), Y.argmax(axis=1))
