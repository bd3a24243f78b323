"""The optimization of LSDR and LSQMID: criteria, and conjugate gradients over subspaces."""

import numpy as np
import pytest
import scipy.linalg

from jplay.core.information import (
    DerivativeBases,
    Geodesic,
    KernelSettings,
    QuadraticCriterion,
    SearchStatus,
    SquaredLossCriterion,
    draw_samples,
    gaussian,
    log_gram_scale,
    maximize_over_subspaces,
    random_frame,
    reorthonormalize,
    tangent_part,
)


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
@pytest.mark.parametrize("ridge", [1e-3, 0.5])
def test_gradient_equals_finite_differences(kind, ridge):
    samples = small_samples(kind)
    settings = KernelSettings(bandwidth=1.3, target_bandwidth=0.9, ridge=ridge)
    evaluate = SquaredLossCriterion(samples, (1.0,), (1.0,)).make_evaluation(settings)
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
    settings = KernelSettings(bandwidth=1.1, target_bandwidth=0.8, ridge=0.01)
    frame = random_frame(2, 5, np.random.default_rng(2))
    Z, Y, centers = samples.X @ frame.T, samples.targets, samples.centers

    def bases(z, y):
        near = np.exp(-np.sum((z - Z[centers]) ** 2, axis=1) / (2 * settings.bandwidth**2))
        return near * np.exp(-np.sum((y - Y[centers]) ** 2, axis=1) / (2 * 0.8**2))

    n_samples, n_centers = len(Z), len(centers)
    first = sum(bases(z, y) for z, y in zip(Z, Y, strict=True)) / n_samples
    second = np.zeros((n_centers, n_centers))
    for z in Z:
        for y in Y:
            second += np.outer(bases(z, y), bases(z, y)) / n_samples**2
    ratio = np.linalg.solve(second + settings.ridge * np.eye(n_centers), first)
    information, _ = SquaredLossCriterion(samples, (1.0,), (1.0,)).make_evaluation(settings)(frame)
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
        estimates.append(criterion.choose_settings(np.eye(1)).score - 0.5)
        exact = rho**2 / (2 * (1 - rho**2))
        assert 0.7 * exact - 0.005 < estimates[-1] < exact + 0.01
    assert estimates == sorted(estimates)


def test_samples_split_into_folds_that_cover_everything():
    samples = small_samples("classes")
    held_out = np.concatenate([out for _, out in samples.fold_rows()])
    np.testing.assert_array_equal(np.sort(held_out), np.arange(40))
    for train, out in samples.fold_rows():
        assert len(np.intersect1d(train, out)) == 0


def real_samples(n_samples=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 4))
    targets = np.column_stack([X[:, 0] + 0.3 * rng.normal(size=n_samples), X[:, 1] ** 2])
    return draw_samples(X, targets, False, n_centers=15, n_folds=4, rng=rng)


