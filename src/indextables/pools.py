"""The threads of this package: one bounded pool per kind of work, shared by all tables of a
process.

A pool has as many threads as the largest setting that was asked of it, and they stay for the next
call; one call has no more work under way than its own setting allows. A forked child begins with no
threads. When the interpreter ends, what has not begun is dropped and what is under way comes to its
end; who still has work then does it without threads.

Checkpoints have a queue of their own (`CheckpointQueue`), because the end of a process waits for
them no longer than a setting allows, and it must come before the pools go, which they read with.
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401 - its exit handler must be older than ours, which runs before it
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkerPool:
    """The threads for one kind of work. `kind` is what they are called by."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.forget()

    @property
    def size(self) -> int:
        """How many threads there may be by now; 0 before the first call."""
        return self._size

    @property
    def is_at_work(self) -> bool:
        """Whether the caller is one of these threads: work that it asks for is done by itself."""
        return bool(getattr(self._own, "is_worker", False))

    def each(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        parallelism: int,
        timeout_s: float | None = None,
        before_each: Callable[[], None] | None = None,
    ) -> Generator[Result, None, None]:
        """The work's result for each item, in order; `parallelism` are under way, and never far
        ahead of who takes them.

        Whoever stops early, or meets an error, begins nothing more and waits for what is under way.
        With `timeout_s` a TimeoutError comes when all of it takes longer, and nobody waits for what
        hangs: its threads are left behind. `before_each` is called by the caller's own thread
        before an item is begun.
        """
        if timeout_s is None:
            deadline = None
        else:
            deadline = time.monotonic() + timeout_s
        running: deque[Future[Result]] = deque()
        try:
            for item in items:
                if before_each is not None:
                    before_each()
                running.append(self.submit(work, item, parallelism=parallelism))
                if len(running) > parallelism:
                    result = _result(running[0], deadline)
                    running.popleft()  # not before: an interrupt leaves it among those that are waited for
                    yield result
            while running:
                if before_each is not None:
                    before_each()
                result = _result(running[0], deadline)
                running.popleft()
                yield result
        except TimeoutError:
            if deadline is not None and time.monotonic() >= deadline:
                self._leave_behind(running)
            raise
        finally:
            for future in running:
                future.cancel()
            wait([future for future in running if not future.cancelled()])

    def submit(
        self, work: Callable[[Item], Result], item: Item, *, parallelism: int
    ) -> Future[Result]:
        """Have one piece of work done. By the caller itself if it is one of these threads, or the
        process is ending.
        """
        if not self.is_at_work:
            try:
                return self._executor_of(parallelism).submit(self._work, work, item)
            except RuntimeError as refusal:
                if "shutdown" not in str(refusal):
                    raise
        future: Future[Result] = Future()
        try:
            future.set_result(work(item))
        except BaseException as failure:  # noqa: BLE001 - raised by the future, as in a thread
            future.set_exception(failure)
        return future

    def submit_once(self, key: str, work: Callable[[], object], *, parallelism: int) -> bool:
        """Have work done that is worth doing once at a time; False if that of the same key is under
        way.
        """
        with self._lock:
            if key in self._keys:
                return False
            self._keys.add(key)

        def run(_: None) -> None:
            try:
                work()
            finally:
                with self._lock:
                    self._keys.discard(key)

        self.submit(run, None, parallelism=parallelism)
        return True

    def close(self) -> None:
        """Drop what has not begun. Work that comes later is done by who brings it."""
        with self._lock:
            self._is_closed, executor = True, self._executor
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    def forget(self) -> None:
        """Begin without threads, as a forked child does: its parent's are not there."""
        self._lock = threading.Lock()
        self._own = threading.local()
        self._executor: ThreadPoolExecutor | None = None
        self._size = 0
        self._keys: set[str] = set()
        self._is_closed = False

    def _work(self, work: Callable[[Item], Result], item: Item) -> Result:
        # Work that asks its own pool for more would wait for a thread that it holds itself.
        self._own.is_worker = True
        return work(item)

    def _executor_of(self, size: int) -> ThreadPoolExecutor:
        with self._lock:
            if self._is_closed:
                raise RuntimeError(f"no work for {self.kind} after shutdown")
            if self._executor is None or size > self._size:
                smaller, self._size = self._executor, max(size, self._size)
                self._executor = ThreadPoolExecutor(
                    self._size, thread_name_prefix=f"indextables-{self.kind}"
                )
                if smaller is not None:
                    smaller.shutdown(wait=False)  # what it has begun or taken is still done
            return self._executor

    def _leave_behind(self, running: deque[Future[Result]]) -> None:
        """Go on with new threads: a store that hangs for one table must not hold up the others."""
        with self._lock:
            hung, self._executor = self._executor, None
        for future in running:
            future.cancel()
        running.clear()
        if hung is not None:
            hung.shutdown(wait=False)


def _result(future: Future[Result], deadline: float | None) -> Result:
    return future.result(None if deadline is None else max(0.0, deadline - time.monotonic()))


LISTING = WorkerPool("listing")
"""Looks for newer versions of tables, beside those who read an older one."""
VERSIONS = WorkerPool("versions")
"""Reads version files."""
MANIFESTS = WorkerPool("manifests")
"""Reads manifests and parts of checkpoints."""
SPLITS = WorkerPool("splits")
"""Reads and searches splits."""
UPKEEP = WorkerPool("upkeep")
"""Merges and rewrites splits; it reads them by the pool of splits."""
WRITES = WorkerPool("writes")
"""Builds splits of several partitions."""
POOLS = (LISTING, VERSIONS, MANIFESTS, SPLITS, UPKEEP, WRITES)


def _forget_all() -> None:
    for pool in POOLS:
        pool.forget()


def _close_all() -> None:
    for pool in POOLS:
        pool.close()


os.register_at_fork(after_in_child=_forget_all)
# An ordinary exit handler would come after the interpreter has waited for every thread that there
# is.
getattr(threading, "_register_atexit", atexit.register)(_close_all)
