"""Partial results: what a split (or a batch of rows) says about every group. Small tables that add up.

A group is a path of buckets; its tables have a constant `k0`, the buckets' keys as columns `k1`, `k2`, … and then

    rows      n                            how many rows
    moments   n, sum, low, high            per metric of a few numbers
    values    value, n                     per metric that needs every value

Adding is concatenating and grouping again, so any order of splits and workers gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from msgspec import Struct, field

from indextables.model.predicate import Predicate
from indextables.scan.aggregate.keys import keyed_rows, values_of, without_nan
from indextables.scan.aggregate.spec import Aggregations, Bucket, Metric, fields_of
from indextables.splits.query.tree import Query
from indextables.splits.read.searchable import Searchable
from indextables.splits.search.match import find_rows

Place = tuple[str, ...]
"""The names of the buckets that lead to a group; for a metric's table, with its name after `#`."""
NEEDS_VALUES = ("cardinality", "percentiles")
_ROW = "_row_of_group"
_COMPACT_AFTER = 32


class Partial(Struct, frozen=True):
    """Partial results of some rows. Picklable; `+` adds them."""

    tables: Mapping[Place, pa.Table] = field(default_factory=dict)

    def __add__(self, other: Partial) -> Partial:
        return merged([self, other])


def aggregate_split(
    split: Searchable, aggregations: Aggregations, query: Query, *, where: Predicate | None = None
) -> Partial:
    """What one split says. Reads the columns that are aggregated, of the rows that match."""
    names = [n for n in dict.fromkeys(f.path[0] for f in fields_of(aggregations)) if n in split.schema.names]
    rows = find_rows(split, query, where=where)
    parts: list[Partial] = []
    if not len(rows):
        return Partial()
    if not names:
        return aggregate_rows(pa.table({_ROW: pa.nulls(len(rows))}), aggregations)
    for batch in split.iter_rows(None if len(rows) == split.num_rows else rows, columns=names):
        parts.append(aggregate_rows(pa.Table.from_batches([batch]), aggregations))
        if len(parts) >= _COMPACT_AFTER:
            parts = [merged(parts)]
    return merged(parts)


def aggregate_rows(table: pa.Table, aggregations: Aggregations) -> Partial:
    """What the rows of a table say. A column that the table lacks holds nulls."""
    lacking = [f for f in fields_of(aggregations) if f.path[0] not in table.column_names and len(f.path) == 1]
    for missing in dict.fromkeys(lacking):
        table = table.append_column(missing.path[0], pa.nulls(table.num_rows, missing.type))
    return Partial(dict(_group(table, aggregations, (), [pa.repeat(pa.scalar(0, pa.int8()), table.num_rows)])))


def merged(parts: Iterable[Partial]) -> Partial:
    """The sum of partial results."""
    found: dict[Place, list[pa.Table]] = {}
    for part in parts:
        for place, table in part.tables.items():
            found.setdefault(place, []).append(table)
    return Partial({place: _sum(tables) for place, tables in found.items()})


def _group(
    table: pa.Table, aggregations: Aggregations, place: Place, keys: list[pa.Array]
) -> Iterator[tuple[Place, pa.Table]]:
    """The tables of a group and of everything inside it. `keys` hold the rows' buckets so far."""
    named = {f"k{i}": key for i, key in enumerate(keys)}
    counted = pa.table({**named, _ROW: pa.nulls(table.num_rows)})
    yield place, _grouped(counted, list(named), [([], "count_all")], ["n"])
    for metric in aggregations.metrics:
        yield (*place, f"#{metric.name}"), _metric(table, metric, named)
    for bucket in aggregations.buckets:
        rows, own = keyed_rows(table, bucket)
        yield from _inside(table.take(rows), bucket, place, [*(k.take(rows) for k in keys), own])


def _inside(table: pa.Table, bucket: Bucket, place: Place, keys: list[pa.Array]) -> Iterator[tuple[Place, pa.Table]]:
    yield from _group(table, bucket.inside, (*place, bucket.name), keys)


def _metric(table: pa.Table, metric: Metric, keys: Mapping[str, pa.Array]) -> pa.Table:
    values = values_of(table, metric.field)
    if metric.kind == "cardinality":
        return _grouped(pa.table({**keys, "value": values}).drop_null(), [*keys, "value"], [([], "count_all")], ["n"])
    values = values if metric.kind == "value_count" else without_nan(values)
    if metric.kind == "percentiles":
        numbers = pa.table({**keys, "value": values.cast(pa.float64(), safe=False)})
        present = numbers.filter(numbers.column("value").is_valid())
        return _grouped(present, [*keys, "value"], [([], "count_all")], ["n"])
    given = pa.table({**keys, "v": values, "s": _summable(without_nan(values))})
    wanted = [("v", "count"), ("s", "sum"), ("v", "min"), ("v", "max")]
    return _grouped(given, list(keys), wanted, ["n", "sum", "low", "high"])


def _summable(values: pa.Array) -> pa.Array:
    """Numbers in a type whose sum cannot overflow; zeros where there is nothing to add up."""
    if pa.types.is_integer(values.type):
        return values.cast(pa.decimal128(38, 0))
    if pa.types.is_decimal(values.type):
        return values.cast(pa.decimal256(76, values.type.scale))
    return values.cast(pa.float64()) if pa.types.is_floating(values.type) else pa.repeat(0.0, len(values))


def _grouped(table: pa.Table, keys: list[str], wanted: Sequence[tuple[object, str]], names: list[str]) -> pa.Table:
    found = table.group_by(keys, use_threads=False).aggregate(wanted)
    return found.select([*keys, *(c for c in found.column_names if c not in keys)]).rename_columns([*keys, *names])


def _sum(tables: list[pa.Table]) -> pa.Table:
    if len(tables) == 1:
        return tables[0]
    joined = pa.concat_tables(tables, promote_options="permissive")
    how = {"n": "sum", "sum": "sum", "low": "min", "high": "max"}
    names = [name for name in joined.column_names if name in how]
    keys = [name for name in joined.column_names if name not in how]
    return _grouped(joined, keys, [(name, how[name]) for name in names], names)
