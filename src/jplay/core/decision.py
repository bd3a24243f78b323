"""The decision: nearest class mean under a shrunk within-class covariance.

A subspace learned from labels makes its training samples look better separated than new ones. So
the covariance is estimated and shrunk in the space of the inputs, where nothing was learned, and
carried through the chain. Shrinkage starts from the estimate of Chen, Wiesel, Eldar and Hero (2010);
multiples of it are compared by the likelihood of left-out samples, which also gives the temperature
that turns scores into probabilities.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from jplay.core.arrays import Array, identity, is_plain, like, namespace, symmetrize
from jplay.core.problem import Problem
from jplay.core.samples import Block, Samples, compute_within_scatter
from jplay.core.scaling import InputMap
from jplay.core.targets import Targets

MULTIPLES = (0.3, 1.0, 3.0, 10.0, 30.0)
"""Of the estimated shrinkage that are compared."""
TEMPERATURES = np.logspace(-2.5, 0.5, 25)
LEAST_PROBABILITY = 0.01
"""Below which it does not matter how wrong a left-out sample is, for the temperature."""
SHARE_WITHOUT_CLASSES = 0.3
"""Of the squared distance along directions in which classes do not differ (1-NN: +0.9 points)."""
MAX_ROWS = 20_000
"""Of the samples that are left out in turn."""


@dataclass(frozen=True)
class ClassStatistics:
    """Class means, pooled within-class covariance ``S`` and its shrinkage target ``T``."""

    means: Array
    within: Array
    total: Array
    sizes: Array
    freedom: float
    target: Array | None = None
    share: float = 0.0
    temperature: float = 1.0

    @property
    def log_prior(self) -> Array:
        xp = namespace(self.sizes)
        return xp.log(self.sizes / xp.sum(self.sizes))

    def covariance(self, share: float | None = None) -> Array:
        """``(1 - share) S + share T``, positive definite."""
        share = self.share if share is None else share
        xp = namespace(self.target)
        ridge = 1e-9 * xp.linalg.trace(self.target) / self.target.shape[0] + 1e-100
        shrunk = (1 - share) * self.within + share * self.target
        return shrunk + ridge * identity(self.target.shape[0], shrunk)


def estimate_covariance(problem: Problem, targets: Targets) -> ClassStatistics:
    """Class statistics in the space of the inputs, shrunk; one class for indicator targets."""
    samples, moments, input_map = problem.samples, problem.moments, problem.input_map
    xp = namespace(moments.gram)
    n_samples = moments.n_samples
    if targets.multilabel:
        mean = moments.sample_sum / n_samples
        total = symmetrize(moments.gram - n_samples * (mean[:, None] * mean[None, :]))
        freedom = max(1.0, n_samples - 1.0)
        sizes = n_samples * xp.ones_like(mean[:1])
        statistics = ClassStatistics(
            mean[None, :], total / freedom, total / n_samples, sizes, freedom
        )
        return shrink(statistics, input_map)

    weight = np.ones(len(targets.Y)) if targets.weight is None else targets.weight
    sizes = like(weight @ targets.Y, moments.gram)
    means = moments.cross / sizes[:, None]
    weight, unit = float(xp.sum(sizes)), targets.unit
    freedom = max(1.0, weight / unit - means.shape[0])
    scatter = symmetrize(compute_within_scatter(samples, means))
    between = means - (sizes @ means) / weight
    total = scatter / weight + symmetrize((between.mT * (sizes / weight)) @ between)
    statistics = ClassStatistics(means, scatter / (freedom * unit), total, sizes / unit, freedom)
    return tune(shrink(statistics, input_map), *collect_labelled(samples))


def shrink(statistics: ClassStatistics, input_map: InputMap) -> ClassStatistics:
    """Shrink towards the features' variances, by the share of Chen et al. (2010, Eq. 23)."""
    xp = namespace(statistics.within)
    within, n_features = statistics.within, input_map.shift.shape[0]
    basis = identity(within.shape[0], within) if input_map.basis is None else input_map.basis
    variances = xp.sum((basis @ statistics.total) * basis, axis=1)[:n_features]
    basis = basis[:n_features, :]  # without the constant feature
    variances = xp.maximum(variances, 1e-12 * xp.max(variances) + 1e-100 + 0 * variances)
    # In units of the features' deviations the squared norm of the covariance is tr(S G S G).
    product = within @ (basis.mT @ (basis / variances[:, None]))
    mean = float(xp.linalg.trace(product)) / n_features
    square = float(xp.sum(product * product.mT)) / n_features**2
    denominator = (statistics.freedom + 1) * (square - mean**2 / n_features)
    share = 1.0 if denominator <= 0 else min(1.0, (square + mean**2) / denominator)
    target = symmetrize(basis.mT @ (basis * variances[:, None]))
    return replace(statistics, target=target, share=share)


