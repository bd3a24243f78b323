"""What a solver returns, and what it tells while it runs."""

from collections.abc import Callable
from dataclasses import dataclass, field

from jplay._array_api import Array
from jplay.numerics.objective import ObjectiveTerms


@dataclass(frozen=True)
class Status:
    """How a solve ended, in words that say what can be changed."""

    converged: bool
    message: str


@dataclass(frozen=True, eq=False)
class SolverProgress:
    """One record for callbacks: where a running solve stands."""

    stage: str
    """``"pretraining"`` or ``"fine-tuning"``."""
    iteration: int
    max_iter: int
    objective: float | None = None
    thetas: list[Array] | None = None
    coef: Array | None = None


SolverCallback = Callable[[SolverProgress], object]
"""Called after each (outer) iteration; a true value stops the solver."""


@dataclass(frozen=True, eq=False)
class LayerResult:
    """Outcome of one layer problem."""

    theta: Array
    n_iter: int
    residuals: Array
    """Primal residuals (n_iter, 4): H, G, non-negativity, unit ball."""
    status: Status


@dataclass(frozen=True, eq=False)
class SolverResult:
    """Outcome of a whole fit."""

    thetas: list[Array]
    """One projection per layer, (n_out, n_in)."""
    coef: Array | None
    """Label projection, (n_outputs, n_components); ``None`` for unsupervised fits."""
    n_iter: int
    status: Status
    objective_terms: list[ObjectiveTerms] = field(default_factory=list)
    """One entry per outer iteration."""
    pretraining: list[LayerResult] = field(default_factory=list)
    """One entry per layer."""
    residuals: list[list[Array]] = field(default_factory=list)
    """One entry per (outer) iteration: a list over layers of residual arrays.

    The published schedule gives (n_inner, 4): H, G, non-negativity, unit ball. The fast solver
    gives (1, 1): the root mean square distance of the features from the constraints.
    """

    @property
    def objective(self) -> list[float]:
        """Objective after each outer iteration."""
        return [terms.total for terms in self.objective_terms]
