"""Changing rows in one version: updating those that match, and upserting rows by their keys.

Old rows go by a deletion vector, or with a split that is written anew without them, as for a deletion; new ones come in
splits of their own. What others do on the same splits meanwhile is judged row by row (see `model/conflicts.py`).

    change = RowChange.of(table, Operation.UPDATE)     the version that is read
    change.drop(path, places, stored_rows)             rows that go, by their numbers in the file
    change.commit(added, ...)                          one version, or ConflictError and nothing
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from indextables.config.upkeep import DeleteSettings, MergeSettings, PurgeSettings
from indextables.errors import InvalidInputError
from indextables.handle import ENGINE_INFO, TableHandle
from indextables.log.transaction import Changes
from indextables.model import predicate as predicates
from indextables.model.actions import AddAction
from indextables.model.arguments import number, text, unexpected
from indextables.model.column_names import ColumnNames
from indextables.model.conflicts import Operation
from indextables.model.deletion_vector import RowSet
from indextables.model.expression import Compute, assignment
from indextables.model.predicate import Predicate, Where, bound_predicate
from indextables.model.report import Progress, Report, counted, was
from indextables.model.schema import find_column, is_atomic
from indextables.model.snapshot import Snapshot
from indextables.operations import delete, erase
from indextables.operations import jobs as tasks
from indextables.operations.delete import DeleteOutcome, DeleteTask
from indextables.operations.incoming import Incoming, conformed, incoming
from indextables.operations.jobs import DRY_RUN, NO_ACTION, SUCCESS, Execute
from indextables.operations.purge import Retention
from indextables.query import plan as scans
from indextables.query.change_feed import CHANGE_TAG, UPDATED
from indextables.query.task import ScanTask
from indextables.splits.query.parser import parse
from indextables.splits.query.tree import AllRows, Equals, OneOf, Query, Target, Words
from indextables.splits.read.table_split import SplitEntry, TableSplit
from indextables.splits.search.match import find_rows
from indextables.storage.vector_files import VectorWriter
from indextables.table import planning
from indextables.table.auto_upkeep import keep_in_order

_ROW = "__row"
_SOURCE = "__source"
MOST_LISTED_KEYS = 1_000
"""Up to so many keys are looked for one by one in statistics and index; of more, the smallest and the largest."""


class RowChange(Struct):
    """Rows that go and rows that come, on the way to one version."""

    origin: TableHandle
    """Who asks for it, and shows its version afterwards."""
    table: TableHandle
    """The newest version, which is read."""
    operation: Operation
    dropped: dict[str, tuple[RowSet, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, table: TableHandle, operation: Operation) -> RowChange:
        """A change of the newest version."""
        table.check_writable()
        return cls(table, table.read_newest(), operation)

    @property
    def read(self) -> Snapshot:
        """The version on which it is decided which rows change."""
        return self.table.snapshot

    def drop(self, path: str, places: RowSet, stored_rows: int) -> None:
        """Let rows of a split go, by their numbers in its file. They must be part of the table."""
        if len(places):
            self.dropped[path] = np.sort(places), stored_rows

    @property
    def rows_dropped(self) -> int:
        """How many rows go."""
        return sum(len(places) for places, _ in self.dropped.values())

    def commit(
        self,
        added: Sequence[AddAction],
        *,
        parameters: Mapping[str, Any],
        metrics: Mapping[str, Any],
        keys: Predicate | None = None,
        user_metadata: str | None = None,
    ) -> int | None:
        """One version with all of it; None if there is nothing to do. What was written for it is deleted if it fails.

        `keys` is what rows fulfil that have a key which comes in: if others add such a row meanwhile, it is a ConflictError.
        """
        table = self.table
        try:
            planned, result = self._rewritten()
        except BaseException:
            table.log.discard([action.path for action in added], since=self.read.version)
            raise
        splits = [*added, *result.adds]
        changes = Changes(
            self.operation,
            adds=splits,
            removes=result.removes,
            vectors=planned.vectors,
            deletions=result.deletions,
            writer=VectorWriter(table.log.store),
            keys=keys,
            parameters=dict(parameters),
            metrics=dict(metrics),
            user_metadata=user_metadata,
            engine_info=ENGINE_INFO,
        )
        committed = table.log.commit(self.read, changes, written=[action.path for action in splits])
        self.origin.show(committed.snapshot)
        if committed.version is not None:
            keep_in_order(self.origin, committed.version)
        return committed.version

    def _rewritten(self) -> tuple[delete.DeletePlan, delete.RewriteResult]:
        """What becomes of the splits that lose rows: a vector, a split without the rows, or nothing."""
        table = self.table
        planned = delete.plan_known(
            self.read, {path: places for path, (places, _) in self.dropped.items()}, url=table.path
        )
        parallelism = table.settings.group(MergeSettings).parallelism
        return planned, delete.rewrite(
            planned,
            store=table.log.store,
            spec=table.spec,
            settings=table.search_settings,
            execute=tasks.in_threads(table.log.store, parallelism=parallelism),
            vector_share=table.settings.group(DeleteSettings).vector_share,
        )


# Deleting rows that match.


def delete_rows(
    table: TableHandle,
    *,
    where: Where | None,
    query: str | None,
    dry_run: bool,
    progress: Progress,
    execute: Execute[DeleteTask, DeleteOutcome] | None,
) -> delete.DeleteReport:
    """Delete the rows that match; see `Table.delete`."""
    table.check_writable()
    if where is None and query is None:
        hint = "Give where=..., query=..., or both; overwrite() replaces every row."
        raise InvalidInputError("Nothing says which rows to delete.", hint=hint)
    table = table.read_newest()
    snapshot, settings = table.snapshot, table.search_settings
    tree, predicate = _condition_of(table, where, query)
    names = table.names
    plan = delete.plan(
        snapshot,
        url=table.path,
        where=names.optional_predicate(predicate),
        query=None if tree is None else scans.physical_query(tree, names),
    )
    if dry_run:
        scan = scans.plan_scan(snapshot, table.spec, settings, query=tree, where=predicate, columns=())
        return plan.preview(ScanTask(scan, table.log.store).count())
    parallelism = table.settings.group(MergeSettings).parallelism
    return delete.run(
        plan,
        table.log,
        spec=table.spec,
        settings=settings,
        execute=execute or tasks.in_threads(table.log.store, parallelism=parallelism),
        progress=progress,
        engine_info=ENGINE_INFO,
    )


def erase_rows(
    table: TableHandle, *, where: Where | None, retention_hours: float | None, dry_run: bool, progress: Progress
) -> erase.EraseReport:
    """Erase the rows that match; see `Table.erase`."""
    if where is None:
        hint = 'Give where=...; where="true" erases every row.'
        raise InvalidInputError("Nothing says which rows to erase.", hint=hint)
    table = table.read_newest()
    condition = table.bind_physical(where)
    assert condition is not None
    hours = None if retention_hours is None else number("retention_hours", retention_hours, "hours")
    eraser = erase.Eraser.of(
        table.snapshot,
        table.log,
        where=condition,
        retention=Retention.checked(table.settings.group(PurgeSettings), split_hours=hours, log_hours=hours),
        spec=table.spec,
        settings=table.search_settings,
        progress=progress,
        engine_info=ENGINE_INFO,
    )
    return eraser.preview(table.snapshot) if dry_run else eraser.run(table.snapshot)


def _condition_of(table: TableHandle, where: Where | None, query: str | None) -> tuple[Query | None, Predicate | None]:
    """What rows are to match, understood once: a moment that is relative to the clock is the same for every split."""
    clock = table.log.now_ms()
    fields = planning.query_fields(table)
    tree = None if query is None else parse(text("query", query), fields, now_ms=clock)
    return tree, bound_predicate(where, table.schema, now_ms=clock, zone=table.time_zone)


# Updating rows that match.


class UpdateReport(Report, frozen=True):
    """What was updated, or would be."""

    table_path: str
    status: str
    updated_rows: int
    splits_changed: int
    version: int | None
    message: str


def update(
    table: TableHandle,
    assignments: Mapping[str, Any],
    *,
    where: Where | None,
    query: str | None,
    dry_run: bool,
    user_metadata: str | None,
) -> UpdateReport:
    """Set columns of the rows that match; see `Table.update`."""
    change = RowChange.of(table, Operation.UPDATE)
    table = change.table
    schema = table.schema
    computes = _assignments(assignments, schema)
    tree, predicate = _condition_of(table, where, query)
    scan = scans.plan_scan(change.read, table.spec, table.search_settings, query=tree, where=predicate)
    task = ScanTask(scan, table.log.store)
    if dry_run:
        return _update_report(table, task.count(), len(scan.splits), None, dry_run=True)
    write = planning.plan_write(table, schema, operation=Operation.UPDATE)
    batches = _updated(task, change, computes)
    added = [
        replace(a, tags={**(a.tags or {}), CHANGE_TAG: UPDATED}) for a in write.run(batches, store=table.log.store)
    ]
    condition = {"where": predicate, "query": tree}
    parameters = {name: str(value) for name, value in condition.items() if value is not None}
    rows = change.rows_dropped
    version = change.commit(
        added,
        parameters={**parameters, "set": {name: str(value) for name, value in assignments.items()}},
        metrics={"numUpdatedRecords": rows},
        user_metadata=user_metadata,
    )
    return _update_report(table, rows, len(change.dropped), version)


def _assignments(given: Mapping[str, Any], schema: pa.Schema) -> dict[str, Compute]:
    if not isinstance(given, Mapping):
        raise unexpected("set", "a mapping of columns to values", given)
    if not given:
        raise InvalidInputError("Nothing says what to set.", hint='Give set={"column": "expression"}.')
    computes: dict[str, Compute] = {}
    for name, value in given.items():
        column = find_column(schema, name)
        if column in computes:
            raise InvalidInputError(f"Column {column!r} is set twice.", column=column)
        computes[column] = assignment(value, column, schema)
    return computes


def _updated(task: ScanTask, change: RowChange, computes: Mapping[str, Compute]) -> Iterator[pa.RecordBatch]:
    """The new rows, split after split; what they take the place of is noted on the way."""
    plan = task.plan
    for entry in plan.splits:
        split = task.open(entry)
        rows = find_rows(split, plan.query or AllRows(), where=None if entry.certain else plan.where)
        if not len(rows):
            continue
        change.drop(entry.path, split.places(rows), split.stored_rows)
        for batch in split.iter_rows(rows):
            old = plan.names.to_logical(pa.Table.from_batches([batch]))
            new = old
            for name, compute in computes.items():
                new = new.set_column(old.schema.get_field_index(name), old.schema.field(name), compute(old))
            yield from new.combine_chunks().to_batches()


def _update_report(
    table: TableHandle, rows: int, splits: int, version: int | None, *, dry_run: bool = False
) -> UpdateReport:
    done = f"{counted(rows, 'row')} would be updated." if dry_run else f"{counted(rows, 'row')} {was(rows)} updated."
    status = NO_ACTION if not rows else DRY_RUN if dry_run else SUCCESS
    return UpdateReport(table.path, status, rows, splits, version, done if rows else "No row matches.")


# Upserting rows by their keys.


class UpsertReport(Report, frozen=True):
    """What an upsert did, or would do."""

    table_path: str
    status: str
    inserted_rows: int
    updated_rows: int
    deleted_rows: int
    source_rows: int
    splits_searched: int
    version: int | None
    message: str


WhenMatched = Literal["update", "ignore", "delete"]
WhenNotMatched = Literal["insert", "ignore"]


class _UpsertRows(Struct, frozen=True):
    """The rows to upsert, their keys, and what rows of the table fulfil that have one of them."""

    rows: pa.Table
    on: tuple[str, ...]
    keyed: pa.Table
    """The keys that can match, with the number of their row: a null is equal to nothing."""
    condition: Predicate | None
    names: ColumnNames
    """What the splits call the columns; everything above is in people's names."""


