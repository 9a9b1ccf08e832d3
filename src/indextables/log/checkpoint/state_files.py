"""The file list of a state: the entries of its manifests without tombstones, read on demand and
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.errors import (
    BadFileError,
    CheckpointCorruptionError,
    IndexTablesError,
    NotFoundError,
)
from indextables.log.checkpoint.manifests import ManifestReader
from indextables.model.file_list import empty_file_list
from indextables.model.snapshot import PartFilter
from indextables.model.state import Bounds, ManifestInfo, StateManifest
from indextables.storage.store import ObjectInfo

Fallback = Callable[[IndexTablesError, PartFilter | None, Sequence[str] | None], pa.Table]
"""Handles a manifest that cannot be read: returns the same files from elsewhere, or raises an
error.
"""


class StateFiles(Struct, frozen=True):
    """A file source over a state. Nothing is fetched before `files` is called."""

    state: StateManifest
    state_file: ObjectInfo
    reader: ManifestReader
    fallback: Fallback

    def files(
        self, part_filter: PartFilter | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the live files, at least those in manifests that `part_filter` keeps."""
        try:
            return self._read(part_filter, columns)
        except (BadFileError, NotFoundError) as failure:
            return self.fallback(failure, part_filter, columns)

    def _read(self, part_filter: PartFilter | None, columns: Sequence[str] | None) -> pa.Table:
        manifests = manifests_to_read(self.state.manifests, part_filter)
        live = list(self.live_entries(manifests, columns=columns))
        files = pa.concat_tables(live) if live else _no_files(columns)
        if part_filter is None:
            files = self._check_counts(files)
        if columns is None:
            return files
        return files.select(list(columns))

    def live_entries(
        self, manifests: Sequence[ManifestInfo], *, columns: Sequence[str] | None = None
    ) -> Iterator[pa.Table]:
        """Yield the live entries of each of these manifests in batches, without fallback."""
        hidden = {tombstone.path: tombstone.version for tombstone in self.state.tombstones}
        if columns is None:
            needed = None
        else:
            needed = list(dict.fromkeys(["path", "added_at_version", *columns]))
        tables = self.reader.each(manifests, self.state_file, columns=needed if hidden else columns)
        return (
            self._live(manifest, table, hidden)
            for manifest, table in zip(manifests, tables, strict=True)
        )

    def _live(
        self, manifest: ManifestInfo, entries: pa.Table, hidden: Mapping[str, int | None]
    ) -> pa.Table:
        if _may_hide(manifest):
            live = without_tombstones(entries, hidden)
        else:
            live = entries
        if manifest.size_bytes is not None and live.num_rows != manifest.live_entry_count:
            raise self._miscount_error(
                f"live files in {manifest.path}", live.num_rows, manifest.live_entry_count
            )
        return live

    def _check_counts(self, files: pa.Table) -> pa.Table:
        """Return the whole list if its length and size match the state. Of duplicate paths the last
        one counts.
        """
        if files.num_rows != self.state.num_files and "path" in files.column_names:
            files = _last_of_each_path(files)
        if files.num_rows != self.state.num_files:
            raise self._miscount_error("files", files.num_rows, self.state.num_files)
        if "size" in files.column_names:
            size = int(files.column("size").to_numpy().sum())
            if size != self.state.total_bytes:
                raise self._miscount_error("bytes", size, self.state.total_bytes)
        return files

    def _miscount_error(self, what: str, actual: int, expected: int) -> CheckpointCorruptionError:
        path = self.state_file.path
        message = f"{path} speaks of {expected} {what}, but there are {actual}."
        return CheckpointCorruptionError(message, path=path, found=actual, expected=expected)


def manifests_to_read(
    manifests: Sequence[ManifestInfo], part_filter: PartFilter | None
) -> list[ManifestInfo]:
    """Return the manifests that can hold a wanted entry. Those without live entries are skipped."""
    full = [m for m in manifests if m.live_entry_count != 0 or m.size_bytes is None]
    if part_filter is None or not full:
        return full
    paths: set[str] = set()
    for ours in (True, False):
        group = [m for m in full if (m.size_bytes is not None) is ours]
        if group:
            bounds = _bounds_by_column([_bounds_of(m) for m in group])
            flags = part_filter.keeps(bounds, count=len(group), typed=ours)
            paths.update(m.path for m, keep in zip(group, flags, strict=True) if keep)
    return [m for m in full if m.path in paths]


def without_tombstones(entries: pa.Table, hidden: Mapping[str, int | None]) -> pa.Table:
    """Return the entries without a tombstone. A tombstone hides entries added up to the version it
    came from.
    """
    if not hidden or not entries.num_rows:
        return entries
    at = pc.index_in(entries.column("path"), value_set=pa.array(list(hidden), pa.string()))
    if at.null_count == len(at):
        return entries
    positions = at.fill_null(-1).to_numpy().astype(np.int64)
    latest = np.array(
        [np.iinfo(np.int64).max if v is None else v for v in hidden.values()], dtype=np.int64
    )
    added = entries.column("added_at_version").fill_null(0).to_numpy()
    gone = (positions >= 0) & (added <= latest[positions])
    return entries.filter(pa.array(~gone))


def _may_hide(manifest: ManifestInfo) -> bool:
    """Return whether a tombstone can apply. Our counts are exact; another writer's zero may mean
    that it does not count.
    """
    return manifest.size_bytes is None or manifest.tombstone_count != 0


def _bounds_of(manifest: ManifestInfo) -> Mapping[str, Bounds]:
    return {**(manifest.partition_bounds or {}), **(manifest.column_bounds or {})}


def _bounds_by_column(parts: Sequence[Mapping[str, Bounds]]) -> dict[str, list[Bounds]]:
    columns = dict.fromkeys(name for part in parts for name in part)
    return {name: [part.get(name, (None, None)) for part in parts] for name in columns}


def _last_of_each_path(files: pa.Table) -> pa.Table:
    order: dict[Any, int] = {path: row for row, path in enumerate(files.column("path").to_pylist())}
    if len(order) < files.num_rows:
        return files.take(pa.array(sorted(order.values()), pa.int64()))
    return files


def _no_files(columns: Sequence[str] | None) -> pa.Table:
    empty = empty_file_list()
    if columns is None:
        return empty
    return empty.select(list(columns))
