"""Votes of a committee: how much each kind counts, and how far probabilities can be trusted."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jplay import JPlayCommittee


def one_in_many(n_samples=160, seed=0):
    """One feature in forty tells: members that see a single feature see noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % 2
    X = rng.normal(size=(n_samples, 120))
    X[:, ::40] += 2.0 * y[:, None]
    return X, y


def test_votes_that_tell_nothing_hardly_count():
    X, y = one_in_many()
    views = ["supervised", "plain"]
    model = JPlayCommittee(8, n_trials=30, views=views, max_features=1, random_state=0).fit(X, y)
    of_kinds = model.weights_.sum(axis=1)
    assert of_kinds.sum() == pytest.approx(1)
    assert (model.weights_ >= 0).all()
    assert of_kinds[5:].sum() > 0.35  # of the plain view, one of six kinds


def test_weighing_is_no_worse_than_the_best_kind_alone():
    X, y = one_in_many()
    X_test, y_test = one_in_many(600, seed=1)
    settings = {"n_trials": 30, "max_features": 1, "random_state": 0}

    def loss(**changes):
        model = JPlayCommittee(8, **settings | changes).fit(X, y)
        p = model.predict_proba(X_test)[np.arange(600), y_test]
        return -np.log(p + 1e-9).mean()

    both, plain, blind = (
        loss(views=views) for views in (["supervised", "plain"], ["plain"], ["supervised"])
    )
    assert plain < blind - 0.05
    assert both < (plain + blind) / 2


def rare_labels(n_samples, seed):
    """Labels that one in ten samples have, and that overlap with their absence."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n_samples, 4)) < 0.12).astype(int)
    X = rng.normal(size=(n_samples, 8))
    X[:, :4] += 2.2 * Y
    return X, Y


def test_probabilities_of_rare_labels_sum_to_their_number():
    """On samples that the voters have not seen, and on new ones, up to the pull towards none."""
    X, Y = rare_labels(500, 0)
    model = JPlayCommittee(4, n_trials=5, views=["plain"], random_state=0).fit(X, Y)
    held = model.held_out_proba_
    assert held.shape == Y.shape
    assert np.isfinite(held).all()
    assert held.mean() == pytest.approx(Y.mean(), abs=0.02)
    X_test, Y_test = rare_labels(1000, 1)
    assert model.predict_proba(X_test).mean() == pytest.approx(Y_test.mean(), abs=0.04)


def test_probabilities_of_rare_labels_are_as_frequent_as_they_say():
    X, Y = rare_labels(500, 0)
    held = JPlayCommittee(4, n_trials=5, views=["plain"], random_state=0).fit(X, Y).held_out_proba_
    for low, high in [(0.0, 0.1), (0.1, 0.4), (0.4, 1.0)]:
        inside = (held >= low) & (held < high)
        assert inside.sum() > 20
        assert abs(held[inside].mean() - Y[inside].mean()) < 0.1
    # No power and no shift of the odds makes the labels much more likely.
    odds = np.log((held + 1e-6) / (1 - held + 1e-6))

    def loss(exponent, offset):
        p = 1 / (1 + np.exp(-exponent * odds - offset))
        return -np.log(np.where(Y > 0, p, 1 - p) + 1e-9).mean()

    tried = [loss(e, o) for e in (0.7, 0.85, 1.0, 1.2, 1.4) for o in (-0.6, -0.3, 0.0, 0.3, 0.6)]
    assert loss(1.0, 0.0) < min(tried) + 2e-3


@pytest.mark.parametrize("n_samples", [30, 400])
def test_power_and_shift_of_the_odds_minimize_the_penalized_loss(n_samples):
    """Its gradient vanishes: ten times the squared logarithm and shift are added to the loss."""
    X, Y = rare_labels(n_samples, 0)
    settings = {"n_trials": 5, "views": ["plain"], "random_state": 0}
    model = JPlayCommittee(4, **settings).fit(X, Y)
    held, known = model.held_out_proba_, np.isfinite(model.held_out_proba_)
    wrong = held[known] - Y[known]
    odds = (np.log(held[known] / (1 - held[known])) - model.offset_) / model.exponent_
    slope = model.exponent_ * (wrong @ odds) + 20 * np.log(model.exponent_)
    assert slope == pytest.approx(0, abs=0.5)
    assert wrong.sum() + 20 * model.offset_ == pytest.approx(0, abs=0.5)
    assert abs(model.offset_) > 0.03
    assert abs(np.log(model.exponent_)) > 0.03


@pytest.mark.parametrize("n_classes", [2, 4])
def test_held_out_probabilities_are_as_sure_as_right(n_classes):
    rng = np.random.default_rng(0)
    y = np.arange(300) % n_classes
    X = rng.normal(size=(300, 6)) + 1.2 * rng.normal(size=(n_classes, 6))[y]
    model = JPlayCommittee(4, n_trials=5, views=["plain"], random_state=0)
    held = model.fit(X, y).held_out_proba_
    assert_allclose(held.sum(axis=1), 1, atol=1e-6)
    right = held.argmax(axis=1) == y
    assert abs(held.max(axis=1).mean() - right.mean()) < 0.06
    logarithms = np.log(held + 1e-9)

    def loss(exponent):
        scores = exponent * logarithms
        scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return -scores[np.arange(300), y].mean()

    assert loss(1.0) < min(loss(e) for e in (0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0)) + 3e-3


def test_few_samples_leave_probabilities_as_they_are():
    """With twelve samples that are all right, the power stays near one."""
    rng = np.random.default_rng(0)
    y = np.arange(12) % 2
    X = rng.normal(size=(12, 4)) + 3 * y[:, None]
    model = JPlayCommittee(3, views=["plain"], random_state=0).fit(X, y)
    plain = JPlayCommittee(3, views=["plain"], n_trials=0, random_state=0).fit(X, y)
    between = np.linspace(X[y == 0].mean(axis=0), X[y == 1].mean(axis=0), 9)
    difference = model.predict_proba(between) - plain.predict_proba(between)
    assert np.abs(difference).max() < 0.35
    assert_array_equal(model.predict(between)[[0, -1]], [0, 1])


def test_weighted_samples_count_as_often_when_votes_are_weighed():
    """A kind that is right on few but heavy samples gets the votes."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 2
    heavy = np.arange(240) < 60
    X = rng.normal(size=(240, 2))
    X[:, 0] += 3 * np.where(heavy, y, 1 - y)
    X_test = np.column_stack([np.array([0.0, 3.0]), np.zeros(2)])
    light = JPlayCommittee(4, views=["plain"], random_state=0).fit(X, y)
    weighted = JPlayCommittee(4, views=["plain"], random_state=0).fit(X, y, 1 + 19.0 * heavy)
    assert_array_equal(light.predict(X_test), [1, 0])
    assert_array_equal(weighted.predict(X_test), [0, 1])


