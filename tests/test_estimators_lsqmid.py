import numpy as np
import pytest
from sklearn.datasets import load_wine, make_multilabel_classification
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from jplay import LSQMID
from jplay.numerics.kernels import gaussian
from jplay.numerics.stiefel import random_frame
from jplay.solvers import quadratic_information as quadratic
from jplay.solvers.information import KernelSettings, draw_samples
from known_subspaces import PROBLEMS, make_problem, mean_angle

FAST = {"n_centers": 30, "n_restarts": 0, "max_iter": 3, "widths": (0.5, 1.0), "regs": (0.01, 0.1)}


@parametrize_with_checks([LSQMID(n_components=1, **FAST), LSQMID(**FAST)])
def test_lsqmid_follows_scikit_learn(estimator, check):
    check(estimator)


def small_samples(seed=0, n_samples=40):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 4))
    targets = np.column_stack([X[:, 0] + 0.3 * rng.normal(size=n_samples), X[:, 1] ** 2])
    return draw_samples(X, targets, False, n_centers=15, n_folds=4, rng=rng)


def test_moments_and_gram_equal_their_definitions():
    """Derivatives of the bases by finite differences, the Gram matrix by quadrature."""
    samples = small_samples()
    frame = random_frame(1, 4, np.random.default_rng(1))
    width, target_width = 0.8, 1.1
    Z, Y, centers = samples.X @ frame.T, samples.targets, samples.centers
    kernel = gaussian(samples.target_distances(), target_width)
    bases = quadratic._bases(Z, samples, width, kernel)

    def mean_under_f(shift):
        values = np.exp(-((Z[:, 0, None] + shift - Z[centers, 0]) ** 2) / (2 * width**2))
        joint = np.mean(values * kernel, axis=0)
        return joint - values.mean(axis=0) * kernel.mean(axis=0)

    step = 1e-5
    numeric = (mean_under_f(step) - mean_under_f(-step)) / (2 * step)
    found = quadratic._mean_base_derivatives(bases, slice(None))[:, 0]
    np.testing.assert_allclose(found, numeric, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        quadratic._mean_bases(bases, slice(None))[:, 0], mean_under_f(0.0), atol=1e-14
    )

    grid = np.linspace(-12, 12, 2001)
    first = np.exp(-((grid[:, None] - Z[centers, 0]) ** 2) / (2 * width**2))
    product = np.trapezoid(first[:, :, None] * first[:, None, :], grid, axis=0)
    for column in Y[centers].T:
        other = np.exp(-((grid[:, None] - column) ** 2) / (2 * target_width**2))
        product *= np.trapezoid(other[:, :, None] * other[:, None, :], grid, axis=0)
    settings = KernelSettings(width, target_width, 0.1)
    scale = np.exp(quadratic.log_gram_scale(1, 2, settings))
    np.testing.assert_allclose(scale * bases.gram, product, rtol=1e-8, atol=1e-12)


def test_coefficients_are_stationary_for_the_least_squares_criterion():
    """The solution's criterion ``theta^T (H + reg) theta + 2 theta^T h`` has zero slope."""
    samples = small_samples()
    settings = KernelSettings(0.9, 1.0, 0.05)
    frame = random_frame(2, 4, np.random.default_rng(2))
    kernel = gaussian(samples.target_distances(), settings.target_width)
    bases = quadratic._bases(samples.X @ frame.T, samples, settings.width, kernel)
    moments = quadratic._mean_base_derivatives(bases, slice(None))
    ridge = bases.gram + settings.reg * np.eye(len(bases.gram))
    theta = -np.linalg.solve(ridge, moments)
    step = 1e-4
    for component in range(2):

        def criterion(coefficients, component=component):
            return coefficients @ ridge @ coefficients + 2 * coefficients @ moments[:, component]

        for k in range(len(theta)):
            shift = step * np.eye(len(theta))[k]
            slope = criterion(theta[:, component] + shift) - criterion(theta[:, component] - shift)
            assert slope / (2 * step) == pytest.approx(0, abs=1e-9)
    field = np.einsum("ik,kl->il", bases.kernel * kernel, theta)
    shuffled = np.einsum("ik,jk,kl->il", bases.kernel, kernel, theta) / len(kernel)
    expected = (field - shuffled).T @ samples.X / len(samples.X)
    found = quadratic.information_derivative(frame, samples, kernel, settings)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def gaussian_information(weights, covariance):
    """Quadratic information between ``weights @ x`` and y; ``covariance`` is of (x, y)."""
    A = np.zeros((2, len(covariance)))
    A[0, :-1], A[1, -1] = weights, 1
    joint = A @ covariance @ A.T
    product = np.diag(np.diag(joint))

    def overlap(first, second):
        return 1 / (2 * np.pi * np.sqrt(np.linalg.det(first + second)))

    return (overlap(joint, joint) - 2 * overlap(joint, product) + overlap(product, product)) / 2


def finite_differences(function, point, step=1e-5):
    shifts = step * np.eye(len(point))
    return np.array([(function(point + s) - function(point - s)) / (2 * step) for s in shifts])


@pytest.mark.parametrize("angle", [20, 50, 80])
def test_derivative_agrees_with_finite_differences_of_the_gaussian_closed_form(angle):
    rng = np.random.default_rng(angle)
    X = rng.normal(size=(10_000, 2))
    y = 0.8 * X[:, 0] + 0.6 * rng.normal(size=10_000)
    covariance = np.array([[1, 0, 0.8], [0, 1, 0], [0.8, 0, 1.0]])
    weights = np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    exact = finite_differences(lambda w: gaussian_information(w, covariance), weights)
    samples = draw_samples(X, y[:, None], False, n_centers=200, n_folds=5, rng=rng)
    criterion = quadratic.QuadraticCriterion(samples, (0.5, 0.75, 1.0), (1e-4, 1e-3, 1e-2))
    settings = criterion.choose(weights[None]).settings
    _, scaled = criterion.evaluator(settings)(weights[None])
    found = scaled[0] / np.exp(quadratic.log_gram_scale(1, 1, settings))
    assert np.linalg.norm(found - exact) < 0.15 * np.linalg.norm(exact)
    tangent = np.array([-weights[1], weights[0]])
    assert found @ tangent == pytest.approx(exact @ tangent, rel=0.15)


def test_score_is_the_logarithm_of_twice_the_information():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(4000, 1))
    y = 0.8 * x + 0.6 * rng.normal(size=(4000, 1))
    samples = draw_samples(x, y, False, n_centers=200, n_folds=5, rng=rng)
    choice = quadratic.QuadraticCriterion(samples, (0.5, 0.75), (1e-4, 1e-3)).choose(np.eye(1))
    exact = gaussian_information(np.ones(1), np.array([[1, 0.8], [0.8, 1.0]]))
    assert np.exp(choice.score) / 2 == pytest.approx(exact, rel=0.1)


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
        (np.eye(4, 9), [0, 0, 1, 1], {"n_components": 4}, "at most 3 .the rank of the 4 centred"),
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
