r"""The samples as the solver sees them: blocks of rows, and sums over them.

The solver needs three things of the samples, and all are reductions over blocks of rows:

* second moments, once (:func:`compute_moments`): the objective depends on samples through them;
* one pass per iteration over the constraints (:class:`ConstraintSplit`);
* extremes of the features for the final repair (:func:`find_lowest_ratios`,
  :func:`find_largest_norm`).

Where samples are is known to the blocks and to the two methods of :class:`Samples`, and to nothing
else. Blocks of an array in memory fit into the processor's cache; blocks of a memory map, an HDF5
or a Zarr array are read when they are loaded; blocks of a Dask array stay on their workers.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from jplay.core.arrays import Array, inner, like, namespace, to_numpy

BLOCK_BYTES = 1_000_000
"""Size of a block of NumPy samples. With all that the pass adds to it, a block stays in cache;
between 0.3 and 3 MB the time of a pass changes by a tenth."""


class Block(NamedTuple):
    """Some rows of the inputs with their targets and label weights."""

    X: Array
    """(..., n_rows, n_inputs)"""
    Y: Array
    """(..., n_rows, n_outputs)"""
    weight: Array | None
    """(..., n_rows, n_tasks), zero for samples without a label of the task; ``None`` for ones."""

    def load(self) -> "Block":
        return self


class Samples:
    """Blocks of rows, and how to run a function over them.

    Parameters
    ----------
    blocks : sequence of objects with a method ``load() -> Block``
        A :class:`Block` is one; an object that reads rows from a file is another.
    outputs : tuple of slices, default=(slice(None),)
        Columns of the targets that belong to each task.
    map : callable, default=map
        ``map``, or the method of that name of a pool of threads.
    """

    def __init__(
        self,
        blocks: Sequence[Any],
        outputs: tuple[slice, ...] = (slice(None),),
        map: Callable[..., Iterable] = map,
    ) -> None:
        self.blocks = blocks
        self.outputs = outputs
        self.map = map

    def reduce(
        self, function: Callable[[Block], Any], combine: Callable[[Any, Any], Any] = add
    ) -> Any:
        """Combine ``function(block)`` over all blocks, in order."""
        return reduce(combine, self.map(lambda block: function(block.load()), self.blocks))

    def update(
        self,
        function: Callable[[Block, Any], tuple[Any, Any]],
        states: Sequence[Any],
        combine: Callable[[Any, Any], Any] | None = None,
    ) -> tuple[Sequence[Any], Any]:
        """Apply ``function(block, state)``, which returns a new state and a summary, to all blocks.

        States stay with their blocks. Summaries are combined; lists of arrays are added.
        """
        results = self.map(lambda block, state: function(block.load(), state), self.blocks, states)
        new_states, total = [], None
        for state, summary in results:
            new_states.append(state)
            total = summary if total is None else (combine or add_arrays)(total, summary)
        return new_states, total


def add_arrays(left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
    """Add two lists of arrays, one by one."""
    return [a + b for a, b in zip(left, right, strict=True)]


def split_rows(n_samples: int, n_rows: int) -> list[slice]:
    """Return consecutive slices of up to ``n_rows`` samples, all of about the same size."""
    n_rows = -(-n_samples // max(1, -(-n_samples // n_rows)))
    return [slice(a, min(a + n_rows, n_samples)) for a in range(0, n_samples, n_rows)]


def choose_block_size(n_features: int) -> int:
    """Return the number of NumPy samples in a block that stays in cache."""
    return max(64, BLOCK_BYTES // (8 * n_features))


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over the samples, in double precision. Those of two sets of samples add up."""

    n_samples: Any
    sample_sum: Array
    """``X^T 1``"""
    gram: Array
    """``X^T X``"""
    label_grams: tuple[Array, ...] | None
    """``X^T S X`` with the label weights of each task; ``None`` if all weigh one."""
    cross: Array
    """``Y^T S X``"""
    label_square: Array
    """``tr Y^T S Y``, (..., 1, 1)."""

    def __add__(self, other: "Moments") -> "Moments":
        sums = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, value in sums.items():
            theirs = getattr(other, name)
            if name == "label_grams":
                sums[name] = value and tuple(add_arrays(value, theirs))
            else:
                sums[name] = value + theirs
        return Moments(**sums)

    @property
    def mean(self) -> Array:
        """Mean of the samples, (..., n_inputs)."""
        # The numbers of samples of a stack have shape (..., 1, 1).
        n_samples = self.n_samples
        return self.sample_sum / (n_samples if np.ndim(n_samples) == 0 else n_samples[..., 0])


