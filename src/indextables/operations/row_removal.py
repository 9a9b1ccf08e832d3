"""Taking rows out of splits: a split that loses a few rows keeps its file and gets a deletion
vector, others are rewritten.

The rows are those that match a condition, which a worker finds, or rows whose numbers are known. A
`DeleteTask` is plain values and travels by pickle. `removal_changes` makes the commit of what the
tasks report; a table and Spark both use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from indextables.config import Settings
from indextables.config.upkeep import DeleteSettings
from indextables.handle import ENGINE_INFO, TableHandle
from indextables.log.transaction import Changes, RowDeletion, WrittenVector
from indextables.model.actions import AddAction, MetadataAction
from indextables.model.deletion_vector import RowSet, decode_rows, encode_rows, vector_path
from indextables.model.predicate import Predicate
from indextables.model.report import Progress, silent
from indextables.model.snapshot import Snapshot
from indextables.operations.jobs import Execute, collect
from indextables.operations.rewrite import (
    ListedSplit,
    Naming,
    SourceSplit,
    SplitRewriter,
    discard,
    source_splits,
)
from indextables.splits.query.tree import AllRows, Query
from indextables.splits.read.foreign import ForeignReader
from indextables.splits.read.searchable import Rows
from indextables.splits.read.table_split import TableSplit, open_table_split
from indextables.splits.search.match import find_rows
from indextables.splits.write.merge import MergeSource
from indextables.storage.spec import StoreSpec, open_table_store
from indextables.storage.store import Store
from indextables.storage.vector_files import VectorWriter


def can_keep_file(removed: int, stored: int, *, vector_share: float) -> bool:
    """Return whether a split keeps its file and gets a vector: `removed` of its `stored` rows are
    deleted by then.

    The setting `delete.mode` (with `delete.maxVectorShare`) decides which share is allowed.
    """
    return removed <= vector_share * stored


class DeleteOutcome(Struct, frozen=True):
    """Result for one split: `deleted` of its rows match; `added` holds the others if it was
    rewritten.
    """

    path: str
    deleted: int
    added: AddAction | None = None
    places: bytes | None = None
    """Row numbers in the file as a bitmap, if a vector is to name them."""
    stored_rows: int = 0
    vector: WrittenVector | None = None
    """The vector that names them, if it is already written; `places` is None then."""


class DeleteTask(Struct, frozen=True):
    """Everything a worker needs to delete rows of a split."""

    rewriter: SplitRewriter
    source: SourceSplit
    partition_values: dict[str, str | None]
    where: Predicate | None
    query: Query | None
    vector_share: float = 0.0
    """The share of the file's rows up to which the file is kept."""
    places: bytes | None = None
    """Row numbers in the file, if already known."""

    def run(self, *, store: Store | None = None, naming: Naming | None = None) -> DeleteOutcome:
        """Find the rows, and rewrite the split if many are deleted."""
        decided = self._decide()
        if decided is not None:
            return decided
        split_store = store or open_table_store(self.rewriter.spec)
        entry = self.source.entry(self.partition_values)
        split = open_table_split(
            split_store, entry, self.rewriter.schema, self.rewriter.partition_columns
        )
        with ExitStack() as closed:
            if isinstance(split.reader, ForeignReader):
                closed.enter_context(closing(split.reader))
            rows = self._rows(split)
            if len(rows) in (0, split.num_rows):
                return DeleteOutcome(self.source.path, len(rows))
            places = split.places(rows)
            gone = split.stored_rows - split.num_rows + len(rows)
            if can_keep_file(gone, split.stored_rows, vector_share=self.vector_share):
                return DeleteOutcome(
                    self.source.path,
                    len(rows),
                    places=encode_rows(places),
                    stored_rows=split.stored_rows,
                )
            if split.mask is None:
                alive = np.ones(split.stored_rows, np.bool_)
            else:
                alive = split.mask.alive.copy()
            alive[places] = False
            added = self.rewriter.rewrite(
                [(self.source, MergeSource(split.reader, alive))],
                self.partition_values,
                store=split_store,
                naming=naming or Naming(),
                num_merge_ops=self.source.num_merge_ops,
                # Its rows are in the table already; the removal of the replaced split records which
                # rows are deleted.
                data_change=False,
            )
        return DeleteOutcome(self.source.path, len(rows), added)

    def _decide(self) -> DeleteOutcome | None:
        """Return the outcome if the log and the known row numbers suffice, or None if the split
        must be opened.
        """
        stored = self.source.stored_records
        if self.places is None or not stored:
            return None
        count = len(decode_rows(self.places, path=self.source.path))
        gone = (self.source.deleted or 0) + count
        if count == 0 or gone == stored:
            return DeleteOutcome(self.source.path, count)
        if can_keep_file(gone, stored, vector_share=self.vector_share):
            return DeleteOutcome(self.source.path, count, places=self.places, stored_rows=stored)
        return None

    def _rows(self, split: TableSplit) -> Rows:
        if self.places is None:
            return find_rows(split, self.query or AllRows(), where=self.where)
        places = decode_rows(self.places, path=self.source.path)
        if split.mask is None:
            living = np.arange(split.stored_rows)
        else:
            living = split.mask.living
        return np.searchsorted(living, places).astype(np.int64)


