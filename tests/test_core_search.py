"""Many problems at once: each ends as it does alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, KFold

import core_oracle as oracle
from jplay import FastSolver, HeatGraph, JPlay, JPlaySearchCV

GRID = {"alpha": [0.1, 20.0], "beta": [0.01, 0.5], "gamma": [0.1, 1.0]}


def overlapping(n_samples, n_features, seed=0):
    """Classes that overlap, so that settings differ in their scores."""
    return oracle.make_classes(n_samples, n_features, 3, seed, noise=2.0)


def search_both(X, y, grid, cv=3, **settings):
    """Scores of a search on the device of the processor and of scikit-learn's, fit by fit."""
    estimator = JPlay(**{"graph": HeatGraph(4)} | settings)
    alone = GridSearchCV(estimator, grid, cv=KFold(cv), refit=False).fit(X, y)
    search = JPlaySearchCV(grid, estimator=estimator, cv=KFold(cv)).fit(X, y)
    names = [f"split{fold}_test_score" for fold in range(cv)]
    return (np.array([s.cv_results_[name] for name in names]) for s in (search, alone))


@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("n_samples", [60, 61])
def test_settings_of_several_folds_score_as_they_do_alone(n_layers, n_samples):
    """Folds of one size and of two."""
    X, y = overlapping(n_samples, 8)
    found, expected = search_both(X, y, GRID, n_components=4, n_layers=n_layers)
    assert_allclose(found, expected, atol=1e-12)
    assert np.ptp(expected, axis=1).max() > 0


@pytest.mark.parametrize(
    "settings",
    [
        {"constraints": "unit_ball"},
        {"constraints": None},
        {"reconstruction": False},
        {"scaling": "norm"},
        {"decision": "projection"},
        {"class_weight": "balanced"},
        {"solver": FastSolver(max_iter=7)},
        {"solver": FastSolver(tol=1e-2)},
    ],
    ids=lambda settings: "-".join(map(str, settings)),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_part_of_the_model_is_searched(settings):
    X, y = overlapping(60, 6)
    found, expected = search_both(X, y, {"alpha": [0.5, 20.0]}, n_components=3, **settings)
    assert_allclose(found, expected, atol=1e-12)


def test_wide_folds_multi_label_targets_and_missing_labels():
    X, y = overlapping(30, 80)
    found, expected = search_both(X, y, {"alpha": [0.5, 20.0]}, n_components=3)
    assert_allclose(found, expected, atol=1e-12)
    Y = np.stack([y == 0, y > 0, np.arange(30) % 4 == 0], axis=1).astype(int)
    found, expected = search_both(X, Y, {"alpha": [0.5, 20.0]}, n_components=3)
    assert_allclose(found, expected, atol=1e-12)


@pytest.mark.filterwarnings("ignore:One or more of the test scores")
def test_a_problem_that_cannot_be_fitted_leaves_the_others_alone():
    X, y = overlapping(60, 6)
    grid = {"alpha": [1.0], "n_components": [3, 60]}
    search = JPlaySearchCV(grid, estimator=JPlay(graph=HeatGraph(4)), cv=KFold(3))
    with pytest.warns(FitFailedWarning, match="3 fits failed out of a total of 6"):
        search.fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert np.isnan(scores[1])
    alone = GridSearchCV(JPlay(3, graph=HeatGraph(4)), {"alpha": [1.0]}, cv=KFold(3)).fit(X, y)
    assert scores[0] == pytest.approx(alone.cv_results_["mean_test_score"][0])
