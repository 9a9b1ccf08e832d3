"""Reading manifests: from memory where they are known, several at a time where they are not."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.config.state import StateReadSettings
from indextables.log import names
from indextables.log.cache import LogCache
from indextables.model.state import ManifestInfo
from indextables.storage.location import inside
from indextables.storage.store import ObjectInfo, Store
from indextables.wire.file_entry_reader import decode_file_entries


class ManifestReader(Struct, frozen=True):
    """Reads the manifests of one table. A missing file is NotFoundError, a damaged one BadFileError."""

    store: Store
    cache: LogCache | None
    settings: StateReadSettings

    def read(
        self, manifests: Sequence[ManifestInfo], state_file: ObjectInfo, *, columns: Sequence[str] | None = None
    ) -> list[pa.Table]:
        """The entries of these manifests of one state, in order; just these columns if they are named."""
        if len(manifests) < 2:
            return [self._read_one(manifest, state_file, columns) for manifest in manifests]
        with ThreadPoolExecutor(min(self.settings.parallelism, len(manifests))) as pool:
            return list(pool.map(lambda manifest: self._read_one(manifest, state_file, columns), manifests))

    def _read_one(self, manifest: ManifestInfo, state_file: ObjectInfo, columns: Sequence[str] | None) -> pa.Table:
        identity = _identity(manifest, state_file, columns)
        known = self.cache.get("manifests", self.store.url, identity) if self.cache else None
        if known is not None:
            return known
        path = names.manifest_path(manifest.path, state_file.path)
        data = self.store.get(path)
        table = decode_file_entries(data, path=path, expected_rows=manifest.num_entries, columns=columns)
        if manifest.size_bytes is None:
            table = with_relative_paths(table, root=self.store.url)
        if self.cache:
            self.cache.put("manifests", self.store.url, identity, table, cost_bytes=table.nbytes)
        return table


def with_relative_paths(files: pa.Table, *, root: str) -> pa.Table:
    """The files with paths relative to the table: older writers recorded absolute ones. One outside it is refused."""
    if "path" not in files.column_names:
        return files
    paths = files.column("path")
    absolute = pc.or_(pc.starts_with(paths, "/"), pc.match_substring(paths, ":/"))
    if not pc.any(absolute).as_py():
        return files
    relative = pa.array([inside(root, path) for path in paths.to_pylist()], pa.string())
    at = files.schema.get_field_index("path")
    return files.set_column(at, files.schema.field(at), relative)


def _identity(manifest: ManifestInfo, state_file: ObjectInfo, columns: Sequence[str] | None) -> Hashable:
    """Ours are named by their content; the name of another writer's means something only beside the state that gives it."""
    owner = None if manifest.size_bytes is not None else state_file
    return manifest.path, manifest.num_entries, owner, None if columns is None else tuple(columns)