def test_moments_and_gram_equal_their_definitions():
    """Derivatives of the bases by finite differences, the Gram matrix by quadrature."""
    samples = real_samples()
    frame = random_frame(1, 4, np.random.default_rng(1))
    bandwidth, target_bandwidth = 0.8, 1.1
    Z, Y, centers = samples.X @ frame.T, samples.targets, samples.centers
    kernel = gaussian(samples.target_distances(), target_bandwidth)
    bases = DerivativeBases.evaluate(Z, samples, bandwidth, kernel)

    def mean_under_f(shift):
        values = np.exp(-((Z[:, 0, None] + shift - Z[centers, 0]) ** 2) / (2 * bandwidth**2))
        joint = np.mean(values * kernel, axis=0)
        return joint - values.mean(axis=0) * kernel.mean(axis=0)

    step = 1e-5
    numeric = (mean_under_f(step) - mean_under_f(-step)) / (2 * step)
    found = bases.mean_slopes(slice(None))[:, 0]
    np.testing.assert_allclose(found, numeric, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(bases.mean_values(slice(None))[:, 0], mean_under_f(0.0), atol=1e-14)

    grid = np.linspace(-12, 12, 2001)
    first = np.exp(-((grid[:, None] - Z[centers, 0]) ** 2) / (2 * bandwidth**2))
    product = np.trapezoid(first[:, :, None] * first[:, None, :], grid, axis=0)
    for column in Y[centers].T:
        other = np.exp(-((grid[:, None] - column) ** 2) / (2 * target_bandwidth**2))
        product *= np.trapezoid(other[:, :, None] * other[:, None, :], grid, axis=0)
    settings = KernelSettings(bandwidth, target_bandwidth, 0.1)
    scale = np.exp(log_gram_scale(1, 2, settings))
    np.testing.assert_allclose(scale * bases.gram, product, rtol=1e-8, atol=1e-12)


def test_coefficients_are_stationary_for_the_least_squares_criterion():
    """The solution's criterion ``theta^T (H + ridge) theta + 2 theta^T h`` has zero slope."""
    samples = real_samples()
    settings = KernelSettings(0.9, 1.0, 0.05)
    frame = random_frame(2, 4, np.random.default_rng(2))
    kernel = gaussian(samples.target_distances(), settings.target_bandwidth)
    bases = DerivativeBases.evaluate(samples.X @ frame.T, samples, settings.bandwidth, kernel)
    moments = bases.mean_slopes(slice(None))
    ridge = bases.gram + settings.ridge * np.eye(len(bases.gram))
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
    _, found = QuadraticCriterion(samples, (1.0,), (1.0,)).make_evaluation(settings)(frame)
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
    criterion = QuadraticCriterion(samples, (0.5, 0.75, 1.0), (1e-4, 1e-3, 1e-2))
    settings = criterion.choose_settings(weights[None]).settings
    _, scaled = criterion.make_evaluation(settings)(weights[None])
    found = scaled[0] / np.exp(log_gram_scale(1, 1, settings))
    assert np.linalg.norm(found - exact) < 0.15 * np.linalg.norm(exact)
    tangent = np.array([-weights[1], weights[0]])
    assert found @ tangent == pytest.approx(exact @ tangent, rel=0.15)


def test_score_is_the_logarithm_of_twice_the_information():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(4000, 1))
    y = 0.8 * x + 0.6 * rng.normal(size=(4000, 1))
    samples = draw_samples(x, y, False, n_centers=200, n_folds=5, rng=rng)
    choice = QuadraticCriterion(samples, (0.5, 0.75), (1e-4, 1e-3)).choose_settings(np.eye(1))
    exact = gaussian_information(np.ones(1), np.array([[1, 0.8], [0.8, 1.0]]))
    assert np.exp(choice.score) / 2 == pytest.approx(exact, rel=0.1)


SHAPES = [(1, 5), (3, 8), (6, 8), (4, 40)]


def frame_and_tangent(n_components, n_features, seed=0):
    rng = np.random.default_rng(seed)
    frame = random_frame(n_components, n_features, rng)
    return frame, tangent_part(frame, rng.normal(size=frame.shape))


@pytest.mark.parametrize("shape", SHAPES)
def test_tangent_part_is_orthogonal_to_the_span_and_idempotent(shape):
    frame, tangent = frame_and_tangent(*shape)
    np.testing.assert_allclose(tangent @ frame.T, 0, atol=1e-13)
    np.testing.assert_allclose(tangent_part(frame, tangent), tangent, atol=1e-13)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("t", [0.0, 0.3, 2.0])
