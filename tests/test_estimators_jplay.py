import logging
import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse
from sklearn.base import clone
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.datasets import load_digits, load_iris, make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from jplay import JPlay
from jplay.exceptions import CollapsedSolutionError
from jplay.numerics.graph import heat_affinity

IRIS, IRIS_TARGET = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    return X / X.max(axis=1, keepdims=True), y


@pytest.fixture(scope="module")
def distinct_digits(digits):
    """Digits without ties between neighbours, which would be broken by position."""
    X, y = digits
    return X + 0.01 * np.random.default_rng(0).random(X.shape), y


@pytest.fixture(scope="module")
def digits_model(digits):
    return JPlay(layer_sizes=[30, 20, 10]).fit(*digits)


@pytest.fixture(scope="module")
def multilabel():
    X, Y = make_multilabel_classification(
        n_samples=120, n_features=15, n_classes=4, random_state=0, allow_unlabeled=True
    )
    return X / X.max(axis=1, keepdims=True), Y


def test_fitted_attributes_have_their_promised_shapes(digits, digits_model):
    X, y = digits
    model = digits_model
    assert model.layer_sizes_ == [30, 20, 10]
    assert [theta.shape for theta in model.projections_] == [(30, 64), (20, 30), (10, 20)]
    assert model.components_.shape == (10, 64)
    assert model.intercept_.shape == (10,)
    assert model.first_intercept_.shape == (30,)
    assert model.coef_.shape == (10, 10)
    assert model.class_means_.shape == (10, 10)
    np.testing.assert_array_equal(model.classes_, np.arange(10))
    assert model.affinity_.shape == (300, 300)
    assert scipy.sparse.issparse(model.affinity_)
    assert model.bandwidth_ > 0
    assert len(model.objective_history_) >= model.n_iter_
    assert model.n_features_in_ == 64
    assert model.result_.status.converged
    assert model.predict(X).shape == y.shape
    assert model.decision_function(X).shape == (300, 10)
    assert model.score(X, y) > 0.95


def test_training_features_fulfil_the_constraints_at_every_layer(digits, digits_model):
    X, _ = digits
    for Z in digits_model.transform_layers(X):
        assert Z.min() > -1e-6
        assert np.linalg.norm(Z, axis=1).max() < 1 + 1e-6


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_transform_layers_ends_in_transform(digits, fit_intercept):
    X, y = digits
    model = JPlay(layer_sizes=[20, 10], max_iter=2, fit_intercept=fit_intercept).fit(X, y)
    layers = model.transform_layers(X)
    assert [Z.shape[1] for Z in layers] == [20, 10]
    np.testing.assert_allclose(layers[-1], model.transform(X), atol=1e-12)
    np.testing.assert_allclose(
        model.transform(X), X @ model.components_.T + model.intercept_, atol=1e-12
    )
    np.testing.assert_allclose(layers[0], X @ model.projections_[0].T + model.first_intercept_)
    assert np.any(model.intercept_) == fit_intercept


def test_fit_transform_is_transform_after_fit(digits, digits_model):
    X, y = digits
    model = clone(digits_model)
    np.testing.assert_array_equal(model.fit_transform(X, y), digits_model.transform(X))


def test_inverse_transform_goes_through_the_transposed_chain(digits, digits_model):
    X, _ = digits
    Z = digits_model.transform(X)
    expected = Z
    for theta in reversed(digits_model.projections_):
        expected = expected @ theta
    rebuilt = digits_model.inverse_transform(Z)
    assert rebuilt.shape == X.shape
    np.testing.assert_allclose(rebuilt, expected, atol=1e-12)


@pytest.mark.parametrize(
    "method", ["transform", "predict", "decision_function", "transform_layers"]
)
def test_methods_before_fit_raise(method):
    with pytest.raises(NotFittedError, match="JPlay instance is not fitted"):
        getattr(JPlay(), method)(IRIS)


@pytest.mark.parametrize(
    "labels", [np.array(["no", "yes"]), np.array([False, True]), np.array([-1, 1])]
)
@pytest.mark.parametrize("decision", ["centroid", "projection"])
def test_binary_targets(labels, decision):
    X, y = IRIS[:100], labels[(IRIS_TARGET[:100] > 0).astype(int)]
    model = JPlay(n_components=2, n_layers=2, decision=decision, max_iter=5).fit(X, y)
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.coef_.shape == (2, 2)
    scores = model.decision_function(X)
    assert scores.shape == (100,)
    np.testing.assert_array_equal(model.predict(X) == labels[1], scores > 0)
    assert model.predict(X).dtype == labels.dtype
    assert model.score(X, y) > 0.95


