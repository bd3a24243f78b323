import numpy as np

from jplay.numerics.lift import landmark_indices


def test_every_class_has_landmarks():
    labels = np.array([0] * 90 + [1] * 5 + [2] * 5)
    chosen = landmark_indices(labels, 12, np.random.default_rng(0))
    assert np.bincount(labels[chosen]).tolist() == [4, 4, 4]
    assert len(set(chosen)) == 12
    assert (np.diff(chosen) > 0).all()
    everyone = landmark_indices(labels, 1000, np.random.default_rng(0))
    assert everyone.tolist() == list(range(100))
