"""Schemas: Spark's JSON and Arrow say the same, and a wrong schema is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from indextables.errors import (
    CorruptTableError,
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedError,
)
from indextables.model.schema import (
    check_partition_columns,
    check_schema,
    merge_schemas,
    normalize,
    schema_differences,
    schema_from_json,
    schema_to_json,
    type_name,
)

EVERY_TYPE = spark.StructType(
    [
        spark.StructField("by", spark.ByteType(), False),
        spark.StructField("sh", spark.ShortType()),
        spark.StructField("in", spark.IntegerType()),
        spark.StructField(
            "lo", spark.LongType(), True, {"comment": "größe", "id": 7, "nested": {"x": [1, None]}}
        ),
        spark.StructField("fl", spark.FloatType()),
        spark.StructField("do", spark.DoubleType()),
        spark.StructField("de", spark.DecimalType(38, 18)),
        spark.StructField("bo", spark.BooleanType()),
        spark.StructField("st", spark.StringType()),
        spark.StructField("ch", spark.CharType(3)),
        spark.StructField("vc", spark.VarcharType(30), True, {"k": "v"}),
        spark.StructField("bi", spark.BinaryType()),
        spark.StructField("da", spark.DateType()),
        spark.StructField("ts", spark.TimestampType()),
        spark.StructField("tn", spark.TimestampNTZType()),
        spark.StructField("ar", spark.ArrayType(spark.VarcharType(4), False)),
        spark.StructField(
            "ma", spark.MapType(spark.StringType(), spark.ArrayType(spark.LongType()), False)
        ),
        spark.StructField(
            "nest",
            spark.StructType(
                [
                    spark.StructField(
                        "a", spark.StructType([spark.StructField("b", spark.IntegerType(), False)])
                    ),
                    spark.StructField("m", spark.MapType(spark.IntegerType(), spark.DateType())),
                ]
            ),
        ),
        spark.StructField("vo", spark.NullType()),
        spark.StructField("va", spark.VariantType()),
        spark.StructField("dt", spark.DayTimeIntervalType(0, 3)),
        spark.StructField("dh", spark.DayTimeIntervalType(0, 1)),
        spark.StructField("ti", spark.TimeType(6)),
        spark.StructField("t3", spark.TimeType(3)),
    ]
)


def test_every_spark_type_comes_back_from_arrow() -> None:
    text = EVERY_TYPE.json()
    schema = schema_from_json(text)
    assert json.loads(schema_to_json(schema)) == json.loads(text)
    assert spark.StructType.fromJson(json.loads(schema_to_json(schema))) == EVERY_TYPE


def test_the_arrow_types_are_those_that_pyspark_uses() -> None:
    # PySpark itself cannot carry char and varchar over Arrow.
    carried = spark.StructType(
        [f for f in EVERY_TYPE.fields if "char" not in f.dataType.simpleString()]
    )
    assert schema_from_json(carried.json()) == to_arrow_schema(carried, timezone="UTC")


def test_normalizing_what_spark_has_changes_nothing() -> None:
    schema = schema_from_json(EVERY_TYPE.json())
    assert normalize(schema).equals(schema, check_metadata=True)


def test_foreign_arrow_metadata_survives_the_way_through_json() -> None:
    metadata = {b"PARQUET:field_id": b"3", b"raw": b"\xff\x00"}
    schema = pa.schema(
        [pa.field("a", pa.int64(), metadata=metadata), pa.field("b", pa.string(), nullable=False)]
    )
    assert schema_from_json(schema_to_json(schema)).equals(schema, check_metadata=True)


def test_a_user_defined_type_keeps_its_description() -> None:
    udt = {"type": "udt", "class": "x.Point", "pyClass": "x.Point", "sqlType": {"type": "array"}}
    udt["sqlType"] = {"type": "array", "elementType": "double", "containsNull": False}
    text = json.dumps(
        {"type": "struct", "fields": [{"name": "p", "type": udt, "nullable": True, "metadata": {}}]}
    )
    schema = schema_from_json(text)
    assert schema.field("p").type == pa.list_(pa.field("element", pa.float64(), nullable=False))
    assert json.loads(schema_to_json(schema)) == json.loads(text)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.uint8(), pa.int16()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.float16(), pa.float32()),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("s", tz="Europe/Paris"), pa.timestamp("us", tz="UTC")),
        (pa.date64(), pa.date32()),
        (pa.binary(16), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.decimal256(30, 2), pa.decimal128(30, 2)),
        (pa.decimal32(5, 2), pa.decimal128(5, 2)),
        (pa.duration("ns"), pa.duration("us")),
        (pa.time32("s"), pa.time64("ns")),
        (pa.large_list(pa.uint8()), pa.list_(pa.int16())),
        (pa.list_(pa.string_view(), 3), pa.list_(pa.string())),
        (pa.struct([("a", pa.large_binary())]), pa.struct([("a", pa.binary())])),
        (
            pa.map_(pa.large_string(), pa.uint8()),
            pa.map_(pa.string(), pa.field("value", pa.int16())),
        ),
        (pa.run_end_encoded(pa.int32(), pa.large_string()), pa.string()),
    ],
    ids=str,
)
def test_other_arrow_types_become_what_spark_has(given: pa.DataType, expected: pa.DataType) -> None:
    normal = normalize(pa.schema([("x", given)]))
    assert normal.field("x").type == expected
    assert schema_from_json(schema_to_json(normal)) == normal


@pytest.mark.parametrize(
    "given",
    [pa.decimal256(50, 2), pa.decimal128(5, -2), pa.dense_union([pa.field("a", pa.int8())])],
    ids=str,
)
def test_what_spark_does_not_have_is_refused_by_column_and_type(given: pa.DataType) -> None:
    schema = pa.schema([pa.field("s", pa.struct([("x", given)]))])
    with pytest.raises(InvalidInputError, match=r"Column 's\.x' has the Arrow type") as caught:
        normalize(schema)
    assert caught.value.context == {"column": "s.x", "type": str(given)}


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[]", '{"type":"array"}', '{"type":"struct","fields":[{"a":1}]}']
)
def test_a_garbled_schema_string_is_corruption(text: str) -> None:
    with pytest.raises(CorruptTableError):
        schema_from_json(text)


def test_an_unknown_type_is_named() -> None:
    text = '{"type":"struct","fields":[{"name":"c","type":"interval year to month","nullable":true,"metadata":{}}]}'
    with pytest.raises(UnsupportedError, match=r"'c'.*'interval year to month'"):
        schema_from_json(text)


def test_duplicate_names_are_refused_without_regard_to_case() -> None:
    with pytest.raises(InvalidInputError, match="'Id', 'iD'"):
        check_schema(pa.schema([("Id", pa.int64()), ("x", pa.int64()), ("iD", pa.string())]))
    nested = pa.list_(pa.struct([("q", pa.int8()), ("q", pa.int8())]))
    with pytest.raises(InvalidInputError, match="of 'outer' have the same name: 'q', 'q'"):
        check_schema(pa.schema([("outer", nested)]))
    with pytest.raises(InvalidInputError, match="at least one column"):
        check_schema(pa.schema([]))


SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("Day", pa.date32()),
        ("tags", pa.list_(pa.string())),
        ("raw", pa.binary()),
    ]
)


def test_partition_columns_come_back_in_the_schemas_spelling() -> None:
    assert check_partition_columns(SCHEMA, ["day"]) == ("Day",)
    assert check_partition_columns(SCHEMA, []) == ()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["nope"], "no partition column 'nope'.*'id', 'Day', 'tags', 'raw'"),
        (["tags"], "'tags' cannot be a partition column: its type is array<string>"),
        (["raw"], "binary"),
        (["Day", "day"], "named twice: 'Day'"),
    ],
)
def test_bad_partition_columns_are_refused(columns: list[str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        check_partition_columns(SCHEMA, columns)


def test_partitioning_by_everything_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="Every column is a partition column: 'a', 'b'"):
        check_partition_columns(pa.schema([("a", pa.int8()), ("b", pa.int8())]), ["a", "b"])


def test_every_difference_is_listed() -> None:
    table = pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False),
            pa.field("b", pa.string()),
            pa.field("s", pa.struct([("x", pa.int32()), ("y", pa.int32())])),
            pa.field("l", pa.list_(pa.struct([("p", pa.int8())]))),
        ]
    )
    data = pa.schema(
        [
            pa.field("B", pa.int32()),
            pa.field("new", pa.date32()),
            pa.field("s", pa.struct([("x", pa.string()), ("z", pa.int32())])),
            pa.field("a", pa.int64()),
            pa.field("l", pa.list_(pa.struct([("p", pa.int16())]))),
        ]
    )
    assert [str(d) for d in schema_differences(table, data)] == [
        "column 'a' may hold nulls, the table's may not",
        "column 'b' is int, the table has string",
        "column 's.x' is string, the table has int",
        "column 's.y' (int) is missing",
        "column 's.z' (int) is not in the table",
        "column 'l.element.p' is smallint, the table has tinyint",
        "column 'new' (date) is not in the table",
    ]
    assert schema_differences(table, table) == ()


def test_new_columns_are_added_at_the_end_and_nullable() -> None:
    table = pa.schema(
        [pa.field("a", pa.int64(), nullable=False), pa.field("s", pa.struct([("x", pa.int32())]))]
    )
    data = pa.schema(
        [
            pa.field("new", pa.date32(), nullable=False),
            pa.field("S", pa.struct([("z", pa.int8()), ("x", pa.int32())])),
        ]
    )
    merged = merge_schemas(table, data)
    assert merged == pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False),
            pa.field("s", pa.struct([("x", pa.int32()), ("z", pa.int8())])),
            pa.field("new", pa.date32()),
        ]
    )
    with pytest.raises(SchemaMismatchError, match="column 'a' is string, the table has bigint"):
        merge_schemas(table, pa.schema([("a", pa.string())]))


@pytest.mark.parametrize(
    ("arrow", "name"),
    [
        (pa.map_(pa.string(), pa.int64()), "map<string,bigint>"),
        (pa.decimal128(5, 2), "decimal(5,2)"),
        (pa.uint8(), "uint8"),
    ],
    ids=str,
)
def test_types_are_named_as_spark_sql_does(arrow: Any, name: str) -> None:
    assert type_name(arrow) == name
