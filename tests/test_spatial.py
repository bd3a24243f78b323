"""Graphs over pixels and the estimator for images."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from jplay import JPlay, SpatialJPlay
from jplay.datasets import make_hyperspectral_scene
from jplay.numerics.graph import weighted_by_features
from jplay.numerics.spatial import (
    leading_channels,
    product_of_graphs,
    restricted,
    smoother,
    sum_of_graphs,
    superpixel_affinity,
    superpixels,
    window_affinity,
)


@pytest.fixture(scope="module")
def scene():
    return make_hyperspectral_scene(random_state=0)


@pytest.fixture(scope="module")
def few_labels(scene):
    """Eight labelled pixels per class, and the map of the others."""
    rng = np.random.default_rng(0)
    labels = np.zeros_like(scene.ground_truth)
    for k in np.unique(scene.ground_truth[scene.ground_truth > 0]):
        members = np.flatnonzero(scene.ground_truth == k)
        labels.ravel()[rng.permutation(members)[:8]] = k
    return labels, np.where(labels > 0, 0, scene.ground_truth)


@pytest.mark.parametrize(
    ("shape", "radius"), [((5, 7), 1), ((5, 7), 2), ((3, 2), 6), ((1, 4), 2), ((1, 1), 2)]
)
def test_window_joins_exactly_the_pixels_within_reach(shape, radius):
    graph = window_affinity(shape, radius).toarray()
    places = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
    reach = np.abs(places[:, None] - places[None]).max(axis=2)
    assert_array_equal(graph, (reach <= radius) & (reach > 0))


def test_window_weights_decay_with_distance():
    graph = window_affinity((4, 4), 2, decay=1.5).toarray()
    assert_allclose(graph[0, 1], np.exp(-1 / 4.5))
    assert_allclose(graph[0, 10], np.exp(-8 / 4.5))
    assert_array_equal(graph, graph.T)


def test_superpixel_graph_stays_within_regions():
    labels = np.repeat([[0, 0, 1, 1]], 4, axis=0)
    graph = superpixel_affinity(labels, radius=3)
    rows, columns = graph.tocoo().coords
    assert (labels.ravel()[rows] == labels.ravel()[columns]).all()
    assert graph.nnz == 2 * 8 * 7


def test_superpixels_follow_the_scene():
    pytest.importorskip("skimage")
    rng = np.random.default_rng(0)
    cube = np.zeros((30, 30, 5))
    cube[:, 15:] = [1.0, 0.5, 0.2, 0.1, 0.9]
    cube += 0.01 * rng.random(cube.shape)
    labels = superpixels(cube, 8)
    assert labels.shape == (30, 30)
    left, right = set(labels[:, :13].ravel()), set(labels[:, 17:].ravel())
    assert not left & right


def test_superpixels_without_scikit_image_say_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "skimage.segmentation", None)
    with pytest.raises(ImportError, match=r"jplay\[spatial\]"):
        superpixels(np.random.default_rng(0).random((4, 4, 3)))


def test_graphs_combine():
    a = scipy.sparse.csr_array(np.array([[0, 2.0, 2], [2, 0, 0], [2, 0, 0]]))
    b = scipy.sparse.csr_array(np.array([[0, 3.0, 0], [3, 0, 1], [0, 1, 0]]))
    assert_array_equal(product_of_graphs(a, b).toarray(), a.toarray() * b.toarray())
    # scaled to a mean weight of one per edge first
    assert_allclose(
        sum_of_graphs(a, b, weights=(1, 4)).toarray(), a.toarray() / 2 + 4 * b.toarray() / 2
    )
    assert_array_equal(restricted(b, [2, 1]).toarray(), [[0, 1], [1, 0]])
    rows = smoother(a)
    assert_allclose(rows.sum(axis=1), 1)
    assert_allclose(rows.toarray()[0], [0.2, 0.4, 0.4])


def test_edges_are_weighed_by_spectral_distance():
    X = np.array([[0.0], [1.0], [5.0]])
    graph = weighted_by_features(window_affinity((1, 3)), X, bandwidth=2.0).toarray()
    assert_allclose(graph[0, 1], np.exp(-1 / 8))
    assert_allclose(graph[1, 2], np.exp(-16 / 8))
    assert graph[0, 2] == 0


def test_leading_channels_keep_relative_scale():
    cube = np.random.default_rng(0).random((6, 5, 4)) * [10, 1, 1, 1]
    channels = leading_channels(cube)
    assert channels.shape == (6, 5, 3)
    assert channels.min() == 0
    assert channels.max() == 1
    assert np.ptp(channels[..., 0]) > 3 * np.ptp(channels[..., 1])


@pytest.mark.parametrize("head", ["neighbors", "model"])
def test_space_adds_to_spectrum(scene, few_labels, head):
    labels, rest = few_labels
    spectral = SpatialJPlay(
        radius=1, edge_width=0.01, smooth_features=False, n_unlabelled=0, head=head
    )
    spatial = SpatialJPlay(radius=2, n_unlabelled=200, head=head, random_state=0)
    noise = np.random.default_rng(0).normal(scale=0.1, size=scene.cube.shape)
    noisy = np.abs(scene.cube + noise)
    before = spectral.fit(noisy, labels).score(noisy, rest)
    assert spatial.fit(noisy, labels).score(noisy, rest) > before + 0.02


def test_one_call_equals_two_and_is_reproducible(scene, few_labels):
    labels, _ = few_labels
    model = SpatialJPlay(radius=2, n_unlabelled=100, random_state=3)
    first = model.fit_predict(scene.cube, labels)
    assert first.shape == labels.shape
    assert_array_equal(model.predict(scene.cube), first)
    assert_array_equal(clone(model).fit(scene.cube, labels).predict(scene.cube), first)
    assert set(np.unique(first)) <= set(model.classes_)
    assert model.transform(scene.cube).shape[:2] == labels.shape


def test_estimator_and_superpixels_are_used(scene, few_labels):
    pytest.importorskip("skimage")
    labels, _ = few_labels
    model = SpatialJPlay(
        JPlay(n_layers=2, n_components=6), radius=2, n_segments=40, n_unlabelled=50, random_state=0
    ).fit(scene.cube.astype(np.float32), labels)
    assert model.model_.layer_sizes_[-1] == 6
    features = model.transform(scene.cube.astype(np.float32))
    assert features.shape[2] == 6
    assert features.dtype == np.float32
    # the graph does not leave the superpixels
    whole = SpatialJPlay(radius=2)._graph(scene.cube)
    assert model.graph_.nnz < whole.nnz


@pytest.mark.parametrize(
    ("cube", "labels", "message"),
    [
        (np.ones((4, 4)), np.ones((4, 4), int), r"`cube` should have shape \(height"),
        (np.ones((4, 4, 2)), np.ones((4, 3), int), r"`labels` should have shape \(4, 4\)"),
        (np.ones((4, 4, 2)), np.zeros((4, 4), int), "`labels` should hold classes as integers"),
        (np.full((4, 4, 2), np.nan), np.ones((4, 4), int), "`cube` should hold finite values"),
    ],
)
def test_bad_images_are_refused(cube, labels, message):
    with pytest.raises(ValueError, match=message):
        SpatialJPlay().fit(cube, labels)


def test_other_sensor_is_refused(scene, few_labels):
    model = SpatialJPlay(radius=1, n_unlabelled=0).fit(scene.cube, few_labels[0])
    with pytest.raises(ValueError, match="`cube` should have"):
        model.predict(scene.cube[:, :, :-1])