def test_string_classes_give_the_fit_of_their_codes():
    names = np.array(["setosa", "versicolor", "virginica"])[IRIS_TARGET]
    by_name = JPlay(n_components=3, n_layers=1, max_iter=5).fit(IRIS, names)
    by_code = JPlay(n_components=3, n_layers=1, max_iter=5).fit(IRIS, IRIS_TARGET)
    np.testing.assert_array_equal(by_name.components_, by_code.components_)
    np.testing.assert_array_equal(by_name.predict(IRIS), names[::50][by_code.predict(IRIS)])


def test_column_vector_target_is_raveled_with_a_warning():
    model = JPlay(n_components=3, n_layers=1, max_iter=2)
    with pytest.warns(UserWarning, match="column-vector y"):
        model.fit(IRIS, IRIS_TARGET[:, None])
    assert model.predict(IRIS).shape == (150,)


def test_multilabel_targets_dense_and_sparse(multilabel):
    X, Y = multilabel
    model = JPlay(layer_sizes=[10, 5], alpha=100.0, gamma=0.01, max_iter=5).fit(X, Y)
    predicted = model.predict(X)
    assert predicted.shape == Y.shape
    assert set(np.unique(predicted)) <= {0, 1}
    assert model.decision_function(X).shape == Y.shape
    np.testing.assert_array_equal(predicted, model.decision_function(X) > 0.5)
    np.testing.assert_array_equal(model.classes_, np.arange(4))
    assert not hasattr(model, "class_means_")
    assert np.mean(predicted == Y) > 0.7 > np.mean(np.zeros_like(Y) == Y)
    assert 0 <= model.score(X, Y) <= 1
    for format in (scipy.sparse.csr_array, scipy.sparse.csc_matrix):
        sparse = clone(model).fit(X, format(Y))
        np.testing.assert_array_equal(sparse.predict(X), predicted)


