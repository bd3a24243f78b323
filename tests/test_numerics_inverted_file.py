"""Approximate neighbours in cells, on arrays of several libraries."""

import numpy as np
import pytest

from jplay._array_api import to_numpy
from jplay.numerics import inverted_file
from jplay.numerics.graph import nearest_neighbors, neighbor_graph
from jplay.numerics.inverted_file import cell_neighbors


@pytest.fixture(params=["torch", "array_api_strict"])
def made(request):
    """Makes arrays of a library."""
    return pytest.importorskip(request.param).asarray


@pytest.fixture
def tensor():
    return pytest.importorskip("torch").asarray


def clusters(n_samples):
    """Clusters of very different widths and numbers of samples."""
    rng = np.random.default_rng(0)
    cluster = np.minimum(rng.geometric(0.15, n_samples), 40) - 1
    centres, widths = 4 * rng.standard_normal((40, 12)), 10 ** rng.uniform(-2, 0, 40)
    return centres[cluster] + widths[cluster, None] * rng.standard_normal((n_samples, 12))


def surface(n_samples):
    """Samples near a surface of four dimensions in thirty."""
    rng = np.random.default_rng(1)
    points = np.tanh(rng.standard_normal((n_samples, 4)) @ rng.standard_normal((4, 30)))
    return points + 0.05 * rng.standard_normal(points.shape)


def found_on(made, X, n_neighbors, **settings):
    """Neighbours that are checked to be distinct and others, with their exact distances."""
    indices, squares = map(to_numpy, cell_neighbors(made(X), n_neighbors, **settings))
    assert indices.shape == squares.shape == (len(X), n_neighbors)
    assert np.all((indices >= 0) & (indices < len(X)))
    assert not np.any(indices == np.arange(len(X))[:, None])
    assert np.all(np.diff(np.sort(indices, axis=1), axis=1) > 0)
    assert np.all(np.diff(squares, axis=1) >= 0)
    differences = X[indices].astype(np.float64) - X[:, None]
    np.testing.assert_allclose(squares, (differences**2).sum(axis=2), rtol=1e-12)
    return indices