def compute_moments(samples: Samples) -> Moments:
    """Compute the second moments of all samples."""
    outputs = samples.outputs

    def sum_block(block: Block) -> Moments:
        xp = namespace(block.X)
        X, Y = xp.astype(block.X, xp.float64), xp.astype(block.Y, xp.float64)
        grams, cross, square = None, Y.mT @ X, inner(Y, Y)
        if block.weight is not None:
            weighted = [X * like(block.weight[..., t, None], X) for t in range(len(outputs))]
            parts = [
                Y[..., rows].mT @ X_task for rows, X_task in zip(outputs, weighted, strict=True)
            ]
            grams, cross = tuple(X.mT @ X_task for X_task in weighted), xp.concat(parts, axis=-2)
            square = inner(Y, weigh_outputs(Y, block.weight, outputs))
        return Moments(X.shape[-2], xp.sum(X, axis=-2), X.mT @ X, grams, cross, square)

    return samples.reduce(sum_block)


def weigh_outputs(Y: Array, weight: Array, outputs: tuple[slice, ...]) -> Array:
    """Multiply the targets of each task by the task's label weights."""
    parts = [Y[..., rows] * like(weight[..., t, None], Y) for t, rows in enumerate(outputs)]
    return parts[0] if len(parts) == 1 else namespace(Y).concat(parts, axis=-1)


class ConstraintSplit:
    r"""Split variables :math:`S_l` of the features that satisfy the constraints, and their duals.

    With the features :math:`Z_l = X T_l^T` of layer :math:`l` and a scaled dual :math:`D_l`, a pass
    over the samples sets (compare Algorithm 2, which has one split for each constraint)

    .. math:: V_l = \omega Z_l + (1 - \omega) S_l - D_l, \quad
              S_l \leftarrow \mathrm{proj}(V_l), \quad D_l \leftarrow S_l - V_l

    and sums up the cross-products :math:`(S_l + D_l)^T X`, all that the projections need of the
    splits. The over-relaxation :math:`\omega > 1` lets splits follow the features faster. Only
    :math:`V_l` is kept, from which :math:`S_l` and :math:`D_l` follow.
    """

    def __init__(
        self, samples: Samples, nonnegative: bool, unit_ball: bool, relaxation: float
    ) -> None:
        self.samples = samples
        self.settings = nonnegative, unit_ball, relaxation
        self.points: Sequence[Any] = [() for _ in samples.blocks]

    def update(self, thetas: Sequence[Array], dual_scale: Array) -> tuple[list[Array], Array]:
        """Pass over the samples once.

        Parameters
        ----------
        thetas : sequence of arrays of shape (..., n_out, n_in)
        dual_scale : array of shape (..., 1, 1)
            Factor of the duals: they are in units of the penalty parameter, which has grown.

        Returns
        -------
        split_cross : list of arrays of shape (..., n_out, n_inputs)
        squared_residuals : array of shape (n_layers, ..., 1, 1)
            Squared Frobenius distance of the features of each layer from their split.
        """
        step = SplitStep([*thetas], dual_scale, *self.settings)
        self.points, sums = self.samples.update(step, self.points)
        sums = [like(array, thetas[0]) for array in sums]
        return sums[::2], namespace(thetas[0]).stack(sums[1::2])


