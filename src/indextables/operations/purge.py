"""Purge: find unreachable splits, expired log files and leftovers, and delete them safely.

A split may be deleted if no version that was current within the retention period has it, and the
file itself is as old. Files of unknown age stay, and so does everything below a folder with a table
of its own, and anything that may be a live split under another spelling. What counts for a removed
split is the time of its removal, by the store's clock. Where the log has holes (it was truncated,
or another engine wrote only states), a split that is in no version before and after a hole counts
as removed in the first version after it. The same holds for files of deletion vectors.

Concurrent work loses nothing. Before the first deletion a version of its own records the purge. It
is a history record and a fence for writers: it removes by name the splits that a writer may be
about to commit, so that a commit which adds one of them fails. The store's clock is read before
anything is changed. Before every batch the newest version is read again, and splits that became
live are kept. The newest checkpoint is verified first, and rewritten if it is damaged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from functools import partial
from math import inf
from typing import Any, ClassVar, TypeVar
from unicodedata import normalize
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import asdict, replace

from indextables.config.log import CleanupSettings, RetentionSettings
from indextables.config.upkeep import PurgeSettings
from indextables.errors import (
    ConflictError,
    CorruptTableError,
    IndexTablesError,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    StorageError,
    VersionNotFoundError,
)
from indextables.handle import ENGINE_INFO, TableHandle
from indextables.log import log_files
from indextables.log.cleaning import CleaningReport, policy_of
from indextables.log.log_files import LogListing, list_log
from indextables.log.proposal import Plan
from indextables.log.transaction_log import TransactionLog
from indextables.log.versions import StoreClock
from indextables.metrics import METRICS
from indextables.model.actions import AddAction, CommitInfo, LogAction, RemoveAction, TxnAction
from indextables.model.arguments import number
from indextables.model.conflicts import PURGE_TXN, Intent, Operation
from indextables.model.deletion_vector import (
    REACHED_COLUMNS,
    VECTOR_FOLDER,
    VECTOR_SUFFIX,
    listed_paths,
    vector_path,
)
from indextables.model.report import Progress, Report, pluralize, silent, was
from indextables.model.retention import HOUR_MS, Expiry, RetentionPolicy, find_expired
from indextables.model.snapshot import CommittedVersion, Snapshot
from indextables.operations.companion_merge import drop_lost_splits
from indextables.operations.jobs import DRY_RUN, NO_ACTION, SUCCESS
from indextables.operations.tags import tagged_files
from indextables.operations.traces import MaskedRows
from indextables.pools import UPKEEP
from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.store import ObjectInfo, Store

_RESTARTS = 5


class Ending(Struct, frozen=True):
    """The version that removed a split, and its time; None if the store reports none."""

    version: int
    at_ms: int | None


class Timeline(Struct, frozen=True):
    """The live splits, how the others ended, and until when a split without a trace may have been
    live.
    """

    live: frozenset[str]
    ended: Mapping[str, Ending]
    untraced: Ending | None = None


def timeline(log: TransactionLog, newest: Snapshot) -> Timeline:
    """Return the timeline of the log up to a snapshot. If the log is cleaned while it is read, it
    is read again.
    """
    for _ in range(_RESTARTS):
        try:
            return _timeline(log, newest)
        except NotFoundError:
            continue
    return _timeline(log, newest)


def _timeline(log: TransactionLog, newest: Snapshot) -> Timeline:
    listing = list_log(log.store)
    versions = sorted(
        v
        for v in {*listing.versions, *listing.states, *listing.legacy_checkpoints}
        if v <= newest.version
    )
    read = log.reader.read([(v, listing.versions[v]) for v in versions if v in listing.versions])
    walk = _TimelineWalk(log, listing, {version.version: version for version in read})
    for version in versions:
        walk.step(version)
    live = listed_paths(newest.files(columns=REACHED_COLUMNS))
    return Timeline(
        live, {path: end for path, end in walk.ended.items() if path not in live}, walk.untraced
    )


class _TimelineWalk:
    """Walks through the versions of the log, oldest first."""

    def __init__(
        self, log: TransactionLog, listing: LogListing, versions: Mapping[int, CommittedVersion]
    ) -> None:
        self.ended: dict[str, Ending] = {}
        self.untraced: Ending | None = None
        self._log = log
        self._listing = listing
        self._versions = versions
        self._live: set[str] = set()
        self._vectors: dict[str, str] = {}
        """The file of each split's deletion vector; several splits may share one."""
        self._at = -1

    def step(self, version: int) -> None:
        """Apply a version: by its actions if it follows the last one, otherwise by its complete
        file list.
        """
        if version in self._versions and version == self._at + 1:
            self._apply(self._versions[version])
        elif not self._jump(version):
            return
        self._at = version

    def _apply(self, version: CommittedVersion) -> None:
        before = set(self._vectors.values())
        for action in version.actions:
            if isinstance(action, AddAction):
                self._live.add(action.path)
                self.ended.pop(action.path, None)
                self._vectors.pop(action.path, None)
                if (vector := vector_path(action.deletion_vector)) is not None:
                    self._vectors[action.path] = vector
            elif isinstance(action, RemoveAction):
                self._live.discard(action.path)
                self._vectors.pop(action.path, None)
                self.ended[action.path] = self._ending(version.version)
        self._follow_vectors(before, version.version)

    def _follow_vectors(self, before: set[str], version: int) -> None:
        """End the vector files that no split uses after a version."""
        now = set(self._vectors.values())
        self.ended |= dict.fromkeys(before - now, self._ending(version)) if before - now else {}
        for path in now - before:
            self.ended.pop(path, None)

    def _jump(self, version: int) -> bool:
        """Continue after a hole in the log. Returns False if the version cannot be read, which
        enlarges the hole.
        """
        try:
            files = self._log.at_version(version).files(columns=REACHED_COLUMNS)
        except (VersionNotFoundError, CorruptTableError):
            return False
        paths, before = set(files.column("path").to_pylist()), set(self._vectors.values())
        self.ended |= dict.fromkeys(self._live - paths, self._ending(version))
        self._live = paths
        vectors = zip(
            files.column("path").to_pylist(),
            files.column("deletion_vector").to_pylist(),
            strict=True,
        )
        self._vectors = {
            path: place for path, text in vectors if (place := vector_path(text)) is not None
        }
        self._follow_vectors(before, version)
        self.untraced = self._ending(version)
        return True

    def _ending(self, version: int) -> Ending:
        """Return the ending by the store's time: a writer's slow clock must not make a removal look
        older.
        """
        listing = self._listing
        info = (
            listing.versions.get(version)
            or listing.states.get(version)
            or listing.legacy_checkpoints[version]
        )
        return Ending(version, info.last_modified_ms)


