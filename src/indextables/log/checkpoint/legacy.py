"""Checkpoints of older releases: JSON in one file or several parts, and Parquet. Read always, written on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.config.log import CheckpointSettings, StateReadSettings
from indextables.errors import BadFileError, CheckpointCorruptionError, NotFoundError, UnavailableError, shown
from indextables.log import log_files
from indextables.log.checkpoint.manifests import with_relative_paths
from indextables.log.checkpoint.state_writer import live_batches
from indextables.log.versions import bounded_time
from indextables.metrics import METRICS
from indextables.model.actions import AddAction, CommitInfo, LogAction, MetadataAction, RemoveAction
from indextables.model.file_list import from_actions, to_actions
from indextables.model.schema_registry import KEY_PREFIX, RECORDED_SINCE, in_use, without_registry
from indextables.model.snapshot import Base, CommittedVersion, Header, PartFilter, Snapshot, replay
from indextables.pools import MANIFESTS
from indextables.storage.store import ObjectInfo, PutOutcome, Store
from indextables.wire import old_checkpoints, version_file
from indextables.wire.old_checkpoints import (
    CheckpointOrigin,
    MultiPartManifest,
    ParquetCheckpointWriter,
    PartFile,
    checksum,
    decode_checkpoint,
    decode_parquet_checkpoint,
    decode_slices,
)
from indextables.wire.state import JSON, JSON_MULTI_PART, PARQUET, LastCheckpoint


class ListedFiles(Struct, frozen=True):
    """A file source that holds its whole list."""

    table: pa.Table

    def files(self, part_filter: PartFilter | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:  # noqa: ARG002
        """The files, all of them."""
        return self.table if columns is None else self.table.select(list(columns))


def read_legacy_checkpoint(
    store: Store, version: int, info: ObjectInfo, settings: StateReadSettings, *, columns: Sequence[str] | None = None
) -> Base:
    """The base in a checkpoint; of its files just these columns, if they are named.

    CheckpointCorruptionError if any file of it is damaged or missing.
    """
    if info.path.startswith(log_files.PARQUET_CHECKPOINTS):
        return _parquet_base(store, version, info, columns)
    actions = decode_checkpoint(store.get(info.path), path=info.path, version=version)
    if isinstance(actions, MultiPartManifest):
        return _multi_part_base(store, version, info, actions, settings, columns)
    files = [action for action in actions if isinstance(action, AddAction)]
    table = _columns(from_actions(_live(version, info, actions, files)), columns)
    return _base(store.url, version, info, actions, table)


def _multi_part_base(
    store: Store,
    version: int,
    info: ObjectInfo,
    manifest: MultiPartManifest,
    settings: StateReadSettings,
    columns: Sequence[str] | None,
) -> Base:
    """The parts are fetched together and decoded in slices: as objects they take many times their bytes."""
    others: list[LogAction] = []
    tables: list[pa.Table] = []
    for actions in _read_parts(store, info.path, manifest, settings):
        others += [action for action in actions if not isinstance(action, AddAction)]
        adds = [_dated(a, version, info.last_modified_ms or 0) for a in actions if isinstance(a, AddAction)]
        tables.append(_columns(from_actions(adds), columns))
        del actions, adds  # before the next ones come
    files = pa.concat_tables(tables)
    if any(isinstance(action, RemoveAction) for action in others) or _has_twice(files):
        # Another writer's: what a later action takes back or replaces can be told only over all of them.
        every = [action for part in _read_parts(store, info.path, manifest, settings) for action in part]
        adds = _live(version, info, every, [action for action in every if isinstance(action, AddAction)])
        files = _columns(from_actions(adds), columns)
    return _base(store.url, version, info, others, files)


def _columns(files: pa.Table, columns: Sequence[str] | None) -> pa.Table:
    return files if columns is None else files.select(list(columns))


def _has_twice(files: pa.Table) -> bool:
    return bool(len(pc.unique(files.column("path"))) < files.num_rows)


def _read_parts(
    store: Store, path: str, manifest: MultiPartManifest, settings: StateReadSettings
) -> Iterator[list[LogAction]]:
    def fetch(one: tuple[str, str | None]) -> bytes:
        name, expected = one
        part = f"{log_files.LOG}/{name}"
        try:
            data = store.get(part)
        except NotFoundError as error:
            message = f"{part}, a part of {path}, is missing."
            raise CheckpointCorruptionError(message, path=part, checkpoint=path) from error
        if expected is not None and checksum(data) != expected:
            message = f"{part} does not match its checksum in {path}."
            raise CheckpointCorruptionError(message, path=part, checkpoint=path)
        return data

    checksums = manifest.checksums or [None] * len(manifest.parts)
    parts = zip(manifest.parts, checksums, strict=True)
    fetched = MANIFESTS.each(fetch, parts, parallelism=settings.parallelism)
    for name, data in zip(manifest.parts, fetched, strict=True):
        yield from decode_slices(data, path=f"{log_files.LOG}/{name}")


def _parquet_base(store: Store, version: int, info: ObjectInfo, columns: Sequence[str] | None) -> Base:
    paths = [info.path]
    folder = log_files.parquet_checkpoint_path(version)
    if info.path != folder:
        paths = [file.path for file in store.list(folder) if file.path.endswith(".parquet")]
    parts = [decode_parquet_checkpoint(store.get(path), path=path, columns=columns) for path in paths]
    for part, path in zip(parts, paths, strict=True):
        if part.origin is not None:
            part.origin.check(version=version, path=path, actions=part.files.num_rows + len(part.actions))
    actions = [action for part in parts for action in part.actions]
    tables = [part.files for part in parts]
    for part in parts:
        for other in part.origin.others if part.origin is not None else ():
            tables.append(_parquet_part(store, info.path, other, columns))
    return _base(store.url, version, info, actions, pa.concat_tables(tables))


def _parquet_part(store: Store, path: str, part: PartFile, columns: Sequence[str] | None) -> pa.Table:
    """The files in a further part of a Parquet checkpoint."""
    place = f"{log_files.PARQUET_CHECKPOINTS}/{part.name}"
    try:
        if not log_files.is_checkpoint_part(place):
            raise CheckpointCorruptionError(f"{path} names a part that is none: {shown(part.name)}.", path=path)
        data = store.get(place)
    except NotFoundError as error:
        message = f"{place}, a part of {path}, is missing."
        raise CheckpointCorruptionError(message, path=place, checkpoint=path) from error
    if checksum(data) != part.sha256:
        message = f"{place} does not match its checksum in {path}."
        raise CheckpointCorruptionError(message, path=place, checkpoint=path)
    return decode_parquet_checkpoint(data, path=place, columns=columns).files


def _base(root: str, version: int, info: ObjectInfo, actions: Iterable[LogAction], files: pa.Table) -> Base:
    others = tuple(action for action in actions if not isinstance(action, AddAction))
    times = [a.timestamp for a in others if isinstance(a, CommitInfo) and a.timestamp is not None]
    timestamp_ms = bounded_time(max(times, default=None), info.last_modified_ms)
    header = replay(Base(), [CommittedVersion(version, timestamp_ms, others)]).header
    if header.metadata is None:
        raise CheckpointCorruptionError(
            f"{info.path} does not hold the table's metadata.", path=info.path, version=version
        )
    return Base(header, ListedFiles(with_relative_paths(files, root=root)))


def _live(version: int, info: ObjectInfo, actions: Sequence[LogAction], adds: Sequence[AddAction]) -> list[AddAction]:
    """The additions that no later action of the checkpoint took back, the last one of each path."""
    folded = replay(Base(), [CommittedVersion(version, info.last_modified_ms or 0, tuple(actions))])
    last = {action.path: action for action in adds}
    return [_dated(last[path], folded.header.version, folded.header.timestamp_ms) for path in folded.delta.added]


def _dated(action: AddAction, version: int, timestamp_ms: int) -> AddAction:
    """The version that added a file is only known where the checkpoint says it; else it is the checkpoint's."""
    if action.added_at_version is not None:
        return action
    return msgspec.structs.replace(
        action, added_at_version=version, added_at_timestamp=action.modification_time or timestamp_ms
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
_BATCH_ROWS = 10_000
"""Files that pass through memory at a time while a checkpoint is written."""


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
        """Write the checkpoint; returns the pointer to it. What is there already is left for the caller to judge.

        The files pass through memory a few at a time. Where they cannot be read that way they are found by another.
        """
        rows = max(1, min(_BATCH_ROWS, old_checkpoints.ACTIONS_PER_PART // 4))
        try:
            return self._write(snapshot, live_batches(snapshot, rows))
        except (BadFileError, NotFoundError):
            files = snapshot.all_files
            return self._write(snapshot, (files.slice(at, rows) for at in range(0, files.num_rows, rows)))

    def _write(self, snapshot: Snapshot, batches: Iterator[pa.Table]) -> LastCheckpoint:
        by_name = snapshot.header.protocol.min_reader_version >= RECORDED_SINCE
        others = [_with_registry(action, snapshot, by_name=by_name) for action in checkpoint_header(snapshot.header)]
        if self.settings.format == PARQUET:
            return self._write_parquet(snapshot, others, batches)
        adds = (_mapped(to_actions(batch), snapshot, by_name=by_name) for batch in batches)
        path = log_files.json_checkpoint_path(snapshot.version)
        if self.settings.json_layout == "object":
            self._put(path, old_checkpoints.encode_object(others, adds))
            return self._pointer(snapshot, len(others), JSON)
        # Readers of the versions before know no checkpoint of several parts.
        chunks = _chunks(others, adds, self.settings.max_file_bytes if by_name else None)
        first, second = next(chunks), next(chunks, None)
        if second is None:
            METRICS.count("checkpoint_text_bytes_total", self.store.url, self.settings.format, by=len(first.lines))
            self._put(path, old_checkpoints.seal(first.lines, _origin(snapshot, first.actions)))
            return self._pointer(snapshot, len(others), JSON)
        manifest = self._write_parts(snapshot, chain((first, second), chunks))
        self._put(path, old_checkpoints.encode_multi_part_manifest(manifest))
        return self._pointer(snapshot, len(others), JSON_MULTI_PART, len(manifest.parts), manifest.checkpoint_id)

    def _write_parts(self, snapshot: Snapshot, chunks: Iterable[_Chunk]) -> old_checkpoints.MultiPartManifest:
        """The parts first; the manifest that is put afterwards makes them a checkpoint."""
        checkpoint_id, version = self.new_id(), snapshot.version
        names, checksums = [], []
        for number, chunk in enumerate(chunks, 1):
            METRICS.count("checkpoint_text_bytes_total", self.store.url, self.settings.format, by=len(chunk.lines))
            names.append(log_files.json_part_name(version, checkpoint_id, number))
            content = old_checkpoints.seal(chunk.lines, _origin(snapshot, chunk.actions, part=number, parts=0))
            self._put(f"{log_files.LOG}/{names[-1]}", content)
            checksums.append(checksum(content))
        return old_checkpoints.MultiPartManifest(
            version=version,
            checkpoint_id=checkpoint_id,
            parts=tuple(names),
            created_time=self.now_ms(),
            table_id=snapshot.metadata.id,
            checksums=tuple(checksums),
        )

    def _write_parquet(
        self, snapshot: Snapshot, others: Sequence[LogAction], batches: Iterator[pa.Table]
    ) -> LastCheckpoint:
        """The further parts first; the file in the checkpoint's own place names them, and is put last."""
        path, checkpoint_id = log_files.parquet_checkpoint_path(snapshot.version), self.new_id()
        parts: list[PartFile] = []
        writer = ParquetCheckpointWriter(self.settings.parquet_compression)
        for batch in batches:
            if writer.size >= self.settings.max_file_bytes:
                name = log_files.parquet_part_name(snapshot.version, checkpoint_id, len(parts) + 1)
                content = writer.finish(_origin(snapshot, writer.rows, part=len(parts) + 2, parts=0))
                self._put(f"{log_files.PARQUET_CHECKPOINTS}/{name}", content)
                parts.append(PartFile(name, checksum(content)))
                writer = ParquetCheckpointWriter(self.settings.parquet_compression)
            writer.write_files(batch)
            METRICS.count("checkpoint_text_bytes_total", self.store.url, self.settings.format, by=batch.nbytes)
        writer.write_actions(others)
        origin = _origin(snapshot, writer.rows, parts=1 + len(parts), others=tuple(parts))
        self._put(path, writer.finish(origin))
        several = 1 + len(parts) if parts else None
        pointer = self._pointer(snapshot, len(others), PARQUET, several, checkpoint_id if parts else None)
        metadata = old_checkpoints.CheckpointMetadata(
            version=snapshot.version, size=pointer.num_files or 0, parts=several, created_time=self.now_ms()
        )
        self.store.put(path.removesuffix("parquet") + "json", old_checkpoints.encode_metadata(metadata))
        return pointer

    def _put(self, path: str, content: bytes) -> None:
        """Created by us or found there: a checkpoint of a version says the same, whoever wrote it."""
        METRICS.count("checkpoint_bytes_total", self.store.url, self.settings.format, by=len(content))
        for _ in range(_PUTS):
            if self.store.put_if_absent(path, content) is PutOutcome.CREATED or self.store.head(path) is not None:
                return
        raise UnavailableError(f"Whether {path} was written could not be found out.", path=path)

    def _pointer(
        self,
        snapshot: Snapshot,
        others: int,
        kind: str,
        parts: int | None = None,
        checkpoint_id: str | None = None,
    ) -> LastCheckpoint:
        files = snapshot.files(columns=["size"])
        return LastCheckpoint(
            version=snapshot.version,
            size=files.num_rows + others,
            size_in_bytes=pc.sum(files.column("size")).as_py() or 0,
            num_files=files.num_rows,
            created_time=self.now_ms(),
            parts=parts,
            checkpoint_id=checkpoint_id,
            format=kind,
        )


class _Chunk(Struct, frozen=True):
    """The lines of one file of a JSON checkpoint."""

    lines: bytes
    actions: int


def _chunks(others: Sequence[LogAction], adds: Iterable[Sequence[LogAction]], limit: int | None) -> Iterator[_Chunk]:
    """The lines of a checkpoint in files of at most so many actions and about so many bytes; in one if there is no limit."""
    lines, actions = [version_file.encode(others, compress=False)], len(others)
    for batch in adds:
        text = version_file.encode(batch, compress=False)
        many = actions + len(batch) > old_checkpoints.ACTIONS_PER_PART or sum(map(len, lines)) + len(text) > (
            limit or 0
        )
        if limit is not None and actions and many:
            yield _Chunk(b"".join(lines), actions)
            lines, actions = [], 0
        lines.append(text)
        actions += len(batch)
    yield _Chunk(b"".join(lines), actions)


def _origin(
    snapshot: Snapshot, actions: int, *, part: int = 1, parts: int = 1, others: tuple[PartFile, ...] = ()
) -> CheckpointOrigin:
    """What a file says that it is. A part does not know of how many: the file that names the parts does."""
    table_id = snapshot.metadata.id
    return CheckpointOrigin(
        version=snapshot.version, table_id=table_id, part=part, parts=parts, actions=actions, others=others
    )


def _mapped(actions: Sequence[AddAction], snapshot: Snapshot, *, by_name: bool) -> Sequence[AddAction]:
    """The files with their doc mappings as readers of the table's protocol find them: by name, or where they stand."""
    if by_name:
        return actions
    registry = snapshot.schema_registry
    return [
        msgspec.structs.replace(
            a, doc_mapping_json=a.doc_mapping_json or registry.get(a.doc_mapping_ref or ""), doc_mapping_ref=None
        )
        for a in actions
    ]


def _with_registry(action: LogAction, snapshot: Snapshot, *, by_name: bool) -> LogAction:
    """The metadata with the doc mappings that the files name: a state keeps them beside it, a checkpoint within."""
    if not isinstance(action, MetadataAction):
        return action
    if not by_name:
        return without_registry(action)
    named = in_use(snapshot.files(columns=["doc_mapping_ref"]))
    mappings = {KEY_PREFIX + ref: text for ref, text in snapshot.schema_registry.items() if ref in named}
    return msgspec.structs.replace(action, configuration={**(action.configuration or {}), **mappings})
