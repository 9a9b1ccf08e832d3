"""Incoming rows: convert what callers pass to batches of the table's schema, or refuse it with
every difference.

The fields of a null struct are null even if they are declared not null. Arrow accepts that; a
Parquet writer refuses it, for example for the parts of a variant. Such fields get a filler value
that no reader sees.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.errors import IndexTablesError, InvalidInputError, show_value
from indextables.model.column_names import absent_values
from indextables.model.exact_values import UNFIT, array_of, exact_cast, first_unfit
from indextables.model.predicate import Predicate, evaluate
from indextables.model.schema import (
    SchemaDifference,
    check_names,
    check_reserved,
    check_storable,
    max_length,
    merge_schemas,
    mismatch,
    normalize,
    schema_differences,
)

_FILLERS: tuple[tuple[Any, object], ...] = (
    (pa.types.is_binary, b""),
    (pa.types.is_string, ""),
    (pa.types.is_integer, 0),
    (pa.types.is_floating, 0.0),
    (pa.types.is_boolean, False),
)


def may_hide_nulls(kind: pa.DataType) -> bool:
    """Return whether a type has a non-nullable field below a struct."""
    if pa.types.is_struct(kind):
        return any(not field.nullable or may_hide_nulls(field.type) for field in kind)
    if pa.types.is_map(kind):
        return may_hide_nulls(kind.item_type)
    return bool(pa.types.is_list(kind)) and may_hide_nulls(kind.value_type)


def fill_hidden_nulls(column: pa.Array) -> pa.Array:
    """Return the values with a filler for every null of a non-nullable field below a null."""
    if column.offset:
        column = pa.concat_arrays([column])
    kind = column.type
    if pa.types.is_struct(kind):
        hidden = column.is_null()
        fields = [_field(column.field(i), field, hidden) for i, field in enumerate(kind)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=hidden)
    if pa.types.is_map(kind) and may_hide_nulls(kind):
        items = fill_hidden_nulls(column.items)
        maps = pa.MapArray.from_arrays(column.offsets, column.keys, items, type=kind)
        if column.null_count:
            return pc.if_else(column.is_valid(), maps, pa.scalar(None, kind))
        return maps
    if pa.types.is_list(kind) and may_hide_nulls(kind):
        mask = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(
            column.offsets, fill_hidden_nulls(column.values), type=kind, mask=mask
        )
    return column


def _field(values: pa.Array, field: pa.Field, hidden: pa.BooleanArray) -> pa.Array:
    values = fill_hidden_nulls(values)
    if field.nullable or not values.null_count:
        return values
    filler = next((value for test, value in _FILLERS if test(field.type)), None)
    if filler is None:
        return values
    return pc.if_else(hidden, pa.scalar(filler, field.type), values)


_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
"""The name of pandas' unnamed index in Arrow data: row numbers, not a column."""


