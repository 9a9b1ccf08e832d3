"""Delete rows in one version: a split that loses few rows gets a deletion vector, one that loses
many is rewritten.

The log decides what it can: a split whose rows all match is removed unread, one that cannot match
stays. A picklable `DeleteTask` finds the matching rows of the others. Retention by time computes
its condition from the table's settings and a given clock.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from contextlib import ExitStack, closing
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from indextables.config import Settings
from indextables.config.upkeep import DeleteSettings, ExpirySettings
from indextables.errors import InvalidInputError
from indextables.log.live_files import files_in_parts
from indextables.log.transaction import Changes, RowDeletion, WrittenVector
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction
from indextables.model.conflicts import Operation
from indextables.model.deletion_vector import RowSet, decode_rows, encode_rows, vector_path
from indextables.model.predicate import Column, Comparison, Literal, Predicate
from indextables.model.pruning import all_match, may_match
from indextables.model.report import Progress, Report, counted, silent, was
from indextables.model.schema import find_column
from indextables.model.snapshot import Snapshot
from indextables.operations.jobs import DRY_RUN, NO_ACTION, SUCCESS, Execute, collect
from indextables.operations.rewrite import ListedSplit, Naming, SourceSplit, SplitRewriter, discard, source_splits
from indextables.splits.query.tree import AllRows, Query
from indextables.splits.read.foreign import ForeignReader
from indextables.splits.read.searchable import Rows
from indextables.splits.read.table_split import TableSplit, open_table_split
from indextables.splits.search.match import find_rows
from indextables.splits.write.merge import MergeSource
from indextables.storage.spec import StoreSpec, open_table_store
from indextables.storage.store import Store
from indextables.storage.vector_files import VectorWriter


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
    """Maximum share of the file's rows in a vector; above it the split is rewritten."""
    places: bytes | None = None
    """Row numbers in the file, if already known."""

    def run(self, *, store: Store | None = None, naming: Naming | None = None) -> DeleteOutcome:
        """Find the rows, and rewrite the split if many are deleted."""
        decided = self._decide()
        if decided is not None:
            return decided
        split_store = store or open_table_store(self.rewriter.spec)
        entry = self.source.entry(self.partition_values)
        split = open_table_split(split_store, entry, self.rewriter.schema, self.rewriter.partition_columns)
        with ExitStack() as closed:
            if isinstance(split.reader, ForeignReader):
                closed.enter_context(closing(split.reader))
            rows = self._rows(split)
            if len(rows) in (0, split.num_rows):
                return DeleteOutcome(self.source.path, len(rows))
            places = split.places(rows)
            gone = split.stored_rows - split.num_rows + len(rows)
            if gone <= self.vector_share * split.stored_rows:
                return DeleteOutcome(
                    self.source.path, len(rows), places=encode_rows(places), stored_rows=split.stored_rows
                )
            alive = np.ones(split.stored_rows, np.bool_) if split.mask is None else split.mask.alive.copy()
            alive[places] = False
            added = self.rewriter.rewrite(
                [(self.source, MergeSource(split.reader, alive))],
                self.partition_values,
                store=split_store,
                naming=naming or Naming(),
                num_merge_ops=self.source.num_merge_ops,
                # Its rows are all in the table already; what goes is told by the removal of the split it replaces.
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
        if gone <= self.vector_share * stored:
            return DeleteOutcome(self.source.path, count, places=self.places, stored_rows=stored)
        return None

    def _rows(self, split: TableSplit) -> Rows:
        if self.places is None:
            return find_rows(split, self.query or AllRows(), where=self.where)
        places = decode_rows(self.places, path=self.source.path)
        living = np.arange(split.stored_rows) if split.mask is None else split.mask.living
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
            discard(split_store, [*writer.written, *(action.path for action in RewriteResult(tuple(outcomes)).adds)])
            raise

    def _with_vectors(self, outcomes: list[DeleteOutcome], writer: VectorWriter) -> list[DeleteOutcome]:
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
        return [replace(outcome, places=None, vector=vectors.get(outcome.path)) for outcome in outcomes]


class DeleteReport(Report, frozen=True):
    """What was, or would be, deleted. A dry run may count splits that turn out to stay.

    `splits_masked` kept their files: a deletion vector names the deleted rows.
    """

    table_path: str
    status: str
    deleted_rows: int | None
    splits_rewritten: int
    splits_removed: int
    version: int | None
    message: str
    splits_masked: int = 0


class DeletePlan(Report, frozen=True):
    """The splits that are removed whole, and those that must be read."""

    table_path: str
    version: int
    where: Predicate | None
    query: Query | None
    removed_splits: tuple[str, ...]
    removed_rows: int | None
    """Rows of the splits that are removed whole; None if the log has no counts."""
    candidates: tuple[str, ...]
    sources: tuple[ListedSplit, ...]
    read: Snapshot
    vectors: Mapping[str, str | None]
    """The deletion vectors of all these splits, as they were read."""
    places: Mapping[str, bytes] = {}
    """Row numbers to delete in the files of splits, if already known."""
    hidden: ClassVar[tuple[str, ...]] = ("sources", "read", "vectors", "places")

    def preview(self, rows: int) -> DeleteReport:
        """Return the report of a dry run, given how many rows match."""
        message = "No row matches."
        if rows:
            message = (
                f"{counted(rows, 'row')} would be deleted: {counted(len(self.removed_splits), 'split')} would be removed, "
                f"{len(self.candidates)} would be looked into."
            )
        status = DRY_RUN if rows else NO_ACTION
        return DeleteReport(
            self.table_path, status, rows, len(self.candidates), len(self.removed_splits), None, message
        )


def plan(snapshot: Snapshot, *, url: str, where: Predicate | None = None, query: Query | None = None) -> DeletePlan:
    """Find the splits of a snapshot that can hold rows to delete."""
    columns = tuple(snapshot.metadata.partition_columns or ())
    files = files_in_parts(snapshot, where)
    possible = np.ones(files.num_rows, np.bool_)
    certain = np.full(files.num_rows, query is None, np.bool_)
    if where is not None:
        possible &= np.asarray(may_match(where, files, partition_columns=columns))
        certain &= np.asarray(all_match(where, files, partition_columns=columns))
    removed = files.filter(pa.array(possible & certain))
    counts = removed.column("num_records").to_pylist()
    sources = source_splits(files.filter(pa.array(possible & ~certain)), snapshot.schema_registry)
    vectors = dict(zip(removed.column("path").to_pylist(), removed.column("deletion_vector").to_pylist(), strict=True))
    return DeletePlan(
        table_path=url,
        version=snapshot.version,
        where=where,
        query=query,
        removed_splits=tuple(removed.column("path").to_pylist()),
        removed_rows=None if None in counts else sum(counts),
        candidates=tuple(source.path for _, source in sources),
        sources=tuple(sources),
        read=snapshot,
        vectors={**vectors, **{source.path: source.vector for _, source in sources}},
    )


def plan_known(snapshot: Snapshot, places: Mapping[str, RowSet], *, url: str) -> DeletePlan:
    """Find the splits of a snapshot that lose rows with known numbers in their files."""
    files = snapshot.all_files if places else snapshot.all_files.slice(0, 0)
    chosen = files.filter(pc.is_in(files.column("path"), value_set=pa.array(sorted(places), pa.string())))
    sources = source_splits(chosen, snapshot.schema_registry)
    return DeletePlan(
        table_path=url,
        version=snapshot.version,
        where=None,
        query=None,
        removed_splits=(),
        removed_rows=0,
        candidates=tuple(source.path for _, source in sources),
        sources=tuple(sources),
        read=snapshot,
        vectors={source.path: source.vector for _, source in sources},
        places={path: encode_rows(rows) for path, rows in places.items()},
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
        whole = (outcome for outcome in self.outcomes if outcome.places is None and outcome.vector is None)
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


def rewrite(
    planned: DeletePlan,
    *,
    store: Store,
    spec: StoreSpec,
    settings: Settings,
    execute: Execute[DeleteTask, DeleteOutcome],
    progress: Progress = silent,
    vector_share: float = 0.0,
) -> RewriteResult:
    """Read the candidates of a plan and rewrite those that hold rows to delete. All, or an error
    and none.

    Splits that lose at most a share of their rows only get vectors.
    """
    rewriter = SplitRewriter.of(planned.read.metadata, spec=spec, settings=settings)
    work = [
        DeleteTask(
            rewriter,
            source,
            dict(values),
            planned.where,
            planned.query,
            vector_share,
            planned.places.get(source.path),
        )
        for values, source in planned.sources
    ]
    outcomes: list[DeleteOutcome] = []
    try:
        collect(execute(work) if work else (), outcomes, lambda: progress(len(outcomes), len(work), "splits"))
    except BaseException:
        done = RewriteResult(tuple(outcomes))
        discard(store, [*done.vector_files, *(action.path for action in done.adds)])
        raise
    return RewriteResult(tuple(outcomes))


def run(
    planned: DeletePlan,
    log: TransactionLog,
    *,
    spec: StoreSpec,
    settings: Settings,
    execute: Execute[DeleteTask, DeleteOutcome],
    progress: Progress = silent,
    engine_info: str | None = None,
) -> DeleteReport:
    """Delete the rows. Raises ConflictError, and commits nothing, if another writer has replaced
    one of the splits.
    """
    share = settings.group(DeleteSettings).vector_share
    done = rewrite(
        planned, store=log.store, spec=spec, settings=settings, execute=execute, progress=progress, vector_share=share
    )
    condition = {"where": planned.where, "query": planned.query}
    changes = Changes(
        Operation.DELETE,
        adds=done.adds,
        removes=[*planned.removed_splits, *done.removes],
        vectors=planned.vectors,
        deletions=done.deletions,
        writer=VectorWriter(log.store, written=done.vector_files),
        parameters={name: str(value) for name, value in condition.items() if value is not None},
        metrics={"numDeletedRecords": done.deleted + (planned.removed_rows or 0)},
        engine_info=engine_info,
    )
    version = log.commit(planned.read, changes, written=[action.path for action in done.adds]).version
    rows = None if planned.removed_rows is None else planned.removed_rows + done.deleted
    rewritten = len(done.adds)
    return DeleteReport(
        table_path=planned.table_path,
        status=NO_ACTION if version is None else SUCCESS,
        deleted_rows=rows,
        splits_rewritten=rewritten,
        splits_removed=len(planned.removed_splits) + len(done.removes) - rewritten,
        version=version,
        message="No row matches." if version is None else _message(rows),
        splits_masked=len(done.deletions),
    )


def _message(rows: int | None) -> str:
    return "Rows were deleted." if rows is None else f"{counted(rows, 'row')} {was(rows)} deleted."


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def expired_rows(schema: pa.Schema, settings: ExpirySettings, now_ms: int) -> Predicate:
    """Return the condition of expired rows. A table without a retention column and period is an
    error.
    """
    check_retention(schema, settings)
    if not settings.column:
        raise InvalidInputError(
            "The table does not say for how long rows are kept.",
            hint="Set both: update_metadata(options={'retention.column': 'ts', 'retention.period': '30 days'}).",
        )
    column = find_column(schema, settings.column)
    limit = _EPOCH + dt.timedelta(milliseconds=now_ms - settings.period_ms)
    kind = schema.field(column).type
    value: dt.date = limit
    if pa.types.is_date(kind):
        value = limit.date()
    elif kind.tz is None:
        value = limit.replace(tzinfo=None)
    return Comparison("<", Column((column,)), Literal(value))


def check_retention(schema: pa.Schema, settings: ExpirySettings) -> None:
    """Refuse a retention without a column or a period, and a column that does not hold times."""
    if bool(settings.column) != bool(settings.period_ms):
        given, missing = ("column", "period") if settings.column else ("period", "column")
        raise InvalidInputError(
            f"retention.{given} is set and retention.{missing} is not.", hint="Set both, or neither.", key=missing
        )
    if not settings.column:
        return
    column = find_column(schema, settings.column)
    kind = schema.field(column).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise InvalidInputError(
            f"Rows cannot grow old by {column!r}, which is {kind}.",
            hint="Name a column of dates or times.",
            column=column,
        )
