r"""What the solvers know about samples: their statistics and the pass over the constraints.

A solver never sees an array with one row per sample. It asks a :class:`Samples` object for
its :class:`Statistics` once, and for one pass over the constraints whose state (the
multipliers, one per sample, output and split) lives with the samples. Arrays in memory, blocks
on disk and arrays on a cluster are implementations of the same two operations.

**Why this is enough.** The smooth terms of Eq. 6 depend on samples through second moments. The
inequality splits do not, but all that the update of a projection needs of a split :math:`S` and
its multiplier is one product with the samples, :math:`(\mu S + \Lambda)^T X`, of the size of the
projection: what travels between solver and samples does not grow with their number.

**The published pass** (:class:`ConstraintPass`) updates both splits of one layer (Algorithm 2,
steps 6 to 8). In units of ``mu``, with :math:`Z = X \Theta^T` and a multiplier :math:`\Lambda`,

.. math::

    V = \mu Z - \Lambda, \quad q = \mu\, \mathrm{proj}(V / \mu), \quad \Lambda \leftarrow q - V,

since :math:`\Lambda + \mu (Q - Z) = q - V` for the split :math:`Q = q / \mu`. The split itself need
not be kept: the next update wants :math:`\mu' Q + \Lambda = (\mu' / \mu) q + \Lambda`, which the
pass multiplies with the samples while the block is in cache.

**The joint pass** (:class:`JointPass`) goes through all layers, with one split each on both
constraint sets at once and a multiplier :math:`D = \Lambda / \mu`: :math:`V = Z - D`,
:math:`S = \mathrm{proj}(V)`, :math:`D \leftarrow S - V`; the solver gets :math:`(S + D)^T X`. With
relaxation :math:`\omega` it goes beyond the features, :math:`\omega Z + (1 - \omega) S` with the
last split in place of :math:`Z`. Split and multiplier both follow from :math:`V`, which is all that
is kept between passes.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from jplay._array_api import Array, fused, is_numpy, like, namespace, to_numpy, zeros_like_shape
from jplay.numerics.eigen import range_basis
from jplay.numerics.graph import laplacian_gram, neighbor_laplacian_gram
from jplay.numerics.prox import project_constraints, project_nonnegative, project_unit_ball
from jplay.numerics.rows import FormedRows, row_blocks

T = TypeVar("T")

_ROOT_ROWS = 8192  # rows of one QR factorisation: far more than columns, yet a few megabytes
_FEW_TIMES = 4  # rows per column up to which a factorisation costs more than the rows themselves
_DEVICE_ROWS = 1_000_000  # rows that are copied to double precision at a time
_BLOCK_BYTES = 300_000  # of one (block, n_out) array: the pass keeps about five in cache


@dataclass(frozen=True, eq=False)
class Statistics:
    """Second moments of samples, labels and graph; all that the smooth updates need.

    Always float64, whatever the samples' dtype: they are small. Those of a stack of problems have
    one axis more, the first, and one number per problem in the place of numbers.
    """

    X_root: Array
    """Rows ``R_X`` with ``R_X^T R_X = X^T X``, see ``Y_root``: few, or the samples if these are."""
    Y_root: Array
    """``R_Y`` with ``R_Y^T R_Y = Y^T Y`` and ``R_X^T R_Y = X^T Y``.

    Every update but the two projections depends on the samples through these moments alone,
    so it is carried out on the few rows of the roots, without squaring their condition.
    """
    sample_sum: Array
    """``X^T 1``."""
    laplacian_gram: Array
    """``X^T L X``."""
    degree_gram: Array
    """``X^T D X``."""
    degree_sum: Array
    """``X^T D 1``."""
    total_degree: Any
    n_samples: Any
    task_roots: tuple[tuple[Array, Array], ...] | None = None
    """Roots as above of each task's labelled samples, times the square root of their label weight.

    ``None`` for one task, if all samples are labelled and weigh one.
    """

    @property
    def label_roots(self) -> tuple[tuple[Array, Array], ...]:
        """The roots that the prediction loss of each task is made of."""
        return self.task_roots or ((self.X_root, self.Y_root),)

    @property
    def n_features(self) -> int:
        return self.sample_sum.shape[-1]

    def of_problem(self, number: int) -> "Statistics":
        """Those of one problem of a stack."""

        def pick(array: Array) -> Array:
            return array[number, ...]

        return Statistics(
            X_root=pick(self.X_root),
            Y_root=pick(self.Y_root),
            sample_sum=pick(self.sample_sum),
            laplacian_gram=pick(self.laplacian_gram),
            degree_gram=pick(self.degree_gram),
            degree_sum=pick(self.degree_sum),
            total_degree=float(self.total_degree[number]),
            n_samples=int(self.n_samples[number]),
            task_roots=self.task_roots and tuple((pick(X), pick(Y)) for X, Y in self.task_roots),
        )

    def reduced(self) -> "Statistics":
        """The same with no more rows than columns in the roots, for solvers that use them often."""
        X_root, Y_root = reduced_rows(self.X_root, self.Y_root)
        task_roots = self.task_roots and tuple(reduced_rows(X, Y) for X, Y in self.task_roots)
        return replace(self, X_root=X_root, Y_root=Y_root, task_roots=task_roots)

    def projected(self, theta: Array) -> "Statistics":
        """Statistics of ``X Theta^T``, without looking at the samples again."""
        X_root, Y_root = reduced_rows(self.X_root @ theta.mT, self.Y_root)
        return Statistics(
            X_root=X_root,
            Y_root=Y_root,
            sample_sum=theta @ self.sample_sum,
            laplacian_gram=theta @ self.laplacian_gram @ theta.mT,
            degree_gram=theta @ self.degree_gram @ theta.mT,
            degree_sum=theta @ self.degree_sum,
            total_degree=self.total_degree,
            n_samples=self.n_samples,
            task_roots=self.task_roots
            and tuple(reduced_rows(X @ theta.mT, Y) for X, Y in self.task_roots),
        )


def reduced_rows(X: Array, Y: Array) -> tuple[Array, Array]:
    """Rows with the same second moments as those of ``(X, Y)``, no more than columns.

    With the QR decomposition ``[X, Y] = Q R`` the rows of ``R`` have them, since ``Q^T Q = I``. The
    moments themselves are never formed, which would square their condition.
    """
    xp = namespace(X)
    n_features = X.shape[1]
    if X.shape[0] <= n_features + Y.shape[1]:
        return X, Y
    both = xp.concat([X, Y], axis=1)
    root: Array = np.linalg.qr(both, mode="r") if is_numpy(both) else xp.linalg.qr(both)[1]
    return root[:, :n_features], root[:, n_features:]


def gram_roots(X: Array, Y: Array) -> tuple[Array, Array]:
    """Roots of the second moments of ``(X, Y)`` by one product, in blocks, in float64.

    ``diag(s)^1/2 V^T`` is a root of ``V diag(s) V^T``. Faster on a device than a QR decomposition
    of many rows, at the price of half of the digits in directions with tiny moments.
    """
    xp = namespace(X)
    gram: Array = 0
    for start in range(0, X.shape[0], _DEVICE_ROWS):
        rows = slice(start, min(start + _DEVICE_ROWS, X.shape[0]))
        both = xp.astype(xp.concat([X[rows, :], Y[rows, :]], axis=1), xp.float64)
        gram = gram + both.mT @ both
    values, vectors = range_basis(gram)
    root = (vectors * xp.sqrt(values)).mT
    return root[:, : X.shape[1]], root[:, X.shape[1] :]


class PassResult(NamedTuple):
    """What one pass over the samples sends back."""

    pull: Array
    """``w^T X`` (n_out, n_features): what both inequality splits add to the next update."""
    nonnegativity: float
    """Frobenius distance of the projected samples from the non-negative split."""
    unit_ball: float
    """Frobenius distance of the projected samples from the unit-ball split."""


class ConstraintPass(Protocol):
    """One pass over both inequality splits; keeps their multipliers between calls."""

    def __call__(self, theta: Array, mu: float, mu_next: float) -> PassResult: ...


class Samples(Protocol):
    """Samples, their labels and their graph, wherever they are stored."""

    def statistics(self) -> Statistics: ...

    def constraint_pass(
        self, n_out: int, *, nonnegative: bool, unit_ball: bool
    ) -> ConstraintPass: ...

    def projected(self, theta: Array) -> "Samples": ...

    def joint_pass(
        self,
        layer_sizes: Sequence[int],
        *,
        nonnegative: bool,
        unit_ball: bool,
        relaxation: float = 1.0,
    ) -> "JointPass": ...

    def lowest_ratios(self, thetas: list[Array], direction: Array) -> tuple[list[Array], float]: ...

    def largest_norms(self, thetas: list[Array]) -> list[float]: ...


class JointPass(Protocol):
    """One pass through all layers at once; keeps one scaled multiplier per layer.

    Called with the projections and the factor by which the multipliers shrink since the
    penalty grew. A chain may have more layers than in the call before: the new ones start without
    split and multiplier. Returns ``(split + multiplier)^T X`` for every layer and the Frobenius
    distance of each layer's features from their split, in host memory.
    """

    def __call__(
        self, thetas: list[Array], dual_scale: Array
    ) -> tuple[list[Array], np.ndarray]: ...


class ArraySamples:
    """Samples in memory.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), or FormedRows
        NumPy, or any array API library; passes run where the array lives.
    Y : array of shape (n_samples, n_outputs)
    affinity : sparse array of shape (n_samples, n_samples)
    pool : concurrent.futures.ThreadPoolExecutor, default=None
        Threads over which blocks of NumPy samples are spread.
    label_weight : array of shape (n_samples,), default=None
        Weight of each sample in the prediction loss, zero for samples without label; their
        rows of ``Y`` do not matter. ``None`` means one for all.
    """

    def __init__(
        self,
        X: Array | FormedRows,
        Y: Array,
        affinity: Any,
        pool: ThreadPoolExecutor | None = None,
        label_weight: Array | None = None,
    ) -> None:
        self.X: Any = X
        self.Y = Y
        self.affinity = affinity
        self.pool = pool
        self.label_weight = label_weight

    @property
    def _on_host(self) -> bool:
        return is_numpy(self.X) or isinstance(self.X, FormedRows)

    @cached_property
    def _none(self) -> Array:
        """No samples, in their library and precision and on their device."""
        return self.X[:0] if self._on_host else self.X[:0, :]

    @cached_property
    def _chunks(self) -> list[slice]:
        """One contiguous run of rows per thread, always the same: sums are reproducible."""
        n_chunks = 1 if self.pool is None else self.pool._max_workers
        edges = np.linspace(0, self.X.shape[0], n_chunks + 1).astype(int)
        return [slice(a, b) for a, b in pairwise(edges)]

    def _map(self, function: Callable[[slice], T]) -> list[T]:
        """``function`` of every chunk, over the threads."""
        if self.pool is None:
            return [function(rows) for rows in self._chunks]
        return list(self.pool.map(function, self._chunks))

    def _weighted(self, X: Array, rows: slice, weight: Array | None) -> tuple[Array, Array]:
        """Samples ``X`` of some rows and their labels in float64, times the roots of weights."""
        X, Y = (array.astype(np.float64, copy=False) for array in (X, self.Y[rows]))
        if weight is None:
            return X, Y
        scale = np.sqrt(weight[rows])[:, None]
        return X * scale, np.where(scale > 0, Y, 0) * scale

    def _root(self, rows: slice, weight: Array | None = None) -> tuple[Array, Array]:
        """Root of the moments of some rows, block after block in float64."""
        X_root, Y_root = (np.zeros((0, array.shape[1])) for array in (self.X, self.Y))
        for place, block in row_blocks(self.X, _ROOT_ROWS, rows):
            X, Y = self._weighted(block, place, weight)
            X_root, Y_root = reduced_rows(np.concatenate([X_root, X]), np.concatenate([Y_root, Y]))
        return X_root, Y_root

    def _roots(self, weight: Array | None = None) -> tuple[Array, Array]:
        """Roots of all samples: of the roots of the chunks, which hold their moments."""
        few = min(_ROOT_ROWS, _FEW_TIMES * (self.X.shape[1] + self.Y.shape[1]))
        if self.pool is None and self.X.shape[0] <= few:
            return self._weighted(self.X[:], slice(None), weight)
        roots = self._map(lambda rows: self._root(rows, weight))
        return reduced_rows(*(np.concatenate(parts) for parts in zip(*roots, strict=True)))

    def statistics(self) -> Statistics:
        if not self._on_host:
            return self._device_statistics()
        X_root, Y_root = self._roots()
        gram, degree_gram, degree_sum, total_degree = laplacian_gram(self.X, self.affinity)
        return Statistics(
            X_root=X_root,
            Y_root=Y_root,
            sample_sum=sum(
                block.sum(axis=0, dtype=np.float64) for _, block in row_blocks(self.X, _ROOT_ROWS)
            ),
            laplacian_gram=gram,
            degree_gram=degree_gram,
            degree_sum=degree_sum,
            total_degree=total_degree,
            n_samples=self.X.shape[0],
            task_roots=None if self.label_weight is None else (self.label_roots(),),
        )

    def _device_statistics(self) -> Statistics:
        """The same where the arrays live: roots from the Gram matrix, in one product."""
        xp = namespace(self.X)
        gram, degree_gram, degree_sum, total_degree = neighbor_laplacian_gram(self.X, self.affinity)
        X_root, Y_root = gram_roots(self.X, self.Y)
        return Statistics(
            X_root=X_root,
            Y_root=Y_root,
            sample_sum=xp.sum(self.X, axis=0, dtype=xp.float64),
            laplacian_gram=gram,
            degree_gram=degree_gram,
            degree_sum=degree_sum,
            total_degree=total_degree,
            n_samples=self.X.shape[0],
            task_roots=None if self.label_weight is None else (self.label_roots(),),
        )

    def label_roots(self) -> tuple[Array, Array]:
        """Roots of the samples' moments, each sample times the square root of its label weight."""
        if self._on_host:
            return self._roots(self.label_weight)
        scale = namespace(self.X).sqrt(self.label_weight)[:, None]
        return gram_roots(self.X * scale, self.Y * scale)

    def constraint_pass(
        self, n_out: int, *, nonnegative: bool, unit_ball: bool
    ) -> "_BlockedPass | _PlainPass":
        if self._on_host:
            return _BlockedPass(self, n_out, nonnegative, unit_ball)
        return _PlainPass(self.X, n_out, nonnegative, unit_ball)

    def joint_pass(
        self,
        layer_sizes: Sequence[int],
        *,
        nonnegative: bool,
        unit_ball: bool,
        relaxation: float = 1.0,
    ) -> "_BlockedJointPass | PlainJointPass":
        if self._on_host:
            return _BlockedJointPass(self, layer_sizes, nonnegative, unit_ball, relaxation)
        return PlainJointPass(self.X, nonnegative, unit_ball, relaxation)

    def _layers_of(self, rows: slice, thetas: list[Array]) -> Iterator[list[Array]]:
        """Features of every layer for some rows, block after block."""
        for _, X in row_blocks(self.X, _ROOT_ROWS, rows):
            layers = [X]
            for theta in thetas:
                layers.append(layers[-1] @ theta.mT)
            yield layers

    def _reduce(self, function: Callable[[slice], T]) -> list[T]:
        """``function`` of the rows of every chunk; on a device there is one."""
        if self._on_host:
            return self._map(function)
        return [function(slice(0, self.X.shape[0]))]

    def lowest_ratios(self, thetas: list[Array], direction: Array) -> tuple[list[Array], float]:
        """Lowest ``Z_l / w`` of every feature, and the lowest ``w = X @ direction``.

        Samples whose ``w`` is not positive count with ``w = 1``: the ratio has the sign of the
        feature all the same, and whether there are such samples the second result says.
        """
        xp = namespace(self._none)
        thetas = [like(theta, self._none) for theta in thetas]
        direction = like(direction, self._none)

        def lowest(rows: slice) -> list[Array]:
            found: list[Array] = []
            for X, *layers in self._layers_of(rows, thetas):
                # A zero sample stays at zero under every linear map: feasible as it is.
                empty = ~xp.any(X != 0, axis=1)
                w = xp.where(empty, xp.ones_like(X[:, 0]), X @ direction)
                divisor = xp.where(w > 0, w, xp.ones_like(w))
                here = [xp.min(Z / divisor[:, None], axis=0) for Z in layers]
                here.append(xp.min(w, keepdims=True))
                found = (
                    [xp.minimum(a, b) for a, b in zip(found, here, strict=True)] if found else here
                )
            return found

        *ratios, weights = [
            xp.min(xp.stack(parts), axis=0) for parts in zip(*self._reduce(lowest), strict=True)
        ]
        return [xp.astype(ratio, xp.float64) for ratio in ratios], float(weights[0])

    def largest_norms(self, thetas: list[Array]) -> list[float]:
        """Largest norm of a sample's features, in every layer."""
        xp = namespace(self._none)
        thetas = [like(theta, self._none) for theta in thetas]

        def largest(rows: slice) -> list[float]:
            norms = [0.0] * len(thetas)
            for _, *layers in self._layers_of(rows, thetas):
                for i, Z in enumerate(layers):
                    norms[i] = max(norms[i], float(xp.max(xp.linalg.vector_norm(Z, axis=1))))
            return norms

        return [max(norms) for norms in zip(*self._reduce(largest), strict=True)]

    def _with_X(self, X: Array) -> "ArraySamples":
        return ArraySamples(X, self.Y, self.affinity, self.pool, self.label_weight)

    def projected(self, theta: Array) -> "ArraySamples":
        """Samples ``X Theta^T`` with the same labels and graph."""
        theta = like(theta, self._none)
        if not self._on_host:
            return self._with_X(self.X @ theta.mT)
        Z = np.empty((self.X.shape[0], theta.shape[0]), dtype=self.X.dtype)

        def project(rows: slice) -> None:
            for place, block in row_blocks(self.X, _ROOT_ROWS, rows):
                np.matmul(block, theta.T, out=Z[place])

        self._map(project)
        return self._with_X(Z)

    def whole(self) -> "ArraySamples":
        """The same with all samples in one array."""
        return self._with_X(np.asarray(self.X)) if self._on_host else self


