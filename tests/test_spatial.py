"""Graphs over pixels and the estimator for images."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from scipy.ndimage import label
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from jplay import JPlayCommittee, SpatialJPlay
from jplay.core.graph import weight_by_features
from jplay.datasets import make_hyperspectral_scene
from jplay.estimators._spatial import _folds_of_places
from jplay.estimators.lifted_chain import supervised_view
from jplay.estimators.stages import StageData
from jplay.numerics.spatial import (
    guided_filter,
    opening_closing_profile,
    restricted,
    smoother,
    sum_of_graphs,
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


def test_graphs_combine():
    a = scipy.sparse.csr_array(np.array([[0, 2.0, 2], [2, 0, 0], [2, 0, 0]]))
    b = scipy.sparse.csr_array(np.array([[0, 3.0, 0], [3, 0, 1], [0, 1, 0]]))
    # scaled to a mean weight of one per edge first
    assert_allclose(sum_of_graphs(a, b).toarray(), a.toarray() / 2 + b.toarray() / 2)
    assert_array_equal(restricted(b, [2, 1]).toarray(), [[0, 1], [1, 0]])
    rows = smoother(a)
    assert_allclose(rows.sum(axis=1), 1)
    assert_allclose(rows.toarray()[0], [0.2, 0.4, 0.4])


def test_edges_are_weighed_by_spectral_distance():
    X = np.array([[0.0], [1.0], [5.0]])
    graph = weight_by_features(window_affinity((1, 3)), X, bandwidth=2.0).toarray()
    assert_allclose(graph[0, 1], np.exp(-1 / 8))
    assert_allclose(graph[1, 2], np.exp(-16 / 8))
    assert graph[0, 2] == 0


def test_guided_filter_equals_the_fits_of_all_windows():
    rng = np.random.default_rng(0)
    maps, guide, radius, ridge = rng.random((7, 8, 2)), rng.random((7, 8)), 1, 0.1
    lines = np.zeros((9, 10, 2, 2))  # slope and offset of the window around each pixel
    padded = [np.pad(a, ((1, 1), (1, 1), (0, 0)), mode="edge") for a in (maps, guide[..., None])]
    for row, column in np.ndindex(7, 8):
        window = (slice(row, row + 3), slice(column, column + 3))
        p, g = padded[0][window].reshape(9, 2), padded[1][window].reshape(9)
        slope = ((g - g.mean()) @ (p - p.mean(axis=0)) / 9) / (g.var() + ridge)
        lines[row + 1, column + 1] = slope, p.mean(axis=0) - slope * g.mean()
    lines = np.pad(lines[1:-1, 1:-1], ((1, 1), (1, 1), (0, 0), (0, 0)), mode="edge")
    for row, column in np.ndindex(7, 8):
        slope, offset = lines[row : row + 3, column : column + 3].mean(axis=(0, 1))
        expected = slope * guide[row, column] + offset
        found = guided_filter(maps, guide, radius, ridge)[row, column]
        assert_allclose(found, expected, atol=1e-12)


def test_guided_filter_keeps_edges_of_the_guide():
    guide = np.repeat([[0.0] * 10 + [1.0] * 10], 20, axis=0)
    noisy = guide + np.random.default_rng(0).normal(scale=0.3, size=guide.shape)
    found = guided_filter(noisy[..., None], guide, 3, 1e-3)[..., 0]
    assert np.abs(found - guide).max() < 0.25
    assert np.abs(found[:, 8:12] - guide[:, 8:12]).mean() < 0.1


def test_profile_removes_what_is_smaller_than_the_disc():
    image = np.zeros((20, 20))
    image[5, 5] = 1.0  # a bright spot, and a dark one
    image[12:18, 12:18] = 1.0
    image[14, 14] = 0.0
    whole, opened, closed = np.moveaxis(opening_closing_profile(image, [1]), 2, 0)
    assert_array_equal(whole, image)
    assert opened[5, 5] == 0
    assert closed[14, 14] == 1
    assert (opened <= image).all()
    assert (closed >= image).all()


@pytest.fixture(scope="module")
def noisy_scene(scene):
    noise = np.random.default_rng(0).normal(scale=0.1, size=scene.cube.shape)
    return np.abs(scene.cube + noise)


def lda():
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")


@pytest.fixture(scope="module")
def mapped(noisy_scene, few_labels):
    model = SpatialJPlay(lda(), radius=2, profile_radii=(1, 3), random_state=0)
    return model.fit(noisy_scene, few_labels[0])


def test_space_adds_to_spectrum(noisy_scene, few_labels, mapped):
    labels, rest = few_labels
    pixels = normalize(noisy_scene.reshape(-1, noisy_scene.shape[2]), norm="max")
    known = labels.ravel() > 0
    spectral = lda().fit(pixels[known], labels.ravel()[known])
    test = rest.ravel() > 0
    before = spectral.score(pixels[test], rest.ravel()[test])
    assert mapped.score(noisy_scene, rest) > before + 0.1


def test_committee_is_the_default_and_reproducible(scene, few_labels):
    labels, rest = few_labels
    model = SpatialJPlay(n_estimators=8, radius=2, calibration_folds=2, random_state=3)
    first = model.fit_predict(scene.cube, labels)
    assert all(isinstance(head, JPlayCommittee) for head in model.models_)
    assert len(model.models_) == 4
    assert np.mean(first[rest > 0] == rest[rest > 0]) > 0.9
    assert_array_equal(clone(model).fit(scene.cube, labels).predict(scene.cube), first)
    assert set(np.unique(first)) <= set(model.classes_)


@pytest.mark.parametrize("filter_radius", [0, 2])
def test_tiles_give_the_map_of_the_whole(noisy_scene, few_labels, monkeypatch, filter_radius):
    model = SpatialJPlay(
        lda(), radius=2, profile_radii=(1, 3), filter_radius=filter_radius, random_state=0
    )
    whole = model.fit(noisy_scene, few_labels[0]).predict_proba(noisy_scene)
    exponent = model.exponent_
    # a part that is passed with the overlap has its map of the whole
    margin = model.overlap_
    rows, columns = slice(20, 40), slice(14, 40)
    part = noisy_scene[rows.start - margin : rows.stop + margin, : columns.stop + margin]
    assert part.shape[0] == 20 + 2 * margin
    found = model.predict_proba(part)[margin:-margin, columns]
    assert_allclose(found, whole[rows, columns], atol=1e-5)
    with monkeypatch.context() as patch:
        patch.setattr("jplay.estimators.scene_inputs._TILE", 23)
        assert_allclose(model.predict_proba(noisy_scene), whole, atol=1e-5)
        second, first = np.moveaxis(np.sort(whole, axis=2)[..., -2:], 2, 0)
        clear = first - second > 1e-4
        assert clear.mean() > 0.99
        expected = model.classes_[whole.argmax(axis=2)]
        assert_array_equal(model.predict(noisy_scene)[clear], expected[clear])
        again = clone(model).fit(noisy_scene, few_labels[0])
        assert again.exponent_ == pytest.approx(exponent)
        assert_allclose(again.predict_proba(noisy_scene), whole, atol=1e-4)


def test_memory_map_is_read_in_place(noisy_scene, mapped, tmp_path):
    np.save(tmp_path / "cube.npy", noisy_scene)
    stored = np.load(tmp_path / "cube.npy", mmap_mode="r")
    assert_array_equal(mapped.predict(stored), mapped.predict(noisy_scene))


@pytest.mark.parametrize("spectra_tell", [True, False])
def test_calibration_leaves_places_out(spectra_tell):
    """Fields whose class their spectra do not tell can be learned by heart, but not elsewhere."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(2, size=(12, 12))
    field = np.ones((6, 6), dtype=int)
    signatures = rng.random((12, 12, 8)) + 0.5
    if spectra_tell:
        signatures[..., 0] += 4 * kinds
    cube = np.kron(signatures, field[..., None]) + rng.normal(scale=0.01, size=(72, 72, 8))
    labels = (np.kron(kinds, field) + 1) * np.kron(rng.integers(2, size=(12, 12)), field)
    model = SpatialJPlay(
        KNeighborsClassifier(1), radius=1, profile_radii=(1,), filter_radius=1, random_state=0
    ).fit(cube, labels)
    assert model.score(cube, labels) > 0.95
    assert (model.exponent_ > 0.9) == spectra_tell
    sure = model.predict_proba(cube)[labels == 0].max(axis=1).mean()
    assert (sure > 0.9) == spectra_tell


