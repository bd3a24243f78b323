import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from jplay.numerics.discriminant import nearest_mean_rule
from jplay.solvers.samples import reduced_rows


def make_classes(seed=0, sizes=(30, 20, 25), n_features=4):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    mixing = rng.normal(size=(n_features, n_features))
    Z = rng.normal(size=(len(y), n_features)) @ mixing + 3 * rng.normal(size=(3, n_features))[y]
    return Z, y, np.eye(len(sizes))[y]


class GivenCovariance:
    """Covariance estimator that returns what it was given, for scikit-learn's LDA."""

    def __init__(self, covariance):
        self.covariance = covariance

    def fit(self, X):
        self.covariance_ = self.covariance
        return self

    def get_params(self, deep=True):
        return {"covariance": self.covariance}


def pooled_covariance(Z, y):
    within = sum(
        (Z[y == c] - Z[y == c].mean(0)).T @ (Z[y == c] - Z[y == c].mean(0)) for c in set(y)
    )
    return within / (len(y) - len(set(y)))


def expected_covariance(Z, y):
    """Pooled covariance shrunk towards a multiple of the total covariance."""
    n_samples, n_features = Z.shape
    freedom = n_samples - len(set(y))
    shrinkage = n_features / (n_features + freedom)
    pooled, total = pooled_covariance(Z, y), np.cov(Z.T, bias=True)
    scale = np.trace(np.linalg.solve(total, pooled)) / n_features
    return (1 - shrinkage) * pooled + shrinkage * scale * total


def test_rule_equals_discriminant_analysis_with_the_same_covariance():
    Z, y, Y = make_classes()
    rule = nearest_mean_rule(Z, Y)
    covariance = expected_covariance(Z, y)
    lda = LinearDiscriminantAnalysis(
        solver="lsqr", priors=np.full(3, 1 / 3), covariance_estimator=GivenCovariance(covariance)
    ).fit(Z, y)
    # Scores are equal up to what all classes share.
    scores, expected = Z @ rule.coef.T + rule.intercept, lda.decision_function(Z)
    np.testing.assert_allclose(
        scores - scores[:, :1], expected - expected[:, :1], rtol=1e-7, atol=1e-9
    )
    np.testing.assert_allclose(rule.means, lda.means_, rtol=1e-12)


def test_scores_rank_classes_by_mahalanobis_distance():
    Z, y, Y = make_classes(1)
    rule = nearest_mean_rule(Z, Y)
    precision = np.linalg.inv(expected_covariance(Z, y))
    differences = Z[:, None, :] - rule.means
    distances = np.einsum("nci,ij,ncj->nc", differences, precision, differences)
    scores = Z @ rule.coef.T + rule.intercept
    offset = scores + 0.5 * distances
    np.testing.assert_allclose(offset, offset[:, :1].repeat(3, axis=1), atol=1e-7)


def test_rule_does_not_depend_on_the_scale_of_the_features():
    Z, _, Y = make_classes(4)
    mixing = np.random.default_rng(5).normal(size=(4, 4)) * np.array([1e-2, 1.0, 3.0, 1e2])
    rule, mixed = nearest_mean_rule(Z, Y), nearest_mean_rule(Z @ mixing, Y)
    np.testing.assert_allclose(
        Z @ mixing @ mixed.coef.T + mixed.intercept, Z @ rule.coef.T + rule.intercept, rtol=1e-5
    )


def test_compressed_rows_give_the_same_rule():
    Z, _, Y = make_classes(2)
    compressed = nearest_mean_rule(*reduced_rows(Z, Y))
    expected = nearest_mean_rule(Z, Y)
    for name in ("means", "coef", "intercept"):
        np.testing.assert_allclose(getattr(compressed, name), getattr(expected, name), rtol=1e-8)


@pytest.mark.parametrize("case", ["one sample per class", "no spread", "collinear", "zero"])
def test_degenerate_features_give_a_finite_rule(case):
    Z, _, Y = {
        "one sample per class": make_classes(4, (1, 1, 1)),
        "no spread": (np.repeat(np.eye(3), 5, axis=0), None, np.repeat(np.eye(3), 5, axis=0)),
        "collinear": (np.outer(np.arange(9.0), np.ones(4)), None, np.eye(3)[np.arange(9) // 3]),
        "zero": (np.zeros((9, 4)), None, np.eye(3)[np.arange(9) // 3]),
    }[case]
    rule = nearest_mean_rule(Z, Y)
    assert np.isfinite(rule.coef).all()
    assert np.isfinite(rule.intercept).all()
    if case != "zero":
        predicted = np.argmax(Z @ rule.coef.T + rule.intercept, axis=1)
        np.testing.assert_array_equal(predicted, np.argmax(Y, axis=1))
