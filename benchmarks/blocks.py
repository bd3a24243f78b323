"""Fits in blocks: traffic, weak scaling, data larger than memory, graphs, cost of a block.

    python benchmarks/blocks.py graph accuracy block traffic weak plan memory tall > figures.md

Each section prints a Markdown table. ``memory`` writes 4.3 GB to the folder for temporary files
and takes several minutes on two cores, ``tall`` writes 8 GB and takes longer; ``accuracy`` takes
three minutes, the others about one. ``graph`` and ``accuracy`` need faiss.
"""

import argparse
import itertools
import logging
import os
import platform
import shutil
import statistics
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import distributed
import numpy as np
import scipy.sparse
import zarr
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize

from jplay import FastSolver, HeatGraph, JPlay
from jplay.blocks import blocked, graph_quality, partition_affinity
from jplay.core.graph import build_block_graph, find_block_neighbors, heat_graph, sum_over_edges
from jplay.core.problem import SourceBlock
from jplay.core.samples import Samples, SplitStep, compute_moments
from jplay.core.scaling import transform_inputs
from jplay.core.targets import encode_targets
from jplay.datasets import fetch_indian_pines


def spectra(n_samples, n_features, seed=0):
    """Samples near surfaces of eight dimensions, one per class, scaled to a maximum of one."""
    shapes = np.random.default_rng(0)
    centers = 1.5 * shapes.standard_normal((16, 8))
    inner = shapes.standard_normal((8, 60)) / 4
    outer = shapes.standard_normal((60, n_features)) / 8
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 16, n_samples)
    X = np.tanh((rng.standard_normal((n_samples, 8)) + centers[y]) @ inner) @ outer
    X = 6 + X + 0.1 * rng.standard_normal(X.shape)
    return X / X.max(axis=1, keepdims=True), y


def gram_error(X, affinity, exact_affinity):
    """Relative error of X^T L X that one graph causes in the place of another."""
    graphs = affinity, exact_affinity
    gram, exact = (sum_over_edges(X, graph).laplacian_gram for graph in graphs)
    return np.linalg.norm(gram - exact) / np.linalg.norm(exact)


def clusters(n_samples, n_features):
    """Samples in 200 clusters of twenty dimensions, stretched towards the origin."""
    rng = np.random.default_rng(0)
    centers = 3 * rng.standard_normal((200, n_features))[rng.integers(0, 200, n_samples)]
    inner = rng.standard_normal((n_samples, 20)) @ rng.standard_normal((20, n_features))
    return centers * rng.random((n_samples, 1)) + 0.3 * inner


def lazy_spectra(n_blocks, rows, n_features):
    def block(part, block_id):
        return spectra(rows, n_features, seed=block_id[0])[part]

    X = da.map_blocks(
        partial(block, 0),
        chunks=((rows,) * n_blocks, n_features),
        dtype=float,
        meta=np.zeros((0, 0)),
    )
    y = da.map_blocks(
        partial(block, 1), chunks=((rows,) * n_blocks,), dtype=int, meta=np.zeros(0, dtype=int)
    )
    return X, y


@contextmanager
def cluster(n_workers, memory_limit):
    with (
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            memory_limit=memory_limit,
            silence_logs=logging.ERROR,
        ) as made,
        distributed.Client(made) as client,
    ):
        yield client


