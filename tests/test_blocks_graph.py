"""Graphs of many samples: search, quality, blocks."""

import sys

import numpy as np
import pytest

from graphs import gram_error, heat_affinity
from jplay.blocks import HeatGraph, graph_quality, partition_affinity
from jplay.blocks.graph import approximate_neighbors, neighbors
from jplay.numerics.graph import laplacian_gram, nearest_neighbors, neighbor_graph
from jplay.problems.graphs import build_affinity


@pytest.fixture(scope="module")
def X():
    """Samples near a surface of four dimensions in thirty."""
    rng = np.random.default_rng(0)
    surface = np.tanh(rng.standard_normal((4000, 4)) @ rng.standard_normal((4, 30)))
    return surface + 0.05 * rng.standard_normal(surface.shape)


@pytest.fixture
def faiss():
    return pytest.importorskip("faiss")


def recall(found, exact):
    return np.mean([np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)])


def test_approximate_neighbors_are_nearly_exact(X, faiss):
    indices, squared = approximate_neighbors(X, 10)
    exact, _ = nearest_neighbors(X, 10)
    assert recall(indices, exact) > 0.97
    assert not np.any(indices == np.arange(len(X))[:, None])
    assert np.all(np.diff(squared, axis=1) >= 0)
    np.testing.assert_allclose(squared, ((X[indices] - X[:, None]) ** 2).sum(axis=2))


def test_searching_every_cell_is_exact(X, faiss):
    X = X[:500]
    indices, squared = approximate_neighbors(X, 7, n_lists=10, n_probes=10)
    exact, exact_squared = nearest_neighbors(X, 7)
    np.testing.assert_array_equal(indices, exact)
    np.testing.assert_allclose(squared, exact_squared)


def test_duplicates_are_neighbors_of_each_other_and_never_of_themselves(faiss):
    X = np.repeat(np.random.default_rng(0).random((50, 5)), 8, axis=0)
    indices, squared = approximate_neighbors(X, 5, n_lists=5, n_probes=5)
    np.testing.assert_array_equal(squared, 0)
    assert not np.any(indices == np.arange(len(X))[:, None])
    np.testing.assert_array_equal(indices // 8, np.arange(len(X))[:, None] // 8 + 0 * indices)


def test_method_is_chosen_by_the_number_of_samples(X, faiss, monkeypatch):
    monkeypatch.setattr("jplay.blocks.graph.approximate_neighbors", lambda X, k: "approximate")
    assert neighbors(X, 5, "approximate") == "approximate"
    assert len(neighbors(X[:50], 5)) == 2
    monkeypatch.setattr("jplay.blocks.graph.EXACT_UP_TO", 100)
    assert neighbors(X, 5) == "approximate"
    assert len(neighbors(X[:200], 5, "exact")) == 2
    with pytest.raises(ValueError, match="`method` should be one of"):
        neighbors(X, 5, "best")


def test_estimators_search_many_samples_approximately(X, faiss, monkeypatch):
    exact, width = heat_affinity(X, 10)
    monkeypatch.setattr("jplay.blocks.graph.EXACT_UP_TO", 1000)
    affinity, approximate_width = build_affinity(X, HeatGraph())
    assert approximate_width == pytest.approx(width, rel=1e-2)
    assert gram_error(X, affinity, exact) < 0.02


def test_tensors_are_searched_approximately_if_asked_or_many(X, monkeypatch):
    """On the host from 50,000 samples on, on a GPU from two million on."""
    torch = pytest.importorskip("torch")
    asked = []

    def watched(X, n_neighbors, bandwidth, *, approximate):
        asked.append(approximate)
        return neighbor_graph(X, n_neighbors, bandwidth, approximate=approximate)

    monkeypatch.setattr("jplay.problems.graphs.neighbor_graph", watched)
    tensor = torch.asarray(X)
    for method in ("exact", "auto", "approximate"):
        build_affinity(tensor, HeatGraph(method=method))
    assert asked == [False, False, True]
    monkeypatch.setattr("jplay.problems.graphs.EXACT_UP_TO", 1000)
    affinity, width = build_affinity(tensor, HeatGraph())
    assert asked[3:] == [True]
    exact, exact_width = heat_affinity(X, 10)
    assert width == pytest.approx(exact_width, rel=1e-2)
    assert gram_error(X, affinity.to_sparse(), exact) < 0.02
    monkeypatch.setattr("jplay.problems.graphs.in_host_memory", lambda array: False)
    build_affinity(tensor, HeatGraph())
    assert asked[4:] == [False]


def test_without_a_package_the_search_is_exact_and_says_so(X, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setattr("jplay.blocks.graph.EXACT_UP_TO", 1000)
    with pytest.warns(UserWarning, match=r"takes long.*pip install .*\[ann\]'"):
        affinity, _ = build_affinity(X[:1500], HeatGraph())
    assert abs(affinity - heat_affinity(X[:1500], 10)[0]).max() == 0


def test_quality_of_the_exact_graph_is_perfect(X):
    affinity, width = heat_affinity(X, 10)
    quality = graph_quality(X, affinity, 10, bandwidth=width, n_probes=200)
    assert quality.recall == 1
    assert quality.gram_error < 1e-10
    sparse = affinity.copy()
    sparse.data[np.random.default_rng(0).random(sparse.nnz) < 0.4] = 0
    sparse.eliminate_zeros()
    worse = graph_quality(X, sparse, 10, bandwidth=width, n_probes=200)
    assert 0.5 < worse.recall < 0.7
    assert worse.gram_error > 0.1


@pytest.mark.parametrize("overlap", [0, 60])
def test_partition_graph_is_symmetric_and_keeps_to_its_blocks(X, overlap):
    X = X[:600]
    affinity = partition_affinity(X, [200] * 3, HeatGraph(5, bandwidth=1.0, overlap=overlap))
    assert abs(affinity - affinity.T).max() < 1e-15
    rows, columns = affinity.nonzero()
    crossing = rows // 200 != columns // 200
    assert np.any(crossing) == bool(overlap)
    assert np.all(np.abs(rows - columns)[crossing] < 200 + 2 * overlap)
    in_margin = [(ends % 200 < overlap) | (ends % 200 >= 200 - overlap) for ends in (rows, columns)]
    assert np.all(np.any(in_margin, axis=0)[crossing])


def test_overlap_brings_ordered_samples_closer_to_the_whole_graph():
    rng = np.random.default_rng(0)
    path = np.cumsum(rng.standard_normal((600, 6)), axis=0)
    whole, width = heat_affinity(path, 5)
    errors = [
        gram_error(path, partition_affinity(path, [60] * 10, graph), whole)
        for graph in (HeatGraph(5, width), HeatGraph(5, width, overlap=20))
    ]
    assert errors[1] < 0.5 * errors[0]


def test_one_block_is_the_whole_graph(X):
    affinity, width = heat_affinity(X, 10)
    one = partition_affinity(X, [len(X)], HeatGraph(10, bandwidth=width))
    assert abs(one - affinity).max() < 1e-15
    assert laplacian_gram(X, one)[3] == pytest.approx(affinity.sum())
    with pytest.raises(ValueError, match="should have a number for `bandwidth`"):
        partition_affinity(X, [len(X)], HeatGraph())