def recall(found, exact):
    return np.mean([np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("samples", [clusters, surface])
def test_most_of_the_nearest_samples_are_found(tensor, samples, dtype):
    X = samples(12_000).astype(dtype)
    exact, _ = nearest_neighbors(X, 10)
    assert recall(found_on(tensor, X, 10, n_candidates=3000), exact) > 0.95
    assert recall(found_on(tensor, X, 10), exact) > 0.99


@pytest.mark.parametrize("samples", [clusters, surface])
def test_libraries_find_the_same(made, samples):
    X = samples(1500)
    exact, _ = nearest_neighbors(X, 5)
    indices = found_on(made, X, 5, n_cells=40, n_candidates=400)
    assert recall(indices, exact) > 0.95
    again = found_on(np.asarray, X, 5, n_cells=40, n_candidates=400)
    np.testing.assert_array_equal(indices, again)


def test_searching_every_cell_is_exact(made):
    X = surface(400)
    exact, _ = nearest_neighbors(X, 7)
    found = found_on(made, X, 7, n_cells=25, n_candidates=len(X))
    np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("n_samples", [2, 3, 9, 30])
def test_few_samples_are_searched_exactly(made, n_samples):
    X = surface(n_samples)
    n_neighbors = min(5, n_samples - 1)
    exact, _ = nearest_neighbors(X, n_neighbors)
    np.testing.assert_array_equal(found_on(made, X, n_neighbors), exact)
    found = found_on(made, X, n_neighbors, n_cells=100, n_candidates=1)
    assert n_samples > 12 or np.array_equal(found, exact)


def test_two_searches_give_the_same(tensor):
    X = clusters(6000)
    first, second = (cell_neighbors(tensor(X), 10, n_candidates=1000) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n_copies", [8, 100])
def test_copies_of_a_sample_are_its_neighbors(made, n_copies):
    X = np.repeat(np.random.default_rng(0).random((12, 5)), n_copies, axis=0)
    indices = found_on(made, X, 5, n_cells=30, n_candidates=200)
    own = np.arange(len(X))[:, None] // n_copies
    np.testing.assert_array_equal(indices // n_copies, own + 0 * indices)


def test_samples_that_are_all_equal_have_neighbors(made):
    found_on(made, np.ones((900, 3)), 6, n_cells=20, n_candidates=100)


def test_a_crowded_cell_hides_no_other_sample(tensor):
    """Two thirds of the samples are one, as the pixels of a scene without data."""
    X = surface(9000)
    X[3000:] = X[0]
    X = X[np.random.default_rng(0).permutation(len(X))]
    exact, exact_squares = nearest_neighbors(X, 6)
    indices = found_on(tensor, X, 6, n_candidates=1500)
    alone = exact_squares[:, -1] > 0
    assert 2900 < alone.sum() < 3000
    assert recall(indices[alone], exact[alone]) > 0.95
    np.testing.assert_array_equal(X[indices[~alone]], X[exact[~alone]])


def test_cells_of_very_different_sizes_are_searched(tensor, monkeypatch):
    """Most samples in one tight cluster, the others far apart, in small blocks."""
    rng = np.random.default_rng(0)
    X = np.concatenate([1e-3 * rng.standard_normal((5000, 6)), 10 * rng.standard_normal((300, 6))])
    exact, _ = nearest_neighbors(X, 5)
    assert recall(found_on(tensor, X, 5, n_candidates=3000), exact) > 0.95
    monkeypatch.setattr(inverted_file, "_HOST_BLOCK", 20_000)
    assert recall(found_on(tensor, X, 5, n_candidates=3000), exact) > 0.95


def test_blocks_bound_what_is_compared_at_a_time(tensor, monkeypatch):
    largest = []

    def watched(matrix, count):
        largest.append(matrix.shape[0] * matrix.shape[1])
        return smallest_per_row(matrix, count)

    smallest_per_row = inverted_file.smallest_per_row
    monkeypatch.setattr(inverted_file, "smallest_per_row", watched)
    monkeypatch.setattr(inverted_file, "_HOST_BLOCK", 200_000)
    X = clusters(5000)
    X[:2500] = X[0]
    found_on(tensor, X, 5, n_cells=100, n_candidates=1000)
    assert 100_000 < max(largest) <= 200_000


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("scale", [1e-60, 1.0, 1e60])
def test_scale_and_place_of_samples_do_not_matter(tensor, scale, offset):
    X = (surface(3000) + offset) * scale
    exact, _ = nearest_neighbors(X, 5)
    assert recall(found_on(tensor, X, 5, n_candidates=800), exact) > 0.95


def test_a_sample_far_away_does_not_blur_the_others(tensor):
    X = surface(3000)
    X[7] = 1e4
    exact, _ = nearest_neighbors(X, 5)
    assert recall(found_on(tensor, X, 5, n_candidates=800), exact) > 0.95


def test_samples_of_a_device_are_searched_there():
    """The library refuses every operation on arrays of two devices."""
    xp = pytest.importorskip("array_api_strict")
    device = xp.Device("device1")
    X = surface(600)
    graph, _ = neighbor_graph(xp.asarray(X, device=device), 5, approximate=True)
    assert graph.indices.device == graph.weights.device == device
    np.testing.assert_array_equal(to_numpy(graph.indices), nearest_neighbors(X, 5)[0])


def test_approximate_graph_is_nearly_the_exact_one(made):
    X = made(surface(1200))
    exact, width = neighbor_graph(X, 6)
    approximate, own_width = neighbor_graph(X, 6, approximate=True)
    assert own_width == pytest.approx(width, rel=1e-3)
    difference = approximate.to_sparse() - exact.to_sparse()
    assert abs(difference).sum() < 1e-2 * exact.to_sparse().sum()
