"""How a solver runs: penalties, limits and stopping rules, apart from the model."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import inf
from numbers import Integral, Real
from typing import Any

_Domain = tuple[type, Callable[[Any], bool], str]
_COUNT: _Domain = (Integral, lambda value: value >= 1, "a positive integer")
_WHOLE: _Domain = (Integral, lambda value: value >= 0, "a non-negative integer")
_POSITIVE: _Domain = (Real, lambda value: 0 < value < inf, "a positive number")
_NONNEGATIVE: _Domain = (Real, lambda value: 0 <= value < inf, "a non-negative number")
_FACTOR: _Domain = (Real, lambda value: 1 <= value < inf, "a number of at least 1")
_RELAXATION: _Domain = (Real, lambda value: 0 < value < 2, "a number between 0 and 2")
_SWITCH: _Domain = (bool, lambda value: True, "a bool")

_DOMAINS: dict[str, _Domain] = {
    "max_iter": _COUNT,
    "tol": _NONNEGATIVE,
    "inner_max_iter": _COUNT,
    "inner_tol": _NONNEGATIVE,
    "eta": _NONNEGATIVE,
    "pretraining": _SWITCH,
    "mu": _POSITIVE,
    "growth": _FACTOR,
    "settled_growth": _FACTOR,
    "mu_max": _POSITIVE,
    "relaxation": _RELAXATION,
    "damping": _POSITIVE,
    "first_layer_iter": _WHOLE,
    "deep_growth": _FACTOR,
}


def check_fields(schedule: Any) -> None:
    """Raise ``ValueError`` for a field of a schedule that is not in its domain."""
    for field in fields(schedule):
        value = getattr(schedule, field.name)
        kind, is_allowed, description = _DOMAINS[field.name]
        # True is an integer to Python, but nobody means ``max_iter=1`` by it.
        right_kind = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if not right_kind or not is_allowed(value):
            raise ValueError(
                f"`{field.name}` should be {description}, got {value!r}. "
                f"The default is {field.default!r}."
            )
    if schedule.mu_max < schedule.mu:
        raise ValueError(
            f"`mu_max` should be at least `mu` ({schedule.mu!r}), got {schedule.mu_max!r}. "
            "The penalty grows from `mu` to `mu_max`."
        )


@dataclass(frozen=True)
class LayerSchedule:
    r"""Penalty and stopping rule of the published solver for one layer (Algorithm 2).

    The penalty grows by the factor :math:`\rho` (``growth``) after each iteration. The
    iterations end when all four primal residuals are below ``tol`` in the Frobenius norm.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-6
        Tolerance on the residuals.
    mu : float, default=1e-3
        First penalty.
    growth : float, default=2.0
        Factor by which the penalty grows after each iteration.
    mu_max : float, default=1e6
        Largest penalty.
    """

    max_iter: int = 1000
    tol: float = 1e-6
    mu: float = 1e-3
    growth: float = 2.0
    mu_max: float = 1e6

    def __post_init__(self) -> None:
        check_fields(self)

    def next_mu(self, mu: float) -> float:
        """The penalty of the iteration after one with penalty ``mu``."""
        return min(self.growth * mu, self.mu_max)


@dataclass(frozen=True)
class PaperSchedule:
    r"""The published schedule: pre-train layer by layer, then alternate (Algorithms 1 and 2).

    Each outer iteration solves the label projection in closed form (Eq. 17) and then every layer
    in turn by the alternating direction method of multipliers. It ends when the objective
    changes by less than ``tol``, relative to its value. All defaults are the published values.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of outer iterations.
    tol : float, default=1e-4
        Relative change of the objective at which the outer iterations end.
    inner_max_iter : int, default=1000
        Maximum number of iterations of each layer problem.
    inner_tol : float, default=1e-6
        Frobenius norm below which all residuals of a layer problem must fall.
    eta : float, default=0.1
        Weight of the manifold term during pre-training (Eq. 11).
    pretraining : bool, default=True
        Whether layers start from AutoRULe, one after the other, or from locality preserving
        projections and a selection of their features.
    mu : float, default=1e-3
        First penalty of each layer problem.
    growth : float, default=2.0
        Factor by which the penalty grows after each inner iteration.
    mu_max : float, default=1e6
        Largest penalty.

    See Also
    --------
    FastSchedule : One loop over all layers, which ends at a lower objective.

    Examples
    --------
    >>> from jplay import PaperSchedule
    >>> PaperSchedule(max_iter=20, eta=0.01).inner_tol
    1e-06
    """

    max_iter: int = 1000
    tol: float = 1e-4
    inner_max_iter: int = 1000
    inner_tol: float = 1e-6
    eta: float = 0.1
    pretraining: bool = True
    mu: float = 1e-3
    growth: float = 2.0
    mu_max: float = 1e6

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def layer(self) -> LayerSchedule:
        """The schedule of each layer problem."""
        return LayerSchedule(self.inner_max_iter, self.inner_tol, self.mu, self.growth, self.mu_max)


@dataclass(frozen=True)
class FastSchedule:
    """The single loop over all layers: penalty, step size and stopping rule.

    A chain of several layers starts with some iterations on its first layer alone. They cost a
    fraction of the others, and leave little to do for them.

    The loop ends when the objective is settled and the features meet the constraints to ``tol``,
    or when the penalty has reached ``mu_max``. The projections are then made exactly feasible.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-4
        The objective is settled when it changes by at most ``tol`` times
        ``sqrt(1 + alpha)`` per sample. The constraints are met when the root mean square
        distance of the features from them is at most ``tol``, in every layer.
    mu : float, default=1.0
        First penalty, of the first layer alone and again once all layers are there.
    growth : float, default=1.12
        Factor by which the penalty grows after each iteration; its root while the objective
        still changes by a twentieth of itself. It trades time for the objective that is reached:
        on the digits with three layers, 1.06 takes 1.3 times as many iterations and ends 0.5 %
        lower, 1.25 takes 0.7 times as many and ends 1.2 % higher.
    deep_growth : float, default=1.3
        The same for several layers, which start near their solution.
    settled_growth : float, default=1.5
        The same once the objective is settled and only the gap is left to close. Anything from
        1.12 to 2 ends within two thousandths of the same objective.
    mu_max : float, default=1e5
        Largest penalty, at which the loop ends in any case.
    relaxation : float, default=1.7
        How far splits follow the features: 1 goes as far as they are, more goes beyond. 1 ends
        0.4 % higher on the digits, after more iterations; from 1.4 to 1.9 it hardly matters.
    damping : float, default=0.3
        Added to the curvature of every step, as a fraction of its mean. It keeps steps bounded;
        from 0.03 to 3 the objective that is reached changes by three thousandths.
    first_layer_iter : int, default=25
        Iterations on the first layer alone if there are several, at most ``max_iter``; none
        without constraints. They do not count as iterations of the fit. Five layers on faces end
        at a lower objective with them, in less time.

    See Also
    --------
    PaperSchedule : The published schedule.

    Examples
    --------
    >>> from jplay import FastSchedule
    >>> FastSchedule(max_iter=200).tol
    0.0001
    """

    max_iter: int = 1000
    tol: float = 1e-4
    mu: float = 1.0
    growth: float = 1.12
    deep_growth: float = 1.3
    settled_growth: float = 1.5
    mu_max: float = 1e5
    relaxation: float = 1.7
    damping: float = 0.3
    first_layer_iter: int = 25

    def __post_init__(self) -> None:
        check_fields(self)

    def pretraining_iter(self, n_constraints: int) -> int:
        """Iterations on the first layer alone of a chain of several.

        They make features feasible. Without constraints any are, and there are none.
        """
        return min(self.first_layer_iter, self.max_iter) if n_constraints else 0
