"""The neighbor graph: search, weights, moments, blocks, and the parameter ``graph``."""

import sys
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.neighbors import NearestNeighbors

import plain_transcription as plain
from jplay.core import graph as module
from jplay.core.arrays import to_numpy
from jplay.core.graph import (
    GraphMoments,
    HeatGraph,
    NeighborGraph,
    build_block_graph,
    build_graph,
    choose_bandwidth,
    find_block_neighbors,
    find_neighbors,
    graph_quality,
    heat_graph,
    partition_affinity,
    sum_over_edges,
    weight_by_features,
)
from jplay.core.scaling import TransformedRows
from jplay.exceptions import MissingDependencyError


@pytest.fixture(params=["numpy", "torch", "array_api_strict"])
def asarray(request):
    """Make an array of a library."""
    return pytest.importorskip(request.param).asarray


@pytest.fixture(params=["torch", "array_api_strict"])
def asarray_elsewhere(request):
    return pytest.importorskip(request.param).asarray


@pytest.fixture
def faiss():
    return pytest.importorskip("faiss")


def brute_force_neighbors(X, n_neighbors):
    """Sort by distance and then by index, from differences."""
    squared = ((X[:, None, :].astype(float) - X[None, :, :]) ** 2).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    order = np.argsort(squared, axis=1, kind="stable")[:, :n_neighbors]
    return order, np.take_along_axis(squared, order, axis=1)


def make_surface(n_samples, seed=0):
    """Samples near a surface of four dimensions in thirty."""
    rng = np.random.default_rng(seed)
    surface = np.tanh(rng.standard_normal((n_samples, 4)) @ rng.standard_normal((4, 30)))
    return surface + 0.05 * rng.standard_normal(surface.shape)


def make_samples(case):
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.arange(4.0), np.arange(3.0)), axis=-1).reshape(-1, 2)
    outlier = rng.normal(size=(30, 3))
    outlier[7] = 1e22  # beside it, squares of the others are hardly numbers in single precision
    return {
        "random": rng.normal(size=(40, 5)),
        "ties on a grid": grid,
        "duplicates": np.repeat(rng.normal(size=(5, 3)), 3, axis=0),
        "all equal": np.ones((12, 2)),
        "near duplicates far from the origin": 1e3 + 1e-3 * rng.normal(size=(20, 3)),
        "fewer samples than features": rng.normal(size=(12, 30)),
        "clusters tighter than single precision": np.repeat(rng.normal(size=(4, 3)), 20, axis=0)
        + 1e-9 * rng.normal(size=(80, 3)),
        "one sample far away": outlier,
        "one sample farther away": np.where(outlier > 1e20, 1e30, outlier),
    }[case]


CASES = [
    "random",
    "ties on a grid",
    "duplicates",
    "all equal",
    "near duplicates far from the origin",
    "fewer samples than features",
    "clusters tighter than single precision",
    "one sample far away",
    "one sample farther away",
]


def recall(found, exact):
    return np.mean([np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)])


def gram_error(X, affinity, exact_affinity):
    gram, exact = (sum_over_edges(X, graph).laplacian_gram for graph in (affinity, exact_affinity))
    return np.linalg.norm(gram - exact) / np.linalg.norm(exact)


# Exact search


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n_neighbors", [1, 4, 11])
def test_neighbors_equal_brute_force(asarray, case, n_neighbors):
    X = make_samples(case)
    indices, squares = map(to_numpy, find_neighbors(asarray(X), n_neighbors))
    _, expected = brute_force_neighbors(X, n_neighbors)
    np.testing.assert_allclose(squares, expected, rtol=1e-9, atol=1e-24)
    np.testing.assert_allclose(
        ((X[indices] - X[:, None]) ** 2).sum(axis=2), expected, rtol=1e-9, atol=1e-24
    )
    assert all(len(set(row)) == n_neighbors for row in indices)
    assert not np.any(indices == np.arange(len(X))[:, None])


def test_neighbors_equal_scikit_learn():
    X = make_samples("random")
    reference = NearestNeighbors(n_neighbors=6).fit(X).kneighbors(return_distance=False)
    np.testing.assert_array_equal(find_neighbors(X, 6)[0], reference)


