"""What is done with one block: pure functions, each returning ``(kept, summary)``.

The arithmetic is that of :class:`~jplay.solvers.samples.ArraySamples`: a block is a small set
of samples in memory, whose multipliers come in and go out instead of staying in an object.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from jplay._array_api import Array, like, namespace, to_numpy
from jplay.blocks.graph import HeatGraph, neighbors
from jplay.blocks.sources import rows_of, samples_of
from jplay.numerics.graph import laplacian_gram, symmetric_affinity
from jplay.numerics.rows import AS_THEY_ARE, RowForm
from jplay.solvers.samples import ArraySamples, Statistics, reduced_rows

_QUANTILES = 1001  # of the distances in one block, from which the common median is found

Margins = tuple[np.ndarray, np.ndarray]
"""First and last rows of a block."""
Neighbors = tuple[np.ndarray, np.ndarray]
"""Indices of the neighbours of every row, and their squared distances."""


@dataclass(frozen=True, eq=False)
class Scan:
    """First look at the samples: what must be known before anything is computed."""

    n_samples: int
    mean: np.ndarray
    """(n_features,)"""
    scatter: np.ndarray
    """(n_features,) sum of squared differences from the mean."""
    lowest: np.ndarray
    """(n_features,)"""
    highest: np.ndarray
    """(n_features,)"""
    targets: Any
    """Summary of the targets, which adds up; ``None`` without targets."""
    invalid: tuple[int, ...]

    def __add__(self, other: "Scan") -> "Scan":
        n_samples = self.n_samples + other.n_samples
        apart = other.mean - self.mean
        share = other.n_samples / n_samples
        with np.errstate(over="ignore"):  # see scan
            scatter = self.scatter + other.scatter + share * self.n_samples * apart**2
        return Scan(
            n_samples,
            self.mean + share * apart,
            scatter,
            np.minimum(self.lowest, other.lowest),
            np.maximum(self.highest, other.highest),
            None if self.targets is None else self.targets + other.targets,
            self.invalid + other.invalid,
        )

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviation of each feature."""
        return np.sqrt(self.scatter / self.n_samples)

    @property
    def rms_norm(self) -> float:
        """Root mean square norm of the samples."""
        return float(np.sqrt((self.scatter / self.n_samples + self.mean**2).sum()))


def scan(
    source: Any,
    target: Any,
    weight: Any,
    block: int,
    *,
    summarize: Callable | None,
    shared: None,
) -> tuple[None, Scan]:
    """Moments of the features, a summary of the targets, and whether all values are finite."""
    X = samples_of(source)
    xp = namespace(X)
    mean = xp.mean(xp.astype(X, xp.float64), axis=0)
    invalid: tuple[int, ...] = () if bool(xp.all(xp.isfinite(mean))) or _all_finite(X) else (block,)
    targets = None
    if summarize is not None:
        targets = summarize(*_targets_of(target, weight))
    with np.errstate(over="ignore"):  # which the extremes tell
        scatter = xp.sum((X - mean) ** 2, axis=0)
    return None, Scan(
        n_samples=X.shape[0],
        mean=to_numpy(mean),
        scatter=to_numpy(scatter),
        lowest=to_numpy(xp.astype(xp.min(X, axis=0), xp.float64)),
        highest=to_numpy(xp.astype(xp.max(X, axis=0), xp.float64)),
        targets=targets,
        invalid=invalid,
    )


def _all_finite(X: Array) -> bool:
    xp = namespace(X)
    return bool(xp.all(xp.isfinite(X)))


def reach(source: Any, *, form: RowForm, shared: Array) -> tuple[None, tuple[float, float]]:
    """Lowest inner product of a sample with the mean ``shared``, and the largest norm."""
    X = samples_of(source, form)
    xp = namespace(X)
    largest = xp.max(xp.linalg.vector_norm(X, axis=1))
    return None, (float(xp.min(X @ like(shared, X))), float(largest))


