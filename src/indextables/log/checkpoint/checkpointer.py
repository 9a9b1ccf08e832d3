"""Checkpoints: decide when one is due, write it, verify it, and move the pointer to it; in the
foreground or background.

A checkpoint is a snapshot of a version, so that readers do not replay the log. It is derived from
committed versions and created if absent. If another writer creates it first, its content is the
same. The pointer `_last_checkpoint` is moved afterwards, never backwards, and only saves work: a
table opens correctly whatever it contains.

`CheckpointQueue` writes checkpoints concurrently with commits, at most one per table and a few per
process. When the interpreter exits it waits for them as long as their settings allow. An unfinished
checkpoint has no effect, and the next writer repeats it. A forked process starts with an empty
queue.
"""

from __future__ import annotations

import atexit
import logging
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from typing import ClassVar

from msgspec import Struct

import indextables.pools  # noqa: F401 - its exit handler must be older than ours, which runs before it
from indextables.config.log import (
    CheckpointSettings,
    CompactionSettings,
    StateRetrySettings,
    StateWriteSettings,
)
from indextables.errors import (
    BadFileError,
    CheckpointValidationError,
    ConflictError,
    IndexTablesError,
    NotFoundError,
    TableNotFoundError,
    UnavailableError,
    UnsupportedError,
)
from indextables.log import log_files
from indextables.log.checkpoint.compaction import compaction_reason, is_compact
from indextables.log.checkpoint.identity import check_is_there, without_strangers
from indextables.log.checkpoint.legacy import (
    LegacyWriter,
    ListedFiles,
    checkpoint_format,
    checkpoint_header,
)
from indextables.log.checkpoint.state_files import StateFiles
from indextables.log.checkpoint.state_reader import BaseReader
from indextables.log.checkpoint.state_writer import Compact, StateWriter
from indextables.log.checkpoint.verifier import CheckpointVerifier, descends
from indextables.log.log_files import LogListing, list_log
from indextables.metrics import METRICS
from indextables.model.conflicts import is_same_table
from indextables.model.protocol import SUPPORTED_VERSION
from indextables.model.report import Report
from indextables.model.snapshot import Snapshot, replay
from indextables.model.state import StateCounts, StateManifest
from indextables.storage.store import PutOutcome, Store
from indextables.wire.state import (
    AVRO_STATE,
    PARQUET,
    LastCheckpoint,
    UnusablePointer,
    decode_pointer,
    encode_pointer,
    encode_state,
)

logger = logging.getLogger(__name__)


def read_pointer(store: Store) -> LastCheckpoint | None:
    """Return the checkpoint that the pointer names, or None if the pointer is missing or unusable."""
    try:
        pointer = decode_pointer(store.get(log_files.POINTER))
    except NotFoundError:
        return None
    if isinstance(pointer, UnusablePointer):
        logger.info("%s of %s is not used: %s.", log_files.POINTER, store.url, pointer.reason)
        return None
    return pointer


def move_pointer(store: Store, pointer: LastCheckpoint) -> bool:
    """Move the pointer to a checkpoint, unless it names the same or an existing newer one. Returns
    whether it was moved.
    """
    current = read_pointer(store)
    if (
        current is None
        or current.version < pointer.version
        or (current.version == pointer.version and current != pointer)
        or not is_same_table(current.table_id or "", pointer.table_id or "")
        or (current.version > pointer.version and not _is_checkpoint_there(store, current))
    ):
        store.put(log_files.POINTER, encode_pointer(pointer))
        return True
    return False


def _is_checkpoint_there(store: Store, pointer: LastCheckpoint) -> bool:
    """Return whether the checkpoint that a pointer names exists: its files are written before the
    pointer.
    """
    if pointer.format == PARQUET:
        return True  # it may be a folder, which an object store does not list as an object
    folder = log_files.state_dir(pointer.version)
    paths = [f"{folder}/{name}" for name in log_files.STATE_FILES]
    return any(
        store.head(path) for path in (*paths, log_files.json_checkpoint_path(pointer.version))
    )


class StateReport(Report, frozen=True):
    """One row about a table. Without a state the figures are those of the table, and `version` is
    the checkpoint's, if any.
    """

    table_path: str
    format: str
    version: int | None
    latest_version: int
    num_files: int
    num_manifests: int
    num_tombstones: int
    tombstone_ratio: float
    total_bytes: int
    needs_compaction: bool
    num_skipped: int
    protocol_version: int


