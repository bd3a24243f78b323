import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

import plain_transcription as plain
from graphs import heat_affinity
from jplay import LPP, HeatGraph


def make_samples(n_samples=60, n_features=8, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n_samples, n_features)) @ rng.normal(size=(n_features, n_features)) + 2.0


def test_components_solve_the_generalised_eigenproblem():
    X = make_samples()
    lpp = LPP(n_components=3, graph=HeatGraph(n_neighbors=5)).fit(X)
    W = lpp.affinity_.toarray()
    centred = X - X.mean(axis=0)
    left, right = centred.T @ W @ centred, centred.T @ (W.sum(axis=1)[:, None] * centred)
    reference = np.sort(np.linalg.eigvals(np.linalg.solve(right, left)).real)[::-1]
    for a, value in zip(lpp.components_, reference, strict=False):
        np.testing.assert_allclose(left @ a, value * (right @ a), atol=1e-8 * np.abs(left).max())
    np.testing.assert_allclose(np.linalg.norm(lpp.components_, axis=1), 1)


@pytest.mark.parametrize("shape", [(60, 8), (12, 30)], ids=["n > d", "n < d"])
def test_components_equal_the_plain_transcription(shape):
    X = make_samples(*shape)
    lpp = LPP(n_components=5, graph=HeatGraph(n_neighbors=4, bandwidth=3.0)).fit(X)
    expected = plain.lpp(X, plain.heat_affinity(X, 4, 3.0), 5)
    np.testing.assert_allclose(lpp.components_, expected, atol=1e-7)
    assert lpp.bandwidth_ == 3.0


def test_transform_centres_and_projects():
    X = make_samples()
    lpp = LPP(n_components=3).fit(X)
    Z = lpp.transform(X)
    np.testing.assert_allclose(Z, (X - X.mean(axis=0)) @ lpp.components_.T, atol=1e-12)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_array_equal(LPP(n_components=3).fit_transform(X), Z)


def test_neighbours_stay_nearer_than_with_random_directions():
    X = make_samples()
    lpp = LPP(n_components=1, graph=HeatGraph(n_neighbors=5)).fit(X)
    W = lpp.affinity_.toarray()

    def roughness(direction):
        z = (X - X.mean(axis=0)) @ direction
        return z @ plain.graph_laplacian(W) @ z / (z @ (W.sum(axis=1) * z))

    others = np.random.default_rng(0).normal(size=(500, 8))
    assert roughness(lpp.components_[0]) <= min(map(roughness, others)) + 1e-12


@pytest.mark.parametrize("centre", [False, True])
def test_signs_survive_rotation_and_reordering(centre):
    """Centred samples leave the sums that fix the signs to rounding; the degrees then decide."""
    rng = np.random.default_rng(1)
    X = make_samples()
    X = X - X.mean(axis=0) if centre else X
    rotation = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    order = rng.permutation(len(X))
    expected = LPP(n_components=5, graph=HeatGraph(n_neighbors=5)).fit_transform(X)
    rotated = LPP(n_components=5, graph=HeatGraph(n_neighbors=5)).fit_transform(X @ rotation)
    reordered = LPP(n_components=5, graph=HeatGraph(n_neighbors=5)).fit_transform(X[order])
    np.testing.assert_allclose(rotated, expected, atol=1e-7)
    np.testing.assert_allclose(reordered, expected[order], atol=1e-7)
    if not centre:
        assert (X @ LPP(graph=HeatGraph(n_neighbors=5)).fit(X).components_.T).sum(axis=0).min() >= 0


def test_default_components_are_the_rank_or_twenty():
    rng = np.random.default_rng(0)
    assert LPP().fit(rng.random((50, 4)) @ rng.random((4, 9))).components_.shape == (4, 9)
    assert LPP().fit(rng.random((50, 30))).components_.shape == (20, 30)
    assert LPP(graph=HeatGraph(n_neighbors=3)).fit(rng.random((8, 30))).components_.shape == (7, 30)


def test_affinity_may_be_a_matrix_or_a_function():
    X = make_samples()
    expected = LPP(n_components=3, graph=HeatGraph(n_neighbors=5, bandwidth=2.0)).fit(X)
    graph, _ = heat_affinity(X, 5, 2.0)
    for affinity in (graph, graph.toarray(), lambda samples: heat_affinity(samples, 5, 2.0)[0]):
        lpp = LPP(n_components=3, graph=affinity).fit(X)
        np.testing.assert_allclose(lpp.components_, expected.components_, atol=1e-9)
        assert lpp.bandwidth_ is None


def test_float32_stays_float32():
    X = make_samples().astype(np.float32)
    lpp = LPP(n_components=3).fit(X)
    assert lpp.components_.dtype == lpp.mean_.dtype == lpp.transform(X).dtype == np.float32
    double = LPP(n_components=3).fit(X.astype(np.float64))
    np.testing.assert_allclose(lpp.components_, double.components_, atol=1e-3)


def test_feature_names_pandas_clone_and_pickle():
    X, _ = load_iris(return_X_y=True, as_frame=True)
    lpp = LPP(n_components=2).set_output(transform="pandas").fit(X)
    assert list(lpp.transform(X).columns) == ["lpp0", "lpp1"]
    assert isinstance(lpp.transform(X), pd.DataFrame)
    copy = pickle.loads(pickle.dumps(lpp))
    np.testing.assert_array_equal(copy.transform(X), lpp.transform(X))
    assert clone(lpp).get_params() == lpp.get_params()


def test_transform_before_fit_raises():
    with pytest.raises(NotFittedError, match="LPP instance is not fitted"):
        LPP().transform(make_samples())
