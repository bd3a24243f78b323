"""Samples in blocks: weights, missing labels and shifts that differ from block to block."""

import logging
import os
import signal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import core_oracle as oracle
from jplay import FastSolver, HeatGraph, JPlay
from jplay.blocks import blocked, partition_affinity

da = pytest.importorskip("dask.array")

SIZES = [40, 25, 35]
GRAPH = HeatGraph(5, bandwidth=0.8)
QUICK = {"n_components": 3, "n_layers": 2, "solver": FastSolver(max_iter=40)}


@pytest.fixture(scope="module")
def samples():
    return oracle.make_classes(sum(SIZES), 8)


def in_blocks(array):
    return da.from_array(array, chunks=(tuple(SIZES), *np.shape(array)[1:]))


def affinity_of(X, scaling="standard", sizes=SIZES):
    return partition_affinity(oracle.scaled(X, scaling), sizes, GRAPH)


def assert_same(model, reference, X, atol=1e-6):
    for name in ("components_", "intercept_", "coef_"):
        assert_allclose(getattr(model, name), getattr(reference, name), atol=atol)
    if not model.multilabel_:
        assert_allclose(model.predict_proba(X), reference.predict_proba(X), atol=1e-5)


def fit_both(X, y, weight=None, scaling="standard", **settings):
    settings = QUICK | {"scaling": scaling} | settings
    reference = JPlay(**settings, graph=affinity_of(X, scaling)).fit(X, y, weight)
    lazy = None if weight is None else in_blocks(weight)
    return JPlay(**settings, graph=GRAPH).fit(in_blocks(X), in_blocks(y), lazy), reference


@pytest.mark.parametrize("weighted_block", [0, 1, 2])
def test_weights_of_one_block_alone_count(samples, weighted_block):
    """All other blocks have weights of one, and might be taken to have none."""
    X, y = samples
    weight = np.ones(len(X))
    rows = slice(*np.cumsum([0, *SIZES])[weighted_block : weighted_block + 2])
    weight[rows] = np.random.default_rng(0).random(SIZES[weighted_block]) + 0.1
    model, reference = fit_both(X, y, weight)
    assert_same(model, reference, X)
    plain = JPlay(**QUICK, graph=affinity_of(X)).fit(X, y)
    assert np.abs(plain.coef_ - model.coef_).max() > 1e-3


@pytest.mark.parametrize(
    ("multilabel", "hidden_block"),
    [
        (False, 0),
        (False, 2),
        (True, 0),
        (True, 2),
    ],
)
def test_a_block_without_labels_or_with_all_of_them(samples, hidden_block, multilabel):
    X, y = samples
    if multilabel:
        y = np.stack([y == 0, y > 0], axis=1).astype(int)
    y = y.copy()
    edges = np.cumsum([0, *SIZES])
    y[edges[hidden_block] : edges[hidden_block + 1]] = -1
    model, reference = fit_both(X, y)
    assert_same(model, reference, X)


def test_a_class_that_one_block_alone_has(samples):
    X, y = samples
    y = y.copy()
    y[:5] = 7
    model, reference = fit_both(X, y, class_weight="balanced")
    assert model.classes_.tolist() == [0, 1, 2, 7]
    assert_same(model, reference, X)


@pytest.mark.parametrize("scaling", ["standard", "norm", None])
@pytest.mark.parametrize("offset", [0.0, -0.7, 5.0])
def test_features_of_every_block_are_feasible_wherever_the_samples_lie(samples, scaling, offset):
    """A linear first layer where it suffices, else an affine one, as in memory."""
    X, y = samples[0] + offset, samples[1]
    model, reference = fit_both(X, y, scaling=scaling)
    assert_same(model, reference, X)
    assert model.first_intercept_.any() == reference.first_intercept_.any()
    for Z in model.transform_layers(X):
        assert Z.min() > -1e-9
        assert np.linalg.norm(Z, axis=1).max() < 1 + 1e-9


