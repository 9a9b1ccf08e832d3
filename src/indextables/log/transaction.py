"""Transactions: collect the changes of one version, and plan them on any snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from indextables.errors import ConflictError, InvalidInputError
from indextables.log.proposal import Plan
from indextables.model.actions import (
    AddAction,
    CommitInfo,
    LogAction,
    MetadataAction,
    ProtocolAction,
    RemoveAction,
    SkipAction,
    TxnAction,
)
from indextables.model.arguments import argument_error, transaction_id
from indextables.model.calls import checked_calls
from indextables.model.conflicts import Intent
from indextables.model.deletion_vector import RowSet, named_paths
from indextables.model.file_list import to_actions
from indextables.model.predicate import Predicate
from indextables.model.protocol import has_vectors, with_vectors
from indextables.model.schema_registry import with_mappings
from indextables.model.snapshot import Snapshot
from indextables.storage.location import inside
from indextables.storage.vector_files import VectorWriter
from indextables.wire.version_file import as_read_back

HOUR_MS = 3_600_000
LiveSelection = Callable[[Snapshot], pa.Table]
"""Selects the live files to remove on the snapshot of a commit; called again after a lost race."""


class SkipRequest(Struct, frozen=True):
    """A split that an operation could not process."""

    path: str
    reason: str
    operation: str
    cooldown_hours: float
    partition_values: Mapping[str, str | None] | None = None
    size: int | None = None
    """Partition and size of the split; taken from the table where they are None."""


class RowDeletion(Struct, frozen=True):
    """Deleted rows of a live split that stays: its deletion vector will name them."""

    path: str
    rows: RowSet
    """Their numbers in the split's file."""
    stored_rows: int
    """Number of rows in the file."""


class WrittenVector(Struct, frozen=True):
    """Deleted rows of a live split, in a vector that a worker has already written."""

    path: str
    before: str | None
    """The vector that the worker read."""
    vector: str
    """The vector that also names the deleted rows."""
    deleted_records: int
    """Number of rows in the vector."""
    stored_rows: int


