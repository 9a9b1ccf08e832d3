"""Decide whether a checkpoint can be trusted: it descends from the versions it covers and has their
content.

IndexTables for the JVM reads only states and commits by writing one. It would write a state with
the number of one of our versions but without its rows. A state is therefore compared with the
version files before it is used (`check_descent`). Our states name the transaction of their version;
another engine's must contain what the newest version that changed files added. Our state whose
version file cannot be read is accepted, and so is a version file without a transaction. If the
version file is missing, the versions and states around it must not contradict the state
(`identity.py`).

No writer commits by a checkpoint in an older form: one that does not name the transaction of its
version, and a state of another table, is treated as damage and skipped (rule S10).

Nothing is deleted because of a file that was not read. `CheckpointVerifier` reads the state and
every manifest, or every part of a legacy checkpoint, from the store. Checksums and counts must
match, and where the versions still exist, replaying them must give the same files. Deletions
require this check, and so does moving the pointer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
from indextables.log.checkpoint.identity import (
    is_of_another_table,
    of_another_table,
    readable_version,
    uncovered_failure,
    without_strangers,
)
from indextables.log.checkpoint.legacy import checkpoint_base_header, pass_over_checkpoint
from indextables.log.checkpoint.manifests import damage_of_checkpoint
from indextables.log.checkpoint.state_files import StateFiles, manifests_to_read
from indextables.log.checkpoint.state_reader import BaseReader, BaseSearch
from indextables.log.checkpoint.state_writer import live_batches
from indextables.log.log_files import LogListing, list_log
from indextables.log.versions import VersionReader
from indextables.model.actions import AddAction, MetadataAction, RemoveAction
from indextables.model.schema_registry import KEY_PREFIX
from indextables.model.snapshot import Base, CommittedVersion, Snapshot, replay
from indextables.model.state import ManifestInfo
from indextables.storage.store import ObjectInfo, Store
from indextables.wire.avro import read_container


class _CheckedFiles(Struct, frozen=True):
    """The files that a check has read; the same files are not checked again."""

    state: object
    version: object


def is_of_another_engine(base: Base) -> bool:
    """Return whether a base is a state of another engine. Our states name the transactions that led
    to them.
    """
    return isinstance(base.source, StateFiles) and not base.source.state.txn_ids


def descends(
    reader: BaseReader, base: Base, listing: LogListing, search: BaseSearch | None = None
) -> bool:
    """Return whether a base is usable; a damaged one is reported and False. Raises
    CorruptTableError like `check_descent`.
    """
    try:
        check_descent(reader, base, listing)
    except BadFileError as failure:
        reader.report(failure)
        if search is not None:
            search.failures.append(failure)
        return False
    return True


def check_descent(reader: BaseReader, base: Base, listing: LogListing) -> None:
    """Raise CorruptTableError if a state leaves out a version it covers, BadFileError if it is
    another table's.
    """
    if base.header.version >= 0 and base.header.version not in listing.versions:
        failure = uncovered_failure(reader, base, listing)
        if failure is not None:
            raise failure
    if not isinstance(base.source, StateFiles):
        _check_checkpoint(reader, base, listing)
        return
    if not is_of_another_engine(base):
        _check_own(reader, base, listing)
        return
    if not listing.first_version:
        full = listing
    else:
        full = list_log(reader.versions.store)
    for number in sorted((v for v in full.versions if 1 <= v <= base.header.version), reverse=True):
        version = readable_version(reader, full, number)
        if version is None:
            return
        if version.added_paths or version.removed_paths:
            _check_version(reader, full, base, version)
            return


def check_newest_state(reader: BaseReader, listing: LogListing) -> None:
    """Check the newest state of a listing like `check_descent`, if it can be read."""
    newest = max(listing.states)
    base = next(reader.bases(LogListing({}, listing.states, {}), until=newest))
    if base.header.version == newest:
        descends(reader, base, listing)


def _check_own(reader: BaseReader, base: Base, listing: LogListing) -> None:
    assert isinstance(base.source, StateFiles)
    number = base.header.version
    info = listing.versions.get(number)
    files = _CheckedFiles(base.source.state_file, info)
    if info is None or _is_checked(reader, files):
        return
    version = readable_version(reader, listing, number)
    txn_id = version.info.txn_id if version is not None else None
    if txn_id is not None and txn_id not in base.source.state.txn_ids:
        if is_of_another_table(reader, base, list_log(reader.versions.store)):
            raise of_another_table(base.source.state_file.path, number, txn_id)
        raise _foreign_to(
            reader, base, number, f"the transaction {txn_id} of that version is not in it"
        )
    _remember(reader, files)


def _check_checkpoint(reader: BaseReader, base: Base, listing: LogListing) -> None:
    number = base.header.version
    checkpoint, info = listing.legacy_checkpoints.get(number), listing.versions.get(number)
    files = _CheckedFiles(checkpoint, info)
    # Other writers do not name transactions in their checkpoints.
    if (
        checkpoint is None
        or info is None
        or not base.header.recent_txn_ids
        or _is_checked(reader, files)
    ):
        return
    version = readable_version(reader, listing, number)
    txn_id = version.info.txn_id if version is not None else None
    if txn_id is not None and txn_id not in base.header.recent_txn_ids:
        raise of_another_table(checkpoint.path, number, txn_id)
    _remember(reader, files)


def _check_version(
    reader: BaseReader, full: LogListing, base: Base, version: CommittedVersion
) -> None:
    """Check a version against the first state that covers it; later states may have removed what it
    added.
    """
    first = min((s for s in full.states if s >= version.version), default=base.header.version)
    if first != base.header.version:
        alone = LogListing({}, {s: i for s, i in full.states.items() if s <= first}, {})
        earlier = next(reader.bases(alone, until=first))
        base = earlier if earlier.header.version == first else base
    assert isinstance(base.source, StateFiles)
    if not is_of_another_engine(base):
        _check_own(reader, base, full)
        return
    files = _CheckedFiles(base.source.state_file, full.versions[version.version])
    if _is_checked(reader, files):
        return
    held = set(base.source.files(columns=["path"]).column("path").to_pylist())
    added, gone = _outcome(version)
    for paths, what in (
        (added - held, "lacks {}, which that version added"),
        (gone & held, "has {}, removed there"),
    ):
        if paths:
            if len(paths) > 1:
                more = f" and {len(paths) - 1} more"
            else:
                more = ""
            raise _foreign_to(reader, base, version.version, "it " + what.format(min(paths) + more))
    _remember(reader, files)


def _outcome(version: CommittedVersion) -> tuple[set[str], set[str]]:
    """Return the live and the removed paths after a version; the last action on a path counts."""
    last = {
        a.path: isinstance(a, AddAction)
        for a in version.actions
        if isinstance(a, AddAction | RemoveAction)
    }
    return {path for path, live in last.items() if live}, {
        path for path, live in last.items() if not live
    }


def _foreign_to(reader: BaseReader, base: Base, number: int, why: str) -> CorruptTableError:
    assert isinstance(base.source, StateFiles)
    url, state, version = (
        reader.versions.store.url,
        base.source.state_file.path,
        log_files.version_path(number),
    )
    return CorruptTableError(
        f"{state} of {url} does not descend from {version}: {why}. Two engines have written this table alternately, each "
        "without the other's rows.",
        hint=f"Nothing was deleted. Version {number - 1}, by number, is the table before both. Move {version} and later "
        "versions out of the log to go on with the other side, and append the rows of the splits that they add again: "
        "those are Parquet files.",
        path=state,
        version=number,
        version_file=version,
    )


def _is_checked(reader: BaseReader, files: _CheckedFiles) -> bool:
    cache, url = reader.versions.cache, reader.versions.store.url
    return cache is not None and cache.get("reports", url, files) is not None


def _remember(reader: BaseReader, files: _CheckedFiles) -> None:
    if reader.versions.cache is not None:
        reader.versions.cache.put("reports", reader.versions.store.url, files, True, cost_bytes=200)


COMPARED = ["path", "size", "num_records", "deletion_vector"]
_HELD_BYTES = 64 << 20
"""Memory limit of a verifier, so that parts shared by two checkpoints are read once."""
_BATCH_ROWS = 10_000
_HASH_BITS = (1 << 64) - 1


class CheckpointVerifier(Struct, frozen=True):
    """Checks checkpoints of one table. Starts without a cache and reads each file once."""

    bases: BaseReader

    @classmethod
    def of(
        cls, store: Store, reading: LogReadSettings, state_reading: StateReadSettings
    ) -> CheckpointVerifier:
        """Create a verifier that has not read anything yet."""
        return cls(BaseReader(VersionReader(store, LogCache(_HELD_BYTES), reading), state_reading))

    def newest_failure(self, listing: LogListing) -> IndexTablesError | None:
        """Return why the newest checkpoint cannot be trusted, or None. Checkpoints of another table
        are ignored.
        """
        listing = without_strangers(self.bases, listing)
        newest = max([*listing.states, *listing.legacy_checkpoints], default=-1)
        if newest < 0:
            return None
        return self.failure_at(listing, newest)

    def failure_at(self, listing: LogListing, version: int) -> IndexTablesError | None:
        """Return why no checkpoint at a version can replace the versions up to it, or None.
        `listing` must be complete.
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
        if failures:
            return failures[0]
        return CheckpointCorruptionError(f"{path} is missing.", path=path, version=version)

    def failure(
        self, version: int, info: ObjectInfo, expected: Snapshot | None
    ) -> IndexTablesError | None:
        """Return why a checkpoint cannot replace the versions up to its own, or None. It must be as
        expected, if that is given.
        """
        try:
            base, fingerprint = self._passed_over(version, info)
            if base.header.metadata is None:
                raise CheckpointCorruptionError(
                    f"{info.path} does not hold the table's metadata.",
                    path=info.path,
                    version=version,
                )
            if expected is not None:
                if fingerprint != _expected_files(expected):
                    base = self.bases.standalone(version, info, columns=COMPARED)
                    _raise_first(_other_files(expected, base), version, info)
                _raise_first(_other_header(expected, base), version, info)
        except (BadFileError, UnsupportedError) as failure:
            return failure
        except NotFoundError as failure:
            path = failure.context.get("path", info.path)
            return CheckpointCorruptionError(
                f"{path}, which {info.path} names, is missing.", path=path, state=info.path
            )
        return None

    def _passed_over(self, version: int, info: ObjectInfo) -> tuple[Base, FilesFingerprint | None]:
        """Return the header of a checkpoint and a fingerprint of its files, reading all of them
        with bounded memory.

        There is no fingerprint if files can be evaluated only as a whole, as in another writer's
        checkpoint.
        """
        reader, fingerprint = self.bases, FilesFingerprint()
        if log_files.state_version_of(info.path) is None:
            store = reader.versions.store
            with damage_of_checkpoint():
                others = pass_over_checkpoint(
                    store, version, info, reader.settings, fingerprint.add, columns=COMPARED
                )
                if others is None:
                    return reader.standalone(version, info, columns=COMPARED), None
                return Base(checkpoint_base_header(version, info, others)), fingerprint
        base = reader.standalone(version, info)
        source = base.source
        if isinstance(source, StateFiles):
            for entries in source.live_entries(
                manifests_to_read(source.state.manifests, None), columns=COMPARED
            ):
                fingerprint.add(entries)
            if fingerprint.counts != (source.state.num_files, source.state.total_bytes):
                fingerprint = FilesFingerprint.of(
                    [source.files(columns=COMPARED)]
                )  # or an error that says it
        return base, fingerprint

    def _descent_failure(
        self, version: int, info: ObjectInfo, listing: LogListing
    ) -> IndexTablesError | None:
        """Return why a checkpoint does not match the version file of its number, or None."""
        try:
            check_descent(
                self.bases, self.bases.standalone(version, info, columns=COMPARED), listing
            )
        except CorruptTableError as failure:
            return failure
        return None

    def manifest_failure(self, manifest: ManifestInfo) -> IndexTablesError | None:
        """Return why one of our manifests differs from its state, or None. Its bytes are checked
        but not decoded.
        """
        path = f"{log_files.LOG}/{manifest.path}"
        try:
            data = self.bases.versions.store.get(path)
            if read_container(data, path=path).rows != manifest.num_entries:
                return CheckpointCorruptionError(
                    f"{path} does not hold {manifest.num_entries} entries.", path=path
                )
        except (BadFileError, NotFoundError) as failure:
            return failure
        return None

    def _by_another_way(self, listing: LogListing, version: int) -> Snapshot | None:
        """Return the version from an older checkpoint or none, and the versions since, or None if
        some are missing.
        """
        for older in sorted(
            {v for v in (-1, *listing.states, *listing.legacy_checkpoints) if v < version},
            reverse=True,
        ):
            if listing.missing(older, version):
                return None
            base = self._usable_base(listing, older)
            if base is not None:
                try:
                    version_files = [
                        (v, listing.versions[v]) for v in range(older + 1, version + 1)
                    ]
                    return replay(base, self.bases.versions.read(version_files))
                except (BadFileError, UnsupportedError, NotFoundError):
                    return None
        return None

    def _usable_base(self, listing: LogListing, version: int) -> Base | None:
        if version < 0:
            return Base()
        for info in (listing.states.get(version), listing.legacy_checkpoints.get(version)):
            if info is None or self.failure(version, info, None) is not None:
                continue
            if self._descent_failure(version, info, listing) is None:
                return self.bases.standalone(version, info, columns=COMPARED)
        return None


