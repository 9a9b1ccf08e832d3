"""Values as the log writes them: text, typed by the table's schema, for partition values and column bounds.

Reading is strict: a text that could mean two things means nothing, and the bound counts as absent. What other writers
are known to leave is read where it is certain: dates as days since 1970, timestamps as microseconds since 1970.

Partition values as text: how they stand in folder names, and what a log entry of any writer means by them.

We record a value as it is and escape it, as Hive and Spark do, only in the folder's name. Another engine records the very
text that it puts into the folder's name: `a%2Fb` for `a/b`, `__HIVE_DEFAULT_PARTITION__` for null. Which of the two an
entry does is told by the entry itself: our folders never spell such a value as the log does.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidInputError
from indextables.model.spark_types import type_name
from indextables.model.values import (
    date_of,
    micros_of,
    parse_date,
    parse_decimal,
    parse_float,
    parse_timestamp,
    timestamp_of,
)

_LAST_CHARACTER = "\U0010ffff"
_BEFORE_SURROGATES, _AFTER_SURROGATES = 0xD7FF, 0xE000
# Numbers up to here may be seconds or milliseconds of a year until 9999; beyond, only microseconds make sense.
_LARGEST_MILLIS = 253_402_300_799_999
_LARGEST_MICROS = 253_402_300_799_999_999


def encode_value(value: pa.Scalar) -> str | None:
    """The text of a value; None for NULL. Values of types that have no text form are refused."""
    arrow = value.type
    if not value.is_valid:
        return None
    if pa.types.is_date(arrow) or pa.types.is_timestamp(arrow):
        return _encode_time(value.value, arrow)
    plain = value.as_py()
    if pa.types.is_string(arrow):
        return str(plain)
    if pa.types.is_boolean(arrow):
        return "true" if plain else "false"
    if pa.types.is_floating(arrow):
        return _encode_float(plain, arrow)
    if pa.types.is_decimal(arrow):
        return format(plain, "f")
    if pa.types.is_signed_integer(arrow):
        return str(plain)
    raise InvalidInputError(f"A value of type {type_name(arrow)} has no text form in the log.", type=str(arrow))


def decode_value(text: str, arrow: pa.DataType) -> Any:
    """The value of a text as a plain Python value, or None if it is not certain what it says."""
    reader = next((read for test, read in _READERS if test(arrow)), None)
    if reader is None:
        return None
    try:
        return reader(text, arrow)
    except (ValueError, ArithmeticError):
        return None


def decode_values(texts: pa.Array, arrow: pa.DataType) -> pa.Array:
    """The values of many texts at once; NULL where there is no text or it is not certain what it says."""
    if pa.types.is_string(arrow):
        return texts
    if pa.types.is_binary(arrow):
        return pa.nulls(len(texts), arrow)
    try:
        values = pc.cast(texts, arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _decode_distinct(texts, arrow)
    return pc.add(values, pa.scalar(0.0, arrow)) if pa.types.is_floating(arrow) else values


def successor(prefix: str) -> str | None:
    """The least text greater than every text that begins with the prefix, in UTF-8 order; None if there is none."""
    stem = prefix.rstrip(_LAST_CHARACTER)
    if not stem:
        return None
    code = ord(stem[-1])
    return stem[:-1] + chr(_AFTER_SURROGATES if code == _BEFORE_SURROGATES else code + 1)


def shorten_min(text: str, max_length: int) -> str:
    """A lower bound of at most so many characters."""
    return text[:max_length]


def shorten_max(text: str, max_length: int) -> str | None:
    """An upper bound of at most so many characters, rounded up where it is cut; None if there is none."""
    return text if len(text) <= max_length else successor(text[:max_length])


def _encode_time(number: int, arrow: pa.DataType) -> str:
    if pa.types.is_date(arrow):
        return str(np.datetime64(number, "D"))
    text = str(np.datetime64(number, "us"))
    return text if arrow.tz is None else text + "Z"


def _encode_float(value: float, arrow: pa.DataType) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return str(np.float32(value)) if pa.types.is_float32(arrow) else repr(value)


def _read_integer(text: str, arrow: pa.DataType) -> int:
    value = _whole_number(text)
    limit = 1 << (arrow.bit_width - 1)
    if not -limit <= value < limit:
        raise ValueError(text)
    return value


def _whole_number(text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
        raise ValueError(text)
    return int(text)


def _read_float(text: str, arrow: pa.DataType) -> float:
    value = parse_float(text)
    if pa.types.is_float32(arrow):
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    return value + 0.0


def _read_decimal(text: str, arrow: pa.DataType) -> decimal.Decimal:
    value = parse_decimal(text)
    wide = decimal.Context(prec=arrow.precision, traps=[decimal.Inexact, decimal.InvalidOperation])
    return value.quantize(decimal.Decimal(1).scaleb(-arrow.scale), context=wide)


def _read_boolean(text: str, _arrow: pa.DataType) -> bool:
    words = {"true": True, "false": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _read_date(text: str, _arrow: pa.DataType) -> Any:
    return parse_date(text) if "-" in text[1:] else date_of(_whole_number(text))


def _read_timestamp(text: str, arrow: pa.DataType) -> Any:
    zone = arrow.tz is not None
    if "-" not in text[1:]:
        micros = _whole_number(text)
        if not _LARGEST_MILLIS < abs(micros) <= _LARGEST_MICROS:
            raise ValueError(text)
        return timestamp_of(micros, zone=zone)
    moment = parse_timestamp(text, cut=False)
    if (moment.tzinfo is not None) is not zone:
        # Without a zone the instant depends on the writer's session; with one, the local time does.
        raise ValueError(text)
    return moment


def _decode_distinct(texts: pa.Array, arrow: pa.DataType) -> pa.Array:
    encoded = texts.dictionary_encode()
    values = [None if t is None else decode_value(t, arrow) for t in encoded.dictionary.to_pylist()]
    if pa.types.is_timestamp(arrow):
        decoded = pa.array([None if v is None else micros_of(v) for v in values], pa.int64()).cast(arrow)
    else:
        decoded = pa.array(values, arrow)
    return decoded.take(encoded.indices)


_READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[str, pa.DataType], Any]], ...] = (
    (pa.types.is_string, lambda text, _arrow: text),
    (pa.types.is_signed_integer, _read_integer),
    (pa.types.is_floating, _read_float),
    (pa.types.is_decimal, _read_decimal),
    (pa.types.is_boolean, _read_boolean),
    (pa.types.is_date, _read_date),
    (pa.types.is_timestamp, _read_timestamp),
)


NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_SPECIAL = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
_ESCAPED = re.compile(r"%([0-7][0-9A-Fa-f])")
_OUR_NAME = re.compile(r"(?:^|/)splits/split-[^/]+\.split\Z")

Values = Mapping[str, str | None]


def escape(text: str) -> str:
    """A column name or value as it stands in a folder name."""
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", text)


def unescape(text: str) -> str:
    """What `escape` was given; a `%` that starts no escape of anybody stands for itself."""
    return _ESCAPED.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    """Nobody escapes letters and digits: in `per%cent` there is no escape."""
    character = chr(int(match[1], 16))
    return match[0] if character.isalnum() else character


def folder_value(value: str | None) -> str:
    """A value as it stands in a folder name.

    A null and an empty value share one name, as in Spark: a folder name cannot be empty. The text that stands for null
    there is escaped where it is a value, so that whoever reads the folder finds the text.
    """
    if value == NULL_PARTITION:
        return f"%{ord(value[0]):02X}{value[1:]}"
    return escape(value) if value else NULL_PARTITION


def is_doubtful(value: str | None) -> bool:
    """Whether a recorded value may mean something else than it says."""
    return value is not None and ("%" in value or value == NULL_PARTITION)


def intended_values(path: str, values: Values, low: Values, high: Values) -> dict[str, str | None]:
    """The partition values that an entry means. `low` and `high` are the bounds it gives of its columns.

    The other engine does not escape `%`, so its text alone can mean two values; the bounds of the column, where they
    are given, hold the value itself.
    """
    if _OUR_NAME.search(path):
        # Earlier releases gave the text that stands for null a folder of that very name.
        return dict(values)
    return {
        column: _intended_value(value, low.get(column), high.get(column)) if _is_folder(path, column, value) else value
        for column, value in values.items()
    }


def _is_folder(path: str, column: str, value: str | None) -> bool:
    """Whether a folder of the path spells the value as the log does, where we would have escaped it."""
    if not is_doubtful(value):
        return False
    folders = {f"{column}={value}", f"{escape(column)}={value}"}
    return not folders.isdisjoint(path.split("/")[:-1])


def _intended_value(value: str | None, low: str | None, high: str | None) -> str | None:
    assert value is not None
    if low is not None and low == high and _spells(value, low):
        return low
    return None if value == NULL_PARTITION else unescape(value)


def _spells(stored: str, value: str) -> bool:
    """Whether a stored text is a value with some of its characters escaped."""
    either = (f"(?:{re.escape(c)}|%{ord(c):02X}|%{ord(c):02x})" for c in value)
    return re.fullmatch("".join(either), stored) is not None