class _Matches(Struct):
    """Which rows of the table have a key of the source."""

    sources: list[RowSet] = field(default_factory=list)
    """For each split the numbers of rows of the source, in the order of `places`."""
    splits: list[tuple[TableSplit, SplitEntry, RowSet]] = field(default_factory=list)

    @property
    def matched(self) -> RowSet:
        """The rows of the source that match some row."""
        return np.unique(np.concatenate(self.sources)) if self.sources else np.empty(0, np.int64)

    @property
    def rows(self) -> int:
        """How many rows of the table match."""
        return sum(len(rows) for _, _, rows in self.splits)


def upsert(
    table: TableHandle,
    data: Any,
    *,
    on: Sequence[str],
    when_matched: str,
    when_not_matched: str,
    dry_run: bool,
    user_metadata: str | None,
) -> UpsertReport:
    """Write rows by their keys; see `Table.upsert`."""
    for name, given, allowed in (
        ("when_matched", when_matched, ("update", "ignore", "delete")),
        ("when_not_matched", when_not_matched, ("insert", "ignore")),
    ):
        if given not in allowed:
            raise InvalidInputError(f"{name} is {given!r}.", hint=f"It can be {', '.join(allowed)}.")
    change = RowChange.of(table, Operation.UPSERT)
    table = change.table
    rows_in = incoming(data, table.schema.names, schema=table.schema)
    write = planning.plan_write(table, rows_in.schema, operation=Operation.UPSERT)
    source = _source(_whole(rows_in), on, table.names, table.path)
    scan = scans.plan_scan(change.read, table.spec, table.search_settings, where=source.condition)
    task = ScanTask(scan, table.log.store)
    matches = _matches(task, source) if source.condition is not None else _Matches()
    inserts = (
        source.rows.take(_unmatched(source.rows.num_rows, matches.matched)) if when_not_matched == "insert" else None
    )
    counts = {
        "inserted": 0 if inserts is None else inserts.num_rows,
        "updated": matches.rows if when_matched == "update" else 0,
        "deleted": matches.rows if when_matched == "delete" else 0,
    }
    searched = len(scan.splits) if source.condition is not None else 0
    if dry_run:
        return _upsert_report(table, source, counts, searched, None, dry_run=True)
    if when_matched != "ignore":
        for split, entry, rows in matches.splits:
            change.drop(entry.path, split.places(rows), split.stored_rows)
    added: list[AddAction] = []
    store = table.log.store
    try:
        if when_matched == "update":
            new = write.run(_replacements(matches, source), store=store)
            added += [replace(a, tags={**(a.tags or {}), CHANGE_TAG: UPDATED}) for a in new]
        if inserts is not None and inserts.num_rows:
            added += write.run(inserts.to_batches(), store=store)
    except BaseException:
        table.log.discard([action.path for action in added], since=change.read.version)
        raise
    version = change.commit(
        added,
        parameters={"on": list(source.on), "whenMatched": when_matched, "whenNotMatched": when_not_matched},
        metrics={f"num{what.title()}Records": count for what, count in counts.items()},
        keys=table.names.optional_predicate(source.condition) if counts["inserted"] else None,
        user_metadata=user_metadata,
    )
    return _upsert_report(table, source, counts, searched, version)