def other_tables(objects: Iterable[ObjectInfo]) -> tuple[str, ...]:
    """Return the folders of tables inside this one's folder, which are left alone."""
    marker = f"/{log_files.LOG}/"
    return tuple(sorted({o.path[: o.path.index(marker) + 1] for o in objects if marker in o.path}))


def own_files(objects: Iterable[ObjectInfo]) -> list[ObjectInfo]:
    """Return the objects without those of other tables."""
    listed = [*objects]
    others = other_tables(listed)
    if others:
        return [o for o in listed if not o.path.startswith(others)]
    return listed


IN_FLIGHT_MS = 24 * HOUR_MS
"""Age up to which a split that no version names may belong to a running commit."""
WRITING_MS = HOUR_MS
"""Age up to which a temporary file may belong to a running writer."""


class PurgeFile(Struct, frozen=True):
    """A file to delete, and why."""

    path: str
    kind: str
    size: int
    reason: str


class Retention(Struct, frozen=True):
    """Retention of splits and version files; unsafe values are refused."""

    split_hours: float
    log_hours: float

    @classmethod
    def from_arguments(
        cls, settings: PurgeSettings, *, split_hours: float | None, log_hours: float | None
    ) -> Retention:
        """Return the settings with the options of this purge applied."""
        retention = cls(
            settings.split_hours
            if split_hours is None
            else number("older_than_hours", split_hours, "hours"),
            settings.log_hours
            if log_hours is None
            else number("log_retention_hours", log_hours, "hours"),
        )
        for hours, what in (
            (retention.split_hours, "splits"),
            (retention.log_hours, "version files"),
        ):
            if not 0 <= hours < inf:
                hint = "Give a number of hours, 0 or more."
                raise InvalidInputError(
                    f"A retention of {hours:g} hours for {what} makes no sense.",
                    hint=hint,
                    hours=hours,
                )
            if hours < settings.min_hours and settings.check_retention:
                raise RefusedError(
                    f"A retention of {hours:g} hours for {what} is shorter than {settings.min_hours:g} hours: readers "
                    "and writers that are at work now could lose what they need.",
                    hint="If no writer is running, open the table with options={'purge.retentionCheckEnabled': False}.",
                    hours=hours,
                )
        return retention


