"""Salvage a log in which versions are lost or damaged, including the first one.

The newest readable version is continued with every existing later version, whatever is missing in
between, so that acknowledged commits after a hole are kept as far as their splits exist. Metadata
that is lost with version 0 comes from the splits. A new version and its state then complete the
table in place; no existing file is changed.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import (
    BadFileError,
    CorruptTableError,
    NotFoundError,
    RefusedError,
    UnsupportedError,
)
from indextables.log.checkpoint.identity import without_strangers
from indextables.log.create import FirstVersion, create_table
from indextables.log.log_files import LOG, LogListing, list_log
from indextables.log.replay import check_read, readable_versions
from indextables.log.transaction import Changes
from indextables.log.transaction_log import TransactionLog
from indextables.model import protocol as protocols
from indextables.model.actions import AddAction, LogAction, MetadataAction, RemoveAction
from indextables.model.conflicts import Operation
from indextables.model.deletion_vector import vector_path
from indextables.model.file_list import to_actions
from indextables.model.report import Report, pluralize, was
from indextables.model.schema_registry import with_mappings
from indextables.model.snapshot import TAG_TXNS, Base, CommittedVersion, Snapshot, replay
from indextables.operations.jobs import DRY_RUN, SUCCESS
from indextables.operations.purge import own_files
from indextables.operations.rebuild import LeftOut, RepairReport, layout_of, splits_described
from indextables.storage.store import ObjectInfo

_SHOWN = 20
"""Maximum number of missing versions in a message."""


class Salvaged(Struct, frozen=True):
    """The recoverable part of a table."""

    snapshot: Snapshot
    newest: int
    """The highest version of the damaged log."""
    missing: tuple[int, ...]
    """Versions up to it that are lost or unreadable."""
    adds: tuple[AddAction, ...]
    left_out: tuple[LeftOut, ...]
    unnamed: int
    """Splits in the store that no remaining version names."""

    def describe_lost_versions(self) -> str:
        """Describe what is missing as a sentence; empty if nothing is."""
        if not self.missing:
            return ""
        numbers = ", ".join(map(str, self.missing[:_SHOWN])) + (
            ", ..." if len(self.missing) > _SHOWN else ""
        )
        noun = "Version" if len(self.missing) == 1 else "Versions"
        text = f"{noun} {numbers} {was(len(self.missing))} lost or cannot be read; every other version was kept. "
        if self.unnamed:
            text += f"{pluralize(self.unnamed, 'split')} in the store {was(self.unnamed)} left out: no version names them. "
        return text


class SalvagePlan(Report, frozen=True):
    """What a repair in place would make of a damaged log."""

    table_path: str
    version: int
    missing_versions: tuple[int, ...]
    salvaged: Salvaged
    hidden: ClassVar[tuple[str, ...]] = ("salvaged",)

    def report(self, status: str) -> RepairReport:
        """Return the counts."""
        found = self.salvaged
        return RepairReport(
            source_path=self.table_path,
            target_path=self.table_path,
            source_version=found.snapshot.version,
            total_splits=len(found.adds) + len(found.left_out),
            valid_splits=len(found.adds),
            missing_splits=len(found.left_out),
            status=status,
            message=f"{found.describe_lost_versions()}The table goes on as version {self.version}.",
            left_out=found.left_out,
            missing_versions=self.missing_versions,
        )

    def preview(self) -> RepairReport:
        """Return the report of a dry run."""
        return self.report(DRY_RUN)


def plan_salvage(log: TransactionLog, *, parallelism: int) -> SalvagePlan:
    """Read what is left of a damaged log. Changes nothing."""
    found = read_what_is_left(log, parallelism=parallelism)
    return SalvagePlan(log.store.url, found.newest + 1, found.missing, found)


def run_salvage(planned: SalvagePlan, log: TransactionLog, *, engine_info: str) -> RepairReport:
    """Write the version that completes the table, and its state."""
    found = planned.salvaged
    header = found.snapshot.header
    removed = tuple(
        RemoveAction(path=left.path, deletion_timestamp=log.now_ms()) for left in found.left_out
    )
    without = replay(found.snapshot, [CommittedVersion(found.newest, header.timestamp_ms, removed)])
    log.adopt(
        without,
        Changes(
            Operation.REPAIR,
            keep_empty=True,
            metadata=found.snapshot.metadata,
            protocol=protocols.take_over(header.protocol),
            parameters={"missing": list(found.missing[:_SHOWN]), "splits": len(found.adds)},
            engine_info=engine_info,
        ),
    )
    log.reload()
    return planned.report(SUCCESS)


def read_what_is_left(log: TransactionLog, *, parallelism: int) -> Salvaged:
    """Return the table from its newest readable version and every existing later version.

    Raises:
        TableNotFoundError: There is no log.
        CorruptTableError: Neither a version nor a split records the columns.
    """
    listing = without_strangers(log.bases, list_log(log.store))
    start = _newest_readable(log, listing)
    at = start.version if start is not None else -1
    later = _readable(log, listing, after=at)
    snapshot = replay(start if start is not None else Base(), later)
    numbers = {version.version for version in later}
    missing = tuple(v for v in range(at + 1, listing.newest + 1) if v not in numbers)
    stored = {info.path: info for info in own_files(log.store.list())}
    if snapshot.header.metadata is None:
        snapshot = _with_metadata_of_splits(log, snapshot, stored, parallelism)
    check_read(log.store, snapshot)
    protocols.check_writable(snapshot.header.protocol, path=log.store.url)
    adds, left_out = _present(snapshot, stored)
    named = {path for version in later for path in (*version.named_files, *version.released_files)}
    named |= {action.path for action in adds} | {left.path for left in left_out}
    if missing:
        unnamed = sum(1 for path in stored if path.endswith(".split") and path not in named)
    else:
        unnamed = 0
    return Salvaged(snapshot, listing.newest, missing, tuple(adds), tuple(left_out), unnamed)


def _newest_readable(log: TransactionLog, listing: LogListing) -> Snapshot | None:
    """Return the newest version, or the newest before the damage, or None if no version can be
    read.
    """
    try:
        snapshot = log.reload()
        snapshot.files(columns=["path"])
        return snapshot
    except CorruptTableError:
        pass
    for version in reversed(readable_versions(listing)):
        try:
            snapshot = log.at_version(version)
            snapshot.files(columns=["path"])
            return snapshot
        except (CorruptTableError, NotFoundError, UnsupportedError):
            continue
    return None


def _readable(log: TransactionLog, listing: LogListing, *, after: int) -> list[CommittedVersion]:
    """Return the readable versions after one, in order."""
    found = []
    for number in sorted(v for v in listing.versions if v > after):
        try:
            found += log.reader.read([(number, listing.versions[number])])
        except (BadFileError, NotFoundError):
            continue
    return found


def _with_metadata_of_splits(
    log: TransactionLog, snapshot: Snapshot, stored: dict[str, ObjectInfo], parallelism: int
) -> Snapshot:
    """Return the table with the columns, partitions and index of its splits, under a new id."""
    files = snapshot.files(columns=["path", "deletion_vector"])
    infos = [stored[path] for path in files.column("path").to_pylist() if path in stored]
    layout = layout_of(splits_described(log.store, infos, parallelism), url=log.store.url)
    metadata = MetadataAction(
        id=log.new_id(),
        schema_string=layout.schema_json,
        partition_columns=layout.partition_columns,
        configuration=dict(layout.configuration),
        created_time=log.now_ms(),
    )
    protocol = snapshot.header.protocol
    if protocol == protocols.LEGACY_PROTOCOL:  # the one that was recorded is lost with version 0
        masked = files.column("deletion_vector").null_count < files.num_rows
        features = (
            (*protocols.EVOLUTION, protocols.DELETION_VECTORS) if masked else protocols.EVOLUTION
        )
        protocol = protocols.add_features(protocols.NEW_TABLE_PROTOCOL, *features)
    header = replace(snapshot.header, metadata=metadata, protocol=protocol)
    return replace(snapshot, header=header)


def _present(
    snapshot: Snapshot, stored: dict[str, ObjectInfo]
) -> tuple[list[AddAction], list[LeftOut]]:
    """Divide the splits of a snapshot into those that exist as recorded, and the others."""
    adds: list[AddAction] = []
    left_out: list[LeftOut] = []
    for action in with_mappings(to_actions(snapshot.all_files), snapshot.schema_registry):
        info, vector = stored.get(action.path), vector_path(action.deletion_vector)
        if vector is not None and vector not in stored:
            left_out.append(
                LeftOut(
                    action.path, f"{vector}, which says which of its rows are deleted, is missing"
                )
            )
        elif info is not None and info.size == action.size:
            adds.append(action)
        else:
            if info is None:
                reason = "it is missing"
            else:
                reason = f"it has {info.size} bytes; the log says {action.size}"
            left_out.append(LeftOut(action.path, reason))
    return adds, left_out


class CopyPlan(Report, frozen=True):
    """The content of a clean copy."""

    source_path: str
    target_path: str
    source_version: int
    valid_splits: int
    left_out: tuple[LeftOut, ...]
    missing_versions: tuple[int, ...]
    salvaged: Salvaged
    hidden: ClassVar[tuple[str, ...]] = ("salvaged",)

    def report(self, status: str) -> RepairReport:
        """Return the counts."""
        tags = ", ".join(map(repr, self.salvaged.snapshot.header.tags))
        if tags:
            untagged = (
                f"The copy begins with version 0, without the versions that had the tags {tags}. "
            )
        else:
            untagged = ""
        moved = (
            f"{self.target_path} holds a log and no splits, and is not read there. To use it, move "
            f"{self.source_path}/{LOG} out of the table, and {self.target_path}/{LOG} into its place."
        )
        return RepairReport(
            source_path=self.source_path,
            target_path=self.target_path,
            source_version=self.source_version,
            total_splits=self.valid_splits + len(self.left_out),
            valid_splits=self.valid_splits,
            missing_splits=len(self.left_out),
            status=status,
            message=self.salvaged.describe_lost_versions() + untagged + moved,
            left_out=self.left_out,
            missing_versions=self.missing_versions,
        )

    def preview(self) -> RepairReport:
        """Return the report of a dry run."""
        return self.report(DRY_RUN)


def plan_copy(source: TransactionLog, target: TransactionLog, *, parallelism: int) -> CopyPlan:
    """Read the source as far as possible, and find which of its splits exist."""
    if source.store.url == target.store.url:
        raise RefusedError(
            f"A copy of the log of {source.store.url} cannot be written over it.",
            hint="Give another place; the copy can be moved afterwards.",
            path=source.store.url,
        )
    found = read_what_is_left(source, parallelism=parallelism)
    return CopyPlan(
        source_path=source.store.url,
        target_path=target.store.url,
        source_version=found.snapshot.version,
        valid_splits=len(found.adds),
        left_out=found.left_out,
        missing_versions=found.missing,
        salvaged=found,
    )


def copy_log(planned: CopyPlan, target: TransactionLog, *, engine_info: str) -> RepairReport:
    """Write the copy. Raises TableExistsError if there is a table at the destination."""
    snapshot = planned.salvaged.snapshot
    header = snapshot.header
    # Their versions in the copy are others.
    adds = [
        replace(action, added_at_version=None, added_at_timestamp=None)
        for action in planned.salvaged.adds
    ]
    paths = {action.path for action in adds}
    skips = [skip for skip in header.skips.values() if skip.path in paths]
    # A tag names a version by its number, and the numbers of the copy are others.
    txns = [txn for app_id, txn in header.txns.items() if not app_id.startswith(TAG_TXNS)]
    actions: list[LogAction] = [*txns, *adds, *skips]
    first = FirstVersion(
        operation=Operation.REPAIR,
        protocol=header.protocol,
        actions=actions,
        parameters={"source": planned.source_path, "version": planned.source_version},
    )
    create_table(target, snapshot.metadata, exist_ok=False, engine_info=engine_info, first=first)
    return planned.report(SUCCESS)
