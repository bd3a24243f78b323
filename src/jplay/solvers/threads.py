"""How many threads a problem deserves.

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

# Multiply-adds below which a second thread does not pay: about ten milliseconds of one core, a
# hundred times what it takes to hand work to a thread and to wait for it.
_WORK_PER_THREAD = 40_000_000


def _cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _controller() -> ThreadpoolController:
    """The libraries that are loaded, looked for once: that takes as long as a small fit."""
    return ThreadpoolController()


def available_threads() -> int:
    """Cores this process may use, or fewer if the user limited the BLAS threads."""
    blas = [
        library["num_threads"] for library in _controller().info() if library["user_api"] == "blas"
    ]
    return max(1, min([_cores(), *blas]))


@contextmanager
def sample_threads(
    work: float, n_threads: int | None = None
) -> Iterator[ThreadPoolExecutor | None]:
    """Pool of threads for a pass over the samples that costs ``work`` multiply-adds.

    It has ``n_threads`` threads at most, or as many as are available. Yields ``None`` if one
    thread is enough. BLAS is single-threaded inside.
    """
    controller = _controller()
    n_threads = min(n_threads or available_threads(), int(work // _WORK_PER_THREAD) + 1)
    with controller.limit(limits=1, user_api="blas"):
        if n_threads == 1:
            yield None
        else:
            with ThreadPoolExecutor(n_threads, thread_name_prefix="jplay") as pool:
                yield pool