def test_decision_by_class_means_does_not_mask_the_middle_class():
    """Three classes on a line: least squares on one-hot targets never predicts the middle one."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    X = np.column_stack([1.0 + y + 0.1 * rng.normal(size=120), 0.05 * rng.random(120)])
    options = {"n_components": 1, "n_layers": 1, "unit_ball": False, "fit_intercept": True}
    centroid = JPlay(decision="centroid", **options).fit(X, y)
    projection = JPlay(decision="projection", **options).fit(X, y)
    np.testing.assert_array_equal(centroid.components_, projection.components_)
    assert centroid.score(X, y) > 0.98
    assert projection.score(X, y) < 0.8


def test_projection_decision_is_the_largest_output_of_the_label_projection(digits):
    X, y = digits
    model = JPlay(layer_sizes=[20, 10], decision="projection", max_iter=3).fit(X, y)
    scores = model.transform(X) @ model.coef_.T
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), scores.argmax(axis=1))


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"n_components": 4, "n_layers": 1}, [4]),
        ({"n_components": 4, "n_layers": 3}, [9, 7, 4]),
        ({"n_components": 12, "n_layers": 2}, [12, 12]),
        ({"n_layers": 2}, [12, 12]),
        ({"layer_sizes": [5]}, [5]),
        ({"layer_sizes": (7, 3)}, [7, 3]),
        ({"layer_sizes": np.array([7, 3]), "n_components": 3}, [7, 3]),
        ({"layer_sizes": [3, 8]}, [3, 8]),
        ({"layer_sizes": "paper", "n_components": 2}, [5, 5, 2]),
        ({"layer_sizes": "paper", "n_components": 7, "n_layers": 2}, [7, 7]),
    ],
    ids=str,
)
def test_layer_sizes(parameters, expected):
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 12)), np.arange(40) % 3
    model = JPlay(**parameters, max_iter=1, inner_max_iter=20).fit(X, y)
    assert model.layer_sizes_ == expected
    assert all(isinstance(size, int) for size in model.layer_sizes_)
    assert model.transform(X).shape == (40, expected[-1])


def test_layer_sizes_of_the_paper():
    rng = np.random.default_rng(0)
    X, y = rng.random((230, 220)), np.arange(230) % 3
    model = JPlay(20, 3, layer_sizes="paper", max_iter=1, inner_max_iter=12).fit(X, y)
    assert model.layer_sizes_ == [150, 85, 20]


def test_default_components_follow_the_rank():
    rng = np.random.default_rng(0)
    X = rng.random((50, 4)) @ rng.random((4, 30))
    model = JPlay(n_layers=2, max_iter=3).fit(X, np.arange(50) % 2)
    assert model.layer_sizes_ == [4, 4]
    wide = JPlay(n_layers=2, max_iter=1, inner_max_iter=5).fit(
        rng.random((80, 50)), np.arange(80) % 2
    )
    assert wide.layer_sizes_[-1] == 20


@pytest.mark.parametrize("fit_intercept", ["auto", True])
def test_centred_samples_get_an_affine_first_layer(digits, fit_intercept):
    X, y = digits
    X = X - X.mean(axis=0)
    model = JPlay(layer_sizes=[20, 10], fit_intercept=fit_intercept).fit(X, y)
    assert np.any(model.intercept_)
    assert model.projections_[0].shape == (20, 64)
    Z = model.transform(X)
    assert Z.min() > -1e-6
    assert np.linalg.norm(Z, axis=1).max() < 1 + 1e-6
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("layer_sizes", [[10], [20, 10]])
def test_linear_map_of_centred_samples_collapses_with_a_remedy(digits, layer_sizes):
    X, y = digits
    with pytest.raises(CollapsedSolutionError, match="Set `fit_intercept=True`"):
        JPlay(layer_sizes=layer_sizes, fit_intercept=False).fit(X - X.mean(axis=0), y)


def test_auto_intercept_is_left_out_where_a_linear_map_suffices(digits_model):
    assert not np.any(digits_model.intercept_)


def test_affinity_may_be_a_matrix_or_a_function(digits, digits_model):
    X, y = digits
    width = digits_model.bandwidth_
    graph, _ = heat_affinity(X, 10, width)
    options = {"layer_sizes": [10], "max_iter": 3}
    expected = JPlay(**options, bandwidth=width).fit(X, y)
    for affinity in (graph, graph.toarray(), lambda samples: heat_affinity(samples, 10, width)[0]):
        model = JPlay(**options, affinity=affinity).fit(X, y)
        np.testing.assert_allclose(model.components_, expected.components_, atol=1e-9)
        assert model.bandwidth_ is None


@pytest.mark.parametrize(
    "switches",
    [
        {"nonnegative": False},
        {"unit_ball": False},
        {"reconstruction": False, "eta": 0.0},
        {"nonnegative": False, "unit_ball": False},
    ],
    ids=str,
)
def test_switches_drop_a_part_of_the_model(digits, switches):
    X, y = digits
    model = JPlay(layer_sizes=[20, 10], max_iter=10, **switches).fit(X, y)
    Z = model.transform(X)
    assert (Z.min() < -1e-3) == (not switches.get("nonnegative", True))
    if switches.get("unit_ball", True):
        assert np.linalg.norm(Z, axis=1).max() < 1 + 1e-5
    else:
        assert np.linalg.norm(Z, axis=1).max() > 1.01
    reconstruction = [terms.reconstruction for terms in model.result_.objective_terms]
    assert np.any(reconstruction) == switches.get("reconstruction", True)
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("name", ["beta", "gamma", "eta"])
def test_zero_weights_work(digits, name):
    X, y = digits
    model = JPlay(layer_sizes=[20, 10], max_iter=10, **{name: 0}).fit(X, y)
    assert np.isfinite(model.transform(X)).all()
    assert model.score(X, y) > 0.9
    if name == "gamma":
        assert model.result_.objective_terms[-1].ridge == 0


def test_all_weights_may_be_zero_at_once(digits):
    X, y = digits
    model = JPlay(layer_sizes=[20, 10], max_iter=10, beta=0, gamma=0, eta=0).fit(X, y)
    assert model.score(X, y) > 0.9


def test_float32_stays_float32(digits):
    X, y = digits
    model = JPlay(layer_sizes=[20, 10], max_iter=5).fit(X.astype(np.float32), y)
    for name in ("components_", "intercept_", "coef_", "class_means_", "first_intercept_"):
        assert getattr(model, name).dtype == np.float32, name
    assert all(theta.dtype == np.float32 for theta in model.projections_)
    Z = model.transform(X.astype(np.float32))
    assert Z.dtype == np.float32
    assert all(layer.dtype == np.float32 for layer in model.transform_layers(X.astype(np.float32)))
    assert model.inverse_transform(Z).dtype == np.float32
    assert model.decision_function(X.astype(np.float32)).dtype == np.float32
    double = JPlay(layer_sizes=[20, 10], max_iter=5).fit(X, y)
    assert np.mean(double.predict(X) == model.predict(X.astype(np.float32))) > 0.97


def test_feature_names_and_pandas_output(digits):
    X, y = digits
    frame = pd.DataFrame(X, columns=[f"pixel {i}" for i in range(64)])
    model = JPlay(layer_sizes=[10, 3], max_iter=2).set_output(transform="pandas").fit(frame, y)
    np.testing.assert_array_equal(model.feature_names_in_, frame.columns)
    np.testing.assert_array_equal(model.get_feature_names_out(), ["jplay0", "jplay1", "jplay2"])
    Z = model.transform(frame)
    assert isinstance(Z, pd.DataFrame)
    assert list(Z.columns) == ["jplay0", "jplay1", "jplay2"]
    assert model.predict(frame).shape == (300,)
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame.rename(columns={"pixel 0": "other"}))


def test_clone_and_pickle_keep_the_model(digits, digits_model):
    X, _ = digits
    copy = pickle.loads(pickle.dumps(digits_model))
    np.testing.assert_array_equal(copy.transform(X), digits_model.transform(X))
    np.testing.assert_array_equal(copy.predict(X), digits_model.predict(X))
    fresh = clone(digits_model)
    assert fresh.get_params() == digits_model.get_params()
    assert not hasattr(fresh, "components_")


def test_pipeline_and_grid_search():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), JPlay(n_components=3, n_layers=1, max_iter=5)),
        {"jplay__alpha": [1.0, 10.0]},
        cv=2,
    ).fit(IRIS, IRIS_TARGET)
    assert search.best_score_ > 0.9


def test_outer_iterations_that_run_out_are_reported(digits):
    message = (
        r"JPlay did not converge: no convergence within max_iter=2 outer iterations "
        r"\(relative change of the objective .*\): increase max_iter or tol=0\.0001\."
    )
    with pytest.warns(ConvergenceWarning, match=message):
        model = JPlay(layer_sizes=[20, 10], solver="paper", max_iter=2).fit(*digits)
    assert model.n_iter_ == 2
    assert not model.result_.status.converged


def test_inner_iterations_that_run_out_are_reported(digits):
    message = r"increase inner_max_iter or inner_tol"
    with pytest.warns(ConvergenceWarning, match=message):
        JPlay(layer_sizes=[20, 10], solver="paper", inner_max_iter=10, tol=0.1).fit(*digits)


def test_verbose_logs_a_line_per_iteration(digits, caplog):
    with caplog.at_level(logging.INFO, logger="jplay"):
        model = JPlay(layer_sizes=[10], max_iter=3, tol=0, verbose=1)
        model.fit(*digits)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert lines[1] == f"iteration 2: objective {model.objective_history_[1]:.8g}"


class Recorder:
    """Callback that notes every task and stops after a number of fine-tuning iterations."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.begun, self.ended, self.scores = [], [], []
        self.events = []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        self.ended.append(context.task_name)
        if fitted_estimator is not None:
            self.scores.append(fitted_estimator.score(X, y))
        return self.stop_after is not None and self.ended.count("fine-tuning") >= self.stop_after


