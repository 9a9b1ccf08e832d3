"""The rows of every statement: columns and types, as documented, for whoever runs a command and whoever plans one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from indextables.commands.values import (
    Checkpoint,
    Command,
    DescribeComponentSizes,
    DescribeDiskCache,
    DescribeEnvironment,
    DescribeHistory,
    DescribeMergeJobs,
    DescribeSkippedFiles,
    DescribeState,
    DescribeTransactionLog,
    DropPartitions,
    FlushDiskCache,
    InvalidateCache,
    MergeSplits,
    PrewarmCache,
    Purge,
    RepairLog,
    Restore,
    TruncateTimeTravel,
    Verify,
)
from indextables.model.action_rows import ACTION_ROW_SCHEMA
from indextables.model.report import Report

_TYPES = {
    "s": pa.string(),
    "l": pa.int64(),
    "i": pa.int32(),
    "d": pa.float64(),
    "b": pa.bool_(),
    "ts": pa.timestamp("us", tz="UTC"),
}


def columns(text: str) -> pa.Schema:
    """A schema from `name type, name type, ...` with the short type names of the command reference."""
    pairs = [part.split() for part in text.split(",")]
    return pa.schema([pa.field(name, _TYPES[kind]) for name, kind in pairs])


RESULTS: Mapping[type[Command], pa.Schema] = {
    MergeSplits: columns(
        "table_path s, status s, merged_files l, merge_groups l, original_size_bytes l, merged_size_bytes l,"
        "skipped_files l, version l, message s"
    ),
    Purge: columns(
        "table_path s, status s, orphaned_files_found l, orphaned_files_deleted l, size_bytes_deleted l,"
        "retention_hours l, tx_log_files_deleted l, expired_states_found l, expired_states_deleted l,"
        "manifests_deleted l, dry_run b, duration_ms l, message s"
    ),
    DropPartitions: columns(
        "table_path s, status s, partitions_dropped l, splits_removed l, total_size_bytes l, version l, message s"
    ),
    Checkpoint: columns(
        "table_path s, status s, checkpoint_version l, num_actions l, num_files l, protocol_version l,"
        "is_multi_part b, num_manifests l"
    ),
    TruncateTimeTravel: columns(
        "table_path s, status s, checkpoint_version l, versions_deleted l, checkpoints_deleted l, files_preserved l,"
        "message s"
    ),
    RepairLog: columns(
        "source_path s, target_path s, source_version l, total_splits i, valid_splits i, missing_splits i, status s"
    ),
    Restore: columns("table_path s, version l, restored_version l, files_added l, files_removed l"),
    Verify: columns("check s, severity s, path s, message s"),
    DescribeState: columns(
        "table_path s, format s, version l, latest_version l, num_files l, num_manifests l, num_tombstones l,"
        "tombstone_ratio d, total_bytes l, needs_compaction b, num_skipped l, protocol_version i"
    ),
    DescribeTransactionLog: ACTION_ROW_SCHEMA,
    DescribeHistory: columns(
        "version l, timestamp ts, operation s, operation_parameters s, operation_metrics s, user_metadata s,"
        "engine_info s, is_readable b"
    ),
    DescribeSkippedFiles: columns(
        "path s, reason s, operation s, skip_count i, skipped_at ts, retry_after ts, in_cooldown b"
    ),
    DescribeComponentSizes: columns("split_path s, partition_values s, component s, field s, size_bytes l"),
    DescribeMergeJobs: columns(
        "job_id s, table_path s, status s, total_groups l, completed_groups l, progress_pct d, duration_ms l,"
        "error_message s"
    ),
    DescribeEnvironment: columns("host s, role s, property_type s, property_name s, property_value s"),
    DescribeDiskCache: columns("executor s, host s, bytes l, splits l, hits l, misses l, hit_rate d"),
    FlushDiskCache: columns("executor s, host s, bytes_freed l, splits_freed l"),
    PrewarmCache: columns("host s, splits_prewarmed i, bytes l, duration_ms l"),
    InvalidateCache: columns("table_path s, result s, cache_hits_before l, cache_misses_before l, hit_rate_before s"),
}
"""The columns of each statement's rows. Maps, lists and parameters are JSON text."""


def schema_of(command: Command | type[Command]) -> pa.Schema:
    """The columns of the rows a command gives."""
    return RESULTS[command if isinstance(command, type) else type(command)]


def rows(command: Command | type[Command], found: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows given as mappings, as the documented table; each must have exactly its columns."""
    schema = schema_of(command)
    listed = [dict(row) for row in found]
    for row in listed:
        if row.keys() != set(schema.names):
            raise ValueError(f"columns {sorted(row)} instead of {sorted(schema.names)}")
    return pa.Table.from_pylist(listed, schema=schema)


def reported(command: Command | type[Command], report: Report, **others: Any) -> pa.Table:
    """The figures of a report as one row; `others` are columns that it does not have, or names otherwise."""
    figures = {**report.to_dict(), **others}
    return rows(command, [{name: figures[name] for name in schema_of(command).names}])


def shaped(command: Command | type[Command], table: pa.Table) -> pa.Table:
    """An Arrow table that has the documented columns by name, in the documented order and types."""
    schema = schema_of(command)
    return table.select(schema.names).cast(schema)
