"""What the log will say of a split: gathered while its rows are written.

What is collected about a split's values on the way: bounds, nulls, time range, size.

What a finished split is: everything its entry in the log says.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.config.splits import StatsSettings
from indextables.errors import InvalidInputError
from indextables.model.actions import ROWS_END, AddAction
from indextables.model.stats import FileStatistics, StatsCollector
from indextables.splits.format.container import SplitLayout
from indextables.splits.format.section_table import Origin, Statistics

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
            bounds = pc.min_max(batch.column(self._time_column).cast(pa.timestamp("us")).cast(pa.int64())).as_py()
            if bounds["min"] is not None:
                low, high = self._times or (bounds["min"], bounds["max"])
                self._times = min(low, bounds["min"]), max(high, bounds["max"])

    def result(self) -> Statistics:
        """What was found."""
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
    """The column that gives a split its time range: the chosen one, or the first timestamp."""
    if not chosen:
        return next((f.name for f in schema if pa.types.is_timestamp(f.type)), None)
    place = schema.get_field_index(chosen)
    if place < 0 or not pa.types.is_timestamp(schema.field(place).type):
        timestamps = [f.name for f in schema if pa.types.is_timestamp(f.type)]
        message = f"indexing.timestampColumn names {chosen!r}, which is no timestamp column."
        raise InvalidInputError(message, hint=f"Timestamp columns: {', '.join(timestamps) or 'none'}.", column=chosen)
    return chosen


def iso_time(micros: int) -> str | None:
    """Microseconds since 1970 as an ISO timestamp in UTC; None outside the years that ISO text can say."""
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None
    return moment.isoformat().replace("+00:00", "Z")


class SplitInfo(Struct, frozen=True):
    """A split on local disk, ready to be uploaded and added to the log."""

    path: Path
    size: int
    num_records: int
    statistics: Statistics
    footer_start_offset: int
    hotcache_length: int
    doc_mapping_json: str
    doc_mapping_ref: str
    rows_end: int | None = None
    """Where the rows end and the index begins, if it is known: a scan that reads rows alone is planned by it."""

    @classmethod
    def of(cls, path: Path, layout: SplitLayout) -> SplitInfo:
        """The info of a split that was just finished."""
        table = layout.table
        return cls(
            path=path,
            size=layout.size,
            num_records=table.rows,
            statistics=table.statistics,
            footer_start_offset=layout.footer_start,
            hotcache_length=layout.hot_length,
            doc_mapping_json=table.mapping,
            doc_mapping_ref=table.mapping_ref,
            rows_end=layout.footer_start - layout.index_bytes,
        )

    def add_action(
        self,
        path: str,
        *,
        partition_values: dict[str, str | None] | None = None,
        modification_time: int = 0,
        data_change: bool = True,
        num_merge_ops: int = 0,
    ) -> AddAction:
        """The log entry of the split under the path it was uploaded to."""
        statistics = self.statistics
        return AddAction(
            path=path,
            partition_values=partition_values or {},
            size=self.size,
            modification_time=modification_time,
            data_change=data_change,
            stats=FileStatistics(self.num_records, null_counts=statistics.null_counts).to_json(),
            tags=None if self.rows_end is None else {ROWS_END: str(self.rows_end)},
            min_values=statistics.min_values or None,
            max_values=statistics.max_values or None,
            num_records=self.num_records,
            footer_start_offset=self.footer_start_offset,
            footer_end_offset=self.size,
            hotcache_start_offset=self.footer_start_offset,
            hotcache_length=self.hotcache_length,
            has_footer_offsets=True,
            time_range_start=statistics.time_range_start,
            time_range_end=statistics.time_range_end,
            split_tags=statistics.split_tags or None,
            delete_opstamp=0,
            num_merge_ops=num_merge_ops,
            doc_mapping_json=self.doc_mapping_json,
            doc_mapping_ref=self.doc_mapping_ref,
            uncompressed_size_bytes=statistics.uncompressed_size_bytes,
        )
