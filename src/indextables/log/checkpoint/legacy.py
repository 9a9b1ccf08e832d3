"""Checkpoints of older releases: JSON in one or several files, and Parquet. Always readable,
written on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.config.log import CheckpointSettings, StateReadSettings
from indextables.errors import (
    BadFileError,
    CheckpointCorruptionError,
    NotFoundError,
    UnavailableError,
    show_value,
)
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
    CheckpointLines,
    CheckpointOrigin,
    MultiPartManifest,
    ParquetCheckpointWriter,
    PartFile,
    checksum,
    decode_checkpoint,
    decode_row_groups,
    decode_slices,
    is_file_of_lines,
)
from indextables.wire.state import JSON, JSON_MULTI_PART, PARQUET, LastCheckpoint


class ListedFiles(Struct, frozen=True):
    """A file source that holds its whole list, and the path of its checkpoint."""

    table: pa.Table
    path: str = ""

    def files(
        self,
        part_filter: PartFilter | None = None,  # noqa: ARG002
        *,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return all files."""
        if columns is None:
            return self.table
        return self.table.select(list(columns))


def read_legacy_checkpoint(
    store: Store,
    version: int,
    info: ObjectInfo,
    settings: StateReadSettings,
    *,
    columns: Sequence[str] | None = None,
) -> Base:
    """Read the base in a checkpoint, with only the named columns of its files. Raises
    CheckpointCorruptionError.
    """
    tables: list[pa.Table] = []
    others = pass_over_checkpoint(store, version, info, settings, tables.append, columns=columns)
    files = None if others is None else pa.concat_tables(tables)
    if others is None or (not _is_parquet(info) and _has_twice(files)):
        others, files = _fold_actions(store, version, info, settings, columns)
    return Base(checkpoint_base_header(version, info, others), ListedFiles(files, info.path))


def checkpoint_format(store: Store, path: str) -> str:
    """Return the format of the checkpoint at a path, in the terms of `_last_checkpoint`."""
    if path.startswith(log_files.PARQUET_CHECKPOINTS):
        return PARQUET
    data = store.get(path)
    if is_file_of_lines(data, path=path):
        return JSON
    content = decode_checkpoint(
        data, path=path, version=log_files.legacy_checkpoint_version_of(path)
    )
    if isinstance(content, MultiPartManifest):
        return JSON_MULTI_PART
    return JSON


def _is_parquet(info: ObjectInfo) -> bool:
    return info.path.startswith(log_files.PARQUET_CHECKPOINTS)


def pass_over_checkpoint(
    store: Store,
    version: int,
    info: ObjectInfo,
    settings: StateReadSettings,
    visit: Callable[[pa.Table], None],
    *,
    columns: Sequence[str] | None = None,
) -> list[LogAction] | None:
    """Pass the files of a checkpoint to `visit` in batches and return all other actions.

    Returns None if it is another writer's and removes files that it adds, which can be evaluated
    only as a whole.
    """
    if _is_parquet(info):
        pieces = _parquet_pieces(store, version, info, columns)
    else:
        pieces = _json_pieces(store, version, info, settings, columns)
    others: list[LogAction] = []
    for piece in pieces:
        if piece.may_be_taken_back and any(
            isinstance(action, RemoveAction) for action in piece.actions
        ):
            return None
        others += piece.actions
        visit(with_relative_paths(piece.files, root=store.url))
    return others


class _Piece(Struct, frozen=True):
    """Some files of a checkpoint and other actions; whether a later piece may remove or replace
    what it adds.
    """

    files: pa.Table
    actions: Sequence[LogAction] = ()
    may_be_taken_back: bool = False


