"""Labels spread over a graph from the samples that have one (Zhou et al. 2004)."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse


def normalized_affinity(affinity: scipy.sparse.sparray) -> scipy.sparse.csr_array:
    """``D^(-1/2) W D^(-1/2)``; samples without edge keep a row of zeros."""
    degrees = np.asarray(affinity.sum(axis=1)).ravel()
    scale = np.where(degrees > 0, 1 / np.sqrt(np.where(degrees > 0, degrees, 1)), 0)
    return scipy.sparse.csr_array(affinity * scale[:, None] * scale[None, :])


def propagate_labels(
    affinity: scipy.sparse.sparray,
    Y: np.ndarray,
    labelled: np.ndarray,
    *,
    balanced: bool = True,
    sharpness: float = 3.0,
    reach: float = 0.99,
    max_iter: int = 200,
    tol: float = 1e-4,
) -> np.ndarray:
    r"""Soft labels of all samples from a few labelled ones.

    Solves :math:`(I - r S) F = Y` with :math:`S = D^{-1/2} W D^{-1/2}` by conjugate gradients,
    raises :math:`F` to a power and scales each row to sum one. Labelled samples keep their
    labels.

    Parameters
    ----------
    affinity : sparse array of shape (n_samples, n_samples)
    Y : ndarray of shape (n_samples, n_classes)
        One-hot rows of labelled samples; other rows are ignored.
    labelled : ndarray of bool of shape (n_samples,)
    balanced : bool, default=True
        Whether every class sends out the same mass, however many of its samples are labelled.
    sharpness : float, default=3.0
        The power. Far from labels the rows of :math:`F` differ little: most of the weight of
        the likeliest class comes from it.
    reach : float, default=0.99
        The factor :math:`r` below one; the nearer to one, the farther labels travel.
    max_iter : int, default=200
    tol : float, default=1e-4

    Returns
    -------
    soft : ndarray of shape (n_samples, n_classes)
        Rows sum to one; zero where no label arrives.

    Examples
    --------
    >>> import numpy as np, scipy.sparse
    >>> path = scipy.sparse.csr_array(np.diag([1.0, 0.1, 1.0], 1) + np.diag([1.0, 0.1, 1.0], -1))
    >>> Y = np.array([[1.0, 0], [0, 0], [0, 0], [0, 1]])
    >>> propagate_labels(path, Y, np.array([True, False, False, True])).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    # The eigenvalues of S are at most one in magnitude, so those of I - r S are at least 1 - r:
    # the operator is positive definite, and conjugate gradients need no preconditioner.
    spread = normalized_affinity(affinity)
    clamped = np.where(labelled[:, None], Y, 0.0).astype(np.float64)
    counts = clamped.sum(axis=0)
    start = clamped / np.where(counts > 0, counts, 1) if balanced else clamped
    soft = _conjugate_gradients(lambda F: F - reach * (spread @ F), start, max_iter, tol)
    soft = np.maximum(soft, 0)
    totals = soft.sum(axis=1, keepdims=True)
    soft = np.divide(soft, totals, out=np.zeros_like(soft), where=totals > 1e-12 * totals.max())
    soft **= sharpness
    totals = soft.sum(axis=1, keepdims=True)
    soft /= np.where(totals > 0, totals, 1)
    soft[labelled] = clamped[labelled]
    return soft


def confidence(soft: np.ndarray) -> np.ndarray:
    """One minus the entropy of every row relative to the largest, in [0, 1]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(soft > 0, soft * np.log(soft), 0.0)
    share = 1 + terms.sum(axis=1) / np.log(max(soft.shape[1], 2))
    return np.where(soft.sum(axis=1) > 0, share, 0.0)


def best_graph_for_labels(
    graphs: Sequence[scipy.sparse.sparray],
    Y: np.ndarray,
    labelled: np.ndarray,
    **options: Any,
) -> scipy.sparse.sparray:
    """The graph over which one half of the labels tells the other half best.

    Parameters
    ----------
    graphs : list of sparse arrays of shape (n_samples, n_samples)
    Y : ndarray of shape (n_samples, n_classes)
    labelled : ndarray of bool of shape (n_samples,)
    **options
        Of :func:`propagate_labels`.

    Returns
    -------
    sparse array
        The first of those that tell equally many.
    """
    # Every second sample of each class, so that both halves hold all classes.
    known = np.flatnonzero(labelled)
    order = known[np.argsort(Y[known].argmax(axis=1), kind="stable")]
    truth = Y.argmax(axis=1)
    hits = []
    for graph in graphs:
        hits.append(0)
        for half in (order[::2], order[1::2]):
            told = labelled.copy()
            told[half] = False
            soft = propagate_labels(graph, Y, told, **options)
            hits[-1] += int(np.sum(soft[half].argmax(axis=1) == truth[half]))
    return graphs[int(np.argmax(hits))]


def _conjugate_gradients(
    apply: Callable[[np.ndarray], np.ndarray], B: np.ndarray, max_iter: int, tol: float
) -> np.ndarray:
    """Solve ``apply(F) = B``, all columns at once, for a positive definite operator."""
    F = B.copy()
    residual = B - apply(F)
    direction = residual.copy()
    squares = np.einsum("ij,ij->j", residual, residual)
    target = tol**2 * np.einsum("ij,ij->j", B, B)
    for _ in range(max_iter):
        if np.all(squares <= target):
            break
        image = apply(direction)
        curvature = np.einsum("ij,ij->j", direction, image)
        step = squares / np.where(curvature > 0, curvature, 1)
        F += step * direction
        residual -= step * image
        squares_before, squares = squares, np.einsum("ij,ij->j", residual, residual)
        direction *= squares / np.where(squares_before > 0, squares_before, 1)
        direction += residual
    return F
