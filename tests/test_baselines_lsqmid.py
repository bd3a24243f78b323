import numpy as np
import pytest
from sklearn.datasets import load_wine, make_multilabel_classification
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from jplay import LSQMID
from known_subspaces import PROBLEMS, make_problem, mean_angle

FAST = {"n_centers": 30, "n_restarts": 0, "max_iter": 3, "widths": (0.5, 1.0), "regs": (0.01, 0.1)}


@parametrize_with_checks([LSQMID(n_components=1, **FAST), LSQMID(**FAST)])
def test_lsqmid_follows_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", PROBLEMS)
def test_lsqmid_finds_subspaces_that_pca_misses(name):
    problem = make_problem(name)
    n_components = len(problem.frame)
    lsqmid = LSQMID(n_components, random_state=0).fit(problem.X, problem.y)
    assert mean_angle(lsqmid.components_, problem.frame) < 15
    assert mean_angle(PCA(n_components).fit(problem.X).components_, problem.frame) > 40


def test_outliers_do_not_move_the_subspace():
    problem = make_problem("two classes, parabola")
    rng = np.random.default_rng(7)
    X = problem.X.copy()
    X[:16] += 30 * rng.standard_normal((16, X.shape[1]))
    lsqmid = LSQMID(2, random_state=0).fit(X, problem.y)
    assert mean_angle(lsqmid.components_, problem.frame) < 15


def test_high_dimensional_subspaces_do_not_overflow():
    """The scale of the Gram matrix is 1e390 here."""
    rng = np.random.default_rng(8)
    y = np.repeat(np.arange(5), 30)
    X = 1e5 * (rng.normal(size=(150, 90)) + 9 * np.eye(5, 90)[y])
    lsqmid = LSQMID(60, **FAST, random_state=0).fit(X, y)
    assert np.isfinite(lsqmid.score_)
    np.testing.assert_allclose(lsqmid.components_ @ lsqmid.components_.T, np.eye(60), atol=1e-9)


def test_components_settings_and_kinds_of_targets():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = LSQMID(2, n_restarts=0, max_iter=4, random_state=0)
    numbers = model.fit(X, y).components_
    np.testing.assert_allclose(numbers @ numbers.T, np.eye(2), atol=1e-10)
    assert min(model.width_, model.target_width_, model.reg_) > 0
    assert list(model.get_feature_names_out()) == ["lsqmid0", "lsqmid1"]
    np.testing.assert_array_equal(numbers, model.fit(X, y.astype(str)).components_)
    labels_X, labels = make_multilabel_classification(n_samples=80, n_features=6, random_state=0)
    assert LSQMID(2, **FAST).fit(labels_X, labels).components_.shape == (2, 6)


@pytest.mark.parametrize(
    "case",
    [
        "constant feature",
        "duplicated samples",
        "class of one sample",
        "fewer samples than features",
        "huge offset",
        "whole space",
    ],
)
def test_degenerate_data_works(case):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(40, 5)), np.repeat([0, 1], 20)
    if case == "constant feature":
        X[:, 0] = 3.0
    elif case == "duplicated samples":
        X[:30] = X[0]
    elif case == "class of one sample":
        y[1:20] = 1
    elif case == "fewer samples than features":
        X = rng.normal(size=(40, 90))
    elif case == "huge offset":
        X += 1e8
    elif case == "whole space":
        X = X[:, :2]
    lsqmid = LSQMID(2, **FAST, random_state=0).fit(X, y)
    assert np.isfinite(lsqmid.transform(X)).all()
    np.testing.assert_allclose(lsqmid.components_ @ lsqmid.components_.T, np.eye(2), atol=1e-8)


@pytest.mark.parametrize(
    ("X", "y", "params", "message"),
    [
        (np.eye(4), [0, 0, 0, 0], {}, "at least 2 classes or values"),
        (np.eye(4), [0, 0, 1, 1], {"n_components": 5}, "at most 4 .the number of features"),
        (np.eye(4, 9), [0, 0, 1, 1], {"n_components": 4}, "at most 3 .the rank of the 4 centered"),
        (np.eye(4), [0, 0, 1, 1], {"widths": (0.0,)}, "`widths` should be one or more positive"),
    ],
)
def test_impossible_input_says_what_to_do(X, y, params, message):
    with pytest.raises(ValueError, match=message):
        LSQMID(**params).fit(X, y)


def test_float32_stays_float32():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X).astype(np.float32)
    lsqmid = LSQMID(2, **FAST, random_state=0).fit(X, y)
    assert lsqmid.components_.dtype == lsqmid.mean_.dtype == lsqmid.transform(X).dtype == np.float32
