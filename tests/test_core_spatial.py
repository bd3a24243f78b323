"""Calibration of maps: places left out as a whole, and how far few of them may move it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.neighbors import KNeighborsClassifier

from jplay import SpatialJPlay


def fields_of(n_fields, side, *, spectra_tell, seed=0):
    """A scene of square fields; half of them are labeled, each with one of two classes."""
    rng = np.random.default_rng(seed)
    shape = (n_fields, n_fields)
    kinds, field = rng.integers(2, size=shape), np.ones((side, side), dtype=int)
    signatures = rng.random((*shape, 8)) + 0.5
    if spectra_tell:
        signatures[..., 0] += 4 * kinds
    cube = np.kron(signatures, field[..., None])
    cube += rng.normal(scale=0.01, size=cube.shape)
    known = np.kron(rng.integers(2, size=shape), field)
    return cube, (np.kron(kinds, field) + 1) * known


def nearest():
    return SpatialJPlay(
        KNeighborsClassifier(1), radius=1, profile_radii=(1,), filter_radius=1, random_state=0
    )


@pytest.mark.parametrize(("n_fields", "side"), [(8, 5), (12, 6)])
@pytest.mark.parametrize("spectra_tell", [True, False])
def test_small_scenes_are_calibrated_by_places_as_large_ones_are(n_fields, side, spectra_tell):
    """Fields whose class their spectra do not tell are known by heart, but not elsewhere."""
    cube, labels = fields_of(n_fields, side, spectra_tell=spectra_tell)
    model = nearest().fit(cube, labels)
    assert model.score(cube, labels) > 0.9
    assert (model.exponent_ > 0.85) == spectra_tell


@pytest.mark.parametrize("side", [18, 24])
def test_places_of_a_small_scene_are_small(side):
    """Two classes side by side: a place that held one of them whole would make it unknown."""
    rng = np.random.default_rng(0)
    labels = np.ones((side, side), dtype=int)
    labels[:, side // 2 :] = 2
    cube = rng.random((side, side, 6))
    cube[..., 0] += 3 * (labels == 2)
    labels[::2] = 0
    exponents = [
        nearest().set_params(random_state=seed).fit(cube, labels).exponent_ for seed in range(3)
    ]
    assert np.mean(exponents) > 1.1


def test_few_places_hardly_move_the_power():
    """With eight pixels that are all right, or all wrong, it stays near that of the classifier."""
    rng = np.random.default_rng(0)
    cube, labels = rng.random((12, 12, 5)), np.zeros((12, 12), dtype=int)
    labels[::6, ::6], labels[3::6, 3::6] = 1, 2
    for shift in (0.0, 5.0):
        cube[labels == 2] += shift
        assert 0.3 < nearest().fit(cube, labels).exponent_ < 3.2


def test_the_power_leaves_the_order_of_the_classes():
    cube, labels = fields_of(8, 5, spectra_tell=False)
    model = nearest().fit(cube, labels)
    probabilities = model.predict_proba(cube)
    assert_allclose(probabilities.sum(axis=2), 1, atol=1e-5)
    found = model.classes_[probabilities.argmax(axis=2)]
    assert np.mean(found == model.predict(cube)) > 0.995
