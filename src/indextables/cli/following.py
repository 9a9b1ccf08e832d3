"""Matches as a table grows: only rows that are new, so neither a merge nor a deletion brings a row up again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from indextables.model.file_list import from_actions
from indextables.model.new_rows import files_of_new_rows
from indextables.scan.plan import entries
from indextables.scan.task import ScanTask
from indextables.table.reader import TableReader


def follow(
    table: TableReader, query: str, *, where: str | None, columns: Sequence[str] | None, interval: float
) -> Iterator[pa.Table]:
    """New matches after the version the table shows, whenever there are any; ends only when it is stopped."""
    while True:
        newest = table.refresh()
        if newest.version > table.version:
            found = new_matches(newest, query, after=table.version, where=where, columns=columns)
            if found.num_rows:
                yield found
        table = newest
        time.sleep(interval)


def new_matches(
    table: TableReader, query: str, *, after: int, where: str | None, columns: Sequence[str] | None
) -> pa.Table:
    """The matches among rows that came after a version, in the order they came."""
    added = [f for v in table.versions(after=after, until=table.version) for f in files_of_new_rows(v)]
    plan = table.plan_scan(query=query, where=where, columns=columns)
    batches = ScanTask(plan.with_splits(entries(from_actions(added)))).batches() if added else ()
    return pa.Table.from_batches(batches, schema=plan.output_schema)
