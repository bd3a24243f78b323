"""The few array operations that the array API standard leaves to each library."""

import sys

import array_api_compat
import numpy as np
import scipy.linalg


def namespace(*arrays):
    """Array namespace shared by ``arrays`` (NumPy, PyTorch, CuPy, array-api-strict)."""
    return array_api_compat.array_namespace(*arrays)


def is_numpy(array):
    return isinstance(array, np.ndarray)


def to_numpy(array):
    """Copy ``array`` to host memory as a NumPy array; NumPy arrays pass through."""
    if is_numpy(array):
        return array
    if array_api_compat.is_torch_array(array):
        return array.detach().cpu().numpy()
    if array_api_compat.is_cupy_array(array):
        return array.get()
    return np.from_dlpack(array)


def like(values, reference, *, dtype=None):
    """``values`` as an array of the library, device and (unless given) dtype of ``reference``."""
    xp = namespace(reference)
    if array_api_compat.is_array_api_obj(values) and namespace(values) is not xp:
        values = to_numpy(values)
    return xp.asarray(
        values,
        dtype=reference.dtype if dtype is None else dtype,
        device=array_api_compat.device(reference),
    )


def zeros_like_shape(shape, reference, *, dtype=None):
    """Zeros of ``shape`` in the library, device and (unless given) dtype of ``reference``."""
    xp = namespace(reference)
    return xp.zeros(
        shape,
        dtype=reference.dtype if dtype is None else dtype,
        device=array_api_compat.device(reference),
    )


def identity(size, reference):
    """Identity matrix with library, device and dtype of ``reference``."""
    xp = namespace(reference)
    return xp.eye(size, dtype=reference.dtype, device=array_api_compat.device(reference))


def solve_positive(matrix, right_hand_side):
    """Solve with a symmetric positive definite ``matrix`` (batches allowed outside NumPy)."""
    if is_numpy(matrix) and matrix.ndim == 2:
        factor = scipy.linalg.cho_factor(matrix, lower=True, check_finite=False)
        return scipy.linalg.cho_solve(factor, right_hand_side, check_finite=False)
    return namespace(matrix).linalg.solve(matrix, right_hand_side)


def eigh_generalized(a, b):
    """Eigenvalues and ``b``-orthonormal eigenvectors of ``a v = lambda b v``, ``b`` positive.

    Returns ``(values, vectors)`` with ``vectors.mT @ b @ vectors`` the identity.
    """
    if is_numpy(a) and a.ndim == 2:
        return scipy.linalg.eigh(a, b, check_finite=False)
    xp = namespace(a)
    scales, axes = xp.linalg.eigh(b)
    whitener = axes / xp.sqrt(scales)[..., None, :]
    reduced = whitener.mT @ a @ whitener
    values, vectors = xp.linalg.eigh((reduced + reduced.mT) / 2)
    return values, whitener @ vectors


def smallest_per_row(matrix, count):
    """Indices of the ``count`` smallest entries of each row, in no particular order."""
    xp = namespace(matrix)
    if array_api_compat.is_torch_array(matrix):
        return matrix.topk(count, dim=1, largest=False, sorted=False).indices
    if is_numpy(matrix) or array_api_compat.is_cupy_array(matrix):
        return xp.argpartition(matrix, count - 1, axis=1)[:, :count]
    return xp.argsort(matrix, axis=1)[:, :count]


def sum_by_index(indices, values, size):
    """Sum of ``values`` over equal ``indices``, (size,)."""
    xp = namespace(values)
    if hasattr(xp, "bincount"):
        return xp.bincount(indices, weights=values, minlength=size)
    return like(np.bincount(to_numpy(indices), to_numpy(values), size), values)


def on_cuda(array):
    """Whether ``array`` is a PyTorch tensor on a CUDA device."""
    return array_api_compat.is_torch_array(array) and array.is_cuda


def fused(function, array):
    """``function`` compiled into few kernels for CUDA tensors of PyTorch, else as it is.

    Where the compiler is not available the plain function is returned.
    """
    if not on_cuda(array):
        return function
    torch = sys.modules["torch"]
    try:
        return torch.compile(function, dynamic=True)
    except RuntimeError:
        return function


def linalg_errors(array):
    """What a failed factorisation raises in the library of ``array``."""
    if array_api_compat.is_torch_array(array):
        return (np.linalg.LinAlgError, sys.modules["torch"].linalg.LinAlgError)
    return (np.linalg.LinAlgError,)
