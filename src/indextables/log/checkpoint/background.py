"""Checkpoints that are written beside the commits that made them due, so that no commit pays for one.

At most one at a time for a table, and few at a time in a process. When the interpreter ends it waits for them, each as long
as its settings allow. What is not done by then is as if it had never begun: the next writer does it. A process that was
forked has none: its parent goes on with its own.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable

import indextables.pools  # noqa: F401 - its exit handler must be older than ours, which runs before it

WORKERS = 2
logger = logging.getLogger(__name__)


class CheckpointQueue:
    """The checkpoints that a process writes in the background.

    With `workers` 0 there are no threads: the work is done at once by who commits.
    """

    def __init__(self, workers: int = WORKERS) -> None:
        self.workers = workers
        self.forget()

    def submit(
        self, table: str, work: Callable[[], None], *, shutdown_timeout_s: float, workers: int = WORKERS
    ) -> bool:
        """Have the work done, with so many others; False if a checkpoint of the table is under way. It must not raise."""
        if not self.workers:
            work()
            return True
        with self._lock:
            if table in self._threads:
                return False
            thread = threading.Thread(
                target=self._work, args=(table, work, workers), name="indextables-checkpoint", daemon=True
            )
            self._threads[table] = thread, shutdown_timeout_s
        thread.start()
        return True

    def settle(self, table: str) -> None:
        """Wait for what is under way for one table: before a new one is made in its place."""
        with self._lock:
            waiting = self._threads.get(table)
        if waiting is not None:
            waiting[0].join(waiting[1])

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for what is under way, each as long as it may take, or all for so long; whether all is done."""
        with self._lock:
            waiting = list(self._threads.values())
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        for thread, longest_s in waiting:
            thread.join(longest_s if deadline is None else max(0.0, deadline - time.monotonic()))
        late = sum(thread.is_alive() for thread, _ in waiting)
        if late:
            logger.warning("%d checkpoints were not done in time; the next writers of their tables write them.", late)
        return not late

    def forget(self) -> None:
        """Start with nothing under way, as a forked child does: its parent's threads are not there."""
        self._lock = threading.Lock()
        self._turn = threading.Condition()
        self._busy = 0
        self._threads: dict[str, tuple[threading.Thread, float]] = {}

    def _work(self, table: str, work: Callable[[], None], workers: int) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self._busy < workers)
            self._busy += 1
        try:
            work()
        finally:
            with self._turn:
                self._busy -= 1
                self._turn.notify_all()
            with self._lock:
                self._threads.pop(table, None)


CHECKPOINTS = CheckpointQueue()
"""Those of this process."""
os.register_at_fork(after_in_child=CHECKPOINTS.forget)
# Before the thread pools close, which a checkpoint needs; an ordinary exit handler would come too late.
getattr(threading, "_register_atexit", atexit.register)(CHECKPOINTS.wait)
