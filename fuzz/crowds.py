"""Many at once: threads that ask one model, and a cluster that falls apart."""

import gc
import logging
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn.base import clone

from fuzz.judging import check
from jplay import FastSolver, HeatGraph, JPlay, LiftedJPlay

N_THREADS = 200
MAX_GROWTH = 2**18


def attack_soak(rng: np.random.Generator) -> str:
    """Two hundred threads ask one model; answers stay the same and memory does not grow."""
    y = np.arange(60) % 3
    X = rng.normal(size=(3, 5))[y] + 0.5 * rng.normal(size=(60, 5))
    model = [JPlay(2, 2), LiftedJPlay(2, n_landmarks=20, n_coordinates=10)][rng.integers(2)]
    model.fit(X, y)
    cuts = [slice(int(a), int(a) + 1 + int(n)) for a, n in rng.integers(0, [59, 30], (40, 2))]
    expected = [(model.predict(X[cut]), model.predict_proba(X[cut])) for cut in cuts]

    def ask(number):
        cut = number % len(cuts)
        labels, shares = model.predict(X[cuts[cut]]), model.predict_proba(X[cuts[cut]])
        same = np.array_equal(labels, expected[cut][0])
        return same and np.array_equal(shares, expected[cut][1])

    def grown(pool):
        before = tracemalloc.get_traced_memory()[0]
        check(all(pool.map(ask, range(N_THREADS))), "threads get other answers")
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before

    # What is kept once, by a thread's first question or by a tool that watches, is no leak:
    # a leak grows in every round.
    tracemalloc.start()
    try:
        with ThreadPoolExecutor(N_THREADS) as pool:
            least = min(grown(pool) for _ in range(4))
    finally:
        tracemalloc.stop()
    check(least < MAX_GROWTH, f"memory grows by {least} bytes with {N_THREADS} questions")
    return "soak"


class _AfterIteration(logging.Handler):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def emit(self, record):
        self.function()


def attack_cluster(rng: np.random.Generator) -> str:
    """A worker or the scheduler of a cluster ends at a random iteration."""
    import dask
    import dask.array
    import distributed

    y = np.arange(60) % 3
    X = rng.normal(size=(3, 5))[y] + 0.5 * rng.normal(size=(60, 5))
    model = JPlay(2, graph=HeatGraph(3, 0.8), solver=FastSolver(max_iter=12))
    kind = ("worker", "scheduler", "nothing")[rng.integers(3)]
    fatal = int(rng.integers(1, 10))
    settings = {
        "distributed.comm.timeouts.connect": "1s",
        "distributed.scheduler.work-stealing": False,
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster),
    ):
        samples = dask.array.from_array(X, chunks=(20, 5))
        expected = clone(model).fit(samples, y).components_
        count = 0

        def strike():
            nonlocal count
            count += 1
            if count == fatal and kind == "worker":
                cluster.sync(next(iter(cluster.workers.values())).close)
            elif count == fatal and kind == "scheduler":
                cluster.sync(cluster.scheduler.close)

        logger = logging.getLogger("jplay")
        handler = _AfterIteration(strike)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            model.fit(samples, y)
        finally:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
        same = np.allclose(model.components_, expected, rtol=1e-6, atol=1e-9)
        check(same, f"a {kind} that ends changes the result")
    return f"cluster, {kind}"
