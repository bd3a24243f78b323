import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.neighbors import NearestNeighbors

import plain_transcription as plain
from graphs import heat_affinity
from jplay.numerics import graph
from jplay.numerics.graph import laplacian_gram, median_bandwidth, nearest_neighbors


def brute_force_neighbors(X, n_neighbors):
    """Sorted by distance and then by position, from differences."""
    squared = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    order = np.argsort(squared, axis=1, kind="stable")[:, :n_neighbors]
    return order, np.take_along_axis(squared, order, axis=1)


def degenerate_samples(case):
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.arange(4.0), np.arange(3.0)), axis=-1).reshape(-1, 2)
    return {
        "random": rng.normal(size=(40, 5)),
        "ties on a grid": grid,
        "duplicates": np.repeat(rng.normal(size=(5, 3)), 3, axis=0),
        "all equal": np.ones((12, 2)),
        "near duplicates far from the origin": 1e3 + 1e-3 * rng.normal(size=(20, 3)),
        "fewer samples than features": rng.normal(size=(12, 30)),
    }[case]


CASES = [
    "random",
    "ties on a grid",
    "duplicates",
    "all equal",
    "near duplicates far from the origin",
    "fewer samples than features",
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n_neighbors", [1, 4, 11])
def test_neighbor_distances_equal_brute_force(case, n_neighbors):
    X = degenerate_samples(case)
    indices, squared = nearest_neighbors(X, n_neighbors)
    _, expected = brute_force_neighbors(X, n_neighbors)
    np.testing.assert_allclose(squared, expected, rtol=1e-9, atol=1e-18)
    assert all(len(set(row)) == n_neighbors for row in indices)
    assert not np.any(indices == np.arange(len(X))[:, None])


def test_neighbors_equal_scikit_learn():
    X = degenerate_samples("random")
    reference = NearestNeighbors(n_neighbors=6).fit(X).kneighbors(return_distance=False)
    np.testing.assert_array_equal(nearest_neighbors(X, 6)[0], reference)


@settings(max_examples=60, deadline=None)
@given(arrays(np.float64, (12, 2), elements=st.integers(0, 3).map(float)), st.integers(1, 11))
def test_ties_go_to_the_sample_that_comes_first(X, n_neighbors):
    """Lattice points have many ties and exact distances, however they are computed."""
    expected, _ = brute_force_neighbors(X, n_neighbors)
    np.testing.assert_array_equal(nearest_neighbors(X, n_neighbors)[0], expected)


@pytest.mark.parametrize("n_features", [1, 2, 4])
@pytest.mark.parametrize("side", [1, 3])
def test_many_ties_go_to_the_sample_that_comes_first(side, n_features):
    """More ties at the last place than spare candidates."""
    X = np.random.default_rng(0).integers(0, side, (200, n_features)).astype(float)
    expected, _ = brute_force_neighbors(X, 5)
    np.testing.assert_array_equal(nearest_neighbors(X, 5)[0], expected)


def test_float32_neighbors_survive_rounding_far_from_the_origin():
    X = (1e3 + np.random.default_rng(0).normal(size=(100, 3))).astype(np.float32)
    expected, _ = brute_force_neighbors(X.astype(np.float64), 5)
    np.testing.assert_array_equal(nearest_neighbors(X, 5)[0], expected)


def test_blocks_do_not_change_the_neighbors(monkeypatch):
    X = degenerate_samples("random")
    whole = nearest_neighbors(X, 5)
    monkeypatch.setattr(graph, "_BLOCK_ELEMENTS", 100)
    for blocked, expected in zip(nearest_neighbors(X, 5), whole, strict=True):
        np.testing.assert_array_equal(blocked, expected)


@pytest.mark.parametrize("case", ["random", "fewer samples than features", "ties on a grid"])
@pytest.mark.parametrize("bandwidth", [0.3, 1.0, 20.0])
def test_affinity_equals_the_dense_definition(case, bandwidth):
    X = degenerate_samples(case)
    affinity, used = heat_affinity(X, 4, bandwidth)
    assert used == bandwidth
    assert scipy.sparse.issparse(affinity)
    expected = plain.heat_affinity(X, 4, bandwidth)
    np.testing.assert_allclose(affinity.toarray(), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", CASES)
def test_affinity_is_symmetric_without_self_loops_and_in_the_unit_interval(case):
    X = degenerate_samples(case)
    affinity, width = heat_affinity(X, 4)
    dense = affinity.toarray()
    np.testing.assert_array_equal(dense, dense.T)
    np.testing.assert_array_equal(np.diag(dense), 0)
    assert dense.min() >= 0
    assert dense.max() <= 1
    assert np.all((dense > 0).sum(axis=1) >= 4)
    assert width > 0


def test_duplicates_have_weight_one():
    affinity, _ = heat_affinity(degenerate_samples("duplicates"), 2, 0.1)
    np.testing.assert_allclose(affinity.toarray(), np.kron(np.eye(5), 1 - np.eye(3)))


def test_median_bandwidth_is_the_median_distance_to_the_last_neighbor():
    X = degenerate_samples("random")
    distances, _ = NearestNeighbors(n_neighbors=7).fit(X).kneighbors()
    _, width = heat_affinity(X, 7, "median")
    assert width == pytest.approx(np.median(distances[:, -1]), rel=1e-12)


@pytest.mark.parametrize(
    ("farthest", "expected"),
    [([1.0, 4.0, 9.0], 2.0), ([0.0, 0.0, 9.0], 1.0), ([0.0, 0.0, 0.0], 1.0)],
    ids=["median", "median zero, so mean", "all zero, so one"],
)
def test_median_bandwidth_is_positive_for_duplicates(farthest, expected):
    squared = np.column_stack([np.zeros(3), farthest])
    assert median_bandwidth(squared) == expected


def test_affinity_is_equivariant_to_rotation_and_order():
    rng = np.random.default_rng(1)
    X = degenerate_samples("random")
    rotation = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    order = rng.permutation(len(X))
    affinity = heat_affinity(X, 4)[0].toarray()
    np.testing.assert_allclose(heat_affinity(X @ rotation, 4)[0].toarray(), affinity, atol=1e-12)
    reordered = heat_affinity(X[order], 4)[0].toarray()
    np.testing.assert_allclose(reordered, affinity[np.ix_(order, order)], atol=1e-14)


@pytest.mark.parametrize("n_rows", [7, 30, 8192])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_laplacian_gram_equals_the_dense_product(monkeypatch, dtype, n_rows):
    monkeypatch.setattr("jplay.numerics.graph._GRAM_ROWS", n_rows)
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 4)).astype(dtype)
    affinity, _ = heat_affinity(X, 5)
    W = affinity.toarray()
    degrees = W.sum(axis=1)
    gram, degree_gram, degree_sum, total = laplacian_gram(X, affinity)
    X = X.astype(np.float64)
    np.testing.assert_allclose(gram, X.T @ plain.graph_laplacian(W) @ X, atol=1e-12)
    np.testing.assert_allclose(degree_gram, X.T @ np.diag(degrees) @ X, atol=1e-12)
    np.testing.assert_allclose(degree_sum, X.T @ degrees, atol=1e-12)
    assert total == pytest.approx(degrees.sum())


