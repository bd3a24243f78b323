"""Orthonormal frames, and the geometry of the subspaces that they span.

A frame is a matrix ``W`` of shape (n_components, n_features) with ``W W^T = I``. Functions that do
not change when ``W`` is rotated within its span live on the Grassmann manifold; its tangent
vectors ``D`` at ``W`` satisfy ``D W^T = 0``. Geodesics use the singular value decomposition of
``D``, in ``O(n_components^2 n_features)``, never an exponential of size ``n_features``.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg


def random_frame(n_components: int, n_features: int, rng: np.random.Generator) -> np.ndarray:
    """Frame whose span is uniformly distributed."""
    gaussian = rng.standard_normal((n_features, n_components))
    return np.linalg.qr(gaussian)[0].T


def tangent_part(frame: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Gradient on the Grassmann manifold: ``gradient`` less its part within the span."""
    return gradient - (gradient @ frame.T) @ frame


def reorthonormalize(frame: np.ndarray) -> np.ndarray:
    """One Newton step to the nearest frame, for a ``frame`` that is off by rounding.

    The nearest frame is ``(W W^T)^-1/2 W``, and ``(I + E)^-1/2 = I - E / 2`` to first order.
    """
    return 1.5 * frame - 0.5 * (frame @ frame.T) @ frame


@dataclass(frozen=True, eq=False)
class Geodesic:
    """Shortest path on the Grassmann manifold that leaves a frame along a tangent vector.

    With ``direction = U diag(s) V^T``:
    ``W(t) = U (cos(s t) U^T W + sin(s t) V^T)``.
    """

    left: np.ndarray
    rates: np.ndarray
    right: np.ndarray
    origin: np.ndarray

    @classmethod
    def leaving(cls, frame: np.ndarray, direction: np.ndarray) -> "Geodesic":
        """The geodesic from ``frame`` with velocity ``direction``."""
        left, rates, right = scipy.linalg.svd(direction, full_matrices=False, check_finite=False)
        return cls(left, rates, right, left.T @ frame)

    @property
    def fastest(self) -> float:
        """Largest rotation angle per unit of ``t``."""
        return float(self.rates[0])

    def point(self, t: float) -> np.ndarray:
        angles = (self.rates * t)[:, None]
        return self.left @ (np.cos(angles) * self.origin + np.sin(angles) * self.right)

    def velocity(self, t: float) -> np.ndarray:
        angles, rates = (self.rates * t)[:, None], self.rates[:, None]
        return self.left @ (rates * (np.cos(angles) * self.right - np.sin(angles) * self.origin))

    def transport(self, tangent: np.ndarray, t: float) -> np.ndarray:
        """Parallel transport of a ``tangent`` vector at the origin to ``point(t)``."""
        angles = (self.rates * t)[:, None]
        turn = (np.cos(angles) - 1) * self.right - np.sin(angles) * self.origin
        return tangent + (tangent @ self.right.T) @ turn
