from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace

import array_api_strict
import numpy as np
import pytest
import scipy.optimize

from closeness import assert_close
from jplay import JPlay
from jplay.numerics.graph import heat_affinity
from jplay.solvers import samples as samples_module
from jplay.solvers.alternating import downstream_coefs, solve_alternating
from jplay.solvers.layer import LayerProblem, ThetaSystem, solve_layer, update_G, update_H
from jplay.solvers.model import ModelSettings
from jplay.solvers.pretraining import autorule, locality_preserving_projections, padded
from jplay.solvers.samples import ArraySamples, Statistics, reduced_rows
from jplay.solvers.schedules import FastSchedule, LayerSchedule, PaperSchedule

CONSTRAINTS = [
    {"nonnegative": True, "unit_ball": True},
    {"nonnegative": True, "unit_ball": False},
    {"nonnegative": False, "unit_ball": True},
    {"nonnegative": False, "unit_ball": False},
]


def make_samples(n_samples=40, n_features=6, seed=0, dtype=np.float64, pool=None):
    rng = np.random.default_rng(seed)
    X = rng.random((n_samples, n_features)).astype(dtype)
    Y = np.eye(3, dtype=dtype)[np.arange(n_samples) % 3]
    return ArraySamples(X, Y, heat_affinity(X, 5)[0], pool)


def make_problem(samples, n_out, seed=1, **changes):
    statistics = samples.statistics()
    X, Y = reduced_rows(statistics.X_root, statistics.Y_root)
    problem = LayerProblem(
        X=X,
        Y=Y,
        laplacian_gram=statistics.laplacian_gram,
        manifold_weight=0.3,
        n_constraints=2,
        coef=np.random.default_rng(seed).normal(size=(Y.shape[1], n_out)),
        alpha=2.0,
    )
    return replace(problem, **changes)


def augmented_lagrangian(problem, theta, H, G, dual_H, dual_G, mu, splits):
    """In the scaling of the code, with every inequality split and its multiplier in ``splits``."""
    Z = problem.X @ theta.T
    value = 0.5 * problem.manifold_weight * np.sum(theta @ problem.laplacian_gram * theta)
    if problem.reconstruction:
        value += 0.5 * np.sum((problem.X - H @ G) ** 2)
    if problem.coef is not None:
        value += 0.5 * problem.alpha * np.sum((problem.Y - H @ problem.coef.T) ** 2)
    couplings = [(H, Z, dual_H), (G, theta, dual_G), *((S, Z, dual) for S, dual in splits)]
    for split, target, dual in couplings:
        value += np.sum(dual * (split - target)) + 0.5 * mu * np.sum((split - target) ** 2)
    return value


def random_state(problem, n_out, seed=2):
    rng = np.random.default_rng(seed)
    n_rows, n_in = problem.X.shape
    shapes = {"theta": (n_out, n_in), "G": (n_out, n_in), "dual_G": (n_out, n_in)}
    shapes |= {"H": (n_rows, n_out), "dual_H": (n_rows, n_out)}
    state = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    splits = [
        (rng.normal(size=(n_rows, n_out)), rng.normal(size=(n_rows, n_out)))
        for _ in range(problem.n_constraints)
    ]
    return state, splits


def assert_stationary(problem, state, splits, name, mu):
    def lagrangian(x):
        changed = {**state, name: x.reshape(state[name].shape)}
        return augmented_lagrangian(problem, **changed, mu=mu, splits=splits)

    point = state[name].ravel()
    gradient = scipy.optimize.approx_fprime(point, lagrangian, 1e-6)
    elsewhere = scipy.optimize.approx_fprime(point + 1, lagrangian, 1e-6)
    assert np.linalg.norm(gradient) < 1e-4 * np.linalg.norm(elsewhere)


@pytest.mark.parametrize("mu", [0.05, 3.0])
@pytest.mark.parametrize(
    "changes",
    [{}, {"coef": None}, {"reconstruction": False}, {"coef": None, "reconstruction": False}],
    ids=["all", "no labels", "no reconstruction", "neither"],
)
def test_block_updates_are_stationary_points_of_the_augmented_lagrangian(changes, mu):
    problem = make_problem(make_samples(), 4, **changes)
    state, splits = random_state(problem, 4)
    X = problem.X

    state["theta"] = ThetaSystem(X, problem.laplacian_gram, 2).solve(
        (mu * state["H"] + state["dual_H"]).T @ X
        + mu * state["G"]
        + state["dual_G"]
        + sum((mu * S + dual).T @ X for S, dual in splits),
        problem.manifold_weight,
        mu,
    )
    assert_stationary(problem, state, splits, "theta", mu)

    state["H"] = update_H(problem, X @ state["theta"].T, state["G"], state["dual_H"], mu)
    assert_stationary(problem, state, splits, "H", mu)

    H = state["H"]
    state["G"] = update_G(problem, state["theta"], H, H.T @ X, state["dual_G"], mu)
    assert_stationary(problem, state, splits, "G", mu)


