"""Checks of the options of solvers, dataclasses whose fields have the names in ``DOMAINS``."""

from collections.abc import Callable
from dataclasses import fields
from math import inf
from numbers import Integral, Real
from typing import Any

Domain = tuple[type, Callable[[Any], bool], str]
COUNT: Domain = (Integral, lambda value: value >= 1, "a positive integer")
POSITIVE: Domain = (Real, lambda value: 0 < value < inf, "a positive number")
NONNEGATIVE: Domain = (Real, lambda value: 0 <= value < inf, "a non-negative number")
FACTOR: Domain = (Real, lambda value: 1 <= value < inf, "a number of at least 1")
DOMAINS: dict[str, Domain] = {
    "max_iter": COUNT,
    "tol": NONNEGATIVE,
    "inner_max_iter": COUNT,
    "inner_tol": NONNEGATIVE,
    "eta": NONNEGATIVE,
    "pretraining": (bool, lambda value: True, "a bool"),
    "first_layer_iter": (Integral, lambda value: value >= 0, "a non-negative integer"),
    "mu": POSITIVE,
    "growth": FACTOR,
    "settled_growth": FACTOR,
    "relaxation": (Real, lambda value: 0 < value < 2, "a number between 0 and 2"),
    "damping": POSITIVE,
    "mu_max": POSITIVE,
}
"""Type, allowed values and their description for every option."""


def check_options(options: Any) -> None:
    """Raise ``ValueError`` for an option outside its domain."""
    for field in fields(options):
        value = getattr(options, field.name)
        kind, is_allowed, description = DOMAINS[field.name]
        # True is an integer to Python, but nobody means ``max_iter=1`` by it.
        right_kind = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if not right_kind or not is_allowed(value):
            raise ValueError(
                f"`{field.name}` should be {description}, got {value!r}. "
                f"The default is {field.default!r}."
            )
    if options.mu_max < options.mu:
        raise ValueError(
            f"`mu_max` should be at least `mu` ({options.mu!r}), got {options.mu_max!r}. "
            "The penalty grows from `mu` to `mu_max`."
        )