def test_geodesic_equals_the_full_matrix_exponential(shape, t):
    frame, tangent = frame_and_tangent(*shape)
    skew = frame.T @ tangent - tangent.T @ frame
    curve = Geodesic.leaving(frame, tangent)
    rotation = scipy.linalg.expm(t * skew)
    np.testing.assert_allclose(curve.point(t), frame @ rotation, atol=1e-11)
    np.testing.assert_allclose(curve.point(t) @ curve.point(t).T, np.eye(shape[0]), atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_velocity_is_the_finite_difference_and_the_transported_direction(shape):
    frame, tangent = frame_and_tangent(*shape)
    curve = Geodesic.leaving(frame, tangent)
    step = 1e-6
    difference = (curve.point(0.7 + step) - curve.point(0.7 - step)) / (2 * step)
    np.testing.assert_allclose(curve.velocity(0.7), difference, atol=1e-7)
    np.testing.assert_allclose(curve.velocity(0.7), curve.transport(tangent, 0.7), atol=1e-12)
    np.testing.assert_allclose(curve.velocity(0.0), tangent, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_transport_keeps_tangency_and_inner_products(shape):
    frame, tangent = frame_and_tangent(*shape)
    rng = np.random.default_rng(1)
    first, second = (tangent_part(frame, rng.normal(size=shape)) for _ in range(2))
    curve = Geodesic.leaving(frame, tangent)
    moved_first, moved_second = curve.transport(first, 0.4), curve.transport(second, 0.4)
    np.testing.assert_allclose(moved_first @ curve.point(0.4).T, 0, atol=1e-12)
    assert np.sum(moved_first * moved_second) == pytest.approx(np.sum(first * second), abs=1e-11)


def test_geodesic_turns_the_span_by_the_rates():
    frame, tangent = frame_and_tangent(3, 9)
    curve = Geodesic.leaving(frame, tangent)
    t = 1.0 / curve.fastest
    np.testing.assert_allclose(
        scipy.linalg.subspace_angles(curve.point(t).T, frame.T),
        np.sort(curve.rates * t)[::-1],
        atol=1e-8,
    )


def test_reorthonormalize_undoes_rounding():
    frame, tangent = frame_and_tangent(4, 9)
    repaired = reorthonormalize(frame + 1e-6 * tangent + 1e-6 * frame)
    np.testing.assert_allclose(repaired @ repaired.T, np.eye(4), atol=1e-10)


@pytest.mark.parametrize("with_value", [True, False])
def test_search_finds_the_leading_eigenspace(with_value):
    """The maximum of ``trace(W A W^T)`` is known: the leading eigenvectors."""
    rng = np.random.default_rng(2)
    root = rng.normal(size=(12, 12))
    matrix = root @ root.T
    target = np.linalg.eigh(matrix)[1][:, ::-1][:, :3].T
    steps = []

    def evaluate(frame):
        value = np.trace(frame @ matrix @ frame.T)
        return (value if with_value else None), 2 * frame @ matrix

    frame, n_iter, status = maximize_over_subspaces(
        evaluate, random_frame(3, 12, rng), max_iter=200, tol=1e-12, on_step=steps.append
    )
    assert status in (SearchStatus.CONVERGED, SearchStatus.STATIONARY)
    assert scipy.linalg.subspace_angles(frame.T, target.T)[0] < 1e-4
    assert n_iter == len(steps) < 100
    np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-12)
    if with_value:
        assert np.all(np.diff([step.value for step in steps]) >= 0)


def test_search_stops_when_asked_and_says_why():
    matrix = np.diag(np.arange(6.0))
    frame = random_frame(2, 6, np.random.default_rng(3))

    def evaluate(frame):
        return np.trace(frame @ matrix @ frame.T), 2 * frame @ matrix

    _, *stopped = maximize_over_subspaces(
        evaluate, frame, max_iter=50, tol=0, on_step=lambda step: step.iteration == 2
    )
    assert stopped == [3, SearchStatus.STOPPED]
    _, *limited = maximize_over_subspaces(evaluate, frame, max_iter=2, tol=0)
    assert limited == [2, SearchStatus.MAX_ITER]
    _, *whole = maximize_over_subspaces(evaluate, np.eye(6), max_iter=5, tol=0)
    assert whole == [0, SearchStatus.STATIONARY]
