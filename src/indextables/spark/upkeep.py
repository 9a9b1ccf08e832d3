"""Upkeep of large tables: planned and committed by the driver, done by Spark's workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace
from pyspark.sql import SparkSession

from indextables.spark.jobs import JobLabel, run_tasks
from indextables.spark.session_settings import with_session
from indextables.storage.spec import StoreSpec, open_store
from indextables.table import Table
from indextables.table.upkeep_verbs import verify_table
from indextables.upkeep.delete import DeleteReport
from indextables.upkeep.delete_task import DeleteOutcome, DeleteTask
from indextables.upkeep.findings import Finding
from indextables.upkeep.merge_report import MergeReport
from indextables.upkeep.merge_task import MergeOutcome, MergeTask
from indextables.upkeep.progress import Progress, silent
from indextables.upkeep.purge import BATCH, PurgeReport, PurgeTask
from indextables.upkeep.verify import VerifyReport
from indextables.upkeep.verify_task import VerifyTask

_FULL_BYTES = 256 << 20
"""What one task reads when it verifies every byte."""


def merge(
    spark: SparkSession,
    path: str,
    *,
    target_size: int | str | None = None,
    where: str | None = None,
    max_dest_splits: int | None = None,
    max_source_splits: int | None = None,
    dry_run: bool = False,
    progress: Progress = silent,
    options: Mapping[str, object] | None = None,
) -> MergeReport:
    """Merge small splits into larger ones, one task for each new split and one commit for each batch of them.

    `merge.batchSize` says how many groups are a batch. What a failed or repeated task leaves behind is never committed.
    """
    found = Table.open(path, options=with_session(spark, options))
    label = JobLabel(spark, f"merge {found.path}", progress)

    def execute(tasks: Sequence[MergeTask]) -> Iterator[MergeOutcome]:
        yield from run_tasks(label, tasks, f"{len(tasks)} groups")

    return found.merge(
        target_size=target_size,
        where=where,
        max_dest_splits=max_dest_splits,
        max_source_splits=max_source_splits,
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
    """Delete the rows that match a condition, a search, or both, in one version; workers write the splits anew."""
    found = Table.open(path, options=with_session(spark, options))
    label = JobLabel(spark, f"delete from {found.path}", progress)

    def execute(tasks: Sequence[DeleteTask]) -> Iterator[DeleteOutcome]:
        yield from run_tasks(label, tasks, f"{len(tasks)} splits")

    return found.delete(where=where, query=query, dry_run=dry_run, progress=label.progress, execute=execute)


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
    """Delete what no version of the retention period needs; many files are deleted by Spark's workers."""
    found = Table.open(path, options=with_session(spark, options))
    spec = StoreSpec.from_url(found.path, found.settings)
    label = JobLabel(spark, f"purge {found.path}", progress)

    def delete_files(paths: Sequence[str]) -> None:
        if len(paths) <= BATCH:
            open_store(spec).delete(paths)
            return
        tasks = [PurgeTask(spec, tuple(paths[at : at + BATCH])) for at in range(0, len(paths), BATCH)]
        for _ in run_tasks(label, tasks, f"{len(paths)} files"):
            pass

    return found.purge(
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
    """Look for anything that is not as it should be; unless `full` is false, workers read every byte of every split.

    A table that cannot be opened is verified as far as its log can be read.
    """
    label = JobLabel(spark, f"verify {path}", progress)

    def execute(tasks: Sequence[VerifyTask]) -> Iterator[Sequence[Finding]]:
        pieces = [list(_pieces(task)) for task in tasks]
        found = iter(list(run_tasks(label, [piece for each in pieces for piece in each], "splits")))
        for each in pieces:
            yield [finding for _ in each for finding in next(found)]

    return verify_table(
        path,
        full=full,
        options=with_session(spark, options),
        dry_run=dry_run,
        progress=label.progress,
        execute=execute,
    )


def _pieces(task: VerifyTask) -> Iterable[VerifyTask]:
    """The splits of a task in parts that take about as long as each other: with `full`, bytes are what counts."""
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
