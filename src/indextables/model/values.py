"""Numbers as text: one strict reader for literals, partition values and statistics.

Dates and timestamps as text: one strict reader for literals, partition values and statistics.
"""

from __future__ import annotations

import calendar
import datetime as dt
import decimal
import re
from typing import Any


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


_SLASHES = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})(?!\d|/)", re.ASCII)
_EPOCH_NUMBER = re.compile(r"-?\d{9,19}", re.ASCII)
_EPOCH_UNITS = ((10**11, 1_000_000), (10**14, 1_000), (10**17, 1))
"""Below each number it counts so many microseconds: seconds, milliseconds, microseconds; beyond are nanoseconds."""
_RELATIVE = re.compile(r"now((?:[+-]\d{1,6}[yMwdhHms])*)(?:/([yMwdhHms]))?", re.ASCII)
_STEP = re.compile(r"([+-]\d+)([yMwdhHms])", re.ASCII)
_LENGTHS = {"w": "weeks", "d": "days", "h": "hours", "H": "hours", "m": "minutes", "s": "seconds"}
_SECOND: dict[str, int] = {"microsecond": 0}
_MINUTE = {"second": 0, **_SECOND}
_HOUR = {"minute": 0, **_MINUTE}
_DAY = {"hour": 0, **_HOUR}
_STARTS: dict[str, dict[str, Any]] = {
    "y": {"month": 1, "day": 1, **_DAY},
    "M": {"day": 1, **_DAY},
    "w": _DAY,
    "d": _DAY,
    "h": _HOUR,
    "H": _HOUR,
    "m": _MINUTE,
    "s": _SECOND,
}
"""What is set to its first value at the start of each unit."""


def parse_moment(text: str, now: dt.datetime | None = None) -> dt.datetime:
    """A moment as people write it in queries: a timestamp, `2023/05/25`, a number since 1970, or `now-1d/d`.

    A number of 9 digits and more counts seconds, milliseconds, microseconds or nanoseconds, by its size. Relative times
    need the clock; `/d` goes back to the start of the day (UTC). ValueError for anything else.
    """
    stripped = text.strip()
    if _EPOCH_NUMBER.fullmatch(stripped):
        return epoch_moment(int(stripped))
    if is_relative(stripped):
        if now is None:
            raise ValueError(f"{stripped!r} is relative to the clock, which is not known here: write the moment itself")
        return _relative(stripped, now)
    return parse_timestamp(_SLASHES.sub(r"\1-\2-\3", stripped, count=1))


def is_relative(text: str) -> bool:
    """Whether a text is a time relative to the clock, such as `now-15m`."""
    return _RELATIVE.fullmatch(text.strip()) is not None


def epoch_moment(number: int) -> dt.datetime:
    """The moment of a number since 1970, whose size says what it counts; ValueError for one too small to tell."""
    if abs(number) < 10**8:
        raise ValueError(f"{number} is too small to tell seconds from milliseconds since 1970")
    factor = next((factor for limit, factor in _EPOCH_UNITS if abs(number) < limit), None)
    return timestamp_of(number * factor if factor else number // 1_000, zone=True)


def _relative(text: str, now: dt.datetime) -> dt.datetime:
    match = _RELATIVE.fullmatch(text)
    assert match is not None
    moment = now.astimezone(dt.UTC)
    try:
        for amount, unit in _STEP.findall(match[1]):
            if unit in "yM":
                moment = _months_later(moment, int(amount) * (12 if unit == "y" else 1))
            else:
                moment += dt.timedelta(**{_LENGTHS[unit]: int(amount)})
    except OverflowError:
        raise ValueError(text) from None
    if match[2] == "w":
        moment -= dt.timedelta(days=moment.weekday())
    return moment.replace(**_STARTS[match[2]]) if match[2] else moment


def _months_later(moment: dt.datetime, months: int) -> dt.datetime:
    """The same day of another month, or its last one."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    days = calendar.monthrange(year, month + 1)[1]
    return moment.replace(year=year, month=month + 1, day=min(moment.day, days))


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
