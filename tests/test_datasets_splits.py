import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from jplay.datasets import (
    RepeatedPerClassSplit,
    SpatialBlockSplit,
    connected_fields,
    draw_per_class,
    split_per_class,
    stratified_folds,
)


@settings(max_examples=50)
@given(st.lists(st.integers(16, 300), min_size=1, max_size=6), st.integers(0, 2**31 - 1))
def test_split_per_class_draws_the_agreed_numbers(sizes, seed):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    train, test = split_per_class(y, n_train=50, random_state=seed)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(y.size))
    wanted = [50 if size >= 100 else 15 for size in sizes]
    np.testing.assert_array_equal(np.bincount(y[train]), wanted)


def test_split_per_class_depends_on_the_seed_alone():
    y = np.repeat([1, 2], 200)
    first, again, other = (split_per_class(y, random_state=seed)[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_split_per_class_draws_every_sample_equally_often():
    y = np.repeat([1, 2], 20)
    rng = np.random.RandomState(0)
    times = np.zeros(40)
    for _ in range(400):
        times[split_per_class(y, 5, small=None, random_state=rng)[0]] += 1
    # Each count is binomial(400, 1/4): mean 100, standard deviation 8.7.
    assert abs(times - 100).max() < 40


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (
            {"y": np.repeat([1, 2], [100, 100]), "n_train": 100},
            "`n_train` should be smaller .* class",
        ),
        ({"y": np.repeat([1, 2], [100, 15])}, "`small` should be smaller .* 15 samples"),
        ({"y": np.ones(200), "n_train": 0}, "`n_train` should be an integer of at least 1, got 0"),
        ({"y": np.ones(200), "n_train": 2.5}, "`n_train` should be an integer"),
        ({"y": np.ones((2, 2))}, "`y` should be one-dimensional"),
    ],
)
def test_split_per_class_refuses_what_it_cannot_draw(kwargs, message):
    with pytest.raises(ValueError, match=message):
        split_per_class(**kwargs)


def test_draw_per_class_takes_small_classes_whole():
    y = np.random.default_rng(0).permutation(np.repeat(["a", "b", "c"], [40, 12, 3]))
    drawn = draw_per_class(y, 10, random_state=0)
    assert np.unique(y[drawn], return_counts=True)[1].tolist() == [10, 10, 3]
    np.testing.assert_array_equal(drawn, np.unique(drawn))


def test_draw_per_class_takes_a_share_and_at_least_one():
    y = np.repeat([0, 1, 2], [50, 10, 1])
    drawn = draw_per_class(y, 0.3, random_state=0)
    assert np.bincount(y[drawn]).tolist() == [15, 3, 1]
    Y = np.eye(3, dtype=int)[y]
    assert draw_per_class(Y, 0.5, random_state=0).size == round(0.5 * len(Y))


def test_draws_of_equal_numbers_are_the_training_samples_of_a_split():
    y = np.repeat(np.arange(5), 30)
    train, test = split_per_class(y, 7, small=None, random_state=4)
    np.testing.assert_array_equal(draw_per_class(y, 7, random_state=4), train)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(y.size))


@pytest.mark.parametrize("size", [0, -3, 0.0, 1.5, True])
def test_draw_per_class_refuses_a_size_that_is_none(size):
    with pytest.raises(ValueError, match="`size` should be"):
        draw_per_class([0, 1], size)


def test_stratified_folds_hold_their_share_of_classes_and_of_labels():
    y = np.repeat(np.arange(3), [12, 8, 4])
    folds = list(stratified_folds(y, 4, random_state=0).split(y, y))
    assert all(np.bincount(y[test]).tolist() == [3, 2, 1] for _, test in folds)
    Y = np.eye(3, dtype=int)[y]
    folds = list(stratified_folds(Y, 4, random_state=0).split(Y, Y))
    assert all(Y[test].sum(axis=0).tolist() == [3, 2, 1] for _, test in folds)


@pytest.mark.parametrize("cv", [1, 5])
def test_stratified_folds_refuse_more_folds_than_the_smallest_class_has_samples(cv):
    with pytest.raises(ValueError, match="`cv` should be from 2 to 4"):
        stratified_folds(np.repeat(np.arange(2), [12, 4]), cv)


