"""J-Play for real targets."""

import numpy as np
import pytest
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, Ridge

from closeness import assert_close
from jplay import HeatGraph, JPlayRegressor, PaperSolver
from jplay.blocks import blocked
from jplay.estimators.ridge import RegressionMoments, fit_ridge

X, Y = load_diabetes(return_X_y=True)


def spectra(seed=0, n_samples=90, n_features=120, n_sources=4):
    """Mixtures of a few smooth spectra, and the first two shares in other units."""
    rng = np.random.default_rng(seed)
    bands = np.linspace(0, 1, n_features)
    sources = np.exp(-(((bands - rng.random((n_sources, 1))) / 0.15) ** 2))
    shares = rng.dirichlet(np.ones(n_sources), n_samples)
    noise = 0.01 * rng.standard_normal((n_samples, n_features))
    return shares @ sources + noise, 100 * shares[:, :2] + 5


def test_prediction_is_the_ridge_regression_of_its_features_with_the_metric_of_the_input():
    samples, targets = spectra()
    model = JPlayRegressor(6, scaling=None, constraints=None).fit(samples, targets)
    features = model.transform(samples)
    metric = model.components_ @ model.components_.T
    root = np.linalg.cholesky(metric)
    y = (targets - targets.mean(axis=0)) / targets.std(axis=0)
    ridge = Ridge(model.ridge_, solver="cholesky").fit(np.linalg.solve(root, features.T).T, y)
    expected = ridge.predict(np.linalg.solve(root, features.T).T)
    expected = expected * targets.std(axis=0) + targets.mean(axis=0)
    assert_close(model.predict(samples), expected, 1e-6)


def test_it_predicts_mixtures_as_well_as_partial_least_squares():
    samples, targets = spectra()
    fresh, truth = spectra()[0][60:], targets[60:]
    model = JPlayRegressor().fit(samples[:60], targets[:60])
    rival = PLSRegression(4).fit(samples[:60], targets[:60])
    error = np.sqrt(np.mean((model.predict(fresh) - truth) ** 2))
    assert error < 1.1 * np.sqrt(np.mean((rival.predict(fresh) - truth) ** 2))


def test_units_of_targets_and_features_do_not_matter():
    model = JPlayRegressor().fit(X, Y)
    other = JPlayRegressor().fit(1000 * X + 3, Y / 7 - 100)
    np.testing.assert_allclose(other.predict(1000 * X + 3) * 7 + 700, model.predict(X), rtol=1e-5)


def test_a_sample_without_target_is_not_predicted_from_but_seen():
    hidden = Y.copy()
    hidden[::3] = np.nan
    model = JPlayRegressor(alpha=1.0).fit(X, hidden)
    alone = JPlayRegressor(alpha=1.0).fit(X[~np.isnan(hidden)], hidden[~np.isnan(hidden)])
    assert np.isfinite(model.predict(X)).all()
    assert not np.allclose(model.predict(X), alone.predict(X), rtol=1e-6)
    assert model.score(X[::3], Y[::3]) > 0.3


def test_weights_act_on_the_prediction_and_on_its_ridge():
    weight = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    model = JPlayRegressor(5).fit(X, Y, sample_weight=weight)
    scaled = (X - np.average(X, axis=0, weights=weight)) * model.feature_scale_
    y = (Y - np.average(Y, weights=weight))[:, None]
    unit = weight.sum() / (effective := weight.sum() ** 2 / (weight**2).sum())
    problem = RegressionMoments(
        scaled.T @ (weight[:, None] * scaled) / unit,
        scaled.T @ (weight[:, None] * y) / unit,
        float((weight[:, None] * y**2).sum()) / unit,
        effective,
    )
    found = fit_ridge(problem, np.eye(X.shape[1]), model.components_ / model.feature_scale_)
    assert model.ridge_ == pytest.approx(found.ridge, rel=1e-6)
    np.testing.assert_allclose(model.output_coef_, found.coef, rtol=1e-4)