def _whole(rows_in: Incoming) -> pa.Table:
    """All of the rows. Batches without a column of the others are refused: its values would be replaced by nulls."""
    batches = []
    for position, batch in enumerate(rows_in.batches):
        if batch.schema.names != rows_in.schema.names:
            raise InvalidInputError(
                f"Batch {position} has the columns {', '.join(batch.schema.names)}, and the first batch "
                f"{', '.join(rows_in.schema.names)}.",
                hint="Give every batch the same columns in the same order. Nothing was written.",
            )
        batches.append(conformed(batch, rows_in.schema))
    return pa.Table.from_batches(batches, rows_in.schema)


def _source(rows: pa.Table, on: Sequence[str], columns_of: ColumnNames, path: str) -> _UpsertRows:
    """The source with its keys checked: they are there, can be compared, and each stands once."""
    schema = columns_of.logical
    names = [on] if isinstance(on, str) else list(on)
    if not names:
        raise InvalidInputError("Nothing says by which columns rows are the same.", hint='Give on=["id"].')
    keys = tuple(find_column(schema, name) for name in names)
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"Column {twice!r} is named twice among the keys.", column=twice)
    by_name = {name.lower(): name for name in rows.column_names}
    missing = [key for key in keys if key.lower() not in by_name]
    if missing:
        raise InvalidInputError(f"The rows have no column {missing[0]!r}, which is a key.", column=missing[0])
    for key in keys:
        kind = schema.field(key).type
        if not is_atomic(kind) or pa.types.is_floating(kind):
            message = f"Column {key!r}, which is {kind}, cannot be a key."
            raise InvalidInputError(message, hint="Keys are numbers without fractions, text, dates, times.", column=key)
    columns = [rows.column(by_name[key.lower()]).cast(schema.field(key).type) for key in keys]
    numbered = pa.table([*columns, pa.array(np.arange(rows.num_rows))], names=[*keys, _SOURCE])
    valid = pc.is_valid(numbered.column(0))
    for key in keys[1:]:
        valid = pc.and_(valid, pc.is_valid(numbered.column(key)))
    keyed = numbered.filter(valid)
    _refuse_twice(keyed, keys, path)
    return _UpsertRows(rows, keys, keyed, _condition(keyed, keys, schema), columns_of)


