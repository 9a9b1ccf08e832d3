"""Partial results: what a split (or a batch of rows) says about every group. Small tables that add
up.

A group is a path of buckets; its tables have a constant `k0`, the buckets' keys as columns `k1`,
`k2`, … and then

    rows      n                            how many rows moments   n, sum, low, high            per
    metric of a few numbers values    value, n                     per metric that needs every value
    numbers   number, n                    for percentiles: every number, or of very many a digest
    hits      sort 0 desc, …, hit level, …  for top_hits: the first rows, and what they are ordered
    by

Adding is concatenating and grouping again, so any order of splits and workers gives the same
result.

Which bucket a row belongs to: the key of each row under a bucket aggregation, in Arrow and numpy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from indextables.model.predicate import Predicate
from indextables.model.values import encode_value, micros_of
from indextables.query.aggregate.counts import count_rows
from indextables.query.aggregate.spec import Aggregations, Bucket, Field, Metric, fields_of
from indextables.splits.index.mapping import is_text
from indextables.splits.index.values import documents, leaves, plain_texts
from indextables.splits.query.to_predicate import predicate_mask
from indextables.splits.query.tree import Query
from indextables.splits.read.searchable import Searchable
from indextables.splits.search.match import find_rows
from indextables.splits.search.order import OrderBy, ranking


def values_of(table: pa.Table, field: Field) -> pa.Array:
    """Return the values of a field as one plain array; -0.0 becomes 0.0 and NaN has one form."""
    values = table.column(field.path[0])
    if field.is_json:
        return _document_values(values, field)
    if len(field.path) > 1:
        values = pc.struct_field(values, list(field.path[1:]))
    if is_text(values.type):
        return plain_texts(values)
    if isinstance(values, pa.ChunkedArray):
        joined = values.combine_chunks()
    else:
        joined = values
    if pa.types.is_dictionary(joined.type):
        joined = joined.dictionary_decode()
    return _plain_floats(joined)


def _plain_floats(values: pa.Array) -> pa.Array:
    """Return floating-point values in a form where equal values have equal bits, for grouping."""
    if not pa.types.is_floating(values.type):
        return values
    plain, nan = pc.add(values, pa.scalar(0.0, values.type)), pc.is_nan(values)
    if pc.any(nan).as_py():
        return pc.if_else(nan, pa.scalar(float("nan"), values.type), plain)
    return plain


def _document_values(column: pa.ChunkedArray, field: Field) -> pa.Array:
    """Return for each document of a JSON column the values at a path: its numbers, or all of them
    as texts.
    """
    path, numbers = field.path[1:], pa.types.is_floating(field.element_type)
    rows: list[list[Any] | None] = []
    for document in documents(column):
        if document is None:
            found = []
        else:
            found = [value for at, value in leaves(document) if at == path]
        if numbers:
            rows.append(
                [float(v) for v in found if isinstance(v, int | float) and not isinstance(v, bool)]
            )
        else:
            rows.append([v if isinstance(v, str) else json.dumps(v) for v in found])
    return pa.array(rows, field.type)


def without_nan(values: pa.Array) -> pa.Array:
    """Return floating-point values with null in place of NaN."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)


def keyed_rows(table: pa.Table, bucket: Bucket) -> tuple[pa.Array, pa.Array]:
    """Return the rows that fall into a bucket and the key of each. A row can be in several ranges
    or conditions.
    """
    if bucket.kind == "filters":
        return _number_masks([predicate_mask(part.where, table) for part in bucket.filters])
    if bucket.sources:
        return _combined_keys(table, bucket)
    coded = _codes(table, bucket)
    if coded is not None:
        return coded
    values = values_of(table, bucket.field)
    if pa.types.is_list(values.type):
        elements, parents = pc.list_flatten(values), pc.list_parent_indices(values)
        rows, keys = _value_keys(_plain_floats(elements), bucket)
        return _once_per_row(parents.take(rows), keys)
    return _value_keys(values, bucket)


