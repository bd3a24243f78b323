"""The committee: better than its members, sure of the right things, and robust."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_multilabel_classification,
)
from sklearn.utils.estimator_checks import parametrize_with_checks

from jplay import JPlay, JPlayCommittee, LiftedJPlay
from jplay.datasets import split_per_class
from jplay.estimators._committee import KINDS, SEES_ALL, WIDTHS, Member
from jplay.numerics.votes import expected_calibration_error


def divided(load, size, seed=0):
    X, y = load(return_X_y=True)
    train, test = split_per_class(y, size, random_state=seed)
    return X[train], y[train], X[test], y[test]


@pytest.fixture(scope="module")
def digits():
    return divided(load_digits, 20)


@pytest.fixture(scope="module")
def committee(digits):
    X, y, _, _ = digits
    return JPlayCommittee(random_state=0).fit(X, y)


def expected_failures(estimator):
    # As in JPlay: weights enter the prediction loss; a repeated sample is a neighbour as well.
    return {
        "check_sample_weight_equivalence_on_dense_data": (
            "sample_weight weighs the prediction loss, it does not repeat samples in the graph"
        )
    }


@parametrize_with_checks(
    [JPlayCommittee(3, random_state=0)], expected_failed_checks=expected_failures
)
def test_committee_fulfils_sklearn_contract(estimator, check):
    check(estimator)


def test_committee_is_ahead_of_the_linear_model(digits, committee):
    X, y, X_test, y_test = digits
    linear = JPlay().fit(X, y).score(X_test, y_test)
    lifted = LiftedJPlay().fit(X, y).score(X_test, y_test)
    assert committee.score(X_test, y_test) > lifted - 0.005
    assert lifted > linear + 0.01
    assert committee.score(X_test, y_test) > linear + 0.02


def test_members_are_of_the_kinds_whose_votes_count(committee):
    kinds = np.bincount([member.kind for member in committee.members_], minlength=len(KINDS))
    assert len(committee.members_) == kinds.sum() == 30
    assert committee.weights_.shape == (len(KINDS), 2)
    assert committee.weights_.sum() == pytest.approx(1)
    assert_array_equal(kinds > 0, committee.weights_.any(axis=1))
    assert kinds[np.array(SEES_ALL)].max() <= len(WIDTHS)
    assert np.isfinite(committee.held_out_proba_).all()


def test_members_see_all_samples(digits, committee):
    X, _, _, _ = digits
    assert {len(member.neighbors) for member in committee.members_} == {len(X)}


def test_many_members_of_a_kind_that_is_right():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    # One feature in twenty tells, so that members with few features see nothing but noise.
    X = rng.normal(size=(120, 400))
    X[:, ::20] += 1.5 * y[:, None]
    weights = JPlayCommittee(12, random_state=0).fit(X, y).weights_.sum(axis=1)
    all_features = [kind for kind, sees_all in enumerate(SEES_ALL) if sees_all]
    assert weights[all_features].sum() > weights[:2].sum()


def test_held_out_score_is_near_the_score_on_new_samples(digits, committee):
    _, _, X_test, y_test = digits
    assert abs(committee.held_out_score_ - committee.score(X_test, y_test)) < 0.05


def test_probabilities_are_calibrated(digits, committee):
    _, _, X_test, y_test = digits
    probabilities = committee.predict_proba(X_test)
    assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert_array_equal(probabilities.argmax(axis=1), committee.predict(X_test))
    assert expected_calibration_error(probabilities, y_test) < 0.05
    logarithms = committee.predict_log_proba(X_test)
    assert_allclose(logarithms, np.log(probabilities), rtol=1e-6)


def test_same_seed_same_committee_whatever_the_number_of_jobs(digits, committee):
    X, y, X_test, _ = digits
    again = JPlayCommittee(random_state=0, n_jobs=2).fit(X, y)
    assert_array_equal(again.predict_proba(X_test[:50]), committee.predict_proba(X_test[:50]))
    other = JPlayCommittee(random_state=1).fit(X, y)
    assert np.abs(other.predict_proba(X_test) - committee.predict_proba(X_test)).max() > 0.01


@pytest.mark.parametrize("model", [JPlay(), LiftedJPlay(), JPlayCommittee(8, random_state=0)])
@pytest.mark.parametrize("load", [load_wine, load_breast_cancer, load_digits])
def test_the_unit_of_the_samples_does_not_matter(model, load):
    X, y, X_test, _ = divided(load, 10)
    labels = model.fit(X, y).predict(X_test)
    same = model.fit(1000 * X, y).predict(1000 * X_test) == labels
    assert same.all() if isinstance(model, JPlayCommittee) else np.mean(same) >= 0.999


@pytest.mark.parametrize("model", [JPlay(), LiftedJPlay(), JPlayCommittee(6, random_state=0)])
def test_single_precision_gives_the_same_labels(digits, model):
    X, y, X_test, _ = digits
    labels = model.fit(X, y).predict(X_test)
    single = model.fit(X.astype(np.float32), y)
    assert np.mean(single.predict(X_test.astype(np.float32)) == labels) >= 0.998
    assert single.predict_proba(X_test.astype(np.float32)).dtype == np.float32


def test_labels_are_those_of_the_largest_probability(digits, committee, monkeypatch):
    # Labels are settled before all members have voted, probabilities never.
    _, _, X_test, _ = digits
    voted = []
    votes = Member.votes
    monkeypatch.setattr(
        Member, "votes", lambda self, X, *rest: voted.append(len(X)) or votes(self, X, *rest)
    )
    probabilities = committee.predict_proba(X_test)
    all_votes, voted[:] = sum(voted), []
    assert_array_equal(committee.predict(X_test), committee.classes_[probabilities.argmax(axis=1)])
    assert sum(voted) < 0.8 * all_votes


def test_labels_are_found_in_single_precision_unless_they_are_close(digits, committee, monkeypatch):
    _, _, X_test, _ = digits
    ordered = np.sort(committee.predict_proba(X_test), axis=1)
    rows = {np.dtype(np.float32): 0, np.dtype(np.float64): 0}
    votes = Member.votes

    def counted(self, X, *rest):
        rows[X.dtype] += len(X)
        return votes(self, X, *rest)

    monkeypatch.setattr(Member, "votes", counted)
    closest = np.argsort(ordered[:, -1] - ordered[:, -2])
    committee.predict(X_test[closest[50:]])
    assert rows[np.dtype(np.float64)] < 0.05 * rows[np.dtype(np.float32)]
    rows[np.dtype(np.float64)] = 0
    committee.predict(X_test[closest[:3]])
    assert rows[np.dtype(np.float64)] > 0


def test_single_precision_holds_far_from_the_origin(digits):
    X, y, X_test, _ = digits
    model = JPlayCommittee(15, random_state=0).fit(X + 100, y)
    exact = model.predict_proba(X_test + 100)
    single = model.predict_proba((X_test + 100).astype(np.float32))
    assert np.quantile(np.abs(single - exact), 0.99) < 2e-3


def test_threads_of_a_prediction_do_not_change_it(digits, committee):
    X = np.concatenate([digits[2]] * 2)
    one = clone(committee).set_params(n_jobs=1)
    two = clone(committee).set_params(n_jobs=2)
    for model in (one, two):
        model.__dict__.update({k: v for k, v in vars(committee).items() if k.endswith("_")})
    assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_features_of_different_units_count_alike():
    X, y, X_test, y_test = divided(load_wine, 15)
    units = 10.0 ** np.linspace(-4, 4, X.shape[1])
    plain = JPlayCommittee(12, random_state=0).fit(X, y).score(X_test, y_test)
    mixed = JPlayCommittee(12, random_state=0).fit(X * units, y).score(X_test * units, y_test)
    assert mixed > plain - 0.03
    assert mixed > 0.9


def test_importances_name_the_features_that_tell():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 30))
    y = (X[:, 3] + X[:, 7] > 0).astype(int)
    importances = JPlayCommittee(18, random_state=0).fit(X, y).feature_importances_
    assert importances.shape == (30,)
    assert importances.sum() == pytest.approx(1)
    assert set(np.argsort(-importances)[:2]) == {3, 7}


def test_multi_label_targets():
    X, Y = make_multilabel_classification(n_samples=200, n_classes=5, random_state=0)
    model = JPlayCommittee(12, random_state=0).fit(X[:120], Y[:120])
    predicted = model.predict(X[120:])
    assert predicted.shape == Y[120:].shape
    assert_array_equal(predicted, model.predict_proba(X[120:]) > 0.5)
    common = np.maximum(Y[:120].mean(axis=0), 1 - Y[:120].mean(axis=0)).mean()
    assert np.mean(predicted == Y[120:]) > common + 0.03
    assert model.held_out_score_ > common


def test_samples_without_label_take_part_if_they_help_clearly(monkeypatch):
    X, y = load_digits(return_X_y=True)
    few, rest = split_per_class(y, 3, random_state=2)
    others, test = rest[:400], rest[500:]
    rows = np.concatenate([others, few])
    partly = np.where(np.isin(rows, few), y[rows], -1)
    model = JPlayCommittee(4, n_landmarks=200, random_state=0)
    alone = clone(model).fit(X[few], y[few])
    assert not alone.uses_unlabeled_
    helped = clone(model).fit(X[rows], partly)
    assert helped.uses_unlabeled_
    assert_array_equal(helped.classes_, np.arange(10))
    assert {member.neighbors.shape[0] for member in helped.members_} == {len(few)}
    assert {member.chain.read_out.shape[0] for member in helped.members_} == {200}
    assert_array_equal(np.isnan(helped.held_out_proba_).all(axis=1), partly == -1)
    assert helped.score(X[test], y[test]) > alone.score(X[test], y[test]) + 0.02
    # A sample of weight zero is one without label; nothing is clear enough for a gain of all.
    monkeypatch.setattr("jplay.estimators._committee.CLEAR_GAIN", 0.0)
    model = JPlayCommittee(2, views=["plain"], random_state=0)
    hidden = clone(model).fit(X[rows], partly)
    assert not hidden.uses_unlabeled_
    assert {member.chain.read_out.shape[0] for member in hidden.members_} == {len(few)}
    weightless = model.fit(X[rows], y[rows], (partly >= 0).astype(float))
    assert_array_equal(weightless.predict(X[test]), hidden.predict(X[test]))


def test_minus_one_is_a_class_if_nothing_is_missing():
    X, y, X_test, y_test = divided(load_breast_cancer, 20)
    signs = JPlayCommittee(3, random_state=0).fit(X, 2 * y - 1)
    assert_array_equal(signs.classes_, [-1, 1])
    assert signs.score(X_test, 2 * y_test - 1) > 0.85
    three = JPlayCommittee(3, random_state=0, unlabeled=None).fit(X, np.where(X[:, 0] > 20, 2, -y))
    assert_array_equal(three.classes_, [-1, 0, 2])


def test_weights_move_the_decision():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [150, 30])
    X = rng.normal(size=(180, 4)) + 1.2 * y[:, None]
    X_test = rng.normal(size=(400, 4)) + 0.6
    plain = JPlayCommittee(6, random_state=0).fit(X, y).predict(X_test).mean()
    balanced = JPlayCommittee(6, class_weight="balanced", random_state=0).fit(X, y)
    assert balanced.predict(X_test).mean() > plain + 0.05
    weighted = JPlayCommittee(6, random_state=0).fit(X, y, np.where(y == 1, 5.0, 1.0))
    assert np.mean(weighted.predict(X_test) == balanced.predict(X_test)) > 0.98
    named = JPlayCommittee(6, class_weight={0: 1.0, 1: 5.0}, random_state=0).fit(X, y)
    assert_array_equal(named.predict(X_test), weighted.predict(X_test))
    with pytest.raises(ValueError, match="positive weight, got zero for"):
        JPlayCommittee(3).fit(X, y, (y == 0).astype(float))


def test_counts_of_words_are_compared_by_direction():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(300, 0.05), size=6)
    Y = (rng.random((240, 6)) < 0.3).astype(int)
    Y[Y.sum(axis=1) == 0, 0] = 1
    shares = Y @ topics / Y.sum(axis=1)[:, None]
    lengths = rng.integers(10, 60, len(Y))
    X = np.stack([rng.multinomial(n, p) for n, p in zip(lengths, shares, strict=True)])
    model = JPlayCommittee(8, n_landmarks=40, random_state=0).fit(X[:160], Y[:160])
    assert {KINDS[member.kind][0] for member in model.members_} == {"normalised"}
    sizes = {member.chain.read_out.shape[0] for member in model.members_}
    assert sizes.isdisjoint(range(100))
    # Documents twice as long have the same labels.
    assert_allclose(model.predict_proba(2 * X[160:]), model.predict_proba(X[160:]), atol=1e-4)
    plain = JPlayCommittee(8, views=["plain"], random_state=0).fit(X[:160], Y[:160])
    assert np.mean(model.predict(X[160:]) == Y[160:]) > 0.9
    assert model.held_out_score_ > plain.held_out_score_


def test_max_features_limits_the_subsets(digits):
    X, y, _, _ = digits
    model = JPlayCommittee(6, max_features=5, random_state=0).fit(X, y)
    supervised = [m for m in model.members_ if KINDS[m.kind][0] == "supervised"]
    assert {len(m.chain.views[0].features) for m in supervised} == {5}


def test_many_samples_are_bounded(monkeypatch):
    monkeypatch.setattr("jplay.estimators._committee.MAX_SAMPLES", 100)
    X, y = load_digits(return_X_y=True)
    model = JPlayCommittee(4, n_landmarks=50, random_state=0).fit(X, y)
    assert {len(member.neighbors) for member in model.members_} == {100}
    lifted = [member.chain for member in model.members_ if KINDS[member.kind][0] != "additive"]
    assert {chain.read_out.shape[0] for chain in lifted} == {50}
    assert model.score(X, y) > 0.8


def test_wide_samples_are_bounded(digits, monkeypatch):
    X, y, _, _ = digits
    monkeypatch.setattr("jplay.estimators._committee.MAX_RAMPED", 20 * len(X))
    [member] = JPlayCommittee(4, n_trials=0, views=["additive"]).fit(X, y).members_
    assert len(member.chain.columns) == 20
    [member] = JPlayCommittee(4, n_trials=0, views=["additive"], max_features=7).fit(X, y).members_
    assert len(member.chain.columns) == 7


def test_curves_of_single_features_are_found():
    """Classes overlap in most features, and one tells by being far from its middle."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6)) ** 3
    y = (np.abs(X[:, 2]) > 0.3).astype(int)
    model = JPlayCommittee(random_state=0).fit(X[:200], y[:200])
    lifted = ["supervised", "plain", "standardised"]
    others = JPlayCommittee(views=lifted, random_state=0).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > others.score(X[200:], y[200:]) + 0.03
    assert model.feature_importances_.argmax() == 2


