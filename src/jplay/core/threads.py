"""Number of threads for a pass over the samples.

Matrices of a few hundred rows are slower with several BLAS threads than with one, and on a
busy machine by orders of magnitude. Samples are therefore spread over a few Python threads,
each running single-threaded BLAS on blocks that stay in cache, and small problems use one.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

WORK_PER_THREAD = 40_000_000
"""Minimum number of multiply-adds for a second thread: about ten milliseconds of one core, a
hundred times what it takes to hand work to a thread and to wait for it."""


def _count_cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _find_libraries() -> ThreadpoolController:
    """Return the BLAS libraries that are loaded, found once: that takes as long as a small fit."""
    return ThreadpoolController()


def available_threads() -> int:
    """Return the number of cores this process may use, or of BLAS threads if that is smaller."""
    blas = [
        library["num_threads"]
        for library in _find_libraries().info()
        if library["user_api"] == "blas"
    ]
    return max(1, min([_count_cores(), *blas]))


@contextmanager
def sample_threads(
    work: float, n_threads: int | None = None
) -> Iterator[ThreadPoolExecutor | None]:
    """Provide a pool of threads for a pass over the samples that costs ``work`` multiply-adds.

    It has up to ``n_threads`` threads, or as many as are available. Yields ``None`` if one thread
    is enough. BLAS is single-threaded inside.
    """
    controller = _find_libraries()
    n_threads = min(n_threads or available_threads(), int(work // WORK_PER_THREAD) + 1)
    with controller.limit(limits=1, user_api="blas"):
        if n_threads == 1:
            yield None
        else:
            with ThreadPoolExecutor(n_threads, thread_name_prefix="jplay") as pool:
                yield pool