class Incoming(Struct, frozen=True):
    """A stream of batches and its schema, in table types."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def incoming(
    data: Any, columns: Collection[str] = (), *, schema: pa.Schema | None = None
) -> Incoming:
    """Convert anything with an Arrow stream (pyarrow, polars, pandas, duckdb), an iterable of
    record batches, or a list of dicts.

    `columns` are the table's: the unnamed index of a pandas frame is left out unless it is one of
    them. Values of dicts take the types of `schema`. Every value is unchanged, or refused with its
    row and column.
    """
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if hasattr(data, "__arrow_c_stream__"):
        reader = _stream(data)
        fields = [
            field
            for field in reader.schema
            if field.name in columns or not _UNNAMED_INDEX.fullmatch(field.name)
        ]
        if len(fields) < len(reader.schema) and type(data).__module__.startswith("pandas."):
            names = [field.name for field in fields]
            return Incoming(
                _check_schema(pa.schema(fields)),
                _normal_batches(batch.select(names) for batch in reader),
            )
        return Incoming(_check_schema(reader.schema), _normal_batches(reader))
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        batches = iter(data)
        first = next(batches, None)
        if isinstance(first, pa.Table | pa.RecordBatch):
            chained = itertools.chain([first], batches)
            return Incoming(_check_schema(first.schema), _normal_batches(_flatten(chained)))
        if isinstance(first, Mapping) and isinstance(data, Sequence):
            rows = _from_dicts(data, schema)
            return Incoming(_check_schema(rows.schema), iter(rows.to_batches()))
    raise InvalidInputError(
        f"Rows cannot be taken from a {type(data).__name__}.",
        hint=f"{_WAYS_OUT.get(type(data).__name__, '')}Give a pyarrow Table or RecordBatchReader, a polars or pandas "
        "DataFrame, a DuckDB result, a non-empty list of dicts, or a non-empty iterable of record batches.",
    )


_WAYS_OUT = {
    "str": "Read a file first, for example with pyarrow.csv.read_csv(path), or use `indextables append` in a shell. ",
    "dict": "Columns are given as pyarrow.table(columns), one row as [row]. ",
    "LazyFrame": "Its rows are lazy.collect(). ",
    "generator": "Dicts are given as list(rows). ",
    "Series": "A column is given as series.to_frame(). ",
}


def _stream(data: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except IndexTablesError:
        raise
    except (ValueError, TypeError) as error:
        reason = "; ".join(str(part) for part in error.args)
        message = f"The columns of the {type(data).__name__} cannot be read: {reason}."
        hint = "Give each column its own name and values of one type. Nothing was written."
        raise InvalidInputError(message, hint=hint) from None


def _from_dicts(rows: Sequence[Any], schema: pa.Schema | None) -> pa.Table:
    """Convert dicts: one column per key, of the table's type if the table has it."""
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping) or not all(isinstance(key, str) for key in row):
            hint = "Give dicts whose keys are the names of columns."
            raise InvalidInputError(
                f"Row {number} is no dict of columns: {show_value(row)}.", hint=hint, row=number
            )
    names = list(dict.fromkeys(key for row in rows for key in row))
    if schema is None:
        types = {}
    else:
        types = {f.name.lower(): f.type for f in schema}
    return pa.table(
        {
            name: _values([row.get(name) for row in rows], name, types.get(name.lower()))
            for name in names
        }
    )


def _values(values: list[Any], name: str, kind: pa.DataType | None) -> pa.Array:
    """Return the values of a column in the table's type; for a new column, in their common type."""
    try:
        if kind is not None:
            guess = kind
        else:
            guess = _normal_type(pa.array(values).type, name)
        return array_of(values, guess)
    except UNFIT as error:
        row = _first_of_another_kind(values, name) if kind is None else first_unfit(values, kind)
        raise _unfit(values, name, kind, row, str(error).rstrip(".")) from None


def _first_of_another_kind(values: list[Any], name: str) -> int:
    """Return the row of the first value without a common type with those before it."""

    def fails(count: int) -> bool:
        try:
            array_of(values[:count], _normal_type(pa.array(values[:count]).type, name))
        except UNFIT:
            return True
        return False

    return bisect_left(range(1, len(values)), True, key=fails)


def _normal_type(kind: pa.DataType, name: str) -> pa.DataType:
    return normalize(pa.schema([pa.field(name, kind)])).field(0).type


def _unfit(
    values: list[Any], name: str, kind: pa.DataType | None, row: int | None, reason: str
) -> InvalidInputError:
    if row is None:
        where = ""
    else:
        where = f" of row {row}, {show_value(values[row])},"
    message = f"The value{where} does not fit column {name!r}{'' if kind is None else f', which is {kind}'}: {reason}."
    missing = row is not None and str(values[row]) in {"nan", "NaT", "<NA>"}
    hint = f"{'A missing value is None. ' if missing else ''}Nothing was written."
    return InvalidInputError(message, hint=hint, column=name, row=row)


