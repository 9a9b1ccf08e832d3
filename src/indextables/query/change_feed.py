"""The change feed: the rows that each version added and removed, derived from its files.

A version records the splits it adds and removes, and their deletion vectors. An inserted row is a
row of an added split. A deleted row is one that a new vector names and the old one did not, or a
row of a removed split that is in none of its replacements. Rows of an update are identified by the
tag of the split with the new rows. Versions that only rearrange rows (`dataChange` is false
throughout: merges) have no changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import (
    MissingSplitError,
    NotFoundError,
    UnsupportedError,
    VersionNotFoundError,
)
from indextables.handle import TableHandle
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction, RemoveAction
from indextables.model.arguments import whole_number
from indextables.model.conflicts import Operation
from indextables.model.schema import is_readable_as, type_name
from indextables.model.snapshot import CommittedVersion
from indextables.query.plan import ScanPlan, plan_scan
from indextables.query.task import ScanTask
from indextables.splits.read.table_split import SplitEntry, TableSplit
from indextables.storage.store import Store
from indextables.storage.vector_files import load_vector

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = (
    "_change_type",
    "_commit_version",
    "_commit_timestamp",
)
INSERT, DELETE, PREIMAGE, POSTIMAGE = "insert", "delete", "update_preimage", "update_postimage"
CHANGE_TAG = "indextables.change"
"""Tag of a split whose rows replace others."""
UPDATED = "update"
_UPDATING = (Operation.UPDATE, Operation.UPSERT, Operation.MERGE_INTO)
_FIELDS = (
    pa.field(CHANGE_TYPE, pa.string()),
    pa.field(COMMIT_VERSION, pa.int64()),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", tz="UTC")),
)


def change_schema(rows: pa.Schema) -> pa.Schema:
    """Return the columns of a change feed over some columns of a table."""
    # Rows of the past may hold nulls in a column that may not hold any now.
    return pa.schema([*(field.with_nullable(True) for field in rows), *_FIELDS])


class Change(Struct, frozen=True):
    """Rows of one file that a version added or removed; picklable."""

    kind: str
    """Kind of the change: `insert`, `delete`, `update_preimage` or `update_postimage`."""
    entry: SplitEntry
    version: int
    timestamp_ms: int
    places: tuple[str | None, str | None] | None = None
    """Two deletion vectors: the rows that the second names and the first does not. Without them,
    all living rows.
    """
    besides: tuple[SplitEntry, ...] = ()
    """Splits whose rows are subtracted, counting duplicates."""
    group: tuple[SplitEntry, ...] = ()
    """Further splits that are compared together with the first one."""

    @property
    def paths(self) -> list[str]:
        """Return the splits that are read for it."""
        return [entry.path for entry in (self.entry, *self.group, *self.besides)]

    @property
    def size(self) -> int:
        """Return the bytes of the splits that are read for it."""
        return sum(entry.size for entry in (self.entry, *self.group, *self.besides))


def changes_of(version: CommittedVersion, size_of: Callable[[str], int]) -> list[Change]:
    """Return the changes of a version file by file. `size_of` returns the size of a split that the
    log lacks.
    """
    adds = [a for a in version.actions if isinstance(a, AddAction)]
    removes = {a.path: a for a in version.actions if isinstance(a, RemoveAction)}
    restored = version.info.operation == Operation.RESTORE
    if version.info.operation == Operation.PURGE or not (
        restored or any(a.data_change for a in adds) or any(r.data_change for r in removes.values())
    ):
        return []
    again = [a for a in adds if a.path in removes]
    fresh = [a for a in adds if a.path not in removes]
    gone = [
        r
        for path, r in removes.items()
        if path not in {a.path for a in again} and (r.data_change or restored)
    ]
    stamp = version.version, version.timestamp_ms
    old, new = _kinds(version, adds)
    changes: list[Change] = []
    for action in again:
        before = removes[action.path].deletion_vector
        if before == action.deletion_vector:
            continue
        whole = replace(_entry(action), vector=None, deleted=None, num_records=None)
        changes.append(Change(old, whole, *stamp, places=(before, action.deletion_vector)))
        changes.append(Change(INSERT, whole, *stamp, places=(action.deletion_vector, before)))
    moved = [a for a in fresh if restored or not a.data_change]
    arrived = [a for a in fresh if not restored and a.data_change]
    left = [_removed_entry(r, size_of) for r in gone]
    kept = tuple(_entry(a) for a in moved)
    if left:
        changes.append(Change(old, left[0], *stamp, besides=kept, group=tuple(left[1:])))
    # Rows that were only rewritten are on both sides, unless a column that they had to leave behind
    # has come back.
    if kept and (restored or left):
        changes.append(Change(INSERT, kept[0], *stamp, besides=tuple(left), group=kept[1:]))
    changes += [Change(new(a), _entry(a), *stamp) for a in arrived]
    return changes


def changes_between(log: TransactionLog, first: int, last: int, *, newest: int) -> list[Change]:
    """Return the changes from one version to another, both inclusive; `newest` is the version of
    the table handle.
    """
    if first > last or last > newest:
        raise VersionNotFoundError(
            f"{log.store.url} has no changes from version {first} to {last}: it shows version {newest}.",
            hint="Give versions in order, up to that of the table.",
            path=log.store.url,
            version=last,
        )

    def size_of(path: str) -> int:
        info = log.store.head(path)
        if info is None:
            raise _purged_split_error(log, path)
        return info.size

    return [
        change for version in log.since(first - 1, last) for change in changes_of(version, size_of)
    ]


def _purged_split_error(log: TransactionLog, path: str) -> NotFoundError:
    return NotFoundError(
        f"Rows that went are gone for good: {path} of {log.store.url} was purged.",
        hint="Begin with a later version; a longer purge.defaultRetentionHours keeps changes readable for longer.",
        path=path,
    )


def _kinds(
    version: CommittedVersion, adds: Sequence[AddAction]
) -> tuple[str, Callable[[AddAction], str]]:
    """Return the change kinds of removed rows and of added rows of a version's split."""
    updates = any((a.tags or {}).get(CHANGE_TAG) == UPDATED for a in adds)
    deletes = version.info.operation not in _UPDATING or not updates
    return (
        DELETE if deletes else PREIMAGE,
        lambda a: POSTIMAGE if (a.tags or {}).get(CHANGE_TAG) == UPDATED else INSERT,
    )


