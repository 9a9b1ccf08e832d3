"""The columns of a file list. A snapshot keeps its live splits as one Arrow table of this schema, never as objects."""

from __future__ import annotations

import pyarrow as pa

_TEXT_MAP = pa.map_(pa.string(), pa.string())
_TEXTS = pa.list_(pa.string())

FILE_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("partition_values", _TEXT_MAP),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modification_time", pa.int64()),
        pa.field("data_change", pa.bool_()),
        pa.field("stats", pa.string()),
        pa.field("tags", _TEXT_MAP),
        pa.field("min_values", _TEXT_MAP),
        pa.field("max_values", _TEXT_MAP),
        pa.field("num_records", pa.int64()),
        pa.field("footer_start_offset", pa.int64()),
        pa.field("footer_end_offset", pa.int64()),
        pa.field("hotcache_start_offset", pa.int64()),
        pa.field("hotcache_length", pa.int64()),
        pa.field("has_footer_offsets", pa.bool_()),
        pa.field("time_range_start", pa.string()),
        pa.field("time_range_end", pa.string()),
        pa.field("split_tags", _TEXTS),
        pa.field("delete_opstamp", pa.int64()),
        pa.field("num_merge_ops", pa.int32()),
        pa.field("doc_mapping_json", pa.string()),
        pa.field("doc_mapping_ref", pa.string()),
        pa.field("uncompressed_size_bytes", pa.int64()),
        pa.field("added_at_version", pa.int64()),
        pa.field("added_at_timestamp", pa.int64()),
        pa.field("companion_source_files", _TEXTS),
        pa.field("companion_delta_version", pa.int64()),
        pa.field("companion_fast_field_mode", pa.string()),
        pa.field("unknown", pa.string()),
    ]
)
"""Column `unknown` holds, as JSON, the fields of the action that this release does not know."""
