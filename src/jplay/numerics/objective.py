"""The objective of the model (Eq. 6) and each of its terms, unweighted.

Every function takes samples as rows. They may equally be given compressed samples: any
``(X, Y)`` with the same ``X^T X``, ``X^T Y`` and ``Y^T Y`` gives the same values.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jplay._array_api import Array, namespace


@dataclass(frozen=True)
class ObjectiveTerms:
    """The terms of Eq. 6 with their weights applied; ``total`` is their sum."""

    reconstruction: float
    prediction: float
    manifold: float
    ridge: float
    columns: float = 0.0
    """The penalty on the columns of the first projection, which Eq. 6 does not have."""

    @property
    def total(self) -> float:
        return self.reconstruction + self.prediction + self.manifold + self.ridge + self.columns


def squared_norm(matrix: Array) -> Array:
    """``|matrix|_F^2``."""
    xp = namespace(matrix)
    return xp.sum(matrix * matrix)


def reconstruction_loss(X: Array, theta: Array) -> Array:
    """``|X - X Theta^T Theta|_F^2``, one summand of Eq. 7."""
    return squared_norm(X - (X @ theta.mT) @ theta)


def prediction_loss(Y: Array, Z: Array, coef: Array) -> Array:
    """``|Y - Z P^T|_F^2`` with ``Z`` the samples in the last subspace (Eq. 8)."""
    return squared_norm(Y - Z @ coef.mT)


def manifold_penalty(theta: Array, laplacian_gram: Array) -> Array:
    """``tr(Theta X^T L X Theta^T)``, one summand of Eq. 9."""
    xp = namespace(theta)
    return xp.sum((theta @ laplacian_gram) * theta)


def objective_terms(
    X: Array,
    Y: Array,
    laplacian_gram: Array,
    thetas: Sequence[Array],
    coef: Array,
    *,
    alpha: float,
    beta: float,
    gamma: float,
    reconstruction: bool = True,
) -> ObjectiveTerms:
    """All four weighted terms of Eq. 6 for a chain of projections.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    Y : array of shape (n_samples, n_outputs)
    laplacian_gram : array of shape (n_features, n_features)
        ``X^T L X``.
    thetas : list of arrays of shape (n_out, n_in)
    coef : array of shape (n_outputs, n_components)
    alpha, beta, gamma : float
    reconstruction : bool, default=True
        Whether the reconstruction term is part of the model.
    """
    Z, gram = X, laplacian_gram
    rebuilt = manifold = 0.0
    for theta in thetas:
        if reconstruction:
            rebuilt += float(reconstruction_loss(Z, theta))
        manifold += float(manifold_penalty(theta, gram))
        Z, gram = Z @ theta.mT, theta @ gram @ theta.mT
    return ObjectiveTerms(
        reconstruction=rebuilt / 2,
        prediction=alpha / 2 * float(prediction_loss(Y, Z, coef)),
        manifold=beta / 2 * manifold,
        ridge=gamma / 2 * float(squared_norm(coef)),
    )
