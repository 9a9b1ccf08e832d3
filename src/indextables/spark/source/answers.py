"""Small results: the size of a read, and its rows if the driver can return them itself.

Aggregations that Spark pushes down are computed per task: groups by whole columns, with count, min,
max or sum.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct
from pyspark.sql.types import StructType

from indextables.errors import InvalidInputError
from indextables.model.schema import find_column
from indextables.query.plan import ScanPlan
from indextables.query.task import ScanTask
from indextables.splits.query.tree import AllRows
from indextables.splits.read.table_split import SplitEntry
from indextables.splits.search.match import open_query

DRIVER_SPLITS = 8
"""Up to this many splits the driver does the work itself, because starting tasks takes longer."""
DRIVER_ROWS = 100_000
"""Up to this many rows the driver returns them itself; it counts and sums up ten times as many."""
DRIVER_BYTES = 8 << 20
_SAMPLE = 64
_TEXT_BYTES = 20
_NUMBER_BYTES = 8
_COUNT, _SUM = "count", "sum"
_UNITS = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
"""How the results of parts are combined."""


class AnswerSize(Struct, frozen=True):
    """Size of a read in rows and bytes, as far as known (-1: not determined), and whether it is
    small.
    """

    rows: int
    bytes: int
    small: bool

    def __str__(self) -> str:
        return f"{self.rows} {self.bytes} {'small' if self.small else 'large'}"


class PushedAggregation(Struct, frozen=True):
    """`by` are columns, `functions` pairs of a function and a column (None: of all rows)."""

    by: tuple[str, ...]
    functions: tuple[tuple[str, str | None], ...]

    @classmethod
    def parse(cls, text: str | None, schema: pa.Schema) -> PushedAggregation | None:
        """Parse an aggregation of the extension (`java/PushedAggregation.java`)."""
        if text is None:
            return None
        told = json.loads(text)
        by = tuple(find_column(schema, name) for name in told["by"])
        named = [
            (function, None if name is None else find_column(schema, name))
            for function, name in told["functions"]
        ]
        return cls(by, tuple(named))

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that are read for it."""
        return tuple(
            dict.fromkeys([*self.by, *(name for _, name in self.functions if name is not None)])
        )

    @property
    def only_counts(self) -> bool:
        """Return whether only row counts are requested."""
        return not self.by and all(function == (_COUNT, None) for function in self.functions)

    def of(self, task: ScanTask) -> pa.Table:
        """Aggregate a task's rows: a row for each group, keys first. Without keys it is one row."""
        if self.only_counts:
            return pa.table([pa.array([task.count()])] * len(self.functions), self._names)
        schema = pa.schema(
            [task.plan.names.logical.field(name).remove_metadata() for name in self.columns]
        )
        if not self.by:
            parts = [self._group(schema.empty_table())]
        else:
            parts = []
        parts += [self._group(pa.Table.from_batches([batch])) for batch in _large(task.batches())]
        if parts:
            return self._join(parts)
        return self._group(schema.empty_table())

    @property
    def _names(self) -> list[str]:
        return [f"{number}" for number in range(len(self.by) + len(self.functions))]

    def _group(self, rows: pa.Table) -> pa.Table:
        values = [
            _widen_sum(rows[name]) if f == _SUM else rows[name]
            for f, name in self.functions
            if name is not None
        ]
        keys = [rows[name] for name in self.by]
        places = iter(range(len(keys), len(keys) + len(values)))
        steps = [
            ("count_all" if name is None else f, None if name is None else next(places))
            for f, name in self.functions
        ]
        table = pa.table([*keys, *values], [str(n) for n in range(len(keys) + len(values))])
        return _aggregate(table, len(keys), steps).rename_columns(self._names)

    def _join(self, parts: Sequence[pa.Table]) -> pa.Table:
        if len(parts) == 1:
            return parts[0]
        first = len(self.by)
        steps = [(_UNITS[f], first + n) for n, (f, _) in enumerate(self.functions)]
        table = pa.concat_tables(parts, promote_options="permissive")
        return _aggregate(table, first, steps).rename_columns(self._names)


def _aggregate(table: pa.Table, keys: int, steps: Sequence[tuple[str, int | None]]) -> pa.Table:
    """Group by the first columns, and return the results of functions over columns in order."""
    names = table.column_names
    # Of all rows there is one count, however often it is asked for.
    asked = [
        *dict.fromkeys((names[place], function) for function, place in steps if place is not None)
    ]
    asked += [([], "count_all")] if any(place is None for _, place in steps) else []
    result = pa.TableGroupBy(table, names[:keys], use_threads=False).aggregate(asked)
    outputs = [
        "count_all" if place is None else f"{names[place]}_{function}" for function, place in steps
    ]
    columns = [*(result[name] for name in names[:keys]), *(result[name] for name in outputs)]
    return pa.table(columns, [str(number) for number in range(len(columns))])


