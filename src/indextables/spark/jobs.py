"""Tasks of upkeep as Spark jobs: named for whoever looks at Spark's pages, and in a pool of their own.

The pool `indextables` matters where the application is scheduled fairly (`spark.scheduler.mode` FAIR): queries then go on
beside a merge that would otherwise hold every core until it is done.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from msgspec import Struct
from pyspark.sql import SparkSession

from indextables.spark.gathering import gathering
from indextables.spark.session_settings import has_jvm
from indextables.spark.workers import on_workers
from indextables.upkeep.execution import Task
from indextables.upkeep.progress import Progress, silent

POOL = "indextables"
_POOL = "spark.scheduler.pool"
_DESCRIPTION = "spark.job.description"
R = TypeVar("R")


class JobLabel(Struct):
    """What Spark's pages say of the jobs of one operation, and how far it has come."""

    spark: SparkSession
    operation: str
    told: Progress = silent
    _so_far: str = ""

    def progress(self, done: int, total: int, what: str) -> None:
        """A step is done: the next job's description says so."""
        self._so_far = f", {done} of {total} {what} done"
        self.told(done, total, what)

    @contextmanager
    def shown(self, part: str) -> Iterator[None]:
        """Jobs that are started meanwhile carry the label. A Connect client cannot name its jobs."""
        if not has_jvm(self.spark):
            yield
            return
        context = self.spark.sparkContext
        before = {key: context.getLocalProperty(key) for key in (_DESCRIPTION, _POOL)}
        context.setLocalProperty(_DESCRIPTION, f"indextables: {self.operation}: {part}{self._so_far}")
        context.setLocalProperty(_POOL, POOL)
        try:
            yield
        finally:
            for key, value in before.items():
                context.setLocalProperty(key, value)  # type: ignore[arg-type]


def run_tasks(label: JobLabel, tasks: Sequence[Task[R]], part: str) -> Iterator[R]:
    """Run each task in a Spark task of its own. If the job fails, the results that there are come before the error."""
    finished = gathering(label.spark)

    def work(task: bytes) -> R:
        chosen: Task[R] = pickle.loads(task)
        result = chosen.run()
        if finished is not None:
            finished.add([result])
        return result

    with label.shown(part):
        try:
            results = on_workers(label.spark, [pickle.dumps(task) for task in tasks], work)
        except BaseException:
            yield from finished.value if finished is not None else ()
            raise
    yield from results
