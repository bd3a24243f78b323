r"""What chains of large layers do to save time.

Products of matrices take most of their iterations. Two things make these cheaper:

* **Principal axes.** With the eigenvectors :math:`V` of :math:`A = X^T X` the samples :math:`X V`
  have diagonal moments. The model is the same for them, with :math:`\Theta_1 V` in the place of
  :math:`\Theta_1`, since only inner products of its rows are part of it.
* **Single precision.** It takes half of the time, and most iterations need no more than three or
  four digits of features in the unit ball. On principal axes the rounding of strong directions
  does not drown weak ones. The last iterations are in double precision.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np

from jplay._array_api import Array
from jplay.solvers.descent import Iterate, eigenbasis
from jplay.solvers.model import ModelSettings
from jplay.solvers.result import SolverCallback, SolverProgress
from jplay.solvers.samples import ArraySamples, Samples, Statistics

# Entries of the first projection from which products take most of an iteration.
_LARGE_PROJECTION = 50_000

# Samples per feature up to which they do, and not the pass over the samples.
_FEW_SAMPLES = 10

# Iterations of all layers in single precision, and penalty up to which it is enough: with more of
# it the gradient is a difference of ever larger numbers.
_SINGLE_ITER = 28
_SINGLE_PENALTY = 2000.0

# Root mean square norms of samples between which no product leaves the range of single precision.
_SINGLE_RANGE = 1e-6, 1e6


def is_large(
    samples: Samples, statistics: Statistics, layer_sizes: Sequence[int]
) -> TypeGuard[ArraySamples]:
    """Whether products of matrices take most of an iteration on several layers."""
    if not isinstance(samples, ArraySamples) or len(layer_sizes) == 1:
        return False
    # On a device, in single precision or with many samples other things count.
    if not isinstance(samples.X, np.ndarray) or samples.X.dtype != np.float64:
        return False
    n_samples, n_features = samples.X.shape
    if n_samples > _FEW_SAMPLES * n_features or n_features * layer_sizes[0] < _LARGE_PROJECTION:
        return False
    lowest, highest = _SINGLE_RANGE
    return bool(lowest < np.linalg.norm(statistics.X_root) / n_samples**0.5 < highest)


def bears_single_precision(model: ModelSettings) -> bool:
    """Whether rounding to single precision is harmless in early iterations.

    Features in the unit ball stay small, and so does their rounding. The iterations for a sparse
    label projection would not end.
    """
    return model.unit_ball and not model.sparsity


def is_rough(iterate: Iterate) -> bool:
    """Whether single precision is enough for an iterate."""
    return bool(iterate.n_steps < _SINGLE_ITER and np.max(iterate.mu) < _SINGLE_PENALTY)


@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """Orthonormal directions in which samples have diagonal second moments."""

    vectors: Array
    """(n_features, n_features)"""

    @classmethod
    def of(cls, statistics: Statistics) -> "PrincipalAxes":
        """The axes of samples with these statistics."""
        return cls(eigenbasis(statistics.X_root.mT @ statistics.X_root)[1])

    def turned(
        self, samples: ArraySamples, statistics: Statistics
    ) -> tuple[ArraySamples, Statistics]:
        """Samples on these axes, and their statistics."""
        return samples.projected(self.vectors.mT), statistics.projected(self.vectors.mT)

    def turned_start(self, thetas: Sequence[Array]) -> list[Array]:
        """Projections of samples on these axes with the same features."""
        return [thetas[0] @ self.vectors, *thetas[1:]]

    def turned_back(self, thetas: Sequence[Array]) -> list[Array]:
        """Projections of the samples as they were, with the same features."""
        return [thetas[0] @ self.vectors.mT, *thetas[1:]]

    def reporting_to(self, callback: SolverCallback | None) -> SolverCallback | None:
        """A callback that is told of the samples as they were."""
        if callback is None:
            return None

        def report(progress: SolverProgress) -> object:
            if progress.thetas is not None:
                progress = replace(progress, thetas=self.turned_back(progress.thetas))
            return callback(progress)

        return report
