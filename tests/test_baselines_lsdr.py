import numpy as np
import pytest
from sklearn.datasets import load_wine, make_multilabel_classification
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from jplay import LSDR
from known_subspaces import PROBLEMS, make_problem, mean_angle

FAST = {"n_centers": 30, "n_restarts": 0, "max_iter": 3, "widths": (0.5, 1.0), "regs": (0.01, 0.1)}


@parametrize_with_checks([LSDR(n_components=1, **FAST), LSDR(**FAST)])
def test_lsdr_follows_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", PROBLEMS)
def test_lsdr_finds_subspaces_that_pca_and_lda_miss(name):
    problem = make_problem(name)
    n_components = len(problem.frame)
    lsdr = LSDR(n_components, n_restarts=0, random_state=0).fit(problem.X, problem.y)
    assert mean_angle(lsdr.components_, problem.frame) < 15
    pca = PCA(n_components).fit(problem.X).components_
    lda = LinearDiscriminantAnalysis().fit(problem.X, problem.classes).scalings_.T
    assert mean_angle(pca, problem.frame) > 40
    assert mean_angle(lda[:n_components], problem.frame) > 40


def test_search_needs_no_help_from_the_gradient_start():
    problem = make_problem("two classes, parabola")
    lsdr = LSDR(2, init="random", n_restarts=4, random_state=0).fit(problem.X, problem.y)
    assert mean_angle(lsdr.components_, problem.frame) < 15


def test_components_are_orthonormal_and_settings_are_kept():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    lsdr = LSDR(3, n_restarts=0, max_iter=5, random_state=0).fit(X, y)
    np.testing.assert_allclose(lsdr.components_ @ lsdr.components_.T, np.eye(3), atol=1e-10)
    assert lsdr.width_ > 0
    assert lsdr.reg_ > 0
    assert lsdr.target_width_ is None
    assert lsdr.score_ > 0.5
    assert list(lsdr.get_feature_names_out()) == ["lsdr0", "lsdr1", "lsdr2"]


def test_kinds_of_targets_are_told_apart():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = LSDR(2, n_restarts=0, max_iter=4, random_state=0)
    numbers = model.fit(X, y).components_
    strings = model.fit(X, np.array(["a", "b", "c"])[y]).components_
    np.testing.assert_array_equal(numbers, strings)
    real = model.fit(X, y + 0.5).components_
    np.testing.assert_array_equal(real, model.fit(X, (y + 0.5)[:, None]).components_)
    assert model.target_width_ is not None
    model.set_params(target_type="real").fit(X, y)
    np.testing.assert_allclose(real, model.components_, atol=1e-8)
    labels_X, labels = make_multilabel_classification(n_samples=80, n_features=6, random_state=0)
    assert LSDR(2, **FAST).fit(labels_X, labels).components_.shape == (2, 6)
    with pytest.raises(ValueError, match="should have one column, got 5"):
        LSDR(2, target_type="classes").fit(labels_X, labels)


class Recorder:
    """Callback that keeps the projections it is shown and stops after ``limit`` steps."""

    def __init__(self, limit=None):
        self.limit = limit
        self.frames = []
        self.life = []

    def setup(self, estimator, context):
        self.life.append("setup")

    def teardown(self, estimator, context):
        self.life.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X, fitted_estimator):
        if context.task_name == "fit":
            self.life.append("end of fit")
            return False
        self.frames.append(fitted_estimator.components_)
        assert fitted_estimator.transform(X).shape == (len(X), 2)
        return self.limit is not None and len(self.frames) >= self.limit


def test_callbacks_see_every_step_and_can_stop():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    watched, stopping = Recorder(), Recorder(limit=3)
    model = LSDR(2, n_restarts=0, random_state=0, max_iter=10)
    full = model.set_callbacks(watched).fit(X, y)
    assert len(watched.frames) == full.n_iter_ > 3
    assert watched.life == ["setup", "end of fit", "teardown"]
    stopped = LSDR(2, n_restarts=0, random_state=0, max_iter=10).set_callbacks(stopping).fit(X, y)
    assert stopped.n_iter_ == len(stopping.frames) == 3
    np.testing.assert_array_equal(stopped.components_, stopping.frames[-1])
    silent = LSDR(2, n_restarts=0, random_state=0, max_iter=10).fit(X, y)
    np.testing.assert_array_equal(silent.components_, full.components_)


@pytest.mark.parametrize(
    "case",
    [
        "constant feature",
        "copied feature",
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
    elif case == "copied feature":
        X[:, 1] = X[:, 0]
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
    lsdr = LSDR(2, **FAST, random_state=0).fit(X, y)
    assert np.isfinite(lsdr.transform(X)).all()
    np.testing.assert_allclose(lsdr.components_ @ lsdr.components_.T, np.eye(2), atol=1e-8)


@pytest.mark.parametrize(
    ("X", "y", "params", "message"),
    [
        (np.eye(4), [0, 0, 0, 0], {}, "at least 2 classes or values"),
        (np.eye(4), [1.5, 1.5, 1.5, 1.5], {}, "at least 2 classes or values"),
        (np.eye(4), [0, 0, 1, 1], {"n_components": 5}, "at most 4 .the number of features"),
        (np.eye(4, 9), [0, 0, 1, 1], {"n_components": 4}, "at most 3 .the rank of the 4 centered"),
        (np.ones((4, 3)), [0, 0, 1, 1], {}, "at most 0 .the rank"),
        (np.eye(4), [0, 0, 1, 1], {"widths": ()}, "`widths` should be one or more positive"),
        (np.eye(4), [0, 0, 1, 1], {"regs": (-1.0,)}, "`regs` should be one or more positive"),
        (np.eye(4), [["a", "b"]] * 4, {"target_type": "real"}, "`y` should hold numbers"),
    ],
)
def test_impossible_input_says_what_to_do(X, y, params, message):
    with pytest.raises(ValueError, match=message):
        LSDR(**params).fit(X, y)


def test_float32_stays_float32():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X).astype(np.float32)
    lsdr = LSDR(2, **FAST, random_state=0).fit(X, y)
    assert lsdr.components_.dtype == lsdr.mean_.dtype == lsdr.transform(X).dtype == np.float32


def test_memory_grows_with_centres_not_with_squares():
    """A fit on many samples must not make an array of n x n."""
    import tracemalloc

    rng = np.random.default_rng(5)
    X = rng.normal(size=(6000, 4))
    tracemalloc.start()
    LSDR(1, n_centers=20, n_restarts=0, max_iter=2, random_state=0).fit(X, X[:, 0] > 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.1 * 8 * 6000**2
