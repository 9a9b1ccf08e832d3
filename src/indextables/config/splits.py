"""Settings of splits: how they are written and read, what of them is kept on local disk, which statistics they have."""

from __future__ import annotations

from indextables.config.registry import SettingsGroup, setting
from indextables.config.values import boolean, integer, local_path, names, size, text


class SplitWriterSettings(SettingsGroup, frozen=True):
    """How rows become splits."""

    heap_bytes: int = setting(
        "indexWriter.heapSize", size(32 << 20), 400 << 20, "Memory for the index of a split that is being written."
    )
    temp_directory: str = setting(
        "indexWriter.tempDirectoryPath",
        local_path(),
        "",
        "Where splits are built before upload; empty: the system's choice.",
    )
    target_bytes: int = setting(
        "write.targetSplitSize",
        size(1 << 20),
        1 << 30,
        "Size at which a writer goes on to the next split.",
        in_table=True,
    )
    max_rows: int = setting(
        "write.maxRowsPerSplit",
        integer(1, 1 << 30),
        10_000_000,
        "Number of rows at which a writer goes on to the next split.",
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
        "(`indexWriter.heapSize`). The rows of one partition are indexed by one thread, in their order.",
    )


class SplitCacheSettings(SettingsGroup, frozen=True):
    """What of splits is kept: on local disk for all processes of a user together, and in the memory of each process."""

    directory: str = setting(
        "cache.directoryPath",
        local_path(),
        "",
        "Where parts of splits are kept; empty: a folder in the system's temp folder.",
    )
    on_disk: bool = setting(
        "cache.disk.enabled", boolean(), True, "Whether parts of splits are kept on disk, whatever the bound says."
    )
    max_bytes: int = setting(
        "cache.maxSize", size(), 4 << 30, "Bound of the disk cache; what was used longest ago goes first."
    )
    memory_bytes: int = setting(
        "cache.memory.maxSize",
        size(),
        128 << 20,
        "Bound of the decoded columns that a process keeps in memory for its next search; 0 keeps none.",
    )


class ReadSettings(SettingsGroup, frozen=True):
    """How splits are read."""

    parallelism: int = setting("read.parallelism", integer(1, 256), 8, "Splits that one process searches at a time.")
    remote_parallelism: int = setting(
        "read.remoteParallelism",
        integer(1, 256),
        64,
        "Splits of a remote store that one process looks into at a time before it reads rows; "
        "read.parallelism, where only that is given.",
    )
    fail_on_missing_field: bool = setting(
        "prewarm.failOnMissingField",
        boolean(),
        False,
        "Whether prewarming refuses a column that has no index; otherwise it says so and goes on.",
    )


class PrewarmSettings(SettingsGroup, frozen=True):
    """What is fetched of remote splits ahead of a search, where nobody names it; and whether every read does so."""

    enabled: bool = setting(
        "prewarm.enabled",
        boolean(),
        False,
        "Whether a process that reads a remote split for the first time fetches its indexes for later searches too: those of "
        "prewarm.fields, if prewarm.partitionFilter leaves the split.",
    )
    fields: tuple[str, ...] = setting(
        "prewarm.fields",
        names(),
        (),
        "Columns whose indexes are prewarmed where none is named; empty: all. What a table has no such column for, or no "
        "index of, is left out.",
        in_table=True,
        names_columns=True,
    )
    partition_filter: str = setting(
        "prewarm.partitionFilter",
        text(),
        "",
        "Condition, such as day = '2026-11-02', for the splits that are prewarmed where none is given; empty: all.",
    )


class RangeSettings(SettingsGroup, frozen=True):
    """Which parts of a remote split are fetched together."""

    max_gap: int = setting(
        "read.coalesceMaxGap",
        size(),
        256 << 10,
        "Parts of a remote split that lie no further apart than this are fetched in one request, with what is between them.",
    )
    max_bytes: int = setting(
        "read.maxRangeSize",
        size(),
        0,
        "Most that parts of a remote split are joined to for one request; what is larger by itself stays whole. 0: no bound.",
    )


class StatsSettings(SettingsGroup, frozen=True):
    """Which columns have minima and maxima in the log, and how long a text among them may be."""

    truncate: bool = setting(
        "stats.truncation.enabled", boolean(), True, "Shorten long texts in the statistics.", in_table=True
    )
    max_length: int = setting(
        "stats.truncation.maxLength", integer(1), 32, "Characters of a text that the statistics keep.", in_table=True
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
        "Columns that have statistics; if given, their number does not count.",
        in_table=True,
        names_columns=True,
    )