def test_callbacks_follow_the_fit_and_may_stop_it(digits):
    X, y = digits
    recorder = Recorder(stop_after=3)
    model = JPlay(layer_sizes=[20, 10], solver="paper", tol=0)
    model.set_callbacks(recorder).fit(X, y)
    assert model.n_iter_ == 3
    assert model.result_.status.message == "stopped by a callback"
    steps = ["pretraining", "pretraining", "fine-tuning", "fine-tuning", "fine-tuning"]
    assert recorder.begun == ["fit", *steps]
    assert recorder.ended == [*steps, "fit"]
    assert recorder.events == ["setup", "teardown"]
    assert recorder.scores[-1] == recorder.scores[-2] == model.score(X, y)


def test_callbacks_are_torn_down_after_an_error(digits):
    X, y = digits
    recorder = Recorder()
    model = JPlay(layer_sizes=[20, 10], fit_intercept=False).set_callbacks(recorder)
    with pytest.raises(CollapsedSolutionError):
        model.fit(X - X.mean(axis=0), y)
    assert recorder.events == ["setup", "teardown"]


def test_callbacks_do_not_change_the_fit(digits):
    X, y = digits
    plain = JPlay(layer_sizes=[20, 10], max_iter=3).fit(X, y)
    watched = JPlay(layer_sizes=[20, 10], max_iter=3).set_callbacks(Recorder()).fit(X, y)
    np.testing.assert_array_equal(plain.components_, watched.components_)


def test_progress_bar_of_scikit_learn(digits, capsys):
    JPlay(layer_sizes=[10], max_iter=3).set_callbacks(ProgressBar()).fit(*digits)
    assert "JPlay - fit" in capsys.readouterr().out


