"""Report of a scan for `explain`: the parsed query, the pruned splits with reasons, and what was
read.

For each opened split it contains how each part of the query was answered, what matched, and the
cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from indextables.metrics import METRICS
from indextables.model.predicate import Predicate
from indextables.model.report import Report, plain
from indextables.query.plan import ScanPlan
from indextables.query.search import TableSearch
from indextables.query.task import ScanTask
from indextables.splits.query.tree import AllRows, Leaf, Query, leaves
from indextables.splits.read.searchable import Searchable
from indextables.splits.read.table_split import SplitEntry
from indextables.splits.search.match import OpenQuery, open_query
from indextables.storage.store import Store


class LeafReport(Struct, frozen=True):
    """One part of a query and what answered it."""

    part: str
    answered_by: str


class SplitExplanation(Struct, frozen=True):
    """One split's share of a search as plain values."""

    path: str
    rows: int
    matched: int
    rows_looked_at: int
    requests: int
    bytes_read: int
    answered_by: str
    parts: tuple[LeafReport, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        figures: dict[str, Any] = plain(self)
        return figures


NOT_OPENED = "not opened"
"""A split whose bounds show that it cannot hold one of the first rows."""
INDEX, BOTH, ROWS = "index", "index, confirmed by rows", "rows"
GRAMS, WHOLE = "3-grams, confirmed by rows", "whole values, confirmed by rows"


def explain_split(
    split: Searchable,
    query: Query,
    *,
    where: Predicate | None = None,
    columns: Sequence[str] | None = None,
) -> SplitExplanation:
    """Run a query and report its cost; with `columns`, including reading them for matching rows."""
    requests, read = split.stats.requests, split.stats.bytes
    with open_query(split, query, where=where) as opened:
        rows = opened.rows(where)
        parts = tuple(
            LeafReport(str(leaf), _name_answer(opened, leaf))
            for leaf in dict.fromkeys(leaves(query))
        )
        by_grams = any(name.startswith("g") for name in opened.narrowed)
        if opened.narrowed:
            narrowed = GRAMS if by_grams else WHOLE
        else:
            narrowed = None
        if narrowed and not parts:
            way = narrowed
        else:
            way = _way(split, parts, opened.rows_read)
        if columns is not None and len(rows):
            everything = len(rows) == split.num_rows
            for _ in split.iter_rows(None if everything else rows, columns=columns):
                pass
        looked_at = opened.rows_read
    return SplitExplanation(
        path=split.path,
        rows=split.num_rows,
        matched=len(rows),
        rows_looked_at=looked_at,
        requests=split.stats.requests - requests,
        bytes_read=split.stats.bytes - read,
        answered_by=way,
        parts=parts,
    )


def _name_answer(opened: OpenQuery, leaf: Leaf) -> str:
    answer = opened.ask(leaf)
    if answer is None:
        return ROWS
    if answer.exact:
        return INDEX
    return BOTH


def _way(split: Searchable, parts: Sequence[LeafReport], rows_read: int) -> str:
    if not split.indexed:
        return "rows (the split has no index)"
    if any(part.answered_by != ROWS for part in parts):
        if rows_read:
            return BOTH
        return INDEX
    if rows_read:
        return ROWS
    return INDEX


class SplitReport(Report, frozen=True):
    """One split of a scan."""

    path: str
    rows: int
    rows_matched: int
    answered_by: str
    requests: int
    bytes_read: int


class ScanReport(Report, frozen=True):
    """A completed scan without its rows."""

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
    """Run a scan, count what it reads, and discard its rows."""
    return scan_report(task.plan, split_reports(task))


def explain_search(search: TableSearch, store: Store) -> tuple[pa.Table, ScanReport]:
    """Run a search. Return its rows, and what each split cost this search alone."""
    task = ScanTask(search.plan, store, is_measured=True)
    rows = search.weigh(task).merged(task)
    METRICS.count("rows_read_total", by=rows.num_rows)
    cost = {path: (split.stats.requests, split.stats.bytes) for path, split in task.opened.items()}
    reports = [
        _report_searched_split(task, entry, cost.get(entry.path)) for entry in search.plan.splits
    ]
    return rows, scan_report(search.plan, reports)


def _report_searched_split(
    task: ScanTask, entry: SplitEntry, cost: tuple[int, int] | None
) -> SplitReport:
    """Report one split of a search that has run. `cost` is None for a split that could not hold a
    better row.
    """
    if cost is None:
        return SplitReport(entry.path, entry.num_records or 0, 0, NOT_OPENED, 0, 0)
    split, plan = task.open(entry), task.plan
    where = None if entry.certain else plan.where
    found = explain_split(split, plan.query or AllRows(), where=where)
    return SplitReport(entry.path, split.num_rows, found.matched, found.answered_by, *cost)


def split_reports(task: ScanTask) -> list[SplitReport]:
    """Run a scan of some splits, and return a report for each in order."""
    return [_one(task, task.plan, entry) for entry in task.plan.splits]


def scan_report(plan: ScanPlan, reports: Sequence[SplitReport]) -> ScanReport:
    """Combine the reports of a scan's splits."""
    by_log = sum(r.answered_by == "log" for r in reports)
    opened = [r for r in reports if r.answered_by not in ("log", NOT_OPENED)]
    sizes = {entry.path: entry.size for entry in plan.splits}
    return ScanReport(
        query=None if plan.query is None else str(plan.query),
        where=None if plan.where is None else str(plan.where),
        columns=", ".join(plan.columns),
        version=plan.version,
        splits_considered=plan.splits_considered,
        splits_pruned_by_partition=plan.pruned_by_partition,
        splits_skipped_by_statistics=plan.skipped_by_statistics,
        splits_answered_by_log=by_log,
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
    split = task.open_alone(entry)
    found = explain_split(split, plan.query or AllRows(), where=where, columns=plan.columns or None)
    if plan.query is None and found.answered_by not in (GRAMS, WHOLE):
        by = "rows"
    else:
        by = found.answered_by
    return SplitReport(
        entry.path, split.num_rows, found.matched, by, split.stats.requests, split.stats.bytes
    )