class Changes(Struct, frozen=True):
    """The changes of a version. Removals are named splits that must still be live, and a selection
    repeated on each snapshot.
    """

    operation: str
    adds: Sequence[AddAction] = ()
    removes: Sequence[str] = ()
    vectors: Mapping[str, str | None] = field(default_factory=dict)
    """The deletion vectors that the removed splits had when their rows were read."""
    deletions: Sequence[RowDeletion | WrittenVector] = ()
    """Rows deleted from splits that stay. Rows that another writer deleted meanwhile stay deleted.
    """
    writer: VectorWriter | None = None
    """Writes the vectors of `deletions`."""
    keys: Predicate | None = None
    """Condition of rows with one of the inserted keys: no such row may have been added meanwhile.
    """
    selected: LiveSelection | None = None
    removes_change_data: bool = True
    skips: Sequence[SkipRequest] = ()
    metadata: MetadataAction | None = None
    reindexes: bool = False
    revives: bool = False
    """Whether added splits may have been in the table before; a purge then does not name them
    before it deletes them.
    """
    protocol: ProtocolAction | None = None
    txn: tuple[str, int] | None = None
    shared: Sequence[tuple[str, int]] = ()
    """Exactly-once writes of several clients in this version. If one of them is recorded already,
    nothing is committed.
    """
    marks: Sequence[tuple[str, int]] = ()
    """Additional entries next to `txn` and `shared`, with names of their own."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    user_metadata: str | None = None
    engine_info: str | None = None
    keep_empty: bool = False
    """Whether a version without changes is written. An append of no rows writes none by default."""

    def plan(self, snapshot: Snapshot, *, now_ms: int) -> Plan:
        """Return the actions of this transaction on a snapshot."""
        if self.is_recorded(snapshot):
            return Plan((), CommitInfo())
        removed, masked = self._removals(snapshot), self._mask_splits(snapshot)
        adds = [*self.adds, *(new for _, new in masked if new is not None)]
        protocol = self._protocol(snapshot, adds)
        actions: list[LogAction] = [a for a in (protocol, self.metadata) if a is not None]
        actions += [
            TxnAction(app_id=app_id, version=version, last_updated=now_ms)
            for app_id, version in (*self._exactly_once(), *self.marks)
        ]
        actions += [self._remove(file, now_ms) for file in (*removed, *(old for old, _ in masked))]
        actions += adds
        actions += self._skips(snapshot, now_ms)
        if not actions and not self.keep_empty:
            return Plan((), CommitInfo())
        return Plan(actions or [snapshot.header.protocol], self._info(removed, masked))

    @property
    def intent(self) -> Intent:
        """Return what this transaction reads and writes, for the conflict check."""
        return Intent(
            self.operation,
            adds=frozenset(named_paths(self.adds))
            | frozenset(self.writer.written if self.writer else ()),
            replaces=frozenset(self.removes),
            vectors=self.vectors,
            masks=frozenset(deletion.path for deletion in self.deletions),
            keys=self.keys,
            sets_metadata=self.metadata is not None,
            reindexes=self.reindexes,
            writes_data=bool(self.adds),
            revives=self.revives and bool(self.adds),
        )

    def is_recorded(self, snapshot: Snapshot) -> bool:
        """Return whether a version up to a snapshot already contains this transaction, by its
        `txn`, or one of the writes that it shares.
        """
        recorded = snapshot.header.txns
        return any(
            app_id in recorded and recorded[app_id].version >= version
            for app_id, version in self._exactly_once()
        )

    def _exactly_once(self) -> list[tuple[str, int]]:
        txn = transaction_id(self.txn)
        if txn is None:
            return list(self.shared)
        return [txn, *self.shared]

    def _removals(self, snapshot: Snapshot) -> list[AddAction]:
        if self.selected is None:
            selection = []
        else:
            selection = to_actions(self.selected(snapshot))
        if not self.removes:
            return selection
        files = snapshot.all_files
        chosen = files.filter(
            pc.is_in(files.column("path"), value_set=pa.array(self.removes, pa.string()))
        )
        missing = set(self.removes) - set(chosen.column("path").to_pylist())
        if missing:
            message = (
                f"{min(missing)} is not part of version {snapshot.version} and cannot be removed."
            )
            raise InvalidInputError(message, path=min(missing), version=snapshot.version)
        named = to_actions(chosen)
        for action in named:
            if action.path in self.vectors and action.deletion_vector != self.vectors[action.path]:
                raise _rows_changed(
                    self.operation, action.path, snapshot.version, "rows of it were deleted"
                )
        return list({action.path: action for action in (*selection, *named)}.values())

    def _mask_splits(self, snapshot: Snapshot) -> list[tuple[AddAction, AddAction | None]]:
        """Return each split that loses rows before and after; after is None if no row is left."""
        if not self.deletions:
            return []
        if self.writer is None:
            raise ValueError("deletions need a writer of deletion vectors")
        files, paths = snapshot.all_files, pa.array([d.path for d in self.deletions], pa.string())
        live = {
            a.path: a
            for a in to_actions(files.filter(pc.is_in(files.column("path"), value_set=paths)))
        }
        kept: dict[str, AddAction] = {}
        partly: list[tuple[int, AddAction, RowSet]] = []
        for deletion in self.deletions:
            old = live.get(deletion.path)
            if old is None:
                raise _rows_changed(
                    self.operation,
                    deletion.path,
                    snapshot.version,
                    "it is no longer part of the table",
                )
            if isinstance(deletion, WrittenVector) and deletion.before == old.deletion_vector:
                kept[old.path] = _masked_split(
                    old, deletion.vector, deletion.deleted_records, deletion.stored_rows
                )
                continue
            gone = self._rows(deletion, self.writer)
            known = self.writer.load(old.deletion_vector, old.deleted_records)
            rows = gone if known is None else np.union1d(known, gone)
            if known is not None and len(rows) < len(known) + len(gone):
                raise _rows_changed(
                    self.operation, deletion.path, snapshot.version, "one of these rows was deleted"
                )
            if len(rows) < deletion.stored_rows:
                partly.append((deletion.stored_rows, old, rows))
        texts = self.writer.save([rows for _, _, rows in partly])
        for text, (stored, old, rows) in zip(texts, partly, strict=True):
            kept[old.path] = _masked_split(old, text, len(rows), stored)
        again = {a.path: a for a in with_mappings(list(kept.values()), snapshot.schema_registry)}
        return [(live[deletion.path], again.get(deletion.path)) for deletion in self.deletions]

    @staticmethod
    def _rows(deletion: RowDeletion | WrittenVector, vectors: VectorWriter) -> RowSet:
        """Return the deleted rows without those that were already deleted."""
        if isinstance(deletion, RowDeletion):
            return deletion.rows
        before, rows = (
            vectors.load(deletion.before),
            vectors.load(deletion.vector, deletion.deleted_records),
        )
        assert rows is not None
        if before is None:
            return rows
        return np.setdiff1d(rows, before, assume_unique=True)

    def _protocol(self, snapshot: Snapshot, adds: Sequence[AddAction]) -> ProtocolAction | None:
        """Return the protocol to record: raised if a split of the version is the first with a
        deletion vector.
        """
        current = self.protocol or snapshot.header.protocol
        if all(action.deletion_vector is None for action in adds) or has_vectors(current):
            return self.protocol
        return with_vectors(current)

    def _remove(self, file: AddAction, now_ms: int) -> RemoveAction:
        return RemoveAction(
            path=file.path,
            deletion_timestamp=now_ms,
            data_change=self.removes_change_data,
            partition_values=file.partition_values,
            size=file.size,
            deletion_vector=file.deletion_vector,
        )

    def _skips(self, snapshot: Snapshot, now_ms: int) -> list[SkipAction]:
        """Return the skips, each with partition, size and number of failures of the split."""
        if not self.skips:
            return []
        files = snapshot.files(columns=["path", "partition_values", "size"])
        chosen = files.filter(
            pc.is_in(
                files.column("path"), value_set=pa.array([r.path for r in self.skips], pa.string())
            )
        )
        live = {row["path"]: row for row in chosen.to_pylist(maps_as_pydicts="strict")}
        return [
            self._skip(request, live.get(request.path, {}), snapshot, now_ms)
            for request in self.skips
        ]

    @staticmethod
    def _skip(
        request: SkipRequest, split: Mapping[str, Any], snapshot: Snapshot, now_ms: int
    ) -> SkipAction:
        earlier = snapshot.header.skips.get(request.path)
        if request.partition_values is None:
            values = split.get("partition_values")
        else:
            values = request.partition_values
        return SkipAction(
            path=request.path,
            skip_timestamp=now_ms,
            reason=request.reason,
            operation=request.operation,
            partition_values=None if values is None else dict(values),
            size=split.get("size") if request.size is None else request.size,
            retry_after=now_ms + round(request.cooldown_hours * HOUR_MS),
            skip_count=earlier.skip_count + 1 if earlier else 1,
        )

    def _info(
        self,
        removed: Sequence[AddAction],
        masked: Sequence[tuple[AddAction, AddAction | None]] = (),
    ) -> CommitInfo:
        counts = {
            "numAddedFiles": len(self.adds),
            "numAddedBytes": sum(a.size for a in self.adds),
            "numAddedRecords": sum(a.num_records or 0 for a in self.adds),
            "numRemovedFiles": len(removed),
            "numRemovedBytes": sum(a.size for a in removed),
        }
        if masked:
            counts["numDeletionVectors"] = sum(new is not None for _, new in masked)
        return CommitInfo(
            operation=self.operation,
            operation_parameters=dict(self.parameters),
            operation_metrics={**counts, **self.metrics},
            user_metadata=self.user_metadata,
            engine_info=self.engine_info,
        )


def _masked_split(split: AddAction, vector: str, deleted: int, stored: int) -> AddAction:
    """Return a split with another deletion vector. None of its rows is new."""
    return replace(
        split,
        deletion_vector=vector,
        deleted_records=deleted,
        num_records=stored - deleted,
        data_change=False,
        added_at_version=None,
        added_at_timestamp=None,
    )


def _rows_changed(operation: str, path: str, version: int, why: str) -> ConflictError:
    return ConflictError(
        f"{operation} conflicts with version {version}: {path} changed, {why}.",
        path=path,
        version=version,
        operation=operation,
        retry_helps=True,
    )


@checked_calls
class Transaction:
    """Low-level transaction: add, remove and skip splits, then commit them as one version."""

    def __init__(
        self,
        changes: Changes,
        commit: Callable[[Changes], int | None],
        *,
        accept: Callable[[AddAction], AddAction],
        cooldown_hours: float,
    ) -> None:
        self._changes = changes
        self._commit = commit
        self._accept = accept
        self._cooldown_hours = cooldown_hours
        self._adds: dict[str, AddAction] = {}
        self._removes: dict[str, None] = {}
        self._skips: dict[str, SkipRequest] = {}
        self.version: int | None = None
        """The committed version; None before the commit, and if there was nothing to do or the
        `txn` was known.
        """
        self.committed = False

    def add(self, action: AddAction) -> None:
        """Add a split. Its path is relative to the table, or below its root."""
        action = self._accept(action)
        if action.path in self._adds:
            raise InvalidInputError(
                f"{action.path} is added twice in one transaction.", path=action.path
            )
        self._adds[action.path] = action

    def remove(self, path: str) -> None:
        """Remove a live split. It must still be live at commit."""
        self._removes[path] = None

    def skip(
        self,
        path: str,
        *,
        reason: str,
        operation: str = "merge",
        cooldown_hours: float | None = None,
    ) -> None:
        """Record that an operation could not process a split, which stays live."""
        if cooldown_hours is None:
            hours = self._cooldown_hours
        else:
            hours = cooldown_hours
        self._skips[path] = SkipRequest(path, reason, operation, hours)

    def commit(self) -> int | None:
        """Commit, and return the version, or None if there was nothing to do."""
        changes = replace(
            self._changes,
            adds=tuple(self._adds.values()),
            removes=tuple(self._removes),
            skips=tuple(self._skips.values()),
        )
        self.version = self._commit(changes)
        self.committed = True
        return self.version

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None and not self.committed:
            self.commit()


def accept_split(action: AddAction, *, root: str, partition_columns: Sequence[str]) -> AddAction:
    """Return an action with its path relative to the table. A path outside, or in other partitions,
    is refused.
    """
    if not isinstance(action, AddAction):
        raise argument_error("A split", "an AddAction", action)
    action = as_read_back(action, what=f"{action.path} in a transaction on {root}")
    values = action.partition_values or {}
    if set(values) != set(partition_columns):
        expected = ", ".join(partition_columns) or "none"
        raise InvalidInputError(
            f"{action.path} has values for the partition columns {', '.join(values) or 'none'}; the table has {expected}.",
            path=action.path,
            partition_columns=list(partition_columns),
        )
    if action.size < 0:
        raise InvalidInputError(f"{action.path} has the size {action.size}.", path=action.path)
    return msgspec.structs.replace(action, path=inside(root, action.path))