def state_report(
    snapshot: Snapshot, *, store: Store, compaction: CompactionSettings, writing: StateWriteSettings
) -> StateReport:
    """Report on a snapshot of the table in a store."""
    source, at = snapshot.base.source, snapshot.base.header.version
    if isinstance(source, StateFiles):
        state = source.state
        counts = StateCounts(state.num_files, len(state.tombstones), len(state.manifests))
        kind, total_bytes = AVRO_STATE, state.total_bytes
    else:
        sizes = snapshot.files(columns=["size"]).column("size").to_pylist()
        counts = StateCounts(len(sizes), 0, 0)
        kind, total_bytes = (
            (checkpoint_format(store, source.path) if isinstance(source, ListedFiles) else "none"),
            sum(sizes),
        )
    reason = compaction_reason(
        counts, compaction, entries_per_manifest=writing.entries_per_manifest
    )
    return StateReport(
        table_path=store.url,
        format=kind,
        version=at if at >= 0 else None,
        latest_version=snapshot.version,
        num_files=counts.live,
        num_manifests=counts.manifests,
        num_tombstones=counts.tombstones,
        tombstone_ratio=counts.tombstone_ratio,
        total_bytes=total_bytes,
        needs_compaction=reason is not None,
        num_skipped=len(snapshot.header.skips),
        protocol_version=snapshot.header.protocol.min_reader_version,
    )


READ_BACK_BYTES = 16 << 20
"""Total size up to which the manifests of an older state are read back for an automatic checkpoint.
"""


class CheckpointReport(Report, frozen=True):
    """Content of a checkpoint. `written` is False if a checkpoint of this or a newer version
    existed.
    """

    version: int
    format: str
    num_files: int
    num_actions: int
    protocol_version: int
    num_manifests: int = 0
    is_multi_part: bool = False
    written: bool = True
    size_bytes: int = 0
    """Bytes of its files; for a state those of its manifests."""
    hidden: ClassVar[tuple[str, ...]] = ("size_bytes",)


def checkpoint_preview(
    snapshot: Snapshot,
    *,
    version: int,
    compact: bool,
    checkpoint: CheckpointSettings,
    writing: StateWriteSettings,
) -> CheckpointReport:
    """Return the checkpoint that would be written of a snapshot, or its existing one, as a version."""
    per_manifest = writing.entries_per_manifest
    source = snapshot.base.source
    files = snapshot.files(columns=["path"]).num_rows
    manifests = ceil(files / per_manifest)
    if checkpoint.format == "avro" and isinstance(source, StateFiles):
        done = snapshot.base.header.version == version
        if compact and done and not is_compact(source.state, entries_per_manifest=per_manifest):
            version += 1
        elif not compact or done:
            manifests = len(source.state.manifests) + ceil(len(snapshot.delta.added) / per_manifest)
    header, avro = snapshot.header, checkpoint.format == "avro"
    if avro:
        others = 2 + len(header.txns) + len(header.skips)
    else:
        others = len(checkpoint_header(header))
    return CheckpointReport(
        version=version,
        format=AVRO_STATE if avro else checkpoint.format,
        num_files=files,
        num_actions=files + others,
        protocol_version=max(header.protocol.min_reader_version, SUPPORTED_VERSION if avro else 0),
        num_manifests=manifests if avro else 0,
        written=False,
    )


