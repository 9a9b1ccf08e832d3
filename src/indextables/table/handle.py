"""What every verb of a table stands on: the store, the log, and the snapshot the table shows.

Tables that may not open are looked at and made whole again by their path alone: `verify_table`, `repair_table`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from msgspec.structs import replace

from indextables import config
from indextables.config import VERSION, Settings
from indextables.config import log as log_keys
from indextables.config.indexing import SearchSettings
from indextables.config.log import (
    CacheSettings,
    ImplementationSettings,
    LogReadSettings,
    RetrySettings,
    SkipSettings,
    VersionFileSettings,
)
from indextables.config.splits import ReadSettings
from indextables.config.upkeep import PURGE_LOG_HOURS, PurgeSettings
from indextables.errors import CorruptTableError, InvalidInputError, RefusedError, TableNotFoundError, UnsupportedError
from indextables.log.checkpoint.checkpointer import CHECKPOINTS
from indextables.log.history import check_not_purged, version_at
from indextables.log.log_files import LOG, list_log
from indextables.log.replica import Replica
from indextables.log.transaction import Changes
from indextables.log.transaction_log import LogSettings, TransactionLog
from indextables.model import protocol as protocols
from indextables.model.actions import AddAction, MetadataAction, ProtocolAction
from indextables.model.arguments import Moment, to_epoch_ms, whole_number
from indextables.model.calls import checked_calls
from indextables.model.column_names import ColumnNames, column_names
from indextables.model.deletion_vector import named_paths
from indextables.model.predicate import Predicate, Where, bound_predicate
from indextables.model.report import Progress, silent
from indextables.model.retention import HOUR_MS
from indextables.model.schema_registry import without_registry
from indextables.model.snapshot import Snapshot
from indextables.operations import drop_table as drop_table_verb
from indextables.operations import repair, restore, salvage, tags, verify
from indextables.splits.index.live_indexing import LiveIndexing, live_indexing
from indextables.splits.index.mapping import decided_columns
from indextables.storage.spec import StoreSpec, open_store, open_table_store

if TYPE_CHECKING:
    from indextables.operations.jobs import Execute
    from indextables.operations.repair import RepairReport
    from indextables.operations.verify import Finding, VerifyReport, VerifyTask

logger = logging.getLogger(__name__)
R = TypeVar("R")
H = TypeVar("H", bound="TableHandle")
ENGINE_INFO = f"indextables-python/{VERSION}"


def open_log(path: str, options: Mapping[str, object] | None, *, makes_folder: bool = False) -> TransactionLog:
    """The log of the table at a path, before anything of it was read.

    Only the first version of a table makes the folder of a log that is missing; with `makes_folder`, every write does.
    """
    settings = config.resolve(options=options)
    if not settings.group(ImplementationSettings).use_optimized:
        _say_there_is_one()
    spec = StoreSpec.from_url(path, settings)
    store = open_store(spec) if makes_folder else open_table_store(spec)
    location = settings.group(log_keys.CheckpointSettings).replica_location
    replica = _replica(location, store.url, settings) if location else None
    return TransactionLog(store, log_settings(settings), background=CHECKPOINTS, replica=replica, place=spec)


def _replica(location: str, table: str, settings: Settings) -> Replica:
    """The replica at a place, which must not be in the table itself; opened with the settings of the caller."""
    url = StoreSpec.from_url(location, settings).url
    if f"{url.rstrip('/')}/".startswith(f"{table.rstrip('/')}/"):
        raise InvalidInputError(
            f"checkpoint.replica.location={url} is in the table {table}, and would be lost with it.",
            hint="Name a folder or URL elsewhere.",
            path=table,
        )
    return Replica(url, lambda place: open_store(StoreSpec.from_url(place, settings)))


@lru_cache(maxsize=1)
def _say_there_is_one() -> None:
    logger.info("transaction.useOptimized=false changes nothing: there is one implementation of the transaction log.")


def log_settings(settings: Settings) -> LogSettings:
    """The settings of the log out of all settings."""
    return LogSettings(
        read=settings.group(LogReadSettings),
        retry=settings.group(RetrySettings),
        cache=settings.group(CacheSettings),
        files=settings.group(VersionFileSettings),
        state_read=settings.group(log_keys.StateReadSettings),
        checkpoint=settings.group(log_keys.CheckpointSettings),
        state_write=settings.group(log_keys.StateWriteSettings),
        compaction=settings.group(log_keys.CompactionSettings),
        state_retry=settings.group(log_keys.StateRetrySettings),
        retention=_retention(settings),
        cleanup=settings.group(log_keys.CleanupSettings),
    )


def version_of(log: TransactionLog, *, version: int | str | None, timestamp: Moment | None) -> int:
    """The number of the version that is meant: by itself, by its tag, or as the table was at a moment."""
    if timestamp is None and isinstance(version, str) and not version.isdecimal():
        return tags.tagged_version(log, version)
    if timestamp is None:
        return whole_number("version", version, low=None)
    if version is not None:
        raise InvalidInputError("Give a version or a timestamp, not both.", version=version)
    return version_at(log, to_epoch_ms(timestamp))


def older_snapshot(log: TransactionLog, version: int) -> Snapshot:
    """The content of a version that need not be the newest."""
    try:
        newest = log.newest()
    except (CorruptTableError, UnsupportedError):
        # What is damaged or too new later does not stand in the way of an older version.
        return log.at_version(version)
    snapshot = newest if newest.version == version else log.at_version(version)
    check_not_purged(log, newest, snapshot)
    return snapshot


@lru_cache(maxsize=1024)
def _warn_of_ignored(path: str, keys: tuple[str, ...]) -> None:
    """Say once in a process which settings of a table are not taken from it."""
    logger.warning("%s carries settings that only who opens it may choose; they are ignored: %s", path, ", ".join(keys))


@lru_cache(maxsize=1024)
def _warn_of_unreadable(path: str, key: str, failure: str) -> None:
    """Warn once in a process of a setting of a table whose value cannot be read, and name the way to mend it."""
    logger.warning(
        "%s carries a setting that cannot be read and is ignored: %s Set it to a value that is allowed, or remove it with "
        "Table.update_metadata(unset=(%r,)) or ALTER TABLE ... UNSET TBLPROPERTIES ('%s').",
        path,
        failure,
        key,
        key,
    )


def _retention(settings: Settings) -> log_keys.RetentionSettings:
    """How long the log is kept. `purge.txLogRetentionHours` alone sets it; of two settings the longer one counts."""
    retention, purge_hours = settings.group(log_keys.RetentionSettings), settings.group(PurgeSettings).log_hours
    given, purge_ms = settings.given(), round(purge_hours * HOUR_MS)
    if PURGE_LOG_HOURS not in given:
        return retention
    if log_keys.LOG_RETENTION not in given:
        return replace(retention, log_ms=purge_ms)
    return replace(retention, log_ms=max(retention.log_ms, purge_ms))


@checked_calls
class TableHandle:
    """An open table: it shows one version, and moves on to the version of each commit made through it."""

    def __init__(
        self, log: TransactionLog, snapshot: Snapshot, options: Mapping[str, object] | None, *, pinned: bool = False
    ) -> None:
        self._options = dict(options or {})
        self._pinned = pinned
        self._viewed: TableHandle | None = None
        """The table that this one shows with other names of columns (`planning.physical_view`)."""
        self._log = log
        self._resolved: tuple[MetadataAction, Mapping[str, object], Settings, LogSettings] | None = None
        self._show(snapshot)

    def _show(self, snapshot: Snapshot) -> None:
        before = self.__dict__.get("_snapshot")
        self._snapshot = snapshot
        if before is not None and before.metadata.schema_string != snapshot.metadata.schema_string:
            self._options = self._options_since(column_names(before.metadata.schema_string))
        self._log.settings = self._log_settings_of(snapshot.metadata)
        self.__dict__.pop("_indexing", None)
        self.__dict__.pop("_shown_settings", None)
        self.__dict__.pop("_settings", None)
        self.__dict__.pop("_search_settings", None)
        self.__dict__.pop("_spec", None)
        failure, self._log.upkeep.cleanup_failure = self._log.upkeep.cleanup_failure, None
        if failure is not None:
            raise failure

    def _log_settings_of(self, metadata: MetadataAction) -> LogSettings:
        """What the options and a table's configuration say of its log; most commits leave both as they are."""
        if self._resolved is None or self._resolved[0] is not metadata or self._resolved[1] is not self._options:
            ignored = config.not_of_tables(metadata.configuration or {})
            if ignored:
                _warn_of_ignored(self.path, tuple(ignored))
            for key, failure in config.unreadable_of_tables(metadata.configuration or {}).items():
                _warn_of_unreadable(self.path, key, str(failure))
            settings = config.resolve(options=self._options, table=metadata.configuration)
            self._resolved = metadata, self._options, settings, log_settings(settings)
        return self._resolved[3]

    @property
    def _skip_settings(self) -> SkipSettings:
        """How long splits are left alone that an operation could not process: no split has a say in it."""
        self._log_settings_of(self._snapshot.metadata)
        assert self._resolved is not None
        return self._resolved[2].group(SkipSettings)

    @property
    def settings(self) -> Settings:
        """The settings in force: options over the table's configuration, and what its splits say, over the defaults."""
        return self._shown_settings

    @cached_property
    def _shown_settings(self) -> Settings:
        return self._names.settings(self._settings)

    @property
    def _names(self) -> ColumnNames:
        """What people call the columns, and what the splits call them. What begins with `_` here is in the splits' names."""
        return column_names(self._snapshot.metadata.schema_string)

    @cached_property
    def _settings(self) -> Settings:
        return self._settings_under(self._names)

    def _settings_under(self, names: ColumnNames) -> Settings:
        """The settings where columns are called so: a write may be about to add some, or to replace them all."""
        gone = set(self._names.physical.names) - set(names.physical.names)
        configuration = config.without_columns(self._indexing.configuration, gone)
        lost = set(self._names.logical.names) - set(names.logical.names) if gone else set()
        options = {key: value for key, value in self._options.items() if not config.names_a_column(key, value, lost)}
        return config.resolve(options=names.options(options), table=configuration)

    def _options_since(self, before: ColumnNames) -> dict[str, object]:
        """The options, meaning the columns that they meant before these were renamed, dropped or brought back."""
        names = self._names
        gone = set(before.physical.names) - set(names.physical.names)
        options = {k: v for k, v in self._options.items() if not config.names_a_column(k, v, map(before.shown, gone))}
        # How a column is indexed that was indexed anew is decided: what the handle was opened with is the past.
        decided = {*decided_columns(names.physical)} - {*decided_columns(before.physical)}
        options = config.without_index_of(options, [before.shown(column.name) for column in decided])
        return config.with_columns(options, lambda name: names.shown(before.column(name)))

    def _forget_index(self, options: Mapping[str, object]) -> None:
        """Let go of what the handle was opened with to say of the index, where the table says it from now on."""
        said = {config.bare_key(key).lower() for key in options if config.is_index_setting(key)}
        left = {key: value for key, value in self._options.items() if config.bare_key(key).lower() not in said}
        if len(left) < len(self._options):
            self._options = left
            self._show(self._snapshot)

    def _newest(self) -> TableHandle:
        """The newest version with its columns and settings, where this handle may show an older one.

        A change whose condition names columns is decided by what they are called there, or others' renames would lead it
        to other rows.
        """
        return TableHandle(self._log, self._snapshot, self._options)._following(self._log.newest_writable())

    def _following(self: H, snapshot: Snapshot) -> H:
        """This table at another version, with options that mean the columns that they meant here."""
        table = type(self)(self._log, self._snapshot, self._options)
        table._show(snapshot)
        return table

    def _new_column_name(self, name: str) -> str:
        """What the splits will call a new column: once columns were renamed or dropped, something new in any case."""
        if protocols.COLUMN_MAPPING not in (self.protocol.reader_features or ()):
            return name
        return f"{name}_{self._log.new_id().replace('-', '')[:12]}"

    @cached_property
    def _search_settings(self) -> Settings:
        """The settings of reading and deleting: how columns are indexed is what the table says, not an option.

        Such an option is for columns that a write adds. A session has them for every table with a column of that name.
        """
        options = {key: value for key, value in self._options.items() if not config.is_index_setting(key)}
        if len(options) == len(self._options):
            return self._settings
        return config.resolve(options=self._names.options(options), table=self._indexing.configuration)

    @cached_property
    def _indexing(self) -> LiveIndexing:
        """How the columns are indexed, by the word of the splits."""
        return live_indexing(self._snapshot)

    @property
    def path(self) -> str:
        """Where the table is."""
        return self._log.store.url

    @property
    def version(self) -> int:
        """The version this table shows."""
        return self._snapshot.version

    @cached_property
    def _spec(self) -> StoreSpec:
        """The store as a value that can travel to workers."""
        return StoreSpec.from_url(self.path, self.settings)

    @property
    def metadata(self) -> MetadataAction:
        """Identity, schema, partitioning and configuration (but for the doc mappings that are recorded in it)."""
        return self._names.metadata(without_registry(self._snapshot.metadata))

    @property
    def protocol(self) -> ProtocolAction:
        """Which readers and writers the table needs."""
        return self._snapshot.header.protocol

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self._names.logical

    @property
    def partition_columns(self) -> list[str]:
        """The columns the table is partitioned by."""
        return [self._names.shown(name) for name in self._partition_columns]

    @property
    def _partition_columns(self) -> tuple[str, ...]:
        return tuple(self._snapshot.metadata.partition_columns or ())

    def _condition(self, where: Where | None) -> Predicate | None:
        """A condition that somebody has given, bound to the columns of the splits."""
        return self._names.optional_predicate(self._bound(where))

    def _bound(self, where: Where | None) -> Predicate | None:
        """A condition that somebody has given, bound to the columns as people call them."""
        return bound_predicate(where, self.schema, now_ms=self._log.now_ms(), zone=self._zone)

    @property
    def _zone(self) -> str:
        """The zone of moments in conditions that name none."""
        return self._search_settings.group(SearchSettings).time_zone

    def _refuse_if_pinned(
        self,
        but: str = " and cannot be changed there",
        hint: str = "Open it without a version to write, or use restore(version=...) to bring the old content back.",
    ) -> None:
        """Refuse to change a table that shows an older version, or whose protocol this release cannot write."""
        if self._pinned:
            raise RefusedError(
                f"{self.path} was opened at version {self.version}{but}.",
                hint=hint,
                path=self.path,
                version=self.version,
            )
        protocols.check_writable(self.protocol, path=self.path)

    def _commit(self, changes: Changes, written: Sequence[AddAction] = ()) -> int | None:
        """Commit, and show the new version. Returns None if there was nothing to do.

        Splits that were just written for it are deleted again if it is certain that no version names them.
        """
        self._refuse_if_pinned()
        committed = self._log.commit(self._snapshot, changes, written=[action.path for action in written])
        self._show(committed.snapshot)
        return committed.version

    def _commit_existing(self, changes: Changes) -> int | None:
        """Commit, if every split that is added is in the store as its action says."""
        sizes = dict.fromkeys(named_paths(changes.adds)) | {action.path: action.size for action in changes.adds}
        stored = restore.stored_sizes(self._log.store, sizes)
        wrong = next((path for path, size in sizes.items() if size not in (None, stored.get(path))), None)
        wrong = wrong or next((path for path in sizes if path not in stored), None)
        # What was committed before under the same id is skipped, wherever its splits are by now.
        if wrong is not None and not (changes.txn and changes.is_recorded(self._log.fresh())):
            what = f"has {stored[wrong]} bytes and not {sizes[wrong]}" if wrong in stored else "is not there"
            raise InvalidInputError(
                f"{wrong} cannot be added to {self.path}: it {what}.",
                hint="Write the file before the transaction is committed; transaction(check_splits=False) believes the "
                "actions without looking. Nothing was changed.",
                path=wrong,
            )
        return self._commit(changes)

    def _moved_on(self, report: R) -> R:
        """Show the newest version, which an operation has made; returns what the operation reports."""
        self._show(self._log.after_commit())
        return report

    def to_dict(self) -> dict[str, Any]:
        """What the table is, as plain values."""
        return {
            "path": self.path,
            "version": self.version,
            "id": self.metadata.id,
            "name": self.metadata.name,
            "columns": {f.name: str(f.type) for f in self.schema},
            "partition_columns": self.partition_columns,
            "protocol": [self.protocol.min_reader_version, self.protocol.min_writer_version],
        }

    def __repr__(self) -> str:
        return f"Table({self.path!r}, version={self.version})"