class PurgePlan(Report, frozen=True):
    """Every file that a purge would delete, with size and reason."""

    table_path: str
    version: int
    retention_hours: float
    log_retention_hours: float
    files: tuple[PurgeFile, ...]
    """Splits and leftovers first, then the log files in the order of deletion."""
    expiry: Expiry
    in_flight: frozenset[str]
    """Those among the splits that a writer may be about to commit."""
    ended: Mapping[str, int]
    """The version that removed a split or vector, by path."""
    read: Snapshot
    settings: RetentionSettings
    now_ms: int
    """The time by which expiry was decided."""
    masked: MaskedRows
    hidden: ClassVar[tuple[str, ...]] = (
        *("expiry", "in_flight", "ended", "read", "settings", "now_ms", "masked"),
    )

    def details(self) -> dict[str, list[dict[str, Any]]]:
        """Return the files, including those of the log."""
        return {"files": [asdict(file) for file in self.all_files()]}

    @property
    def unreadable_before(self) -> int:
        """Versions before this one may lose splits."""
        return max(
            (self.ended[file.path] for file in self.files if file.path in self.ended), default=0
        )

    def only(self, paths: Collection[str], *, log: bool) -> PurgePlan:
        """Return the plan for some of the splits and leftovers, with or without the log files."""
        return replace(
            self,
            files=tuple(file for file in self.files if file.path in paths),
            in_flight=self.in_flight.intersection(paths),
            expiry=self.expiry if log else self.expiry.only(()),
        )

    def all_files(self) -> Iterator[PurgeFile]:
        """Return every file in the order of deletion."""
        yield from self.files
        for expired in self.expiry.expired:
            yield PurgeFile(expired.path, expired.kind, expired.size, expired.reason)