class VectorTask(Struct, frozen=True):
    """Deletes rows of some splits and writes their vectors to one file in the worker, so that no
    row number leaves it.
    """

    parts: tuple[DeleteTask, ...]

    def run(self, *, store: Store | None = None) -> list[DeleteOutcome]:
        """Return the outcomes in the order of the parts. If one fails, the files written for the
        others are deleted.
        """
        if not self.parts:
            return []
        split_store = store or open_table_store(self.parts[0].rewriter.spec)
        outcomes: list[DeleteOutcome] = []
        writer = VectorWriter(split_store)
        try:
            for part in self.parts:
                outcomes.append(part.run(store=split_store))
            return self._with_vectors(outcomes, writer)
        except BaseException:
            discard(
                split_store,
                [*writer.written, *(action.path for action in RewriteResult(tuple(outcomes)).adds)],
            )
            raise

    def _with_vectors(
        self, outcomes: list[DeleteOutcome], writer: VectorWriter
    ) -> list[DeleteOutcome]:
        sources = {part.source.path: part.source for part in self.parts}
        masked = [outcome for outcome in outcomes if outcome.places is not None]
        sets: list[RowSet] = []
        for outcome in masked:
            assert outcome.places is not None
            source, rows = sources[outcome.path], decode_rows(outcome.places, path=outcome.path)
            known = writer.load(source.vector, source.deleted)
            sets.append(rows if known is None else np.union1d(known, rows))
        vectors = {
            outcome.path: WrittenVector(
                outcome.path, sources[outcome.path].vector, text, len(rows), outcome.stored_rows
            )
            for outcome, rows, text in zip(masked, sets, writer.save(sets), strict=True)
        }
        return [
            replace(outcome, places=None, vector=vectors.get(outcome.path)) for outcome in outcomes
        ]


class RemovalPlan(Struct, frozen=True):
    """Splits of a snapshot that may lose rows, and which rows: those that match, or those whose
    numbers are known.
    """

    read: Snapshot
    sources: tuple[ListedSplit, ...]
    where: Predicate | None = None
    query: Query | None = None
    places: Mapping[str, bytes] = {}
    """Row numbers in the files of splits, by path, where they are known."""

    @property
    def vectors(self) -> dict[str, str | None]:
        """The deletion vectors of the splits in the snapshot."""
        return {source.path: source.vector for _, source in self.sources}

    def tasks(
        self, *, spec: StoreSpec, settings: Settings, vector_share: float = 0.0
    ) -> list[DeleteTask]:
        """Return a task for each split. With the default share every split that loses a row is
        rewritten.
        """
        rewriter = SplitRewriter.of(self.read.metadata, spec=spec, settings=settings)
        return [
            DeleteTask(
                rewriter,
                source,
                dict(values),
                self.where,
                self.query,
                vector_share,
                self.places.get(source.path),
            )
            for values, source in self.sources
        ]


