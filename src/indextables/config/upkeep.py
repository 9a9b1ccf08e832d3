"""Settings of maintenance: merging small splits, purging unneeded files, and automatic maintenance
after writes.
"""

from __future__ import annotations

from indextables.config.registry import SettingsGroup, setting
from indextables.config.values import (
    boolean,
    duration_ms,
    hours,
    integer,
    names,
    number,
    size,
    text,
    word_of,
)

MIN_TARGET_BYTES = 1 << 20
MIN_SOURCES = 2


class MergeSettings(SettingsGroup, frozen=True):
    """How splits are merged."""

    target_bytes: int = setting(
        "merge.targetSize",
        size(MIN_TARGET_BYTES),
        5 << 30,
        "Size up to which splits are merged into one.",
        in_table=True,
    )
    skip_threshold: float = setting(
        "merge.skipSplitThreshold",
        number(0, 1),
        0.45,
        "Share of the target size above which a split is not merged.",
        in_table=True,
    )
    max_source_splits: int = setting(
        "merge.maxSourceSplitsPerMerge",
        integer(MIN_SOURCES),
        1_000,
        "Maximum number of splits that are merged into one.",
        in_table=True,
    )
    batch_groups: int = setting(
        "merge.batchSize", integer(1), 16, "Number of merged splits per commit.", in_table=True
    )
    deleted_share: float = setting(
        "merge.deletedShareThreshold",
        number(0, 1),
        0.2,
        "Share of deleted rows above which a merge rewrites a split even if it is alone or large; "
        "with mergeOnWrite.enabled such a split starts a merge.",
        in_table=True,
    )
    cluster_by: tuple[str, ...] = setting(
        "merge.clusterBy",
        names(),
        (),
        "Columns by which merges sort rows; empty: rows keep their order.",
        in_table=True,
        names_columns=True,
    )
    parallelism: int = setting(
        "merge.parallelism", integer(1, 64), 2, "Groups that one process merges at a time."
    )


class DeleteSettings(SettingsGroup, frozen=True):
    """How rows are deleted, updated and upserted."""

    mode: str = setting(
        "delete.mode",
        word_of("auto", "vector", "rewrite"),
        "auto",
        "How rows are deleted: by a deletion vector (vector), by rewriting the split at once "
        "(rewrite), or by a deletion vector up to delete.maxVectorShare (auto).",
        in_table=True,
    )
    max_share: float = setting(
        "delete.maxVectorShare",
        number(0, 1),
        1.0,
        "Share of deleted rows of a split up to which delete.mode auto uses a deletion vector; "
        "earlier deletions count too. 1: no split is rewritten before the next merge.",
        in_table=True,
    )

    @property
    def vector_share(self) -> float:
        """The maximum share of a split's rows in a deletion vector."""
        return {"vector": 1.0, "rewrite": 0.0}.get(self.mode, self.max_share)


PURGE_LOG_HOURS = "purge.txLogRetentionHours"


class PurgeSettings(SettingsGroup, frozen=True):
    """What a purge keeps."""

    split_hours: float = setting(
        "purge.defaultRetentionHours",
        hours(),
        168.0,
        "How long a split is kept after it was removed, or written without a commit.",
        in_table=True,
    )
    log_hours: float = setting(
        PURGE_LOG_HOURS,
        hours(),
        720.0,
        "How long version files are kept when a table is purged. If set, it also applies to "
        "the cleaning after checkpoints; if logRetention.duration is set too, the longer one "
        "applies.",
        in_table=True,
    )
    check_retention: bool = setting(
        "purge.retentionCheckEnabled",
        boolean(),
        True,
        "Refuse a retention that is shorter than purge.minRetentionHours.",
        in_table=True,
    )
    min_hours: float = setting(
        "purge.minRetentionHours",
        hours(1),
        24.0,
        "Shortest retention that a purge accepts while purge.retentionCheckEnabled is true.",
        in_table=True,
    )
    parallelism: int = setting(
        "purge.parallelism",
        integer(1, 64),
        4,
        "Threads that delete the files of a batch in this process.",
    )
    max_files: int = setting(
        "purge.maxFilesToDelete",
        integer(0),
        0,
        "Maximum number of splits that one purge deletes; the next purge deletes the others. 0: all.",
        in_table=True,
    )
    delete_retries: int = setting(
        "purge.deleteRetries",
        integer(0, 100),
        3,
        "How often deleting a batch of files is repeated after a failure.",
        in_table=True,
    )


class MergeOnWriteSettings(SettingsGroup, frozen=True):
    """Automatic merges after a write."""

    enabled: bool = setting(
        "mergeOnWrite.enabled",
        boolean(),
        False,
        "Merge small splits after a write if there are enough of them.",
        in_table=True,
    )
    asynchronous: bool = setting(
        "mergeOnWrite.async.enabled",
        boolean(),
        True,
        "Merge in the background, so that the write returns at once.",
        in_table=True,
    )
    min_splits: int = setting(
        "mergeOnWrite.minSplits",
        integer(MIN_SOURCES),
        20,
        "Number of small splits that starts a merge.",
        in_table=True,
    )
    target_bytes: int = setting(
        "mergeOnWrite.targetSize",
        size(MIN_TARGET_BYTES),
        4 << 30,
        "Size up to which splits are merged into one after a write.",
        in_table=True,
    )
    min_free_gb: float = setting(
        "mergeOnWrite.minDiskSpaceGB",
        number(0),
        0.0,
        "Gigabytes of free disk in `indexWriter.tempDirectoryPath` that a merge after a write "
        "requires; 0: no requirement.",
        in_table=True,
    )
    shutdown_timeout_ms: int = setting(
        "mergeOnWrite.shutdownTimeoutMs",
        duration_ms(),
        300_000,
        "How long the process waits for merges in the background before it exits.",
    )


class ExpirySettings(SettingsGroup, frozen=True):
    """Expiry of rows by time."""

    column: str = setting(
        "retention.column",
        text(),
        "",
        "Column of dates or times by which rows expire; empty: rows do not expire.",
        in_table=True,
        names_columns=True,
    )
    period_ms: int = setting(
        "retention.period",
        duration_ms(),
        0,
        "How long rows are kept, by that column: 30 days, 12h.",
        in_table=True,
    )
    on_write: bool = setting(
        "retention.onWrite.enabled",
        boolean(),
        False,
        "Delete expired rows after every write.",
        in_table=True,
    )


class PurgeOnWriteSettings(SettingsGroup, frozen=True):
    """Automatic purges after writes and merges."""

    enabled: bool = setting(
        "purgeOnWrite.enabled",
        boolean(),
        False,
        "Purge the table after merges and writes.",
        in_table=True,
    )
    after_merge: bool = setting(
        "purgeOnWrite.triggerAfterMerge",
        boolean(),
        True,
        "Purge after a merge that followed a write.",
        in_table=True,
    )
    after_writes: int = setting(
        "purgeOnWrite.triggerAfterWrites",
        integer(0),
        0,
        "Number of written versions between purges; 0: after the merges that follow writes, or "
        "after every write without such merges.",
        in_table=True,
    )
    split_hours: float = setting(
        "purgeOnWrite.splitRetentionHours",
        hours(),
        168.0,
        "Retention of splits in automatic purges.",
        in_table=True,
    )
    log_hours: float = setting(
        "purgeOnWrite.txLogRetentionHours",
        hours(),
        720.0,
        "Retention of version files in automatic purges.",
        in_table=True,
    )
