"""Verifying a table: reading only, everything that is not as it should be is a finding. Healthy means no findings."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from msgspec import Struct, field

from indextables.errors import TableNotFoundError
from indextables.log.listing import list_log
from indextables.log.transaction_log import TransactionLog
from indextables.model.report import Report
from indextables.model.snapshot import Snapshot
from indextables.splits.live_indexing import decision_hint, live_indexing
from indextables.storage.spec import StoreSpec
from indextables.storage.store import Store
from indextables.upkeep.execution import Execute, in_threads
from indextables.upkeep.findings import ERROR, WARNING, Finding
from indextables.upkeep.progress import Progress, silent
from indextables.upkeep.source_splits import are_foreign
from indextables.upkeep.status import DRY_RUN
from indextables.upkeep.verify_log import LogCheck
from indextables.upkeep.verify_task import SplitRecord, VerifyTask

HEALTHY = "healthy"
DAMAGED = "damaged"
_PER_TASK = 64
_COLUMNS = [
    *("path", "size", "num_records", "footer_start_offset", "min_values", "max_values"),
    "partition_values",
]
_Execute = Execute[VerifyTask, Sequence[Finding]]


class VerifyReport(Report, frozen=True):
    """What was found. No findings: the table is healthy."""

    table_path: str
    status: str
    version: int | None
    full: bool
    splits_checked: int
    findings: tuple[Finding, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether there was nothing to find."""
        return not self.findings


class VerifyPlan(Report, frozen=True):
    """How much there is to look at."""

    table_path: str
    version: int | None
    full: bool
    versions: int
    states: int
    splits: int | None
    """None if the log is too damaged to tell."""
    size_bytes: int | None

    def preview(self) -> VerifyReport:
        """What a dry run reports: how many splits would be checked."""
        return VerifyReport(self.table_path, DRY_RUN, self.version, self.full, self.splits or 0)


def plan(log: TransactionLog, *, full: bool = False) -> VerifyPlan:
    """What a verification would look at."""
    listing = list_log(log.store)
    if listing.is_empty:
        raise TableNotFoundError(f"There is no table at {log.store.url}: no transaction log found.", path=log.store.url)
    snapshot = LogCheck.of(log).newest()
    sizes = snapshot.files(columns=["size"]).column("size").to_pylist() if snapshot else None
    return VerifyPlan(
        table_path=log.store.url,
        version=None if snapshot is None else snapshot.version,
        full=full,
        versions=len(listing.versions),
        states=len(listing.states) + len(listing.checkpoints),
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
    """Verify a table, also one that cannot be opened. Commits made meanwhile are no findings."""
    checking = LogCheck.of(log)
    snapshot = checking.run()
    found = checking.findings
    count = 0
    if snapshot is not None:
        files = snapshot.files(columns=[*_COLUMNS, "doc_mapping_json", "doc_mapping_ref"])
        count = files.num_rows
        found += _disputed_columns(snapshot)
        splits = _SplitCheck(log.store, snapshot, files, spec, full=planned.full)
        found += _unless_removed(
            splits.run(execute or in_threads(log.store, parallelism=parallelism), progress), log, snapshot
        )
    return VerifyReport(
        table_path=planned.table_path,
        status=DAMAGED if found else HEALTHY,
        version=None if snapshot is None else snapshot.version,
        full=planned.full,
        splits_checked=count,
        findings=tuple(found),
    )


def _disputed_columns(snapshot: Snapshot) -> list[Finding]:
    """Columns that live splits index in several ways: a search finds a word in the one and not in the other."""
    return [
        Finding(
            "index",
            WARNING,
            None,
            f"Column {name!r} is indexed as {' and as '.join(way.terms for way in ways)} in splits of the table. "
            f"{decision_hint(name)}",
        )
        for name, ways in live_indexing(snapshot).disputed.items()
    ]


def _unless_removed(found: Sequence[Finding], log: TransactionLog, read: Snapshot) -> list[Finding]:
    """Findings about splits that are still live: one that was removed meanwhile may be gone by right."""
    newest = log.fresh() if found else read
    if newest.version == read.version:
        return list(found)
    live = set(newest.files(columns=["path"]).column("path").to_pylist())
    return [finding for finding in found if finding.path in live]


class _SplitCheck(Struct):
    """A check of the splits of a snapshot."""

    store: Store
    snapshot: Snapshot
    files: pa.Table
    spec: StoreSpec
    full: bool
    findings: list[Finding] = field(default_factory=list)

    def run(self, execute: _Execute, progress: Progress) -> list[Finding]:
        """Presence and size by one listing; then the splits themselves."""
        there = {info.path: info.size for info in self.store.list()} if self.files.num_rows else {}
        sound = [record for record in self._records() if self._is_there(record, there.get(record.path))]
        work = self._tasks(sound)
        for done, found in enumerate(execute(work) if work else (), start=1):
            self.findings += found
            progress(min(done * _PER_TASK, len(sound)), len(sound), "splits")
        return self.findings

    def _records(self) -> list[SplitRecord]:
        wanted = set(self.snapshot.metadata.partition_columns or ())
        seen: set[str] = set()
        records = []
        columns = (self.files.column(name).to_pylist() for name in _COLUMNS)
        for path, size, rows, footer, low, high, values, foreign in zip(
            *columns, are_foreign(self.files, self.snapshot.schema_registry), strict=True
        ):
            if path in seen:
                self.findings.append(Finding("files", ERROR, path, "The split is part of the table twice."))
            if {name for name, _ in values or []} != wanted:
                message = f"The split has values for other columns than the partition columns {sorted(wanted)}."
                self.findings.append(Finding("files", ERROR, path, message))
            seen.add(path)
            records.append(SplitRecord(path, size, rows, footer, dict(low or []), dict(high or []), not foreign))
        return records

    def _is_there(self, record: SplitRecord, size: int | None) -> bool:
        if size is None:
            self.findings.append(Finding("split", ERROR, record.path, "The split is not in the store."))
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
