"""Derivative of quadratic mutual information by least squares (LSQMID).

With ``f = p(z, y) - p(z) p(y)``, quadratic mutual information is half the integral of ``f^2``. Its
derivative needs ``g = df/dz`` only, which is fitted directly: ``g_l = theta_l^T phi`` with Gaussian
bases ``phi`` minimises the integral of ``(g_l - df/dz_l)^2``, and integration by parts turns the
unknown ``df/dz_l`` into derivatives of the bases.

The Gram matrix of the bases is ``scale * exp(-|z_k - z_k'|^2 / 4 s^2 - |y_k - y_k'|^2 / 4 s_y^2)``,
where ``scale`` is exponential in the dimension. It is kept as a logarithm, and ridges are relative
to it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from jplay.numerics.kernels import gaussian, median_distance, squared_distances
from jplay.solvers.grassmann import Evaluation
from jplay.solvers.information import Choice, KernelSamples, KernelSettings


@dataclass(frozen=True, eq=False)
class _Bases:
    """Bases at the samples for one subspace: dependence ``K_z o (K_y - mean K_y)`` and Gram."""

    Z: np.ndarray
    Z_centers: np.ndarray
    kernel: np.ndarray
    target_kernel: np.ndarray
    gram: np.ndarray
    width: float


def log_gram_scale(n_components: int, n_outputs: int, settings: KernelSettings) -> float:
    """Logarithm of ``(sqrt(pi) s)^n_components (sqrt(pi) s_y)^n_outputs``."""
    half_log_pi = np.log(np.pi) / 2
    return float(
        n_components * (half_log_pi + np.log(settings.width))
        + n_outputs * (half_log_pi + np.log(settings.target_width))
    )


def _bases(
    Z: np.ndarray, samples: KernelSamples, width: float, target_kernel: np.ndarray
) -> _Bases:
    Z_centers = Z[samples.centers]
    kernel = gaussian(squared_distances(Z, Z_centers), width)
    # exp(-d / 4 s^2) is the square root of the kernel between centres.
    gram = np.sqrt(kernel[samples.centers] * target_kernel[samples.centers])
    return _Bases(Z, Z_centers, kernel, target_kernel, gram, width)


Rows = slice | np.ndarray


def _dependence(bases: _Bases, rows: Rows) -> np.ndarray:
    """``K_z o (K_y - mean K_y)``: the bases under ``p(z, y) - p(z) p(y)``, shape (rows, b)."""
    targets = bases.target_kernel[rows]
    return bases.kernel[rows] * (targets - targets.mean(axis=0))


def _mean_base_derivatives(bases: _Bases, rows: Rows) -> np.ndarray:
    """``mean_i d phi_k(z_i, y_i) - mean_ij d phi_k(z_i, y_j)``, shape (b, n_components)."""
    dependence = _dependence(bases, rows)
    moved = dependence.T @ bases.Z[rows] - dependence.sum(axis=0)[:, None] * bases.Z_centers
    return moved / (-len(dependence) * bases.width**2)


def information_derivative(
    frame: np.ndarray,
    samples: KernelSamples,
    target_kernel: np.ndarray,
    settings: KernelSettings,
) -> np.ndarray:
    """Least-squares estimate of ``d QMI / d frame`` times the scale of the Gram matrix.

    Parameters
    ----------
    frame : ndarray of shape (n_components, n_features)
    samples : KernelSamples
    target_kernel : ndarray of shape (n_samples, n_centers)
        Gaussian with ``settings.target_width``.
    settings : KernelSettings
        ``reg`` is relative to the diagonal of the Gram matrix.

    Returns
    -------
    derivative : ndarray of shape (n_components, n_features)
        Divide by ``exp(log_gram_scale(...))`` for the derivative itself.
    """
    bases = _bases(samples.X @ frame.T, samples, settings.width, target_kernel)
    everything = slice(None)
    first = _mean_base_derivatives(bases, everything)
    gram = bases.gram.copy()
    gram[np.diag_indices_from(gram)] += settings.reg
    theta = -scipy.linalg.solve(gram, first, assume_a="pos", check_finite=False)
    density_slopes = _dependence(bases, everything) @ theta
    return density_slopes.T @ samples.X / len(samples.X)


@dataclass(frozen=True, eq=False)
class QuadraticCriterion:
    """Direct estimate of the derivative of quadratic mutual information.

    Attributes
    ----------
    samples : KernelSamples
    widths : tuple of float
        Candidate widths as multiples of the median distance.
    regs : tuple of float
        Candidate ridges relative to the diagonal of the Gram matrix.
    """

    samples: KernelSamples
    widths: tuple[float, ...]
    regs: tuple[float, ...]

    def evaluator(self, settings: KernelSettings) -> Evaluation:
        """The derivative as a function of the frame alone; the information is not known."""
        target_kernel = gaussian(self.samples.target_distances(), settings.target_width)
        return lambda frame: (
            None,
            information_derivative(frame, self.samples, target_kernel, settings),
        )

    def choose(self, frame: np.ndarray) -> Choice:
        """Settings that fit the derivative best; the score is held-out information."""
        Z = self.samples.X @ frame.T
        target_distances = self.samples.target_distances()
        width_unit = median_distance(squared_distances(Z, Z[self.samples.centers]))
        target_unit = median_distance(target_distances)
        fitted = []
        for multiple in self.widths:
            width, target_width = multiple * width_unit, multiple * target_unit
            bases = _bases(Z, self.samples, width, gaussian(target_distances, target_width))
            fits = self._held_out_fits(bases, _mean_base_derivatives)
            winner = int(np.argmax(fits))
            settings = KernelSettings(width, target_width, float(self.regs[winner]))
            fitted.append(Choice(settings, _log_gain(fits[winner], Z, self.samples, settings)))
        best_settings = max(fitted, key=lambda choice: choice.score).settings
        target_kernel = gaussian(target_distances, best_settings.target_width)
        bases = _bases(Z, self.samples, best_settings.width, target_kernel)
        information = self._held_out_fits(bases, _mean_bases).max()
        return Choice(best_settings, _log_gain(information, Z, self.samples, best_settings))

    def _held_out_fits(
        self, bases: _Bases, moments: Callable[[_Bases, Rows], np.ndarray]
    ) -> np.ndarray:
        """Minus the cross-validated ``theta^T H theta + 2 theta^T h`` for every ridge."""
        values, vectors = scipy.linalg.eigh(bases.gram, check_finite=False)
        values = np.maximum(values, 0)[:, None]
        fits = np.zeros(len(self.regs))
        for train, held_out in self.samples.fold_rows():
            first = vectors.T @ moments(bases, train)
            first_out = vectors.T @ moments(bases, held_out)
            for i, reg in enumerate(self.regs):
                theta = first / (values + reg)
                fits[i] += np.sum(theta * (2 * first_out - values * theta))
        return fits / (self.samples.folds.max() + 1)


def _mean_bases(bases: _Bases, rows: Rows) -> np.ndarray:
    """``mean_i phi_k(z_i, y_i) - mean_ij phi_k(z_i, y_j)``, shape (b, 1)."""
    return _dependence(bases, rows).mean(axis=0)[:, None]


def _log_gain(
    gain: float, Z: np.ndarray, samples: KernelSamples, settings: KernelSettings
) -> float:
    """Logarithm of a least-squares gain on its true scale; minus infinity for none."""
    if not gain > 0:
        return -np.inf
    return float(np.log(gain)) - log_gram_scale(Z.shape[1], samples.targets.shape[1], settings)
