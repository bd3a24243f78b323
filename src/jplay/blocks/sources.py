"""Where the rows of one block come from, as small objects that can be sent to a worker."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jplay._array_api import Array, is_numpy, like, namespace

_CACHED_VALUES = 50_000  # of samples that are formed at a time; 400 kB in double precision


@dataclass(frozen=True)
class Slice:
    """Rows ``start`` to ``stop`` of anything that is indexed like a NumPy array."""

    array: Any
    start: int
    stop: int

    def load(self) -> np.ndarray:
        return np.asarray(self.array[self.start : self.stop])


@dataclass(frozen=True)
class Subgraph:
    """One block of a Dask array: the tasks that it needs, and no others."""

    tasks: Any
    key: Any

    def load(self) -> Any:
        from dask.local import get_sync  # present: the tasks come from it

        return get_sync(self.tasks, self.key)


def rows_of(source: Any) -> Any:
    """The rows themselves, whether they are still to be read or already there."""
    return source.load() if isinstance(source, Slice | Subgraph) else source


@dataclass(frozen=True)
class RowForm:
    """What is done to rows when they are read, so that the solver gets what it expects."""

    scale: Any = None
    """What each feature is multiplied by; ``None`` for one."""
    shift: Any = None
    """What is subtracted from each feature before; ``None`` for nothing."""
    constant: float | None = None
    """Value of a further feature that makes the first layer affine."""

    @property
    def is_plain(self) -> bool:
        return self.scale is None and self.shift is None and self.constant is None

    @property
    def without_constant(self) -> "RowForm":
        """The form of samples between which the graph is built."""
        return replace(self, constant=None)


AS_THEY_ARE = RowForm()


def samples_of(source: Any, form: RowForm = AS_THEY_ARE) -> Array:
    """Rows as floating-point samples in the given form."""
    X = rows_of(source)
    xp = namespace(X)
    if not xp.isdtype(X.dtype, "real floating") or X.dtype not in (xp.float32, xp.float64):
        X = xp.astype(X, xp.float64)
    if form.is_plain:
        return X
    if is_numpy(X):
        return _formed_in_cache(X, form)
    X = _moved(X, form)
    if form.constant is None:
        return X
    return xp.concat([X, form.constant * xp.ones_like(X[:, :1])], axis=1)


def _moved(X: Array, form: RowForm) -> Array:
    """Rows shifted and scaled.

    In double precision: in single, a small spread around a large mean would be lost.
    """
    if form.shift is None and form.scale is None:
        return X
    xp = namespace(X)
    moved = xp.astype(X, xp.float64)
    if form.shift is not None:
        moved -= like(form.shift, moved)
    if form.scale is not None:
        moved *= like(form.scale, moved)
    return xp.astype(moved, X.dtype)


def _formed_in_cache(X: np.ndarray, form: RowForm) -> np.ndarray:
    """Rows in the given form, few at a time: every pass of a fit begins with this."""
    n_rows, n_features = X.shape
    formed = np.empty((n_rows, n_features + (form.constant is not None)), dtype=X.dtype)
    if form.constant is not None:
        formed[:, -1] = form.constant
    step = max(1, _CACHED_VALUES // n_features)
    for start in range(0, n_rows, step):
        rows = slice(start, start + step)
        formed[rows, :n_features] = _moved(X[rows], form)
    return formed
