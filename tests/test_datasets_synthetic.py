import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from jplay.datasets import fingerprint, load_digits, load_wine, make_hyperspectral_scene


@pytest.fixture(scope="module")
def scene():
    return make_hyperspectral_scene(50, 70, n_bands=80, n_classes=5, n_endmembers=7, random_state=0)


def test_scene_is_the_linear_mixture_it_claims_to_be(scene):
    clean = scene.illumination[..., np.newaxis] * (
        scene.abundances @ (scene.endmembers * scene.transmission)
    )
    noise = scene.cube - clean
    assert noise.std() == pytest.approx(scene.noise_std, rel=0.01)
    assert abs(noise.mean()) < 5 * scene.noise_std / np.sqrt(noise.size)
    snr_db = 10 * np.log10(np.mean(clean**2) / np.mean(noise**2))
    assert snr_db == pytest.approx(30.0, abs=0.1)


def test_scene_without_noise_is_exact_and_of_rank_n_endmembers():
    scene = make_hyperspectral_scene(30, 30, n_classes=4, snr_db=None, random_state=1)
    expected = scene.illumination[..., np.newaxis] * (
        scene.abundances @ (scene.endmembers * scene.transmission)
    )
    np.testing.assert_allclose(scene.cube, expected, rtol=1e-12)
    assert np.linalg.matrix_rank(scene.cube.reshape(900, -1), tol=1e-8) == 4
    assert scene.noise_std == 0.0


def test_abundances_lie_in_the_simplex_and_decide_the_labels(scene):
    assert scene.abundances.min() >= 0
    np.testing.assert_allclose(scene.abundances.sum(axis=-1), 1.0)
    labelled = scene.ground_truth > 0
    dominant = scene.abundances.argmax(axis=-1) + 1
    np.testing.assert_array_equal(scene.ground_truth[labelled], dominant[labelled])
    assert scene.abundances.max(axis=-1)[labelled].min() >= 0.5
    assert 0.5 < labelled.mean() < 1.0


def test_labels_have_spatial_structure(scene):
    truth = scene.ground_truth
    both = (truth[:, 1:] > 0) & (truth[:, :-1] > 0)
    assert np.mean(truth[:, 1:][both] == truth[:, :-1][both]) > 0.95
    shuffled = np.random.default_rng(0).permutation(truth[truth > 0])
    assert np.mean(shuffled[1:] == shuffled[:-1]) < 0.5


def test_absorption_bands_hold_little_but_noise(scene):
    at_water = np.abs(scene.wavelengths[:, np.newaxis] - [1400.0, 1900.0]).min(axis=1) < 20
    assert scene.absorption_bands[at_water].all()
    assert not scene.absorption_bands[scene.wavelengths < 1200].any()
    level = scene.data.mean(axis=0)
    assert level[at_water].max() < 0.3 * np.median(level)
    dry = make_hyperspectral_scene(20, 20, absorption_depth=0.0, label_purity=0.3, split=None)
    assert not dry.absorption_bands.any()


def test_scene_fields_fit_together(scene):
    flat = scene.cube.reshape(-1, 80)
    np.testing.assert_array_equal(scene.data, flat[scene.pixel_indices])
    np.testing.assert_array_equal(scene.target, scene.ground_truth[scene.ground_truth > 0])
    np.testing.assert_array_equal(
        np.flatnonzero(scene.train_map), scene.pixel_indices[scene.train_indices]
    )
    np.testing.assert_array_equal(scene.train_map + scene.test_map, scene.ground_truth)
    assert set(scene.target) == {1, 2, 3, 4, 5}
    assert len(scene.target_names) == 5


def test_scene_depends_on_the_seed_alone():
    first, again, other = (
        make_hyperspectral_scene(24, 24, n_classes=3, random_state=seed) for seed in (7, 7, 8)
    )
    np.testing.assert_array_equal(first.cube, again.cube)
    np.testing.assert_array_equal(first.train_indices, again.train_indices)
    assert not np.array_equal(first.ground_truth, other.ground_truth)


