"""Recognise samples that are not an array in memory, without importing what holds them."""

import os
from functools import wraps
from importlib import import_module

import numpy as np
from sklearn.utils.validation import check_is_fitted

_HOME = "jplay.scale"  # a layer above this one: resolved when such samples come in
MEMORY_SHARE = 0.25  # of the memory there is; more samples than that are read in blocks


def scale_for(X):
    """The module that handles ``X`` in blocks; ``None`` for arrays in memory."""
    package, _, module = type(X).__module__.partition(".")
    in_blocks = (
        package in ("dask", "dask_expr", "zarr")
        or (package == "xarray" and getattr(X, "chunks", None) is not None)
        or (package == "jplay" and module.startswith("scale"))
        or (isinstance(X, np.memmap) and X.nbytes > MEMORY_SHARE * physical_memory())
    )
    return import_module(_HOME) if in_blocks else None


def physical_memory():
    """Bytes of memory of this machine; unlimited where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return np.inf


def by_rows(method):
    """Let a method that maps rows to rows take samples in blocks, lazily where they are."""

    @wraps(method)
    def wrapped(self, X):
        scale = scale_for(X)
        if scale is None:
            return method(self, X)
        check_is_fitted(self)
        return scale.rowwise(self, method.__name__, X)

    return wrapped
