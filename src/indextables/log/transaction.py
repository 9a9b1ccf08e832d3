"""A transaction gathers what one version shall do to the table, and is planned on whatever snapshot it meets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from indextables.errors import InvalidInputError
from indextables.log.commit import Plan
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
from indextables.model.arguments import transaction_id, unexpected
from indextables.model.conflicts import Intent
from indextables.model.file_list import to_actions
from indextables.model.snapshot import Snapshot
from indextables.storage.location import inside
from indextables.wire.version_file import as_read_back

HOUR_MS = 3_600_000
LiveSelection = Callable[[Snapshot], pa.Table]
"""Chooses, on the snapshot a commit meets, the live files it removes; planned again if others were first."""


class SkipRequest(Struct, frozen=True):
    """A split that an operation could not process."""

    path: str
    reason: str
    operation: str
    cooldown_hours: float


class Changes(Struct, frozen=True):
    """What a version shall do. Removals are named splits that must still be live, and a selection planned anew each time."""

    operation: str
    adds: Sequence[AddAction] = ()
    removes: Sequence[str] = ()
    selected: LiveSelection | None = None
    removes_change_data: bool = True
    skips: Sequence[SkipRequest] = ()
    metadata: MetadataAction | None = None
    reindexes: bool = False
    revives: bool = False
    """Whether what it adds may be splits that the table had before: a purge does not name those before it deletes them."""
    protocol: ProtocolAction | None = None
    txn: tuple[str, int] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    user_metadata: str | None = None
    engine_info: str | None = None
    keep_empty: bool = False
    """Whether a version is written even if it does nothing (an append of no rows leaves no version otherwise)."""

    def plan(self, snapshot: Snapshot, *, now_ms: int) -> Plan:
        """The actions of this transaction on top of a snapshot."""
        txn = transaction_id(self.txn)
        if txn is not None and self._is_recorded(snapshot, *txn):
            return Plan((), CommitInfo())
        removed = self._removals(snapshot)
        actions: list[LogAction] = [a for a in (self.protocol, self.metadata) if a is not None]
        if txn is not None:
            actions.append(TxnAction(app_id=txn[0], version=txn[1], last_updated=now_ms))
        actions += [self._remove(file, now_ms) for file in removed]
        actions += self.adds
        actions += [self._skip(request, snapshot, now_ms) for request in self.skips]
        if not actions and not self.keep_empty:
            return Plan((), CommitInfo())
        return Plan(actions or [snapshot.header.protocol], self._info(removed))

    @property
    def intent(self) -> Intent:
        """What this transaction wants, as far as others could stand in its way."""
        return Intent(
            self.operation,
            adds=frozenset(a.path for a in self.adds),
            replaces=frozenset(self.removes),
            sets_metadata=self.metadata is not None,
            reindexes=self.reindexes,
            writes_data=bool(self.adds),
            revives=self.revives and bool(self.adds),
        )

    @staticmethod
    def _is_recorded(snapshot: Snapshot, app_id: str, version: int) -> bool:
        newest = snapshot.header.txns.get(app_id)
        return newest is not None and newest.version >= version

    def _removals(self, snapshot: Snapshot) -> list[AddAction]:
        selection = [] if self.selected is None else to_actions(self.selected(snapshot))
        if not self.removes:
            return selection
        files = snapshot.all_files
        chosen = files.filter(pc.is_in(files.column("path"), value_set=pa.array(self.removes, pa.string())))
        missing = set(self.removes) - set(chosen.column("path").to_pylist())
        if missing:
            message = f"{min(missing)} is not part of version {snapshot.version} and cannot be removed."
            raise InvalidInputError(message, path=min(missing), version=snapshot.version)
        return list({action.path: action for action in (*selection, *to_actions(chosen))}.values())

    def _remove(self, file: AddAction, now_ms: int) -> RemoveAction:
        return RemoveAction(
            path=file.path,
            deletion_timestamp=now_ms,
            data_change=self.removes_change_data,
            partition_values=file.partition_values,
            size=file.size,
        )

    @staticmethod
    def _skip(request: SkipRequest, snapshot: Snapshot, now_ms: int) -> SkipAction:
        earlier = snapshot.header.skips.get(request.path)
        return SkipAction(
            path=request.path,
            skip_timestamp=now_ms,
            reason=request.reason,
            operation=request.operation,
            retry_after=now_ms + round(request.cooldown_hours * HOUR_MS),
            skip_count=earlier.skip_count + 1 if earlier else 1,
        )

    def _info(self, removed: Sequence[AddAction]) -> CommitInfo:
        counts = {
            "numAddedFiles": len(self.adds),
            "numAddedBytes": sum(a.size for a in self.adds),
            "numAddedRecords": sum(a.num_records or 0 for a in self.adds),
            "numRemovedFiles": len(removed),
            "numRemovedBytes": sum(a.size for a in removed),
        }
        return CommitInfo(
            operation=self.operation,
            operation_parameters=dict(self.parameters),
            operation_metrics={**counts, **self.metrics},
            user_metadata=self.user_metadata,
            engine_info=self.engine_info,
        )


class Transaction:
    """The low-level door: add, remove and skip splits, then commit all of it as one version."""

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
        """The version committed; None before the commit, and where there was nothing to do or the `txn` was known."""
        self.committed = False

    def add(self, action: AddAction) -> None:
        """Add a split. Its path is relative to the table, or under its root."""
        action = self._accept(action)
        if action.path in self._adds:
            raise InvalidInputError(f"{action.path} is added twice in one transaction.", path=action.path)
        self._adds[action.path] = action

    def remove(self, path: str) -> None:
        """Remove a live split; at commit it must still be live."""
        self._removes[path] = None

    def skip(self, path: str, *, reason: str, operation: str = "merge", cooldown_hours: float | None = None) -> None:
        """Record that an operation could not process a split; it stays live."""
        hours = self._cooldown_hours if cooldown_hours is None else cooldown_hours
        self._skips[path] = SkipRequest(path, reason, operation, hours)

    def commit(self) -> int | None:
        """Commit; returns the version, or None where there was nothing to do."""
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


def accepted(action: AddAction, *, root: str, partition_columns: Sequence[str]) -> AddAction:
    """An action with its path made relative to the table; refused if it lies outside or names other partitions."""
    if not isinstance(action, AddAction):
        raise unexpected("A split", "an AddAction", action)
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
