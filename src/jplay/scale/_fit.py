"""What an estimator calls when its samples are not an array in memory."""

from contextlib import ExitStack, contextmanager
from functools import partial
from operator import add

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from jplay._optional import import_optional
from jplay.estimators._chain import FirstLayer
from jplay.estimators._large import physical_memory
from jplay.estimators._validation import check_affinity, check_scale, raise_if_no_edges
from jplay.scale import _blocks
from jplay.scale._containers import (
    block_sizes,
    check_known_chunks,
    checked_targets,
    dask_blocks,
    dask_sources,
    fits_in,
    is_dask_array,
    unwrapped,
)
from jplay.scale._executors import ClusterExecutor, LocalExecutor, dask_mapper
from jplay.scale._samples import BlockSamples
from jplay.scale.graph import HeatGraph
from jplay.solvers.threads import sample_threads


@contextmanager
def prepared_fit(estimator, X, y):
    """Samples of a fit in blocks, after the checks that need a look at all of them.

    Sets ``n_features_in_``, ``classes_`` and what else an estimator learns from validation.
    Yields ``(samples, first_layer, dtype)``.
    """
    X = unwrapped(X)
    if is_dask_array(X):
        check_known_chunks(X, "X")
    if len(X.shape) != 2:
        raise ValueError(f"`X` should have 2 dimensions, got shape {tuple(X.shape)}.")
    y = checked_targets(y, X)
    graph = _block_graph(estimator, X)
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    with ExitStack() as stack:
        executor, rows, targets, kept = _opened(X, y, stack)
        found = _scanned(executor, rows, targets)
        _check_scan(found, X)
        estimator.n_features_in_ = X.shape[1]
        estimator.classes_, estimator._multilabel = _classes(found.classes, y)
        estimator.affinity_ = None
        constant = _constant(executor, rows, found, estimator.fit_intercept)
        first_layer = FirstLayer(X.shape[1], constant)
        if kept and constant is not None:
            rows, _ = executor.run(_blocks.keep_samples, _blocks.nothing, [rows], constant)
            constant = None
        encode = partial(
            _blocks.indicator, classes=estimator.classes_, multilabel=estimator._multilabel
        )
        statistics = partial(_statistics, estimator, targets, graph, encode)
        yield BlockSamples(executor, rows, constant, statistics), first_layer, dtype


def _opened(X, y, stack):
    """Executor, references to the blocks of ``X`` and ``y``, and whether ``X`` is in memory."""
    if not is_dask_array(X):
        work = X.shape[0] * X.shape[1] ** 2
        pool = stack.enter_context(sample_threads(work))
        mapper = map if pool is None else pool.map
        return LocalExecutor(mapper, X.scratch), X.sources(), _sources(y), False
    client = _current_client()
    if client is None:
        stack.enter_context(sample_threads(0))  # the scheduler's threads suffice
        executor = LocalExecutor(dask_mapper)
        rows, targets = dask_sources(X), _sources(y)
        kept = fits_in(X.nbytes, physical_memory())
        if kept:
            rows, _ = executor.run(_blocks.keep_samples, _blocks.nothing, [rows], None)
        return executor, rows, targets, kept
    executor = ClusterExecutor(client)
    distributed = import_optional("distributed", feature="A Dask cluster", extra="dask")
    memory = sum(
        worker["memory_limit"] or physical_memory()
        for worker in client.scheduler_info(n_workers=-1)["workers"].values()
    )
    kept = bool(distributed.client.futures_of(X)) or fits_in(X.nbytes, memory)
    if kept:
        rows = executor.adopt(client.compute(dask_blocks(X)))
    else:
        rows = executor.place(dask_sources(X))
    if is_dask_array(y):
        targets = client.compute(dask_blocks(y))
    else:
        targets = executor.send([source.load() for source in y.sources()])
    return executor, rows, targets, kept


def _sources(y):
    return dask_sources(y) if is_dask_array(y) else y.sources()


def _current_client():
    """The ``distributed.Client`` that Dask would use now, if any."""
    dask = import_optional("dask", feature="A fit on Dask arrays", extra="dask")
    if dask.config.get("scheduler", None) not in (None, "distributed", "dask.distributed"):
        return None
    try:
        from distributed import default_client
    except ImportError:
        return None
    try:
        return default_client()
    except ValueError:
        return None


