"""An open table as the packages above `log` and `splits` use it: the log, the snapshot and the
settings of one version.

`Table` is the public class; it passes its `TableHandle` to the functions of `query`, `operations`
and `inspect`. Columns have logical names in requests and results, and physical names in the splits.
Members whose name begins with `physical_`, `search_settings`, `indexing` and `spec` use physical
names.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import pyarrow as pa
from msgspec.structs import replace

from indextables import config
from indextables.companion.companion_definition import CompanionDefinition
from indextables.companion.source_snapshot import LATEST, At, parse_version
from indextables.companion.view import CompanionView, open_view
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
from indextables.config.upkeep import PURGE_LOG_HOURS, PurgeSettings
from indextables.errors import (
    CorruptTableError,
    InvalidInputError,
    RefusedError,
    UnsupportedError,
    VersionNotFoundError,
)
from indextables.log.checkpoint.checkpointer import CHECKPOINTS
from indextables.log.context import LogContext, LogSettings
from indextables.log.history import check_not_purged, version_at
from indextables.log.replica import Replica
from indextables.log.transaction import Changes
from indextables.log.transaction_log import TransactionLog
from indextables.model import protocol as protocols
from indextables.model.actions import AddAction, MetadataAction, ProtocolAction
from indextables.model.arguments import Moment, to_epoch_ms, whole_number
from indextables.model.column_names import ColumnNames, column_names
from indextables.model.predicate import Predicate, Where, bound_predicate, partition_predicate
from indextables.model.retention import HOUR_MS
from indextables.model.schema_registry import without_registry
from indextables.model.snapshot import Snapshot
from indextables.splits.index.live_indexing import LiveIndexing, live_indexing
from indextables.splits.index.mapping import decided_columns
from indextables.splits.index.table_schema import TableSchema
from indextables.storage.spec import StoreSpec, open_store, open_table_store

logger = logging.getLogger(__name__)
R = TypeVar("R")
ENGINE_INFO = f"indextables-python/{VERSION}"


def open_log(
    path: str, options: Mapping[str, object] | None, *, makes_folder: bool = False
) -> TransactionLog:
    """The log of the table at a path, before anything of it was read.

    Only the first version of a table makes the folder of a log that is missing; with
    `makes_folder`, every write does.
    """
    settings = config.resolve(options=options)
    if not settings.group(ImplementationSettings).use_optimized:
        _say_there_is_one()
    spec = StoreSpec.from_url(path, settings)
    store = open_store(spec) if makes_folder else open_table_store(spec)
    location = settings.group(log_keys.CheckpointSettings).replica_location
    if location:
        replica = open_replica(location, store.url, settings)
    else:
        replica = None
    return TransactionLog(
        LogContext(
            store, log_settings(settings), background=CHECKPOINTS, replica=replica, place=spec
        )
    )


def open_replica(location: str, table: str, settings: Settings) -> Replica:
    """The replica at a place, which must not be in the table itself; opened with the settings of
    the caller.
    """
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
    logger.info(
        "transaction.useOptimized=false changes nothing: there is one implementation of the transaction log."
    )


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
    """Return the number of a version that is given by number, by tag or as a timestamp."""
    if timestamp is None and isinstance(version, str) and not version.isdecimal():
        return tagged_version(log, version)
    if timestamp is None:
        return whole_number("version", version, low=None)
    if version is not None:
        raise InvalidInputError("Give a version or a timestamp, not both.", version=version)
    return version_at(log, to_epoch_ms(timestamp))


def tagged_version(log: TransactionLog, name: str) -> int:
    """The version that has a name."""
    tags = log.newest().header.tags
    version = tags.get(name)
    if version is None:
        if tags:
            hint = f"Tags: {', '.join(tags)}."
        else:
            hint = "It has no tags; versions are numbers."
        raise VersionNotFoundError(
            f"{log.store.url} has no tag {name!r}.", hint=hint, path=log.store.url, tag=name
        )
    return version


def older_snapshot(log: TransactionLog, version: int) -> Snapshot:
    """The content of a version that need not be the newest."""
    try:
        newest = log.newest()
    except (CorruptTableError, UnsupportedError):
        # What is damaged or too new later does not stand in the way of an older version.
        return log.at_version(version)
    if newest.version == version:
        snapshot = newest
    else:
        snapshot = log.at_version(version)
    check_not_purged(log, newest, snapshot)
    return snapshot


@lru_cache(maxsize=1024)
def _warn_of_ignored(path: str, keys: tuple[str, ...]) -> None:
    """Say once in a process which settings of a table are not taken from it."""
    logger.warning(
        "%s carries settings that only the caller may choose; they are ignored: %s",
        path,
        ", ".join(keys),
    )


@lru_cache(maxsize=1024)
def _warn_of_unreadable(path: str, key: str, failure: str) -> None:
    """Warn once in a process of a setting of a table whose value cannot be read, and name the way
    to mend it.
    """
    logger.warning(
        "%s carries a setting that cannot be read and is ignored: %s Set it to a value that is allowed, or remove it with "
        "Table.update_metadata(unset=(%r,)) or ALTER TABLE ... UNSET TBLPROPERTIES ('%s').",
        path,
        failure,
        key,
        key,
    )


def _retention(settings: Settings) -> log_keys.RetentionSettings:
    """How long the log is kept. `purge.txLogRetentionHours` alone sets it; of two settings the
    longer one counts.
    """
    retention, purge_hours = (
        settings.group(log_keys.RetentionSettings),
        settings.group(PurgeSettings).log_hours,
    )
    given, purge_ms = settings.given(), round(purge_hours * HOUR_MS)
    if PURGE_LOG_HOURS not in given:
        return retention
    if log_keys.LOG_RETENTION not in given:
        return replace(retention, log_ms=purge_ms)
    return replace(retention, log_ms=max(retention.log_ms, purge_ms))


def open_handle(
    log: TransactionLog,
    snapshot: Snapshot,
    options: Mapping[str, object] | None = None,
    *,
    pinned: bool = False,
    at: At | None = None,
) -> TableHandle:
    """Return a handle on a table, or on a companion at a version of its source.

    Args:
        log: The log of the table.
        snapshot: The version of the log to show.
        options: Settings of the caller.
        pinned: Whether the version of the log was chosen by the caller.
        at: The version of the source of a companion; the newest if None.
    """
    handle = TableHandle(log, snapshot, options, pinned=pinned)
    definition = CompanionDefinition.of(snapshot.metadata)
    if definition is None:
        if at is not None:
            raise InvalidInputError(
                f"{handle.path} is not a companion, and at={at!r} is a version of a source.",
                hint="Give version= or timestamp= for a version of a table.",
                path=handle.path,
            )
        return handle
    chosen = LATEST if at is None else parse_version(at)
    view = open_view(definition, snapshot, handle.physical_settings, at=chosen, now_ms=log.now_ms())
    shown = TableHandle(log, view.snapshot, options, pinned=pinned)
    shown.companion = view
    return shown


class TableHandle:
    """An open table at one version. It moves to the version of each commit that is made through it.

    Args:
        log: The log of the table.
        snapshot: The version to show.
        options: Settings of the caller; they name columns by their logical names.
        pinned: Whether the version was chosen by the caller, so that the table must not be changed.
    """

    def __init__(
        self,
        log: TransactionLog,
        snapshot: Snapshot,
        options: Mapping[str, object] | None = None,
        *,
        pinned: bool = False,
    ) -> None:
        self.options = dict(options or {})
        self.is_pinned = pinned
        self.companion: CompanionView | None = None
        """The view of a source that this handle shows; None for a handle on a table's own rows."""
        self.viewed: TableHandle | None = None
        """The table that this one shows with physical column names (`physical_view`)."""
        self.log = log
        self._resolved: (
            tuple[MetadataAction, Mapping[str, object], Settings, LogSettings] | None
        ) = None
        self.show(snapshot)

    # The version that is shown.

    @property
    def path(self) -> str:
        """Path or URL of the table."""
        return self.log.store.url

    @property
    def version(self) -> int:
        """The version that is shown."""
        return self.snapshot.version

    @property
    def metadata(self) -> MetadataAction:
        """Identity, schema, partitioning and configuration, without the recorded doc mappings."""
        return self.names.metadata(without_registry(self.snapshot.metadata))

    @property
    def protocol(self) -> ProtocolAction:
        """Which readers and writers the table needs."""
        return self.snapshot.header.protocol

    @property
    def names(self) -> ColumnNames:
        """The logical and the physical names of the columns."""
        return column_names(self.snapshot.metadata.schema_string)

    @property
    def schema(self) -> pa.Schema:
        """The columns, by their logical names."""
        return self.names.logical

    @property
    def partition_columns(self) -> list[str]:
        """The partition columns, by their logical names."""
        return [self.names.logical_name(name) for name in self.physical_partition_columns]

    @property
    def physical_partition_columns(self) -> tuple[str, ...]:
        """The partition columns, by their physical names."""
        return tuple(self.snapshot.metadata.partition_columns or ())

    @property
    def logical_columns(self) -> TableSchema:
        """The columns and the partition columns, by their logical names."""
        return TableSchema(self.names.logical, tuple(self.partition_columns))

    @property
    def physical_columns(self) -> TableSchema:
        """The columns and the partition columns, by their physical names."""
        return TableSchema(self.names.physical, self.physical_partition_columns)

    def show(self, snapshot: Snapshot) -> None:
        """Show another version. Raises what an earlier cleaning in the background failed with."""
        before: Snapshot | None = self.__dict__.get("snapshot")
        self.snapshot = snapshot
        if before is not None and before.metadata.schema_string != snapshot.metadata.schema_string:
            self.options = self._options_since(column_names(before.metadata.schema_string))
        self.log.settings = self._log_settings_of(snapshot.metadata)
        for derived in ("indexing", "settings", "physical_settings", "search_settings", "spec"):
            self.__dict__.pop(derived, None)
        failure, self.log.upkeep.cleanup_failure = self.log.upkeep.cleanup_failure, None
        if failure is not None:
            raise failure

    def with_snapshot(self, snapshot: Snapshot) -> TableHandle:
        """Return a handle on another version, with options for the columns that they meant here."""
        handle = TableHandle(self.log, self.snapshot, self.options)
        handle.show(snapshot)
        return handle

    def reopen(self) -> TableHandle:
        """Return a handle on the newest version of the log, and of the source of a companion."""
        newest = self.log.newest()
        if self.companion is None:
            return self.with_snapshot(newest)
        return open_handle(self.log, newest, self.options)

    def log_handle(self) -> TableHandle:
        """Return a handle on the log itself: of a companion, its splits without the source."""
        if self.companion is None:
            return self
        return TableHandle(self.log, self.companion.recorded, self.options, pinned=self.is_pinned)

    def read_newest(self) -> TableHandle:
        """Return a handle on the newest version; this one may show an older version.

        A change whose condition names columns must use the newest names: after a rename by another
        writer the old name can belong to another column.
        """
        return self.with_snapshot(self.log.newest_writable())

    def physical_view(self) -> TableHandle:
        """Return a read-only handle that shows the columns by their physical names."""
        names = self.names
        if names.same:
            return self
        metadata = replace(self.snapshot.metadata, schema_string=names.physical_json)
        header = replace(self.snapshot.header, metadata=metadata)
        options = dict(names.options(self.options))
        view = TableHandle(self.log, replace(self.snapshot, header=header), options, pinned=True)
        view.viewed = self
        view.companion = self.companion
        return view

    # Settings.

    @cached_property
    def settings(self) -> Settings:
        """The settings in force: options, then the table's configuration with what its splits
        record, then defaults.
        """
        return self.names.settings(self.physical_settings)

    @cached_property
    def physical_settings(self) -> Settings:
        """The settings in force, by physical column names."""
        return self.settings_for(self.names)

    @cached_property
    def search_settings(self) -> Settings:
        """The settings of reads and deletes: without options about the index, which only concern
        columns that a write adds.

        A session has such options for every table that has a column of that name.
        """
        options = {
            key: value for key, value in self.options.items() if not config.is_index_setting(key)
        }
        if len(options) == len(self.options):
            return self.physical_settings
        return config.resolve(
            options=self.names.options(options), table=self.indexing.configuration
        )

    @property
    def skip_settings(self) -> SkipSettings:
        """How long operations leave a split alone that they could not process."""
        self._log_settings_of(self.snapshot.metadata)
        assert self._resolved is not None
        return self._resolved[2].group(SkipSettings)

    def settings_for(self, names: ColumnNames) -> Settings:
        """Return the settings by the physical names of other columns: those that a write adds, or
        replaces all with.
        """
        gone = set(self.names.physical.names) - set(names.physical.names)
        configuration = config.without_columns(self.indexing.configuration, gone)
        if gone:
            lost = set(self.names.logical.names) - set(names.logical.names)
        else:
            lost = set()
        options = {
            key: value
            for key, value in self.options.items()
            if not config.names_a_column(key, value, lost)
        }
        return config.resolve(options=names.options(options), table=configuration)

    @cached_property
    def indexing(self) -> LiveIndexing:
        """How the live splits index the columns."""
        return live_indexing(self.snapshot)

    @cached_property
    def spec(self) -> StoreSpec:
        """The store as a value that can travel to workers."""
        return StoreSpec.from_url(self.path, self.settings)

    def forget_index_options(self, options: Mapping[str, object]) -> None:
        """Drop the options about the index that the table itself defines from now on."""
        defined = {config.bare_key(key).lower() for key in options if config.is_index_setting(key)}
        left = {
            key: value
            for key, value in self.options.items()
            if config.bare_key(key).lower() not in defined
        }
        if len(left) < len(self.options):
            self.options = left
            self.show(self.snapshot)

    # Conditions and names.

    @property
    def time_zone(self) -> str:
        """The zone of times in conditions that name no zone."""
        return self.search_settings.group(SearchSettings).time_zone

    def bind_logical(self, where: Where | None) -> Predicate | None:
        """Bind a condition of the caller to the columns, by their logical names."""
        return bound_predicate(where, self.schema, now_ms=self.log.now_ms(), zone=self.time_zone)

    def bind_physical(self, where: Where | None) -> Predicate | None:
        """Bind a condition of the caller to the columns, by their physical names."""
        return self.names.optional_predicate(self.bind_logical(where))

    def bind_partitions(self, where: Where | None) -> Predicate | None:
        """Bind a condition over partition columns, by their physical names."""
        if where is None:
            return None
        logical = partition_predicate(
            where, self.schema, self.partition_columns, zone=self.time_zone
        )
        return self.names.predicate(logical)

    def new_column_name(self, name: str) -> str:
        """Return the physical name of a new column: after a rename or a drop it is unique."""
        if protocols.COLUMN_MAPPING not in (self.protocol.reader_features or ()):
            return name
        return f"{name}_{self.log.new_id().replace('-', '')[:12]}"

    # Changes.

    def check_writable(
        self,
        but: str = " and cannot be changed there",
        hint: str = "Open it without a version to write, or use restore(version=...) to bring the old content back.",
    ) -> None:
        """Refuse to change a table that was opened at an older version, or whose protocol this
        release cannot write. The rows of a companion belong to its source.
        """
        self.check_has_rows()
        self.check_maintainable(but, hint)

    def check_has_rows(self) -> None:
        """Refuse to change the rows of a companion."""
        if protocols.is_companion(self.protocol):
            definition = CompanionDefinition.of(self.snapshot.metadata)
            source = "another table" if definition is None else definition.source
            raise RefusedError(
                f"{self.path} is a companion of {source}: its rows are the rows of the source.",
                hint="Change the source with the program that writes it, then call sync().",
                path=self.path,
            )

    def check_maintainable(
        self,
        but: str = " and cannot be changed there",
        hint: str = "Open it without a version to write.",
    ) -> None:
        """Refuse to change the files of a table that was opened at an older version, or whose
        protocol this release cannot write.
        """
        if self.is_pinned:
            raise RefusedError(
                f"{self.path} was opened at version {self.version}{but}.",
                hint=hint,
                path=self.path,
                version=self.version,
            )
        protocols.check_writable(self.protocol, path=self.path)

    def commit(self, changes: Changes, written: Sequence[AddAction] = ()) -> int | None:
        """Commit, and show the new version. Return None if there was nothing to commit.

        Splits in `written` are deleted if it is certain that no version names them.
        """
        self.check_writable()
        committed = self.log.commit(
            self.snapshot, changes, written=[action.path for action in written]
        )
        self.show(committed.snapshot)
        return committed.version

    def show_newest_after(self, report: R) -> R:
        """Show the newest version after an operation; return the report of the operation."""
        newest = self.log.after_commit()
        if self.companion is None:
            self.show(newest)
            return report
        again = open_handle(self.log, newest, self.options, at=self.companion.at)
        self.companion = again.companion
        self.show(again.snapshot)
        return report

    def to_dict(self) -> dict[str, Any]:
        """Return what the table is, as plain values."""
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
        return f"TableHandle({self.path!r}, version={self.version})"

    def _log_settings_of(self, metadata: MetadataAction) -> LogSettings:
        """Return the settings of the log. Most commits change neither the options nor the
        configuration.
        """
        if (
            self._resolved is None
            or self._resolved[0] is not metadata
            or self._resolved[1] is not self.options
        ):
            ignored = config.not_of_tables(metadata.configuration or {})
            if ignored:
                _warn_of_ignored(self.path, tuple(ignored))
            for key, failure in config.unreadable_of_tables(metadata.configuration or {}).items():
                _warn_of_unreadable(self.path, key, str(failure))
            settings = config.resolve(options=self.options, table=metadata.configuration)
            self._resolved = metadata, self.options, settings, log_settings(settings)
        return self._resolved[3]

    def _options_since(self, before: ColumnNames) -> dict[str, object]:
        """Return the options for the columns that they meant before a rename, a drop or a restore."""
        names = self.names
        gone = set(before.physical.names) - set(names.physical.names)
        options = {
            k: v
            for k, v in self.options.items()
            if not config.names_a_column(k, v, map(before.logical_name, gone))
        }
        # A reindex decided how these columns are indexed; the options of the handle are older.
        decided = {*decided_columns(names.physical)} - {*decided_columns(before.physical)}
        options = config.without_index_of(
            options, [before.logical_name(column.name) for column in decided]
        )
        return config.with_columns(options, lambda name: names.logical_name(before.column(name)))
