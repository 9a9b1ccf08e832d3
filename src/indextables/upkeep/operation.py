"""What the operations of upkeep share: the words of their reports, and where their tasks run.

The words by which a report says how an operation ended. One that fails raises instead.

Running tasks: in threads of this process, or wherever the caller has room for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Protocol, TypeVar

from indextables.storage.store import Store

SUCCESS = "success"
NO_ACTION = "no_action"
DRY_RUN = "dry_run"


R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class Task(Protocol[R_co]):
    """Work that travels; it opens the store itself unless it is given one."""

    def run(self, *, store: Store | None = None) -> R_co:
        """Do it."""
        ...


T = TypeVar("T")
Execute = Callable[[Sequence[T]], Iterable[R]]
"""Runs tasks and gives their results in any order. Of an error, the results that there are come first."""


def in_threads(store: Store, *, parallelism: int) -> Callable[[Sequence[Task[R]]], Iterator[R]]:
    """Runs tasks in threads. After an error no further task is begun, but none that is under way is lost."""

    def execute(work: Sequence[Task[R]]) -> Iterator[R]:
        failures: list[BaseException] = []
        with ThreadPoolExecutor(min(parallelism, len(work)), thread_name_prefix="indextables-upkeep") as pool:
            running = [pool.submit(task.run, store=store) for task in work]
            try:
                for future in running:
                    if future.cancelled():
                        continue
                    failure = future.exception()
                    if failure is None:
                        yield future.result()
                    else:
                        failures.append(failure)
                        _cancel(running)
            finally:
                _cancel(running)
        if failures:
            raise failures[0]

    return execute


def _cancel(running: Sequence[Future[R]]) -> None:
    """Begin nothing more, and let what is under way come to its end."""
    for future in running:
        future.cancel()
    wait([future for future in running if not future.cancelled()])
