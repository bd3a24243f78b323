r"""Exact feasibility at the end of the loop, which stops a little outside of the constraints.

**Non-negativity.** Let ``w = Z a`` be a combination of a layer's input that is positive for every
sample: the product with the mean input, which points of the non-negative orthant have in common
with it (for the first layer a constant feature ensures that there is one). Adding ``nu_j w`` to
output ``j``, a change of the projection by ``nu a^T``, makes the output non-negative once ``nu_j``
is the largest ``-Z'_ij / w_i``. A small fraction of ``w`` is added to every output that another
layer follows, so that the next input is inside of the orthant and has a positive ``w`` too.

**Unit ball.** Dividing a layer by the largest norm of a sample, and multiplying the next layer by
it, brings all samples into the ball. It keeps non-negativity. Zero samples stay where they are.
"""

from collections.abc import Sequence

from jplay.core.arrays import Array, inner, namespace
from jplay.core.samples import Samples, find_largest_norm, find_lowest_ratios

MARGIN = 1e-4
"""Fraction of ``w`` that is added to features between layers, of the size of the default tolerance
of the loop: features move no more than they may be off anyway."""


def repair(
    samples: Samples,
    mean: Array,
    thetas: Sequence[Array],
    *,
    nonnegative: bool,
    unit_ball: bool,
) -> tuple[list[Array], Array]:
    """Make a chain exactly feasible, layer by layer.

    Parameters
    ----------
    samples : Samples
    mean : array of shape (..., 1, n_inputs)
        Mean of the samples.
    thetas : sequence of arrays of shape (..., n_out, n_in)
    nonnegative, unit_ball : bool
        Constraints that the features must satisfy.

    Returns
    -------
    thetas : list of arrays of shape (..., n_out, n_in)
    feasible : array of shape (..., 1, 1), bool
        Whether all features are non-negative now: not if some sample has no positive product with
        the mean.
    """
    xp = namespace(mean)
    one = xp.ones_like(inner(thetas[0], thetas[0]))
    feasible, scale = one > 0, one
    repaired: list[Array] = []
    upstream = None
    for layer, theta in enumerate(thetas):
        theta = scale * theta
        if nonnegative:
            size = xp.sum(mean * mean, axis=-1, keepdims=True)
            reader = mean / xp.where(size > 0, size, one)
            direction = reader if upstream is None else reader @ upstream
            product = theta if upstream is None else theta @ upstream
            lowest, divisor = find_lowest_ratios(samples, product, direction)
            lift = xp.maximum(-lowest, xp.zeros_like(lowest))
            if layer < len(thetas) - 1:
                lift = lift + MARGIN * (1 + 100 * xp.max(lift, axis=-2, keepdims=True))
            possible = (divisor > 0) | xp.all(lowest >= 0, axis=-2, keepdims=True)
            theta = xp.where(divisor > 0, theta + lift * reader, theta)
            feasible = feasible & possible
        product = theta if upstream is None else theta @ upstream
        if unit_ball:
            norm = find_largest_norm(samples, product)
            scale = xp.maximum(norm, one)
        theta, upstream = theta / scale, product / scale
        repaired.append(theta)
        mean = mean @ theta.mT
    return repaired, feasible