class EachIteration(logging.Handler):
    """Values of a function after every iteration of a fit, from its log."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.values = []

    def emit(self, record):
        self.values.append(self.function())

    def __enter__(self):
        logging.getLogger("jplay").setLevel(logging.INFO)
        logging.getLogger("jplay").addHandler(self)
        return self

    def __exit__(self, *exc):
        logging.getLogger("jplay").removeHandler(self)

    def median_step(self):
        return statistics.median(np.diff(self.values))


def table(heading, columns, rows):
    print(f"\n## {heading}\n")
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)


def timed(function, *args, clock=time.perf_counter, **kwargs):
    start = clock()
    result = function(*args, **kwargs)
    return clock() - start, result


def graph():
    """Recall and error in ``X^T L X`` of approximate graphs and of graphs in blocks."""
    on_core = partial(timed, clock=time.process_time)
    X, _ = spectra(20_000, 100)
    exact_time, (exact, width) = on_core(heat_graph, X, 10)
    rows = [("exact", f"{exact_time:.1f}", 1, 0)]
    cases = [
        ("inverted file (faiss)", partial(HeatGraph(10, width, "approximate"), X)),
    ]
    for size in (10_000, 5_000, 2_000):
        made = partial(partition_affinity, X, [size] * (20_000 // size), HeatGraph(10, width))
        cases.append((f"blocks of {size:,} rows in random order", made))
    for name, make in cases:
        seconds, affinity = on_core(make)
        quality = graph_quality(X, affinity, 10, bandwidth=width, n_probes=500)
        error = gram_error(X, affinity, exact)
        rows.append((name, f"{seconds:.1f}", f"{quality.recall:.3f}", f"{error:.4f}"))
    table(
        "Graph: 20,000 samples, 100 features, 10 neighbors",
        ["graph", "core seconds", "recall", "relative error in X^T L X"],
        rows,
    )
    rows = []
    sizes = (50_000, 100_000, 200_000)
    cases = [(f"{n:,} near surfaces", spectra(n, 100)[0], width) for n in sizes]
    cases.append(("60,000 in clusters", clusters(60_000, 100), 10.0))
    for name, X, width in cases:
        seconds, affinity = on_core(HeatGraph(10, width, "approximate"), X)
        quality = graph_quality(X, affinity, 10, bandwidth=width, n_probes=300)
        rows.append((name, f"{seconds:.1f}", f"{quality.recall:.3f}"))
    table(
        "Growth: 100 features, 10 neighbors",
        ["samples", "inverted file (faiss), core seconds", "recall"],
        rows,
    )
    line, _ = spectra(200, 100)
    steps = np.linspace(0, 1, 60)[:, None]
    ordered = np.concatenate([(1 - steps) * a + steps * b for a, b in itertools.pairwise(line)])
    ordered = ordered + 0.01 * np.random.default_rng(0).standard_normal(ordered.shape)
    exact, width = heat_graph(ordered, 10)
    rows = []
    for overlap in (0, 10, 50):
        graph = HeatGraph(10, width, overlap=overlap)
        sizes = [600] * (len(ordered) // 600) + [len(ordered) % 600]
        affinity = partition_affinity(ordered, [size for size in sizes if size], graph)
        quality = graph_quality(ordered, affinity, 10, bandwidth=width, n_probes=500)
        error = gram_error(ordered, affinity, exact)
        rows.append((overlap, f"{quality.recall:.3f}", f"{error:.4f}"))
    table(
        f"Overlap: {len(ordered):,} samples along a path, blocks of 600 rows",
        ["overlap", "recall", "relative error in X^T L X"],
        rows,
    )


def accuracy(n_splits=10, share=0.05):
    """J-Play over exact and approximate graphs of a whole scene, few of its pixels labeled."""
    scene = fetch_indian_pines()
    X = normalize(scene.cube.reshape(-1, scene.cube.shape[2]).astype(float), norm="max")
    y = np.full(len(X), -1)
    y[scene.pixel_indices] = scene.target
    samples = transform_inputs(X, "standard")[1][:]  # of which J-Play builds the graph
    exact, width = heat_graph(samples, 10)
    approximate = HeatGraph(10, width, "approximate")(samples)
    graphs = {"exact": exact, "inverted file (faiss)": approximate}
    scores = {name: [] for name in graphs}
    for seed in range(n_splits):
        rng = np.random.default_rng(seed)
        hidden = rng.random(len(y)) > share
        test = hidden & (y >= 0)
        for name, affinity in graphs.items():
            model = JPlay(graph=affinity).fit(X, np.where(hidden, -1, y))
            scores[name].append(100 * np.mean(model.predict(X[test]) == y[test]))
    rows = []
    for name, affinity in graphs.items():
        quality = graph_quality(samples, affinity, 10, bandwidth=width)
        change = np.subtract(scores[name], scores["exact"])
        rows.append(
            (
                name,
                f"{quality.recall:.3f}",
                f"{gram_error(samples, affinity, exact):.4f}",
                f"{np.mean(scores[name]):.2f}",
                f"{np.mean(change):+.2f} ± {np.std(change) / n_splits**0.5:.2f}",
                f"{change.min():+.2f} to {change.max():+.2f}",
            )
        )
    table(
        f"Accuracy: {len(X):,} pixels of Indian Pines, {share:.0%} of the labels, "
        f"{n_splits} splits",
        [
            "graph",
            "recall",
            "relative error in X^T L X",
            "accuracy, %",
            "mean change",
            "change of a split",
        ],
        rows,
    )


def compute_block(source, neighbors):
    """All moments of one block."""
    compute_moments(Samples([source]))
    sum_over_edges(source.source, build_block_graph(neighbors, bandwidth=1.0))


def block():
    """Processor seconds of every step on one block; reading is timed by the wall clock."""
    on_core = partial(timed, clock=time.process_time)
    folder = Path(tempfile.mkdtemp())
    rows = []
    for n_rows, dtype in ((2_500, "f8"), (5_000, "f4"), (20_000, "f4"), (80_000, "f4")):
        X, y = spectra(n_rows, 200)
        X = X.astype(dtype)
        stored = zarr.create_array(
            folder / f"{n_rows}{dtype}", data=X, chunks=X.shape, compressors=None
        )
        read = min(timed(lambda stored=stored: stored[:])[0] for _ in range(3))
        search, (found, _) = on_core(find_block_neighbors, X, HeatGraph(10))
        source = SourceBlock(X, encode_targets(y))
        moments, _ = on_core(compute_block, source, found)
        passes = []
        for sizes in ([20], [140, 80, 20]):
            shapes = zip(sizes, [200, *sizes], strict=False)
            thetas = [np.full(shape, 1e-3) for shape in shapes]
            step = SplitStep(thetas, np.ones((1, 1)), True, True, relaxation=1.7)
            points, _ = step(source.load(), ())
            passes.append(min(on_core(step, source.load(), points)[0] for _ in range(3)))
        rows.append(
            (
                f"{n_rows:,} x 200 {dtype} ({X.nbytes / 2**20:.1f} MiB)",
                *(f"{seconds:.4f}" for seconds in (read, search, moments, *passes)),
            )
        )
    shutil.rmtree(folder)
    table(
        "One block, seconds of one core",
        ["block", "read (cached)", "neighbors", "moments", "pass [20]", "pass [140, 80, 20]"],
        rows,
    )


def sent_bytes(client):
    counts = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
    return sum(counts.values())


def loopback_bytes():
    """Everything on the loopback device: workers, scheduler and client together."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return int(counts.split()[0])
    return 0


