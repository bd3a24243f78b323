"""Squared-loss mutual information by least-squares density-ratio fitting (LSDR)."""

from dataclasses import dataclass

import numpy as np

from jplay._array_api import solve_positive
from jplay.numerics.kernels import (
    gaussian,
    median_distance,
    squared_distances,
    weighted_pair_products,
)
from jplay.solvers.grassmann import Evaluation
from jplay.solvers.information import Choice, KernelSamples, KernelSettings


def _add_to_diagonal(matrix: np.ndarray, value: float) -> np.ndarray:
    matrix = matrix.copy()
    matrix[np.diag_indices_from(matrix)] += value
    return matrix


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over samples from which ``H`` and ``h`` follow; those of a part can be taken away."""

    gram: np.ndarray
    target_gram: np.ndarray
    joint: np.ndarray
    n_samples: int

    @classmethod
    def over(cls, kernel: np.ndarray, target_kernel: np.ndarray) -> "_Sums":
        joint = np.einsum("ik,ik->k", kernel, target_kernel)
        return cls(kernel.T @ kernel, target_kernel.T @ target_kernel, joint, len(kernel))

    def without(self, part: "_Sums") -> "_Sums":
        return _Sums(
            self.gram - part.gram,
            self.target_gram - part.target_gram,
            self.joint - part.joint,
            self.n_samples - part.n_samples,
        )

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """``H`` over all pairs of sample and target, and ``h`` over the samples."""
        return self.gram * self.target_gram / self.n_samples**2, self.joint / self.n_samples


def information_and_gradient(
    frame: np.ndarray,
    samples: KernelSamples,
    target_kernel: np.ndarray,
    target_gram: np.ndarray,
    settings: KernelSettings,
) -> tuple[float, np.ndarray]:
    r"""Estimate of squared-loss mutual information and its gradient.

    ``h^T a - a^T H a / 2`` with ``a = (H + reg I)^{-1} h``,
    ``H = (K_y^T K_y / n) o (K_z^T K_z / n)`` and ``h = mean_i K_z(z_i, .) K_y(y_i, .)``.

    Parameters
    ----------
    frame : ndarray of shape (n_components, n_features)
    samples : KernelSamples
    target_kernel : ndarray of shape (n_samples, n_centers)
    target_gram : ndarray of shape (n_centers, n_centers)
        ``target_kernel.T @ target_kernel / n_samples``.
    settings : KernelSettings

    Returns
    -------
    information : float
        Without the constant -1/2.
    gradient : ndarray of shape (n_components, n_features)
        With respect to ``frame``; all entries free.
    """
    X, X_centers = samples.X, samples.X[samples.centers]
    Z = X @ frame.T
    Z_centers = Z[samples.centers]
    n_samples = len(X)
    kernel = gaussian(squared_distances(Z, Z_centers), settings.width)
    second = target_gram * (kernel.T @ kernel) / n_samples
    first = np.einsum("ik,ik->k", kernel, target_kernel) / n_samples
    regularized = _add_to_diagonal(second, settings.reg)
    ratio = solve_positive(regularized, first)
    shrunk = solve_positive(regularized, first - second @ ratio)
    information = float(first @ ratio - ratio @ second @ ratio / 2)
    # dJ = dh^T (a + b) - (b + a / 2)^T dH a, with (H + reg I) b = h - H a.
    pair = np.outer(shrunk + ratio / 2, ratio)
    slopes = target_kernel * (ratio + shrunk) - kernel @ ((pair + pair.T) * target_gram)
    weights = slopes * kernel / (-n_samples * settings.width**2)
    return information, weighted_pair_products(weights, Z, Z_centers, X, X_centers)


@dataclass(frozen=True, eq=False)
class SquaredLossCriterion:
    """Least-squares estimate of squared-loss mutual information.

    Attributes
    ----------
    samples : KernelSamples
    widths : tuple of float
        Candidate widths as multiples of the median distance.
    regs : tuple of float
        Candidate ridges as multiples of the mean diagonal of ``H``.
    """

    samples: KernelSamples
    widths: tuple[float, ...]
    regs: tuple[float, ...]

    def target_kernel(self, target_width: float) -> np.ndarray:
        """Equality of classes; otherwise a Gaussian on the targets. Shape (n, b)."""
        if self.samples.are_classes:
            targets = self.samples.targets
            return targets @ targets[self.samples.centers].T
        return gaussian(self.samples.target_distances(), target_width)

    def evaluator(self, settings: KernelSettings) -> Evaluation:
        """Information and gradient as a function of the frame alone."""
        target_kernel = self.target_kernel(settings.target_width)
        target_gram = target_kernel.T @ target_kernel / len(target_kernel)
        return lambda frame: information_and_gradient(
            frame, self.samples, target_kernel, target_gram, settings
        )

    def choose(self, frame: np.ndarray) -> Choice:
        """Settings with the best cross-validated least-squares score at ``frame``."""
        Z = self.samples.X @ frame.T
        distances = squared_distances(Z, Z[self.samples.centers])
        width_unit = median_distance(distances)
        target_unit = median_distance(self.samples.target_distances())
        choices = []
        for multiple in self.widths:
            width, target_width = multiple * width_unit, multiple * target_unit
            kernel = gaussian(distances, width)
            target_kernel = self.target_kernel(target_width)
            ridge_unit = (
                np.mean(kernel**2, axis=0) @ np.mean(target_kernel**2, axis=0) / len(kernel.T)
            )
            scores = self._held_out_scores(kernel, target_kernel, np.array(self.regs) * ridge_unit)
            winner = int(np.argmax(scores))
            reg = float(self.regs[winner] * ridge_unit)
            settings = KernelSettings(width, target_width, reg)
            choices.append(Choice(settings, float(scores[winner])))
        return max(choices, key=lambda choice: choice.score)

    def _held_out_scores(
        self, kernel: np.ndarray, target_kernel: np.ndarray, regs: np.ndarray
    ) -> np.ndarray:
        """Cross-validated ``h^T a - a^T H a / 2`` for every ridge."""
        held_out_rows = [out for _, out in self.samples.fold_rows()]
        parts = [_Sums.over(kernel[out], target_kernel[out]) for out in held_out_rows]
        whole = _Sums(
            np.sum([part.gram for part in parts], axis=0),
            np.sum([part.target_gram for part in parts], axis=0),
            np.sum([part.joint for part in parts], axis=0),
            len(kernel),
        )
        scores = np.zeros(len(regs))
        for part in parts:
            second, first = whole.without(part).moments()
            second_out, first_out = part.moments()
            for i, reg in enumerate(regs):
                ratio = solve_positive(_add_to_diagonal(second, reg), first)
                scores[i] += first_out @ ratio - ratio @ second_out @ ratio / 2
        return scores / len(parts)
