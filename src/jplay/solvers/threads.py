"""How many threads a problem deserves.

Matrices of a few hundred rows are slower with several BLAS threads than with one, and on a
busy machine by orders of magnitude. Samples are therefore spread over a few Python threads,
each running single-threaded BLAS on blocks that stay in cache, and small problems use one.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController

_WORK_PER_THREAD = 40_000_000  # multiply-adds below which a second thread does not pay


def available_threads():
    """Cores this process may use, or fewer where the user limited the BLAS threads."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    blas = [
        library["num_threads"]
        for library in ThreadpoolController().info()
        if library["user_api"] == "blas"
    ]
    return max(1, min([cores or 1, *blas]))


@contextmanager
def sample_threads(work):
    """Pool of threads for a pass over the samples that costs ``work`` multiply-adds.

    Yields ``None`` where one thread is enough. BLAS is single-threaded inside.
    """
    controller = ThreadpoolController()
    n_threads = min(available_threads(), int(work // _WORK_PER_THREAD) + 1)
    with controller.limit(limits=1, user_api="blas"):
        if n_threads == 1:
            yield None
        else:
            with ThreadPoolExecutor(n_threads, thread_name_prefix="jplay") as pool:
                yield pool
