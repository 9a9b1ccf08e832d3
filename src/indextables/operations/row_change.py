"""One version in which rows of a table are removed and others added: what updates and upserts plan
and commit.

Old rows are removed as by a delete (`row_removal`); new rows are in splits of their own. Concurrent
changes of the same splits are judged row by row (`model/conflicts.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from indextables.config.upkeep import MergeSettings
from indextables.handle import TableHandle
from indextables.model.actions import AddAction
from indextables.model.conflicts import Operation
from indextables.model.deletion_vector import RowSet
from indextables.model.predicate import Predicate
from indextables.operations.auto_upkeep import run_after_write
from indextables.operations.jobs import in_threads
from indextables.operations.row_removal import (
    RewriteResult,
    plan_removal,
    removal_changes,
    remove_rows,
    vector_share,
)
from indextables.query.plan import ScanPlan
from indextables.query.task import ScanTask
from indextables.splits.query.tree import AllRows
from indextables.splits.read.table_split import SplitEntry, TableSplit
from indextables.splits.search.match import find_rows


class SplitRows(Struct, frozen=True):
    """Rows of one split that change."""

    entry: SplitEntry
    split: TableSplit
    rows: RowSet
    """Their numbers among the rows that are not deleted."""

    @property
    def stored_rows(self) -> RowSet:
        """Their numbers in the file of the split, ascending."""
        return np.sort(self.split.places(self.rows))


def find_split_rows(task: ScanTask, plan: ScanPlan) -> list[SplitRows]:
    """Return the rows that match a plan, for each split that has one."""
    found = []
    for number in task.find_candidates():
        entry = plan.splits[number]
        split = task.open(entry)
        rows = find_rows(
            split, plan.query or AllRows(), where=None if entry.certain else plan.where
        )
        if len(rows):
            found.append(SplitRows(entry, split, rows))
    return found


def count_rows(changed: Sequence[SplitRows]) -> int:
    """Return how many rows change."""
    return sum(len(each.rows) for each in changed)


class RowChange(Struct, frozen=True):
    """A planned change of rows."""

    table: TableHandle
    """The newest version, on which it was decided which rows change."""
    operation: Operation
    removed: Sequence[SplitRows]
    """Rows that are removed."""
    parameters: Mapping[str, Any]
    metrics: Mapping[str, Any]
    keys: Predicate | None = None
    """A condition on rows with a key that is inserted: a row that another writer adds must not
    match it.
    """
    user_metadata: str | None = None

    def commit(self, origin: TableHandle, added: Sequence[AddAction]) -> int | None:
        """Commit one version, and show it in `origin`. Return None if there was nothing to do.

        If it fails, the splits in `added` are deleted, unless they may be committed.
        """
        table, read = self.table, self.table.snapshot
        try:
            result, vectors = self._remove()
        except BaseException:
            table.log.discard([action.path for action in added], since=read.version)
            raise
        changes = removal_changes(
            self.operation,
            result,
            store=table.log.store,
            vectors=vectors,
            adds=added,
            keys=self.keys,
            parameters=self.parameters,
            metrics=self.metrics,
            user_metadata=self.user_metadata,
        )
        committed = table.log.commit(
            read, changes, written=[action.path for action in changes.adds]
        )
        origin.show(committed.snapshot)
        if committed.version is not None:
            run_after_write(origin, committed.version)
        return committed.version

    def _remove(self) -> tuple[RewriteResult, Mapping[str, str | None]]:
        """Write vectors or new splits for the splits that lose rows."""
        table = self.table
        planned = plan_removal(
            table.snapshot, {each.entry.path: each.stored_rows for each in self.removed}
        )
        parallelism = table.settings.group(MergeSettings).parallelism
        result = remove_rows(
            planned,
            store=table.log.store,
            spec=table.spec,
            settings=table.search_settings,
            execute=in_threads(table.log.store, parallelism=parallelism),
            vector_share=vector_share(table),
        )
        return result, planned.vectors
