"""Nearest class mean under the pooled within-class covariance, from second moments alone."""

from dataclasses import dataclass
from typing import Any

from jplay._array_api import identity, namespace
from jplay.numerics.eigen import range_basis, symmetrize


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
    """Covariance pulled towards a multiple of the identity by ``p / (p + degrees of freedom)``."""
    xp = namespace(covariance)
    size = covariance.shape[0]
    shrinkage = size / (size + degrees_of_freedom)
    scale = xp.linalg.trace(covariance) / max(size, 1)
    return (1 - shrinkage) * covariance + shrinkage * scale * identity(size, covariance)


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
    n_samples = float(xp.sum(sizes))
    centre = (sizes @ means) / n_samples
    total = Z.mT @ Z - n_samples * (centre[:, None] * centre[None, :])
    # In coordinates where the features have unit total covariance the rule, shrinkage
    # included, does not depend on how the subspace is scaled.
    scales, axes = range_basis(total, rtol=1e-13)
    whitener = axes * xp.sqrt(n_samples / scales)
    white_means = (means - centre) @ whitener
    between = (white_means.mT * sizes) @ white_means
    freedom = max(1.0, n_samples - means.shape[0])
    within = n_samples * identity(whitener.shape[1], total) - between
    covariance = shrunk_covariance(symmetrize(within) / freedom, freedom)
    # Where the classes have no spread the covariance is rounding: clip its spectrum.
    values, vectors = xp.linalg.eigh(covariance)
    floor = 1e-8  # of the total covariance
    values = xp.where(values > floor, values, xp.full_like(values, floor))
    white_coef = ((white_means @ vectors) / values) @ vectors.mT
    coef = white_coef @ whitener.mT
    intercept = -0.5 * xp.sum(white_means * white_coef, axis=1) - coef @ centre
    return NearestMeanRule(means, coef, intercept)
