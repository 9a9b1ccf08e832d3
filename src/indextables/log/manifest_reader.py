"""Reading manifests: from memory where they are known, several at a time where they are not."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from indextables.config.state import StateReadSettings
from indextables.log import names
from indextables.log.cache import LogCache
from indextables.model.state import ManifestInfo
from indextables.storage.store import ObjectInfo, Store
from indextables.wire.file_entry_reader import decode_file_entries


@dataclass(frozen=True)
class ManifestReader:
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
        if self.cache:
            self.cache.put("manifests", self.store.url, identity, table, cost_bytes=table.nbytes)
        return table


def _identity(manifest: ManifestInfo, state_file: ObjectInfo, columns: Sequence[str] | None) -> Hashable:
    """Ours are named by their content; the name of another writer's means something only beside the state that gives it."""
    owner = None if manifest.size_bytes is not None else state_file
    return manifest.path, manifest.num_entries, owner, None if columns is None else tuple(columns)
