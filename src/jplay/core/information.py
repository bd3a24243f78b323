"""Subspaces with the most information on the target: the optimization of LSDR and LSQMID.

Both methods look for orthonormal rows ``W`` such that the features ``z = W x`` have the most mutual
information with the target ``y``. Each has a criterion that is fitted by least squares with
Gaussian kernels at a few centers, and whose bandwidths and ridge are cross-validated:

* :class:`SquaredLossCriterion` (LSDR): the squared-loss mutual information, through the density
  ratio ``p(z, y) / p(z) p(y)``;
* :class:`QuadraticCriterion` (LSQMID): the derivative of the quadratic mutual information, through
  the derivative of ``p(z, y) - p(z) p(y)``.

:func:`search_subspace` climbs a criterion from several starts. A climb
(:func:`maximize_over_subspaces`) takes conjugate gradients along geodesics (:class:`Geodesic`) of
the Grassmann manifold. Settings are chosen again after every climb.

A frame is a matrix ``W`` of shape (n_components, n_features) with ``W W^T = I``. Functions that do
not change when ``W`` is rotated within its span live on the Grassmann manifold; its tangent
vectors ``D`` at ``W`` satisfy ``D W^T = 0``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy import ndarray
from numpy.random import Generator

from jplay.core.arrays import solve_positive

# All were chosen by hand: larger values cost time, and may find a better subspace.
SCREENING_STEPS = 15  # maximum from each start, before the best goes on
MAX_ROUNDS = 6  # maximum number of climbs of the best start, each with settings chosen again
START_RIDGE = 1e-3  # relative ridge of the regressions of the gradient start; larger ones smooth
START_SHRINKAGE = 0.75  # fraction of the dimensions that each of their rounds keeps
N_START_FEATURES = 20  # kernel functions of a real target that they regress
FIRST_ANGLE = 0.2  # radians by which the first step turns the subspace; corrected by later ones
LARGEST_ANGLE = np.pi / 4  # radians; farther away the gradient carries no information
MAX_TRIALS = 12  # halvings of an angle; the last is a few thousandths of the first
SUFFICIENT_GAIN = 1e-4  # fraction of the promised gain that a step must bring (Armijo, as usual)

Evaluation = Callable[[ndarray], tuple[float | None, ndarray]]
"""Function of a frame that returns the criterion, ``None`` if unknown, and its gradient."""


@dataclass(frozen=True, eq=False)
class KernelSamples:
    """Samples, their targets, the kernel centers and the folds of the cross-validation."""

    X: ndarray
    """(n_samples, n_features) samples, centered and in principal coordinates."""
    targets: ndarray
    """(n_samples, n_outputs) one-hot classes, indicators of labels or real values."""
    are_classes: bool
    """Whether the targets are one-hot classes."""
    centers: ndarray
    """(n_centers,) indices of the samples that are kernel centers."""
    folds: ndarray
    """(n_samples,) number of the fold that holds each sample out."""

    def target_distances(self) -> ndarray:
        """Return squared distances between targets and centers, (n_samples, n_centers)."""
        return squared_distances(self.targets, self.targets[self.centers])

    def fold_rows(self) -> Iterator[tuple[ndarray, ndarray]]:
        """Yield the row indices of the training part and of the held-out part of every fold."""
        for fold in range(self.folds.max() + 1):
            held_out = self.folds == fold
            yield np.flatnonzero(~held_out), np.flatnonzero(held_out)


def draw_samples(
    X: ndarray, targets: ndarray, are_classes: bool, n_centers: int, n_folds: int, rng: Generator
) -> KernelSamples:
    """Draw the centers and the folds."""
    n_samples = len(X)
    centers = rng.permutation(n_samples)[: min(n_samples, n_centers)]
    folds = rng.permutation(n_samples) % min(n_folds, n_samples)
    return KernelSamples(X, targets, are_classes, np.sort(centers), folds)


class KernelSettings(NamedTuple):
    """Bandwidths of the kernels on features and on targets, and the ridge."""

    bandwidth: float
    target_bandwidth: float
    ridge: float


class Choice(NamedTuple):
    """Cross-validated settings at one subspace, and a score that ranks subspaces."""

    settings: KernelSettings
    score: float


class SearchStatus(Enum):
    """Reason why a climb ended, with what the user can change."""

    CONVERGED = "the gain of the last step is below the tolerance"
    STATIONARY = "no direction leads upwards"
    MAX_ITER = "`max_iter` was reached; increase it, or loosen `tol`"
    STOPPED = "a callback asked to stop"


class SearchStep(NamedTuple):
    """Frame after an accepted step, which a callback gets."""

    iteration: int
    frame: ndarray
    value: float | None
    gain: float


class SubspaceResult(NamedTuple):
    """Best frame, the settings chosen at it, the number of steps and why the search ended."""

    frame: ndarray
    choice: Choice
    n_iter: int
    status: SearchStatus


def search_subspace(
    criterion: "SquaredLossCriterion | QuadraticCriterion",
    n_components: int,
    *,
    init: str,
    n_restarts: int,
    max_iter: int,
    tol: float,
    rng: Generator,
    on_step: Callable[[SearchStep], object] | None = None,
) -> SubspaceResult:
    """Search the subspace that maximizes a criterion.

    Every start is climbed for a few steps. The start with the best cross-validated score goes on,
    with settings chosen again after each climb, until the score or the settings stay. ``init`` and
    ``n_restarts`` choose the starts, see :func:`starting_frames`; ``max_iter``, ``tol`` and
    ``on_step`` belong to each climb, see :func:`maximize_over_subspaces`.
    """
    samples, n_steps = criterion.samples, 0

    def climb(frame: ndarray, choice: Choice, limit: int) -> SubspaceResult:
        nonlocal n_steps
        evaluate = criterion.make_evaluation(choice.settings)
        frame, n_iter, status = maximize_over_subspaces(
            evaluate, frame, max_iter=limit, tol=tol, on_step=on_step
        )
        n_steps += n_iter
        return SubspaceResult(frame, criterion.choose_settings(frame), n_steps, status)

    climbs = []
    whole_space = n_components == samples.X.shape[1]
    for start in starting_frames(samples, n_components, init, n_restarts, rng):
        choice = criterion.choose_settings(start)
        climbs.append(climb(start, choice, min(SCREENING_STEPS, max_iter)))
        if climbs[-1].status is SearchStatus.STOPPED or whole_space:
            break
    best, status = max(climbs, key=lambda end: end.choice.score), climbs[-1].status
    if status is SearchStatus.STOPPED or whole_space:
        return best._replace(n_iter=n_steps, status=status)

    for _ in range(MAX_ROUNDS):
        end = climb(best.frame, best.choice, max_iter)
        status = end.status
        improved = end.choice.score > best.choice.score
        same_settings = end.choice.settings == best.choice.settings
        if improved:
            best = end
        if not improved or same_settings or status is SearchStatus.STOPPED:
            break
    return best._replace(n_iter=n_steps, status=status)


@dataclass(frozen=True, eq=False)
class SquaredLossCriterion:
    """Criterion of LSDR: least-squares estimate of squared-loss mutual information.

    The density ratio is fitted in the bases ``K_z(z, z_k) K_y(y, y_k)`` at the centers ``k``. With

    * ``H = (K_y^T K_y / n) o (K_z^T K_z / n)``, the second moments over all pairs of a sample and a
      target, and
    * ``h = mean_i K_z(z_i, .) K_y(y_i, .)``, the first moments over the samples,

    the coefficients are ``a = (H + ridge I)^-1 h``, and the estimate is ``h^T a - a^T H a / 2``,
    which leaves out the constant -1/2.
    """

    samples: KernelSamples
    bandwidths: tuple[float, ...]
    """Candidate bandwidths as multiples of the median distance."""
    ridges: tuple[float, ...]
    """Candidate ridges as multiples of the mean diagonal of ``H``."""

    def target_kernel(self, bandwidth: float) -> ndarray:
        """Return equality for classes and a Gaussian kernel else, (n_samples, n_centers)."""
        if self.samples.are_classes:
            targets = self.samples.targets
            return targets @ targets[self.samples.centers].T
        return gaussian(self.samples.target_distances(), bandwidth)

    def make_evaluation(self, settings: KernelSettings) -> Evaluation:
        """Return information and gradient (with all entries free) as a function of the frame."""
        X, X_centers = self.samples.X, self.samples.X[self.samples.centers]
        n_samples = len(X)
        target_kernel = self.target_kernel(settings.target_bandwidth)
        target_gram = target_kernel.T @ target_kernel / n_samples

        def evaluate(frame: ndarray) -> tuple[float, ndarray]:
            Z = X @ frame.T
            Z_centers = Z[self.samples.centers]
            kernel = gaussian(squared_distances(Z, Z_centers), settings.bandwidth)
            second = target_gram * (kernel.T @ kernel) / n_samples
            first = np.einsum("ik,ik->k", kernel, target_kernel) / n_samples
            regularized = add_to_diagonal(second, settings.ridge)
            ratio = solve_positive(regularized, first)
            shrunk = solve_positive(regularized, first - second @ ratio)
            information = float(first @ ratio - ratio @ second @ ratio / 2)

            # dJ = dh^T (a + b) - (b + a / 2)^T dH a, with (H + ridge I) b = h - H a.
            pair = np.outer(shrunk + ratio / 2, ratio)
            slopes = target_kernel * (ratio + shrunk) - kernel @ ((pair + pair.T) * target_gram)
            # dK_z(z_i, z_k) = -K_z(z_i, z_k) (z_i - z_k)^T dW (x_i - x_k) / bandwidth^2. The sum of
            # weights_ik (z_i - z_k)(x_i - x_k)^T over all i and k needs no array of differences.
            weights = slopes * kernel / (-n_samples * settings.bandwidth**2)
            rows = weights.sum(axis=1)[:, None] * Z - weights @ Z_centers
            columns = weights.sum(axis=0)[:, None] * Z_centers - weights.T @ Z
            return information, rows.T @ X + columns.T @ X_centers

        return evaluate

    def choose_settings(self, frame: ndarray) -> Choice:
        """Choose the settings with the largest held-out information."""
        Z = self.samples.X @ frame.T
        distances = squared_distances(Z, Z[self.samples.centers])
        unit = median_distance(distances)
        target_unit = median_distance(self.samples.target_distances())
        choices = []
        for multiple in self.bandwidths:
            kernel = gaussian(distances, multiple * unit)
            target_kernel = self.target_kernel(multiple * target_unit)
            squares, target_squares = (np.mean(K**2, axis=0) for K in (kernel, target_kernel))
            ridges = np.array(self.ridges) * (squares @ target_squares / len(squares))
            scores = self._held_out_scores(kernel, target_kernel, ridges)
            best = int(np.argmax(scores))
            settings = KernelSettings(multiple * unit, multiple * target_unit, float(ridges[best]))
            choices.append(Choice(settings, float(scores[best])))
        return max(choices, key=lambda choice: choice.score)

    def _held_out_scores(self, kernel: ndarray, target_kernel: ndarray, ridges: ndarray) -> ndarray:
        """Return the cross-validated ``h^T a - a^T H a / 2`` for every ridge."""
        # Sums over a fold, from which those over all other folds follow by subtraction.
        folds = []
        for _, out in self.samples.fold_rows():
            near, near_target = kernel[out], target_kernel[out]
            joint = np.einsum("ik,ik->k", near, near_target)
            folds.append((near.T @ near, near_target.T @ near_target, joint, len(out)))
        total = [np.sum(sums, axis=0) for sums in zip(*folds, strict=True)]
        scores = np.zeros(len(ridges))
        for fold in folds:
            second, first = ratio_moments(*(a - b for a, b in zip(total, fold, strict=True)))
            second_out, first_out = ratio_moments(*fold)
            for i, ridge in enumerate(ridges):
                ratio = solve_positive(add_to_diagonal(second, ridge), first)
                scores[i] += first_out @ ratio - ratio @ second_out @ ratio / 2
        return scores / len(folds)


def ratio_moments(
    gram: ndarray, target_gram: ndarray, joint: ndarray, n_samples: int
) -> tuple[ndarray, ndarray]:
    """Return ``H`` and ``h`` from sums over samples."""
    return gram * target_gram / n_samples**2, joint / n_samples


@dataclass(frozen=True, eq=False)
class QuadraticCriterion:
    """Criterion of LSQMID: least-squares estimate of the derivative of quadratic information.

    With ``f = p(z, y) - p(z) p(y)``, quadratic mutual information is half the integral of ``f^2``.
    Its derivative needs ``df/dz`` only, which is fitted directly: ``g_l = theta_l^T phi`` with
    Gaussian bases ``phi`` minimizes the integral of ``(g_l - df/dz_l)^2``, and integration by parts
    turns the unknown ``df/dz_l`` into derivatives of the bases. Hence
    ``theta_l = -(H + ridge I)^-1 h_l``, with ``H`` the Gram matrix of the bases and ``h_l`` the
    mean of their derivatives under ``f``.

    ``H`` is ``scale * exp(-|z_k - z_k'|^2 / 4 s^2 - |y_k - y_k'|^2 / 4 s_y^2)`` with the bandwidths
    ``s`` and ``s_y``, where ``scale`` is exponential in the dimension. It is kept as a logarithm
    (:func:`log_gram_scale`), and ridges are relative to it.
    """

    samples: KernelSamples
    bandwidths: tuple[float, ...]
    """Candidate bandwidths as multiples of the median distance."""
    ridges: tuple[float, ...]
    """Candidate ridges as multiples of the diagonal of the Gram matrix."""

    def make_evaluation(self, settings: KernelSettings) -> Evaluation:
        """Return the derivative, times the scale of the Gram matrix, as a function of the frame."""
        X = self.samples.X
        target_kernel = gaussian(self.samples.target_distances(), settings.target_bandwidth)

        def evaluate(frame: ndarray) -> tuple[None, ndarray]:
            Z = X @ frame.T
            bases = DerivativeBases.evaluate(Z, self.samples, settings.bandwidth, target_kernel)
            gram = add_to_diagonal(bases.gram, settings.ridge)
            first = bases.mean_slopes(slice(None))
            theta = -scipy.linalg.solve(gram, first, assume_a="pos", check_finite=False)
            density_slopes = bases.dependence(slice(None)) @ theta
            return None, density_slopes.T @ X / len(X)

        return evaluate

    def choose_settings(self, frame: ndarray) -> Choice:
        """Choose the settings that fit the derivative best; the score is held-out information."""
        Z = self.samples.X @ frame.T
        target_distances = self.samples.target_distances()
        unit = median_distance(squared_distances(Z, Z[self.samples.centers]))
        target_unit = median_distance(target_distances)
        choices = []
        for multiple in self.bandwidths:
            target_kernel = gaussian(target_distances, multiple * target_unit)
            bases = DerivativeBases.evaluate(Z, self.samples, multiple * unit, target_kernel)
            fits = self._held_out_fits(bases, DerivativeBases.mean_slopes)
            best = int(np.argmax(fits))
            ridge = float(self.ridges[best])
            settings = KernelSettings(multiple * unit, multiple * target_unit, ridge)
            choices.append(Choice(settings, self._log_gain(fits[best], Z, settings)))
        settings = max(choices, key=lambda choice: choice.score).settings
        target_kernel = gaussian(target_distances, settings.target_bandwidth)
        bases = DerivativeBases.evaluate(Z, self.samples, settings.bandwidth, target_kernel)
        information = self._held_out_fits(bases, DerivativeBases.mean_values).max()
        return Choice(settings, self._log_gain(information, Z, settings))

    def _held_out_fits(self, bases: "DerivativeBases", compute_moments: Callable) -> ndarray:
        """Return minus the cross-validated ``theta^T H theta + 2 theta^T h`` for every ridge."""
        values, vectors = scipy.linalg.eigh(bases.gram, check_finite=False)
        values = np.maximum(values, 0)[:, None]
        fits = np.zeros(len(self.ridges))
        for train, held_out in self.samples.fold_rows():
            first = vectors.T @ compute_moments(bases, train)
            first_out = vectors.T @ compute_moments(bases, held_out)
            for i, ridge in enumerate(self.ridges):
                theta = first / (values + ridge)
                fits[i] += np.sum(theta * (2 * first_out - values * theta))
        return fits / (self.samples.folds.max() + 1)

    def _log_gain(self, gain: float, Z: ndarray, settings: KernelSettings) -> float:
        """Return the logarithm of a gain on its true scale; minus infinity for none."""
        if not gain > 0:
            return -np.inf
        scale = log_gram_scale(Z.shape[1], self.samples.targets.shape[1], settings)
        return float(np.log(gain)) - scale


@dataclass(frozen=True, eq=False)
class DerivativeBases:
    """Gaussian bases of the features and targets in one subspace, and their Gram matrix."""

    Z: ndarray
    Z_centers: ndarray
    kernel: ndarray
    target_kernel: ndarray
    gram: ndarray
    bandwidth: float

    @classmethod
    def evaluate(
        cls, Z: ndarray, samples: KernelSamples, bandwidth: float, target_kernel: ndarray
    ) -> "DerivativeBases":
        """Evaluate the bases at all samples."""
        centers = samples.centers
        kernel = gaussian(squared_distances(Z, Z[centers]), bandwidth)
        # exp(-d / 4 s^2) is the square root of the kernel between centers.
        gram = np.sqrt(kernel[centers] * target_kernel[centers])
        return cls(Z, Z[centers], kernel, target_kernel, gram, bandwidth)

    def dependence(self, rows: slice | ndarray) -> ndarray:
        """Return ``K_z o (K_y - mean K_y)``, the bases under ``p(z, y) - p(z) p(y)``."""
        targets = self.target_kernel[rows]
        return self.kernel[rows] * (targets - targets.mean(axis=0))

    def mean_values(self, rows: slice | ndarray) -> ndarray:
        """Return ``mean_i phi_k(z_i, y_i) - mean_ij phi_k(z_i, y_j)``, (n_centers, 1)."""
        return self.dependence(rows).mean(axis=0)[:, None]

    def mean_slopes(self, rows: slice | ndarray) -> ndarray:
        """Return the derivatives of the mean values by ``z``, (n_centers, n_components)."""
        dependence = self.dependence(rows)
        moved = dependence.T @ self.Z[rows] - dependence.sum(axis=0)[:, None] * self.Z_centers
        return moved / (-len(dependence) * self.bandwidth**2)


def log_gram_scale(n_components: int, n_outputs: int, settings: KernelSettings) -> float:
    """Return the logarithm of ``(sqrt(pi) s)^n_components (sqrt(pi) s_y)^n_outputs``."""
    half_log_pi = np.log(np.pi) / 2
    return float(
        n_components * (half_log_pi + np.log(settings.bandwidth))
        + n_outputs * (half_log_pi + np.log(settings.target_bandwidth))
    )


def starting_frames(
    samples: KernelSamples, n_components: int, init: str, n_restarts: int, rng: Generator
) -> Iterator[ndarray]:
    """Yield the principal axes, the gradient start, both ("auto") or none; then random frames."""
    n_features = samples.X.shape[1]
    if init in ("pca", "auto"):
        yield np.eye(n_components, n_features)
    if init in ("gradient", "auto"):
        yield gradient_start(samples, n_components)
    for _ in range(max(1, n_restarts) if init == "random" else n_restarts):
        yield random_frame(n_components, n_features, rng)


def random_frame(n_components: int, n_features: int, rng: Generator) -> ndarray:
    """Draw a frame whose span is uniformly distributed."""
    return np.linalg.qr(rng.standard_normal((n_features, n_components)))[0].T


def gradient_start(samples: KernelSamples, n_components: int) -> ndarray:
    """Return the frame in which kernel regressions of the target change most.

    Regressions are poor in many dimensions. Dropping only the least useful directions and fitting
    again in the others makes each regression better than the one before.
    """
    features = target_features(samples)
    frame = np.eye(samples.X.shape[1])
    while len(frame) > n_components:
        keep = max(n_components, min(len(frame) - 1, int(START_SHRINKAGE * len(frame))))
        frame = leading_gradients(samples.X @ frame.T, samples.centers, features, keep) @ frame
    return frame


def target_features(samples: KernelSamples) -> ndarray:
    """Return standardized functions of the target whose regressions reveal the subspace.

    They are the columns of one-hot or multi-label targets. For real targets they are the values and
    a Gaussian kernel to some centers, so that changes of spread and shape appear too.
    """
    targets = samples.targets
    if not np.isin(targets, (0.0, 1.0)).all():
        distances = samples.target_distances()
        kernel = gaussian(distances, median_distance(distances) / 2)
        targets = np.column_stack([targets, kernel[:, :N_START_FEATURES]])
    features = targets - targets.mean(axis=0)
    scale = features.std(axis=0)
    return features[:, scale > 0] / scale[scale > 0]


def leading_gradients(
    X: ndarray, centers: ndarray, features: ndarray, n_components: int
) -> ndarray:
    """Return the directions along which kernel ridge regressions on ``X`` change most.

    They are the leading eigenvectors, in rows, of the mean outer product of the gradients.
    """
    X_centers = X[centers]
    distances = squared_distances(X, X_centers)
    kernel = gaussian(distances, median_distance(distances))
    between_centers = kernel[centers]
    normal = kernel.T @ kernel + START_RIDGE * len(X) * between_centers
    # Near-duplicate centers make the system singular to working precision.
    normal[np.diag_indices_from(normal)] += 1e-8 * np.trace(normal)
    coefficients = np.linalg.solve(normal, kernel.T @ features)
    outer = np.zeros((X.shape[1], X.shape[1]))
    for coefficient in coefficients.T:
        weights = between_centers * coefficient
        gradients = weights @ X_centers - weights.sum(axis=1)[:, None] * X_centers
        outer += gradients.T @ gradients
    return np.linalg.eigh(outer)[1][:, ::-1][:, :n_components].T


def maximize_over_subspaces(
    evaluate: Evaluation,
    frame: ndarray,
    *,
    max_iter: int,
    tol: float,
    on_step: Callable[[SearchStep], object] | None = None,
) -> tuple[ndarray, int, SearchStatus]:
    """Climb from a frame by conjugate gradients along geodesics.

    ``tol`` is the gain of a step, relative to all steps together, below which the climb ends. It
    also ends when ``on_step`` returns ``True``. Returns the last frame, the number of steps and
    why the climb ended.
    """
    value, gradient = evaluate(frame)
    gradient = tangent_part(frame, gradient)
    direction = gradient
    angle, total_gain = FIRST_ANGLE, 0.0
    for iteration in range(max_iter):
        slope = float(np.sum(gradient * direction))
        if slope <= 0:
            direction, slope = gradient, float(np.sum(gradient**2))
        if not slope > 0:
            return frame, iteration, SearchStatus.STATIONARY
        curve = Geodesic.leaving(frame, direction)
        trial = search_line(evaluate, curve, value, slope, angle)
        if trial is None and direction is not gradient:
            direction, slope = gradient, float(np.sum(gradient**2))
            curve = Geodesic.leaving(frame, direction)
            trial = search_line(evaluate, curve, value, slope, angle)
        if trial is None:
            return frame, iteration, SearchStatus.STATIONARY
        angle = choose_angle(trial.t * curve.fastest, slope, trial.slope)
        frame, value = reorthonormalize(trial.frame), trial.value
        new_gradient = tangent_part(frame, trial.gradient)

        # Polak and Ribiere: the new part of the gradient, compared at the same point, decides how
        # much of the old direction is kept; none if it would point downwards.
        change = new_gradient - curve.transport(gradient, trial.t)
        mixing = max(0.0, float(np.sum(new_gradient * change) / np.sum(gradient**2)))
        direction = tangent_part(frame, new_gradient + mixing * curve.transport(direction, trial.t))
        if mixing == 0.0:
            direction = new_gradient
        gradient = new_gradient

        total_gain += trial.gain
        step = SearchStep(iteration, frame, trial.value, trial.gain)
        if on_step is not None and on_step(step):
            return frame, iteration + 1, SearchStatus.STOPPED
        if trial.gain <= tol * total_gain:
            return frame, iteration + 1, SearchStatus.CONVERGED
    return frame, max_iter, SearchStatus.MAX_ITER


class _Trial(NamedTuple):
    """Point of a line search."""

    t: float
    frame: ndarray
    value: float | None
    gradient: ndarray
    slope: float
    gain: float


def search_line(
    evaluate: Evaluation, curve: "Geodesic", value: float | None, slope: float, angle: float
) -> _Trial | None:
    """Halve the angle until the gain is a fair part of the gain that the slope promises.

    If ``evaluate`` returns no value, the gain is integrated from the slopes at both ends.
    """
    for _ in range(MAX_TRIALS):
        t = angle / curve.fastest
        frame = curve.point(t)
        trial_value, gradient = evaluate(frame)
        new_slope = float(np.sum(gradient * curve.velocity(t)))
        if trial_value is None or value is None:
            gain = t * (slope + new_slope) / 2
        else:
            gain = trial_value - value
        if gain >= SUFFICIENT_GAIN * t * slope:
            return _Trial(t, frame, trial_value, gradient, new_slope, gain)
        angle /= 2
    return None


def choose_angle(angle: float, slope: float, new_slope: float) -> float:
    """Return where a straight line through both slopes crosses zero, within a factor of four."""
    stretch = 4.0 if new_slope >= slope else np.clip(slope / (slope - new_slope), 0.25, 4.0)
    return float(min(angle * stretch, LARGEST_ANGLE))


def tangent_part(frame: ndarray, gradient: ndarray) -> ndarray:
    """Return the gradient on the manifold: ``gradient`` less its part within the span."""
    return gradient - (gradient @ frame.T) @ frame


def reorthonormalize(frame: ndarray) -> ndarray:
    """Take one Newton step to the nearest frame, for a ``frame`` that is off by rounding.

    The nearest frame is ``(W W^T)^-1/2 W``, and ``(I + E)^-1/2 = I - E / 2`` to first order.
    """
    return 1.5 * frame - 0.5 * (frame @ frame.T) @ frame


@dataclass(frozen=True, eq=False)
class Geodesic:
    """Shortest path on the manifold that leaves a frame ``W`` along a tangent vector ``D``.

    With ``D = U diag(s) V^T`` it is ``W(t) = U (cos(s t) U^T W + sin(s t) V^T)``: work of order
    ``n_components^2 n_features``, without an exponential of size ``n_features``.
    """

    left: ndarray
    rates: ndarray
    right: ndarray
    origin: ndarray

    @classmethod
    def leaving(cls, frame: ndarray, direction: ndarray) -> "Geodesic":
        """Return the geodesic from ``frame`` with velocity ``direction``."""
        left, rates, right = scipy.linalg.svd(direction, full_matrices=False, check_finite=False)
        return cls(left, rates, right, left.T @ frame)

    @property
    def fastest(self) -> float:
        """Largest rotation angle per unit of ``t``."""
        return float(self.rates[0])

    def point(self, t: float) -> ndarray:
        """Return ``W(t)``."""
        angles = (self.rates * t)[:, None]
        return self.left @ (np.cos(angles) * self.origin + np.sin(angles) * self.right)

    def velocity(self, t: float) -> ndarray:
        """Return the derivative of ``W(t)``."""
        angles, rates = (self.rates * t)[:, None], self.rates[:, None]
        return self.left @ (rates * (np.cos(angles) * self.right - np.sin(angles) * self.origin))

    def transport(self, tangent: ndarray, t: float) -> ndarray:
        """Transport a ``tangent`` vector from the origin to ``W(t)`` in parallel."""
        angles = (self.rates * t)[:, None]
        turn = (np.cos(angles) - 1) * self.right - np.sin(angles) * self.origin
        return tangent + (tangent @ self.right.T) @ turn


def squared_distances(A: ndarray, B: ndarray) -> ndarray:
    """Return squared distances between the rows of ``A`` (n, p) and of ``B`` (b, p), (n, b).

    ``|a|^2 - 2 a b + |b|^2`` as one product of rows ``(a, |a|^2, 1)`` and ``(-2 b, 1, |b|^2)``
    saves passes over the distances.
    """
    left = np.hstack([A, np.sum(A * A, axis=1)[:, None], np.ones_like(A[:, :1])])
    right = np.hstack([-2 * B, np.ones_like(B[:, :1]), np.sum(B * B, axis=1)[:, None]])
    distances = left @ right.T
    return np.maximum(distances, 0, out=distances)


def median_distance(distances: ndarray) -> float:
    """Return the root of the median of the non-zero squared ``distances``; 1 if all are zero."""
    positive = distances[distances > 1e-12 * distances.max(initial=0.0)]
    return float(np.sqrt(np.median(positive))) if positive.size else 1.0


def gaussian(distances: ndarray, bandwidth: float) -> ndarray:
    """Return ``exp(-distances / (2 bandwidth^2))`` of squared ``distances``."""
    return np.exp(distances / (-2 * bandwidth**2))


def add_to_diagonal(matrix: ndarray, value: float) -> ndarray:
    """Return a copy of ``matrix`` with ``value`` added to the diagonal."""
    matrix = matrix.copy()
    matrix[np.diag_indices_from(matrix)] += value
    return matrix