class FilesFingerprint(Struct):
    """Fingerprint of a file list, independent of order and parts: count, size, and sums over the
    hash of each file.

    Its size is constant. Lists that differ in a compared field have different sums.
    """

    files: int = 0
    size: int = 0
    hashes: tuple[int, ...] = (0, 0)

    @classmethod
    def of(cls, batches: Iterable[pa.Table]) -> FilesFingerprint:
        """Return the fingerprint of all files of these lists."""
        fingerprint = cls()
        for batch in batches:
            fingerprint.add(batch)
        return fingerprint

    @property
    def counts(self) -> tuple[int, int]:
        """Number of files and their total size."""
        return self.files, self.size

    def add(self, files: pa.Table) -> None:
        """Add the files of a list."""
        texts = [
            files.column(name).cast(pa.string()) for name in reversed(COMPARED)
        ]  # the path last: it may be any text
        lines = pc.binary_join_element_wise(
            *texts, "\n", null_handling="replace", null_replacement="null"
        )
        self.files += files.num_rows
        self.size += pc.sum(files.column("size")).as_py() or 0
        # Python's own hash has 64 bits, and is the same as long as the process lives: no
        # fingerprint leaves it.
        hashes = np.fromiter(
            map(hash, lines.cast(pa.binary()).to_pylist()), np.int64, files.num_rows
        ).view(np.uint64)
        more = (int(part.sum(dtype=np.uint64)) for part in (hashes, hashes * hashes))
        self.hashes = tuple(
            (known + added) & _HASH_BITS for known, added in zip(self.hashes, more, strict=True)
        )


