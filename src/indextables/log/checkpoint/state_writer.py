"""Write the state of a snapshot: continue the previous state, or write it from scratch.

A continued state names the manifests of its predecessor plus one; removed entries are hidden by
tombstones. The paths in older manifests are read only if files were removed, or added under a name
that may have been used before, to keep every count exact (`changes_since`). A path that is added
again must not be hidden by a tombstone or occur in two manifests, so the older manifests that hold
it are rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from math import ceil

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from indextables.config.log import CompactionSettings, StateWriteSettings
from indextables.errors import BadFileError, NotFoundError
from indextables.log.checkpoint.compaction import (
    compaction_reason,
    is_most_of,
    worth_rewriting,
)
from indextables.log.checkpoint.manifests import GROUP_ROWS, EntrySorter, ManifestWriter, ReadPart
from indextables.log.checkpoint.state_files import StateFiles, without_tombstones
from indextables.model.column_ranges import BoundsFinder
from indextables.model.protocol import state_protocol_version
from indextables.model.schema_registry import deduplicate_mappings, renames
from indextables.model.snapshot import Delta, Snapshot
from indextables.model.state import (
    ManifestInfo,
    StateCounts,
    StateManifest,
    Tombstone,
    is_new_name,
)
from indextables.storage.store import Store

_COLUMNS = ("path", "size", "added_at_version")


class StateChanges(Struct, frozen=True):
    """The manifests with updated counts, and their removed entries.

    `clashing` manifests hold a path that was added again and must be rewritten.
    """

    manifests: tuple[ManifestInfo, ...]
    gone: frozenset[str] = frozenset()
    gone_bytes: int = 0
    clashing: frozenset[str] = frozenset()


def changes_since(source: StateFiles, delta: Delta) -> StateChanges:
    """Return what a delta does to the entries of a state. A delta that only adds new names needs no
    reading.
    """
    if not _may_touch_older(source, delta):
        return StateChanges(source.state.manifests)
    hidden = {tombstone.path: tombstone.version for tombstone in source.state.tombstones}
    touched_paths, added_paths = _texts(delta.touched), _texts(delta.added)
    manifests, clashing = [], set()
    gone: set[str] = set()
    gone_bytes = 0
    for manifest, entries in zip(
        source.state.manifests, _entries(source, source.state.manifests), strict=True
    ):
        live = without_tombstones(entries, hidden)
        removed_entries = live.filter(pc.is_in(live.column("path"), value_set=touched_paths))
        gone.update(removed_entries.column("path").to_pylist())
        gone_bytes += pc.sum(removed_entries.column("size")).as_py() or 0
        left = live.num_rows - removed_entries.num_rows
        manifests.append(
            replace(manifest, live_entry_count=left, tombstone_count=manifest.num_entries - left)
        )
        if pc.any(pc.is_in(entries.column("path"), value_set=added_paths)).as_py():
            clashing.add(manifest.path)
    return StateChanges(tuple(manifests), frozenset(gone), gone_bytes, frozenset(clashing))


def still_needed(
    source: StateFiles, manifests: Sequence[ManifestInfo], tombstones: Sequence[Tombstone]
) -> tuple[Tombstone, ...]:
    """Return the tombstones that still hide an entry of these manifests."""
    paths = _texts(tombstone.path for tombstone in tombstones)
    dirty = [manifest for manifest in manifests if manifest.tombstone_count]
    hidden: set[str] = set()
    for entries in _entries(source, dirty):
        column = entries.column("path")
        hidden.update(column.filter(pc.is_in(column, value_set=paths)).to_pylist())
    return tuple(tombstone for tombstone in tombstones if tombstone.path in hidden)


def _may_touch_older(source: StateFiles, delta: Delta) -> bool:
    if delta.removed:
        return True
    tombstones = {tombstone.path for tombstone in source.state.tombstones}
    return any(path in tombstones or not is_new_name(path) for path in delta.added)


def _entries(source: StateFiles, manifests: Sequence[ManifestInfo]) -> Iterator[pa.Table]:
    return source.reader.each(manifests, source.state_file, columns=_COLUMNS)


def _texts(paths: Iterable[str]) -> pa.Array:
    return pa.array(sorted(paths), pa.string())


class Compact(Enum):
    """How much of the previous state is rewritten."""

    AS_NEEDED = "nothing, unless there are too many tombstones or manifests"
    DIRTY = "manifests that are small or hold removed entries"
    ALL = "everything, sorted by partition values"


class StateWriter(Struct, frozen=True):
    """Writes the manifests of states and returns the states. The caller stores the state's own
    file.
    """

    store: Store
    settings: StateWriteSettings
    compaction: CompactionSettings
    now_ms: Callable[[], int]

    def state_of(
        self, snapshot: Snapshot, *, compact: Compact = Compact.AS_NEEDED
    ) -> StateManifest:
        """Return the state of a snapshot after writing its manifests."""
        source = snapshot.base.source
        if (
            compact is Compact.ALL
            or not isinstance(source, StateFiles)
            or not _is_ours(source.state)
        ):
            return self._rewrite_state(snapshot)
        try:
            return self._continue_state(snapshot, source, tidy=compact is Compact.DIRTY)
        except (BadFileError, NotFoundError):
            # A manifest of the predecessor is damaged: reading the files reports it and finds them
            # by another way.
            return self._rewrite_state(snapshot)

    def _rewrite_state(self, snapshot: Snapshot) -> StateManifest:
        """Write every live entry, sorted by partition values, to full manifests without tombstones."""
        parts, expected = _parts(snapshot)
        try:
            return self._rewritten(snapshot, parts, expected)
        except (BadFileError, NotFoundError):
            files = snapshot.all_files
            return self._rewritten(snapshot, [partial(_columns_of, files)], files.num_rows)

    def _rewritten(
        self, snapshot: Snapshot, parts: Sequence[ReadPart], expected: int
    ) -> StateManifest:
        registry = snapshot.schema_registry
        names = renames(registry, threshold=self.settings.renormalize_threshold)
        writer = self._writer(snapshot, registry, names)
        manifests = self._sort_entries(snapshot, writer, parts, expected)
        mappings = {**writer.registry, **{new: registry[old] for old, new in names.items()}}
        counts = (writer.num_files, writer.total_bytes)
        return self._state(
            snapshot,
            manifests,
            (),
            counts,
            {ref: mappings[ref] for ref in writer.named if ref in mappings},
        )

    def _continue_state(
        self, snapshot: Snapshot, source: StateFiles, *, tidy: bool
    ) -> StateManifest:
        delta = snapshot.delta
        changes = changes_since(source, delta)
        tombstones = _tombstones(source.state, snapshot, changes)
        live = source.state.num_files - len(changes.gone) + len(delta.added)
        registry = deduplicate_mappings(delta.files, snapshot.schema_registry)[1]
        counts = StateCounts(
            live, len(tombstones), self._manifests_after(changes, snapshot), len(changes.gone)
        )
        rewrite = self._to_rewrite(changes, counts, tidy=tidy)
        if is_most_of(rewrite, changes.manifests) or renames(
            registry, threshold=self.settings.renormalize_threshold
        ):
            return self._rewrite_state(snapshot)
        unchanged = [manifest for manifest in changes.manifests if manifest not in rewrite]
        if rewrite:
            tombstones = still_needed(source, unchanged, tombstones)
        writer = self._writer(snapshot, snapshot.schema_registry, {})
        as_written = {manifest.path: manifest for manifest in source.state.manifests}
        parts = [
            partial(_live_part, source, as_written[manifest.path], delta.touched)
            for manifest in rewrite
        ]
        rows = sum(manifest.num_entries for manifest in rewrite) + len(delta.added)
        written = self._sort_entries(
            snapshot, writer, [*parts, partial(_columns_of, delta.files)], rows
        )
        added_bytes = pc.sum(delta.files.column("size")).as_py() or 0
        total_bytes = source.state.total_bytes - changes.gone_bytes + added_bytes
        return self._state(
            snapshot, [*unchanged, *written], tombstones, (live, total_bytes), writer.registry
        )

    def _manifests_after(self, changes: StateChanges, snapshot: Snapshot) -> int:
        return len(changes.manifests) + ceil(
            len(snapshot.delta.added) / self.settings.entries_per_manifest
        )

    def _to_rewrite(
        self, changes: StateChanges, counts: StateCounts, *, tidy: bool
    ) -> list[ManifestInfo]:
        """Return the manifests that must or should be rewritten; all of them after a large removal."""
        per_manifest = self.settings.entries_per_manifest
        clashing = [manifest for manifest in changes.manifests if manifest.path in changes.clashing]
        if (
            not tidy
            and compaction_reason(counts, self.compaction, entries_per_manifest=per_manifest)
            is None
        ):
            return clashing
        if counts.removed > self.compaction.large_remove_threshold:
            return list(changes.manifests)
        chosen = worth_rewriting(
            changes.manifests, self.compaction, entries_per_manifest=per_manifest
        )
        if tidy:
            chosen += [manifest for manifest in changes.manifests if manifest.tombstone_count]
        return [
            manifest for manifest in changes.manifests if manifest in chosen or manifest in clashing
        ]

    def _writer(
        self, snapshot: Snapshot, registry: dict[str, str], names: Mapping[str, str]
    ) -> ManifestWriter:
        return ManifestWriter(
            self.store, BoundsFinder(snapshot.metadata), registry, self.settings, names
        )

    def _sort_entries(
        self, snapshot: Snapshot, writer: ManifestWriter, parts: Sequence[ReadPart], expected: int
    ) -> list[ManifestInfo]:
        groups = EntrySorter(snapshot.metadata).sorted_groups(parts, expected_rows=expected)
        return [manifest for group in groups for manifest in writer.write(group)]

    def _state(
        self,
        snapshot: Snapshot,
        manifests: Sequence[ManifestInfo],
        tombstones: Sequence[Tombstone],
        counts: tuple[int, int],
        registry: Mapping[str, str],
    ) -> StateManifest:
        header = snapshot.header
        return StateManifest(
            state_version=snapshot.version,
            num_files=counts[0],
            total_bytes=counts[1],
            manifests=tuple(manifests),
            created_at=self.now_ms(),
            tombstones=tuple(tombstones),
            schema_registry=dict(sorted(registry.items())),
            protocol_version=state_protocol_version(header.protocol),
            metadata=header.metadata,
            protocol=header.protocol,
            commit_timestamp=header.timestamp_ms,
            skips=tuple(header.skips.values()),
            txns=tuple(header.txns.values()),
            txn_ids=header.recent_txn_ids,
            table_id=snapshot.metadata.id or None,
            txn_id=header.txn_id,
        )


def _is_ours(state: StateManifest) -> bool:
    """Return whether every count of a state is exact. Another writer's state is rewritten rather
    than continued.
    """
    return all(manifest.size_bytes is not None for manifest in state.manifests)


def _tombstones(
    state: StateManifest, snapshot: Snapshot, changes: StateChanges
) -> tuple[Tombstone, ...]:
    added = snapshot.delta.added
    older = [tombstone for tombstone in state.tombstones if tombstone.path not in added]
    newer = [Tombstone(path, snapshot.version) for path in sorted(changes.gone - set(added))]
    return (*older, *newer)


def _parts(snapshot: Snapshot) -> tuple[list[ReadPart], int]:
    """Return the live entries of a snapshot in separately readable parts, and their approximate
    number.
    """
    source, delta = snapshot.base.source, snapshot.delta
    if snapshot.holds_files:
        return _slices_of(snapshot.all_files, frozenset()), snapshot.all_files.num_rows
    if isinstance(source, StateFiles) and not _is_ours(source.state):
        # Which of two entries of a path counts is known only over all of them.
        return [partial(_all_files, snapshot)], source.state.num_files + len(delta.added)
    if isinstance(source, StateFiles):
        passing = replace(source, reader=replace(source.reader, remembers=False))
        older: list[ReadPart] = [
            partial(_live_part, passing, m, delta.touched) for m in source.state.manifests
        ]
        return [*older, partial(_columns_of, delta.files)], source.state.num_files + len(
            delta.added
        )
    listed = source.files()
    older = _slices_of(listed, delta.touched)
    return [*older, partial(_columns_of, delta.files)], listed.num_rows + len(delta.added)


def live_batches(
    snapshot: Snapshot, rows: int, *, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Yield the live entries of a snapshot in batches, with at most one manifest in memory."""
    for part in _parts(snapshot)[0]:
        files = part(columns)
        for at in range(0, files.num_rows, rows):
            yield files.slice(at, rows)


