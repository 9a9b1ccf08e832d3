"""Checkpoints of older releases: JSON in one file or several parts, and Parquet. Read always, written on request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pyarrow as pa
from msgspec import Struct

from indextables.config.state import StateReadSettings
from indextables.errors import BadFileError, NotFoundError
from indextables.log import names
from indextables.log.clock import bounded_time
from indextables.log.manifest_reader import with_relative_paths
from indextables.model.actions import AddAction, CommitInfo, LogAction
from indextables.model.file_list import from_actions
from indextables.model.snapshot import Base, CommittedVersion, Header, PartFilter, replay
from indextables.storage.store import ObjectInfo, Store
from indextables.wire.checkpoint_origin import checksum
from indextables.wire.json_checkpoint import MultiPartManifest, decode_checkpoint, decode_part
from indextables.wire.parquet_checkpoint import decode_parquet_checkpoint


class ListedFiles(Struct, frozen=True):
    """A file source that holds its whole list."""

    table: pa.Table

    def files(self, wanted: PartFilter | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:  # noqa: ARG002
        """The files, all of them."""
        return self.table if columns is None else self.table.select(list(columns))


def read_checkpoint(store: Store, version: int, info: ObjectInfo, settings: StateReadSettings) -> Base:
    """The base in a checkpoint. BadFileError if any file of it is damaged or missing."""
    if info.path.startswith(names.PARQUET_CHECKPOINTS):
        return _parquet_base(store, version, info)
    found = decode_checkpoint(store.get(info.path), path=info.path, version=version)
    if isinstance(found, MultiPartManifest):
        found = _read_parts(store, info.path, found, settings)
    files = [action for action in found if isinstance(action, AddAction)]
    return _base(store.url, version, info, found, from_actions(_live(version, info, found, files)))


def _read_parts(store: Store, path: str, manifest: MultiPartManifest, settings: StateReadSettings) -> list[LogAction]:
    def read(name: str, expected: str | None) -> list[LogAction]:
        part = f"{names.LOG}/{name}"
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
    folder = names.parquet_checkpoint_path(version)
    if info.path != folder:
        paths = [found.path for found in store.list(folder) if found.path.endswith(".parquet")]
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
    return [_dated(last[path], folded.header) for path in folded.delta.added]


def _dated(action: AddAction, header: Header) -> AddAction:
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