def _widen_sum(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values in a type in which no sum overflows."""
    if pa.types.is_floating(column.type):
        return column.cast(pa.float64())
    if pa.types.is_integer(column.type):
        if column.type.bit_width == 64:
            return column.cast(pa.decimal128(38, 0))
        return column.cast(pa.int64())
    return column.cast(pa.decimal128(38, column.type.scale))


def _large(batches: Iterable[pa.RecordBatch], rows: int = 1 << 16) -> Iterable[pa.RecordBatch]:
    """Combine small batches."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(b.num_rows for b in waiting) >= rows:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting = []
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def answer_size(
    plan: ScanPlan,
    columns: StructType,
    *,
    limit: int | None,
    aggregation: PushedAggregation | None,
    most_splits: int,
    thorough: bool,
) -> AnswerSize:
    """Return the size of a read. Many splits are opened only if `thorough`."""
    few = len(plan.splits) <= most_splits
    if not few and not thorough:
        return AnswerSize(-1, -1, small=False)
    if few and limit is not None and limit <= DRIVER_ROWS:
        rows = limit
    elif aggregation is not None and aggregation.only_counts:
        return AnswerSize(1, _NUMBER_BYTES * len(aggregation.functions), small=few)
    else:
        rows = estimated_rows(plan)
    size = rows * row_bytes(columns, plan)
    if aggregation is None:
        return AnswerSize(rows, size, small=few and rows <= DRIVER_ROWS and size <= DRIVER_BYTES)
    rows_read, rows = rows, rows if aggregation.by else 1
    small = few and rows_read <= (DRIVER_ROWS if aggregation.by else 10 * DRIVER_ROWS)
    return AnswerSize(rows, rows * row_bytes(columns, plan), small=small)


def estimated_rows(plan: ScanPlan) -> int:
    """Return an upper estimate of the matching rows from the index.

    Of many splits a sample is read; the others are assumed to have its largest share of matches.
    """
    task = ScanTask(plan)
    step = -(-len(plan.splits) // _SAMPLE)
    asked = plan.splits[:: step or 1]
    counts = list(task.in_order(lambda entry: _matches(task, entry), asked))
    rows = [entry.num_records or 0 for entry in asked]
    if step <= 1:
        return sum(counts)
    share = max(
        (count / total for count, total in zip(counts, rows, strict=True) if total), default=1.0
    )
    rest = sum(entry.num_records or 0 for entry in plan.splits) - sum(rows)
    return sum(counts) + int(np.ceil(share * rest))


def _matches(task: ScanTask, entry: SplitEntry) -> int:
    query = task.plan.query
    if query is None and entry.num_records is not None:
        return entry.num_records
    split = task.open(entry)
    with open_query(split, query or AllRows()) as opened:
        if opened.whole() is not None:
            return opened.count()
        return split.num_rows


def row_bytes(columns: StructType, plan: ScanPlan) -> int:
    """Return the memory per row of some columns; for texts estimated from split sizes."""
    texts = sum(field.dataType.typeName() not in _NUMBERS for field in columns)
    rows = sum(entry.num_records or 0 for entry in plan.splits)
    if rows:
        of_split = 2 * sum(entry.size for entry in plan.splits) // rows
    else:
        of_split = 0
    numbers = _NUMBER_BYTES * (len(columns) - texts)
    return max(1, numbers + (max(texts * _TEXT_BYTES, min(of_split, 1 << 20)) if texts else 0))


_NUMBERS = {
    *(
        "boolean",
        "byte",
        "short",
        "integer",
        "long",
        "float",
        "double",
        "date",
        "timestamp",
        "timestamp_ntz",
        "decimal",
    ),
}


def as_stream(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> bytes:
    """Return batches as one Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def is_null_free(files: pa.Table, column: str) -> bool:
    """Return whether the log shows that no file has a null in a column."""
    counts = [
        json.loads(stats or "{}").get("nullCount", {}).get(column)
        for stats in files["stats"].to_pylist()
    ]
    return all(count == 0 for count in counts)


def check_sum(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return results in Spark's types. An overflowing sum raises Spark's error."""
    columns = []
    for column, field in zip(table.columns, schema, strict=True):
        try:
            columns.append(column.cast(field.type))
        except pa.ArrowInvalid as error:
            message = f"ARITHMETIC_OVERFLOW: a sum does not fit into {field.type}."
            raise InvalidInputError(
                message, hint="Sum the column as DECIMAL(38, 0), or use try_sum."
            ) from error
    return pa.table(columns, schema=schema)
