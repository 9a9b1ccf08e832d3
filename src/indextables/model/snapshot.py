"""A snapshot is a fold over actions: start here to read the code.

A `Base` is what a checkpoint says (or nothing, for a table that has none); `replay` folds the versions after it,
in order, action by action, and the last word on a path, on the metadata, on the protocol and on each writer's `txn` wins.

The base's file list may hold a million rows and is not read until somebody asks for it; the versions after it are a
small `Delta` that is laid over whatever part of the base is read.
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
"""How many transaction ids a snapshot remembers, so that a writer can prove that its commit landed (rule R5)."""


class FileSource(Protocol):
    """Where the file list of a base comes from. `part_filter` may rule out whole parts of it before they are fetched."""

    def files(self, part_filter: PartFilter | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:
        """The live files of the base, at least those in parts that `part_filter` keeps; just these columns, if named."""
        ...


class PartFilter(Protocol):
    """Decides from their bounds which parts (manifests) of a file list can hold anything that is asked for."""

    def keeps(self, bounds: Mapping[str, Sequence[Bounds]], *, count: int, typed: bool) -> Sequence[bool]:
        """Which of `count` parts must be read. `bounds` holds the ends of a column in each part, for columns that have any.

        `typed` says that the ends were found by comparing values of the column's type; otherwise another writer found
        them, in an order that is not known. A part can always hold files without a value.
        """
        ...


class NoFiles(Struct, frozen=True):
    """The file source of a table that has no checkpoint."""

    def files(self, part_filter: PartFilter | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:  # noqa: ARG002
        """No files."""
        return _selected(empty_file_list(), columns)


class CommittedVersion(Struct, frozen=True, dict=True):
    """One version file as it was read."""

    version: int
    timestamp_ms: int
    actions: tuple[LogAction, ...]
    file_bytes: int | None = None
    """The size of its file, by which one is noticed that is not the one that was written."""
    file_md5: str | None = None
    """The same for one that is as long: some stores give it as the tag of the file."""

    @cached_property
    def info(self) -> CommitInfo:
        """The version's commitInfo, or an empty one."""
        return next((a for a in self.actions if isinstance(a, CommitInfo)), CommitInfo())

    @cached_property
    def added(self) -> frozenset[str]:
        """Paths the version adds."""
        return frozenset(a.path for a in self.actions if isinstance(a, AddAction))

    @cached_property
    def removed(self) -> frozenset[str]:
        """Paths the version removes."""
        return frozenset(a.path for a in self.actions if isinstance(a, RemoveAction))

    @cached_property
    def named(self) -> frozenset[str]:
        """Every file that the version makes part of the table: splits, and files of their deletion vectors."""
        return frozenset(named_paths(a for a in self.actions if isinstance(a, AddAction)))

    @cached_property
    def released(self) -> frozenset[str]:
        """Every file that the version takes away from a split: splits, and files of the deletion vectors they had."""
        removes = [a for a in self.actions if isinstance(a, RemoveAction)]
        vectors = (vector_path(a.deletion_vector) for a in removes)
        return self.removed.union(path for path in vectors if path is not None)

    @cached_property
    def doc_mappings(self) -> frozenset[str]:
        """The doc mappings that splits which the version adds carry themselves."""
        return _doc_mappings(a for a in self.actions if isinstance(a, AddAction))

    @cached_property
    def vectors(self) -> Mapping[str, str | None]:
        """The deletion vector of each path that the version adds."""
        return {a.path: a.deletion_vector for a in self.actions if isinstance(a, AddAction)}


TAG_TXNS = f"{RESERVED_APP_IDS}tag:"
"""What the appId of a `txn` begins with that names a version: a tag. It was taken away where that is below 0."""


class Header(Struct, frozen=True):
    """Everything of a table but its files."""

    version: int = -1
    timestamp_ms: int = 0
    protocol: ProtocolAction = LEGACY_PROTOCOL
    metadata: MetadataAction | None = None
    txns: Mapping[str, TxnAction] = field(default_factory=dict)
    skips: Mapping[str, SkipAction] = field(default_factory=dict)
    recent_txn_ids: tuple[str, ...] = ()
    txn_id: str | None = None
    """The transaction of this very version; None if its file, or the checkpoint that covers it, names none."""
    schema_registry: Mapping[str, str] = field(default_factory=dict)
    """Doc mappings by their hash, as the base stores them; a snapshot adds those in the table's configuration."""

    @property
    def tags(self) -> dict[str, int]:
        """The versions that have a name, which no clean-up touches; by name, oldest first."""
        named = [(txn.version, app_id) for app_id, txn in self.txns.items() if app_id.startswith(TAG_TXNS)]
        return {app_id.removeprefix(TAG_TXNS): version for version, app_id in sorted(named) if version >= 0}


class Base(Struct, frozen=True):
    """What a replay starts from, as a checkpoint says it: the header at its version and where its files are listed."""

    header: Header = Header()
    source: FileSource = NoFiles()


