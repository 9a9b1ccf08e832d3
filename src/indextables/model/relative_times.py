"""Timestamps of queries: relative times (`now-1d/d`), numbers since 1970, and time zones."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from typing import Any

from indextables.config.values import zone_of
from indextables.model.values import parse_timestamp, timestamp_of

_SLASHES = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})(?!\d|/)", re.ASCII)
_EPOCH_NUMBER = re.compile(r"-?\d{9,19}", re.ASCII)
_EPOCH_UNITS = ((10**11, 1_000_000), (10**14, 1_000), (10**17, 1))
"""Below each number the unit in microseconds: seconds, milliseconds, microseconds; above are
nanoseconds.
"""
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
"""Fields that are reset at the start of each unit."""


def parse_moment(text: str, now: dt.datetime | None = None, zone: str = "UTC") -> dt.datetime:
    """Parse a timestamp of a query: a timestamp, `2023/05/25`, a number since 1970, or `now-1d/d`.
    Raises ValueError.

    A number of 9 digits and more counts seconds, milliseconds, microseconds or nanoseconds by its
    size. Relative times need the clock; `/d` rounds down to the start of the day in `zone`.
    """
    stripped = text.strip()
    if _EPOCH_NUMBER.fullmatch(stripped):
        return epoch_moment(int(stripped))
    if is_relative(stripped):
        if now is None:
            raise ValueError(
                f"{stripped!r} is relative to the clock, which is not known here: write the moment itself"
            )
        return _relative(stripped, now, zone)
    return parse_timestamp(_SLASHES.sub(r"\1-\2-\3", stripped, count=1))


def from_zone(moment: dt.datetime, zone: str) -> dt.datetime:
    """Convert a naive timestamp of a zone to UTC. Timestamps with a zone or out of range are
    returned unchanged.

    Raises ValueError for an unknown zone.
    """
    if moment.tzinfo is not None:
        return moment
    own = zone_of(zone)
    try:
        return (moment if own is None else moment.replace(tzinfo=own)).astimezone(dt.UTC)
    except (OverflowError, ValueError, OSError):
        return moment


def to_zone(moment: dt.datetime, zone: str) -> dt.datetime:
    """Return the wall clock time of a zone. Naive timestamps and those out of range are returned
    unchanged.
    """
    if moment.tzinfo is None:
        return moment
    own = zone_of(zone)
    try:
        return moment.astimezone(own).replace(tzinfo=None, fold=0)
    except (OverflowError, ValueError, OSError):
        return moment


def is_relative(text: str) -> bool:
    """Return whether a text is a relative time such as `now-15m`."""
    return _RELATIVE.fullmatch(text.strip()) is not None


def epoch_moment(number: int) -> dt.datetime:
    """Return the timestamp of a number since 1970 whose size decides its unit. Raises ValueError if
    it is too small.
    """
    if abs(number) < 10**8:
        raise ValueError(f"{number} is too small to tell seconds from milliseconds since 1970")
    factor = next((factor for limit, factor in _EPOCH_UNITS if abs(number) < limit), None)
    return timestamp_of(number * factor if factor else number // 1_000, zone=True)


def _relative(text: str, now: dt.datetime, zone: str) -> dt.datetime:
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
    if not match[2]:
        return moment
    shown = to_zone(moment, zone)
    if match[2] == "w":
        shown -= dt.timedelta(days=shown.weekday())
    return from_zone(shown.replace(**_STARTS[match[2]]), zone)


def _months_later(moment: dt.datetime, months: int) -> dt.datetime:
    """Return the same day of another month, or its last one."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    days = calendar.monthrange(year, month + 1)[1]
    return moment.replace(year=year, month=month + 1, day=min(moment.day, days))
