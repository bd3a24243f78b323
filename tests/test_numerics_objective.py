import array_api_strict
import numpy as np
import pytest
import scipy.optimize

import plain_transcription as plain
from graphs import heat_affinity
from jplay.numerics.graph import laplacian_gram
from jplay.numerics.objective import (
    manifold_penalty,
    objective_terms,
    prediction_loss,
    reconstruction_loss,
)
from jplay.solvers.alternating import solve_coef
from jplay.solvers.samples import reduced_rows

WEIGHTS = {"alpha": 2.0, "beta": 0.3, "gamma": 0.7}


def make_model(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((25, 6))
    Y = np.eye(3)[np.arange(25) % 3]
    affinity, _ = heat_affinity(X, 4)
    thetas = [rng.normal(size=(4, 6)), rng.normal(size=(2, 4))]
    return X, Y, affinity, thetas, rng.normal(size=(3, 2))


def test_terms_equal_their_dense_definitions():
    X, Y, affinity, thetas, coef = make_model()
    gram = laplacian_gram(X, affinity)[0]
    terms = objective_terms(X, Y, gram, thetas, coef, **WEIGHTS)
    laplacian = plain.graph_laplacian(affinity.toarray())
    Z1 = X @ thetas[0].T
    Z2 = Z1 @ thetas[1].T
    rebuilt = [X - Z1 @ thetas[0], Z1 - Z2 @ thetas[1]]
    assert terms.reconstruction == pytest.approx(0.5 * sum(np.sum(R**2) for R in rebuilt))
    assert terms.prediction == pytest.approx(0.5 * 2.0 * np.sum((Y - Z2 @ coef.T) ** 2))
    manifold = np.trace(Z1.T @ laplacian @ Z1) + np.trace(Z2.T @ laplacian @ Z2)
    assert terms.manifold == pytest.approx(0.5 * 0.3 * manifold)
    assert terms.ridge == pytest.approx(0.5 * 0.7 * np.sum(coef**2))
    expected = plain.objective(X, Y, laplacian, thetas, coef, plain.Settings(**WEIGHTS))
    assert terms.total == pytest.approx(expected)


def test_reconstruction_can_be_left_out():
    X, Y, affinity, thetas, coef = make_model()
    gram = laplacian_gram(X, affinity)[0]
    whole = objective_terms(X, Y, gram, thetas, coef, **WEIGHTS)
    without = objective_terms(X, Y, gram, thetas, coef, **WEIGHTS, reconstruction=False)
    assert without.reconstruction == 0
    assert without.total == pytest.approx(whole.total - whole.reconstruction)


def test_compressed_samples_give_the_same_objective():
    X, Y, affinity, thetas, coef = make_model()
    gram = laplacian_gram(X, affinity)[0]
    rows = reduced_rows(X, Y)
    assert len(rows[0]) == X.shape[1] + Y.shape[1]
    assert objective_terms(*rows, gram, thetas, coef, **WEIGHTS).total == pytest.approx(
        objective_terms(X, Y, gram, thetas, coef, **WEIGHTS).total
    )


def test_projected_gram_equals_the_penalty_of_projected_samples():
    X, _, affinity, thetas, _ = make_model()
    gram = laplacian_gram(X, affinity)[0]
    Z = X @ thetas[0].T
    expected = np.trace(laplacian_gram(Z, affinity)[0])
    assert manifold_penalty(thetas[0], gram) == pytest.approx(expected)


def finite_difference_gradient(function, point):
    flat = scipy.optimize.approx_fprime(
        point.ravel(), lambda x: float(function(x.reshape(point.shape))), 1e-7
    )
    return flat.reshape(point.shape)


def test_gradients_equal_finite_differences():
    """The gradients on which the derivation of the updates rests."""
    X, Y, affinity, thetas, coef = make_model()
    theta, gram = thetas[0], laplacian_gram(X, affinity)[0]
    Z = X @ theta.T
    residual = X - Z @ theta
    numeric = finite_difference_gradient(lambda t: reconstruction_loss(X, t), theta)
    analytic = -2 * (Z.T @ residual + (residual @ theta.T).T @ X)
    np.testing.assert_allclose(numeric, analytic, rtol=1e-4, atol=1e-3)
    numeric = finite_difference_gradient(lambda t: manifold_penalty(t, gram), theta)
    np.testing.assert_allclose(numeric, 2 * theta @ gram, rtol=1e-4, atol=1e-4)
    W = Z @ thetas[1].T
    numeric = finite_difference_gradient(lambda P: prediction_loss(Y, W, P), coef)
    np.testing.assert_allclose(numeric, -2 * (Y - W @ coef.T).T @ W, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("gamma", [0.0, 0.7])
def test_label_projection_is_a_stationary_point(gamma):
    X, Y, _, thetas, _ = make_model()
    Z = X @ thetas[0].T @ thetas[1].T
    coef = solve_coef(Z, Y, 2.0, gamma)

    def objective(P):
        return 0.5 * 2.0 * prediction_loss(Y, Z, P) + 0.5 * gamma * np.sum(P**2)

    np.testing.assert_allclose(finite_difference_gradient(objective, coef), 0, atol=1e-4)
    gradient = 2.0 * (Z @ coef.T - Y).T @ Z + gamma * coef
    np.testing.assert_allclose(gradient, 0, atol=1e-10)


def test_label_projection_without_ridge_is_the_smallest_on_a_degenerate_subspace():
    rng = np.random.default_rng(1)
    Z = np.column_stack([rng.random(20), np.zeros(20)])
    Z = np.column_stack([Z, Z[:, 0]])
    Y = np.eye(2)[np.arange(20) % 2]
    coef = solve_coef(Z, Y, 1.0, 0.0)
    np.testing.assert_allclose(coef, np.linalg.lstsq(Z, Y)[0].T, atol=1e-12)


def test_array_libraries_agree():
    X, Y, affinity, thetas, coef = make_model()
    gram = laplacian_gram(X, affinity)[0]
    strict = array_api_strict.asarray
    expected = objective_terms(X, Y, gram, thetas, coef, **WEIGHTS)
    terms = objective_terms(
        strict(X), strict(Y), strict(gram), [strict(t) for t in thetas], strict(coef), **WEIGHTS
    )
    assert terms.total == pytest.approx(expected.total, rel=1e-12)
