"""Approximate nearest neighbours on any device: only the cells near a sample's own are searched."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from jplay._array_api import (
    Array,
    in_host_memory,
    like,
    namespace,
    rows_of,
    smallest_per_row,
    to_numpy,
    zeros_like_shape,
)

SPARE_CANDIDATES = 6  # re-ranked by exact distance, so that rounding decides no tie
_DEVICE_BLOCK = 2**28  # elements at a time; 1 GiB in single precision
_HOST_BLOCK = 2**22  # nearer to what a cache holds
# In units of the square root of the number of samples: then the two parts of the work, finding
# cells and searching them, grow alike. All samples of a cell search the same candidates, so that a
# cell should be small beside them: here it is one of 256 that are searched.
_CELLS = 4
_CANDIDATES = 64
_CELL_SIZE = 64  # at least, on average: the candidates of a cell are read once for all of it
_SAMPLES_PER_CELL = 16  # that place the centres
_ROUNDS = 5


def nearest_of(
    X: Array, samples: Array, candidates: Array, n_neighbors: int
) -> tuple[Array, Array]:
    """The nearest candidates of each sample but itself; the first of those equally distant."""
    xp = namespace(X)
    candidates = xp.sort(candidates, axis=1)
    neighbors = xp.take(X, xp.reshape(candidates, (-1,)), axis=0)
    differences = xp.reshape(xp.astype(neighbors, xp.float64), (*candidates.shape, X.shape[1]))
    differences -= xp.astype(xp.take(X, samples, axis=0), xp.float64)[:, None, :]
    squares = xp.sum(differences * differences, axis=2)
    itself = candidates == samples[:, None]
    squares = xp.where(itself, like(np.inf, squares), squares)
    order = xp.argsort(squares, axis=1, stable=True)[:, :n_neighbors]
    nearest = xp.take_along_axis(candidates, order, axis=1)
    return nearest, xp.take_along_axis(squares, order, axis=1)


def _rows_at_a_time(reference: Array, row_elements: int) -> int:
    """How many rows of so many elements make a block."""
    block = _HOST_BLOCK if in_host_memory(reference) else _DEVICE_BLOCK
    return max(1, block // row_elements)


def _single(X: Array) -> Array:
    """Samples in single precision, centred and scaled so that it holds their squares.

    The last of their columns is free, and zero.
    """
    xp = namespace(X)
    n_samples, n_features = X.shape
    mean = xp.mean(X, axis=0)
    unit = max(float(xp.max(xp.max(X, axis=0) - mean)), float(xp.max(mean - xp.min(X, axis=0))))
    Z = zeros_like_shape((n_samples, n_features + 1), X, dtype=xp.float32)
    block = _rows_at_a_time(X, n_features)
    for start in range(0, n_samples, block):
        rows = slice(start, min(start + block, n_samples))
        Z[rows, :-1] = xp.astype((X[rows, :] - mean) / (unit or 1.0), xp.float32)
    return Z


def _distances(left: Array, right: Array) -> Array:
    """Squared distances of rows, less the squared norm of the first: ``|y|^2 - 2 x.y``."""
    xp = namespace(left)
    left = xp.concat([-2 * left, xp.ones_like(left[:, :1])], axis=1)
    right = xp.concat([right, xp.sum(right * right, axis=1, keepdims=True)], axis=1)
    return left @ right.mT


@dataclass(frozen=True, eq=False)
class _Cells:
    """Samples in the order of their cells; a cell with many is cut into several."""

    centres: Array
    """(n_cells, n_features + 1), centred and scaled as the samples are"""
    samples: Array
    """(n_samples,)"""
    starts: np.ndarray
    """(n_cells,) places of the first samples"""
    sizes: np.ndarray
    """(n_cells,)"""


def _nearest_centres(rows: Array, centres: Array) -> tuple[Array, Array]:
    """The nearest centre of each row, and its squared distance less the row's squared norm."""
    nearest, scores = smallest_per_row(_distances(rows, centres), 1)
    return nearest[:, 0], scores[:, 0]


