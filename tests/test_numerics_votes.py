import array_api_strict
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import KNeighborsClassifier

from closeness import assert_close
from jplay.numerics.votes import (
    confidence_exponent,
    decided,
    margin_weights,
    neighbor_votes,
    odds_calibration,
    sharpened,
    sharpening_exponent,
    shifted_odds,
    softmax,
    vote_weights,
)


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=40)
    y[:3] = [0, 1, 2]
    return rng.normal(size=(40, 5)) + y[:, None], y, rng.normal(size=(15, 5)) + 1


@pytest.fixture
def held_votes():
    rng = np.random.default_rng(1)
    y = rng.integers(4, size=60)
    sharpness = np.array([3.0, 1.0, 0.0])
    scores = rng.normal(size=(3, 60, 4)) + 2 * np.eye(4)[y]
    return softmax(scores * sharpness[:, None, None]), y


def test_neighbor_votes_equal_scikit_learns(problem):
    X, y, new = problem
    peer = KNeighborsClassifier(3, weights="distance").fit(X, y)
    votes = neighbor_votes(euclidean_distances(new, X, squared=True), np.eye(3)[y])
    assert_allclose(votes, peer.predict_proba(new), rtol=1e-6)


def test_neighbor_at_no_distance_decides():
    squares = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    votes = neighbor_votes(squares, np.eye(2)[[0, 1, 1]])
    assert_allclose(votes, [[1, 0], [1 / 3, 2 / 3]], atol=1e-8)


def test_neighbor_votes_take_what_there_is():
    votes = neighbor_votes(np.array([[1.0, 1.0]]), np.eye(2), n_neighbors=5)
    assert_allclose(votes, [[0.5, 0.5]])


def test_decided_means_that_no_votes_left_change_the_labels():
    rng = np.random.default_rng(0)
    votes = 0.7 * rng.dirichlet(np.full(3, 0.7), size=400)
    found = decided(votes, 0.3)
    # The worst that can come: all of what is left for one class.
    ends = np.stack([(votes + gain).argmax(axis=1) for gain in 0.3 * np.eye(3)])
    same = (ends == ends[0]).all(axis=0)
    assert 0.1 < same.mean() < 0.9
    assert_array_equal(found, same)


def test_weighted_neighbors_vote_as_often():
    rng = np.random.default_rng(0)
    distances, Y = rng.random((5, 3)), np.eye(2)[[0, 1, 1]]
    found = neighbor_votes(distances, Y, 3, np.array([2.0, 1.0, 1.0]))
    twice = neighbor_votes(distances[:, [0, 0, 1, 2]], Y[[0, 0, 1, 2]], 4)
    assert_allclose(found, twice, rtol=1e-12)


def test_weighted_samples_count_as_often():
    rng = np.random.default_rng(0)
    votes, labels = rng.dirichlet(np.ones(3), size=(4, 60)), rng.integers(3, size=60)
    rows = np.repeat(np.arange(60), 1 + labels)
    weight = 1.0 + labels
    found = margin_weights(votes, labels, sample_weight=weight)
    assert_allclose(found, margin_weights(votes[:, rows], labels[rows]), atol=1e-4)
    assert sharpening_exponent(votes[0], labels, sample_weight=weight) == sharpening_exponent(
        votes[0, rows], labels[rows]
    )


def test_odds_are_shifted_to_the_shares_of_labels():
    rng = np.random.default_rng(0)
    odds = rng.normal(-3, 1, size=(4000, 5))
    Y = (rng.random(odds.shape) < 1 / (1 + np.exp(-1.5 * odds - 2))).astype(int)
    exponent, offset = odds_calibration(1 / (1 + np.exp(-odds)), Y)
    assert exponent == pytest.approx(1.5, abs=0.15)
    assert offset == pytest.approx(2, abs=0.3)
    shifted = shifted_odds(1 / (1 + np.exp(-odds)), exponent, offset)
    assert shifted.mean() == pytest.approx(Y.mean(), abs=0.01)


def test_softmax_is_stable_and_sharpens():
    scores = np.array([[1e4, 1e4 - 1.0]])
    odds = softmax(scores, 3.0)
    assert_allclose(odds[0, 0] / odds[0, 1], np.exp(3), rtol=1e-9)


def test_weights_maximise_the_penalised_likelihood(held_votes):
    votes, y = held_votes
    right = votes[:, np.arange(60), y] + 1e-3

    def loss(free):
        w = softmax(np.append(free, 0.0))
        return -np.log(w @ right).sum() - 0.3 * np.log(w).sum()

    best = minimize(loss, np.zeros(2), method="BFGS")
    weights = vote_weights(votes, y, max_iter=5000, tol=1e-10)
    assert_allclose(weights, softmax(np.append(best.x, 0.0)), atol=1e-5)
    assert_allclose(weights.sum(), 1)
    assert weights[0] > weights[2]


