"""Supervised subspaces that maximise an estimate of mutual information: LSDR and LSQMID.

Both methods alternate between choosing kernel width and regularisation by cross-validation
and climbing on the Grassmann manifold; they differ in their criterion, which lives in
``squared_loss_information`` and ``quadratic_information``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from jplay.numerics.kernels import gaussian, median_distance, squared_distances
from jplay.numerics.stiefel import random_frame
from jplay.solvers.grassmann import (
    Evaluation,
    SearchStatus,
    SearchStep,
    maximize_over_subspaces,
)

# Chosen by hand: each trades time for a better subspace, and none has an optimum of its own.
_SCREENING_STEPS = 15  # of each start, before the best goes on
_MAX_ROUNDS = 6  # of choosing settings and climbing
_START_RIDGE = 1e-3  # of the regressions that give the gradient start
_START_SHRINKAGE = 0.75  # share of the dimensions that each of them keeps


@dataclass(frozen=True, eq=False)
class KernelSamples:
    """Samples, their targets, and which of them are kernel centres.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Centred.
    targets : ndarray of shape (n_samples, n_outputs)
        One-hot classes, label indicators or real values.
    are_classes : bool
        Whether ``targets`` are one-hot.
    centers : ndarray of shape (n_centers,)
        Indices of samples.
    folds : ndarray of shape (n_samples,)
        Number of the cross-validation fold that holds each sample out.
    """

    X: np.ndarray
    targets: np.ndarray
    are_classes: bool
    centers: np.ndarray
    folds: np.ndarray

    def target_distances(self) -> np.ndarray:
        """Squared distances of the targets from those of the centres, (n_samples, n_centers)."""
        return squared_distances(self.targets, self.targets[self.centers])

    def fold_rows(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs of row indices: training part and held-out part of every fold."""
        for fold in range(self.folds.max() + 1):
            held_out = self.folds == fold
            yield np.flatnonzero(~held_out), np.flatnonzero(held_out)


@dataclass(frozen=True)
class KernelSettings:
    """Widths of the kernels on projected samples and on targets, and the ridge ``reg``."""

    width: float
    target_width: float
    reg: float


@dataclass(frozen=True)
class Choice:
    """Cross-validated settings at one subspace; ``score`` ranks subspaces, larger is better."""

    settings: KernelSettings
    score: float


class Criterion(Protocol):
    """What a method has to know: how to choose its settings, and its gradient."""

    def choose(self, frame: np.ndarray) -> Choice: ...

    def evaluator(self, settings: KernelSettings) -> Evaluation: ...


@dataclass(frozen=True, eq=False)
class SubspaceResult:
    """The best subspace, the settings chosen at it, and how the search ended."""

    frame: np.ndarray
    choice: Choice
    n_iter: int
    status: SearchStatus


def draw_samples(
    X: np.ndarray,
    targets: np.ndarray,
    are_classes: bool,
    *,
    n_centers: int,
    n_folds: int,
    rng: np.random.Generator,
) -> KernelSamples:
    """Draw the centres and the folds."""
    n_samples = len(X)
    centers = rng.permutation(n_samples)[: min(n_samples, n_centers)]
    folds = rng.permutation(n_samples) % min(n_folds, n_samples)
    return KernelSamples(X, targets, are_classes, np.sort(centers), folds)


def target_features(samples: KernelSamples) -> np.ndarray:
    """Functions of the target whose regressions on ``X`` reveal the subspace.

    One-hot or multi-label targets as they are; for real targets their values and a
    Gaussian kernel to the centres, so that changes of spread and shape show too.
    """
    targets = samples.targets
    if not np.isin(targets, (0.0, 1.0)).all():
        distances = samples.target_distances()
        kernel = gaussian(distances, median_distance(distances) / 2)
        targets = np.column_stack([targets, kernel[:, :20]])
    features = targets - targets.mean(axis=0)
    scale = features.std(axis=0)
    return features[:, scale > 0] / scale[scale > 0]