class _PlainPass:
    """The pass in whole-array operations, for any array library."""

    def __init__(self, X: Array, n_out: int, nonnegative: bool, unit_ball: bool) -> None:
        self.X = X
        self.dual_pos = zeros_like_shape((X.shape[0], n_out), X) if nonnegative else None
        self.dual_ball = zeros_like_shape((X.shape[0], n_out), X) if unit_ball else None

    def __call__(self, theta: Array, mu: float, mu_next: float) -> PassResult:
        xp = namespace(self.X)
        scaled = self.X @ like(mu * theta, self.X).mT
        w = xp.zeros_like(scaled)
        residuals = [0.0, 0.0]
        if self.dual_pos is not None:
            V = scaled - self.dual_pos
            split = project_nonnegative(V)
            self.dual_pos = split - V
            w = w + (mu_next / mu) * split + self.dual_pos
            residuals[0] = float(xp.linalg.vector_norm(split - scaled)) / mu
        if self.dual_ball is not None:
            V = scaled - self.dual_ball
            split = project_unit_ball(V, mu)
            self.dual_ball = split - V
            w = w + (mu_next / mu) * split + self.dual_ball
            residuals[1] = float(xp.linalg.vector_norm(split - scaled)) / mu
        return PassResult(like(w.mT @ self.X, theta), *residuals)


