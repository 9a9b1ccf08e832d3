"""Values as text: literals, partition values, and column bounds of the log.

One strict reader serves all of them. An ambiguous text has no value, and such a bound counts as
absent. Known forms of other writers are read where they are certain: dates as days since 1970,
timestamps as microseconds since 1970.

We record a partition value unchanged and escape it, as Hive and Spark do, only in the folder's
name. IndexTables for the JVM records the folder's text: `a%2Fb` for `a/b`,
`__HIVE_DEFAULT_PARTITION__` for null. The entry itself shows which one it is: our folders never
spell such a value as the log does.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidInputError
from indextables.model.schema import type_name


def parse_float(text: str) -> float:
    """Parse a floating-point number, with `NaN`, `Infinity` and `-Infinity`. Raises ValueError."""
    if "_" in text:
        raise ValueError(text)
    return float(text)


def parse_decimal(text: str) -> decimal.Decimal:
    """Parse a finite decimal number. Raises ValueError."""
    try:
        value = decimal.Decimal(text.strip())
    except decimal.InvalidOperation:
        raise ValueError(text) from None
    if not value.is_finite() or "_" in text:
        raise ValueError(text)
    return value


_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?"
    r"\s*(Z|UTC|[+-]\d{2}(?::?\d{2})?)?",
    re.IGNORECASE | re.ASCII,
)
_EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)


def parse_date(text: str) -> dt.date:
    """Parse a date such as `2024-05-31`. Raises ValueError."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    return dt.date(int(match[1]), int(match[2]), int(match[3]))


def parse_timestamp(text: str, *, cut: bool = True) -> dt.datetime:
    """Parse a timestamp such as `2024-05-31 12:00:00.25+02:00`; naive without a zone. Raises
    ValueError.

    A date is its midnight. Digits below microseconds are truncated, or refused if they must not be
    lost.
    """
    stripped = text.strip()
    if _DATE.fullmatch(stripped):
        return dt.datetime.combine(parse_date(stripped), dt.time())
    match = _TIMESTAMP.fullmatch(stripped)
    if match is None:
        raise ValueError(text)
    fraction = (match[7] or "").ljust(9, "0")
    if not cut and fraction[6:] != "000":
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(match[i] or 0) for i in range(1, 7))
    naive = dt.datetime(year, month, day, hour, minute, second, int(fraction[:6]))
    if match[8] is None:
        return naive
    # Shifting first keeps the result within the years that a datetime can hold, or refuses it as a
    # ValueError.
    try:
        return (naive - _offset(match[8].upper())).replace(tzinfo=dt.UTC)
    except OverflowError:
        raise ValueError(text) from None


def micros_of(value: dt.date) -> int:
    """Return microseconds since 1970 in UTC. A naive timestamp and a date are in UTC."""
    if not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time())
    elif value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    return (value - _EPOCH) // MICROSECOND


def date_of(days: int) -> dt.date:
    """Return the date of a number of days since 1970. Raises ValueError outside the years 1 to
    9999.
    """
    try:
        return dt.date.fromordinal(_EPOCH.toordinal() + days)
    except OverflowError:
        raise ValueError(days) from None


def timestamp_of(micros: int, *, zone: bool) -> dt.datetime:
    """Return the timestamp of microseconds since 1970. Raises ValueError outside the years 1 to
    9999.
    """
    try:
        value = _EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        raise ValueError(micros) from None
    if zone:
        return value.replace(tzinfo=dt.UTC)
    return value


def _offset(zone: str) -> dt.timedelta:
    if zone in ("Z", "UTC"):
        return dt.timedelta()
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 18 or minutes > 59:
        raise ValueError(zone)
    shift = dt.timedelta(hours=hours, minutes=minutes)
    if zone[0] == "-":
        return -shift
    return shift


_LAST_CHARACTER = "\U0010ffff"
_BEFORE_SURROGATES, _AFTER_SURROGATES = 0xD7FF, 0xE000
# Numbers up to here may be seconds or milliseconds of a year until 9999; beyond, only microseconds
# make sense.
_LARGEST_MILLIS = 253_402_300_799_999
_LARGEST_MICROS = 253_402_300_799_999_999


def encode_value(value: pa.Scalar) -> str | None:
    """Return the text of a value; None for NULL. Types without a text form are refused."""
    arrow = value.type
    if not value.is_valid:
        return None
    if pa.types.is_date(arrow) or pa.types.is_timestamp(arrow):
        return _encode_time(value.value, arrow)
    plain = value.as_py()
    if pa.types.is_string(arrow):
        return str(plain)
    if pa.types.is_boolean(arrow):
        if plain:
            return "true"
        return "false"
    if pa.types.is_floating(arrow):
        return _encode_float(plain, arrow)
    if pa.types.is_decimal(arrow):
        return format(plain, "f")
    if pa.types.is_signed_integer(arrow):
        return str(plain)
    raise InvalidInputError(
        f"A value of type {type_name(arrow)} has no text form in the log.", type=str(arrow)
    )