def test_an_additive_member_alone_is_a_committee(digits):
    X, y, X_test, y_test = digits
    model = JPlayCommittee(views=["additive"], random_state=0).fit(X, y)
    assert len(model.members_) == 1  # a second would be the same
    assert model.score(X_test, y_test) > 0.88
    assert_allclose(model.predict_proba(X_test).sum(axis=1), 1, atol=1e-6)
    assert_array_equal(model.predict(X_test), model.predict_proba(X_test).argmax(axis=1))
    labels = np.eye(10, dtype=int)[y]
    assert JPlayCommittee(views=["additive"]).fit(X, labels).score(X_test, np.eye(10)[y_test]) > 0.5


def test_dask_and_blocks_agree_with_memory(digits, committee):
    da = pytest.importorskip("dask.array")
    _, _, X_test, _ = digits
    lazy = committee.predict_proba(da.from_array(X_test, chunks=(300, -1)))
    assert_allclose(lazy.compute(), committee.predict_proba(X_test), atol=1e-6)


def test_torch_agrees_with_numpy(digits, committee):
    torch = pytest.importorskip("torch")
    _, _, X_test, _ = digits
    # What predict_proba does once scikit-learn has let an array of another library through.
    found = committee._probabilities(torch.asarray(X_test), committee._ballots())
    assert isinstance(found, torch.Tensor)
    expected = committee.predict_proba(X_test)
    # In single precision a third neighbour may be another one; no more than a vote changes.
    assert_allclose(found.numpy(), expected, atol=5e-3)
    assert np.mean(found.numpy().argmax(axis=1) == expected.argmax(axis=1)) > 0.999


