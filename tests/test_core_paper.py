"""The published solver of the core: Algorithms 1 and 2 on samples in blocks."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, dataclass, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import array_api_strict
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import plain_transcription as plain
from jplay.core import paper
from jplay.core.graph import GraphMoments
from jplay.core.objective import Objective, Ridge
from jplay.core.paper import PaperSolver, fit_autorule, minimize_paper, solve_layer
from jplay.core.result import ObjectiveTerms
from jplay.core.samples import Block, Samples, compute_moments
from jplay.core.start import compute_lpp

BOTH = {"nonnegative": True, "unit_ball": True}
CONSTRAINTS = [
    BOTH,
    {"nonnegative": True, "unit_ball": False},
    {"nonnegative": False, "unit_ball": True},
    {"nonnegative": False, "unit_ball": False},
]


def wrap_arrays(X, Y, weight=None):
    """Samples in memory in a single block."""
    return Samples([Block(X, Y, weight)])


def make_data(n_samples=60, n_features=8, seed=0):
    """Non-negative samples around few prototypes, with labels and a graph."""
    rng = np.random.default_rng(seed)
    prototypes = rng.random((4, n_features))
    X = prototypes[np.arange(n_samples) % 4] + 0.3 * rng.random((n_samples, n_features))
    Y = np.eye(4)[rng.permutation(np.arange(n_samples) % 4)]
    return X, Y, plain.heat_affinity(X, 5, 0.5)


def make_problem(X, Y, affinity, samples=None):
    degrees = affinity.sum(axis=1)
    edges = GraphMoments(
        X.T @ plain.graph_laplacian(affinity) @ X,
        X.T @ (degrees[:, None] * X),
        X.T @ degrees,
        degrees.sum(),
    )
    samples = wrap_arrays(X, Y) if samples is None else samples
    start = compute_lpp(edges, X.mean(axis=0))
    moments = compute_moments(samples)
    return SimpleNamespace(
        samples=samples, moments=moments, edges=edges, start=start, start_with_intercepts=start
    )


def relative_error(actual, expected):
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


def assert_same_fit(actual, expected, rtol):
    for a, b in zip([*actual.thetas, actual.coef], [*expected.thetas, expected.coef], strict=True):
        assert relative_error(np.asarray(a), b) < rtol
    np.testing.assert_allclose(actual.objective, expected.objective, rtol=rtol)


@pytest.fixture(scope="module", params=[1, 2])
def oracle(request):
    path = Path(__file__).parent / "data" / f"oracle_case{request.param}.npz"
    with np.load(path) as stored:
        case = SimpleNamespace(**stored)
    case.sizes = case.dims.tolist()
    case.objective_weights = Objective(
        alpha=case.alpha.item(), beta=case.beta.item(), penalty=Ridge(case.gamma.item())
    )
    return case


def fit_oracle(case, **options):
    problem = make_problem(case.X, case.Y.astype(float), case.affinity)
    options = PaperSolver(eta=case.eta.item(), **options)
    return minimize_paper(problem, case.sizes, case.objective_weights, options)


def layers_of(case, name):
    return [getattr(case, f"{name}_{layer}") for layer in range(1, len(case.sizes) + 1)]


def test_oracle_pretraining_and_first_outer_iteration(oracle):
    result = fit_oracle(oracle, max_iter=1)
    for layer, expected in zip(result.pretraining, layers_of(oracle, "autorule"), strict=True):
        np.testing.assert_allclose(layer.theta, expected, rtol=0, atol=1e-8)
    for theta, expected in zip(result.thetas, layers_of(oracle, "theta_first"), strict=True):
        np.testing.assert_allclose(theta, expected, rtol=0, atol=1e-7)
    np.testing.assert_allclose(result.coef, oracle.P_first, rtol=0, atol=1e-7)


def test_oracle_complete_run(oracle):
    result = fit_oracle(oracle)
    assert result.n_iter == len(oracle.objective)
    np.testing.assert_allclose(result.objective, oracle.objective, rtol=1e-6)
    features = expected = oracle.X
    for theta, oracle_theta in zip(result.thetas, layers_of(oracle, "theta"), strict=True):
        features, expected = features @ theta.T, expected @ oracle_theta.T
    assert relative_error(features, expected) < 1e-4
    assert relative_error(result.coef, oracle.P) < 1e-4


SWITCHES = [
    {},
    {"nonnegative": False},
    {"unit_ball": False},
    {"reconstruction": False},
    {"nonnegative": False, "unit_ball": False},
    {"nonnegative": False, "unit_ball": False, "reconstruction": False},
]


def make_labels(kind, n_samples, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "one-hot":
        return np.eye(4)[rng.permutation(np.arange(n_samples) % 4)]
    return (rng.random((n_samples, 5)) < 0.4).astype(float)


def solve_compressed(X, Y, affinity, theta, weight, settings, P):
    layer = paper.compress_samples(make_problem(X, Y, affinity))
    objective = Objective(
        alpha=settings.alpha,
        nonnegative=settings.nonnegative,
        unit_ball=settings.unit_ball,
        reconstruction=settings.reconstruction,
    )
    options = PaperSolver(
        inner_max_iter=settings.inner_max_iter,
        inner_tol=settings.inner_tol,
        mu=settings.mu,
        growth=settings.mu_growth,
        mu_max=settings.mu_max,
    )
    return solve_layer(layer, theta, weight, objective, options, P)


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
@pytest.mark.parametrize("shape", [(90, 14), (18, 30)], ids=["n > d", "n < d"])
@pytest.mark.parametrize("labels", ["one-hot", "multi-hot", None])
def test_layer_agrees_with_a_plain_transcription(labels, shape, switches):
    X, Y, affinity = make_data(*shape)
    rng = np.random.default_rng(1)
    P = None
    if labels is not None:
        Y = make_labels(labels, len(X))
        P = rng.normal(size=(Y.shape[1], 6))
    theta = 0.3 * rng.normal(size=(6, X.shape[1]))
    settings = plain.Settings(alpha=2.0, inner_max_iter=60, inner_tol=0.0, **switches)
    expected, n_iter = plain.solve_layer(
        X, plain.graph_laplacian(affinity), theta, 0.3, settings, Y=Y, coef=P
    )
    result = solve_compressed(X, Y, affinity, theta, 0.3, settings, P)
    assert n_iter == result.n_iter == 60
    assert relative_error(result.theta, expected) < 1e-9


def test_layer_stops_with_the_plain_transcription():
    X, Y, affinity = make_data(90, 14, seed=2)
    theta, settings = plain.lpp(X, affinity, 6), plain.Settings()
    expected, n_iter = plain.solve_layer(X, plain.graph_laplacian(affinity), theta, 0.1, settings)
    result = solve_compressed(X, Y, affinity, theta, 0.1, settings, None)
    assert result.status.converged
    assert result.n_iter == n_iter < settings.inner_max_iter
    assert relative_error(result.theta, expected) < 1e-9


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
@pytest.mark.parametrize("shape", [(90, 14), (18, 30)], ids=["n > d", "n < d"])
@pytest.mark.parametrize("labels", ["one-hot", "multi-hot"])
def test_complete_runs_agree_with_a_plain_transcription(labels, shape, switches):
    X, _, affinity = make_data(*shape, seed=4)
    Y = make_labels(labels, len(X), seed=4)
    eta = 0.3 if switches.get("reconstruction", True) else 0.0
    limits = {"max_iter": 3, "inner_max_iter": 100, "eta": eta}
    settings = plain.Settings(alpha=2.0, beta=0.2, gamma=0.5, tol=0.0, **limits, **switches)
    thetas, P, history = plain.solve_jplay(X, Y, affinity, [9, 7, 4], settings)
    objective = Objective(alpha=2.0, beta=0.2, penalty=Ridge(0.5), **switches)
    result = minimize_paper(
        make_problem(X, Y, affinity), [9, 7, 4], objective, PaperSolver(tol=0.0, **limits)
    )
    np.testing.assert_allclose(result.objective, history, rtol=1e-7)
    features = expected = X
    for theta, plain_theta in zip(result.thetas, thetas, strict=True):
        features, expected = features @ theta.T, expected @ plain_theta.T
        assert relative_error(features, expected) < 1e-5
    assert relative_error(result.coef, P) < 1e-5


# Each update by itself.


def augmented_lagrangian(data, theta, H, G, dual_H, dual_G, splits, mu):
    """Eq. 13 in rows, with every inequality split and its multiplier in ``splits``."""
    X, Z = data.X, data.X @ theta.T
    value = 0.5 * data.weight * np.sum(theta @ data.laplacian_gram * theta)
    if data.objective.reconstruction:
        value += 0.5 * np.sum((X - H @ G) ** 2)
    if data.P is not None:
        value += 0.5 * data.objective.alpha * np.sum((data.Y - H @ data.P.T) ** 2)
    couplings = [(H, Z, dual_H), (G, theta, dual_G), *((S, Z, dual) for S, dual in splits)]
    for split, target, dual in couplings:
        value += np.sum(dual * (split - target)) + 0.5 * mu * np.sum((split - target) ** 2)
    return value


@pytest.mark.parametrize("mu", [0.05, 3.0])
@pytest.mark.parametrize("n_constraints", [0, 1, 2])
@pytest.mark.parametrize("with_labels", [True, False])
@pytest.mark.parametrize("reconstruction", [True, False])
def test_updates_are_stationary_points(reconstruction, with_labels, n_constraints, mu):
    X, Y, affinity = make_data(30, 6)
    rng = np.random.default_rng(2)
    data = SimpleNamespace(
        X=X,
        Y=Y,
        P=rng.normal(size=(4, 3)) if with_labels else None,
        laplacian_gram=X.T @ plain.graph_laplacian(affinity) @ X,
        weight=0.3,
        objective=Objective(alpha=2.0, reconstruction=reconstruction),
    )
    shapes = {"theta": (3, 6), "G": (3, 6), "dual_G": (3, 6), "H": (30, 3), "dual_H": (30, 3)}
    state = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    splits = [(rng.normal(size=(30, 3)), rng.normal(size=(30, 3))) for _ in range(n_constraints)]

    def assert_stationary(name):
        def lagrangian(x):
            changed = {**state, name: x.reshape(state[name].shape)}
            return augmented_lagrangian(data, **changed, splits=splits, mu=mu)

        point = state[name].ravel()
        gradient = scipy.optimize.approx_fprime(point, lagrangian, 1e-6)
        elsewhere = scipy.optimize.approx_fprime(point + 1, lagrangian, 1e-6)
        assert np.linalg.norm(gradient) < 1e-4 * np.linalg.norm(elsewhere)

    right = (mu * state["H"] + state["dual_H"]).T @ X + mu * state["G"] + state["dual_G"]
    right += sum((mu * S + dual).T @ X for S, dual in splits)
    system = paper.factor_theta_system(X, data.laplacian_gram, n_constraints)
    state["theta"] = paper.update_theta(right, system, data.weight, mu)
    assert_stationary("theta")

    Z = X @ state["theta"].T
    state["H"] = paper.update_H(X, Z, state["G"], state["dual_H"], mu, data.objective, Y, data.P)
    assert_stationary("H")

    if reconstruction:
        H = state["H"]
        state["G"] = paper.update_G(state["theta"], H, H.T @ X, state["dual_G"], mu)
        assert_stationary("G")


def split_directly(X, theta, duals, mu, next_mu, nonnegative, unit_ball):
    """Both inequality splits as the algorithm box writes them, in the scale of the features."""
    Z = X @ theta.T
    cross, residuals, new_duals = np.zeros_like(theta), [0.0, 0.0], list(duals)
    V = Z - duals[0] / mu, Z - duals[1] / mu
    splits = np.maximum(V[0], 0), V[1] / np.maximum(1, np.linalg.norm(V[1], axis=1))[:, None]
    for i, is_present in enumerate([nonnegative, unit_ball]):
        if is_present:
            new_duals[i] = duals[i] + mu * (splits[i] - Z)
            cross += (next_mu * splits[i] + new_duals[i]).T @ X
            residuals[i] = np.linalg.norm(splits[i] - Z)
    return cross, residuals, new_duals


class StoredBlock:
    """A block on disk."""

    def __init__(self, path, X, Y):
        self.path = path
        np.savez(path, X=X, Y=Y)

    def load(self):
        with np.load(self.path) as stored:
            return Block(stored["X"], stored["Y"], None)


@dataclass
class Reference:
    """Something that only a worker can look into."""

    value: Any


class WorkerSamples(Samples):
    """Blocks and states that stay with a worker: the solver holds references to both."""

    def reduce(self, function, combine=None):
        blocks = Samples([block.value for block in self.blocks], self.outputs)
        return blocks.reduce(function, *([] if combine is None else [combine]))

    def update(self, function, states):
        values = [s.value if isinstance(s, Reference) else s for s in states]
        blocks = Samples([block.value for block in self.blocks], self.outputs)
        states, sums = blocks.update(function, values)
        return [Reference(state) for state in states], sums


PLACES = ["one block", "blocks", "threads", "disk", "workers", "strict arrays"]


def place_samples(place, X, Y, folder):
    outputs = (slice(None),)
    rows = [slice(start, start + 16) for start in range(0, len(X), 16)]
    blocks = [Block(X[r], Y[r], None) for r in rows]
    if place == "disk":
        blocks = [StoredBlock(folder / f"{r.start}.npz", X[r], Y[r]) for r in rows]
    if place == "workers":
        return WorkerSamples([Reference(block) for block in blocks], outputs)
    if place == "one block":
        return wrap_arrays(X, Y)
    if place == "strict arrays":
        return wrap_arrays(array_api_strict.asarray(X), array_api_strict.asarray(Y))
    return Samples(blocks, outputs, ThreadPoolExecutor(3).map if place == "threads" else map)


@pytest.mark.parametrize("constraints", CONSTRAINTS[:3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("place", PLACES)
def test_passes_equal_their_definition(place, dtype, constraints, tmp_path):
    X, Y, _ = make_data(70, 6)
    X = X.astype(dtype)
    samples = place_samples(place, X, Y.astype(dtype), tmp_path)
    rng = np.random.default_rng(0)
    states = [(0.0, 0.0) for _ in samples.blocks]
    duals = [np.zeros((70, 4)), np.zeros((70, 4))]
    rtol = 1e-4 if dtype == np.float32 else 1e-11
    for mu in (0.5, 1.0, 2.0, 4.0):
        theta = rng.normal(size=(4, 6))
        step = paper.SplitsStep(theta, mu, 2 * mu, **constraints)
        states, (cross, *squares) = samples.update(step, states)
        expected, residuals, duals = split_directly(
            X.astype(float), theta, duals, mu, 2 * mu, **constraints
        )
        np.testing.assert_allclose(np.asarray(cross), expected, atol=rtol * np.abs(expected).max())
        actual = [float(square) ** 0.5 / mu for square in squares]
        np.testing.assert_allclose(actual, residuals, rtol=rtol)


# Complete runs.


@pytest.mark.parametrize("constraints", CONSTRAINTS)
def test_features_are_feasible_at_convergence(constraints):
    X, Y, affinity = make_data(80)
    options = PaperSolver(max_iter=2)
    objective = Objective(**constraints)
    result = minimize_paper(make_problem(X, Y, affinity), [5, 3], objective, options)
    Z = X
    for theta, residuals in zip(result.thetas, result.residuals[-1], strict=True):
        Z = Z @ theta.T
        assert (Z.min() > -1e-6) == constraints["nonnegative"] or Z.min() > 0
        if constraints["unit_ball"]:
            assert np.linalg.norm(Z, axis=1).max() < 1 + 1e-6
        assert residuals.shape[1] == 4
        assert residuals[-1].max() < 1e-6 <= residuals[-2].max()
        assert (residuals[:, 2] > 0).any() <= constraints["nonnegative"]
        assert (residuals[:, 3] > 0).any() == constraints["unit_ball"]


def test_autorule_finds_the_principal_subspace():
    """Reconstruction alone: the best subspace is that of an uncentered truncated SVD."""
    X, Y, affinity = make_data()
    options = PaperSolver(inner_max_iter=5000, inner_tol=1e-9, mu=1.0, growth=1.0, eta=0.0)
    objective = Objective(nonnegative=False, unit_ball=False)
    result = fit_autorule(make_problem(X, Y[:, :0], affinity), 2, objective, options)
    axes = np.linalg.svd(X)[2][:2]
    assert result.status.converged
    np.testing.assert_allclose(result.theta.T @ result.theta, axes.T @ axes, atol=1e-5)


def test_labels_play_no_part_in_autorule():
    X, Y, affinity = make_data()
    with_labels, without = (
        fit_autorule(make_problem(X, targets, affinity), 3, Objective(), PaperSolver())
        for targets in (Y, Y[:, :0])
    )
    assert with_labels.status.converged
    assert relative_error(with_labels.theta, without.theta) < 1e-8


def test_a_layer_with_prediction_loss_alone_is_least_squares():
    X, Y, affinity = make_data()
    P = np.random.default_rng(0).normal(size=(4, 4))
    settings = plain.Settings(
        nonnegative=False,
        unit_ball=False,
        reconstruction=False,
        inner_max_iter=5000,
        inner_tol=1e-10,
        mu=0.1,
        mu_growth=1.0,
    )
    result = solve_compressed(X, Y, affinity, np.zeros((4, 8)), 0.0, settings, P)
    assert result.status.converged
    np.testing.assert_allclose(P @ result.theta, np.linalg.lstsq(X, Y)[0].T, atol=1e-6)


@pytest.mark.parametrize("pretraining", [True, False])
@pytest.mark.parametrize("place", PLACES[1:])
def test_place_of_the_samples_does_not_matter(place, pretraining, tmp_path):
    X, Y, affinity = make_data()
    samples = place_samples(place, X, Y, tmp_path)
    options = PaperSolver(max_iter=2, inner_max_iter=40, pretraining=pretraining)
    expected, actual = (
        minimize_paper(problem, [6, 3], Objective(), options)
        for problem in (make_problem(X, Y, affinity), in_place(X, Y, affinity, samples))
    )
    assert_same_fit(actual, expected, 1e-7)


def in_place(X, Y, affinity, samples):
    problem = make_problem(X, Y, affinity)
    problem.samples, problem.moments = samples, compute_moments(samples)
    if not isinstance(problem.moments.gram, np.ndarray):
        problem.start = problem.start_with_intercepts = array_api_strict.asarray(problem.start)
        edges = [getattr(problem.edges, field.name) for field in fields(problem.edges)]
        problem.edges = GraphMoments(*(array_api_strict.asarray(value) for value in edges))
    return problem


def test_single_precision_samples_are_compressed_in_double_precision():
    X, Y, affinity = make_data()
    problem = make_problem(X, Y, affinity, wrap_arrays(X.astype(np.float32), Y.astype(np.float32)))
    result = minimize_paper(problem, [5], Objective(), PaperSolver(max_iter=2, inner_max_iter=30))
    expected = minimize_paper(
        make_problem(X, Y, affinity), [5], Objective(), PaperSolver(max_iter=2, inner_max_iter=30)
    )
    assert result.thetas[0].dtype == np.float64
    assert_same_fit(result, expected, 1e-3)


@pytest.mark.parametrize("n_rows", [2, 7, 40])
@pytest.mark.parametrize("n_features", [5, 30])
def test_compressed_samples_hold_the_second_moments(n_features, n_rows):
    X, Y, affinity = make_data(120, n_features)
    rows = [slice(start, start + n_rows) for start in range(0, 120, n_rows)]
    samples = Samples([Block(X[r], Y[r], None) for r in rows], (slice(None),))
    layer = paper.compress_samples(make_problem(X, Y, affinity, samples))
    for _ in range(2):
        assert len(layer.X) <= X.shape[1] + Y.shape[1]
        np.testing.assert_allclose(layer.X.T @ layer.X, X.T @ X, atol=1e-10)
        np.testing.assert_allclose(layer.X.T @ layer.Y, X.T @ Y, atol=1e-10)
        np.testing.assert_allclose(layer.Y.T @ layer.Y, Y.T @ Y, atol=1e-10)
        theta = np.random.default_rng(0).normal(size=(3, X.shape[1]))
        layer, X = layer.project(theta), X @ theta.T
        np.testing.assert_allclose(layer.mean, X.mean(axis=0))
        expected = make_problem(X, Y, affinity).edges
        for field in fields(expected):
            actual, moment = getattr(layer.edges, field.name), getattr(expected, field.name)
            np.testing.assert_allclose(actual, moment, atol=1e-10)


def test_the_same_run_twice_is_bit_identical():
    X, Y, affinity = make_data()
    first, second = (
        minimize_paper(make_problem(X, Y, affinity), [5, 3], Objective(), PaperSolver(max_iter=2))
        for _ in range(2)
    )
    for a, b in zip([*first.thetas, first.coef], [*second.thetas, second.coef], strict=True):
        np.testing.assert_array_equal(a, b)
    assert first.objective == second.objective


def test_fine_tuning_lowers_the_objective():
    X, Y, affinity = make_data()
    objective = Objective(alpha=1.0, beta=0.1)
    result = minimize_paper(make_problem(X, Y, affinity), [5, 3], objective, PaperSolver())
    assert result.status.converged
    assert "relative change of the objective" in result.status.message
    assert result.objective[-1] < result.objective[0]
    assert len(result.residuals) == result.n_iter == len(result.objective_terms)
    assert [len(layers) for layers in result.residuals] == [2] * result.n_iter


def test_projections_beyond_the_rank_start_at_zero():
    X, Y, affinity = make_data()
    problem = make_problem(X, Y, affinity)
    problem.start = problem.start_with_intercepts = problem.start[:4]
    for pretraining in (True, False):
        options = PaperSolver(max_iter=1, inner_max_iter=5, pretraining=pretraining)
        result = minimize_paper(problem, [6, 3], Objective(), options)
        assert [theta.shape for theta in result.thetas] == [(6, 8), (3, 6)]
        assert np.isfinite(result.objective).all()


def test_callback_gets_every_step_and_may_stop():
    X, Y, affinity = make_data()
    records = []

    def stop_at_two(progress):
        records.append(progress)
        return progress.stage == "pretraining" or progress.iteration == 2

    result = minimize_paper(
        make_problem(X, Y, affinity), [4, 2], Objective(), PaperSolver(tol=0.0), stop_at_two
    )
    assert [(record.stage, record.iteration) for record in records] == [
        ("pretraining", 1),
        ("pretraining", 2),
        ("fine-tuning", 1),
        ("fine-tuning", 2),
    ]
    assert result.n_iter == 2
    assert result.status.message == "stopped by a callback"
    assert records[-1].objective == result.objective[-1]


def test_messages_name_the_layer_and_the_remedy():
    X, Y, affinity = make_data()
    problem = make_problem(X, Y, affinity)
    result = minimize_paper(problem, [4, 2], Objective(), PaperSolver(inner_max_iter=3, tol=10.0))
    assert not result.status.converged
    reasons = result.status.message.split("; ")
    assert [reason.split(":")[0] for reason in reasons] == [
        "layer 1",
        "layer 2",
        "pre-training of layer 1",
        "pre-training of layer 2",
    ]
    assert "after 3 inner iterations, above inner_tol=1e-06" in reasons[0]
    assert "increase inner_max_iter or inner_tol" in reasons[0]
    result = minimize_paper(problem, [4], Objective(), PaperSolver(max_iter=2, tol=0.0))
    assert result.status.message.startswith(
        "no convergence within max_iter=2 outer iterations (relative change of the objective "
    )
    assert result.status.message.endswith("): increase max_iter or tol=0")


def test_label_weights_and_other_penalties_are_refused():
    X, Y, affinity = make_data()
    samples = wrap_arrays(X, Y, np.ones((len(X), 1)))
    with pytest.raises(ValueError, match=r"`solver` should be 'fast' if samples or classes differ"):
        minimize_paper(make_problem(X, Y, affinity, samples), [3], Objective(), PaperSolver())
    with pytest.raises(ValueError, match=r"`solver` should be 'fast' if `gamma` is a penalty"):
        minimize_paper(
            make_problem(X, Y, affinity), [3], Objective(penalty=object()), PaperSolver()
        )


DOMAINS = {
    "max_iter": ("a positive integer", [0, -1, 1.5, True, "many", None]),
    "inner_max_iter": ("a positive integer", [0, 2.0]),
    "tol": ("a non-negative number", [-1e-9, float("nan"), float("inf"), "small", None, False]),
    "inner_tol": ("a non-negative number", [-1.0, float("nan")]),
    "eta": ("a non-negative number", [-0.1, float("nan"), None]),
    "mu": ("a positive number", [0, -1.0, float("inf")]),
    "mu_max": ("a positive number", [0.0, float("nan")]),
    "growth": ("a number of at least 1", [0.99, float("nan"), float("inf")]),
    "pretraining": ("a bool", [1, None, "yes"]),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(field.name, value) for field in fields(PaperSolver) for value in DOMAINS[field.name][1]],
)
def test_option_outside_its_domain_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=rf"^`{name}` should be {DOMAINS[name][0]}, got ") as error:
        PaperSolver(**{name: value})
    assert repr(value) in str(error.value)
    assert repr(getattr(PaperSolver(), name)) in str(error.value)


def test_penalty_parameter_must_not_shrink():
    with pytest.raises(ValueError, match=r"`mu_max` should be at least `mu` \(3\.0\), got 2\.0"):
        PaperSolver(mu=3.0, mu_max=2.0)
    assert PaperSolver(mu=3.0, mu_max=3.0).mu_max == 3.0


def test_options_are_values():
    changed = PaperSolver(max_iter=np.int64(7), tol=0, mu=np.float32(0.5))
    assert (changed.max_iter, changed.tol, changed.mu) == (7, 0, 0.5)
    assert len({PaperSolver(), PaperSolver(), PaperSolver(eta=0.0)}) == 2
    with pytest.raises(FrozenInstanceError):
        PaperSolver().tol = 1.0


def test_total_of_the_terms_is_their_sum():
    assert ObjectiveTerms(1.0, 2.0, 4.0, 8.0, 16.0).total == 31.0