def leading_gradients(
    X: np.ndarray, centers: np.ndarray, features: np.ndarray, n_components: int
) -> np.ndarray:
    """Directions along which kernel ridge regressions of ``features`` on ``X`` change most.

    Leading eigenvectors, as rows, of the mean outer product of the regressions' gradients.
    """
    X_centers = X[centers]
    distances = squared_distances(X, X_centers)
    kernel = gaussian(distances, median_distance(distances))
    between_centers = kernel[centers]
    normal = kernel.T @ kernel + _START_RIDGE * len(X) * between_centers
    # Near-duplicate centres make the system singular to working precision.
    normal[np.diag_indices_from(normal)] += 1e-8 * np.trace(normal)
    coefficients = np.linalg.solve(normal, kernel.T @ features)
    outer = np.zeros((X.shape[1], X.shape[1]))
    for coefficient in coefficients.T:
        weights = between_centers * coefficient
        gradients = weights @ X_centers - weights.sum(axis=1)[:, None] * X_centers
        outer += gradients.T @ gradients
    return np.linalg.eigh(outer)[1][:, ::-1][:, :n_components].T


def gradient_start(samples: KernelSamples, n_components: int) -> np.ndarray:
    """Frame from :func:`leading_gradients`, a few dimensions at a time.

    Regressions are poor in many dimensions. Dropping only the least useful directions
    and fitting again in what is left makes each of them better than the one before.
    """
    features = target_features(samples)
    frame = np.eye(samples.X.shape[1])
    while len(frame) > n_components:
        keep = max(n_components, min(len(frame) - 1, int(_START_SHRINKAGE * len(frame))))
        frame = leading_gradients(samples.X @ frame.T, samples.centers, features, keep) @ frame
    return frame


def starting_frames(
    samples: KernelSamples,
    n_components: int,
    init: str,
    n_restarts: int,
    rng: np.random.Generator,
) -> Iterator[np.ndarray]:
    """The principal axes, the gradient start or both, then ``n_restarts`` random subspaces.

    ``samples.X`` is expected in principal coordinates.
    """
    n_features = samples.X.shape[1]
    if init in ("pca", "auto"):
        yield np.eye(n_components, n_features)
    if init in ("gradient", "auto"):
        yield gradient_start(samples, n_components)
    for _ in range(max(1, n_restarts) if init == "random" else n_restarts):
        yield random_frame(n_components, n_features, rng)


def search_subspace(
    criterion: Criterion,
    samples: KernelSamples,
    n_components: int,
    *,
    init: str,
    n_restarts: int,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
    on_step: Callable[[SearchStep], object] | None = None,
) -> SubspaceResult:
    """Find the subspace that maximises ``criterion``.

    Every start is climbed for a few steps; the best by cross-validated score goes on, its
    settings chosen again whenever the climb has ended, until that no longer helps.

    Parameters
    ----------
    criterion : Criterion
    samples : KernelSamples
        ``X`` in principal coordinates.
    n_components : int
    init : {"auto", "pca", "gradient", "random"}
        Deterministic starts: both, one of them, or none.
    n_restarts : int
        Random starts.
    max_iter : int
        Steps of one climb.
    tol : float
        See :func:`maximize_over_subspaces`.
    rng : numpy.random.Generator
    on_step : callable, default=None
        Called with a :class:`SearchStep`; the search ends when it returns ``True``.

    Returns
    -------
    result : SubspaceResult
    """
    n_steps = 0

    def report(step: SearchStep) -> bool:
        nonlocal n_steps
        n_steps += 1
        return on_step is not None and bool(on_step(step))

    def climb(
        frame: np.ndarray, choice: Choice, limit: int
    ) -> tuple[np.ndarray, Choice, SearchStatus]:
        search = maximize_over_subspaces(
            criterion.evaluator(choice.settings), frame, max_iter=limit, tol=tol, on_step=report
        )
        return search.frame, criterion.choose(search.frame), search.status

    best: tuple[np.ndarray, Choice, SearchStatus] | None = None
    for start in starting_frames(samples, n_components, init, n_restarts, rng):
        candidate = climb(start, criterion.choose(start), min(_SCREENING_STEPS, max_iter))
        if best is None or candidate[1].score > best[1].score:
            best = candidate
        if candidate[2] is SearchStatus.STOPPED or n_components == samples.X.shape[1]:
            return SubspaceResult(best[0], best[1], n_steps, candidate[2])
    if best is None:
        raise ValueError(f"`init` should give at least one start, got {init!r}.")
    status = best[2]
    for _ in range(_MAX_ROUNDS):
        candidate = climb(best[0], best[1], max_iter)
        status = candidate[2]
        improved = candidate[1].score > best[1].score
        same_settings = candidate[1].settings == best[1].settings
        if improved:
            best = candidate
        if not improved or same_settings or status is SearchStatus.STOPPED:
            break
    return SubspaceResult(best[0], best[1], n_steps, status)