def _normal_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches in table types. A value that would change is refused with its row and
    column.
    """
    rows_before = 0
    given = normal = pa.schema([])
    for batch in batches:
        if batch.schema != given:
            given, normal = batch.schema, normalize(batch.schema).remove_metadata()
        columns = [
            _normal_column(batch.column(i), field, rows_before) for i, field in enumerate(normal)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=normal)
        rows_before += batch.num_rows


def _normal_column(column: pa.Array, field: pa.Field, rows_before: int) -> pa.Array:
    try:
        return exact_cast(column, field.type)
    except (*UNFIT, NotImplementedError) as error:
        position = bisect_left(
            range(1, len(column)),
            True,
            key=lambda count: _changes(column.slice(0, count), field.type),
        )
        message = (
            f"The value of row {rows_before + position}, {_show(column[position])}, of column {field.name!r} cannot "
            f"be stored as {field.type} without loss: {str(error).rstrip('.')}."
        )
        hint = "Cast the column before writing, where you can decide what is lost. Nothing was written."
        raise InvalidInputError(
            message, hint=hint, column=field.name, row=rows_before + position
        ) from None


def _show(value: pa.Scalar) -> str:
    try:
        return show_value(value.as_py())
    except (ValueError, OverflowError):  # a time that Python does not have
        return str(value.cast(pa.int64()))


def _changes(column: pa.Array, kind: pa.DataType) -> bool:
    try:
        exact_cast(column, kind)
    except (*UNFIT, NotImplementedError):
        return True
    return False


def _check_schema(given: pa.Schema) -> pa.Schema:
    """Return the schema in table types. Duplicate column names are refused."""
    schema = normalize(given)
    check_names(schema)
    interval = next(
        (field.name for field in schema if field.type == pa.month_day_nano_interval()), None
    )
    if interval is not None:
        message = f"Column {interval!r} is an interval of months, days and nanoseconds, which Parquet cannot store."
        raise InvalidInputError(
            message, hint="Write a duration, or the parts as numbers.", column=interval
        )
    return pa.schema([pa.field(f.name, f.type, f.nullable) for f in schema])


def _flatten(parts: Iterable[pa.Table | pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from part.to_batches() if isinstance(part, pa.Table) else [part]


def widen_schema(table: pa.Schema, data: pa.Schema, *, merge_schema: bool) -> pa.Schema:
    """Return the schema to write with: the table's, and with `merge_schema` the data's new columns.
    Mismatches are refused.

    Missing columns are null; a narrower number fits a wider column.
    """
    differences = [
        d for d in schema_differences(table, data) if not _is_harmless(d, table, data, merge_schema)
    ]
    if differences:
        raise mismatch(differences)
    if not merge_schema:
        return table
    names = {f.name.lower() for f in table}
    new = pa.schema([f for f in data if f.name.lower() not in names])
    check_reserved(new.names)
    check_storable(new)
    return merge_schemas(table, new)


def _is_harmless(
    difference: SchemaDifference, table: pa.Schema, data: pa.Schema, merge_schema: bool
) -> bool:
    if difference.kind == "extra":
        return merge_schema and "." not in difference.column
    if difference.kind == "missing":
        return difference.column in table.names and bool(table.field(difference.column).nullable)
    if difference.kind == "nullability":
        # Whether there really are nulls is seen in the rows.
        return True
    names = {f.name.lower(): f for f in data}
    column = names.get(difference.column.lower())
    return (
        column is not None
        and difference.column in table.names
        and fits(column.type, table.field(difference.column).type)
    )


def replaced_schema(
    table: pa.Schema, data: pa.Schema, partition_columns: Collection[str]
) -> pa.Schema:
    """Return the data's columns as the table's, for an overwrite that replaces the schema.
    Partition columns must stay.
    """
    names = {field.name.lower(): field for field in data}
    check_reserved(field.name for field in data if field.name not in table.names)
    check_storable(field for field in data if field.name not in table.names)
    for column in partition_columns:
        field = names.get(column.lower())
        if field is None or (
            not fits(field.type, table.field(column).type)
            and field.type != table.field(column).type
        ):
            raise InvalidInputError(
                f"The partition column {column!r} ({table.field(column).type}) cannot be replaced; the data has "
                f"{'no such column' if field is None else field.type}.",
                hint="Create another table to partition rows otherwise.",
                column=column,
            )
    spelt = {name.lower(): name for name in table.names}
    return pa.schema(
        [
            table.field(spelt[f.name.lower()])
            if spelt.get(f.name.lower()) in partition_columns
            else f.with_nullable(True)
            for f in data
        ]
    )


def fits(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether every value of a type is one of another, so that it can be cast implicitly."""
    kinds = pa.types
    if kinds.is_null(source):
        return True
    if kinds.is_signed_integer(source) and kinds.is_signed_integer(target):
        return bool(source.bit_width <= target.bit_width)
    if kinds.is_floating(source) and kinds.is_floating(target):
        return bool(source.bit_width <= target.bit_width)
    if kinds.is_signed_integer(source) and kinds.is_floating(target):
        return bool(source.bit_width < target.bit_width)
    return False


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with exactly the columns of the schema in its order and types. A lossy cast
    is refused.
    """
    places = {name.lower(): index for index, name in enumerate(batch.schema.names)}
    columns = []
    for field in schema:
        index = places.get(field.name.lower())
        if index is None:
            column = absent_values(field, batch.num_rows)
        else:
            column = _cast(batch.column(index), field)
        if not field.nullable and column.null_count:
            message = f"Column {field.name!r} holds {column.null_count} null(s), which the table does not allow."
            raise InvalidInputError(message, column=field.name)
        column = _within_length(column, field, field.name)
        columns.append(fill_hidden_nulls(column) if may_hide_nulls(field.type) else column)
    return pa.RecordBatch.from_arrays(columns, schema=schema.remove_metadata())


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.type == field.type:
            return column
        return pc.cast(column, field.type, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        message = f"Column {field.name!r} cannot be stored as {field.type} without loss: {error}."
        raise InvalidInputError(message, column=field.name) from error


def _within_length(column: pa.Array, field: pa.Field, name: str) -> pa.Array:
    """Return the values of a VARCHAR column; only trailing spaces are cut to its length, as in
    Spark.
    """
    kinds = pa.types
    limit = max_length(field)
    if limit is not None and kinds.is_string(column.type):
        too_long = pc.greater(pc.utf8_length(column), limit)
        if not pc.any(too_long).as_py():
            return column
        _check_length(pc.utf8_rtrim(column, " "), limit, name)
        return pc.if_else(
            pc.fill_null(too_long, False), pc.utf8_slice_codeunits(column, 0, limit), column
        )
    if kinds.is_struct(field.type):
        for part in field.type:
            if _has_limit(part):
                _check_parts(pc.struct_field(column, part.name), part, name)
    elif _has_limit(field):
        _check_parts(column, field, name)
    return column


def _has_limit(field: pa.Field) -> bool:
    kind = field.type
    if pa.types.is_map(kind):
        return _has_limit(kind.key_field) or _has_limit(kind.item_field)
    if pa.types.is_list(kind):
        return _has_limit(kind.value_field)
    if pa.types.is_struct(kind):
        return any(_has_limit(part) for part in kind)
    return max_length(field) is not None


def _check_parts(values: pa.Array, field: pa.Field, name: str) -> None:
    """Refuse texts inside nested values that are longer than their field allows."""
    kind = field.type
    limit = max_length(field)
    if limit is not None:
        _check_length(values, limit, name)
    elif pa.types.is_map(kind):
        entries = pc.list_flatten(
            values.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
        )
        for part in (kind.key_field, kind.item_field):
            _check_parts(pc.struct_field(entries, part.name), part, name)
    elif pa.types.is_list(kind):
        _check_parts(pc.list_flatten(values), kind.value_field, name)
    elif pa.types.is_struct(kind):
        for part in kind:
            _check_parts(pc.struct_field(values, part.name), part, name)


def _check_length(texts: pa.Array, limit: int, name: str) -> None:
    too_long = pc.greater(pc.utf8_length(texts), limit)
    if pc.any(too_long).as_py():
        row = too_long.index(True).as_py()
        text = texts[row].as_py()
        raise InvalidInputError(
            f"Column {name!r} is VARCHAR({limit}), and a value has {len(text)} characters: {show_value(text)}.",
            hint="Shorten it, or declare the column STRING.",
            column=name,
        )


def only(
    predicate: Predicate,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    shown: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and refuse rows that do not match: replacements must belong to the
    replaced part.
    """
    for batch in batches:
        rows = conform(batch, schema)
        outside = rows.num_rows - (pc.sum(evaluate(predicate, rows)).as_py() or 0)
        if outside:
            raise InvalidInputError(
                f"{outside} row(s) of the data do not match `{shown or predicate}`, the part of the table that they would "
                "replace.",
                hint="Filter the data with the same condition, or widen the condition.",
            )
        yield rows
