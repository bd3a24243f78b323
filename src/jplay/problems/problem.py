"""Description of a fit: everything that the solvers need, wherever the samples are."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from jplay._array_api import (
    Array,
    arrays_on_host,
    is_numpy,
    like,
    namespace,
    rows_of,
    to_numpy,
)
from jplay.blocks.containers import is_in_blocks
from jplay.blocks.graph import HeatGraph
from jplay.numerics.discriminant import (
    ClassMoments,
    ShrunkCovariance,
    class_moments,
    overall_moments,
    shrunk_covariance,
    tuned_covariance,
)
from jplay.numerics.rows import FormedRows
from jplay.problems.blocks import SAMPLED_ROWS, described_blocks
from jplay.problems.checks import check_scale
from jplay.problems.first_layer import FirstLayer, first_layer_of
from jplay.problems.graphs import as_graph, build_affinity
from jplay.problems.targets import TargetCode, Targets, encode_real_targets, encode_targets
from jplay.solvers.pretraining import has_full_rank, locality_preserving_projections
from jplay.solvers.samples import ArraySamples, Samples, Statistics
from jplay.solvers.threads import sample_threads


@dataclass(frozen=True, eq=False)
class FitProblem:
    """One fit, described: what :func:`jplay.problems.solve` takes."""

    samples: Samples
    statistics: Statistics
    first_layer: FirstLayer
    dtype: Any
    """Precision of the samples, in which fitted attributes are stored."""
    affinity: Any
    """The graph; ``None`` for samples in blocks, each of which has its own."""
    bandwidth: float | None
    n_neighbors: int = HeatGraph.n_neighbors
    """Neighbours of a sample, as the graph was asked for."""
    code: TargetCode | None = None
    """How targets were encoded; ``None`` without targets."""
    targets: Targets | None = None
    """Encoded targets of samples in memory; blocks keep theirs."""
    rows: Callable[[], tuple[Any, Any]] | None = None
    """Some labelled samples in the solver's coordinates, and their one-hot labels."""
    parts: tuple["FitProblem", ...] = ()
    """The problem of each task by itself, if there are several."""

    @property
    def n_samples(self) -> int:
        return self.statistics.n_samples

    @cached_property
    def moments(self) -> ClassMoments:
        """Class means and covariances in the solver's coordinates; one class without classes."""
        [(X_root, Y_root)] = self.statistics.label_roots
        if self.code is None or self.code.multilabel:
            statistics = self.statistics
            return overall_moments(statistics.X_root, statistics.sample_sum, self.n_samples)
        if self.targets is not None and self.targets.guesses is not None:
            return _guessed_moments(self.samples, self.targets)
        return class_moments(X_root, Y_root, self.code.unit)

    @cached_property
    def covariance(self) -> ShrunkCovariance:
        """The shrunk covariance within classes, by which decisions are made."""
        shrunk = shrunk_covariance(
            self.moments, self.first_layer.basis, self.first_layer.n_features
        )
        if self.code is None or self.code.multilabel or self.rows is None:
            return shrunk
        return tuned_covariance(shrunk, self.moments, *self.rows())

    @cached_property
    def start(self) -> Any:
        """Locality preserving projections, as many as the samples' rank."""
        return locality_preserving_projections(self.statistics)

    @property
    def start_with_intercepts(self) -> Any:
        """Locality preserving projections with the intercepts from which AutoRULe starts.

        Without a constant feature they are :attr:`start`. The projections of centred samples have
        intercepts of zero, up to rounding. There the reconstruction term is at a saddle point: the
        constant feature is its strongest direction, and no feature has a part of it. With a small
        penalty each iteration multiplies that part by up to a thousand, so that rounding would
        decide on the solution. An intercept of one standard deviation makes most features positive.
        """
        constant = self.first_layer.constant_direction(self.start)
        if constant is None:
            return self.start
        features = self.statistics.X_root @ self.start.mT
        deviation = namespace(features).linalg.vector_norm(features, axis=0) / self.n_samples**0.5
        return self.start + deviation[:, None] * constant

    @cached_property
    def _full_rank(self) -> bool:
        return has_full_rank(self.statistics)

    @property
    def rank(self) -> int:
        """Dimension that the samples span around their mean."""
        return self.statistics.n_features if self._full_rank else self.start.shape[0]

    def leading_start(self, n_components: int) -> Any:
        """The first of the locality preserving projections, up to rounding; at least so many."""
        if not self._full_rank:
            return self.start
        return locality_preserving_projections(self.statistics, n_components, full_rank=True)

    def on_host(self) -> "FitProblem":
        """The same with all but the samples themselves in host memory, for small matrices."""
        if is_numpy(self.statistics.X_root):
            return self
        rows = self.rows
        return replace(
            self,
            statistics=arrays_on_host(self.statistics),
            first_layer=arrays_on_host(self.first_layer),
            dtype=to_numpy(namespace(self.statistics.X_root).empty(0, dtype=self.dtype)).dtype,
            rows=rows and (lambda: arrays_on_host(rows())),
        )

    @property
    def labelled_sum(self) -> Any:
        """Weighted sum of the labelled samples, in the solver's coordinates."""
        statistics = self.statistics
        if statistics.task_roots is None:
            return statistics.sample_sum
        [(X_root, _)] = statistics.task_roots
        constant = self.first_layer.constant_direction(X_root)
        if constant is None:
            raise ValueError(
                "`scaling` should be 'standard' if samples lack targets or differ in weight, got "
                "samples that need no intercept. Set scaling='standard'."
            )
        return X_root.mT @ (X_root @ constant)


