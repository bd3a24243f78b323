"""What is minimized: Eq. 6 from plain arrays, its optimality conditions, and its constraints."""

import warnings

import numpy as np
import pytest
import scipy.optimize
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

import core_oracle as oracle
import plain_transcription as plain
from jplay import FastSolver, HeatGraph, JPlay, LabelPenalty, PaperSolver

GRAPH = HeatGraph(5)
WEIGHTS = {"alpha": 2.0, "beta": 0.3, "gamma": 0.7}
CONSTRAINTS = ["both", "nonnegative", "unit_ball", None]


@pytest.fixture(scope="module")
def samples():
    return oracle.make_classes()


def fit(model, X, y, **options):
    """Fit without a word about convergence: what is tested holds at any iterate."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, **options)


@pytest.mark.parametrize("scaling", ["standard", "norm", None])
@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("reconstruction", [True, False])
@pytest.mark.parametrize("n_layers", [1, 3])
def test_objective_is_equation_6(samples, scaling, constraints, reconstruction, n_layers):
    X, y = samples
    model = JPlay(
        2,
        n_layers,
        **WEIGHTS,
        graph=GRAPH,
        scaling=scaling,
        constraints=constraints,
        reconstruction=reconstruction,
        solver=FastSolver(max_iter=30),
    )
    fit(model, X, y)
    assert model.objective_history_[-1] == pytest.approx(oracle.objective(model, X, y), rel=1e-8)


@pytest.mark.parametrize("offset", [0.0, -0.6])
def test_objective_of_the_published_solver_is_equation_6(samples, offset):
    X, y = samples
    solver = PaperSolver(max_iter=3, inner_max_iter=60)
    model = fit(JPlay(2, 2, **WEIGHTS, graph=GRAPH, scaling=None, solver=solver), X + offset, y)
    expected = oracle.objective(model, X + offset, y)
    assert model.objective_history_[-1] == pytest.approx(expected, rel=1e-8)


def test_terms_are_told_one_by_one(samples):
    X, y = samples
    model = fit(JPlay(2, 3, **WEIGHTS, graph=GRAPH), X, y)
    chain = oracle.Chain.of(model, X)
    terms = model.result_.objective_terms[-1]
    found = [terms.reconstruction, terms.prediction, terms.manifold, terms.ridge]
    expected = chain.terms(oracle.indicators(y), model.coef_, model.affinity_, model)
    assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("gamma", [0.0, 0.7])
def test_label_projection_is_a_ridge_regression_on_the_last_features(samples, n_layers, gamma):
    X, y = samples
    weight = np.random.default_rng(0).random(len(y)) + 0.1
    model = JPlay(2, n_layers, **WEIGHTS | {"gamma": gamma}, graph=GRAPH)
    fit(model, X, y, sample_weight=weight)
    Z, Y = model.transform_layers(X)[-1], oracle.indicators(y)
    pull = 2.0 * (weight[:, None] * Y).T @ Z
    gradient = model.coef_ @ (2.0 * Z.T @ (weight[:, None] * Z) + gamma * np.eye(2)) - pull
    assert_allclose(gradient, 0, atol=1e-7 * np.abs(pull).max())


def profile(chain, shapes, Y, affinity, model, weight=None):
    """The objective as a function of the projections alone, the label projection eliminated."""
    weight = np.ones(len(Y)) if weight is None else weight

    def value(flat):
        parts = np.split(flat, np.cumsum([a * b for a, b in shapes])[:-1])
        moved = oracle.Chain(
            chain.X, [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
        )
        Z = moved.layers[-1]
        system = model.alpha * Z.T @ (weight[:, None] * Z) + model.gamma * np.eye(Z.shape[1])
        coef = np.linalg.solve(system, model.alpha * Z.T @ (weight[:, None] * Y)).T
        return moved.terms(Y, coef, affinity, model, weight).sum()

    return value


def flattened(chain):
    return np.concatenate([theta.ravel() for theta in chain.thetas]), [
        theta.shape for theta in chain.thetas
    ]


@pytest.mark.parametrize(("reconstruction", "gap"), [(True, 2e-3), (False, 5e-2)])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("sizes", [[2], [3, 2]], ids=str)
def test_a_general_optimizer_finds_nothing_better_nearby(
    constraints, sizes, weighted, reconstruction, gap
):
    """Sequential quadratic programming from the solution, under the constraints of every layer.

    Without reconstruction features and label projection share a scale, which settles slowly.
    """
    X, y = oracle.make_classes(24, 3)
    weight = np.random.default_rng(0).random(len(y)) + 0.1 if weighted else None
    model = JPlay(
        n_layers=sizes,
        **WEIGHTS,
        graph=HeatGraph(4),
        scaling=None,
        constraints=constraints,
        reconstruction=reconstruction,
        solver=FastSolver(max_iter=20_000, tol=1e-8),
    )
    fit(model, X, y, sample_weight=weight)
    chain = oracle.Chain.of(model, X)
    point, shapes = flattened(chain)
    value = profile(chain, shapes, oracle.indicators(y), model.affinity_, model, weight)

    def margins(flat):
        parts = np.split(flat, np.cumsum([a * b for a, b in shapes])[:-1])
        thetas = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
        found = [np.zeros(1)]
        for Z in oracle.Chain(chain.X, thetas).layers:
            if constraints in ("both", "nonnegative"):
                found.append(Z.ravel())
            if constraints in ("both", "unit_ball"):
                found.append(1 - np.sum(Z**2, axis=1))
        return np.concatenate(found)

    assert margins(point).min() > -1e-9
    best = scipy.optimize.minimize(
        value,
        point,
        method="SLSQP",
        constraints={"type": "ineq", "fun": margins},
        options={"maxiter": 60, "ftol": 1e-10},
    )
    if margins(best.x).min() > -1e-7:
        assert value(point) <= best.fun * (1 + gap)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_prediction_alone_is_the_linear_regression_of_the_labels(samples, n_layers):
    """No constraint, reconstruction, manifold or ridge: least squares through enough features."""
    X, y = samples
    model = JPlay(
        3,
        n_layers,
        alpha=1.0,
        beta=0.0,
        gamma=0.0,
        graph=GRAPH,
        scaling=None,
        constraints=None,
        reconstruction=False,
        solver=FastSolver(max_iter=5000, tol=1e-10),
    )
    fit(model, X, y)
    Y = oracle.indicators(y)
    found = model.transform_layers(X)[-1] @ model.coef_.T
    S = oracle.Chain.of(model, X).X
    expected = S @ np.linalg.lstsq(S, Y)[0]
    assert np.linalg.norm(found - expected) < 1e-2 * np.linalg.norm(expected)


def test_reconstruction_alone_is_the_leading_subspace(samples):
    """The best subspace is that of a truncated singular value decomposition."""
    X, y = samples
    model = JPlay(
        2,
        alpha=1e-9,
        beta=0.0,
        graph=GRAPH,
        scaling=None,
        constraints=None,
        solver=FastSolver(max_iter=5000, tol=1e-10),
    )
    theta, axes = fit(model, X, y).projections_[0], np.linalg.svd(X)[2][:2]
    assert_allclose(theta.T @ theta, axes.T @ axes, atol=1e-2)


def test_manifold_weight_and_prediction_weight_move_their_terms(samples):
    """Each term falls as its weight grows: the weights act where Eq. 6 says."""
    X, y = samples

    def raw_terms(**changes):
        model = JPlay(2, 2, **WEIGHTS | changes, graph=GRAPH, constraints="unit_ball")
        fit(model, X, y)
        chain = oracle.Chain.of(model, X)
        terms = chain.terms(oracle.indicators(y), model.coef_, model.affinity_, model)
        return terms / [1.0, model.alpha, model.beta, model.gamma]

    plain_terms = raw_terms()
    assert raw_terms(alpha=40.0)[1] < plain_terms[1]
    assert raw_terms(beta=30.0)[2] < 0.9 * plain_terms[2]
    assert raw_terms(gamma=50.0)[3] < 0.9 * plain_terms[3]


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_fast_solver_ends_at_most_as_high_as_the_published_one(samples, n_layers):
    X, y = samples
    settings = {"alpha": 2.0, "graph": GRAPH, "scaling": None}
    fast = JPlay(3, n_layers, **settings, solver=FastSolver(max_iter=2000, tol=1e-6))
    paper = JPlay(3, n_layers, **settings, solver=PaperSolver(max_iter=5))
    ends = [oracle.objective(fit(model, X, y), X, y) for model in (fast, paper)]
    assert ends[0] <= ends[1] * 1.001


def test_deeper_chains_of_the_published_solver_equal_the_algorithm_boxes(samples):
    X, y = samples
    schedule = PaperSolver(max_iter=3, inner_max_iter=50, tol=1e-300)
    model = JPlay(n_layers=[5, 4, 2], **WEIGHTS, graph=GRAPH, scaling=None, solver=schedule)
    fit(model, X, y)
    settings = plain.Settings(**WEIGHTS, max_iter=3, inner_max_iter=50, tol=1e-300)
    affinity = model.affinity_.toarray()
    thetas, coef, history = plain.solve_jplay(
        X, oracle.indicators(y), affinity, [5, 4, 2], settings
    )
    assert_allclose(model.objective_history_, history, rtol=1e-7)
    Z = X
    for theta, found in zip(thetas, model.transform_layers(X), strict=True):
        Z = Z @ theta.T
        assert np.linalg.norm(found - Z) < 1e-5 * np.linalg.norm(Z)
    assert np.linalg.norm(model.coef_ - coef) < 1e-5 * np.linalg.norm(coef)


@pytest.mark.parametrize("constraints", ["both", "unit_ball"])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_fewer_constraints_never_end_higher(samples, constraints, n_layers):
    X, y = samples
    solver = FastSolver(max_iter=5000, tol=1e-6)
    bound, free = (
        oracle.objective(
            fit(JPlay(3, n_layers, **WEIGHTS, graph=GRAPH, constraints=c, solver=solver), X, y),
            X,
            y,
        )
        for c in (constraints, None)
    )
    assert free <= bound * (1 + 1e-4)


def test_callbacks_see_the_objective_fall_to_the_end(samples):
    X, y = samples
    model = fit(JPlay(2, 2, **WEIGHTS, graph=GRAPH, solver=FastSolver(tol=1e-6)), X, y)
    history = model.objective_history_
    assert len(history) == model.n_iter_ == len(model.result_.objective_terms)
    assert abs(history[-1] - history[-2]) < 1e-2 * history[-1]


@pytest.mark.parametrize("weight", [0.2, 2.0])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_objective_counts_absolute_values_of_the_label_projection(samples, weight, n_layers):
    X, y = samples
    penalty = LabelPenalty(ridge=0.3, absolute=weight)
    model = fit(JPlay(4, n_layers, gamma=penalty, graph=GRAPH), X, y)
    assert model.objective_history_[-1] == pytest.approx(oracle.objective(model, X, y), rel=1e-7)
    Z, Y = model.transform_layers(X)[-1], oracle.indicators(y)
    gradient = model.alpha * (model.coef_ @ Z.T - Y.T) @ Z + 0.3 * model.coef_
    kept = model.coef_ != 0
    atol = 1e-3 * weight
    assert_allclose(gradient[kept], -weight * np.sign(model.coef_[kept]), atol=atol)
    assert np.abs(gradient[~kept]).max(initial=0) <= weight + atol