@pytest.mark.parametrize("n_constraints", [0, 1, 2])
def test_theta_system_solves_the_normal_equations_for_every_mu(n_constraints):
    problem = make_problem(make_samples(), 4)
    system = ThetaSystem(problem.X, problem.laplacian_gram, n_constraints)
    right = np.random.default_rng(0).normal(size=(4, 6))
    for mu in (1e-3, 1.0, 1e6):
        matrix = 0.3 * problem.laplacian_gram + mu * (
            (n_constraints + 1) * problem.X.T @ problem.X + np.eye(6)
        )
        np.testing.assert_allclose(system.solve(right, 0.3, mu) @ matrix, right, atol=1e-8)


def direct_pass(X, theta, duals, mu, mu_next, nonnegative, unit_ball):
    """The pass as the design page writes it, with splits in the scale of the samples."""
    Z = X @ theta.T
    pull, residuals, new_duals = np.zeros_like(theta), [0.0, 0.0], list(duals)
    if nonnegative:
        Q = np.maximum(Z - duals[0] / mu, 0)
        new_duals[0] = duals[0] + mu * (Q - Z)
        pull += (mu_next * Q + new_duals[0]).T @ X
        residuals[0] = np.linalg.norm(Q - Z)
    if unit_ball:
        V = Z - duals[1] / mu
        S = V / np.maximum(1, np.linalg.norm(V, axis=1, keepdims=True))
        new_duals[1] = duals[1] + mu * (S - Z)
        pull += (mu_next * S + new_duals[1]).T @ X
        residuals[1] = np.linalg.norm(S - Z)
    return pull, residuals, new_duals


PASSES = ["blocked", "blocked over threads", "strict arrays"]


def samples_of_kind(kind, samples, pool):
    if kind == "strict arrays":
        return ArraySamples(array_api_strict.asarray(samples.X), samples.Y, samples.affinity)
    if kind == "blocked over threads":
        return ArraySamples(samples.X, samples.Y, samples.affinity, pool)
    return samples


@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", PASSES)
def test_passes_equal_their_definition(monkeypatch, kind, dtype, constraints):
    monkeypatch.setattr(samples_module, "_BLOCK_BYTES", 0)  # blocks of 64 rows
    rng = np.random.default_rng(0)
    samples = make_samples(n_samples=150, dtype=dtype)
    X = samples.X.astype(np.float64)
    duals = [np.zeros((150, 4)), np.zeros((150, 4))]
    rtol = 1e-4 if dtype == np.float32 else 1e-11
    with ThreadPoolExecutor(3) as pool:
        run = samples_of_kind(kind, samples, pool).constraint_pass(4, **constraints)
        for mu in (0.5, 1.0, 2.0, 4.0):
            theta = rng.normal(size=(4, 6))
            given = array_api_strict.asarray(theta) if kind == "strict arrays" else theta
            pull, *residuals = run(given, mu, 2 * mu)
            expected, expected_residuals, duals = direct_pass(
                X, theta, duals, mu, 2 * mu, **constraints
            )
            scale = np.abs(expected).max() or 1.0
            np.testing.assert_allclose(np.asarray(pull), expected, atol=rtol * scale)
            np.testing.assert_allclose(residuals, expected_residuals, rtol=rtol)


@pytest.mark.parametrize("relaxation", [1.0, 1.7])
@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", PASSES)
def test_joint_passes_equal_their_definition(monkeypatch, kind, dtype, constraints, relaxation):
    """One split per layer on both sets, and a multiplier that shrinks as the penalty grows."""
    monkeypatch.setattr(samples_module, "_BLOCK_BYTES", 0)  # blocks of 64 rows
    rng = np.random.default_rng(0)
    samples = make_samples(n_samples=150, dtype=dtype)
    rtol = 1e-4 if dtype == np.float32 else 1e-11
    duals, splits = [np.zeros((150, size)) for size in (4, 3)], [None, None]
    with ThreadPoolExecutor(3) as pool:
        sweep = samples_of_kind(kind, samples, pool).joint_pass(
            [4, 3], **constraints, relaxation=relaxation
        )
        for dual_scale, n_layers in ((1.0, 1), (0.5, 2), (0.9, 2)):  # the second layer joins late
            thetas = [rng.normal(size=(4, 6)), rng.normal(size=(3, 4))][:n_layers]
            strict = kind == "strict arrays"
            given = [array_api_strict.asarray(theta) if strict else theta for theta in thetas]
            pulls, gaps = sweep(given, dual_scale)
            Z = X = samples.X.astype(np.float64)
            for layer, theta in enumerate(thetas):
                Z = Z @ theta.T
                V = Z - dual_scale * duals[layer]
                if splits[layer] is not None:
                    V += (relaxation - 1) * (Z - splits[layer])
                S = np.maximum(V, 0) if constraints["nonnegative"] else V
                if constraints["unit_ball"]:
                    S = S / np.maximum(1, np.linalg.norm(S, axis=1, keepdims=True))
                duals[layer], splits[layer] = S - V, S
                expected = (S + duals[layer]).T @ X
                scale = np.abs(expected).max()
                np.testing.assert_allclose(np.asarray(pulls[layer]), expected, atol=rtol * scale)
                # The gap is a small difference of features.
                atol = rtol * np.linalg.norm(Z)
                np.testing.assert_allclose(gaps[layer], np.linalg.norm(S - Z), rtol=rtol, atol=atol)


