"""A companion at one version of its source, as a snapshot of a table that searches can plan on.

The snapshot is derived from the log of the companion and one snapshot of the source:

| of the source | in the view |
|---|---|
| a file that a split indexes | rows of that split |
| a deleted row, a file that is gone, a file that another split has too | rows in the split's deletion vector |
| a split of which no row is left | left out |
| a file that no split indexes | an entry without an index, whose rows are scanned |

So a query sees exactly the rows of that version, whatever was indexed, and needs no rule of its own.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from indextables.companion.companion_definition import (
    CompanionDefinition,
    doc_mapping,
    shown_configuration,
)
from indextables.companion.delta_source import DeltaSource
from indextables.companion.parquet_folder import ParquetFolder, files_digest
from indextables.companion.source_snapshot import (
    LATEST,
    SYNCED,
    At,
    FileKey,
    ListedFile,
    SourceAdapter,
    SourceSnapshot,
    row_counts,
)
from indextables.config import Settings
from indextables.config.companion import CompanionSettings
from indextables.errors import RefusedError, SourceChangedError
from indextables.model.actions import AddAction
from indextables.model.deletion_vector import RowSet, encode_rows
from indextables.model.file_list import from_actions, to_actions
from indextables.model.predicate import partition_predicate
from indextables.model.pruning import all_match
from indextables.model.snapshot import Base, Delta, Snapshot
from indextables.model.source_file import SourceFile, bounded_types, source_files
from indextables.splits.index.table_schema import TableSchema
from indextables.splits.read.cache import RecentItems
from indextables.splits.read.companion_split import SourceFolder
from indextables.storage.spec import StoreSpec, open_store

UNINDEXED_FOLDER = "source/"
"""Prefix of the path of an entry for a file that no split indexes."""


class IndexedSplit(Struct, frozen=True):
    """A live split of a companion and the files it indexes."""

    action: AddAction
    files: tuple[SourceFile, ...]


class CompanionView(Struct, frozen=True):
    """A companion at one version of its source."""

    definition: CompanionDefinition
    recorded: Snapshot
    """The companion's own log, on which the view is based."""
    source: SourceSnapshot
    snapshot: Snapshot
    """What searches plan on."""
    folder: SourceFolder
    sources: Mapping[str, tuple[SourceFile, ...]]
    """The files behind each entry of the snapshot, by its path."""
    unindexed: Mapping[str, int]
    """Number of rows of each entry without an index, by its path."""
    at: At
    max_scan_rows: int


def open_source_adapter(
    definition: CompanionDefinition,
    recorded: Snapshot | None,
    settings: Settings,
    *,
    now_ms: int,
) -> SourceAdapter:
    """Return what reads the source of a companion."""
    spec = StoreSpec.from_url(definition.source, settings)
    store = open_store(spec)
    if definition.format == "delta":
        return DeltaSource(store, spec)
    settle_seconds = settings.group(CompanionSettings).settle_seconds
    if recorded is None:
        return ParquetFolder(store, "", (), settle_seconds, now_ms)
    metadata = recorded.metadata
    partition_columns = tuple(metadata.partition_columns or ())
    return ParquetFolder(store, metadata.schema_string, partition_columns, settle_seconds, now_ms)


def indexed_splits(recorded: Snapshot) -> list[IndexedSplit]:
    """Return the live splits of a companion with the files they index, the newest first."""
    known: list[IndexedSplit] | None = recorded.derived_values.get(IndexedSplit)
    if known is None:
        actions = to_actions(recorded.all_files)
        actions.sort(key=lambda a: (-(a.added_at_version or 0), a.path))
        known = [IndexedSplit(action, source_files(action)) for action in actions]
        recorded.derived_values[IndexedSplit] = known
    return known