class Checkpointer(Struct, frozen=True):
    """Writes the checkpoints of one table. Clock, ids, randomness and sleep are parameters."""

    store: Store
    bases: BaseReader
    settings: CheckpointSettings
    write_settings: StateWriteSettings
    compaction: CompactionSettings
    retry: StateRetrySettings
    verifier: Callable[[], CheckpointVerifier]
    now_ms: Callable[[], int]
    new_id: Callable[[], str]
    rng: random.Random
    sleep: Callable[[float], None]

    def is_due(self, snapshot: Snapshot) -> bool:
        """Return whether enough versions were committed since the last checkpoint that this
        snapshot knows of.
        """
        last = max(snapshot.base.header.version, 0)
        return self.settings.enabled and snapshot.version - last >= self.settings.interval

    def write(
        self,
        snapshot: Snapshot,
        *,
        compact: Compact = Compact.AS_NEEDED,
        only_if_due: bool = False,
        thorough: bool = False,
    ) -> CheckpointReport:
        """Write a checkpoint of a snapshot in the form of the setting `state.format`.

        With `only_if_due`, a sufficiently recent state by another process is accepted. The pointer
        moves after the written files were read back; `thorough` also reads all others.

        Raises:
            SpoiledCheckpointError: A damaged checkpoint has this version's name. It stays, and the
                snapshot needs another version.
            CheckpointValidationError: The manifests repeatedly differ from what was written.
        """
        if self.settings.format != "avro":
            return self._legacy(snapshot)
        interval = self.settings.interval if only_if_due else 1
        unproven: IndexTablesError | None = None
        for attempt in range(1, self.retry.max_attempts + 1):
            try:
                state, written = self._try_state(
                    snapshot, compact, enough=snapshot.version - interval + 1, thorough=thorough
                )
                if state is not None:
                    self._point_at(_pointer(state), snapshot)
                    return _report(state, written=written)
                unproven = None
            except _UnprovenManifestError as error:
                unproven = error.failure
            compact = (
                Compact.ALL
            )  # the manifests of the state before may be the ones that are gone or damaged
            self._pause(attempt)
        if unproven is not None:
            raise CheckpointValidationError(unproven.message, **unproven.context) from unproven
        raise UnavailableError(
            f"The state of version {snapshot.version} of {self.store.url} could not be written in "
            f"{self.retry.max_attempts} attempts.",
            path=log_files.state_path(snapshot.version),
            version=snapshot.version,
        )

    def _legacy(self, snapshot: Snapshot) -> CheckpointReport:
        legacy = LegacyWriter(self.store, self.settings, now_ms=self.now_ms, new_id=self.new_id)
        check_is_there(self.bases, snapshot)
        pointer = legacy.write(snapshot)
        path = legacy.path(snapshot.version)
        info = self.store.head(path)
        if info is None:
            raise UnavailableError(
                f"{path} was written and is not there.", path=path, version=snapshot.version
            )
        body = self.store.get(path)
        failure = self.verifier().failure(snapshot.version, info, snapshot)
        if failure is not None:
            check_is_there(self.bases, snapshot)
            raise _spoiled_error(failure, snapshot.version)
        self._check_is_still_there(snapshot, path, body)
        self._point_at(pointer, snapshot)
        parts = [info]
        if pointer.parts:
            parts = [*self.store.list(path.removesuffix(".json"))]
        return _legacy_report(snapshot, pointer, sum(part.size for part in parts))

    def _try_state(
        self, snapshot: Snapshot, compact: Compact, *, enough: int, thorough: bool
    ) -> tuple[StateManifest | None, bool]:
        """Return the state of this version and whether this process wrote it, or None if no state
        could be verified.

        An existing state is accepted if its version is at least `enough` and it is valid.
        """
        listing = list_log(
            self.store, first_version=0 if thorough else max(snapshot.base.header.version, 0)
        )
        listing = without_strangers(self.bases, listing)
        newest = max(listing.states, default=-1)
        if newest >= enough:
            usable = self._usable_state(newest, listing, thorough=thorough)
            if usable is not None:
                return usable, False
        if snapshot.version in listing.states:
            raise self._taken_error(snapshot.version, listing)
        continued = self._on_newest_base(snapshot, listing)
        state = self._writer.state_of(continued, compact=compact)
        failure = self._manifest_failure(state, older=_manifests(continued), thorough=thorough)
        if failure is not None:
            raise _UnprovenManifestError(failure)
        body = encode_state(
            state, compression=self.write_settings.compression, level=self.write_settings.level
        )
        path = log_files.state_path(snapshot.version)
        check_is_there(self.bases, snapshot)
        if self.store.put_if_absent(path, body) is PutOutcome.CREATED:
            if not self._is_there(state, path, body):
                return self._take_back(path, body)
            self._check_is_still_there(snapshot, path, body)
            plain = encode_state(state, compression="none")
            METRICS.count("checkpoint_bytes_total", self.store.url, AVRO_STATE, by=len(body))
            METRICS.count("checkpoint_text_bytes_total", self.store.url, AVRO_STATE, by=len(plain))
            return state, True
        # Another writer's, or our own whose response was lost, or none: read it.
        again = list_log(self.store, first_version=snapshot.version)
        return self._usable_state(snapshot.version, again, thorough=False), False

    def _point_at(self, pointer: LastCheckpoint, snapshot: Snapshot) -> None:
        """Move the pointer. A checkpoint that was written into another table is deleted."""
        if move_pointer(self.store, pointer) and pointer.version == snapshot.version:
            self._check_is_still_there(snapshot, log_files.POINTER, encode_pointer(pointer))

    def _check_is_still_there(self, snapshot: Snapshot, path: str, body: bytes) -> None:
        """Check that the table still exists after a file was written; otherwise delete the file
        again.
        """
        try:
            check_is_there(self.bases, snapshot)
        except (TableNotFoundError, ConflictError):
            self._take_back(path, body)
            raise

    @property
    def _writer(self) -> StateWriter:
        return StateWriter(self.store, self.write_settings, self.compaction, self.now_ms)

    def _is_there(self, state: StateManifest, path: str, body: bytes) -> bool:
        """Return whether the state is stored as it was sent, with all manifests that it names."""
        sizes = {info.path: info.size for info in self.store.list(log_files.MANIFESTS)}
        complete = all(
            sizes.get(f"{log_files.LOG}/{manifest.path}") == manifest.size_bytes
            for manifest in state.manifests
        )
        try:
            return complete and self.store.get(path) == body
        except NotFoundError:
            return False

    def _take_back(self, path: str, body: bytes) -> tuple[None, bool]:
        # Other bytes than those that were sent are damaged, or of another table that was created
        # here since: they stay.
        with suppress(NotFoundError):
            if self.store.get(path) == body:
                self.store.delete([path])
        return None, False

    def _manifest_failure(
        self, state: StateManifest, *, older: frozenset[str], thorough: bool
    ) -> IndexTablesError | None:
        """Return what is wrong with a manifest of a state in the store, or None.

        New manifests are always read back. Older ones were read when they were new; they are read
        again for explicit checkpoints, and otherwise if that is cheap.
        """
        verifier, left = self.verifier(), READ_BACK_BYTES
        for manifest in state.manifests:
            if manifest.path in older and not thorough:
                left -= manifest.size_bytes or 0
                if left < 0:
                    continue
            failure = verifier.manifest_failure(manifest)
            if failure is not None:
                return failure
        return None

    def _usable_state(
        self, version: int, listing: LogListing, *, thorough: bool
    ) -> StateManifest | None:
        """Return the stored state of a version if it is usable."""
        if version not in listing.states:
            return None
        verifier, info = self.verifier(), listing.states[version]
        try:
            state = verifier.bases.read_state(version, info)
            if thorough:
                if verifier.failure_at(listing, version) is None:
                    return state
                return None
            ours = all(manifest.size_bytes is not None for manifest in state.manifests)
            older = frozenset(manifest.path for manifest in state.manifests)
            if not ours or self._manifest_failure(state, older=older, thorough=False) is None:
                return state
            return None
        except (BadFileError, NotFoundError, UnsupportedError):
            return None

    def _taken_error(self, version: int, listing: LogListing) -> SpoiledCheckpointError:
        path = listing.states[version].path
        failure = self.verifier().failure_at(listing, version)
        return _spoiled_error(
            failure or BadFileError(f"{path} cannot be used.", path=path), version
        )

    def _on_newest_base(self, snapshot: Snapshot, listing: LogListing) -> Snapshot:
        """Return the same version based on the newest existing state, which may be newer than the
        snapshot's.
        """
        base_version, source = snapshot.base.header.version, snapshot.base.source
        if isinstance(source, StateFiles) and source.reader.store.url != self.store.url:
            return snapshot  # of a replica, because the states here cannot be used
        for base in self.bases.bases(listing, until=snapshot.version):
            at = base.header.version
            if at <= base_version:
                break
            if descends(self.bases, base, listing) and not listing.missing(at, snapshot.version):
                between = [(v, listing.versions[v]) for v in range(at + 1, snapshot.version + 1)]
                return replay(base, self.bases.versions.read(between))
        return snapshot

    def _pause(self, attempt: int) -> None:
        ceiling_ms = min(self.retry.max_delay_ms, self.retry.base_delay_ms * 2 ** (attempt - 1))
        self.sleep(self.rng.uniform(0, ceiling_ms) / 1000)


