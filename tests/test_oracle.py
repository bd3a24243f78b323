"""Agreement with complete runs of an independent implementation.

Stored arrays are compared under the kernels of several processors (``make test-kernels``).
Tolerances grow with the number of steps that round: 1e-12 for the graph, 1e-8 for the start and the
refinement of one layer, 1e-7 after an iteration over all layers, and at the end of a run 1e-6 of
the objective and 1e-4 of the features.
"""

from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from graphs import heat_affinity
from jplay import HeatGraph, JPlay, PaperSolver
from jplay.core.objective import Objective
from jplay.core.paper import fit_autorule
from jplay.core.problem import prepare
from plain_transcription import Settings
from plain_transcription import solve_jplay as plain_solve_jplay

CASES = [1, 2]


@cache
def load_case(number):
    with np.load(Path(__file__).parent / "data" / f"oracle_case{number}.npz") as stored:
        arrays = dict(stored)
    layers = range(1, len(arrays["dims"]) + 1)
    chains = {
        name: [arrays.pop(f"{name}_{layer}") for layer in layers]
        for name in ("lpp", "autorule", "theta_first", "theta")
    }
    scalars = {name: value.item() for name, value in arrays.items() if value.ndim == 0}
    return SimpleNamespace(**{**arrays, **scalars, **chains})


def targets(case):
    """Class labels where the indicator matrix is one-hot, else the matrix itself."""
    one_hot = np.all(case.Y.sum(axis=1) == 1)
    return np.argmax(case.Y, axis=1) if one_hot else case.Y.astype(int)


@cache
def fitted(number, **schedule):
    case = load_case(number)
    model = JPlay(
        n_layers=case.dims.tolist(),
        alpha=case.alpha,
        beta=case.beta,
        gamma=case.gamma,
        graph=HeatGraph(n_neighbors=case.n_neighbors, bandwidth=case.t),
        solver=PaperSolver(eta=case.eta, **schedule),
        scaling=None,
        whiten=False,
    )
    return model.fit(case.X, targets(case))


def chain_product(thetas):
    product = thetas[0]
    for theta in thetas[1:]:
        product = theta @ product
    return product


@pytest.mark.parametrize("number", CASES)
def test_oracle_affinity(number):
    case = load_case(number)
    affinity, _ = heat_affinity(case.X, case.n_neighbors, case.t)
    np.testing.assert_allclose(affinity.toarray(), case.affinity, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        fitted(number).affinity_.toarray(), case.affinity, rtol=0, atol=1e-12
    )


def problem_of(X, affinity):
    """The problem of one layer without labels."""
    with prepare(X, None, graph=affinity) as problem:
        return problem


@pytest.mark.parametrize("number", CASES)
def test_oracle_lpp_starts_of_all_layers(number):
    case = load_case(number)
    X = case.X
    for expected, autorule_theta in zip(case.lpp, case.autorule, strict=True):
        start = problem_of(X, case.affinity).start[: len(expected)]
        np.testing.assert_allclose(start, expected, rtol=0, atol=1e-8)
        X = X @ autorule_theta.T


@pytest.mark.parametrize("number", CASES)
def test_oracle_autorule_of_all_layers(number):
    case = load_case(number)
    X = case.X
    for start, expected in zip(case.lpp, case.autorule, strict=True):
        problem = problem_of(X, case.affinity)
        problem.__dict__["start"] = problem.__dict__["start_with_intercepts"] = start
        options = PaperSolver(eta=case.eta)
        result = fit_autorule(problem, len(start), Objective(), options)
        np.testing.assert_allclose(result.theta, expected, rtol=0, atol=1e-8)
        X = X @ expected.T


@pytest.mark.parametrize("number", CASES)
def test_oracle_pretraining_through_the_estimator(number):
    case = load_case(number)
    for layer, expected in zip(fitted(number).result_.pretraining, case.autorule, strict=True):
        np.testing.assert_allclose(layer.theta, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("number", CASES)
def test_oracle_first_outer_iteration(number):
    case = load_case(number)
    model = fitted(number, max_iter=1)
    np.testing.assert_allclose(model.coef_, case.P_first, rtol=0, atol=1e-7)
    for theta, expected in zip(model.projections_, case.theta_first, strict=True):
        np.testing.assert_allclose(theta, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("number", CASES)
def test_oracle_objective_history(number):
    case = load_case(number)
    model = fitted(number)
    assert model.n_iter_ == len(case.objective)
    np.testing.assert_allclose(model.objective_history_, case.objective, rtol=1e-6)


@pytest.mark.parametrize("number", CASES)
def test_oracle_final_features_and_label_projection(number):
    case = load_case(number)
    model = fitted(number)
    expected = case.X @ chain_product(case.theta).T
    error = np.linalg.norm(model.transform(case.X) - expected) / np.linalg.norm(expected)
    assert error < 1e-4
    assert np.linalg.norm(model.coef_ - case.P) < 1e-4 * np.linalg.norm(case.P)


@pytest.mark.parametrize("number", CASES)
def test_oracle_confirms_the_plain_transcription(number):
    case = load_case(number)
    settings = Settings(alpha=case.alpha, beta=case.beta, gamma=case.gamma, eta=case.eta)
    thetas, coef, history = plain_solve_jplay(case.X, case.Y, case.affinity, case.dims, settings)
    np.testing.assert_allclose(history, case.objective, rtol=1e-6)
    expected = case.X @ chain_product(case.theta).T
    features = case.X @ chain_product(thetas).T
    assert np.linalg.norm(features - expected) < 1e-4 * np.linalg.norm(expected)
    assert np.linalg.norm(coef - case.P) < 1e-4 * np.linalg.norm(case.P)
