"""What came out of a case."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

RIGHT, REFUSED, DEFECT = "right", "refused", "defect"
CLEAR = (ValueError, TypeError, OSError, ImportError)
"""Errors that tell a user what to change."""
INTERNAL = (np.linalg.LinAlgError, UnicodeError)
"""Of these, those that leak from the inside."""


@dataclass(frozen=True)
class Outcome:
    """How a case ended, and what to know about it."""

    verdict: str
    note: str = ""


class Wrong(AssertionError):
    """A result that is not what it should be."""


def check(condition: object, message: str) -> None:
    """Raise :class:`Wrong` unless a condition holds."""
    if not condition:
        raise Wrong(message)


def judged(attack: Callable[[], object]) -> Outcome:
    """Run an attack; whatever it raises is judged."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            note = attack()
    except Wrong as error:
        return Outcome(DEFECT, f"wrong: {error}")
    except CLEAR as error:
        told = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        if isinstance(error, INTERNAL) or not str(error).strip():
            return Outcome(DEFECT, told)
        return Outcome(REFUSED, told)
    except Exception as error:
        return Outcome(DEFECT, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    return Outcome(RIGHT, note if isinstance(note, str) else "")
