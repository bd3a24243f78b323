"""Work in the background with progress, one of a kind per session at a time."""

import threading
import time
from itertools import count

from jplay.app._workers import Cancelled, WorkFailed

_numbers = count(1)


class Job:
    """Work that a thread does; what it is up to is in :meth:`facts`.

    Parameters
    ----------
    kind : str
    work : callable
        Takes the job; what it returns goes to ``finish``.
    finish : callable
        Called with the result, unless the job was ended before.
    expected : float, optional
        Seconds that such work took before.
    """

    def __init__(self, kind, work, finish, expected=None):
        self.number = next(_numbers)
        self.kind, self.state, self.text = kind, "running", "Starting"
        self.done, self.total, self.message, self.expected = 0, None, "", expected
        self.cancelled = threading.Event()
        self._work, self._finish = work, finish
        self._started, self._seconds = time.monotonic(), None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        """Begin."""
        self._thread.start()
        return self

    def report(self, text, done=0, total=None):
        """Note how far the work is."""
        self.text, self.done, self.total = text, done, total

    def cancel(self):
        """Ask the work to end."""
        self.cancelled.set()

    def wait(self, seconds):
        """Wait for the end of the work."""
        self._thread.join(seconds)

    def _run(self):
        try:
            result = self._work(self)
            if self.cancelled.is_set():
                raise Cancelled
            self._finish(result)
            state = "done"
        except Cancelled:
            state, self.message = "cancelled", "Stopped. Your labels are kept."
        except (WorkFailed, ValueError, OSError, ImportError, ArithmeticError) as error:
            state, self.message = "failed", " ".join(str(error).split()) or type(error).__name__
        except Exception as error:
            state = "failed"
            self.message = f"Something went wrong ({type(error).__name__}: {error})."
        self._seconds = time.monotonic() - self._started
        self.state = state

    def facts(self):
        """Plain values for the page."""
        seconds = self._seconds
        return {
            "number": self.number,
            "kind": self.kind,
            "state": self.state,
            "text": self.text,
            "done": self.done,
            "total": self.total,
            "expected": self.expected,
            "message": self.message,
            "seconds": round(time.monotonic() - self._started if seconds is None else seconds, 2),
        }
