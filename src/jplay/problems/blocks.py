"""Description of a fit whose samples are in blocks: on disk, in Dask arrays, on a cluster."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from operator import add
from typing import Any

import numpy as np

from jplay._optional import import_optional
from jplay.blocks import functions
from jplay.blocks.containers import (
    block_sizes,
    check_known_chunks,
    dask_blocks,
    dask_sources,
    fits_in,
    is_dask_array,
    physical_memory,
    rows_like,
    unwrapped,
)
from jplay.blocks.executors import ClusterExecutor, LocalExecutor, cluster_errors, dask_mapper
from jplay.blocks.graph import HeatGraph
from jplay.blocks.samples import BlockSamples
from jplay.numerics.rows import AS_THEY_ARE, RowForm
from jplay.problems.checks import check_scale
from jplay.problems.first_layer import FirstLayer, feature_scales
from jplay.problems.graphs import check_affinity, raise_if_no_edges
from jplay.problems.targets import (
    Propagation,
    TargetCode,
    TargetSummary,
    real_code,
    summarize_real_targets,
    summarize_targets,
    target_code,
)
from jplay.core.threads import sample_threads

SAMPLED_ROWS = 20_000
"""Labelled samples, at most, by which the rule of the decision is tuned."""


@contextmanager
def described_blocks(
    X: Any,
    y: Any,
    sample_weight: Any,
    graph: Any,
    scaling: str | None,
    unlabeled: Any,
    class_weight: Any,
    *,
    real: bool = False,
) -> Iterator[dict]:
    """Samples of a fit in blocks, after the checks that need a look at all of them.

    Yields what :class:`FitProblem` is made of, by name.
    """
    if isinstance(unlabeled, Propagation):
        raise ValueError(
            "`unlabeled` should be 'auto', -1 or None for samples in blocks, got a Propagation: "
            "labels spread over one graph, and each block has its own. Fit an array in memory."
        )
    X = unwrapped(X)
    if is_dask_array(X):
        check_known_chunks(X, "X")
    if len(X.shape) != 2:
        raise ValueError(f"`X` should have 2 dimensions, got shape {tuple(X.shape)}.")
    y = None if y is None else rows_like(y, X, "y")
    if sample_weight is not None:
        sample_weight = rows_like(sample_weight, X, "sample_weight")
    _check_block_graph(graph, X)
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    with ExitStack() as stack:
        executor, rows, kept = _opened(X, stack)
        targets = _sent(executor, y, len(rows))
        weights = _sent(executor, sample_weight, len(rows))
        summarize: Any = None if y is None else partial(_summary, unlabeled=unlabeled)
        if real:
            summarize = summarize_real_targets
        found = executor.reduce(
            partial(functions.scan, summarize=summarize),
            add,
            [rows, targets, weights, list(range(len(rows)))],
            None,
        )
        _check_scan(found, X, scaling)
        code: TargetCode | None = None
        if real:
            code = real_code(found.targets)
        elif y is not None:
            code = target_code(found.targets, unlabeled, class_weight)
        scale, shift = feature_scales(
            scaling, found.mean, found.deviation, found.lowest, found.highest, found.rms_norm
        )
        form = _with_constant(executor, rows, found, RowForm(scale, shift))
        first_layer = FirstLayer(X.shape[1], form.constant, scale=form.scale, shift=form.shift)
        encode = _unlabeled_rows if code is None else code.encode
        statistics, bandwidth = _statistics(executor, rows, form, targets, weights, graph, encode)
        sampled = None
        if code is not None and not code.multilabel:
            sampled = _sampled(executor, rows, form, targets, weights, encode, found.n_samples)
        if kept and not form.is_plain:
            rows, _ = executor.run(functions.keep_samples, functions.nothing, [rows], form)
            form = AS_THEY_ARE
        yield {
            "samples": BlockSamples(executor, rows, form),
            "statistics": statistics,
            "first_layer": first_layer,
            "code": code,
            "dtype": dtype,
            "bandwidth": bandwidth,
            "rows": None if sampled is None else lambda: sampled,
        }


def _sampled(
    executor: Any, rows: list, form: RowForm, targets: list, weights: list, encode: Any, n: int
) -> tuple:
    """Labelled samples from all blocks, evenly spaced, and their one-hot labels."""
    some = partial(functions.labelled_rows, form=form, encode=encode)
    stride = -(-n // SAMPLED_ROWS)
    return executor.reduce(some, functions.concatenate_pairs, [rows, targets, weights], stride)


def _summary(y: Any, sample_weight: Any, *, unlabeled: Any) -> TargetSummary:
    return summarize_targets(y, unlabeled, sample_weight)


def _unlabeled_rows(y: Any, sample_weight: Any) -> None:
    """Targets of a fit without labels."""


def _opened(X: Any, stack: ExitStack) -> tuple[Any, list, bool]:
    """Executor, references to the blocks of ``X``, and whether they are in memory."""
    if not is_dask_array(X):
        work = X.shape[0] * X.shape[1] ** 2
        pool = stack.enter_context(sample_threads(work))
        mapper = map if pool is None else pool.map
        return LocalExecutor(mapper, X.scratch), X.sources(), False
    client = _current_client()
    if client is None:
        stack.enter_context(sample_threads(0))  # the scheduler's threads suffice
        local, rows = LocalExecutor(dask_mapper), dask_sources(X)
        kept = fits_in(X.nbytes, physical_memory())
        if kept:
            rows, _ = local.run(functions.keep_samples, functions.nothing, [rows], AS_THEY_ARE)
        return local, rows, kept
    stack.enter_context(cluster_errors())
    executor = ClusterExecutor(client)
    distributed = import_optional("distributed", feature="A Dask cluster", extra="dask")
    memory = sum(
        worker["memory_limit"] or physical_memory() for worker in executor.workers().values()
    )
    kept = bool(distributed.client.futures_of(X)) or fits_in(X.nbytes, memory)
    if kept:
        return executor, executor.adopt(client.compute(dask_blocks(X))), kept
    return executor, executor.place(dask_sources(X)), kept


def _sent(executor: Any, y: Any, n_blocks: int) -> list:
    """References to the blocks of ``y``; ``None`` for each if there is no ``y``."""
    if y is None:
        return [None] * n_blocks
    if isinstance(executor, LocalExecutor):
        return dask_sources(y) if is_dask_array(y) else y.sources()
    if is_dask_array(y):
        return executor.client.compute(dask_blocks(y))
    return executor.send([source.load() for source in y.sources()])


def _current_client() -> Any:
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


def _check_scan(found: Any, X: Any, scaling: str | None) -> None:
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
    # Squares must be in range: blocks are scanned once, before any unit is known.
    check_scale(np.concatenate([found.lowest, found.highest]), scaling, power=0.4)


def _with_constant(executor: Any, rows: list, found: Any, form: RowForm) -> RowForm:
    """The form with a constant feature, if a linear first layer cannot do.

    See :func:`jplay.problems.first_layer.first_layer_of`.
    """
    mean = found.mean if form.shift is None else found.mean - form.shift
    if form.scale is not None:
        mean = mean * form.scale
    reach = partial(functions.reach, form=form)
    lowest, largest = executor.reduce(reach, functions.reach_of_both, [rows], executor.share(mean))
    return replace(form, constant=(largest or 1.0)) if lowest <= 0 else form


def _check_block_graph(graph: Any, X: Any) -> None:
    """Refuse a graph that no block can have."""
    if not callable(graph):
        raise ValueError(
            "`graph` should be a HeatGraph or a function of a block's samples for samples in "
            f"blocks, got {type(graph).__name__}. A matrix over all samples does not fall into "
            "blocks."
        )
    if isinstance(graph, HeatGraph) and max(block_sizes(X)) <= graph.n_neighbors:
        raise ValueError(
            f"`n_neighbors` should be less than {max(block_sizes(X))} (the rows of the largest "
            f"block of `X`), got {graph.n_neighbors}. Rechunk `X` into larger blocks."
        )


def _statistics(
    executor: Any,
    rows: list,
    form: RowForm,
    targets: list,
    weights: list,
    graph: Any,
    encode: Any,
) -> tuple[Any, float | None]:
    """Statistics of all blocks, and the width of their heat kernel."""
    settings = {"form": form, "encode": encode}
    if not isinstance(graph, HeatGraph):
        given = partial(
            functions.given_graph_statistics, affinity=graph, check=check_affinity, **settings
        )
        columns = [rows, targets, weights]
        return executor.reduce(given, functions.add_statistics, columns, None), None
    none = [None] * len(rows)
    before, after = none, none
    if graph.overlap:
        edges = partial(functions.margins, form=form.without_constant)
        margins, _ = executor.run(edges, functions.nothing, [rows], graph.overlap)
        before, after = [None, *margins[:-1]], [*margins[1:], None]
    find = partial(functions.block_neighbors, form=form.without_constant, graph=graph)
    found, distances = executor.run(find, functions.concatenate_pairs, [rows, before, after], None)
    width = _bandwidth(graph.bandwidth, *distances)
    columns = [rows, targets, weights, found, before, after]
    function = partial(functions.heat_statistics, **settings)
    statistics = executor.reduce(function, functions.add_statistics, columns, width)
    raise_if_no_edges(statistics.total_degree, width)
    return statistics, width


def _bandwidth(bandwidth: Any, distances: Any, weights: Any) -> float:
    """The given width, or the weighted median of the distances."""
    if bandwidth != "median":
        return float(bandwidth)
    order = np.argsort(distances)
    cumulative = np.cumsum(weights[order])
    middle = distances[order][np.searchsorted(cumulative, cumulative[-1] / 2)]
    return float(middle) or float(np.average(distances, weights=weights)) or 1.0
