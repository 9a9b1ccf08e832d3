"""What a table hands on to others: the feed of its changes, and its rows as plain Parquet files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from indextables.errors import InvalidInputError, MissingSplitError, NotFoundError, RefusedError, VersionNotFoundError
from indextables.model.report import Report
from indextables.scan.changes import Change, ChangeTask, changes_of
from indextables.scan.task import ScanTask
from indextables.splits.read.reader import SplitReader
from indextables.splits.read.table_split import SplitEntry
from indextables.storage.location import partition_folder
from indextables.table import planning
from indextables.table.handle import TableHandle


class ParquetView(Report, frozen=True):
    """Plain Parquet files with the rows of a version."""

    directory: str
    version: int
    files: int
    rows: int
    linked: int
    """Files that are links to splits, since these hold exactly the rows of the table."""


# The change feed.


def change_feed(
    table: TableHandle, first: int, last: int | None, columns: Sequence[str] | None
) -> pa.RecordBatchReader:
    """The changes of some versions as a stream; see `Table.changes`."""
    task = change_task(table, changes_between(table, first, table.version if last is None else last), columns)
    return pa.RecordBatchReader.from_batches(task.schema, _told(task, table))


def changes_between(table: TableHandle, first: int, last: int) -> list[Change]:
    """What the versions from one to another changed, both included."""
    newest = table.version
    if first > last or last > newest:
        raise VersionNotFoundError(
            f"{table.path} has no changes from version {first} to {last}: it shows version {newest}.",
            hint="Give versions in order, up to that of the table.",
            path=table.path,
            version=last,
        )

    def size_of(path: str) -> int:
        info = table._log.store.head(path)
        if info is None:
            raise _purged(table, path)
        return info.size

    return [
        change
        for version in planning.versions(table, after=first - 1, until=last)
        for change in changes_of(version, size_of)
    ]


def change_task(table: TableHandle, changes: Sequence[Change], columns: Sequence[str] | None) -> ChangeTask:
    """The work of reading changes, in the columns of the version that a table shows."""
    return ChangeTask(planning.plan_scan(table, columns=columns).with_splits(()), tuple(changes))


def _told(task: ChangeTask, table: TableHandle) -> Iterator[pa.RecordBatch]:
    try:
        yield from task.batches(table._log.store)
    except (NotFoundError, MissingSplitError) as gone:
        raise _purged(table, str(gone.context.get("path"))) from gone


def _purged(table: TableHandle, path: str) -> NotFoundError:
    return NotFoundError(
        f"Rows that went are gone for good: {path} of {table.path} was purged.",
        hint="Begin with a later version; a longer purge.defaultRetentionHours keeps changes readable for longer.",
        path=path,
    )


# Rows as plain Parquet.


def parquet_view(table: TableHandle, directory: Path) -> ParquetView:
    """The rows of the version that a table shows as plain Parquet files in a new folder."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        message = f"{directory} is there already and not an empty folder."
        raise RefusedError(message, hint="Give a new folder; nothing was written.", path=str(directory))
    plan = planning.plan_scan(table)
    if any("\n" in entry.path for entry in plan.splits):
        raise InvalidInputError(f"{table.path} has splits whose names cannot be files.", path=table.path)
    task = ScanTask(plan, table._log.store)
    aside = directory.with_name(f"{directory.name}.unfinished")
    shutil.rmtree(aside, ignore_errors=True)
    rows = linked = 0
    try:
        aside.mkdir(parents=True)
        for number, entry in enumerate(plan.splits):
            folder = aside / partition_folder(
                {plan.names.shown(name): entry.partition_values.get(name) for name in plan.partition_columns}
            )
            folder.mkdir(parents=True, exist_ok=True)
            here, is_link = _plain_file(task, entry, folder / f"part-{number:05d}.parquet")
            rows, linked = rows + here, linked + is_link
        if directory.exists():
            directory.rmdir()
        aside.rename(directory)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return ParquetView(str(directory), table.version, len(plan.splits), rows, linked)


def _plain_file(task: ScanTask, entry: SplitEntry, target: Path) -> tuple[int, bool]:
    """One file with the living rows of a split: how many they are, and whether it is a link to the split."""
    split = task.open_alone(entry)
    body = pa.schema([f for f in task.schema if f.name not in task.plan.partition_columns]).remove_metadata()
    place = task.store.local_path(entry.path)
    names = task.plan.names
    same = names.same and isinstance(split.reader, SplitReader) and split.reader.schema.remove_metadata().equals(body)
    if place is not None and split.mask is None and same and _link(place, target):
        return split.num_rows, True
    shown = pa.schema([names.logical.field(names.shown(name)) for name in body.names]).remove_metadata()
    with pq.ParquetWriter(target, shown, compression="zstd") as writer:
        for batch in split.iter_rows(columns=body.names):
            writer.write_batch(names.to_logical(batch).cast(shown))
    return split.num_rows, False


def _link(place: Path, target: Path) -> bool:
    try:
        os.link(place, target)
    except OSError:
        return False
    return True
