import os

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn import config_context
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils.estimator_checks import parametrize_with_checks

from closeness import assert_close
from jplay import LFDA
from jplay.baselines import lfda as lfda_module
from jplay.baselines.lfda import local_scatters


def pairwise_scatters(X, y, n_neighbors):
    """The definition of the two scatters, pair by pair."""
    n_samples, n_features = X.shape
    within = np.zeros((n_features, n_features))
    between = np.zeros((n_features, n_features))
    widths = np.empty(n_samples)
    for i in range(n_samples):
        distances = np.sort(np.linalg.norm(X[y == y[i]] - X[i], axis=1))
        widths[i] = distances[min(n_neighbors, len(distances) - 1)]
    for i in range(n_samples):
        for j in range(n_samples):
            outer = np.outer(X[i] - X[j], X[i] - X[j]) / 2
            if y[i] != y[j]:
                between += outer / n_samples
            elif i != j:
                n_class = np.sum(y == y[i])
                affinity = np.exp(-np.sum((X[i] - X[j]) ** 2) / (widths[i] * widths[j]))
                within += affinity / n_class * outer
                between += affinity * (1 / n_samples - 1 / n_class) * outer
    return within, between


def class_indices(y):
    return [np.flatnonzero(y == label) for label in np.unique(y)]


@parametrize_with_checks([LFDA(), LFDA(embedding="orthonormalized"), LFDA(reg=0.1)])
def test_lfda_follows_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("block_elements", [4_000_000, 50])
def test_scatters_equal_pairwise_definition(monkeypatch, block_elements):
    monkeypatch.setattr(lfda_module, "BLOCK_ELEMENTS", block_elements)
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2, 3], [20, 9, 4, 1])
    X = rng.normal(size=(len(y), 5)) + 3
    found = local_scatters(X, class_indices(y), n_neighbors=7)
    for actual, expected in zip(found, pairwise_scatters(X, y, 7), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-10)


def test_between_scatter_separates_multimodal_class_where_lda_fails():
    """One class lies on both sides of the other: class means coincide."""
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], [100, 100])
    X = np.column_stack([rng.normal(size=200) * 0.3, 2 * rng.normal(size=200)])
    X[y == 1, 0] += np.where(np.arange(100) % 2, 3.0, -3.0)
    lfda = LFDA(n_components=1).fit(X, y)
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(X, y)
    target = np.array([[1.0], [0.0]])
    assert np.degrees(subspace_angles(lfda.components_.T, target)[0]) < 2
    assert np.degrees(subspace_angles(lda.scalings_[:, :1], target)[0]) > 30


def test_embeddings_span_one_subspace_and_keep_their_promise():
    X, y = load_wine(return_X_y=True)
    plain, weighted, orthonormal = (
        LFDA(n_components=4, embedding=name).fit(X, y)
        for name in ("plain", "weighted", "orthonormalized")
    )
    within, between = local_scatters(X, class_indices(y))
    vectors = plain.components_
    np.testing.assert_allclose(vectors @ within @ vectors.T, np.eye(4), atol=1e-8)
    np.testing.assert_allclose(
        vectors @ between @ vectors.T, np.diag(plain.eigenvalues_), atol=1e-7
    )
    np.testing.assert_allclose(
        weighted.components_, vectors * np.sqrt(plain.eigenvalues_)[:, None], atol=1e-10
    )
    np.testing.assert_allclose(
        orthonormal.components_ @ orthonormal.components_.T, np.eye(4), atol=1e-12
    )
    assert np.all(subspace_angles(orthonormal.components_.T, vectors.T) < 1e-6)


def test_transform_is_invariant_to_rotation_and_sample_order():
    X, y = load_wine(return_X_y=True)
    rng = np.random.default_rng(2)
    rotation, _ = np.linalg.qr(rng.normal(size=(X.shape[1], X.shape[1])))
    order = rng.permutation(len(y))
    straight = LFDA(n_components=3).fit(X, y).transform(X)
    turned = LFDA(n_components=3).fit(X[order] @ rotation, y[order]).transform(X @ rotation)
    np.testing.assert_allclose(np.abs(turned), np.abs(straight), rtol=1e-5, atol=1e-6)


