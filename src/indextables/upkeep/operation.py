"""What the operations of upkeep share: the words of their reports, and where their tasks run.

The words by which a report says how an operation ended. One that fails raises instead.

Running tasks: in threads of this process, or wherever the caller has room for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from indextables.pools import UPKEEP
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

        def run(task: Task[R]) -> tuple[R] | None:
            if failures:
                return None
            try:
                return (task.run(store=store),)
            except BaseException as failure:  # noqa: BLE001 - raised below, after the results that there are
                failures.append(failure)
                return None

        for result in UPKEEP.each(run, work, parallelism=parallelism):
            if result is not None:
                yield result[0]
        if failures:
            raise failures[0]

    return execute