def test_the_ridge_is_chosen_by_generalised_cross_validation_on_the_input():
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((30, 5))
    samples -= samples.mean(axis=0)
    y = samples @ rng.standard_normal((5, 1)) + rng.standard_normal((30, 1))
    y -= y.mean(axis=0)
    gram, cross, theta = samples.T @ samples, samples.T @ y, rng.standard_normal((2, 5))
    found = fit_ridge(RegressionMoments(gram, cross, float((y**2).sum()), 30), np.eye(5), theta)

    def error(ridge):
        hat = samples @ np.linalg.solve(gram + ridge * np.eye(5), samples.T)
        return np.sum((y - hat @ y) ** 2) / (29 - np.trace(hat)) ** 2

    assert error(found.ridge) <= min(error(found.ridge * f) for f in (0.3, 0.5, 2, 3)) * (1 + 1e-9)
    Z = samples @ theta.T
    direct = np.linalg.solve(Z.T @ Z + found.ridge * theta @ theta.T, Z.T @ y)
    assert_close(found.coef.T, direct, 1e-8)


def test_as_many_samples_as_features_do_not_spoil_the_prediction():
    """The subspace can then fit any targets, and a ridge chosen there would be none."""
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((400, 100)) * np.geomspace(1, 0.02, 100)
    targets = samples[:, :3].sum(axis=1) + 0.5 * rng.standard_normal(400)
    model = JPlayRegressor().fit(samples[:110], targets[:110])
    assert model.score(samples[110:], targets[110:]) > 0.4
    features = model.transform(samples)
    trusting = LinearRegression().fit(features[:110], targets[:110])
    assert trusting.score(features[110:], targets[110:]) < 0.2


@pytest.mark.parametrize("missing", [False, True])
def test_blocks_equal_memory_on_the_same_graph(missing):
    targets = np.column_stack([Y, Y**2])
    if missing:
        targets[::4] = np.nan
    ring = np.roll(np.eye(221), 1, axis=1)
    ring = ring + ring.T

    def on_block(samples):
        return ring[: len(samples), : len(samples)]

    whole = np.kron(np.eye(2), ring)
    weight = np.linspace(0.5, 1.5, len(X))
    settings = {"n_components": 4}
    memory = JPlayRegressor(**settings, graph=whole).fit(X, targets, sample_weight=weight)
    blocks = JPlayRegressor(**settings, graph=on_block).fit(
        blocked(X, 221), targets, sample_weight=weight
    )
    assert_close(blocks.predict(X), memory.predict(X), 1e-6)
    assert_close(blocks.predict(blocked(X, 100)), blocks.predict(X), 1e-12)


def test_single_precision_agrees_with_double():
    model = JPlayRegressor().fit(X.astype(np.float32), Y.astype(np.float32))
    predicted = model.predict(X.astype(np.float32))
    assert predicted.dtype == np.float32
    np.testing.assert_allclose(predicted, JPlayRegressor().fit(X, Y).predict(X), rtol=1e-2)


def test_the_published_schedule_works():
    model = JPlayRegressor(4, solver=PaperSolver(max_iter=3), graph=HeatGraph(5)).fit(X, Y)
    assert len(model.objective_history_) <= 3
    assert model.score(X, Y) > 0.3


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (np.full(len(X), np.nan), "at least 2 samples of positive weight, got 0"),
        (np.where(np.arange(len(X)) == 3, np.inf, Y), "Input y contains infinity"),
        (np.column_stack([Y, np.where(Y > 100, np.nan, Y)]), "rows with some NaN"),
        (Y[:-1], "as many rows"),
    ],
)
def test_targets_that_cannot_be_learned_are_refused(targets, message):
    with pytest.raises(ValueError, match=message):
        JPlayRegressor().fit(X, targets)


def test_a_constant_target_is_predicted_by_itself():
    targets = np.column_stack([Y, np.full(len(Y), 7.0)])
    np.testing.assert_allclose(JPlayRegressor().fit(X, targets).predict(X)[:, 1], 7.0, rtol=1e-6)


def test_constant_samples_are_refused():
    with pytest.raises(ValueError, match="samples that differ"):
        JPlayRegressor().fit(np.ones((20, 3)), np.arange(20.0))
