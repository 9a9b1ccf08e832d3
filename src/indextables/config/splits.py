"""Settings of splits: writing, reading, the local cache, and statistics."""

from __future__ import annotations

from indextables.config.registry import SettingsGroup, setting
from indextables.config.values import boolean, integer, local_path, names, size, text


class SplitWriterSettings(SettingsGroup, frozen=True):
    """How rows become splits."""

    heap_bytes: int = setting(
        "indexWriter.heapSize",
        size(32 << 20),
        400 << 20,
        "Memory for the index of a split during a write.",
    )
    temp_directory: str = setting(
        "indexWriter.tempDirectoryPath",
        local_path(),
        "",
        "Folder in which splits are built before upload; empty: the temporary folder of the "
        "system, or memory (/dev/shm) for splits of up to 8 MB of rows.",
    )
    target_bytes: int = setting(
        "write.targetSplitSize",
        size(1 << 20),
        1 << 30,
        "Size at which a writer starts the next split.",
        in_table=True,
    )
    max_rows: int = setting(
        "write.maxRowsPerSplit",
        integer(1, 1 << 30),
        10_000_000,
        "Number of rows at which a writer starts the next split.",
        in_table=True,
    )
    timestamp_column: str = setting(
        "indexing.timestampColumn",
        text(),
        "",
        "Column whose range is recorded as a split's time range; empty: the first timestamp column.",
        in_table=True,
        names_columns=True,
    )
    threads: int = setting(
        "indexWriter.threads",
        integer(1, 64),
        1,
        "Partitions of a write whose splits one process builds at a time, each with memory of its own "
        "(`indexWriter.heapSize`). The rows of one partition are indexed by one thread, in "
        "their order.",
    )


class SplitCacheSettings(SettingsGroup, frozen=True):
    """Caches of splits: on local disk for all processes of a user, and in the memory of each
    process.
    """

    directory: str = setting(
        "cache.directoryPath",
        local_path(),
        "",
        "Folder of the disk cache; empty: a folder in the temporary folder of the system.",
    )
    on_disk: bool = setting(
        "cache.disk.enabled", boolean(), True, "Whether parts of splits are cached on disk."
    )
    max_bytes: int = setting(
        "cache.maxSize",
        size(),
        4 << 30,
        "Maximum size of the disk cache; the least recently used parts are removed first.",
    )
    memory_bytes: int = setting(
        "cache.memory.maxSize",
        size(),
        128 << 20,
        "Maximum size of the decoded columns that a process caches in memory; 0 disables this cache.",
    )


class ReadSettings(SettingsGroup, frozen=True):
    """How splits are read."""

    parallelism: int = setting(
        "read.parallelism", integer(1, 256), 8, "Splits that one process searches at a time."
    )
    remote_parallelism: int = setting(
        "read.remoteParallelism",
        integer(1, 256),
        64,
        "Splits of a remote store that one process searches at a time before it reads rows; "
        "read.parallelism if only that is set.",
    )
    fail_on_missing_field: bool = setting(
        "prewarm.failOnMissingField",
        boolean(),
        False,
        "Whether prewarming refuses a column without an index; otherwise it reports the column and continues.",
    )


class PrewarmSettings(SettingsGroup, frozen=True):
    """Defaults of prewarming, and whether every read prewarms."""

    enabled: bool = setting(
        "prewarm.enabled",
        boolean(),
        False,
        "Whether the first read of a remote split also fetches its indexes for later searches: "
        "those of prewarm.fields, if the split matches prewarm.partitionFilter.",
    )
    fields: tuple[str, ...] = setting(
        "prewarm.fields",
        names(),
        (),
        "Columns whose indexes are prewarmed if a call names none; empty: all. Unknown columns "
        "and columns without an index are skipped.",
        in_table=True,
        names_columns=True,
    )
    partition_filter: str = setting(
        "prewarm.partitionFilter",
        text(),
        "",
        "Condition, such as day = '2026-11-02', for the splits that are prewarmed if a call has none; empty: all.",
    )


class RangeSettings(SettingsGroup, frozen=True):
    """How ranges of a remote split are combined."""

    max_gap: int = setting(
        "read.coalesceMaxGap",
        size(),
        256 << 10,
        "Ranges of a remote split with at most this gap are fetched in one request, including the gap.",
    )
    max_bytes: int = setting(
        "read.maxRangeSize",
        size(),
        0,
        "Maximum size of combined ranges in one request; a larger single range stays whole. 0: no limit.",
    )


class StatsSettings(SettingsGroup, frozen=True):
    """Column statistics in the log."""

    truncate: bool = setting(
        "stats.truncation.enabled",
        boolean(),
        True,
        "Shorten long strings in the statistics.",
        in_table=True,
    )
    max_length: int = setting(
        "stats.truncation.maxLength",
        integer(1),
        32,
        "Maximum number of characters of a string in the statistics.",
        in_table=True,
    )
    indexed_columns: int = setting(
        "dataSkippingNumIndexedCols",
        integer(-1),
        32,
        "Number of columns, from the first, that have statistics; -1 for all.",
        in_table=True,
    )
    named_columns: tuple[str, ...] = setting(
        "dataSkippingStatsColumns",
        names(),
        (),
        "Columns that have statistics; if set, dataSkippingNumIndexedCols is ignored.",
        in_table=True,
        names_columns=True,
    )
