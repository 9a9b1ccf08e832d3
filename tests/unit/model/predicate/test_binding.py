"""Binding: names resolve as in Spark, literals meet the column's type exactly, and errors name what
is wrong.
"""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest

from indextables.errors import InvalidInputError, QuerySyntaxError
from indextables.model.predicate import Column, bind, bound_predicate, parse, resolve
from indextables.model.schema import schema_from_json

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("Small", pa.int8()),
        ("price", pa.decimal128(5, 2)),
        ("ratio", pa.float32()),
        ("score", pa.float64()),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("who", pa.struct([("First", pa.string()), ("age", pa.int32())])),
        ("tags", pa.list_(pa.string())),
    ]
)
LONG_MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ("ID = 1", "id = 1"),
        ("who.FIRST = 'x'", "who.First = 'x'"),
        ("id < 2.5", "id <= 2"),
        ("id <= 2.5", "id <= 2"),
        ("id > 2.5", "id > 2"),
        ("id >= -2.5", "id > -3"),
        ("id = 2.5", "id IS NULL AND NULL"),
        ("id != 2.5", "NOT (id IS NULL AND NULL)"),
        ("id = 2.0", "id = 2"),
        ("id = '7'", "id = 7"),
        ("id < 1e30", f"id <= {LONG_MAX}"),
        ("id > 1e30", f"id > {LONG_MAX}"),
        ("id > -1e30", "id IS NOT NULL OR NULL"),
        ("id < -1e30", "id IS NULL AND NULL"),
        ("id < 1e-20000", "id <= 0"),
        ("id < double('NaN')", f"id <= {LONG_MAX}"),
        ("id >= double('-Infinity')", "id IS NOT NULL OR NULL"),
        ("small = 128", "Small IS NULL AND NULL"),
        ("small IN (1, 1.0, 300)", "Small = 1"),
        ("small IN (300, 400)", "Small IS NULL AND NULL"),
        ("small IN (1, 2, NULL)", "Small IN (1, 2) OR NULL"),
        ("small IN (1, NULL)", "Small = 1 OR NULL"),
        ("small IN (300, NULL)", "NULL"),
        ("id = NULL", "NULL"),
        ("id <=> NULL", "id IS NULL"),
        ("id <=> 5", "id IS NOT NULL AND id = 5"),
        ("price = 1.5", "price = 1.50"),
        ("price < 1.555", "price <= 1.55"),
        ("price > -1.555", "price > -1.56"),
        ("price = 0.1D", "price = 0.10"),
        ("price < 100000", "price <= 999.99"),
        ("score = 0.1", "score = 0.1D"),
        ("score = 1", "score = 1.0D"),
        ("score = -0.0", "score = 0.0D"),
        ("score < 1e400", "score < double('Infinity')"),
        ("score = 'NaN'", "score = double('NaN')"),
        ("ratio = 0.5", "ratio = 0.5D"),
        ("ratio = 0.1", "ratio IS NULL AND NULL"),
        ("ratio < 0.1", "ratio <= 0.09999999403953552D"),
        ("ratio > 1e39", "ratio > 3.4028234663852886e+38D"),
        ("raw = 'é'", "raw = X'C3A9'"),
        ("flag", "flag = TRUE"),
        ("flag = 'False'", "flag = FALSE"),
        ("day = '2024-02-29'", "day = DATE '2024-02-29'"),
        ("day < TIMESTAMP '2024-02-29 12:00:00'", "day <= DATE '2024-02-29'"),
        ("day = TIMESTAMP '2024-02-29 12:00:00'", "day IS NULL AND NULL"),
        ("day = TIMESTAMP '2024-02-29 02:00:00+02:00'", "day = DATE '2024-02-29'"),
        ("at = DATE '2024-02-29'", "at = TIMESTAMP '2024-02-29 00:00:00Z'"),
        ("at = '2024-02-29 12:00:00'", "at = TIMESTAMP '2024-02-29 12:00:00Z'"),
        (
            "at = '2024-02-29 12:00:00.1234567-01:00'",
            "at = TIMESTAMP '2024-02-29 13:00:00.123456Z'",
        ),
        ("at = TIMESTAMP_NTZ '2024-02-29 12:00:00'", "at = TIMESTAMP '2024-02-29 12:00:00Z'"),
        ("local = TIMESTAMP '2024-02-29 12:00:00Z'", "local = TIMESTAMP_NTZ '2024-02-29 12:00:00'"),
        ("tags IS NULL OR who IS NOT NULL", "tags IS NULL OR who IS NOT NULL"),
        ("name LIKE 'a_'", "name LIKE 'a_'"),
    ],
)
def test_literals_take_their_exact_place_in_the_columns_type(given: str, bound: str) -> None:
    assert str(bind(parse(given), SCHEMA)) == bound


