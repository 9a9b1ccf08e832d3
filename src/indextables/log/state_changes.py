"""What happened to the manifests of a state since it was written: which of their entries went, exactly counted."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from indextables.log.state_files import StateFiles, without_tombstones
from indextables.model.compaction import is_new_name
from indextables.model.snapshot import Delta
from indextables.model.state import ManifestInfo, Tombstone

_COLUMNS = ("path", "size", "added_at_version")


class StateChanges(Struct, frozen=True):
    """The manifests with their counts brought up to date, and what of them is gone.

    `clashing` are manifests that hold a path which was added again; they cannot stay as they are.
    """

    manifests: tuple[ManifestInfo, ...]
    gone: frozenset[str] = frozenset()
    gone_bytes: int = 0
    clashing: frozenset[str] = frozenset()


def changes_since(source: StateFiles, delta: Delta) -> StateChanges:
    """What a delta does to the entries of a state. A delta that only adds files under new names costs no reading."""
    if not _may_touch_older(source, delta):
        return StateChanges(source.state.manifests)
    hidden = {tombstone.path: tombstone.version for tombstone in source.state.tombstones}
    touched, added = _texts(delta.touched), _texts(delta.added)
    manifests, clashing = [], set()
    gone: set[str] = set()
    gone_bytes = 0
    for manifest, entries in zip(source.state.manifests, _entries(source, source.state.manifests), strict=True):
        live = without_tombstones(entries, hidden)
        going = live.filter(pc.is_in(live.column("path"), value_set=touched))
        gone.update(going.column("path").to_pylist())
        gone_bytes += pc.sum(going.column("size")).as_py() or 0
        left = live.num_rows - going.num_rows
        manifests.append(replace(manifest, live_entry_count=left, tombstone_count=manifest.num_entries - left))
        if pc.any(pc.is_in(entries.column("path"), value_set=added)).as_py():
            clashing.add(manifest.path)
    return StateChanges(tuple(manifests), frozenset(gone), gone_bytes, frozenset(clashing))


def still_needed(
    source: StateFiles, manifests: Sequence[ManifestInfo], tombstones: Sequence[Tombstone]
) -> tuple[Tombstone, ...]:
    """The tombstones that still hide an entry of these manifests."""
    paths = _texts(tombstone.path for tombstone in tombstones)
    dirty = [manifest for manifest in manifests if manifest.tombstone_count]
    found: set[str] = set()
    for entries in _entries(source, dirty):
        column = entries.column("path")
        found.update(column.filter(pc.is_in(column, value_set=paths)).to_pylist())
    return tuple(tombstone for tombstone in tombstones if tombstone.path in found)


def _may_touch_older(source: StateFiles, delta: Delta) -> bool:
    if delta.removed:
        return True
    tombstones = {tombstone.path for tombstone in source.state.tombstones}
    return any(path in tombstones or not is_new_name(path) for path in delta.added)


def _entries(source: StateFiles, manifests: Sequence[ManifestInfo]) -> list[pa.Table]:
    return source.reader.read(manifests, source.state_file, columns=_COLUMNS)


def _texts(paths: object) -> pa.Array:
    return pa.array(sorted(paths), pa.string())  # type: ignore[call-overload]
