"""Every public estimator, in every variant, survives a file."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import jplay
from graphs import heat_affinity
from jplay import (
    LFDA,
    LPP,
    LSDR,
    LSQMID,
    NPE,
    AutoRULe,
    CanonicalCorrelationForestClassifier,
    CrossSensorJPlay,
    DomainJPlay,
    FastSolver,
    HeatGraph,
    JPlay,
    JPlayBandSelector,
    JPlayCommittee,
    JPlayRegressor,
    JPlaySearchCV,
    LiftedJPlay,
    MultiLabelJPlay,
    MultiTaskJPlay,
    PaperSolver,
    SoftLabelPropagation,
    SpatialJPlay,
)
from jplay.datasets import make_hyperspectral_scene
from jplay.persistence import is_trusted_type, load_model, save_model

pytest.importorskip("skops")

X, y = load_iris(return_X_y=True)
X_LABELS, Y_LABELS = make_multilabel_classification(n_samples=80, n_classes=3, random_state=0)
X_LABELS = X_LABELS / X_LABELS.max()
SCENE = make_hyperspectral_scene(random_state=0)
SOME_LABELS = 0 * SCENE.ground_truth
SOME_LABELS[::3, ::3] = SCENE.ground_truth[::3, ::3]
PARTLY = np.where(np.arange(len(y)) % 3, y, -1)

VARIANTS = {
    "JPlayBandSelector": [
        (JPlayBandSelector(2, n_resamples=1, random_state=0), X, y),
        (JPlayBandSelector(1, feature_costs=[1.0, 2.0, 1.0, 1.0], refine=False), X, y),
    ],
    "JPlay": [
        (JPlay(3), X, y),
        (JPlay("auto", 1), X, y),
        (JPlay(3, "auto"), X, y),
        (JPlay(None, [4, 3]), X, y),
        (JPlay(3, graph=HeatGraph(5, 0.3)), X, y),
        (JPlay(3, graph=heat_affinity(X, 5)[0]), X, y),
        (JPlay(3, solver="paper"), X, y),
        (JPlay(3, solver=FastSolver(max_iter=50)), X, y),
        (JPlay(3, solver=PaperSolver(max_iter=3)), X, y),
        (JPlay(3, unlabeled=SoftLabelPropagation(0.5)), X, PARTLY),
        (JPlay(3, class_weight={0: 2.0}, decision="projection"), X, y),
        (JPlay(3), X.astype(np.float32), np.array(["a", "b", "c"])[y]),
        (JPlay(3), X_LABELS, Y_LABELS),
        (make_pipeline(Normalizer(norm="max"), JPlay(3)), X, y),
    ],
    "AutoRULe": [(AutoRULe(2), X, None)],
    "LPP": [(LPP(2), X, None), (LPP(2, graph=HeatGraph(5)), X, None)],
    "NPE": [(NPE(2), X, None)],
    "LFDA": [(LFDA(2), X, y)],
    "LSDR": [(LSDR(2, max_iter=3, n_restarts=0), X, y)],
    "LSQMID": [(LSQMID(2, max_iter=3, n_restarts=0), X, y)],
    "CanonicalCorrelationForestClassifier": [
        (CanonicalCorrelationForestClassifier(5, random_state=0), X, y),
        (CanonicalCorrelationForestClassifier(5, random_state=0), X_LABELS, Y_LABELS),
    ],
    "JPlaySearchCV": [(JPlaySearchCV({"alpha": [1.0, 10.0]}, estimator=JPlay(3, 1), cv=2), X, y)],
    "JPlayRegressor": [
        (JPlayRegressor(3), X[:, 1:], X[:, 0]),
        (JPlayRegressor(2, n_layers=2), X[:, 2:], X[:, :2]),
    ],
    "LiftedJPlay": [
        (LiftedJPlay(), X, y),
        (LiftedJPlay(n_landmarks=20), X, PARTLY),
        (LiftedJPlay(), X_LABELS, Y_LABELS),
    ],
    "JPlayCommittee": [
        (JPlayCommittee(6, random_state=0), X, np.array(["a", "b", "c"])[y]),
        (JPlayCommittee(4, random_state=0), X_LABELS, Y_LABELS),
    ],
    "CrossSensorJPlay": [
        (CrossSensorJPlay(JPlay(3)), X, y),
        (CrossSensorJPlay(JPlayCommittee(2, random_state=0)), X, y),
    ],
    "DomainJPlay": [(DomainJPlay(), X, PARTLY), (DomainJPlay(JPlay(3), n_rounds=1), X, y)],
    "MultiLabelJPlay": [
        (MultiLabelJPlay(JPlayCommittee(4, random_state=0)), X_LABELS, Y_LABELS),
        (MultiLabelJPlay(JPlay(3)), X_LABELS, Y_LABELS),
        (MultiLabelJPlay(JPlayCommittee(4, random_state=0)), X, y),
    ],
    "MultiTaskJPlay": [
        (MultiTaskJPlay(3), X, np.stack([PARTLY, (y + 1) % 3], axis=1)),
        (MultiTaskJPlay(3, tasks={1: "regression"}), X[:, 1:], np.stack([PARTLY, X[:, 0]], axis=1)),
        (MultiTaskJPlay(2, n_layers=2, tasks="classification"), X, np.array(["a", "b", "c"])[y]),
    ],
    "SpatialJPlay": [
        (
            SpatialJPlay(n_estimators=4, radius=1, calibration_folds=2, random_state=0),
            SCENE.cube,
            SOME_LABELS,
        ),
        (SpatialJPlay(JPlay(3, 1), radius=1, calibration_folds=0), SCENE.cube, SCENE.ground_truth),
    ],
}
METHODS = ("transform", "predict", "predict_proba", "decision_function", "score_samples")


def public_estimators():
    return [
        name
        for name in jplay.__all__
        if isinstance(getattr(jplay, name), type)
        and issubclass(getattr(jplay, name), BaseEstimator)
    ]


def test_no_public_estimator_is_left_out():
    assert sorted(VARIANTS) == sorted(public_estimators())


@pytest.mark.parametrize(
    ("estimator", "samples", "targets"),
    [
        pytest.param(*case, id=f"{name}-{i}")
        for name in VARIANTS
        for i, case in enumerate(VARIANTS[name])
    ],
)
def test_every_estimator_saves_and_loads(estimator, samples, targets, tmp_path):
    estimator.fit(samples, targets)
    loaded = load_model(save_model(estimator, tmp_path / "model.skops")).estimator
    assert type(loaded) is type(estimator)
    compared = 0
    for method in METHODS:
        if hasattr(estimator, method):
            expected, found = getattr(estimator, method)(samples), getattr(loaded, method)(samples)
            if np.asarray(expected).dtype.kind in "fc":
                assert_allclose(found, expected, rtol=1e-12)
            else:
                np.testing.assert_array_equal(found, expected)
            compared += 1
    assert compared


@pytest.mark.parametrize(
    ("name", "trusted"),
    [
        ("jplay.estimators.jplay.JPlay", True),
        ("jplay.core.graph.HeatGraph", True),
        ("jplay.estimators.soft_labels.SoftLabelPropagation", True),
        ("jplay.core.problem.RowSlice", False),
        ("jplay.core.blocked.ClusterSamples", False),
        ("jplay.estimators.jplay.namespace", False),
        ("jplay.estimators._missing.JPlay", False),
        ("os.system", False),
        ("evil.JPlay", False),
    ],
)
def test_trust_follows_a_rule(name, trusted):
    assert is_trusted_type(name) == trusted