@settings(max_examples=60, deadline=None)
@given(arrays(np.float64, (25, 2), elements=st.integers(0, 3).map(float)), st.integers(1, 11))
def test_ties_go_to_the_sample_that_comes_first(X, n_neighbors):
    """Points of a lattice have many ties, and their distances are exact."""
    expected, _ = brute_force_neighbors(X, n_neighbors)
    np.testing.assert_array_equal(find_neighbors(X, n_neighbors)[0], expected)


@pytest.mark.parametrize("n_features", [1, 2, 4])
@pytest.mark.parametrize("side", [1, 3])
def test_more_ties_than_spare_candidates_go_to_the_sample_that_comes_first(
    asarray, side, n_features
):
    X = np.random.default_rng(0).integers(0, side, (200, n_features)).astype(float)
    expected, _ = brute_force_neighbors(X, 5)
    np.testing.assert_array_equal(to_numpy(find_neighbors(asarray(X), 5)[0]), expected)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e5])
def test_single_precision_samples_far_from_the_origin_lose_no_neighbor(asarray, offset):
    rng = np.random.default_rng(0)
    X = (offset + rng.normal(size=(300, 3))).astype(np.float32)
    expected, _ = brute_force_neighbors(X, 5)
    np.testing.assert_array_equal(to_numpy(find_neighbors(asarray(X), 5)[0]), expected)


def test_many_features_in_single_precision_lose_no_neighbor():
    """The rounding of a product grows with its number of terms; samples differ in few of them."""
    rng = np.random.default_rng(0)
    X = np.tile(np.abs(rng.normal(size=4000)), (60, 1)).astype(np.float32)
    X[30:] *= -1  # far from the mean
    X[:, :40] += 0.1 * rng.normal(size=(60, 40)).astype(np.float32)
    indices, _ = find_neighbors(X, 6)
    for half in (np.arange(30), np.arange(30, 60)):
        expected, _ = brute_force_neighbors(X[half, :40], 6)
        np.testing.assert_array_equal(indices[half], half[expected])


@pytest.mark.parametrize("scale", [1e-100, 1e-30, 1e30, 1e100])
def test_scale_of_samples_does_not_matter(asarray, scale):
    X = make_surface(150)
    exact, squares = brute_force_neighbors(X, 5)
    indices, scaled = map(to_numpy, find_neighbors(asarray(X * scale), 5))
    np.testing.assert_array_equal(indices, exact)
    np.testing.assert_allclose(scaled / scale**2, squares, rtol=1e-9)


@pytest.mark.parametrize("n_samples", [2, 3, 9, 18])
def test_few_samples_have_all_others_as_neighbors(asarray, n_samples):
    X = make_surface(n_samples)
    expected, _ = brute_force_neighbors(X, n_samples - 1)
    found, _ = find_neighbors(asarray(X), n_samples - 1)
    np.testing.assert_array_equal(to_numpy(found), expected)


@pytest.mark.parametrize("case", ["random", "duplicates", "clusters tighter than single precision"])
def test_blocks_do_not_change_the_neighbors(asarray, monkeypatch, case):
    X = asarray(make_samples(case))
    whole = [to_numpy(part) for part in find_neighbors(X, 5)]
    for name in ("HOST_ELEMENTS", "DEVICE_ELEMENTS", "CACHED_ELEMENTS"):
        monkeypatch.setattr(module, name, 100)
    for blocked, expected in zip(find_neighbors(X, 5), whole, strict=True):
        np.testing.assert_array_equal(to_numpy(blocked), expected)


def test_few_copies_of_a_crowd_are_compared(monkeypatch):
    """Two thirds of the samples are equal, as the pixels of a scene without data."""
    X = make_surface(900)
    X[300:] = X[0]
    X = X[np.random.default_rng(0).permutation(900)]
    ranked, rank_candidates = [], module.rank_candidates

    def watch(X, own, candidates, n_neighbors):
        ranked.append(candidates.shape[0] * candidates.shape[1])
        return rank_candidates(X, own, candidates, n_neighbors)

    monkeypatch.setattr(module, "rank_candidates", watch)
    indices, _ = find_neighbors(X, 6)
    np.testing.assert_array_equal(indices, brute_force_neighbors(X, 6)[0])
    assert sum(ranked) < 100 * len(X)


def test_samples_far_from_the_origin_are_compared_once(monkeypatch):
    """Their products round much in single precision, the products of centered samples do not."""
    ranked, rank_candidates = [], module.rank_candidates

    def watch(X, own, candidates, n_neighbors):
        ranked.append(candidates.shape)
        return rank_candidates(X, own, candidates, n_neighbors)

    monkeypatch.setattr(module, "rank_candidates", watch)
    X = 1e5 + make_surface(500)
    np.testing.assert_array_equal(find_neighbors(X, 6)[0], brute_force_neighbors(X, 6)[0])
    assert ranked == [(500, 13)]


