import array_api_strict
import numpy as np
import pytest
import scipy.linalg

from closeness import assert_close
from jplay.core.arrays import eigh_generalized, solve_positive
from jplay.core.decision import whiten_rows
from jplay.numerics.eigen import is_well_conditioned, range_basis


def random_pair(n_features, rank, seed=0):
    """A symmetric matrix and a positive semi-definite one of the given rank."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n_features, n_features))
    factor = rng.normal(size=(n_features, rank))
    return a + a.T, factor @ factor.T


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_range_basis_spans_the_range(rank):
    _, b = random_pair(6, rank)
    values, vectors = range_basis(b)
    assert values.shape == (rank,)
    assert vectors.shape == (6, rank)
    np.testing.assert_allclose((vectors * values) @ vectors.T, b, atol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(rank), atol=1e-12)


def test_range_basis_of_zero_is_empty():
    values, vectors = range_basis(np.zeros((4, 4)))
    assert values.shape == (0,)
    assert vectors.shape == (4, 0)


def test_range_basis_obeys_the_tolerance():
    b = np.diag([1.0, 1e-3, 1e-9])
    assert len(range_basis(b, rtol=1e-6)[0]) == 2
    assert len(range_basis(b)[0]) == 3


@pytest.mark.parametrize(("smallest", "expected"), [(1e-3, True), (1e-6, False), (-1e-3, False)])
def test_well_conditioned_matrices_have_no_small_eigenvalue(smallest, expected):
    axes = scipy.linalg.orth(np.random.default_rng(0).normal(size=(30, 30)))
    matrix = (axes * np.linspace(smallest, 1, 30)) @ axes.T
    assert is_well_conditioned(matrix, 1e-5) is expected
    assert not is_well_conditioned(array_api_strict.asarray(matrix), 1e-5)


def test_regular_helpers_agree_over_array_libraries():
    a, b = random_pair(5, 5, seed=4)
    right = np.random.default_rng(5).normal(size=(5, 2))
    strict_a, strict_b, strict_right = (array_api_strict.asarray(m) for m in (a, b, right))
    assert_close(solve_positive(b, right), np.linalg.solve(b, right), 1e-8)
    assert_close(
        np.asarray(solve_positive(strict_b, strict_right)), np.linalg.solve(b, right), 1e-8
    )
    values, vectors = (np.asarray(part) for part in eigh_generalized(strict_a, strict_b))
    assert_close(values, eigh_generalized(a, b)[0], 1e-8)
    np.testing.assert_allclose(vectors.T @ b @ vectors, np.eye(5), atol=1e-9)
    np.testing.assert_allclose(a @ vectors, b @ vectors * values, atol=1e-8)
    whitened = whiten_rows(b, right.T)
    assert_close(whitened @ whitened.T, right.T @ np.linalg.solve(b, right), 1e-8)
    assert_close(np.asarray(whiten_rows(strict_b, strict_right.mT)), whitened, 1e-8)
