"""Results of the solvers, and the records that callbacks get while a solver runs."""

from collections.abc import Callable
from dataclasses import dataclass, field

from jplay.core.arrays import Array


@dataclass(frozen=True)
class ObjectiveTerms:
    """Weighted terms of Eq. 6; ``total`` is their sum."""

    reconstruction: float
    prediction: float
    manifold: float
    ridge: float
    columns: float = 0.0
    """Penalty on the columns of the first projection, which Eq. 6 does not have."""

    @property
    def total(self) -> float:
        return self.reconstruction + self.prediction + self.manifold + self.ridge + self.columns


@dataclass(frozen=True)
class Status:
    """Reason why a solver ended, with a remedy if it did not converge."""

    converged: bool
    message: str


@dataclass(frozen=True, eq=False)
class SolverProgress:
    """State of a running solver, passed to callbacks."""

    stage: str
    """``"pretraining"`` or ``"fine-tuning"``."""
    iteration: int
    max_iter: int
    objective: float | None = None
    thetas: list[Array] | None = None
    coef: Array | None = None


SolverCallback = Callable[[SolverProgress], object]
"""Function called after each (outer) iteration; a true value stops the solver."""


@dataclass(frozen=True, eq=False)
class LayerResult:
    """Result of one layer problem of the published solver."""

    theta: Array
    n_iter: int
    residuals: Array
    """Primal residuals (n_iter, 4): H, G, non-negativity, unit ball."""
    status: Status


@dataclass(frozen=True, eq=False)
class SolverResult:
    """Result of a whole fit."""

    thetas: list[Array]
    """One projection per layer, (n_out, n_in)."""
    coef: Array | None
    """Label projection, (n_outputs, n_components); ``None`` for unsupervised fits."""
    n_iter: int
    status: Status
    objective_terms: list[ObjectiveTerms] = field(default_factory=list)
    """One entry per (outer) iteration."""
    pretraining: list[LayerResult] = field(default_factory=list)
    """One entry per layer of the published solver."""
    residuals: list[list[Array]] = field(default_factory=list)
    """One entry per (outer) iteration: a list over layers of residual arrays.

    The published solver gives (n_inner, 4): H, G, non-negativity, unit ball. The fast solver
    gives (1, 1): the root mean square distance of the features from the constraints.
    """

    @property
    def objective(self) -> list[float]:
        """Objective after each (outer) iteration."""
        return [terms.total for terms in self.objective_terms]
