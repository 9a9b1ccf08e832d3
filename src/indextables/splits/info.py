"""What a finished split is: everything its entry in the log says."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from indextables.model.actions import AddAction
from indextables.model.stats import FileStatistics
from indextables.splits.container import Placed
from indextables.splits.layout import Statistics


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

    @classmethod
    def of(cls, path: Path, placed: Placed) -> SplitInfo:
        """The info of a split that was just finished."""
        table = placed.table
        return cls(
            path=path,
            size=placed.size,
            num_records=table.rows,
            statistics=table.statistics,
            footer_start_offset=placed.footer_start,
            hotcache_length=placed.hot_length,
            doc_mapping_json=table.mapping,
            doc_mapping_ref=table.mapping_ref,
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
        found = self.statistics
        return AddAction(
            path=path,
            partition_values=partition_values or {},
            size=self.size,
            modification_time=modification_time,
            data_change=data_change,
            stats=FileStatistics(self.num_records, null_counts=found.null_counts).to_json(),
            min_values=found.min_values or None,
            max_values=found.max_values or None,
            num_records=self.num_records,
            footer_start_offset=self.footer_start_offset,
            footer_end_offset=self.size,
            hotcache_start_offset=self.footer_start_offset,
            hotcache_length=self.hotcache_length,
            has_footer_offsets=True,
            time_range_start=found.time_range_start,
            time_range_end=found.time_range_end,
            split_tags=found.split_tags or None,
            delete_opstamp=0,
            num_merge_ops=num_merge_ops,
            doc_mapping_json=self.doc_mapping_json,
            doc_mapping_ref=self.doc_mapping_ref,
            uncompressed_size_bytes=found.uncompressed_size_bytes,
        )