def test_weights_are_equal_without_evidence(held_votes):
    votes, y = held_votes
    assert_allclose(vote_weights(votes, y, pseudo_count=1e6), np.full(3, 1 / 3), rtol=1e-3)
    assert_allclose(vote_weights(np.stack([votes[0]] * 4), y), np.full(4, 0.25))


def test_margin_weights_minimise_their_loss(held_votes):
    votes, y = held_votes

    def loss(roots):
        scores = np.tensordot(roots**2, votes, axes=1)
        ridge = 0.02 * len(roots) * np.sum(roots**4)
        return ridge - np.log(softmax(scores)[np.arange(len(y)), y]).sum()

    best = minimize(loss, np.ones(3), method="BFGS").x ** 2
    weights = margin_weights(votes, y)
    assert_allclose(weights, best / best.sum(), atol=1e-4)
    assert weights[0] > weights[2]


def test_voters_count_by_their_lead_not_by_their_confidence(held_votes):
    votes, y = held_votes
    timid = votes.copy()
    timid[0] = 0.3 * votes[0] + 0.7 / 4
    bold, cautious = (margin_weights(each, y, ridge=1e-4) for each in (votes, timid))
    assert_allclose(cautious[0] / cautious[1], bold[0] / bold[1] / 0.3, rtol=0.1)


def test_margins_weigh_equally_without_evidence(held_votes):
    votes, y = held_votes
    assert_allclose(margin_weights(np.stack([votes[0]] * 4), y), np.full(4, 0.25), atol=1e-6)
    none = np.full_like(votes, 0.25)
    assert_allclose(margin_weights(none, y), np.full(3, 1 / 3))


def calibration_error(probabilities, y):
    """Mean distance between confidence and accuracy over ten bins of confidence."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    bins = np.floor(10 * confidence)
    return sum(abs((confidence - right)[bins == b].sum()) for b in np.unique(bins)) / len(y)


def test_sharpening_repairs_confidence():
    rng = np.random.default_rng(0)
    truth = softmax(2 * rng.normal(size=(4000, 3)))
    y = np.array([rng.choice(3, p=p) for p in truth])
    timid, bold = sharpened(truth, 0.5), sharpened(truth, 2.0)
    assert sharpening_exponent(timid, y) > 1.5
    assert sharpening_exponent(bold, y) < 0.7
    for wrong in (timid, bold):
        repaired = sharpened(wrong, sharpening_exponent(wrong, y))
        assert calibration_error(repaired, y) < 0.03
        assert calibration_error(wrong, y) > 0.07


def test_sharpening_keeps_the_order_and_few_samples_change_little(held_votes):
    votes, y = held_votes
    assert (sharpened(votes[0], 3.0).argmax(1) == votes[0].argmax(1)).all()
    few = sharpening_exponent(votes[0][:3], y[:3])
    assert abs(np.log(few)) < 0.3
    assert sharpening_exponent(votes[0], y, stiffness=1e9) == pytest.approx(1.0)


def test_confidence_becomes_the_share_of_right_answers():
    rng = np.random.default_rng(0)
    truth = softmax(2 * rng.normal(size=(4000, 3)))
    y = np.array([rng.choice(3, p=p) for p in truth])
    for wrong in (sharpened(truth, 0.5), sharpened(truth, 2.0)):
        correct = wrong.argmax(axis=1) == y
        repaired = sharpened(wrong, confidence_exponent(wrong, correct))
        assert calibration_error(repaired, y) < 0.03
    # Samples of a class that no voter knows make the others less sure.
    correct = truth.argmax(axis=1) == y
    unknown = rng.random(4000) < 0.2
    assert confidence_exponent(truth, correct) > 1.2 * confidence_exponent(
        truth, correct & ~unknown
    )
    assert confidence_exponent(truth[:9], ~correct[:9], stiffness=1e9) == pytest.approx(1.0)
    usual = confidence_exponent(truth[:9], ~correct[:9], stiffness=1e9, usual=2.0)
    assert usual == pytest.approx(2.0, rel=0.1)


@pytest.mark.skipif(
    array_api_strict.__array_api_version__ < "2024.12",
    reason="take_along_axis is part of the array API standard since 2024.12",
)
def test_strict_namespace_agrees(problem, held_votes):
    X, y, new = problem
    votes, labels = held_votes
    xp = array_api_strict
    squares, Y = euclidean_distances(new, X, squared=True), np.eye(3)[y]
    assert_allclose(
        np.from_dlpack(neighbor_votes(xp.asarray(squares), xp.asarray(Y))),
        neighbor_votes(squares, Y),
    )
    strict_votes, strict_labels = xp.asarray(votes), xp.asarray(labels)
    weights = vote_weights(strict_votes, strict_labels)
    assert_close(np.from_dlpack(weights), vote_weights(votes, labels), 1e-9)
    exponent = sharpening_exponent(votes[0], labels)
    assert sharpening_exponent(strict_votes[0, ...], strict_labels) == exponent
    assert_allclose(
        np.from_dlpack(sharpened(strict_votes[0, ...], exponent)), sharpened(votes[0], exponent)
    )
