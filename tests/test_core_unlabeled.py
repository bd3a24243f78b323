"""Samples without label: how far labels travel, and what weights mean."""

import numpy as np
import pytest

import core_oracle as oracle
from jplay import HeatGraph, JPlay, SoftLabelPropagation

GRAPH = HeatGraph(5)


def strips(n_samples=300, seed=0):
    """Two long strips side by side, each labeled at its end only: a wrong line is nearer."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n_samples // 2)
    along = np.tile(np.linspace(0, 40, n_samples // 2), 2)
    X = np.column_stack([along, 3.0 * y]) + 0.1 * rng.normal(size=(n_samples, 2))
    known = np.full(n_samples, -1)
    ends = np.where(y == 0, along < 1.5, along > 38.5)
    known[ends] = y[ends]
    return X, y, known


def test_labels_travel_along_the_whole_graph():
    """From both ends of the strips, over hundreds of edges."""
    X, y, known = strips()
    settings = {"n_components": 2, "graph": GRAPH, "scaling": "norm", "beta": 0.0}
    soft = JPlay(**settings, unlabeled=SoftLabelPropagation()).fit(X, known)
    assert soft.score(X, y) > 0.98


def dense_propagation(W, Y, labelled):
    """Soft labels by a dense solve: classes send out equal mass, rows to the third power."""
    degrees = W.sum(axis=1)
    S = W / np.sqrt(np.outer(degrees, degrees))
    F = np.linalg.solve(np.eye(len(W)) - 0.99 * S, Y / np.maximum(Y.sum(axis=0), 1))
    F = np.maximum(F, 0)
    F = (F / F.sum(axis=1, keepdims=True)) ** 3
    F /= F.sum(axis=1, keepdims=True)
    return np.where(labelled[:, None], Y, F)


def test_soft_labels_solve_their_linear_system():
    """One feature and one component: distances in the subspace are those of the samples."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = (np.linspace(0, 4, 80) + 3 * y + 0.02 * rng.normal(size=80))[:, None]
    known = np.where(np.arange(80) % 40 < 4, y, -1)
    labelled = known >= 0
    settings = {"graph": HeatGraph(4), "constraints": None}
    model = JPlay(1, **settings, unlabeled=SoftLabelPropagation(weight=0.7, rounds=1)).fit(X, known)
    W = model.affinity_.toarray()
    squares = (X - X.T) ** 2
    W = W * np.exp(-squares / (2 * np.median(squares[W > 0])))
    Y = oracle.indicators(known)
    soft = dense_propagation(W, Y, labelled)
    entropy = -np.sum(np.where(soft > 0, soft * np.log(np.where(soft > 0, soft, 1)), 0), axis=1)
    weight = np.where(labelled, 1.0, 0.7 * (1 - entropy / np.log(2)))
    weight *= len(X) / weight.sum()
    Z = model.transform_layers(X)[-1]
    loss = 0.5 * model.alpha * np.sum(weight[:, None] * (soft - Z @ model.coef_.T) ** 2)
    found = model.result_.objective_terms[-1].prediction
    assert found == pytest.approx(loss, rel=1e-3)


@pytest.mark.parametrize("multilabel", [False, True])
def test_labeled_samples_stand_for_all(multilabel):
    """The prediction loss is scaled by all samples over labeled ones: alpha keeps its meaning."""
    X, y = oracle.make_classes(60)
    known = np.where(np.arange(60) % 3 == 1, -1, y)
    known[1] = 1
    labelled = known >= 0
    targets = known
    if multilabel:
        targets = np.stack([y == 0, y > 0], axis=1).astype(int)
        targets[~labelled] = -1
    model = JPlay(2, 2, graph=GRAPH).fit(X, targets)
    weight = labelled * 60 / labelled.sum()
    assert model.objective_history_[-1] == pytest.approx(
        oracle.objective(model, X, targets, weight), rel=1e-7
    )


def test_weights_and_missing_labels_multiply():
    X, y = oracle.make_classes(60)
    known = np.where(np.arange(60) % 5 == 1, -1, y)
    weight = np.random.default_rng(0).random(60) + 0.2
    factors = {0: 2.0, 1: 1.0, 2: 0.5}
    model = JPlay(2, graph=GRAPH, class_weight=factors).fit(X, known, sample_weight=weight)
    counts = np.array([factors.get(int(k), 0.0) for k in known]) * weight * 60 / (known >= 0).sum()
    expected = oracle.objective(model, X, known, counts)
    assert model.objective_history_[-1] == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(
    ("y", "unlabeled", "classes", "n_labeled"),
    [
        ([0, 1, -1, 2] * 6, "auto", [0, 1, 2], 18),
        ([-1, 1] * 12, "auto", [-1, 1], 24),
        ([-1.0, 1.0] * 12, "auto", [-1, 1], 24),
        ([-1, 1, -1, 2] * 6, -1, [1, 2], 12),
        ([-1, 3, -1, 4] * 6, "auto", [3, 4], 12),
        ([-1, 0, 1, 2] * 6, None, [-1, 0, 1, 2], 24),
    ],
)
def test_what_counts_as_unlabeled(y, unlabeled, classes, n_labeled):
    X = np.random.default_rng(0).random((24, 4))
    y = np.array(y)
    model = JPlay(2, graph=GRAPH, unlabeled=unlabeled).fit(X, y)
    assert model.classes_.tolist() == classes
    known = np.isin(y, classes)
    assert known.sum() == n_labeled
    Y = (y[:, None] == np.array(classes)).astype(float)
    misfit = np.sum((Y - model.transform_layers(X)[-1] @ model.coef_.T) ** 2, axis=1)
    expected = 0.5 * model.alpha * np.sum(known * misfit) * 24 / n_labeled
    assert model.result_.objective_terms[-1].prediction == pytest.approx(expected, rel=1e-7)


def test_weights_of_labels_scale_their_part_of_the_loss():
    X, y = oracle.make_classes(60)
    Y = np.stack([y == 0, np.arange(60) % 10 == 0], axis=1).astype(int)
    model = JPlay(2, graph=GRAPH, class_weight={1: 5.0}).fit(X, Y)
    misfit = np.sum((Y - model.transform_layers(X)[-1] @ model.coef_.T) ** 2, axis=0)
    expected = 0.5 * model.alpha * misfit @ [1.0, 5.0]
    assert model.result_.objective_terms[-1].prediction == pytest.approx(expected, rel=1e-7)
