import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from jplay.numerics import metrics
from jplay.numerics.metrics import AccuracyReport

label_pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=60)


@given(label_pairs)
def test_metrics_agree_with_scikit_learn(pairs):
    y_true, y_pred = np.array(pairs).T
    labels = np.arange(5)
    report = AccuracyReport.from_labels(y_true, y_pred, labels=labels)
    np.testing.assert_array_equal(
        report.confusion, reference.confusion_matrix(y_true, y_pred, labels=labels)
    )
    assert report.overall_accuracy == pytest.approx(reference.accuracy_score(y_true, y_pred))
    recall, precision = (
        score(y_true, y_pred, labels=labels, average=None, zero_division=np.nan)
        for score in (reference.recall_score, reference.precision_score)
    )
    np.testing.assert_allclose(report.producers_accuracy, recall)
    np.testing.assert_allclose(report.users_accuracy, precision)
    in_truth = np.isin(labels, y_true)
    assert report.average_accuracy == pytest.approx(recall[in_truth].mean())
    if np.union1d(y_true, y_pred).size > 1:
        assert report.kappa == pytest.approx(reference.cohen_kappa_score(y_true, y_pred), abs=1e-12)
    else:
        assert np.isnan(report.kappa)


def test_confusion_matrix_follows_the_order_of_labels_of_any_type():
    confusion = metrics.confusion_matrix(
        ["water", "soil", "soil"], ["soil", "soil", "water"], labels=["water", "soil", "road"]
    )
    np.testing.assert_array_equal(confusion, [[0, 1, 0], [1, 1, 0], [0, 0, 0]])


def test_report_survives_json_with_undefined_figures_as_null():
    report = AccuracyReport.from_labels([1, 1], [1, 1], labels=[1, 2])
    record = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert record["producers_accuracy"] == [1.0, None]
    assert record["kappa"] is None
    assert record["overall_accuracy"] == 1.0


def test_report_from_confusion_equals_report_from_labels():
    y_true, y_pred = [3, 3, 5, 5, 5], [3, 5, 5, 5, 3]
    direct = AccuracyReport.from_labels(y_true, y_pred)
    derived = AccuracyReport.from_confusion(direct.confusion, labels=direct.labels)
    assert direct.to_dict() == derived.to_dict()


@pytest.mark.parametrize(
    ("y_true", "y_pred", "labels", "message"),
    [
        ([], [], None, "`y_true` should be one-dimensional"),
        ([1, 2], [1], None, "`y_pred` should have as many labels"),
        ([[1]], [[1]], None, "one-dimensional"),
        ([1, 2], [1, 1], [1], r"`y_true` should contain only .* got also \[2\]"),
        ([1, 1], [1, 0], [1], r"`y_pred` should contain only .* got also \[0\]"),
        ([1], [1], [1, 1], "distinct classes"),
    ],
)
def test_bad_labels_are_refused(y_true, y_pred, labels, message):
    with pytest.raises(ValueError, match=message):
        AccuracyReport.from_labels(y_true, y_pred, labels=labels)


@pytest.mark.parametrize("confusion", [[[1, 2]], [[0, 0], [0, 0]], [[2, -1], [0, 1]]])
def test_bad_confusion_is_refused(confusion):
    with pytest.raises(ValueError, match="`confusion` should"):
        metrics.overall_accuracy(confusion)


def test_report_wants_one_label_per_class():
    with pytest.raises(ValueError, match="`labels` should name the 2 classes"):
        AccuracyReport.from_confusion(np.eye(2), labels=[1])
