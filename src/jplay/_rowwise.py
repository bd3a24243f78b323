"""Methods that map rows to rows, on containers that are not arrays in memory.

Each block is mapped by a copy of the estimator without what only the fit needed.
"""

import copy
import os
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import partial, wraps
from typing import Any

import numpy as np
import sklearn
from array_api_compat import is_array_api_obj
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from jplay._array_api import arrays_on_host, is_numpy, to_numpy
from jplay.core.blocked import is_dask_array, is_in_blocks, unwrap


def by_rows(method: Callable) -> Callable:
    """Let a method that maps rows to rows take samples in blocks, lazily if they are lazy."""

    @wraps(method)
    def wrapped(self, X):
        if not is_in_blocks(X):
            return method(self, X)
        check_is_fitted(self)
        return rowwise(self, method.__name__, X)

    return wrapped


def rowwise(estimator: Any, method: str, X: Any) -> Any:
    """``estimator.method(X)`` block by block: lazy for Dask, an array in memory otherwise."""
    lean = without_training(estimator)
    array = unwrap(X)
    _check_features(estimator, array)
    if not is_dask_array(array):
        parts = [getattr(lean, method)(source.load()) for source in array.split()]
        return _concatenated(parts)
    example = getattr(lean, method)(np.zeros((1, array.shape[1]), dtype=_float_dtype(array)))
    if isinstance(example, list | dict):
        keys = list(example) if isinstance(example, dict) else range(len(example))
        lazy = {
            key: _mapped(array, partial(_part, lean, method, key), example[key]) for key in keys
        }
        return lazy if isinstance(example, dict) else list(lazy.values())
    result = _mapped(array, partial(_whole, lean, method), example)
    return result if array is X else _like_xarray(result, X)


def _whole(estimator, method, block):
    return getattr(estimator, method)(block)


def _part(estimator, method, index, block):
    return getattr(estimator, method)(block)[index]


def _mapped(array, function, example):
    def on_block(block):
        if not block.shape[0]:
            return np.empty((0, *example.shape[1:]), dtype=example.dtype)
        return _on_its_device(function, block)

    if example.ndim == 1:
        # Dask would drop the axis by joining blocks, which are not always NumPy arrays.
        column = _mapped(array, lambda block: function(block)[:, None], example[:, None])
        return column[:, 0]
    chunks = (array.chunks[0], (example.shape[1],))
    return array.map_blocks(on_block, dtype=example.dtype, chunks=chunks, meta=example[:0])


def _on_its_device(function, block):
    """``function`` of a block in host memory; it runs where the block is if that can be."""
    if is_numpy(block) or not is_array_api_obj(block):
        return function(block)
    if not os.environ.get("SCIPY_ARRAY_API"):  # without it scikit-learn lets no such array through
        return function(to_numpy(block))
    with sklearn.config_context(array_api_dispatch=True):
        return arrays_on_host(function(block))


def _float_dtype(array):
    return array.dtype if array.dtype in (np.float32, np.float64) else np.float64


def _concatenated(parts):
    if isinstance(parts[0], dict):
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if isinstance(parts[0], list):
        return [np.concatenate(layer) for layer in zip(*parts, strict=True)]
    return np.concatenate(parts)


def _check_features(estimator, array):
    expected = estimator.n_features_in_
    if array.shape[1] != expected:
        raise ValueError(
            f"X has {array.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{expected} features as input."
        )


def _like_xarray(result, X):
    """A DataArray over the samples of ``X``; other containers are left behind."""
    if not type(X).__module__.startswith("xarray"):
        return result
    samples = X.dims[0]
    coords = {name: c for name, c in X.coords.items() if c.dims in ((), (samples,))}
    dims = (samples,) if result.ndim == 1 else (samples, "component")
    return type(X)(result, dims=dims, coords=coords)


def without_training(value: Any) -> Any:
    """A copy without what only the fit needed, through pipelines and estimators inside others.

    An estimator names such attributes in the class attribute ``_training_attributes``: the graph
    of the training samples, the history of the solver.
    """
    if isinstance(value, list | tuple):
        return type(value)(without_training(item) for item in value)
    if not isinstance(value, BaseEstimator) and not _is_state(value):
        return value
    slim = copy.copy(value)
    dropped = getattr(type(value), "_training_attributes", ())
    for name, item in list(vars(slim).items()):
        if name in dropped:
            del vars(slim)[name]
        else:
            vars(slim)[name] = without_training(item)
    return slim


def _is_state(value: Any) -> bool:
    """Whether ``value`` is a record of this package, which may hold estimators."""
    return (
        is_dataclass(value)
        and not isinstance(value, type)
        and type(value).__module__.startswith("jplay.")
    )
