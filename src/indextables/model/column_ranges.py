"""Ranges of column values in each file of a file list: lower bound, upper bound, and presence of
NULLs.

Statistics with null counts were written by our rules and are used unchanged. Other writers may
compare text by UTF-16 units, truncate an upper bound without rounding up, or write the first value
as both bounds of types they cannot compare. Their bounds are widened until they hold in every such
case, or dropped.

A test against a range returns for all files at once whether some value between the bounds can pass,
and whether some value can fail. If a bound is absent, both are possible.

A manifest has bounds too: for each column the minimum and maximum over all its files, correct or
absent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from msgspec import Struct

from indextables.model.actions import MetadataAction
from indextables.model.predicate.evaluation import compare, outcome_of
from indextables.model.predicate.tree import (
    Column,
    ColumnTest,
    Comparison,
    In,
    Like,
    Literal,
    TextMatch,
    literal_prefix,
)
from indextables.model.schema import is_atomic, schema_from_json
from indextables.model.state import Bounds
from indextables.model.values import decode_value, decode_values, encode_value, successor

Mask = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]
UNKNOWN_COUNT = -1


class TextMaps:
    """A column of text maps. If every map has the same keys in the same order, a lookup is a
    strided slice.
    """

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._chunks = [_MapChunk(chunk) for chunk in column.chunks]

    def lookup(self, key: str) -> tuple[pa.Array, Mask]:
        """Return the text under a key per map, NULL if it is missing, and whether any map has the
        key.
        """
        lookups = [chunk.lookup(key) for chunk in self._chunks]
        if not lookups:
            return pa.array([], pa.string()), np.zeros(0, np.bool_)
        return pa.concat_arrays([texts for texts, _ in lookups]), np.concatenate(
            [mask for _, mask in lookups]
        )


class _MapChunk:
    """The maps of one chunk."""

    def __init__(self, maps: pa.MapArray) -> None:
        self._count = len(maps)
        self._offsets = maps.offsets.to_numpy()
        first, last = (int(self._offsets[0]), int(self._offsets[-1])) if self._count else (0, 0)
        self._keys = maps.keys.slice(first, last - first)
        self._items = maps.items.slice(first, last - first)
        self._offsets = self._offsets - first
        if maps.null_count:
            self._null = pc.is_null(maps).to_numpy(zero_copy_only=False)
        else:
            self._null = None

    def lookup(self, key: str) -> tuple[pa.Array, Mask]:
        shared = self._shared_keys
        if shared is None:
            return self._scatter(key)
        if key not in shared:
            return pa.nulls(self._count, pa.string()), np.zeros(self._count, np.bool_)
        positions = np.arange(shared.index(key), len(self._items), len(shared))
        return self._items.take(pa.array(positions)), np.ones(self._count, np.bool_)

    @cached_property
    def _shared_keys(self) -> list[str] | None:
        """Return the keys of every map if they are the same in all of them."""
        if self._count == 0 or self._null is not None or self._keys.type != pa.string():
            return None
        width = len(self._keys) // self._count
        if width == 0 or not np.array_equal(self._offsets, np.arange(self._count + 1) * width):
            return None
        _, starts, letters = self._keys.buffers()
        ends = np.frombuffer(starts, np.int32)[
            self._keys.offset : self._keys.offset + len(self._keys) + 1
        ]
        lengths = np.diff(ends).reshape(self._count, width)
        if not (lengths == lengths[0]).all():
            return None
        size = int(lengths[0].sum())
        if size:
            rows = np.frombuffer(letters, np.uint8)[ends[0] : ends[-1]].reshape(self._count, size)
            if not (rows == rows[0]).all():
                return None
        keys: list[str] = self._keys.slice(0, width).to_pylist()
        if len(set(keys)) == width:
            return keys
        return None

    def _scatter(self, key: str) -> tuple[pa.Array, Mask]:
        hits = np.flatnonzero(pc.equal(self._keys, key).to_numpy(zero_copy_only=False))
        rows = np.repeat(np.arange(self._count), np.diff(self._offsets))[hits]
        positions = np.full(self._count, -1, np.int64)
        positions[rows] = hits
        if self._null is not None:
            positions[self._null] = -1
        missing = positions < 0
        return self._items.take(pa.array(positions, mask=missing)), ~missing


def null_counts(stats: pa.ChunkedArray, column: str) -> tuple[Counts, Counts]:
    """Return the null count of a column and the number of records in each `stats` JSON; -1 if
    missing.
    """
    texts = pc.fill_null(
        stats.combine_chunks() if isinstance(stats, pa.ChunkedArray) else stats, "{}"
    )
    counts = _read_together(texts, column)
    if counts is not None:
        return counts
    return _read_singly(texts, column)


def _read_together(texts: pa.Array, column: str) -> tuple[Counts, Counts] | None:
    """Parse all texts in one pass of Arrow's JSON reader, or return None if any of them has another
    form than ours.
    """
    if len(texts) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    lines = pc.binary_join(
        pa.ListArray.from_arrays([0, len(texts)], texts.cast(pa.string())), "\n"
    )[0].as_buffer()
    fields = pa.struct([pa.field(column, pa.int64())])
    options = pj.ParseOptions(
        explicit_schema=pa.schema([("numRecords", pa.int64()), ("nullCount", fields)]),
        unexpected_field_behavior="ignore",
    )
    try:
        table = pj.read_json(pa.BufferReader(lines), parse_options=options)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(texts):
        return None
    nulls = pc.struct_field(table["nullCount"], [column])
    return _counts(nulls), _counts(table["numRecords"])


def _counts(values: pa.ChunkedArray) -> Counts:
    counts: Counts = pc.fill_null(values, UNKNOWN_COUNT).to_numpy()
    return counts


def _read_singly(texts: pa.Array, column: str) -> tuple[Counts, Counts]:
    nulls = np.full(len(texts), UNKNOWN_COUNT, np.int64)
    records = np.full(len(texts), UNKNOWN_COUNT, np.int64)
    for row, text in enumerate(texts.to_pylist()):
        try:
            content = msgspec.json.decode(text)
        except msgspec.DecodeError:
            continue
        if isinstance(content, dict):
            nulls[row] = _count_of_text(content.get("nullCount"), column)
            records[row] = _count_of_text(content, "numRecords")
    return nulls, records


def _count_of_text(container: Any, key: str) -> int:
    value = container.get(key) if isinstance(container, dict) else None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return value
    return UNKNOWN_COUNT


_CUT_LENGTH = 32
_ASTRAL = r"[\x{10000}-\x{10FFFF}]"
_ABOVE_SURROGATES = r"[\x{E000}-\x{FFFF}]"


class ColumnRange(Struct, frozen=True):
    """Bounds of one column with one entry per file. An absent bound is NULL; both ends are
    inclusive.

    `can_value` and `can_null` tell whether a row of the file can hold a value, or NULL.
    """

    low: pa.Array
    high: pa.Array
    can_value: Mask
    can_null: Mask

    @classmethod
    def unknown(cls, column: Column, count: int) -> ColumnRange:
        """Return unbounded ranges."""
        nothing = pa.nulls(count, pa.null() if column.type is None else column.type)
        return cls(nothing, nothing, np.ones(count, np.bool_), np.ones(count, np.bool_))

    def at(self, places: Sequence[int]) -> ColumnRange:
        """Return the bounds of some of the files, in this order."""
        number = np.asarray(places, np.int64)
        low, high = (values.take(pa.array(number)) for values in (self.low, self.high))
        return ColumnRange(low, high, self.can_value[number], self.can_null[number])


class Ranges(Protocol):
    """A source of column ranges over a number of files or groups of files."""

    count: int

    def range_of(self, column: Column, *, nulls: bool) -> ColumnRange:
        """Return the range of a column. NULLs are determined only on request, because that takes
        longer.
        """


class FileRanges:
    """The ranges of a file list: partition values, which are exact, and the bounds of other
    columns.
    """

    def __init__(self, files: pa.Table, partition_columns: Sequence[str]) -> None:
        self.count: int = files.num_rows
        self._files = files
        self._partition_columns = frozenset(partition_columns)

    def range_of(self, column: Column, *, nulls: bool) -> ColumnRange:
        if len(column.path) == 1 and column.name in self._partition_columns:
            return self._partition(column)
        if len(column.path) > 1:
            return ColumnRange.unknown(column, self.count)
        return self._bounds(column, nulls=nulls)

    def _partition(self, column: Column) -> ColumnRange:
        texts, present = self._partition_values.lookup(column.name)
        missing = pc.is_null(texts).to_numpy(zero_copy_only=False)
        is_null = missing & present
        values = decode_values(texts, column.type)
        unknown = pc.is_null(values).to_numpy(zero_copy_only=False) & ~is_null
        return ColumnRange(values, values, ~is_null, is_null | unknown)

    def _bounds(self, column: Column, *, nulls: bool) -> ColumnRange:
        if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
            low = high = pa.nulls(self.count, column.type)
        else:
            lows, _ = self._min_values.lookup(column.name)
            highs, _ = self._max_values.lookup(column.name)
            low, high = self._trustworthy(lows, highs, column.type)
        can_value, can_null = np.ones(self.count, np.bool_), np.ones(self.count, np.bool_)
        bare = pc.is_null(low).to_numpy(zero_copy_only=False) & pc.is_null(high).to_numpy(
            zero_copy_only=False
        )
        if nulls or (bare & self._careful).any():
            count, records = null_counts(self._files["stats"], column.name)
            # Nulls were counted in all rows of the file, deleted ones among them.
            deleted = pc.fill_null(self._files["deleted_records"], 0)
            counts = pc.fill_null(
                pc.add(self._files["num_records"], deleted), UNKNOWN_COUNT
            ).to_numpy()
            records = np.where(counts >= 0, counts, records)
            can_null = count != 0
            can_value = ~((count > 0) & (count == records))
        return ColumnRange(low, high, can_value, can_null)

    def _trustworthy(
        self, lows: pa.Array, highs: pa.Array, arrow: pa.DataType
    ) -> tuple[pa.Array, pa.Array]:
        """Return the bounds of a column, widened or dropped where another writer may be wrong."""
        if pa.types.is_string(arrow):
            if not self._careful.all():
                lows = _replace(lows, _suspect_low(lows) & ~self._careful, _widened_low)
                highs = _replace(highs, _suspect_high(highs) & ~self._careful, _widened_high)
        elif _often_uncompared(arrow) and not self._careful.all():
            stored = pc.add(
                self._files["num_records"], pc.fill_null(self._files["deleted_records"], 0)
            )
            several = pc.fill_null(pc.not_equal(stored, 1), True).to_numpy()
            same = pc.fill_null(pc.equal(lows, highs), False).to_numpy(zero_copy_only=False)
            first_value = pa.array(same & several & ~self._careful)
            lows = pc.if_else(first_value, pa.scalar(None, pa.string()), lows)
            highs = pc.if_else(first_value, pa.scalar(None, pa.string()), highs)
        return consistent(decode_values(lows, arrow), decode_values(highs, arrow))

    @cached_property
    def _careful(self) -> Mask:
        """Return the files whose statistics have null counts."""
        counted = pc.fill_null(pc.match_substring(self._files["stats"], '"nullCount"'), False)
        foreign = pc.fill_null(pc.match_substring(self._files["stats"], '"minValues"'), False)
        mask: Mask = pc.and_not(counted, foreign).to_numpy()
        return mask

    @cached_property
    def _partition_values(self) -> TextMaps:
        return TextMaps(self._files["partition_values"])

    @cached_property
    def _min_values(self) -> TextMaps:
        return TextMaps(_with_json_bounds(self._files, "min_values", "minValues"))

    @cached_property
    def _max_values(self) -> TextMaps:
        return TextMaps(_with_json_bounds(self._files, "max_values", "maxValues"))


def _with_json_bounds(files: pa.Table, column: str, key: str) -> pa.ChunkedArray:
    """Return a column of bounds; missing ones come from `key` in the file's `stats` JSON, as other
    writers store them.
    """
    bounds = files[column]
    candidates = pc.fill_null(pc.match_substring(files["stats"], f'"{key}"'), False).to_numpy()
    if not candidates.any():
        return bounds
    values, texts = bounds.to_pylist(), files["stats"].to_pylist()
    for row in np.flatnonzero(candidates):
        if not values[row]:
            values[row] = _json_bounds(texts[row], key)
    return pa.chunked_array([pa.array(values, bounds.type)])


def _json_bounds(text: str, key: str) -> list[tuple[str, str]]:
    """Return the bounds in a `stats` text by column; none if the text is malformed."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return []
    found = content.get(key) if isinstance(content, dict) else None
    if isinstance(found, dict):
        plain = {name: value for name, value in found.items() if _is_plain(value)}
    else:
        plain = {}
    return [
        (name, value if isinstance(value, str) else json.dumps(value))
        for name, value in plain.items()
    ]


