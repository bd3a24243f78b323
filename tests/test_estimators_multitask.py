"""One chain for several tasks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, load_iris

from closeness import assert_close
from jplay import HeatGraph, JPlay, JPlayRegressor, MultiTaskJPlay
from jplay.blocks import blocked
from jplay.core.scaling import transform_inputs
from jplay.estimators.task_targets import couple_classes, encode_tasks, split_tasks
from jplay.persistence import load_model, save_model

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
LENGTH = X[:, 0] + 0.1 * X[:, 1] ** 2
HIDDEN = np.arange(len(Y)) % 3 > 0
FEW = np.where(HIDDEN, -1, Y)
HALF = np.where(np.arange(len(Y)) % 2, np.nan, LENGTH)
TASKS = {"kind": FEW, "length": HALF}


def small(**settings):
    return MultiTaskJPlay(3, **settings)


def test_one_task_of_classes_is_the_problem_of_jplay():
    model = small(alpha=2.0).fit(X, FEW)
    single = JPlay(3, alpha=2.0, whiten=False).fit(X, FEW)
    assert_close(model.components_, single.components_, 1e-8)
    assert_close(model.coef_[0], single.coef_, 1e-7)
    assert_allclose(model.predict_proba(X), single.predict_proba(X), atol=1e-8)
    assert_array_equal(model.predict(X), single.predict(X))


def test_one_real_task_is_the_problem_of_the_regressor():
    model, single = small().fit(X, HALF), JPlayRegressor(3).fit(X, HALF)
    assert_close(model.components_, single.components_, 1e-8)
    assert_close(model.predict(X), single.predict(X), 1e-8)


def test_real_tasks_known_for_all_samples_have_the_chain_of_one_problem():
    targets = np.column_stack([LENGTH, X[:, 2] * X[:, 3]])
    model = small(tasks="regression").fit(X, targets)
    single = JPlayRegressor(3).fit(X, targets)
    assert_allclose(model.components_, single.components_, rtol=1e-6, atol=1e-8)
    assert_allclose(np.concatenate(model.coef_), single.coef_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_prediction_loss_is_the_sum_over_tasks_and_their_samples(n_layers):
    model = small(n_layers=n_layers, task_weight={"length": 2.5}).fit(X, TASKS)
    Z = model.transform(X)
    kind, length = ~HIDDEN, ~np.isnan(HALF)
    indicators = np.eye(3)[Y[kind]]
    standard = (HALF[length] - HALF[length].mean()) / HALF[length].std()
    projected = Z[length] @ model.coef_[1][0] / HALF[length].std()
    loss = np.sum((indicators - Z[kind] @ model.coef_[0].T) ** 2)
    loss += 2.5 * np.sum((standard - projected) ** 2)
    loss *= model.alpha / 2 * len(X) / np.sum(kind | length)
    assert model.result_.objective_terms[-1].prediction == pytest.approx(loss, rel=1e-8)


def test_the_label_projection_of_each_task_is_a_ridge_regression_on_its_own_samples():
    model = small(gamma=0.7).fit(X, TASKS)
    Z, kind = model.transform(X)[~HIDDEN], ~HIDDEN
    weight = model.alpha * len(X) / np.sum(kind | ~np.isnan(HALF))
    residuals = Z @ model.coef_[0].T - np.eye(3)[Y[kind]]
    assert_allclose(weight * residuals.T @ Z + 0.7 * model.coef_[0], 0, atol=1e-6)


def test_weights_of_tasks():
    tasks = split_tasks(TASKS, None, len(X))

    def totals(task_weight):
        parts = encode_tasks(tasks, len(X), task_weight, None)
        return [targets.weight.sum() for targets in parts]

    spread = len(X) / np.sum(~HIDDEN | ~np.isnan(HALF))
    assert_allclose(totals(None), [50 * spread, 75 * spread])
    assert_allclose(totals("balanced"), [62.5 * spread] * 2)
    assert_allclose(totals({"kind": 3.0}), [150 * spread, 75 * spread])


@pytest.mark.parametrize("mark", [-1, np.nan, None])
def test_every_mark_of_a_missing_class_means_the_same(mark):
    marked = np.array([mark if hidden else label for hidden, label in zip(HIDDEN, Y, strict=True)])
    [task] = split_tasks(marked, None, len(X))
    assert task.type == "classification"
    assert_array_equal(task.rows, np.flatnonzero(~HIDDEN))
    assert_array_equal(task.y, Y[~HIDDEN])
    assert task.y.dtype.kind == "i"


def test_signs_are_classes_and_numbers_below_zero_are_targets():
    signs, real = split_tasks({"a": np.where(Y, 1, -1), "b": LENGTH - 10}, None, len(X))
    assert (signs.type, len(signs.rows)) == ("classification", len(X))
    assert (real.type, len(real.rows)) == ("regression", len(X))
    [whole] = split_tasks(FEW, "regression", len(X))
    assert len(whole.rows) == len(X)


def test_predictions_come_as_the_targets_came():
    pandas = pytest.importorskip("pandas")
    by_name = small().fit(X, {"name": NAMES, "length": HALF})
    found = by_name.predict(X)
    assert list(found) == ["name", "length"]
    assert np.mean(found["name"] == NAMES) > 0.9
    assert list(by_name.predict_proba(X)) == ["name"]
    assert_allclose(by_name.predict_proba(X)["name"].sum(axis=1), 1)
    table = small().fit(X, pandas.DataFrame({"name": NAMES, "length": HALF}))
    assert_array_equal(table.predict(X)["length"], found["length"])
    matrix = small().fit(X, np.column_stack([FEW, HALF]))
    assert matrix.predict(X).shape == (len(X), 2)
    assert [part.shape for part in matrix.predict_proba(X)] == [(len(X), 3)]
    assert matrix.tasks_ == {0: "classification", 1: "regression"}


def test_score_is_the_mean_over_tasks_and_the_samples_they_know():
    model = small().fit(X, TASKS)
    found = model.predict(X)
    known = ~HIDDEN
    accuracy = np.mean(found["kind"][known] == Y[known])
    length = ~np.isnan(HALF)
    rest = np.sum((found["length"] - LENGTH)[length] ** 2)
    fit = 1 - rest / np.sum((LENGTH[length] - LENGTH[length].mean()) ** 2)
    assert model.score(X, TASKS) == pytest.approx((accuracy + fit) / 2)
    assert model.score(X, {"kind": FEW}) == pytest.approx(accuracy)
    with pytest.raises(ValueError, match=r"tasks of the fit .* got 'colour'"):
        model.score(X, {"colour": Y})


def test_few_fine_labels_profit_from_many_coarse_ones():
    samples, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digits))
    samples, digits = samples[order], digits[order]
    few = np.full(400, -1)
    for digit in range(10):
        few[np.flatnonzero(digits[:400] == digit)[:3]] = digit
    targets = {"digit": few, "pair": digits[:400] // 2}
    linked = MultiTaskJPlay().fit(samples[:400], targets)
    apart = MultiTaskJPlay(linked=False).fit(samples[:400], targets)
    truth = {"digit": digits[400:]}
    assert linked.score(samples[400:], truth) > apart.score(samples[400:], truth) + 0.03
    found = linked.predict(samples[400:])
    assert_array_equal(found["pair"], apart.predict(samples[400:])["pair"])
    assert np.mean(found["digit"] // 2 == found["pair"]) > 0.95
    assert list(linked.links_) == ["digit"]
    assert apart.links_ == {}


def test_tasks_link_from_many_labels_to_few():
    targets = {"few": np.where(np.arange(150) < 120, -1, Y), "some": FEW, "all": NAMES}
    links = couple_classes(split_tasks(targets, None, len(X)))
    assert {name: list(others) for name, others in links.items()} == {
        "some": ["all"],
        "few": ["all", "some"],
    }
    assert_allclose(links["some"]["all"], np.eye(3), atol=0.02)


def test_a_real_task_with_few_samples_learns_from_its_relatives():
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((600, 12))
    owner = np.repeat(np.arange(20), 30)
    common = rng.standard_normal(12)
    slopes = common + 0.2 * rng.standard_normal((20, 12))
    truth = np.sum(samples * slopes[owner], axis=1) + 5 * owner
    noisy = truth + 2 * rng.standard_normal(600)
    targets = np.where(owner[:, None] == np.arange(20), noisy[:, None], np.nan)
    targets[np.arange(600) % 30 >= 15] = np.nan
    model = MultiTaskJPlay(6).fit(samples, targets)
    apart = MultiTaskJPlay(6, linked=False).fit(samples, targets)
    held = np.arange(600) % 30 >= 15

    def error(fitted):
        found = fitted.predict(samples)[np.arange(600), owner]
        return np.mean((found - truth)[held] ** 2)

    assert error(model) < 0.8 * error(apart)
    assert model.tasks_ == dict.fromkeys(range(20), "regression")


def test_a_constant_target_is_predicted_by_itself():
    model = small(tasks={"flat": "regression"}).fit(X, TASKS | {"flat": np.full(len(X), 7.0)})
    assert_allclose(model.predict(X)["flat"], 7.0, rtol=1e-6)


def test_predictions_in_blocks_equal_those_in_memory():
    da = pytest.importorskip("dask.array")
    model = small().fit(X, TASKS)
    expected = model.predict(X)
    for samples in (blocked(X, 40), da.from_array(X, chunks=(40, 4))):
        found, probabilities = model.predict(samples), model.predict_proba(samples)
        for name, values in expected.items():
            assert_close(np.asarray(found[name]), values, 1e-12)
        assert_close(np.asarray(probabilities["kind"]), model.predict_proba(X)["kind"], 1e-10)


def test_single_precision_agrees_with_double():
    double, single = small().fit(X, TASKS), small().fit(X.astype(np.float32), TASKS)
    found = single.predict(X.astype(np.float32))["length"]
    assert found.dtype == np.float32
    assert_allclose(found, double.predict(X)["length"], rtol=1e-2)


def test_named_tasks_survive_a_file(tmp_path):
    pytest.importorskip("skops")
    model = small().fit(X, {"name": np.where(HIDDEN, None, NAMES), "length": HALF, "kind": Y})
    loaded = load_model(save_model(model, tmp_path / "model.skops")).estimator
    for name, values in model.predict(X).items():
        assert_array_equal(loaded.predict(X)[name], values)


@pytest.mark.parametrize(
    ("targets", "settings", "message"),
    [
        ({"a": Y, "b": np.full(len(Y), -1)}, {}, r"`y\['b'\]` should have a target for some"),
        ({"a": Y, "b": np.full(len(Y), np.nan)}, {}, r"`y\['b'\]` should have a target for some"),
        ({"a": Y, "b": np.zeros(len(Y), int)}, {}, "Task 'b': .*at least 2 classes"),
        ({"a": Y}, {"tasks": {"c": "regression"}}, "`tasks` should name tasks of `y` .'a'., got"),
        ({"a": Y}, {"tasks": {"a": "ranking"}}, "`tasks` should hold .*'ranking'"),
        ({"a": Y}, {"task_weight": {"c": 1.0}}, "`task_weight` should name tasks"),
        ({"a": Y}, {"task_weight": {"a": 0.0}}, "`task_weight` should hold positive numbers"),
        ({"a": Y[1:]}, {}, "inconsistent numbers of samples"),
        ({"a": np.eye(3)[Y]}, {}, r"`y\['a'\]` should have one target per sample"),
        ({}, {}, "at least one task"),
    ],
)
def test_targets_that_cannot_be_learned_are_refused(targets, settings, message):
    with pytest.raises(ValueError, match=message):
        small(**settings).fit(X, targets)


def test_probabilities_need_classes():
    with pytest.raises(AttributeError, match="real targets only"):
        small().fit(X, HALF).predict_proba(X)


def test_many_equal_values_do_not_make_a_feature_vary():
    """The mean of many equal numbers is not quite that number."""
    samples = np.column_stack([np.full(12_000, 1 / 70), np.arange(12_000.0)])
    assert abs(samples[:, 0].mean() - 1 / 70) > 0
    assert_array_equal(transform_inputs(samples, "standard")[1][:, 0], 0)


def test_graph_is_over_all_samples():
    model = small(graph=HeatGraph(4)).fit(X, TASKS)
    assert model.affinity_.shape == (len(X), len(X))
