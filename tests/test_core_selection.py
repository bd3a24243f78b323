"""Choice of bands: pairs that only tell together, chance, rules, and the order of the path."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.model_selection import cross_val_score

from jplay import JPlayBandSelector


def paired(n_samples=400, seed=0):
    """Two features tell the class by their difference alone; another tells it half by itself."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % 2
    X = rng.normal(size=(n_samples, 8))
    common = 5 * rng.normal(size=n_samples)
    X[:, 2] = common + 0.3 * rng.normal(size=n_samples)
    X[:, 5] = common + 0.3 * rng.normal(size=n_samples) + 1.6 * y
    X[:, 0] += 1.2 * y
    return X, y


def test_replacements_find_what_growth_alone_cannot():
    """Growth takes the feature that tells by itself, and then cannot leave it."""
    X, y = paired()
    assert set(np.flatnonzero(JPlayBandSelector(2).fit(X, y).support_)) == {2, 5}


def test_copies_are_not_exchanged_by_chance():
    """A set gains on another only by more than the standard error of the difference."""
    X, y = paired()
    X = X[:, [0, 1, 2, 3, 4, 5, 6, 7, 5]]
    X[:, 8] += 0.01 * np.random.default_rng(1).normal(size=len(X))
    chosen = [
        frozenset(np.flatnonzero(JPlayBandSelector(2, random_state=seed).fit(X, y).support_))
        for seed in range(3)
    ]
    assert all(2 in each and each & {5, 8} for each in chosen)


def test_loss_is_near_that_of_normal_densities_on_left_out_samples():
    """And importances are the growth of the loss without each of the chosen bands."""
    X, y = paired()
    model = JPlayBandSelector(3).fit(X, y)
    kept = np.flatnonzero(model.support_)
    log_loss = -cross_val_score(
        QuadraticDiscriminantAnalysis(), X[:, kept], y, cv=5, scoring="neg_log_loss"
    ).mean()
    assert 0.5 * log_loss < model.loss_ < np.log(2)
    assert not model.importances_[~model.support_].any()
    assert set(np.argsort(-model.importances_)[:2]) == {2, 5}


def test_noise_is_worth_no_more_than_the_shares_of_the_classes():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    model = JPlayBandSelector(2).fit(rng.normal(size=(300, 6)), y)
    assert model.loss_ == pytest.approx(np.log(3), abs=0.1)


def test_classes_of_one_sample_are_judged_without_it():
    rng = np.random.default_rng(1)
    y = np.array([0] * 12 + [1] * 12 + [2])
    X = rng.normal(size=(25, 4)) + 2 * y[:, None] * [1, 0, 0, 1]
    model = JPlayBandSelector(2).fit(X, y)
    assert np.isfinite(model.loss_)
    assert model.support_.sum() == 2


def test_path_makes_whole_columns_zero_and_dear_ones_first():
    X, y = paired(200)
    costs = np.ones(8)
    costs[5] = 1e4
    path = JPlayBandSelector(2, feature_costs=costs, refine=False).fit(X, y).path_
    assert (np.diff(path.penalties) > 0).all()
    counts = (path.norms > 0).sum(axis=1)
    assert counts[-1] <= 2
    lasts = (path.norms > 0).sum(axis=0)
    assert lasts[5] == lasts.min()
    free = JPlayBandSelector(2, refine=False).fit(X, y).path_
    assert (free.norms[:, 5] > 0).sum() > lasts[5]


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_a_constant_feature_is_never_chosen(unit):
    X, y = paired(200)
    X = unit * np.column_stack([X, np.ones(len(X))])
    model = JPlayBandSelector(3).fit(X, y)
    assert not model.support_[8]


def test_costs_bound_what_is_chosen_to_the_last_cent():
    X, y = paired(200)
    model = JPlayBandSelector(5, feature_costs=np.full(8, 0.1), max_cost=0.3).fit(X, y)
    assert model.support_.sum() == 3  # 0.1 + 0.1 + 0.1 is a little more than 0.3
    assert {2, 5} <= set(np.flatnonzero(model.support_))