def _value_keys(values: pa.Array, bucket: Bucket) -> tuple[pa.Array, pa.Array]:
    """Return the positions of values that fall into a bucket and the key of each."""
    if bucket.kind == "range":
        return _range_keys(without_nan(values), bucket)
    if bucket.kind == "terms":
        if bucket.missing is None:
            keys = values
        else:
            keys = pc.fill_null(values, pa.scalar(bucket.missing, values.type))
    elif bucket.kind == "histogram":
        keys = _number_keys(without_nan(values), bucket)
    else:
        keys = _time_keys(values, bucket)
    rows = pa.array(np.flatnonzero(pc.is_valid(keys)))
    return rows, keys.take(rows)


def _codes(table: pa.Table, bucket: Bucket) -> tuple[pa.Array, pa.Array] | None:
    """Return the keys of terms that are dictionary codes without decoding them."""
    column = table.column(bucket.field.path[0])
    if (
        bucket.kind != "terms"
        or bucket.missing is not None
        or not pa.types.is_dictionary(column.type)
    ):
        return None
    if (
        column.num_chunks != 1
        or len(bucket.field.path) > 1
        or column.chunk(0).dictionary.null_count
    ):
        return None
    keys = column.chunk(0)
    rows = pa.array(
        np.arange(len(keys)) if keys.null_count == 0 else np.flatnonzero(pc.is_valid(keys))
    )
    return rows, keys if keys.null_count == 0 else keys.take(rows)


