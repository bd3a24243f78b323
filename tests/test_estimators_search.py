"""The shared grid search gives what plain GridSearchCV gives."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from jplay import JPlay, JPlaySearchCV, LabelPenalty, PaperSolver

GRID = {"alpha": [0.1, 10.0], "beta": [0.01, 1.0], "n_layers": [1, 2]}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    noise = np.random.default_rng(0).random((200, 64))
    return Normalizer(norm="max").transform(X[:200] + 0.2 * noise), y[:200]


def assert_same_results(actual, expected, atol=0.0):
    for name, values in expected.cv_results_.items():
        if "score" in name and "time" not in name and "rank" not in name:
            np.testing.assert_allclose(actual.cv_results_[name], values, atol=atol, err_msg=name)
    assert set(actual.cv_results_) == set(expected.cv_results_)
    assert actual.cv_results_["params"] == expected.cv_results_["params"]


def test_scores_equal_those_of_grid_search(digits):
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    base = JPlay(n_components=6)
    actual = JPlaySearchCV(GRID, estimator=base, cv=cv, return_train_score=True).fit(*digits)
    expected = GridSearchCV(base, GRID, cv=cv, return_train_score=True).fit(*digits)
    assert_same_results(actual, expected)
    assert actual.best_params_ == expected.best_params_
    assert actual.best_score_ == expected.best_score_
    np.testing.assert_array_equal(actual.predict(digits[0]), expected.predict(digits[0]))
    assert actual.transform(digits[0]).shape == (200, 6)


def test_pipelines_fit_their_steps_inside_the_folds():
    X, y = load_iris(return_X_y=True)
    grid = {"jplay__gamma": [0.01, 1.0], "standardscaler__with_std": [True, False]}
    pipeline = make_pipeline(StandardScaler(), JPlay(n_components=2, n_layers=1))
    actual = JPlaySearchCV(grid, estimator=pipeline, cv=3).fit(X, y)
    assert_same_results(actual, GridSearchCV(pipeline, grid, cv=3).fit(X, y))
    assert actual.best_estimator_.score(X, y) == actual.score(X, y)


def test_several_scores_decide_by_the_named_one(digits):
    search = JPlaySearchCV(
        {"alpha": [0.1, 10.0]},
        estimator=JPlay(n_components=5, n_layers=1),
        scoring=["accuracy", "f1_macro"],
        refit="f1_macro",
        cv=3,
    ).fit(*digits)
    assert "mean_test_accuracy" in search.cv_results_
    assert search.best_score_ == search.cv_results_["mean_test_f1_macro"].max()


def test_a_setting_that_fails_scores_nan(digits):
    search = JPlaySearchCV(
        {"n_components": [5, 500]}, estimator=JPlay(n_layers=1), cv=3, refit=False
    )
    with (
        pytest.warns(FitFailedWarning, match="n_components"),
        pytest.warns(UserWarning, match="non-finite"),
    ):
        search.fit(*digits)
    assert np.isnan(search.cv_results_["mean_test_score"][1])
    with pytest.raises(ValueError, match="n_components"):
        search.set_params(error_score="raise").fit(*digits)


def _overflowing_graph(X):
    raise OverflowError("as a wrong graph may")


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("scoring", [None, ["accuracy", "f1_macro"]])
@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_setting_that_cannot_be_fitted_never_wins(digits, device, scoring):
    if device is not None:
        pytest.importorskip("torch")
    refit = False if scoring is None else "accuracy"
    grid = [
        {"alpha": [0, 1.0], "beta": [-1, 0.01]},
        {"graph": [_overflowing_graph], "alpha": [1.0]},
    ]
    base = JPlay(n_components=4)
    search = JPlaySearchCV(
        grid, estimator=base, cv=2, scoring=scoring, refit=refit or True, device=device
    )
    with pytest.warns(FitFailedWarning, match=r"alpha"):
        search.fit(*digits)
    name = "mean_test_score" if scoring is None else "mean_test_f1_macro"
    np.testing.assert_array_equal(
        np.isnan(search.cv_results_[name]), [True, True, True, False, True]
    )
    assert search.best_params_ == {"alpha": 1.0, "beta": 0.01}
    with pytest.raises((ValueError, OverflowError)):
        search.set_params(error_score="raise").fit(*digits)


def test_search_in_which_every_fit_fails_says_so(digits):
    search = JPlaySearchCV({"alpha": [0, -1.0]}, cv=2)
    with pytest.raises(ValueError, match="All the 4 fits failed"):
        search.fit(*digits)


def test_step_that_fails_scores_nan_as_in_grid_search(digits):
    pipeline = make_pipeline(Normalizer(), JPlay(n_components=4))
    grid = {"normalizer__norm": ["l2", "l9"], "jplay__alpha": [1.0]}
    with (
        pytest.warns(FitFailedWarning, match="norm"),
        pytest.warns(UserWarning, match="non-finite"),
    ):
        actual = JPlaySearchCV(grid, estimator=pipeline, cv=2).fit(*digits)
    assert np.isnan(actual.cv_results_["mean_test_score"]).tolist() == [False, True]
    assert actual.best_params_ == {"normalizer__norm": "l2", "jplay__alpha": 1.0}


def test_published_schedule_can_be_searched(digits):
    base = JPlay(n_components=5, n_layers=1, solver=PaperSolver(max_iter=2))
    grid = {"gamma": [0.1, 1.0]}
    actual = JPlaySearchCV(grid, estimator=base, cv=2).fit(*digits)
    assert_same_results(actual, GridSearchCV(base, grid, cv=2).fit(*digits))


def test_batch_on_a_device_gives_the_same_scores(digits):
    pytest.importorskip("torch")
    base = JPlay(n_components=6)
    actual = JPlaySearchCV(GRID, estimator=base, cv=3, device="cpu").fit(*digits)
    assert_same_results(actual, GridSearchCV(base, GRID, cv=3).fit(*digits))


def test_folds_with_fewer_samples_than_features_may_differ_in_size(digits):
    pytest.importorskip("torch")
    X, y = digits[0][:71], digits[1][:71]
    grid, base = {"alpha": [0.1, 10.0]}, JPlay(n_components=6)
    actual = JPlaySearchCV(grid, estimator=base, cv=3, device="cpu").fit(X, y)
    assert_same_results(actual, GridSearchCV(base, grid, cv=3).fit(X, y))


def test_wrong_estimator_is_refused_by_name(digits):
    search = JPlaySearchCV({"alpha": [1.0]}, estimator=make_pipeline(JPlay(), StandardScaler()))
    with pytest.raises(ValueError, match="`estimator` should be a JPlay or a Pipeline"):
        search.fit(*digits)


@pytest.mark.parametrize(
    "base",
    [
        JPlay(n_components=5, n_layers=1, class_weight={0: 5.0}),
        JPlay(n_components=5, n_layers=1, unlabeled=-1),
    ],
)
def test_weights_and_missing_labels_are_not_lost(digits, base):
    X, y = digits
    if base.unlabeled == -1:
        y = np.where(np.arange(len(y)) % 3 == 0, -1, y)
    grid = {"alpha": [0.1, 10.0]}
    assert_same_results(
        JPlaySearchCV(grid, estimator=base, cv=2).fit(X, y),
        GridSearchCV(base, grid, cv=2).fit(X, y),
    )


@pytest.mark.parametrize("order", [1, -1])
def test_weights_and_penalties_may_be_searched_together(digits, order):
    """A penalty other than the ridge is fitted apart from the stack, wherever it stands."""
    grid = {"gamma": [0.1, LabelPenalty(absolute=1.0)][::order]}
    base = JPlay(n_components=6)
    actual = JPlaySearchCV(grid, estimator=base, cv=3).fit(*digits)
    assert_same_results(actual, GridSearchCV(base, grid, cv=3).fit(*digits))