def test_processes_fit_the_same_members(digits, monkeypatch):
    X, y, X_test, _ = digits
    X, y = X[::2], y[::2]
    expected = JPlayCommittee(2, n_trials=0, random_state=0).fit(X, y).predict_proba(X_test)
    monkeypatch.setattr("jplay.estimators._committee._MAX_THREADS", 1)
    found = JPlayCommittee(2, n_trials=0, n_jobs=2, random_state=0).fit(X, y)
    assert_allclose(found.predict_proba(X_test), expected, atol=1e-6)


DEVICE_CASES = {
    "classes": {},
    "weights": {"weight": True},
    "missing labels": {"missing": True},
    "many features": {"features": 40},
    "words": {"views": ["normalised"]},
    "small runs": {"run": 2**15},
}


FIT_ON_TORCH = """
import numpy as np, sklearn, torch
from sklearn.datasets import load_wine
from jplay import JPlayCommittee, LiftedJPlay

X, y = load_wine(return_X_y=True)
y[::5] = -1
with sklearn.config_context(array_api_dispatch=True):
    for model in (JPlayCommittee(2, random_state=0), LiftedJPlay(n_landmarks=60)):
        expected = model.fit(X, y).predict(X)
        found = model.fit(torch.asarray(X), torch.asarray(y)).predict(torch.asarray(X))
        assert isinstance(found, torch.Tensor) and isinstance(model.classes_, torch.Tensor)
        # Samples in host memory can be predicted as well.
        assert isinstance(model.predict(X), np.ndarray)
        print(np.mean(found.numpy() == expected))
"""