def _expected_files(expected: Snapshot) -> FilesFingerprint:
    try:
        return FilesFingerprint.of(live_batches(expected, _BATCH_ROWS, columns=COMPARED))
    except (BadFileError, NotFoundError):  # by another way, if there is one
        return FilesFingerprint.of([expected.files(columns=COMPARED)])


def _raise_first(differences: Iterable[str], version: int, info: ObjectInfo) -> None:
    for difference in differences:
        raise CheckpointCorruptionError(
            f"{info.path}: {difference}", path=info.path, version=version
        )


def differences(expected: Snapshot, base: Base) -> Iterator[str]:
    """Describe how a checkpoint differs from the replayed versions."""
    yield from _other_files(expected, base)
    yield from _other_header(expected, base)


def _other_files(expected: Snapshot, base: Base) -> Iterator[str]:
    files, expected_files = base.source.files(columns=COMPARED), expected.files(columns=COMPARED)
    if not _sort_by_path(files).equals(_sort_by_path(expected_files)):
        described = list(_describe_differences(_by_path(files), _by_path(expected_files)))
        yield from described
        if (
            not described and files.num_rows != expected_files.num_rows
        ):  # each is what it should be, but not there once
            yield f"the checkpoint lists {files.num_rows} files, where the versions lead to {expected_files.num_rows}."