def traffic():
    """Bytes that travel in one iteration, for growing numbers of samples."""
    rows = []
    with dask.config.set({"distributed.scheduler.work-stealing": False}), cluster(2, "1GiB") as c:
        for n_blocks, size in ((8, 1000), (8, 4000), (32, 1000), (128, 1000)):
            X, y = lazy_spectra(n_blocks, size, 100)
            model = JPlay(
                20,
                1,
                graph=HeatGraph(n_neighbors=5, bandwidth=0.3),
                solver=FastSolver(max_iter=8),
            )
            seen = EachIteration(lambda: (sent_bytes(c), loopback_bytes(), time.process_time()))
            with seen:
                model.fit(X, y)
            sent, everything, busy = np.median(np.diff(seen.values, axis=0), axis=0)
            rows.append(
                (
                    f"{n_blocks * size:,}",
                    n_blocks,
                    f"{sent:,.0f}",
                    f"{everything:,.0f}",
                    f"{busy:.3f}",
                )
            )
    table(
        "Traffic per iteration: two workers, 100 features, one layer of 20 (16,000 bytes)",
        [
            "samples",
            "blocks",
            "bytes sent by workers",
            "bytes on the loopback device",
            "core seconds of scheduler and client",
        ],
        rows,
    )


def weak():
    """Seconds per iteration with the same number of samples per worker."""
    rows = []
    for n_workers in (1, 2, 4):
        with cluster(n_workers, "1GiB") as client:
            X, y = lazy_spectra(8 * n_workers, 2_500, 100)
            X, y = client.persist([X, y])
            distributed.wait([X, y])
            model = JPlay(
                n_layers=[80, 40, 20],
                graph=HeatGraph(n_neighbors=5, bandwidth=0.3),
                solver=FastSolver(max_iter=12),
            )
            with EachIteration(partial(clocks, client)) as seen:
                model.fit(X, y)
        seconds, busy = np.median(np.diff(seen.values, axis=0), axis=0)
        load = os.getloadavg()[0]
        rows.append((n_workers, f"{X.shape[0]:,}", f"{seconds:.3f}", f"{busy:.3f}", f"{load:.1f}"))
    wall, core = (float(rows[0][column]) for column in (2, 3))
    rows = [(*row, f"{wall / float(row[2]):.2f}", f"{core / float(row[3]):.2f}") for row in rows]
    table(
        "Weak scaling: 20,000 samples of 100 features per worker, layers 80, 40, 20",
        [
            "workers",
            "samples",
            "seconds per iteration",
            "core seconds of the busiest worker",
            "load average",
            "efficiency (wall clock)",
            "efficiency (core seconds)",
        ],
        rows,
    )


def clocks(client):
    """Wall clock, and the maximum processor time that a worker has used."""
    return time.perf_counter(), max(client.run(time.process_time).values())


def chain_graph(X):
    """Every sample joined to the next one: a graph that costs nothing."""
    ones = np.ones(len(X) - 1)
    return scipy.sparse.diags_array([ones, ones], offsets=[-1, 1], format="csr")


