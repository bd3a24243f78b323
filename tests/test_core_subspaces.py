"""Information methods against their definitions over all pairs of samples."""

import numpy as np
import pytest

from jplay import LSDR, LSQMID


def problem(n_samples=60, seed=0):
    """A real target that depends on one direction of four."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 4))
    return X, np.sin(2 * X @ [0.8, 0.6, 0, 0]) + 0.1 * rng.normal(size=n_samples)


def squared_distances(A, B):
    return ((A[:, None] - B[None]) ** 2).sum(axis=2)


def information(frame, X, y, width, target_width, reg):
    """``h^T a - a^T H a / 2`` with ``a = (H + reg)^{-1} h``; every sample is a center."""
    Z, T = X @ frame.T, y.reshape(len(y), -1)
    near = np.exp(-squared_distances(Z, Z) / (2 * width**2))
    if target_width is None:
        alike = (T == T.T).astype(float)
    else:
        alike = np.exp(-squared_distances(T, T) / (2 * target_width**2))
    h = (near * alike).mean(axis=0)
    H = (near.T @ near) * (alike.T @ alike) / len(X) ** 2
    a = np.linalg.solve(H + reg * np.eye(len(X)), h)
    return h @ a - a @ H @ a / 2


@pytest.mark.parametrize("classes", [False, True])
def test_the_subspace_has_the_most_information_nearby_and_far(classes):
    X, y = problem()
    y = (y > 0).astype(int) if classes else y
    model = LSDR(1, widths=[0.5], regs=[0.1], n_restarts=0, tol=1e-6, random_state=0).fit(X, y)
    settings = (model.width_, model.target_width_, model.reg_)
    S = X - X.mean(axis=0)
    found = information(model.components_, S, y, *settings)
    rng = np.random.default_rng(0)
    for size in [0.03, 0.1, 10.0] * 10:
        other = model.components_ + size * rng.normal(size=(1, 4))
        other /= np.linalg.norm(other)
        assert information(other, S, y, *settings) <= found * (1 + 2e-3)


@pytest.mark.parametrize("method", [LSDR, LSQMID])
@pytest.mark.parametrize("multiple", [0.25, 2.0])
def test_widths_are_multiples_of_median_distances(method, multiple):
    """Of the projected samples and of the targets."""
    X, y = problem()
    model = method(1, widths=[multiple], n_restarts=0, max_iter=3, random_state=0).fit(X, 30 * y)
    Z = (X - X.mean(axis=0)) @ model.components_.T
    for width, values in ((model.width_, Z), (model.target_width_, 30 * y[:, None])):
        distances = np.sqrt(squared_distances(values, values))
        lower, upper = np.median(distances), np.median(distances[distances > 0])
        assert 0.99 * lower <= width / multiple <= 1.01 * upper


def test_held_out_information_is_that_of_the_normal_distribution():
    """A lower bound of ``rho^2 / (2 (1 - rho^2))``, plus one half, which grows with it."""
    rng, scores = np.random.default_rng(3), []
    for rho in (0.0, 0.3, 0.5):
        x = rng.normal(size=1000)
        y = rho * x + np.sqrt(1 - rho**2) * rng.normal(size=1000)
        model = LSDR(
            1,
            n_centers=40,
            widths=[0.5, 1.0],
            regs=[0.01],
            n_restarts=0,
            max_iter=5,
            random_state=0,
        )
        scores.append(model.fit(np.column_stack([x, 0 * x]), y).score_ - 0.5)
        exact = rho**2 / (2 * (1 - rho**2))
        assert 0.5 * exact - 0.03 < scores[-1] < exact + 0.03
    assert scores == sorted(scores)