def decode_value(text: str, arrow: pa.DataType) -> Any:
    """Return the value of a text, or None if it is ambiguous."""
    reader = next((read for test, read in _READERS if test(arrow)), None)
    if reader is None:
        return None
    try:
        return reader(text, arrow)
    except (ValueError, ArithmeticError):
        return None


def decode_values(texts: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Return the values of many texts; NULL for missing or ambiguous ones."""
    if pa.types.is_string(arrow):
        return texts
    if pa.types.is_binary(arrow):
        return pa.nulls(len(texts), arrow)
    try:
        values = pc.cast(texts, arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _decode_distinct(texts, arrow)
    if pa.types.is_floating(arrow):
        return pc.add(values, pa.scalar(0.0, arrow))
    return values


def successor(prefix: str) -> str | None:
    """Return the least text greater than every text with the prefix, in UTF-8 order, or None."""
    stem = prefix.rstrip(_LAST_CHARACTER)
    if not stem:
        return None
    code = ord(stem[-1])
    return stem[:-1] + chr(_AFTER_SURROGATES if code == _BEFORE_SURROGATES else code + 1)


def shorten_min(text: str, max_length: int) -> str:
    """Return a lower bound of at most this many characters."""
    return text[:max_length]


def shorten_max(text: str, max_length: int) -> str | None:
    """Return an upper bound of at most this many characters, rounded up, or None."""
    if len(text) <= max_length:
        return text
    return successor(text[:max_length])


def _encode_time(number: int, arrow: pa.DataType) -> str:
    if pa.types.is_date(arrow):
        return str(np.datetime64(number, "D"))
    text = str(np.datetime64(number, "us"))
    if arrow.tz is None:
        return text
    return text + "Z"


def _encode_float(value: float, arrow: pa.DataType) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        if value > 0:
            return "Infinity"
        return "-Infinity"
    if pa.types.is_float32(arrow):
        return str(np.float32(value))
    return repr(value)


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
    if "-" in text[1:]:
        return parse_date(text)
    return date_of(_whole_number(text))


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
        decoded = pa.array([None if v is None else micros_of(v) for v in values], pa.int64()).cast(
            arrow
        )
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
    """Escape a column name or value for a folder name."""
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", text)


def unescape(text: str) -> str:
    """Reverse `escape`. A `%` that does not start an escape is literal."""
    return _ESCAPED.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    """Return the character of an escape, or None for letters and digits, which no writer escapes:
    `per%cent`.
    """
    character = chr(int(match[1], 16))
    if character.isalnum():
        return match[0]
    return character


def folder_value(value: str | None) -> str:
    """Return a value as a folder name.

    Null and empty share one name, as in Spark, because a folder name cannot be empty. A value equal
    to that name is escaped.
    """
    if value == NULL_PARTITION:
        return f"%{ord(value[0]):02X}{value[1:]}"
    if value:
        return escape(value)
    return NULL_PARTITION


def is_doubtful(value: str | None) -> bool:
    """Return whether a recorded value may have another meaning than its text."""
    return value is not None and ("%" in value or value == NULL_PARTITION)


def intended_values(path: str, values: Values, low: Values, high: Values) -> dict[str, str | None]:
    """Return the intended partition values of an entry. `low` and `high` are its column bounds.

    The other engine does not escape `%`, so its text can mean two values; column bounds hold the
    value itself.
    """
    if _OUR_NAME.search(path):
        # Earlier releases used the text for null as the folder's name.
        return dict(values)
    return {
        column: _intended_value(value, low.get(column), high.get(column))
        if _is_folder(path, column, value)
        else value
        for column, value in values.items()
    }


def _is_folder(path: str, column: str, value: str | None) -> bool:
    """Return whether a folder of the path spells the value as the log does where we would have
    escaped it.
    """
    if not is_doubtful(value):
        return False
    folders = {f"{column}={value}", f"{escape(column)}={value}"}
    return not folders.isdisjoint(path.split("/")[:-1])


def _intended_value(value: str | None, low: str | None, high: str | None) -> str | None:
    assert value is not None
    if low is not None and low == high and _spells(value, low):
        return low
    if value == NULL_PARTITION:
        return None
    return unescape(value)


def _spells(stored: str, value: str) -> bool:
    """Return whether a stored text is a value with some of its characters escaped."""
    either = (f"(?:{re.escape(c)}|%{ord(c):02X}|%{ord(c):02x})" for c in value)
    return re.fullmatch("".join(either), stored) is not None