def test_a_bound_tree_can_be_bound_again() -> None:
    once = bind(
        parse("id < 2.5 AND name LIKE '%x_' AND day IN ('2024-01-01', '2024-01-02')"), SCHEMA
    )
    assert bind(once, SCHEMA) == once


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "idd = 1",
            r"There is no column 'idd'\. Did you mean 'id'\? The columns are 'id', 'Small'",
        ),
        ("who.frist = 'x'", r"no column 'frist' in 'who'\. Did you mean 'First'\?"),
        ("zzz = 1", r"There is no column 'zzz'\. The columns are"),
        ("name.x = 1", r"Column 'name' is string and has no field 'x'"),
    ],
)
def test_unknown_columns(text: str, message: str) -> None:
    with pytest.raises(QuerySyntaxError, match=message):
        bind(parse(text), SCHEMA)


@pytest.mark.parametrize(
    ("text", "column", "type_", "literal"),
    [
        ("name = 5", "name", "string", "5"),
        ("id = 'abc'", "id", "bigint", "'abc'"),
        ("id = TRUE", "id", "bigint", "TRUE"),
        ("id IN (1, X'00')", "id", "bigint", "X'00'"),
        ("flag = 1", "flag", "boolean", "1"),
        ("flag = 'maybe'", "flag", "boolean", "'maybe'"),
        ("day = 5", "day", "date", "5"),
        ("day = 'yesterday'", "day", "date", "'yesterday'"),
        (
            "at = '2024-01-01 00:00:00 Europe/Paris'",
            "at",
            "timestamp",
            "'2024-01-01 00:00:00 Europe/Paris'",
        ),
        ("price = 'cheap'", "price", "decimal(5,2)", "'cheap'"),
        ("score = DATE '2024-01-01'", "score", "double", "DATE '2024-01-01'"),
        ("who.age = 'old'", "who.age", "int", "'old'"),
    ],
)
def test_literals_that_do_not_fit_are_named(
    text: str, column: str, type_: str, literal: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        bind(parse(text), SCHEMA)
    assert caught.value.context == {"column": column, "type": type_, "literal": literal}
    assert (
        caught.value.message
        == f"Column {column!r} is {type_} and cannot be compared with {literal}."
    )


def test_text_tests_need_text() -> None:
    with pytest.raises(InvalidInputError, match="'id' is bigint; LIKE, startswith"):
        bind(parse("id LIKE '1%'"), SCHEMA)


def test_nested_values_cannot_be_compared() -> None:
    with pytest.raises(
        InvalidInputError, match=r"'tags' is array<string>, whose values cannot be compared"
    ):
        bind(parse("tags = 'x'"), SCHEMA)


def test_collated_text_is_refused_rather_than_compared_by_bytes() -> None:
    metadata = {"__COLLATIONS": {"c": "spark.UTF8_LCASE"}}
    field = {"name": "c", "type": "string", "nullable": True, "metadata": metadata}
    schema = schema_from_json(json.dumps({"type": "struct", "fields": [field]}))
    with pytest.raises(InvalidInputError, match="'c' has a collation"):
        bind(parse("c = 'x'"), schema)
    assert str(bind(parse("c IS NULL"), schema)) == "c IS NULL"


def test_exact_spelling_comes_before_any_case() -> None:
    schema = pa.schema([("a", pa.int8()), ("A", pa.int16())])
    assert resolve(Column(("A",)), schema).type == pa.int16()
    with pytest.raises(QuerySyntaxError, match="ambiguous"):
        resolve(Column(("aB",)), pa.schema([("AB", pa.int8()), ("ab", pa.int8())]))


MOMENTS = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"),
        "wall": pa.timestamp("us"),
        "day": pa.date32(),
        "s": pa.string(),
    }
)


