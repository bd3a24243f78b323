r"""Exact feasibility at the end of the fast solver.

The loop ends with features that miss the constraints a little. Driving the penalty to infinity
would close the gap digit by digit; moving the projections along one strictly feasible direction
closes it at once.

**Non-negativity.** Let ``w = X u`` be a combination of the input features that is positive for
every sample. Adding ``nu_j w`` to feature ``j``, which is a change of the first projection by
``nu u^T``, makes the feature non-negative as soon as ``nu_j`` is at least the largest
``-Z_ij / w_i`` over the samples ``i``.

**Unit ball.** Dividing all features of a layer by the largest norm of a sample puts every sample
into the ball. It keeps non-negativity, and the next projection is multiplied by the same number.

Both leave zero samples where they are: zero is feasible, and every linear map keeps it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from jplay._array_api import Array, like, namespace, to_numpy
from jplay.solvers.samples import Samples, Statistics

# Share of the positive combination that each feature holds at least if layers are made
# non-negative one by one: of the size of the default tolerance of the loop, so that the features
# move no more than they may be off anyway. If a feature lacks much, a hundredth of it is added
# instead, which keeps the next layer's combination well above rounding.
_SHARE = 1e-4

# Largest share at which no other combination is tried. The combination is one on average, so
# features then move by a tenth of the radius of their ball; converged runs need less than a
# thousandth, and the value was found by experiment with runs cut short.
_SMALL_SHARE = 0.1

# Least part of the combination that corrected features may hold; with less, reading it off them
# again amplifies rounding.
_LEAST_HELD = 0.5


class Repaired(NamedTuple):
    """A chain, and whether its features are feasible."""

    thetas: list[Array]
    feasible: bool


class _Correction(NamedTuple):
    """A chain with non-negative features, and the largest share that was added to one."""

    thetas: list[Array]
    share: float


def repair(
    samples: Samples,
    statistics: Statistics,
    thetas: Sequence[Array],
    *,
    nonnegative: bool,
    unit_ball: bool,
) -> Repaired:
    """Make a chain exactly feasible, if any positive combination of the features is known.

    A combination of the *last* features is tried first: every layer holds it, so that all
    projections can be corrected at once, and near the end of a converging run it is far from
    zero. If a sample has hardly any, or a negative one, as after few iterations, a combination
    of the last layer's input is tried, which all layers that need it hold as well, and
    then layers are corrected one by one from the mean sample on. The correction that adds the
    smallest share wins. The last way fails only if some sample has no positive inner product
    with the mean; a constant feature as large as the largest sample rules this out.

    Returns
    -------
    Repaired
        With ``feasible`` false if no positive combination was found. The features are in the
        unit ball all the same.
    """
    chain, feasible = list(thetas), True
    if nonnegative:
        correction = _smallest_correction(samples, statistics, chain)
        feasible = correction is not None
        chain = chain if correction is None else correction.thetas
    return Repaired(_in_unit_ball(samples, chain) if unit_ball else chain, feasible)


def repaired_stack(
    X: Array, mean: Array, thetas: Sequence[Array], *, nonnegative: bool, unit_ball: bool
) -> tuple[list[Array], np.ndarray]:
    """:func:`repair` for a stack of chains, as far as the first way leads.

    Parameters
    ----------
    X : array of shape (n_problems, n_samples, n_features)
        Rows of zeros count as no samples.
    mean : array of shape (n_problems, n_features)
        Of the samples.
    thetas : sequence of arrays of shape (n_problems, n_out, n_in)
    nonnegative, unit_ball : bool

    Returns
    -------
    thetas : list of arrays of shape (n_problems, n_out, n_in)
    done : ndarray of bool of shape (n_problems,)
        Which chains are feasible now. The others deserve a repair of their own.
    """
    chain, done = list(thetas), np.ones(X.shape[0], dtype=bool)
    if nonnegative:
        chain, made = _stack_corrected_at_once(X, mean, chain)
        done = to_numpy(made)
    if unit_ball:
        xp = namespace(X)
        scale_before: Array = 1.0
        for layer, Z in enumerate(_stack_layers(X, chain)):
            norms = xp.max(xp.linalg.vector_norm(Z, axis=2), axis=1)
            scale = xp.astype(xp.where(norms > 1, norms, xp.ones_like(norms)), chain[layer].dtype)
            scale = scale[:, None, None]
            chain[layer] = (scale_before / scale) * chain[layer]
            scale_before = scale
    return chain, done


def _stack_layers(X: Array, thetas: Sequence[Array]) -> list[Array]:
    """Features of every layer of a stack of chains."""
    layers = [X]
    for theta in thetas:
        layers.append(layers[-1] @ like(theta, X).mT)
    return layers[1:]


def _stack_corrected_at_once(
    X: Array, mean: Array, thetas: list[Array]
) -> tuple[list[Array], Array]:
    """:func:`_corrected_at_once` for a stack, by its last features; and where the share is small.

    Vectors are matrices of one column here.
    """
    xp = namespace(X)
    last = mean[:, :, None]
    for theta in thetas:
        last = theta @ last
    size = xp.sum(last * last, axis=(1, 2), keepdims=True)
    directions = [last / xp.where(size > 0, size, xp.ones_like(size))]
    for theta in reversed(thetas):
        directions.insert(0, theta.mT @ directions[0])
    empty = ~xp.any(X != 0, axis=2, keepdims=True)
    w = xp.where(empty, xp.ones_like(X[:, :, :1]), X @ like(directions[0], X))
    divisor = xp.where(w > 0, w, xp.ones_like(w))
    lowest = [xp.min(Z / divisor, axis=1) for Z in _stack_layers(X, thetas)]
    lowest = [xp.astype(ratio, xp.float64)[:, :, None] for ratio in lowest]
    shifts = [xp.where(ratio < 0, -ratio, xp.zeros_like(ratio)) for ratio in lowest]
    share = xp.max(xp.concat(shifts, axis=1), axis=(1, 2))
    shifts.insert(0, xp.zeros_like(directions[0]))
    held = [1 + nu.mT @ u for nu, u in zip(shifts[:-1], directions[:-1], strict=True)]
    enough = xp.all(xp.concat(held, axis=1) >= _LEAST_HELD, axis=(1, 2))
    small = enough & (xp.min(w, axis=(1, 2)) > 0) & (share <= _SMALL_SHARE)
    made = (size[:, 0, 0] > 0) & ((share <= 0) | small)
    corrected = [
        theta + (shift - theta @ shift_before) @ (u / part).mT
        for theta, shift, shift_before, u, part in zip(
            thetas, shifts[1:], shifts[:-1], directions[:-1], held, strict=True
        )
    ]
    moved = (made & (share > 0))[:, None, None]
    return [xp.where(moved, new, old) for new, old in zip(corrected, thetas, strict=True)], made


def _smallest_correction(
    samples: Samples, statistics: Statistics, thetas: list[Array]
) -> _Correction | None:
    """The correction with the smallest share, or the first with a small one."""
    n_layers = len(thetas)
    ways: list[Callable[[], _Correction | None]] = [
        lambda: _corrected_at_once(samples, statistics, thetas, n_layers),
        lambda: _corrected_at_once(samples, statistics, thetas, n_layers - 1),
        lambda: _corrected_one_by_one(samples, statistics, thetas),
    ]
    best = None
    for way in ways:
        found = way()
        if found is not None and (best is None or found.share < best.share):
            best = found
        if best is not None and best.share <= _SMALL_SHARE:
            break
    return best


def _corrected_at_once(
    samples: Samples, statistics: Statistics, thetas: list[Array], held_by: int
) -> _Correction | None:
    """Add shares of a combination ``w`` of some layer's features to all layers.

    Let ``w = Z_k a`` with ``k`` the last or the last but one layer (``held_by``; zero are the
    samples). Every layer before it holds ``w`` too: ``w = Z_l u_l`` with ``u_k = a`` and
    ``u_{l-1} = Theta_l^T u_l``. The features are to become ``Z_l + w nu_l^T``. As ``w`` can be
    read off the corrected features before, ``w = (Z_{l-1} + w nu_{l-1}^T) r`` with
    ``r = u_{l-1} / (1 + nu_{l-1}^T u_{l-1})``, the projection that leads from one layer's
    corrected features to the next layer's is

        Theta_l + (nu_l - Theta_l nu_{l-1}) r^T,

    and the shift of one layer does not reach the next. It is safe as long as the divisor
    ``1 + nu^T u``, the part of ``w`` that the corrected features hold, is far from zero; for small
    shifts it is near one. ``a`` is the mean of the features, scaled
    so that ``w`` is one on average: points of the non-negative orthant have a positive inner
    product with their mean.
    """
    mean = statistics.sample_sum / statistics.n_samples
    xp = namespace(mean)
    for theta in thetas[:held_by]:
        mean = theta @ mean
    size = xp.sum(mean * mean)
    if not float(size) > 0:
        return None
    directions = [mean / size]
    for theta in reversed(thetas[:held_by]):
        directions.append(theta.mT @ directions[-1])
    directions.reverse()
    ratios, lowest = samples.lowest_ratios(thetas, directions[0])
    share = max(-float(xp.min(ratio)) for ratio in ratios)
    if share <= 0:
        return _Correction(thetas, 0.0)
    if not lowest > 0:
        return None
    shifts = [xp.where(ratio < 0, -ratio, xp.zeros_like(ratio)) for ratio in ratios]
    shifts.insert(0, xp.zeros_like(directions[0]))
    held = [1 + xp.sum(nu * u) for nu, u in zip(shifts, directions, strict=False)]
    if min(float(part) for part in held) < _LEAST_HELD:
        return None
    corrected = [
        theta + (shift - theta @ shift_before)[:, None] * (u / part)[None, :]
        for theta, shift, shift_before, u, part in zip(
            thetas, shifts[1:], shifts, directions, held, strict=False
        )
    ]
    return _Correction(corrected, share)


def _corrected_one_by_one(
    samples: Samples, statistics: Statistics, thetas: list[Array]
) -> _Correction | None:
    """Make the layers non-negative one after the other, from the first on.

    The positive combination ``w`` of a layer's input is that with the input's mean. Each output
    feature gets the share of ``w`` that it lacks and a little more, so that it is positive for
    every sample. The next input therefore lies inside the non-negative orthant, with its mean,
    and has a positive combination again: if the first layer succeeds, all do. Unlike above, the
    shift of one layer does reach the next.
    """
    mean = statistics.sample_sum / statistics.n_samples
    xp = namespace(mean)
    corrected: list[Array] = []
    share = 0.0
    for theta in thetas:
        size = xp.sum(mean * mean)
        if not float(size) > 0:
            return None
        reader = mean / size
        direction = reader
        for before in reversed(corrected):
            direction = before.mT @ direction
        ratios, lowest = samples.lowest_ratios([*corrected, theta], direction)
        if not lowest > 0:
            return None
        missing = xp.where(ratios[-1] < 0, -ratios[-1], xp.zeros_like(ratios[-1]))
        largest = float(xp.max(missing))
        spare = _SHARE * (1 + 100 * largest)
        share = max(share, largest + spare)
        corrected.append(theta + (missing + spare)[:, None] * reader[None, :])
        mean = corrected[-1] @ mean
    return _Correction(corrected, share)


def _in_unit_ball(samples: Samples, thetas: list[Array]) -> list[Array]:
    """Divide the features of every layer by the largest norm of a sample, if above one."""
    scaled = []
    scale_before = 1.0
    for theta, norm in zip(thetas, samples.largest_norms(thetas), strict=True):
        scale = max(1.0, norm)
        scaled.append((scale_before / scale) * theta)
        scale_before = scale
    return scaled