def _entry(action: AddAction) -> SplitEntry:
    return SplitEntry(
        action.path,
        action.size,
        action.num_records,
        action.footer_start_offset,
        action.partition_values or {},
        action.deletion_vector,
        action.deleted_records,
    )


def _removed_entry(remove: RemoveAction, size_of: Callable[[str], int]) -> SplitEntry:
    size = remove.size if remove.size else size_of(remove.path)
    return SplitEntry(
        remove.path, size, None, None, remove.partition_values or {}, remove.deletion_vector, None
    )


class ChangeTask(Struct, frozen=True):
    """Changes as a task: a scan of any version of the table describes how its splits are read."""

    plan: ScanPlan
    changes: tuple[Change, ...]

    @classmethod
    def of(cls, plan: ScanPlan, changes: Sequence[Change]) -> ChangeTask:
        """Create the task of reading changes with the columns of a plan, whose own splits are not
        read.
        """
        return cls(plan.with_splits(()), tuple(changes))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return change_schema(self.plan.output_schema)

    def batches(self, store: Store | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, change after change."""
        for change in self.changes:
            try:
                for rows in self._rows(change, ScanTask(self.plan, store)):
                    if rows.num_rows:
                        yield from self._describe(change, rows).to_batches()
            except pa.ArrowInvalid as misfit:
                raise self._of_another_type(
                    change, f"do not fit the columns that are shown: {misfit}"
                ) from misfit

    def _describe(self, change: Change, rows: pa.Table) -> pa.Table:
        kind, version, moment = _FIELDS
        described = self.plan.names.to_logical(rows.select(list(self.plan.columns)))
        described = described.append_column(
            kind, pa.repeat(pa.scalar(change.kind, kind.type), rows.num_rows)
        )
        described = described.append_column(
            version, pa.repeat(pa.scalar(change.version, version.type), rows.num_rows)
        )
        micros = pa.scalar(change.timestamp_ms * 1000, pa.int64()).cast(moment.type)
        return described.append_column(moment, pa.repeat(micros, rows.num_rows)).cast(self.schema)

    def _rows(self, change: Change, task: ScanTask) -> Iterator[pa.Table]:
        if change.places is not None:
            before, after = (
                np.empty(0, np.int64) if vector is None else load_vector(task.store, vector)
                for vector in change.places
            )
            rows = np.setdiff1d(after, before, assume_unique=True)
            if len(rows):
                yield self._split(change, task, change.entry, self.plan.columns).read_rows(
                    rows, columns=self.plan.columns
                )
            return
        if not change.besides:
            for entry in (change.entry, *change.group):
                for batch in self._split(change, task, entry, self.plan.columns).iter_rows(
                    columns=self.plan.columns
                ):
                    yield pa.Table.from_batches([batch])
            return
        yield from self._differing(change, task)

    def _split(
        self, change: Change, task: ScanTask, entry: SplitEntry, columns: Sequence[str]
    ) -> TableSplit:
        """Open an old split with the current columns: an overwrite may have changed their types."""
        split = task.open(entry)
        for name in columns:
            old, new = split.stored_type(name), task.schema.field(name).type
            # A restoration takes a widening back; values that came in between are described as far
            # as they fit.
            if old is not None and not is_readable_as(old, new) and not is_readable_as(new, old):
                shown = self.plan.names.logical_name(name)
                raise self._of_another_type(
                    change,
                    f"hold {shown!r} as {type_name(old)}; in the version that is shown it is {type_name(new)}",
                )
        return split

    def _of_another_type(self, change: Change, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"Rows that version {change.version} of {self.plan.spec.url} changed {what}.",
            hint="Leave that column out (columns=...), or ask an older version for the changes up to it: "
            "Table.open(path, version=...).changes(...).",
            version=change.version,
        )

    def _differing(self, change: Change, task: ScanTask) -> Iterator[pa.Table]:
        """Return rows that are not among those of other splits, counting duplicates."""
        names = task.schema.names
        besides: Counter[bytes] = Counter()
        for entry in change.besides:
            for batch in self._split(change, task, entry, names).iter_rows(columns=names):
                besides.update(row_digests(batch))
        for entry in (change.entry, *change.group):
            for batch in self._split(change, task, entry, names).iter_rows(columns=names):
                places = []
                for place, digest in enumerate(row_digests(batch)):
                    if besides[digest] > 0:
                        besides[digest] -= 1
                    else:
                        places.append(place)
                yield pa.Table.from_batches([batch]).take(pa.array(places, pa.int64()))


def change_feed(log: TransactionLog, task: ChangeTask) -> pa.RecordBatchReader:
    """Stream the rows of changes. See `Table.changes`."""
    return pa.RecordBatchReader.from_batches(task.schema, _readable_rows(log, task))


def _readable_rows(log: TransactionLog, task: ChangeTask) -> Iterator[pa.RecordBatch]:
    try:
        yield from task.batches(log.store)
    except (NotFoundError, MissingSplitError) as gone:
        raise _purged_split_error(log, str(gone.context.get("path"))) from gone


def row_digests(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Return a digest of each row; -0.0 equals 0.0 and NaN equals NaN, as in comparisons."""
    values = [column.to_pylist() for column in batch.columns]
    for row in zip(*values, strict=True):
        text = repr(tuple(v + 0.0 if isinstance(v, float) else v for v in row))
        yield blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def check_has_changes(table: TableHandle) -> None:
    """Refuse a companion: its versions say what is indexed, not which rows changed."""
    if table.companion is not None:
        source = table.companion.definition.source
        raise UnsupportedError(
            f"{table.path} is a companion, and its versions do not change rows.",
            hint=f"Read the changes of its source, {source}.",
            path=table.path,
        )


def read_changes(
    table: TableHandle, from_version: int, to_version: int | None, *, columns: Sequence[str] | None
) -> pa.RecordBatchReader:
    """Return the rows that were added and removed by some versions. See `Table.changes`."""
    check_has_changes(table)
    first = whole_number("from_version", from_version)
    if to_version is None:
        last = table.version
    else:
        last = whole_number("to_version", to_version)
    changes = changes_between(table.log, first, last, newest=table.version)
    return change_feed(table.log, ChangeTask.of(plan_scan(table, columns=columns), changes))
