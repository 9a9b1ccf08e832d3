"""Snapshots: the state of a table at one version, folded from actions. Start here to read the code.

A `Base` is the content of a checkpoint (or nothing). `replay` folds the versions after it in order,
action by action; the last action on a path, the metadata, the protocol and each writer's `txn`
wins. The base's file list may hold a million rows and is read on demand; the versions after it are
a small `Delta` that is applied to whatever part of the base is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

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
from indextables.model.arguments import RESERVED_APP_IDS
from indextables.model.deletion_vector import named_paths, vector_path
from indextables.model.file_list import empty_file_list, from_actions
from indextables.model.protocol import LEGACY_PROTOCOL
from indextables.model.schema_registry import registry_of
from indextables.model.state import Bounds

RECENT_TXN_IDS = 1_000
"""Number of transaction ids in a snapshot, by which a writer can prove that its commit landed (rule
R5).
"""


class FileSource(Protocol):
    """The source of a base's file list. `part_filter` may exclude parts before they are read."""

    def files(
        self, part_filter: PartFilter | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the live files of the base, at least those in parts that `part_filter` keeps, with
        only the named columns.
        """
        ...


class PartFilter(Protocol):
    """Decides by their bounds which parts (manifests) of a file list can hold a wanted file."""

    def keeps(
        self, bounds: Mapping[str, Sequence[Bounds]], *, count: int, typed: bool
    ) -> Sequence[bool]:
        """Return which of `count` parts must be read.

        `bounds` holds the bounds of a column in each part, if there are any. `typed` means that
        they were computed by comparing values of the column's type; otherwise their order is
        unknown. A part can always hold files without a value.
        """
        ...


class NoFiles(Struct, frozen=True):
    """The file source of a table without a checkpoint."""

    def files(
        self,
        part_filter: PartFilter | None = None,  # noqa: ARG002
        *,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return no files."""
        return _select(empty_file_list(), columns)


class CommittedVersion(Struct, frozen=True, dict=True):
    """One version file as it was read."""

    version: int
    timestamp_ms: int
    actions: tuple[LogAction, ...]
    file_bytes: int | None = None
    """The size of its file, to detect a replaced one."""
    file_md5: str | None = None
    """The MD5 of its file, to detect a replaced one of the same size; some stores report it as the
    tag.
    """

    @cached_property
    def info(self) -> CommitInfo:
        """The version's commitInfo, or an empty one."""
        return next((a for a in self.actions if isinstance(a, CommitInfo)), CommitInfo())

    @cached_property
    def added_paths(self) -> frozenset[str]:
        """Paths that the version adds."""
        return frozenset(a.path for a in self.actions if isinstance(a, AddAction))

    @cached_property
    def removed_paths(self) -> frozenset[str]:
        """Paths that the version removes."""
        return frozenset(a.path for a in self.actions if isinstance(a, RemoveAction))

    @cached_property
    def named_files(self) -> frozenset[str]:
        """Every file that the version adds to the table: splits, and files of their deletion
        vectors.
        """
        return frozenset(named_paths(a for a in self.actions if isinstance(a, AddAction)))

    @cached_property
    def released_files(self) -> frozenset[str]:
        """Every file that the version releases: removed splits, and files of replaced deletion
        vectors.
        """
        removes = [a for a in self.actions if isinstance(a, RemoveAction)]
        vectors = (vector_path(a.deletion_vector) for a in removes)
        return self.removed_paths.union(path for path in vectors if path is not None)

    @cached_property
    def doc_mappings(self) -> frozenset[str]:
        """The inline doc mappings of added splits."""
        return _doc_mappings(a for a in self.actions if isinstance(a, AddAction))

    @cached_property
    def vectors(self) -> Mapping[str, str | None]:
        """The deletion vector of each path that the version adds."""
        return {a.path: a.deletion_vector for a in self.actions if isinstance(a, AddAction)}


TAG_TXNS = f"{RESERVED_APP_IDS}tag:"
"""Prefix of the appId of a `txn` that tags a version. A value below 0 removes the tag."""


class Header(Struct, frozen=True):
    """Everything of a table except its files."""

    version: int = -1
    timestamp_ms: int = 0
    protocol: ProtocolAction = LEGACY_PROTOCOL
    metadata: MetadataAction | None = None
    txns: Mapping[str, TxnAction] = field(default_factory=dict)
    skips: Mapping[str, SkipAction] = field(default_factory=dict)
    recent_txn_ids: tuple[str, ...] = ()
    txn_id: str | None = None
    """The transaction of this version; None if its file, or the checkpoint that covers it, has
    none.
    """
    schema_registry: Mapping[str, str] = field(default_factory=dict)
    """Doc mappings by hash, as stored in the base; a snapshot adds those in the table's
    configuration.
    """

    @property
    def tags(self) -> dict[str, int]:
        """Tagged versions, protected from clean-up; by name, oldest first."""
        named = [
            (txn.version, app_id)
            for app_id, txn in self.txns.items()
            if app_id.startswith(TAG_TXNS)
        ]
        return {
            app_id.removeprefix(TAG_TXNS): version
            for version, app_id in sorted(named)
            if version >= 0
        }


class Base(Struct, frozen=True):
    """The starting point of a replay: the header at its version, and the source of its file list."""

    header: Header = Header()
    source: FileSource = NoFiles()


class Delta(Struct, frozen=True, dict=True):
    """The changes since the base: live additions, every path they touched, and every path they
    removed.

    A path that was removed and added again is in all three.
    """

    added: Mapping[str, AddAction] = field(default_factory=dict)
    touched: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()

    @cached_property
    def files(self) -> pa.Table:
        """Return the additions as a file list."""
        return from_actions(list(self.added.values()))

    @cached_property
    def doc_mappings(self) -> frozenset[str]:
        """Return the inline doc mappings of the additions."""
        return _doc_mappings(self.added.values())

    def over(self, base: pa.Table) -> pa.Table:
        """Apply this delta to the base's files, in the base's columns."""
        if self.touched and base.num_rows:
            overlaid = pc.is_in(
                base.column("path"), value_set=pa.array(sorted(self.touched), pa.string())
            )
            if pc.any(
                overlaid
            ).as_py():  # else a list of a million files would be copied for one that was added
                base = base.filter(pc.invert(overlaid))
        added = self.files.select(base.column_names)
        if base.num_rows:
            return pa.concat_tables([base, added])
        return added


class Snapshot(Struct, frozen=True, dict=True):
    """The table at one version: a base, known changes since, and versions not yet applied.

    The header is folded at once; the file changes of `recent_versions` only when files are
    requested, so that an append to a huge table never reads its file list.
    """

    header: Header
    base: Base = Base()
    folded: Delta = Delta()
    recent_versions: tuple[CommittedVersion, ...] = ()

    @property
    def version(self) -> int:
        """The version of this snapshot."""
        return self.header.version

    @property
    def metadata(self) -> MetadataAction:
        """Schema, partitioning and configuration."""
        if self.header.metadata is None:
            raise ValueError("a snapshot is handed out only after its metadata was checked")
        return self.header.metadata

    @property
    def schema_registry(self) -> dict[str, str]:
        """Every doc mapping that a file of the table may name, by hash."""
        return {**self.header.schema_registry, **registry_of(self.metadata.configuration)}

    @cached_property
    def derived_values(self) -> dict[type, Any]:
        """Values that other modules derived from this snapshot, by type; discarded with the
        snapshot.
        """
        return {}

    @cached_property
    def delta(self) -> Delta:
        """The changes since the base."""
        if self.recent_versions:
            return _folded_files(self.folded, self.recent_versions)
        return self.folded

    @cached_property
    def all_files(self) -> pa.Table:
        """Return every live file as an Arrow table (see `model.file_list`)."""
        return self.delta.over(self.base.source.files())

    @property
    def holds_files(self) -> bool:
        """Whether the whole file list is in memory."""
        return "all_files" in self.__dict__

    def files(
        self, part_filter: PartFilter | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return live files, at least those in parts that `part_filter` keeps, with only the named
        columns.
        """
        if (part_filter is None and columns is None) or self.holds_files:
            return _select(self.all_files, columns)
        if columns is None:
            read = None
        else:
            read = list(dict.fromkeys(["path", *columns]))
        return _select(self.delta.over(self.base.source.files(part_filter, columns=read)), columns)


def _doc_mappings(adds: Iterable[AddAction]) -> frozenset[str]:
    return frozenset(a.doc_mapping_json for a in adds if a.doc_mapping_json)


def _select(files: pa.Table, columns: Sequence[str] | None) -> pa.Table:
    if columns is None:
        return files
    return files.select(list(columns))


def files_not_in(one: Snapshot, other: Snapshot) -> pa.Table:
    """Return the live files of one snapshot that another lacks or has with another deletion vector."""
    known = _identities(other.files(columns=["path", "deletion_vector"]))
    return one.all_files.filter(
        pc.invert(pc.is_in(_identities(one.all_files), value_set=known.unique()))
    )


def _identities(files: pa.Table) -> pa.ChunkedArray:
    """Return the identity of each split: path and deletion vector."""
    vectors = files.column("deletion_vector")
    if vectors.null_count == len(vectors):
        return files.column("path")
    return pc.binary_join_element_wise(files.column("path"), vectors, "\n", null_handling="skip")


def replay(start: Base | Snapshot, versions: Iterable[CommittedVersion]) -> Snapshot:
    """Fold versions in order over a base or an earlier snapshot of the same table."""
    later = tuple(versions)
    if isinstance(start, Base):
        return Snapshot(_folded_header(start.header, later), start, Delta(), later)
    has_delta = "delta" in start.__dict__
    folded, recent = (
        (start.delta, later) if has_delta else (start.folded, start.recent_versions + later)
    )
    return Snapshot(_folded_header(start.header, later), start.base, folded, recent)


def _folded_files(delta: Delta, versions: Iterable[CommittedVersion]) -> Delta:
    added = dict(delta.added)
    touched = set(delta.touched)
    removed = set(delta.removed)
    for version in versions:
        for action in version.actions:
            if isinstance(action, AddAction):
                # Taken out first, so that a path that is added again stands at its new place in the
                # order.
                added.pop(action.path, None)
                added[action.path] = msgspec.structs.replace(
                    action,
                    added_at_version=version.version,
                    added_at_timestamp=version.timestamp_ms,
                )
            elif isinstance(action, RemoveAction):
                added.pop(action.path, None)
        touched |= version.added_paths
        touched |= version.removed_paths
        removed |= version.removed_paths
    return Delta(added, frozenset(touched), frozenset(removed))


def _folded_header(header: Header, versions: Iterable[CommittedVersion]) -> Header:
    txns, skips, txn_ids = dict(header.txns), dict(header.skips), list(header.recent_txn_ids)
    for version in versions:
        for action in version.actions:
            if isinstance(action, AddAction):
                continue
            if isinstance(action, RemoveAction):
                skips.pop(action.path, None)
            elif isinstance(action, MetadataAction):
                header = replace(header, metadata=action)
            elif isinstance(action, ProtocolAction):
                header = replace(header, protocol=action)
            elif isinstance(action, TxnAction):
                txns[action.app_id] = action
            elif isinstance(action, SkipAction):
                skips[action.path] = combined_skip(skips.get(action.path), action)
            elif isinstance(action, CommitInfo) and action.txn_id:
                txn_ids.append(action.txn_id)
        header = replace(
            header,
            version=version.version,
            timestamp_ms=version.timestamp_ms,
            txn_id=version.info.txn_id or None,
        )
    return replace(header, txns=txns, skips=skips, recent_txn_ids=tuple(txn_ids[-RECENT_TXN_IDS:]))


def combined_skip(earlier: SkipAction | None, later: SkipAction) -> SkipAction:
    """Combine two skips of one path: the later message, the longer cooldown, the higher count."""
    if earlier is None:
        return later
    waits = [w for w in (earlier.retry_after, later.retry_after) if w is not None]
    return msgspec.structs.replace(
        later,
        retry_after=max(waits, default=None),
        skip_count=max(earlier.skip_count, later.skip_count),
    )
