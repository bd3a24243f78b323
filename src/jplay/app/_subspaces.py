"""Plane views of the subspaces of a fitted model."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class SubspaceView:
    """The plane of every subspace in which the class means differ most.

    Attributes
    ----------
    names : list of str
        Of the subspaces, the input first.
    centres, axes : list of ndarray of shape (n_dimensions,), (n_dimensions, 2)
        Of each subspace.
    """

    estimator: Any
    names: list
    centres: list
    axes: list

    @classmethod
    def of(cls, estimator, X, y):
        """Find the planes for a fitted model and its training samples."""
        spaces = _spaces(estimator, X)
        names = [f"Input: {spaces[0].shape[1]} features"]
        names += [f"Layer {n}: {Z.shape[1]} dimensions" for n, Z in enumerate(spaces[1:], 1)]
        centres, axes, before = [], [], None
        for Z in spaces:
            centre = Z.mean(axis=0)
            means = np.stack([Z[y == label].mean(axis=0) for label in np.unique(y)]) - centre
            directions = np.linalg.svd(means, full_matrices=False)[2][:2].T
            if directions.shape[1] < 2:
                directions = np.pad(directions, ((0, 0), (0, 2 - directions.shape[1])))
            plane = (Z - centre) @ directions
            scale = np.sqrt(np.mean(plane**2)) or 1.0
            directions = directions / scale
            if before is not None:  # signs are arbitrary: turn so that classes stay in place
                left, _, right = np.linalg.svd((plane / scale).T @ before)
                directions = directions @ (left @ right)
            before = (Z - centre) @ directions
            centres.append(centre)
            axes.append(directions)
        return cls(estimator, names, centres, axes)

    def planes(self, X):
        """Positions of samples, of shape (n_subspaces, n_samples, 2)."""
        spaces = _spaces(self.estimator, X)
        return np.stack(
            [
                (Z - centre) @ axes
                for Z, centre, axes in zip(spaces, self.centres, self.axes, strict=True)
            ]
        )


def _spaces(estimator, X):
    """Samples as the model sees them, then its layers if it has any."""
    steps = [step for _, step in estimator.steps] if hasattr(estimator, "steps") else [estimator]
    for step in steps[:-1]:
        X = step.transform(X)
    last, values = steps[-1], np.asarray(X, dtype=np.float64)
    if hasattr(last, "transform_layers"):
        return [values, *last.transform_layers(X)]
    if hasattr(last, "transform"):
        return [values, np.asarray(last.transform(X))]
    return [values]
