"""Verify a table, read-only. A table without findings is healthy.

A finding has a location, a severity and an explanation. Checks of the log: every file is readable,
there is no hole, and every state matches its versions. Checks of splits: they open, and on request
every byte and count is as recorded. A picklable `VerifyTask` checks the splits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from indextables import config
from indextables.config.splits import ReadSettings
from indextables.errors import (
    BadFileError,
    CorruptTableError,
    IndexTablesError,
    NotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from indextables.handle import TableHandle, open_log
from indextables.log import log_files
from indextables.log.checkpoint.state_files import StateFiles
from indextables.log.checkpoint.state_reader import BaseReader, BaseSearch
from indextables.log.checkpoint.verifier import check_descent, differences
from indextables.log.log_files import LogListing, list_log
from indextables.log.replay import readable_versions
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import ROWS_END
from indextables.model.protocol import is_companion
from indextables.model.report import Progress, Report, silent
from indextables.model.schema import schema_from_json
from indextables.model.snapshot import Base, CommittedVersion, PartFilter, Snapshot, replay
from indextables.model.values import decode_value
from indextables.operations.jobs import DRY_RUN, Execute, in_threads
from indextables.operations.rewrite import are_foreign
from indextables.operations.tags import lost_tags
from indextables.splits.format.source import SplitSource, open_source
from indextables.splits.index.live_indexing import decision_hint, live_indexing
from indextables.splits.index.table_schema import TableSchema
from indextables.splits.read.split_description import check_bytes, check_end
from indextables.splits.read.table_split import row_mask
from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.store import ObjectInfo, Store
from indextables.wire.state import UnusablePointer, decode_pointer

ERROR = "error"
"""Some rows cannot be read, or an answer can be wrong."""
WARNING = "warning"
"""Something is damaged that the table does not depend on."""


class Finding(Struct, frozen=True):
    """One deviation."""

    check: str
    severity: str
    path: str | None
    message: str


class LogCheck(Struct):
    """A check of the log: its findings, and the newest version if it can be opened."""

    log: TransactionLog
    bases: BaseReader
    """Starts without a cache of the log, because cached content proves nothing."""
    findings: list[Finding] = field(default_factory=list)

    @classmethod
    def of(cls, log: TransactionLog) -> LogCheck:
        """Create a check that has not read anything yet."""
        return cls(log, log.verifier().bases)

    def run(self) -> Snapshot | None:
        """Check everything. A file that a cleaner deletes meanwhile is not a finding."""
        listing = list_log(self.log.store)
        newest = self.newest()
        if newest is not None:
            self._holes(listing)
            self._tags(newest)
        versions = self._versions(listing)
        bases = self._bases(listing)
        self._descent(bases, listing)
        self._compare(bases, versions)
        self._pointer(listing)
        self._settings(newest)
        for path in listing.impossible:
            message = f"The file is named like a version that cannot be: versions end at {log_files.MAX_VERSION}."
            self.findings.append(Finding("version", WARNING, path, message))
        return newest

    def newest(self) -> Snapshot | None:
        """Return the newest version, or add a finding."""
        try:
            snapshot = self.log.reload()
            snapshot.files(columns=["path"])
        except CorruptTableError as error:
            self._add("log", ERROR, error)
            return None
        return snapshot

    def _holes(self, listing: LogListing) -> None:
        """Find versions that cannot be reached because one before them is missing.

        If all version files before them are missing too, there is no finding: an interrupted
        cleaning, which deletes the oldest first, leaves this, and so does a writer that was stopped
        while others cleaned. The next cleaning deletes them.
        """
        oldest = min(listing.versions, default=-1)
        for before, after in pairwise(readable_versions(listing)):
            unreachable = sorted(
                version for version in listing.versions if before < version < after
            )
            if unreachable and oldest < unreachable[0]:
                message = (
                    f"The version files {before + 1} to {unreachable[0] - 1} are missing: versions {before + 1} to "
                    f"{after - 1} cannot be read any more. The newest one is not affected."
                )
                self.findings.append(
                    Finding("version", WARNING, log_files.version_path(before + 1), message)
                )

    def _tags(self, newest: Snapshot) -> None:
        """Find tags of unreadable versions."""
        for name, reason in lost_tags(self.log, newest.header.tags).items():
            message = f"{reason} It has the tag {name!r}: untag({name!r}) gives it up, and lets purges run."
            self.findings.append(Finding("tag", WARNING, None, message))

    def _versions(self, listing: LogListing) -> dict[int, CommittedVersion]:
        files = [*listing.versions.items()]
        try:
            return {version.version: version for version in self.bases.versions.read(files)}
        except (BadFileError, UnsupportedError, NotFoundError):
            return self._versions_one_by_one(files)

    def _versions_one_by_one(
        self, files: Sequence[tuple[int, ObjectInfo]]
    ) -> dict[int, CommittedVersion]:
        versions: dict[int, CommittedVersion] = {}
        for version, info in files:
            try:
                versions[version] = self.bases.versions.read([(version, info)])[0]
            except (BadFileError, UnsupportedError) as error:
                self._add("version", ERROR, error, path=info.path)
            except NotFoundError:
                continue
        return versions

    def _bases(self, listing: LogListing) -> list[Base]:
        """Return every valid state and checkpoint, oldest first."""
        bases = []
        candidates = [*((v, i, "state") for v, i in listing.states.items())]
        candidates += [(v, i, "checkpoint") for v, i in listing.legacy_checkpoints.items()]
        for version, info, check in sorted(candidates, key=lambda c: c[0]):
            try:
                base = self._base(listing, version, info, check)
                if base is not None:
                    base.source.files(columns=["path", "size"])
                    bases.append(base)
            except NotFoundError as error:
                # A manifest that is gone though its state is still there is missing; otherwise both
                # were cleaned away.
                if self.log.store.head(info.path) is not None:
                    self._add(check, WARNING, error)
            except (BadFileError, UnsupportedError) as error:
                self._add(check, WARNING, error)
        return bases

    def _base(self, listing: LogListing, version: int, info: ObjectInfo, check: str) -> Base | None:
        """Return a checkpoint, read without fallbacks."""
        if check == "state":
            older = {v: i for v, i in listing.states.items() if v < version}
        else:
            older = {}
        states = {**older, version: info} if check == "state" else {}
        alone = LogListing({}, states, {version: info} if check == "checkpoint" else {})
        search = BaseSearch()
        base = next(self.bases.bases(alone, until=version, search=search))
        if search.failures:
            raise search.failures[0]
        if base.header.version != version:
            return None
        if isinstance(base.source, StateFiles):
            return replace(base, source=replace(base.source, fallback=_fail))
        return base

    def _descent(self, bases: Sequence[Base], listing: LogListing) -> None:
        """Compare every state with the version of its number, even if a later one is the base of
        the table.
        """
        for base in bases:
            try:
                check_descent(self.log.bases, base, listing)
            except CorruptTableError as error:
                if error.message not in {finding.message for finding in self.findings}:
                    self._add("replay", ERROR, error)

    def _compare(self, bases: Sequence[Base], versions: Mapping[int, CommittedVersion]) -> None:
        """Compare each base with the one before it and the versions between."""
        before: Base = Base()
        for base in bases:
            at = base.header.version
            between = range(before.header.version + 1, at + 1)
            if _is_derived(base) and all(version in versions for version in between):
                expected = replay(before, [versions[v] for v in between])
                for message in differences(expected, base):
                    if isinstance(base.source, StateFiles):
                        path = log_files.state_dir(at)
                    else:
                        path = log_files.LOG
                    self.findings.append(Finding("replay", ERROR, path, f"Version {at}: {message}"))
            before = base

    def _settings(self, newest: Snapshot | None) -> None:
        """Find settings that a table must not store: another user's folders, credentials or
        threads.
        """
        keys = config.not_of_tables((newest.metadata.configuration if newest else None) or {})
        if keys:
            message = f"The table's metadata carries settings that only a caller may give: {', '.join(keys)}."
            ignored = f"{message} They are ignored; update_metadata(unset=...) drops them."
            self.findings.append(Finding("settings", WARNING, None, ignored))

    def _pointer(self, listing: LogListing) -> None:
        try:
            pointer = decode_pointer(self.log.store.get(log_files.POINTER))
        except NotFoundError:
            return
        if isinstance(pointer, UnusablePointer):
            message = f"The pointer to the newest checkpoint is of no use: {pointer.reason}."
            self.findings.append(Finding("pointer", WARNING, log_files.POINTER, message))
        elif pointer.version not in {*listing.states, *listing.legacy_checkpoints}:
            again = list_log(self.log.store)
            if pointer.version not in {*again.states, *again.legacy_checkpoints}:
                message = f"The pointer names a checkpoint of version {pointer.version}, which does not exist."
                self.findings.append(Finding("pointer", WARNING, log_files.POINTER, message))

    def _add(
        self, check: str, severity: str, error: IndexTablesError, *, path: str | None = None
    ) -> None:
        self.findings.append(
            Finding(check, severity, path or error.context.get("path"), error.message)
        )


def _fail(
    failure: IndexTablesError,
    part_filter: PartFilter | None,  # noqa: ARG001
    columns: Sequence[str] | None,  # noqa: ARG001
) -> pa.Table:
    raise failure


def _is_derived(base: Base) -> bool:
    """Return whether a base was made from versions. Another engine's state may be the commit
    itself, without a version file.
    """
    source = base.source
    return not isinstance(source, StateFiles) or all(
        m.size_bytes is not None for m in source.state.manifests
    )


class SplitRecord(Struct, frozen=True):
    """The log entry of a split."""

    path: str
    size: int
    num_records: int | None
    footer_start: int | None
    min_values: Mapping[str, str]
    max_values: Mapping[str, str]
    typed_bounds: bool
    """Whether bounds were computed by comparing values; another engine may compare texts."""
    vector: str | None
    deleted: int | None
    rows_end: str | None
    """The tag with the byte at which its rows end, as recorded."""
    has_source: bool = False
    """Whether it is a companion split, whose rows are in the files of a source."""


class VerifyTask(Struct, frozen=True):
    """Splits to check."""

    spec: StoreSpec
    schema_json: str
    partition_columns: tuple[str, ...]
    splits: tuple[SplitRecord, ...]
    full: bool

    def run(self, *, store: Store | None = None) -> list[Finding]:
        """Return everything that is wrong with these splits. A store failure is raised."""
        split_store = store or open_store(self.spec)
        body = TableSchema(schema_from_json(self.schema_json), self.partition_columns).stored
        return [
            finding for split in self.splits for finding in self._check(split_store, split, body)
        ]

    def _check(self, store: Store, split: SplitRecord, body: pa.Schema) -> Iterator[Finding]:
        try:
            source = open_source(store, split.path, size=split.size)
            rows, rows_end = check_end(source, body, footer_start=split.footer_start)
            yield from _check_vector(store, split, rows)
            if split.rows_end is not None and split.rows_end != str(rows_end):
                message = f"The log says that its rows end at byte {split.rows_end!r}; they end at {rows_end}."
                yield Finding(
                    "rows", ERROR, split.path, f"{message} Spark's own scan could leave rows out."
                )
            if split.num_records is not None and rows != split.num_records + (split.deleted or 0):
                stored = f"{split.num_records}" + (
                    f" and {split.deleted} deleted ones" if split.deleted else ""
                )
                yield Finding(
                    "rows", ERROR, split.path, f"The split has {rows} rows; the log says {stored}."
                )
            if self.full:
                yield from _check_rows(source, split, body, rows)
        except (CorruptTableError, UnsupportedError) as error:
            yield Finding("split", ERROR, split.path, error.message)


def _check_vector(store: Store, split: SplitRecord, rows: int) -> Iterator[Finding]:
    """Check that the deletion vector is readable, has the recorded number of rows, and only rows of
    the split.
    """
    if split.vector is None and split.deleted:
        message = f"The log says that {split.deleted} rows are deleted, and does not say which."
        yield Finding("vector", ERROR, split.path, message)
    try:
        row_mask(store, split.path, split.vector, split.deleted, rows, fresh=True)
    except CorruptTableError as error:
        yield Finding("vector", ERROR, split.path, error.message)


def _check_rows(
    source: SplitSource, split: SplitRecord, body: pa.Schema, rows: int
) -> Iterator[Finding]:
    """Check every byte by checksum, count every row, and compare every value with the recorded
    bounds.
    """
    counted = 0
    outside: set[str] = set()
    for batch in check_bytes(source, body, footer_start=split.footer_start):
        counted += batch.num_rows
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            yield Finding(
                "rows",
                ERROR,
                split.path,
                f"The split holds values that are not of their type: {error}.",
            )
            return
        if split.typed_bounds:
            outside |= {
                name
                for name in batch.schema.names
                if name not in outside and _is_outside(split, batch, name)
            }
    if counted != rows and not split.has_source:
        yield Finding("rows", ERROR, split.path, f"{counted} rows were read of a split of {rows}.")
    for name in sorted(outside):
        message = f"Column {name!r} holds values outside the bounds that the log says, so a filter could miss them."
        yield Finding("bounds", ERROR, split.path, message)


def _is_outside(split: SplitRecord, batch: pa.RecordBatch, name: str) -> bool:
    column = batch.column(name)
    for bounds, beyond in ((split.min_values, pc.less), (split.max_values, pc.greater)):
        text = bounds.get(name)
        if text is not None:
            bound = decode_value(text, column.type)
        else:
            bound = None
        if bound is not None and pc.any(beyond(column, pa.scalar(bound, column.type))).as_py():
            return True
    return False


HEALTHY = "healthy"
DAMAGED = "damaged"
_PER_TASK = 64
_COLUMNS = [
    *("path", "size", "num_records", "footer_start_offset", "min_values", "max_values"),
    *("deletion_vector", "deleted_records", "tags", "partition_values"),
]
_Execute = Execute[VerifyTask, Sequence[Finding]]


class VerifyReport(Report, frozen=True):
    """The findings. Without findings the table is healthy."""

    table_path: str
    status: str
    version: int | None
    full: bool
    splits_checked: int
    findings: tuple[Finding, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether there are no findings."""
        return not self.findings


