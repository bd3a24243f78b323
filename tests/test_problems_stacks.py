"""Problems that are solved together get what they get alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from graphs import heat_affinity
from jplay._array_api import to_numpy
from jplay.numerics.eigen import (
    leading_generalized_eigenvectors,
    stacked_generalized_eigenvectors,
)
from jplay.numerics.graph import laplacian_gram
from jplay.numerics.stacked_graphs import stacked_graphs, stacked_laplacian_grams
from jplay.problems import described, solve, stacks
from jplay.problems.stacks import Inputs, solve_together
from jplay.problems.tasks import ChainTask, MapTask
from jplay.solvers.model import ModelSettings
from jplay.solvers.schedules import FastSolver

LIBRARIES = ["numpy", "torch", "array_api_strict"]
MODEL = ModelSettings(alpha=1.0, beta=0.1, gamma=0.05)


def array_of(library):
    if library == "numpy":
        return np.asarray
    return pytest.importorskip(library).asarray


def make_samples(n_samples, n_features, seed, center=2.0, deviation=0.5):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % 3
    noise = rng.normal(size=(n_samples, n_features))
    X = center + rng.normal(size=(3, n_features))[y] + deviation * noise
    return X / np.abs(X).max(), y


def alone(inputs, task):
    with described(inputs.X, inputs.y, tuned=False, **inputs.of_targets) as problem:
        return solve(problem, task).attributes


def assert_same_maps(found, expected, atol=1e-5):
    for name in ("components_", "intercept_", "coef_"):
        assert_allclose(to_numpy(found[name]), expected[name], atol=atol, err_msg=name)


@pytest.mark.parametrize("library", LIBRARIES)
def test_graphs_of_a_stack_are_those_of_its_sets(library):
    asarray = array_of(library)
    sets = [make_samples(n, 6, seed)[0] for seed, n in enumerate((40, 37, 41))]
    X = np.stack([np.pad(own, ((0, 41 - len(own)), (0, 0))) for own in sets])
    graph, bandwidths = stacked_graphs(asarray(X), np.array([40, 37, 41]), 5)
    affinity = graph.to_sparse()
    found = stacked_laplacian_grams(asarray(X), graph)
    for i, own in enumerate(sets):
        expected, width = heat_affinity(own, 5)
        rows = slice(41 * i, 41 * i + len(own))
        assert_allclose(affinity[rows, rows].toarray(), expected.toarray(), atol=1e-12)
        assert bandwidths[i] == pytest.approx(width)
        for part, exact in zip(found, laplacian_gram(own, expected), strict=True):
            assert_allclose(to_numpy(part[i, ...]), exact, atol=1e-9)
    assert affinity.nnz == sum(heat_affinity(own, 5)[0].nnz for own in sets)


@pytest.mark.parametrize("library", LIBRARIES)
def test_eigenvectors_of_a_stack_stop_at_the_rank_of_each_problem(library):
    asarray = array_of(library)
    rng = np.random.default_rng(0)
    a = rng.normal(size=(2, 7, 7))
    a = a + a.transpose(0, 2, 1) - 3 * np.eye(7)
    roots = [rng.normal(size=(9, 7)), rng.normal(size=(4, 7))]
    b = np.stack([root.T @ root for root in roots])
    vectors, ranks = stacked_generalized_eigenvectors(
        asarray(a), asarray(b), 6, asarray(np.full(2, 1e-10))
    )
    assert to_numpy(ranks).tolist() == [7, 4]
    for i, count in enumerate((6, 4)):
        _, expected = leading_generalized_eigenvectors(a[i], b[i], count, rtol=1e-10)
        found = to_numpy(vectors[i, :, :])
        signs = np.sign((found[:, :count] * expected).sum(axis=0))
        assert_allclose(found[:, :count] * signs, expected, atol=1e-8)
        assert_allclose(found[:, count:], 0, atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("center", [3.0, 0.0], ids=["one side of the origin", "both sides"])
def test_problems_of_several_sizes_are_solved_as_they_are_alone(library, center):
    asarray = array_of(library)
    task = ChainTask(4, 1, MODEL, FastSolver())
    made = [make_samples(n, 9, seed, center) for seed, n in enumerate((40, 45, 42))]
    found = solve_together([Inputs(asarray(X), y) for X, y in made], [task] * 3)
    for (X, y), solved in zip(made, found, strict=True):
        problem, solution = solved
        expected = alone(Inputs(X, y), task)
        assert_same_maps(solution.attributes, expected)
        assert solution.attributes["result_"].n_iter == expected["result_"].n_iter
        whitener = to_numpy(solution.attributes["whitener_"])
        assert_allclose(whitener, expected["whitener_"], rtol=1e-3)
        assert problem.bandwidth == pytest.approx(heat_affinity(X)[1])


@pytest.mark.parametrize(
    "targets",
    [
        {"sample_weight": np.linspace(0.5, 2, 40)},
        {"unlabeled": -1},
        {"class_weight": "balanced"},
        {"multilabel": True},
        {"multilabel": True, "class_weight": "balanced", "sample_weight": np.linspace(0.5, 2, 40)},
    ],
    ids=str,
)
def test_targets_of_every_sort_are_taken(targets):
    task = MapTask(4, 1, MODEL, FastSolver())
    inputs = []
    for seed in range(3):
        options = dict(targets)
        X, y = make_samples(40, 9, seed)
        y = np.where(np.arange(40) % 7 == seed, 0, y)
        if options.pop("multilabel", False):
            y = np.stack([y == 0, y > 0, np.arange(40) % 4 == seed], axis=1).astype(int)
        if "unlabeled" in options:
            y = np.where(np.arange(40) > 30, -1, y)
        inputs.append(Inputs(X, y, **options))
    for own, solved in zip(inputs, solve_together(inputs, [task] * 3), strict=True):
        assert_same_maps(solved[1].attributes, alone(own, task))


def test_more_features_than_samples_are_reduced_to_the_row_space():
    task = MapTask(4, 1, MODEL, FastSolver())
    # Classes that overlap have a connected graph, and a start without ties.
    made = [make_samples(n, 60, seed, deviation=2.0) for seed, n in enumerate((30, 33))]
    found = solve_together([Inputs(X, y) for X, y in made], [task] * 2)
    for (X, y), (problem, solution) in zip(made, found, strict=True):
        assert problem.first_layer.basis.shape == (60, 33)
        assert_same_maps(solution.attributes, alone(Inputs(X, y), task))


def test_problems_that_need_a_look_of_their_own_are_left_to_the_caller():
    X, y = make_samples(40, 9, 0)
    flat = X.copy()
    flat[:, 3:] = flat[:, :1]
    inputs = [
        Inputs(X, y),
        Inputs(X[:8], y[:8]),  # no ten neighbours
        Inputs(1e9 * X, y),  # beyond what a solver can handle
        Inputs(flat, y),  # of rank 3
    ]
    found = solve_together(inputs, [MapTask(4, 1, MODEL, FastSolver())] * 4)
    assert [solved is None for solved in found] == [False, True, True, True]


def test_problem_that_diverges_is_left_to_the_caller(monkeypatch):
    made = [make_samples(40, 9, seed) for seed in range(2)]
    task = MapTask(4, 1, MODEL, FastSolver())
    solved = stacks.solve_joint_stack
    monkeypatch.setattr(stacks, "solve_joint_stack", lambda *args: [solved(*args)[0], None])
    found = solve_together([Inputs(X, y) for X, y in made], [task] * 2)
    assert [part is None for part in found] == [False, True]


def test_stacks_are_as_small_as_memory_asks(monkeypatch):
    made = [make_samples(40, 9, seed) for seed in range(5)]
    task = MapTask(4, 1, MODEL, FastSolver())
    inputs = [Inputs(X, y) for X, y in made]
    whole = solve_together(inputs, [task] * 5)
    sizes, solved = [], stacks.solve_joint_stack

    def counted(samples, *rest):
        sizes.append(len(samples))
        return solved(samples, *rest)

    monkeypatch.setattr(stacks, "solve_joint_stack", counted)
    monkeypatch.setattr(stacks, "_STACK_ELEMENTS", 2 * 40 * 40)
    parts = solve_together(inputs, [task] * 5)
    assert sizes == [2, 2, 1]
    for a, b in zip(whole, parts, strict=True):
        assert_same_maps(a[1].attributes, b[1].attributes, atol=1e-9)