def read_source(
    definition: CompanionDefinition,
    recorded: Snapshot,
    settings: Settings,
    *,
    at: At,
    now_ms: int,
) -> SourceSnapshot:
    """Return the source of a companion at a version, restricted to the partitions that it shows."""
    splits = indexed_splits(recorded)
    known = row_counts([file for split in splits for file in split.files])
    adapter = open_source_adapter(definition, recorded, settings, now_ms=now_ms)
    wanted: At = at
    if at == SYNCED:
        wanted = LATEST
        if definition.synced_version.isdecimal():
            wanted = int(definition.synced_version)
    source = adapter.read(wanted, known=known)
    if definition.source_id != source.source_id:
        raise RefusedError(
            f"{definition.source} is another table than the companion was made of: its id is "
            f"{source.source_id}, not {definition.source_id}.",
            hint="Drop the companion with Table.drop(path) and make it again.",
            path=definition.source,
        )
    source = restrict(source, definition.where)
    if at == SYNCED and source.number is None:
        source = _synced_files(source, definition, splits)
    return source


def _synced_files(
    source: SourceSnapshot, definition: CompanionDefinition, splits: Sequence[IndexedSplit]
) -> SourceSnapshot:
    """Return the files of a folder at the last sync; an error if one of them is gone."""
    known = {(f.path, f.size, f.stamp) for split in splits for f in split.files}
    files = tuple(file for file in source.files if file.key in known)
    if files_digest([file.key for file in files]) != definition.synced_version:
        lost = sorted(path for path, _, _ in known - {file.key for file in source.files})
        raise SourceChangedError(
            f"Files of {definition.source} were replaced or removed since the last sync: "
            f"{', '.join(lost[:3])}.",
            hint="Open the companion at the newest version of the source, or run sync().",
            path=definition.source,
        )
    return replace(source, files=files, version=definition.synced_version)


def restrict(source: SourceSnapshot, where: str) -> SourceSnapshot:
    """Return a source with only the files of partitions that match a condition."""
    if not where:
        return source
    names = source.names
    logical = [names.logical_name(name) for name in source.partition_columns]
    bound = names.predicate(partition_predicate(where, names.logical, logical))
    actions = [
        AddAction(path=file.path, size=file.size, partition_values=dict(file.partition_values))
        for file in source.files
    ]
    shown = all_match(bound, from_actions(actions), partition_columns=source.partition_columns)
    kept = tuple(
        file for file, is_shown in zip(source.files, shown.to_pylist(), strict=True) if is_shown
    )
    if source.number is None:
        return replace(source, files=kept, version=files_digest([file.key for file in kept]))
    return replace(source, files=kept)


def open_view(
    definition: CompanionDefinition,
    recorded: Snapshot,
    settings: Settings,
    *,
    at: At,
    now_ms: int,
) -> CompanionView:
    """Return a companion at one version of its source."""
    source = read_source(definition, recorded, settings, at=at, now_ms=now_ms)
    prepared = _prepare(definition, recorded, source)
    return CompanionView(
        definition=definition,
        recorded=recorded,
        source=source,
        snapshot=prepared.snapshot,
        folder=SourceFolder(StoreSpec.from_url(definition.source, settings), prepared.mapping_json),
        sources=prepared.sources,
        unindexed=prepared.unindexed,
        at=at,
        max_scan_rows=settings.group(CompanionSettings).max_scan_rows,
    )


class _Prepared(Struct, frozen=True):
    """What a view needs of one log and one version of a source, for every handle."""

    source: SourceSnapshot
    snapshot: Snapshot
    mapping_json: str
    sources: Mapping[str, tuple[SourceFile, ...]]
    unindexed: Mapping[str, int]

    def is_of(self, source: SourceSnapshot) -> bool:
        """Return whether it was prepared for the same files and columns."""
        if self.source is source:
            return True
        return (
            source.number is None
            and self.source.version == source.version
            and self.source.schema_json == source.schema_json
        )


_VIEWS_AT_ONCE = 4


