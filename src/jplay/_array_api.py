"""The few array operations that the array API standard leaves to each library."""

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
