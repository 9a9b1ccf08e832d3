"""Verbs over the life of a table: columns that change, rows that grow too old, columns indexed in another way.

`table.admin` is what an operator does to a log now and then, by hand and knowing why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec.structs import replace

from indextables import config
from indextables.config.indexing import IndexingSettings
from indextables.config.log import SkipSettings
from indextables.config.upkeep import ExpirySettings, MergeSettings
from indextables.errors import InvalidInputError, RefusedError
from indextables.log.checkpoint.state_writer import Compact
from indextables.log.transaction import Changes, SkipRequest
from indextables.model import protocol as protocols
from indextables.model.actions import MetadataAction, ProtocolAction
from indextables.model.arguments import Moment, number, text, to_epoch_ms, whole_number
from indextables.model.column_names import column_names, dumped
from indextables.model.conflicts import Operation
from indextables.model.predicate import Where, partition_predicate
from indextables.model.report import Progress, Report, counted, silent, was
from indextables.model.schema import find_column, schema_from_json
from indextables.model.schema_registry import without_registry
from indextables.splits.index.mapping import INDEX_KEY, DocMapping, decided_columns, decision
from indextables.table import alter, definition, row_changes
from indextables.table.frames import FrameVerbs
from indextables.table.handle import ENGINE_INFO, TableHandle, log_settings
from indextables.upkeep import delete, jobs, merge, tags

if TYPE_CHECKING:
    from indextables.log.checkpoint.checkpointer import CheckpointReport
    from indextables.table.alter import Alteration
    from indextables.upkeep.delete import DeleteOutcome, DeleteReport, DeleteTask
    from indextables.upkeep.jobs import Execute
    from indextables.upkeep.merge import MergeOutcome, MergeTask


class ReindexReport(Report, frozen=True):
    """What a reindexing did. Splits that are left are searched through their rows until they are written anew."""

    table_path: str
    status: str
    columns: tuple[str, ...]
    splits_rewritten: int
    splits_left: int
    version: int | None
    message: str


class LifecycleVerbs(FrameVerbs):
    """Columns that change, rows that grow too old, and columns that are to be indexed in another way."""

    @property
    def alter(self) -> Alteration:
        """Columns that change: `t.alter.add_column(...)`, `rename_column`, `drop_column`, `widen_column`, `reorder`, ..."""
        return alter.Alteration(self)

    def tag(self, name: str, *, version: int | None = None) -> int:
        """Give a version a name, which keeps it: no purge, truncation or cleaning of the log touches it until `untag`.

        Without `version` it is the one that this table shows. The `name` is a word, no number; `Table.open(path,
        version="release-7")` and `restore` understand it. Returns the version that records the tag. Raises RefusedError
        for a name that another version has, and VersionNotFoundError for a version that was cleaned away.

            t.tag("release-7")
        """
        meant = self.version if version is None else whole_number("version", version)
        return self._renamed(tags.tag(self._log, name, meant, engine_info=ENGINE_INFO))

    def untag(self, name: str) -> int:
        """Take a tag away, by its `name`: its version is cleaned up like any other from then on.

        Returns the version that records it. Raises VersionNotFoundError for a name that no version has.

            t.untag("release-7")
        """
        return self._renamed(tags.untag(self._log, name, engine_info=ENGINE_INFO))

    def tags(self) -> dict[str, int]:
        """The versions that have a name, as the newest version says, oldest first: `t.tags()["release-7"]`."""
        return self._log.newest().header.tags

    def _renamed(self, version: int) -> int:
        """Show the newest version after a tag was given or taken; a table opened at an older one goes on showing that."""
        return version if self._pinned else self._moved_on(version)

    def expire(
        self,
        *,
        now: Moment | None = None,
        dry_run: bool = False,
        progress: Progress = silent,
        execute: Execute[DeleteTask, DeleteOutcome] | None = None,
    ) -> DeleteReport:
        """Delete the rows whose time is over: `retention.column` lies further back than `retention.period`.

        Whole splits go by their bounds in the log; of splits on the edge the rows are deleted as by `delete`. Rows without
        a time stay. `now` is the clock, a datetime, ISO text or milliseconds since 1970; `dry_run` only counts; `progress`
        is called at every step; `execute` rewrites splits elsewhere than in threads of this process. Raises
        InvalidInputError if the table has no retention, and ConflictError.

            t.update_metadata(options={"retention.column": "ts", "retention.period": "30 days"}); t.expire(dry_run=True)
        """
        self._refuse_if_pinned()
        newest = self._newest()
        moment = self._log.now_ms() if now is None else to_epoch_ms(now)
        over = delete.expired_rows(newest.schema, newest.settings.group(ExpirySettings), moment)
        report = row_changes.delete_rows(
            self, where=over, query=None, dry_run=dry_run, progress=progress, execute=execute
        )
        return report if dry_run else self._moved_on(report)

    def reindex(
        self,
        columns: Mapping[str, str] | Sequence[str],
        *,
        tokenizer: str | None = None,
        where: Where | None = None,
        dry_run: bool = False,
        progress: Progress = silent,
        execute: Execute[MergeTask, MergeOutcome] | None = None,
    ) -> ReindexReport:
        """Index columns in another way, rows that are there included: `columns` maps each to its kind.

        Kinds are text, string, text_and_string, exact_only, json, ip and none. With names alone the kind stays and the
        `tokenizer` changes. The decision is one version; then splits are written anew, in batches, each a version. Until
        then theirs are answered from their rows: right, only slower. What is interrupted goes on with the same call;
        `where` chooses partitions to begin with; `dry_run` only counts; `progress` is called at every step; `execute` runs
        the work elsewhere. Raises InvalidInputError for what does not fit.

            t.reindex({"message": "text"}, tokenizer="en_stem")
        """
        self._refuse_if_pinned()
        newest = self._newest()
        names = _decided_names(newest, columns)
        metadata = _redefined(newest, names, tokenizer)
        old = without_registry(newest._snapshot.metadata)
        if dry_run:
            return _rewritten(newest, tuple(names), metadata, where, dry_run=True, progress=progress, execute=execute)
        self._show(newest._snapshot)
        if metadata != old:
            newest_version = protocols.SUPPORTED_VERSION
            exact = any(c.exact for c in decided_columns(schema_from_json(metadata.schema_string)))
            protocol = protocols.upgraded(
                self.protocol,
                min_reader_version=newest_version,
                min_writer_version=newest_version,
                features=(protocols.DECISIONS, *([protocols.EXACT_FIELDS] if exact else [])),
            )
            self._commit(
                Changes(
                    Operation.REINDEX,
                    metadata=metadata,
                    protocol=None if protocol == self.protocol else protocol,
                    parameters={"columns": dict(names), "tokenizer": tokenizer or ""},
                    engine_info=ENGINE_INFO,
                )
            )
        return _rewritten(self, tuple(names), metadata, where, dry_run=False, progress=progress, execute=execute)


def _decided_names(table: TableHandle, columns: Mapping[str, str] | Sequence[str]) -> dict[str, str | None]:
    given: Mapping[str, str | None] = (
        columns if isinstance(columns, Mapping) else dict.fromkeys([columns] if isinstance(columns, str) else columns)
    )
    if not given:
        raise InvalidInputError("Nothing says which columns to index.", hint='Give columns={"message": "text"}.')
    return {find_column(table.schema, text("The name of a column", name)): kind for name, kind in given.items()}


def _redefined(table: TableHandle, columns: Mapping[str, str | None], tokenizer: str | None) -> MetadataAction:
    """The metadata that says how the columns are indexed from now on; what does not fit is an error."""
    old = without_registry(table._snapshot.metadata)
    names = table._names
    physical = {names.column(name): kind for name, kind in columns.items()}
    known = dict(table._indexing.configuration)
    configuration: dict[str, str] = {}
    for key, value in known.items():
        match = config.REGISTRY.lookup(key)
        if (
            match is not None
            and match[1] in physical
            and (physical[match[1]] is not None or "tokenizer" in key.lower())
        ):
            continue
        if match is not None and match[0].key == "indexing.nonindexed":
            value = ",".join(n for n in match[0].type.parse(value) if n not in physical)
        configuration[key] = value
    for name, kind in physical.items():
        if kind is not None:
            configuration[f"indexing.typemap.{name}"] = kind
        if tokenizer is not None:
            configuration[f"indexing.tokenizer.{name}"] = tokenizer
    definition.check_indexing(names.physical, table._partition_columns, configuration)
    body = pa.schema([f for f in names.physical if f.name not in table._partition_columns])
    mapping = DocMapping.from_settings(body, config.resolve(table=configuration).group(IndexingSettings))
    schema = json.loads(old.schema_string)
    for field in schema["fields"]:
        column = mapping.find(field["name"]) if field["name"] in physical else None
        if column is not None:
            field["metadata"] = {**(field.get("metadata") or {}), INDEX_KEY: decision(column)}
    schema_json = dumped(schema) if column_names(dumped(schema)).schema_json != old.schema_string else old.schema_string
    return replace(old, schema_string=schema_json, configuration=configuration)


def _rewritten(
    table: TableHandle,
    columns: tuple[str, ...],
    metadata: MetadataAction,
    where: Where | None,
    *,
    dry_run: bool,
    progress: Progress,
    execute: Execute[MergeTask, MergeOutcome] | None,
) -> ReindexReport:
    """Write the splits anew that index a column otherwise than was decided, as far as `where` chooses them."""
    snapshot = table._log.fresh()
    if dry_run:
        snapshot = replace(snapshot, header=replace(snapshot.header, metadata=metadata))
    chosen = None if where is None else partition_predicate(where, table.schema, table.partition_columns)
    bounds = merge.MergeBounds.of(table._settings.group(MergeSettings))
    now_ms = table._log.now_ms()
    physical = table._names.optional_predicate(chosen)
    plan = merge.plan(snapshot, url=table.path, bounds=bounds, now_ms=now_ms, where=physical, only_wrong=True)
    files = sum(len(group.sources) for group in plan.groups)
    if dry_run or not files:
        message = f"{counted(files, 'split')} would be written anew." if files else "Every split is indexed so."
        status = jobs.DRY_RUN if dry_run and files else jobs.NO_ACTION
        return ReindexReport(table.path, status, columns, 0, files, None, message)
    report = merge.run(
        plan,
        table._log,
        spec=table._spec,
        settings=table._search_settings,
        execute=execute,
        progress=progress,
        engine_info=ENGINE_INFO,
    )
    table._moved_on(report)
    left = merge.plan(table._log.fresh(), url=table.path, bounds=bounds, now_ms=now_ms, only_wrong=True, cooling=True)
    rest = sum(len(group.sources) for group in left.groups)
    message = f"{counted(report.merged_files, 'split')} {was(report.merged_files)} written anew; {rest} are left."
    return ReindexReport(table.path, jobs.SUCCESS, columns, report.merged_files, rest, report.version, message)


_OLD_FORMS = {"state.format": "json"}
_OLDEST_FORMS = {**_OLD_FORMS, "checkpoint.json.layout": "object", "transaction.compression.enabled": "false"}
"""What a table carries that readers of version 2 shall go on reading: nothing of a newer form is written to it."""


class DowngradeReport(Report, frozen=True):
    """What was written so that older engines open the table."""

    table_path: str
    version: int
    from_protocol: str
    to_protocol: int
    features_dropped: tuple[str, ...]
    checkpoint_format: str
    num_files: int


class Administration:
    """What an operator can do to the log of a table."""

    def __init__(self, table: TableHandle) -> None:
        self.table = table

    def record_skipped_file(
        self,
        path: str,
        reason: str,
        operation: str = "merge",
        *,
        partition_values: Mapping[str, str] | None = None,
        size: int | None = None,
        cooldown_hours: float | None = None,
    ) -> int:
        """Record that an `operation` could not process the split at `path`, for a `reason`; returns the version.

        The split stays in the table and is readable; merges leave it alone for `cooldown_hours` (24, by the setting
        `skippedFiles.cooldownDuration`). `partition_values` and `size` are the table's own where they are not given. The
        count of its skips grows by one. Raises InvalidInputError for a path that is no split of the table.

            t.admin.record_skipped_file("splits/split-1.split", "the footer cannot be read")
        """
        table = self.table
        table._refuse_if_pinned()
        live = table._log.fresh().files(columns=["path"]).column("path").to_pylist()
        if text("path", path) not in live:
            hint = "t.files() lists the splits; paths are relative to the table."
            raise InvalidInputError(f"{path} is no split of {table.path}.", hint=hint, path=path)
        hours = table.settings.group(SkipSettings).cooldown_hours if cooldown_hours is None else cooldown_hours
        request = SkipRequest(
            path,
            text("reason", reason),
            text("operation", operation),
            number("cooldown_hours", hours, "hours"),
            partition_values,
            None if size is None else whole_number("size", size),
        )
        version = table._commit(Changes(Operation.SKIP, skips=(request,), engine_info=ENGINE_INFO))
        assert version is not None
        return version

    def downgrade_protocol(self, *, to: int, log_only: bool = False) -> DowngradeReport:
        """Write the protocol back to version 2 or 3 (`to`) and a JSON checkpoint, so that an older engine opens the table.

        For emergencies: the older engine may then write to the table, and knows nothing of what newer versions protect.
        RefusedError lists the features in use that it could not handle. Splits that this package wrote are such a one:
        with `log_only` they are left where they are, and the older engine reads the log, the schema and the list of
        files, but not the rows of those splits. From then on the table carries settings by which only older forms are
        written to it; `upgrade_protocol` and `update_metadata(unset=...)` lead back.

            t.admin.downgrade_protocol(to=3, log_only=True)
        """
        table = self.table
        table._refuse_if_pinned()
        if to not in (2, 3):
            raise InvalidInputError(f"A protocol can be written back to 2 or 3, not to {to!r}.", to=to)
        snapshot = table._log.fresh()
        table._show(snapshot)
        old = snapshot.header.protocol
        if max(old.min_reader_version, old.min_writer_version) <= to:
            raise InvalidInputError(f"{table.path} has protocol {_versions(old)} already.", hint="Nothing was changed.")
        used = protocols.newer_than(old, to, files=snapshot.files(columns=["path"]).num_rows)
        blocking = [feature for feature in used if not (log_only and feature == protocols.PARQUET_SPLITS)]
        if blocking:
            raise RefusedError(
                f"{table.path} uses what protocol {to} does not know: {', '.join(blocking)}.",
                hint="Nothing was changed. Splits of this package (parquetSplits) can be left unread by the older engine "
                "with log_only=True; what else is listed must be undone first.",
                path=table.path,
                features=blocking,
            )
        lowered = protocols.lowered(old, to)
        configuration = {**(snapshot.metadata.configuration or {}), **(_OLD_FORMS if to == 3 else _OLDEST_FORMS)}
        metadata = replace(snapshot.metadata, configuration=configuration)
        changes = Changes(Operation.DOWNGRADE, protocol=lowered, metadata=metadata, engine_info=ENGINE_INFO)
        committed = table._log.commit(snapshot, changes, keep_up=False)
        table._show(committed.snapshot)
        report = self._checkpoint()
        gone = {*(old.reader_features or ())} - {*(lowered.reader_features or ())}
        return DowngradeReport(
            table_path=table.path,
            version=report.version,
            from_protocol=_versions(old),
            to_protocol=to,
            features_dropped=tuple(sorted(gone)),
            checkpoint_format=report.format,
            num_files=report.num_files,
        )

    def _checkpoint(self) -> CheckpointReport:
        log = self.table._log
        log.settings = log_settings(self.table.settings)
        return self.table._moved_on(log.checkpoint(compact=Compact.AS_NEEDED))


def _versions(protocol: ProtocolAction) -> str:
    return f"{protocol.min_reader_version}/{protocol.min_writer_version}"
