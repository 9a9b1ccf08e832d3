"""Writing checkpoints in the forms of older releases: JSON in one file or several parts, and Parquet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from indextables.config.state import CheckpointSettings
from indextables.errors import UnavailableError
from indextables.log import names
from indextables.log.legacy_checkpoints import checkpoint_header
from indextables.model.actions import LogAction, MetadataAction
from indextables.model.file_list import to_actions
from indextables.model.schema_registry import KEY_PREFIX, in_use
from indextables.model.snapshot import Snapshot
from indextables.storage.store import PutOutcome, Store
from indextables.wire import json_checkpoint, parquet_checkpoint
from indextables.wire.checkpoint_origin import CheckpointOrigin, checksum
from indextables.wire.last_checkpoint import JSON, JSON_MULTI_PART, PARQUET, LastCheckpoint

_PUTS = 3


class LegacyWriter(Struct, frozen=True):
    """Writes JSON and Parquet checkpoints of one table."""

    store: Store
    settings: CheckpointSettings
    now_ms: Callable[[], int]
    new_id: Callable[[], str]

    def path(self, version: int) -> str:
        """Where the checkpoint of a version is, or what makes it whole."""
        of = names.parquet_checkpoint_path if self.settings.format == PARQUET else names.json_checkpoint_path
        return of(version)

    def write(self, snapshot: Snapshot) -> LastCheckpoint:
        """Write the checkpoint; returns the pointer to it. What is there already is left for the caller to judge."""
        others = [_with_registry(action, snapshot) for action in checkpoint_header(snapshot.header)]
        if self.settings.format == PARQUET:
            return self._write_parquet(snapshot, others)
        actions = [*others, *to_actions(snapshot.all_files)]
        parts = json_checkpoint.split_into_parts(actions)
        path = names.json_checkpoint_path(snapshot.version)
        if len(parts) == 1:
            self._put(path, json_checkpoint.encode_part(actions, _origin(snapshot, len(actions))))
            return self._pointer(snapshot, len(actions), JSON)
        manifest = self._write_parts(snapshot, parts)
        self._put(path, json_checkpoint.encode_multi_part_manifest(manifest))
        return self._pointer(snapshot, len(actions), JSON_MULTI_PART, manifest)

    def _write_parts(
        self, snapshot: Snapshot, parts: Sequence[Sequence[LogAction]]
    ) -> json_checkpoint.MultiPartManifest:
        """The parts first; the manifest that is put afterwards makes them a checkpoint."""
        checkpoint_id, version = self.new_id(), snapshot.version
        part_names = [names.json_part_name(version, checkpoint_id, number) for number in range(1, len(parts) + 1)]
        checksums = []
        for number, (name, part) in enumerate(zip(part_names, parts, strict=True), 1):
            content = json_checkpoint.encode_part(part, _origin(snapshot, len(part), part=number, parts=len(parts)))
            self._put(f"{names.LOG}/{name}", content)
            checksums.append(checksum(content))
        return json_checkpoint.MultiPartManifest(
            version=version,
            checkpoint_id=checkpoint_id,
            parts=tuple(part_names),
            created_time=self.now_ms(),
            table_id=snapshot.metadata.id,
            checksums=tuple(checksums),
        )

    def _write_parquet(self, snapshot: Snapshot, others: Sequence[LogAction]) -> LastCheckpoint:
        files = snapshot.all_files
        path = names.parquet_checkpoint_path(snapshot.version)
        compression = self.settings.parquet_compression
        origin = _origin(snapshot, files.num_rows + len(others))
        content = parquet_checkpoint.encode_parquet_checkpoint(files, others, compression=compression, origin=origin)
        self._put(path, content)
        described = parquet_checkpoint.CheckpointMetadata(
            version=snapshot.version, size=files.num_rows, created_time=self.now_ms()
        )
        self.store.put(path.removesuffix("parquet") + "json", parquet_checkpoint.encode_metadata(described))
        return self._pointer(snapshot, files.num_rows + len(others), PARQUET)

    def _put(self, path: str, content: bytes) -> None:
        """Created by us or found there: a checkpoint of a version says the same, whoever wrote it."""
        for _ in range(_PUTS):
            if self.store.put_if_absent(path, content) is PutOutcome.CREATED or self.store.head(path) is not None:
                return
        raise UnavailableError(f"Whether {path} was written could not be found out.", path=path)

    def _pointer(
        self,
        snapshot: Snapshot,
        actions: int,
        kind: str,
        manifest: json_checkpoint.MultiPartManifest | None = None,
    ) -> LastCheckpoint:
        files = snapshot.files(columns=["size"])
        return LastCheckpoint(
            version=snapshot.version,
            size=actions,
            size_in_bytes=sum(files.column("size").to_pylist()),
            num_files=files.num_rows,
            created_time=self.now_ms(),
            parts=len(manifest.parts) if manifest else None,
            checkpoint_id=manifest.checkpoint_id if manifest else None,
            format=kind,
        )


def _origin(snapshot: Snapshot, actions: int, *, part: int = 1, parts: int = 1) -> CheckpointOrigin:
    return CheckpointOrigin(
        version=snapshot.version, table_id=snapshot.metadata.id, part=part, parts=parts, actions=actions
    )


def _with_registry(action: LogAction, snapshot: Snapshot) -> LogAction:
    """The metadata with the doc mappings that the files name: a state keeps them beside it, a checkpoint within."""
    if not isinstance(action, MetadataAction):
        return action
    named = in_use(snapshot.files(columns=["doc_mapping_ref"]))
    known = {KEY_PREFIX + ref: text for ref, text in snapshot.schema_registry.items() if ref in named}
    return msgspec.structs.replace(action, configuration={**(action.configuration or {}), **known})
