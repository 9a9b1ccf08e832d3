"""Values as text in the log: what we write reads back, what others write is read only where it is
certain.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from indextables.errors import InvalidInputError
from indextables.model.values import (
    decode_value,
    decode_values,
    encode_value,
    shorten_max,
    shorten_min,
    successor,
)

UTC_TYPE, NTZ_TYPE = pa.timestamp("us", tz="UTC"), pa.timestamp("us")


def utc(
    year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0, micro: int = 0
) -> dt.datetime:
    return dt.datetime(year, month, day, hour, minute, second, micro, dt.UTC)


@pytest.mark.parametrize(
    ("arrow", "value", "text"),
    [
        (pa.int64(), -(2**63), "-9223372036854775808"),
        (pa.int8(), 127, "127"),
        (pa.float64(), 0.1, "0.1"),
        (pa.float64(), float("-inf"), "-Infinity"),
        (pa.float32(), 0.10000000149011612, "0.1"),
        (pa.decimal128(38, 10), Decimal("-0.0000000001"), "-0.0000000001"),
        (pa.decimal128(38, 0), Decimal(10) ** 37, "1" + "0" * 37),
        (pa.bool_(), True, "true"),
        (pa.string(), "é\n", "é\n"),
        (pa.date32(), dt.date(1, 1, 1), "0001-01-01"),
        (pa.date32(), dt.date(1969, 12, 31), "1969-12-31"),
        (UTC_TYPE, utc(1969, 12, 31, 23, 59, 59, 999_999), "1969-12-31T23:59:59.999999Z"),
        (UTC_TYPE, utc(2024, 2, 29), "2024-02-29T00:00:00.000000Z"),
        (NTZ_TYPE, dt.datetime(9999, 12, 31, 23, 59, 59), "9999-12-31T23:59:59.000000"),
    ],
)
def test_values_and_their_texts(arrow: pa.DataType, value: Any, text: str) -> None:
    assert encode_value(pa.scalar(value, arrow)) == text
    assert decode_value(text, arrow) == value
    assert decode_values(pa.array([text, None]), arrow).to_pylist() == [value, None]


def test_null_has_no_text_and_binary_no_text_form() -> None:
    assert encode_value(pa.scalar(None, pa.int64())) is None
    with pytest.raises(InvalidInputError, match="A value of type binary has no text form"):
        encode_value(pa.scalar(b"x", pa.binary()))
    assert decode_value("00", pa.binary()) is None
    assert decode_values(pa.array(["00"]), pa.binary()).to_pylist() == [None]


@pytest.mark.parametrize(
    ("arrow", "text", "value"),
    [
        (pa.float64(), "1.0E10", 1e10),
        (pa.float64(), "100", 100.0),
        (pa.float64(), "-0.0", 0.0),
        (pa.float64(), "Infinity", float("inf")),
        (pa.date32(), "19723", dt.date(2024, 1, 1)),
        (pa.date32(), "-1", dt.date(1969, 12, 31)),
        (UTC_TYPE, "1704067200000000", utc(2024, 1, 1)),
        (UTC_TYPE, "-1704067200000000", utc(1916, 1, 2)),
        (UTC_TYPE, "2024-01-01T00:00:00Z", utc(2024, 1, 1)),
        (UTC_TYPE, "2024-01-01 00:00:00.5+01:00", utc(2023, 12, 31, 23, 0, 0, 500_000)),
        (UTC_TYPE, "2024-01-01T00:00:00.123456000Z", utc(2024, 1, 1, 0, 0, 0, 123_456)),
        (NTZ_TYPE, "2024-01-01 00:00", dt.datetime(2024, 1, 1)),
        (NTZ_TYPE, "2024-01-01", dt.datetime(2024, 1, 1)),
        (pa.bool_(), "TRUE", True),
        (pa.decimal128(5, 2), "1.5", Decimal("1.50")),
    ],
)
def test_forms_that_other_writers_use(arrow: pa.DataType, text: str, value: Any) -> None:
    assert decode_value(text, arrow) == value
    assert decode_values(pa.array([text, "nonsense"]), arrow).to_pylist() == [value, None]


@pytest.mark.parametrize(
    ("arrow", "text"),
    [
        (pa.int64(), "9223372036854775808"),
        (pa.int8(), "128"),
        (pa.int32(), "1.0"),
        (pa.int32(), ""),
        (pa.float64(), "1_0"),
        (pa.decimal128(5, 2), "1.005"),
        (pa.decimal128(5, 2), "1000"),
        (pa.decimal128(5, 2), "NaN"),
        (pa.bool_(), "yes"),
        (pa.date32(), "2024-02-30"),
        (pa.date32(), "99999999"),
        (UTC_TYPE, "1704067200"),
        (UTC_TYPE, "1704067200000"),
        (UTC_TYPE, "253402300799000"),
        (UTC_TYPE, "1704067200000000000"),
        (UTC_TYPE, "2024-01-01T00:00:00"),
        (UTC_TYPE, "2024-01-01T00:00:00.1234567Z"),
        (NTZ_TYPE, "2024-01-01T00:00:00Z"),
        (pa.list_(pa.string()), "[x]"),
    ],
)
def test_what_is_not_certain_is_absent(arrow: pa.DataType, text: str) -> None:
    assert decode_value(text, arrow) is None
    if not pa.types.is_nested(arrow):
        assert decode_values(pa.array([text, "nonsense"]), arrow).to_pylist() == [None, None]


def test_nan_reads_as_nan() -> None:
    value = decode_value("NaN", pa.float64())
    assert value != value


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("a", "b"),
        ("ab\U0010ffff", "ac"),
        ("\U0010ffff\U0010ffff", None),
        ("", None),
        ("x\ud7ff", "x\ue000"),
        ("\uffff", "\U00010000"),
        ("a\x7f", "a\x80"),
    ],
)
def test_the_successor_is_above_every_text_with_the_prefix(
    prefix: str, expected: str | None
) -> None:
    assert successor(prefix) == expected
    if expected is not None:
        assert (prefix + "\U0010ffff" * 9).encode() < expected.encode()


def test_shortened_texts_still_bound() -> None:
    assert shorten_min("abcdef", 3) == "abc"
    assert shorten_max("abcdef", 3) == "abd"
    assert shorten_max("abc", 3) == "abc"
    assert shorten_max("\U0010ffff" * 4, 3) is None
