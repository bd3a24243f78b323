"""Schedules check their values and describe the layer problems."""

from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

from jplay.solvers.schedules import FastSolver, LayerSchedule, PaperSolver

SCHEDULES = [FastSolver, LayerSchedule, PaperSolver]
DOMAINS = {
    "max_iter": ("a positive integer", [0, -1, 1.5, True, "many", None]),
    "inner_max_iter": ("a positive integer", [0, 2.0]),
    "tol": ("a non-negative number", [-1e-9, float("nan"), float("inf"), "small", None, False]),
    "inner_tol": ("a non-negative number", [-1.0, float("nan")]),
    "eta": ("a non-negative number", [-0.1, float("nan"), None]),
    "mu": ("a positive number", [0, -1.0, float("inf")]),
    "mu_max": ("a positive number", [0.0, float("nan")]),
    "relaxation": ("a number between 0 and 2", [0, 2, -1.0, "1"]),
    "damping": ("a positive number", [0, -0.3]),
    "growth": ("a number of at least 1", [0.99, float("nan"), float("inf")]),
    "deep_growth": ("a number of at least 1", [0.9]),
    "first_layer_iter": ("a non-negative integer", [-1, 2.5, None]),
    "settled_growth": ("a number of at least 1", [0.5]),
    "pretraining": ("a bool", [1, None, "yes"]),
}
CASES = [
    (schedule, field.name, value)
    for schedule in SCHEDULES
    for field in fields(schedule)
    for value in DOMAINS[field.name][1]
]


@pytest.mark.parametrize(("schedule", "name", "value"), CASES)
def test_value_out_of_its_domain_is_refused_by_name(schedule, name, value):
    domain, _ = DOMAINS[name]
    with pytest.raises(ValueError, match=rf"^`{name}` should be {domain}, got ") as error:
        schedule(**{name: value})
    assert repr(value) in str(error.value)
    assert repr(getattr(schedule(), name)) in str(error.value)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_penalty_must_not_shrink(schedule):
    with pytest.raises(ValueError, match=r"`mu_max` should be at least `mu` \(3\.0\), got 2\.0"):
        schedule(mu=3.0, mu_max=2.0)
    assert schedule(mu=3.0, mu_max=3.0).mu_max == 3.0


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_numpy_numbers_and_integers_are_numbers(schedule):
    changed = schedule(max_iter=np.int64(7), tol=0, mu=np.float32(0.5))
    assert (changed.max_iter, changed.tol, changed.mu) == (7, 0, 0.5)


def test_schedules_are_values():
    assert FastSolver(tol=1e-3) == FastSolver(tol=1e-3) != FastSolver()
    assert len({PaperSolver(), PaperSolver(), PaperSolver(eta=0.0)}) == 2
    with pytest.raises(FrozenInstanceError):
        FastSolver().tol = 1.0


def test_layer_problems_follow_the_inner_settings():
    schedule = PaperSolver(
        max_iter=2, tol=0.5, inner_max_iter=30, inner_tol=1e-3, mu=0.1, growth=3.0, mu_max=9.0
    )
    assert schedule.layer == LayerSchedule(max_iter=30, tol=1e-3, mu=0.1, growth=3.0, mu_max=9.0)
    assert PaperSolver().layer == LayerSchedule()


def test_penalty_grows_up_to_its_limit():
    schedule = LayerSchedule(mu=1.0, growth=3.0, mu_max=5.0)
    assert schedule.next_mu(1.0) == 3.0
    assert schedule.next_mu(3.0) == 5.0
    assert schedule.next_mu(5.0) == 5.0
