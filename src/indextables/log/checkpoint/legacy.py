"""Checkpoints of older releases: JSON in one file or several parts, and Parquet. Read always, written on request.

Writing checkpoints in the forms of older releases: JSON in one file or several parts, and Parquet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pyarrow as pa
from msgspec import Struct

from indextables.config.state import CheckpointSettings, StateReadSettings
from indextables.errors import BadFileError, NotFoundError, UnavailableError
from indextables.log import log_files
from indextables.log.checkpoint.manifests import with_relative_paths
from indextables.log.clock import bounded_time
from indextables.model.actions import AddAction, CommitInfo, LogAction, MetadataAction
from indextables.model.file_list import from_actions, to_actions
from indextables.model.schema_registry import KEY_PREFIX, in_use
from indextables.model.snapshot import Base, CommittedVersion, Header, PartFilter, Snapshot, replay
from indextables.storage.store import ObjectInfo, PutOutcome, Store
from indextables.wire import old_checkpoints
from indextables.wire.last_checkpoint import JSON, JSON_MULTI_PART, PARQUET, LastCheckpoint
from indextables.wire.old_checkpoints import (
    CheckpointOrigin,
    MultiPartManifest,
    checksum,
    decode_checkpoint,
    decode_parquet_checkpoint,
    decode_part,
)


class ListedFiles(Struct, frozen=True):
    """A file source that holds its whole list."""

    table: pa.Table

    def files(self, part_filter: PartFilter | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:  # noqa: ARG002
        """The files, all of them."""
        return self.table if columns is None else self.table.select(list(columns))


def read_legacy_checkpoint(store: Store, version: int, info: ObjectInfo, settings: StateReadSettings) -> Base:
    """The base in a checkpoint. BadFileError if any file of it is damaged or missing."""
    if info.path.startswith(log_files.PARQUET_CHECKPOINTS):
        return _parquet_base(store, version, info)
    actions = decode_checkpoint(store.get(info.path), path=info.path, version=version)
    if isinstance(actions, MultiPartManifest):
        actions = _read_parts(store, info.path, actions, settings)
    files = [action for action in actions if isinstance(action, AddAction)]
    return _base(store.url, version, info, actions, from_actions(_live(version, info, actions, files)))


def _read_parts(store: Store, path: str, manifest: MultiPartManifest, settings: StateReadSettings) -> list[LogAction]:
    def read(name: str, expected: str | None) -> list[LogAction]:
        part = f"{log_files.LOG}/{name}"
        try:
            data = store.get(part)
        except NotFoundError as error:
            raise BadFileError(f"{part}, a part of {path}, is missing.", path=part, checkpoint=path) from error
        if expected is not None and checksum(data) != expected:
            raise BadFileError(f"{part} does not match its checksum in {path}.", path=part, checkpoint=path)
        return decode_part(data, path=part)

    checksums = manifest.checksums or [None] * len(manifest.parts)
    with ThreadPoolExecutor(min(settings.parallelism, len(manifest.parts))) as pool:
        return [action for part in pool.map(read, manifest.parts, checksums) for action in part]


def _parquet_base(store: Store, version: int, info: ObjectInfo) -> Base:
    paths = [info.path]
    folder = log_files.parquet_checkpoint_path(version)
    if info.path != folder:
        paths = [file.path for file in store.list(folder) if file.path.endswith(".parquet")]
    parts = [decode_parquet_checkpoint(store.get(path), path=path) for path in paths]
    for part, path in zip(parts, paths, strict=True):
        if part.origin is not None:
            part.origin.check(version=version, path=path, actions=part.files.num_rows + len(part.actions))
    actions = [action for part in parts for action in part.actions]
    return _base(store.url, version, info, actions, pa.concat_tables([part.files for part in parts]))


def _base(root: str, version: int, info: ObjectInfo, actions: Iterable[LogAction], files: pa.Table) -> Base:
    others = tuple(action for action in actions if not isinstance(action, AddAction))
    times = [a.timestamp for a in others if isinstance(a, CommitInfo) and a.timestamp is not None]
    timestamp_ms = bounded_time(max(times, default=None), info.last_modified_ms)
    header = replay(Base(), [CommittedVersion(version, timestamp_ms, others)]).header
    if header.metadata is None:
        raise BadFileError(f"{info.path} does not hold the table's metadata.", path=info.path, version=version)
    return Base(header, ListedFiles(with_relative_paths(files, root=root)))


def _live(version: int, info: ObjectInfo, actions: Sequence[LogAction], adds: Sequence[AddAction]) -> list[AddAction]:
    """The additions that no later action of the checkpoint took back, the last one of each path."""
    folded = replay(Base(), [CommittedVersion(version, info.last_modified_ms or 0, tuple(actions))])
    last = {action.path: action for action in adds}
    return [_with_version(last[path], folded.header) for path in folded.delta.added]


def _with_version(action: AddAction, header: Header) -> AddAction:
    """The version that added a file is only known where the checkpoint says it; else it is the checkpoint's."""
    if action.added_at_version is not None:
        return action
    return msgspec.structs.replace(
        action, added_at_version=header.version, added_at_timestamp=action.modification_time or header.timestamp_ms
    )


