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

from jplay._array_api import is_numpy, like, namespace, zeros_like_shape
from jplay.numerics.graph import laplacian_gram
from jplay.numerics.prox import project_nonnegative, project_unit_ball

_ROOT_ROWS = 8192
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
    """

    def __init__(self, X, Y, affinity, pool=None):
        self.X = X
        self.Y = Y
        self.affinity = affinity
        self.pool = pool

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

    def _root(self, rows):
        """Root of the moments of some rows, block after block in float64."""
        X_root, Y_root = (np.zeros((0, array.shape[1])) for array in (self.X, self.Y))
        for start in range(rows.start, rows.stop, _ROOT_ROWS):
            block = slice(start, min(start + _ROOT_ROWS, rows.stop))
            X_root, Y_root = reduced_rows(
                np.concatenate([X_root, self.X[block]]), np.concatenate([Y_root, self.Y[block]])
            )
        return X_root, Y_root

    def statistics(self):
        roots = self._map(self._root)
        X_root, Y_root = reduced_rows(
            *(np.concatenate(parts) for parts in zip(*roots, strict=True))
        )
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
        )

    def constraint_pass(self, n_out, *, nonnegative, unit_ball):
        if is_numpy(self.X):
            return _BlockedPass(self, n_out, nonnegative, unit_ball)
        return _PlainPass(self.X, n_out, nonnegative, unit_ball)

    def projected(self, theta):
        theta = like(theta, self.X)
        if not is_numpy(self.X):
            return ArraySamples(self.X @ theta.mT, self.Y, self.affinity)
        Z = np.empty((self.X.shape[0], theta.shape[0]), dtype=self.X.dtype)
        self._map(lambda rows: np.matmul(self.X[rows], theta.T, out=Z[rows]))
        return ArraySamples(Z, self.Y, self.affinity, self.pool)


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