class VerifyPlan(Report, frozen=True):
    """How much there is to check."""

    table_path: str
    version: int | None
    full: bool
    versions: int
    states: int
    splits: int | None
    """None if the log is too damaged to list them."""
    size_bytes: int | None

    def preview(self) -> VerifyReport:
        """Return the report of a dry run: how many splits would be checked."""
        return VerifyReport(self.table_path, DRY_RUN, self.version, self.full, self.splits or 0)


def plan(log: TransactionLog, *, full: bool = False) -> VerifyPlan:
    """Plan a verification."""
    listing = list_log(log.store)
    if listing.is_empty:
        raise TableNotFoundError(
            f"There is no table at {log.store.url}: no transaction log found.", path=log.store.url
        )
    snapshot = LogCheck.of(log).newest()
    if snapshot:
        sizes = snapshot.files(columns=["size"]).column("size").to_pylist()
    else:
        sizes = None
    return VerifyPlan(
        table_path=log.store.url,
        version=None if snapshot is None else snapshot.version,
        full=full,
        versions=len(listing.versions),
        states=len(listing.states) + len(listing.legacy_checkpoints),
        splits=None if sizes is None else len(sizes),
        size_bytes=None if sizes is None else sum(sizes),
    )


def run(
    planned: VerifyPlan,
    log: TransactionLog,
    *,
    spec: StoreSpec,
    parallelism: int,
    execute: _Execute | None = None,
    progress: Progress = silent,
) -> VerifyReport:
    """Verify a table, even one that cannot be opened. Concurrent commits are not findings."""
    checking = LogCheck.of(log)
    snapshot = checking.run()
    findings = checking.findings
    count = 0
    if snapshot is not None:
        files = snapshot.files(columns=[*_COLUMNS, "doc_mapping_json", "doc_mapping_ref"])
        count = files.num_rows
        findings += _disputed_columns(snapshot)
        splits = _SplitCheck(log.store, snapshot, files, spec, full=planned.full)
        findings += _unless_removed(
            splits.run(execute or in_threads(log.store, parallelism=parallelism), progress),
            log,
            snapshot,
        )
    return VerifyReport(
        table_path=planned.table_path,
        status=DAMAGED if findings else HEALTHY,
        version=None if snapshot is None else snapshot.version,
        full=planned.full,
        splits_checked=count,
        findings=tuple(findings),
    )


