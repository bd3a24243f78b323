import pytest
from threadpoolctl import ThreadpoolController

from jplay.core import threads
from jplay.core.threads import available_threads, sample_threads


def blas_threads():
    libraries = ThreadpoolController().select(user_api="blas").info()
    return [library["num_threads"] for library in libraries]


@pytest.mark.parametrize(("work", "expected"), [(1e3, None), (1e12, 4), (5e7, 2)])
def test_pool_grows_with_the_work_up_to_the_count_cores(monkeypatch, work, expected):
    monkeypatch.setattr(threads, "available_threads", lambda: 4)
    with sample_threads(work) as pool:
        assert (pool and pool._max_workers) == expected


def test_asked_for_threads_need_no_blas_threads():
    with ThreadpoolController().limit(limits=1, user_api="blas"), sample_threads(1e12, 3) as pool:
        assert pool._max_workers == 3


def test_blas_is_single_threaded_inside_and_restored_outside():
    before = blas_threads()
    with sample_threads(1e3):
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


def test_count_cores_and_a_limit_on_blas_threads_limit_the_pool(monkeypatch):
    with ThreadpoolController().limit(limits=3, user_api="blas"):
        monkeypatch.setattr(threads, "_count_cores", lambda: 8)
        assert available_threads() == min(3, max(blas_threads()))
        monkeypatch.setattr(threads, "_count_cores", lambda: 2)
        assert available_threads() == min(2, max(blas_threads()))
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        assert available_threads() == 1