@pytest.mark.parametrize(
    ("where", "zone", "same"),
    [
        ("ts >= '2026-01-10'", "America/New_York", "ts >= '2026-01-10 05:00:00'"),
        ("ts >= '2026-07-10'", "America/New_York", "ts >= '2026-07-10 04:00:00'"),
        ("ts < DATE '2026-01-10'", "Asia/Kolkata", "ts < '2026-01-09 18:30:00'"),
        ("ts = TIMESTAMP '2026-01-10 12:00:00'", "+02:00", "ts = '2026-01-10 10:00:00'"),
        ("ts = CAST('2026-01-10 12:00:00' AS TIMESTAMP)", "UTC-3", "ts = '2026-01-10 15:00:00'"),
        (
            "ts IN ('2026-01-10', '2026-01-11 00:00:00Z')",
            "JST",
            "ts IN ('2026-01-09 15:00:00', '2026-01-11')",
        ),
        (
            "NOT (ts < '2026-03-08 02:30:00' OR s = '2026-01-10')",
            "America/New_York",
            "NOT (ts < '2026-03-08 07:30:00' OR s = '2026-01-10')",
        ),
        ("ts < '2026-11-01 01:30:00'", "America/New_York", "ts < '2026-11-01 05:30:00'"),
        ("ts > '2026-01-10 00:00:00+01:00'", "America/New_York", "ts > '2026-01-09 23:00:00'"),
        (
            "wall >= '2026-01-10' AND day = '2026-01-10'",
            "America/New_York",
            "wall >= '2026-01-10' AND day = '2026-01-10'",
        ),
        (
            "wall = TIMESTAMP '2026-01-10 12:00:00'",
            "America/New_York",
            "wall = '2026-01-10 12:00:00'",
        ),
        ("day >= TIMESTAMP '2026-01-10 00:00:00'", "America/New_York", "day >= '2026-01-10'"),
        ("wall >= '2026-03-08 00:00:00Z'", "America/New_York", "wall >= '2026-03-08'"),
        ("day = '2026-03-08 00:00:00Z'", "America/New_York", "day = '2026-03-08'"),
        (
            "wall = TIMESTAMP '2026-03-08 00:00:00Z'",
            "America/New_York",
            "wall = '2026-03-07 19:00:00'",
        ),
        (
            "day = CAST(TIMESTAMP '2026-03-07 22:00:00' AS DATE)",
            "America/New_York",
            "day = '2026-03-07'",
        ),
        ("day = TIMESTAMP '2018-11-04 00:00:00'", "America/Sao_Paulo", "day = '2018-11-04'"),
        (
            "TIMESTAMP '2026-03-08 00:00:00' < DATE '2026-03-08' OR ts < '2026-01-01'",
            "UTC",
            "FALSE OR ts < '2026-01-01'",
        ),
        (
            "TIMESTAMP '2026-03-08 00:00:00' < DATE '2026-03-08' OR ts < '2026-01-01'",
            "+05:30",
            "FALSE OR ts < '2025-12-31 18:30:00'",
        ),
        ("ts >= 'now/d'", "America/New_York", "ts >= '2026-01-09 05:00:00'"),
        ("ts >= 'now-15m'", "America/New_York", "ts >= '2026-01-10 02:45:00'"),
        (
            "ts > '0001-01-01' AND ts < '9999-12-31 23:00:00'",
            "Asia/Kolkata",
            "ts > '0001-01-01' AND ts < '9999-12-31 17:30:00'",
        ),
    ],
)
def test_moments_that_name_no_zone_are_those_of_a_zone(where: str, zone: str, same: str) -> None:
    now_ms = int(dt.datetime(2026, 1, 10, 3, tzinfo=dt.UTC).timestamp() * 1000)
    assert bound_predicate(where, MOMENTS, now_ms=now_ms, zone=zone) == bound_predicate(
        same, MOMENTS
    )


def test_a_zone_that_is_not_known_is_told_where_it_is_needed() -> None:
    assert bound_predicate("s = 'x'", MOMENTS, zone="SystemV/EST5") == bound_predicate(
        "s = 'x'", MOMENTS
    )
    with pytest.raises(
        InvalidInputError, match="time zone 'Nowhere/X' of the condition is not known"
    ):
        bound_predicate("ts > '2026-01-01'", MOMENTS, zone="Nowhere/X")