def _scanned(executor, rows, targets):
    numbers = list(range(len(rows)))
    return executor.reduce(_blocks.scan, add, [rows, targets, numbers], None)


def _check_scan(found, X):
    if found.invalid:
        edges = np.cumsum([0, *block_sizes(X)])
        first = found.invalid[0]
        raise ValueError(
            f"Input X contains NaN or infinity in {len(found.invalid)} of {len(edges) - 1} blocks, "
            f"first in block {first} (rows {edges[first]} to {edges[first + 1] - 1}). "
            "Drop these samples or fill them, for example with sklearn.impute.SimpleImputer."
        )
    if found.n_samples < 2:
        raise ValueError(f"`X` should have at least 2 samples, got {found.n_samples}.")
    check_scale(np.asarray([found.magnitude]), 1e-4, 1e6)


def _classes(values, y):
    """Classes and whether the target is multi-label, from the values that occur."""
    if len(y.shape) == 2:
        if not np.isin(values, [0, 1]).all():
            raise ValueError(
                "`y` should hold one class per sample or be a 0/1 indicator matrix, got a matrix "
                f"with values from {values[0]} to {values[-1]}. Binarise the labels."
            )
        return np.arange(y.shape[1]), True
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ValueError("Input y contains NaN. Drop the samples without a label.")
    check_classification_targets(values)
    if len(values) < 2:
        raise ValueError(
            f"`y` should contain at least 2 classes, got {len(values)}. "
            "Add samples of another class."
        )
    return values, False


def _constant(executor, rows, found, fit_intercept):
    """Size of the constant feature, or ``None`` for a linear first layer."""
    if fit_intercept == "auto":
        mean = executor.share(found.sample_sum / found.n_samples)
        lowest = executor.reduce(_blocks.lowest_product, min, [rows], mean)
        fit_intercept = lowest <= 0
    return (found.largest_norm or 1.0) if fit_intercept else None


def _block_graph(estimator, X):
    """The graph that each block gets, or a function of the block's samples."""
    affinity = estimator.affinity
    if isinstance(affinity, str):
        affinity = HeatGraph(estimator.n_neighbors, estimator.bandwidth)
    if not callable(affinity):
        raise ValueError(
            "`affinity` should be 'heat', a HeatGraph or a function of a block's samples for "
            f"samples in blocks, got {type(affinity).__name__}. A matrix over all samples does "
            "not fall into blocks."
        )
    if isinstance(affinity, HeatGraph) and max(block_sizes(X)) <= affinity.n_neighbors:
        raise ValueError(
            f"`n_neighbors` should be less than {max(block_sizes(X))} (the rows of the largest "
            f"block of `X`), got {affinity.n_neighbors}. Rechunk `X` into larger blocks."
        )
    return affinity


def _statistics(estimator, targets, graph, encode, samples):
    """Statistics of all blocks; sets ``bandwidth_`` of the estimator on the way."""
    executor, rows = samples.executor, samples.X
    settings = {"constant": samples.constant, "encode": encode}
    if not isinstance(graph, HeatGraph):
        estimator.bandwidth_ = None
        function = partial(
            _blocks.given_graph_statistics, affinity=graph, check=check_affinity, **settings
        )
        return executor.reduce(function, _blocks.add_statistics, [rows, targets], None)
    none = [None] * len(rows)
    before, after = none, none
    if graph.overlap:
        margins, _ = executor.run(_blocks.margins, _blocks.nothing, [rows], graph.overlap)
        before, after = [None, *margins[:-1]], [*margins[1:], None]
    find = partial(_blocks.block_neighbors, graph=graph)
    found, distances = executor.run(find, _blocks.concatenate_pairs, [rows, before, after], None)
    estimator.bandwidth_ = width = _bandwidth(graph.bandwidth, *distances)
    columns = [rows, targets, found, before, after]
    function = partial(_blocks.heat_statistics, **settings)
    statistics = executor.reduce(function, _blocks.add_statistics, columns, width)
    raise_if_no_edges(statistics.total_degree, width)
    return statistics


def _bandwidth(bandwidth, distances, weights):
    """The given width, or the weighted median of the distances."""
    if bandwidth != "median":
        return float(bandwidth)
    order = np.argsort(distances)
    cumulative = np.cumsum(weights[order])
    middle = distances[order][np.searchsorted(cumulative, cumulative[-1] / 2)]
    return float(middle) or float(np.average(distances, weights=weights)) or 1.0
