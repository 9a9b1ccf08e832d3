"""Whether a checkpoint can stand for the versions that led to it.

Nothing is deleted on the word of a file that nobody has read. A check reads the state and every manifest that it names, or
every part of a legacy checkpoint, from the store and not from memory; checksums and counts must hold; and where the versions
are still there, what they lead to by another way must be the same. Whoever deletes asks for the check first; whoever
writes a checkpoint asks for it before the pointer moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
from msgspec import Struct

from indextables.config.log import LogReadSettings, StateReadSettings
from indextables.errors import (
    BadFileError,
    CheckpointCorruptionError,
    CorruptTableError,
    IndexTablesError,
    NotFoundError,
    UnsupportedError,
)
from indextables.log import log_files
from indextables.log.cache import LogCache
from indextables.log.checkpoint.descent import check_descent
from indextables.log.checkpoint.state_files import StateFiles
from indextables.log.checkpoint.state_reader import BaseReader
from indextables.log.log_files import LogListing
from indextables.log.versions import VersionReader
from indextables.model.actions import MetadataAction
from indextables.model.schema_registry import KEY_PREFIX
from indextables.model.snapshot import Base, Snapshot, replay
from indextables.model.state import ManifestInfo
from indextables.storage.store import ObjectInfo, Store
from indextables.wire.avro import read_container

COMPARED = ["path", "size", "num_records", "deletion_vector"]
_HELD_BYTES = 1 << 30


class CheckpointVerifier(Struct, frozen=True):
    """Checks checkpoints of one table. It begins with no memory, and reads each file once."""

    bases: BaseReader

    @classmethod
    def of(cls, store: Store, reading: LogReadSettings, state_reading: StateReadSettings) -> CheckpointVerifier:
        """A verifier that has not read anything yet."""
        return cls(BaseReader(VersionReader(store, LogCache(_HELD_BYTES), reading), state_reading))

    def newest_failure(self, listing: LogListing) -> IndexTablesError | None:
        """Why the newest checkpoint cannot be trusted; None if it can, or if there is none."""
        newest = max([*listing.states, *listing.legacy_checkpoints], default=-1)
        return None if newest < 0 else self.failure_at(listing, newest)

    def failure_at(self, listing: LogListing, version: int) -> IndexTablesError | None:
        """Why nothing at a version can stand for the versions up to it; None if a checkpoint there can.

        `listing` must be of the whole log.
        """
        failures = []
        for info in (listing.states.get(version), listing.legacy_checkpoints.get(version)):
            if info is not None:
                failure = self.failure(version, info, self._by_another_way(listing, version))
                failure = failure or self._descent_failure(version, info, listing)
                if failure is None:
                    return None
                failures.append(failure)
        path = log_files.state_path(version)
        return failures[0] if failures else CheckpointCorruptionError(f"{path} is missing.", path=path, version=version)

    def failure(self, version: int, info: ObjectInfo, expected: Snapshot | None) -> IndexTablesError | None:
        """Why a checkpoint cannot stand for a version; None if it can. It must be as expected, if that is known."""
        try:
            base = self.bases.standalone(version, info, columns=COMPARED)
            if base.header.metadata is None:
                raise CheckpointCorruptionError(
                    f"{info.path} does not hold the table's metadata.", path=info.path, version=version
                )
            base.source.files(columns=COMPARED)
            if expected is not None:
                for difference in differences(expected, base):
                    raise CheckpointCorruptionError(f"{info.path}: {difference}", path=info.path, version=version)
        except (BadFileError, UnsupportedError) as failure:
            return failure
        except NotFoundError as failure:
            path = failure.context.get("path", info.path)
            return CheckpointCorruptionError(
                f"{path}, which {info.path} names, is missing.", path=path, state=info.path
            )
        return None

    def _descent_failure(self, version: int, info: ObjectInfo, listing: LogListing) -> IndexTablesError | None:
        """Why a checkpoint does not fit the version file of its number; None if it does, or if there is none."""
        try:
            check_descent(self.bases, self.bases.standalone(version, info), listing)
        except CorruptTableError as failure:
            return failure
        return None

    def manifest_failure(self, manifest: ManifestInfo) -> IndexTablesError | None:
        """Why a manifest of ours is not what its state says; its bytes are checked, not decoded."""
        path = f"{log_files.LOG}/{manifest.path}"
        try:
            data = self.bases.versions.store.get(path)
            if read_container(data, path=path).rows != manifest.num_entries:
                return CheckpointCorruptionError(f"{path} does not hold {manifest.num_entries} entries.", path=path)
        except (BadFileError, NotFoundError) as failure:
            return failure
        return None

    def _by_another_way(self, listing: LogListing, version: int) -> Snapshot | None:
        """The version by an older checkpoint, or none, and the versions since; None if they are not all there."""
        for older in sorted(
            {v for v in (-1, *listing.states, *listing.legacy_checkpoints) if v < version}, reverse=True
        ):
            if listing.missing(older, version):
                return None
            base = self._usable_base(listing, older)
            if base is not None:
                try:
                    version_files = [(v, listing.versions[v]) for v in range(older + 1, version + 1)]
                    return replay(base, self.bases.versions.read(version_files))
                except (BadFileError, UnsupportedError, NotFoundError):
                    return None
        return None

    def _usable_base(self, listing: LogListing, version: int) -> Base | None:
        if version < 0:
            return Base()
        for info in (listing.states.get(version), listing.legacy_checkpoints.get(version)):
            if info is not None and self.failure(version, info, None) is None:
                return self.bases.standalone(version, info)
        return None


def differences(expected: Snapshot, base: Base) -> Iterator[str]:
    """Where a checkpoint differs from what the versions lead to."""
    files, expected_files = base.source.files(columns=COMPARED), expected.files(columns=COMPARED)
    if not _sorted(files).equals(_sorted(expected_files)):
        yield from _other_files(_by_path(files), _by_path(expected_files))
    if base.header.metadata is not None and _bare(base.header.metadata) != _bare(expected.header.metadata):
        yield "the checkpoint holds other metadata than the versions."
    source = base.source
    says_it = not isinstance(source, StateFiles) or source.state.protocol is not None
    if says_it and base.header.protocol != expected.header.protocol:
        yield "the checkpoint holds another protocol than the versions."


def _sorted(files: pa.Table) -> pa.Table:
    return files.sort_by("path")


_Described = dict[str, tuple[object, ...]]


def _other_files(files: _Described, expected: _Described) -> Iterator[str]:
    for what, paths in (
        ("has {} that the versions do not", files.keys() - expected.keys()),
        ("lacks {}", expected.keys() - files.keys()),
        ("describes {} otherwise", {p for p in files.keys() & expected.keys() if files[p] != expected[p]}),
    ):
        if paths:
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            yield f"the checkpoint {what.format(min(paths) + more)}."


def _bare(metadata: MetadataAction | None) -> MetadataAction | None:
    """Metadata without the doc mappings that a checkpoint of an older form keeps among the settings."""
    if metadata is None:
        return None
    configuration = {k: v for k, v in (metadata.configuration or {}).items() if not k.startswith(KEY_PREFIX)}
    return msgspec.structs.replace(metadata, configuration=configuration)


def _by_path(files: pa.Table) -> _Described:
    columns: Sequence[list[object]] = [files.column(name).to_pylist() for name in COMPARED]
    return {str(path): tuple(rest) for path, *rest in zip(*columns, strict=True)}