def _json_pieces(
    store: Store,
    version: int,
    info: ObjectInfo,
    settings: StateReadSettings,
    columns: Sequence[str] | None,
) -> Iterator[_Piece]:
    """Decode lines in slices, whether of one file or of parts, because decoded actions take many
    times their size.
    """
    data = store.get(info.path)
    if is_file_of_lines(data, path=info.path):
        slices = decode_slices(data, path=info.path, version=version)
    else:
        content = decode_checkpoint(data, path=info.path, version=version)
        if not isinstance(content, MultiPartManifest):
            files = [action for action in content if isinstance(action, AddAction)]
            table = _columns(from_actions(_live(version, info, content, files)), columns)
            yield _Piece(table, [action for action in content if not isinstance(action, AddAction)])
            return
        slices = _read_parts(store, info.path, content, settings)
    for actions in slices:
        others = [action for action in actions if not isinstance(action, AddAction)]
        adds = [
            _date_addition(a, version, info.last_modified_ms or 0)
            for a in actions
            if isinstance(a, AddAction)
        ]
        table = _columns(from_actions(adds), columns)
        del actions, adds  # before the next ones come
        yield _Piece(table, others, may_be_taken_back=True)


def _fold_actions(
    store: Store,
    version: int,
    info: ObjectInfo,
    settings: StateReadSettings,
    columns: Sequence[str] | None,
) -> tuple[list[LogAction], pa.Table]:
    """Return a checkpoint of another writer whose actions remove or replace others, as a whole."""
    every = decode_checkpoint(store.get(info.path), path=info.path, version=version)
    if isinstance(every, MultiPartManifest):
        every = [
            action for part in _read_parts(store, info.path, every, settings) for action in part
        ]
    adds = _live(
        version, info, every, [action for action in every if isinstance(action, AddAction)]
    )
    files = with_relative_paths(_columns(from_actions(adds), columns), root=store.url)
    return [action for action in every if not isinstance(action, AddAction)], files


def _columns(files: pa.Table, columns: Sequence[str] | None) -> pa.Table:
    if columns is None:
        return files
    return files.select(list(columns))


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
    fetched = MANIFESTS.each(fetch, parts, parallelism=min(settings.parallelism, _PARTS_AHEAD))
    for name, data in zip(manifest.parts, fetched, strict=True):
        yield from decode_slices(data, path=f"{log_files.LOG}/{name}")


def _parquet_pieces(
    store: Store, version: int, info: ObjectInfo, columns: Sequence[str] | None
) -> Iterator[_Piece]:
    paths = [info.path]
    folder = log_files.parquet_checkpoint_path(version)
    if info.path != folder:
        paths = [file.path for file in store.list(folder) if file.path.endswith(".parquet")]
    for path in paths:
        origin, count = None, 0
        for group in decode_row_groups(store.get(path), path=path, columns=columns):
            origin, count = group.origin, count + group.files.num_rows + len(group.actions)
            yield _Piece(group.files, group.actions)
        if origin is not None:
            origin.check(version=version, path=path, actions=count)
            for other in origin.others:
                yield from _parquet_part(store, info.path, other, columns)


def _parquet_part(
    store: Store, path: str, part: PartFile, columns: Sequence[str] | None
) -> Iterator[_Piece]:
    """Return the files in a further part of a Parquet checkpoint."""
    place = f"{log_files.PARQUET_CHECKPOINTS}/{part.name}"
    try:
        if not log_files.is_checkpoint_part(place):
            raise CheckpointCorruptionError(
                f"{path} names a part that is none: {show_value(part.name)}.", path=path
            )
        data = store.get(place)
    except NotFoundError as error:
        message = f"{place}, a part of {path}, is missing."
        raise CheckpointCorruptionError(message, path=place, checkpoint=path) from error
    if checksum(data) != part.sha256:
        message = f"{place} does not match its checksum in {path}."
        raise CheckpointCorruptionError(message, path=place, checkpoint=path)
    for group in decode_row_groups(data, path=place, columns=columns):
        yield _Piece(group.files)


def checkpoint_base_header(version: int, info: ObjectInfo, others: Sequence[LogAction]) -> Header:
    """Return the header that the actions other than files lead to."""
    times = [a.timestamp for a in others if isinstance(a, CommitInfo) and a.timestamp is not None]
    timestamp_ms = bounded_time(max(times, default=None), info.last_modified_ms)
    header = replay(Base(), [CommittedVersion(version, timestamp_ms, tuple(others))]).header
    if header.metadata is None:
        raise CheckpointCorruptionError(
            f"{info.path} does not hold the table's metadata.", path=info.path, version=version
        )
    last = next((a for a in reversed(others) if isinstance(a, CommitInfo)), CommitInfo())
    return msgspec.structs.replace(header, txn_id=last.txn_id or None)


