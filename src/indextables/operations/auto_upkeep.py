"""Maintenance after a write, as the settings of the table define: merge small splits, purge,
expire.

The write has been committed by then. Nothing that goes wrong here is raised: it is logged, counted,
and shown by the table of merge jobs; the next write tries again.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from indextables.config.log import RetentionSettings
from indextables.config.splits import SplitWriterSettings
from indextables.config.upkeep import (
    ExpirySettings,
    MergeOnWriteSettings,
    MergeSettings,
    PurgeOnWriteSettings,
    PurgeSettings,
)
from indextables.handle import ENGINE_INFO, TableHandle, open_log
from indextables.log.log_files import list_log
from indextables.model.conflicts import Operation
from indextables.model.predicate import bind
from indextables.model.report import Progress
from indextables.operations import delete, jobs, merge, purge
from indextables.operations.expire import expired_rows

if TYPE_CHECKING:
    from indextables.operations.merge import MergeBounds

_WRITES = (Operation.APPEND, Operation.OVERWRITE, Operation.REPLACE_WHERE)
logger = logging.getLogger(__name__)


def run_after_write(table: TableHandle, version: int) -> None:
    """Do what the settings of a table ask for after rows were committed as a version."""
    merging = table.settings.group(MergeOnWriteSettings)
    purging = table.settings.group(PurgeOnWriteSettings)
    expiring = table.settings.group(ExpirySettings)
    if expiring.on_write and expiring.column:
        _run_reported(table, "expiring rows of", lambda: _expire_after_write(table))
    if merging.enabled:
        _run_reported(table, "merging", lambda: _merge_after_write(table, merging, purging))
    if purging.enabled:
        follows_merges = merging.enabled and purging.after_merge
        every = purging.after_writes or (0 if follows_merges else 1)
        if every:
            _run_reported(
                table, "purging", lambda: _purge_after_write(table, version, purging, every)
            )


def _expire_after_write(table: TableHandle) -> None:
    """Delete rows that are too old, if there are any, by the columns and settings of the newest
    version.
    """
    newest = table.read_newest()
    settings = newest.settings.group(ExpirySettings)
    if not settings.on_write or not settings.column:
        return
    over = bind(expired_rows(newest.schema, settings, table.log.now_ms()), newest.schema)
    plan = delete.plan(newest.snapshot, url=table.path, where=newest.names.predicate(over))
    if not plan.removed_splits and not plan.candidates:
        return
    execute = jobs.in_threads(
        table.log.store, parallelism=table.settings.group(MergeSettings).parallelism
    )
    report = delete.run(
        plan,
        table.log,
        spec=table.spec,
        settings=newest.search_settings,
        execute=execute,
    )
    table.show_newest_after(report)


def _merge_after_write(
    table: TableHandle, merging: MergeOnWriteSettings, purging: PurgeOnWriteSettings
) -> None:
    """Merge, now or in the background, if enough splits or deleted rows are worth it."""
    bounds = merge.MergeBounds.of(
        table.physical_settings.group(MergeSettings), target_bytes=merging.target_bytes
    )
    groups = merge.plan_if_due(
        table.log.fresh(),
        bounds,
        url=table.path,
        min_splits=merging.min_splits,
        now_ms=table.log.now_ms(),
    )
    if not groups:
        return
    if not _has_room(table, merging.min_free_gb):
        return

    def work(progress: Progress) -> str | None:
        log = open_log(table.path, table.options)
        again = TableHandle(log, log.fresh(), table.options)
        if _merge(again, bounds, progress) and purging.enabled and purging.after_merge:
            return _run_reported(again, "purging", lambda: _purge(again, purging))
        return None

    if merging.asynchronous:
        timeout_s = merging.shutdown_timeout_ms / 1000
        jobs.JOBS.start(table.path, work, groups=len(groups), shutdown_timeout_s=timeout_s)
        return
    job = jobs.JOBS.run(table.path, work, groups=len(groups))
    if job is not None and job.error_message is not None:
        _count_failure(table, job.error_message)
    table.show(table.log.fresh())


def _has_room(table: TableHandle, gigabytes: float) -> bool:
    """Whether the disk where splits are built has so much free; a line in the log says where it has
    not.
    """
    if not gigabytes:
        return True
    folder = Path(
        table.settings.group(SplitWriterSettings).temp_directory or tempfile.gettempdir()
    ).absolute()
    there = next(
        place for place in (folder, *folder.parents) if place.exists()
    )  # it is made when it is needed
    free = shutil.disk_usage(there).free / (1 << 30)
    if free < gigabytes:
        text = "%s was written, and is not merged: %s has %.1f GB free, less than mergeOnWrite.minDiskSpaceGB (%g)"
        logger.warning(text, table.path, folder, free, gigabytes)
    return free >= gigabytes


def _merge(table: TableHandle, bounds: MergeBounds, progress: Progress) -> bool:
    """Merge small splits; returns whether that made a version."""
    plan = merge.plan(table.log.fresh(), url=table.path, bounds=bounds, now_ms=table.log.now_ms())
    if not plan.groups:
        return False
    report = merge.run(
        plan,
        table.log,
        spec=table.spec,
        settings=table.search_settings,
        progress=progress,
        engine_info=ENGINE_INFO,
    )
    return table.show_newest_after(report).version is not None


def _purge_after_write(
    table: TableHandle, version: int, purging: PurgeOnWriteSettings, every: int
) -> None:
    """Purge at the first write at or after each multiple of `every` versions."""
    due = version - version % every
    listing = list_log(table.log.store, first_version=due)
    between = [(v, info) for v, info in listing.versions.items() if due <= v < version]
    if not any(earlier.info.operation in _WRITES for earlier in table.log.reader.read(between)):
        _purge(table, purging)


def _purge(table: TableHandle, purging: PurgeOnWriteSettings) -> None:
    """Purge by the retention periods of automatic purges."""
    settings = table.settings.group(PurgeSettings)
    retention = purge.Retention.from_arguments(
        settings, split_hours=purging.split_hours, log_hours=purging.log_hours
    )
    plan = purge.plan(
        table.log, retention=retention, settings=table.settings.group(RetentionSettings)
    )
    table.show_newest_after(purge.run(plan, table.log, settings=settings, engine_info=ENGINE_INFO))


def _run_reported(table: TableHandle, what: str, act: Callable[[], None]) -> str | None:
    """Do something that must not fail the write; returns what went wrong."""
    try:
        act()
    except Exception as failure:
        logger.warning(
            "%s was written, but %s it afterwards failed: %s",
            table.path,
            what,
            failure,
            exc_info=True,
        )
        _count_failure(table, str(failure))
        return f"{what.capitalize()} failed: {failure}"
    return None


def _count_failure(table: TableHandle, message: str) -> None:
    table.log.upkeep.failures += 1
    table.log.upkeep.last_failure = message