def test_repeated_splits_work_as_cv():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 30)
    X = rng.standard_normal((120, 3)) + 3 * y[:, np.newaxis]
    cv = RepeatedPerClassSplit(10, random_state=0)
    scores = cross_val_score(KNeighborsClassifier(1), X, y, cv=cv)
    assert scores.shape == (10,)
    assert scores.mean() > 0.8
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 3]}, cv=cv).fit(X, y)
    assert search.n_splits_ == 10


def test_repeated_splits_differ_among_themselves_and_repeat_as_a_whole():
    y = np.repeat(np.arange(3), 40)
    cv = RepeatedPerClassSplit(10, n_repeats=4, random_state=3)
    first = [train.tolist() for train, _ in cv.split(y, y)]
    assert first == [train.tolist() for train, _ in cv.split(y, y)]
    assert len({tuple(train) for train in first}) == 4
    assert "n_train=10" in repr(cv)


def patchy_map(seed, shape=(60, 50), n_classes=4):
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, n_classes + 1, (shape[0] // 5, shape[1] // 5))
    return np.kron(coarse, np.ones((5, 5), dtype=int))


@pytest.mark.parametrize("buffer", [0, 1, 3])
@pytest.mark.parametrize("block_size", [7, 10])
def test_spatial_split_keeps_training_away_from_test_pixels(buffer, block_size):
    ground_truth = patchy_map(0)
    places = np.argwhere(ground_truth)
    cv = SpatialBlockSplit(ground_truth, 4, block_size=block_size, buffer=buffer, random_state=0)
    tested, n_dropped = [], 0
    for train, test in cv.split(places):
        distance = cdist(places[train], places[test], "chebyshev")
        assert distance.min() > buffer
        # Nothing is dropped without need: all other pixels are used.
        dropped = np.setdiff1d(np.arange(len(places)), np.concatenate([train, test]))
        if dropped.size:
            assert cdist(places[dropped], places[test], "chebyshev").min(axis=1).max() <= buffer
        n_dropped += dropped.size
        tested.append(test)
    assert (n_dropped > 0) == (buffer > 0)
    np.testing.assert_array_equal(np.sort(np.concatenate(tested)), np.arange(len(places)))


def test_spatial_split_never_divides_a_block_and_spreads_the_classes():
    ground_truth = patchy_map(1, shape=(120, 120))
    cv = SpatialBlockSplit(ground_truth, 3, block_size=10, shift=(0, 0), random_state=0)
    fold_map = cv.fold_map()
    blocks = fold_map.reshape(12, 10, 12, 10).swapaxes(1, 2).reshape(144, 100)
    assert (blocks == blocks[:, :1]).all()
    for label in range(1, 5):
        share = np.bincount(fold_map[ground_truth == label], minlength=3)
        assert share.min() > 0.8 * share.max()


def same_partition(one, other):
    """Whether two fold maps divide an image alike, whatever the numbers of the folds."""
    return len(np.unique(one * 100 + other)) == len(np.unique(one))


@pytest.mark.parametrize("units", ["blocks", "fields"])
def test_seeds_move_the_partition(units):
    ground_truth = patchy_map(3, shape=(60, 60))

    def partition(seed):
        return SpatialBlockSplit(ground_truth, 2, units=units, random_state=seed).fold_map()

    maps = [partition(seed) for seed in range(6)]
    for one, other in itertools.combinations(maps, 2):
        assert not same_partition(one[ground_truth > 0], other[ground_truth > 0])
    np.testing.assert_array_equal(maps[0], partition(0))


def test_given_shift_places_the_grid():
    ground_truth = patchy_map(3)
    cv = SpatialBlockSplit(ground_truth, 2, block_size=10, shift=(3, 4), random_state=0)
    inner = cv.fold_map()[7:57, 6:46]  # blocks begin at row 10 - 3 and column 10 - 4
    blocks = inner.reshape(5, 10, 4, 10).swapaxes(1, 2).reshape(20, 100)
    assert (blocks == blocks[:, :1]).all()
    assert len(np.unique(blocks[:, 0])) == 2


def test_fields_and_polygons_stay_whole():
    ground_truth = patchy_map(4)
    fields = connected_fields(ground_truth)
    polygons = np.arange(60)[:, None] // 6 * 100 + np.arange(50) // 25
    for units, groups in (("fields", fields), (polygons, polygons)):
        cv = SpatialBlockSplit(ground_truth, 3, units=units, random_state=1)
        members = groups[ground_truth > 0]
        for train, test in cv.split():
            assert not np.intersect1d(members[train], members[test]).size


@pytest.mark.parametrize("seed", range(5))
def test_small_class_is_on_both_sides_if_blocks_can_divide_it(seed):
    ground_truth = patchy_map(5, shape=(40, 40))
    ground_truth[ground_truth == 4] = 0
    ground_truth[20:22, 20:23] = 4
    y = ground_truth[ground_truth > 0]
    cv = SpatialBlockSplit(ground_truth, 2, block_size=8, random_state=seed)
    for train, test in cv.split():
        assert set(y[train]) == set(y[test]) == {1, 2, 3, 4}


def test_missing_class_is_named():
    ground_truth = patchy_map(5, shape=(40, 40))
    ground_truth[ground_truth == 4] = 0
    ground_truth[20:22, 20:23] = 4
    cv = SpatialBlockSplit(ground_truth, 2, units="fields", random_state=0)
    with pytest.warns(UserWarning, match="Classes are missing: 4 on the (training|test) side"):
        list(cv.split())


@pytest.mark.parametrize("diagonal", [True, False])
def test_fields_are_the_components_of_each_class(diagonal):
    labels = np.array([[1, 0, 2, 2], [0, 1, 2, 0], [3, 1, 0, 2], [3, 3, 1, 2]])
    fields = connected_fields(labels, diagonal=diagonal)
    expected = {
        True: [[1, 0, 2, 2], [0, 1, 2, 0], [3, 1, 0, 2], [3, 3, 1, 2]],
        False: [[1, 0, 4, 4], [0, 2, 4, 0], [6, 2, 0, 5], [6, 6, 3, 5]],
    }
    np.testing.assert_array_equal(fields, expected[diagonal])
    with pytest.raises(ValueError, match="`labels` should be an image"):
        connected_fields(np.zeros((3, 3), int))


def test_spatial_split_works_as_cv():
    ground_truth = patchy_map(2)
    y = ground_truth[ground_truth > 0]
    X = y[:, np.newaxis] + np.random.default_rng(0).normal(0, 0.1, (y.size, 2))
    cv = SpatialBlockSplit(ground_truth, 3, block_size=10, buffer=1, random_state=0)
    scores = cross_val_score(clone(KNeighborsClassifier(1)), X, y, cv=cv)
    assert scores.min() > 0.99
    assert cv.get_n_splits() == 3


def test_spatial_split_is_harder_than_a_random_one():
    from jplay.datasets import make_hyperspectral_scene

    scene = make_hyperspectral_scene(similarity=0.8, mixing=0.4, label_purity=0.4, random_state=0)
    X, y = scene.data, scene.target

    def score(train, test):
        return KNeighborsClassifier(1).fit(X[train], y[train]).score(X[test], y[test])

    seeds = range(10)
    draws = [split_per_class(y, small_below=90, random_state=seed) for seed in seeds]
    places = [
        next(SpatialBlockSplit(scene.ground_truth, 2, buffer=2, random_state=seed).split())
        for seed in seeds
    ]
    lost = np.mean([score(*draw) for draw in draws]) - np.mean([score(*place) for place in places])
    assert lost > 0.05


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"ground_truth": np.zeros((5, 5), int)}, "`ground_truth` should be an image"),
        ({"ground_truth": np.ones(5)}, "`ground_truth` should be an image"),
        ({"n_splits": 1}, "`n_splits` should be an integer of at least 2"),
        ({"block_size": 20, "shift": (0, 0)}, "`n_splits` should be at most the number of blocks"),
        ({"buffer": -1}, "`buffer` should be an integer of at least 0"),
        ({"buffer": 30}, "`buffer` should leave training pixels"),
        ({"units": "squares"}, "`units` should be 'blocks', 'fields' or"),
        ({"units": np.ones((3, 3))}, r"`units` should have shape \(20, 20\)"),
    ],
)
def test_spatial_split_refuses_what_it_cannot_divide(kwargs, message):
    settings = {"ground_truth": np.ones((20, 20), int), "n_splits": 2, "block_size": 5} | kwargs
    with pytest.raises(ValueError, match=message):
        list(SpatialBlockSplit(**settings).split())


def test_spatial_split_refuses_other_samples():
    cv = SpatialBlockSplit(np.ones((20, 20), int), 2, block_size=5)
    with pytest.raises(
        ValueError, match=r"`X` should have one sample per labelled pixel .*\(400\)"
    ):
        next(cv.split(np.zeros((399, 2))))