def _live(
    version: int, info: ObjectInfo, actions: Sequence[LogAction], adds: Sequence[AddAction]
) -> list[AddAction]:
    """Return the last addition of each path that no later action removed."""
    folded = replay(Base(), [CommittedVersion(version, info.last_modified_ms or 0, tuple(actions))])
    last = {action.path: action for action in adds}
    return [
        _date_addition(last[path], folded.header.version, folded.header.timestamp_ms)
        for path in folded.delta.added
    ]


def _date_addition(action: AddAction, version: int, timestamp_ms: int) -> AddAction:
    """Set the version that added a file to that recorded in the checkpoint, or else to the
    checkpoint's.
    """
    if action.added_at_version is not None:
        return action
    return msgspec.structs.replace(
        action,
        added_at_version=version,
        added_at_timestamp=action.modification_time or timestamp_ms,
    )


def checkpoint_header(header: Header) -> list[LogAction]:
    """Return the header as actions: the content of a checkpoint other than files.

    Recent commits are listed by txnId (rule R5). The last `commitInfo` has the time and the txnId
    of the version.
    """
    commits = [CommitInfo(txn_id=txn_id) for txn_id in header.recent_txn_ids]
    if not commits or header.txn_id is None:
        commits.append(CommitInfo())
    commits[-1] = msgspec.structs.replace(commits[-1], timestamp=header.timestamp_ms)
    metadata = [] if header.metadata is None else [header.metadata]
    return [*commits, header.protocol, *metadata, *header.txns.values(), *header.skips.values()]


_PUTS = 3
_PARTS_AHEAD = 2
"""Number of parts of a JSON checkpoint that are fetched ahead, because decoding takes longer."""
_BATCH_ROWS = 10_000
"""Number of files in memory at a time while a checkpoint is written."""


