"""Every Spark SQL type comes back exactly, through us and through the engines that read Parquet."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.splits import log_rows, open_file, write_file

DAY = dt.date(1969, 12, 31)
UTC = pa.timestamp("us", "UTC")
NTZ = pa.timestamp("us")

COLUMNS: dict[str, pa.Array] = {
    "byte": pa.array([-128, None, 127], pa.int8()),
    "short": pa.array([-(1 << 15), None, 1], pa.int16()),
    "int": pa.array([-(1 << 31), None, 1], pa.int32()),
    "long": pa.array([-(1 << 63), None, (1 << 63) - 1], pa.int64()),
    "float": pa.array([1.5, None, float("-inf")], pa.float32()),
    "double": pa.array([-0.0, None, 5e-324], pa.float64()),
    "decimal": pa.array(
        [Decimal("-12345678901234567890.123456789012345678"), None, Decimal(0)],
        pa.decimal128(38, 18),
    ),
    "small_decimal": pa.array([Decimal("-1.25"), None, Decimal("9.99")], pa.decimal128(3, 2)),
    "boolean": pa.array([True, None, False]),
    "string": pa.array(["", None, "é\0😀"]),
    "binary": pa.array([b"", None, b"\x00\xff"]),
    "date": pa.array([DAY, None, dt.date(9999, 12, 31)], pa.date32()),
    "timestamp": pa.array([-1, None, 253_402_300_799_999_999], UTC),
    "timestamp_ntz": pa.array([-62_135_596_800_000_000, None, 1], NTZ),
    "array": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    "map": pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int64())),
    "struct": pa.array([{"x": 1, "y": None}, None, {"x": None, "y": "z"}]),
    "nested": pa.array(
        [[{"m": [("k", [Decimal("1.0")])]}], None, [None]],
        pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.decimal128(4, 1))))])),
    ),
    "void": pa.nulls(3),
    "variant": pa.array(
        [
            {"metadata": b"\x01\x00\x00", "value": b"\x0c\x01"},
            None,
            {"metadata": b"\x01\x00\x00", "value": b"\x00"},
        ],
        pa.struct(
            [
                pa.field("metadata", pa.binary(), nullable=False),
                pa.field("value", pa.binary(), nullable=False),
            ]
        ),
    ),
    "day_interval": pa.array([1, None, -1], pa.duration("us")),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_type_round_trips(tmp_path: Path, name: str) -> None:
    table = pa.table({name: COLUMNS[name], "with.dot": pa.array(["a", "b", "c"])})
    reader = open_file(write_file(table, tmp_path / "a.split", typemap={}))
    assert reader.schema.equals(table.schema)
    assert reader.read_rows().equals(table)
    assert reader.read_rows(columns=[name]).equals(table.select([name]))


def test_all_types_in_one_split(tmp_path: Path) -> None:
    table = pa.table(COLUMNS)
    path = write_file(table, tmp_path / "a.split", typemap={})
    assert open_file(path).read_rows().equals(table)
    assert pq.read_table(path).replace_schema_metadata(None).equals(table)


def test_a_column_that_cannot_be_null_stays_so(tmp_path: Path) -> None:
    schema = pa.schema(
        [pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string(), metadata={"k": "v"})]
    )
    table = pa.table([pa.array([1]), pa.array(["x"])], schema=schema)
    read = open_file(write_file(table, tmp_path / "a.split", typemap={})).schema
    assert read.equals(schema, check_metadata=True)


def test_a_struct_and_a_column_with_a_dot_are_not_mixed_up(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([{"b": 1}, {"b": 2}]), "a.b": pa.array([10, 20])})
    reader = open_file(write_file(table, tmp_path / "a.split", typemap={}))
    assert reader.read_rows(columns=["a"]).equals(table.select(["a"]))
    assert reader.read_rows(columns=["a.b", "a"]).equals(table.select(["a.b", "a"]))


def test_other_engines_read_the_same_rows(tmp_path: Path) -> None:
    table = log_rows(10_000)
    path = write_file(table, tmp_path / "a.split")
    ours = open_file(path).read_rows()
    assert pq.read_table(path).replace_schema_metadata(None).equals(ours)
    assert pl.read_parquet(path).equals(pl.DataFrame(ours))
    assert pl.scan_parquet(path).filter(pl.col("level") == "ERROR").collect().height == (
        ours["level"].to_pylist().count("ERROR")
    )
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    rows = connection.sql(f"select * from read_parquet('{path}')")
    assert rows.to_arrow_table().cast(ours.schema).equals(ours)
    counted = rows.filter("latency > 30 and host = 'host-03'").aggregate("count(*)").fetchall()
    pairs = zip(ours["latency"].to_pylist(), ours["host"].to_pylist(), strict=True)
    assert counted == [(sum(latency > 30 and host == "host-03" for latency, host in pairs),)]