def plan(
    log: TransactionLog,
    *,
    retention: Retention,
    settings: RetentionSettings,
    now_ms: int | None = None,
) -> PurgePlan:
    """Find what may be deleted, by this machine's or a given clock. Changes nothing."""
    now_ms = log.now_ms() if now_ms is None else now_ms
    policy = log_policy(settings, log_hours=retention.log_hours)
    newest = log.newest_writable()
    inventory = replace(log.cleaner().inventory(), tagged=frozenset(newest.header.tags.values()))
    expiry = find_expired(inventory, policy, now_ms=now_ms)
    history = timeline(log, newest)
    history = replace(history, live=history.live | tagged_files(log, newest))
    listed = [*log.store.list()]
    objects, others = own_files(listed), other_tables(listed)
    search = _PurgeSearch(
        history, _file_names(history.live.difference(o.path for o in objects)), retention, now_ms
    )
    splits = [*search.orphans(o for o in objects if not o.path.startswith(f"{log_files.LOG}/"))]
    gone = {file.path for file in splits} | {expired.path for expired in expiry.expired}
    leftovers = [
        *search.checksums(objects, gone),
        *search.list_unfinished(
            o for o in log.store.list_unfinished() if not o.path.startswith(others)
        ),
    ]
    return PurgePlan(
        table_path=log.store.url,
        version=newest.version,
        retention_hours=retention.split_hours,
        log_retention_hours=retention.log_hours,
        files=(*splits, *leftovers),
        expiry=expiry,
        in_flight=frozenset(search.in_flight),
        ended={f.path: history.ended[f.path].version for f in splits if f.path in history.ended},
        read=newest,
        settings=settings,
        now_ms=now_ms,
        masked=MaskedRows.of(newest),
    )


def log_policy(settings: RetentionSettings, *, log_hours: float) -> RetentionPolicy:
    """Return the retention of the log: as requested, and for checkpoints at most that."""
    policy = policy_of(settings)
    log_ms = round(log_hours * HOUR_MS)
    return replace(
        policy,
        log_ms=log_ms,
        state_ms=min(policy.state_ms, log_ms),
        checkpoint_ms=min(policy.checkpoint_ms, log_ms),
        versions=0,
    )


class _PurgeSearch:
    """Finds unreferenced files."""

    def __init__(
        self, history: Timeline, missed: frozenset[str], retention: Retention, now_ms: int
    ) -> None:
        self.in_flight: set[str] = set()
        self._history = history
        self._missed = missed
        self._keep_ms = round(retention.split_hours * HOUR_MS)
        self._now_ms = now_ms

    def orphans(self, objects: Iterable[ObjectInfo]) -> Iterator[PurgeFile]:
        """Return splits and vector files that are not live, and that expired since they were live
        or were written.
        """
        for info in objects:
            kind = _kind(info.path)
            if kind is None or info.path in self._history.live:
                continue
            ended = self._history.ended.get(info.path)
            since = self._since(info, ended)
            if since is None:
                continue
            # Versions that follow each other quickly are dated ahead of the clock: what they
            # removed is of age 0.
            if ended is None:
                age_ms = self._now_ms - since
            else:
                age_ms = max(0, self._now_ms - since)
            if age_ms < self._keep_ms:
                continue
            if self._missed and self._missed & _file_names([info.path]):
                continue
            if ended is None and self._may_be_in_flight(info):
                self.in_flight.add(info.path)
            if ended:
                reason = f"removed by version {ended.version}"
            else:
                reason = "part of no version in the log"
            yield PurgeFile(info.path, kind, info.size, f"{reason}, {_age(age_ms)} ago")

    def checksums(self, objects: Iterable[ObjectInfo], gone: set[str]) -> Iterator[PurgeFile]:
        """Return Hadoop's checksum files whose file is gone or is deleted now."""
        listed = {o.path: o for o in objects}
        for path, info in listed.items():
            folder, _, name = path.rpartition("/")
            if not (name.startswith(".") and name.endswith(".crc")) or not self._older(
                info, self._keep_ms
            ):
                continue
            checked = f"{folder}/{name[1:-4]}" if folder else name[1:-4]
            if checked in gone or checked not in listed:
                yield PurgeFile(
                    path, "checksum", info.size, f"checksum of {checked}, which is gone"
                )

    def list_unfinished(self, objects: Iterable[ObjectInfo]) -> Iterator[PurgeFile]:
        """Return the temporary files of dead writers."""
        for info in objects:
            if self._older(info, max(self._keep_ms, WRITING_MS)):
                yield PurgeFile(info.path, "temporary", info.size, "left behind by a writer")

    def _may_be_in_flight(self, info: ObjectInfo) -> bool:
        """Return whether a writer may be about to commit a file, by its age; always if retention is
        shorter than that.
        """
        return min(self._keep_ms, self._now_ms - (info.last_modified_ms or 0)) < IN_FLIGHT_MS

    def _since(self, info: ObjectInfo, ended: Ending | None) -> int | None:
        """Return from when the age of a split counts, or None if unknown."""
        last = ended or self._history.untraced
        if info.last_modified_ms is None or last is None:
            return info.last_modified_ms
        if last.at_ms is None:
            return None
        return max(info.last_modified_ms, last.at_ms)

    def _older(self, info: ObjectInfo, limit_ms: int) -> bool:
        return (
            info.last_modified_ms is not None and self._now_ms - info.last_modified_ms >= limit_ms
        )


