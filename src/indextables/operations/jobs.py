"""Shared parts of maintenance operations: report outcomes, task execution, and background merges.

Tasks run in threads of this process, or wherever the caller executes them. At most one automatic
merge per table runs at a time, and a process keeps a list of them. When the interpreter exits it
waits for background jobs as long as their settings allow; an unfinished job has no effect and is
repeated by the next merge.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from indextables.model.report import Progress
from indextables.pools import UPKEEP
from indextables.storage.store import Store

SUCCESS = "success"
NO_ACTION = "no_action"
DRY_RUN = "dry_run"


R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class Task(Protocol[R_co]):
    """Picklable work. It opens the store itself unless one is passed."""

    def run(self, *, store: Store | None = None) -> R_co:
        """Execute the task."""
        ...


T = TypeVar("T")
Execute = Callable[[Sequence[T]], Iterable[R]]
"""Runs tasks and yields their results in any order. On an error the available results come first.
"""


def in_threads(store: Store, *, parallelism: int) -> Callable[[Sequence[Task[R]]], Iterator[R]]:
    """Run tasks in threads. After an error or interrupt no further task starts, and started ones
    are completed.
    """

    def execute(work: Sequence[Task[R]]) -> Iterator[R]:
        failures: list[BaseException] = []
        results: list[R] = []

        def run(task: Task[R]) -> None:
            if failures:
                return
            try:
                results.append(task.run(store=store))
            except BaseException as failure:  # noqa: BLE001 - raised below, after the results that there are
                failures.append(failure)

        running = UPKEEP.each(run, work, parallelism=parallelism)
        try:
            for _ in running:
                while results:
                    yield results.pop(0)
        except GeneratorExit:
            failures.append(GeneratorExit())
            running.close()
            raise
        except BaseException as failure:  # noqa: BLE001 - raised below
            failures.append(failure)
            running.close()  # waits for the tasks that have begun
        yield from results
        if failures:
            raise failures[0]

    return execute


def collect(
    results: Iterable[R], into: list[R], after_each: Callable[[], None] = lambda: None
) -> None:
    """Append results to a list as they arrive.

    After an error or an interrupt, the results of started tasks are appended before it is raised,
    so that the caller knows everything that was written.
    """
    coming = iter(results)
    try:
        for result in coming:
            into.append(result)
            after_each()
    except BaseException as error:
        if isinstance(coming, Generator):
            with suppress(type(error), StopIteration):
                into.append(coming.throw(error))
                into.extend(coming)
        raise


Work = Callable[[Progress], str | None]
"""The work of a job; it may return errors that occurred next to the merge."""
RUNNING, COMPLETED, FAILED = "running", "completed", "failed"
_REMEMBERED = 1_000
logger = logging.getLogger(__name__)


class MergeJob(Struct, frozen=True):
    """The current state of a job."""

    job_id: str
    table_path: str
    status: str
    total_groups: int
    completed_groups: int = 0
    duration_ms: int = 0
    error_message: str | None = None

    @property
    def progress_pct(self) -> float:
        """Percentage of completed work."""
        if not self.total_groups:
            return 100.0
        return 100.0 * self.completed_groups / self.total_groups

    def to_dict(self) -> dict[str, Any]:
        """Return the job as a row of the table of jobs."""
        return {
            "job_id": self.job_id,
            "table_path": self.table_path,
            "status": self.status,
            "total_groups": self.total_groups,
            "completed_groups": self.completed_groups,
            "progress_pct": self.progress_pct,
            "duration_ms": self.duration_ms,
            "error_message": self.error_message,
        }


class Jobs:
    """The merge jobs of a process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[str, MergeJob] = {}
        self._began: dict[str, float] = {}
        self._threads: dict[str, tuple[threading.Thread, float]] = {}

    def run(self, table_path: str, work: Work, *, groups: int) -> MergeJob | None:
        """Run work now. Returns None if a job for the table is running; errors are in the job, not
        raised.
        """
        job = self._begin(table_path, groups)
        if job is not None:
            self._work(job.job_id, work)
            return self.find(job.job_id)
        return None

    def start(
        self, table_path: str, work: Work, *, groups: int, shutdown_timeout_s: float
    ) -> MergeJob | None:
        """Start work in the background. Returns None if a job for the table is running."""
        job = self._begin(table_path, groups)
        if job is None:
            return None
        thread = threading.Thread(
            target=self._work,
            args=(job.job_id, work),
            name=f"indextables-merge-{job.job_id[:8]}",
            daemon=True,
        )
        with self._lock:
            self._threads[job.job_id] = thread, shutdown_timeout_s
        thread.start()
        return job

    def find(self, job_id: str) -> MergeJob | None:
        """Return a job's current state."""
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None:
                return None
            return self._with_duration(job)

    def rows(self) -> list[dict[str, Any]]:
        """Return every remembered job, the latest first."""
        with self._lock:
            return [self._with_duration(job).to_dict() for job in reversed(self._jobs.values())]

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for background jobs within each job's limit, or for all within a timeout. Returns
        whether all are done.
        """
        with self._lock:
            waiting = list(self._threads.values())
        if timeout_s is None:
            deadline = None
        else:
            deadline = self._clock() + timeout_s
        for thread, longest_s in waiting:
            thread.join(longest_s if deadline is None else max(0.0, deadline - self._clock()))
        return not any(thread.is_alive() for thread, _ in waiting)

    def settle(self, table_path: str) -> None:
        """Wait for the job of one table within its limit."""
        with self._lock:
            waiting = [
                thread
                for job_id, thread in self._threads.items()
                if self._jobs[job_id].table_path == table_path
            ]
        for thread, longest_s in waiting:
            thread.join(longest_s)

    def forget(self) -> None:
        """Remove all jobs in a forked child, which does not have its parent's threads."""
        self._lock = threading.Lock()
        self._jobs, self._began, self._threads = {}, {}, {}

    def _begin(self, table_path: str, groups: int) -> MergeJob | None:
        with self._lock:
            if any(
                job.table_path == table_path and job.status == RUNNING
                for job in self._jobs.values()
            ):
                return None
            job = MergeJob(str(uuid.uuid4()), table_path, RUNNING, groups)
            self._jobs[job.job_id] = job
            self._began[job.job_id] = self._clock()
            for finished in [j.job_id for j in self._jobs.values() if j.status != RUNNING][
                :-_REMEMBERED
            ]:
                del self._jobs[finished], self._began[finished]
            return job

    def _work(self, job_id: str, work: Work) -> None:
        def progress(done: int, total: int, what: str) -> None:
            if what == "groups":
                self._change(job_id, completed_groups=done, total_groups=total)

        try:
            self._change(job_id, status=COMPLETED, error_message=work(progress))
        except Exception as failure:
            # Whatever it is: the write that led to this has been committed and must not fail.
            logger.warning("merging after a write failed: %s", failure, exc_info=True)
            self._change(job_id, status=FAILED, error_message=str(failure))
        finally:
            with self._lock:
                self._threads.pop(job_id, None)

    def _change(self, job_id: str, **changes: Any) -> None:
        with self._lock:
            self._jobs[job_id] = self._with_duration(
                replace(self._jobs[job_id], **changes), ended=True
            )

    def _with_duration(self, job: MergeJob, *, ended: bool = False) -> MergeJob:
        if job.status != RUNNING and not ended:
            return job
        return replace(job, duration_ms=round(1000 * (self._clock() - self._began[job.job_id])))


JOBS = Jobs()
"""The jobs of this process."""
os.register_at_fork(after_in_child=JOBS.forget)
# Before the interpreter stops its thread pools, which a merge needs; an ordinary exit handler would
# come too late.
getattr(threading, "_register_atexit", atexit.register)(JOBS.wait)
