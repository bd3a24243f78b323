"""Fits on a Dask cluster of two worker processes."""

import logging
import os
import signal

import numpy as np
import pytest

import core_oracle as oracle
from jplay import FastSolver, HeatGraph, JPlay
from jplay.blocks import partition_affinity

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

WIDTH = 0.8
GRAPH = HeatGraph(bandwidth=WIDTH)


@pytest.fixture(scope="module")
def client():
    settings = {
        "distributed.scheduler.work-stealing": False,  # it moves a block when it pays
        "distributed.comm.timeouts.connect": "60s",
        "distributed.admin.system-monitor.log-length": 100,
    }
    with (
        dask.config.set(settings),
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
        yield client


def made_samples(n_samples, n_features, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n_samples)
    noise = 0.4 * rng.standard_normal((n_samples, n_features))
    X = np.abs(rng.standard_normal((4, n_features))[y] + noise)
    return X / X.max(axis=1, keepdims=True), y


def chunked(X, rows):
    return da.from_array(X, chunks=(rows, *X.shape[1:]))


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


def assert_same_fit(model, reference, atol):
    assert model.n_iter_ == reference.n_iter_
    for name in ("components_", "coef_"):
        np.testing.assert_allclose(getattr(model, name), getattr(reference, name), atol=atol)


def reference_fit(X, y, rows, graph=GRAPH, **settings):
    sizes = [rows] * (len(X) // rows)
    affinity = partition_affinity(oracle.scaled(X), sizes, graph)
    return JPlay(**settings | {"graph": affinity}).fit(X, y)


@pytest.mark.parametrize("how", ["kept", "read again", "persisted"])
def test_fit_on_a_cluster_equals_the_fit_in_memory(client, how, monkeypatch):
    X, y = made_samples(4000, 20)
    schedule = FastSolver(max_iter=25)
    settings = {"n_components": 3, "n_layers": 2, "solver": schedule}
    lazy = chunked(X, 500)
    if how == "read again":
        monkeypatch.setattr("jplay.core.blocked.fits_in", lambda n_bytes, memory: False)
    elif how == "persisted":
        lazy = client.persist(lazy)
    model = JPlay(**settings, graph=GRAPH).fit(lazy, chunked(y, 500))
    assert_same_fit(model, reference_fit(X, y, 500, **settings), atol=1e-9)
    np.testing.assert_array_equal(model.predict(lazy).compute(), model.predict(X))


@pytest.mark.slow
def test_large_fit_on_a_cluster_equals_the_fit_in_memory(client):
    def block(block_id):
        return made_samples(1000, 100, seed=block_id[0])[0]

    lazy = da.map_blocks(block, chunks=((1000,) * 200, 100), dtype=float, meta=np.zeros((0, 0)))
    X = lazy.compute()
    y = (X[:, :4] @ np.arange(4) > np.median(X[:, :4] @ np.arange(4))).astype(int)
    graph = HeatGraph(n_neighbors=5, bandwidth=WIDTH)
    settings = {"graph": graph, "n_layers": [20, 10], "solver": FastSolver(max_iter=8)}
    model = JPlay(**settings).fit(lazy, y)
    assert_same_fit(model, reference_fit(X, y, 1000, **settings), atol=1e-6)


def test_traffic_of_an_iteration_does_not_depend_on_the_number_of_samples(client):
    def sent():
        counts = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
        return sum(counts.values())

    per_iteration = []
    for n_samples in (2000, 16_000):
        X, y = made_samples(n_samples, 40)
        totals = []
        with EachIteration(lambda totals=totals: totals.append(sent())):
            JPlay(10, 1, graph=GRAPH, solver=FastSolver(max_iter=8)).fit(
                chunked(X, 500), chunked(y, 500)
            )
        per_iteration.append(np.median(np.diff(totals)))
    few, many = per_iteration
    matrix = 10 * 40 * 8
    assert few > matrix  # something travels, and it is counted
    assert many <= 1.1 * few
    assert many < 6 * matrix + 20_000  # two sums and the projections, and what wraps them


@pytest.mark.parametrize("iteration", [4, 13])
def test_worker_that_dies_does_not_change_the_result(client, iteration):
    X, y = made_samples(4000, 20)
    settings = {"n_components": 3, "n_layers": 2, "solver": FastSolver(max_iter=20)}
    reference = reference_fit(X, y, 500, **settings)
    client.wait_for_workers(2)
    passed = []

    def kill_once():
        passed.append(client.run(os.getpid))
        if len(passed) == iteration:
            os.kill(next(iter(passed[-1].values())), signal.SIGKILL)

    with EachIteration(kill_once):
        model = JPlay(**settings, graph=GRAPH).fit(chunked(X, 500), chunked(y, 500))
    assert_same_fit(model, reference, atol=1e-9)
    assert set(passed[-1].values()) != set(passed[0].values())


def test_error_in_a_block_reaches_the_caller(client):
    X, y = made_samples(1000, 10)

    def fails(block):
        if block.shape[0] and block[0, 0] == X[500, 0]:
            raise OSError("the file of this block is truncated")
        return block

    lazy = chunked(X, 500).map_blocks(fails, meta=X[:0])
    with pytest.raises(OSError, match="the file of this block is truncated"):
        JPlay(3, 1).fit(lazy, y)


def test_threads_can_be_asked_for_beside_a_cluster(client):
    X, y = made_samples(1000, 10)
    blocks = []

    def counted(block):
        blocks.append(os.getpid())
        return block

    with dask.config.set(scheduler="threads"):
        lazy = chunked(X, 500).map_blocks(counted, meta=X[:0])
        JPlay(3, 1, solver=FastSolver(max_iter=2)).fit(lazy, chunked(y, 500))
    assert set(blocks) == {os.getpid()}


@pytest.mark.parametrize("iteration", [0, 3])
def test_cluster_that_is_gone_is_one_clear_error(iteration):
    X, y = made_samples(60, 6)
    count = 0

    def stop_at_iteration():
        nonlocal count
        count += 1
        if count == iteration:
            cluster.sync(cluster.scheduler.close)

    model = JPlay(3, graph=GRAPH, solver=FastSolver(max_iter=20))
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        distributed.LocalCluster(
            n_workers=1, processes=False, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as cluster,
        distributed.Client(cluster),
    ):
        if iteration == 0:
            cluster.scale(0)
            cluster.sync(cluster._correct_state)
        with (
            EachIteration(stop_at_iteration),
            pytest.raises(ConnectionError, match=r"no (worker|scheduler) any more"),
        ):
            model.fit(chunked(X, 30), y)