def test_fit_on_torch_agrees_with_numpy():
    pytest.importorskip("torch")
    # scikit-learn lets arrays of other libraries through only if this is set before its import.
    result = subprocess.run(
        [sys.executable, "-c", FIT_ON_TORCH],
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert min(map(float, result.stdout.split())) >= 0.99


@pytest.mark.parametrize("model", [LiftedJPlay(), JPlayCommittee(3, random_state=0)])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, 0 * y), "at least 2 classes"),
        (lambda X, y: (np.where(X[0, 0] == X, np.nan, X), y), "NaN"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
    ],
)
def test_bad_input_gets_a_clear_error(model, change, message):
    X, y, _, _ = divided(load_wine, 10)
    with pytest.raises(ValueError, match=message):
        model.fit(*change(X, y))


@pytest.mark.parametrize("model", [LiftedJPlay(), JPlayCommittee(6, random_state=0)])
def test_odd_samples_give_a_sensible_result(model):
    X, y, X_test, y_test = divided(load_wine, 10)
    constant = np.column_stack([X, np.ones(len(X)), np.zeros(len(X))])
    constant_test = np.column_stack([X_test, np.ones(len(X_test)), np.zeros(len(X_test))])
    assert model.fit(constant, y).score(constant_test, y_test) > 0.85
    one_of_each = [np.flatnonzero(y == k)[0] for k in range(3)]
    few = model.fit(X[one_of_each], y[one_of_each])
    assert few.score(X_test, y_test) > 0.5
    assert np.isfinite(few.predict_proba(X_test)).all()
    single = np.r_[np.flatnonzero(y == 0)[:1], np.flatnonzero(y > 0)]
    assert model.fit(X[single], y[single]).score(X_test, y_test) > 0.6
    repeated = np.repeat(np.arange(len(X)), 2)
    assert model.fit(X[repeated], y[repeated]).score(X_test, y_test) > 0.85
    flat = model.fit(np.ones_like(X), y)
    assert np.isfinite(flat.predict_proba(X_test)).all()


def test_committee_without_trials_counts_all_votes_alike():
    X, y = load_wine(return_X_y=True)
    model = JPlayCommittee(6, n_trials=0, views=["supervised", "plain"], random_state=0).fit(X, y)
    counts = np.bincount([member.kind for member in model.members_], minlength=len(KINDS))
    assert counts.sum() == 6
    assert_allclose(model.weights_[counts > 0], 1 / (2 * np.count_nonzero(counts)))
    assert np.isnan(model.held_out_score_)
    assert np.isnan(model.held_out_proba_).all()
    assert model.score(X, y) > 0.9
    labels = np.eye(3, dtype=int)[y]
    assert len(JPlayCommittee(4, n_trials=0, random_state=0).fit(X, labels).members_) == 4


def test_views_limit_what_members_see():
    X, y = load_wine(return_X_y=True)
    model = JPlayCommittee(9, views=["plain", "standardised"], random_state=0).fit(X, y)
    assert {KINDS[member.kind][0] for member in model.members_} == {"plain", "standardised"}
    for wrong in (["spectral"], []):
        with pytest.raises(ValueError, match="`views` should name some of additive, normal"):
            JPlayCommittee(2, views=wrong).fit(X, y)