def _centres(Z: Array, n_cells: int) -> Array:
    """Means of cells by Lloyd's algorithm on some samples, which are drawn in a fixed way."""
    xp = namespace(Z)
    n_drawn = min(Z.shape[0], n_cells * _SAMPLES_PER_CELL)
    drawn = rows_of(Z, np.random.default_rng(0).choice(Z.shape[0], n_drawn, replace=False))
    centres = drawn[:n_cells, :]
    numbers = like(np.arange(n_cells), Z, dtype=xp.int64)
    block = _rows_at_a_time(Z, n_cells)
    for _ in range(_ROUNDS):
        sums, counts = zeros_like_shape(centres.shape, Z), zeros_like_shape((n_cells, 1), Z)
        for start in range(0, n_drawn, block):
            rows = drawn[start : min(start + block, n_drawn), :]
            nearest, _ = _nearest_centres(rows, centres)
            # Sums by a product: always in the same order, unlike those by atomic operations.
            members = xp.astype(nearest[None, :] == numbers[:, None], Z.dtype)
            sums = sums + members @ rows
            counts = counts + xp.sum(members, axis=1, keepdims=True)
        filled = counts > 0
        centres = xp.where(filled, sums / xp.where(filled, counts, xp.ones_like(counts)), centres)
    return centres


