"""Searching a table: every split is asked, words weigh the same in all of them, and the best come first."""

from __future__ import annotations

import pyarrow as pa
from msgspec.structs import replace

from indextables.scan.task import ScanTask
from indextables.splits.read.table_split import SplitEntry
from indextables.splits.search.scores import TermStatistics, term_statistics, total
from indextables.splits.search.search import SearchRequest, merge_results, search_split


def search_table(task: ScanTask, request: SearchRequest) -> pa.Table:
    """The result of a search over the splits of a task."""
    request.check(task.schema)
    alone = len(task.plan.splits) == 1  # its own statistics are the table's
    statistics = word_statistics(task, request) if request.scores and not alone else None
    return merge_results(list(task.each(lambda e: search_one(task, e, request, statistics))), request, task.schema)


def word_statistics(task: ScanTask, request: SearchRequest) -> TermStatistics:
    """How rare the words of the query are in the splits of a task; those of several tasks add up."""
    return total(task.each(lambda entry: term_statistics(task.open(entry), request.query)))


def search_one(
    task: ScanTask, entry: SplitEntry, request: SearchRequest, statistics: TermStatistics | None
) -> pa.Table:
    """What one split contributes."""
    asked = replace(request, where=None) if entry.certain else request
    return search_split(task.open(entry), asked, statistics)
