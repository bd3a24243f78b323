"""The neighbor graph: brute force, ties, duplicates, far offsets, many samples, blocks."""

import sys

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.neighbors import NearestNeighbors

import core_oracle as oracle
import plain_transcription as plain
from jplay import LPP, FastSolver, HeatGraph, JPlay
from jplay.blocks import graph_quality, partition_affinity


def brute_force(X, n_neighbors):
    """Neighbors by distance and then by position, from differences, and the squared distances."""
    squared = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    order = np.argsort(squared, axis=1, kind="stable")[:, :n_neighbors]
    return order, np.take_along_axis(squared, order, axis=1)


def samples(case):
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
@pytest.mark.parametrize("bandwidth", [1e-3, 0.3, 20.0])
def test_affinity_equals_the_dense_definition(case, n_neighbors, bandwidth):
    X = samples(case)
    affinity = HeatGraph(n_neighbors, bandwidth)(X)
    assert scipy.sparse.issparse(affinity)
    expected = plain.heat_affinity(X, n_neighbors, bandwidth)
    if case == "near duplicates far from the origin":
        assert_allclose(affinity.toarray(), expected, atol=1e-6)
    else:
        assert_allclose(affinity.toarray(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_affinity_is_symmetric_without_self_loops_and_in_the_unit_interval(case):
    dense = HeatGraph(4)(samples(case)).toarray()
    assert_array_equal(dense, dense.T)
    assert_array_equal(np.diag(dense), 0)
    assert dense.min() >= 0
    assert dense.max() <= 1
    assert np.all((dense > 0).sum(axis=1) >= 4)


@settings(max_examples=60, deadline=None)
@given(arrays(np.float64, (12, 2), elements=st.integers(0, 3).map(float)), st.integers(1, 11))
def test_ties_go_to_the_sample_that_comes_first(X, n_neighbors):
    """Lattice points have many ties and exact distances, however they are computed."""
    assert_allclose(
        HeatGraph(n_neighbors, 2.0)(X).toarray(), plain.heat_affinity(X, n_neighbors, 2.0)
    )


@pytest.mark.parametrize("n_features", [1, 2, 4])
@pytest.mark.parametrize("side", [1, 3])
def test_many_ties_go_to_the_sample_that_comes_first(side, n_features):
    """More ties at the last place than a search keeps in reserve."""
    X = np.random.default_rng(0).integers(0, side, (200, n_features)).astype(float)
    assert_allclose(HeatGraph(5, 2.0)(X).toarray(), plain.heat_affinity(X, 5, 2.0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_neighbors_far_from_the_origin_survive_rounding(dtype):
    X = (1e3 + np.random.default_rng(0).normal(size=(100, 3))).astype(dtype)
    expected = plain.heat_affinity(X.astype(np.float64), 5, 0.5)
    assert_allclose(HeatGraph(5, 0.5)(X).toarray(), expected, atol=1e-6)


def test_many_samples_have_the_neighbors_of_a_tree_search():
    """More than are compared at a time."""
    X = np.random.default_rng(0).normal(size=(6000, 3))
    affinity = HeatGraph(6, 0.5)(X)
    distances, indices = NearestNeighbors(n_neighbors=6).fit(X).kneighbors()
    rows = np.repeat(np.arange(len(X)), 6)
    weights = np.exp(-(distances.ravel() ** 2) / 0.5)
    one_way = scipy.sparse.csr_array((weights, (rows, indices.ravel())), shape=affinity.shape)
    assert abs(affinity - one_way.maximum(one_way.T)).max() < 1e-9


def test_duplicates_have_weight_one():
    affinity = HeatGraph(2, 0.1)(samples("duplicates"))
    assert_allclose(affinity.toarray(), np.kron(np.eye(5), 1 - np.eye(3)))


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        (np.array([[0.0], [1.0], [3.0], [7.0]]), None),
        (np.repeat([[0.0], [5.0]], [6, 1], axis=0), "mean"),
        (np.zeros((5, 1)), 1.0),
    ],
    ids=["median", "median zero, so mean", "all zero, so one"],
)
def test_width_is_the_median_distance_to_the_last_neighbor_and_positive(X, expected):
    distances, _ = NearestNeighbors(n_neighbors=2).fit(X).kneighbors()
    width = np.median(distances[:, -1])
    if expected == "mean":
        width = np.sqrt(np.mean(distances[:, -1] ** 2))
        width = [width, distances[:, -1].mean()]
    elif expected is not None:
        width = expected
    found = HeatGraph(2)(X).toarray()
    assert any(np.allclose(found, HeatGraph(2, w)(X).toarray()) for w in np.atleast_1d(width))


def test_affinity_is_equivariant_to_rotation_and_order():
    rng = np.random.default_rng(1)
    X = samples("random")
    rotation = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    order = rng.permutation(len(X))
    affinity = HeatGraph(4)(X).toarray()
    assert_allclose(HeatGraph(4)(X @ rotation).toarray(), affinity, atol=1e-10)
    assert_allclose(HeatGraph(4)(X[order]).toarray(), affinity[np.ix_(order, order)], atol=1e-12)


@pytest.mark.parametrize("scaling", ["standard", "norm", None])
def test_graph_of_a_fit_is_that_of_its_scaled_samples(scaling):
    X, y = oracle.make_classes()
    model = JPlay(2, scaling=scaling, solver=FastSolver(max_iter=2), graph=HeatGraph(4))
    with pytest.warns(UserWarning, match="max_iter"):
        model.fit(X, y)
    S = oracle.scaled(X, scaling)
    width = np.median(np.sqrt(brute_force(S, 4)[1][:, -1]))
    assert model.bandwidth_ == pytest.approx(width, rel=1e-9)
    assert_allclose(model.affinity_.toarray(), plain.heat_affinity(S, 4, width), atol=1e-9)


def test_manifold_term_is_the_sum_of_weighted_squared_differences():
    X, y = oracle.make_classes()
    model = JPlay(2, 2, beta=0.4, graph=HeatGraph(4)).fit(X, y)
    expected = 0.0
    W = model.affinity_.toarray()
    for Z in model.transform_layers(X):
        squared = ((Z[:, None] - Z[None]) ** 2).sum(axis=2)
        expected += 0.5 * 0.4 * 0.5 * np.sum(W * squared)
    assert model.result_.objective_terms[-1].manifold == pytest.approx(expected, rel=1e-8)


# Start: locality preserving projections.


@pytest.mark.parametrize("n_samples", [60, 900])
def test_signs_of_centered_projections_follow_the_weighted_sum(n_samples):
    """Sums of centered features have no sign; sums weighted by the degrees of the graph do."""
    rng = np.random.default_rng(0)
    X = rng.gamma(1.0, size=(n_samples, 6)) ** 1.5
    X -= X.mean(axis=0)
    degrees, clear = None, 0
    for sign in (1, -1):
        model = LPP(5, graph=HeatGraph(8)).fit(sign * X)
        degrees = np.asarray(model.affinity_.sum(axis=1)).ravel()
        Z = (sign * X) @ model.components_.T
        weighted = degrees @ Z / (degrees.mean() * np.sqrt(n_samples) * np.linalg.norm(Z, axis=0))
        decided = np.abs(weighted) > 1e-3
        clear += decided.sum()
        assert (weighted[decided] > 0).all()
    assert clear >= 8


def test_embedding_solves_the_centered_eigenproblem_in_the_range():
    """Also with a constant and a copied feature: within the range of the samples alone."""
    X, _ = oracle.make_classes(50, 5)
    wide = np.column_stack([X, np.full(50, 1.3), X[:, 0] - X[:, 1]])
    model = LPP(5, graph=HeatGraph(5)).fit(wide)
    degrees = np.asarray(model.affinity_.sum(axis=1)).ravel()
    Z = (wide - wide.mean(axis=0)) @ model.components_.T
    gram = Z.T @ (degrees[:, None] * Z)
    smooth = Z.T @ (model.affinity_ @ Z)
    scale = np.sqrt(np.diag(gram))
    # Both forms are diagonal, the quotients fall, and none is larger than the first.
    for form in (gram, smooth):
        relative = form / np.outer(scale, scale)
        assert_allclose(relative - np.diag(np.diag(relative)), 0, atol=1e-6)
    quotients = np.diag(smooth) / np.diag(gram)
    assert (np.diff(quotients) < 1e-9).all()
    directions = np.random.default_rng(0).normal(size=(wide.shape[1], 500))
    others = (wide - wide.mean(axis=0)) @ directions
    tried = np.sum(others * (model.affinity_ @ others), 0) / (degrees @ others**2)
    assert tried.max() <= quotients[0] + 1e-9


# Many samples: approximate search, quality, blocks.


@pytest.fixture(scope="module")
def surface():
    """Samples near a surface of four dimensions in thirty."""
    rng = np.random.default_rng(0)
    points = np.tanh(rng.standard_normal((4000, 4)) @ rng.standard_normal((4, 30)))
    return points + 0.05 * rng.standard_normal(points.shape)


def gram_error(X, affinity, exact):
    """``|X^T (L - L_exact) X| / |X^T L_exact X|``."""

    def gram(W):
        W = scipy.sparse.csr_array(W)
        return X.T @ (W.sum(axis=1)[:, None] * X) - X.T @ (W @ X)

    return np.linalg.norm(gram(affinity) - gram(exact)) / np.linalg.norm(gram(exact))


def test_approximate_graph_is_nearly_the_exact_one(surface):
    pytest.importorskip("faiss")
    exact, approximate = (HeatGraph(method=m)(surface) for m in ("exact", "approximate"))
    assert gram_error(surface, approximate, exact) < 0.02
    width = np.median(NearestNeighbors(n_neighbors=10).fit(surface).kneighbors()[0][:, -1])
    assert graph_quality(surface, approximate, bandwidth=width, n_probes=200).recall > 0.97
    assert_array_equal(approximate.diagonal(), 0)


def test_approximate_search_of_duplicates_finds_no_sample_itself():
    pytest.importorskip("faiss")
    X = np.repeat(np.random.default_rng(0).random((50, 5)), 8, axis=0)
    affinity = HeatGraph(5, 1.0, method="approximate")(X)
    assert_array_equal(affinity.diagonal(), 0)
    rows, columns = affinity.nonzero()
    assert_array_equal(rows // 8, columns // 8)
    assert_allclose(affinity.data, 1)


def test_approximate_search_names_the_package_that_is_missing(surface, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"\[ann\]'"):
        HeatGraph(method="approximate")(surface[:200])


def test_few_samples_are_searched_exactly_without_any_package(surface, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    affinity = HeatGraph(5)(surface[:300])
    assert abs(affinity - HeatGraph(5, method="exact")(surface[:300])).max() == 0


def test_quality_of_the_exact_graph_is_perfect(surface):
    width = 0.5
    affinity = HeatGraph(10, width)(surface)
    quality = graph_quality(surface, affinity, 10, bandwidth=width, n_probes=200)
    assert quality.recall == 1
    assert quality.gram_error < 1e-9
    sparse = affinity.copy()
    sparse.data[np.random.default_rng(0).random(sparse.nnz) < 0.4] = 0
    sparse.eliminate_zeros()
    worse = graph_quality(surface, sparse, 10, bandwidth=width, n_probes=200)
    assert 0.5 < worse.recall < 0.7
    assert worse.gram_error > 0.1


@pytest.mark.parametrize("overlap", [0, 60])
def test_graph_of_blocks_is_symmetric_and_keeps_to_its_blocks(surface, overlap):
    X = surface[:600]
    affinity = partition_affinity(X, [200] * 3, HeatGraph(5, bandwidth=1.0, overlap=overlap))
    assert abs(affinity - affinity.T).max() < 1e-12
    rows, columns = affinity.nonzero()
    crossing = rows // 200 != columns // 200
    assert np.any(crossing) == bool(overlap)
    assert np.all(np.abs(rows - columns)[crossing] < 200 + 2 * overlap)
    in_margin = [(ends % 200 < overlap) | (ends % 200 >= 200 - overlap) for ends in (rows, columns)]
    assert np.all(np.any(in_margin, axis=0)[crossing])


def test_overlap_brings_ordered_samples_closer_to_the_whole_graph():
    rng = np.random.default_rng(0)
    path = np.cumsum(rng.standard_normal((600, 6)), axis=0)
    width = 3.0
    whole = HeatGraph(5, width)(path)
    errors = [
        gram_error(path, partition_affinity(path, [60] * 10, graph), whole)
        for graph in (HeatGraph(5, width), HeatGraph(5, width, overlap=20))
    ]
    assert errors[1] < 0.5 * errors[0]


def test_one_block_is_the_whole_graph_and_needs_a_width(surface):
    X = surface[:500]
    one = partition_affinity(X, [len(X)], HeatGraph(10, bandwidth=0.5))
    assert abs(one - HeatGraph(10, 0.5)(X)).max() < 1e-12
    with pytest.raises(ValueError, match="should have a number for `bandwidth`"):
        partition_affinity(X, [len(X)], HeatGraph())
