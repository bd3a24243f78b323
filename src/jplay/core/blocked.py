"""Samples in blocks of rows: memory maps, HDF5 and Zarr arrays, Dask arrays, also on a cluster.

Nothing but :class:`~.samples.Samples` differs: the solver, the repair and the decision are those of
samples in memory. Targets are in memory. Each block has a separate neighbor graph, joined to those
of the blocks before and after it where :class:`~.graph.HeatGraph` says so.
"""

import math
import os
import pickle
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_array_api_obj

from jplay._array_api import arrays_on_host
from jplay._optional import import_optional
from jplay.core.arrays import Array, is_numpy, to_numpy
from jplay.core.checks import check_scale
from jplay.core.graph import (
    GraphMoments,
    HeatGraph,
    build_block_graph,
    check_affinity,
    check_edges,
    choose_bandwidth,
    find_block_neighbors,
    sum_over_edges,
)
from jplay.core.problem import Problem, RowSlice, SourceBlock
from jplay.core.samples import Block, Samples, add_arrays, compute_moments
from jplay.core.scaling import FeatureRange, InputTransform, fit_transform, measure_range
from jplay.core.targets import Targets
from jplay.core.threads import sample_threads

BLOCK_BYTES = 64 * 2**20
"""Default size of a block that is read at a time."""
MEMORY_FRACTION = 0.25
"""Fraction of the memory that samples may occupy to be kept in it; more are read in every pass."""
PATIENCE_SECONDS = 30.0
"""Time without a result after which a cluster is asked whether it still has workers."""


@dataclass(frozen=True, eq=False)
class BlockedArray:
    """Rows that are read in blocks, see :func:`blocked`."""

    array: Any
    edges: tuple
    scratch: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def ndim(self) -> int:
        return len(self.array.shape)

    def split(self) -> list[RowSlice]:
        """Return one source per block that has rows."""
        return [RowSlice(self.array, slice(a, b)) for a, b in pairwise(self.edges) if b > a]


