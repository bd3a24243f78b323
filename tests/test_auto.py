"""Dimension and depth chosen on training data."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits, load_iris, make_multilabel_classification

from jplay import JPlay
from jplay.estimators._selection import component_choices, one_standard_error


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:250] / 16, y[:250]


def test_one_standard_error_takes_the_simplest_of_equals():
    scores = np.array([[0.5, 0.6, 0.7], [0.85, 0.9, 0.92], [0.86, 0.9, 0.94], [0.8, 0.9, 0.9]])
    assert one_standard_error(scores) == (1, 2)


def test_one_standard_error_takes_the_best_where_it_stands_out():
    scores = np.array([[0.5, 0.51, 0.5], [0.9, 0.91, 0.9], [0.8, 0.81, 0.8]])
    assert one_standard_error(scores) == (1, 1)


def test_choices_are_within_what_the_samples_allow():
    assert component_choices(64, 200, 10) == [2, 4, 8, 10, 16, 32, 64]
    assert component_choices(4, 150, 3) == [2, 3, 4]
    assert max(component_choices(500, 40, 5)) == 20


def test_auto_components_need_as_many_as_the_classes_do(digits):
    X, y = digits
    model = JPlay(n_components="auto", n_layers=1).fit(X, y)
    size, depth = model.selection_.chosen
    assert depth == 1
    assert model.components_.shape[0] == size
    assert 8 <= size <= 64  # ten classes do not fit into two or four dimensions
    means = model.selection_.scores.mean(axis=1)
    at = model.selection_.candidates.index(model.selection_.chosen)
    spread = model.selection_.scores[np.argmax(means)].std(ddof=1) / np.sqrt(5)
    assert means[at] >= means.max() - spread
    assert all(mean < means.max() - spread for mean in means[:at])


def test_auto_layers_and_the_fit_that_follows(digits):
    X, y = digits
    model = JPlay(n_components=10, n_layers="auto").fit(X, y)
    assert [pair[1] for pair in model.selection_.candidates] == [1, 2, 3]
    depth = model.selection_.chosen[1]
    assert len(model.projections_) == depth
    plain = JPlay(n_components=10, n_layers=depth).fit(X, y)
    assert_array_equal(model.components_, plain.components_)


def test_listed_sizes_leave_nothing_to_choose(digits):
    X, y = digits
    model = JPlay(n_components="auto", n_layers=[30, 12])
    with pytest.raises(ValueError, match=r"`n_components` should be None if `n_layers` lists"):
        model.fit(X, y)
    assert JPlay(n_layers=[30, 12]).fit(X, y).layer_sizes_ == [30, 12]


def test_auto_with_samples_without_label():
    X, y = load_iris(return_X_y=True)
    y = y.copy()
    y[::2] = -1
    model = JPlay(n_components="auto", n_layers=1).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.score(X[1::2], y[1::2]) > 0.9


def test_auto_with_several_labels_and_a_given_graph():
    X, Y = make_multilabel_classification(n_samples=80, n_features=6, n_classes=3, random_state=0)
    X = X / X.max()
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    graph = np.exp(-(distances**2)) * (1 - np.eye(len(X)))
    model = JPlay(n_components="auto", n_layers=1, graph=graph).fit(X, Y)
    assert model.components_.shape[0] == model.selection_.chosen[0]
    assert model.selection_.scores.shape[1] == 5


def test_auto_with_one_sample_of_a_class_says_what_to_do(digits):
    X, y = digits
    y = np.where(np.arange(len(y)) == 0, 99, y)
    with pytest.raises(ValueError, match="should be numbers if a class has one"):
        JPlay(n_components="auto").fit(X, y)