def reach_of_both(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    return min(a[0], b[0]), max(a[1], b[1])


def labelled_rows(
    source: Any, target: Any, weight: Any, *, form: RowForm, encode: Callable, shared: int
) -> tuple[None, tuple[np.ndarray, np.ndarray]]:
    """Every ``shared``-th sample that has a label, in double precision, with its label."""
    Y, label_weight, labelled = encode(*_targets_of(target, weight))
    chosen = np.flatnonzero(labelled if label_weight is None else label_weight > 0)[::shared]
    X = to_numpy(samples_of(source, form))[chosen].astype(np.float64)
    return None, (X, Y[chosen])


def keep_samples(source: Any, *, shared: RowForm) -> tuple[Array, None]:
    """The samples in memory, in the form ``shared``."""
    return samples_of(source, shared), None


def _targets_of(target: Any, weight: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Targets of one block and the weights of its samples, on the host."""
    y = np.asarray(rows_of(target))
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    return y, _checked_weight(weight, len(y))


def _checked_weight(weight: Any, n_samples: int) -> np.ndarray | None:
    if weight is None:
        return None
    weight = np.asarray(rows_of(weight), dtype=np.float64)
    if weight.shape != (n_samples,) or not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError(
            "`sample_weight` should hold one finite number per sample, none negative, got "
            "a block with others. Negative values in data passed to `sample_weight` are refused."
        )
    return weight


def _with_targets(
    X: Array, target: Any, weight: Any, encode: Callable, affinity: Any
) -> ArraySamples:
    """Samples of one block with its targets, if there are any."""
    if target is None:
        return ArraySamples(X, X[:, :0], affinity)
    Y, label_weight, _ = encode(*_targets_of(target, weight))
    return ArraySamples(X, Y, affinity, label_weight=label_weight)


def margins(source: Any, *, form: RowForm, shared: int) -> tuple[Margins, None]:
    """First and last rows, which the neighbouring blocks need for their graphs."""
    X = to_numpy(samples_of(source, form))
    return (X[:shared].copy(), X[-shared:].copy()), None


def _with_margins(
    X: np.ndarray, before: Margins | None, after: Margins | None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows with those of the neighbouring blocks around them, and which are our own."""
    parts = [() if before is None else before[1], X, () if after is None else after[0]]
    own = np.concatenate([np.full(len(part), part is X) for part in parts])
    return np.concatenate([part for part in parts if len(part)]), own


def block_neighbors(
    source: Any,
    before: Margins | None,
    after: Margins | None,
    *,
    form: RowForm,
    graph: HeatGraph,
    shared: None,
) -> tuple[Neighbors | None, tuple[np.ndarray, np.ndarray]]:
    """Nearest neighbours within a block and its margins; quantiles of the last distances."""
    X, _ = _with_margins(to_numpy(samples_of(source, form)), before, after)
    n_neighbors = min(graph.n_neighbors, len(X) - 1)
    if n_neighbors < 1:
        return None, (np.zeros(0), np.zeros(0))
    indices, squared_distances = neighbors(X, n_neighbors, graph.method)
    farthest = np.sqrt(squared_distances[:, -1])
    levels = np.linspace(0, 1, min(len(farthest), _QUANTILES))
    quantiles = np.quantile(farthest, levels)
    kept = indices.astype(np.int32), squared_distances
    return kept, (quantiles, np.full(len(quantiles), len(farthest) / len(quantiles)))


def concatenate_pairs(a: tuple, b: tuple) -> tuple:
    return tuple(np.concatenate(pair) for pair in zip(a, b, strict=True))


def heat_statistics(
    source: Any,
    target: Any,
    weight: Any,
    found: Neighbors | None,
    before: Margins | None,
    after: Margins | None,
    *,
    form: RowForm,
    encode: Callable,
    shared: float,
) -> tuple[None, Statistics]:
    """Statistics of a block whose neighbours are known, for the bandwidth ``shared``.

    With margins an edge that leaves the block is seen from both sides; each side adds half.
    """
    X = to_numpy(samples_of(source, form))  # the graph lives on the host
    if found is None:
        alone = scipy.sparse.csr_array((1, 1))
        return None, _with_targets(X, target, weight, encode, alone).statistics()
    indices, squared_distances = found
    affinity = symmetric_affinity(indices, np.exp(squared_distances / (-2 * shared**2)))
    if before is None and after is None:
        return None, _with_targets(X, target, weight, encode, affinity).statistics()
    no_edges = scipy.sparse.csr_array((X.shape[0], X.shape[0]))
    plain = _with_targets(X, target, weight, encode, no_edges).statistics()
    scaled = to_numpy(samples_of(source, form.without_constant)).astype(np.float64)
    extended, own = _with_margins(scaled, before, after)
    extended = samples_of(extended, RowForm(constant=form.constant))
    shares = scipy.sparse.diags_array(own / 2)
    affinity = scipy.sparse.csr_array(shares @ affinity + affinity @ shares)
    gram, degree_gram, degree_sum, total_degree = laplacian_gram(extended, affinity)
    return None, replace(
        plain,
        laplacian_gram=gram,
        degree_gram=degree_gram,
        degree_sum=degree_sum,
        total_degree=total_degree,
    )


def given_graph_statistics(
    source: Any,
    target: Any,
    weight: Any,
    *,
    form: RowForm,
    encode: Callable,
    affinity: Callable,
    check: Callable,
    shared: None,
) -> tuple[None, Statistics]:
    """Statistics of a block whose graph a function of its samples returns."""
    X = to_numpy(samples_of(source))
    graph = check(affinity(X), X.shape[0])
    X = samples_of(X, form)
    return None, _with_targets(X, target, weight, encode, graph).statistics()


def _stacked_roots(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    """Roots of the second moments of both."""
    return reduced_rows(*(np.concatenate(pair) for pair in zip(a, b, strict=True)))


def add_statistics(a: Statistics, b: Statistics) -> Statistics:
    X_root, Y_root = _stacked_roots((a.X_root, a.Y_root), (b.X_root, b.Y_root))
    tasks = None
    if a.task_roots is not None and b.task_roots is not None:
        tasks = tuple(map(_stacked_roots, a.task_roots, b.task_roots))
    return replace(
        a,
        X_root=X_root,
        Y_root=Y_root,
        task_roots=tasks,
        **{
            name: getattr(a, name) + getattr(b, name)
            for name in (
                "sample_sum",
                "laplacian_gram",
                "degree_gram",
                "degree_sum",
                "total_degree",
                "n_samples",
            )
        },
    )


def joint_step(
    source: Any,
    points: list[Array] | None,
    *,
    form: RowForm,
    sizes: Sequence[int],
    settings: dict[str, Any],
    shared: tuple[list[Array], Array],
) -> tuple[list[Array], list[np.ndarray]]:
    """One pass through all layers: its new state, and the sums that the solver needs."""
    thetas, dual_scale = shared
    X = samples_of(source, form)
    thetas = [_on_device_of(X, theta) for theta in thetas]
    sweep = ArraySamples(X, None, None).joint_pass(sizes, **settings)
    if points is not None:
        sweep.points = [namespace(point).asarray(point, copy=True) for point in points]
    pulls, gaps = sweep(thetas, dual_scale)
    return sweep.points, [*(to_numpy(pull) for pull in pulls), gaps**2]


def _on_device_of(X: Array, values: Array) -> Array:
    """``values`` in double precision where the samples of the block are."""
    return like(values, X, dtype=namespace(X).float64)


def replayed_joint_steps(source: Any, *, history: list, **settings: Any) -> list[Array] | None:
    """State of the pass over one block from the whole history of projections."""
    X = samples_of(source, settings.pop("form"))
    points = None
    for shared in history:
        points, _ = joint_step(X, points, form=AS_THEY_ARE, shared=shared, **settings)
    return points


def constraint_step(
    source: Any,
    duals: tuple[Array | None, Array | None] | None,
    *,
    form: RowForm,
    n_out: int,
    constraints: dict[str, bool],
    shared: tuple[Array, float, float],
) -> tuple[tuple[Array | None, Array | None], list[np.ndarray]]:
    """One pass over both splits of one layer, see :func:`joint_step`."""
    theta, mu, mu_next = shared
    X = samples_of(source, form)
    sweep = ArraySamples(X, None, None).constraint_pass(n_out, **constraints)
    if duals is not None:
        sweep.dual_pos, sweep.dual_ball = (
            None if dual is None else namespace(dual).asarray(dual, copy=True) for dual in duals
        )
    result = sweep(_on_device_of(X, theta), mu, mu_next)
    errors = np.asarray([result.nonnegativity, result.unit_ball])
    return (sweep.dual_pos, sweep.dual_ball), [to_numpy(result.pull), errors**2]


def replayed_constraint_steps(
    source: Any, *, history: list, **settings: Any
) -> tuple[Array | None, Array | None] | None:
    X = samples_of(source, settings.pop("form"))
    duals = None
    for shared in history:
        duals, _ = constraint_step(X, duals, form=AS_THEY_ARE, shared=shared, **settings)
    return duals


def add_arrays(a: list[np.ndarray], b: list[np.ndarray]) -> list[np.ndarray]:
    return [left + right for left, right in zip(a, b, strict=True)]


def lowest_ratios(source: Any, *, form: RowForm, shared: tuple) -> tuple[None, list[np.ndarray]]:
    X = samples_of(source, form)
    ratios, weight = ArraySamples(X, None, None).lowest_ratios(*shared)
    return None, [*(to_numpy(ratio) for ratio in ratios), np.asarray(weight)]


def lowest_arrays(a: list[np.ndarray], b: list[np.ndarray]) -> list[np.ndarray]:
    return [np.minimum(left, right) for left, right in zip(a, b, strict=True)]


def largest_norms(source: Any, *, form: RowForm, shared: list[Array]) -> tuple[None, np.ndarray]:
    X = samples_of(source, form)
    return None, np.asarray(ArraySamples(X, None, None).largest_norms(shared))


def project(source: Any, *, form: RowForm, shared: Array) -> tuple[Array, None]:
    X = samples_of(source, form)
    return X @ like(shared, X).mT, None


def nothing(a: Any, b: Any) -> None:
    """Combine summaries where there are none."""
