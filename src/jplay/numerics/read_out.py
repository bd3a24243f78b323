"""Linear predictions of real targets in a subspace, with a ridge that the samples choose.

A subspace learned from targets makes its training samples look easy to predict: a choice *there*
trusts it too much, and all the more if features are nearly as many as samples. So the ridge is
chosen in the space of the input, where nothing was chosen, and carried to the subspace with the
metric of the input.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

RIDGES = np.geomspace(1e-10, 1e2, 49)
"""Ridges that are compared, in units of the largest variance along a direction."""
_ROUNDS = 3
"""How often related regressions learn from each other; later rounds change little."""


@dataclass(frozen=True, eq=False)
class Regression:
    """Second moments of centred features and targets: all that a ridge regression needs."""

    gram: np.ndarray
    """(n_features, n_features)"""
    cross: np.ndarray
    """(n_features, n_targets)"""
    target_square: float
    """Sum of the squared targets."""
    n_samples: float
    """Effective number of samples."""

    def around(self, coef: np.ndarray) -> "Regression":
        """The same for what a prediction by ``coef`` (n_targets, n_features) leaves."""
        moved = self.gram @ coef.T
        square = self.target_square + float(((moved - 2 * self.cross) * coef.T).sum())
        return replace(self, cross=self.cross - moved, target_square=max(square, 0.0))

    def projected(self, theta: np.ndarray) -> "Regression":
        """The same on features ``Theta x``."""
        return replace(self, gram=theta @ self.gram @ theta.T, cross=theta @ self.cross)


@dataclass(frozen=True, eq=False)
class ReadOut:
    """Coefficients and how they were found."""

    coef: np.ndarray
    """(n_targets, n_components)"""
    ridge: float
    """In the units of the covariance."""


class _Spectrum:
    """A regression in the basis in which Gram matrix and metric are diagonal."""

    def __init__(self, problem: Regression, metric: np.ndarray) -> None:
        variances, self.basis = scipy.linalg.eigh(problem.gram, _regular(metric))
        self.variances = np.maximum(variances, 0.0)
        self.projected = self.basis.T @ problem.cross
        self.problem = problem

    @property
    def largest(self) -> float:
        return float(self.variances[-1]) or 1.0

    def errors(self, ridges: np.ndarray) -> np.ndarray:
        """Generalised cross-validation error of every ridge."""
        variances, square = self.variances, self.problem.target_square
        shares = variances / (variances + ridges[:, None])
        residuals = square - ((2 - shares) / (variances + ridges[:, None])) @ (
            self.projected**2
        ).sum(axis=1)
        # Rounding can leave less than nothing of targets that are predicted exactly.
        residuals = np.maximum(residuals, np.finfo(float).eps * square)
        return residuals / np.maximum(self.problem.n_samples - 1 - shares.sum(axis=1), 1e-3) ** 2

    def solved(self, ridge: float) -> np.ndarray:
        """Coefficients of the whole input, (n_targets, n_features)."""
        return (self.basis @ (self.projected / (self.variances + ridge)[:, None])).T


def ridge_read_out(problem: Regression, metric: np.ndarray, theta: np.ndarray) -> ReadOut:
    r"""Ridge regression on features :math:`z = \Theta x`, with the penalty of the input space.

    A coefficient vector :math:`c` of features stands for :math:`w = \Theta^T c` of the input, and
    costs :math:`\lambda w^T M w`: a direction is trusted by its variance there, however a
    projection stretches it. With the Gram matrix :math:`G` of the input,

    .. math:: c = (\Theta (G + \lambda M) \Theta^T)^{-1} \Theta X^T y.

    The ridge has the least generalised cross-validation error (Golub, Heath and Wahba 1979) of
    the regression on the input itself, for all targets together: the residual over the squared
    degrees of freedom that are left, :math:`n - 1 - \sum v / (v + \lambda)` with the eigenvalues
    :math:`v` of :math:`G` relative to :math:`M`.

    Parameters
    ----------
    problem : Regression
        On the input.
    metric : ndarray of shape (n_features, n_features)
        :math:`M`.
    theta : ndarray of shape (n_components, n_features)

    Returns
    -------
    ReadOut

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    >>> y = Z @ np.array([[2.0], [3.0]])
    >>> problem = Regression(Z.T @ Z, Z.T @ y, float((y**2).sum()), 4)
    >>> ridge_read_out(problem, np.eye(2), np.array([[0.0, 0.5]])).coef.round(6)
    array([[6.]])
    """
    spectrum = _Spectrum(problem, metric)
    ridges = RIDGES * spectrum.largest
    ridge = float(ridges[np.argmin(spectrum.errors(ridges))])
    inside = problem.projected(theta)
    return ReadOut(_ridge_coef(inside, theta @ metric @ theta.T, ridge), ridge)


def _ridge_coef(problem: Regression, metric: np.ndarray, ridge: float) -> np.ndarray:
    system = _regular(problem.gram + ridge * metric)
    return scipy.linalg.solve(system, problem.cross, assume_a="pos").T


def _regular(matrix: np.ndarray) -> np.ndarray:
    """A positive semi-definite matrix, made definite: features may depend on each other."""
    floor = 1e-12 * np.trace(matrix) / len(matrix) + np.finfo(float).tiny
    return matrix + floor * np.eye(len(matrix))


def related_read_outs(
    problems: Sequence[Regression], metric: np.ndarray, theta: np.ndarray
) -> list[ReadOut]:
    r"""Ridge regressions that learn from each other, if that pays.

    The coefficients of related tasks are alike: :math:`w_t` is drawn around the mean of the
    others with their covariance (Lindley and Smith 1972). So the ridge pulls :math:`w_t` to the
    mean :math:`m_t` of the other tasks' coefficients, in the metric of the inverse of

    .. math:: \sum_{s \ne t} (w_s - m_t)(w_s - m_t)^T + d \tau M^{-1},

    with the given metric counting as much as :math:`d` tasks, the number of features. The first
    coefficients are those of :func:`ridge_read_out`, and they stay if the others do worse: if
    :math:`\sum_t n_t \log e_t + 2 k`, with the errors :math:`e_t` of generalised cross-validation
    and the number :math:`k` of ridges, is not smaller. By the same criterion of Akaike the tasks
    have one ridge in common, or one each. All this happens in the space of the input; the subspace
    then has the same ridge, towards what it holds of the mean.

    Parameters
    ----------
    problems : sequence of Regression
        Of one target each, on the same input.
    metric : ndarray of shape (n_features, n_features)
    theta : ndarray of shape (n_components, n_features)

    Returns
    -------
    list of ReadOut
    """
    means: Sequence[np.ndarray] = [np.zeros((1, len(metric)))] * len(problems)
    metrics: Sequence[np.ndarray] = [metric] * len(problems)
    coefs, ridges, criterion = _with_priors(problems, means, metrics)
    for _ in range(_ROUNDS if len(problems) > 1 else 0):
        priors = _priors(coefs, metric)
        candidate = _with_priors(problems, *priors)
        if not candidate[2] < criterion:
            break
        (coefs, ridges, criterion), (means, metrics) = candidate, priors
    # The means as the subspace holds them: with the nearest predictions on all samples.
    everything = theta @ sum(problem.gram for problem in problems)
    within = _regular(everything @ theta.T)
    read_outs = []
    for problem, own, ridge, mean in zip(problems, metrics, ridges, means, strict=True):
        nearest = scipy.linalg.solve(within, everything @ mean.T, assume_a="pos").T
        inside = problem.projected(theta).around(nearest)
        coef = nearest + _ridge_coef(inside, theta @ own @ theta.T, ridge)
        read_outs.append(ReadOut(coef, ridge))
    return read_outs


def _priors(coefs: np.ndarray, metric: np.ndarray) -> tuple[list, list]:
    """Mean of the other tasks' coefficients, and the metric around it, for every task."""
    n_tasks, size = coefs.shape
    apart = coefs - coefs.mean(axis=0)
    inverse = np.linalg.inv(_regular(metric))
    # Tasks may agree exactly. A millionth of their coefficients' size is then their distance.
    unit = np.einsum("ti,ij,tj->", apart + 1e-3 * coefs, metric, apart + 1e-3 * coefs)
    scatter = apart.T @ apart + (unit / n_tasks + np.finfo(float).tiny) * inverse
    means, metrics = [], []
    for coef, own in zip(coefs, apart, strict=True):
        means.append(((n_tasks * coefs.mean(axis=0) - coef) / (n_tasks - 1))[None, :])
        # Without a task the others' scatter around their own mean is smaller by this much.
        others = scatter - n_tasks / (n_tasks - 1) * np.outer(own, own)
        metrics.append(np.linalg.inv((others + others.T) / 2) * (n_tasks - 1 + size))
    return means, metrics


