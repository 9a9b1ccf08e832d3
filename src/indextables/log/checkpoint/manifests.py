"""Manifests, the file lists of a state: sort their entries, read them, and write them under
content-based names.

Entries are sorted by partition values with bounded memory: first only the partition values are
read, which gives every row its position; then rows are gathered in groups of consecutive positions.
A group re-reads only parts that have rows in it, so a nearly sorted list is read about once.

Manifests are read from the cache or several at a time from the store, and written with exact counts
and bounds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from indextables.config.log import StateReadSettings, StateWriteSettings
from indextables.errors import BadFileError, CheckpointCorruptionError, NotFoundError, StorageError
from indextables.log import log_files
from indextables.log.cache import LogCache
from indextables.metrics import METRICS
from indextables.model.actions import MetadataAction
from indextables.model.column_ranges import BoundsFinder, TextMaps
from indextables.model.schema import schema_from_json
from indextables.model.schema_registry import deduplicate_mappings, in_use, rename_mappings
from indextables.model.state import ManifestInfo
from indextables.model.values import decode_values
from indextables.pools import MANIFESTS
from indextables.storage.location import inside
from indextables.storage.store import ObjectInfo, Store
from indextables.wire.manifest import (
    check_manifest_name,
    decode_file_entries,
    encode_file_entries,
    manifest_names,
)
from indextables.wire.state import AVRO_STATE

GROUP_ROWS = 100_000
ReadPart = Callable[[Sequence[str] | None], pa.Table]
"""Reads the live entries of one part: all columns, or the named ones."""

Places = np.ndarray[Any, np.dtype[np.int64]]


class EntrySorter(Struct, frozen=True):
    """Sorts the entries of several parts by the table's partition columns. Ties keep their order."""

    metadata: MetadataAction
    group_rows: int = GROUP_ROWS

    def sorted_groups(self, parts: Sequence[ReadPart], *, expected_rows: int) -> Iterator[pa.Table]:
        """Yield all entries in order, in tables of at most `group_rows` rows."""
        if expected_rows <= self.group_rows:
            entries = pa.concat_tables([read(None) for read in parts])
            yield entries.take(pa.array(_order([self._keys(entries)])))
            return
        keys = [self._keys(read(["partition_values"])) for read in parts]
        starts = np.concatenate([[0], np.cumsum([table.num_rows for table in keys])])
        order = _order(keys)
        del keys
        for at in range(0, len(order), self.group_rows):
            yield _rows_at(parts, starts, order[at : at + self.group_rows])

    def _keys(self, entries: pa.Table) -> pa.Table:
        """Return the partition values of entries as columns, a fraction of the size of their maps."""
        types = {f.name: f.type for f in schema_from_json(self.metadata.schema_string)}
        names = [name for name in self.metadata.partition_columns or () if name in types]
        maps = TextMaps(entries.column("partition_values"))
        columns = {
            f"p{n}": decode_values(maps.lookup(name)[0], types[name])
            for n, name in enumerate(names)
        }
        return pa.table({**columns, "row": pa.array(np.arange(entries.num_rows))})


def _order(keys: Sequence[pa.Table]) -> Places:
    """Return row numbers over all tables in the order of their partition values. Ties keep their
    order.
    """
    rows = sum(table.num_rows for table in keys)
    numbers = np.arange(rows)
    if keys:
        names = [name for name in keys[0].column_names if name != "row"]
    else:
        names = []
    if not names:
        return numbers
    table = pa.concat_tables([table.select(names) for table in keys]).append_column(
        "row", pa.array(numbers)
    )
    sort_keys = [(name, "ascending", "at_start") for name in (*names, "row")]
    order: Places = pc.sort_indices(table, sort_keys=sort_keys).to_numpy().astype(np.int64)
    return order


def _rows_at(parts: Sequence[ReadPart], starts: Places, rows: Places) -> pa.Table:
    """Return the rows with these numbers in this order."""
    pieces, places = [], []
    for part, first, last in zip(parts, starts, starts[1:], strict=False):
        chosen = np.flatnonzero((rows >= first) & (rows < last))
        if len(chosen):
            pieces.append(part(None).take(pa.array(rows[chosen] - first)))
            places.append(chosen)
    order = np.argsort(np.concatenate(places), kind="stable")
    entries = pa.concat_tables(pieces)
    if (np.diff(order) > 0).all():
        return entries
    return entries.take(pa.array(order))


@contextmanager
def damage_of_checkpoint() -> Iterator[None]:
    """Report a file that cannot be read as damage of the state or checkpoint it belongs to."""
    try:
        yield
    except CheckpointCorruptionError:
        raise
    except BadFileError as failure:
        raise CheckpointCorruptionError(failure.message, **failure.context) from failure