def _other_header(expected: Snapshot, base: Base) -> Iterator[str]:
    if base.header.metadata is not None and _bare(base.header.metadata) != _bare(
        expected.header.metadata
    ):
        yield "the checkpoint holds other metadata than the versions."
    source = base.source
    says_it = not isinstance(source, StateFiles) or source.state.protocol is not None
    if says_it and base.header.protocol != expected.header.protocol:
        yield "the checkpoint holds another protocol than the versions."


def _sort_by_path(files: pa.Table) -> pa.Table:
    return files.sort_by("path")


_Described = dict[str, tuple[object, ...]]


def _describe_differences(files: _Described, expected: _Described) -> Iterator[str]:
    for what, paths in (
        ("has {} that the versions do not", files.keys() - expected.keys()),
        ("lacks {}", expected.keys() - files.keys()),
        (
            "describes {} otherwise",
            {p for p in files.keys() & expected.keys() if files[p] != expected[p]},
        ),
    ):
        if paths:
            if len(paths) > 1:
                more = f" and {len(paths) - 1} more"
            else:
                more = ""
            yield f"the checkpoint {what.format(min(paths) + more)}."


def _bare(metadata: MetadataAction | None) -> MetadataAction | None:
    """Return metadata without the doc mappings that older checkpoints keep among the settings;
    empty columns become None.
    """
    if metadata is None:
        return None
    configuration = {
        k: v for k, v in (metadata.configuration or {}).items() if not k.startswith(KEY_PREFIX)
    }
    columns = metadata.partition_columns or ()
    return msgspec.structs.replace(metadata, configuration=configuration, partition_columns=columns)


def _by_path(files: pa.Table) -> _Described:
    columns: Sequence[list[object]] = [files.column(name).to_pylist() for name in COMPARED]
    return {str(path): tuple(rest) for path, *rest in zip(*columns, strict=True)}