def blocked(
    array: Any, rows: int | None = None, *, scratch: str | os.PathLike | None = None
) -> BlockedArray:
    """Mark samples that are to be fitted in blocks of rows, without a cluster.

    Parameters
    ----------
    array : array of shape (n_samples, n_features)
        A NumPy memory map, a Zarr or HDF5 array, or anything that is sliced like them.
    rows : int, default=None
        Rows of each block. ``None`` means about 64 MiB, in whole chunks of ``array`` where
        it has chunks.
    scratch : path, default=None
        Folder for the solver's state of each block (for every sample as many numbers as all
        layers have outputs together). ``None`` keeps it in memory.

    Returns
    -------
    BlockedArray
        For ``JPlay.fit``, ``transform`` and ``predict``.

    Examples
    --------
    >>> import numpy as np
    >>> from jplay import JPlay
    >>> from jplay.blocks import blocked
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> JPlay(10, n_layers=1).fit(blocked(X / 64, rows=500), y).components_.shape
    (10, 64)
    """
    n_samples = array.shape[0]
    if rows is None:
        chunk = getattr(array, "chunks", None)
        step = chunk[0] if chunk else 1
        row_bytes = math.prod(array.shape[1:]) * np.dtype(array.dtype).itemsize
        rows = max(1, BLOCK_BYTES // max(1, row_bytes * step)) * step
    elif rows < 1:
        raise ValueError(f"`rows` should be at least 1, got {rows}.")
    edges = (*range(0, n_samples, rows), n_samples)
    return BlockedArray(array, edges, scratch)


def is_in_blocks(X: Any) -> bool:
    """Return whether ``X`` is to be read in blocks, without importing its library."""
    package = type(X).__module__.partition(".")[0]
    return (
        isinstance(X, BlockedArray)
        or package in ("dask", "dask_expr", "zarr")
        or (package == "xarray" and getattr(X, "chunks", None) is not None)
        or (isinstance(X, np.memmap) and not fits_in(X.nbytes, find_memory()))
    )


def find_memory() -> float:
    """Return the bytes of memory of this machine; infinity if it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return np.inf


def fits_in(n_bytes: float, memory: float) -> bool:
    """Return whether samples of that size are kept in a memory of that size."""
    return n_bytes <= MEMORY_FRACTION * memory


def is_dask_array(array: Any) -> bool:
    return type(array).__module__.startswith("dask.array")


def unwrap(X: Any) -> Any:
    """Return the Dask or blocked array inside ``X``, with all features in one chunk."""
    if type(X).__module__.startswith("xarray"):
        X = X.data
    elif hasattr(X, "to_dask_array"):
        raise TypeError(
            f"`X` should be an array, got {type(X).__name__}. Pass X.to_dask_array(lengths=True)."
        )
    if not is_dask_array(X):
        return X if isinstance(X, BlockedArray) else blocked(X)
    if X.ndim != 2:
        raise ValueError(
            f"`X` should have 2 dimensions (samples and features), got {X.ndim}. Reshape it, "
            "for example an image of shape (rows, columns, bands) with .reshape(-1, bands)."
        )
    return X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X


def check_rows(y: Any, X: Any, name: str) -> Any:
    """Return targets or weights ``y``, called ``name``, in memory; one row per sample of ``X``."""
    if type(y).__module__.startswith("xarray"):
        y = y.data
    if is_dask_array(y):
        check_known_chunks(y, name)
        y = y.compute()
    elif isinstance(y, BlockedArray) or type(y).__module__.startswith("zarr"):
        y = np.asarray(getattr(y, "array", y)[:])
    X = unwrap(X)
    if is_dask_array(X):
        check_known_chunks(X, "X")
    if not hasattr(y, "shape"):
        y = np.asarray(y)
    if y.shape[:1] != X.shape[:1]:
        raise ValueError(
            f"`{name}` should have {X.shape[0]} rows (the number of samples in `X`), got "
            f"{y.shape[0] if y.ndim else 'a number'}."
        )
    return y


def check_weight_rows(sample_weight: Any, X: Any) -> Any:
    """Return the weights of samples in blocks in memory; those of others are checked later."""
    if sample_weight is None or not is_in_blocks(X):
        return sample_weight
    return check_rows(sample_weight, X, "sample_weight")


def check_in_host_memory(**arrays: Any) -> None:
    """Raise a ``ValueError`` if an array is in blocks, or of a library other than NumPy."""
    for name, array in arrays.items():
        if is_in_blocks(array):
            raise ValueError(
                f"`{name}` should be an array in memory, got samples in blocks. Fit a part of "
                "them; `predict` takes blocks."
            )
        if is_array_api_obj(array) and not is_numpy(array):
            raise ValueError(
                f"`{name}` should be a NumPy array, a table or a list, got an array of another "
                "library. Copy it to host memory."
            )


def check_known_chunks(array: Any, name: str) -> None:
    if any(math.isnan(size) for size in array.shape):
        raise ValueError(
            f"`{name}` should have known chunk sizes, got shape {array.shape}. Call "
            f"{name}.compute_chunk_sizes() first."
        )


def find_block_sizes(X: Any) -> list[int]:
    """Return the number of rows of every block that has any."""
    sizes = X.chunks[0] if is_dask_array(X) else np.diff(X.edges)
    return [int(size) for size in sizes if size]


@dataclass(frozen=True, eq=False)
class DaskBlock:
    """A block of a Dask array, computed by the thread that loads it."""

    array: Any

    def load(self) -> Any:
        return self.array.compute(scheduler="synchronous")


class DiskSamples(Samples):
    """Samples whose states are kept in files between the passes.

    Parameters
    ----------
    folder : path
        Removed states leave no file behind.
    """

    def __init__(self, blocks: Sequence[Any], folder: str | os.PathLike, map: Callable) -> None:
        super().__init__(blocks, map=map)
        self.folder = folder

    def update(
        self, function: Callable, states: Sequence[Any], combine: Callable | None = None
    ) -> tuple[Sequence[Any], Any]:
        def load_and_store(block: Block, state: Any) -> tuple[Any, Any]:
            state = state.load() if isinstance(state, StoredState) else state
            new_state, summary = function(block, state)
            return StoredState(new_state, self.folder), summary

        return super().update(load_and_store, states, combine)


class StoredState:
    """State of one block in a file, removed when nothing refers to it any more."""

    def __init__(self, value: Any, folder: str | os.PathLike) -> None:
        with tempfile.NamedTemporaryFile(dir=os.fspath(folder), delete=False) as file:
            pickle.dump(value, file, protocol=5)
        self.path = Path(file.name)
        weakref.finalize(self, self.path.unlink, missing_ok=True)

    def load(self) -> Any:
        return pickle.loads(self.path.read_bytes())


class ClusterSamples(Samples):
    """Blocks on the workers of a ``distributed.Client``: states stay there, summaries come back.

    Every result is a task that depends on the tasks before it and on nothing scattered. So if a
    worker is lost, the scheduler makes its blocks and their states again on another one.

    Parameters
    ----------
    blocks : list of futures of blocks
    client : distributed.Client
    homes : list of str
        Worker of every block, on which its tasks run as long as it is there.
    """

    def __init__(self, blocks: Sequence[Any], client: Any, homes: Sequence[str]) -> None:
        super().__init__(blocks)
        self.client = client
        self.homes = homes

    def reduce(self, function: Callable, combine: Callable = add) -> Any:
        results = self._map(partial(reduce_block, function), self.blocks)
        return self._collect(results, combine)

    def update(
        self, function: Callable, states: Sequence[Any], combine: Callable | None = None
    ) -> tuple[Sequence[Any], Any]:
        # The function contains the projections: it is one task, and travels once per worker.
        shared = self.client.submit(Shared, function, pure=False)
        results = self._map(update_block, self.blocks, states, [shared] * len(self.blocks))
        return results, self._collect(results, combine or add_arrays)

    def _map(self, function: Callable, *columns: Sequence[Any]) -> list[Any]:
        """Return futures of a function of every block, on the worker where the block is."""
        futures: list[Any] = [None] * len(self.homes)
        for home in dict.fromkeys(self.homes):
            members = [i for i, place in enumerate(self.homes) if place == home]
            of_home = ([column[i] for i in members] for column in columns)
            submitted = self.client.map(
                function, *of_home, workers=[home], allow_other_workers=True, pure=False
            )
            for i, future in zip(members, submitted, strict=True):
                futures[i] = future
        return futures

    def _collect(self, results: Sequence[Any], combine: Callable) -> Any:
        """Combine the summaries of each worker there, a few at a time, and fetch one from each.

        What travels does not grow with the number of blocks, and no worker holds many summaries.
        """

        def fold_on(home: str, members: Sequence[Any]) -> Any:
            return self.client.submit(
                fold,
                combine,
                members,
                workers=[home],
                allow_other_workers=True,
                priority=10,  # before the next block
                pure=False,
            )

        totals = []
        for home in dict.fromkeys(self.homes):
            members = [r for r, place in zip(results, self.homes, strict=True) if place == home]
            starts = range(0, len(members), GROUP_SIZE)
            groups = [fold_on(home, members[i : i + GROUP_SIZE]) for i in starts]
            totals.append(fold_on(home, groups))
        wait_for(self.client, totals)
        return reduce(combine, (total[1] for total in self.client.gather(totals)))


GROUP_SIZE = 8
"""Number of summaries that are combined in one task."""


@dataclass(frozen=True, eq=False)
class Shared:
    """A value in the memory of the workers that is passed to tasks."""

    value: Any


def reduce_block(function: Callable, block: Any) -> "BlockResult":
    return BlockResult(None, function(load_block(block)))


def update_block(block: Any, state: Any, function: Shared) -> "BlockResult":
    if isinstance(state, BlockResult):
        state = state.state
    return BlockResult(*function.value(load_block(block), state))


def load_block(block: Any) -> Block:
    """Load a block, or the block that an earlier task has left as its state."""
    return (block.state if isinstance(block, BlockResult) else block).load()


class BlockResult(NamedTuple):
    """What the task of one block leaves on its worker."""

    state: Any
    summary: Any


def fold(combine: Callable, results: list[BlockResult]) -> BlockResult:
    """Combine the summaries of several blocks."""
    return BlockResult(None, reduce(combine, (result[1] for result in results)))


def wait_for(client: Any, futures: Sequence[Any]) -> None:
    """Wait as long as there are workers; without one tasks would wait forever."""
    distributed = import_optional("distributed", feature="A Dask cluster", extra="dask")
    while True:
        try:
            distributed.wait(futures, timeout=PATIENCE_SECONDS)
        except TimeoutError:
            find_workers(client)
        else:
            return


def find_workers(client: Any) -> dict:
    """Return the scheduler's knowledge of its workers, or raise if there are none."""
    workers = client.scheduler_info(n_workers=-1).get("workers")
    if not workers:
        raise ConnectionError(CLUSTER_LOST.format("no worker"))
    return workers


@contextmanager
def translate_cluster_errors() -> Iterator[None]:
    """Turn the errors that a lost scheduler causes in Dask into one clear error."""
    distributed = import_optional("distributed", feature="A Dask cluster", extra="dask")
    try:
        yield
    except (CancelledError, distributed.comm.CommClosedError) as error:
        raise ConnectionError(CLUSTER_LOST.format("no scheduler")) from error


CLUSTER_LOST = (
    "The Dask cluster has {} any more, and the fit ended. Start a cluster, connect a client to it "
    "and fit again."
)


def find_client() -> Any:
    """Return the ``distributed.Client`` that Dask would use now, or ``None``."""
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


MakeSamples = Callable[[InputTransform | None, Targets | None], Samples]
"""Function of a transform and the targets that returns samples in blocks."""


@contextmanager
def open_blocks(X: Any) -> Iterator[MakeSamples]:
    """Open the blocks of ``X``, which are kept in memory if they fit.

    Yields
    ------
    make_samples : callable
    """
    with ExitStack() as stack:
        client = find_client() if is_dask_array(X) else None
        if client is not None:
            stack.enter_context(translate_cluster_errors())
            yield open_cluster(X, client)
            return
        pool = stack.enter_context(sample_threads(X.shape[0] * X.shape[1] ** 2))
        over_threads = map if pool is None else pool.map
        kept = False
        sources: list[Any]
        if is_dask_array(X):
            kept = fits_in(X.nbytes, find_memory())
            X = X.persist() if kept else X
            sources = [DaskBlock(X.blocks[i]) for i, n in enumerate(X.chunks[0]) if n]
        else:
            sources = list(X.split())
        scratch = getattr(X, "scratch", None)
        slices = slice_rows(find_block_sizes(X))

        def make_samples(transform: InputTransform | None, targets: Targets | None) -> Samples:
            blocks: list[Any] = [
                SourceBlock(source, targets and targets.take(rows), transform)
                for source, rows in zip(sources, slices, strict=True)
            ]
            if kept:
                blocks = [block.load() for block in blocks]
            if scratch is not None:
                return DiskSamples(blocks, scratch, over_threads)
            return Samples(blocks, map=over_threads)

        yield make_samples


def open_cluster(X: Any, client: Any) -> MakeSamples:
    """Return the function that makes samples of a Dask array on a cluster."""
    distributed = import_optional("distributed", feature="A Dask cluster", extra="dask")
    workers = find_workers(client)
    memory = sum(worker["memory_limit"] or find_memory() for worker in workers.values())
    kept = bool(distributed.client.futures_of(X)) or fits_in(X.nbytes, memory)
    parts = [part for part, n in zip(X.to_delayed()[:, 0], X.chunks[0], strict=True) if n]
    # Neighboring blocks together, or where the blocks are already.
    names, n_blocks = sorted(workers), len(parts)
    homes = [names[i * len(names) // n_blocks] for i in range(n_blocks)]
    sources: list[Any] = [DaskBlock(X.blocks[i]) for i, n in enumerate(X.chunks[0]) if n]
    if kept:
        sources = client.compute(parts)
        wait_for(client, sources)
        for source in sources:
            if source.status == "error":
                source.result()  # raises what the block raised
        holders = client.who_has(sources)
        homes = [holders[source.key][0] for source in sources]
    slices = slice_rows(find_block_sizes(X))

    def make_samples(transform: InputTransform | None, targets: Targets | None) -> Samples:
        parts = [targets and targets.take(rows) for rows in slices]
        # Targets are in this process and have to travel once: no reason for a warning.
        dask = import_optional("dask", feature="A Dask cluster", extra="dask")
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            blocks = [
                client.submit(
                    make_block,
                    source,
                    part,
                    transform,
                    kept,
                    workers=[home],
                    allow_other_workers=True,
                    pure=False,
                )
                for source, part, home in zip(sources, parts, homes, strict=True)
            ]
        return ClusterSamples(blocks, client, homes)

    return make_samples


def make_block(source: Any, targets: Any, transform: Any, keep: bool) -> Any:
    """Return a block on a worker; its inputs are kept in memory or made whenever it is loaded."""
    block = SourceBlock(source, targets, transform)
    return block.load() if keep else block


def slice_rows(sizes: Sequence[int]) -> list[slice]:
    """Return the rows of consecutive blocks of these sizes."""
    edges = np.cumsum([0, *sizes]).tolist()
    return [slice(a, b) for a, b in pairwise(edges)]


@contextmanager
def prepare_blocks(
    X: Any,
    targets: Targets | None,
    *,
    graph: Any = None,
    scaling: str | None = None,
    reduce_features: bool = True,
    n_components: int | None = None,
) -> Iterator[Problem]:
    """Prepare the problem of samples in blocks, see :func:`jplay.core.problem.prepare`.

    Features are never replaced by coordinates of the row space.
    """
    X = unwrap(X)
    if is_dask_array(X):
        check_known_chunks(X, "X")
    if len(X.shape) != 2:
        raise ValueError(f"`X` should have 2 dimensions, got shape {tuple(X.shape)}.")
    if X.shape[0] < 2:
        raise ValueError(f"`X` should have at least 2 samples, got {X.shape[0]}.")
    graph = HeatGraph() if graph is None else graph
    check_block_graph(graph, X)
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    with open_blocks(X) as make_samples:
        rows = make_samples(None, None)
        check_range(rows.reduce(lambda block: measure_range(block.X)), rows, X, scaling)

        def reduce_rows(function: Callable[[Array], Any], combine: Callable = add) -> Any:
            return rows.reduce(lambda block: function(block.X), combine)

        transform = fit_transform(reduce_rows, X.shape[1], scaling, dtype).fold_unit()
        samples = make_samples(transform, targets)
        if isinstance(graph, HeatGraph):
            edges, bandwidth = sum_heat_edges(samples, graph, transform)
        else:
            edges, bandwidth = sum_function_edges(rows, graph, transform), None
        yield Problem(
            samples=samples,
            moments=arrays_on_host(compute_moments(samples)),
            edges=edges,
            transform=transform,
            targets=targets,
            bandwidth=bandwidth,
            dtype=dtype,
        )


def check_block_graph(graph: Any, X: Any) -> None:
    """Raise if blocks cannot have the graph."""
    if not callable(graph):
        raise ValueError(
            "`graph` should be a HeatGraph or a function of a block's samples for samples in "
            f"blocks, got {type(graph).__name__}. A matrix over all samples does not fall into "
            "blocks."
        )
    largest = max(find_block_sizes(X))
    if isinstance(graph, HeatGraph) and largest <= graph.n_neighbors:
        raise ValueError(
            f"`n_neighbors` should be less than {largest} (the rows of the largest "
            f"block of `X`), got {graph.n_neighbors}. Rechunk `X` into larger blocks."
        )


def check_range(extremes: FeatureRange, rows: Samples, X: Any, scaling: str | None) -> None:
    """Raise if values are not finite, or out of range."""
    if not np.isfinite(extremes.magnitudes).all():
        invalid = rows.reduce(lambda block: [not np.isfinite(to_numpy(block.X)).all()])
        edges = np.cumsum([0, *find_block_sizes(X)])
        first = invalid.index(True)
        raise ValueError(
            f"Input X contains NaN or infinity in {sum(invalid)} of {len(invalid)} blocks, "
            f"first in block {first} (rows {edges[first]} to {edges[first + 1] - 1}). "
            "Drop these samples or fill them, for example with sklearn.impute.SimpleImputer."
        )
    check_scale(np.concatenate([extremes.lowest, extremes.highest]), scaling, power=0.4)


def sum_heat_edges(
    samples: Samples, graph: HeatGraph, transform: InputTransform
) -> tuple[GraphMoments, float]:
    """Build the graph of every block, and sum its moments; return the common bandwidth too."""
    n_features, overlap = transform.n_features, graph.overlap
    # The rows of the blocks before and after that overlap, with the inputs of the first layer.
    around = [(None, None)] * len(samples.blocks)
    if overlap:
        margins = samples.reduce(
            lambda block: [(to_numpy(block.X[:overlap, :]), to_numpy(block.X[-overlap:, :]))]
        )
        heads, tails = zip(*margins, strict=True)
        around = list(zip([None, *tails[:-1]], [*heads[1:], None], strict=True))

    def extend(block: Block, margins: tuple) -> tuple[np.ndarray, slice]:
        """Return the rows of a block between its margins, and where the block is."""
        before, after = margins
        parts = [part for part in (before, to_numpy(block.X), after) if part is not None]
        start = 0 if before is None else len(before)
        return np.concatenate(parts), slice(start, start + block.X.shape[0])

    def find_neighbors(block: Block, margins: tuple) -> tuple[tuple, tuple]:
        neighbors, distances = find_block_neighbors(
            extend(block, margins)[0][:, :n_features], graph
        )
        return (neighbors, margins), distances

    def concatenate(left: tuple, right: tuple) -> tuple:
        return tuple(np.concatenate(pair) for pair in zip(left, right, strict=True))

    states, distances = samples.update(find_neighbors, around, concatenate)
    bandwidth = choose_bandwidth(graph.bandwidth, *distances)

    def sum_edges(block: Block, state: tuple) -> tuple[None, GraphMoments]:
        neighbors, margins = state
        inputs, own = extend(block, margins)
        return None, sum_over_edges(inputs, build_block_graph(neighbors, bandwidth, own))

    _, edges = samples.update(sum_edges, states, add)
    check_edges(edges.total_degree, bandwidth)
    return edges, bandwidth


def sum_function_edges(rows: Samples, graph: Callable, transform: InputTransform) -> GraphMoments:
    """Sum the moments of the graphs that a function of each block's samples returns."""

    def sum_block(block: Block) -> GraphMoments:
        X = to_numpy(block.X)
        return sum_over_edges(transform.apply(X), check_affinity(graph(X), len(X)))

    return rows.reduce(sum_block)
