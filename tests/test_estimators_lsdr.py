import numpy as np
import pytest
from sklearn.datasets import load_wine, make_multilabel_classification
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from jplay import LSDR
from jplay.numerics.stiefel import random_frame
from jplay.solvers.information import KernelSamples, KernelSettings, draw_samples
from jplay.solvers.squared_loss_information import SquaredLossCriterion, information_and_gradient
from known_subspaces import PROBLEMS, make_problem, mean_angle

FAST = {"n_centers": 30, "n_restarts": 0, "max_iter": 3, "widths": (0.5, 1.0), "regs": (0.01, 0.1)}


@parametrize_with_checks([LSDR(n_components=1, **FAST), LSDR(**FAST)])
def test_lsdr_follows_scikit_learn(estimator, check):
    check(estimator)


def small_samples(kind, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 5))
    if kind == "classes":
        targets = np.eye(3)[rng.integers(3, size=40)]
    elif kind == "labels":
        targets = rng.integers(2, size=(40, 3)).astype(float)
    else:
        targets = rng.normal(size=(40, 2))
    return draw_samples(X, targets, kind == "classes", n_centers=12, n_folds=4, rng=rng)


@pytest.mark.parametrize("kind", ["classes", "labels", "real"])
@pytest.mark.parametrize("reg", [1e-3, 0.5])
def test_gradient_equals_finite_differences(kind, reg):
    samples = small_samples(kind)
    settings = KernelSettings(width=1.3, target_width=0.9, reg=reg)
    evaluate = SquaredLossCriterion(samples, (1.0,), (1.0,)).evaluator(settings)
    frame = np.random.default_rng(1).normal(size=(2, 5))
    _, gradient = evaluate(frame)
    numeric = np.empty_like(frame)
    step = 1e-5
    for index in np.ndindex(frame.shape):
        shift = np.zeros_like(frame)
        shift[index] = step
        numeric[index] = (evaluate(frame + shift)[0] - evaluate(frame - shift)[0]) / (2 * step)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-8)


def test_information_equals_its_definition_over_all_pairs():
    samples = small_samples("real")
    settings = KernelSettings(width=1.1, target_width=0.8, reg=0.01)
    frame = random_frame(2, 5, np.random.default_rng(2))
    Z, Y, centers = samples.X @ frame.T, samples.targets, samples.centers

    def bases(z, y):
        near = np.exp(-np.sum((z - Z[centers]) ** 2, axis=1) / (2 * settings.width**2))
        return near * np.exp(-np.sum((y - Y[centers]) ** 2, axis=1) / (2 * 0.8**2))

    n_samples, n_centers = len(Z), len(centers)
    first = sum(bases(z, y) for z, y in zip(Z, Y, strict=True)) / n_samples
    second = np.zeros((n_centers, n_centers))
    for z in Z:
        for y in Y:
            second += np.outer(bases(z, y), bases(z, y)) / n_samples**2
    ratio = np.linalg.solve(second + settings.reg * np.eye(n_centers), first)
    target_kernel = SquaredLossCriterion(samples, (1.0,), (1.0,)).target_kernel(0.8)
    information, _ = information_and_gradient(
        frame, samples, target_kernel, target_kernel.T @ target_kernel / n_samples, settings
    )
    assert information == pytest.approx(first @ ratio - ratio @ second @ ratio / 2, rel=1e-10)


def test_information_of_independent_variables_is_zero_and_grows_with_dependence():
    """Held out, the estimate is a lower bound of ``rho^2 / (2 (1 - rho^2))`` for Gaussians."""
    rng = np.random.default_rng(3)
    estimates = []
    for rho in (0.0, 0.3, 0.5):
        z = rng.normal(size=3000)
        y = rho * z + np.sqrt(1 - rho**2) * rng.normal(size=3000)
        samples = draw_samples(z[:, None], y[:, None], False, n_centers=100, n_folds=5, rng=rng)
        criterion = SquaredLossCriterion(samples, (0.5, 1.0), (1e-3, 1e-2, 1e-1))
        estimates.append(criterion.choose(np.eye(1)).score - 0.5)
        exact = rho**2 / (2 * (1 - rho**2))
        assert 0.7 * exact - 0.005 < estimates[-1] < exact + 0.01
    assert estimates == sorted(estimates)


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
        (np.eye(4, 9), [0, 0, 1, 1], {"n_components": 4}, "at most 3 .the rank of the 4 centred"),
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


def test_samples_split_into_folds_that_cover_everything():
    samples = small_samples("classes")
    assert isinstance(samples, KernelSamples)
    held_out = np.concatenate([out for _, out in samples.fold_rows()])
    np.testing.assert_array_equal(np.sort(held_out), np.arange(40))
    for train, out in samples.fold_rows():
        assert len(np.intersect1d(train, out)) == 0
