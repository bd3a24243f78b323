"""Samples in the form in which a solver sees them: shifted, scaled, with a constant feature."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jplay._array_api import Array, is_numpy, like, namespace

_CACHED_VALUES = 50_000  # of samples that are formed at a time; 400 kB in double precision


@dataclass(frozen=True, eq=False)
class RowForm:
    """What is done to rows when they are read, so that the solver gets what it expects."""

    scale: Any = None
    """What each feature is multiplied by; ``None`` for one."""
    shift: Any = None
    """What is subtracted from each feature before, if there is a scale; ``None`` for nothing."""
    constant: float | None = None
    """Value of a further feature that makes the first layer affine."""
    unit: float = 1.0
    """What all features are divided by first. If it is one of the samples' own numbers, samples in
    other units have the same form to the last digit."""

    @property
    def is_plain(self) -> bool:
        return self.scale is None and self.shift is None and self.constant is None

    @property
    def without_constant(self) -> "RowForm":
        """The form of samples between which the graph is built."""
        return replace(self, constant=None)

    def rounded(self, dtype: Any) -> "RowForm":
        """The same without a unit, in the precision ``dtype``.

        The difference between a number and a shift near it is exact: a small spread around a large
        mean is not lost. A feature so small that its scale is out of range counts as constant.
        """
        scale, shift = self.scale, self.shift
        if scale is not None:
            xp = namespace(scale)
            with np.errstate(over="ignore"):
                scale = xp.astype(scale / self.unit, dtype)
            scale = xp.where(xp.isfinite(scale), scale, xp.zeros_like(scale))
        if shift is not None:
            shift = namespace(shift).astype(shift * self.unit, dtype)
        return replace(self, scale=scale, shift=shift, unit=1.0)


AS_THEY_ARE = RowForm()


class FormedRows:
    """Rows of a NumPy array that are formed each time they are asked for, instead of a copy.

    Is indexed by rows like an array, and has the precision of the array. Rows are formed in that
    of the form: in double they are as exact as can be, and take twice as long if they are single.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    form : RowForm
    """

    def __init__(self, X: np.ndarray, form: RowForm) -> None:
        self.X = X
        self.form = form
        self.dtype = X.dtype
        self.shape = (X.shape[0], X.shape[1] + (form.constant is not None))

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        X = self.X[rows]
        formed = np.empty((len(X), self.shape[1]), dtype=self.dtype)
        step = max(1, _CACHED_VALUES // X.shape[1])
        spare = self._spare(step)
        for start in range(0, len(X), step):
            part = slice(start, start + step)
            self._write(X[part], formed[part], spare)
        return formed

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or self.dtype, copy=False)

    def blocks(self, rows: slice, size: int) -> Iterator[tuple[slice, np.ndarray]]:
        """See :func:`row_blocks`."""
        formed = np.empty((size, self.shape[1]), dtype=self.dtype)
        spare = self._spare(size)
        for place, X in row_blocks(self.X, size, rows):
            block = formed[: len(X)]
            self._write(X, block, spare)
            yield place, block

    def _spare(self, n_rows: int) -> np.ndarray:
        """Room for some rows between the steps."""
        scale = self.form.scale
        dtype = self.dtype if scale is None else scale.dtype
        return np.empty((n_rows, self.X.shape[1]), dtype=dtype)

    def _write(self, X: np.ndarray, formed: np.ndarray, spare: np.ndarray) -> None:
        """Write some rows in their form. Not in place: NumPy takes twice as long for that."""
        n_features, form = X.shape[1], self.form
        spare = spare[: len(X)]
        if form.unit != 1:
            X = np.divide(X, form.unit, out=spare, dtype=spare.dtype)
        if form.shift is not None:
            X = np.subtract(X, form.shift, out=spare)
        np.multiply(X, 1 if form.scale is None else form.scale, out=formed[:, :n_features])
        if form.constant is not None:
            formed[:, n_features] = form.constant


def row_blocks(
    X: Array | FormedRows, size: int, rows: slice | None = None
) -> Iterator[tuple[slice, Array]]:
    """Samples, ``size`` rows at a time, each time with their place.

    A block is valid until the next one is asked for, which may take its memory.
    """
    start, stop = (0, X.shape[0]) if rows is None else (rows.start, rows.stop)
    if isinstance(X, FormedRows):
        yield from X.blocks(slice(start, stop), max(1, min(size, stop - start)))
        return
    for first in range(start, stop, size):
        place = slice(first, min(first + size, stop))
        yield place, X[place, :]


def formed(X: Array, form: RowForm) -> Array:
    """All samples in a form; themselves if it changes nothing."""
    if form.is_plain:
        return X
    if is_numpy(X):
        return FormedRows(X, form)[:]
    xp = namespace(X)
    Z = X
    if form.scale is not None:
        Z = xp.astype(X, xp.float64) / form.unit
        if form.shift is not None:
            Z -= like(form.shift, Z)
        Z *= like(form.scale, Z)
        Z = xp.astype(Z, X.dtype)
    if form.constant is None:
        return Z
    return xp.concat([Z, form.constant * xp.ones_like(Z[:, :1])], axis=1)
