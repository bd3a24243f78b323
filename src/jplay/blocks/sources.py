"""Where the rows of one block come from, as small objects that can be sent to a worker."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from jplay._array_api import Array, namespace
from jplay.numerics.rows import AS_THEY_ARE, RowForm, formed


@dataclass(frozen=True, eq=False)
class Slice:
    """Rows ``start`` to ``stop`` of anything that is indexed like a NumPy array."""

    array: Any
    start: int
    stop: int

    def load(self) -> np.ndarray:
        return np.asarray(self.array[self.start : self.stop])


@dataclass(frozen=True, eq=False)
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


def samples_of(source: Any, form: RowForm = AS_THEY_ARE) -> Array:
    """Rows as floating-point samples in the given form."""
    X = rows_of(source)
    xp = namespace(X)
    if not xp.isdtype(X.dtype, "real floating") or X.dtype not in (xp.float32, xp.float64):
        X = xp.astype(X, xp.float64)
    return formed(X, form)
