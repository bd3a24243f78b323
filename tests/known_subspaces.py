"""Problems whose target depends on a known subspace that neither PCA nor LDA can see."""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from jplay.core.information import random_frame


@dataclass(frozen=True)
class KnownSubspace:
    X: np.ndarray
    y: np.ndarray
    classes: np.ndarray
    frame: np.ndarray


def _parabola(Z, rng):
    return (Z[:, 0] ** 2 + Z[:, 1] > 1).astype(int)


def _quadrants(Z, rng):
    return (Z[:, 0] * Z[:, 1] > 0).astype(int)


def _rings(Z, rng):
    return np.digitize(np.linalg.norm(Z, axis=1), [0.7, 1.2, 1.8])


def _real_pair(Z, rng):
    pair = np.column_stack([np.cos(2 * Z[:, 0]), Z[:, 1] ** 2])
    return pair + 0.1 * rng.normal(size=pair.shape)


def _label_sets(Z, rng):
    squares = Z**2
    return np.column_stack([squares > 0.5, squares.sum(axis=1) > 2]).astype(int)


def _spread(Z, rng):
    return (0.2 + np.abs(Z[:, 0])) * rng.normal(size=len(Z))


# name: rule, samples, features, dimension of the subspace
PROBLEMS = {
    "two classes, parabola": (_parabola, 800, 20, 2),
    "two classes, quadrants": (_quadrants, 800, 25, 2),
    "four classes, rings": (_rings, 800, 30, 2),
    "label sets": (_label_sets, 1200, 50, 2),
    "two real targets": (_real_pair, 800, 30, 2),
    "spread of a real target": (_spread, 1500, 20, 1),
}


def make_problem(name, seed=0):
    rule, n_samples, n_features, n_components = PROBLEMS[name]
    rng = np.random.default_rng(seed)
    frame = random_frame(n_components, n_features, rng)
    X = rng.normal(size=(n_samples, n_features))
    y = rule(X @ frame.T, rng)
    columns = y.reshape(n_samples, -1)
    if columns.dtype.kind == "f":
        columns = columns > np.median(columns, axis=0)
    return KnownSubspace(X, y, np.unique(columns, axis=0, return_inverse=True)[1].ravel(), frame)


def mean_angle(found, target):
    """Mean principal angle in degrees; a direction that is missing counts 90."""
    angles = np.degrees(scipy.linalg.subspace_angles(found.T, target.T))
    return (angles.sum() + 90 * (len(target) - len(angles))) / len(target)