def _once_per_row(rows: pa.Array, keys: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return each row with each of its distinct keys."""
    distinct = (
        pa.table({"row": rows, "key": keys})
        .group_by(["row", "key"], use_threads=False)
        .aggregate([])
    )
    row, key = (distinct.column(name).combine_chunks() for name in ("row", "key"))
    return row, key


def _combined_keys(table: pa.Table, bucket: Bucket) -> tuple[pa.Array, pa.Array]:
    """Return the rows with a key in every source, once per combination; the key is a text with all
    parts.
    """
    rows = pa.array(np.arange(table.num_rows))
    parts: list[pa.Array] = []
    for source in bucket.sources:
        places, own = keyed_rows(table.take(rows), source)
        rows, parts = rows.take(places), [*(part.take(places) for part in parts), own]
    number = numbered_groups(parts, len(rows))
    first = np.unique(number, return_index=True)
    texts = [combined_key([part[int(place)] for part in parts]) for place in first[1]]
    return rows, pa.array(texts, pa.string()).take(pa.array(np.searchsorted(first[0], number)))


def combined_key(values: Sequence[pa.Scalar]) -> str:
    """Return the parts of a key as one text."""
    return json.dumps([encode_value(value) for value in values])


def numbered_groups(
    keys: Sequence[pa.Array | pa.ChunkedArray], count: int
) -> npt.NDArray[np.int64]:
    """Return a number for each row that rows with equal keys share."""
    number = np.zeros(count, np.int64)
    for key in keys:
        if isinstance(key, pa.ChunkedArray):
            plain = key.combine_chunks()
        else:
            plain = key
        codes = plain.dictionary_encode(null_encoding="encode").indices.to_numpy(
            zero_copy_only=False
        )
        # Numbered again each time: the product of several numbers of distinct keys may not fit.
        number = np.unique(number * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[
            1
        ].reshape(-1)
    return number.astype(np.int64)


def _number_keys(values: pa.Array, bucket: Bucket) -> pa.Array:
    integral = (
        isinstance(bucket.interval, int)
        and isinstance(bucket.offset, int)
        and pa.types.is_integer(values.type)
    )
    kind = pa.int64() if integral else pa.float64()
    numbers = values.cast(kind, safe=integral)
    floats = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    if not integral:
        finite = np.isfinite(floats)
    else:
        finite = np.ones(len(floats), np.bool_)
    low = np.floor_divide(np.where(finite, floats, 0) - bucket.offset, bucket.interval)
    starts = low * bucket.interval + bucket.offset
    if integral and np.any((starts > floats) | (floats - starts >= bucket.interval)):
        raise OverflowError(
            f"a bucket of {bucket.name!r} begins below the smallest whole number of 64 bits"
        )
    keys = pa.array(starts, kind)
    return pc.if_else(pc.and_(numbers.is_valid(), pa.array(finite)), keys, pa.scalar(None, kind))


def _time_keys(values: pa.Array, bucket: Bucket) -> pa.Array:
    if bucket.time_zone is not None:
        values = values.cast(pa.timestamp("us", bucket.time_zone), safe=False)
    if bucket.unit:
        if not bucket.offset:
            return pc.floor_temporal(values, unit=bucket.unit, week_starts_monday=True)
        shift = pa.scalar(int(bucket.offset), pa.duration("us"))
        times = values.cast(
            pa.timestamp("us", values.type.tz if pa.types.is_timestamp(values.type) else None),
            safe=False,
        )
        floored = pc.floor_temporal(
            pc.subtract(times, shift), unit=bucket.unit, week_starts_monday=True
        )
        return pc.add(floored, shift)
    moment = pa.timestamp(
        "us", "UTC" if pa.types.is_timestamp(values.type) and values.type.tz else None
    )
    micros = values.cast(moment, safe=False).cast(pa.int64())
    shifted = micros.fill_null(0).to_numpy(zero_copy_only=False) - int(bucket.offset)
    low = np.floor_divide(shifted, bucket.interval) * int(bucket.interval) + int(bucket.offset)
    return pc.if_else(
        micros.is_valid(), pa.array(low, pa.int64()), pa.scalar(None, pa.int64())
    ).cast(moment)


def _range_keys(values: pa.Array, bucket: Bucket) -> tuple[pa.Array, pa.Array]:
    """Return the rows in each range by the range's number, by binary search in the sorted values."""
    present = np.flatnonzero(pc.is_valid(values))
    comparable = _comparable(values.take(pa.array(present)))
    order = np.argsort(comparable, kind="stable")
    ascending = comparable[order]
    first = _positions(ascending, [span.low for span in bucket.ranges], values.type, 0)
    end = _positions(ascending, [span.high for span in bucket.ranges], values.type, len(ascending))
    sizes = np.maximum(end - first, 0)
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(len(numbers)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows = present[order[np.repeat(first, sizes) + within]]
    by_range = np.lexsort((rows, numbers))
    return pa.array(rows[by_range], pa.int64()), pa.array(numbers[by_range], pa.int64())


def _comparable(values: pa.Array) -> npt.NDArray[Any]:
    """Return non-null values as ordered numbers: integers, microseconds, floats or decimals."""
    if pa.types.is_decimal(values.type):
        return np.array(values.to_pylist(), dtype=object)
    if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        times = pa.timestamp("us", values.type.tz if pa.types.is_timestamp(values.type) else None)
        return np.asarray(values.cast(times, safe=False).cast(pa.int64()))
    return np.asarray(
        values.cast(pa.float64() if pa.types.is_floating(values.type) else pa.int64())
    )


def _positions(
    ascending: npt.NDArray[Any], bounds: Sequence[Any], kind: pa.DataType, if_open: int
) -> npt.NDArray[np.int64]:
    """Return the first position of values not below each bound; a bound that is None is open."""
    found = np.full(len(bounds), if_open, np.int64)
    given = np.array([number for number, bound in enumerate(bounds) if bound is not None], np.int64)
    if pa.types.is_integer(kind):
        wanted = np.array([math.ceil(bounds[number]) for number in given], np.int64)
    elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        wanted = np.array([micros_of(bounds[number]) for number in given], np.int64)
    else:
        wanted = np.array([bounds[number] for number in given], ascending.dtype)
    found[given] = np.searchsorted(ascending, wanted)
    return found


def _number_masks(masks: Sequence[Any]) -> tuple[pa.Array, pa.Array]:
    """Return the rows in each mask by the mask's number."""
    rows = [np.flatnonzero(mask) for mask in masks]
    keys = [np.full(len(inside), number, np.int64) for number, inside in enumerate(rows)]
    return pa.array(np.concatenate(rows), pa.int64()), pa.array(np.concatenate(keys), pa.int64())


Place = tuple[str, ...]
"""The names of the buckets that lead to a group; a metric's table has its name after `#`."""
_ROW = "_row_of_group"
_FIRST_KEY = pa.scalar(0, pa.int8())
_PLAIN = ("terms", "histogram", "date_histogram", "range")
_COMPACT_AFTER = 32


class Partial(Struct, frozen=True):
    """Partial results of some rows. Picklable; `+` adds them."""

    tables: Mapping[Place, pa.Table] = field(default_factory=dict)

    def __add__(self, other: Partial) -> Partial:
        return merged([self, other])


def aggregate_split(
    split: Searchable, aggregations: Aggregations, query: Query, *, where: Predicate | None = None
) -> Partial:
    """Aggregate one split. Reads the aggregated columns of matching rows."""
    names = [
        n
        for n in dict.fromkeys(f.path[0] for f in fields_of(aggregations))
        if n in split.schema.names
    ]
    rows = find_rows(split, query, where=where)
    parts: list[Partial] = []
    if not len(rows):
        return Partial()
    if not names:
        return aggregate_rows(pa.table({_ROW: pa.nulls(len(rows))}), aggregations)
    chosen, codes = None if len(rows) == split.num_rows else rows, _takes_codes(aggregations)
    counted = count_rows(split, aggregations, chosen)
    if counted is not None:
        return Partial(counted)
    for batch in split.iter_rows(chosen, columns=names, codes=codes):
        parts.append(aggregate_rows(pa.Table.from_batches([batch]), aggregations))
        if len(parts) >= _COMPACT_AFTER:
            parts = [merged(parts)]
    return merged(parts)


def _takes_codes(aggregations: Aggregations) -> bool:
    """Return whether texts may be dictionary codes: only where plain keys are made of them."""
    return not aggregations.metrics and all(
        bucket.kind in _PLAIN
        and not bucket.sources
        and not bucket.field.is_json
        and _takes_codes(bucket.inside)
        for bucket in aggregations.buckets
    )


def aggregate_rows(table: pa.Table, aggregations: Aggregations) -> Partial:
    """Aggregate the rows of a table. A missing column holds nulls."""
    for missing in fields_of(aggregations):
        if missing.path[0] not in table.column_names:
            table = table.append_column(
                missing.path[0], pa.nulls(table.num_rows, _column_type(missing))
            )
    return Partial(dict(_group(table, aggregations, (), [pa.repeat(_FIRST_KEY, table.num_rows)])))


def _column_type(field: Field) -> pa.DataType:
    """Return the type of a field's column that contains only the field."""
    kind = pa.string() if field.is_json else field.type
    for key in () if field.is_json else reversed(field.path[1:]):
        kind = pa.struct([(key, kind)])
    return kind


def merged(parts: Iterable[Partial]) -> Partial:
    """Return the sum of partial results."""
    by_place: dict[Place, list[pa.Table]] = {}
    for part in parts:
        for place, table in part.tables.items():
            by_place.setdefault(place, []).append(table)
    return Partial({place: _sum(tables) for place, tables in by_place.items()})


def _group(
    table: pa.Table, aggregations: Aggregations, place: Place, keys: list[pa.Array]
) -> Iterator[tuple[Place, pa.Table]]:
    """Compute the tables of a group and of its sub-buckets. `keys` are the rows' buckets so far."""
    named = {f"k{i}": key for i, key in enumerate(keys)}
    yield place, _count_rows(named, table.num_rows)
    for metric in aggregations.metrics:
        yield (*place, f"#{metric.name}"), _metric(table, metric, named)
    for bucket in aggregations.buckets:
        rows, own = keyed_rows(table, bucket)
        if place == () and bucket.inside == Aggregations():
            yield (
                (bucket.name,),
                _count_rows({"k0": pa.repeat(_FIRST_KEY, len(own)), "k1": own}, len(own)),
            )
            continue
        if pa.types.is_dictionary(own.type):
            own = own.dictionary_decode()
        else:
            own = own
        yield from _inside(table.take(rows), bucket, place, [*(k.take(rows) for k in keys), own])


def _count_rows(keys: Mapping[str, pa.Array], rows: int) -> pa.Table:
    """Count the rows of each combination of keys. The first key is the same for all rows."""
    first, *others = keys
    if not others and rows:
        return pa.table({first: pa.array([0], pa.int8()), "n": pa.array([rows], pa.int64())})
    own = keys[others[0]] if len(others) == 1 else None
    if own is not None and _is_tallied(own.type):
        tally = pc.value_counts(own)
        values = tally.field("values")
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        else:
            values = values
        return pa.table(
            {
                first: pa.repeat(_FIRST_KEY, len(values)),
                others[0]: values,
                "n": tally.field("counts"),
            }
        )
    return _group_rows(
        pa.table({**keys, _ROW: pa.nulls(rows)}), list(keys), [([], "count_all")], ["n"]
    )


def _is_tallied(kind: pa.DataType) -> bool:
    """Return whether values of a type are counted directly. Sums over keys treat the forms of NaN
    separately.
    """
    return (
        is_text(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_temporal(kind)
        or pa.types.is_boolean(kind)
    )


def _inside(
    table: pa.Table, bucket: Bucket, place: Place, keys: list[pa.Array]
) -> Iterator[tuple[Place, pa.Table]]:
    yield from _group(table, bucket.inside, (*place, bucket.name), keys)


def _metric(table: pa.Table, metric: Metric, keys: Mapping[str, pa.Array]) -> pa.Table:
    if metric.kind == "top_hits":
        return _hits(table, metric, keys)
    values = values_of(table, metric.field)
    if pa.types.is_list(values.type):
        parents = pc.list_parent_indices(values)
        values, keys = (
            _plain_floats(pc.list_flatten(values)),
            {name: key.take(parents) for name, key in keys.items()},
        )
    if metric.kind == "cardinality":
        return _group_rows(
            pa.table({**keys, "value": values}).drop_null(),
            [*keys, "value"],
            [([], "count_all")],
            ["n"],
        )
    if metric.kind == "value_count":
        values = values
    else:
        values = without_nan(values)
    if metric.kind == "percentiles":
        numbers = pa.table({**keys, "number": values.cast(pa.float64(), safe=False)})
        present = numbers.filter(numbers.column("number").is_valid())
        return _digest(_group_rows(present, [*keys, "number"], [([], "count_all")], ["n"]))
    rows = pa.table({**keys, "v": values, "s": _summable(without_nan(values))})
    aggregates = [("v", "count"), ("s", "sum"), ("v", "min"), ("v", "max")]
    if metric.kind == "extended_stats":
        numbers = values.cast(pa.float64(), safe=False)
        rows = rows.append_column("q", pc.multiply(numbers, numbers))
        return _group_rows(
            rows, list(keys), [*aggregates, ("q", "sum")], ["n", "sum", "low", "high", "squares"]
        )
    return _group_rows(rows, list(keys), aggregates, ["n", "sum", "low", "high"])


def _hits(table: pa.Table, metric: Metric, keys: Mapping[str, pa.Array]) -> pa.Table:
    """Return the first rows of every group with their sort keys."""
    columns: dict[str, Any] = dict(keys)
    for number, (key, down) in enumerate(metric.sort):
        columns[f"sort {number} {'desc' if down else 'asc'}"] = values_of(table, key)
    for label, shown in zip(metric.labels, metric.hits, strict=True):
        columns[f"hit {label}"] = table.column(shown.path[0])
    return _first_hits(pa.table(columns).replace_schema_metadata({"size": str(metric.size)}))


def _first_hits(rows: pa.Table) -> pa.Table:
    """Return the first rows of every group up to its size; ties in row order."""
    names = rows.column_names
    group = numbered_groups(
        [rows.column(name) for name in names if name.startswith("k")], rows.num_rows
    )
    sort = [name for name in names if name.startswith("sort ")]
    orders = [OrderBy("group"), *(OrderBy(name, name.endswith(" desc")) for name in sort)]
    order = ranking(
        pa.table(
            [pa.array(group), *(rows.column(n) for n in sort)],
            [f"{n}.0" for n in range(len(orders))],
        ),
        orders,
    )
    starts = np.searchsorted(group[order], group[order])
    first = order[np.arange(len(order)) - starts < int(rows.schema.metadata[b"size"])]
    return rows.take(pa.array(first))


EXACT_VALUES = 100_000
"""Number of distinct values of one group kept for its percentiles; above it a digest is kept."""
_CENTROIDS = 2_000


def _digest(values: pa.Table) -> pa.Table:
    """Return values with their frequencies; large groups are summarized as a t-digest, finely at
    both ends.
    """
    if values.num_rows <= EXACT_VALUES:
        return values
    keys = [name for name in values.column_names if name not in ("number", "n")]
    group = numbered_groups([values.column(name) for name in keys], values.num_rows)
    numbers, counts = (values.column(name).to_numpy() for name in ("number", "n"))
    order = np.lexsort((numbers, group))
    group, number, count = group[order], numbers[order], counts[order]
    bounds = np.flatnonzero(np.diff(group, prepend=-1, append=group[-1] + 1))
    parts = [
        _centroids(order[low:high], number[low:high], count[low:high])
        for low, high in pairwise(bounds.tolist())
    ]
    first, means, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    digest = {name: values.column(name).take(pa.array(first)) for name in keys}
    return pa.table({**digest, "number": means, "n": weights})


def _centroids(
    places: npt.NDArray[np.int64], values: npt.NDArray[np.float64], counts: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Combine neighbouring values to their mean and count: few near both ends, many in the middle."""
    if len(values) <= EXACT_VALUES:
        return places, values, counts
    share = (np.cumsum(counts) - counts / 2) / counts.sum()
    scale = np.floor((np.arcsin(2 * share - 1) / np.pi + 0.5) * _CENTROIDS)
    starts = np.flatnonzero(np.diff(scale, prepend=-1))
    weights = np.add.reduceat(counts, starts)
    return places[starts], np.add.reduceat(values * counts, starts) / weights, weights


def _summable(values: pa.Array) -> pa.Array:
    """Return numbers in a type whose sum cannot overflow; zeros where there is nothing to add."""
    if pa.types.is_integer(values.type):
        return values.cast(pa.decimal128(38, 0))
    if pa.types.is_decimal(values.type):
        return values.cast(pa.decimal256(76, values.type.scale))
    if pa.types.is_floating(values.type):
        return values.cast(pa.float64())
    return pa.repeat(0.0, len(values))


def _group_rows(
    table: pa.Table, keys: list[str], aggregates: Sequence[tuple[object, str]], names: list[str]
) -> pa.Table:
    grouped = table.group_by(keys, use_threads=False).aggregate(aggregates)
    return grouped.select(
        [*keys, *(c for c in grouped.column_names if c not in keys)]
    ).rename_columns([*keys, *names])


def _sum(tables: list[pa.Table]) -> pa.Table:
    if len(tables) == 1:
        return tables[0]
    joined = pa.concat_tables(tables, promote_options="permissive")
    if any(name.startswith("hit ") for name in joined.column_names):
        return _first_hits(joined)
    how = {"n": "sum", "sum": "sum", "low": "min", "high": "max", "squares": "sum"}
    names = [name for name in joined.column_names if name in how]
    keys = [name for name in joined.column_names if name not in how]
    total = _group_rows(joined, keys, [(name, how[name]) for name in names], names)
    if "number" in keys:
        return _digest(total)
    return total
