"""Settings of Spark: how splits become tasks, which engine reads them, and how written rows are
distributed.
"""

from __future__ import annotations

from indextables.config.registry import SettingsGroup, setting
from indextables.config.values import ValueType, boolean, integer, size, word_of


class SparkReadSettings(SettingsGroup, frozen=True):
    """How a scan is divided into tasks."""

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
        "Maximum number of splits per Spark task if they are grouped by size; 0: only the size limits it.",
    )
    driver_splits: int = setting(
        "read.driverSplits",
        integer(0),
        8,
        "Maximum number of splits for which the driver reads a small result itself, without tasks; 0: never.",
    )
    engine: str = setting(
        "read.engine",
        word_of("auto", "native", "arrow"),
        "auto",
        "Reader of the rows of table(): Spark (native), the package (arrow), or Spark where possible (auto).",
    )


class SparkWriteSettings(SettingsGroup, frozen=True):
    """How rows are distributed over the tasks of a write."""

    optimize: bool = setting(
        "write.optimizeWrite.enabled",
        boolean(),
        True,
        "Collect the rows of each partition before writing, so that few large splits are written.",
        in_table=True,
    )
    distribution: str = setting(
        "write.optimizeWrite.distributionMode",
        word_of("none", "hash"),
        "hash",
        "How an optimized write collects the rows of a partition: by a shuffle (`hash`), or not (`none`).",
        in_table=True,
    )
    target_bytes: int = setting(
        "write.optimizeWrite.targetSplitSize",
        size(1 << 20),
        1 << 30,
        "Target size of the splits of an optimized write.",
        in_table=True,
    )
