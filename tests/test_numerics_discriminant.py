import numpy as np
import pytest
from sklearn.covariance import OAS
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from jplay.numerics.discriminant import nearest_mean_rule, shrunk_covariance
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


def test_rule_equals_discriminant_analysis_with_the_same_covariance():
    Z, y, Y = make_classes()
    rule = nearest_mean_rule(Z, Y)
    freedom = len(y) - 3
    covariance = shrunk_covariance(pooled_covariance(Z, y), freedom)
    lda = LinearDiscriminantAnalysis(
        solver="lsqr", priors=np.full(3, 1 / 3), covariance_estimator=GivenCovariance(covariance)
    ).fit(Z, y)
    # Equal priors add the same constant to every score.
    np.testing.assert_allclose(rule.coef, lda.coef_, rtol=1e-8)
    np.testing.assert_allclose(rule.intercept, lda.intercept_ + np.log(3), rtol=1e-8)
    np.testing.assert_allclose(rule.means, lda.means_, rtol=1e-12)


def test_scores_rank_classes_by_mahalanobis_distance():
    Z, y, Y = make_classes(1)
    rule = nearest_mean_rule(Z, Y)
    precision = np.linalg.inv(shrunk_covariance(pooled_covariance(Z, y), len(y) - 3))
    differences = Z[:, None, :] - rule.means
    distances = np.einsum("nci,ij,ncj->nc", differences, precision, differences)
    scores = Z @ rule.coef.T + rule.intercept
    offset = scores + 0.5 * distances
    np.testing.assert_allclose(offset, offset[:, :1].repeat(3, axis=1), atol=1e-7)


def test_compressed_rows_give_the_same_rule():
    Z, _, Y = make_classes(2)
    compressed = nearest_mean_rule(*reduced_rows(Z, Y))
    expected = nearest_mean_rule(Z, Y)
    for name in ("means", "coef", "intercept"):
        np.testing.assert_allclose(getattr(compressed, name), getattr(expected, name), rtol=1e-8)


def test_shrinkage_equals_scikit_learn():
    X = np.random.default_rng(3).normal(size=(15, 6))
    oas = OAS(assume_centered=True).fit(X)
    np.testing.assert_allclose(shrunk_covariance(X.T @ X / 15, 15), oas.covariance_, rtol=1e-10)


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
