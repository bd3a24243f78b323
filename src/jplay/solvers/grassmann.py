"""Maximisation over subspaces: conjugate gradients along geodesics."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from jplay.numerics.stiefel import Geodesic, reorthonormalize, tangent_part

# All of these were chosen by hand; the line search corrects a step that is too long, and the
# next angle one that is too short.
_FIRST_ANGLE = 0.2  # radians by which the first step turns the subspace
_LARGEST_ANGLE = np.pi / 4  # halfway to a right angle, beyond which the gradient tells nothing
_MAX_TRIALS = 12  # halvings: the last angle is a few thousandths of the first
_SUFFICIENT = 1e-4  # share of the promised gain that a step must bring, as is usual (Armijo)

Evaluation = Callable[[np.ndarray], tuple[float | None, np.ndarray]]
"""Maps a frame to the value of the criterion, ``None`` if unknown, and its gradient."""


class SearchStatus(Enum):
    """Why a search ended; the value says what the user can change."""

    CONVERGED = "the gain of the last step is below the tolerance"
    STATIONARY = "no direction leads upwards"
    MAX_ITER = "`max_iter` was reached; increase it, or loosen `tol`"
    STOPPED = "a callback asked to stop"


@dataclass(frozen=True, eq=False)
class SearchStep:
    """What a callback gets to know after every accepted step."""

    iteration: int
    frame: np.ndarray
    value: float | None
    gain: float


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Where a search ended, after how many steps, and why."""

    frame: np.ndarray
    n_iter: int
    status: SearchStatus


@dataclass(frozen=True, eq=False)
class _Trial:
    t: float
    frame: np.ndarray
    value: float | None
    gradient: np.ndarray
    slope: float
    gain: float


def _line_search(
    evaluate: Evaluation, curve: Geodesic, value: float | None, slope: float, angle: float
) -> _Trial | None:
    """Halve the angle until the gain is a fair part of what the slope promises.

    If ``evaluate`` gives no value, the gain is integrated from the slopes at both ends.
    """
    for _ in range(_MAX_TRIALS):
        t = angle / curve.fastest
        frame = curve.point(t)
        trial_value, gradient = evaluate(frame)
        new_slope = float(np.sum(gradient * curve.velocity(t)))
        if trial_value is None or value is None:
            gain = t * (slope + new_slope) / 2
        else:
            gain = trial_value - value
        if gain >= _SUFFICIENT * t * slope:
            return _Trial(t, frame, trial_value, gradient, new_slope, gain)
        angle /= 2
    return None


def _next_angle(angle: float, slope: float, new_slope: float) -> float:
    """Where a straight line through both slopes crosses zero, within a factor of four."""
    stretch = 4.0 if new_slope >= slope else np.clip(slope / (slope - new_slope), 0.25, 4.0)
    return float(min(angle * stretch, _LARGEST_ANGLE))


def maximize_over_subspaces(
    evaluate: Evaluation,
    frame: np.ndarray,
    *,
    max_iter: int,
    tol: float,
    on_step: Callable[[SearchStep], object] | None = None,
) -> SearchResult:
    """Climb from ``frame`` by Polak-Ribiere conjugate gradients on the Grassmann manifold.

    Parameters
    ----------
    evaluate : callable
        Maps a frame to ``(value, gradient)``. ``value`` may be ``None`` if only the
        gradient is known.
    frame : ndarray of shape (n_components, n_features)
        Where to start; orthonormal rows.
    max_iter : int
    tol : float
        The search ends when a step gains less than ``tol`` times all steps together.
    on_step : callable, default=None
        Called with a :class:`SearchStep`; the search ends when it returns ``True``.

    Returns
    -------
    result : SearchResult
    """
    value, gradient = evaluate(frame)
    gradient = tangent_part(frame, gradient)
    direction = gradient
    angle, total_gain = _FIRST_ANGLE, 0.0
    for iteration in range(max_iter):
        slope = float(np.sum(gradient * direction))
        if slope <= 0:
            direction, slope = gradient, float(np.sum(gradient**2))
        if not slope > 0:
            return SearchResult(frame, iteration, SearchStatus.STATIONARY)
        curve = Geodesic.leaving(frame, direction)
        trial = _line_search(evaluate, curve, value, slope, angle)
        if trial is None and direction is not gradient:
            direction, slope = gradient, float(np.sum(gradient**2))
            curve = Geodesic.leaving(frame, direction)
            trial = _line_search(evaluate, curve, value, slope, angle)
        if trial is None:
            return SearchResult(frame, iteration, SearchStatus.STATIONARY)
        angle = _next_angle(trial.t * curve.fastest, slope, trial.slope)
        frame, value = reorthonormalize(trial.frame), trial.value
        new_gradient = tangent_part(frame, trial.gradient)
        # Polak and Ribiere: what is new in the gradient, compared at the same point, decides how
        # much of the old direction is kept; none if it would point downwards.
        change = new_gradient - curve.transport(gradient, trial.t)
        mixing = max(0.0, float(np.sum(new_gradient * change) / np.sum(gradient**2)))
        direction = tangent_part(frame, new_gradient + mixing * curve.transport(direction, trial.t))
        if mixing == 0.0:
            direction = new_gradient
        gradient = new_gradient
        total_gain += trial.gain
        stop = on_step is not None and on_step(
            SearchStep(iteration, frame, trial.value, trial.gain)
        )
        if stop:
            return SearchResult(frame, iteration + 1, SearchStatus.STOPPED)
        if trial.gain <= tol * total_gain:
            return SearchResult(frame, iteration + 1, SearchStatus.CONVERGED)
    return SearchResult(frame, max_iter, SearchStatus.MAX_ITER)
