r"""The objective (Eq. 6) as a function of the projections and second moments.

Every term is quadratic in the features :math:`Z_l = Z_{l-1} \Theta_l^T`, so that with
:math:`A = Z^T Z`, :math:`M = Z^T L Z`, :math:`B = Z^T S Z` and :math:`C = Y^T S Z` (label weights
:math:`S`) the samples are not needed: the moments of a layer's output are
:math:`\Theta A \Theta^T`, :math:`\Theta M \Theta^T`, :math:`\Theta B \Theta^T`, :math:`C \Theta^T`.

All functions accept leading axes, one problem per entry; its numbers have shape (..., 1, 1).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from jplay.core.arrays import (
    Array,
    concat_rows,
    identity,
    inner,
    namespace,
    solve_positive,
    symmetrize,
    trace,
)


class CoefPenalty(Protocol):
    """Penalty on the label projection ``P``. A new penalty implements these two methods."""

    def solve(self, B: Array, C: Array, alpha: Array) -> Array:
        """Return the minimizer of ``alpha / 2 (tr P B P^T - 2 tr P C^T)`` plus the penalty."""

    def value(self, P: Array) -> Array:
        """Return the penalty, of shape (..., 1, 1)."""


@dataclass(frozen=True, eq=False)
class Ridge:
    """The penalty ``gamma / 2 |P|_F^2`` of Eq. 10."""

    gamma: Array = 0.1

    def solve(self, B: Array, C: Array, alpha: Array) -> Array:
        """Return ``P = alpha C (alpha B + gamma I)^-1`` (Eq. 17)."""
        return solve_positive(add_ridge(B, self.gamma, alpha), alpha * C.mT).mT

    def value(self, P: Array) -> Array:
        return self.gamma / 2 * inner(P, P)


def add_ridge(B: Array, gamma: Array, alpha: Array) -> Array:
    """Return ``alpha B + gamma I``, positive definite whatever ``B`` is."""
    # Dependent features make B singular. 1e-12 of its size is far above the rounding of moments
    # (1e-16) and far below any ridge that changes a prediction; 1e-300 is for B = 0.
    ridge = gamma + 1e-12 * alpha * trace(B) + 1e-300
    return alpha * B + ridge * identity(B.shape[-1], B)


@dataclass(frozen=True, eq=False)
class Objective:
    """Weights of the terms of Eq. 6, and which of its parts are present.

    Parameters
    ----------
    alpha : float or array of shape (..., 1, 1), default=3.0
        Weight of the prediction loss (Eq. 8).
    beta : float or array of shape (..., 1, 1), default=0.01
        Weight of the manifold term (Eq. 9).
    penalty : CoefPenalty, default=Ridge()
        Penalty on the label projection.
    nonnegative, unit_ball : bool, default=True
        Whether the features of every layer must be non-negative; have norm at most one.
    reconstruction : bool, default=True
        Whether the reconstruction term (Eq. 7) is present.
    """

    alpha: Array = 3.0
    beta: Array = 0.01
    penalty: CoefPenalty = field(default_factory=Ridge)
    nonnegative: bool = True
    unit_ball: bool = True
    reconstruction: bool = True

    @property
    def n_constraints(self) -> int:
        return int(self.nonnegative) + int(self.unit_ball)


@dataclass(frozen=True, eq=False)
class LabelMoments:
    """Moments of the labels with the input ``Z`` of a layer, for one task or several."""

    B: tuple[Array, ...] | None
    """``Z^T S Z`` with the label weights of each task; ``None`` if all of a single task are one,
    so that it equals ``A``."""
    C: Array
    """``Y^T S Z``, tasks below each other."""
    outputs: tuple[slice, ...]
    """Rows of each task in ``C`` and in the label projection."""
    square: Array
    """``tr Y^T S Y``, (..., 1, 1)."""

    def split_tasks(self, A: Array, P: Array) -> Iterator[tuple[Array, Array]]:
        """Yield ``B`` and the rows of ``P`` (or of ``C``) of each task."""
        for B, rows in zip(self.B or (A,), self.outputs, strict=True):
            yield B, P[..., rows, :]


class Layer(NamedTuple):
    """A layer of a chain: the moments of its input, and products that are needed again."""

    theta: Array
    A: Array
    labels: LabelMoments
    upstream: Array | None
    """Product of all projections before; ``None`` for the first layer."""
    theta_A: Array
    theta_M: Array
    theta_B: tuple[Array, ...]
    row_gram: Array
    """``Theta Theta^T``"""
    out_gram: Array
    """``Theta A Theta^T``"""


def evaluate_chain(
    A: Array, M: Array, labels: LabelMoments, thetas: Sequence[Array]
) -> tuple[list[Layer], LabelMoments]:
    """Compute the moments along a chain from the moments of its input.

    Parameters
    ----------
    A, M : arrays of shape (..., n_inputs, n_inputs)
    labels : LabelMoments
    thetas : sequence of arrays of shape (..., n_out, n_in)

    Returns
    -------
    layers : list of Layer
    labels : LabelMoments
        With the features of the last subspace.
    """
    layers: list[Layer] = []
    upstream = None
    for theta in thetas:
        theta_A, theta_M = theta @ A, theta @ M
        theta_B = (theta_A,) if labels.B is None else tuple(theta @ B for B in labels.B)
        # Eigensolvers read one triangle only, so products are made symmetric before they go on.
        out_gram = symmetrize(theta_A @ theta.mT)
        row_gram = theta @ theta.mT
        layers.append(
            Layer(theta, A, labels, upstream, theta_A, theta_M, theta_B, row_gram, out_gram)
        )
        A, M = out_gram, symmetrize(theta_M @ theta.mT)
        B = labels.B and tuple(symmetrize(product @ theta.mT) for product in theta_B)
        labels = LabelMoments(B, labels.C @ theta.mT, labels.outputs, labels.square)
        upstream = theta if upstream is None else theta @ upstream
    return layers, labels


def solve_label_projection(A: Array, labels: LabelMoments, objective: Objective) -> Array:
    """Return the label projection for given features, (..., n_outputs, n_components).

    ``A`` and ``labels`` are the moments of the features. Tasks have separate problems.
    """
    solve = objective.penalty.solve
    return concat_rows([solve(B, C, objective.alpha) for B, C in labels.split_tasks(A, labels.C)])


def compute_objective(
    layers: Sequence[Layer], labels: LabelMoments, P: Array, objective: Objective
) -> Array:
    """Return the four weighted terms of Eq. 6 in its order, (4, ..., 1, 1).

    ``|Z - Z Theta^T Theta|^2 = tr A - 2 tr A' + tr(Theta Theta^T A')`` with ``A'`` the moments of
    the output (Eq. 7); ``|Y - Z P^T|^2 = tr Y^T S Y - 2 tr P C^T + tr P B P^T`` (Eq. 8).
    """
    reconstruction = manifold = 0 * labels.square
    for layer in layers:
        if objective.reconstruction:
            overlap = inner(layer.row_gram, layer.out_gram)
            reconstruction = reconstruction + trace(layer.A) - 2 * trace(layer.out_gram) + overlap
        manifold = manifold + inner(layer.theta, layer.theta_M)
    prediction = labels.square - 2 * inner(P, labels.C)
    for B, P_task in labels.split_tasks(layers[-1].out_gram, P):
        prediction = prediction + inner(P_task @ B, P_task)
    terms = [
        reconstruction / 2,
        objective.alpha / 2 * prediction,
        objective.beta / 2 * manifold,
        objective.penalty.value(P),
    ]
    # A term that is absent is the same for all settings of a stack.
    return namespace(P).stack([term + 0 * terms[1] for term in terms])
