"""The compressed solver gives the iterates of a plain transcription of the paper."""

from dataclasses import asdict

import numpy as np
import pytest
import scipy.sparse

import plain_transcription as plain
from jplay.solvers.alternating import solve_alternating
from jplay.solvers.layer import LayerProblem, solve_layer
from jplay.solvers.model import ModelSettings
from jplay.solvers.samples import ArraySamples, reduced_rows
from jplay.solvers.schedules import LayerSchedule, PaperSolver

SHAPES = {"n > d": (90, 14), "n < d": (18, 30)}
SWITCHES = [
    {},
    {"nonnegative": False},
    {"unit_ball": False},
    {"reconstruction": False},
    {"nonnegative": False, "unit_ball": False},
    {"nonnegative": False, "unit_ball": False, "reconstruction": False},
]


def switch_name(switches):
    return "without " + ", ".join(switches) if switches else "all on"


def make_labels(kind, n_samples, rng):
    if kind == "one-hot":
        return np.eye(4)[rng.permutation(np.arange(n_samples) % 4)]
    return (rng.random((n_samples, 5)) < 0.4).astype(float)


def make_problem(shape, labels, seed=0):
    """Non-negative samples around few prototypes, with a graph and labels."""
    rng = np.random.default_rng(seed)
    n_samples, n_features = SHAPES[shape]
    prototypes = rng.random((4, n_features))
    X = prototypes[np.arange(n_samples) % 4] + 0.3 * rng.random((n_samples, n_features))
    Y = make_labels(labels, n_samples, rng)
    return X, Y, plain.heat_affinity(X, 5, 0.5), rng


def compressed_layer(X, Y, affinity, theta, weight, settings, coef):
    samples = ArraySamples(X, Y, scipy.sparse.csr_array(affinity))
    statistics = samples.statistics()
    rows = reduced_rows(statistics.X_root, statistics.Y_root)
    constraints = {"nonnegative": settings.nonnegative, "unit_ball": settings.unit_ball}
    problem = LayerProblem(
        X=rows[0],
        Y=None if coef is None else rows[1],
        laplacian_gram=statistics.laplacian_gram,
        manifold_weight=weight,
        n_constraints=sum(constraints.values()),
        coef=coef,
        alpha=settings.alpha,
        reconstruction=settings.reconstruction,
    )
    return solve_layer(
        problem,
        samples.constraint_pass(theta.shape[0], **constraints),
        theta,
        LayerSchedule(
            settings.inner_max_iter,
            settings.inner_tol,
            settings.mu,
            settings.mu_growth,
            settings.mu_max,
        ),
    )


def relative_error(actual, expected):
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("switches", SWITCHES, ids=switch_name)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("labels", ["one-hot", "multi-hot", "none"])
def test_layer_agrees_over_sixty_iterations(labels, shape, switches):
    X, Y, affinity, rng = make_problem(shape, "one-hot" if labels == "none" else labels)
    theta = 0.3 * rng.normal(size=(6, X.shape[1]))
    coef = None if labels == "none" else rng.normal(size=(Y.shape[1], 6))
    settings = plain.Settings(alpha=2.0, inner_max_iter=60, inner_tol=1e-300, **switches)
    expected, n_iter = plain.solve_layer(
        X, plain.graph_laplacian(affinity), theta, 0.3, settings, Y=Y, coef=coef
    )
    result = compressed_layer(X, Y, affinity, theta, 0.3, settings, coef)
    assert n_iter == result.n_iter == 60
    assert relative_error(result.theta, expected) < 1e-9


@pytest.mark.parametrize("n_iter", [1, 2, 5, 20])
def test_layer_agrees_after_every_number_of_iterations(n_iter):
    X, Y, affinity, rng = make_problem("n > d", "multi-hot", seed=1)
    theta, coef = rng.normal(size=(6, X.shape[1])), rng.normal(size=(Y.shape[1], 6))
    settings = plain.Settings(inner_max_iter=n_iter)
    expected, _ = plain.solve_layer(
        X, plain.graph_laplacian(affinity), theta, 0.1, settings, Y=Y, coef=coef
    )
    result = compressed_layer(X, Y, affinity, theta, 0.1, settings, coef)
    assert relative_error(result.theta, expected) < 1e-11


def test_layer_stops_at_the_same_iteration():
    X, Y, affinity, _ = make_problem("n > d", "one-hot", seed=2)
    theta = plain.lpp(X, affinity, 6)
    settings = plain.Settings()
    expected, n_iter = plain.solve_layer(X, plain.graph_laplacian(affinity), theta, 0.1, settings)
    result = compressed_layer(X, Y, affinity, theta, 0.1, settings, None)
    assert result.status.converged
    assert result.n_iter == n_iter < settings.inner_max_iter
    assert relative_error(result.theta, expected) < 1e-9


def test_coordinates_in_the_row_space_give_the_same_projection():
    X, Y, affinity, rng = make_problem("n < d", "one-hot", seed=3)
    theta, coef = rng.normal(size=(6, X.shape[1])), rng.normal(size=(Y.shape[1], 6))
    settings = plain.Settings(inner_max_iter=60, inner_tol=1e-300)
    expected, _ = plain.solve_layer(
        X, plain.graph_laplacian(affinity), theta, 0.1, settings, Y=Y, coef=coef
    )
    basis, coordinates = np.linalg.qr(X.T)
    result = compressed_layer(coordinates.T, Y, affinity, theta @ basis, 0.1, settings, coef)
    assert relative_error(result.theta @ basis.T, expected) < 1e-9


@pytest.mark.parametrize("switches", SWITCHES, ids=switch_name)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("labels", ["one-hot", "multi-hot"])
def test_complete_runs_agree(labels, shape, switches):
    X, Y, affinity, _ = make_problem(shape, labels, seed=4)
    layer_sizes = [9, 7, 4]
    # Without reconstruction the manifold term alone would shrink pre-trained layers until their
    # rank is a matter of rounding, and two implementations start the next layer differently.
    eta = 0.3 if switches.get("reconstruction", True) else 0.0
    model = ModelSettings(alpha=2.0, beta=0.2, gamma=0.5, **switches)
    weights = asdict(model)
    assert weights.pop("sparsity") == 0  # the published model has a ridge only
    settings = plain.Settings(**weights, eta=eta, max_iter=3, inner_max_iter=100, tol=1e-300)
    thetas, coef, history = plain.solve_jplay(X, Y, affinity, layer_sizes, settings)
    result = solve_alternating(
        ArraySamples(X, Y, scipy.sparse.csr_array(affinity)),
        layer_sizes,
        model,
        PaperSolver(max_iter=3, inner_max_iter=100, tol=1e-300, eta=eta),
    )
    assert result.n_iter == 3
    np.testing.assert_allclose(result.objective, history, rtol=1e-7)
    features, expected = X, X
    for theta, plain_theta in zip(result.thetas, thetas, strict=True):
        features, expected = features @ theta.T, expected @ plain_theta.T
        assert relative_error(features, expected) < 1e-5
    assert relative_error(result.coef, coef) < 1e-5