def _with_priors(
    problems: Sequence[Regression], means: Sequence[np.ndarray], metrics: Sequence[np.ndarray]
) -> tuple[np.ndarray, list[float], float]:
    """Ridge regressions towards means: coefficients, ridges, and the criterion to compare by."""
    spectra = [
        _Spectrum(problem.around(mean), metric)
        for problem, mean, metric in zip(problems, means, metrics, strict=True)
    ]
    common = RIDGES * float(np.median([spectrum.largest for spectrum in spectra]))
    own = np.array([RIDGES * spectrum.largest for spectrum in spectra])
    shared_losses = np.array([_losses(s, common) for s in spectra]).sum(axis=0)
    own_losses = np.array([_losses(s, r) for s, r in zip(spectra, own, strict=True)])
    shared, each = shared_losses.min() + 2, own_losses.min(axis=1).sum() + 2 * len(spectra)
    if shared < each:
        ridges = [float(common[shared_losses.argmin()])] * len(spectra)
    else:
        ridges = own[np.arange(len(spectra)), own_losses.argmin(axis=1)].tolist()
    coefs = [
        mean + spectrum.solved(ridge)
        for spectrum, mean, ridge in zip(spectra, means, ridges, strict=True)
    ]
    return np.concatenate(coefs), ridges, float(min(shared, each))


def _losses(spectrum: _Spectrum, ridges: np.ndarray) -> np.ndarray:
    """``n log e`` of every ridge; nothing for a target that does not vary."""
    if spectrum.problem.target_square == 0:
        return np.zeros(len(ridges))
    return spectrum.problem.n_samples * np.log(spectrum.errors(ridges))
