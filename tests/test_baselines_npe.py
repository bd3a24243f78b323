import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.manifold import LocallyLinearEmbedding
from sklearn.manifold._locally_linear import barycenter_kneighbors_graph
from sklearn.utils.estimator_checks import parametrize_with_checks

from closeness import assert_close
from jplay import NPE
from jplay.baselines import npe as npe_module
from jplay.baselines.npe import reconstruction_residuals
from jplay.core.graph import find_neighbors


@parametrize_with_checks([NPE(), NPE(n_components=1, n_neighbors=3)])
def test_npe_follows_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("block_elements", [4_000_000, 1000])
def test_residuals_equal_those_of_locally_linear_embedding(monkeypatch, block_elements):
    monkeypatch.setattr(npe_module, "BLOCK_ELEMENTS", block_elements)
    X = np.random.default_rng(0).normal(size=(60, 8))
    weights = barycenter_kneighbors_graph(X, 6, reg=1e-3)
    neighbors, _ = find_neighbors(X, 6, "exact")
    np.testing.assert_allclose(
        reconstruction_residuals(X, neighbors, 1e-3), X - weights @ X, atol=1e-10
    )


def test_components_satisfy_the_eigenproblem_and_its_constraint():
    X = load_digits().data[:300, :40]
    X = X[:, X.std(axis=0) > 0]
    npe = NPE(n_components=5, n_neighbors=8).fit(X)
    centred = X - X.mean(axis=0)
    neighbors, _ = find_neighbors(centred, 8, "exact")
    residuals = reconstruction_residuals(centred, neighbors, 1e-3)
    gram, errors = centred.T @ centred, residuals.T @ residuals
    A = npe.components_.T
    np.testing.assert_allclose(A.T @ gram @ A, np.eye(5), atol=1e-8)
    np.testing.assert_allclose(
        errors @ A, gram @ A * npe.reconstruction_errors_, atol=1e-8 * np.abs(errors).max()
    )
    assert np.all(np.diff(npe.reconstruction_errors_) >= 0)
    values = np.linalg.eigvals(np.linalg.pinv(gram) @ errors).real
    assert_close(npe.reconstruction_errors_, np.sort(values)[:5], 1e-6)


def test_npe_is_locally_linear_embedding_where_a_linear_map_can_be():
    """With as many free dimensions as samples the linear map attains LLE's optimum."""
    X = np.random.default_rng(1).normal(size=(30, 60))
    lle = LocallyLinearEmbedding(n_neighbors=6, n_components=2, eigen_solver="dense").fit(X)
    npe = NPE(n_components=2, n_neighbors=6).fit(X)
    assert npe.reconstruction_errors_.sum() == pytest.approx(lle.reconstruction_error_, rel=1e-6)


@pytest.mark.parametrize(
    "case", ["constant feature", "duplicates", "fewer samples than features", "few samples"]
)
def test_degenerate_data_works(case):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 6))
    if case == "constant feature":
        X[:, 0] = 7.0
    elif case == "duplicates":
        X[:12] = X[0]
    elif case == "fewer samples than features":
        X = rng.normal(size=(15, 40))
    else:
        X = X[:4]
    Z = NPE(n_components=2).fit_transform(X)
    assert np.isfinite(Z).all()
    np.testing.assert_allclose(Z.T @ Z, np.eye(2), atol=1e-8)


@pytest.mark.parametrize(
    ("X", "n_components", "message"),
    [
        (np.ones((8, 3)), 1, "at most 0 .the rank"),
        (np.eye(3), 4, "at most 3 .the number of features"),
        (np.eye(5, 9), 5, "at most 4 .the rank of the 5 centered samples"),
    ],
)
def test_impossible_input_says_what_to_do(X, n_components, message):
    with pytest.raises(ValueError, match=message):
        NPE(n_components).fit(X)


def test_float32_stays_float32_and_agrees():
    X = load_digits().data[:200]
    single = NPE().fit(X.astype(np.float32))
    assert single.components_.dtype == single.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.transform(X), NPE().fit_transform(X), atol=1e-3)