def _manifests(snapshot: Snapshot) -> frozenset[str]:
    source = snapshot.base.source
    if isinstance(source, StateFiles):
        return frozenset(m.path for m in source.state.manifests)
    return frozenset()


class SpoiledCheckpointError(Exception):
    """A damaged checkpoint has the name that is to be written. Never leaves this package."""

    def __init__(self, failure: IndexTablesError) -> None:
        super().__init__(failure.message)
        self.failure = failure


class _UnprovenManifestError(Exception):
    """A manifest of a state that was about to be written is invalid."""

    def __init__(self, failure: IndexTablesError) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _spoiled_error(failure: IndexTablesError, version: int) -> SpoiledCheckpointError:
    logger.warning(
        "the checkpoint of version %d cannot be used and is rewritten: %s", version, failure.message
    )
    return SpoiledCheckpointError(failure)


def _pointer(state: StateManifest) -> LastCheckpoint:
    return LastCheckpoint(
        version=state.state_version,
        size=state.num_files,
        size_in_bytes=state.total_bytes,
        num_files=state.num_files,
        created_time=state.created_at,
        format=AVRO_STATE,
        table_id=state.table_id,
        txn_id=state.txn_id,
        state_dir=log_files.state_dir(state.state_version).rpartition("/")[2],
    )


