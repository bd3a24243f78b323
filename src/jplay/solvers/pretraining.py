"""Where the solvers start: locality preserving projections, refined by AutoRULe or not."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import array_api_compat
import numpy as np
import scipy.linalg

from jplay._array_api import Array, like, namespace, to_numpy, zeros_like_shape
from jplay.numerics.eigen import (
    is_well_conditioned,
    leading_generalized_eigenvectors,
    stacked_generalized_eigenvectors,
    symmetrize,
)
from jplay.solvers.layer import LayerProblem, solve_layer
from jplay.solvers.model import ModelSettings
from jplay.solvers.result import LayerResult, Status
from jplay.solvers.samples import Samples, Statistics, reduced_rows
from jplay.solvers.schedules import LayerSchedule, PaperSchedule

# Root mean square norm of the first layer's features at the start: well inside the unit ball,
# and large enough that its constraint is felt. Between 0.35 and 1.4 the objective reached
# changes by a thousandth.
_START_SIZE = 0.7


def locality_preserving_projections(
    statistics: Statistics, n_components: int | None = None, *, full_rank: bool = False
) -> Array:
    r"""Largest solutions of ``X^T W X a = lambda X^T D X a`` for centred samples (Eq. 3).

    Eq. 3 minimises :math:`\mathrm{tr}(\Theta X^T L X \Theta^T)` subject to
    :math:`\Theta X^T D X \Theta^T = I`. With ``L = D - W`` the smallest eigenvalues of
    ``X^T L X`` are the largest of ``X^T W X``. Everything follows from moments: with the mean
    ``m`` the centred ``X^T D X`` is ``X^T D X - (s m^T + m s^T) + d m m^T``, where ``s = X^T D 1``
    and ``d`` is the sum of the degrees. If it is singular, the problem is reduced to its range.

    Rows have unit length, and their sign makes the projections of the uncentred samples sum to
    a non-negative number: the non-negativity that follows makes the sign matter. If that sum
    is zero, as for centred samples, it is the sum weighted by the degrees in the graph; and if
    all degrees are equal too, the largest coefficient is positive.

    Parameters
    ----------
    statistics : Statistics
    n_components : int, default=None
        ``None`` means as many as the samples support.
    full_rank : bool, default=False
        Whether :func:`has_full_rank` says so of the samples. A few projections then take a third
        of the time.

    Returns
    -------
    theta : array of shape (n_found, n_features)
        ``n_found`` is smaller than ``n_components`` if the samples' rank is.
    """
    xp = namespace(statistics.degree_gram)
    degree_gram, rtol = _centred_degree_gram(statistics)
    # Constant shifts are in the null space of the Laplacian, so only D feels the centring.
    affinity_gram = degree_gram - statistics.laplacian_gram
    if full_rank and n_components is not None:
        # A Cholesky factor whitens as well as all eigenvectors do.
        size = degree_gram.shape[0]
        _, vectors = scipy.linalg.eigh(
            symmetrize(affinity_gram),
            degree_gram,
            subset_by_index=[max(0, size - n_components), size - 1],
            check_finite=False,
        )
        vectors = vectors[:, ::-1]
    else:
        _, vectors = leading_generalized_eigenvectors(
            affinity_gram, degree_gram, n_components, rtol=rtol
        )
    return _signed(vectors.mT / xp.linalg.vector_norm(vectors, axis=0)[:, None], statistics)


def stacked_projections(statistics: Statistics, n_components: int) -> tuple[Array, np.ndarray]:
    """The same for a stack of problems, with the rank of each.

    Returns
    -------
    thetas : array of shape (n_problems, n_components, n_features)
        Zero rows beyond the rank.
    ranks : ndarray of int of shape (n_problems,)
    """
    xp = namespace(statistics.degree_gram)
    degree_gram, rtol = _centred_degree_gram(statistics)
    vectors, ranks = stacked_generalized_eigenvectors(
        degree_gram - statistics.laplacian_gram, degree_gram, n_components, rtol
    )
    lengths = xp.linalg.vector_norm(vectors, axis=1)[:, :, None]
    theta = vectors.mT / xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    return _signed(theta, statistics), to_numpy(ranks)


def _signed(theta: Array, statistics: Statistics) -> Array:
    """Projections with the sign that :func:`locality_preserving_projections` describes."""
    xp = namespace(theta)
    n_samples = _column(statistics.n_samples, theta)
    sums = _products(theta, statistics.sample_sum)
    # |sum_i z_i| <= sqrt(n) |z|. A sum below a millionth of that bound is the rounding of centred
    # samples, also of such in single precision (1e-7), and has no sign worth keeping.
    largest_sums = xp.linalg.vector_norm(statistics.X_root @ theta.mT, axis=-2) * n_samples**0.5
    weighted_sums = _products(theta, statistics.degree_sum)
    largest_weighted = largest_sums * (_column(statistics.total_degree, theta) / n_samples)
    largest_coefs = xp.max(theta, axis=-1) + xp.min(theta, axis=-1)
    weighted_sums = xp.where(
        xp.abs(weighted_sums) > 1e-6 * largest_weighted, weighted_sums, largest_coefs
    )
    sums = xp.where(xp.abs(sums) > 1e-6 * largest_sums, sums, weighted_sums)
    return xp.where(sums[..., None] < 0, -theta, theta)


def _products(theta: Array, vector: Array) -> Array:
    """``theta @ vector``, also for stacks of both."""
    return (theta @ vector[..., None])[..., 0]


def _column(values: Any, reference: Array) -> Array:
    """A number as it is, or (n_problems, 1) of several."""
    return values if np.ndim(values) == 0 else like(np.asarray(values)[:, None], reference)


def has_full_rank(statistics: Statistics) -> bool:
    """Whether samples clearly span all directions around their mean; ``False`` if in doubt."""
    return is_well_conditioned(*_centred_degree_gram(statistics))


def _centred_degree_gram(statistics: Statistics) -> tuple[Array, Array]:
    """``X^T D X`` of centred samples, and the tolerance below which its eigenvalues are zero."""
    total_degree = _column(statistics.total_degree, statistics.sample_sum)
    mean = statistics.sample_sum / _column(statistics.n_samples, statistics.sample_sum)
    cross = statistics.degree_sum[..., :, None] * mean[..., None, :]
    shift = cross + cross.mT - (total_degree * mean)[..., :, None] * mean[..., None, :]
    centred = statistics.degree_gram - shift
    return centred, _centred_rank_tolerance(statistics.degree_gram, centred)


def _centred_rank_tolerance(uncentred: Array, centred: Array) -> Array:
    """Relative tolerance that counts the rounding of the centring as zero.

    Subtracting nearly equal matrices leaves errors of the size of the larger one's rounding,
    which may be far above the rounding of the difference.
    """
    xp = namespace(centred)
    precision = 10 * centred.shape[-1] * float(xp.finfo(centred.dtype).eps)
    spread = xp.max(xp.abs(centred), axis=(-2, -1))
    ratio = xp.max(xp.abs(uncentred), axis=(-2, -1)) / xp.where(spread > 0, spread, spread + 1)
    ratio = xp.where(ratio > 1, ratio, xp.ones_like(ratio))
    tolerance = xp.where(spread > 0, precision * ratio, xp.ones_like(ratio))
    return float(tolerance) if centred.ndim == 2 else tolerance


def padded(theta: Array, n_rows: int) -> Array:
    """``theta`` with zero rows appended if the samples supported fewer than asked."""
    missing = n_rows - theta.shape[-2]
    if not missing:
        return theta
    xp = namespace(theta)
    zeros = zeros_like_shape((*theta.shape[:-2], missing, theta.shape[-1]), theta)
    return xp.concat([theta, zeros], axis=-2)


def lpp_start(statistics: Statistics, n_out: int, projections: Array | None = None) -> Array:
    """Locality preserving projections, ``n_out`` of them, from those found before if given."""
    if projections is None:
        return padded(locality_preserving_projections(statistics, n_out), n_out)
    return padded(projections[:n_out, :], n_out)


def starting_projections(
    statistics: Statistics, layer_sizes: Sequence[int], projections: Array | None = None
) -> list[Array]:
    """Locality preserving projections, then for deeper layers a choice of their features.

    The first layer is scaled into the unit ball on average; the deeper ones are those of
    :func:`selections`.

    Parameters
    ----------
    statistics : Statistics
    layer_sizes : sequence of int
    projections : array of shape (n_found, n_features), default=None
        What :func:`locality_preserving_projections` found before, at least as many as the first
        layer has outputs or all that the samples support.

    Returns
    -------
    thetas : list of arrays of shape (n_out, n_in)
    """
    theta = lpp_start(statistics, layer_sizes[0], projections)
    first = inside_ball(theta, statistics)
    if len(layer_sizes) == 1:
        return [first]
    root = statistics.X_root @ theta.mT
    return [first, *selections(root.mT @ root, layer_sizes[1:])]


def inside_ball(theta: Array, statistics: Statistics) -> Array:
    """Projections scaled so that their features lie well inside the unit ball on average.

    Of one problem or of a stack.
    """
    xp = namespace(theta)
    root = statistics.X_root @ theta.mT
    size = xp.linalg.vector_norm(root, axis=(-2, -1), keepdims=True)[..., 0]
    size = size / _column(statistics.n_samples, theta) ** 0.5
    return theta * (_START_SIZE / size)[..., None]


def selections(gram: Array, layer_sizes: Sequence[int]) -> list[Array]:
    """Layers that choose among the features of the layer before, of one problem or of a batch.

    A selection of non-negative features in the unit ball is itself feasible. Those are chosen
    that hold most of what the layer before does, see :func:`leading_features`.

    Parameters
    ----------
    gram : array of shape (n_features, n_features) or (n_problems, n_features, n_features)
        Second moments of the features before the first of these layers.
    layer_sizes : sequence of int

    Returns
    -------
    thetas : list of arrays of shape (n_out, n_in) or (n_problems, n_out, n_in)
        Rows of identity matrices, with zero rows below if there are too few features.
    """
    xp = namespace(gram)
    # One search is enough: each layer would find the first of its input's features again.
    count = min(layer_sizes[0], gram.shape[-1])
    found = leading_features(gram, count)
    thetas: list[Array] = []
    before = None
    for n_out in layer_sizes:
        count = min(n_out, count)
        chosen = xp.sort(found[..., :count], axis=-1)
        rows = padded(xp.astype(chosen[..., :, None] == _numbers(gram), gram.dtype), n_out)
        thetas.append(rows if before is None else rows @ before.mT)
        before = rows
    return thetas


def _numbers(gram: Array) -> Array:
    """Number of each feature, (n_features,)."""
    return namespace(gram).arange(gram.shape[-1], device=array_api_compat.device(gram))


def leading_features(gram: Array, count: int) -> Array:
    """Indices of ``count`` features, each with the largest part that those before do not explain.

    A Cholesky factorisation with pivoting: after each choice the squared norms of the features
    lose what the one chosen explains of them.
    """
    xp = namespace(gram)
    numbers = _numbers(gram)
    left = xp.linalg.diagonal(gram)
    factor = zeros_like_shape((*gram.shape[:-2], count, gram.shape[-1]), gram)
    chosen = []
    for step in range(count):
        pivot = xp.argmax(left, axis=-1)[..., None]
        chosen.append(pivot)
        row = xp.take_along_axis(gram, _as_row(pivot, gram), axis=-2)
        if step:
            before = factor[..., :step, :]
            column = xp.take_along_axis(before, _as_column(pivot, before), axis=-1)
            row = row - column.mT @ before
        # A feature that the others explain up to rounding explains nothing in its turn.
        size = xp.take_along_axis(left, pivot, axis=-1)
        row = row[..., 0, :] / xp.where(size > 0, size, xp.full_like(size, xp.inf)) ** 0.5
        factor[..., step, :] = row
        left = xp.where(numbers == pivot, xp.full_like(left, -xp.inf), left - row * row)
    return xp.concat(chosen, axis=-1)


def _as_row(index: Array, matrix: Array) -> Array:
    """One row index per matrix, repeated over its columns."""
    xp = namespace(matrix)
    return xp.broadcast_to(index[..., None], (*matrix.shape[:-2], 1, matrix.shape[-1]))


def _as_column(index: Array, matrix: Array) -> Array:
    """One column index per matrix, repeated over its rows."""
    xp = namespace(matrix)
    return xp.broadcast_to(index[..., None], (*matrix.shape[:-1], 1))


def autorule(
    samples: Samples,
    statistics: Statistics,
    theta: Array,
    *,
    eta: float,
    nonnegative: bool,
    unit_ball: bool,
    reconstruction: bool,
    schedule: LayerSchedule,
) -> LayerResult:
    """Refine one projection without labels (Eq. 11) from a given start, by Algorithm 2.

    Parameters
    ----------
    samples : Samples
        The input of the layer.
    statistics : Statistics
        Of the same samples.
    theta : array of shape (n_out, n_in)
    eta : float
        Weight of the manifold term.
    nonnegative, unit_ball, reconstruction : bool
        Which constraints and whether the reconstruction term are part of the problem.
    schedule : LayerSchedule

    Returns
    -------
    LayerResult
    """
    X, _ = reduced_rows(statistics.X_root, statistics.Y_root[:, :0])
    problem = LayerProblem(
        X=X,
        laplacian_gram=statistics.laplacian_gram,
        manifold_weight=eta,
        n_constraints=int(nonnegative) + int(unit_ball),
        reconstruction=reconstruction,
    )
    constraint_pass = samples.constraint_pass(
        theta.shape[0], nonnegative=nonnegative, unit_ball=unit_ball
    )
    return solve_layer(problem, constraint_pass, theta, schedule)


def pretrain(
    samples: Samples,
    statistics: Statistics,
    layer_sizes: Sequence[int],
    model: ModelSettings,
    schedule: PaperSchedule,
    *,
    projections: Array | None = None,
    callback: Callable[[int, int], object] | None = None,
) -> list[LayerResult]:
    """Initialise every layer in turn from the output of the one before (Algorithm 1, lines 3-7).

    Parameters
    ----------
    samples : Samples
    statistics : Statistics
        Of the same samples.
    layer_sizes : sequence of int
    model : ModelSettings
        Its weights play no part: there are no labels, and the manifold term has ``eta``.
    schedule : PaperSchedule
    projections : array of shape (n_found, n_features), default=None
        Start of the first layer, see :func:`starting_projections`.
    callback : callable, default=None
        Called with the number of layers done and of all.

    Returns
    -------
    results : list of LayerResult
    """
    results: list[LayerResult] = []
    for n_out in layer_sizes:
        result = autorule(
            samples,
            statistics,
            lpp_start(statistics, n_out, None if results else projections),
            eta=schedule.eta,
            **model.constraints,
            reconstruction=model.reconstruction,
            schedule=schedule.layer,
        )
        if not result.status.converged:
            message = f"pre-training of layer {len(results) + 1}: {result.status.message}"
            result = replace(result, status=Status(False, message))
        results.append(result)
        if len(results) < len(layer_sizes):
            samples = samples.projected(result.theta)
            statistics = statistics.projected(result.theta)
        if callback is not None:
            callback(len(results), len(layer_sizes))
    return results