def degenerate(name):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(40, 6)), np.repeat(np.arange(4), 10)
    if name == "constant feature":
        X[:, 2] = 5.0
    elif name == "copied feature":
        X[:, 4] = X[:, 1]
    elif name == "duplicated samples":
        X[1:10] = X[0]
        X[12] = X[11]
    elif name == "class of one sample":
        y[:9] = 1
    elif name == "fewer samples than features":
        X = rng.normal(size=(40, 90))
    elif name == "huge offset":
        X += 1e6
    return X, y


@pytest.mark.parametrize(
    "name",
    [
        "constant feature",
        "copied feature",
        "duplicated samples",
        "class of one sample",
        "fewer samples than features",
        "huge offset",
    ],
)
@pytest.mark.parametrize("reg", [0.0, 0.1])
def test_degenerate_data_works(name, reg):
    X, y = degenerate(name)
    lfda = LFDA(n_components=3, reg=reg).fit(X, y)
    Z = lfda.transform(X)
    assert Z.shape == (40, 3)
    assert np.isfinite(Z).all()
    assert np.all(np.linalg.norm(Z - Z.mean(axis=0), axis=0) > 0)


def test_default_keeps_the_rank():
    X, y = degenerate("fewer samples than features")
    assert LFDA().fit(X, y).components_.shape == (36, 90)
    X, y = degenerate("constant feature")
    assert LFDA().fit(X, y).components_.shape == (5, 6)


@pytest.mark.parametrize(
    ("X", "y", "n_components", "message"),
    [
        (np.eye(4), [0, 0, 0, 0], None, "at least 2 classes"),
        (np.eye(4), [0, 1, 2, 3], None, "no class has two different samples"),
        (np.eye(4), [0, 0, 1, 1], 5, "at most 4 .the number of features"),
        (np.eye(4), [0, 0, 1, 1], 3, "at most 2 .the rank of the local within-class"),
    ],
)
def test_impossible_input_says_what_to_do(X, y, n_components, message):
    with pytest.raises(ValueError, match=message):
        LFDA(n_components).fit(X, y)


def test_float32_stays_float32_and_agrees():
    X, y = load_wine(return_X_y=True)
    single = LFDA(n_components=2).fit(X.astype(np.float32), y)
    double = LFDA(n_components=2).fit(X, y)
    assert single.components_.dtype == single.mean_.dtype == np.float32
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.transform(X), double.transform(X), rtol=1e-2, atol=1e-2)


def test_array_api_scatters_agree_with_numpy():
    xp = pytest.importorskip("array_api_strict")
    X, y = load_wine(return_X_y=True)
    strict = local_scatters(xp.asarray(X), [xp.asarray(i) for i in class_indices(y)])
    for actual, expected in zip(strict, local_scatters(X, class_indices(y)), strict=True):
        assert_close(np.asarray(actual), expected, 1e-10)


@pytest.mark.skipif(
    "SCIPY_ARRAY_API" not in os.environ, reason="scikit-learn dispatches with SCIPY_ARRAY_API=1"
)
@pytest.mark.parametrize("embedding", ["weighted", "orthonormalized", "plain"])
@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_estimator_keeps_the_array_library(library, embedding):
    xp = pytest.importorskip(library)
    X, y = load_wine(return_X_y=True)
    expected = LFDA(2, embedding=embedding).fit(X, y).transform(X)
    with config_context(array_api_dispatch=True):
        lfda = LFDA(2, embedding=embedding).fit(xp.asarray(X), xp.asarray(y))
        found = lfda.transform(xp.asarray(X))
    assert type(found) is type(lfda.components_) is type(xp.asarray(X))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6, atol=1e-8)
