"""Parsers of setting values: numbers, sizes, durations, words and lists, each with its description
of allowed values.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import zoneinfo
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from msgspec import Struct

_SIZE_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DURATION_MS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 7 * 86_400_000,
}
_DURATION_WORDS = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("w", "week", "weeks"), "w"),
}


class ValueType(Struct, frozen=True):
    """A kind of value: name, allowed values, and parser (ValueError for invalid text)."""

    name: str
    allowed: str
    parse: Callable[[Any], Any]


def parse_size(value: object) -> int:
    """Parse bytes from a number or a text such as `100M`, `4G`, `1.5g`, `64KiB`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", str(value).lower())
    if match is None:
        raise ValueError(value)
    if "." in match[1]:
        return int(float(match[1]) * _SIZE_UNITS[match[2]])
    return int(match[1]) * _SIZE_UNITS[match[2]]


def parse_duration_ms(value: object, *, default_unit: str = "ms") -> int:
    """Parse milliseconds from a number (in the default unit) or a text such as `7 days`, `12h`,
    `500 ms`.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value).lower())
    if match is None or isinstance(value, bool):
        raise ValueError(value)
    unit = _DURATION_WORDS.get(match[2] or default_unit)
    if unit is None:
        raise ValueError(value)
    return round(float(match[1]) * _DURATION_MS[unit])


def parse_bool(value: object) -> bool:
    """Parse true or false; yes/no, on/off and 1/0 are accepted too."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in ("true", "yes", "on", "1"):
        return True
    if word in ("false", "no", "off", "0"):
        return False
    raise ValueError(value)


def _with_bounds(
    parse: Callable[[Any], Any], low: float | None, high: float | None
) -> Callable[[Any], Any]:
    def check(value: object) -> Any:
        number = parse(value)
        if (low is not None and number < low) or (high is not None and number > high):
            raise ValueError(value)
        return number

    return check


def _range(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return "any"
    return f"{'' if low is None else f'{low} '}<= value{'' if high is None else f' <= {high}'}".replace(
        "value", "n"
    )


def _int(value: object) -> int:
    if isinstance(value, bool):
        raise ValueError(value)
    return int(str(value).strip())


def _float(value: object) -> float:
    number = float(str(value))
    if math.isnan(number):
        raise ValueError(value)
    return number


def integer(low: int | None = None, high: int | None = None) -> ValueType:
    """Return the type of integers within bounds."""
    return ValueType("integer", _range(low, high), _with_bounds(_int, low, high))


def number(low: float | None = None, high: float | None = None) -> ValueType:
    """Return the type of decimal numbers within bounds."""
    return ValueType("number", _range(low, high), _with_bounds(_float, low, high))


def size(low: int = 0, high: int | None = None) -> ValueType:
    """Return the type of byte counts: 1048576, 100M, 4G."""
    most = "" if high is None else f" and at most {high}"
    allowed = f"bytes or a text such as 100M or 4G, at least {low} bytes{most}"
    return ValueType("size", allowed, _with_bounds(parse_size, low, high))


def duration_ms(low_ms: int = 0) -> ValueType:
    """Return the type of durations in milliseconds: 500, 500 ms, 12h, 7 days."""
    allowed = f"milliseconds or a text such as 12h or 7 days, at least {low_ms} ms"
    return ValueType("duration", allowed, _with_bounds(parse_duration_ms, low_ms, None))


def hours(low: float = 0) -> ValueType:
    """Return the type of durations in hours: 168, 7 days, 12h."""
    parse = _with_bounds(lambda v: parse_duration_ms(v, default_unit="h") / 3_600_000, low, None)
    return ValueType(
        "hours", f"hours or a text such as 7 days or 90 min, at least {low:g} h", parse
    )


def boolean() -> ValueType:
    """Return the type of booleans."""
    return ValueType("boolean", "true or false", parse_bool)


def text() -> ValueType:
    """Return the type of texts."""
    return ValueType("text", "any text", str)


def local_path() -> ValueType:
    """Return the type of local paths."""

    def parse(value: object) -> str:
        if "\0" in str(value):
            raise ValueError(value)
        return str(value)

    return ValueType("path", "a local path", parse)


def word_of(*words: str) -> ValueType:
    """Return the type of a few words, case-insensitive."""

    def parse(value: object) -> str:
        word = str(value).strip().lower()
        if word not in words:
            raise ValueError(value)
        return word

    return ValueType("word", " | ".join(words), parse)


LOCAL_ZONE = "local"
"""Value for the time zone of this machine."""
_ZONE_NAME = re.compile(r"[A-Za-z0-9_+:/-]+", re.ASCII)
_OFFSET_ZONE = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?", re.ASCII)


_UTC_NAMES = (
    "UTC",
    "Z",
    "GMT",
    "UT",
    "Etc/UTC",
    "Etc/GMT",
    "Etc/UCT",
    "UCT",
    "Universal",
    "Zulu",
    "Greenwich",
)
_SHORT_ZONES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""Zone abbreviations that Spark accepts, and their meaning."""


@cache
def zone_of(name: str) -> dt.tzinfo | None:
    """Return a time zone such as `Europe/Berlin`, `UTC` or `+05:30`; None for the machine's. Raises
    ValueError.
    """
    if name == LOCAL_ZONE:
        return None
    if name in _UTC_NAMES:
        return dt.UTC
    name = _SHORT_ZONES.get(name, name)
    match = _OFFSET_ZONE.fullmatch(name)
    try:
        if match is None:
            return zoneinfo.ZoneInfo(name)
        hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
        offset = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return dt.timezone(-offset if match[1] == "-" else offset)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise ValueError(name) from None


def time_zone() -> ValueType:
    """Return the type of time zones by name or offset from UTC."""

    def parse(value: object) -> str:
        name = str(value).strip()
        if not _ZONE_NAME.fullmatch(
            name
        ):  # whether it is known is seen where it is needed: a session has one for all it does
            raise ValueError(value)
        return name

    return ValueType(
        "time zone",
        "a name such as Europe/Berlin, UTC, +05:30, or local for that of the machine",
        parse,
    )


def names() -> ValueType:
    """Return the type of name lists: a comma-separated text or a sequence."""

    def parse(value: object) -> tuple[str, ...]:
        if not isinstance(value, Iterable):
            raise TypeError(value)
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(str(p).strip() for p in parts if str(p).strip())

    return ValueType("names", "names separated by commas", parse)
