"""The pools of threads: in order, bounded, shared, left behind when they hang, and gone after a
fork and at the end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from itertools import count

import pytest

from indextables.pools import POOLS, WorkerPool


def test_results_come_in_order_and_few_are_under_way() -> None:
    pool, running, most = WorkerPool("test"), [0], [0]
    lock, started = threading.Lock(), count()

    def work(n: int) -> int:
        with lock:
            next(started)
            running[0] += 1
            most[0] = max(most[0], running[0])
        threading.Event().wait(0.001)
        with lock:
            running[0] -= 1
        return n * n

    assert list(pool.each(work, range(50), parallelism=3)) == [n * n for n in range(50)]
    assert 1 < most[0] <= 3
    few = pool.each(work, count(), parallelism=3)
    assert next(few) == 0
    few.close()
    assert running[0] == 0 and next(started) <= 50 + 5
    pool.close()


def test_threads_stay_for_the_next_call_and_a_larger_setting_gets_more() -> None:
    pool = WorkerPool("test")

    def who(_: int) -> int:
        return threading.get_ident()

    first = set(pool.each(who, range(20), parallelism=2))
    assert set(pool.each(who, range(20), parallelism=2)) | first and len(first) <= 2
    assert pool.size == 2
    list(pool.each(who, range(20), parallelism=5))
    list(pool.each(who, range(20), parallelism=1))
    assert pool.size == 5
    pool.close()


def test_an_error_is_raised_and_nothing_more_is_begun() -> None:
    pool, begun = WorkerPool("test"), []

    def work(n: int) -> int:
        begun.append(n)
        if n == 2:
            raise ValueError("two")
        return n

    with pytest.raises(ValueError, match="two"):
        list(pool.each(work, range(1000), parallelism=2))
    assert len(begun) < 10
    pool.close()


def test_work_that_asks_its_own_pool_does_not_wait_for_itself() -> None:
    pool = WorkerPool("test")

    def work(n: int) -> int:
        return sum(pool.each(lambda m: m, range(n), parallelism=2)) if n > 1 else n

    assert list(pool.each(work, range(6), parallelism=2)) == [0, 1, 1, 3, 6, 10]
    pool.close()


def test_what_hangs_is_left_behind() -> None:
    pool, gate = WorkerPool("test"), threading.Event()
    with pytest.raises(TimeoutError):
        list(pool.each(lambda _: gate.wait(10), range(4), parallelism=2, timeout_s=0.05))
    assert list(pool.each(lambda n: n, range(4), parallelism=2, timeout_s=5)) == [0, 1, 2, 3]
    gate.set()
    pool.close()


def test_once_at_a_time_by_key() -> None:
    pool, gate = WorkerPool("test"), threading.Event()
    assert pool.submit_once("a", lambda: gate.wait(10) and None, parallelism=2)
    assert not pool.submit_once("a", lambda: None, parallelism=2)
    gate.set()
    pool.close()


def test_after_the_end_work_is_done_by_who_brings_it() -> None:
    pool = WorkerPool("test")
    pool.close()
    assert (
        list(pool.each(lambda _: threading.get_ident(), range(2), parallelism=2))
        == [threading.get_ident()] * 2
    )


def test_a_forked_child_has_threads_of_its_own() -> None:
    pool = POOLS[0]
    assert list(pool.each(lambda n: n, range(9), parallelism=2)) == list(range(9))
    child = os.fork()
    if child == 0:
        os._exit(
            0
            if pool.size == 0 and sum(pool.each(lambda n: n, range(9), parallelism=2)) == 36
            else 1
        )
    assert os.waitpid(child, 0)[1] == 0


def test_a_process_ends_with_its_threads_and_its_last_words_still_read() -> None:
    """Work that waits for a thread is dropped at the end; a handler that reads a table then does it
    without threads.
    """
    program = """
import atexit, threading, time
from indextables.pools import VERSIONS
atexit.register(lambda: print(sum(VERSIONS.each(lambda n: n, range(5), parallelism=2))))
for n in range(200):
    VERSIONS.submit(lambda _: time.sleep(0.05), None, parallelism=2)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=8, check=True
    )
    assert ended.stdout == "10\n" and not ended.stderr
