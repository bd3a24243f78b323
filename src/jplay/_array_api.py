"""The few array operations that the array API standard leaves to each library."""

import dataclasses
import importlib.util
import sys
from types import ModuleType
from typing import Any

import array_api_compat
import array_api_compat.numpy
import numpy as np
import scipy.linalg

# The standard defines no common base class, and the libraries need not be installed: an array
# of any of them is told by what it can do, not by its type.
Array = Any


def namespace(*arrays: Array) -> ModuleType:
    """Array namespace shared by ``arrays`` (NumPy, PyTorch, CuPy, array-api-strict)."""
    # Asked thousands of times in a small fit, and nearly always of plain NumPy arrays.
    for array in arrays:
        if type(array) is not np.ndarray:
            return array_api_compat.array_namespace(*arrays)
    return array_api_compat.numpy


def is_numpy(array: Array) -> bool:
    return isinstance(array, np.ndarray)


def to_numpy(array: Array) -> np.ndarray:
    """Copy ``array`` to host memory as a NumPy array; NumPy arrays pass through."""
    if is_numpy(array):
        return array
    if array_api_compat.is_torch_array(array):
        return array.detach().cpu().numpy()
    if array_api_compat.is_cupy_array(array):
        return array.get()
    return np.from_dlpack(array)


def arrays_on_host(value: Any) -> Any:
    """A copy in host memory, also of what dataclasses, lists, tuples and dictionaries hold."""
    if array_api_compat.is_array_api_obj(value):
        return to_numpy(value)
    if isinstance(value, dict):
        return {name: arrays_on_host(item) for name, item in value.items()}
    if isinstance(value, list):
        return [arrays_on_host(item) for item in value]
    if isinstance(value, tuple):
        return tuple(arrays_on_host(item) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **arrays_on_host(parts))
    return value


def like(values: Any, reference: Array, *, dtype: Any = None) -> Array:
    """``values`` as an array of the library, device and (unless given) dtype of ``reference``."""
    dtype = reference.dtype if dtype is None else dtype
    if type(values) is np.ndarray is type(reference) and values.dtype == dtype:
        return values  # as nearly always
    xp = namespace(reference)
    if array_api_compat.is_array_api_obj(values) and namespace(values) is not xp:
        values = to_numpy(values)
    return xp.asarray(values, dtype=dtype, device=array_api_compat.device(reference))


def zeros_like_shape(shape: tuple[int, ...], reference: Array, *, dtype: Any = None) -> Array:
    """Zeros of ``shape`` in the library, device and (unless given) dtype of ``reference``."""
    xp = namespace(reference)
    return xp.zeros(
        shape,
        dtype=reference.dtype if dtype is None else dtype,
        device=array_api_compat.device(reference),
    )


def rows_of(matrix: Array, indices: np.ndarray) -> Array:
    """Some rows of an array, or of what is indexed like one of NumPy, by indices on the host."""
    if is_numpy(matrix) or not array_api_compat.is_array_api_obj(matrix):
        return matrix[indices]
    xp = namespace(matrix)
    return xp.take(matrix, like(indices, matrix, dtype=xp.int64), axis=0)


def largest_magnitude(array: Array) -> float:
    """Largest absolute value, without an array of all of them."""
    xp = namespace(array)
    return max(float(xp.max(array)), -float(xp.min(array)))


def identity(size: int, reference: Array) -> Array:
    """Identity matrix with library, device and dtype of ``reference``."""
    if is_numpy(reference):
        return np.eye(size, dtype=reference.dtype)
    xp = namespace(reference)
    return xp.eye(size, dtype=reference.dtype, device=array_api_compat.device(reference))


def solve_positive(matrix: Array, right_hand_side: Array) -> Array:
    """Solve with a symmetric positive definite ``matrix`` or a stack of them.

    A Cholesky factorisation costs half of what an LU factorisation does; the array API standard
    has none with a solve.
    """
    if is_numpy(matrix) and matrix.ndim == 2:
        factor = scipy.linalg.cho_factor(matrix, lower=True, check_finite=False)
        return scipy.linalg.cho_solve(factor, right_hand_side, check_finite=False)
    return namespace(matrix).linalg.solve(matrix, right_hand_side)


def eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of a symmetric ``matrix`` or a stack of them.

    PyTorch decomposes a stack on a GPU one matrix after the other. CuPy, if it is installed,
    takes them all at once, a hundred times as fast for matrices of 50 rows.
    """
    if on_cuda(matrix) and matrix.ndim > 2 and importlib.util.find_spec("cupy"):
        cupy = importlib.import_module("cupy")
        return tuple(map(namespace(matrix).from_dlpack, cupy.linalg.eigh(cupy.from_dlpack(matrix))))
    return namespace(matrix).linalg.eigh(matrix)


_FEW = 4  # smallest entries, up to which repeated minima are faster than a partition
_CHUNK = 128  # columns whose minimum tells whether to look at them


def smallest_per_row(matrix: Array, count: int) -> tuple[Array, Array]:
    """Indices and values of the ``count`` smallest entries of each row, in no particular order."""
    xp = namespace(matrix)
    if array_api_compat.is_torch_array(matrix):
        return _smallest_of_tensor(matrix, count)
    if is_numpy(matrix) and count <= _FEW and count < matrix.shape[1]:
        return _smallest_in_turn(matrix, count)
    if is_numpy(matrix) or array_api_compat.is_cupy_array(matrix):
        indices = xp.argpartition(matrix, count - 1, axis=1)[:, :count]
    else:
        indices = xp.argsort(matrix, axis=1)[:, :count]
    return indices, xp.take_along_axis(matrix, indices, axis=1)


def _smallest_of_tensor(matrix: Array, count: int) -> tuple[Array, Array]:
    """The same for a PyTorch tensor, whose ``topk`` reads long rows many times.

    A few are found in turn. The smallest entries of a long row lie in the chunks of it (of columns
    that are far apart, which a device reads side by side) with the smallest minima, and among
    the last columns, which fill no chunk.
    """
    torch: Any = sys.modules["torch"]
    n_columns = matrix.shape[1]
    if count <= _FEW and count < n_columns:
        found = []
        for _ in range(count):
            found.append(matrix.min(dim=1, keepdim=True))
            matrix.scatter_(1, found[-1].indices, torch.inf)
        values, indices = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
        matrix.scatter_(1, indices, values)
        return indices, values
    whole = n_columns - n_columns % _CHUNK
    if count * _CHUNK * 4 > whole:
        values, indices = matrix.topk(count, dim=1, largest=False, sorted=False)
        return indices, values
    minima = matrix[:, :whole].unflatten(1, (_CHUNK, -1)).amin(1)
    chunks = minima.topk(count, dim=1, largest=False, sorted=False).indices
    within = torch.arange(0, whole, whole // _CHUNK, device=matrix.device)
    columns = (chunks[:, :, None] + within).flatten(1)
    last = torch.arange(whole, n_columns, device=matrix.device)
    columns = torch.cat([columns, last.expand(len(matrix), -1)], dim=1)
    values, places = matrix.gather(1, columns).topk(count, dim=1, largest=False, sorted=False)
    return columns.gather(1, places), values


def _smallest_in_turn(matrix: Array, count: int) -> tuple[Array, Array]:
    """One minimum after the other; what was found is hidden while the next is sought."""
    starts = np.arange(matrix.shape[0]) * matrix.shape[1]
    found = np.empty((count, matrix.shape[0]), dtype=np.intp)
    values = np.empty((count, matrix.shape[0]), dtype=matrix.dtype)
    entries = np.ascontiguousarray(matrix)
    flat = entries.reshape(-1)
    for turn in range(count):
        np.argmin(entries, axis=1, out=found[turn])
        places = starts + found[turn]
        np.take(flat, places, out=values[turn])
        flat[places] = np.inf
    for turn in range(count):
        flat[starts + found[turn]] = values[turn]
    return found.T, values.T


def on_cuda(array: Array) -> bool:
    """Whether ``array`` is a PyTorch tensor on a CUDA device."""
    return array_api_compat.is_torch_array(array) and array.is_cuda


def linalg_errors(array: Array) -> tuple[type[Exception], ...]:
    """What a failed factorisation raises in the library of ``array``."""
    if array_api_compat.is_torch_array(array):
        torch: Any = sys.modules["torch"]
        return (np.linalg.LinAlgError, torch.linalg.LinAlgError)
    return (np.linalg.LinAlgError,)