def checkpoint_header(header: Header) -> list[LogAction]:
    """The header as actions: what a checkpoint holds beside the files.

    Recent commits are kept by their txnId (rule R5); the last of them carries the time of the version.
    """
    commits = [CommitInfo(txn_id=txn_id) for txn_id in header.recent_txn_ids] or [CommitInfo()]
    commits[-1] = msgspec.structs.replace(commits[-1], timestamp=header.timestamp_ms)
    metadata = [] if header.metadata is None else [header.metadata]
    return [*commits, header.protocol, *metadata, *header.txns.values(), *header.skips.values()]


_PUTS = 3


class LegacyWriter(Struct, frozen=True):
    """Writes JSON and Parquet checkpoints of one table."""

    store: Store
    settings: CheckpointSettings
    now_ms: Callable[[], int]
    new_id: Callable[[], str]

    def path(self, version: int) -> str:
        """Where the checkpoint of a version is, or what makes it whole."""
        of = log_files.parquet_checkpoint_path if self.settings.format == PARQUET else log_files.json_checkpoint_path
        return of(version)

    def write(self, snapshot: Snapshot) -> LastCheckpoint:
        """Write the checkpoint; returns the pointer to it. What is there already is left for the caller to judge."""
        others = [_with_registry(action, snapshot) for action in checkpoint_header(snapshot.header)]
        if self.settings.format == PARQUET:
            return self._write_parquet(snapshot, others)
        actions = [*others, *to_actions(snapshot.all_files)]
        parts = old_checkpoints.split_into_parts(actions)
        path = log_files.json_checkpoint_path(snapshot.version)
        if len(parts) == 1:
            self._put(path, old_checkpoints.encode_part(actions, _origin(snapshot, len(actions))))
            return self._pointer(snapshot, len(actions), JSON)
        manifest = self._write_parts(snapshot, parts)
        self._put(path, old_checkpoints.encode_multi_part_manifest(manifest))
        return self._pointer(snapshot, len(actions), JSON_MULTI_PART, manifest)

    def _write_parts(
        self, snapshot: Snapshot, parts: Sequence[Sequence[LogAction]]
    ) -> old_checkpoints.MultiPartManifest:
        """The parts first; the manifest that is put afterwards makes them a checkpoint."""
        checkpoint_id, version = self.new_id(), snapshot.version
        part_names = [log_files.json_part_name(version, checkpoint_id, number) for number in range(1, len(parts) + 1)]
        checksums = []
        for number, (name, part) in enumerate(zip(part_names, parts, strict=True), 1):
            content = old_checkpoints.encode_part(part, _origin(snapshot, len(part), part=number, parts=len(parts)))
            self._put(f"{log_files.LOG}/{name}", content)
            checksums.append(checksum(content))
        return old_checkpoints.MultiPartManifest(
            version=version,
            checkpoint_id=checkpoint_id,
            parts=tuple(part_names),
            created_time=self.now_ms(),
            table_id=snapshot.metadata.id,
            checksums=tuple(checksums),
        )

    def _write_parquet(self, snapshot: Snapshot, others: Sequence[LogAction]) -> LastCheckpoint:
        files = snapshot.all_files
        path = log_files.parquet_checkpoint_path(snapshot.version)
        compression = self.settings.parquet_compression
        origin = _origin(snapshot, files.num_rows + len(others))
        content = old_checkpoints.encode_parquet_checkpoint(files, others, compression=compression, origin=origin)
        self._put(path, content)
        metadata = old_checkpoints.CheckpointMetadata(
            version=snapshot.version, size=files.num_rows, created_time=self.now_ms()
        )
        self.store.put(path.removesuffix("parquet") + "json", old_checkpoints.encode_metadata(metadata))
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
        manifest: old_checkpoints.MultiPartManifest | None = None,
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
    mappings = {KEY_PREFIX + ref: text for ref, text in snapshot.schema_registry.items() if ref in named}
    return msgspec.structs.replace(action, configuration={**(action.configuration or {}), **mappings})
