"""The actions of the log: the lines of a version file.

Names are snake_case here and camelCase on disk. Every action keeps unknown fields in `unknown`, so
that a rewritten file loses nothing. Null lists and maps are read as None or empty. This module also
lists skipped splits (`SkipAction`) in cooldown and their failure counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

MAX_LONG = 2**63 - 1
"""The largest integer that a file list and other engines can hold."""
Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=MAX_LONG)]
UNKNOWN_FIELD = "(unknown fields)"
"""Reserved name: entries under it are written back as fields of the line itself."""


def _required_default(default: Any) -> Any:
    """Return a default that is written to disk, because every reader requires the field."""
    return msgspec.field(default_factory=lambda: default)


def _written_map() -> dict[str, Any]:
    """Return an empty map that is written to disk (msgspec omits the default `dict`)."""
    return {}


class Action(
    msgspec.Struct,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
    kw_only=True,
    frozen=True,
    gc=False,
):
    """Base of the actions; `unknown` holds the fields that this release does not know."""

    unknown: dict[str, Any] = msgspec.field(default_factory=dict, name=UNKNOWN_FIELD)


class ProtocolAction(Action, kw_only=True, frozen=True):
    """Reader and writer requirements of the table."""

    min_reader_version: Long = _required_default(1)
    min_writer_version: Long = _required_default(1)
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None


class FileFormat(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """The provider of the table's files."""

    provider: str = "indextables"
    options: dict[str, str] | None = {}


class MetadataAction(Action, kw_only=True, frozen=True):
    """Identity, schema, partitioning and configuration of the table."""

    id: str
    name: str | None = None
    description: str | None = None
    format: FileFormat = _required_default(FileFormat())
    schema_string: str
    partition_columns: tuple[str, ...] | None = _required_default(())
    configuration: dict[str, str] | None = msgspec.field(default_factory=_written_map)
    created_time: Long | None = None


ROWS_END = "rowsEnd"
"""Tag with the byte offset at which the rows of a split end and its index begins."""


class AddAction(Action, kw_only=True, frozen=True):
    """A split that is part of the table from this version on."""

    path: str
    partition_values: dict[str, str | None] | None = msgspec.field(default_factory=_written_map)
    size: Long
    modification_time: Long = _required_default(0)
    data_change: bool = _required_default(True)
    stats: str | None = None
    tags: dict[str, str] | None = None
    min_values: dict[str, str] | None = None
    max_values: dict[str, str] | None = None
    num_records: Long | None = None
    """Rows of the split that are part of the table, without those in its deletion vector."""
    footer_start_offset: Long | None = None
    footer_end_offset: Long | None = None
    hotcache_start_offset: Long | None = None
    hotcache_length: Long | None = None
    has_footer_offsets: bool = False
    time_range_start: str | None = None
    time_range_end: str | None = None
    split_tags: tuple[str, ...] | None = None
    delete_opstamp: Long | None = None
    num_merge_ops: Long | None = None
    doc_mapping_json: str | None = None
    doc_mapping_ref: str | None = None
    uncompressed_size_bytes: Long | None = None
    added_at_version: Long | None = None
    added_at_timestamp: Long | None = None
    companion_source_files: tuple[str, ...] | None = None
    companion_delta_version: Long | None = None
    companion_fast_field_mode: str | None = None
    deletion_vector: str | None = None
    """The deleted rows of the split (see `model.deletion_vector`). A split is identified by path
    and vector.
    """
    deleted_records: Long | None = None
    """Number of rows in the vector."""


class RemoveAction(Action, kw_only=True, frozen=True):
    """A split that is no longer part of the table. Its file stays until a purge."""

    path: str
    deletion_timestamp: Long | None = None
    data_change: bool = _required_default(True)
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: Long | None = None
    tags: dict[str, str] | None = None
    deletion_vector: str | None = None
    """The vector that the split had, so that the removed rows can be determined."""


class SkipAction(Action, kw_only=True, frozen=True):
    """A split that an operation could not process. It stays live and is not retried before
    `retry_after`.
    """

    path: str
    skip_timestamp: Long
    reason: str
    operation: str
    partition_values: dict[str, str | None] | None = None
    size: Long | None = None
    retry_after: Long | None = None
    skip_count: Long = _required_default(1)


class CommitInfo(Action, kw_only=True, frozen=True):
    """Who committed the version, when and why. A writer recognises its own commit by `txn_id`."""

    txn_id: str | None = None
    timestamp: Long | None = None
    operation: str | None = None
    operation_parameters: dict[str, Any] | None = None
    operation_metrics: dict[str, Any] | None = None
    user_metadata: str | None = None
    engine_info: str | None = None


class TxnAction(Action, kw_only=True, frozen=True):
    """The newest batch of an exactly-once writer."""

    app_id: str
    version: Long
    last_updated: Long | None = None


ACTION_KEYS: dict[type[Action], str] = {
    CommitInfo: "commitInfo",
    ProtocolAction: "protocol",
    MetadataAction: "metaData",
    TxnAction: "txn",
    AddAction: "add",
    RemoveAction: "remove",
    SkipAction: "mergeskip",
}


class UnknownAction(msgspec.Struct, kw_only=True, frozen=True):
    """A line with a key that this release does not know: ignored, but kept when a file is
    rewritten.
    """

    key: str
    value: Any


LogAction = Action | UnknownAction


SKIPPED_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("operation", pa.string()),
        pa.field("skip_count", pa.int32()),
        pa.field("skipped_at", pa.timestamp("ms", tz="UTC")),
        pa.field("retry_after", pa.timestamp("ms", tz="UTC")),
        pa.field("in_cooldown", pa.bool_(), nullable=False),
    ]
)


def in_cooldown(skip: SkipAction, *, now_ms: int) -> bool:
    """Return whether the split is in cooldown."""
    return skip.retry_after is not None and skip.retry_after > now_ms


def paths_in_cooldown(skips: Mapping[str, SkipAction], *, now_ms: int) -> dict[str, int]:
    """Return the splits in cooldown with the end of their cooldown."""
    return {
        p: s.retry_after
        for p, s in skips.items()
        if s.retry_after is not None and s.retry_after > now_ms
    }


def without_cooling(files: pa.Table, skips: Mapping[str, SkipAction], *, now_ms: int) -> pa.Table:
    """Return a file list without the splits in cooldown."""
    cooling = paths_in_cooldown(skips, now_ms=now_ms)
    if not cooling:
        return files
    return files.filter(
        pc.invert(pc.is_in(files.column("path"), value_set=pa.array(sorted(cooling), pa.string())))
    )


def skipped_table(skips: Mapping[str, SkipAction], *, now_ms: int) -> pa.Table:
    """Return every live skip as a row, the latest first."""
    ordered = sorted(skips.values(), key=lambda s: (-s.skip_timestamp, s.path))
    rows = [
        {
            "path": s.path,
            "reason": s.reason,
            "operation": s.operation,
            "skip_count": s.skip_count,
            "skipped_at": s.skip_timestamp,
            "retry_after": s.retry_after,
            "in_cooldown": in_cooldown(s, now_ms=now_ms),
        }
        for s in ordered
    ]
    return pa.Table.from_pylist(rows, schema=SKIPPED_SCHEMA)