@contextmanager
def described(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    graph: Any = None,
    scaling: str | None = None,
    unlabelled: Any = None,
    class_weight: Any = None,
    n_components: int | None = None,
    tuned: bool = True,
    real: bool = False,
    reduced: bool = True,
) -> Iterator[FitProblem]:
    """Describe a fit. Inside the context BLAS has as many threads as the problem deserves.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Validated, or a container of blocks, which is validated here.
    y : array of shape (n_samples,) or (n_samples, n_labels), default=None
        ``None`` for a fit without labels.
    sample_weight : array-like of shape (n_samples,), default=None
    graph : HeatGraph, callable, matrix or None, default=None
        A HeatGraph is one of the scaled samples; a function gets the samples as they are.
    scaling : {"standard", "norm"} or None, default=None
    unlabelled : {"auto", -1, None} or Propagation, default=None
    class_weight : None, "balanced" or dict, default=None
    n_components : int, default=None
        About how many, to tell how much work there is.
    tuned : bool, default=True
        Whether the covariance of the decision is tuned by left-out samples. It need not be if
        nothing is decided by it.
    real : bool, default=False
        Whether targets are real numbers, of which NaN are missing, and not labels.
    reduced : bool, default=True
        Whether the solver may work in the row space of the samples if features outnumber them.

    Yields
    ------
    FitProblem
    """
    graph = as_graph(graph)
    n_neighbors = getattr(graph, "n_neighbors", HeatGraph.n_neighbors)
    if is_in_blocks(X):
        with described_blocks(
            X, y, sample_weight, graph, scaling, unlabelled, class_weight, real=real
        ) as description:
            if not tuned:
                description["rows"] = None
            yield FitProblem(affinity=None, n_neighbors=n_neighbors, **description)
        return
    if is_numpy(X):
        # Sums over a table's columns would round otherwise than those over rows.
        X = np.ascontiguousarray(X)
    check_scale(X, scaling)
    targets = None
    if real:
        targets = encode_real_targets(y, sample_weight=sample_weight)
    elif y is not None:
        targets = encode_targets(
            y, unlabelled, sample_weight=sample_weight, class_weight=class_weight
        )
    Y = X[:, :0] if targets is None else like(targets.Y, X)
    with sample_threads(X.shape[0] * X.shape[1] * (n_components or X.shape[1])) as pool:
        first_layer, scaled_X, solver_X = first_layer_of(X, scaling, reduced)
        affinity, bandwidth = build_affinity(scaled_X if isinstance(graph, HeatGraph) else X, graph)
        weight = None if targets is None else targets.weight_like(X)
        samples = ArraySamples(solver_X, Y, affinity, pool, weight)
        yield FitProblem(
            samples=samples,
            statistics=samples.statistics(),
            first_layer=first_layer,
            dtype=X.dtype,
            affinity=affinity,
            bandwidth=bandwidth,
            n_neighbors=n_neighbors,
            code=None if targets is None else targets.code,
            targets=targets,
            rows=partial(_labelled_rows, solver_X, targets) if tuned and targets else None,
        )


def with_parts(problem: FitProblem, parts: Sequence[tuple[Any, Targets]]) -> FitProblem:
    """The same samples and graph with several tasks.

    Parameters
    ----------
    problem : FitProblem
        Without targets, in memory.
    parts : sequence of (rows, Targets)
        Which samples are labelled for each task, and their weighted targets.
    """
    assert isinstance(problem.samples, ArraySamples)
    samples, pool = problem.samples, problem.samples.pool
    described_parts = []
    for rows, targets in parts:
        inside = rows_of(samples.X, rows)
        Y = like(targets.Y, samples.Y)
        labelled = ArraySamples(inside, Y, None, pool, targets.weight_like(Y))
        part = replace(
            problem,
            statistics=replace(problem.statistics, task_roots=(labelled.label_roots(),)),
            code=targets.code,
            targets=targets,
            rows=partial(_labelled_rows, inside, targets),
        )
        described_parts.append(part)
    roots = tuple(part.statistics.label_roots[0] for part in described_parts)
    statistics = replace(problem.statistics, task_roots=roots)
    return replace(problem, statistics=statistics, parts=tuple(described_parts))


def _guessed_moments(samples: Samples, targets: Targets) -> ClassMoments:
    """Moments of classes to which soft labels assign samples, with the soft labels' weights."""
    assert isinstance(samples, ArraySamples)
    weight, Y = targets.weight, like(targets.guesses, samples.Y)
    guessed = ArraySamples(samples.X, Y, None, samples.pool, targets.weight_like(Y))
    unit = float(np.sum(weight**2) / np.sum(weight))
    return class_moments(*guessed.label_roots(), unit)


def _labelled_rows(X: Array | FormedRows, targets: Targets) -> tuple[Array, Array]:
    """Labelled samples in double precision and their labels, at most so many."""
    labelled = targets.labelled if targets.weight is None else targets.weight > 0
    labelled = np.flatnonzero(labelled)
    labelled = labelled[:: -(-len(labelled) // SAMPLED_ROWS)]
    rows = rows_of(X, labelled)
    rows = namespace(rows).astype(rows, namespace(rows).float64)
    return rows, like(targets.Y[labelled], rows)
