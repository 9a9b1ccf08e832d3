"""What a scan did: how the question was understood, which splits were left out and why, what was opened and read."""

from __future__ import annotations

from collections.abc import Sequence

from indextables.model.report import Report
from indextables.scan.plan import ScanPlan
from indextables.scan.task import ScanTask
from indextables.splits.query.tree import AllRows
from indextables.splits.read.table_split import SplitEntry
from indextables.splits.search.explain import explain_split


class SplitReport(Report, frozen=True):
    """One split of a scan."""

    path: str
    rows: int
    rows_matched: int
    answered_by: str
    requests: int
    bytes_read: int


class ScanReport(Report, frozen=True):
    """A scan that was carried out, without its rows."""

    query: str | None
    where: str | None
    columns: str
    version: int
    splits_considered: int
    splits_pruned_by_partition: int
    splits_skipped_by_statistics: int
    splits_answered_by_log: int
    splits_opened: int
    rows_matched: int
    requests: int
    bytes_read: int
    bytes_in_opened_splits: int
    splits: tuple[SplitReport, ...]


def explain(task: ScanTask) -> ScanReport:
    """Carry out a scan, count what it touches, and leave its rows."""
    return scan_report(task.plan, split_reports(task))


def split_reports(task: ScanTask) -> list[SplitReport]:
    """Carry out a scan of some splits; a report for each, in order."""
    return [_one(task, task.plan, entry) for entry in task.plan.splits]


def scan_report(plan: ScanPlan, reports: Sequence[SplitReport]) -> ScanReport:
    """The report of a scan from those of its splits."""
    opened = [r for r in reports if r.answered_by != "log"]
    sizes = {entry.path: entry.size for entry in plan.splits}
    return ScanReport(
        query=None if plan.query is None else str(plan.query),
        where=None if plan.where is None else str(plan.where),
        columns=", ".join(plan.columns),
        version=plan.version,
        splits_considered=plan.splits_considered,
        splits_pruned_by_partition=plan.pruned_by_partition,
        splits_skipped_by_statistics=plan.skipped_by_statistics,
        splits_answered_by_log=len(reports) - len(opened),
        splits_opened=len(opened),
        rows_matched=sum(r.rows_matched for r in reports),
        requests=sum(r.requests for r in reports),
        bytes_read=sum(r.bytes_read for r in reports),
        bytes_in_opened_splits=sum(sizes[r.path] for r in opened),
        splits=tuple(reports),
    )


def _one(task: ScanTask, plan: ScanPlan, entry: SplitEntry) -> SplitReport:
    where = None if entry.certain else plan.where
    if plan.query is None and where is None and not plan.columns and entry.num_records is not None:
        return SplitReport(entry.path, entry.num_records, entry.num_records, "log", 0, 0)
    split = task.open(entry)
    found = explain_split(split, plan.query or AllRows(), where=where, columns=plan.columns or None)
    by = "rows" if plan.query is None else found.answered_by
    return SplitReport(entry.path, split.num_rows, found.matched, by, split.stats.requests, split.stats.bytes)