def verify_table(
    path: str,
    *,
    full: bool = False,
    options: Mapping[str, object] | None = None,
    dry_run: bool = False,
    progress: Progress = silent,
    execute: Execute[VerifyTask, Sequence[Finding]] | None = None,
) -> VerifyReport:
    """Verify the table at `path`, whether it can be opened or not.

    `options` are settings; `full`, `dry_run`, `progress` and `execute` are as for `Table.verify`.
    """
    settings = config.resolve(options=options)
    log = open_log(path, options)
    plan = verify.plan(log, full=full)
    if dry_run:
        return plan.preview()
    spec, parallelism = StoreSpec.from_url(path, settings), settings.group(ReadSettings).parallelism
    return verify.run(plan, log, spec=spec, parallelism=parallelism, execute=execute, progress=progress)


def repair_table(
    path: str,
    *,
    at: str | None,
    options: Mapping[str, object] | None,
    dry_run: bool,
    progress: Progress,
    from_replica: bool | str = False,
) -> RepairReport:
    """Repair the table at a path in place, or with `at` by a clean copy of its log; as `Table.repair` says."""
    source = open_log(_without_log_folder(path), options, makes_folder=from_replica is not False)
    if from_replica is not False:
        replica = _named_replica(from_replica, source, options)
        if at is not None:
            raise InvalidInputError("A replica mends the table in its place: give `at` or `from_replica`, not both.")
        recovered = repair.plan_recovery(source, replica, is_readable=_readable(source, options) is not None)
        if recovered is not None:
            return recovered.preview() if dry_run else repair.recover(recovered, source)
    parallelism = config.resolve(options=options).group(ReadSettings).parallelism
    if at is not None:
        target = open_log(_without_log_folder(at), options)
        copied = salvage.plan_copy(source, target, parallelism=parallelism)
        return copied.preview() if dry_run else salvage.copy_log(copied, target, engine_info=ENGINE_INFO)
    readable = _readable(source, options)
    if readable is not None:
        return repair.heal(readable, dry_run=dry_run)
    if not list_log(source.store).is_empty:
        left = salvage.plan_salvage(source, parallelism=parallelism)
        return left.preview() if dry_run else salvage.run_salvage(left, source, engine_info=ENGINE_INFO)
    plan = repair.plan_rebuild(source, parallelism=parallelism, progress=progress)
    return plan.preview() if dry_run else repair.rebuild(plan, source, engine_info=ENGINE_INFO)