def _kind(path: str) -> str | None:
    """Return the kind of a file that the log names, or None if it is neither a split nor a deletion
    vector file.
    """
    if path.endswith(".split"):
        return "split"
    if path.startswith(f"{VECTOR_FOLDER}/") and path.endswith(VECTOR_SUFFIX):
        return "vector"
    return None


def _file_names(paths: Iterable[str]) -> frozenset[str]:
    """Return the last parts of paths in normalized spelling. Split names are unique."""
    return frozenset(normalize("NFC", unquote(path.rpartition("/")[2])) for path in paths)


def _age(ms: int) -> str:
    hours = ms / HOUR_MS
    if hours >= 48:
        return f"{hours / 24:.1f} days"
    return f"{hours:.1f} hours"


def sizes_by_kind(files: Iterable[PurgeFile]) -> Mapping[str, tuple[int, int]]:
    """Return number and bytes of the files of each kind."""
    sizes: dict[str, tuple[int, int]] = {}
    for file in files:
        count, size = sizes.get(file.kind, (0, 0))
        sizes[file.kind] = count + 1, size + file.size
    return sizes


T = TypeVar("T")
_NAMED_KINDS = ("split", "vector")
"""Kinds of files that versions name."""
BATCH = 1_000
TOLERANCE_MS = 10_000
"""How far this machine's clock may be ahead of the store's before expired files are determined
again by the store's clock.
"""
_BATCH_ELSEWHERE = 20_000
"""Number of files deleted together when another process deletes them."""
logger = logging.getLogger(__name__)


class PurgeReport(Report, frozen=True):
    """What was found and deleted; `files` are the found ones in a dry run, otherwise the deleted
    ones.
    """

    table_path: str
    status: str
    orphaned_files_found: int
    orphaned_files_deleted: int
    size_bytes_deleted: int
    retention_hours: float
    tx_log_files_deleted: int
    expired_states_found: int
    expired_states_deleted: int
    manifests_deleted: int
    dry_run: bool
    duration_ms: int
    message: str
    splits_with_deleted_rows: int = 0
    """Live splits with deletion vectors, whose deleted rows still have bytes in the file."""
    masked_rows: int = 0
    """Number of these rows."""
    files: tuple[PurgeFile, ...] = ()


class PurgeTask(Struct, frozen=True):
    """Deletions as a task."""

    spec: StoreSpec
    paths: tuple[str, ...]

    def run(self, *, store: Store | None = None) -> int:
        """Delete the files and return how many were named."""
        (store or open_store(self.spec)).delete(self.paths)
        return len(self.paths)