def test_laplacian_gram_is_the_sum_of_weighted_squared_differences():
    rng = np.random.default_rng(3)
    X, a = rng.normal(size=(15, 3)), rng.normal(size=3)
    affinity, _ = heat_affinity(X, 3)
    z = X @ a
    expected = 0.5 * np.sum(affinity.toarray() * (z[:, None] - z[None, :]) ** 2)
    assert a @ laplacian_gram(X, affinity)[0] @ a == pytest.approx(expected)


@pytest.mark.parametrize("offset", [0.0, 300.0])
@pytest.mark.parametrize("half_precision", [False, True])
def test_neighbor_lists_of_tensors_agree_with_numpy(offset, half_precision, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(graph, "on_cuda", lambda array: half_precision)
    rng = np.random.default_rng(0)
    X = rng.random((700, 12)) + offset
    # Far nearer than half precision tells apart, and more of them than spare candidates.
    X[:40] = X[0] + 1e-5 * rng.random((40, 12))
    X[50] = X[51]
    expected, width = heat_affinity(X, 6)
    found, own_width = graph.neighbor_graph(torch.asarray(X), 6)
    assert own_width == pytest.approx(width, rel=1e-9)
    assert abs(found.to_sparse() - expected).max() < 1e-9


def test_distances_by_halves_keep_their_bound():
    torch = pytest.importorskip("torch")
    Z = torch.asarray(np.random.default_rng(0).normal(size=(300, 25)))
    distances = graph._distances_by_halves(Z)
    exact = (torch.sum(Z * Z, dim=1) - 2 * Z @ Z.mT) / distances.unit
    # Sums in double precision: what is left is the rounding to halves.
    error = distances.left.double() @ distances.right.double().mT - exact
    assert float(error.abs().max()) < 1e-6
    error = distances.from_rows(slice(0, 9)).double() - exact[:9]
    assert float(error.abs().max()) < distances.rounding
