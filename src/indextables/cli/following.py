"""Matches as a table grows: only rows that are new, so neither a merge nor a deletion brings a row up again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from indextables.errors import ConflictError
from indextables.model.file_list import from_actions
from indextables.model.new_rows import files_of_new_rows
from indextables.scan.plan import ScanPlan, entries
from indextables.scan.search import search_table
from indextables.scan.task import ScanTask
from indextables.splits.search import SearchRequest
from indextables.splits.snippets import Snippet
from indextables.table.reader import TableReader


def follow(
    table: TableReader,
    query: str,
    *,
    where: str | None,
    columns: Sequence[str] | None,
    snippet: str | None,
    interval: float,
) -> Iterator[pa.Table]:
    """New matches after the version the table shows, whenever there are any; ends only when it is stopped."""
    while True:
        newest = table.refresh()
        if newest.version < table.version:
            raise ConflictError(
                f"{table.path} was followed up to version {table.version} and now ends at {newest.version}: an older copy "
                "was put in its place.",
                hint="Start again to see what is in it now.",
                path=table.path,
                version=table.version,
            )
        if newest.version > table.version:
            plan = newest.plan_scan(query=query, where=where, columns=columns)
            found = new_matches(newest, plan, after=table.version, snippet=snippet)
            if found.num_rows:
                yield found
        table = newest
        time.sleep(interval)


def new_matches(table: TableReader, plan: ScanPlan, *, after: int, snippet: str | None) -> pa.Table:
    """The matches among rows that came after a version, in the order they came."""
    assert plan.query is not None
    added = [f for v in table.versions(after=after, until=table.version) for f in files_of_new_rows(v)]
    task = ScanTask(plan.with_splits(entries(from_actions(added))))
    marked = None if snippet is None else Snippet(snippet)
    return search_table(task, SearchRequest(plan.query, plan.columns, where=plan.where, snippet=marked))
