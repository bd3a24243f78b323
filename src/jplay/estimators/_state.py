"""What of a fitted estimator is needed to use it, as each estimator declares."""

import copy
from dataclasses import is_dataclass
from typing import Any

from sklearn.base import BaseEstimator


def without_training(value: Any) -> Any:
    """A copy without what only the fit needed, through pipelines and estimators inside others.

    An estimator names such attributes in the class attribute ``_training_attributes``: the graph
    of the training samples, the history of the solver.
    """
    if isinstance(value, list | tuple):
        return type(value)(without_training(item) for item in value)
    if not isinstance(value, BaseEstimator) and not _is_state(value):
        return value
    slim = copy.copy(value)
    dropped = getattr(type(value), "_training_attributes", ())
    for name, item in list(vars(slim).items()):
        if name in dropped:
            del vars(slim)[name]
        else:
            vars(slim)[name] = without_training(item)
    return slim


def _is_state(value: Any) -> bool:
    """Whether ``value`` is a record of this package, which may hold estimators."""
    return (
        is_dataclass(value)
        and not isinstance(value, type)
        and type(value).__module__.startswith("jplay.")
    )