def test_labels_found_early_are_those_of_all_votes():
    """``predict`` stops asking members once no votes left can change a label."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 3
    X = rng.normal(size=(200, 6)) + 1.0 * rng.normal(size=(3, 6))[y]
    model = JPlayCommittee(12, random_state=0).fit(X, y)
    X_test = rng.normal(size=(2000, 6))
    p = model.predict_proba(X_test)
    first, second = np.sort(p, axis=1)[:, :-3:-1].T
    clear = first - second > 1e-6
    assert_array_equal(model.predict(X_test)[clear], p.argmax(axis=1)[clear])


# The additive member: every feature has a curve of its own.


def additive(**settings):
    return JPlayCommittee(1, views=["additive"], random_state=0, **settings)


def test_a_feature_may_count_at_both_ends():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (np.abs(X[:, 1]) > 0.67).astype(int)
    model = additive().fit(X[:150], y[:150])
    assert model.score(X[150:], y[150:]) > 0.85
    assert model.feature_importances_.argmax() == 1
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_curves_hardly_depend_on_a_monotone_scale_of_a_feature():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 3
    X = rng.normal(size=(200, 5)) + 2 * rng.normal(size=(3, 5))[y]
    straight, bent = (
        additive().fit(X, y).predict(X),
        additive().fit(np.exp(X), y).predict(np.exp(X)),
    )
    assert np.mean(straight == bent) > 0.95


@pytest.mark.parametrize("n_copies", [1, 12])
def test_principal_axes_bound_the_cost_of_curves_and_keep_what_matters(n_copies):
    """Fewer and more curves than samples; copies make the shorter side another one."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = rng.normal(size=(120, 5)) + 2 * rng.normal(size=(3, 5))[y]
    X = np.repeat(X, n_copies, axis=1)
    whole, few = (additive(n_coordinates=n).fit(X, y) for n in (400, 40))
    assert whole.score(X, y) > 0.9
    assert np.mean(whole.predict(X) == few.predict(X)) > 0.95
    difference = np.abs(whole.predict_proba(X) - few.predict_proba(X))
    assert np.median(difference.max(axis=1)) < 0.1


def test_copies_of_the_features_change_no_curve():
    """Principal axes are found among the features, or among the samples if those are fewer."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = rng.normal(size=(120, 5)) + 1.5 * rng.normal(size=(3, 5))[y]
    single, copied = (
        additive(n_trials=0, n_coordinates=20).fit(np.repeat(X, n, axis=1), y) for n in (1, 12)
    )
    other = rng.normal(size=(200, 5))
    expected = single.predict_proba(other)
    assert_allclose(copied.predict_proba(np.repeat(other, 12, axis=1)), expected, atol=1e-2)


def test_beyond_the_samples_curves_are_flat():
    rng = np.random.default_rng(0)
    y = np.arange(100) % 2
    X = rng.normal(size=(100, 2)) + 2 * y[:, None]
    model = additive().fit(X, y)
    ends = np.array([[-1e3, -1e3], [-1e6, -1e6], [1e3, 1e3], [1e6, 1e6]])
    p = model.predict_proba(ends)
    assert_allclose(p[0], p[1], atol=1e-6)
    assert_allclose(p[2], p[3], atol=1e-6)
    assert_array_equal(model.predict(ends), [0, 0, 1, 1])


def test_a_class_that_a_member_has_not_seen_never_wins():
    """Among members on trial some have not seen the single sample of a class."""
    rng = np.random.default_rng(0)
    y = np.array([0] * 30 + [2] * 30 + [1])
    X = rng.normal(size=(61, 4)) + 6 * y[:, None]
    model = JPlayCommittee(4, views=["additive", "plain"], random_state=0).fit(X, y)
    between = np.linspace(X[y == 0].mean(axis=0), X[y == 2].mean(axis=0), 21)
    assert np.isfinite(model.predict_proba(between)).all()
    judged = model.held_out_proba_[y != 1]
    judged = judged[np.isfinite(judged).all(axis=1)]
    assert (judged.argmax(axis=1) != 1).all()


@pytest.mark.parametrize("multilabel", [False, True])
def test_without_anything_that_varies_shares_are_told(multilabel):
    X, y = np.ones((20, 2)), np.array([0] * 14 + [1] * 6)
    targets = np.eye(2, dtype=int)[y] if multilabel else y
    p = additive(n_trials=0).fit(X, targets).predict_proba(X)
    assert_allclose(p, np.tile(p[:1], (20, 1)), atol=1e-6)
    assert p[0, 0] > p[0, 1]
