"""Writing manifests: file lists cut into manifests, named by content, described with exact counts and bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from indextables.config.state import StateWriteSettings
from indextables.errors import NotFoundError
from indextables.log import names
from indextables.model.manifest_bounds import BoundsFinder
from indextables.model.schema_registry import deduplicated, in_use, renamed
from indextables.model.state import ManifestInfo
from indextables.storage.store import Store
from indextables.wire.file_entry import encode_file_entries, manifest_name

_FOLDER = names.MANIFESTS.removeprefix(f"{names.LOG}/")


class ManifestWriter(Struct):
    """Writes the manifests of one state, and gathers the doc mappings that their files name."""

    store: Store
    bounds: BoundsFinder
    registry: dict[str, str]
    settings: StateWriteSettings
    renames: Mapping[str, str] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    num_files: int = 0
    total_bytes: int = 0

    def write(self, files: pa.Table) -> Iterator[ManifestInfo]:
        """The files as manifests of at most `state.entriesPerManifest` entries, in their order."""
        most = self.settings.entries_per_manifest
        for at in range(0, files.num_rows, most):
            yield self._write_one(files.slice(at, most))

    def _write_one(self, files: pa.Table) -> ManifestInfo:
        files, self.registry = deduplicated(files, self.registry)
        files = renamed(files, self.renames)
        self.named |= in_use(files)
        self.num_files += files.num_rows
        self.total_bytes += pc.sum(files.column("size")).as_py()
        content = encode_file_entries(files, compression=self.settings.compression, level=self.settings.level)
        name = self._stored(content)
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

    def _stored(self, content: bytes) -> str:
        """The name under which the content is stored.

        Named by its content, so one that is there already should be the same; writing it again makes it young, and a
        cleaner that found it unnamed lets it be. What is there and is not the same was damaged: it stays as it is.
        """
        for again in count():
            name = manifest_name(content, again=again)
            path = f"{names.MANIFESTS}/{name}"
            if self._is_free_for(path, content):
                self.store.put(path, content)
                return name
        raise AssertionError("there is always another name")

    def _is_free_for(self, path: str, content: bytes) -> bool:
        there = self.store.head(path)
        if there is None:
            return True
        try:
            return there.size == len(content) and self.store.get(path) == content
        except NotFoundError:
            return True
