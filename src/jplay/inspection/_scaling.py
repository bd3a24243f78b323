"""Whether samples are compared by their shape or column by column."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

MIN_COLUMNS = 8
MIN_CORRELATION = 0.8
MAX_RATIO = 100.0
MAX_ROWS = 2000


@dataclass(frozen=True)
class Scaling:
    """How samples are scaled before a fit, and why."""

    by: Literal["rows", "columns"]
    reason: str

    @property
    def norm(self) -> str | None:
        """Norm by which each sample is divided, or None."""
        return "max" if self.by == "rows" else None


def choose_scaling(X: Any) -> Scaling:
    """Tell samples like spectra from columns of different units.

    Spectra and series are divided by their maximum each: their shape tells more than their
    brightness. Everything else is left to the model, which centres each column and divides it by
    its standard deviation. Samples are like spectra if they have eight columns or more, no negative
    values, mean values of the columns within a factor of 100, and neighbouring columns that go
    together (median correlation of at least 0.8).

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_samples, n_features)

    Returns
    -------
    Scaling

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from jplay.inspection import choose_scaling
    >>> choose_scaling(load_wine().data).by
    'columns'
    """
    X = _numbers(X)
    if X is None:
        return Scaling("columns", "some columns are text")
    if X.shape[1] < MIN_COLUMNS:
        return Scaling("columns", "there are few columns")
    if np.nanmin(X) < 0:
        return Scaling("columns", "there are negative values")
    used = X[:, np.nanmax(X, axis=0) > 0]
    means = np.nanmean(used, axis=0)
    if means.max() > MAX_RATIO * means.min():
        return Scaling("columns", "columns differ in size")
    if _neighbours(used) < MIN_CORRELATION:
        return Scaling("columns", "neighbouring columns are not alike")
    return Scaling("rows", "neighbouring columns go together, as in spectra")


def _numbers(X):
    """Return some rows as numbers, or None if they are none."""
    step = max(1, len(X) // MAX_ROWS)
    X = X.iloc[::step] if hasattr(X, "iloc") else X[::step]
    try:
        return np.asarray(X, dtype=np.float64)
    except ValueError:
        return None


def _neighbours(X):
    """Median correlation of a column with the next one."""
    centred = np.nan_to_num(X - np.nanmean(X, axis=0))
    spread = np.sqrt((centred**2).sum(axis=0))
    products = (centred[:, 1:] * centred[:, :-1]).sum(axis=0)
    scale = spread[1:] * spread[:-1]
    return np.median(products[scale > 0] / scale[scale > 0]) if (scale > 0).any() else 0.0
