"""Settings of a session that change what Spark reads, and the rows of a table under them: those of
the defaults.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables import Table

FLAG = ("true", "false")
MODES = ("EXCEPTION", "CORRECTED", "LEGACY")
SETTINGS: dict[str, tuple[str, ...]] = {
    "spark.sql.files.ignoreMissingFiles": FLAG,
    "spark.sql.files.ignoreCorruptFiles": FLAG,
    "spark.sql.caseSensitive": FLAG,
    "spark.sql.ansi.enabled": FLAG,
    "spark.sql.session.timeZone": (
        "UTC",
        "America/New_York",
        "Asia/Kathmandu",
        "Pacific/Apia",
        "+14:00",
    ),
    "spark.sql.parquet.datetimeRebaseModeInRead": MODES,
    "spark.sql.parquet.int96RebaseModeInRead": MODES,
    "spark.sql.parquet.filterPushdown": FLAG,
    "spark.sql.parquet.filterPushdown.date": FLAG,
    "spark.sql.parquet.filterPushdown.timestamp": FLAG,
    "spark.sql.parquet.filterPushdown.decimal": FLAG,
    "spark.sql.parquet.filterPushdown.string.startsWith": FLAG,
    "spark.sql.parquet.filterPushdown.stringPredicate": FLAG,
    "spark.sql.parquet.pushdown.inFilterThreshold": ("0", "1", "100"),
    "spark.sql.parquet.aggregatePushdown": FLAG,
    "spark.sql.parquet.enableVectorizedReader": FLAG,
    "spark.sql.parquet.enableNestedColumnVectorizedReader": FLAG,
    "spark.sql.parquet.columnarReaderBatchSize": ("7", "4096"),
    "spark.sql.parquet.recordLevelFilter.enabled": FLAG,
    "spark.sql.parquet.mergeSchema": FLAG,
    "spark.sql.parquet.binaryAsString": FLAG,
    "spark.sql.parquet.int96AsTimestamp": FLAG,
    "spark.sql.parquet.inferTimestampNTZ.enabled": FLAG,
    "spark.sql.parquet.fieldId.read.enabled": FLAG,
    "spark.sql.parquet.fieldId.read.ignoreMissing": FLAG,
    "spark.sql.parquet.respectSummaryFiles": FLAG,
    "spark.sql.optimizer.nestedSchemaPruning.enabled": FLAG,
    "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": ("", "parquet,orc"),
    "spark.sql.optimizer.metadataOnly": FLAG,
    "spark.sql.optimizer.expression.nestedPruning.enabled": FLAG,
    "spark.sql.files.maxPartitionBytes": ("100", "4000", "128m"),
    "spark.sql.files.openCostInBytes": ("0", "1", "4m"),
    "spark.sql.files.minPartitionNum": ("1", "9"),
    "spark.sql.files.maxRecordsPerFile": ("0", "3"),
    "spark.sql.sources.useV1SourceList": ("", "parquet"),
    "spark.sql.sources.partitionColumnTypeInference.enabled": FLAG,
    "spark.sql.sources.validatePartitionColumns": FLAG,
    "spark.sql.sources.default": ("parquet", "orc"),
    "spark.sql.sources.bucketing.enabled": FLAG,
    "spark.sql.sources.ignoreDataLocality": FLAG,
    "spark.sql.codegen.wholeStage": FLAG,
    "spark.sql.codegen.factoryMode": ("FALLBACK", "NO_CODEGEN"),
    "spark.sql.adaptive.enabled": FLAG,
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": FLAG,
    "spark.sql.execution.arrow.maxRecordsPerBatch": ("1", "10000"),
    "spark.sql.execution.arrow.useLargeVarTypes": FLAG,
    "spark.sql.execution.arrow.pyspark.enabled": FLAG,
    "spark.sql.python.filterPushdown.enabled": FLAG,
    "spark.sql.timestampType": ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ"),
    "spark.sql.readSideCharPadding": FLAG,
    "spark.sql.legacy.charVarcharAsString": FLAG,
    "spark.sql.legacy.timeParserPolicy": MODES,
    "spark.sql.legacy.parquet.nanosAsLong": FLAG,
    "spark.sql.legacy.castComplexTypesToString.enabled": FLAG,
    "spark.sql.legacy.statisticalAggregate": FLAG,
    "spark.sql.legacy.nullInEmptyListBehavior": FLAG,
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": FLAG,
    "spark.sql.legacy.integerGroupingId": FLAG,
}
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("Day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("hour", pa.timestamp("us", tz="UTC")),
        ("text", pa.string()),
        ("x", pa.float64()),
        ("price", pa.decimal128(20, 3)),
        ("raw", pa.binary()),
        ("deep", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.string())])))])),
        ("tags", pa.map_(pa.string(), pa.int64())),
    ]
)
CONDITIONS = (
    "true",
    "id < 30",
    "id in (1, 2, 3, 50, 77)",
    "Day < date'1582-10-20'",
    "Day is null",
    "at < timestamp'1900-01-01 00:00:00Z'",
    "hour = timestamp'2024-03-10 07:00:00Z'",
    "hour is null",
    "text like 'word1%'",
    "text is null",
    "x = double('NaN')",
    "x < 0",
    "price > 10.5",
    "deep.a = 3",
    "deep.b[0].c is not null",
    "tags['k'] > 40",
    "not (id > 50) or x is null",
    "year(Day) < 1900",
)


def values(number: int) -> dict[str, Any]:
    """A row with ancient days, moments around a change of clocks, NaN and nulls."""
    import datetime as dt
    from decimal import Decimal

    day = dt.date(1, 1, 2) + dt.timedelta(days=number * 7919 % 730_000)
    moment = dt.datetime(1, 1, 3, 4, 5, 6, 789) + dt.timedelta(
        days=number * 104_729 % 730_000, seconds=number
    )
    hour = dt.datetime(2024, 3, 10, 5 + number % 4, tzinfo=dt.UTC)
    return {
        "id": number,
        "Day": day if number % 9 else None,
        "at": moment.replace(tzinfo=dt.UTC),
        "local": moment,
        "hour": hour if number % 13 else None,
        "text": f"word{number} common" if number % 7 else None,
        "x": [float("nan"), None, -1.5, 0.0, float(number)][number % 5],
        "price": Decimal(number * 7) / Decimal(1000) if number % 4 else None,
        "raw": bytes([number % 256, 255]),
        "deep": {"a": number % 6, "b": [{"c": "x" if number % 2 else None}]}
        if number % 5
        else None,
        "tags": [("k", number)] if number % 3 else [],
    }


def make_table(path: str) -> None:
    """A table of many types in several splits, partitioned by a moment."""
    table = Table.create(
        path, schema=SCHEMA, partition_columns=["hour"], options={"indexing.typemap.text": "text"}
    )
    for start in range(0, 120, 40):
        table.append(
            pa.Table.from_pylist([values(n) for n in range(start, start + 40)], schema=SCHEMA)
        )


def ways(spark: SparkSession, path: str) -> dict[str, Callable[[], DataFrame]]:
    """How rows are read."""
    return {
        "table": lambda: its.table(spark, path),
        "arrow": lambda: its.table(spark, path, options={"read.engine": "arrow"}),
        "source": lambda: spark.read.format("indextables").load(path),
        "search": lambda: its.search(spark, path, "text:common"),
    }


def answer(frame: DataFrame, condition: str) -> Counter[tuple[str, ...]]:
    """Rows as text that no setting changes, and what Spark counts and groups."""
    chosen = frame.where(condition)
    told = chosen.selectExpr(
        "id", "unix_date(Day) d", "unix_micros(at) a", "unix_micros(hour) h", "text", "x", "cast(price as string) p",
        "hex(raw) r", "to_json(deep) j", "map_keys(tags) k", "cast(local as string) l",
    )  # fmt: skip
    found = Counter(tuple(map(repr, row)) for row in told.collect())
    totals = chosen.selectExpr(
        "count(*)", "min(id)", "max(id)", "unix_date(min(Day))", "unix_date(max(Day))", "max(text)"
    )
    found.update([tuple(map(repr, row)) for row in totals.collect()])
    return found


def compare(
    spark: SparkSession, path: str, rng: random.Random, seconds: float, note: Callable[..., None]
) -> None:
    """Rows under random settings, until the time is over."""
    end = time.monotonic() + seconds
    before = {key: spark.conf.get(key, None) for key in SETTINGS}
    wanted: dict[tuple[str, str], Counter[tuple[str, ...]]] = {}
    while time.monotonic() < end:
        way, condition = rng.choice(list(ways(spark, path))), rng.choice(CONDITIONS)
        if (way, condition) not in wanted:
            wanted[way, condition] = answer(ways(spark, path)[way](), condition)
        chosen = {
            key: rng.choice(SETTINGS[key])
            for key in rng.sample(list(SETTINGS), rng.choice([1, 1, 3, 8, 20]))
        }
        made_before = ways(spark, path)[way]()
        for key, value in chosen.items():
            with suppress(
                Exception
            ):  # some are gone from this release of Spark, or cannot be changed
                spark.conf.set(key, value)
        try:
            for frame in (ways(spark, path)[way](), made_before):
                found = answer(frame, condition)
                kind = "same" if found == wanted[way, condition] else "lost"
                note(compared=kind, way=way, where=condition, settings=chosen, rows=found.total())
        except Exception as error:
            note(
                compared="error", way=way, where=condition, settings=chosen, error=str(error)[:1500]
            )
        finally:
            for key in chosen:
                with suppress(Exception):
                    restored(spark, key, before[key])


def restored(spark: SparkSession, key: str, value: str | None) -> None:
    """Put a setting back."""
    if value is None:
        spark.conf.unset(key)
    else:
        spark.conf.set(key, value)