def test_scoring_monitor_of_scikit_learn(digits):
    X, y = digits
    monitor = ScoringMonitor(scoring="accuracy")
    model = JPlay(layer_sizes=[10], max_iter=3, tol=0).set_callbacks(monitor).fit(X, y)
    rows = monitor.get_logs().data
    assert [row["task_name"] for row in rows if row["task_name"] == "fine-tuning"] == [
        "fine-tuning"
    ] * 3
    assert rows[-1]["accuracy"] == pytest.approx(model.score(X, y))


def test_sample_order_does_not_matter(distinct_digits):
    X, y = distinct_digits
    order = np.random.default_rng(0).permutation(len(X))
    # Every outer iteration magnifies the rounding of sums taken in another order.
    options = {"layer_sizes": [20, 10], "max_iter": 2}
    model = JPlay(**options).fit(X, y)
    shuffled = JPlay(**options).fit(X[order], y[order])
    np.testing.assert_allclose(shuffled.transform(X), model.transform(X), atol=1e-7)
    np.testing.assert_allclose(shuffled.coef_, model.coef_, atol=1e-6)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_rotated_features_give_the_same_training_features(distinct_digits, fit_intercept):
    X, y = distinct_digits
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(64, 64)))[0]
    options = {"layer_sizes": [20, 10], "max_iter": 2, "fit_intercept": fit_intercept}
    expected = JPlay(**options).fit_transform(X, y)
    rotated = JPlay(**options).fit_transform(X @ rotation, y)
    np.testing.assert_allclose(rotated, expected, atol=1e-5)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_more_features_than_samples_are_handled_in_the_row_space(fit_intercept):
    """The same samples in a larger space have the same features and no part outside their span."""
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 8)), np.arange(30) % 3
    X += np.eye(3, 8)[y]
    embedding = np.linalg.qr(rng.normal(size=(50, 8)))[0].T
    options = {"layer_sizes": [6, 3], "max_iter": 3, "fit_intercept": fit_intercept}
    model = JPlay(**options).fit(X, y)
    wide = JPlay(**options).fit(X @ embedding, y)
    assert wide.components_.shape == (3, 50)
    np.testing.assert_allclose(wide.transform(X @ embedding), model.transform(X), atol=1e-7)
    np.testing.assert_allclose(wide.components_, model.components_ @ embedding, atol=1e-7)


def test_renamed_and_reordered_classes_permute_the_label_projection(digits):
    X, y = digits
    options = {"layer_sizes": [10], "max_iter": 2}
    model = JPlay(**options).fit(X, y)
    reversed_classes = JPlay(**options).fit(X, 9 - y)
    np.testing.assert_allclose(reversed_classes.coef_[::-1], model.coef_, atol=1e-7)


@pytest.mark.parametrize(("n_layers", "alpha"), [(5, 100.0), (7, 100.0), (6, 1000.0)])
def test_deep_chains_with_a_heavy_prediction_loss_converge(digits, n_layers, alpha):
    X, y = digits
    shallow = JPlay(n_layers=1, n_components=30, alpha=alpha, gamma=10.0).fit(X, y)
    deep = JPlay(n_layers=n_layers, n_components=30, alpha=alpha, gamma=10.0).fit(X, y)
    assert deep.result_.status.converged
    assert deep.objective_history_[-1] < 1.2 * shallow.objective_history_[-1]


@pytest.mark.slow
def test_ar_faces_reach_the_accuracy_of_the_prototype():
    folder = os.environ.get("JPLAY_DATA")
    path = Path(folder or ".") / "ar" / "AR_DAT.mat"
    if folder is None or not path.exists():
        pytest.skip("the AR faces are not in $JPLAY_DATA/ar/AR_DAT.mat")
    stored = scipy.io.loadmat(path)
    train, test = (
        Normalizer(norm="max").fit_transform(stored[name].T.astype(float))
        for name in ("NewTrain_DAT", "NewTest_DAT")
    )
    y_train, y_test = (stored[name].ravel() for name in ("trainlabels", "testlabels"))
    axes = np.linalg.svd(train, full_matrices=False)[2][:300].T
    train, test = train @ axes, test @ axes
    model = JPlay(layer_sizes=[270, 240, 210], bandwidth=1.0, gamma=1.0, decision="projection").fit(
        train, y_train
    )
    nearest = KNeighborsClassifier(1).fit(model.transform(train), y_train)
    assert nearest.score(model.transform(test), y_test) >= 0.85
    assert model.score(test, y_test) >= 0.89