def run(
    planned: PurgePlan,
    log: TransactionLog,
    *,
    settings: PurgeSettings,
    delete: Callable[[Sequence[str]], None] | None = None,
    progress: Progress = silent,
    engine_info: str | None = None,
) -> PurgeReport:
    """Delete what a plan found. A batch that keeps failing raises an error; a repeated purge
    continues.

    `settings` contain the number of threads and the maximum number of files besides those of the
    log; `delete` deletes files in another process.
    """
    began_ms, retries, max_files = log.now_ms(), settings.delete_retries, settings.max_files
    damage = log.heal()
    left = planned.files[max_files:] if max_files else ()
    if max_files:
        planned = replace(planned, files=planned.files[:max_files])
    else:
        planned = planned
    if not any(True for _ in planned.all_files()):
        return _report(
            planned, (), status=SUCCESS if damage else NO_ACTION, duration_ms=0, damage=damage
        )
    planned = by_the_stores_clock(planned, log)
    if not any(True for _ in planned.all_files()):
        return _report(
            planned, (), status=SUCCESS if damage else NO_ACTION, duration_ms=0, damage=damage
        )
    fence = _put_up_fence(planned, log, engine_info)
    deleted: list[PurgeFile] = []
    work, newest, unfenced = (
        planned.files,
        _Newest(log, planned, fence),
        planned.in_flight - fence.removed_paths,
    )
    deleting = partial(_delete_in_threads, log.store, settings.parallelism)
    total, step = (
        len(work) + len(planned.expiry.expired),
        BATCH if delete is None else _BATCH_ELSEWHERE,
    )
    for at in range(0, len(work), step):
        batch = newest.without_needed(work[at : at + step], in_flight=unfenced)
        paths = [file.path for file in batch]
        _again_if_it_fails(lambda: (delete or deleting)(paths), retries)  # noqa: B023 (called at once)
        deleted += batch
        progress(min(at + step, len(work)), total, "files")

    def clean() -> CleaningReport:
        return log.cleaner().clean(
            log_policy(planned.settings, log_hours=planned.log_retention_hours),
            only={file.path for file in planned.expiry.expired},
            settings=CleanupSettings(failure_policy="fail"),
            on_batch=lambda done: progress(len(work) + done, total, "files"),
        )

    cleaned = _again_if_it_fails(clean, retries)
    cleaned.check_finished(log.store.url)
    deleted += [PurgeFile(file.path, file.kind, file.size, file.reason) for file in cleaned.deleted]
    METRICS.count("splits_purged_total", log.store.url, by=len(deleted) - len(cleaned.deleted))
    logger.info(
        "purged %d files of %s, %d of them of its log",
        len(deleted),
        log.store.url,
        len(cleaned.deleted),
    )
    report = _report(
        planned, deleted, status=SUCCESS, duration_ms=log.now_ms() - began_ms, damage=damage
    )
    if not left:
        return report
    more = f" {pluralize(len(left), 'file')} {was(len(left))} left for the next purge (purge.maxFilesToDelete)."
    return replace(report, message=report.message + more)


def _delete_in_threads(store: Store, parallelism: int, paths: Sequence[str]) -> None:
    """Delete files in several threads. A failure is raised when all are done."""
    if parallelism == 1 or len(paths) < parallelism:
        store.delete(paths)
        return
    shares = (paths[number::parallelism] for number in range(parallelism))
    parts = [UPKEEP.submit(store.delete, share, parallelism=parallelism) for share in shares]
    wait(parts)
    for part in parts:
        part.result()


def preview(planned: PurgePlan, log: TransactionLog) -> PurgeReport:
    """Return the report of a dry run."""
    files, damage = tuple(planned.all_files()), log.damage()
    status = DRY_RUN if files or damage else NO_ACTION
    return _report(planned, files, status=status, duration_ms=0, dry_run=True, damage=damage)


def by_the_stores_clock(planned: PurgePlan, log: TransactionLog) -> PurgePlan:
    """Return the part of a plan that has also expired by the store's clock. Raises RefusedError if
    the clocks differ too much.
    """
    now_ms = StoreClock(log.store, log.now_ms).tell()
    if planned.now_ms - now_ms <= TOLERANCE_MS or not (
        planned.retention_hours or planned.log_retention_hours
    ):
        return planned
    retention = Retention(planned.retention_hours, planned.log_retention_hours)
    again = plan(log, retention=retention, settings=planned.settings, now_ms=now_ms)
    planned_paths = {file.path for file in planned.all_files()}
    return replace(
        planned,
        files=tuple(file for file in again.files if file.path in planned_paths),
        expiry=again.expiry.only(planned_paths),
        in_flight=planned.in_flight | again.in_flight,
    )