class _BlockedPass:
    """The pass for NumPy arrays: in place, in blocks that stay in cache, over threads."""

    def __init__(
        self, samples: ArraySamples, n_out: int, nonnegative: bool, unit_ball: bool
    ) -> None:
        self.samples = samples
        X = samples.X
        shape = (X.shape[0], n_out)
        self.dual_pos = np.zeros(shape, dtype=X.dtype) if nonnegative else None
        self.dual_ball = np.zeros(shape, dtype=X.dtype) if unit_ball else None
        self.block = max(64, _BLOCK_BYTES // (n_out * X.dtype.itemsize))

    def __call__(self, theta: Array, mu: float, mu_next: float) -> PassResult:
        X = self.samples.X
        scaled_theta = np.ascontiguousarray((mu * theta).astype(X.dtype, copy=False).T)
        ratio = X.dtype.type(mu_next / mu)
        parts = self.samples._map(
            lambda rows: self._update_splits(rows, scaled_theta, X.dtype.type(mu), ratio)
        )
        pull: Array = sum(part[0] for part in parts)
        pos, ball = (np.sqrt(sum(part[i] for part in parts)) / mu for i in (1, 2))
        return PassResult(pull.astype(theta.dtype, copy=False), float(pos), float(ball))

    def _update_splits(
        self, rows: slice, scaled_theta: Array, mu: Any, ratio: Any
    ) -> tuple[Array, float, float]:
        """Both splits of some rows: their pull and squared distances from the features."""
        X = self.samples.X
        n_out = scaled_theta.shape[1]
        pull = np.zeros((n_out, X.shape[1]), dtype=X.dtype)
        product = np.empty_like(pull)
        # Everything happens in these four arrays, in place: memory is what the pass waits for.
        scratch = np.empty((4, self.block, n_out), dtype=X.dtype)
        pos_error = ball_error = 0.0
        for place, block in row_blocks(X, self.block, rows):
            scaled, V, w, difference = scratch[:, : len(block)]
            np.matmul(block, scaled_theta, out=scaled)
            w[...] = 0
            if self.dual_pos is not None:
                dual = self.dual_pos[place]
                np.subtract(scaled, dual, out=V)
                np.maximum(V, 0, out=w)
                np.subtract(w, V, out=dual)
                np.subtract(w, scaled, out=difference)
                pos_error += float(np.vdot(difference, difference))
                w *= ratio
                w += dual
            if self.dual_ball is not None:
                dual = self.dual_ball[place]
                np.subtract(scaled, dual, out=V)
                shrink = np.sqrt(np.einsum("ij,ij->i", V, V))
                np.maximum(shrink, mu, out=shrink)
                np.divide(mu, shrink, out=shrink)
                np.multiply(V, shrink[:, None], out=difference)
                np.subtract(difference, V, out=dual)
                np.multiply(difference, ratio, out=V)
                w += V
                w += dual
                difference -= scaled
                ball_error += float(np.vdot(difference, difference))
            np.matmul(w.T, block, out=product)
            pull += product
        return pull, pos_error, ball_error


def split_update(
    features: Array,
    point: Array,
    dual_scale: Array,
    relaxation: float,
    nonnegative: bool,
    unit_ball: bool,
) -> tuple[Array, Array, Array]:
    """One layer's part of a pass, in elementwise operations only.

    ``point`` is the ``V`` of the last pass, from which its split and multiplier follow. Returns
    ``(split + multiplier, V, squared gap)``.
    """
    before = project_constraints(point, nonnegative, unit_ball)
    dual = dual_scale * (before - point)
    V = relaxation * features + (1 - relaxation) * before - dual
    split = project_constraints(V, nonnegative, unit_ball)
    gap = split - features
    xp = namespace(gap)
    # Row by row first: a compiled kernel has a row in registers then.
    return 2 * split - V, V, xp.sum(xp.sum(gap * gap, axis=-1), axis=-1)


class PlainJointPass:
    """The pass through all layers in whole-array operations, for any array library.

    Parameters
    ----------
    X : array of shape (n_samples, n_features) or (n_problems, n_samples, n_features)
        Samples of one problem or of several; projections then have as many.
    nonnegative, unit_ball : bool
    relaxation : float, default=1.0
    compiled : bool, default=True
        Whether elementwise operations are compiled into few kernels on a CUDA device.
    """

    def __init__(
        self,
        X: Array,
        nonnegative: bool,
        unit_ball: bool,
        relaxation: float = 1.0,
        compiled: bool = True,
    ) -> None:
        self.X = X
        self.constraints = (nonnegative, unit_ball)
        self.relaxation = relaxation
        self.points: list[Array] = []
        self.update = fused(split_update, X) if compiled else split_update

    def __call__(self, thetas: list[Array], dual_scale: Array) -> tuple[list[Array], np.ndarray]:
        xp = namespace(self.X)
        dual_scale = like(dual_scale, self.X)
        n_known = len(self.points)
        shape = self.X.shape[:-1]
        self.points += [
            zeros_like_shape((*shape, theta.shape[-2]), self.X) for theta in thetas[n_known:]
        ]
        Z = self.X
        pulls, squares = [], []
        for layer, theta in enumerate(thetas):
            features = Z @ like(theta, self.X).mT
            # A new layer has no split yet from which its first pass could go on.
            relaxation = self.relaxation if layer < n_known else 1.0
            target, self.points[layer], square = self.update(
                features, self.points[layer], dual_scale, relaxation, *self.constraints
            )
            squares.append(square)
            pulls.append(xp.astype(target.mT @ self.X, theta.dtype))
            Z = features
        return pulls, np.sqrt(to_numpy(xp.stack(squares)).astype(np.float64))


class _BlockedJointPass:
    """The same for NumPy arrays: in place, in blocks that stay in cache, over threads.

    It is in the precision of the projections, or of the samples if that is lower.
    """

    def __init__(
        self,
        samples: ArraySamples,
        layer_sizes: Sequence[int],
        nonnegative: bool,
        unit_ball: bool,
        relaxation: float = 1.0,
    ) -> None:
        self.samples = samples
        self.X = samples.X
        self.nonnegative, self.unit_ball = nonnegative, unit_ball
        self.relaxation = relaxation
        self.points: list[np.ndarray] = []
        self.block = max(64, _BLOCK_BYTES // (max(layer_sizes) * samples.X.dtype.itemsize))

    def __call__(self, thetas: list[Array], dual_scale: Array) -> tuple[list[Array], np.ndarray]:
        precision = min(self.samples.X.dtype, thetas[0].dtype)
        if precision != self.X.dtype:
            self.X = self.samples.X.astype(precision, copy=False)
            self.points = [point.astype(precision) for point in self.points]
        X = self.X
        n_known = len(self.points)
        self.points += [
            np.zeros((X.shape[0], theta.shape[0]), dtype=X.dtype) for theta in thetas[n_known:]
        ]
        # A new layer has no split yet from which its first pass could go on.
        relaxations = [self.relaxation if layer < n_known else 1.0 for layer in range(len(thetas))]
        maps = [np.ascontiguousarray(theta.T, dtype=X.dtype) for theta in thetas]
        factors = X.dtype.type(dual_scale), np.asarray(relaxations, dtype=X.dtype)
        points = self.points
        parts = self.samples._map(lambda rows: self._update_layers(rows, maps, points, *factors))
        pulls = [
            sum(part[0][layer] for part in parts).astype(theta.dtype, copy=False)
            for layer, theta in enumerate(thetas)
        ]
        return pulls, np.sqrt(sum(part[1] for part in parts))

    def _update_layers(
        self,
        rows: slice,
        maps: list[Array],
        points: list[np.ndarray],
        scale: Any,
        relaxations: np.ndarray,
    ) -> tuple[list[Array], np.ndarray]:
        """All layers of some rows: their pulls and squared distances from the constraints."""
        X = self.X
        pulls = [np.zeros((theta.shape[1], X.shape[1]), dtype=X.dtype) for theta in maps]
        products = [np.empty_like(pull) for pull in pulls]
        scratch = [np.empty((3, self.block, theta.shape[1]), dtype=X.dtype) for theta in maps]
        squares = np.zeros(len(maps))
        for place, block in row_blocks(X, self.block, rows):
            Z = block
            for layer, theta in enumerate(maps):
                features, split, other = scratch[layer][:, : len(block)]
                np.matmul(Z, theta, out=features)
                V, relaxation = points[layer][place], relaxations[layer]
                # relaxation Z + (1 - relaxation - scale) S + scale V, with the last S and V.
                self._project(V, split, 1 - relaxation - scale)
                V *= scale
                V += split
                V += np.multiply(features, relaxation, out=other)
                self._project(V, split)
                np.subtract(split, features, out=other)
                squares[layer] += float(np.vdot(other, other))
                split *= 2
                split -= V
                pulls[layer] += np.matmul(split.T, block, out=products[layer])
                Z = features
        return pulls, squares

    def _project(self, V: np.ndarray, split: np.ndarray, factor: Any = 1) -> None:
        """``factor`` times the nearest feasible point of ``V``, written into ``split``."""
        if self.nonnegative:
            np.maximum(V, 0, out=split)
        else:
            split[...] = V
        if self.unit_ball:
            norms = np.sqrt(np.einsum("ij,ij->i", split, split))
            np.maximum(norms, 1, out=norms)
            split *= (factor / norms)[:, None]
        elif factor != 1:
            split *= factor
