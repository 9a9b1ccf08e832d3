"""Settings of upkeep: merging small splits, purging what nobody needs, and doing so by itself after writes."""

from __future__ import annotations

from dataclasses import dataclass

from indextables.config.registry import setting
from indextables.config.values import boolean, hours, integer, number, size

MIN_TARGET_BYTES = 1 << 20
MIN_SOURCES = 2


@dataclass(frozen=True)
class MergeSettings:
    """How splits are merged."""

    target_bytes: int = setting(
        "merge.targetSize", size(MIN_TARGET_BYTES), 5 << 30, "Size up to which splits are merged into one."
    )
    skip_threshold: float = setting(
        "merge.skipSplitThreshold",
        number(0, 1),
        0.45,
        "Share of the target size from which a split is left alone.",
    )
    max_source_splits: int = setting(
        "merge.maxSourceSplitsPerMerge", integer(MIN_SOURCES), 1_000, "Most splits that are merged into one."
    )
    batch_groups: int = setting("merge.batchSize", integer(1), 16, "Merged splits that are committed together.")
    parallelism: int = setting("merge.parallelism", integer(1, 64), 2, "Groups that one process merges at a time.")


@dataclass(frozen=True)
class PurgeSettings:
    """What a purge keeps."""

    split_hours: float = setting(
        "purge.defaultRetentionHours",
        hours(),
        168.0,
        "For how long a split is kept after it was removed, or written without ever being committed.",
    )
    log_hours: float = setting(
        "purge.txLogRetentionHours", hours(), 720.0, "For how long version files are kept when a table is purged."
    )
    check_retention: bool = setting(
        "purge.retentionCheckEnabled", boolean(), True, "Refuse to purge what is younger than 24 hours."
    )
    delete_retries: int = setting(
        "purge.deleteRetries", integer(0, 100), 3, "How often deleting a batch of files is repeated after a failure."
    )
