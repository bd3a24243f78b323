"""Containers of samples that come in, and the blocks of rows that they fall into."""

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from jplay._optional import import_optional
from jplay.blocks.sources import Slice, Subgraph

_BLOCK_BYTES = 64 * 2**20
_MEMORY_SHARE = 0.25  # of the memory there is; more samples than that are read in blocks


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

    def sources(self) -> list[Slice]:
        return [Slice(self.array, a, b) for a, b in zip(self.edges, self.edges[1:], strict=False)]


def blocked(
    array: Any, rows: int | None = None, *, scratch: str | os.PathLike | None = None
) -> BlockedArray:
    """Samples that are to be fitted in blocks of rows, without a cluster.

    Parameters
    ----------
    array : array of shape (n_samples, n_features)
        A NumPy memory map, a Zarr or HDF5 array, or anything that is sliced like them.
    rows : int, default=None
        Rows of each block. ``None`` means about 64 MiB, in whole chunks of ``array`` where
        it has chunks.
    scratch : path, default=None
        Folder for what the solver keeps with each block (for every sample as many numbers as
        all layers have outputs together). ``None`` keeps it in memory.

    Returns
    -------
    BlockedArray
        To be passed to ``JPlay.fit`` and to ``transform`` and ``predict``.

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
        rows = max(1, _BLOCK_BYTES // max(1, row_bytes * step)) * step
    elif rows < 1:
        raise ValueError(f"`rows` should be at least 1, got {rows}.")
    edges = (*range(0, n_samples, rows), n_samples)
    return BlockedArray(array, edges, scratch)


def is_in_blocks(X: Any) -> bool:
    """Whether ``X`` is to be read in blocks, told without importing what holds it."""
    package = type(X).__module__.partition(".")[0]
    return (
        isinstance(X, BlockedArray)
        or package in ("dask", "dask_expr", "zarr")
        or (package == "xarray" and getattr(X, "chunks", None) is not None)
        or (isinstance(X, np.memmap) and not fits_in(X.nbytes, physical_memory()))
    )


def physical_memory() -> float:
    """Bytes of memory of this machine; unlimited if it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return np.inf


def fits_in(n_bytes: float, memory: float) -> bool:
    """Whether samples of that size are kept in a memory of that size."""
    return n_bytes <= _MEMORY_SHARE * memory


def is_dask_array(array: Any) -> bool:
    return type(array).__module__.startswith("dask.array")


def unwrapped(X: Any) -> Any:
    """The Dask, Zarr or blocked array inside ``X``, with features in one chunk."""
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


def check_known_chunks(array: Any, name: str) -> None:
    if any(math.isnan(size) for size in array.shape):
        raise ValueError(
            f"`{name}` should have known chunk sizes, got shape {array.shape}. Call "
            f"{name}.compute_chunk_sizes() first."
        )


def block_sizes(X: Any) -> list[int]:
    """Number of rows of every block that has any."""
    sizes = X.chunks[0] if is_dask_array(X) else np.diff(X.edges)
    return [int(size) for size in sizes if size]


def rows_like(y: Any, X: Any, name: str) -> Any:
    """Targets or weights ``y``, called ``name``, in the same blocks as ``X``."""
    if type(y).__module__.startswith("xarray"):
        y = y.data
    if not is_dask_array(y):
        y = y.array if isinstance(y, BlockedArray) else y
        if not hasattr(y, "shape"):
            y = np.asarray(y)
    else:
        check_known_chunks(y, name)
    if y.shape[0] != X.shape[0]:
        raise ValueError(
            f"`{name}` should have {X.shape[0]} rows (the number of samples in `X`), got "
            f"{y.shape[0]}."
        )
    if len(y.shape) == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if not is_dask_array(y):
        return BlockedArray(y, (0, *np.cumsum(block_sizes(X)).tolist()))
    if block_sizes(y) != block_sizes(X):
        raise ValueError(
            f"`{name}` should have the chunks of `X` along the samples, "
            f"{_shortened(block_sizes(X))}, got {_shortened(block_sizes(y))}. Use "
            f"{name}.rechunk({{0: X.chunks[0]}})."
        )
    return y.rechunk({1: -1}) if y.ndim == 2 else y


def _shortened(sizes):
    listed = ", ".join(str(size) for size in sizes[:4])
    return f"({listed}, ...; {len(sizes)} chunks)" if len(sizes) > 4 else f"({listed})"


def dask_sources(array: Any) -> list[Subgraph]:
    """One self-contained subgraph per block of a Dask array."""
    dask = import_optional("dask", feature="A fit on Dask arrays", extra="dask")
    cull = import_optional("dask.optimization", feature="Dask arrays", extra="dask").cull
    (array,) = dask.optimize(array)
    tasks = dict(array.__dask_graph__())
    return [Subgraph(cull(tasks, [key])[0], key) for key in _block_keys(array)]


def _block_keys(array):
    """Keys of the blocks that have rows."""
    keys = [key if array.ndim == 1 else key[0] for key in array.__dask_keys__()]
    return [key for key, size in zip(keys, array.chunks[0], strict=True) if size]


def dask_blocks(array: Any) -> list:
    """One ``Delayed`` per block that has rows."""
    blocks = array.to_delayed().reshape(array.numblocks[0])
    return [block for block, size in zip(blocks, array.chunks[0], strict=True) if size]
