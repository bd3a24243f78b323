"""Samples that are read in blocks: memory maps, HDF5, Zarr, Dask.

Nothing but the blocks differs: the solver, the repair and the decision go through
:class:`.samples.Samples` as they do in memory. Targets are in memory (one small number per sample).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from jplay.core.arrays import Array
from jplay.core.graph import build_heat_graph, sum_over_edges
from jplay.core.samples import Block, Samples
from jplay.core.scaling import InputMap, standardize


@dataclass(frozen=True)
class RowsOfFile:
    """Rows ``start`` to ``stop`` of anything that is sliced like an array, read when asked for."""

    array: Any
    start: int
    stop: int
    Y: np.ndarray
    weight: np.ndarray | None = None
    input_map: InputMap | None = None

    def load(self) -> Block:
        rows = slice(self.start, self.stop)
        X = np.asarray(self.array[rows], dtype=np.float64)
        X = X if self.input_map is None else self.input_map.apply(X)
        return Block(X, self.Y[rows], None if self.weight is None else self.weight[rows])


def split_rows(array: Any, rows: int, Y: np.ndarray, weight=None, input_map=None) -> Samples:
    """Samples in blocks of so many rows."""
    starts = range(0, array.shape[0], rows)
    stops = [min(start + rows, array.shape[0]) for start in starts]
    return Samples([RowsOfFile(array, a, b, Y, weight, input_map) for a, b in zip(starts, stops)])


def fit_inputs(samples: Samples) -> InputMap:
    """Standard scaling and a constant feature, by three passes over the samples."""
    n_samples = samples.reduce(lambda block: len(block.X))
    mean = samples.reduce(lambda block: block.X.sum(axis=0)) / n_samples
    squares = samples.reduce(lambda block: ((block.X - mean) ** 2).sum(axis=0))
    lowest = samples.reduce(lambda block: block.X.min(axis=0), np.minimum)
    highest = samples.reduce(lambda block: block.X.max(axis=0), np.maximum)
    input_map = InputMap(*standardize(mean, np.sqrt(squares / n_samples), lowest, highest))
    constant = samples.reduce(
        lambda block: np.linalg.norm(input_map.rescale(block.X), axis=1).max(), max
    )
    return InputMap(input_map.shift, input_map.scale, float(constant))


def sum_over_block_edges(samples: Samples, n_neighbors: int) -> list[Array]:
    """Moments of a graph in which every block has its own neighbours."""

    def of_block(block: Block) -> list[Array]:
        graph, _ = build_heat_graph(block.X, n_neighbors)
        return [*sum_over_edges(block.X, graph)]

    return samples.reduce(of_block, lambda left, right: [a + b for a, b in zip(left, right)])


class ClusterSamples(Samples):
    """Blocks on the workers of a ``distributed.Client``: states stay there, sums come back."""

    def __init__(self, blocks: list, client: Any) -> None:
        super().__init__(client.scatter(blocks), client.map)
        self.client = client

    def reduce(self, function: Callable, combine: Callable = add) -> Any:
        results = self.client.map(lambda block: function(block.load()), self.blocks, pure=False)
        return reduce(combine, self.client.gather(results))

    def update(self, function: Callable, states: list) -> tuple[list, list[Array]]:
        pairs = self.client.map(lambda b, s: function(b.load(), s), self.blocks, states, pure=False)
        sums = self.client.gather(self.client.map(lambda pair: pair[1], pairs, pure=False))
        total = reduce(lambda left, right: [a + b for a, b in zip(left, right)], sums)
        return self.client.map(lambda pair: pair[0], pairs, pure=False), total
