"""Statistics of a split for the log: bounds, null counts, time range and size, collected while rows
are written.

Bounds are correct or absent. A column with NaN has no upper bound (NaN is the greatest), a zero
bounds -0.0 and 0.0 in every reader's order, a column of NULLs has no bounds, and truncated texts
are still bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.config.splits import StatsSettings
from indextables.errors import InvalidInputError
from indextables.model.schema import find_column, is_atomic, type_name
from indextables.model.values import decode_value, encode_value, shorten_max, shorten_min
from indextables.splits.format.container import FileStatistics
from indextables.splits.format.section_table import Origin, Statistics
from indextables.splits.index.table_schema import TableSchema


class StatsCollector:
    """Collects the statistics of one split from its batches."""

    def __init__(
        self,
        schema: pa.Schema,
        *,
        settings: StatsSettings | None = None,
        partition_columns: Sequence[str] = (),
    ) -> None:
        self._settings = settings or StatsSettings()
        self._columns = [
            _Column(f) for f in indexed_fields(schema, self._settings, partition_columns)
        ]
        self._num_records = 0

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add the rows of one batch."""
        self._num_records += batch.num_rows
        for column in self._columns:
            column.add(batch.column(column.name))

    def finish(self) -> FileStatistics:
        """Return the statistics of all added rows."""
        if self._settings.truncate:
            limit = self._settings.max_length
        else:
            limit = None
        lows = {c.name: c.low_text(limit) for c in self._columns}
        highs = {c.name: c.high_text(limit) for c in self._columns}
        return FileStatistics(
            num_records=self._num_records,
            min_values={name: text for name, text in lows.items() if text is not None},
            max_values={name: text for name, text in highs.items() if text is not None},
            null_counts={c.name: c.nulls for c in self._columns},
        )


def indexed_fields(
    schema: pa.Schema, settings: StatsSettings, partition_columns: Sequence[str] = ()
) -> list[pa.Field]:
    """Return the columns with statistics: the named ones, or the first comparable ones up to a
    limit.

    Partition columns are left out, because the log holds their values.
    """
    if settings.named_columns:
        names = dict.fromkeys(find_column(schema, name) for name in settings.named_columns)
        for name in names:
            if not is_atomic(schema.field(name).type):
                kind = type_name(schema.field(name).type)
                raise InvalidInputError(
                    f"dataSkippingStatsColumns names {name!r}, which is {kind} and has no minimum.",
                    hint="Name columns of numbers, text, booleans, dates or timestamps.",
                    column=name,
                )
        return [schema.field(name) for name in names if name not in partition_columns]
    fields = [f for f in TableSchema(schema, tuple(partition_columns)).stored if is_atomic(f.type)]
    if settings.indexed_columns < 0:
        return fields
    return fields[: settings.indexed_columns]


class _Column:
    """Running minimum, maximum and null count of one column."""

    def __init__(self, declared: pa.Field) -> None:
        self.name: str = declared.name
        self.nulls = 0
        self._type = declared.type
        self._low: Any = None
        self._high: Any = None
        self._nan = False

    def add(self, values: Any) -> None:
        if values.type != self._type:
            values = pc.cast(values, self._type)
        self.nulls += values.null_count
        if pa.types.is_binary(self._type):
            return
        if pa.types.is_floating(self._type):
            nan = pc.is_nan(values)
            if pc.any(nan).as_py():
                self._nan = True
                values = values.filter(pc.invert(nan))
        ends = pc.min_max(values)
        if ends["min"].is_valid:
            self._low = (
                ends["min"] if self._low is None else self._end("min", self._low, ends["min"])
            )
            self._high = (
                ends["max"] if self._high is None else self._end("max", self._high, ends["max"])
            )

    def _end(self, which: str, a: Any, b: Any) -> Any:
        return pc.min_max(pa.array([a, b], self._type))[which]

    def low_text(self, limit: int | None) -> str | None:
        if self._low is None:
            return None
        text = self._certain(self._low, "-0.0")
        if text is not None and limit and pa.types.is_string(self._type):
            return shorten_min(text, limit)
        return text

    def high_text(self, limit: int | None) -> str | None:
        if self._high is None or self._nan:
            return None
        text = self._certain(self._high, "0.0")
        if text is not None and limit and pa.types.is_string(self._type):
            return shorten_max(text, limit)
        return text

    def _certain(self, end: Any, zero: str) -> str | None:
        """Return the text of a bound, or None if a reader could not parse it (a year outside 1 to
        9999).
        """
        if pa.types.is_floating(self._type) and end.as_py() == 0:
            return zero
        text = encode_value(end)
        if text is not None and decode_value(text, self._type) is not None:
            return text
        return None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SplitStatistics:
    """Collects statistics over the batches of one split."""

    def __init__(
        self,
        schema: pa.Schema,
        *,
        settings: StatsSettings | None = None,
        timestamp_column: str = "",
        tags: Sequence[str] = (),
        origin: Origin | None = None,
    ) -> None:
        self._collector = StatsCollector(schema, settings=settings)
        self._tags = tuple(tags)
        self._origin = origin
        self._time_column = time_column(schema, timestamp_column)
        self._times: tuple[int, int] | None = None
        self._bytes = 0

    def update(self, batch: pa.RecordBatch) -> None:
        """Add the next rows."""
        self._bytes += batch.nbytes
        self._collector.add(batch)
        if self._time_column is not None:
            bounds = pc.min_max(
                batch.column(self._time_column).cast(pa.timestamp("us")).cast(pa.int64())
            ).as_py()
            if bounds["min"] is not None:
                low, high = self._times or (bounds["min"], bounds["max"])
                self._times = min(low, bounds["min"]), max(high, bounds["max"])

    def result(self) -> Statistics:
        """Return the statistics."""
        start, end = (iso_time(t) for t in self._times) if self._times else (None, None)
        collected = self._collector.finish()
        return Statistics(
            min_values=collected.min_values,
            max_values=collected.max_values,
            null_counts=collected.null_counts,
            time_range_start=start,
            time_range_end=end,
            uncompressed_size_bytes=self._bytes,
            split_tags=self._tags,
            origin=self._origin,
        )


def time_column(schema: pa.Schema, chosen: str = "") -> str | None:
    """Return the column of a split's time range: the configured one, or the first timestamp."""
    if not chosen:
        return next((f.name for f in schema if pa.types.is_timestamp(f.type)), None)
    place = schema.get_field_index(chosen)
    if place < 0 or not pa.types.is_timestamp(schema.field(place).type):
        timestamps = [f.name for f in schema if pa.types.is_timestamp(f.type)]
        message = f"indexing.timestampColumn names {chosen!r}, which is no timestamp column."
        raise InvalidInputError(
            message, hint=f"Timestamp columns: {', '.join(timestamps) or 'none'}.", column=chosen
        )
    return chosen


def iso_time(micros: int) -> str | None:
    """Return microseconds since 1970 as an ISO timestamp in UTC, or None outside the years of ISO
    text.
    """
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None
    return moment.isoformat().replace("+00:00", "Z")