def _put_up_fence(
    planned: PurgePlan, log: TransactionLog, engine_info: str | None
) -> CommittedVersion:
    """Commit the record of the purge. The splits that this version removes can no longer be
    committed.
    """
    committed = log.commit(planned.read, _Fence(planned, engine_info), keep_up=False)
    assert committed.offered is not None, "a purge always has something to record"
    return committed.offered


class _Newest:
    """The splits that became live since a plan, and those of the newest version; read again on
    every call.
    """

    def __init__(self, log: TransactionLog, planned: PurgePlan, fence: CommittedVersion) -> None:
        self._log = log
        self._fence = fence
        self._retains = planned.retention_hours > 0
        # The fence itself adds nothing; where it came right after what the plan read there is
        # nothing in between.
        at = planned.read.version
        self._checked_until = fence.version if fence.version == at + 1 else at
        self._live_paths: tuple[int, frozenset[str]] = (-1, frozenset())
        self._revived: set[str] = set()
        self._untold = False

    def without_needed(
        self, batch: Sequence[PurgeFile], *, in_flight: frozenset[str]
    ) -> list[PurgeFile]:
        """Return the files of a batch that no version since the plan has, and that no writer can
        commit any more.

        A file that became live is kept even if it was removed again: its age counts from that
        removal (rule C2).
        """
        live = self._live()
        if self._untold:
            batch = [file for file in batch if file.kind not in _NAMED_KINDS]
        needed = live | self._revived | in_flight
        return [file for file in batch if file.path not in needed]

    def _live(self) -> frozenset[str]:
        newest = self._log.fresh()
        self._check_fence(newest)
        self._look_back(newest.version)
        if newest.version != self._live_paths[0]:
            live = listed_paths(newest.files(columns=REACHED_COLUMNS))
            self._live_paths = newest.version, live | tagged_files(self._log, newest)
        return self._live_paths[1]

    def _check_fence(self, newest: Snapshot) -> None:
        """Raise ConflictError if the log no longer descends from the fence, so that the plan is
        outdated.
        """
        txn_id, txn_ids = self._fence.info.txn_id, newest.header.recent_txn_ids
        since = newest.version - self._fence.version
        if since < 0 or (txn_id and since < len(txn_ids) and txn_id not in txn_ids):
            raise ConflictError(
                f"The log of {self._log.store.url} was replaced while it was purged: version {self._fence.version}, which "
                "records the purge, is not part of it.",
                hint="The purge has stopped. Run it again.",
                path=self._log.store.url,
                version=newest.version,
            )

    def _look_back(self, newest: int) -> None:
        if newest <= self._checked_until:
            return
        try:
            for version in self._log.since(self._checked_until, newest):
                self._revived |= version.named_files
        except VersionNotFoundError as gone:
            if self._retains:
                self._untold = True
                logger.warning(
                    "splits are left to the next purge of %s: %s", self._log.store.url, gone.message
                )
        self._checked_until = newest


def _again_if_it_fails(act: Callable[[], T], retries: int) -> T:
    for _ in range(retries):
        try:
            return act()
        except StorageError as failure:
            logger.warning("deleting failed and is tried again: %s", failure.message)
    return act()