def test_samples_of_a_device_are_searched_there():
    """The library rejects every operation on arrays of two devices."""
    xp = pytest.importorskip("array_api_strict")
    device = xp.Device("device1")
    X = make_surface(200)
    X[:30] = X[0]
    graph, _ = heat_graph(xp.asarray(X, device=device), 5)
    assert graph.indices.device == graph.weights.device == device
    np.testing.assert_array_equal(to_numpy(graph.indices), brute_force_neighbors(X, 5)[0])
    moments = sum_over_edges(xp.asarray(X, device=device), graph)
    assert moments.laplacian_gram.device == moments.degree_sum.device == device


def test_memory_of_the_search_is_bounded(monkeypatch):
    """One copy of transformed rows, and blocks; neither all distances nor all differences."""
    monkeypatch.setattr(module, "HOST_ELEMENTS", 2**15)
    X = np.random.default_rng(0).random((1500, 60))
    rows = TransformedRows(X, lambda block: (block - 0.5) * 2)
    tracemalloc.start()
    indices, _ = find_neighbors(rows, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes + 2_500_000  # all distances in single precision are 9 MB
    np.testing.assert_array_equal(indices, find_neighbors((X - 0.5) * 2, 5)[0])


# Approximate search


def test_approximate_neighbors_are_nearly_exact(faiss):
    X = make_surface(4000)
    indices, squares = find_neighbors(X, 10, "approximate")
    exact, _ = find_neighbors(X, 10)
    assert 0.97 < recall(indices, exact) < 1
    assert not np.any(indices == np.arange(len(X))[:, None])
    assert np.all(np.diff(squares, axis=1) >= 0)
    np.testing.assert_allclose(squares, ((X[indices] - X[:, None]) ** 2).sum(axis=2))


def test_approximate_search_of_few_samples_is_exact(faiss):
    """All of 15 cells are searched."""
    X = make_surface(250)
    exact, exact_squares = find_neighbors(X, 7)
    indices, squares = find_neighbors(X, 7, "approximate")
    np.testing.assert_array_equal(indices, exact)
    np.testing.assert_allclose(squares, exact_squares)


def test_approximate_neighbors_of_duplicates_are_duplicates(faiss):
    X = np.repeat(np.random.default_rng(0).random((25, 5)), 8, axis=0)
    indices, squares = find_neighbors(X, 5, "approximate")
    np.testing.assert_array_equal(squares, 0)
    assert not np.any(indices == np.arange(len(X))[:, None])
    np.testing.assert_array_equal(indices // 8, np.repeat(np.arange(len(X))[:, None] // 8, 5, 1))


def test_approximate_search_copies_no_transformed_rows(faiss, monkeypatch):
    monkeypatch.setattr(module, "SEARCHED_ROWS", 200)
    X = np.random.default_rng(0).random((20_000, 6))
    read = []

    def transform(block):
        read.append(len(block))
        return (block - 0.5) * 2

    indices, squares = find_neighbors(TransformedRows(X, transform), 5, "approximate")
    expected, expected_squares = find_neighbors((X - 0.5) * 2, 5, "approximate")
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_allclose(squares, expected_squares)
    assert max(read) <= len(X) // 2  # to find the cells


def test_method_is_chosen_by_the_number_of_samples(monkeypatch):
    X = make_surface(150)
    monkeypatch.setattr(module, "search_approximately", lambda X, n_neighbors: "approximate")
    monkeypatch.setattr(module, "EXACT_UP_TO", 100)
    assert find_neighbors(X, 5) == "approximate"
    assert find_neighbors(X[:50], 5, "approximate") == "approximate"
    assert len(find_neighbors(X[:100], 5)) == len(find_neighbors(X, 5, "exact")) == 2
    with pytest.raises(ValueError, match=r"`method` should be one of .* got 'best'"):
        find_neighbors(X, 5, "best")


def test_arrays_of_other_libraries_are_searched_exactly(asarray_elsewhere, monkeypatch):
    monkeypatch.setattr(module, "EXACT_UP_TO", 100)
    X = make_surface(150)
    exact, _ = brute_force_neighbors(X, 5)
    np.testing.assert_array_equal(to_numpy(find_neighbors(asarray_elsewhere(X), 5)[0]), exact)
    with pytest.raises(ValueError, match=r"`method` should be 'auto' or 'exact' .* not of NumPy"):
        build_graph(asarray_elsewhere(X), asarray_elsewhere(X), HeatGraph(method="approximate"))


def test_without_a_package_the_search_is_exact_and_says_so(monkeypatch):
    X = make_surface(300)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingDependencyError, match=r"pip install .*\[ann\]'"):
        find_neighbors(X, 5, "approximate")
    monkeypatch.setattr(module, "EXACT_UP_TO", 100)
    with pytest.warns(UserWarning, match=r"300 samples takes long.*pip install .*\[ann\]'"):
        indices, _ = find_neighbors(X, 5)
    np.testing.assert_array_equal(indices, find_neighbors(X, 5, "exact")[0])


# Weights


@pytest.mark.parametrize("case", ["random", "fewer samples than features", "ties on a grid"])
@pytest.mark.parametrize("bandwidth", [0.3, 1.0, 20.0])
def test_affinity_equals_the_dense_definition(asarray, case, bandwidth):
    X = make_samples(case)
    affinity, used = heat_graph(asarray(X), 4, bandwidth)
    assert used == bandwidth
    affinity = affinity if scipy.sparse.issparse(affinity) else affinity.to_sparse()
    expected = plain.heat_affinity(X, 4, bandwidth)
    np.testing.assert_allclose(affinity.toarray(), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", CASES)
def test_affinity_is_symmetric_without_self_loops_and_in_the_unit_interval(case):
    affinity, bandwidth = heat_graph(make_samples(case), 4)
    dense = affinity.toarray()
    np.testing.assert_array_equal(dense, dense.T)
    np.testing.assert_array_equal(np.diag(dense), 0)
    assert dense.min() >= 0
    assert dense.max() <= 1
    assert bandwidth > 0
    if not case.startswith("one sample"):  # its weights vanish
        assert np.all((dense > 0).sum(axis=1) >= 4)


def test_duplicates_have_weight_one():
    affinity, _ = heat_graph(make_samples("duplicates"), 2, 0.1)
    np.testing.assert_allclose(affinity.toarray(), np.kron(np.eye(5), 1 - np.eye(3)))


def test_median_bandwidth_is_the_median_distance_to_the_last_neighbor(asarray):
    X = make_samples("random")
    distances, _ = NearestNeighbors(n_neighbors=7).fit(X).kneighbors()
    _, bandwidth = heat_graph(asarray(X), 7)
    assert bandwidth == pytest.approx(np.median(distances[:, -1]), rel=1e-12)


@pytest.mark.parametrize(
    ("positions", "expected"),
    [([0.0, 1.0, 3.0, 6.0], 1.5), ([0.0] * 4 + [4.0], 0.8), ([0.0] * 4, 1.0)],
    ids=["median", "median zero, so mean", "all zero, so one"],
)
def test_median_bandwidth_is_positive_for_duplicates(positions, expected):
    assert heat_graph(np.array(positions)[:, None], 1)[1] == pytest.approx(expected)


def test_affinity_is_equivariant_to_rotation_and_order():
    rng = np.random.default_rng(1)
    X = make_samples("random")
    rotation = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    order = rng.permutation(len(X))
    affinity = heat_graph(X, 4)[0].toarray()
    np.testing.assert_allclose(heat_graph(X @ rotation, 4)[0].toarray(), affinity, atol=1e-12)
    reordered = heat_graph(X[order], 4)[0].toarray()
    np.testing.assert_allclose(reordered, affinity[np.ix_(order, order)], atol=1e-14)


@pytest.mark.parametrize("bandwidth", ["median", 0.7])
def test_weights_by_features_multiply_the_edges(bandwidth):
    rng = np.random.default_rng(0)
    affinity, _ = heat_graph(rng.normal(size=(30, 2)), 4)
    features = rng.normal(size=(30, 3))
    rows, columns = affinity.nonzero()
    distances = np.linalg.norm(features[rows] - features[columns], axis=1)
    width = np.median(distances) if bandwidth == "median" else bandwidth
    expected = affinity.toarray()
    expected[rows, columns] *= np.exp(-(distances**2) / (2 * width**2))
    found = weight_by_features(affinity, features, bandwidth)
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-12)


# Moments


@pytest.mark.parametrize("n_elements", [50, 2**22])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_moments_equal_the_dense_products(asarray, monkeypatch, dtype, n_elements):
    for name in ("HOST_ELEMENTS", "DEVICE_ELEMENTS"):
        monkeypatch.setattr(module, name, n_elements)
    X = np.random.default_rng(2).normal(size=(30, 4)).astype(dtype)
    graph, _ = heat_graph(asarray(X), 5)
    W = (graph if scipy.sparse.issparse(graph) else graph.to_sparse()).toarray()
    degrees = W.sum(axis=1)
    moments = sum_over_edges(asarray(X), graph)
    X = X.astype(np.float64)
    gram = X.T @ plain.graph_laplacian(W) @ X
    np.testing.assert_allclose(to_numpy(moments.laplacian_gram), gram, atol=1e-12)
    np.testing.assert_allclose(to_numpy(moments.degree_gram), X.T @ (degrees[:, None] * X))
    np.testing.assert_allclose(to_numpy(moments.degree_sum), X.T @ degrees, atol=1e-12)
    assert moments.total_degree == pytest.approx(degrees.sum())
    assert "float64" in str(moments.laplacian_gram.dtype)


def test_laplacian_gram_is_the_sum_of_weighted_squared_differences():
    rng = np.random.default_rng(3)
    X, a = rng.normal(size=(15, 3)), rng.normal(size=3)
    affinity, _ = heat_graph(X, 3)
    z = X @ a
    expected = 0.5 * np.sum(affinity.toarray() * (z[:, None] - z[None, :]) ** 2)
    assert a @ sum_over_edges(X, affinity).laplacian_gram @ a == pytest.approx(expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_moments_of_transformed_rows_need_no_copy(monkeypatch, dtype):
    monkeypatch.setattr(module, "HOST_ELEMENTS", 2**15)
    n_samples = 10_000
    X = np.random.default_rng(0).random((n_samples, 40)).astype(dtype)
    half = scipy.sparse.diags_array([np.ones(n_samples - 7)], offsets=[7]).tocsr()
    graph = half + half.T
    rows = TransformedRows(X, lambda block: (block - np.float32(0.5)) * np.float32(2))
    tracemalloc.start()
    moments = sum_over_edges(rows, graph)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    expected = sum_over_edges((X - np.float32(0.5)) * np.float32(2), graph)
    np.testing.assert_allclose(moments.laplacian_gram, expected.laplacian_gram, atol=1e-6)
    np.testing.assert_allclose(moments.degree_gram, expected.degree_gram, atol=1e-6)
    assert peak < 1_000_000  # the samples in single precision are 1.6 MB


def test_moments_of_two_graphs_add_up():
    X = make_samples("random")
    parts = [heat_graph(X, n_neighbors)[0] for n_neighbors in (2, 6)]
    total = sum_over_edges(X, parts[0]) + sum_over_edges(X, parts[1])
    whole = sum_over_edges(X, (parts[0] + parts[1]).tocsr())
    assert isinstance(total, GraphMoments)
    for name in ("laplacian_gram", "degree_gram", "degree_sum", "total_degree"):
        np.testing.assert_allclose(getattr(total, name), getattr(whole, name), atol=1e-12)


# Blocks


def sum_blocks(X, inputs, block_sizes, graph):
    """Moments of samples in blocks, computed as a solver that sees one block at a time does."""
    edges = np.cumsum([0, *block_sizes])
    found = []
    for start, stop in pairwise(edges):
        rows = slice(max(0, start - graph.overlap), stop + graph.overlap)
        own = slice(start - rows.start, stop - rows.start)
        found.append((rows, own, *find_block_neighbors(X[rows], graph)))
    distances, weights = map(np.concatenate, zip(*(part[3] for part in found), strict=True))
    bandwidth = choose_bandwidth(graph.bandwidth, distances, weights)
    moments = [
        sum_over_edges(inputs[rows], build_block_graph(neighbors, bandwidth, own))
        for rows, own, neighbors, _ in found
    ]
    return sum(moments[1:], moments[0]), bandwidth


@pytest.mark.parametrize("overlap", [0, 30, 250])
@pytest.mark.parametrize("block_sizes", [[200] * 3, [1, 350, 4, 245], [600]])
def test_blocks_add_up_to_the_graph_in_memory(block_sizes, overlap):
    X = make_surface(600)
    inputs = np.hstack([X, np.ones((600, 1))])
    graph = HeatGraph(5, overlap=overlap)
    moments, bandwidth = sum_blocks(X, inputs, block_sizes, graph)
    affinity = partition_affinity(X, block_sizes, HeatGraph(5, bandwidth, overlap=overlap))
    whole = sum_over_edges(inputs, affinity)
    for name in ("laplacian_gram", "degree_gram", "degree_sum", "total_degree"):
        np.testing.assert_allclose(getattr(moments, name), getattr(whole, name), atol=1e-9)
    if block_sizes == [600]:
        exact, exact_bandwidth = heat_graph(X, 5)
        assert bandwidth == pytest.approx(exact_bandwidth, rel=1e-2)
        assert moments.total_degree == pytest.approx(exact.sum(), rel=1e-2)


@pytest.mark.parametrize("overlap", [0, 60])
def test_partition_graph_is_symmetric_and_keeps_to_its_blocks(overlap):
    X = make_surface(600)
    affinity = partition_affinity(X, [200] * 3, HeatGraph(5, bandwidth=1.0, overlap=overlap))
    assert abs(affinity - affinity.T).max() < 1e-15
    rows, columns = affinity.nonzero()
    crossing = rows // 200 != columns // 200
    assert np.any(crossing) == bool(overlap)
    assert np.all(np.abs(rows - columns)[crossing] < 200 + 2 * overlap)
    overlaps = [(ends % 200 < overlap) | (ends % 200 >= 200 - overlap) for ends in (rows, columns)]
    assert np.all(np.any(overlaps, axis=0)[crossing])


def test_overlap_brings_ordered_samples_closer_to_the_whole_graph():
    rng = np.random.default_rng(0)
    path = np.cumsum(rng.standard_normal((600, 6)), axis=0)
    whole, bandwidth = heat_graph(path, 5)
    errors = [
        gram_error(path, partition_affinity(path, [60] * 10, graph), whole)
        for graph in (HeatGraph(5, bandwidth), HeatGraph(5, bandwidth, overlap=20))
    ]
    assert errors[1] < 0.5 * errors[0]


def test_one_block_is_the_whole_graph():
    X = make_surface(500)
    affinity, bandwidth = heat_graph(X, 10)
    one = partition_affinity(X, [500], HeatGraph(10, bandwidth=bandwidth))
    assert abs(one - affinity).max() < 1e-15
    with pytest.raises(ValueError, match="should have a number for `bandwidth`"):
        partition_affinity(X, [500], HeatGraph())


def test_common_bandwidth_weighs_blocks_by_their_rows():
    distances, weights = np.array([5.0, 1.0, 2.0]), np.array([1.0, 1.0, 3.0])
    assert choose_bandwidth("median", distances, weights) == 2.0
    assert choose_bandwidth("median", np.array([0.0, 0.0, 4.0]), np.ones(3)) == pytest.approx(4 / 3)
    assert choose_bandwidth("median", np.zeros(3), np.ones(3)) == 1.0
    assert choose_bandwidth(0.3, distances, weights) == 0.3


def test_common_bandwidth_is_the_median_over_all_rows(monkeypatch):
    """Most rows are in the block with short distances, whatever the number of quantiles."""
    monkeypatch.setattr(module, "N_QUANTILES", 21)
    X = make_surface(400)
    X[300:] *= 10
    summaries = [find_block_neighbors(block, HeatGraph(5))[1] for block in (X[:300], X[300:])]
    bandwidth = choose_bandwidth("median", *map(np.concatenate, zip(*summaries, strict=True)))
    squares = [find_neighbors(block, 5)[1][:, -1] for block in (X[:300], X[300:])]
    assert bandwidth == pytest.approx(np.median(np.sqrt(np.concatenate(squares))), rel=0.02)


def test_quality_of_the_exact_graph_is_perfect():
    X = make_surface(1500)
    affinity, bandwidth = heat_graph(X, 10)
    quality = graph_quality(X, affinity, 10, bandwidth=bandwidth, n_probes=200)
    assert quality.recall == 1
    assert quality.gram_error < 1e-10
    assert quality.n_probes == 200
    sparse = affinity.copy()
    sparse.data[np.random.default_rng(0).random(sparse.nnz) < 0.4] = 0
    sparse.eliminate_zeros()
    worse = graph_quality(X, sparse, 10, bandwidth=bandwidth, n_probes=200)
    assert 0.5 < worse.recall < 0.7
    assert worse.gram_error > 0.1


# The parameter `graph`


def test_default_and_heat_graphs_are_of_scaled_samples():
    X = make_samples("random")
    scaled = 3 * X
    expected, expected_bandwidth = heat_graph(scaled, 10)
    affinity, bandwidth = build_graph(X, scaled, None)
    assert abs(affinity - expected).max() == 0
    assert bandwidth == expected_bandwidth
    assert abs(build_graph(X, scaled, HeatGraph(4))[0] - HeatGraph(4)(scaled)).max() == 0


def test_a_function_gets_the_samples_as_passed():
    X = make_samples("random")
    affinity, bandwidth = build_graph(X, 3 * X, lambda samples: heat_graph(samples, 3)[0])
    assert abs(affinity - heat_graph(X, 3)[0]).max() == 0
    assert bandwidth is None


def test_matrices_and_neighbor_lists_are_graphs(asarray_elsewhere):
    X = make_samples("random")
    expected, _ = heat_graph(X, 3)
    lists, _ = heat_graph(asarray_elsewhere(X), 3)
    assert isinstance(lists, NeighborGraph)
    assert lists.shape == (40, 40)
    for given_graph in (expected, expected.toarray(), scipy.sparse.coo_matrix(expected)):
        affinity, bandwidth = build_graph(X, X, given_graph)
        assert isinstance(affinity, scipy.sparse.csr_array)
        assert abs(affinity - expected).max() == 0
        assert bandwidth is None
    assert abs(build_graph(X, X, lists)[0] - expected).max() < 1e-12
    samples = asarray_elsewhere(X)
    assert build_graph(samples, samples, lists) == (lists, None)
    assert build_graph(samples, samples, lambda samples: lists) == (lists, None)
    for wrong in (expected, heat_graph(asarray_elsewhere(X[:20]), 3)[0]):
        with pytest.raises(ValueError, match="a HeatGraph or a NeighborGraph over the 40 samples"):
            build_graph(samples, samples, wrong)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (np.ones((3, 3)), r"`graph` should have shape \(40, 40\).* got \(3, 3\)"),
        (-np.ones((40, 40)), "`graph` should be non-negative, got a smallest weight of -1"),
        (np.zeros((40, 40)), "`graph` should have an edge"),
        (np.triu(np.ones((40, 40)), 1), "`graph` should be symmetric, got a largest difference"),
        (HeatGraph(overlap=5), "`overlap` should be 0 for samples in memory, got 5"),
        (HeatGraph(bandwidth=1e-120), "`bandwidth` should be near the distances .* got 1e-120"),
    ],
)
def test_wrong_graphs_are_rejected(graph, message):
    X = make_samples("random")
    with pytest.raises(ValueError, match=message):
        build_graph(X, X, graph)


