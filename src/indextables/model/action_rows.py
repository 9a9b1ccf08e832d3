"""Actions as rows: one column per field of every kind of action, for people who want to look into a log.

Maps and lists are JSON text. A time outside of the years 1 to 9999, which no reader could show, is null.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa

from indextables.model.actions import (
    ACTION_KEYS,
    AddAction,
    CommitInfo,
    LogAction,
    MetadataAction,
    ProtocolAction,
    RemoveAction,
    SkipAction,
    TxnAction,
    UnknownAction,
)

_TEXT, _LONG, _INT, _FLAG = pa.string(), pa.int64(), pa.int32(), pa.bool_()
_TIME = pa.timestamp("us", tz="UTC")
_YEAR_1_MS, _YEAR_10000_MS = -62_135_596_800_000, 253_402_300_800_000
ACTION_ROW_SCHEMA = pa.schema(
    [
        ("version", _LONG),
        ("log_file_path", _TEXT),
        ("action_type", _TEXT),
        ("path", _TEXT),
        ("partition_values", _TEXT),
        ("size", _LONG),
        ("data_change", _FLAG),
        ("tags", _TEXT),
        ("modification_time", _TIME),
        ("stats", _TEXT),
        ("min_values", _TEXT),
        ("max_values", _TEXT),
        ("num_records", _LONG),
        ("footer_start_offset", _LONG),
        ("footer_end_offset", _LONG),
        ("hotcache_start_offset", _LONG),
        ("hotcache_length", _LONG),
        ("has_footer_offsets", _FLAG),
        ("time_range_start", _TEXT),
        ("time_range_end", _TEXT),
        ("split_tags", _TEXT),
        ("delete_opstamp", _LONG),
        ("num_merge_ops", _INT),
        ("doc_mapping_json", _TEXT),
        ("doc_mapping_ref", _TEXT),
        ("uncompressed_size_bytes", _LONG),
        ("deletion_timestamp", _TIME),
        ("extended_file_metadata", _FLAG),
        ("skip_timestamp", _TIME),
        ("skip_reason", _TEXT),
        ("skip_operation", _TEXT),
        ("skip_retry_after", _TIME),
        ("skip_count", _INT),
        ("protocol_min_reader_version", _INT),
        ("protocol_min_writer_version", _INT),
        ("protocol_reader_features", _TEXT),
        ("protocol_writer_features", _TEXT),
        ("metadata_id", _TEXT),
        ("metadata_name", _TEXT),
        ("metadata_description", _TEXT),
        ("metadata_format_provider", _TEXT),
        ("metadata_format_options", _TEXT),
        ("metadata_schema_string", _TEXT),
        ("metadata_partition_columns", _TEXT),
        ("metadata_configuration", _TEXT),
        ("metadata_created_time", _TIME),
        ("added_at_version", _LONG),
        ("added_at_timestamp", _TIME),
        ("companion_source_files", _TEXT),
        ("companion_delta_version", _LONG),
        ("companion_fast_field_mode", _TEXT),
        ("deletion_vector", _TEXT),
        ("deleted_records", _LONG),
        ("txn_app_id", _TEXT),
        ("txn_version", _LONG),
        ("txn_last_updated", _TIME),
        ("commit_txn_id", _TEXT),
        ("commit_timestamp", _TIME),
        ("commit_operation", _TEXT),
        ("commit_operation_parameters", _TEXT),
        ("commit_operation_metrics", _TEXT),
        ("commit_user_metadata", _TEXT),
        ("commit_engine_info", _TEXT),
        ("unknown_fields", _TEXT),
        ("is_checkpoint", _FLAG),
    ]
)
_PREFIXES: dict[type, str] = {ProtocolAction: "protocol_", MetadataAction: "metadata_", TxnAction: "txn_"}
_PREFIXES |= {CommitInfo: "commit_", AddAction: "", RemoveAction: "", SkipAction: ""}
_SPELLED = {"reason": "skip_reason", "operation": "skip_operation", "retry_after": "skip_retry_after"}


def action_rows(
    actions: Iterable[LogAction], *, version: int, log_file_path: str, is_checkpoint: bool = False
) -> pa.Table:
    """A row per action, in their order, all from one file of the log."""
    listed = list(actions)
    columns: dict[str, list[Any]] = {}
    for at, action in enumerate(listed):
        for name, value in _fields(action):
            if value is not None:
                columns.setdefault(name, [None] * len(listed))[at] = value
    same = {"version": version, "log_file_path": log_file_path, "is_checkpoint": is_checkpoint}
    columns |= {name: [value] * len(listed) for name, value in same.items()}
    return pa.table([_column(f, columns.get(f.name), len(listed)) for f in ACTION_ROW_SCHEMA], schema=ACTION_ROW_SCHEMA)


def _fields(action: LogAction) -> list[tuple[str, Any]]:
    """Columns and values of one action."""
    if isinstance(action, UnknownAction):
        return [("action_type", action.key), ("unknown_fields", action.value)]
    prefix = _PREFIXES[type(action)]
    pairs: list[tuple[str, Any]] = [("action_type", ACTION_KEYS[type(action)])]
    for name in action.__struct_fields__:
        value = getattr(action, name)
        if name == "unknown":
            pairs.append(("unknown_fields", value or None))
        elif name == "format":
            pairs += [("metadata_format_provider", value.provider), ("metadata_format_options", value.options)]
        elif isinstance(action, SkipAction):
            pairs.append((_SPELLED.get(name, name), value))
        else:
            pairs.append((prefix + name, value))
    return pairs


def _column(field: pa.Field, values: list[Any] | None, length: int) -> pa.Array:
    if values is None:
        return pa.nulls(length, field.type)
    if field.type == _TEXT:
        values = [v if v is None or isinstance(v, str) else msgspec.json.encode(v).decode() for v in values]
    elif field.type == _TIME:
        values = [v * 1000 if v is not None and _YEAR_1_MS <= v < _YEAR_10000_MS else None for v in values]
    return pa.array(values, field.type)
