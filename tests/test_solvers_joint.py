"""The fast solver's steps against the augmented Lagrangian they are to descend."""

from itertools import pairwise

import numpy as np
import pytest

from closeness import assert_close
from jplay.solvers import descent
from jplay.solvers.descent import JointProblem, backward, eigenbasis
from jplay.solvers.model import ModelSettings
from jplay.solvers.moments import Moments, forward

MU = 3.0


def augmented_lagrangian(thetas, coef, X, Y, laplacian, weight, targets, model):
    """The objective without its ridge, and the distance of each layer from its target."""
    value, Z = 0.0, X
    for theta, target in zip(thetas, targets, strict=True):
        ahead = Z @ theta.T
        if model.reconstruction:
            value += 0.5 * np.sum((Z - ahead @ theta) ** 2)
        value += 0.5 * model.beta * np.sum(ahead * (laplacian @ ahead))
        value += 0.5 * MU * np.sum((ahead - target) ** 2)
        Z = ahead
    return value + 0.5 * model.alpha * np.sum(weight * (Y - Z @ coef.T) ** 2)


def central_differences(function, theta, step=1e-6):
    gradient = np.empty_like(theta)
    for place in np.ndindex(theta.shape):
        moved = np.zeros_like(theta)
        moved[place] = step
        gradient[place] = (function(theta + moved) - function(theta - moved)) / (2 * step)
    return gradient


@pytest.mark.parametrize("reconstruction", [True, False])
@pytest.mark.parametrize("labels", ["equal", "weighted", "two tasks"])
def test_steps_follow_the_gradient_of_the_whole_augmented_lagrangian(
    reconstruction, labels, monkeypatch
):
    rng = np.random.default_rng(0)
    sizes, n_samples, n_outputs = [6, 5, 4, 3], 20, 3
    model = ModelSettings(alpha=7.0, beta=0.4, gamma=0.2, reconstruction=reconstruction)
    X, Y = rng.normal(size=(n_samples, sizes[0])), rng.normal(size=(n_samples, n_outputs))
    laplacian = np.cov(rng.normal(size=(n_samples, 30)))
    tasks = (slice(0, 2), slice(2, 3)) if labels == "two tasks" else (slice(0, 3),)
    weight = np.ones((n_samples, n_outputs))
    for rows in tasks if labels != "equal" else ():
        # Each task is labelled on some samples of its own.
        weight[:, rows] = (rng.random(n_samples) * (rng.random(n_samples) > 0.3))[:, None]
    thetas = [rng.normal(size=(b, a)) / 2 for a, b in pairwise(sizes)]
    targets = [rng.normal(size=(n_samples, size)) for size in sizes[1:]]
    coef = rng.normal(size=(n_outputs, sizes[-1]))
    A = X.T @ X
    B = tuple(X.T @ (weight[:, [rows.start]] * X) for rows in tasks)
    B = (A,) if labels == "equal" else B
    first = Moments(A, X.T @ laplacian @ X, B, (weight * Y).T @ X, tasks)
    gradients, steps = [], []

    def spy(gradient, *curvature):
        gradients.append(gradient)
        steps.append(0.1 * rng.normal(size=gradient.shape))
        return steps[-1]

    monkeypatch.setattr(descent, "preconditioned_step", spy)
    pulls = [target.T @ X for target in targets]
    chain = forward(first, thetas)
    problem = JointProblem(
        first=first,
        basis=eigenbasis(A),
        label_square=np.sum(weight * Y**2),
        manifold_bound=1.0,
        label_bounds=(1.0,) * len(tasks),
        n_samples=np.array([n_samples]),
        settling_scale=np.array([1.0]),
    )
    updated, _ = backward(problem, chain, thetas, coef, pulls, MU, model, 0.3)
    for layer, gradient, step in zip((2, 1, 0), gradients, steps, strict=True):
        assert_close(updated[layer], thetas[layer] + step, 1e-7)

        def value(theta, layer=layer):
            chain_now = [*thetas[:layer], theta, *updated[layer + 1 :]]
            return augmented_lagrangian(chain_now, coef, X, Y, laplacian, weight, targets, model)

        expected = central_differences(value, thetas[layer])
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-4)
