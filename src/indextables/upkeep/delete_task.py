"""Deleting rows of one split: it is found out which match, and a split without them takes its place.

A `DeleteTask` is plain values and travels by pickle.
"""

from __future__ import annotations

from contextlib import ExitStack, closing

import numpy as np
from msgspec import Struct

from indextables.model.actions import AddAction
from indextables.model.predicate import Predicate
from indextables.splits.foreign import ForeignReader
from indextables.splits.merge import MergeSource
from indextables.splits.query.tree import AllRows, Query
from indextables.splits.rows import find_rows
from indextables.splits.table_split import open_table_split
from indextables.storage.spec import open_store
from indextables.storage.store import Store
from indextables.upkeep.rewriting import Naming, SourceSplit, SplitRewriter


class DeleteOutcome(Struct, frozen=True):
    """What became of a split: `deleted` of its rows match; `added` holds the others, if there are both."""

    path: str
    deleted: int
    added: AddAction | None = None


class DeleteTask(Struct, frozen=True):
    """Everything a worker needs to delete rows of a split."""

    rewriter: SplitRewriter
    source: SourceSplit
    partition_values: dict[str, str | None]
    where: Predicate | None
    query: Query | None

    def run(self, *, store: Store | None = None, naming: Naming | None = None) -> DeleteOutcome:
        """Find the rows, and write the others anew."""
        opened = store or open_store(self.rewriter.spec)
        entry = self.source.entry(self.partition_values)
        split = open_table_split(opened, entry, self.rewriter.schema, self.rewriter.partition_columns)
        with ExitStack() as closed:
            if isinstance(split.reader, ForeignReader):
                closed.enter_context(closing(split.reader))
            rows = find_rows(split, self.query or AllRows(), where=self.where)
            if len(rows) in (0, split.num_rows):
                return DeleteOutcome(self.source.path, len(rows))
            alive = np.ones(split.num_rows, np.bool_)
            alive[rows] = False
            added = self.rewriter.rewrite(
                [(self.source, MergeSource(split.reader, alive))],
                self.partition_values,
                store=opened,
                naming=naming or Naming(),
                num_merge_ops=self.source.num_merge_ops,
                # Its rows are all in the table already; what goes is told by the removal of the split it replaces.
                data_change=False,
            )
        return DeleteOutcome(self.source.path, len(rows), added)