def collect_labelled(samples: Samples) -> tuple[Array, Array]:
    """Labelled samples and their indicators, at most so many, in double precision."""

    def of_block(block: Block) -> list[tuple[Array, Array]]:
        xp = namespace(block.X)
        labelled = xp.sum(block.Y, axis=1) > 0 if block.weight is None else block.weight > 0
        return [(take_rows(xp.astype(block.X, xp.float64), labelled), take_rows(block.Y, labelled))]

    X, Y = zip(*samples.reduce(of_block, lambda left, right: left + right), strict=True)
    X, Y = namespace(X[0]).concat(list(X)), namespace(Y[0]).concat(list(Y))
    step = -(-X.shape[0] // MAX_ROWS)
    return X[::step, :], Y[::step, :]


def take_rows(matrix: Array, chosen: Array) -> Array:
    """Rows of a matrix where a mask is true."""
    xp = namespace(matrix)
    return xp.take(matrix, xp.nonzero(chosen)[0], axis=0)


def tune(statistics: ClassStatistics, X: Array, Y: Array) -> ClassStatistics:
    """Choose share and temperature by the likelihood of left-out samples."""
    several = (Y @ statistics.sizes) > 1.5
    X, Y = take_rows(X, several), take_rows(Y, several)
    if not X.shape[0]:
        return statistics
    best = None
    for share in dict.fromkeys(min(1.0, multiple * statistics.share) for multiple in MULTIPLES):
        scores = score_left_out(X, Y, statistics, share)
        loss, temperature = find_temperature(scores, Y, statistics.log_prior)
        if best is None or loss < best[0]:
            best = loss, share, temperature
    return replace(statistics, share=best[1], temperature=best[2])


def score_left_out(X: Array, Y: Array, statistics: ClassStatistics, share: float) -> Array:
    """Minus one half of the squared distances to all means, each sample left out of the fit.

    Without sample ``x = m + r`` of a class of ``n`` the mean is ``m - r / (n - 1)``, so that the
    residual grows to ``g r`` with ``g = n / (n - 1)``, and the covariance ``S`` loses ``v r r^T``
    with ``v = g (1 - share) / freedom``. By the formula of Sherman and Morrison ``d^T S^-1 d`` grows
    by ``v (d^T S^-1 r)^2 / (1 - v r^T S^-1 r)``.
    """
    xp = namespace(X)
    size = Y @ statistics.sizes
    g = size / (size - 1)
    v = g * (1 - share) / statistics.freedom
    # Whitened by a Cholesky factor, products are plain inner products.
    factor = xp.linalg.cholesky(statistics.covariance(share))
    rows = xp.concat([statistics.means, X - Y @ statistics.means])
    if is_plain(rows):
        rows = scipy.linalg.solve_triangular(factor, rows.T, lower=True, check_finite=False).T
    else:
        rows = xp.linalg.solve(factor, rows.mT).mT
    means, r = rows[: statistics.means.shape[0], :], rows[statistics.means.shape[0] :, :]
    # Differences d_c = r + m - m_c to the means of the other classes, g r to the own one.
    gaps, to_means, own = Y @ means, r @ means.mT, xp.sum(r * r, axis=1)
    cross = (own + xp.sum(Y * to_means, axis=1))[:, None] - to_means
    apart = xp.sum(gaps**2, axis=1)[:, None] + xp.sum(means**2, axis=1) - 2 * gaps @ means.mT
    distance = 2 * cross - own[:, None] + apart
    cross = xp.where(Y > 0, (own * g)[:, None], cross)
    distance = xp.where(Y > 0, (own * g**2)[:, None], distance)
    rest = xp.maximum(1 - v * own, 0 * own + 1e-3)
    return -0.5 * (distance + (v / rest)[:, None] * cross**2)


def find_temperature(scores: Array, Y: Array, log_prior: Array) -> tuple[float, float]:
    """Smallest log-loss of left-out samples, and the temperature that calibrates them.

    The temperature minimises the mean of ``-log(p + 0.01)``: a few samples that are far on the
    wrong side would make all others too cautious.
    """
    xp = namespace(scores)
    scores = scores - xp.max(scores, axis=1)[:, None]
    prior, own_prior, own_score = xp.exp(log_prior), Y @ log_prior, xp.sum(Y * scores, axis=1)

    def compute_losses(temperature: float) -> tuple[float, float]:
        total = xp.log(xp.exp(temperature * scores) @ prior)
        log_p = temperature * own_score + own_prior - total
        bounded = xp.log(xp.exp(log_p) + LEAST_PROBABILITY)
        return -float(xp.mean(bounded)), -float(xp.mean(log_p))

    losses = {t: compute_losses(t) for t in TEMPERATURES.tolist()}
    coarse = min(losses, key=lambda t: losses[t][0])
    losses |= {
        t: compute_losses(t) for t in (coarse * np.logspace(-0.125, 0.125, 9)[1:-1]).tolist()
    }
    return min(loss for _, loss in losses.values()), min(losses, key=lambda t: losses[t][0])


def compute_whitener(covariance: Array) -> Array:
    """Symmetric matrix that gives features of this covariance unit covariance."""
    xp = namespace(covariance)
    values, vectors = xp.linalg.eigh(covariance)
    values = xp.maximum(values, 0 * values + 1e-10 * xp.max(values) + 1e-300)
    return (vectors / xp.sqrt(values)) @ vectors.mT


def compute_mean_rule(
    means: Array, whitener: Array, log_prior: Array, temperature: float
) -> tuple[Array, Array]:
    """Coefficients and intercepts of scores that are log-probabilities up to a constant.

    Means are taken from their centre, which adds the same to all scores: features lie far from the
    origin, and scores would be differences of large numbers.
    """
    xp = namespace(means)
    centre = xp.mean(means, axis=0)
    coef = temperature * ((means - centre) @ whitener @ whitener)
    return coef, log_prior - 0.5 * xp.sum((means + centre) * coef, axis=1)


def compute_neighbor_metric(whitener: Array, means: Array, prior: Array) -> Array:
    """Whitening that shortens directions in which classes do not differ (Hastie, Tibshirani 1996).

    With the variance ``v`` of the class means along a direction, in units of that within classes,
    squared lengths are multiplied by ``(v + c) / (v + 1)``.
    """
    xp = namespace(means)
    apart = (means - prior @ means) @ whitener * xp.sqrt(prior)[:, None]
    v, vectors = xp.linalg.eigh(symmetrize(apart.mT @ apart))
    v = xp.maximum(v, 0 * v)
    factors = xp.sqrt((v + SHARE_WITHOUT_CLASSES) / (v + 1))
    return (vectors * factors) @ vectors.mT @ whitener
