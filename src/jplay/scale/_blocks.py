"""What is done with one block: pure functions, each returning ``(kept, summary)``.

The arithmetic is that of :class:`~jplay.solvers.samples.ArraySamples`: a block is a small set
of samples in memory, whose multipliers come in and go out instead of staying in an object.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from jplay._array_api import like, namespace, to_numpy
from jplay.numerics.graph import laplacian_gram, symmetric_affinity
from jplay.scale._sources import rows_of, samples_of
from jplay.scale.graph import neighbors
from jplay.solvers.samples import ArraySamples, reduced_rows

_QUANTILES = 1001  # of the distances in one block, from which the common median is found


@dataclass(frozen=True)
class Scan:
    """First look at the samples: what must be known before anything is computed."""

    n_samples: int
    sample_sum: Any
    largest_norm: float
    magnitude: float
    classes: Any
    invalid: tuple

    def __add__(self, other):
        return Scan(
            self.n_samples + other.n_samples,
            self.sample_sum + other.sample_sum,
            max(self.largest_norm, other.largest_norm),
            max(self.magnitude, other.magnitude),
            np.union1d(self.classes, other.classes),
            self.invalid + other.invalid,
        )


def scan(source, target, block, *, shared):
    """Sums, norms, the classes that occur, and whether all values are finite."""
    X = samples_of(source)
    xp = namespace(X)
    total = xp.sum(X, axis=0, dtype=xp.float64)
    invalid = () if bool(xp.all(xp.isfinite(total))) or _all_finite(X) else (block,)
    y = np.asarray(rows_of(target))
    return None, Scan(
        n_samples=X.shape[0],
        sample_sum=to_numpy(total),
        largest_norm=float(xp.max(xp.linalg.vector_norm(X, axis=1))),
        magnitude=max(float(xp.max(X)), -float(xp.min(X))),
        classes=np.unique(y),
        invalid=invalid,
    )


def _all_finite(X):
    xp = namespace(X)
    return bool(xp.all(xp.isfinite(X)))


def lowest_product(source, *, shared):
    """Lowest inner product of a sample with the mean ``shared``."""
    X = samples_of(source)
    return None, float(namespace(X).min(X @ like(shared, X)))


def keep_samples(source, *, shared):
    """The samples in memory, with the constant ``shared`` as a further feature."""
    return samples_of(source, shared), None


def indicator(y, classes, multilabel):
    """Indicator matrix of one block."""
    y = np.asarray(y)
    if not multilabel:
        y = y.ravel()[:, None] == classes
    return y.astype(np.float64)


def margins(source, *, shared):
    """First and last rows, which the neighbouring blocks need for their graphs."""
    X = to_numpy(samples_of(source))
    return (X[:shared].copy(), X[-shared:].copy()), None


def _with_margins(X, before, after):
    """Rows with those of the neighbouring blocks around them, and which are our own."""
    parts = [() if before is None else before[1], X, () if after is None else after[0]]
    own = np.concatenate([np.full(len(part), part is X) for part in parts])
    return np.concatenate([part for part in parts if len(part)]), own


def block_neighbors(source, before, after, *, graph, shared):
    """Nearest neighbours within a block and its margins; quantiles of the last distances."""
    X, _ = _with_margins(to_numpy(samples_of(source)), before, after)
    n_neighbors = min(graph.n_neighbors, len(X) - 1)
    if n_neighbors < 1:
        return None, (np.zeros(0), np.zeros(0))
    indices, squared_distances = neighbors(X, n_neighbors, graph.method)
    farthest = np.sqrt(squared_distances[:, -1])
    levels = np.linspace(0, 1, min(len(farthest), _QUANTILES))
    quantiles = np.quantile(farthest, levels)
    kept = indices.astype(np.int32), squared_distances
    return kept, (quantiles, np.full(len(quantiles), len(farthest) / len(quantiles)))


def concatenate_pairs(a, b):
    return tuple(np.concatenate(pair) for pair in zip(a, b, strict=True))


def heat_statistics(source, target, found, before, after, *, constant, encode, shared):
    """Statistics of a block whose neighbours are known, for the bandwidth ``shared``.

    With margins an edge that leaves the block is seen from both sides; each side adds half.
    """
    X = to_numpy(samples_of(source, constant))  # the graph lives on the host
    Y = encode(rows_of(target))
    if found is None:
        return None, ArraySamples(X, Y, scipy.sparse.csr_array((1, 1))).statistics()
    indices, squared_distances = found
    affinity = symmetric_affinity(indices, np.exp(squared_distances / (-2 * shared**2)))
    if before is None and after is None:
        return None, ArraySamples(X, Y, affinity).statistics()
    n_samples = X.shape[0]
    plain = ArraySamples(X, Y, scipy.sparse.csr_array((n_samples, n_samples))).statistics()
    extended, own = _with_margins(to_numpy(samples_of(source)).astype(np.float64), before, after)
    if constant is not None:
        extended = np.concatenate([extended, np.full((len(extended), 1), constant)], axis=1)
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


def given_graph_statistics(source, target, *, constant, encode, affinity, check, shared):
    """Statistics of a block whose graph a function of its samples returns."""
    X = to_numpy(samples_of(source))
    graph = check(affinity(X), X.shape[0])
    X = samples_of(X, constant)
    Y = encode(rows_of(target))
    return None, ArraySamples(X, Y, graph).statistics()


def add_statistics(a, b):
    X_root, Y_root = reduced_rows(
        np.concatenate([a.X_root, b.X_root]), np.concatenate([a.Y_root, b.Y_root])
    )
    return replace(
        a,
        X_root=X_root,
        Y_root=Y_root,
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


def joint_step(source, duals, *, constant, sizes, constraints, shared):
    """One pass through all layers: new multipliers, and the sums that the solver needs."""
    thetas, dual_scale = shared
    X = samples_of(source, constant)
    thetas = [_on_device_of(X, theta) for theta in thetas]
    sweep = ArraySamples(X, None, None).joint_pass(sizes, **constraints)
    if duals is not None:
        sweep.duals = [namespace(dual).asarray(dual, copy=True) for dual in duals]
    pulls, gaps = sweep(thetas, dual_scale)
    return sweep.duals, [*(to_numpy(pull) for pull in pulls), gaps**2]


def _on_device_of(X, values):
    """``values`` in double precision where the samples of the block are."""
    return like(values, X, dtype=namespace(X).float64)


def replayed_joint_steps(source, *, history, **settings):
    """Multipliers of one block from the whole history of projections."""
    X = samples_of(source, settings.pop("constant"))
    duals = None
    for shared in history:
        duals, _ = joint_step(X, duals, constant=None, shared=shared, **settings)
    return duals


def constraint_step(source, duals, *, constant, n_out, constraints, shared):
    """One pass over both splits of one layer, see :func:`joint_step`."""
    theta, mu, mu_next = shared
    X = samples_of(source, constant)
    sweep = ArraySamples(X, None, None).constraint_pass(n_out, **constraints)
    if duals is not None:
        sweep.dual_pos, sweep.dual_ball = (
            None if dual is None else namespace(dual).asarray(dual, copy=True) for dual in duals
        )
    result = sweep(_on_device_of(X, theta), mu, mu_next)
    errors = np.asarray([result.nonnegativity, result.unit_ball])
    return (sweep.dual_pos, sweep.dual_ball), [to_numpy(result.pull), errors**2]


def replayed_constraint_steps(source, *, history, **settings):
    X = samples_of(source, settings.pop("constant"))
    duals = None
    for shared in history:
        duals, _ = constraint_step(X, duals, constant=None, shared=shared, **settings)
    return duals


def add_arrays(a, b):
    return [left + right for left, right in zip(a, b, strict=True)]


def lowest_ratios(source, *, constant, shared):
    X = samples_of(source, constant)
    ratios, weight = ArraySamples(X, None, None).lowest_ratios(*shared)
    return None, [*(to_numpy(ratio) for ratio in ratios), np.asarray(weight)]


def lowest_arrays(a, b):
    return [np.minimum(left, right) for left, right in zip(a, b, strict=True)]


def largest_norms(source, *, constant, shared):
    X = samples_of(source, constant)
    return None, np.asarray(ArraySamples(X, None, None).largest_norms(*shared))


def project(source, *, constant, shared):
    X = samples_of(source, constant)
    return X @ like(shared, X).mT, None


def nothing(a, b):
    """Combine summaries where there are none."""
