"""The model that all solvers minimise (Eq. 6), apart from how they do it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from jplay._array_api import Array


class ModelWeights(Protocol):
    """What the smooth terms need to know: numbers, or arrays with one weight per problem."""

    @property
    def alpha(self) -> Array: ...

    @property
    def beta(self) -> Array: ...

    @property
    def gamma(self) -> Array: ...

    @property
    def reconstruction(self) -> bool: ...

    @property
    def sparsity(self) -> float: ...


@dataclass(frozen=True)
class ModelSettings:
    """Weights of the terms of Eq. 6, and which of its parts are present.

    Parameters
    ----------
    alpha : float, default=1.0
        Weight of the prediction loss (Eq. 8).
    beta : float, default=0.1
        Weight of the manifold term (Eq. 9).
    gamma : float, default=0.1
        Weight of the ridge on the label projection (Eq. 10).
    nonnegative : bool, default=True
        Whether the features of every layer must be non-negative.
    unit_ball : bool, default=True
        Whether the features of every sample must have norm at most one, in every layer.
    reconstruction : bool, default=True
        Whether the reconstruction term (Eq. 7) is part of the model.
    sparsity : float, default=0.0
        Weight of the absolute values of the label projection, beside the ridge: another
        regulariser that Eq. 4 has room for.
    """

    alpha: float = 1.0
    beta: float = 0.1
    gamma: float = 0.1
    nonnegative: bool = True
    unit_ball: bool = True
    reconstruction: bool = True
    sparsity: float = 0.0

    @property
    def constraints(self) -> dict[str, bool]:
        """The two switches as keyword arguments of a pass over the samples."""
        return {"nonnegative": self.nonnegative, "unit_ball": self.unit_ball}

    @property
    def n_constraints(self) -> int:
        return int(self.nonnegative) + int(self.unit_ball)


def collapse(thetas: Sequence[Array]) -> Array:
    """The product ``Theta_m ... Theta_1`` of the chain, (n_components, n_features)."""
    product = thetas[0]
    for theta in thetas[1:]:
        product = theta @ product
    return product