def _refuse_twice(keyed: pa.Table, keys: Sequence[str], path: str) -> None:
    groups = keyed.group_by(list(keys)).aggregate([(_SOURCE, "count")])
    twice = groups.filter(pc.greater(groups.column(f"{_SOURCE}_count"), 1))
    if twice.num_rows:
        first = {key: twice.column(key)[0].as_py() for key in keys}
        shown = ", ".join(f"{key} = {value!r}" for key, value in first.items())
        raise InvalidInputError(
            f"The rows for {path} have {counted(twice.num_rows, 'key')} more than once, such as {shown}.",
            hint="Nothing was written. Leave one row per key: which of them is meant cannot be known.",
            key=first,
        )


def _condition(keyed: pa.Table, keys: Sequence[str], schema: pa.Schema) -> Predicate | None:
    """What every row with one of the keys fulfils: by it splits are ruled out."""
    if not keyed.num_rows:
        return None
    parts: list[Predicate] = []
    for key in keys:
        column, values = predicates.Column((key,)), keyed.column(key).unique()
        if len(values) <= MOST_LISTED_KEYS:
            parts.append(predicates.In(column, tuple(predicates.Literal(v) for v in values.to_pylist())))
        else:
            ends = pc.min_max(values).as_py()
            parts.append(predicates.Comparison(">=", column, predicates.Literal(ends["min"])))
            parts.append(predicates.Comparison("<=", column, predicates.Literal(ends["max"])))
    return predicates.bind(predicates.all_of(parts), schema)