def _disputed_columns(snapshot: Snapshot) -> list[Finding]:
    """Find columns that live splits index in several ways, so that a search finds a word only in
    some.
    """
    if is_companion(snapshot.header.protocol):
        return []  # a split of a companion is answered from the rows where it differs
    live = live_indexing(snapshot)
    return [
        Finding(
            "index",
            WARNING,
            None,
            f"Column {name!r} is indexed as {' and as '.join(way.terms for way in ways)} in splits of the table. "
            + (
                f"It was decided to be {live.right[name].terms}; merge() or reindex() rewrites the other splits."
                if name in live.right
                else decision_hint(name)
            ),
        )
        for name, ways in live.disputed.items()
    ]


def _unless_removed(
    findings: Sequence[Finding], log: TransactionLog, read: Snapshot
) -> list[Finding]:
    """Return findings about splits that are still live. One that was removed meanwhile may be
    deleted legitimately.
    """
    newest = log.fresh() if findings else read
    if newest.version == read.version:
        return list(findings)
    live = set(newest.files(columns=["path"]).column("path").to_pylist())
    return [finding for finding in findings if finding.path in live]


class _SplitCheck(Struct):
    """A check of the splits of a snapshot."""

    store: Store
    snapshot: Snapshot
    files: pa.Table
    spec: StoreSpec
    full: bool
    findings: list[Finding] = field(default_factory=list)

    def run(self, execute: _Execute, progress: Progress) -> list[Finding]:
        """Check presence and size with one listing, then the splits themselves."""
        if self.files.num_rows:
            sizes = {info.path: info.size for info in self.store.list()}
        else:
            sizes = {}
        records = [
            record for record in self._records() if self._is_there(record, sizes.get(record.path))
        ]
        work = self._tasks(records)
        for done, task_findings in enumerate(execute(work) if work else (), start=1):
            self.findings += task_findings
            progress(min(done * _PER_TASK, len(records)), len(records), "splits")
        return self.findings

    def _records(self) -> list[SplitRecord]:
        partition_columns = set(self.snapshot.metadata.partition_columns or ())
        listed_paths: set[str] = set()
        records = []
        columns = (self.files.column(name).to_pylist() for name in _COLUMNS)
        for path, size, rows, footer, low, high, vector, deleted, tags, values, foreign in zip(
            *columns, are_foreign(self.files, self.snapshot.schema_registry), strict=True
        ):
            if path in listed_paths:
                self.findings.append(
                    Finding("files", ERROR, path, "The split is part of the table twice.")
                )
            if {name for name, _ in values or []} != partition_columns:
                message = f"The split has values for other columns than the partition columns {sorted(partition_columns)}."
                self.findings.append(Finding("files", ERROR, path, message))
            listed_paths.add(path)
            bounds = dict(low or []), dict(high or [])
            end = dict(tags or []).get(ROWS_END)
            records.append(
                SplitRecord(
                    path,
                    size,
                    rows,
                    footer,
                    *bounds,
                    not foreign,
                    vector,
                    deleted,
                    end,
                    has_source=is_companion(self.snapshot.header.protocol),
                )
            )
        return records

    def _is_there(self, record: SplitRecord, size: int | None) -> bool:
        if size is None:
            self.findings.append(
                Finding("split", ERROR, record.path, "The split is not in the store.")
            )
        elif size != record.size:
            message = f"The split has {size} bytes; the log says {record.size}."
            self.findings.append(Finding("split", ERROR, record.path, message))
        return size == record.size

    def _tasks(self, records: Sequence[SplitRecord]) -> list[VerifyTask]:
        metadata = self.snapshot.metadata
        return [
            VerifyTask(
                spec=self.spec,
                schema_json=metadata.schema_string,
                partition_columns=tuple(metadata.partition_columns or ()),
                splits=tuple(records[at : at + _PER_TASK]),
                full=self.full,
            )
            for at in range(0, len(records), _PER_TASK)
        ]


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
    planned = plan(log, full=full)
    if dry_run:
        return planned.preview()
    spec, parallelism = StoreSpec.from_url(path, settings), settings.group(ReadSettings).parallelism
    return run(planned, log, spec=spec, parallelism=parallelism, execute=execute, progress=progress)


def verify(
    table: TableHandle,
    *,
    full: bool,
    dry_run: bool,
    progress: Progress,
    execute: Execute[VerifyTask, Sequence[Finding]] | None,
) -> VerifyReport:
    """Report what is damaged. See `Table.verify`."""
    planned = plan(table.log, full=full)
    if dry_run:
        return planned.preview()
    return run(
        planned,
        table.log,
        spec=table.spec,
        parallelism=table.settings.group(ReadSettings).parallelism,
        execute=execute,
        progress=progress,
    )