@pytest.mark.parametrize("extent", [144, 20])
def test_left_out_places_are_large_and_small(extent):
    rng = np.random.RandomState(0)
    places = np.argwhere(np.ones((extent, extent)))
    y = 1 + (places[:, 1] > extent // 2)
    folds, n_places = _folds_of_places(places, y, 3, rng)
    assert set(folds) == {0, 1, 2}
    assert 12 <= n_places <= len(y) / 2, "small scenes have smaller places, not all of one pixel"
    image = folds.reshape(extent, extent)
    regions = np.concatenate(
        [np.bincount(label(image == fold)[0].ravel())[1:] for fold in range(3)]
    )
    assert regions.max() >= 16 * regions.min(), "small blocks and large ones"
    counts = np.array([[np.sum((folds == f) & (y == c)) for c in (1, 2)] for f in range(3)])
    assert counts.min() > 0.1 * counts.sum(axis=0).max(), "each class is in every fold"


def test_views_of_a_scene_have_unit_variance_within_classes():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 400)
    X = rng.normal(size=(1200, 5)) * [0.1, 0.2, 0.3, 0.4, 0.5] + 3 * rng.random((3, 5))[y]
    view = supervised_view(StageData(X, y), None, within=True)
    Z = X @ view.matrix.T
    means = np.stack([Z[y == k].mean(axis=0) for k in range(3)])
    assert_allclose(np.cov((Z - means[y]).T), np.eye(Z.shape[1]), atol=0.2)
    usual = X @ supervised_view(StageData(X, y), None).matrix.T
    assert np.trace(np.cov((usual - np.stack([usual[y == k].mean(0) for k in range(3)])[y]).T)) < (
        Z.shape[1] - 0.5
    ), "a single J-Play shortens directions in which classes do not differ"


def test_classifier_without_probabilities_votes(noisy_scene, few_labels):
    labels, rest = few_labels
    model = SpatialJPlay(LinearSVC(), radius=2, profile_radii=(1,), random_state=0)
    assert not hasattr(model.estimator, "predict_proba")
    assert model.fit(noisy_scene, labels).score(noisy_scene, rest) > 0.8
    assert_allclose(model.predict_proba(noisy_scene).sum(axis=2), 1, atol=1e-5)


def test_single_class_in_a_block_does_not_stop_calibration(noisy_scene):
    labels = np.zeros(noisy_scene.shape[:2], dtype=int)
    labels[0, :3], labels[0, 3:6] = 1, 2
    model = SpatialJPlay(lda(), radius=1, profile_radii=(), random_state=0)
    probabilities = model.fit(noisy_scene, labels).predict_proba(noisy_scene)
    assert np.isfinite(probabilities).all()


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
    model = SpatialJPlay(lda(), radius=1, profile_radii=()).fit(scene.cube, few_labels[0])
    with pytest.raises(ValueError, match="`cube` should have"):
        model.predict(scene.cube[:, :, :-1])