def test_scene_keeps_float32():
    scene = make_hyperspectral_scene(24, 24, n_classes=3, dtype=np.float32, random_state=0)
    assert scene.cube.dtype == scene.data.dtype == np.float32
    exact = make_hyperspectral_scene(24, 24, n_classes=3, random_state=0)
    np.testing.assert_allclose(scene.cube, exact.cube, atol=1e-5)


def test_similar_materials_are_harder_to_tell_apart():
    score = {}
    for similarity in (0.2, 0.9):
        scene = make_hyperspectral_scene(
            similarity=similarity, mixing=0.4, random_state=0, label_purity=0.4
        )
        train, test = scene.train_indices, scene.test_indices
        nearest = KNeighborsClassifier(1).fit(scene.data[train], scene.target[train])
        score[similarity] = nearest.score(scene.data[test], scene.target[test])
    assert score[0.9] < score[0.2] - 0.05


def test_scene_of_the_layout_of_houston_at_reduced_height():
    scene = make_hyperspectral_scene(
        40,
        1905,
        n_bands=144,
        n_classes=15,
        wavelength_range=(380.0, 1050.0),
        split="spatial",
        dtype=np.float32,
        random_state=0,
    )
    assert scene.cube.shape == (40, 1905, 144)
    assert set(scene.target) == set(range(1, 16))
    assert set(scene.target[scene.train_indices]) == set(range(1, 16))
    assert not scene.absorption_bands.any()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n_endmembers": 3}, "`n_endmembers` should be an integer of at least 6, got 3"),
        ({"n_regions": 2}, "`n_regions` should be an integer of at least 6"),
        ({"height": 3, "width": 3}, "`n_regions` should be at most the number of pixels"),
        ({"mixing": 1.0}, "`mixing` should be a fraction"),
        ({"similarity": -0.1}, "`similarity` should be a fraction"),
        ({"absorption_depth": 2}, "`absorption_depth` should be a fraction"),
        ({"blur": -1}, "`blur` should be at least 0"),
        ({"wavelength_range": (900.0, 400.0)}, "`wavelength_range` should be two rising"),
        ({"dtype": int}, "`dtype` should be a floating-point type, got int64"),
        ({"n_bands": 1}, "`n_bands` should be an integer of at least 2"),
        ({"label_purity": 1.0}, "`label_purity` should leave pixels of every class"),
        ({"split": "fixed"}, "`split` should be"),
    ],
)
def test_scene_refuses_bad_parameters(kwargs, message):
    with pytest.raises(ValueError, match=message):
        make_hyperspectral_scene(**kwargs)


@pytest.mark.parametrize(("load", "shape"), [(load_digits, (1797, 64)), (load_wine, (178, 13))])
def test_embedded_sets_need_no_file(load, shape, tmp_path, monkeypatch):
    monkeypatch.setenv("JPLAY_DATA", str(tmp_path / "absent"))
    bunch = load(dtype=np.float32)
    assert bunch.data.shape == shape
    assert bunch.data.dtype == np.float32
    both = np.concatenate([bunch.train_indices, bunch.test_indices])
    np.testing.assert_array_equal(np.sort(both), np.arange(shape[0]))
    X, y = load(return_X_y=True)
    assert X.shape == shape
    assert y.shape == shape[:1]


def test_digits_come_as_images_too():
    digits = load_digits()
    np.testing.assert_array_equal(digits.images[4].ravel(), digits.data[4])


def test_fingerprint_tells_content_and_division_apart():
    digits = load_digits()
    name = fingerprint(digits)
    assert len(name) == 64
    assert fingerprint(load_digits(dtype=np.float32)) == name
    changed = load_digits()
    changed.data[0, 0] += 1
    assert fingerprint(changed) != name
    assert fingerprint(load_digits(random_state=1)) != name
    undivided = load_digits()
    undivided.train_indices = undivided.test_indices = None
    assert fingerprint(undivided) != name
