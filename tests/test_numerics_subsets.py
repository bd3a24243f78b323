import numpy as np
import pytest
from numpy.testing import assert_array_equal

from jplay.numerics.subsets import class_folds, supervised_subset_sizes, surest_of_each_class


@pytest.mark.parametrize("n_samples", [2, 30, 700, 10**6])
@pytest.mark.parametrize("n_features", [1, 5, 64, 2580])
def test_sizes_are_possible_and_the_first_three_spare_samples(n_samples, n_features):
    sizes = supervised_subset_sizes(n_samples, n_features)
    assert len(sizes) == 5
    assert all(1 <= size <= n_features for size in sizes)
    assert sizes[:3] == sorted(sizes[:3])
    assert all(size <= max(6, n_samples / 4, 1) for size in sizes[:3])
    assert sizes[-1] == n_features


def test_folds_hold_every_class_evenly():
    labels = np.array([0] * 23 + [1] * 4 + [2])
    folds = class_folds(labels, 5, np.random.default_rng(0))
    counts = np.array([np.bincount(folds[labels == k], minlength=5) for k in range(3)])
    assert set(counts[0]) == {4, 5}
    assert set(counts[1]) == {0, 1}
    assert counts[2].sum() == 1


def test_small_classes_do_not_share_their_folds():
    labels = np.arange(200)
    counts = np.bincount(class_folds(labels, 5, np.random.default_rng(0)), minlength=5)
    assert counts.min() > 20


def test_surest_samples_of_each_class_are_drawn():
    confidence = np.array([0.6, 0.9, 0.7, 0.8, 0.55, 0.95])
    labels = np.array([0, 0, 0, 0, 1, 1])
    rng = np.random.default_rng(0)
    assert_array_equal(surest_of_each_class(labels, confidence, 10, rng), [1, 3, 5])
    assert len(surest_of_each_class(labels, confidence, 1, rng)) == 2