def test_threads_split_the_samples_without_loss():
    with ThreadPoolExecutor(3) as pool:
        threaded = make_samples(n_samples=50, pool=pool)
        alone = make_samples(n_samples=50)
        theta = np.random.default_rng(0).normal(size=(4, 6))
        np.testing.assert_array_equal(threaded.projected(theta).X, alone.projected(theta).X)
        assert_same_moments(threaded.statistics(), alone.statistics(), rtol=1e-10)


def assert_same_moments(actual, expected, rtol):
    for field in fields(Statistics):
        if field.name.endswith(("_root", "_roots")):
            continue
        np.testing.assert_allclose(
            getattr(actual, field.name), getattr(expected, field.name), rtol=rtol, atol=1e-10
        )
    for left, right in [("X_root", "X_root"), ("X_root", "Y_root"), ("Y_root", "Y_root")]:
        np.testing.assert_allclose(
            getattr(actual, left).T @ getattr(actual, right),
            getattr(expected, left).T @ getattr(expected, right),
            rtol=rtol,
            atol=1e-10,
        )


@pytest.mark.parametrize("n_samples", [4, 8, 100])
def test_statistics_hold_the_second_moments(monkeypatch, n_samples):
    monkeypatch.setattr(samples_module, "_ROOT_ROWS", 16)
    samples = make_samples(n_samples=n_samples) if n_samples > 5 else small_samples()
    statistics = samples.statistics()
    X, Y = samples.X, samples.Y
    W = samples.affinity.toarray()
    degrees = W.sum(axis=1)
    assert len(statistics.X_root) <= X.shape[1] + Y.shape[1]
    np.testing.assert_allclose(statistics.X_root.T @ statistics.X_root, X.T @ X, atol=1e-10)
    np.testing.assert_allclose(statistics.X_root.T @ statistics.Y_root, X.T @ Y, atol=1e-10)
    np.testing.assert_allclose(statistics.Y_root.T @ statistics.Y_root, Y.T @ Y, atol=1e-10)
    np.testing.assert_allclose(statistics.sample_sum, X.sum(axis=0))
    np.testing.assert_allclose(
        statistics.laplacian_gram, X.T @ (np.diag(degrees) - W) @ X, atol=1e-10
    )
    np.testing.assert_allclose(statistics.degree_gram, X.T @ (degrees[:, None] * X), atol=1e-10)
    assert statistics.n_samples == n_samples
    assert statistics.n_features == X.shape[1]


def small_samples():
    X = np.random.default_rng(0).random((4, 6))
    return ArraySamples(X, np.eye(2)[[0, 1, 0, 1]], heat_affinity(X, 2)[0])


def test_projected_statistics_are_those_of_the_projected_samples():
    samples = make_samples()
    theta = np.random.default_rng(0).normal(size=(3, 6))
    assert_same_moments(
        samples.statistics().projected(theta), samples.projected(theta).statistics(), rtol=1e-9
    )


def test_float32_samples_have_float64_statistics():
    statistics = make_samples(dtype=np.float32).statistics()
    assert statistics.X_root.dtype == statistics.laplacian_gram.dtype == np.float64


def test_downstream_coefs_lead_from_each_layer_to_the_labels():
    rng = np.random.default_rng(0)
    first, second, third = (rng.normal(size=shape) for shape in [(4, 6), (3, 4), (2, 3)])
    coef = rng.normal(size=(5, 2))
    for actual, expected in zip(
        downstream_coefs(coef, [first, second, third]),
        [coef @ third @ second, coef @ third, coef],
        strict=True,
    ):
        assert_close(actual, expected, 1e-7)


def test_lpp_pads_nothing_but_missing_directions():
    theta = np.ones((2, 3))
    np.testing.assert_array_equal(padded(theta, 4), [[1, 1, 1], [1, 1, 1], [0, 0, 0], [0, 0, 0]])
    assert padded(theta, 2) is theta