def drop_table(
    path: str, *, options: Mapping[str, object] | None, dry_run: bool, progress: Progress
) -> drop_table_verb.DropTableReport:
    """Drop the table at a path, whether it can be opened or not; as `Table.drop` says."""
    log = open_log(path, options)
    planned = drop_table_verb.plan(log)
    return planned.preview() if dry_run else drop_table_verb.run(planned, log, progress=progress)


def _named_replica(place: bool | str, log: TransactionLog, options: Mapping[str, object] | None) -> Replica:
    settings = config.resolve(options=options)
    if isinstance(place, str | os.PathLike) and os.fspath(place):
        return _replica(os.fspath(place), log.store.url, settings)
    if place is not True or log.replica is None:
        raise InvalidInputError(
            "Nothing says where the replica is.",
            hint="Give from_replica='place', or options={'checkpoint.replica.location': 'place'} with from_replica=True.",
        )
    return log.replica


def _readable(log: TransactionLog, options: Mapping[str, object] | None) -> TransactionLog | None:
    """The log with the settings of its table, if the table can be opened."""
    try:
        snapshot = log.reload()
        snapshot.files(columns=["path"])
    except (CorruptTableError, TableNotFoundError):
        return None
    log.settings = log_settings(config.resolve(options=options, table=snapshot.metadata.configuration))
    return log


def _without_log_folder(path: str) -> str:
    """The place of the table, where the place of its log was given."""
    folder = path.rstrip("/")
    return folder.removesuffix(f"/{LOG}") if folder.endswith(f"/{LOG}") else path
