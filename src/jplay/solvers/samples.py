"""What the solvers know about samples: their statistics and the pass over the constraints.

A solver never sees an array with one row per sample. It asks a :class:`Samples` object for
its :class:`Statistics` once, and for one :class:`ConstraintPass` per layer problem, whose
state (two multipliers per sample and output) lives with the samples. Arrays in memory, blocks
on disk and arrays on a cluster are implementations of the same two operations.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from jplay._array_api import fused, is_numpy, like, namespace, zeros_like_shape
from jplay.numerics.eigen import range_basis
from jplay.numerics.graph import laplacian_gram, neighbor_laplacian_gram
from jplay.numerics.prox import project_nonnegative, project_unit_ball

_ROOT_ROWS = 8192
_DEVICE_ROWS = 1_000_000
_BLOCK_BYTES = 300_000  # of one (block, n_out) array: the pass keeps about five in cache


@dataclass(frozen=True)
class Statistics:
    """Second moments of samples, labels and graph; all that the smooth updates need.

    Always float64, whatever the samples' dtype: they are small.
    """

    X_root: Any
    """Few rows ``R_X`` with ``R_X^T R_X = X^T X``, see ``Y_root``."""
    Y_root: Any
    """``R_Y`` with ``R_Y^T R_Y = Y^T Y`` and ``R_X^T R_Y = X^T Y``.

    Every update but the two projections depends on the samples through these moments alone,
    so it is carried out on the few rows of the roots, without squaring their condition.
    """
    sample_sum: Any
    """``X^T 1``."""
    laplacian_gram: Any
    """``X^T L X``."""
    degree_gram: Any
    """``X^T D X``."""
    degree_sum: Any
    """``X^T D 1``."""
    total_degree: float
    n_samples: int
    weighted_roots: tuple[Any, Any] | None = None
    """Roots as above of the labelled samples, times the square root of their label weight.

    ``None`` where all samples are labelled and weigh one.
    """

    @property
    def label_roots(self):
        """The roots that the prediction loss is made of."""
        return self.weighted_roots or (self.X_root, self.Y_root)

    @property
    def n_features(self):
        return self.sample_sum.shape[0]

    def projected(self, theta):
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
            weighted_roots=self.weighted_roots
            and reduced_rows(self.weighted_roots[0] @ theta.mT, self.weighted_roots[1]),
        )


def reduced_rows(X, Y):
    """Rows with the same second moments as those of ``(X, Y)``, no more than columns."""
    xp = namespace(X)
    n_features = X.shape[1]
    if X.shape[0] <= n_features + Y.shape[1]:
        return X, Y
    both = xp.concat([X, Y], axis=1)
    root = np.linalg.qr(both, mode="r") if is_numpy(both) else xp.linalg.qr(both)[1]
    return root[:, :n_features], root[:, n_features:]


def gram_roots(X, Y):
    """Roots of the second moments of ``(X, Y)`` by one product, in blocks, in float64."""
    xp = namespace(X)
    gram = 0
    for start in range(0, X.shape[0], _DEVICE_ROWS):
        rows = slice(start, min(start + _DEVICE_ROWS, X.shape[0]))
        both = xp.astype(xp.concat([X[rows, :], Y[rows, :]], axis=1), xp.float64)
        gram = gram + both.mT @ both
    values, vectors = range_basis(gram)
    root = (vectors * xp.sqrt(values)).mT
    return root[:, : X.shape[1]], root[:, X.shape[1] :]


class PassResult(NamedTuple):
    """What one pass over the samples sends back."""

    pull: Any
    """``w^T X`` (n_out, n_features): what both inequality splits add to the next update."""
    nonnegativity: float
    """Frobenius distance of the projected samples from the non-negative split."""
    unit_ball: float
    """Frobenius distance of the projected samples from the unit-ball split."""


class ConstraintPass(Protocol):
    """One pass over both inequality splits; keeps their multipliers between calls."""

    def __call__(self, theta: Any, mu: float, mu_next: float) -> PassResult: ...


class Samples(Protocol):
    """Samples, their labels and their graph, wherever they are stored."""

    def statistics(self) -> Statistics: ...

    def constraint_pass(
        self, n_out: int, *, nonnegative: bool, unit_ball: bool
    ) -> ConstraintPass: ...

    def projected(self, theta: Any) -> "Samples": ...

    def joint_pass(
        self, layer_sizes: list[int], *, nonnegative: bool, unit_ball: bool
    ) -> "JointPass": ...

    def lowest_ratios(self, thetas: list, direction: Any) -> tuple[list, float]: ...

    def largest_norms(self, thetas: list, direction: Any, shifts: list) -> list[float]: ...


class JointPass(Protocol):
    """One pass through all layers at once; keeps one scaled multiplier per layer.

    Called with the projections and the factor by which the multipliers shrink since the
    penalty grew. Returns ``(split + multiplier)^T X`` for every layer and the Frobenius
    distance of each layer's features from their split.
    """

    def __call__(self, thetas: list, dual_scale: float) -> tuple[list, Any]: ...


class ArraySamples:
    """Samples in memory.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        NumPy, or any array API library; passes run where the array lives.
    Y : array of shape (n_samples, n_outputs)
    affinity : sparse array of shape (n_samples, n_samples)
    pool : concurrent.futures.Executor, default=None
        Threads over which blocks of NumPy samples are spread.
    label_weight : array of shape (n_samples,), default=None
        Weight of each sample in the prediction loss, zero for samples without label; their
        rows of ``Y`` do not matter. ``None`` means one for all.
    """

    def __init__(self, X, Y, affinity, pool=None, label_weight=None):
        self.X = X
        self.Y = Y
        self.affinity = affinity
        self.pool = pool
        self.label_weight = label_weight

    @cached_property
    def _chunks(self):
        """One contiguous run of rows per thread, always the same: sums are reproducible."""
        n_chunks = 1 if self.pool is None else self.pool._max_workers
        edges = np.linspace(0, self.X.shape[0], n_chunks + 1).astype(int)
        return [slice(a, b) for a, b in pairwise(edges)]

    def _map(self, function):
        if self.pool is None:
            return [function(rows) for rows in self._chunks]
        return list(self.pool.map(function, self._chunks))

    def _root(self, rows, weight=None):
        """Root of the moments of some rows, block after block in float64."""
        X_root, Y_root = (np.zeros((0, array.shape[1])) for array in (self.X, self.Y))
        for start in range(rows.start, rows.stop, _ROOT_ROWS):
            block = slice(start, min(start + _ROOT_ROWS, rows.stop))
            X, Y = self.X[block], self.Y[block]
            if weight is not None:
                scale = np.sqrt(weight[block])[:, None]
                X, Y = X * scale, np.where(scale > 0, Y, 0) * scale
            X_root, Y_root = reduced_rows(np.concatenate([X_root, X]), np.concatenate([Y_root, Y]))
        return X_root, Y_root

    def _roots(self, weight=None):
        roots = self._map(lambda rows: self._root(rows, weight))
        return reduced_rows(*(np.concatenate(parts) for parts in zip(*roots, strict=True)))

    def statistics(self):
        if not is_numpy(self.X):
            return self._device_statistics()
        X_root, Y_root = self._roots()
        gram, degree_gram, degree_sum, total_degree = laplacian_gram(
            np.asarray(self.X, dtype=np.float64), self.affinity
        )
        return Statistics(
            X_root=X_root,
            Y_root=Y_root,
            sample_sum=self.X.sum(axis=0, dtype=np.float64),
            laplacian_gram=gram,
            degree_gram=degree_gram,
            degree_sum=degree_sum,
            total_degree=total_degree,
            n_samples=self.X.shape[0],
            weighted_roots=None if self.label_weight is None else self._roots(self.label_weight),
        )

    def _device_statistics(self):
        """The same where the arrays live: roots from the Gram matrix, in one product."""
        xp = namespace(self.X)
        gram, degree_gram, degree_sum, total_degree = neighbor_laplacian_gram(self.X, self.affinity)
        X_root, Y_root = gram_roots(self.X, self.Y)
        weighted = None
        if self.label_weight is not None:
            scale = xp.sqrt(self.label_weight)[:, None]
            weighted = gram_roots(self.X * scale, self.Y * scale)
        return Statistics(
            X_root=X_root,
            Y_root=Y_root,
            sample_sum=xp.sum(self.X, axis=0, dtype=xp.float64),
            laplacian_gram=gram,
            degree_gram=degree_gram,
            degree_sum=degree_sum,
            total_degree=total_degree,
            n_samples=self.X.shape[0],
            weighted_roots=weighted,
        )

    def constraint_pass(self, n_out, *, nonnegative, unit_ball):
        if is_numpy(self.X):
            return _BlockedPass(self, n_out, nonnegative, unit_ball)
        return _PlainPass(self.X, n_out, nonnegative, unit_ball)

    def joint_pass(self, layer_sizes, *, nonnegative, unit_ball):
        if is_numpy(self.X):
            return _BlockedJointPass(self, layer_sizes, nonnegative, unit_ball)
        return _PlainJointPass(self.X, layer_sizes, nonnegative, unit_ball)

    def _layers_of(self, rows, thetas):
        """Features of every layer for some rows, block after block."""
        for start in range(rows.start, rows.stop, _ROOT_ROWS):
            Z = self.X[start : min(start + _ROOT_ROWS, rows.stop), :]
            layers = [Z]
            for theta in thetas:
                layers.append(layers[-1] @ theta.mT)
            yield layers

    def _reduce(self, function):
        """``function`` of the rows of every chunk."""
        if is_numpy(self.X):
            return self._map(function)
        return [function(slice(0, self.X.shape[0]))]

    def lowest_ratios(self, thetas, direction):
        """Lowest ``Z_l / w`` of every feature, and the lowest ``w = X @ direction``."""
        xp = namespace(self.X)
        thetas = [like(theta, self.X) for theta in thetas]
        direction = like(direction, self.X)

        def lowest(rows):
            found = None
            for X, *layers in self._layers_of(rows, thetas):
                # A zero sample stays at zero under every linear map: feasible as it is.
                empty = ~xp.any(X != 0, axis=1)
                w = xp.where(empty, xp.ones_like(X[:, 0]), X @ direction)
                here = [xp.min(Z / w[:, None], axis=0) for Z in layers]
                here.append(xp.min(w, keepdims=True))
                found = (
                    here
                    if found is None
                    else [xp.minimum(a, b) for a, b in zip(found, here, strict=True)]
                )
            return found

        *ratios, weights = [
            xp.min(xp.stack(parts), axis=0) for parts in zip(*self._reduce(lowest), strict=True)
        ]
        return [xp.astype(ratio, xp.float64) for ratio in ratios], float(weights[0])

    def largest_norms(self, thetas, direction, shifts):
        """Largest row norm of ``Z_l + w shift_l^T`` of every layer."""
        xp = namespace(self.X)
        thetas = [like(theta, self.X) for theta in thetas]
        direction = like(direction, self.X)
        shifts = [like(shift, self.X) for shift in shifts]

        def largest(rows):
            norms = [0.0] * len(thetas)
            for X, *layers in self._layers_of(rows, thetas):
                w = X @ direction
                for i, (Z, shift) in enumerate(zip(layers, shifts, strict=True)):
                    shifted = Z + w[:, None] * shift[None, :]
                    largest = xp.max(xp.linalg.vector_norm(shifted, axis=1))
                    norms[i] = max(norms[i], float(largest))
            return norms

        return [max(norms) for norms in zip(*self._reduce(largest), strict=True)]

    def _with_X(self, X):
        return ArraySamples(X, self.Y, self.affinity, self.pool, self.label_weight)

    def projected(self, theta):
        theta = like(theta, self.X)
        if not is_numpy(self.X):
            return self._with_X(self.X @ theta.mT)
        Z = np.empty((self.X.shape[0], theta.shape[0]), dtype=self.X.dtype)
        self._map(lambda rows: np.matmul(self.X[rows], theta.T, out=Z[rows]))
        return self._with_X(Z)


class _PlainPass:
    """The pass in whole-array operations, for any array library."""

    def __init__(self, X, n_out, nonnegative, unit_ball):
        self.X = X
        self.dual_pos = zeros_like_shape((X.shape[0], n_out), X) if nonnegative else None
        self.dual_ball = zeros_like_shape((X.shape[0], n_out), X) if unit_ball else None

    def __call__(self, theta, mu, mu_next):
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

    def __init__(self, samples, n_out, nonnegative, unit_ball):
        self.samples = samples
        X = samples.X
        shape = (X.shape[0], n_out)
        self.dual_pos = np.zeros(shape, dtype=X.dtype) if nonnegative else None
        self.dual_ball = np.zeros(shape, dtype=X.dtype) if unit_ball else None
        self.block = max(64, _BLOCK_BYTES // (n_out * X.itemsize))

    def __call__(self, theta, mu, mu_next):
        X = self.samples.X
        scaled_theta = np.ascontiguousarray((mu * theta).astype(X.dtype, copy=False).T)
        ratio = X.dtype.type(mu_next / mu)
        parts = self.samples._map(
            lambda rows: self._run(rows, scaled_theta, X.dtype.type(mu), ratio)
        )
        pull = sum(part[0] for part in parts)
        pos, ball = (np.sqrt(sum(part[i] for part in parts)) / mu for i in (1, 2))
        return PassResult(pull.astype(theta.dtype, copy=False), float(pos), float(ball))

    def _run(self, rows, scaled_theta, mu, ratio):
        X = self.samples.X
        n_out = scaled_theta.shape[1]
        pull = np.zeros((n_out, X.shape[1]), dtype=X.dtype)
        product = np.empty_like(pull)
        scratch = np.empty((4, self.block, n_out), dtype=X.dtype)
        pos_error = ball_error = 0.0
        for start in range(rows.start, rows.stop, self.block):
            stop = min(start + self.block, rows.stop)
            scaled, V, w, difference = scratch[:, : stop - start]
            np.matmul(X[start:stop], scaled_theta, out=scaled)
            w[...] = 0
            if self.dual_pos is not None:
                dual = self.dual_pos[start:stop]
                np.subtract(scaled, dual, out=V)
                np.maximum(V, 0, out=w)
                np.subtract(w, V, out=dual)
                np.subtract(w, scaled, out=difference)
                pos_error += float(np.vdot(difference, difference))
                w *= ratio
                w += dual
            if self.dual_ball is not None:
                dual = self.dual_ball[start:stop]
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
            np.matmul(w.T, X[start:stop], out=product)
            pull += product
        return pull, pos_error, ball_error


def project_constraints(V, nonnegative, unit_ball):
    """Nearest matrix in both constraint sets at once: clip at zero, then shrink the rows."""
    if nonnegative:
        V = project_nonnegative(V)
    return project_unit_ball(V) if unit_ball else V


def split_update(features, dual, dual_scale, nonnegative, unit_ball):
    """Split, new multiplier and squared gap of one layer, in elementwise operations only.

    Returns ``(split + multiplier, multiplier, gap)``.
    """
    V = features - dual_scale * dual
    split = project_constraints(V, nonnegative, unit_ball)
    dual = split - V
    gap = split - features
    return split + dual, dual, namespace(gap).sum(gap * gap)


class _PlainJointPass:
    """The pass through all layers in whole-array operations, for any array library."""

    def __init__(self, X, layer_sizes, nonnegative, unit_ball):
        self.X = X
        self.constraints = (nonnegative, unit_ball)
        self.duals = [zeros_like_shape((X.shape[0], size), X) for size in layer_sizes]
        self.update = fused(split_update, X)

    def __call__(self, thetas, dual_scale):
        xp = namespace(self.X)
        dual_scale = like(dual_scale, self.X)
        Z = self.X
        pulls, squares = [], []
        for layer, theta in enumerate(thetas):
            features = Z @ like(theta, self.X).mT
            target, self.duals[layer], square = self.update(
                features, self.duals[layer], dual_scale, *self.constraints
            )
            squares.append(square)
            pulls.append(xp.astype(target.mT @ self.X, theta.dtype))
            Z = features
        return pulls, np.sqrt([float(square) for square in squares])


class _BlockedJointPass:
    """The same for NumPy arrays: in place, in blocks that stay in cache, over threads."""

    def __init__(self, samples, layer_sizes, nonnegative, unit_ball):
        self.samples = samples
        self.nonnegative, self.unit_ball = nonnegative, unit_ball
        X = samples.X
        self.duals = [np.zeros((X.shape[0], size), dtype=X.dtype) for size in layer_sizes]
        self.block = max(64, _BLOCK_BYTES // (max(layer_sizes) * X.itemsize))

    def __call__(self, thetas, dual_scale):
        X = self.samples.X
        maps = [np.ascontiguousarray(theta.T, dtype=X.dtype) for theta in thetas]
        scale = X.dtype.type(dual_scale)
        parts = self.samples._map(lambda rows: self._run(rows, maps, scale))
        pulls = [
            sum(part[0][layer] for part in parts).astype(thetas[layer].dtype, copy=False)
            for layer in range(len(thetas))
        ]
        return pulls, np.sqrt(sum(part[1] for part in parts))

    def _run(self, rows, maps, scale):
        X = self.samples.X
        pulls = [np.zeros((theta.shape[1], X.shape[1]), dtype=X.dtype) for theta in maps]
        squares = np.zeros(len(maps))
        for start in range(rows.start, rows.stop, self.block):
            stop = min(start + self.block, rows.stop)
            block = Z = X[start:stop]
            for layer, theta in enumerate(maps):
                features = Z @ theta
                dual = self.duals[layer][start:stop]
                dual *= scale
                np.subtract(features, dual, out=dual)  # now V
                split = np.maximum(dual, 0) if self.nonnegative else dual.copy()
                if self.unit_ball:
                    norms = np.sqrt(np.einsum("ij,ij->i", split, split))
                    np.maximum(norms, 1, out=norms)
                    split /= norms[:, None]
                np.subtract(split, dual, out=dual)
                gap = split - features
                squares[layer] += float(np.vdot(gap, gap))
                split += dual
                pulls[layer] += split.T @ block
                Z = features
        return pulls, squares