def test_vanishing_weights_are_rejected_everywhere(asarray):
    X = asarray(make_samples("random"))
    with pytest.raises(ValueError, match=r"`bandwidth` should be near .* got 1e-09"):
        build_graph(X, X, HeatGraph(bandwidth=1e-9))


def test_more_neighbors_than_samples_are_all_others():
    X = make_samples("random")[:6]
    with pytest.warns(UserWarning, match="`n_neighbors` should be less than 6 .* got 10. All 5"):
        affinity, _ = build_graph(X, X, None)
    assert affinity.nnz == 30
    with pytest.raises(ValueError, match="needs at least 2 samples, got n_samples=1"):
        build_graph(X[:1], X[:1], None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_neighbors": 0}, "`n_neighbors` should be a whole number of at least 1, got 0"),
        ({"n_neighbors": True}, "`n_neighbors` should be a whole number of at least 1, got True"),
        ({"overlap": -1}, "`overlap` should be a whole number of at least 0, got -1"),
        ({"method": "best"}, "`method` should be one of .* got 'best'"),
        ({"bandwidth": -1.0}, "`bandwidth` should be 'median' or above 0, got -1.0"),
        ({"bandwidth": np.inf}, "`bandwidth` should be 'median' or above 0, got inf"),
        ({"bandwidth": 1e-200}, "`bandwidth` should be between 1e-150 and 1e150, got 1e-200"),
    ],
)
def test_wrong_settings_are_rejected(settings, message):
    with pytest.raises(ValueError, match=message):
        HeatGraph(**settings)
