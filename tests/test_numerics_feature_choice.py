import numpy as np
import pytest
from scipy.stats import multivariate_normal

from jplay.numerics import feature_choice
from jplay.numerics.feature_choice import (
    ChoiceRules,
    LeftOutLoss,
    first_allowed,
    grown,
    swapped,
)


@pytest.fixture(scope="module")
def problem():
    """Three classes: features 1 and 4 tell them apart, 2 is nearly a copy of 1."""
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    X = rng.standard_normal((90, 6))
    X[:, 1] += 3 * (labels == 1)
    X[:, 4] += 2 * (labels == 2)
    X[:, 2] = X[:, 1] + 0.05 * rng.standard_normal(90)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, labels, LeftOutLoss.of(X, labels, np.arange(90) // 3 % 5)


def loss_by_densities(X, labels, folds, chosen):
    """The same loss from densities of normal distributions, one sample at a time."""
    X = X[:, chosen]
    lost = []
    for i, x in enumerate(X):
        rest = folds != folds[i]
        residuals, scores = [], []
        for label in range(3):
            own = X[rest & (labels == label)]
            residuals.append(own - own.mean(axis=0))
        n_rest = rest.sum()
        pooled = sum(r.T @ r for r in residuals) / (n_rest - 3)
        for label, r in enumerate(residuals):
            own = X[rest & (labels == label)]
            mixed = (1 - feature_choice.POOLED) * r.T @ r / (len(r) - 1)
            mixed = mixed + feature_choice.POOLED * pooled
            mixed = 0.99 * mixed + 0.01 * np.diag(np.diag(pooled))
            density = multivariate_normal(own.mean(axis=0), mixed).logpdf(x)
            scores.append(np.log(len(own) / n_rest) + feature_choice.TEMPERATURE * density)
        lost.append(np.logaddexp.reduce(scores) - scores[labels[i]])
    return np.mean(lost)


def test_loss_of_candidates_is_that_of_normal_densities(problem):
    X, labels, loss = problem
    folds = np.arange(90) // 3 % 5
    losses = loss.with_one_more([1, 5])
    for candidate in (0, 4):
        expected = loss_by_densities(X, labels, folds, [1, 5, candidate])
        assert losses[candidate] == pytest.approx(expected, rel=1e-9)
    assert np.isinf(losses[[1, 5]]).all()
    assert loss([5, 4, 1]) == pytest.approx(loss([1, 5, 4]), rel=1e-9)


def test_loss_without_features_is_that_of_the_shares(problem):
    assert problem[2]([]) == pytest.approx(np.log(3), rel=1e-9)


def test_growth_takes_what_tells_classes_apart(problem):
    loss = problem[2]
    assert set(grown(loss, [], 2, ChoiceRules(6))) & {1, 2}
    assert 4 in grown(loss, [], 2, ChoiceRules(6))


def test_swaps_replace_useless_features(problem):
    loss = problem[2]
    chosen = swapped(loss, [0, 3], ChoiceRules(6))
    assert 4 in chosen
    assert set(chosen) & {1, 2}
    assert loss.gains_surely([0, 3], chosen)


def test_no_set_surely_gains_on_itself_or_by_a_copy(problem):
    X, labels, loss = problem
    assert not loss.gains_surely([1, 4], [4, 1])
    noisy = LeftOutLoss.of(np.column_stack([X, X[:, 1]]), labels, np.arange(90) // 3 % 5)
    assert not noisy.gains_surely([1, 4], [6, 4])
    assert swapped(noisy, [1, 4], ChoiceRules(7, groups=np.arange(7))) in ([1, 4], [4, 1])


def test_a_class_that_is_absent_from_training_is_left_out():
    rng = np.random.default_rng(1)
    labels = np.array([0] * 10 + [1] * 10 + [2])
    X = rng.standard_normal((21, 3))
    loss = LeftOutLoss.of(X, labels, np.arange(21) % 5)
    assert np.isfinite(loss([0, 1]))


def test_rules_keep_chosen_features_apart():
    rules = ChoiceRules(8, min_distance=3)
    assert np.flatnonzero(rules.allowed([4])).tolist() == [0, 1, 7]
    assert first_allowed([4, 3, 5, 0, 7], 3, rules) == [4, 0, 7]
    groups = ChoiceRules(4, groups=np.array(["a", "a", "b", "b"]))
    assert first_allowed([1, 0, 3, 2], 4, groups) == [1, 3]


def test_rules_keep_to_the_budget(problem):
    loss = problem[2]
    costs = np.array([1.0, 10.0, 1.0, 1.0, 1.0, 1.0])
    rules = ChoiceRules(6, costs=costs, max_cost=2.0)
    assert grown(loss, [], 3, rules)[:1] != [1]
    chosen = swapped(loss, grown(loss, [], 3, rules), rules)
    assert costs[chosen].sum() <= 2.0
    assert sorted(chosen) == [2, 4]
