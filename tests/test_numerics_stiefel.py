import numpy as np
import pytest
import scipy.linalg

from jplay.numerics.stiefel import (
    Geodesic,
    random_frame,
    reorthonormalize,
    tangent_part,
)
from jplay.solvers.grassmann import SearchStatus, maximize_over_subspaces

SHAPES = [(1, 5), (3, 8), (6, 8), (4, 40)]


def frame_and_tangent(n_components, n_features, seed=0):
    rng = np.random.default_rng(seed)
    frame = random_frame(n_components, n_features, rng)
    return frame, tangent_part(frame, rng.normal(size=frame.shape))


@pytest.mark.parametrize("shape", SHAPES)
def test_tangent_part_is_orthogonal_to_the_span_and_idempotent(shape):
    frame, tangent = frame_and_tangent(*shape)
    np.testing.assert_allclose(tangent @ frame.T, 0, atol=1e-13)
    np.testing.assert_allclose(tangent_part(frame, tangent), tangent, atol=1e-13)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("t", [0.0, 0.3, 2.0])
def test_geodesic_equals_the_full_matrix_exponential(shape, t):
    frame, tangent = frame_and_tangent(*shape)
    skew = frame.T @ tangent - tangent.T @ frame
    curve = Geodesic.leaving(frame, tangent)
    rotation = scipy.linalg.expm(t * skew)
    np.testing.assert_allclose(curve.point(t), frame @ rotation, atol=1e-11)
    np.testing.assert_allclose(curve.point(t) @ curve.point(t).T, np.eye(shape[0]), atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_velocity_is_the_finite_difference_and_the_transported_direction(shape):
    frame, tangent = frame_and_tangent(*shape)
    curve = Geodesic.leaving(frame, tangent)
    step = 1e-6
    difference = (curve.point(0.7 + step) - curve.point(0.7 - step)) / (2 * step)
    np.testing.assert_allclose(curve.velocity(0.7), difference, atol=1e-7)
    np.testing.assert_allclose(curve.velocity(0.7), curve.transport(tangent, 0.7), atol=1e-12)
    np.testing.assert_allclose(curve.velocity(0.0), tangent, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_transport_keeps_tangency_and_inner_products(shape):
    frame, tangent = frame_and_tangent(*shape)
    rng = np.random.default_rng(1)
    first, second = (tangent_part(frame, rng.normal(size=shape)) for _ in range(2))
    curve = Geodesic.leaving(frame, tangent)
    moved_first, moved_second = curve.transport(first, 0.4), curve.transport(second, 0.4)
    np.testing.assert_allclose(moved_first @ curve.point(0.4).T, 0, atol=1e-12)
    assert np.sum(moved_first * moved_second) == pytest.approx(np.sum(first * second), abs=1e-11)


def test_geodesic_turns_the_span_by_the_rates():
    frame, tangent = frame_and_tangent(3, 9)
    curve = Geodesic.leaving(frame, tangent)
    t = 1.0 / curve.fastest
    np.testing.assert_allclose(
        scipy.linalg.subspace_angles(curve.point(t).T, frame.T),
        np.sort(curve.rates * t)[::-1],
        atol=1e-8,
    )


def test_reorthonormalize_undoes_rounding():
    frame, tangent = frame_and_tangent(4, 9)
    repaired = reorthonormalize(frame + 1e-6 * tangent + 1e-6 * frame)
    np.testing.assert_allclose(repaired @ repaired.T, np.eye(4), atol=1e-10)


@pytest.mark.parametrize("with_value", [True, False])
def test_search_finds_the_leading_eigenspace(with_value):
    """The maximum of ``trace(W A W^T)`` is known: the leading eigenvectors."""
    rng = np.random.default_rng(2)
    root = rng.normal(size=(12, 12))
    matrix = root @ root.T
    target = np.linalg.eigh(matrix)[1][:, ::-1][:, :3].T
    steps = []

    def evaluate(frame):
        value = np.trace(frame @ matrix @ frame.T)
        return (value if with_value else None), 2 * frame @ matrix

    result = maximize_over_subspaces(
        evaluate, random_frame(3, 12, rng), max_iter=200, tol=1e-12, on_step=steps.append
    )
    assert result.status in (SearchStatus.CONVERGED, SearchStatus.STATIONARY)
    assert scipy.linalg.subspace_angles(result.frame.T, target.T)[0] < 1e-4
    assert result.n_iter == len(steps) < 100
    np.testing.assert_allclose(result.frame @ result.frame.T, np.eye(3), atol=1e-12)
    if with_value:
        assert np.all(np.diff([step.value for step in steps]) >= 0)


def test_search_stops_when_asked_and_says_why():
    matrix = np.diag(np.arange(6.0))
    frame = random_frame(2, 6, np.random.default_rng(3))

    def evaluate(frame):
        return np.trace(frame @ matrix @ frame.T), 2 * frame @ matrix

    stopped = maximize_over_subspaces(
        evaluate, frame, max_iter=50, tol=0, on_step=lambda step: step.iteration == 2
    )
    assert (stopped.status, stopped.n_iter) == (SearchStatus.STOPPED, 3)
    limited = maximize_over_subspaces(evaluate, frame, max_iter=2, tol=0)
    assert limited.status is SearchStatus.MAX_ITER
    whole = maximize_over_subspaces(evaluate, np.eye(6), max_iter=5, tol=0)
    assert (whole.status, whole.n_iter) == (SearchStatus.STATIONARY, 0)
