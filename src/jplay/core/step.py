r"""The step on the projections: a preconditioned gradient step on the augmented Lagrangian

.. math:: f(\Theta, P) + \tfrac\mu2 \sum_l \|Z_l - S_l - D_l\|_F^2 .
"""

from collections.abc import Sequence
from typing import NamedTuple

from jplay.core.arrays import (
    Array,
    eigh,
    eigh_generalized,
    identity,
    namespace,
    symmetrize,
    trace,
)
from jplay.core.objective import LabelMoments, Layer, Objective


class Preconditioner(NamedTuple):
    """Quantities of the first layer's curvature that do not change over the iterations."""

    w: Array
    """Eigenvalues of ``A``, the second moments of the inputs."""
    V: Array
    """Eigenvectors of ``A``, in columns."""
    label_bounds: tuple[Array, ...]
    """Smallest ``c`` with ``B <= c A`` for each task."""
    manifold_bound: Array
    """Smallest ``c`` with ``M <= c A``."""


class QuadraticPull(NamedTuple):
    """The quadratic ``weight / 2 |Theta_1 - target|_F^2`` of a split of the first projection."""

    target: Array
    weight: Array


def build_preconditioner(A: Array, M: Array, labels: LabelMoments) -> Preconditioner:
    """Decompose the moments of the inputs once for all iterations."""
    w, V = decompose(A)
    one = 1 + 0 * trace(A)
    bounds = (one,) if labels.B is None else tuple(bound_ratio(B, w, V) for B in labels.B)
    return Preconditioner(w, V, bounds, bound_ratio(M, w, V))


def decompose(A: Array) -> tuple[Array, Array]:
    """Return eigenvalues and eigenvectors of positive semi-definite ``A``, rounding clipped."""
    w, V = eigh(A)
    return namespace(w).maximum(w, 0 * w), V


def bound_ratio(M: Array, w: Array, V: Array) -> Array:
    """Return the largest ``v^T M v / v^T A v`` in the range of ``A = V diag(w) V^T``."""
    xp = namespace(M)
    inside = w > 1e-10 * xp.max(w, axis=-1, keepdims=True)  # the rest is rounding
    scale = xp.where(inside, xp.where(inside, w, xp.ones_like(w)) ** -0.5, xp.zeros_like(w))
    whitener = V * scale[..., None, :]
    values = xp.linalg.eigvalsh(symmetrize(whitener.mT @ M @ whitener))
    return xp.maximum(values[..., -1:], xp.zeros_like(values[..., :1]))[..., None]


