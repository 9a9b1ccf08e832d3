"""Clean the log: take stock, decide with `model.retention`, delete oldest first.

A cleaner deletes only what is covered. The checkpoints that cover everything kept are first read
from the store and verified (`log/checkpoint/verifier.py`). The newest is checked again before every
batch; if it is gone the cleaner stops. Age is measured by the store's clock. A failed deletion
leaves a file too many, never one too few.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from indextables.config.log import CleanupSettings, RetentionSettings
from indextables.errors import (
    BadFileError,
    IndexTablesError,
    NotFoundError,
    RefusedError,
    StorageError,
    UnsupportedError,
)
from indextables.log import log_files
from indextables.log.checkpoint.identity import without_strangers
from indextables.log.checkpoint.state_reader import BaseReader
from indextables.log.checkpoint.verifier import CheckpointVerifier
from indextables.log.log_files import LogListing, list_log, listing_of
from indextables.log.versions import StoreClock
from indextables.metrics import METRICS
from indextables.model.retention import (
    HOUR_MS,
    CheckpointFiles,
    ExpiredFile,
    Expiry,
    LogInventory,
    LogObject,
    RetentionPolicy,
    find_expired,
)
from indextables.storage.local import remove_if_empty
from indextables.storage.store import ObjectInfo, Store, is_same_object
from indextables.wire.old_checkpoints import MultiPartManifest, decode_checkpoint, parquet_parts

logger = logging.getLogger(__name__)
_BATCH = 100


class CleaningReport(Struct, frozen=True):
    """The expired files that a cleaner found, and those that it deleted."""

    expired: tuple[ExpiredFile, ...]
    deleted: tuple[ExpiredFile, ...] = ()
    failures: tuple[str, ...] = ()
    dry_run: bool = False
    damaged: tuple[int, ...] = ()
    """Versions whose checkpoint cannot serve as cover; `failures` has the reasons."""
    stopped: str | None = None
    """Why the cleaner stopped before the end, if it did."""

    def check_finished(self, url: str) -> None:
        """Raise RefusedError if the cleaner stopped before the end."""
        if self.stopped is None:
            return
        raise RefusedError(
            f"Cleaning the log of {url} stopped after {len(self.deleted)} of "
            f"{len(self.expired)} files: {self.stopped}.",
            hint="Nothing that the table needs was deleted. Run it again.",
            path=url,
        )

    def deleted_of(self, kind: str) -> int:
        """Return how many files of a kind were deleted."""
        return sum(1 for file in self.deleted if file.kind == kind)

    def summary(self) -> str:
        """Return counts by kind, bytes and the range of versions, without paths."""
        counts = Counter(file.kind for file in self.deleted)
        kinds = ", ".join(f"{count} of kind {kind}" for kind, count in sorted(counts.items()))
        paths = [file.path for file in self.deleted if file.kind == "version"]
        versions = sorted(v for v in map(log_files.version_of, paths) if v is not None)
        if versions:
            span = f", versions {versions[0]} to {versions[-1]}"
        else:
            span = ""
        size = sum(file.size for file in self.deleted)
        if self.failures:
            failed = f", {len(self.failures)} failures"
        else:
            failed = ""
        done = f"deleted {len(self.deleted)} of {len(self.expired)} expired files"
        return f"{done} ({kinds or 'none'}), {size} bytes{span}{failed}"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "found": [asdict(file) for file in self.expired],
            "deleted": len(self.deleted),
            "deleted_bytes": sum(file.size for file in self.deleted),
            "failures": list(self.failures),
            "dry_run": self.dry_run,
        }


def policy_of(settings: RetentionSettings) -> RetentionPolicy:
    """Return the retention policy of the settings."""
    return RetentionPolicy(
        log_ms=settings.log_ms,
        state_ms=round(settings.state_hours * HOUR_MS),
        checkpoint_ms=settings.checkpoint_ms,
        manifest_ms=round(settings.manifest_hours * HOUR_MS),
        versions=settings.versions,
        state_versions=settings.state_versions,
    )


class Cleaner(Struct, frozen=True):
    """Cleans the log of one table."""

    store: Store
    bases: BaseReader
    now_ms: Callable[[], int]
    tagged: Callable[[], frozenset[int]] = frozenset
    """Returns the currently tagged versions."""

    def plan(self, policy: RetentionPolicy) -> Expiry:
        """List what may be deleted, by this machine's clock. Changes nothing."""
        return find_expired(
            replace(self.inventory(), tagged=self.tagged()), policy, now_ms=self.now_ms()
        )

    def clean(
        self,
        policy: RetentionPolicy,
        *,
        only: Collection[str] | None = None,
        settings: CleanupSettings | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> CleaningReport:
        """Delete what expired by the store's clock and is covered by verified checkpoints; `only`
        these files, if given.

        Files whose cover is damaged stay.
        """
        chosen, log = settings or CleanupSettings(), self.inventory()

        def expired(now_ms: int, damaged: Collection[int] = ()) -> Expiry:
            expiry = find_expired(log.without(damaged), policy, now_ms=now_ms)
            if only is None:
                return expiry
            return expiry.only(only)

        # Whichever clock is ahead: what neither of them calls old needs no further look.
        latest = expired(max(self.now_ms(), log.newest_ms))
        if latest.expired:
            log = replace(log, tagged=self.tagged())
            latest = expired(max(self.now_ms(), log.newest_ms))
        if chosen.dry_run or not latest.expired:
            return CleaningReport(latest.expired, dry_run=chosen.dry_run)
        now_ms = StoreClock(self.store, self.now_ms).tell()
        failures: dict[int, str] = {}
        while True:
            expiry = expired(now_ms, failures)
            uncovered = self.find_uncovered(expiry)
            if not uncovered:
                break
            failures |= {version: failure.message for version, failure in uncovered.items()}
        report = self._delete_expired(expiry, chosen, on_batch)
        return replace(
            report, failures=(*failures.values(), *report.failures), damaged=tuple(failures)
        )

    def find_uncovered(self, expiry: Expiry) -> dict[int, IndexTablesError]:
        """Return the checkpoints that would have to cover deleted files and cannot, with the
        reasons.
        """
        if not expiry.expired:
            return {}
        listing = list_log(self.store)
        versions = self.bases.versions
        verifier = CheckpointVerifier.of(self.store, versions.settings, self.bases.settings)
        failures = {version: verifier.failure_at(listing, version) for version in expiry.covers}
        return {version: failure for version, failure in failures.items() if failure is not None}

    def inventory(self) -> LogInventory:
        """Return everything in the log, and the files that each state and checkpoint names."""
        files, listed = _FilesByKind(), [*self.store.list(log_files.LOG)]
        for info in listed:
            files.add(info)
        files.keep(without_strangers(self.bases, listing_of(listed)))
        return LogInventory(
            versions=files.versions,
            states={
                v: CheckpointFiles(tuple(map(_object, f)), self._manifests(v, f))
                for v, f in files.states.items()
            },
            legacy_checkpoints={
                v: CheckpointFiles(tuple(map(_object, f)), self._parts(f))
                for v, f in files.legacy_checkpoints.items()
            },
            manifests=files.manifests,
            parts=files.parts,
        )

    def run(
        self,
        expiry: Expiry,
        *,
        settings: CleanupSettings | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> CleaningReport:
        """Delete what a plan lists, if its cover is verified.

        A failed batch is reported, or raised depending on the settings. `on_batch` receives the
        number of deleted files after each batch.
        """
        chosen = settings or CleanupSettings()
        if chosen.dry_run:
            return CleaningReport(expiry.expired, dry_run=True)
        uncovered = self.find_uncovered(expiry)
        if uncovered:
            if chosen.failure_policy == "fail":
                raise next(iter(uncovered.values()))
            failures = tuple(failure.message for failure in uncovered.values())
            return CleaningReport(expiry.expired, failures=failures, damaged=tuple(uncovered))
        return self._delete_expired(expiry, chosen, on_batch)

    def _delete_expired(
        self, expiry: Expiry, chosen: CleanupSettings, on_batch: Callable[[int], None] | None
    ) -> CleaningReport:
        deleted: list[ExpiredFile] = []
        failures: list[str] = []
        stopped: str | None = None
        for at in range(0, len(expiry.expired), _BATCH):
            batch = expiry.expired[at : at + _BATCH]
            try:
                stopped = self._reason_to_stop(expiry)
                if stopped is not None:
                    failures.append(stopped)
                    break
                self._delete(batch, expiry)
                deleted += batch
                for file in batch:
                    METRICS.count("log_files_cleaned_total", self.store.url, file.kind)
                if on_batch is not None:
                    on_batch(len(deleted))
            except StorageError as failure:
                if chosen.failure_policy == "fail":
                    raise
                logger.warning("cleaning the log of %s: %s", self.store.url, failure.message)
                failures.append(failure.message)
        self._remove_empty_state_folders(expiry)
        return CleaningReport(expiry.expired, tuple(deleted), tuple(failures), stopped=stopped)

    def _reason_to_stop(self, expiry: Expiry) -> str | None:
        """Return why the next batch must not be deleted, or None if it may be."""
        if self.store.head(log_files.DROPPED) is not None:
            return "the table is being dropped"
        if not self._still_covered(expiry):
            return f"the checkpoint of version {expiry.anchor} has gone, or another table was created in its place"
        if not self.tagged() <= expiry.tagged:
            return "a version was tagged during the cleaning; the next cleaning continues"
        return None

    def _remove_empty_state_folders(self, expiry: Expiry) -> None:
        """Remove the folders of deleted states: a local disk keeps empty folders."""
        log = self.store.local_path(log_files.LOG)
        if log is None or expiry.anchor is None:
            return
        for folder in log.glob("state-v*"):
            version = log_files.state_version_of(
                f"{log_files.LOG}/{folder.name}/{log_files.STATE_FILES[0]}"
            )
            if version is not None and version < expiry.anchor:
                remove_if_empty(folder)

    def _delete(self, batch: Sequence[ExpiredFile], expiry: Expiry) -> None:
        """Delete files in batches.

        Rule R3: versions are deleted one by one, oldest first. A store that deletes many at once
        has no order, and a writer that finds the version before its own must be able to conclude
        that its own was never deleted.

        Rule C11: a file is deleted only if it is still the listed one. A cleaner that slept may
        find a table that was re-created at the same path, with files of the same names.
        """
        for file in batch:
            if file.kind == "version":
                self.store.delete([_info(expiry.objects[file.path])])
        self.store.delete(
            [_info(expiry.objects[file.path]) for file in batch if file.kind != "version"]
        )

    def _still_covered(self, expiry: Expiry) -> bool:
        """Return whether the checkpoint that replaces deleted files, and its version, are still the
        files that were read (C11).
        """
        found = [(self.store.head(file.path), _info(file)) for file in expiry.cover]
        return bool(found) and all(
            info is not None and is_same_object(info, listed) for info, listed in found
        )

    def _manifests(self, version: int, files: Iterable[ObjectInfo]) -> frozenset[str] | None:
        info = min(files, key=lambda f: f.path)
        try:
            state = self.bases.read_state(version, info)
            return frozenset(
                log_files.manifest_path(manifest.path, info.path) for manifest in state.manifests
            )
        except (BadFileError, UnsupportedError, NotFoundError):
            return None

    def _parts(self, files: Iterable[ObjectInfo]) -> frozenset[str] | None:
        named: set[str] = set()
        for path in (file.path for file in files):
            try:
                if path.startswith(log_files.PARQUET_CHECKPOINTS):
                    if path.endswith(".checkpoint.parquet"):
                        names = parquet_parts(self.store.get(path), path=path)
                        named.update(f"{log_files.PARQUET_CHECKPOINTS}/{name}" for name in names)
                    continue
                checkpoint = decode_checkpoint(
                    self.store.get(path),
                    path=path,
                    version=log_files.legacy_checkpoint_version_of(path),
                )
            except (BadFileError, NotFoundError):
                return None
            if isinstance(checkpoint, MultiPartManifest):
                named.update(f"{log_files.LOG}/{part}" for part in checkpoint.parts)
        return frozenset(named)


class _FilesByKind(Struct):
    """The files of a listing by kind. Unknown files are left out."""

    versions: dict[int, LogObject] = field(default_factory=dict)
    states: dict[int, list[ObjectInfo]] = field(default_factory=dict)
    legacy_checkpoints: dict[int, list[ObjectInfo]] = field(default_factory=dict)
    manifests: dict[str, LogObject] = field(default_factory=dict)
    parts: dict[str, LogObject] = field(default_factory=dict)

    def add(self, info: ObjectInfo) -> None:
        path = info.path
        if (version := log_files.version_of(path)) is not None:
            self.versions[version] = _object(info)
        elif (version := log_files.state_version_of(path)) is not None:
            self.states.setdefault(version, []).append(info)
        elif (version := self._checkpoint_version(path)) is not None:
            self.legacy_checkpoints.setdefault(version, []).append(info)
        elif path.endswith(".avro"):
            self.manifests[path] = _object(info)
        elif log_files.is_checkpoint_part(path):
            self.parts[path] = _object(info)

    def keep(self, listing: LogListing) -> None:
        """Leave out checkpoints above the newest version that belong to another table: they cover
        nothing of this one.
        """
        top = max(listing.versions, default=-1)
        self.states = {
            v: found for v, found in self.states.items() if v <= top or v in listing.states
        }
        self.legacy_checkpoints = {
            v: found
            for v, found in self.legacy_checkpoints.items()
            if v <= top or v in listing.legacy_checkpoints
        }

    @staticmethod
    def _checkpoint_version(path: str) -> int | None:
        version = log_files.legacy_checkpoint_version_of(path)
        if version is None:
            return log_files.legacy_note_version_of(path)
        return version


def _object(info: ObjectInfo) -> LogObject:
    return LogObject(info.path, info.size, info.last_modified_ms, info.tag)


def _info(file: LogObject) -> ObjectInfo:
    return ObjectInfo(file.path, file.size, file.last_modified_ms, file.tag)
