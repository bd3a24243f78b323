"""A limit to the time that one piece of work may take."""

import signal
import threading
from contextlib import contextmanager


class OverTime(BaseException):
    """Work took longer than allowed; no estimator may take it for an error of its own."""


@contextmanager
def time_limit(seconds):
    """Raise :class:`OverTime` in the block after some seconds; None allows any time.

    Systems without interval timers (Windows), and threads other than the main one, have no limit.

    Examples
    --------
    >>> from jplay.experiments._limits import OverTime, time_limit
    >>> try:
    ...     with time_limit(0.01):
    ...         while True:
    ...             pass
    ... except OverTime as error:
    ...     print(error)
    over 0.01 s
    """
    main = threading.current_thread() is threading.main_thread()
    if seconds is None or not main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_):
        raise OverTime(f"over {in_words(seconds)}")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def in_words(seconds):
    """Return a time as people write it: ``"90 s"``, ``"3 min"``."""
    return f"{seconds:g} s" if seconds < 120 else f"{seconds / 60:g} min"
