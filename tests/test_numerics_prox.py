import array_api_strict
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from jplay.numerics.prox import (
    project_constraints,
    project_nonnegative,
    project_unit_ball,
    shrink_columns,
)

MATRICES = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(-1e6, 1e6, allow_subnormal=False),
)


@given(MATRICES)
def test_nonnegative_projection_is_feasible_idempotent_and_clips(V):
    projected = project_nonnegative(V)
    assert projected.min() >= 0
    np.testing.assert_array_equal(project_nonnegative(projected), projected)
    np.testing.assert_array_equal(projected, np.clip(V, 0, None))


@given(MATRICES, st.floats(1e-3, 1e3))
def test_ball_projection_is_feasible_idempotent_and_scales_rows(V, radius):
    projected = project_unit_ball(V, radius)
    norms = np.linalg.norm(projected, axis=1)
    assert norms.max() <= radius * (1 + 1e-14)
    np.testing.assert_allclose(
        project_unit_ball(projected, radius), projected, rtol=1e-14, atol=1e-300
    )
    for row, original in zip(projected, V, strict=True):
        length = np.linalg.norm(original)
        expected = original if length <= radius else original * radius / length
        np.testing.assert_allclose(row, expected, rtol=1e-13, atol=1e-300)  # subnormals round


def project_both(V):
    return project_constraints(V, nonnegative=True, unit_ball=True)


@given(MATRICES, st.integers(0, 2**32 - 1))
def test_no_feasible_point_is_nearer(V, seed):
    """The obtuse-angle criterion, which characterises projections on convex sets."""
    rng = np.random.default_rng(seed)
    other = rng.normal(size=V.shape)
    in_ball = other / np.maximum(1, np.linalg.norm(other, axis=1))[:, None]
    for project, feasible in [
        (project_nonnegative, np.abs(other)),
        (project_unit_ball, in_ball),
        (project_both, np.abs(in_ball)),
    ]:
        projected = project(V)
        angle = np.sum((V - projected) * (feasible - projected))
        assert angle <= 1e-12 * (1 + np.linalg.norm(V)) * (1 + np.linalg.norm(projected - feasible))


@pytest.mark.parametrize("seed", range(3))
def test_projections_equal_a_numerical_minimiser(seed):
    v = 1.5 * np.random.default_rng(seed).normal(size=3)

    def distance(x):
        return 0.5 * np.sum((x - v) ** 2)

    nonnegative = scipy.optimize.minimize(
        distance, np.ones(3), jac=lambda x: x - v, bounds=[(0, None)] * 3, tol=1e-12
    )
    np.testing.assert_allclose(project_nonnegative(v[None])[0], nonnegative.x, atol=1e-6)
    for project, bounds in [(project_unit_ball, None), (project_both, [(0, None)] * 3)]:
        nearest = scipy.optimize.minimize(
            distance,
            np.full(3, 0.1),
            jac=lambda x: x - v,
            bounds=bounds,
            constraints={"type": "ineq", "fun": lambda x: 1 - x @ x, "jac": lambda x: -2 * x},
            method="SLSQP",
            tol=1e-12,
        )
        np.testing.assert_allclose(project(v[None])[0], nearest.x, atol=1e-6)


@given(MATRICES)
def test_projection_on_both_sets_is_feasible_and_idempotent(V):
    projected = project_both(V)
    assert projected.min() >= 0
    assert np.linalg.norm(projected, axis=1).max() <= 1 + 1e-14
    np.testing.assert_allclose(project_both(projected), projected, rtol=1e-14, atol=1e-300)


def test_constraints_that_are_off_are_not_met():
    V = np.array([[3.0, -4.0]])
    np.testing.assert_array_equal(project_constraints(V, False, False), V)
    np.testing.assert_array_equal(project_constraints(V, True, False), [[3.0, 0.0]])
    np.testing.assert_allclose(project_constraints(V, False, True), [[0.6, -0.8]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_projections_keep_dtype_and_array_library(dtype):
    V = np.random.default_rng(0).normal(size=(4, 3)).astype(dtype)
    strict = array_api_strict.asarray(V)
    for project in (project_nonnegative, project_unit_ball):
        assert project(V).dtype == dtype
        assert isinstance(project(strict), type(strict))
        np.testing.assert_array_equal(np.asarray(project(strict)), project(V))


def test_ball_projection_leaves_rows_on_and_inside_the_sphere_untouched():
    V = np.array([[1.0, 0.0], [0.0, 0.0], [0.6, -0.8], [0.1, 0.2]])
    np.testing.assert_array_equal(project_unit_ball(V), V)


def test_shrunk_columns_minimise_penalty_and_distance():
    rng = np.random.default_rng(0)
    V = rng.standard_normal((3, 5))
    threshold = np.array([0.0, 0.3, 1.0, 2.0, 9.0])
    shrunk = shrink_columns(V, threshold)

    def cost(flat):
        W = flat.reshape(V.shape)
        return 0.5 * np.sum((W - V) ** 2) + threshold @ np.linalg.norm(W, axis=0)

    assert not shrunk[:, 4].any()
    np.testing.assert_array_equal(shrunk[:, 0], V[:, 0])
    for _ in range(200):
        other = shrunk + rng.choice([1e-3, 0.1, 1.0]) * rng.standard_normal(V.shape)
        assert cost(shrunk.ravel()) <= cost(other.ravel())
    found = scipy.optimize.minimize(cost, V.ravel(), method="Powell", options={"maxiter": 20000})
    assert cost(shrunk.ravel()) <= found.fun + 1e-6
