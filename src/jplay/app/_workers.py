"""Processes that do the heavy work, so that it can be ended at any time and harm nothing."""

import multiprocessing
import queue
import signal
import threading
import time
from contextlib import contextmanager

CANCEL = "cancel"
_GRACE_SECONDS = 0.4
_POLL_SECONDS = 0.03


class Cancelled(Exception):
    """The work was ended on request."""


class WorkFailed(Exception):
    """The work raised an error; its text is for the user."""


class WorkerPool:
    """A few processes, started ahead of their work.

    Parameters
    ----------
    n_workers : int
    """

    def __init__(self, n_workers):
        self._context = multiprocessing.get_context("spawn")
        self._idle = queue.SimpleQueue()
        self._live = set()
        self._lock = threading.Lock()
        self._closed = False
        for _ in range(n_workers):
            self._idle.put(None)
        threading.Thread(target=self._warm_up, daemon=True).start()

    def _warm_up(self):
        """Start one process, so that the first fit does not wait for the imports."""
        try:
            place = self._idle.get_nowait()
        except queue.Empty:
            return
        self._idle.put(place or self._started())

    def _started(self):
        with self._lock:
            if self._closed:
                raise Cancelled
            connection, theirs = self._context.Pipe()
            process = self._context.Process(target=_serve_tasks, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            worker = process, connection
            self._live.add(worker)
            return worker

    def _ended(self, worker):
        process, connection = worker
        process.kill()
        process.join()
        connection.close()
        self._live.discard(worker)

    @contextmanager
    def _borrowed(self, cancelled):
        while True:
            try:
                worker = self._idle.get(timeout=_POLL_SECONDS)
                break
            except queue.Empty:
                if cancelled.is_set():
                    raise Cancelled from None
        kept = None
        try:
            if worker is None or not worker[0].is_alive():
                worker = self._started()
            yield worker
            kept = worker
        finally:
            if kept is None and worker is not None:
                self._ended(worker)
            self._idle.put(kept)

    def run(self, task, *args, report, cancelled):
        """Run a function in a process and return its result.

        Parameters
        ----------
        task : callable
            Of a module; takes ``report`` and ``args``.
        *args
        report : callable
            Called with a text, the number of steps done and of all steps (or None).
        cancelled : threading.Event
            Ends the work when it is set.
        """
        begun = threading.Event()

        def told(*progress):
            begun.set()
            report(*progress)

        try:
            answer = self._asked(task, args, told, cancelled)
        except WorkFailed:
            if begun.is_set():
                raise
            # A process that died while it had nothing to do: another one can do the work.
            answer = self._asked(task, args, told, cancelled)
        kind, value = answer
        if kind == "failed":
            raise WorkFailed(value)
        if kind == "cancelled":
            raise Cancelled
        return value

    def _asked(self, task, args, report, cancelled):
        with self._borrowed(cancelled) as (process, connection):
            try:
                connection.send((task, args))
                return self._answer(connection, report, cancelled)
            except (EOFError, OSError) as error:
                raise WorkFailed(
                    f"The process that did the work ended unexpectedly (exit status "
                    f"{process.exitcode}). Perhaps memory ran out. Your labels are kept: try again "
                    "with fewer pixels or another model."
                ) from error

    def _answer(self, connection, report, cancelled):
        told = None
        while True:
            if connection.poll(_POLL_SECONDS):
                kind, value = connection.recv()
                if kind != "progress":
                    return kind, value
                report(*value)
            if cancelled.is_set():
                if told is None:
                    told = time.monotonic()
                    connection.send((CANCEL, ()))
                elif time.monotonic() - told > _GRACE_SECONDS:
                    raise Cancelled  # the process is ended and another one takes its place

    def close(self):
        """End every process."""
        with self._lock:
            self._closed = True
        for worker in list(self._live):
            self._ended(worker)


def _serve_tasks(connection):
    """Do tasks until the other end is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from jplay.app import _tasks  # noqa: F401  with its imports, ahead of the first task

    def report(text, done=0, total=None):
        if connection.poll() and connection.recv()[0] == CANCEL:
            raise Cancelled
        connection.send(("progress", (text, done, total)))

    while True:
        try:
            task, args = connection.recv()
        except (EOFError, OSError):
            return
        if task == CANCEL:  # came after the work was done
            continue
        try:
            answer = "done", task(report, *args)
        except Cancelled:
            answer = "cancelled", None
        except Exception as error:  # whatever it is, the user reads it and goes on
            answer = "failed", " ".join(str(error).split()) or type(error).__name__
        try:
            connection.send(answer)
        except OSError:
            return