def _is_plain(value: object) -> bool:
    return (
        isinstance(value, str | int | float) and value == value
    )  # a number that is not one bounds nothing


def consistent(low: pa.Array, high: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the bounds without pairs whose lower end is above the upper one, which have another
    order.
    """
    if pa.types.is_float64(low.type):
        low, high = _of_any_precision(low, high)
    inverted = pc.greater(low, high)
    if pa.types.is_floating(low.type):
        inverted = pc.and_(pc.or_(inverted, pc.is_nan(low)), pc.invert(pc.is_nan(high)))
    inverted = pc.fill_null(inverted, False)
    if not pc.any(inverted).as_py():
        return low, high
    nothing = pa.scalar(None, low.type)
    return pc.if_else(inverted, nothing, low), pc.if_else(inverted, nothing, high)


def _of_any_precision(low: pa.Array, high: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return bounds that also hold for single-precision texts of a column that was widened since.

    As text, 1.1 is the same number in both precisions; as a value the single-precision one is
    1.10000002.
    """
    single_low, single_high = (
        end.cast(pa.float32(), safe=False).cast(pa.float64()) for end in (low, high)
    )
    low = pc.if_else(pc.and_(pc.less(single_low, low), pc.is_finite(single_low)), single_low, low)
    return low, pc.if_else(
        pc.and_(pc.greater(single_high, high), pc.is_finite(single_high)), single_high, high
    )


def _often_uncompared(arrow: pa.DataType) -> bool:
    """Return the types for which a known writer records the first value as both bounds."""
    kinds = pa.types
    small = kinds.is_int8(arrow) or kinds.is_int16(arrow)
    return bool(
        small or kinds.is_decimal(arrow) or (kinds.is_timestamp(arrow) and arrow.tz is None)
    )


def _suspect_low(lows: pa.Array) -> Mask:
    if pc.all(pc.string_is_ascii(lows)).as_py() is not False:
        return np.zeros(len(lows), np.bool_)
    return _holds(pc.match_substring_regex(lows, _ASTRAL))


def _suspect_high(highs: pa.Array) -> Mask:
    length = pc.utf8_length(highs)
    long = pc.greater_equal(length, _CUT_LENGTH)
    if pc.all(pc.string_is_ascii(highs)).as_py() is not False:
        return _holds(long)
    # Where characters of two UTF-16 units occur, half the length may be the whole.
    half = pc.and_(
        pc.greater_equal(length, _CUT_LENGTH // 2), pc.match_substring_regex(highs, _ASTRAL)
    )
    return _holds(pc.or_(pc.or_(long, half), pc.match_substring_regex(highs, _ABOVE_SURROGATES)))


def _holds(outcome: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(outcome, False).to_numpy(zero_copy_only=False)
    return mask


def _widened_low(text: str) -> str:
    """Return a bound below everything that UTF-16 order sorts at or after the text."""
    return text[: next((i for i, c in enumerate(text) if c >= "\U00010000"), len(text))]


def _widened_high(text: str) -> str | None:
    """Return a bound above everything that UTF-16 order sorts at or before any text with this
    prefix.
    """
    if len(text.encode("utf-16-le")) >= 2 * _CUT_LENGTH:
        stem = text[:-1]
    else:
        stem = text
    return successor(
        stem[: next((i for i, c in enumerate(stem) if "\ue000" <= c <= "\uffff"), len(stem))]
    )


def _replace(texts: pa.Array, where: Mask, change: Callable[[str], str | None]) -> pa.Array:
    if not where.any():
        return texts
    mask = pa.array(where)
    changed = pa.array([change(text) for text in texts.filter(mask).to_pylist()], pa.string())
    return pc.replace_with_mask(texts, mask, changed)


_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def can_pass(test: ColumnTest, column_range: ColumnRange) -> Mask:
    """Return where some value within the range passes."""
    if isinstance(test, Comparison):
        return _can_compare(test.operator, test, column_range)
    if isinstance(test, In):
        return _can_be_listed(test, column_range)
    if isinstance(test, TextMatch) and test.kind == "starts_with":
        return _can_begin(test.text, column_range)
    mask = _possible(_of_single_values(column_range, outcome_of(test, column_range.low)))
    if isinstance(test, Like):
        return mask & _can_begin(literal_prefix(test.pattern), column_range)
    return mask


def can_fail(test: ColumnTest, column_range: ColumnRange) -> Mask:
    """Return where some value within the range does not pass."""
    if isinstance(test, Comparison):
        if test.operator != "=":
            return _can_compare(_OPPOSITE[test.operator], test, column_range)
        value, arrow = test.literal.value, test.column.type
        others = (
            pc.invert(compare("=", end, value, arrow))
            for end in (column_range.low, column_range.high)
        )
        return np.logical_or(*(_possible(other) for other in others))
    if isinstance(test, TextMatch) and test.kind == "starts_with":
        return _can_begin_otherwise(test.text, column_range)
    return _possible(_of_single_values(column_range, pc.invert(outcome_of(test, column_range.low))))


def _can_compare(operator: str, test: Comparison, column_range: ColumnRange) -> Mask:
    value, arrow = test.literal.value, test.column.type
    if operator == "=":
        return _possible(compare("<=", column_range.low, value, arrow)) & _possible(
            compare(">=", column_range.high, value, arrow)
        )
    if operator in ("<", "<="):
        end = column_range.low
    else:
        end = column_range.high
    return _possible(compare(operator, end, value, arrow))


def _can_be_listed(test: In, column_range: ColumnRange) -> Mask:
    """Return where at least one listed value is within the range: fewer of them are below it than
    up to its end.
    """
    values = np.sort(_orderable(pa.array([v.value for v in test.literals], test.column.type)))
    mask = np.ones(len(column_range.low), np.bool_)
    if values.dtype == object:
        # Objects are slow to search: first leave out what the least and the greatest of them rule
        # out.
        outside = {"<=": values[-1], ">=": values[0]}
        for operator, end in outside.items():
            mask &= _can_compare(
                operator, Comparison(operator, test.column, Literal(end)), column_range
            )
    rows = pa.array(np.flatnonzero(mask))
    below = _count(values, column_range.low.take(rows), "left", 0)
    up_to = _count(values, column_range.high.take(rows), "right", len(values))
    mask[mask] = up_to > below
    return mask


def _count(
    values: npt.NDArray[Any], ends: pa.Array, side: Any, unknown: int
) -> npt.NDArray[np.int64]:
    """Count the sorted values below each end (`left`), or up to and including it (`right`)."""
    counts = np.full(len(ends), unknown, np.int64)
    present = pc.is_valid(ends).to_numpy(zero_copy_only=False)
    counts[present] = np.searchsorted(values, _orderable(ends.drop_null()), side)
    return counts


def _orderable(values: pa.Array) -> npt.NDArray[Any]:
    """Return non-null values in a form that numpy orders: numbers, times as numbers, others as
    Python objects.
    """
    arrow = values.type
    if pa.types.is_date(arrow):
        return np.asarray(values.cast(pa.int32()))
    if pa.types.is_timestamp(arrow):
        return np.asarray(values.cast(pa.int64()))
    if pa.types.is_integer(arrow) or pa.types.is_floating(arrow):
        return np.asarray(values)
    objects = np.empty(len(values), object)
    objects[:] = values.to_pylist()
    return objects


def _can_begin(prefix: str, column_range: ColumnRange) -> Mask:
    """Return the range of texts with a prefix: from the prefix up to but excluding its successor."""
    arrow, beyond = column_range.low.type, successor(prefix)
    mask = _possible(compare(">=", column_range.high, prefix, arrow))
    if beyond is None:
        return mask
    return mask & _possible(compare("<", column_range.low, beyond, arrow))


def _can_begin_otherwise(prefix: str, column_range: ColumnRange) -> Mask:
    arrow, beyond = column_range.low.type, successor(prefix)
    mask = _possible(compare("<", column_range.low, prefix, arrow))
    if beyond is None:
        return mask
    return mask | _possible(compare(">=", column_range.high, beyond, arrow))


def _of_single_values(column_range: ColumnRange, outcome: pa.Array) -> pa.Array:
    """Return the outcome where both bounds are the same, hence the only, value; elsewhere unknown."""
    return pc.if_else(
        pc.equal(column_range.low, column_range.high), outcome, pa.scalar(None, pa.bool_())
    )


def _possible(outcome: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(outcome, True).to_numpy(zero_copy_only=False)
    return mask


class BoundsFinder:
    """Computes the bounds of file lists of one table, by the types of its schema."""

    def __init__(self, metadata: MetadataAction) -> None:
        schema = schema_from_json(metadata.schema_string)
        self._types = {f.name: f.type for f in schema if is_atomic(f.type)}
        self._partition_columns = tuple(metadata.partition_columns or ())

    def of(self, files: pa.Table) -> tuple[dict[str, Bounds], dict[str, Bounds]]:
        """Return the bounds that every reader understands (partition columns), and typed bounds
        (all columns).

        Other readers compare partition bounds as text or as number-like texts. A partition column
        is bounded for them only if the order of its texts agrees with that of its values.
        """
        ranges = FileRanges(files, self._partition_columns)
        by_type = self._partitions(ranges) | self._statistics(files, ranges)
        for_all = {
            name: bounds
            for name in self._partition_columns
            if name in by_type
            and (bounds := self._agreeing(files, name, by_type[name])) is not None
        }
        return for_all, by_type

    def _partitions(self, ranges: FileRanges) -> dict[str, Bounds]:
        by_column = {}
        for name in self._partition_columns:
            if name not in self._types:
                continue
            spread = ranges.range_of(Column((name,), self._types[name]), nulls=False)
            unreadable = pc.is_null(spread.low).to_numpy(zero_copy_only=False) & spread.can_value
            if not unreadable.any():
                by_column[name] = (_end(spread.low, "min"), _end(spread.high, "max"))
        return {name: bounds for name, bounds in by_column.items() if bounds != (None, None)}

    def _statistics(self, files: pa.Table, ranges: FileRanges) -> dict[str, Bounds]:
        # A column is bounded only if it is in every file, so the first file names all that can be.
        first = {
            key
            for side in ("min_values", "max_values")
            for key, _ in files.column(side)[0].as_py() or ()
        }
        by_column = {}
        for name in sorted(first - set(self._partition_columns)):
            if name not in self._types:
                continue
            spread = ranges.range_of(Column((name,), self._types[name]), nulls=False)
            if spread.low.null_count:
                low = None
            else:
                low = _end(spread.low, "min")
            if spread.high.null_count:
                high = None
            else:
                high = _end(spread.high, "max")
            by_column[name] = (low, high)
        return {name: bounds for name, bounds in by_column.items() if bounds != (None, None)}

    def _agreeing(self, files: pa.Table, name: str, typed: Bounds) -> Bounds | None:
        texts, _ = TextMaps(files.column("partition_values")).lookup(name)
        ends = pc.min_max(texts)
        kind = self._types[name]
        low, high = ends["min"].as_py(), ends["max"].as_py()
        if low is None or high is None or None in typed:
            return None
        same_low = decode_value(low, kind) == decode_value(str(typed[0]), kind)
        same_high = decode_value(high, kind) == decode_value(str(typed[1]), kind)
        if same_low and same_high:
            return (low, high)
        return None


def _end(values: Any, which: str) -> str | None:
    """Return the minimum or maximum as text, or None if there is none or it is not a number."""
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        return None
    if pa.types.is_binary(values.type) or pa.types.is_null(values.type):
        return None
    end = pc.min_max(values)[which]
    if end.is_valid:
        return encode_value(end)
    return None