class Delta(Struct, frozen=True, dict=True):
    """What the versions after the base changed: the live additions, every path they touched, and every path they removed.

    A path that was removed and added again is in all three.
    """

    added: Mapping[str, AddAction] = field(default_factory=dict)
    touched: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()

    @cached_property
    def files(self) -> pa.Table:
        """The additions as a file list."""
        return from_actions(list(self.added.values()))

    @cached_property
    def doc_mappings(self) -> frozenset[str]:
        """The doc mappings that the additions carry themselves."""
        return _doc_mappings(self.added.values())

    def over(self, base: pa.Table) -> pa.Table:
        """The base's files with this delta laid over them, in the base's columns."""
        if self.touched and base.num_rows:
            overlaid = pc.is_in(base.column("path"), value_set=pa.array(sorted(self.touched), pa.string()))
            if pc.any(overlaid).as_py():  # else a list of a million files would be copied for one that was added
                base = base.filter(pc.invert(overlaid))
        added = self.files.select(base.column_names)
        return pa.concat_tables([base, added]) if base.num_rows else added


class Snapshot(Struct, frozen=True, dict=True):
    """The table at one version: a base, what is known to have changed since, and versions not yet laid over it.

    The header is folded at once; the file changes of `recent_versions` only when somebody asks for files, so that a
    writer that appends to a huge table never touches its file list.
    """

    header: Header
    base: Base = Base()
    folded: Delta = Delta()
    recent_versions: tuple[CommittedVersion, ...] = ()

    @property
    def version(self) -> int:
        """The version this snapshot shows."""
        return self.header.version

    @property
    def metadata(self) -> MetadataAction:
        """Schema, partitioning and configuration."""
        if self.header.metadata is None:
            raise ValueError("a snapshot is handed out only after its metadata was checked")
        return self.header.metadata

    @property
    def schema_registry(self) -> dict[str, str]:
        """Every doc mapping that a file of the table may name, by its hash."""
        return {**self.header.schema_registry, **registry_of(self.metadata.configuration)}

    @cached_property
    def derived(self) -> dict[type, Any]:
        """What others have worked out of this snapshot, by the type that does; it goes with the snapshot."""
        return {}

    @cached_property
    def delta(self) -> Delta:
        """What the versions since the base changed."""
        return _folded_files(self.folded, self.recent_versions) if self.recent_versions else self.folded

    @cached_property
    def all_files(self) -> pa.Table:
        """Every live file as an Arrow table (see `model.files`)."""
        return self.delta.over(self.base.source.files())

    @property
    def holds_files(self) -> bool:
        """Whether the whole file list is in memory, because somebody asked for it."""
        return "all_files" in self.__dict__

    def files(self, part_filter: PartFilter | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Live files, at least those in the parts of the list that `part_filter` keeps; just these columns, if named."""
        if (part_filter is None and columns is None) or self.holds_files:
            return _selected(self.all_files, columns)
        read = None if columns is None else list(dict.fromkeys(["path", *columns]))
        return _selected(self.delta.over(self.base.source.files(part_filter, columns=read)), columns)


def _doc_mappings(adds: Iterable[AddAction]) -> frozenset[str]:
    return frozenset(a.doc_mapping_json for a in adds if a.doc_mapping_json)


def _selected(files: pa.Table, columns: Sequence[str] | None) -> pa.Table:
    return files if columns is None else files.select(list(columns))


def files_not_in(one: Snapshot, other: Snapshot) -> pa.Table:
    """The live files of one snapshot that another does not have, or has with other rows deleted."""
    known = _identities(other.files(columns=["path", "deletion_vector"]))
    return one.all_files.filter(pc.invert(pc.is_in(_identities(one.all_files), value_set=known.unique())))


def _identities(files: pa.Table) -> pa.ChunkedArray:
    """What each split is: its path and its deletion vector."""
    vectors = files.column("deletion_vector")
    if vectors.null_count == len(vectors):
        return files.column("path")
    return pc.binary_join_element_wise(files.column("path"), vectors, "\n", null_handling="skip")


def replay(start: Base | Snapshot, versions: Iterable[CommittedVersion]) -> Snapshot:
    """Fold versions, in order, over a base or over an earlier snapshot of the same table."""
    later = tuple(versions)
    if isinstance(start, Base):
        return Snapshot(_folded_header(start.header, later), start, Delta(), later)
    has_delta = "delta" in start.__dict__
    folded, recent = (start.delta, later) if has_delta else (start.folded, start.recent_versions + later)
    return Snapshot(_folded_header(start.header, later), start.base, folded, recent)


def _folded_files(delta: Delta, versions: Iterable[CommittedVersion]) -> Delta:
    added = dict(delta.added)
    touched = set(delta.touched)
    removed = set(delta.removed)
    for version in versions:
        for action in version.actions:
            if isinstance(action, AddAction):
                # Taken out first, so that a path that is added again stands at its new place in the order.
                added.pop(action.path, None)
                added[action.path] = msgspec.structs.replace(
                    action, added_at_version=version.version, added_at_timestamp=version.timestamp_ms
                )
            elif isinstance(action, RemoveAction):
                added.pop(action.path, None)
        touched |= version.added
        touched |= version.removed
        removed |= version.removed
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
            header, version=version.version, timestamp_ms=version.timestamp_ms, txn_id=version.info.txn_id or None
        )
    return replace(header, txns=txns, skips=skips, recent_txn_ids=tuple(txn_ids[-RECENT_TXN_IDS:]))


def combined_skip(earlier: SkipAction | None, later: SkipAction) -> SkipAction:
    """Two skips of one path as one: the later's words, the longer cooldown, the higher count."""
    if earlier is None:
        return later
    waits = [w for w in (earlier.retry_after, later.retry_after) if w is not None]
    return msgspec.structs.replace(
        later, retry_after=max(waits, default=None), skip_count=max(earlier.skip_count, later.skip_count)
    )