class _Fence(Struct, frozen=True):
    """The commit of a purge."""

    planned: PurgePlan
    engine_info: str | None

    @property
    def intent(self) -> Intent:
        return Intent(Operation.PURGE, writes_data=False)

    def plan(self, snapshot: Snapshot, *, now_ms: int) -> Plan:
        planned = self.planned
        earlier = snapshot.header.txns.get(PURGE_TXN)
        horizon = max(planned.unreadable_before, earlier.version if earlier else 0)
        # The horizon records which versions may have lost splits.
        actions: list[LogAction] = [
            TxnAction(app_id=PURGE_TXN, version=horizon, last_updated=now_ms)
        ]
        if planned.in_flight:
            paths = sorted(
                planned.in_flight - listed_paths(snapshot.files(columns=REACHED_COLUMNS))
            )
            actions += [
                RemoveAction(path=path, deletion_timestamp=now_ms, data_change=False)
                for path in paths
            ]
        return Plan(actions, self._info())

    def _info(self) -> CommitInfo:
        planned = self.planned
        kinds = sizes_by_kind(planned.all_files())
        counts = {
            f"num{kind.title().replace(' ', '')}Files": count for kind, (count, _) in kinds.items()
        }
        return CommitInfo(
            operation=Operation.PURGE,
            operation_parameters={
                "retentionHours": planned.retention_hours,
                "logRetentionHours": planned.log_retention_hours,
            },
            operation_metrics={**counts, "numBytes": sum(size for _, size in kinds.values())},
            engine_info=self.engine_info,
        )


def _report(
    planned: PurgePlan,
    files: Sequence[PurgeFile],
    *,
    status: str,
    duration_ms: int,
    dry_run: bool = False,
    damage: IndexTablesError | None = None,
) -> PurgeReport:
    planned_sizes, deleted_sizes = (
        sizes_by_kind(planned.all_files()),
        sizes_by_kind(() if dry_run else files),
    )

    def count(kinds: Mapping[str, tuple[int, int]], *names: str) -> int:
        return sum(kinds[name][0] for name in names if name in kinds)

    if dry_run:
        verb = "would be deleted"
    else:
        verb = f"{was(len(files))} deleted"
    size = sum(file.size for file in files)
    message = "There is nothing to purge."
    if files:
        message = f"{pluralize(len(files), 'file')} of {pluralize(size, 'byte')} {verb}."
    if damage is not None:
        message = (
            f"{damage.message} The checkpoint {'is' if dry_run else 'was'} rewritten. {message}"
        )
    return PurgeReport(
        table_path=planned.table_path,
        status=status,
        orphaned_files_found=count(planned_sizes, *_NAMED_KINDS),
        orphaned_files_deleted=count(deleted_sizes, *_NAMED_KINDS),
        size_bytes_deleted=0 if dry_run else size,
        retention_hours=planned.retention_hours,
        tx_log_files_deleted=count(deleted_sizes, "version", "checkpoint", "checkpoint part"),
        expired_states_found=count(planned_sizes, "state"),
        expired_states_deleted=count(deleted_sizes, "state"),
        manifests_deleted=count(deleted_sizes, "manifest"),
        dry_run=dry_run,
        duration_ms=duration_ms,
        message=message + planned.masked.note(),
        splits_with_deleted_rows=planned.masked.splits,
        masked_rows=planned.masked.rows,
        files=tuple(files),
    )


def purge(
    table: TableHandle,
    *,
    older_than_hours: float | None,
    log_retention_hours: float | None,
    dry_run: bool,
    progress: Progress,
    delete: Callable[[Sequence[str]], None] | None,
) -> PurgeReport:
    """Delete what no version of the retention period needs. See `Table.purge`."""
    table.check_maintainable()
    settings = table.settings.group(PurgeSettings)
    if table.companion is not None:
        drop_lost_splits(table, dry_run=dry_run)
    retention = Retention.from_arguments(
        settings, split_hours=older_than_hours, log_hours=log_retention_hours
    )
    planned = plan(table.log, retention=retention, settings=table.settings.group(RetentionSettings))
    if dry_run:
        return preview(planned, table.log)
    report = run(
        planned,
        table.log,
        settings=settings,
        delete=delete,
        progress=progress,
        engine_info=ENGINE_INFO,
    )
    return table.show_newest_after(report)