def _matches(task: ScanTask, source: _UpsertRows) -> _Matches:
    """Look for the keys, split by split: by the index where it holds a key as a whole, else among rows that may match."""
    matches = _Matches()
    for entry in task.plan.splits:
        split = task.open(entry)
        rows = _possible(split, source)
        if not len(rows):
            continue
        keys = split.read_rows(rows, columns=source.names.columns(source.on))
        keys = source.names.to_logical(keys).append_column(_ROW, pa.array(rows))
        pairs = keys.join(source.keyed, keys=list(source.on), join_type="inner")
        if pairs.num_rows:
            order = pc.sort_indices(pairs.column(_ROW))
            matches.sources.append(pairs.column(_SOURCE).take(order).to_numpy())
            matches.splits.append((split, entry, pairs.column(_ROW).take(order).to_numpy()))
    return matches


def _possible(split: TableSplit, source: _UpsertRows) -> RowSet:
    """Rows of a split that can have one of the keys; every one that has is among them."""
    for key in source.on:
        values = source.keyed.column(key).unique()
        column = split.mapping.find(source.names.column(key)) if split.indexed else None
        if column is None or len(values) > MOST_LISTED_KEYS:
            continue
        target = Target(column.name)
        if column.kind == "string":
            return find_rows(split, OneOf(target, tuple(Words(target, text, True) for text in values.to_pylist())))
        if column.whole is not None:
            return find_rows(split, OneOf(target, tuple(Equals(target, text) for text in values.to_pylist())))
    assert source.condition is not None
    possible = split.may_match(source.names.predicate(source.condition))
    return np.arange(split.num_rows) if possible is None else np.flatnonzero(possible)


def _unmatched(count: int, matched: RowSet) -> pa.Array:
    alone = np.ones(count, np.bool_)
    alone[matched] = False
    return pa.array(np.flatnonzero(alone))


def _replacements(matches: _Matches, source: _UpsertRows) -> Iterable[pa.RecordBatch]:
    """The matched rows with the source's columns in place of their own; columns that the source lacks stay as they are."""
    given = {name.lower() for name in source.rows.column_names}
    for (split, _, rows), numbers in zip(matches.splits, matches.sources, strict=True):
        new = source.rows.take(pa.array(numbers))
        others = [name for name in source.names.logical.names if name.lower() not in given]
        if others:
            old = source.names.to_logical(split.read_rows(rows, columns=source.names.columns(others)))
            for name in others:
                new = new.append_column(old.schema.field(name), old.column(name))
        yield from new.combine_chunks().to_batches()


def _upsert_report(
    table: TableHandle,
    source: _UpsertRows,
    counts: Mapping[str, int],
    searched: int,
    version: int | None,
    *,
    dry_run: bool = False,
) -> UpsertReport:
    parts = [f"{count:,} {what}" for what, count in counts.items() if count]
    verb = "would be" if dry_run else "were"
    return UpsertReport(
        table_path=table.path,
        status=NO_ACTION if not parts else DRY_RUN if dry_run else SUCCESS,
        inserted_rows=counts["inserted"],
        updated_rows=counts["updated"],
        deleted_rows=counts["deleted"],
        source_rows=source.rows.num_rows,
        splits_searched=searched,
        version=version,
        message=f"Rows that {verb} changed: {', '.join(parts)}." if parts else "There was nothing to change.",
    )
