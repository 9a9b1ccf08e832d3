"""Commands to verbs: each command has one small function that calls a verb of `Table` and shapes its report as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from indextables.commands import caches, descriptions, upkeep
from indextables.commands.session import Session
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

EXECUTIONS: Mapping[type[Command], Callable[[Any, Session], pa.Table]] = {
    MergeSplits: upkeep.merge_splits,
    Purge: upkeep.purge,
    DropPartitions: upkeep.drop_partitions,
    Checkpoint: upkeep.checkpoint,
    TruncateTimeTravel: upkeep.truncate_time_travel,
    RepairLog: upkeep.repair_log,
    Restore: upkeep.restore,
    Verify: upkeep.verify,
    DescribeState: descriptions.describe_state,
    DescribeTransactionLog: descriptions.describe_transaction_log,
    DescribeHistory: descriptions.describe_history,
    DescribeSkippedFiles: descriptions.describe_skipped_files,
    DescribeComponentSizes: descriptions.describe_component_sizes,
    DescribeMergeJobs: descriptions.describe_merge_jobs,
    DescribeEnvironment: descriptions.describe_environment,
    DescribeDiskCache: caches.describe_disk_cache,
    FlushDiskCache: caches.flush_disk_cache,
    PrewarmCache: caches.prewarm_cache,
    InvalidateCache: caches.invalidate_cache,
}
"""What runs each command."""


def execute(command: Command, *, session: Session | None = None) -> pa.Table:
    """Run a command; its rows have exactly the columns of `results.schema_of(command)`."""
    return EXECUTIONS[type(command)](command, session or Session())
