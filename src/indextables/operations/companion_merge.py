"""Keep companions small: merge their splits, and drop those whose files the source has lost.

A merge stacks indexes and reads no row of the source. A file that the source can still show stays in
the merged split, whether the newest version has it or not; a file that is gone is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from indextables.companion.companion_definition import CompanionDefinition
from indextables.companion.source_snapshot import LATEST, SourceSnapshot
from indextables.companion.view import IndexedSplit, indexed_splits, read_source
from indextables.config.splits import SplitWriterSettings
from indextables.config.upkeep import MergeSettings
from indextables.handle import ENGINE_INFO, TableHandle
from indextables.log.transaction import Changes
from indextables.model.actions import AddAction
from indextables.model.conflicts import Operation
from indextables.model.file_list import from_actions
from indextables.model.predicate import Where, partition_predicate
from indextables.model.pruning import all_match
from indextables.model.report import Progress, pluralize
from indextables.model.schema import schema_from_json
from indextables.model.source_file import (
    IDENTITIES_TAG,
    TYPES_TAG,
    SourceFile,
    bounded_types,
    encode_identities,
    encode_types,
)
from indextables.operations.jobs import DRY_RUN, NO_ACTION, SUCCESS
from indextables.splits.format.source import open_source
from indextables.splits.read.reader import SplitReader
from indextables.splits.write.companion_writer import merge_companion_splits
from indextables.splits.write.writer import new_split_name, split_path
from indextables.storage.spec import StoreSpec, open_store


class SourcePresence:
    """Which files of a source can still be read: those of the newest version, and those in its
    store.
    """

    def __init__(self, source: SourceSnapshot, url: str, table: TableHandle) -> None:
        self._live = {file.key for file in source.files}
        self._store = open_store(StoreSpec.from_url(url, table.settings))
        self._has_versions = source.number is not None
        self._known: dict[str, bool] = {}

    def has(self, file: SourceFile) -> bool:
        """Return whether a version of the source may show the file."""
        if (file.path, file.size, file.stamp) in self._live:
            return True
        if not self._has_versions:
            return False
        if file.path not in self._known:
            self._known[file.path] = self._store.head(file.path) is not None
        return self._known[file.path]


def drop_lost_splits(table: TableHandle, *, dry_run: bool) -> int:
    """Remove the splits of a companion of which the source can no longer show a file; return how
    many there are.
    """
    recorded, presence = _presence(table)
    lost = [
        split.action.path
        for split in indexed_splits(recorded.snapshot)
        if not any(presence.has(file) for file in split.files)
    ]
    if lost and not dry_run:
        changes = Changes(
            Operation.SYNC, removes=tuple(lost), removes_change_data=False, engine_info=ENGINE_INFO
        )
        table.log.commit(recorded.snapshot, changes)
    return len(lost)


def _presence(table: TableHandle) -> tuple[TableHandle, SourcePresence]:
    recorded = table.read_newest()
    definition = CompanionDefinition.of(recorded.snapshot.metadata)
    assert definition is not None, "a companion never becomes another table"
    source = read_source(
        definition,
        recorded.snapshot,
        recorded.physical_settings,
        at=LATEST,
        now_ms=table.log.now_ms(),
    )
    return recorded, SourcePresence(source, definition.source, recorded)


class MergeOfCompanion:
    """A merge of the small splits of a companion."""

    def __init__(self, table: TableHandle, target_bytes: int, where: Where | None) -> None:
        self._table = table
        self._recorded, self._presence = _presence(table)
        self._settings = self._recorded.settings
        threshold = self._settings.group(MergeSettings).skip_threshold
        self._target_bytes, self._small_bytes = target_bytes, threshold * target_bytes
        self.groups = list(self._plan(where))

    def _plan(self, where: Where | None) -> Iterator[list[IndexedSplit]]:
        """Yield splits of one partition and one doc mapping that become one."""
        by_kind: dict[tuple[object, ...], list[IndexedSplit]] = {}
        registry = self._recorded.snapshot.schema_registry
        for split in reversed(self._in_partitions(where)):
            action = split.action
            if action.size >= self._small_bytes:
                continue
            mapping = action.doc_mapping_json or registry.get(action.doc_mapping_ref or "", "")
            values = tuple(sorted((action.partition_values or {}).items()))
            types = tuple(sorted(bounded_types(action).items()))
            by_kind.setdefault((values, mapping, types), []).append(split)
        for several in by_kind.values():
            group: list[IndexedSplit] = []
            size = 0
            for split in several:
                if group and size + split.action.size > self._target_bytes:
                    yield from [group] if len(group) > 1 else []
                    group, size = [], 0
                group.append(split)
                size += split.action.size
            yield from [group] if len(group) > 1 else []

    def _in_partitions(self, where: Where | None) -> list[IndexedSplit]:
        splits = indexed_splits(self._recorded.snapshot)
        if where is None or not splits:
            return list(splits)
        columns = self._recorded.physical_partition_columns
        bound = self._recorded.names.predicate(
            partition_predicate(where, self._recorded.schema, self._recorded.partition_columns)
        )
        files = from_actions([split.action for split in splits])
        kept = all_match(bound, files, partition_columns=columns).to_pylist()
        return [split for split, is_kept in zip(splits, kept, strict=True) if is_kept]

    def run(self, progress: Progress) -> tuple[list[AddAction], int | None]:
        """Merge every group and commit it; return the new splits and the last version."""
        read, version = self._recorded.snapshot, None
        added = []
        for number, group in enumerate(self.groups):
            action = self._merge(group)
            changes = Changes(
                Operation.MERGE,
                adds=(action,) if action is not None else (),
                removes=tuple(split.action.path for split in group),
                removes_change_data=False,
                engine_info=ENGINE_INFO,
            )
            written = [] if action is None else [action.path]
            committed = self._table.log.commit(read, changes, written=written)
            read, version = committed.snapshot, committed.version
            if action is not None:
                added.append(action)
            progress(number + 1, len(self.groups), "groups")
        return added, version

    def _merge(self, group: Sequence[IndexedSplit]) -> AddAction | None:
        """Merge a group and upload the split; None if the source has lost all its files."""
        store, sources = self._table.log.store, []
        for split in group:
            kept = [file for file in split.files if self._presence.has(file)]
            if not kept:
                continue
            alive = np.concatenate(
                [np.full(file.rows, self._presence.has(file)) for file in split.files]
            )
            action = split.action
            source = open_source(store, action.path, size=action.size)
            reader = SplitReader.open(source, footer_start=action.footer_start_offset)
            sources.append((reader, kept, alive))
        if not sources:
            return None
        schema = schema_from_json(self._recorded.snapshot.metadata.schema_string)
        recorded = bounded_types(group[0].action)
        types = {
            name: schema.field(name).type
            for name, kind in recorded.items()
            if name in schema.names and str(schema.field(name).type) == kind
        }
        settings = self._settings.group(SplitWriterSettings)
        first = group[0].action
        with merge_companion_splits(
            sources, sources[0][0].mapping, types, settings=settings
        ) as split_info:
            path = split_path(first.partition_values or {}, new_split_name())
            action = split_info.add_action(
                path,
                partition_values=dict(first.partition_values or {}),
                modification_time=self._table.log.now_ms(),
                data_change=False,
                num_merge_ops=1 + max(s.action.num_merge_ops or 0 for s in group),
            )
            store.put_file(path, split_info.path)
        files = [file for _, kept, _ in sources for file in kept]
        bounded = {*(action.min_values or {}), *(action.max_values or {})}
        tags = {
            IDENTITIES_TAG: encode_identities(files),
            TYPES_TAG: encode_types({name: recorded[name] for name in sorted(bounded)}),
        }
        versions = [s.action.companion_delta_version for s in group]
        return replace(
            action,
            companion_source_files=tuple(file.path for file in files),
            companion_delta_version=max((v for v in versions if v is not None), default=None),
            tags=tags,
        )

    def outcome(self, added: Sequence[AddAction], *, dry_run: bool) -> tuple[str, str]:
        """Return the status of the merge and a sentence about it."""
        count = sum(len(group) for group in self.groups)
        if not count:
            return NO_ACTION, "There is nothing to merge."
        if dry_run:
            return DRY_RUN, f"{pluralize(count, 'split')} would be merged."
        return SUCCESS, f"{pluralize(count, 'split')} became {len(added)}."
