"""Two sensors at training, one afterwards: who teaches, what is learnt, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from closeness import assert_close
from jplay import CrossSensorJPlay, HeatGraph, JPlay, JPlayCommittee
from jplay.blocks import blocked
from jplay.persistence import load_model, save_model

N_SEEN, N_LABELLED = 600, 24


@pytest.fixture(scope="module")
def sensors():
    """Four classes that the richer sensor separates, and a noisy view of it; labels of a few."""
    rng = np.random.default_rng(0)
    y = np.arange(2 * N_SEEN) % 4
    rich = 4 * rng.normal(size=(4, 10))[y] + rng.normal(size=(2 * N_SEEN, 10))
    poor = rich @ rng.normal(size=(10, 8)) + 6 * rng.normal(size=(2 * N_SEEN, 8))
    hidden = np.where(np.arange(2 * N_SEEN) < N_LABELLED, y, -1)
    return poor, rich, y, hidden


def lda():
    return LinearDiscriminantAnalysis()


def across(**parameters):
    return CrossSensorJPlay(lda(), **({"teacher": lda()} | parameters))


@parametrize_with_checks([CrossSensorJPlay(GaussianNB())])
def test_cross_sensor_fulfils_sklearn_contract(estimator, check):
    check(estimator)


def test_the_richer_sensor_teaches_the_poorer_one(sensors):
    poor, rich, y, hidden = sensors
    model = across().fit(poor[:N_SEEN], hidden[:N_SEEN], rich[:N_SEEN])
    alone = lda().fit(poor[:N_LABELLED], y[:N_LABELLED])
    new = slice(N_SEEN, None)
    assert model.score(poor[new], y[new]) > alone.score(poor[new], y[new]) + 0.05
    assert model.held_out_scores_["taught"] >= model.held_out_scores_["alone"]
    assert model.taught_.min() >= N_LABELLED
    assert len(np.unique(model.taught_)) == len(model.taught_)


def test_the_model_learns_from_labelled_and_taught_samples_alone(sensors):
    poor, rich, y, hidden = sensors
    model = across(n_taught=30).fit(poor[:N_SEEN], hidden[:N_SEEN], rich[:N_SEEN])
    teacher = lda().fit(rich[:N_LABELLED], y[:N_LABELLED])
    rows = np.concatenate([np.arange(N_LABELLED), model.taught_])
    labels = np.concatenate([y[:N_LABELLED], teacher.predict(rich[model.taught_])])
    assert np.bincount(labels[N_LABELLED:]).max() <= 30
    expected = lda().fit(poor[rows], labels)
    assert_close(model.predict_proba(poor), expected.predict_proba(poor), 1e-8)


def test_a_teacher_who_knows_nothing_is_not_followed(sensors):
    poor, _, y, _ = sensors
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(N_SEEN, 10))
    hidden = np.where(np.arange(N_SEEN) < 120, y[:N_SEEN], -1)
    model = across().fit(poor[:N_SEEN], hidden, noise)
    assert model.held_out_scores_["taught"] < model.held_out_scores_["alone"]
    assert len(model.taught_) == 0
    alone = lda().fit(poor[:120], y[:120])
    assert_close(model.predict_proba(poor), alone.predict_proba(poor), 1e-8)


@pytest.mark.parametrize("with_rich", [True, False])
def test_nothing_to_teach_without_samples_that_lack_labels(sensors, with_rich):
    poor, rich, y, _ = sensors
    model = across().fit(poor[:200], y[:200], rich[:200] if with_rich else None)
    assert model.teacher_ is None
    assert model.held_out_scores_ == {}
    expected = lda().fit(poor[:200], y[:200])
    assert_array_equal(model.predict(poor), expected.predict(poor))


def test_committees_are_judged_by_their_own_held_out_votes(sensors):
    poor, rich, _, hidden = sensors
    # Few kinds, so that every fold is left out.
    settings = {"views": ["plain"], "n_landmarks": 40, "n_coordinates": 20, "random_state": 0}
    member = JPlayCommittee(4, **settings)
    model = CrossSensorJPlay(member, teacher=lda(), n_taught=20)
    model.fit(poor[:300], hidden[:300], rich[:300])
    held = model.held_out_scores_
    alone = JPlayCommittee(4, **settings).fit(poor[:N_LABELLED], hidden[:N_LABELLED])
    assert held["alone"] == pytest.approx(alone.held_out_score_)
    assert (held["taught"] >= held["alone"]) == (len(model.taught_) > 0)


def test_names_as_labels_and_single_precision(sensors):
    poor, rich, y, _ = sensors
    names = np.array(["ash", "birch", "cedar", "fir"], dtype=object)[y[:N_SEEN]]
    names[N_LABELLED:] = -1
    model = across().fit(poor[:N_SEEN].astype(np.float32), names, rich[:N_SEEN])
    assert set(model.predict(poor)) <= {"ash", "birch", "cedar", "fir"}
    assert len(model.taught_)


def test_transform_is_that_of_the_poorer_sensor(sensors):
    poor, rich, _, hidden = sensors
    stage = JPlay(3, graph=HeatGraph(5))
    model = CrossSensorJPlay(stage, teacher=stage).fit(poor[:300], hidden[:300], rich[:300])
    features = model.transform(poor)
    assert features.shape == (len(poor), 3)
    assert_allclose(features, model.model_.transform(poor))
    assert not hasattr(CrossSensorJPlay(), "transform")
    assert_array_equal(model.predict(blocked(poor, 250)), model.predict(poor))


def test_a_file_leaves_the_teacher_out(sensors, tmp_path):
    pytest.importorskip("skops")
    poor, rich, _, hidden = sensors
    model = across().fit(poor[:N_SEEN], hidden[:N_SEEN], rich[:N_SEEN])
    loaded = load_model(save_model(model, tmp_path / "model.skops")).estimator
    assert_allclose(loaded.predict_proba(poor), model.predict_proba(poor), rtol=1e-12)
    assert not hasattr(loaded, "teacher_")


def test_bad_input_is_named(sensors):
    poor, rich, y, hidden = sensors
    with pytest.raises(ValueError, match=r"`X_rich` should be given .* 576"):
        across().fit(poor[:N_SEEN], hidden[:N_SEEN])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        across().fit(poor[:N_SEEN], hidden[:N_SEEN], rich)
    with pytest.raises(ValueError, match="Input X_rich contains NaN"):
        across().fit(poor, hidden, np.full_like(rich, np.nan))
    with pytest.raises(ValueError, match="0 sample"):
        across().fit(poor, hidden, rich[:0])
    with pytest.raises(ValueError, match="samples in blocks"):
        across().fit(blocked(poor, 100), hidden, rich)
    with pytest.raises(ValueError, match="label"):
        across().fit(poor, np.full(len(poor), -1), rich)
    with pytest.raises(ValueError, match="1d array"):
        across().fit(poor, np.stack([y, y], axis=1) % 2, rich)
    with pytest.raises(ValueError, match="n_taught"):
        across(n_taught=0).fit(poor, hidden, rich)
    model = across().fit(poor[:200], y[:200])
    with pytest.raises(ValueError, match=r"10 features.* expecting 8"):
        model.predict(rich)
