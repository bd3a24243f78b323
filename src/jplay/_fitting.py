"""Fits that store everything at the end, or nothing.

A refit that fails or is interrupted must not leave the classes of the new samples next to the
weights of the old ones. :func:`stores_at_end` decorates ``fit``: it removes what the last fit
stored, runs the fit on a draft of the estimator, and stores what the draft has learned in one
statement.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

_RECORD = "_stored_by_fit"
"""Attribute that lists what the last fit stored."""


def stores_at_end(fit: Callable) -> Callable:
    """Decorate the method ``fit`` of an estimator so that it stores all it learns at once.

    An estimator whose fit fails or is interrupted, the first or a later one, is not fitted. The
    decorator stands above all others, and works for a ``fit`` that calls the decorated one of its
    base class.

    Parameters
    ----------
    fit : callable
        Takes the estimator, and stores what it learns as attributes.

    Returns
    -------
    callable
        With the signature of ``fit``; returns the estimator.

    Examples
    --------
    >>> from jplay._fitting import stores_at_end
    >>> class Mean:
    ...     @stores_at_end
    ...     def fit(self, values):
    ...         self.count_ = len(values)
    ...         self.mean_ = sum(values) / self.count_
    >>> model = Mean().fit([1, 2, 6])
    >>> model.mean_
    3.0
    >>> model.fit([])
    Traceback (most recent call last):
    ZeroDivisionError: division by zero
    >>> hasattr(model, "count_")
    False
    """

    @wraps(fit)
    def fit_and_store(self: Any, *args: Any, **kwargs: Any) -> Any:
        old = {_RECORD, *vars(self).get(_RECORD, ())}
        before = {name: value for name, value in vars(self).items() if name not in old}
        # Each of the two statements that change the estimator is one call of C code, which no
        # interruption divides.
        self.__dict__ = before.copy()
        draft = object.__new__(type(self))
        draft.__dict__ = before.copy()
        fit(draft, *args, **kwargs)
        learned = {
            name: value
            for name, value in vars(draft).items()
            if name not in before or value is not before[name]
        }
        learned[_RECORD] = sorted(learned)
        vars(self).update(learned)
        return self

    return fit_and_store
