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
    repeated_per_class_splits,
    split_per_class,
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


def test_repeated_splits_work_as_cv():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 30)
    X = rng.standard_normal((120, 3)) + 3 * y[:, np.newaxis]
    cv = repeated_per_class_splits(10, random_state=0)
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
    tested = []
    for train, test in cv.split(places):
        distance = cdist(places[train], places[test], "chebyshev")
        assert distance.min() > buffer
        # Nothing is dropped without need: all other pixels are used.
        dropped = np.setdiff1d(np.arange(len(places)), np.concatenate([train, test]))
        if dropped.size:
            assert cdist(places[dropped], places[test], "chebyshev").min(axis=1).max() <= buffer
        tested.append(test)
    np.testing.assert_array_equal(np.sort(np.concatenate(tested)), np.arange(len(places)))


def test_spatial_split_never_divides_a_block_and_spreads_the_classes():
    ground_truth = patchy_map(1, shape=(120, 120))
    cv = SpatialBlockSplit(ground_truth, 3, block_size=10, random_state=0)
    fold_map = cv.fold_map()
    blocks = fold_map.reshape(12, 10, 12, 10).swapaxes(1, 2).reshape(144, 100)
    assert (blocks == blocks[:, :1]).all()
    for label in range(1, 5):
        share = np.bincount(fold_map[ground_truth == label], minlength=3)
        assert share.min() > 0.8 * share.max()


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

    kwargs = {"similarity": 0.8, "mixing": 0.4, "label_purity": 0.4, "random_state": 0}
    score = {}
    for split in ("random", "spatial"):
        scene = make_hyperspectral_scene(split=split, **kwargs)
        train, test = scene.train_indices, scene.test_indices
        nearest = KNeighborsClassifier(1).fit(scene.data[train], scene.target[train])
        score[split] = nearest.score(scene.data[test], scene.target[test])
    assert score["spatial"] < score["random"] - 0.1


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"ground_truth": np.zeros((5, 5), int)}, "`ground_truth` should be an image"),
        ({"ground_truth": np.ones(5)}, "`ground_truth` should be an image"),
        ({"n_splits": 1}, "`n_splits` should be an integer of at least 2"),
        ({"block_size": 20}, "`n_splits` should be at most the number of blocks"),
        ({"buffer": -1}, "`buffer` should be an integer of at least 0"),
        ({"buffer": 30}, "`buffer` should leave training pixels"),
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
