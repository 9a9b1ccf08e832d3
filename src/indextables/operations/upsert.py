"""`Table.upsert`: write rows by their keys, in one version. A row whose key is in the table
replaces it, others are inserted.

First the rows of the table that have one of the keys are found, by the index where it stores whole
values, else among the rows that may match; then the new rows are written, the old ones removed, and
both committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import InvalidInputError
from indextables.handle import TableHandle
from indextables.model import predicate as predicates
from indextables.model.actions import AddAction
from indextables.model.column_names import ColumnNames
from indextables.model.conflicts import Operation
from indextables.model.deletion_vector import RowSet
from indextables.model.predicate import Predicate
from indextables.model.report import Report, pluralize
from indextables.model.schema import find_column, is_atomic
from indextables.operations.incoming import Incoming, conform, incoming
from indextables.operations.jobs import DRY_RUN, NO_ACTION, SUCCESS
from indextables.operations.row_change import RowChange, SplitRows, count_rows
from indextables.operations.row_write import RowWrite
from indextables.operations.table_write import plan_write
from indextables.operations.write_request import WriteRequest
from indextables.query.change_feed import CHANGE_TAG, UPDATED
from indextables.query.plan import plan_scan
from indextables.query.task import ScanTask
from indextables.splits.query.tree import Equals, OneOf, Query, Target, Words
from indextables.splits.read.table_split import TableSplit
from indextables.splits.search.match import find_rows

_ROW = "__row"
_SOURCE = "__source"
MOST_LISTED_KEYS = 1_000
_MAX_FILTERED_KEYS = 200
"""Limit of keys that are looked up one by one. Of more keys, only the smallest and the largest are
used.
"""


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
    """The physical names of the columns; the fields above use logical names."""


class _Match(Struct, frozen=True):
    """Rows of one split whose key is in the source, and the number of the source row for each of
    them.
    """

    target: SplitRows
    source_rows: RowSet


def upsert(
    table: TableHandle,
    data: Any,
    *,
    on: Sequence[str],
    when_matched: WhenMatched,
    when_not_matched: WhenNotMatched,
    dry_run: bool,
    user_metadata: str | None,
) -> UpsertReport:
    """Write rows by their keys. See `Table.upsert`."""
    for name, given, allowed in (
        ("when_matched", when_matched, get_args(WhenMatched)),
        ("when_not_matched", when_not_matched, get_args(WhenNotMatched)),
    ):
        if given not in allowed:
            raise InvalidInputError(
                f"{name} is {given!r}.", hint=f"It can be {', '.join(allowed)}."
            )
    table.check_writable()
    newest = table.read_newest()
    rows_in = incoming(data, newest.schema.names, schema=newest.schema)
    write = plan_write(newest, rows_in.schema, WriteRequest(operation=Operation.UPSERT))
    source = _source(_whole(rows_in), on, newest.names, newest.path)
    matches: list[_Match] = []
    searched = 0
    if source.condition is not None:
        plan = plan_scan(newest, where=source.condition)
        matches, searched = (
            _find_matches(ScanTask(plan, newest.log.store), source),
            len(plan.splits),
        )
    targets = [match.target for match in matches]
    inserts = None
    if when_not_matched == "insert":
        inserts = source.rows.take(_find_unmatched(source.rows.num_rows, matches))
    counts = {
        "inserted": 0 if inserts is None else inserts.num_rows,
        "updated": count_rows(targets) if when_matched == "update" else 0,
        "deleted": count_rows(targets) if when_matched == "delete" else 0,
    }
    if dry_run:
        return _upsert_report(newest, source, counts, searched, None, dry_run=True)
    change = RowChange(
        newest,
        Operation.UPSERT,
        () if when_matched == "ignore" else targets,
        parameters={
            "on": list(source.on),
            "whenMatched": when_matched,
            "whenNotMatched": when_not_matched,
        },
        metrics={f"num{what.title()}Records": count for what, count in counts.items()},
        keys=newest.names.optional_predicate(source.condition) if counts["inserted"] else None,
        user_metadata=user_metadata,
    )
    if when_matched == "update":
        updates = _replacements(matches, source)
    else:
        updates = ()
    version = change.commit(table, _write_rows(newest, write, updates, inserts))
    return _upsert_report(newest, source, counts, searched, version)


def _write_rows(
    table: TableHandle, write: RowWrite, updates: Iterable[pa.RecordBatch], inserts: pa.Table | None
) -> list[AddAction]:
    """Write the updated and the inserted rows as splits. If it fails, what was written is deleted."""
    added: list[AddAction] = []
    store = table.log.store
    try:
        new = write.run(updates, store=store)
        added += [replace(a, tags={**(a.tags or {}), CHANGE_TAG: UPDATED}) for a in new]
        if inserts is not None and inserts.num_rows:
            added += write.run(inserts.to_batches(), store=store)
    except BaseException:
        table.log.discard([action.path for action in added], since=table.version)
        raise
    return added


def _whole(rows_in: Incoming) -> pa.Table:
    """All of the rows. Batches without a column of the others are refused: its values would be
    replaced by nulls.
    """
    batches = []
    for position, batch in enumerate(rows_in.batches):
        if batch.schema.names != rows_in.schema.names:
            raise InvalidInputError(
                f"Batch {position} has the columns {', '.join(batch.schema.names)}, and the first batch "
                f"{', '.join(rows_in.schema.names)}.",
                hint="Give every batch the same columns in the same order. Nothing was written.",
            )
        batches.append(conform(batch, rows_in.schema))
    return pa.Table.from_batches(batches, rows_in.schema)


def _source(rows: pa.Table, on: Sequence[str], columns_of: ColumnNames, path: str) -> _UpsertRows:
    """The source with its keys checked: they are there, can be compared, and each stands once."""
    schema = columns_of.logical
    names = [on] if isinstance(on, str) else list(on)
    if not names:
        raise InvalidInputError(
            "Nothing says by which columns rows are the same.", hint='Give on=["id"].'
        )
    keys = tuple(find_column(schema, name) for name in names)
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"Column {twice!r} is named twice among the keys.", column=twice)
    by_name = {name.lower(): name for name in rows.column_names}
    missing = [key for key in keys if key.lower() not in by_name]
    if missing:
        raise InvalidInputError(
            f"The rows have no column {missing[0]!r}, which is a key.", column=missing[0]
        )
    for key in keys:
        kind = schema.field(key).type
        if not is_atomic(kind) or pa.types.is_floating(kind):
            message = f"Column {key!r}, which is {kind}, cannot be a key."
            raise InvalidInputError(
                message, hint="Keys are numbers without fractions, text, dates, times.", column=key
            )
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
            f"The rows for {path} have {pluralize(twice.num_rows, 'key')} more than once, such as {shown}.",
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
            parts.append(
                predicates.In(column, tuple(predicates.Literal(v) for v in values.to_pylist()))
            )
        else:
            ends = pc.min_max(values).as_py()
            parts.append(predicates.Comparison(">=", column, predicates.Literal(ends["min"])))
            parts.append(predicates.Comparison("<=", column, predicates.Literal(ends["max"])))
    return predicates.bind(predicates.all_of(parts), schema)


def _find_matches(task: ScanTask, source: _UpsertRows) -> list[_Match]:
    """Find the rows that have one of the keys, split by split."""
    matches = []
    for number in task.find_candidates(_key_query(source)):
        entry = task.plan.splits[number]
        split = task.open(entry)
        rows = _possible(split, source)
        if not len(rows):
            continue
        keys = split.read_rows(rows, columns=source.names.columns(source.on))
        keys = source.names.to_logical(keys).append_column(_ROW, pa.array(rows))
        pairs = keys.join(source.keyed, keys=list(source.on), join_type="inner")
        if pairs.num_rows:
            order = pc.sort_indices(pairs.column(_ROW))
            target = SplitRows(entry, split, pairs.column(_ROW).take(order).to_numpy())
            matches.append(_Match(target, pairs.column(_SOURCE).take(order).to_numpy()))
    return matches


def _key_query(source: _UpsertRows) -> Query | None:
    """Return a query that every row with one of the keys matches; None if there are many keys, or
    none is text.
    """
    for key in source.on:
        values = source.keyed.column(key).unique()
        if not pa.types.is_string(values.type) or len(values) > _MAX_FILTERED_KEYS:
            continue
        texts = values.to_pylist()
        if all(texts):
            target = Target(source.names.column(key))
            return OneOf(target, tuple(Words(target, text, True) for text in texts))
    return None


def _possible(split: TableSplit, source: _UpsertRows) -> RowSet:
    """Rows of a split that can have one of the keys; every one that has is among them."""
    for key in source.on:
        values = source.keyed.column(key).unique()
        if split.indexed:
            column = split.mapping.find(source.names.column(key))
        else:
            column = None
        if column is None or len(values) > MOST_LISTED_KEYS:
            continue
        target = Target(column.name)
        if column.kind == "string":
            return find_rows(
                split,
                OneOf(target, tuple(Words(target, text, True) for text in values.to_pylist())),
            )
        if column.whole is not None:
            return find_rows(
                split, OneOf(target, tuple(Equals(target, text) for text in values.to_pylist()))
            )
    assert source.condition is not None
    possible = split.may_match(source.names.predicate(source.condition))
    if possible is None:
        return np.arange(split.num_rows)
    return np.flatnonzero(possible)


def _find_unmatched(count: int, matches: Sequence[_Match]) -> pa.Array:
    """Return the numbers of the source rows that match no row of the table."""
    alone = np.ones(count, np.bool_)
    for match in matches:
        alone[match.source_rows] = False
    return pa.array(np.flatnonzero(alone))


def _replacements(matches: Sequence[_Match], source: _UpsertRows) -> Iterable[pa.RecordBatch]:
    """Yield the matched rows with the values of the source; columns that the source lacks keep
    their values.
    """
    given = {name.lower() for name in source.rows.column_names}
    kept = [name for name in source.names.logical.names if name.lower() not in given]
    for match in matches:
        new = source.rows.take(pa.array(match.source_rows))
        if kept:
            stored = match.target.split.read_rows(
                match.target.rows, columns=source.names.columns(kept)
            )
            old = source.names.to_logical(stored)
            for name in kept:
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
    status = DRY_RUN if dry_run else SUCCESS
    if not parts:
        status = NO_ACTION
    return UpsertReport(
        table_path=table.path,
        status=status,
        inserted_rows=counts["inserted"],
        updated_rows=counts["updated"],
        deleted_rows=counts["deleted"],
        source_rows=source.rows.num_rows,
        splits_searched=searched,
        version=version,
        message=f"Rows that {verb} changed: {', '.join(parts)}."
        if parts
        else "There was nothing to change.",
    )