def update_projections(
    layers: Sequence[Layer],
    P: Array,
    split_cross: Sequence[Array],
    mu: Array,
    objective: Objective,
    preconditioner: Preconditioner,
    damping: float,
    first_pull: QuadraticPull | None = None,
) -> list[Array]:
    r"""Step on every projection, from the last to the first, with those behind it updated.

    **Gradient.** All terms of the layers behind layer ``l`` are a quadratic function of its output
    ``Z_l``. It is described by four small matrices, each carried one layer towards the front by
    the projection just updated (``K = Theta Theta^T``):

    - reconstruction (Eq. 7) and penalties, ``H <- Theta^T (H + K - 2 I) Theta + (1 + mu) I``;
    - manifold (Eq. 9), ``F <- Theta^T F Theta + beta I``;
    - labels (Eq. 19), ``P <- P Theta``;
    - splits of the constraints, ``cross <- Theta^T cross + split_cross[l]``.

    With ``G = Theta A Theta^T`` and ``T`` the product of the projections before, the gradient is

        (H + K - 2 I) Theta A + G Theta + F Theta M + alpha P^T (P Theta B - C) - mu cross T^T.

    The part ``-2 Theta A`` belongs to the reconstruction of ``Z_{l-1}`` by this layer.

    **Curvature.** The second derivative along ``D`` is replaced by ``S1 D A + S2 D`` with

        S1 = H + 2 K + c_B alpha P^T P + c_M F,    S2 = G + damping tr(G) / n_out I,

    where ``B <= c_B A`` and ``M <= c_M A``, in deeper layers too, since ``M <= c A`` implies
    ``T M T^T <= c T A T^T``. It bounds all terms but the mixed ones of the reconstruction, for
    which ``damping`` makes up.

    Parameters
    ----------
    layers : sequence of Layer
    P : array of shape (..., n_outputs, n_components)
    split_cross : sequence of arrays of shape (..., n_out, n_inputs)
        ``(S_l + D_l)^T X`` of every layer, see :class:`.samples.ConstraintSplit`.
    mu : array of shape (..., 1, 1)
    objective : Objective
    preconditioner : Preconditioner
    damping : float
    first_pull : QuadraticPull, default=None
        A further quadratic in the first projection.

    Returns
    -------
    thetas : list of arrays of shape (..., n_out, n_in)
    """
    alpha, beta = objective.alpha, objective.beta
    I = identity(P.shape[-1], P)
    H, F, cross = mu * I, beta * I, split_cross[-1]
    thetas: list[Array] = [layer.theta for layer in layers]
    for l in reversed(range(len(layers))):
        layer, theta = layers[l], layers[l].theta
        I = identity(theta.shape[-2], theta)
        S1 = H + preconditioner.manifold_bound * F
        # 1e-12 keeps S2 positive definite if all features are zero.
        S2 = (damping * trace(layer.out_gram) / theta.shape[-2] + 1e-12) * I
        gradient = (
            F @ layer.theta_M
            - alpha * (P.mT @ layer.labels.C)
            - mu * (cross if layer.upstream is None else cross @ layer.upstream.mT)
        )
        form = H  # of the terms in Theta A
        if objective.reconstruction:
            gradient = gradient + layer.out_gram @ theta
            form = form + layer.row_gram - 2 * I
            S1, S2 = S1 + 2 * layer.row_gram, S2 + layer.out_gram
        tasks = zip(layer.labels.outputs, layer.theta_B, preconditioner.label_bounds, strict=True)
        for rows, theta_B, bound in tasks:
            P_task = P[..., rows, :]
            label_form = alpha * (P_task.mT @ P_task)
            S1 = S1 + bound * label_form
            if layer.labels.B is None:  # B equals A
                form = form + label_form
            else:
                gradient = gradient + label_form @ theta_B
        gradient = gradient + form @ layer.theta_A
        if l == 0 and first_pull is not None:
            gradient = gradient + first_pull.weight * (theta - first_pull.target)
            S2 = S2 + first_pull.weight * I
        w, V = preconditioner[:2] if l == 0 else decompose(layer.A)
        theta = theta + solve_step(gradient, S1, S2, w, V)
        thetas[l] = theta

        # Carry the terms of this layer and of those behind it to the output of the layer before.
        if l:
            if objective.reconstruction:  # (I - Theta^T Theta)^2 = I + Theta^T (K - 2 I) Theta
                H = H + theta @ theta.mT - 2 * I
            I = identity(theta.shape[-1], theta)
            H = symmetrize(theta.mT @ H @ theta) + (mu + int(objective.reconstruction)) * I
            F = symmetrize(theta.mT @ F @ theta) + beta * I
            P = P @ theta
            cross = theta.mT @ cross + split_cross[l - 1]
    return thetas


def solve_step(gradient: Array, S1: Array, S2: Array, w: Array, V: Array) -> Array:
    """Solve ``S1 D A + S2 D = -gradient`` for ``D``, with ``A = V diag(w) V^T``.

    With ``S1 U = S2 U diag(s)``, ``U^T S2 U = I`` and ``D = U E V^T`` the equations separate into
    ``(s_i w_j + 1) E_ij = -(U^T gradient V)_ij``, where no divisor is below one.
    """
    s, U = eigh_generalized(symmetrize(S1), S2)
    divisor = s[..., :, None] * w[..., None, :] + 1
    return -(U @ ((U.mT @ gradient @ V) / divisor) @ V.mT)
