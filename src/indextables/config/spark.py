"""Settings of Spark: how the splits of a read become tasks, who reads them, and how the rows of a write are spread."""

from __future__ import annotations

from indextables.config.registry import SettingsGroup, setting
from indextables.config.values import ValueType, boolean, integer, size, word_of


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
    distribution: str = setting(
        "write.optimizeWrite.distributionMode",
        word_of("none", "hash"),
        "hash",
        "How an optimized write brings rows together: those of a partition by a shuffle (`hash`), or not at all (`none`).",
        in_table=True,
    )
    target_bytes: int = setting(
        "write.optimizeWrite.targetSplitSize",
        size(1 << 20),
        1 << 30,
        "Size of the splits that an optimized write aims at.",
        in_table=True,
    )
