"""Numbers as text: one strict reader for literals, partition values and statistics.

Dates and timestamps as text: one strict reader for literals, partition values and statistics.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re


def parse_float(text: str) -> float:
    """A floating point number from text, with `NaN`, `Infinity` and `-Infinity`; ValueError for anything else."""
    if "_" in text:
        raise ValueError(text)
    return float(text)


def parse_decimal(text: str) -> decimal.Decimal:
    """A finite decimal number from text; ValueError for anything else."""
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
    """A date written `2024-05-31`; ValueError for anything else."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    return dt.date(int(match[1]), int(match[2]), int(match[3]))


def parse_timestamp(text: str, *, cut: bool = True) -> dt.datetime:
    """A timestamp written `2024-05-31 12:00:00.25+02:00`; naive if it carries no zone. ValueError for anything else.

    A bare date is midnight. Digits beyond microseconds are cut off, or refused where they must not be lost.
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
    # Shifting first keeps the result within the years that a datetime can hold, or refuses it as a ValueError.
    try:
        return (naive - _offset(match[8].upper())).replace(tzinfo=dt.UTC)
    except OverflowError:
        raise ValueError(text) from None


def micros_of(value: dt.date) -> int:
    """Microseconds since 1970 in UTC; a naive timestamp and a date are read as UTC."""
    if not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time())
    elif value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    return (value - _EPOCH) // MICROSECOND


def date_of(days: int) -> dt.date:
    """The date of a number of days since 1970; ValueError outside the years 1 to 9999."""
    try:
        return dt.date.fromordinal(_EPOCH.toordinal() + days)
    except OverflowError:
        raise ValueError(days) from None


def timestamp_of(micros: int, *, zone: bool) -> dt.datetime:
    """The timestamp of a number of microseconds since 1970; ValueError outside the years 1 to 9999."""
    try:
        value = _EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        raise ValueError(micros) from None
    return value.replace(tzinfo=dt.UTC) if zone else value


def _offset(zone: str) -> dt.timedelta:
    if zone in ("Z", "UTC"):
        return dt.timedelta()
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 18 or minutes > 59:
        raise ValueError(zone)
    shift = dt.timedelta(hours=hours, minutes=minutes)
    return -shift if zone[0] == "-" else shift