def _prepare(
    definition: CompanionDefinition, recorded: Snapshot, source: SourceSnapshot
) -> _Prepared:
    views: RecentItems[_Prepared] = recorded.derived_values.setdefault(
        _Prepared, RecentItems(_VIEWS_AT_ONCE)
    )
    known = views.get(source.version)
    if known is not None and known.is_of(source):
        return known
    names = source.names
    columns = TableSchema(names.physical, source.partition_columns)
    configuration = shown_configuration(
        recorded.metadata, definition, names, source.partition_columns
    )
    entries, unindexed = _entries(source, indexed_splits(recorded), columns)
    metadata = replace(
        recorded.metadata,
        schema_string=source.schema_json,
        partition_columns=source.partition_columns,
        configuration=configuration,
    )
    header = replace(recorded.header, metadata=metadata, schema_registry={})
    added = {action.path: action for action, _ in entries}
    snapshot = Snapshot(header, Base(), Delta(added, frozenset(added)))
    sources = {action.path: files for action, files in entries}
    mapping_json = doc_mapping(columns, configuration).to_json()
    prepared = _Prepared(source, snapshot, mapping_json, sources, unindexed)
    views.put(source.version, prepared, 1)
    return prepared


def covered_files(splits: Iterable[IndexedSplit]) -> set[FileKey]:
    """Return what identifies each file that a split indexes."""
    return {(file.path, file.size, file.stamp) for split in splits for file in split.files}


def _entries(
    source: SourceSnapshot, splits: Sequence[IndexedSplit], columns: TableSchema
) -> tuple[list[tuple[AddAction, tuple[SourceFile, ...]]], dict[str, int]]:
    """Return the entries of a view with their files, and the rows of those without an index."""
    live = {file.key: file for file in source.files}
    taken: set[FileKey] = set()
    entries = []
    for split in splits:
        shown = _visible_split(split, live, taken, columns)
        if shown is not None:
            entries.append((shown, split.files))
    entries.reverse()  # the oldest first, as in any other table
    unindexed = {}
    for file in source.files:
        if file.key not in taken and file.rows:
            action = _scanned_file(file)
            entries.append((action, (file.to_source_file(),)))
            unindexed[action.path] = file.living
    return entries, unindexed


def live_rows(
    split: IndexedSplit, live: Mapping[FileKey, ListedFile], taken: set[FileKey]
) -> RowSet:
    """Return the rows of a split that the source does not have any more, ascending; the files that
    it has are added to `taken`.
    """
    start, gone = 0, []
    for file in split.files:
        key = file.path, file.size, file.stamp
        listed = live.get(key)
        if listed is None or key in taken or listed.rows != file.rows:
            gone.append(np.arange(start, start + file.rows, dtype=np.int64))
        else:
            taken.add(key)
            if listed.deleted is not None and len(listed.deleted):
                gone.append(listed.deleted + start)
        start += file.rows
    return np.concatenate([np.empty(0, np.int64), *gone])


def _visible_split(
    split: IndexedSplit,
    live: Mapping[FileKey, ListedFile],
    taken: set[FileKey],
    columns: TableSchema,
) -> AddAction | None:
    """Return a split with the rows that the source has; None if there is none."""
    gone = live_rows(split, live, taken)
    total = sum(file.rows for file in split.files)
    if len(gone) == total:
        return None
    action = split.action
    kinds = {field.name: str(field.type) for field in columns.stored}
    recorded = bounded_types(action)
    sound = {name for name, kind in recorded.items() if kinds.get(name) == kind}
    return replace(
        action,
        doc_mapping_json=None,
        doc_mapping_ref=None,
        num_records=total - len(gone),
        deleted_records=len(gone) or None,
        deletion_vector=_inline(gone),
        stats=None,
        min_values=_some(action.min_values, sound),
        max_values=_some(action.max_values, sound),
    )


def _some(values: Mapping[str, str] | None, names: set[str]) -> dict[str, str] | None:
    kept = {name: value for name, value in (values or {}).items() if name in names}
    return kept or None


def _inline(rows: RowSet | None) -> str | None:
    """Return rows as a deletion vector; None without rows."""
    if rows is None or not len(rows):
        return None
    return f"inline:{base64.b64encode(encode_rows(rows)).decode()}"


def _scanned_file(file: ListedFile) -> AddAction:
    """Return the entry of a file that no split indexes."""
    return AddAction(
        path=f"{UNINDEXED_FOLDER}{file.path}",
        partition_values=dict(file.partition_values),
        size=file.size,
        num_records=file.living,
        deleted_records=file.rows - file.living or None,
        deletion_vector=_inline(file.deleted),
        companion_source_files=(file.path,),
    )
