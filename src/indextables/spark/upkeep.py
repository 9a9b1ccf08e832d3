"""Maintenance of large tables: planned and committed by the driver, executed by Spark's workers
(`on_workers`).

Jobs have descriptions in the Spark UI and run in the pool `indextables`. With fair scheduling
(`spark.scheduler.mode` FAIR), queries continue next to a merge that would otherwise occupy every
core.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql import SparkSession

from indextables.model.report import Progress, silent
from indextables.operations.delete import DeleteReport
from indextables.operations.jobs import Task
from indextables.operations.merge import MergeOutcome, MergeReport, MergeTask
from indextables.operations.purge import BATCH, PurgeReport, PurgeTask
from indextables.operations.row_removal import DeleteOutcome, DeleteTask, VectorTask
from indextables.operations.verify import Finding, VerifyReport, VerifyTask
from indextables.spark.executors import run_located
from indextables.spark.settings import check_workers, has_jvm, with_session
from indextables.spark.worker_metrics import store_metrics
from indextables.spark.writes import results_accumulator
from indextables.storage.spec import StoreSpec, open_store
from indextables.table import Table, verify_table

POOL = "indextables"
_POOL = "spark.scheduler.pool"
_DESCRIPTION = "spark.job.description"
R = TypeVar("R")


class JobLabel(Struct):
    """Job descriptions of one operation in the Spark UI, with its progress."""

    spark: SparkSession
    operation: str
    callback: Progress = silent
    _so_far: str = ""

    def progress(self, done: int, total: int, what: str) -> None:
        """Record a finished step in the description of the next job."""
        self._so_far = f", {done} of {total} {what} done"
        self.callback(done, total, what)

    @contextmanager
    def labelled(self, part: str) -> Iterator[None]:
        """Label the jobs that are started in the block. A Connect client cannot label its jobs."""
        if not has_jvm(self.spark):
            yield
            return
        context = self.spark.sparkContext
        before = {key: context.getLocalProperty(key) for key in (_DESCRIPTION, _POOL)}
        context.setLocalProperty(
            _DESCRIPTION, f"indextables: {self.operation}: {part}{self._so_far}"
        )
        context.setLocalProperty(_POOL, POOL)
        try:
            yield
        finally:
            for key, value in before.items():
                context.setLocalProperty(key, value)  # type: ignore[arg-type]  # None takes a property away


def on_workers(
    spark: SparkSession,
    parts: Sequence[bytes],
    work: Callable[[bytes], R],
    *,
    locations: Sequence[str] = (),
) -> list[R]:
    """Run work for each part in a task of its own, at its location if it has one.

    The results are in the order of the parts.
    """
    if locations:
        return run_located(spark, parts, locations, work)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            results = [pickle.dumps(work(parts[number])) for number in numbers]
            yield pa.record_batch(
                [pa.array(numbers, pa.int64()), pa.array(results, pa.binary())], ["part", "result"]
            )
        store_metrics()

    if not parts:
        return []
    check_workers(spark)
    rows = (
        spark.range(0, len(parts), 1, len(parts))
        .mapInArrow(run, "part long, result binary")
        .collect()
    )
    return [
        pickle.loads(bytes(row["result"])) for row in sorted(rows, key=lambda row: int(row["part"]))
    ]


def run_tasks(label: JobLabel, tasks: Sequence[Task[R]], part: str) -> Iterator[R]:
    """Run each task in a Spark task. If the job fails, available results come before the error."""
    accumulator = results_accumulator(label.spark)

    def work(task: bytes) -> R:
        unpickled: Task[R] = pickle.loads(task)
        result = unpickled.run()
        if accumulator is not None:
            accumulator.add([result])
        return result

    with label.labelled(part):
        try:
            results = on_workers(label.spark, [pickle.dumps(task) for task in tasks], work)
        except BaseException:
            yield from accumulator.value if accumulator is not None else ()
            raise
    yield from results


_FULL_BYTES = 256 << 20
"""Bytes that one task reads when every byte is verified."""


def merge(
    spark: SparkSession,
    path: str,
    *,
    target_size: int | str | None = None,
    where: str | None = None,
    max_dest_splits: int | None = None,
    max_source_splits: int | None = None,
    order_by: str | Sequence[str] | None = None,
    rewrite: bool = False,
    dry_run: bool = False,
    progress: Progress = silent,
    options: Mapping[str, object] | None = None,
) -> MergeReport:
    """Merge small splits into larger ones, with one task per new split and one commit per batch.

    `merge.batchSize` is the number of new splits per commit. Files of failed or repeated tasks are
    never committed.

    Args:
        spark: The session.
        path: A local path or a URL.
        target_size: As for `Table.merge`.
        where: A condition over typed columns.
        max_dest_splits: As for `Table.merge`.
        max_source_splits: As for `Table.merge`.
        order_by: As for `Table.merge`.
        rewrite: As for `Table.merge`.
        dry_run: Only plan.
        progress: Is called at every step.
        options: Settings, over those of the session.

    Example:
        its.merge(spark, "/data/logs", target_size="1G")
    """
    table = Table.open(path, options=with_session(spark, options))
    label = JobLabel(spark, f"merge {table.path}", progress)

    def execute(tasks: Sequence[MergeTask]) -> Iterator[MergeOutcome]:
        yield from run_tasks(label, tasks, f"{len(tasks)} groups")

    return table.merge(
        target_size=target_size,
        where=where,
        max_dest_splits=max_dest_splits,
        max_source_splits=max_source_splits,
        order_by=order_by,
        rewrite=rewrite,
        dry_run=dry_run,
        progress=label.progress,
        execute=execute,
    )


def delete(
    spark: SparkSession,
    path: str,
    *,
    where: str | None = None,
    query: str | None = None,
    dry_run: bool = False,
    progress: Progress = silent,
    options: Mapping[str, object] | None = None,
) -> DeleteReport:
    """Delete the rows that match a condition, a search, or both, in one version, on workers.

    Args:
        spark: The session.
        path: A local path or a URL.
        where: A condition over typed columns.
        query: Text of the query language.
        dry_run: Only count the rows.
        progress: Is called at every step.
        options: Settings, over those of the session.

    Raises:
        InvalidInputError: Neither `where` nor `query` is given.
        ConflictError: Another writer changed the same rows.

    Example:
        its.delete(spark, "/data/logs", where="user = 7")
    """
    table = Table.open(path, options=with_session(spark, options))
    label = JobLabel(spark, f"delete from {table.path}", progress)

    def execute(tasks: Sequence[DeleteTask]) -> Iterator[DeleteOutcome]:
        # Vectors are written by the workers: their rows would not fit into the driver.
        for outcomes in run_tasks(
            label, [VectorTask((task,)) for task in tasks], f"{len(tasks)} splits"
        ):
            yield from outcomes

    return table.delete(
        where=where, query=query, dry_run=dry_run, progress=label.progress, execute=execute
    )


def purge(
    spark: SparkSession,
    path: str,
    *,
    older_than_hours: float | None = None,
    log_retention_hours: float | None = None,
    dry_run: bool = False,
    progress: Progress = silent,
    options: Mapping[str, object] | None = None,
) -> PurgeReport:
    """Delete files that no version within the retention needs; workers delete large numbers of
    files.

    Args:
        spark: The session.
        path: A local path or a URL.
        older_than_hours: As for `Table.purge`.
        log_retention_hours: As for `Table.purge`.
        dry_run: Only list the files.
        progress: Is called at every step.
        options: Settings, over those of the session.

    Raises:
        RefusedError: The retention is too short.

    Example:
        its.purge(spark, "/data/logs", dry_run=True)
    """
    table = Table.open(path, options=with_session(spark, options))
    spec = StoreSpec.from_url(table.path, table.settings)
    label = JobLabel(spark, f"purge {table.path}", progress)

    def delete_files(paths: Sequence[str]) -> None:
        if len(paths) <= BATCH:
            open_store(spec).delete(paths)
            return
        tasks = [
            PurgeTask(spec, tuple(paths[at : at + BATCH])) for at in range(0, len(paths), BATCH)
        ]
        for _ in run_tasks(label, tasks, f"{len(paths)} files"):
            pass

    return table.purge(
        older_than_hours=older_than_hours,
        log_retention_hours=log_retention_hours,
        dry_run=dry_run,
        progress=label.progress,
        delete=delete_files,
    )


def verify(
    spark: SparkSession,
    path: str,
    *,
    full: bool = True,
    dry_run: bool = False,
    progress: Progress = silent,
    options: Mapping[str, object] | None = None,
) -> VerifyReport:
    """Check a table for damage on workers, also one that cannot be opened.

    Args:
        spark: The session.
        path: A local path or a URL.
        full: Whether to read every byte of every split.
        dry_run: Only count what would be read.
        progress: Is called at every step.
        options: Settings, over those of the session.

    Example:
        its.verify(spark, "/data/logs").healthy
    """
    label = JobLabel(spark, f"verify {path}", progress)

    def execute(tasks: Sequence[VerifyTask]) -> Iterator[Sequence[Finding]]:
        pieces = [list(_pieces(task)) for task in tasks]
        findings = iter(
            list(run_tasks(label, [piece for each in pieces for piece in each], "splits"))
        )
        for each in pieces:
            yield [finding for _ in each for finding in next(findings)]

    return verify_table(
        path,
        full=full,
        options=with_session(spark, options),
        dry_run=dry_run,
        progress=label.progress,
        execute=execute,
    )


def _pieces(task: VerifyTask) -> Iterable[VerifyTask]:
    """Divide splits into parts of about equal duration: with `full`, bytes count."""
    if not task.full:
        return [task]
    parts: list[list[int]] = []
    size = 0
    for place, split in enumerate(task.splits):
        if not parts or size + split.size > _FULL_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(place)
        size += split.size
    return [replace(task, splits=tuple(task.splits[place] for place in part)) for part in parts]
