"""What is collected about a split's values on the way: bounds, nulls, time range, size."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from indextables.config.stats import StatsSettings
from indextables.errors import InvalidInputError
from indextables.model.stats import StatsCollector
from indextables.splits.layout import Origin, Statistics

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SplitStatistics:
    """Collects over the batches of one split."""

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
        """Take the next rows into account."""
        self._bytes += batch.nbytes
        self._collector.add(batch)
        if self._time_column is not None:
            found = pc.min_max(batch.column(self._time_column).cast(pa.timestamp("us")).cast(pa.int64())).as_py()
            if found["min"] is not None:
                low, high = self._times or (found["min"], found["max"])
                self._times = min(low, found["min"]), max(high, found["max"])

    def result(self) -> Statistics:
        """What was found."""
        start, end = (iso_time(t) for t in self._times) if self._times else (None, None)
        found = self._collector.finish()
        return Statistics(
            min_values=found.min_values,
            max_values=found.max_values,
            null_counts=found.null_counts,
            time_range_start=start,
            time_range_end=end,
            uncompressed_size_bytes=self._bytes,
            split_tags=self._tags,
            origin=self._origin,
        )


def time_column(schema: pa.Schema, chosen: str = "") -> str | None:
    """The column that gives a split its time range: the chosen one, or the first timestamp."""
    if not chosen:
        return next((f.name for f in schema if pa.types.is_timestamp(f.type)), None)
    place = schema.get_field_index(chosen)
    if place < 0 or not pa.types.is_timestamp(schema.field(place).type):
        known = [f.name for f in schema if pa.types.is_timestamp(f.type)]
        message = f"indexing.timestampColumn names {chosen!r}, which is no timestamp column."
        raise InvalidInputError(message, hint=f"Timestamp columns: {', '.join(known) or 'none'}.", column=chosen)
    return chosen


def iso_time(micros: int) -> str | None:
    """Microseconds since 1970 as an ISO timestamp in UTC; None outside the years that ISO text can say."""
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None
    return moment.isoformat().replace("+00:00", "Z")