@dataclass(frozen=True, eq=False)
class SplitStep:
    """The pass over one block. An object, not a closure, so that it can travel to a cluster."""

    thetas: list[Array]
    dual_scale: Array
    nonnegative: bool
    unit_ball: bool
    relaxation: float

    def __call__(self, block: Block, points: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """Return the points ``V`` of every layer, and what the pass sums up."""
        Z, moved, sums = block.X, [], []
        scale = like(self.dual_scale, Z)
        for layer, theta in enumerate(self.thetas):
            Z = Z @ like(theta, Z).mT
            V = Z  # the first pass of a layer starts without splits and duals
            if layer < len(points):
                S = self.project(points[layer])
                dual = scale * (S - points[layer])
                V = self.relaxation * Z + (1 - self.relaxation) * S - dual
            S = self.project(V)
            residual = S - Z
            moved.append(V)
            sums += [(2 * S - V).mT @ block.X, inner(residual, residual)]
        return moved, sums

    def project(self, V: Array) -> Array:
        """Return the nearest point of both constraint sets.

        Clip at zero (Eq. 14), then shrink rows (Eq. 15): in this order it is exact, since the
        ball is centered at the apex of the cone.
        """
        xp = namespace(V)
        if self.nonnegative:
            V = xp.maximum(V, xp.zeros_like(V[..., :1]))
        if self.unit_ball:
            norms = xp.sqrt(xp.linalg.vecdot(V, V))[..., None]  # faster than `vector_norm`
            V = V / xp.maximum(norms, xp.ones_like(norms))
        return V


def find_lowest_ratios(samples: Samples, theta: Array, direction: Array) -> tuple[Array, Array]:
    """Return the lowest ``(X theta^T) / (X direction^T)`` of every feature, and the lowest divisor.

    Zero samples are left out: they are feasible under every linear map. Where a divisor is not
    positive, one stands for it, so that the ratio has the sign of the feature.

    Parameters
    ----------
    samples : Samples
    theta : array of shape (..., n_out, n_inputs)
    direction : array of shape (..., 1, n_inputs)

    Returns
    -------
    lowest : array of shape (..., n_out, 1)
    divisor : array of shape (..., 1, 1)
    """

    def find_in_block(block: Block) -> list[Array]:
        xp = namespace(block.X)
        w = block.X @ like(direction, block.X).mT
        w = xp.where(xp.any(block.X != 0, axis=-1, keepdims=True), w, xp.ones_like(w))
        divisor = xp.where(w > 0, w, xp.ones_like(w))
        Z = block.X @ like(theta, block.X).mT
        return [xp.min(Z / divisor, axis=-2, keepdims=True), xp.min(w, axis=-2, keepdims=True)]

    def take_lower(left: list[Array], right: list[Array]) -> list[Array]:
        return [namespace(a).minimum(a, b) for a, b in zip(left, right, strict=True)]

    lowest, divisor = samples.reduce(find_in_block, take_lower)
    return like(lowest, theta).mT, like(divisor, theta)


def find_largest_norm(samples: Samples, theta: Array) -> Array:
    """Return the largest norm of a row of ``X theta^T``, of shape (..., 1, 1)."""

    def find_in_block(block: Block) -> Array:
        xp = namespace(block.X)
        norms = xp.linalg.vector_norm(block.X @ like(theta, block.X).mT, axis=-1, keepdims=True)
        return xp.max(norms, axis=-2, keepdims=True)

    def take_larger(left: Array, right: Array) -> Array:
        return namespace(left).maximum(left, right)

    return like(samples.reduce(find_in_block, take_larger), theta)


def collect_rows(
    samples: Samples, n_samples: int, n_rows: int
) -> tuple[Array, Array, Array | None]:
    """Return up to ``n_rows`` evenly spaced labeled samples and their targets in double precision.

    Returns
    -------
    X, Y : arrays
    weight : array of shape (n_rows, n_tasks) or None
    """
    stride = -(-n_samples // n_rows)

    def take_labeled(block: Block) -> tuple[list, list, list]:
        xp = namespace(block.X)
        weight = block.weight
        labeled = xp.ones_like(block.X[:, 0]) > 0 if weight is None else xp.any(weight > 0, axis=1)
        chosen = xp.nonzero(labeled)[0][::stride]
        X = xp.take(xp.astype(block.X, xp.float64), chosen, axis=0)
        Y = xp.take(xp.astype(block.Y, xp.float64), chosen, axis=0)
        return [X], [Y], [] if weight is None else [xp.take(weight, chosen, axis=0)]

    def join(left: tuple, right: tuple) -> tuple:
        return tuple(a + b for a, b in zip(left, right, strict=True))

    X, Y, weight = samples.reduce(take_labeled, join)
    xp = namespace(X[0])
    return xp.concat(X), xp.concat(Y), xp.concat(weight) if weight else None


def gather_features(samples: Samples, theta: Array) -> np.ndarray:
    """Return ``X theta^T`` of all samples in host memory."""
    rows = samples.reduce(lambda block: [to_numpy(block.X @ like(theta, block.X).mT)])
    return np.concatenate(rows)
