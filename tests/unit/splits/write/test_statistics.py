"""Statistics of a split: bounds that are right or absent, for the columns that were asked for."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from indextables import config
from indextables.config.splits import StatsSettings
from indextables.errors import InvalidInputError
from indextables.splits.format.container import FileStatistics
from indextables.splits.write.statistics import StatsCollector, indexed_fields

NAN = float("nan")
TABLE = pa.table(
    {
        "n": pa.array([3, None, -7], pa.int64()),
        "nan": pa.array([1.5, NAN, -2.0]),
        "all_nan": pa.array([NAN, NAN, None]),
        "zero": pa.array([-0.0, None, 0.0]),
        "neg": pa.array([-0.0, -1.0, -0.0], pa.float32()),
        "long": ["a" * 40, "b" * 40, "ab"],
        "last": ["\U0010ffff" * 40, "x", "y"],
        "none": pa.array([None, None, None], pa.string()),
        "price": pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(10, 2)),
        "flag": [True, True, None],
        "day": [dt.date(1969, 12, 31), dt.date(2024, 2, 29), None],
        "at": pa.array([0, 2**62, -1], pa.timestamp("us", tz="UTC")),
        "raw": pa.array([b"x", None, b"y"]),
        "tags": pa.array([["a"], None, []]),
    }
)


def collect(table: pa.Table = TABLE, **settings: object) -> FileStatistics:
    collector = StatsCollector(table.schema, settings=StatsSettings(**settings))  # type: ignore[arg-type]
    for batch in table.to_batches(max_chunksize=2):
        collector.add(batch)
    return collector.finish()


def test_bounds_and_counts() -> None:
    found = collect()
    assert found.num_records == 3
    assert found.min_values == {
        "n": "-7",
        "nan": "-2.0",
        "zero": "-0.0",
        "neg": "-1.0",
        "long": "a" * 32,
        "last": "x",
        "price": "-2.25",
        "flag": "true",
        "day": "1969-12-31",
        "at": "1969-12-31T23:59:59.999999Z",
    }
    assert found.max_values == {
        "n": "3",
        "zero": "0.0",
        "neg": "0.0",
        "long": "b" * 31 + "c",
        "price": "1.50",
        "flag": "true",
        "day": "2024-02-29",
    }
    assert found.null_counts["none"] == 3
    assert found.null_counts["raw"] == 1
    assert "tags" not in found.null_counts


def test_the_json_of_the_add_action() -> None:
    content = json.loads(collect(TABLE.select(["n", "none"])).to_json())
    assert content == {"numRecords": 3, "nullCount": {"n": 1, "none": 3}}


def test_truncation_can_be_turned_off_or_set() -> None:
    assert collect(truncate=False).max_values["long"] == "b" * 40
    short = collect(max_length=1)
    assert (short.min_values["long"], short.max_values["long"]) == ("a", "c")


def test_no_rows_no_bounds() -> None:
    assert collect(TABLE.slice(0, 0).select(["n"])) == FileStatistics(0, {}, {}, {"n": 0})


def test_data_in_another_encoding_counts_as_the_declared_type() -> None:
    schema = pa.schema([("s", pa.string())])
    collector = StatsCollector(schema)
    collector.add(pa.table({"s": pa.array(["b", "a", None]).dictionary_encode()}))
    assert collector.finish() == FileStatistics(3, {"s": "a"}, {"s": "b"}, {"s": 1})


def names(partition_columns: tuple[str, ...] = (), **options: object) -> list[str]:
    settings = config.resolve(options=options).group(StatsSettings)
    return [f.name for f in indexed_fields(TABLE.schema, settings, partition_columns)]


def test_which_columns_have_statistics() -> None:
    assert names()[-2:] == ["at", "raw"]
    assert names(dataSkippingNumIndexedCols=2) == ["n", "nan"]
    assert names(("n",), dataSkippingNumIndexedCols=2) == ["nan", "all_nan"]
    assert names(dataSkippingNumIndexedCols=0) == []
    assert len(names(dataSkippingNumIndexedCols=-1)) == 13
    assert names(("n",), dataSkippingStatsColumns="DAY, n, flag") == ["day", "flag"]


def test_named_columns_must_exist_and_have_an_order() -> None:
    with pytest.raises(InvalidInputError, match="no column 'nope'"):
        names(dataSkippingStatsColumns="nope")
    with pytest.raises(InvalidInputError, match="names 'tags', which is array<string>"):
        names(dataSkippingStatsColumns="tags")
