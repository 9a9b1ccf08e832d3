"""Restore an older version: a new version with its files, schema and configuration.

Only the log changes. All splits must still exist, which is checked first. The protocol is never
lowered, and transactions of exactly-once writers are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

import msgspec
from msgspec import Struct

from indextables.errors import InvalidInputError, MissingSplitError
from indextables.handle import ENGINE_INFO, TableHandle, version_of
from indextables.log.history import check_not_purged
from indextables.log.proposal import Plan, with_operator
from indextables.log.transaction import Changes
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction, MetadataAction
from indextables.model.arguments import Moment
from indextables.model.conflicts import Intent, Operation
from indextables.model.deletion_vector import listed_paths
from indextables.model.file_list import to_actions
from indextables.model.report import Report
from indextables.model.schema_registry import with_mappings, without_registry
from indextables.model.snapshot import Snapshot, files_not_in
from indextables.operations.jobs import DRY_RUN, NO_ACTION, SUCCESS
from indextables.storage.store import Store

_NOTHING = "The table is as it was then."
_FEW = 32
"""Up to this many splits are checked one by one; more with one listing."""


class RestoreReport(Report, frozen=True):
    """Result of a restore. `version` is the new version, the current one if nothing changed, None
    in a dry run.
    """

    table_path: str
    status: str
    version: int | None
    restored_version: int
    files_added: int
    files_removed: int
    message: str


class RestorePlan(Report, frozen=True):
    """What restoring would add and remove."""

    table_path: str
    version: int
    restored_version: int
    files_added: int
    files_removed: int
    read: Snapshot
    target: Snapshot
    hidden: ClassVar[tuple[str, ...]] = ("read", "target")

    def preview(self) -> RestoreReport:
        """Return the report of a dry run."""
        changes = (
            self.files_added
            or self.files_removed
            or _restored_metadata(self.target, self.read) is not None
        )
        return RestoreReport(
            table_path=self.table_path,
            status=DRY_RUN if changes else NO_ACTION,
            version=None if changes else self.version,
            restored_version=self.restored_version,
            files_added=self.files_added,
            files_removed=self.files_removed,
            message=_message(self.restored_version, "would be brought back")
            if changes
            else _NOTHING,
        )


def plan(log: TransactionLog, *, version: int) -> RestorePlan:
    """Plan to restore a version. Raises an error if splits of it were purged or are missing."""
    read = log.newest_writable()
    target = log.at_version(version)
    check_not_purged(log, read, target)
    check_splits(log.store, target)
    return RestorePlan(
        table_path=log.store.url,
        version=read.version,
        restored_version=version,
        files_added=files_not_in(target, read).num_rows,
        files_removed=files_not_in(read, target).num_rows,
        read=read,
        target=target,
    )


def run(
    planned: RestorePlan, log: TransactionLog, *, engine_info: str | None = None
) -> RestoreReport:
    """Commit the restore. Nothing is committed if the table already has that content."""
    committed = log.commit(planned.read, _Restoration(planned.read, planned.target, engine_info))
    written = committed.written
    done = committed.version is not None
    return RestoreReport(
        table_path=planned.table_path,
        status=SUCCESS if done else NO_ACTION,
        version=committed.snapshot.version if committed.version is None else committed.version,
        restored_version=planned.restored_version,
        files_added=planned.files_added if written is None else len(written.added_paths),
        files_removed=planned.files_removed if written is None else len(written.removed_paths),
        message=_message(planned.restored_version, "was brought back") if done else _NOTHING,
    )


def _message(version: int, what: str) -> str:
    return f"Version {version} {what} as a new version."


def check_splits(store: Store, snapshot: Snapshot) -> None:
    """Raise MissingSplitError unless every split of a snapshot exists with its recorded size, and
    its deletion vector files.
    """
    files = snapshot.files(columns=["path", "size", "deletion_vector"])
    recorded_sizes: dict[str, int | None] = dict.fromkeys(listed_paths(files))
    recorded_sizes |= dict(
        zip(files.column("path").to_pylist(), files.column("size").to_pylist(), strict=True)
    )
    actual_sizes = stored_sizes(store, recorded_sizes)
    missing = sorted(
        path
        for path, size in recorded_sizes.items()
        if path not in actual_sizes or (size is not None and actual_sizes[path] != size)
    )
    if missing:
        raise _missing_split_error(store.url, snapshot, missing)


def _missing_split_error(url: str, snapshot: Snapshot, missing: Sequence[str]) -> MissingSplitError:
    count = snapshot.files(columns=["path"]).num_rows
    return MissingSplitError(
        f"{len(missing)} of the {count} splits of version {snapshot.version} of {url} are gone or have another size, "
        f"such as {missing[0]}.",
        hint="Choose a newer version; history() shows which can be read.",
        path=missing[0],
        version=snapshot.version,
        missing=list(missing),
    )


def stored_sizes(store: Store, paths: Collection[str]) -> dict[str, int]:
    """Return the sizes of existing files: a few are requested one by one, many with one listing."""
    if len(paths) > _FEW:
        return {info.path: info.size for info in store.list()}
    found = (store.head(path) for path in paths)
    return {info.path: info.size for info in found if info is not None}


class _Restoration(Struct, frozen=True):
    """The commit: planned again on any newer version, so that the result is always the old content."""

    read: Snapshot
    target: Snapshot
    engine_info: str | None

    @property
    def intent(self) -> Intent:
        return Intent(
            Operation.RESTORE,
            sets_metadata=_restored_metadata(self.target, self.read) is not None,
            writes_data=False,
            revives=True,
        )

    def plan(self, snapshot: Snapshot, *, now_ms: int) -> Plan:
        removed = files_not_in(snapshot, self.target)
        changes = Changes(
            Operation.RESTORE,
            adds=[_revive(action) for action in self._missing(snapshot)],
            removes=removed.column("path").to_pylist(),
            metadata=_restored_metadata(self.target, snapshot),
            parameters={"version": self.target.version},
            metrics={"numRestoredFiles": self.target.all_files.num_rows},
            engine_info=self.engine_info,
        )
        return changes.plan(snapshot, now_ms=now_ms)

    def _missing(self, snapshot: Snapshot) -> list[AddAction]:
        # The old files may name doc mappings that the newest state has forgotten, so they carry
        # them along.
        return with_mappings(
            to_actions(files_not_in(self.target, snapshot)), self.target.schema_registry
        )


def _restored_metadata(target: Snapshot, newest: Snapshot) -> MetadataAction | None:
    """Return the old metadata if it differs, with the id of the table. Doc mapping records are not
    a difference.
    """
    metadata = msgspec.structs.replace(target.metadata, id=newest.metadata.id)
    metadata = with_operator(metadata, target.header.protocol, newest.header.protocol)
    if without_registry(metadata) == without_registry(newest.metadata):
        return None
    return metadata


def _revive(action: AddAction) -> AddAction:
    return msgspec.structs.replace(action, added_at_version=None, added_at_timestamp=None)


def restore(
    table: TableHandle, *, version: int | str | None, timestamp: Moment | None, dry_run: bool
) -> RestoreReport:
    """Bring back the content of an older version. See `Table.restore`."""
    table.check_writable()
    if (version is None) == (timestamp is None):
        raise InvalidInputError("Give a version or a timestamp to restore.", version=version)
    planned = plan(table.log, version=version_of(table.log, version=version, timestamp=timestamp))
    if dry_run:
        return planned.preview()
    return table.show_newest_after(run(planned, table.log, engine_info=ENGINE_INFO))
