"""Settings of splits: how they are written, and what of remote ones is kept on local disk.

Settings of reading rows.

Settings of the statistics that the log keeps of each split.

Settings of Spark: how splits become tasks, and how a write is spread.
"""

from __future__ import annotations

from indextables.config.registry import SettingsGroup, setting
from indextables.config.values import ValueType, boolean, integer, names, size, text, word_of


class SplitWriterSettings(SettingsGroup, frozen=True):
    """How rows become splits."""

    heap_bytes: int = setting(
        "indexWriter.heapSize", size(32 << 20), 400 << 20, "Memory for the index of a split that is being written."
    )
    temp_directory: str = setting(
        "indexWriter.tempDirectoryPath", text(), "", "Where splits are built before upload; empty: the system's choice."
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


class SplitCacheSettings(SettingsGroup, frozen=True):
    """What of splits is kept: on local disk for all processes of a user together, and in the memory of each process."""

    directory: str = setting(
        "cache.directoryPath",
        text(),
        "",
        "Where parts of splits are kept; empty: a folder in the system's temp folder.",
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


class SparkReadSettings(SettingsGroup, frozen=True):
    """How a scan is cut into tasks."""

    splits_per_task: int = setting(
        "read.splitsPerTask",
        ValueType(
            "integer",
            "a whole number from 0 up, or auto",
            lambda v: 0 if str(v).strip() == "auto" else integer(0).parse(v),
        ),
        0,
        "Splits that one Spark task reads; 0 or auto groups them by size and by how many tasks run at once.",
    )
    max_splits_per_task: int = setting(
        "read.maxSplitsPerTask",
        integer(0),
        0,
        "Most splits that one Spark task reads where they are grouped by size; 0: as many as their size allows.",
    )
    driver_splits: int = setting(
        "read.driverSplits",
        integer(0),
        8,
        "Up to so many splits the driver reads a small result itself, without tasks; 0: never.",
    )
    engine: str = setting(
        "read.engine",
        word_of("auto", "native", "arrow"),
        "auto",
        "Who reads the rows of table(): Spark itself (native), the package (arrow), or Spark where it can.",
    )


class SparkWriteSettings(SettingsGroup, frozen=True):
    """How rows are spread over the tasks of a write."""

    optimize: bool = setting(
        "write.optimizeWrite.enabled",
        boolean(),
        True,
        "Bring rows together before writing, those of a partition above all, so that few and large splits come out.",
        in_table=True,
    )
    target_bytes: int = setting(
        "write.optimizeWrite.targetSplitSize",
        size(1 << 20),
        1 << 30,
        "Size of the splits that an optimized write aims at.",
        in_table=True,
    )
