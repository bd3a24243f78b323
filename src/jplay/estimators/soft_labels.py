"""Soft labels for samples without a label, propagated over a graph (Zhou et al. 2004)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse

from jplay.core.checks import check_positive, check_whole
from jplay.core.targets import Targets

REACH = 0.99
"""Factor of a label per edge, below one. The nearer to one, the farther labels travel."""
EXPONENT = 3.0
"""Power of the propagated mass. Far from labels the classes differ little in mass: the likeliest
should have most of the weight."""


@dataclass(frozen=True)
class SoftLabelPropagation:
    """Soft labels for samples without one, for the parameter ``unlabeled`` of :class:`JPlay`.

    Samples without a label get labels from their neighbors: over the graph with its edges weighted
    by distance in the learned subspace, or over the neighbors there, whichever predicts held-out
    labels better. The model is then fitted again with them.

    Parameters
    ----------
    weight : float, default=1.0
        Weight of a soft label relative to a true one; it is multiplied by the label confidence.
    rounds : int, default=2
        Number of rounds of propagation and fit.
    marker : {"auto", -1}, default="auto"
        Marker of a sample without a label, as for the parameter ``unlabeled``.

    Examples
    --------
    >>> from jplay import JPlay, SoftLabelPropagation
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> y[::2] = -1
    >>> JPlay(3, unlabeled=SoftLabelPropagation(weight=0.5)).fit(X, y).classes_
    array([0, 1, 2])
    """

    weight: float = 1.0
    rounds: int = 2
    marker: Literal["auto", -1] = "auto"

    def __post_init__(self) -> None:
        check_positive("weight", self.weight)
        check_whole("rounds", self.rounds, 1)
        if self.marker not in ("auto", -1):
            raise ValueError(f"`marker` should be 'auto' or -1, got {self.marker!r}.")


def add_soft_labels(graphs: Sequence[Any], targets: Targets, weight: float) -> Targets:
    """Return targets with soft labels for samples that have none; weights keep their sum.

    Parameters
    ----------
    graphs : list of sparse arrays of shape (n_samples, n_samples)
        The one that predicts held-out labels best is used; the last for multi-label targets.
    targets : Targets
    weight : float
        Weight of a certain soft label relative to a true one.

    Returns
    -------
    Targets
    """
    labeled = targets.labeled
    Y, true_weight = targets.encode()
    assert true_weight is not None
    true_weight = true_weight[:, 0]
    soft_classes = None
    if targets.multilabel:
        Y, confidence = propagate_indicators(graphs[-1], targets)
    else:
        Y = propagate_labels(choose_graph(graphs, Y, labeled), Y, labeled)
        confidence = compute_confidence(Y)
        likeliest = np.eye(Y.shape[1])[Y.argmax(axis=1)]
        soft_classes = likeliest * (Y.sum(axis=1) > 0)[:, None]
    typical = true_weight[labeled].mean()
    total = np.where(labeled, true_weight, weight * typical * confidence)
    total *= true_weight.sum() / total.sum()
    return replace(targets, y=Y, weight=total, soft_classes=soft_classes)


def propagate_indicators(graph: Any, targets: Targets) -> tuple[np.ndarray, np.ndarray]:
    """Propagate every label against its absence, one by one; return their mean confidence too."""
    scale = 1.0 if targets.output_scale is None else targets.output_scale
    true = targets.y / scale
    Y, confidence = np.zeros_like(true), np.zeros(len(true))
    for label in range(true.shape[1]):
        both = np.stack([1 - true[:, label], true[:, label]], axis=1)
        soft = propagate_labels(graph, both, targets.labeled, balanced=False, exponent=1.0)
        Y[:, label] = soft[:, 1]
        confidence += compute_confidence(soft)
    Y[targets.labeled] = true[targets.labeled]
    return Y * scale, confidence / true.shape[1]


def propagate_labels(
    affinity: scipy.sparse.sparray,
    Y: np.ndarray,
    labeled: np.ndarray,
    *,
    balanced: bool = True,
    exponent: float = EXPONENT,
) -> np.ndarray:
    r"""Return soft labels of all samples from a few labeled ones.

    Solves :math:`(I - r S) F = Y` with :math:`S = D^{-1/2} W D^{-1/2}` by conjugate gradients,
    raises :math:`F` to a power and scales each row to sum one. Labeled samples keep their labels.

    Parameters
    ----------
    affinity : sparse array of shape (n_samples, n_samples)
    Y : ndarray of shape (n_samples, n_classes)
        One-hot rows of labeled samples; other rows are ignored.
    labeled : ndarray of bool of shape (n_samples,)
    balanced : bool, default=True
        Whether every class emits the same mass, however many of its samples are labeled.
    exponent : float, default=3.0

    Returns
    -------
    soft : ndarray of shape (n_samples, n_classes)
        Rows sum to one, or are zero where no label arrives.
    """
    degrees = np.asarray(affinity.sum(axis=1)).ravel()
    scale = np.where(degrees > 0, 1 / np.sqrt(np.where(degrees > 0, degrees, 1)), 0)
    S = scipy.sparse.csr_array(affinity * scale[:, None] * scale[None, :])
    true = np.where(labeled[:, None], Y, 0.0).astype(np.float64)
    counts = true.sum(axis=0)
    start = true / np.where(counts > 0, counts, 1) if balanced else true
    # The eigenvalues of S are at most one in magnitude, so those of I - r S are at least 1 - r:
    # the operator is positive definite, and conjugate gradients need no preconditioner.
    F = np.maximum(solve_conjugate_gradients(lambda F: F - REACH * (S @ F), start), 0)
    totals = F.sum(axis=1, keepdims=True)
    soft = np.divide(F, totals, out=np.zeros_like(F), where=totals > 1e-12 * totals.max())
    soft **= exponent
    totals = soft.sum(axis=1, keepdims=True)
    soft /= np.where(totals > 0, totals, 1)
    soft[labeled] = true[labeled]
    return soft


def compute_confidence(soft: np.ndarray) -> np.ndarray:
    """Return one minus the normalized entropy of every row, in [0, 1]; zero for rows of zeros."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(soft > 0, soft * np.log(soft), 0.0)
    confidence = 1 + terms.sum(axis=1) / np.log(max(soft.shape[1], 2))
    return np.where(soft.sum(axis=1) > 0, confidence, 0.0)


def choose_graph(graphs: Sequence[Any], Y: np.ndarray, labeled: np.ndarray) -> Any:
    """Return the graph over which one half of the labels predicts the other half best.

    The first of several that predict equally many.
    """
    # Every second sample of each class, so that both halves contain all classes.
    known = np.flatnonzero(labeled)
    order = known[np.argsort(Y[known].argmax(axis=1), kind="stable")]
    truth = Y.argmax(axis=1)
    n_correct = []
    for graph in graphs:
        n_correct.append(0)
        for half in (order[::2], order[1::2]):
            visible = labeled.copy()
            visible[half] = False
            soft = propagate_labels(graph, Y, visible)
            n_correct[-1] += int(np.sum(soft[half].argmax(axis=1) == truth[half]))
    return graphs[int(np.argmax(n_correct))]


def solve_conjugate_gradients(
    apply: Callable[[np.ndarray], np.ndarray],
    B: np.ndarray,
    max_iter: int = 200,
    tol: float = 1e-4,
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