class ManifestReader(Struct, frozen=True):
    """Reads the manifests of one table. A missing file is NotFoundError, a damaged one
    BadFileError.
    """

    store: Store
    cache: LogCache | None
    settings: StateReadSettings
    remembers: bool = True
    """Whether reads are cached. Code that reads a whole list once does not fill the cache with it.
    """

    def each(
        self,
        manifests: Sequence[ManifestInfo],
        state_file: ObjectInfo,
        *,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.Table]:
        """Yield the entries of these manifests of one state in order, in batches, with only the
        named columns.
        """
        if len(manifests) < 2:
            return (self._read_one(manifest, state_file, columns) for manifest in manifests)
        return MANIFESTS.each(
            lambda manifest: self._read_one(manifest, state_file, columns),
            manifests,
            parallelism=self.settings.parallelism,
        )

    def _read_one(
        self, manifest: ManifestInfo, state_file: ObjectInfo, columns: Sequence[str] | None
    ) -> pa.Table:
        identity = _identity(manifest, state_file, columns)
        if self.cache:
            entries = self.cache.get("manifests", self.store.url, identity)
        else:
            entries = None
        if entries is not None:
            return entries
        path = log_files.manifest_path(manifest.path, state_file.path)
        data = self.store.get(path)
        with damage_of_checkpoint():
            table = _decode(manifest, data, path, columns)
        if manifest.size_bytes is None:
            table = with_relative_paths(table, root=self.store.url)
        if self.cache and self.remembers:
            self.cache.put("manifests", self.store.url, identity, table, cost_bytes=table.nbytes)
        return table


_DECODED = LogCache(8 << 20)
"""Decoded columns of manifests, by content."""


def _decode(
    manifest: ManifestInfo, data: bytes, path: str, columns: Sequence[str] | None
) -> pa.Table:
    if manifest.size_bytes is not None:
        check_manifest_name(data, path=path)
    if columns is None:
        identity = None
    else:
        identity = (hashlib.sha256(data).digest(), manifest.num_entries, tuple(columns))
    if identity is None:
        table = None
    else:
        table = _DECODED.get("manifests", "", identity)
    if table is None:
        table = decode_file_entries(
            data, path=path, expected_rows=manifest.num_entries, columns=columns
        )
        if identity is not None:
            _DECODED.put("manifests", "", identity, table, cost_bytes=table.nbytes)
    return table


def with_relative_paths(files: pa.Table, *, root: str) -> pa.Table:
    """Return the files with paths relative to the table; older writers recorded absolute ones. A
    path outside is refused.
    """
    if "path" not in files.column_names:
        return files
    paths = files.column("path")
    absolute = pc.or_(pc.starts_with(paths, "/"), pc.match_substring(paths, ":/"))
    if not pc.any(absolute).as_py():
        return files
    relative = pa.array([inside(root, path) for path in paths.to_pylist()], pa.string())
    at = files.schema.get_field_index("path")
    return files.set_column(at, files.schema.field(at), relative)


def _identity(
    manifest: ManifestInfo, state_file: ObjectInfo, columns: Sequence[str] | None
) -> Hashable:
    """Return a manifest's cache identity. Our names are content-based; another writer's are unique
    only within their state.
    """
    owner = None if manifest.size_bytes is not None else state_file
    return manifest.path, manifest.num_entries, owner, None if columns is None else tuple(columns)


_FOLDER = log_files.MANIFESTS.removeprefix(f"{log_files.LOG}/")


class ManifestWriter(Struct):
    """Writes the manifests of one state, and collects the doc mappings that their files name."""

    store: Store
    bounds: BoundsFinder
    registry: dict[str, str]
    settings: StateWriteSettings
    renames: Mapping[str, str] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    num_files: int = 0
    total_bytes: int = 0

    def write(self, files: pa.Table) -> Iterator[ManifestInfo]:
        """Write the files as manifests of at most `state.entriesPerManifest` entries, in order."""
        most = self.settings.entries_per_manifest
        for at in range(0, files.num_rows, most):
            yield self._write_one(files.slice(at, most))

    def _write_one(self, files: pa.Table) -> ManifestInfo:
        files, self.registry = deduplicate_mappings(files, self.registry)
        files = rename_mappings(files, self.renames)
        self.named |= in_use(files)
        self.num_files += files.num_rows
        self.total_bytes += pc.sum(files.column("size")).as_py()
        content = encode_file_entries(
            files, compression=self.settings.compression, level=self.settings.level
        )
        name = self._store(content)
        METRICS.count("checkpoint_bytes_total", self.store.url, AVRO_STATE, by=len(content))
        METRICS.count("checkpoint_text_bytes_total", self.store.url, AVRO_STATE, by=files.nbytes)
        partition_bounds, column_bounds = self.bounds.of(files)
        versions = pc.min_max(files.column("added_at_version").fill_null(0))
        return ManifestInfo(
            path=f"{_FOLDER}/{name}",
            num_entries=files.num_rows,
            min_added_at_version=versions["min"].as_py(),
            max_added_at_version=versions["max"].as_py(),
            partition_bounds=partition_bounds or None,
            tombstone_count=0,
            live_entry_count=files.num_rows,
            column_bounds=column_bounds or None,
            size_bytes=len(content),
        )

    def _store(self, content: bytes) -> str:
        """Store content and return its name.

        Names are content-based, so an existing file should be the same. Writing it again refreshes
        its age, so that a cleaner that found it unreferenced keeps it. An existing file with other
        content is damaged and stays.
        """
        for name in manifest_names(content):
            path = f"{log_files.MANIFESTS}/{name}"
            if self._is_free_for(path, content):
                self.store.put(path, content)
                return name
        raise StorageError(
            f"{log_files.MANIFESTS} holds a damaged file under every name of a new manifest.",
            path=log_files.MANIFESTS,
            hint="Find the process that writes there, and move the damaged files away.",
        )

    def _is_free_for(self, path: str, content: bytes) -> bool:
        info = self.store.head(path)
        if info is None:
            return True
        try:
            return info.size == len(content) and self.store.get(path) == content
        except NotFoundError:
            return True
