import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine

from jplay import JPlay
from jplay.problems.additive import ABSENT, N_RAMPS, additive_chain
from jplay.problems.stacks import Inputs


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return X / np.abs(X).max(axis=0), y


def fitted(X, y, columns=None, n_coordinates=400):
    return additive_chain(
        Inputs(X, y), np.eye(y.max() + 1)[y], columns, n_coordinates, multilabel=False
    )


def test_features_of_the_samples_are_those_of_the_chain(wine):
    X, y = wine
    chain, features = fitted(X, y)
    found, outputs = chain(X)
    assert_allclose(found, features, atol=1e-8)
    assert np.mean(outputs.argmax(axis=1) == y) > 0.97
    assert chain.components.shape[1:] == chain.coef.shape[1:] == (N_RAMPS, X.shape[1])
    assert chain.cost == chain.components.size + chain.coef.size


def test_a_feature_may_count_at_both_ends():
    """What is neither low nor high is of the other class: no line can tell, a curve can."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (np.abs(X[:, 1]) > 0.67).astype(int)
    chain, _ = fitted(X[:150], y[:150])
    curved = np.mean(chain(X[150:])[1].argmax(axis=1) == y[150:])
    linear = JPlay().fit(X[:150], y[:150]).score(X[150:], y[150:])
    assert curved > 0.85 > 0.65 > linear
    assert chain.reliance(3).argmax() == 1
    assert chain.reliance(3).sum() == pytest.approx(1)


def test_any_monotone_scale_of_a_feature_gives_nearly_the_same(wine):
    X, y = wine
    straight, bent = fitted(X, y)[0](X)[1], fitted(np.exp(2 * X), y)[0](np.exp(2 * X))[1]
    assert np.mean(straight.argmax(axis=1) == bent.argmax(axis=1)) > 0.98


def test_principal_axes_bound_the_cost_and_keep_what_matters(wine):
    X, y = wine
    for samples in (X, np.repeat(X, 12, axis=1)):  # fewer and more ramps than samples
        whole, few = fitted(samples, y)[0], fitted(samples, y, n_coordinates=40)[0]
        same = whole(samples)[1].argmax(axis=1) == few(samples)[1].argmax(axis=1)
        assert np.mean(same) > 0.97


def test_some_columns_in_single_precision_seen_from_the_mean(wine):
    X, y = wine
    chain, _ = fitted(X, y, columns=np.array([0, 6, 9, 12]))
    center = X.mean(axis=0)
    shifted = chain.seen_from(center)
    for expected, found in zip(chain(X), shifted(X - center), strict=True):
        assert_allclose(found - found[0], expected - expected[0], atol=1e-4)
    assert {shifted.starts.dtype, shifted.coef.dtype} == {np.dtype("float32")}
    assert_array_equal(np.flatnonzero(chain.reliance(13)), [0, 6, 9, 12])


def test_an_absent_class_is_never_the_likeliest(wine):
    X, y = wine
    kept = y != 1
    chain, _ = fitted(X[kept], (y[kept] > 0).astype(int))
    outputs = chain.with_outputs(np.array([0, 2]), 3)(X)[1]
    assert (outputs[:, 1] == ABSENT).all()
    assert (outputs.max(axis=1) > ABSENT / 4).all()
    # Also between classes that are far apart.
    between = np.linspace(X[y == 0].mean(axis=0), X[y == 2].mean(axis=0), 21)
    assert (chain(between)[1].max(axis=1) >= -1e-9).all()
    assert (chain(X)[1].max(axis=1) >= -1e-9).all()


@pytest.mark.parametrize("multilabel", [False, True])
def test_without_anything_that_varies_shares_are_told(multilabel):
    X, y = np.ones((9, 2)), np.array([0] * 6 + [1] * 3)
    Y = np.eye(2)[y]
    targets = Y.astype(int) if multilabel else y
    chain, features = additive_chain(Inputs(X, targets), Y, None, 10, multilabel=multilabel)
    features_of, outputs = chain(X)
    assert not features.any()
    assert not features_of.any()
    expected = Y.mean(axis=0) if multilabel else np.log(Y.mean(axis=0)) / 16
    assert_allclose(outputs, np.tile(expected, (9, 1)))
