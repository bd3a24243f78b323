import array_api_strict
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Lasso

from jplay.estimators.label_penalty import solve_lasso


@pytest.fixture
def regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 12)) @ rng.normal(size=(12, 12))  # correlated
    return X, X @ (rng.normal(size=(12, 5)) * (rng.random((12, 5)) < 0.3)) + rng.normal(
        size=(60, 5)
    )


@pytest.mark.parametrize("weight", [0.5, 20.0, 200.0])
def test_rows_fulfil_the_optimality_conditions(regression, weight):
    X, Y = regression
    P = solve_lasso(X.T @ X, Y.T @ X, weight)
    gradient = P @ (X.T @ X) - Y.T @ X
    assert 0 < np.count_nonzero(P == 0) < P.size
    assert_allclose(gradient[P != 0], -weight * np.sign(P[P != 0]), rtol=1e-6)
    assert np.abs(gradient[P == 0]).max() <= weight * (1 + 1e-6)


def test_rows_agree_with_lasso(regression):
    X, Y = regression
    peer = Lasso(20.0 / len(X), fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, Y)
    assert_allclose(solve_lasso(X.T @ X, Y.T @ X, 20.0), peer.coef_, atol=1e-7)


def test_a_large_weight_leaves_nothing(regression):
    X, Y = regression
    assert not solve_lasso(X.T @ X, Y.T @ X, 1e9).any()


def test_stacks_and_strict_arrays(regression):
    X, Y = regression
    H, R = X.T @ X, Y.T @ X
    both = solve_lasso(np.stack([H, 2 * H]), np.stack([R, R]), 20.0)
    assert_allclose(both[0], solve_lasso(H, R, 20.0), atol=1e-8)
    assert_allclose(both[1], solve_lasso(2 * H, R, 20.0), atol=1e-8)
    xp = array_api_strict
    strict = solve_lasso(xp.asarray(H), xp.asarray(R), 20.0)
    assert_allclose(np.from_dlpack(strict), both[0], atol=1e-8)