def test_a_layer_without_constraints_reconstruction_and_manifold_fits_the_labels():
    """Only the prediction loss is left: ordinary least squares through a regular ``coef``."""
    samples = make_samples(n_samples=60)
    problem = make_problem(
        samples, 3, manifold_weight=0.0, n_constraints=0, reconstruction=False, alpha=1.0
    )
    run = samples.constraint_pass(3, nonnegative=False, unit_ball=False)
    result = solve_layer(
        problem,
        run,
        np.zeros((3, 6)),
        LayerSchedule(max_iter=5000, tol=1e-10, mu=0.1, growth=1.0),
    )
    least_squares = np.linalg.lstsq(samples.X, samples.Y)[0].T
    assert result.status.converged
    np.testing.assert_allclose(problem.coef @ result.theta, least_squares, atol=1e-6)


def test_a_layer_without_constraints_and_manifold_finds_the_principal_subspace():
    """Reconstruction alone: the best subspace is that of an uncentred truncated SVD."""
    samples = make_samples(n_samples=60)
    problem = make_problem(samples, 2, manifold_weight=0.0, n_constraints=0, coef=None)
    start = locality_preserving_projections(samples.statistics(), 2)
    result = solve_layer(
        problem,
        samples.constraint_pass(2, nonnegative=False, unit_ball=False),
        start,
        LayerSchedule(max_iter=5000, tol=1e-9, mu=1.0, growth=1.0),
    )
    axes = np.linalg.svd(samples.X)[2][:2]
    assert result.status.converged
    np.testing.assert_allclose(result.theta.T @ result.theta, axes.T @ axes, atol=1e-5)


def test_constraints_hold_at_convergence():
    samples = make_samples(n_samples=80)
    statistics = samples.statistics()
    result = autorule(
        samples,
        statistics,
        locality_preserving_projections(statistics, 3),
        eta=0.1,
        nonnegative=True,
        unit_ball=True,
        reconstruction=True,
        schedule=LayerSchedule(),
    )
    Z = samples.X @ result.theta.T
    assert result.status.converged
    assert Z.min() > -1e-6
    assert np.linalg.norm(Z, axis=1).max() < 1 + 1e-6
    assert result.residuals.shape == (result.n_iter, 4)
    assert result.residuals[-1].max() < 1e-6 <= result.residuals[-2].max()


def test_status_says_what_to_change():
    samples = make_samples()
    problem = make_problem(samples, 3)
    run = samples.constraint_pass(3, nonnegative=True, unit_ball=True)
    result = solve_layer(problem, run, np.ones((3, 6)), LayerSchedule(max_iter=3))
    assert not result.status.converged
    assert result.n_iter == 3
    assert "after 3 inner iterations" in result.status.message
    assert "increase inner_max_iter or inner_tol" in result.status.message


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_solve_twice_is_bit_identical(n_threads, dtype):
    def solve():
        with ThreadPoolExecutor(n_threads) as pool:
            samples = make_samples(n_samples=60, dtype=dtype, pool=pool)
            return solve_alternating(samples, [4, 2], ModelSettings(), PaperSchedule(max_iter=3))

    first, second = solve(), solve()
    for a, b in zip([*first.thetas, first.coef], [*second.thetas, second.coef], strict=True):
        np.testing.assert_array_equal(a, b)
    assert first.objective == second.objective


def test_the_same_fit_twice_is_bit_identical():
    samples = make_samples(n_samples=60)
    y = np.argmax(samples.Y, axis=1)
    schedule = FastSchedule(max_iter=5)
    first, second = (JPlay(n_layers=[4, 2], solver=schedule).fit(samples.X, y) for _ in range(2))
    np.testing.assert_array_equal(first.components_, second.components_)
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_fine_tuning_lowers_the_objective():
    result = solve_alternating(make_samples(n_samples=60), [4, 2], ModelSettings(), PaperSchedule())
    assert result.status.converged
    assert result.objective[-1] < result.objective[0]
    assert len(result.residuals) == result.n_iter == len(result.objective_terms)
    assert [len(layers) for layers in result.residuals] == [2] * result.n_iter


def test_callback_is_told_of_every_step_and_may_stop():
    records = []

    def stop_at_two(progress):
        records.append(progress)
        return progress.stage == "fine-tuning" and progress.iteration == 2

    result = solve_alternating(
        make_samples(), [4, 2], ModelSettings(), PaperSchedule(tol=0.0), callback=stop_at_two
    )
    steps = [(record.stage, record.iteration) for record in records]
    assert steps == [
        ("pretraining", 1),
        ("pretraining", 2),
        ("fine-tuning", 1),
        ("fine-tuning", 2),
    ]
    assert result.n_iter == 2
    assert result.status.message == "stopped by a callback"
    assert records[-1].objective == result.objective[-1]