def plan_removal(snapshot: Snapshot, rows: Mapping[str, RowSet]) -> RemovalPlan:
    """Plan to remove rows whose numbers in the files of splits are known."""
    if rows:
        files = snapshot.all_files
    else:
        files = snapshot.all_files.slice(0, 0)
    chosen = files.filter(
        pc.is_in(files.column("path"), value_set=pa.array(sorted(rows), pa.string()))
    )
    return RemovalPlan(
        snapshot,
        tuple(source_splits(chosen, snapshot.schema_registry)),
        places={path: encode_rows(numbers) for path, numbers in rows.items()},
    )


class RewriteResult(Struct, frozen=True):
    """Result for splits that were read; nothing is committed yet."""

    outcomes: tuple[DeleteOutcome, ...]

    @property
    def adds(self) -> list[AddAction]:
        """The new splits."""
        return [outcome.added for outcome in self.outcomes if outcome.added is not None]

    @property
    def removes(self) -> list[str]:
        """The replaced splits, and those without remaining rows."""
        whole = (
            outcome
            for outcome in self.outcomes
            if outcome.places is None and outcome.vector is None
        )
        return [outcome.path for outcome in whole if outcome.deleted]

    @property
    def deletions(self) -> list[RowDeletion | WrittenVector]:
        """The deleted rows of splits that stay."""
        deletions: list[RowDeletion | WrittenVector] = []
        for outcome in self.outcomes:
            if outcome.vector is not None:
                deletions.append(outcome.vector)
            elif outcome.places is not None:
                rows = decode_rows(outcome.places, path=outcome.path)
                deletions.append(RowDeletion(outcome.path, rows, outcome.stored_rows))
        return deletions

    @property
    def vector_files(self) -> list[str]:
        """The vector files that workers have written."""
        vectors = (outcome.vector.vector for outcome in self.outcomes if outcome.vector is not None)
        return sorted({path for vector in vectors if (path := vector_path(vector)) is not None})

    @property
    def deleted(self) -> int:
        """Number of deleted rows."""
        return sum(outcome.deleted for outcome in self.outcomes)


def vector_share(table: TableHandle) -> float:
    """Return the share of deleted rows up to which a split of the table keeps its file."""
    return table.settings.group(DeleteSettings).vector_share


def remove_rows(
    planned: RemovalPlan,
    *,
    store: Store,
    spec: StoreSpec,
    settings: Settings,
    execute: Execute[DeleteTask, DeleteOutcome],
    progress: Progress = silent,
    vector_share: float = 0.0,
) -> RewriteResult:
    """Run the tasks of a plan. If one fails, what the others wrote is deleted; nothing is committed
    here.
    """
    work = planned.tasks(spec=spec, settings=settings, vector_share=vector_share)
    outcomes: list[DeleteOutcome] = []
    try:
        collect(
            execute(work) if work else (),
            outcomes,
            lambda: progress(len(outcomes), len(work), "splits"),
        )
    except BaseException:
        done = RewriteResult(tuple(outcomes))
        discard(store, [*done.vector_files, *(action.path for action in done.adds)])
        raise
    return RewriteResult(tuple(outcomes))


def removal_changes(
    operation: str,
    result: RewriteResult,
    *,
    store: Store,
    vectors: Mapping[str, str | None],
    adds: Sequence[AddAction] = (),
    removes: Sequence[str] = (),
    keys: Predicate | None = None,
    metadata: MetadataAction | None = None,
    parameters: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
    user_metadata: str | None = None,
) -> Changes:
    """Return the one commit that takes rows out of splits, with other splits that are added or
    removed whole.

    `vectors` are the deletion vectors of all splits that are changed or removed, as they were read.
    `keys` is a condition that no row added by another writer may match.
    """
    return Changes(
        operation,
        adds=[*adds, *result.adds],
        removes=[*removes, *result.removes],
        vectors=vectors,
        deletions=result.deletions,
        writer=VectorWriter(store, written=result.vector_files),
        keys=keys,
        metadata=metadata,
        parameters=dict(parameters or {}),
        metrics=dict(metrics or {}),
        user_metadata=user_metadata,
        engine_info=ENGINE_INFO,
    )