def _slices_of(files: pa.Table, touched_paths: frozenset[str]) -> list[ReadPart]:
    """Return a list in memory as parts that are copied separately."""
    return [
        partial(_drop_touched, files.slice(at, GROUP_ROWS), touched_paths)
        for at in range(0, files.num_rows or 1, GROUP_ROWS)
    ]


def _all_files(snapshot: Snapshot, columns: Sequence[str] | None) -> pa.Table:
    return snapshot.files(columns=columns)


def _columns_of(files: pa.Table, columns: Sequence[str] | None) -> pa.Table:
    if columns is None:
        return files
    return files.select(list(columns))


def _live_part(
    source: StateFiles,
    manifest: ManifestInfo,
    touched_paths: frozenset[str],
    columns: Sequence[str] | None,
) -> pa.Table:
    if columns is None:
        needed = None
    else:
        needed = list(dict.fromkeys(["path", *columns]))
    (entries,) = source.live_entries([manifest], columns=needed)
    return _drop_touched(entries, touched_paths, columns)


def _drop_touched(
    entries: pa.Table, touched_paths: frozenset[str], columns: Sequence[str] | None
) -> pa.Table:
    if touched_paths:
        hit = pc.is_in(entries.column("path"), value_set=_texts(touched_paths))
        if pc.any(hit).as_py():
            entries = entries.filter(pc.invert(hit))
        else:
            entries = entries
    return _columns_of(entries, columns)