def plan():
    """Processor time of a pass on a cluster against the cost of a block times their number."""
    n_blocks, size = 16, 20_000
    folder = Path(tempfile.mkdtemp())
    stored = zarr.create_array(
        folder / "X", shape=(n_blocks * size, 200), chunks=(size, 200), dtype="f4", compressors=None
    )
    X, y = spectra(size, 200)
    for i in range(n_blocks):
        stored[i * size : (i + 1) * size] = X + 0.01 * (i % 7)
    rows = []
    try:
        with cluster(2, "1GB") as client:
            for sizes in ([20], [140, 80, 20]):
                model = JPlay(n_layers=sizes, graph=chain_graph, solver=FastSolver(max_iter=6))
                with EachIteration(lambda: sum(client.run(time.process_time).values())) as seen:
                    model.fit(da.from_zarr(str(folder / "X")), np.tile(y, n_blocks))
                rows.append((sizes, n_blocks, f"{seen.median_step():.3f}"))
    finally:
        shutil.rmtree(folder)
    table(
        "Passes over 16 blocks of 20,000 x 200 f4, read again each time, two workers",
        ["layers", "blocks", "core seconds of all workers per iteration"],
        rows,
    )


def peak_memory(dask_worker):
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def memory():
    """A fit on 4.3 GB with 2 GB of memory on all workers together."""
    n_blocks, size, n_features = 1080, 2500, 200
    folder = Path(tempfile.mkdtemp())
    shape, chunks = (n_blocks * size, n_features), (size, n_features)
    stored = zarr.create_array(
        folder / "X", shape=shape, chunks=chunks, dtype="f8", compressors=None
    )
    labels = []
    for i in range(n_blocks):
        X, y = spectra(size, n_features, seed=i)
        stored[i * size : (i + 1) * size] = X
        labels.append(y)
    try:
        with cluster(2, "1GB") as client:
            X = da.from_zarr(str(folder / "X"))
            model = JPlay(
                n_layers=[20], graph=HeatGraph(n_neighbors=5), solver=FastSolver(max_iter=5)
            )
            with EachIteration(time.perf_counter) as seen:
                total, _ = timed(model.fit, X, np.concatenate(labels))
            peaks = client.run(peak_memory)
    finally:
        shutil.rmtree(folder)
    table(
        "Larger than memory: two workers with a limit of 1 GB each",
        ["X", "blocks", "iterations", "fit, s", "s per iteration", "peak of each worker"],
        [
            (
                f"{shape[0]:,} x {n_features} f8 ({X.nbytes / 1e9:.2f} GB)",
                n_blocks,
                model.n_iter_,
                f"{total:.0f}",
                f"{seen.median_step():.1f}",
                ", ".join(f"{peak / 1e6:.0f} MB" for peak in peaks.values()),
            )
        ],
    )


@contextmanager
def largest_private_memory(seconds=0.2):
    """Memory of this process that is not a page of a mapped file, looked at now and then."""
    peak, over = [0], threading.Event()

    def look():
        while not over.wait(seconds):
            status = Path("/proc/self/status").read_text()
            peak[0] = max(peak[0], int(status.split("RssAnon:")[1].split()[0]) * 1024)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()


def tall(n_samples=10_000_000, n_features=200, rows=20_000):
    """Ten million samples in a file of 8 GB, without a cluster."""
    folder = Path(tempfile.mkdtemp())
    try:
        shape = (n_samples, n_features)
        stored = np.lib.format.open_memmap(folder / "X.npy", "w+", dtype="f4", shape=shape)
        X, y = spectra(10 * rows, n_features)
        for part, start in enumerate(range(0, n_samples, len(X))):
            stored[start : start + len(X)] = X + 0.01 * (part % 7)
        stored.flush()
        del X, stored
        labels = np.tile(y, n_samples // len(y))
        blocks = blocked(np.load(folder / "X.npy", mmap_mode="r"), rows=rows)
        model = JPlay(n_layers=[20], graph=chain_graph)
        with largest_private_memory() as peak, EachIteration(time.perf_counter) as seen:
            total, _ = timed(model.fit, blocks, labels)
    finally:
        shutil.rmtree(folder)
    table(
        "Ten million samples from a file, each joined to the next one",
        ["X", "iterations", "fit, s", "s per iteration", "peak"],
        [
            (
                f"{n_samples:,} x {n_features} f4 ({4 * n_samples * n_features / 1e9:.1f} GB)",
                model.n_iter_,
                f"{total:.0f}",
                f"{seen.median_step():.1f}",
                f"{peak[0] / 2**30:.2f} GiB",
            )
        ],
    )


SECTIONS = {
    section.__name__: section
    for section in (graph, accuracy, block, traffic, weak, plan, memory, tall)
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="+", choices=list(SECTIONS))
    sections = parser.parse_args().sections
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(
        f"\n`python benchmarks/blocks.py {' '.join(sections)}`: {os.cpu_count()} cores, "
        f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"Dask {dask.__version__}, Zarr {zarr.__version__}, load average at the start "
        f"{os.getloadavg()[0]:.1f}"
    )
    for section in sections:
        SECTIONS[section]()


if __name__ == "__main__":
    main()
