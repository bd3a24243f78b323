r"""Exact feasibility at the end of the loop, which stops a little outside of the constraints.

Layer by layer. Let ``w = Z a`` be a combination of a layer's input that is positive for every
sample: the product with the mean input, which points of the non-negative orthant have in common
with it (for the first layer the constant feature, so that only the intercept moves). Adding
``nu_j w`` to output ``j``, a change of the projection by ``nu a^T``, makes the output non-negative
once ``nu_j`` is the largest ``-Z'_ij / w_i``. Dividing a layer by the largest norm of a sample, and
multiplying the next layer by it, then brings all samples into the unit ball.
"""

from collections.abc import Sequence

from jplay.core.arrays import Array, namespace
from jplay.core.samples import Samples, find_largest_norm, find_lowest_ratios

MARGIN = 1e-4
"""Share of ``w`` in every feature between layers, so that the next layer has a positive ``w`` too."""


def repair(
    samples: Samples, mean: Array, thetas: Sequence[Array], nonnegative: bool, unit_ball: bool
) -> tuple[list[Array], Array]:
    """Make a chain exactly feasible.

    Parameters
    ----------
    samples : Samples
    mean : array of shape (1, n_inputs)
        Of the samples.
    thetas : sequence of arrays of shape (n_out, n_in)
    nonnegative, unit_ball : bool

    Returns
    -------
    thetas : list of arrays of shape (n_out, n_in)
    feasible : array of shape (1, 1), bool
        Whether all features are non-negative now: not if some sample has no positive product with
        the mean, which a constant feature as large as the largest sample rules out.
    """
    xp = namespace(mean)
    feasible = xp.ones_like(mean[..., :1]) > 0
    repaired, product, scale = [], None, xp.ones_like(mean[..., :1])
    for l, theta in enumerate(thetas):
        theta, before = scale * theta, product
        if nonnegative:
            reader = mean / xp.sum(mean * mean, axis=-1, keepdims=True)
            direction = reader if before is None else reader @ before
            product = theta if before is None else theta @ before
            lowest, least = find_lowest_ratios(samples, product, direction)
            lift = xp.maximum(-lowest, xp.zeros_like(lowest))
            if l < len(thetas) - 1:
                lift = lift + MARGIN * (1 + 100 * xp.max(lift, axis=-2, keepdims=True))
            theta = xp.where(least > 0, theta + lift * reader, theta)
            feasible = feasible & (least > 0)
        product = theta if before is None else theta @ before
        if unit_ball:
            norm = find_largest_norm(samples, product)
            scale = xp.maximum(norm, xp.ones_like(norm))
        theta, product = theta / scale, product / scale
        repaired.append(theta)
        mean = mean @ theta.mT
    return repaired, feasible
