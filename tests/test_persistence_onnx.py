"""ONNX graphs give the predictions of the models they were made from."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from jplay import JPlay, JPlayCommittee, LiftedJPlay, MultiLabelJPlay
from jplay.datasets import split_per_class
from jplay.persistence import export_onnx

pytest.importorskip("onnx", reason="export needs onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="runs the graphs")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    train, test = split_per_class(y, 10, random_state=0)
    return X[train], y[train], X[test]


@pytest.fixture(scope="module")
def labelled():
    X, Y = make_multilabel_classification(n_samples=240, n_classes=4, random_state=0)
    return X[:80], Y[:80], X[80:]


def run(path, X):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": X}), strict=True))


@pytest.mark.parametrize(
    "model",
    [
        LiftedJPlay(n_landmarks=60),
        make_pipeline(Normalizer(norm="max"), JPlayCommittee(3, random_state=0)),
    ],
)
def test_graph_predicts_as_the_model_does(model, digits, tmp_path):
    X, y, X_test = digits
    model.fit(X, np.array(list("abcdefghij"))[y])
    labels, probabilities = model.predict(X_test), model.predict_proba(X_test)
    found = run(export_onnx(model, tmp_path / "m.onnx"), X_test)
    differences = np.abs(found["probabilities"] - probabilities).max(axis=1)
    assert np.mean(differences < 1e-4) >= 0.999
    assert np.mean(found["label"] == labels) >= 0.999
    single = X_test.astype(np.float32)
    found = run(export_onnx(model, tmp_path / "m.onnx", dtype=np.float32), single)
    assert found["probabilities"].dtype == np.float32
    # The distances of near neighbours are rounded, and one of two at the same may be the other.
    differences = np.abs(found["probabilities"] - probabilities).max(axis=1)
    assert np.median(differences) < 1e-4
    assert np.mean(found["label"] == labels) >= 0.997


def test_lifted_graph_gives_features_and_scores(digits, tmp_path):
    X, y, X_test = digits
    model = LiftedJPlay().fit(X, y)
    found = run(export_onnx(model, tmp_path / "m.onnx"), X_test)
    assert_allclose(found["features"], model.transform(X_test), atol=1e-8)
    assert_allclose(found["scores"], model.decision_function(X_test), atol=1e-8)
    assert_array_equal(found["label"], model.predict(X_test))


@pytest.mark.parametrize(
    "model",
    [
        LiftedJPlay(),
        MultiLabelJPlay(JPlayCommittee(2, random_state=0)),
        MultiLabelJPlay(make_pipeline(Normalizer(), JPlay()), thresholds=0.3),
    ],
)
def test_graph_of_several_labels(model, labelled, tmp_path):
    X, Y, X_test = labelled
    model.fit(X, Y)
    found = run(export_onnx(model, tmp_path / "m.onnx"), X_test)
    assert_allclose(found["probabilities"], model.predict_proba(X_test), atol=1e-6)
    assert_array_equal(found["label"], model.predict(X_test))


def test_graph_knows_weights_and_normalised_samples(labelled, tmp_path):
    X, Y, X_test = labelled
    model = JPlayCommittee(2, views=["normalised"], random_state=0)
    model.fit(X, Y[:, 0], np.linspace(0.2, 2.0, len(X)))
    found = run(export_onnx(model, tmp_path / "m.onnx"), X_test)
    assert_allclose(found["probabilities"], model.predict_proba(X_test), atol=1e-4)


@pytest.mark.parametrize("max_features", [None, 12])
def test_graph_knows_ramps_of_features(max_features, digits, tmp_path):
    X, y, X_test = digits
    model = JPlayCommittee(views=["additive"], max_features=max_features, random_state=0).fit(X, y)
    found = run(export_onnx(model, tmp_path / "m.onnx"), X_test)
    assert_allclose(found["probabilities"], model.predict_proba(X_test), atol=1e-4)
    assert_array_equal(found["label"], model.predict(X_test))


def test_linear_graph_gives_probabilities(digits, tmp_path):
    X, y, X_test = digits
    for decision in ("centroid", "projection"):
        model = JPlay(decision=decision).fit(X, y)
        found = run(export_onnx(model, tmp_path / "m.onnx"), X_test)
        assert_allclose(found["probabilities"], model.predict_proba(X_test), atol=1e-8)


def test_what_cannot_be_exported_is_refused_by_name(digits, labelled, tmp_path):
    X, y, _ = digits
    target = tmp_path / "m.onnx"
    scaled = make_pipeline(StandardScaler(), LiftedJPlay(n_landmarks=20)).fit(X, y)
    with pytest.raises(TypeError, match=r"or MultiLabelJPlay.*StandardScaler -> Lif"):
        export_onnx(scaled, target)
    forest = MultiLabelJPlay(RandomForestClassifier(3, random_state=0), thresholds=0.5)
    with pytest.raises(TypeError, match="got RandomForestClassifier"):
        export_onnx(forest.fit(labelled[0], labelled[1]), target)
    with pytest.raises(ValueError, match="`dtype` should be float32 or float64, got 'float16'"):
        export_onnx(JPlay().fit(X, y), target, dtype="float16")
    assert not target.exists()