def _cells(Z: Array, n_cells: int, most: int) -> _Cells:
    """Cells of at most ``most`` samples, none empty."""
    xp = namespace(Z)
    n_samples = Z.shape[0]
    centres = _centres(Z, n_cells)
    block = _rows_at_a_time(Z, n_cells)
    found = []
    for start in range(0, n_samples, block):
        rows = Z[start : min(start + block, n_samples), :]
        nearest, scores = _nearest_centres(rows, centres)
        found.append((nearest, scores + xp.sum(rows * rows, axis=1)))
    cells, squares = (xp.concat(list(parts)) for parts in zip(*found, strict=True))
    # A cell that has to be cut holds many copies of a sample, since centres start where samples
    # are. In the order of distance from the centre, copies stay apart from the others.
    order = xp.argsort(squares, stable=True)
    order = xp.take(order, xp.argsort(xp.take(cells, order), stable=True))
    sizes = np.bincount(to_numpy(cells), minlength=n_cells)
    n_parts = -(-sizes // most)
    cell = np.repeat(np.arange(n_cells), n_parts)
    part = np.arange(len(cell)) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
    starts = (np.cumsum(sizes) - sizes)[cell] + part * most
    return _Cells(
        rows_of(centres, cell), order, starts, np.minimum(sizes[cell] - part * most, most)
    )


def _candidates(cells: _Cells, batch: np.ndarray, n_candidates: int) -> Array:
    """Equally many samples for each of some cells: its own, then those of the nearest cells."""
    xp = namespace(cells.centres)

    def whole(values: np.ndarray) -> Array:
        return like(values, cells.centres, dtype=xp.int64)

    n_cells, shape = len(cells.sizes), (len(batch), n_candidates)
    scores = _distances(rows_of(cells.centres, batch), cells.centres)
    itself = whole(batch)[:, None] == whole(np.arange(n_cells))[None, :]
    scores = xp.where(itself, like(-np.inf, scores), scores)
    order = xp.reshape(xp.argsort(scores, axis=1, stable=True), (-1,))
    lengths = xp.reshape(xp.take(whole(cells.sizes), order), (len(batch), n_cells))
    ends = xp.cumulative_sum(lengths, axis=1)
    # Which cell holds the j-th candidate is asked for all rows at once: each row of ``ends`` ends
    # with the number of samples, so that with these steps they are one rising sequence.
    steps = (cells.samples.shape[0] + 1) * whole(np.arange(len(batch)))[:, None]
    places = xp.broadcast_to(whole(np.arange(n_candidates))[None, :], shape)
    holder = xp.searchsorted(
        xp.reshape(ends + steps, (-1,)), xp.reshape(places + steps, (-1,)), side="right"
    )
    first = xp.take(whole(cells.starts), xp.take(order, holder))
    within = xp.reshape(places, (-1,)) - xp.take(xp.reshape(ends - lengths, (-1,)), holder)
    return xp.reshape(xp.take(cells.samples, first + within), shape)


def _nearest_in_cells(
    Z: Array, samples: Array, candidates: Array, centres: Array, n_kept: int
) -> Array:
    """Nearest candidates of the samples of some cells, in no particular order.

    Seen from the centre of their cell, samples have norms not much larger than their distances,
    which rounding therefore leaves alone.
    """
    xp = namespace(Z)

    def seen(chosen: Array) -> Array:
        rows = xp.reshape(
            xp.take(Z, xp.reshape(chosen, (-1,)), axis=0), (*chosen.shape, Z.shape[1])
        )
        rows -= centres[:, None, :]
        return rows

    left, right = -2 * seen(samples), seen(candidates)
    left[..., -1] = 1.0
    right[..., -1] = xp.sum(right * right, axis=2)
    scores = xp.reshape(left @ right.mT, (-1, candidates.shape[1]))
    kept, _ = smallest_per_row(scores, n_kept)
    kept = xp.take_along_axis(candidates, xp.reshape(kept, (candidates.shape[0], -1)), axis=1)
    return xp.reshape(kept, (-1, n_kept))


def _batches(cells: _Cells, row_elements: int, cell_elements: int) -> Iterator[np.ndarray]:
    """Cells of like size, as many at a time as fit in a block, the largest first."""
    order = np.argsort(-cells.sizes, kind="stable")
    while len(order):
        elements = max(int(cells.sizes[order[0]]) * row_elements, cell_elements)
        batch, order = np.split(order, [_rows_at_a_time(cells.centres, elements)])
        yield batch


def cell_neighbors(
    X: Array, n_neighbors: int, *, n_cells: int | None = None, n_candidates: int | None = None
) -> tuple[Array, Array]:
    """Nearest neighbours of every sample among those of the nearest cells, where ``X`` lives.

    Samples are put into cells around the centres of k-means. Those of a cell have the same
    candidates: its samples and those of the cells around it, always as many, so that several
    cells make one stack of matrix products. Candidates are found in single precision, about the
    centre of the cell; distances are recomputed in double. Nothing depends on chance: the first
    centres are drawn with a fixed seed.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    n_neighbors : int
        Less than ``n_samples``.
    n_cells : int, default=None
        ``None`` means four times the square root of ``n_samples``, and 64 samples per cell at
        least.
    n_candidates : int, default=None
        Samples that are compared with each; ``None`` means 64 times that square root.

    Returns
    -------
    indices : array of shape (n_samples, n_neighbors), int64
        Sorted by distance, the sample itself left out.
    squared_distances : array of shape (n_samples, n_neighbors), float64
    """
    xp = namespace(X)
    n_samples, n_features = X.shape
    root = n_samples**0.5
    n_cells = min(n_samples, n_cells or max(1, int(min(_CELLS * root, n_samples / _CELL_SIZE))))
    n_kept = min(n_samples, n_neighbors + 1 + SPARE_CANDIDATES)
    n_candidates = min(n_samples, max(n_kept, n_candidates or int(_CANDIDATES * root)))
    row_elements = max(n_candidates, n_kept * n_features)
    most = max(_CELL_SIZE, min(n_candidates // 8, _rows_at_a_time(X, row_elements)))
    Z = _single(X)
    cells = _cells(Z, n_cells, most)
    found = []
    for batch in _batches(cells, row_elements, n_candidates * (n_features + 1)):
        # Cells with fewer samples than the first of the batch repeat their last one.
        sizes, numbers = cells.sizes[batch, None], np.arange(cells.sizes[batch[0]])
        places = cells.starts[batch, None] + np.minimum(numbers, sizes - 1)
        samples = rows_of(cells.samples, places.ravel())
        candidates = _candidates(cells, batch, n_candidates)
        kept = _nearest_in_cells(
            Z, xp.reshape(samples, places.shape), candidates, rows_of(cells.centres, batch), n_kept
        )
        once = np.flatnonzero(numbers < sizes)
        samples, kept = rows_of(samples, once), rows_of(kept, once)
        found.append((samples, *nearest_of(X, samples, kept, n_neighbors)))
    samples, indices, squares = (xp.concat(list(parts)) for parts in zip(*found, strict=True))
    order = xp.argsort(samples)
    return xp.take(indices, order, axis=0), xp.take(squares, order, axis=0)