def _report(state: StateManifest, *, written: bool) -> CheckpointReport:
    others = 1 + (state.metadata is not None) + len(state.txns) + len(state.skips)
    return CheckpointReport(
        version=state.state_version,
        format=AVRO_STATE,
        num_files=state.num_files,
        num_actions=state.num_files + others,
        protocol_version=state.protocol.min_reader_version
        if state.protocol
        else state.protocol_version,
        num_manifests=len(state.manifests),
        written=written,
        size_bytes=sum(manifest.size_bytes or 0 for manifest in state.manifests),
    )


def _legacy_report(
    snapshot: Snapshot, pointer: LastCheckpoint, size_bytes: int
) -> CheckpointReport:
    return CheckpointReport(
        version=pointer.version,
        format=pointer.format or "",
        num_files=pointer.num_files or 0,
        num_actions=pointer.size or 0,
        protocol_version=snapshot.header.protocol.min_reader_version,
        is_multi_part=bool(pointer.parts),
        size_bytes=size_bytes,
    )


WORKERS = 2


class CheckpointQueue:
    """Background checkpoints of a process. With `workers` 0 there are no threads, and the committer
    does the work at once.
    """

    def __init__(self, workers: int = WORKERS) -> None:
        self.workers = workers
        self.forget()

    def submit(
        self,
        table: str,
        work: Callable[[], None],
        *,
        shutdown_timeout_s: float,
        workers: int = WORKERS,
    ) -> bool:
        """Schedule work that must not raise. Returns False if a checkpoint of the table is already
        scheduled.
        """
        if not self.workers:
            work()
            return True
        with self._lock:
            if table in self._threads:
                return False
            thread = threading.Thread(
                target=self._work,
                args=(table, work, workers),
                name="indextables-checkpoint",
                daemon=True,
            )
            self._threads[table] = thread, shutdown_timeout_s
        thread.start()
        return True

    def settle(self, table: str) -> None:
        """Wait for the work of one table, before another table is created at its path."""
        with self._lock:
            waiting = self._threads.get(table)
        if waiting is not None:
            waiting[0].join(waiting[1])

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for scheduled work within each item's limit, or for all within a timeout. Returns
        whether all is done.
        """
        with self._lock:
            waiting = list(self._threads.values())
        if timeout_s is None:
            deadline = None
        else:
            deadline = time.monotonic() + timeout_s
        for thread, longest_s in waiting:
            thread.join(longest_s if deadline is None else max(0.0, deadline - time.monotonic()))
        late = sum(thread.is_alive() for thread, _ in waiting)
        if late:
            logger.warning(
                "%d checkpoints were not done in time; the next writers of their tables write them.",
                late,
            )
        return not late

    def forget(self) -> None:
        """Empty the queue in a forked child, which does not have its parent's threads."""
        self._lock = threading.Lock()
        self._turn = threading.Condition()
        self._busy = 0
        self._threads: dict[str, tuple[threading.Thread, float]] = {}

    def _work(self, table: str, work: Callable[[], None], workers: int) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self._busy < workers)
            self._busy += 1
        try:
            work()
        finally:
            with self._turn:
                self._busy -= 1
                self._turn.notify_all()
            with self._lock:
                self._threads.pop(table, None)


CHECKPOINTS = CheckpointQueue()
"""The queue of this process."""
os.register_at_fork(after_in_child=CHECKPOINTS.forget)
# Before the thread pools close, which a checkpoint needs; an ordinary exit handler would come too
# late.
getattr(threading, "_register_atexit", atexit.register)(CHECKPOINTS.wait)
