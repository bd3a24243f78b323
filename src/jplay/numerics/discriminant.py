"""Nearest class mean under the pooled within-class covariance, from second moments alone."""

from dataclasses import dataclass
from typing import Any

from jplay._array_api import identity, namespace


@dataclass(frozen=True)
class NearestMeanRule:
    """Scores ``Z @ coef.T + intercept``, largest for the nearest class mean."""

    means: Any
    """(n_classes, n_components)"""
    coef: Any
    """(n_classes, n_components)"""
    intercept: Any
    """(n_classes,)"""


def shrunk_covariance(covariance, degrees_of_freedom):
    """Oracle approximating shrinkage towards a multiple of the identity (Chen et al. 2010)."""
    xp = namespace(covariance)
    size = covariance.shape[0]
    scale = float(xp.sum(covariance * identity(size, covariance))) / size
    mean_square = float(xp.mean(covariance * covariance))
    spread = (degrees_of_freedom + 1) * (mean_square - scale**2 / size)
    shrinkage = min(1.0, (mean_square + scale**2) / spread) if spread > 0 else 1.0
    target = max(scale, float(xp.finfo(covariance.dtype).tiny)) * identity(size, covariance)
    return (1 - shrinkage) * covariance + shrinkage * target


def nearest_mean_rule(Z, Y):
    """Fit the rule from rows with the second moments of features and one-hot labels.

    Parameters
    ----------
    Z : array of shape (n_rows, n_components)
    Y : array of shape (n_rows, n_classes)
        ``Y^T Y`` is diagonal and holds the class sizes.
    """
    xp = namespace(Z)
    sizes = xp.sum(Y * Y, axis=0)
    means = (Y.mT @ Z) / sizes[:, None]
    within = Z.mT @ Z - (means.mT * sizes) @ means
    freedom = max(1.0, float(xp.sum(sizes)) - means.shape[0])
    covariance = shrunk_covariance((within + within.mT) / (2 * freedom), freedom)
    # Where the classes have no spread the covariance is rounding: clip its spectrum.
    values, vectors = xp.linalg.eigh(covariance)
    limits = xp.finfo(values.dtype)
    rounding = float(limits.eps) * float(xp.sum(Z * Z)) / freedom
    floor = max(float(xp.max(values)) * 1e-12, rounding, float(limits.tiny))
    values = xp.where(values > floor, values, xp.full_like(values, floor))
    coef = ((means @ vectors) / values) @ vectors.mT
    return NearestMeanRule(means, coef, -0.5 * xp.sum(means * coef, axis=1))