def test_features_that_are_constant_in_a_block_or_in_all(samples):
    X, y = samples
    X = np.column_stack([X, np.full(len(X), 4.0), np.repeat([0.0, 1.0, 2.0], SIZES)])
    model, reference = fit_both(X, y)
    assert model.feature_scale_[8] == 0
    assert model.feature_scale_[9] > 0
    assert_same(model, reference, X)


def test_objective_in_blocks_is_equation_6(samples):
    X, y = samples
    model = JPlay(**QUICK, graph=GRAPH).fit(in_blocks(X), in_blocks(y))
    terms = oracle.Chain.of(model, X).terms(
        oracle.indicators(y), model.coef_, affinity_of(X), model
    )
    assert model.objective_history_[-1] == pytest.approx(terms.sum(), rel=1e-8)


@pytest.mark.parametrize("constraints", ["nonnegative", "unit_ball", None])
@pytest.mark.parametrize("reconstruction", [True, False])
def test_every_part_of_the_model_is_that_of_memory(samples, constraints, reconstruction):
    X, y = samples
    model, reference = fit_both(X, y, constraints=constraints, reconstruction=reconstruction)
    assert_same(model, reference, X)


def test_more_features_than_samples_of_a_block(samples):
    rng = np.random.default_rng(0)
    X = np.hstack([samples[0], rng.random((len(samples[0]), 40))])
    model, reference = fit_both(X, samples[1])
    assert_same(model, reference, X)


def test_memory_map_hdf5_and_zarr_are_the_samples_in_memory(samples, tmp_path):
    X, y = samples
    sizes = [40, 40, 20]
    reference = JPlay(**QUICK, graph=affinity_of(X, sizes=sizes)).fit(X, y)
    stored = np.memmap(tmp_path / "X", dtype=X.dtype, mode="w+", shape=X.shape)
    stored[:] = X
    containers = [stored]
    try:
        import zarr
    except ImportError:
        pass
    else:
        containers.append(
            zarr.create_array(tmp_path / "X.zarr", shape=X.shape, chunks=(40, 8), dtype=X.dtype)
        )
        containers[-1][:] = X
    try:
        import h5py
    except ImportError:
        pass
    else:
        file = h5py.File(tmp_path / "X.h5", "w")
        containers.append(file.create_dataset("X", data=X, chunks=(20, 8)))
    for container in containers:
        model = JPlay(**QUICK, graph=GRAPH).fit(blocked(container, rows=40), y)
        assert model.affinity_ is None
        assert_same(model, reference, X)
        assert_array_equal(
            np.asarray(model.predict(blocked(container, rows=40))), reference.predict(X)
        )


class EachIteration(logging.Handler):
    """Call a function after every iteration of a fit, when its line is logged."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def emit(self, record):
        self.function()

    def __enter__(self):
        logger = logging.getLogger("jplay")
        logger.setLevel(logging.INFO)
        logger.addHandler(self)
        return self

    def __exit__(self, *exc):
        logger = logging.getLogger("jplay")
        logger.setLevel(logging.NOTSET)
        logger.removeHandler(self)


def test_a_lost_worker_changes_no_weight_and_no_missing_label(samples):
    """Killed in the midst of the iterations; what it held is computed anew from the samples."""
    distributed = pytest.importorskip("distributed")
    X, y = samples
    weight = np.random.default_rng(0).random(len(X)) + 0.2
    y = np.where(np.arange(len(X)) % 4 == 0, -1, y)
    reference = JPlay(**QUICK, graph=affinity_of(X)).fit(X, y, weight)
    passed = []
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            memory_limit="1GiB",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):

        def kill_once():
            passed.append(client.run(os.getpid))
            if len(passed) == 14:
                os.kill(next(iter(passed[-1].values())), signal.SIGKILL)

        with EachIteration(kill_once):
            model = JPlay(**QUICK, graph=GRAPH)
            model.fit(in_blocks(X), in_blocks(y), in_blocks(weight))
    assert set(passed[-1].values()) != set(passed[0].values())
    assert model.n_iter_ == reference.n_iter_
    assert_same(model, reference, X)