class LegacyWriter(Struct, frozen=True):
    """Writes JSON and Parquet checkpoints of one table."""

    store: Store
    settings: CheckpointSettings
    now_ms: Callable[[], int]
    new_id: Callable[[], str]

    def path(self, version: int) -> str:
        """Return the path of a version's checkpoint, or of the file that completes it."""
        if self.settings.format == PARQUET:
            of = log_files.parquet_checkpoint_path
        else:
            of = log_files.json_checkpoint_path
        return of(version)

    def write(self, snapshot: Snapshot) -> LastCheckpoint:
        """Write the checkpoint and return its pointer. An existing file is not changed; the caller
        judges it.

        Files pass through memory in batches. Where a list cannot be read in batches it is read
        whole.
        """
        rows = max(1, min(_BATCH_ROWS, old_checkpoints.ACTIONS_PER_PART // 4))
        try:
            return self._write(snapshot, rows)
        except (BadFileError, NotFoundError):
            snapshot.all_files  # noqa: B018 - from here on it is what the batches are taken from
            return self._write(snapshot, rows)

    def _write(self, snapshot: Snapshot, rows: int) -> LastCheckpoint:
        by_name = snapshot.header.protocol.min_reader_version >= RECORDED_SINCE
        others = [
            _with_registry(action, snapshot, by_name=by_name)
            for action in checkpoint_header(snapshot.header)
        ]
        listed = _Listed()
        batches = listed.count_batches(live_batches(snapshot, rows))
        if self.settings.format == PARQUET:
            return self._write_parquet(snapshot, others, batches, listed)
        adds = (_attach_mappings(to_actions(batch), snapshot, by_name=by_name) for batch in batches)
        if self.settings.json_layout == "object":
            self._put(
                log_files.json_checkpoint_path(snapshot.version),
                old_checkpoints.encode_object(others, adds),
            )
            return self._pointer(snapshot, len(others), listed, JSON)
        # Readers of the versions before know no checkpoint of several parts.
        limit = self.settings.max_file_bytes if by_name else None
        return self._write_lines(snapshot, others, adds, listed, limit)

    def _write_lines(
        self,
        snapshot: Snapshot,
        others: Sequence[LogAction],
        adds: Iterable[Sequence[AddAction]],
        listed: _Listed,
        limit: int | None,
    ) -> LastCheckpoint:
        """Write one file, or parts limited by actions and bytes followed by the manifest that joins
        them.
        """
        parts: dict[str, str] = {}
        checkpoint_id = ""
        part = CheckpointLines()
        part.write(others)
        for batch in adds:
            for some, lines in _within(batch, limit):
                if (
                    limit is not None
                    and part.actions
                    and _is_full(part, len(some), len(lines), limit)
                ):
                    checkpoint_id = checkpoint_id or self.new_id()
                    self._put_part(snapshot, checkpoint_id, part, parts)
                    part = CheckpointLines()
                part.write(some, lines)
        path = log_files.json_checkpoint_path(snapshot.version)
        if not parts:
            self._count_text(part.text_bytes)
            self._put(path, part.finish(_origin(snapshot, part.actions)))
            return self._pointer(snapshot, len(others), listed, JSON)
        self._put_part(snapshot, checkpoint_id, part, parts)
        manifest = old_checkpoints.MultiPartManifest(
            version=snapshot.version,
            checkpoint_id=checkpoint_id,
            parts=tuple(parts),
            created_time=self.now_ms(),
            table_id=snapshot.metadata.id,
            checksums=tuple(parts.values()),
        )
        self._put(path, old_checkpoints.encode_multi_part_manifest(manifest))
        return self._pointer(
            snapshot, len(others), listed, JSON_MULTI_PART, len(parts), checkpoint_id
        )

    def _put_part(
        self, snapshot: Snapshot, checkpoint_id: str, part: CheckpointLines, parts: dict[str, str]
    ) -> None:
        """Store a part and record its name and checksum for the manifest, which is written last."""
        number = len(parts) + 1
        name = log_files.json_part_name(snapshot.version, checkpoint_id, number)
        self._count_text(part.text_bytes)
        content = part.finish(_origin(snapshot, part.actions, part=number, parts=0))
        self._put(f"{log_files.LOG}/{name}", content)
        parts[name] = checksum(content)

    def _count_text(self, size: int) -> None:
        METRICS.count("checkpoint_text_bytes_total", self.store.url, self.settings.format, by=size)

    def _write_parquet(
        self,
        snapshot: Snapshot,
        others: Sequence[LogAction],
        batches: Iterator[pa.Table],
        listed: _Listed,
    ) -> LastCheckpoint:
        """Write the further parts, then the main file, which names them."""
        path, checkpoint_id = log_files.parquet_checkpoint_path(snapshot.version), self.new_id()
        parts: list[PartFile] = []
        writer = ParquetCheckpointWriter(self.settings.parquet_compression)
        for batch in batches:
            if writer.size >= self.settings.max_file_bytes:
                name = log_files.parquet_part_name(snapshot.version, checkpoint_id, len(parts) + 1)
                content = writer.finish(
                    _origin(snapshot, writer.rows, part=len(parts) + 2, parts=0)
                )
                self._put(f"{log_files.PARQUET_CHECKPOINTS}/{name}", content)
                parts.append(PartFile(name, checksum(content)))
                writer = ParquetCheckpointWriter(self.settings.parquet_compression)
            writer.write_files(batch)
            self._count_text(batch.nbytes)
        writer.write_actions(others)
        origin = _origin(snapshot, writer.rows, parts=1 + len(parts), others=tuple(parts))
        self._put(path, writer.finish(origin))
        several = 1 + len(parts) if parts else None
        pointer = self._pointer(
            snapshot, len(others), listed, PARQUET, several, checkpoint_id if parts else None
        )
        metadata = old_checkpoints.CheckpointMetadata(
            version=snapshot.version,
            size=pointer.num_files or 0,
            parts=several,
            created_time=self.now_ms(),
        )
        self.store.put(
            path.removesuffix("parquet") + "json", old_checkpoints.encode_metadata(metadata)
        )
        return pointer

    def _put(self, path: str, content: bytes) -> None:
        """Create a file or accept the existing one: a checkpoint of a version is the same whichever
        writer created it.
        """
        METRICS.count(
            "checkpoint_bytes_total", self.store.url, self.settings.format, by=len(content)
        )
        for _ in range(_PUTS):
            if (
                self.store.put_if_absent(path, content) is PutOutcome.CREATED
                or self.store.head(path) is not None
            ):
                return
        raise UnavailableError(f"Whether {path} was written could not be found out.", path=path)

    def _pointer(
        self,
        snapshot: Snapshot,
        others: int,
        listed: _Listed,
        kind: str,
        parts: int | None = None,
        checkpoint_id: str | None = None,
    ) -> LastCheckpoint:
        return LastCheckpoint(
            version=snapshot.version,
            size=listed.files + others,
            size_in_bytes=listed.size,
            num_files=listed.files,
            created_time=self.now_ms(),
            parts=parts,
            checkpoint_id=checkpoint_id,
            format=kind,
            table_id=snapshot.metadata.id or None,
            txn_id=snapshot.header.txn_id,
        )


class _Listed(Struct):
    """Counts the files that passed and their total size."""

    files: int = 0
    size: int = 0

    def count_batches(self, batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the same batches and count them."""
        for batch in batches:
            self.files += batch.num_rows
            self.size += pc.sum(batch.column("size")).as_py() or 0
            yield batch


def _within(
    actions: Sequence[AddAction], limit: int | None
) -> Iterator[tuple[Sequence[AddAction], bytes]]:
    """Encode actions as lines, halving a piece until it is within the limit or holds a single
    action.
    """
    lines = version_file.encode(actions, compress=False)
    if limit is None or len(lines) <= limit or len(actions) < 2:
        yield actions, lines
        return
    half = len(actions) // 2
    yield from _within(actions[:half], limit)
    yield from _within(actions[half:], limit)


def _is_full(part: CheckpointLines, actions: int, text_bytes: int, limit: int) -> bool:
    """Return whether this many more actions and bytes belong into another part."""
    return (
        part.actions + actions > old_checkpoints.ACTIONS_PER_PART
        or part.text_bytes + text_bytes > limit
    )


def _origin(
    snapshot: Snapshot,
    actions: int,
    *,
    part: int = 1,
    parts: int = 1,
    others: tuple[PartFile, ...] = (),
) -> CheckpointOrigin:
    """Return what a file records about its origin. Only the main file knows the number of parts."""
    table_id = snapshot.metadata.id
    return CheckpointOrigin(
        version=snapshot.version,
        table_id=table_id,
        txn_id=snapshot.header.txn_id,
        part=part,
        parts=parts,
        actions=actions,
        others=others,
    )


def _attach_mappings(
    actions: Sequence[AddAction], snapshot: Snapshot, *, by_name: bool
) -> Sequence[AddAction]:
    """Return the files with doc mappings as readers of the table's protocol expect them: by name,
    or inline.
    """
    if by_name:
        return actions
    registry = snapshot.schema_registry
    return [
        msgspec.structs.replace(
            a,
            doc_mapping_json=a.doc_mapping_json or registry.get(a.doc_mapping_ref or ""),
            doc_mapping_ref=None,
        )
        for a in actions
    ]


def _with_registry(action: LogAction, snapshot: Snapshot, *, by_name: bool) -> LogAction:
    """Return the metadata with the doc mappings that the files name. A state stores them
    separately.
    """
    if not isinstance(action, MetadataAction):
        return action
    if not by_name:
        return without_registry(action)
    registry, named = snapshot.schema_registry, set[str]()
    for batch in (
        live_batches(snapshot, _BATCH_ROWS, columns=["doc_mapping_ref"]) if registry else ()
    ):
        named |= in_use(batch)
    mappings = {KEY_PREFIX + ref: text for ref, text in registry.items() if ref in named}
    return msgspec.structs.replace(
        action, configuration={**(action.configuration or {}), **mappings}
    )
