"""What the solver is given: the samples, their moments, those of their graph, and a start."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from jplay.core.arrays import Array, is_numpy, like, namespace
from jplay.core.checks import check_scale
from jplay.core.graph import GraphMoments, build_graph, sum_over_edges
from jplay.core.objective import LabelMoments
from jplay.core.samples import (
    Block,
    Moments,
    Samples,
    choose_block_size,
    compute_moments,
    split_rows,
)
from jplay.core.scaling import InputTransform, TransformedRows, transform_inputs
from jplay.core.start import compute_lpp
from jplay.core.targets import Targets
from jplay.core.threads import sample_threads


@dataclass(frozen=True, eq=False)
class Problem:
    """One fit, or a stack of fits with further axes in front."""

    samples: Samples
    moments: Moments
    edges: GraphMoments
    transform: InputTransform
    targets: Any = None
    """The :class:`.targets.Targets`; ``None`` without labels."""
    graph: Any = None
    """``None`` for samples in blocks, which have one graph each."""
    bandwidth: float | None = None
    dtype: Any = None
    """Precision of the samples, in which fitted attributes are stored."""
    inputs: Any = None
    """(n_samples, n_inputs) inputs of the first layer; ``None`` for samples in blocks."""

    @cached_property
    def start(self) -> Array:
        """(rank, n_inputs) locality preserving projections."""
        return compute_lpp(self.edges, self.moments.mean)

    @cached_property
    def start_with_intercepts(self) -> Array:
        """Locality preserving projections with the intercepts from which AutoRULe starts.

        Without a constant feature they are :attr:`start`. The projections of centered samples have
        intercepts of zero, up to rounding. There the reconstruction term is at a saddle point: the
        constant feature is its strongest direction, and no feature has a part of it. With a small
        penalty parameter each iteration multiplies that part by up to a thousand, so that rounding
        would decide on the solution. An intercept of one standard deviation makes most features
        positive.
        """
        constant = self.transform.find_constant(self.start)
        if constant is None:
            return self.start
        xp, moments = namespace(self.start), self.moments
        square = xp.sum((self.start @ moments.gram) * self.start, axis=1) / moments.n_samples
        deviation = xp.sqrt(xp.maximum(square, 0 * square))
        return self.start + deviation[:, None] * constant[None, :]

    @property
    def rank(self) -> int:
        """Dimension that the samples span around their mean."""
        return self.start.shape[-2]

    @property
    def quadratics(self) -> tuple[Array, Array, LabelMoments]:
        """``A``, ``M`` and the label moments of the inputs, see :mod:`.objective`."""
        moments = self.moments
        labels = LabelMoments(
            moments.label_grams, moments.cross, self.samples.outputs, moments.label_square
        )
        return moments.gram, self.edges.laplacian_gram, labels


@contextmanager
def prepare(
    X: Array,
    targets: Targets | None,
    *,
    graph: Any = None,
    scaling: str | None = None,
    reduce_features: bool = True,
    n_components: int | None = None,
) -> Iterator[Problem]:
    """Prepare the problem of samples in memory.

    Inside the context BLAS has one thread, and blocks of samples are spread over as many threads as
    the problem is large enough for.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    targets : Targets or None
    graph : HeatGraph, callable, matrix or None, default=None
        ``None`` connects every scaled sample with its ten nearest neighbors.
    scaling : {"standard", "norm"} or None, default=None
    reduce_features : bool, default=True
        Whether the row space may replace features that outnumber samples.
    n_components : int, default=None
        Approximate dimension of the subspace, from which the amount of work follows.

    Yields
    ------
    Problem
    """
    if is_numpy(X):
        X = np.ascontiguousarray(X)  # sums over a table's columns would round otherwise
    check_scale(X, scaling)
    with sample_threads(X.shape[0] * X.shape[1] * (n_components or X.shape[1])) as pool:
        transform, scaled, inputs = transform_inputs(X, scaling, reduce_features=reduce_features)
        graph, bandwidth = build_graph(X, scaled, graph)
        samples = split_samples(inputs, targets, map if pool is None else pool.map)
        yield Problem(
            samples=samples,
            moments=compute_moments(samples),
            edges=sum_over_edges(inputs, graph),
            transform=transform,
            targets=targets,
            graph=graph,
            bandwidth=bandwidth,
            dtype=X.dtype,
            inputs=inputs,
        )


@dataclass(frozen=True, eq=False)
class RowSlice:
    """Rows of anything that is sliced like an array, read when loaded."""

    array: Any
    rows: slice

    def load(self) -> Array:
        # Strict libraries want an index for every axis, files know the first only.
        on_device = is_array_api_obj(self.array) and not is_numpy(self.array)
        return self.array[self.rows, :] if on_device else self.array[self.rows]


@dataclass(frozen=True, eq=False)
class SourceBlock:
    """A block of samples: where its rows come from, their transform and their targets."""

    source: Any
    """An array, or an object with a method ``load`` that returns one."""
    targets: Targets | None
    """Targets of these rows."""
    transform: InputTransform | None = None
    """Input transform, unless the rows are inputs already."""

    def load(self) -> Block:
        X = self.source.load() if hasattr(self.source, "load") else self.source
        xp = namespace(X)
        if X.dtype not in (xp.float32, xp.float64):
            X = xp.astype(X, xp.float64)
        if self.transform is not None:
            X = self.transform.apply(X)
        if self.targets is None:
            return Block(X, X[:, :0], None)
        Y, weight = self.targets.encode()
        return Block(X, like(Y, X), None if weight is None else like(weight, X))


def split_samples(
    inputs: Any, targets: Targets | None, map: Callable[..., Iterable] = map
) -> Samples:
    """Join inputs and targets in memory into blocks.

    Blocks of NumPy samples stay in cache; their inputs may be transformed, and indicators of
    classes are made, whenever a block is loaded.
    """
    in_cache = is_numpy(inputs) or isinstance(inputs, TransformedRows)
    n_samples, n_features = inputs.shape
    blocks: list[Any] = [
        SourceBlock(RowSlice(inputs, rows), targets and targets.take(rows))
        for rows in split_rows(n_samples, choose_block_size(n_features) if in_cache else n_samples)
    ]
    if not isinstance(inputs, TransformedRows):
        blocks = [block.load() for block in blocks]
    return Samples(blocks, map=map)


def replace_targets(problem: Problem, targets: Targets) -> Problem:
    """Return the problem of the same inputs and graph, in memory, with other targets."""
    samples = split_samples(problem.inputs, targets, problem.samples.map)
    return replace(problem, samples=samples, moments=compute_moments(samples), targets=targets)
