"""Erase rows permanently: from the live splits, and from every file of older versions that may be
deleted.

An erasure has four steps. Each leaves a consistent table, and an interrupted erasure is continued
by the same call.

1. One version replaces every live split that stores a matching row, masked rows included. The index
of the new split is built from the remaining rows, so that no term of the erased rows stays.
2. Another version and a compacted state follow, so that nothing the newest version needs mentions
the old splits.
3. A purge deletes the splits with the rows, and the log files that list them, as far as retention
and tags allow.
4. Every remaining file is read again (`operations/traces.py`). A file that still holds the rows is
reported with the reason, the earliest time of its deletion, and how to lift the restriction.

The condition is never written to the log, because it would contain the values to be erased.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.config import Settings
from indextables.config.log import CleanupSettings, RetentionSettings
from indextables.config.splits import ReadSettings, SplitCacheSettings
from indextables.config.upkeep import MergeSettings, PurgeSettings
from indextables.errors import InvalidInputError, RefusedError
from indextables.handle import ENGINE_INFO, TableHandle
from indextables.log import log_files
from indextables.log.checkpoint.checkpointer import CHECKPOINTS
from indextables.log.checkpoint.state_reader import BaseReader
from indextables.log.checkpoint.state_writer import Compact
from indextables.log.cleaning import Cleaner
from indextables.log.live_files import files_in_parts
from indextables.log.replica import folder_of
from indextables.log.transaction import Changes
from indextables.log.transaction_log import TransactionLog
from indextables.log.versions import VersionReader
from indextables.model.actions import AddAction
from indextables.model.arguments import number
from indextables.model.conflicts import Operation
from indextables.model.deletion_vector import REACHED_COLUMNS, listed_paths
from indextables.model.predicate import Predicate, Where
from indextables.model.pruning import may_match
from indextables.model.report import Progress, Report, pluralize, silent, was
from indextables.model.retention import (
    HOUR_MS,
    CheckpointFiles,
    LogInventory,
    RetentionPolicy,
    find_expired,
)
from indextables.model.snapshot import Snapshot
from indextables.operations import purge, traces
from indextables.operations.jobs import DRY_RUN, NO_ACTION, SUCCESS, collect, in_threads
from indextables.operations.purge import Retention
from indextables.operations.rewrite import (
    ListedSplit,
    Naming,
    SourceSplit,
    SplitRewriter,
    discard,
    source_splits,
)
from indextables.operations.tags import tagged_files
from indextables.operations.traces import LogScan, RowCondition, SplitScan, Trace
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.table_split import open_table_split
from indextables.splits.write.merge import MergeSource
from indextables.storage.spec import StoreSpec, open_table_store
from indextables.storage.store import Store

_FOREVER_MS = 10**17
"""A clock by which every file is expired: what is still kept has another reason than its age."""
_NO_AGE = RetentionPolicy(log_ms=0, state_ms=0, checkpoint_ms=0, manifest_ms=0)
_ROUNDS = 2
"""Maximum number of purges: a purge records the paths of uncommitted splits, which may contain
values of the rows.
"""
REWRITE, DELETE, KEEP = "rewrite", "delete", "keep"


class EraseOutcome(Struct, frozen=True):
    """Result for one split: number of matching visible and masked rows, and its replacement."""

    path: str
    visible: int
    masked: int
    added: AddAction | None = None


class EraseTask(Struct, frozen=True):
    """Rewrite one live split without its matching rows; picklable."""

    rewriter: SplitRewriter
    source: SourceSplit
    partition_values: dict[str, str | None]
    condition: RowCondition

    def run(self, *, store: Store | None = None, naming: Naming | None = None) -> EraseOutcome:
        """Read every stored row, and write the others to a new split if one of them matches."""
        split_store = store or open_table_store(self.rewriter.spec)
        rewriter, entry = self.rewriter, self.source.entry(self.partition_values)
        live = open_table_split(split_store, entry, rewriter.schema, rewriter.partition_columns)
        stored = replace(entry, vector=None, deleted=None, num_records=self.source.stored_records)
        whole = open_table_split(split_store, stored, rewriter.schema, rewriter.partition_columns)
        matches = self.condition.matches(whole)
        if live.mask is None:
            alive = np.ones(len(matches), np.bool_)
        else:
            alive = live.mask.alive
        visible = int((matches & alive).sum())
        masked = int(matches.sum()) - visible
        if not visible and not masked:
            return EraseOutcome(self.source.path, 0, 0)
        added = rewriter.rewrite(
            [(self.source, MergeSource(whole.reader, alive & ~matches))],
            self.partition_values,
            store=split_store,
            naming=naming or Naming(),
            num_merge_ops=self.source.num_merge_ops,
            data_change=False,
            reuse_index=False,
        )
        return EraseOutcome(self.source.path, visible, masked, added)


class RowHolder(Struct, frozen=True):
    """A file that holds the rows, its fate, and what must change for it to be deleted."""

    path: str
    kind: str
    rows: int | None
    fate: str
    """`rewrite`, `delete` or `keep`."""
    reason: str
    until: str | None = None
    """The end of its retention in UTC; None if time alone does not end it."""
    lifted_by: str | None = None


class EraseReport(Report, frozen=True):
    """What was erased, and what still holds the rows. `proved` means that no byte of the table
    does.

    In a dry run `proved` tells whether the table is already free of the rows, and `holders` are the
    files that hold them now; otherwise `holders` are the remaining ones.
    """

    table_path: str
    status: str
    proved: bool
    erased_rows: int
    """Rows that were visible in the newest version."""
    erased_masked_rows: int
    """Deleted rows whose bytes were still in live splits."""
    splits_rewritten: int
    splits_removed: int
    files_deleted: int
    size_bytes_deleted: int
    retention_hours: float
    log_retention_hours: float
    dry_run: bool
    version: int | None
    message: str
    holders: tuple[RowHolder, ...] = ()


class Eraser(Struct, frozen=True, dict=True):
    """The erasure of matching rows from one table."""

    log: TransactionLog
    condition: RowCondition
    retention: Retention
    spec: StoreSpec
    settings: Settings
    progress: Progress = silent
    engine_info: str | None = None

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        log: TransactionLog,
        *,
        where: Predicate,
        retention: Retention,
        spec: StoreSpec,
        settings: Settings,
        progress: Progress = silent,
        engine_info: str | None = None,
    ) -> Eraser:
        """Create an erasure from a condition in physical column names."""
        metadata = snapshot.metadata
        condition = RowCondition(
            where, metadata.schema_string, tuple(metadata.partition_columns or ())
        )
        return cls(log, condition, retention, spec, settings, progress, engine_info)

    def preview(self, snapshot: Snapshot) -> EraseReport:
        """Search every file, and report what an erasure would do. Changes nothing."""
        sources = self._candidates(snapshot)
        visible, masked = self._count(sources)
        found = self._search()
        live = listed_paths(snapshot.files(columns=REACHED_COLUMNS))
        holders = tuple(self._holders(found, live=live, planned=True))
        message = "No row matches, and no file holds such a row."
        if found:
            kept = sum(holder.fate == KEEP or holder.until is not None for holder in holders)
            message = (
                f"{pluralize(visible, 'visible row')} and {pluralize(masked, 'deleted row')} would be erased "
                "from live splits. "
                f"{pluralize(len(found), 'file')} hold the rows now; {kept} of them would be kept for now."
            )
        report = self._report(
            DRY_RUN if found else NO_ACTION,
            holders,
            visible=visible,
            masked=masked,
            message=message,
        )
        return replace(report, dry_run=True)

    def run(self, snapshot: Snapshot) -> EraseReport:
        """Erase the rows. Raises ConflictError if another writer has changed one of the splits."""
        outcomes, version = self._rewrite(snapshot)
        self._step(1)
        found = self._search()
        self._step(2)
        condemned = frozenset(o.path for o in outcomes) | _splits(found)
        deleted: list[purge.PurgeFile] = []
        for _ in range(_ROUNDS if found else 0):
            version = self._renew_state(found, version)
            logged = any(trace.kind not in _OUTSIDE and not trace.store_url for trace in found)
            deleted += self._purge(condemned, logged=logged)
            self._clean_replica()
            self._forget()
            found = self._search(condemned)
            if not self._needs_state(found):
                break
        self._step(3)
        root = self.log.store.local_path("_")
        if root is not None and self.condition.names_partitions:
            others = purge.other_tables(self.log.store.list())
            _remove_empty_folders(root.parent, self.condition, others)
        self._step(4)
        live = listed_paths(self.log.fresh().files(columns=REACHED_COLUMNS))
        holders = tuple(self._holders(found, live=live, planned=False))
        visible, masked = sum(o.visible for o in outcomes), sum(o.masked for o in outcomes)
        rewritten = sum(o.added is not None for o in outcomes)
        report = self._report(
            SUCCESS if version is not None or deleted else NO_ACTION,
            holders,
            visible=visible,
            masked=masked,
            message=_message(visible, masked, holders),
        )
        return replace(
            report,
            splits_rewritten=rewritten,
            splits_removed=len(outcomes) - rewritten,
            files_deleted=len(deleted),
            size_bytes_deleted=sum(file.size for file in deleted),
            version=version,
        )

    def _step(self, done: int) -> None:
        self.progress(done, 4, "steps")

    # The live splits.

    def _candidates(self, snapshot: Snapshot) -> list[ListedSplit]:
        """Return the live splits that may store a matching row. Raises RefusedError for splits of
        IndexTables for the JVM.
        """
        condition = self.condition
        files = files_in_parts(snapshot, condition.where)
        possible = may_match(condition.where, files, partition_columns=condition.partition_columns)
        sources = source_splits(
            files.filter(pa.array(np.asarray(possible))), snapshot.schema_registry
        )
        foreign = [source.path for _, source in sources if source.foreign]
        if foreign:
            raise RefusedError(
                f"Rows of {self.log.store.url} cannot be erased: {pluralize(len(foreign), 'split')} that may hold them, such "
                f"as {foreign[0]}, {was(len(foreign))} written by IndexTables for the JVM, whose bytes cannot be searched.",
                hint="Nothing was changed. Rewrite these splits first: merge(rewrite=True), or MERGE SPLITS ... REWRITE.",
                path=self.log.store.url,
                splits=foreign,
            )
        return sources

    def _tasks(self, sources: Sequence[ListedSplit], snapshot: Snapshot) -> list[EraseTask]:
        rewriter = SplitRewriter.of(snapshot.metadata, spec=self.spec, settings=self.settings)
        return [
            EraseTask(rewriter, source, dict(values), self.condition) for values, source in sources
        ]

    def _count(self, sources: Sequence[ListedSplit]) -> tuple[int, int]:
        """Return how many matching rows of live splits are visible, and how many are masked."""
        schema, columns, store = (
            self.condition.schema,
            self.condition.partition_columns,
            self.log.store,
        )
        visible = stored = 0
        for values, source in sources:
            entry = source.entry(dict(values))
            visible += int(
                self.condition.matches(open_table_split(store, entry, schema, columns)).sum()
            )
            whole = replace(entry, vector=None, deleted=None, num_records=source.stored_records)
            stored += int(
                self.condition.matches(open_table_split(store, whole, schema, columns)).sum()
            )
        return visible, stored - visible

    def _rewrite(self, snapshot: Snapshot) -> tuple[list[EraseOutcome], int | None]:
        """Replace the live splits that store matching rows in one version."""
        sources = self._candidates(snapshot)
        work = self._tasks(sources, snapshot)
        outcomes: list[EraseOutcome] = []
        parallelism = self.settings.group(MergeSettings).parallelism
        try:
            collect(in_threads(self.log.store, parallelism=parallelism)(work), outcomes)
        except BaseException:
            discard(self.log.store, [o.added.path for o in outcomes if o.added is not None])
            raise
        outcomes = [outcome for outcome in outcomes if outcome.visible or outcome.masked]
        if not outcomes:
            return [], None
        adds = [outcome.added for outcome in outcomes if outcome.added is not None]
        visible = sum(outcome.visible for outcome in outcomes)
        changes = Changes(
            Operation.ERASE,
            adds=adds,
            removes=[outcome.path for outcome in outcomes],
            vectors={source.path: source.vector for _, source in sources},
            removes_change_data=visible > 0,
            metrics={"numErasedRecords": visible + sum(outcome.masked for outcome in outcomes)},
            engine_info=self.engine_info,
        )
        committed = self.log.commit(
            snapshot, changes, written=[action.path for action in adds], keep_up=False
        )
        return outcomes, committed.version

    # Everything else in the folder.

    def _search(self, condemned: frozenset[str] = frozenset()) -> list[Trace]:
        """Return every file of the table and of its replica that holds the rows. `condemned` are
        splits that held them.
        """
        self.log.invalidate_cache()
        store = self.log.store
        listed = [*store.list()]
        objects, others = purge.own_files(listed), purge.other_tables(listed)
        splits = [info for info in objects if info.path.endswith(".split")]
        found: list[Trace] = []
        parallelism = self.settings.group(ReadSettings).parallelism
        work = [SplitScan(self.spec, info, self.condition) for info in splits]
        for held in in_threads(store, parallelism=parallelism)(work):
            found += [] if held is None else [held]
        holding = _splits(found)
        unfinished = [info for info in store.list_unfinished() if not info.path.startswith(others)]
        found += traces.outside_the_log(objects, unfinished)
        clean = frozenset(info.path for info in splits) - holding
        for cleaner, url in self._logs():
            scan = LogScan(cleaner, self.condition, holding | condemned, clean, url)
            found += scan.traces()
        return found

    def _logs(self) -> Iterator[tuple[Cleaner, str]]:
        """Return the log and its replica without caches."""
        cleaner = self.log.cleaner()
        yield _forget_cache(cleaner, self.log.store), ""
        if (target := self._replica()) is not None:
            yield _forget_cache(cleaner, target), target.url

    def _replica(self) -> Store | None:
        replica = self.log.replica
        if replica is None:
            return None
        return replica.folder(folder_of(self.log.fresh().metadata.id))

    def _renew_state(self, found: Sequence[Trace], version: int | None) -> int | None:
        """Write a version and a state after every log file with the rows, unless both exist."""
        CHECKPOINTS.settle(self.log.store.url)
        if not self._needs_state(found, version):
            return version
        record = Changes(Operation.ERASE, keep_empty=True, engine_info=self.engine_info)
        committed = self.log.commit(self.log.fresh(), record, keep_up=False)
        self.log.checkpoint(compact=Compact.ALL)
        if version is not None:
            return version
        return committed.version

    def _needs_state(self, found: Sequence[Trace], version: int | None = None) -> bool:
        """Return whether a file with the rows, or a version, is as new as the newest checkpoint,
        which depends on it.
        """
        held = [
            _version_of(trace)
            for trace in found
            if trace.kind in _VERSIONED and not trace.store_url
        ]
        newest = max([*held, *([] if version is None else [version])], default=None)
        states, checkpoints = self.log.cleaner().inventory().usable()
        return newest is not None and max([-1, *states, *checkpoints]) <= newest

    def _retention_settings(self) -> RetentionSettings:
        """Return the retention of log files. States are kept by age, not by number."""
        return replace(self.settings.group(RetentionSettings), state_versions=1)

    def _purge(self, condemned: frozenset[str], *, logged: bool) -> tuple[purge.PurgeFile, ...]:
        """Delete the splits with the rows; if the log lists them (`logged`), also its expired
        files.
        """
        planned = purge.plan(
            self.log, retention=self.retention, settings=self._retention_settings()
        )
        unneeded = {file.path for file in planned.files if file.kind in ("vector", "temporary")}
        planned = planned.only(condemned | unneeded, log=logged)
        settings = replace(self.settings.group(PurgeSettings), max_files=0)
        done = purge.run(planned, self.log, settings=settings, engine_info=self.engine_info)
        return done.files

    def _clean_replica(self) -> None:
        target, replica = self._replica(), self.log.replica
        if target is None or replica is None:
            return
        policy = purge.log_policy(self._retention_settings(), log_hours=self.retention.log_hours)
        replica.clean(target, policy, CleanupSettings(failure_policy="fail"), self.log.cleaner())

    def _forget(self) -> None:
        """Empty the caches of this process and of this machine."""
        self.log.invalidate_cache()
        cache = SplitCache.of(self.settings.group(SplitCacheSettings))
        cache.clear()
        for items in (cache.tails, cache.pages, cache.files, cache.opened):
            items.clear()

    # The report.

    def _holders(
        self, found: Sequence[Trace], *, live: frozenset[str], planned: bool
    ) -> Iterator[RowHolder]:
        if not found:
            return
        logs = [*self._logs()]
        judge = _Judge.of(
            self.log, logs, self.retention, self._retention_settings(), live=live, planned=planned
        )
        for trace in sorted(found, key=lambda t: (t.store_url, t.kind != traces.SPLIT, t.path)):
            yield judge.holder(trace)

    def _report(
        self,
        status: str,
        holders: tuple[RowHolder, ...],
        *,
        visible: int,
        masked: int,
        message: str,
    ) -> EraseReport:
        return EraseReport(
            table_path=self.log.store.url,
            status=status,
            proved=not holders,
            erased_rows=visible,
            erased_masked_rows=masked,
            splits_rewritten=0,
            splits_removed=0,
            files_deleted=0,
            size_bytes_deleted=0,
            retention_hours=self.retention.split_hours,
            log_retention_hours=self.retention.log_hours,
            dry_run=False,
            version=None,
            message=message,
            holders=holders,
        )


_OUTSIDE = (traces.SPLIT, traces.TEMPORARY, traces.OTHER)
_VERSIONED = (traces.VERSION, traces.STATE, traces.CHECKPOINT)
_AGAIN = "run the erasure again"
_RETENTION = "the argument retention_hours, or the setting {}"


class _Judge(Struct, frozen=True):
    """Decides the fate of a file that holds the rows."""

    policy: RetentionPolicy
    split_ms: int
    now_ms: int
    live: frozenset[str]
    planned: bool
    """Whether the erasure has not been executed yet."""
    history: purge.Timeline
    tags_of: dict[str, str]
    """The tag that protects a split."""
    tags: tuple[str, ...]
    aging: frozenset[tuple[str, str]]
    """Files of the log and of its replica that only their age keeps, by URL of the replica and
    path.
    """
    tagged: frozenset[tuple[str, str]]
    """Files that only a tag keeps."""

    @classmethod
    def of(
        cls,
        log: TransactionLog,
        logs: Sequence[tuple[Cleaner, str]],
        retention: Retention,
        settings: RetentionSettings,
        *,
        live: frozenset[str],
        planned: bool,
    ) -> _Judge:
        """Create the judge of a table as it is now, or (`planned`) as it will be after a new state."""
        newest = log.fresh()
        tagged_files(
            log, newest
        )  # a tagged version that cannot be read is refused with the way out
        tags_of = {
            path: name
            for name, version in newest.header.tags.items()
            for path in listed_paths(log.at_version(version).files(columns=REACHED_COLUMNS))
        }
        aging: set[tuple[str, str]] = set()
        tagged: set[tuple[str, str]] = set()
        for cleaner, url in logs:
            inventory = cleaner.inventory()
            if planned:
                inventory = replace(
                    inventory, states={**inventory.states, newest.version + 2: CheckpointFiles(())}
                )
            untagged = {(url, path) for path in _expired_some_day(inventory)}
            own = replace(inventory, tagged=frozenset(newest.header.tags.values()))
            aging |= {(url, path) for path in _expired_some_day(own)}
            tagged |= untagged - aging
        return cls(
            policy=purge.log_policy(settings, log_hours=retention.log_hours),
            split_ms=round(retention.split_hours * HOUR_MS),
            now_ms=log.now_ms(),
            live=live,
            planned=planned,
            history=purge.timeline(log, newest),
            tags_of=tags_of,
            tags=tuple(newest.header.tags),
            aging=frozenset(aging),
            tagged=frozenset(tagged),
        )

    def holder(self, trace: Trace) -> RowHolder:
        """Return the verdict on one file."""
        if trace.store_url:
            path = f"{trace.store_url}/{trace.path}"
        else:
            path = trace.path
        fate, until_ms, lifted_by = self._verdict(trace)
        until = None if until_ms is None else _iso(until_ms)
        return RowHolder(path, trace.kind, trace.rows, fate, trace.reason, until, lifted_by)

    def _verdict(self, trace: Trace) -> tuple[str, int | None, str | None]:
        if trace.kind == traces.SPLIT:
            return self._split(trace)
        if trace.kind == traces.OTHER:
            return KEEP, None, "move the file out of the table's folder"
        if trace.kind == traces.TEMPORARY:
            limit_ms = max(self.split_ms, purge.WRITING_MS)
            return self._by_age(trace, limit_ms, "its writer finishes, or a later purge deletes it")
        file = trace.store_url, trace.path
        if file in self.tagged:
            return KEEP, None, " and ".join(f"untag({name!r})" for name in self.tags)
        if file not in self.aging:
            return KEEP, None, _AGAIN
        return self._by_age(trace, self._limit_ms(trace), self._setting(trace))

    def _split(self, trace: Trace) -> tuple[str, int | None, str | None]:
        setting = _RETENTION.format("purge.defaultRetentionHours")
        if trace.path in self.tags_of and not (trace.path in self.live and not self.planned):
            return KEEP, None, f"untag({self.tags_of[trace.path]!r})"
        if trace.path in self.live and not self.planned:
            return KEEP, None, f"{_AGAIN}: the rows were written while it ran"
        if trace.path in self.live:
            return (
                REWRITE,
                self.now_ms + self.split_ms if self.split_ms else None,
                setting if self.split_ms else None,
            )
        ended = self.history.ended.get(trace.path) or self.history.untraced
        since = [ms for ms in (trace.modified_ms, ended.at_ms if ended else None) if ms is not None]
        return self._by_age(
            replace(trace, modified_ms=max(since, default=None)), self.split_ms, setting
        )

    def _by_age(
        self, trace: Trace, limit_ms: int, lifted_by: str
    ) -> tuple[str, int | None, str | None]:
        if trace.modified_ms is None:
            return KEEP, None, "the store does not report the age of the file: delete it by hand"
        until_ms = trace.modified_ms + limit_ms
        if until_ms > self.now_ms:
            return KEEP, until_ms, lifted_by
        if self.planned:
            return (DELETE, None, None)
        return (KEEP, None, _AGAIN)

    def _limit_ms(self, trace: Trace) -> int:
        policy = self.policy
        if trace.kind in (traces.MANIFEST, traces.PART):
            return max(
                policy.manifest_ms,
                policy.state_ms if trace.kind == traces.MANIFEST else policy.checkpoint_ms,
            )
        limits = {traces.VERSION: policy.log_ms, traces.STATE: policy.state_ms}
        return limits.get(trace.kind, policy.checkpoint_ms)

    def _setting(self, trace: Trace) -> str:
        policy = self.policy
        if (
            trace.kind in (traces.MANIFEST, traces.PART)
            and self._limit_ms(trace) == policy.manifest_ms
        ):
            return "the setting state.gc.minManifestAgeHours"
        return _RETENTION.format("purge.txLogRetentionHours")


def _expired_some_day(inventory: LogInventory) -> set[str]:
    """Return the files of a log that will expire by age."""
    return {file.path for file in find_expired(inventory, _NO_AGE, now_ms=_FOREVER_MS).expired}


def _forget_cache(cleaner: Cleaner, store: Store) -> Cleaner:
    """Return the cleaner of a log or of its replica without caches."""
    versions = VersionReader(store, None, cleaner.bases.versions.settings)
    return replace(cleaner, store=store, bases=BaseReader(versions, cleaner.bases.settings))


def _splits(found: Sequence[Trace]) -> frozenset[str]:
    return frozenset(trace.path for trace in found if trace.kind == traces.SPLIT)


def _version_of(trace: Trace) -> int:
    for version_of in (
        log_files.version_of,
        log_files.state_version_of,
        log_files.legacy_checkpoint_version_of,
        log_files.legacy_note_version_of,
    ):
        version = version_of(trace.path)
        if version is not None:
            return version
    return -1


def _iso(ms: int) -> str:
    return (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms)).isoformat(
        timespec="seconds"
    )


def _remove_empty_folders(root: Path, condition: RowCondition, others: tuple[str, ...]) -> None:
    """Remove the empty folders of partitions with erased rows, because their names contain values."""
    for place, _, _ in os.walk(root, topdown=False):
        folder = Path(place)
        path = f"{folder.relative_to(root).as_posix()}/"
        if "=" in path and not path.startswith(others) and condition.may_match_partition(path):
            with suppress(OSError):  # it is not empty, or another process was faster
                folder.rmdir()


def _message(visible: int, masked: int, holders: Sequence[RowHolder]) -> str:
    rows = visible + masked
    if rows:
        message = f"{pluralize(rows, 'row')} {was(rows)} erased from live splits."
    else:
        message = "No row of a live split matches."
    if not holders:
        return f"{message} Every file of the table was read: none holds such a row."
    until = [holder.until for holder in holders if holder.until is not None]
    if until:
        when = f" The last retention ends at {max(until)}; run the erasure again then."
    else:
        when = ""
    hold = "holds" if len(holders) == 1 else "hold"
    return f"{message} Not proved: {pluralize(len(holders), 'file')} still {hold} such rows, or may.{when}"


def erase(
    table: TableHandle,
    *,
    where: Where | None,
    retention_hours: float | None,
    dry_run: bool,
    progress: Progress,
) -> EraseReport:
    """Erase the rows that match. See `Table.erase`."""
    table.check_writable()
    if where is None:
        hint = 'Give where=...; where="true" erases every row.'
        raise InvalidInputError("Nothing says which rows to erase.", hint=hint)
    newest = table.read_newest()
    condition = newest.bind_physical(where)
    assert condition is not None
    if retention_hours is None:
        hours = None
    else:
        hours = number("retention_hours", retention_hours, "hours")
    eraser = Eraser.of(
        newest.snapshot,
        newest.log,
        where=condition,
        retention=Retention.from_arguments(
            newest.settings.group(PurgeSettings), split_hours=hours, log_hours=hours
        ),
        spec=newest.spec,
        settings=newest.search_settings,
        progress=progress,
        engine_info=ENGINE_INFO,
    )
    if dry_run:
        return eraser.preview(newest.snapshot)
    return table.show_newest_after(eraser.run(newest.snapshot))
