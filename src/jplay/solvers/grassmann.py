"""Maximisation over subspaces: conjugate gradients along geodesics."""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from jplay.numerics.stiefel import Geodesic, reorthonormalize, tangent_part

_FIRST_ANGLE = 0.2
_LARGEST_ANGLE = np.pi / 4
_MAX_TRIALS = 12
_SUFFICIENT = 1e-4


class SearchStatus(Enum):
    """Why a search ended; the value says what the user can change."""

    CONVERGED = "the gain of the last step is below the tolerance"
    STATIONARY = "no direction leads upwards"
    MAX_ITER = "`max_iter` was reached; increase it, or loosen `tol`"
    STOPPED = "a callback asked to stop"


@dataclass(frozen=True)
class SearchStep:
    """What a callback gets to know after every accepted step."""

    iteration: int
    frame: np.ndarray
    value: float | None
    gain: float


@dataclass(frozen=True)
class SearchResult:
    frame: np.ndarray
    n_iter: int
    status: SearchStatus


@dataclass(frozen=True)
class _Trial:
    t: float
    frame: np.ndarray
    value: float | None
    gradient: np.ndarray
    slope: float
    gain: float


def _line_search(evaluate, curve, value, slope, angle):
    """Halve the angle until the gain is a fair part of what the slope promises.

    Where ``evaluate`` gives no value, the gain is integrated from the slopes at both ends.
    """
    for _ in range(_MAX_TRIALS):
        t = angle / curve.fastest
        frame = curve.point(t)
        trial_value, gradient = evaluate(frame)
        new_slope = float(np.sum(gradient * curve.velocity(t)))
        gain = t * (slope + new_slope) / 2 if trial_value is None else trial_value - value
        if gain >= _SUFFICIENT * t * slope:
            return _Trial(t, frame, trial_value, gradient, new_slope, gain)
        angle /= 2
    return None


def _next_angle(angle, slope, new_slope):
    """Where a straight line through both slopes crosses zero, within a factor of four."""
    stretch = 4.0 if new_slope >= slope else np.clip(slope / (slope - new_slope), 0.25, 4.0)
    return float(min(angle * stretch, _LARGEST_ANGLE))


def maximize_over_subspaces(evaluate, frame, *, max_iter, tol, on_step=None):
    """Climb from ``frame`` by Polak-Ribiere conjugate gradients on the Grassmann manifold.

    Parameters
    ----------
    evaluate : callable
        Maps a frame to ``(value, gradient)``. ``value`` may be ``None`` where only the
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
