"""Time formats of Elasticsearch: milliseconds and seconds since 1970, ISO text, and Java patterns."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

from msgspec import Struct

from indextables.errors import show_value
from indextables.web.query_dsl import refuse

_ISO = (
    "strict_date_optional_time_nanos",
    "strict_date_optional_time",
    "date_optional_time",
    "iso8601",
)
_EPOCH = {"epoch_millis": 1, "epoch_second": 1_000}
_LETTERS = {
    "yyyy": "%Y",
    "uuuu": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
}
_PART = re.compile(r"'([^']*)'|([A-Za-z])\2*|[^A-Za-z']+")


class TimeFormat(Struct, frozen=True):
    """The format of a time: a unit since 1970, ISO text, or the parts of a pattern."""

    millis: int = 0
    parts: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: Any, what: str) -> TimeFormat:
        """Parse the first format of a text. An unknown format is an error."""
        first = str(text).split("||")[0]
        if first in _ISO:
            return cls()
        if first in _EPOCH:
            return cls(_EPOCH[first])
        if isinstance(text, str):
            matches = list(_PART.finditer(first))
        else:
            matches = []
        parts = tuple(match[0] for match in matches)
        known = all(
            m[2] is None or m[0] in _LETTERS or m[0] in ("SSS", "XXX", "X", "Z") for m in matches
        )
        if not parts or "".join(parts) != first or not known:
            raise refuse(
                f"{what}: {show_value(text)}", known=[*_EPOCH, *_ISO, "yyyy-MM-dd HH:mm:ss.SSS"]
            )
        return cls(parts=parts)

    def text(self, value: dt.date) -> str:
        """Format a time."""
        if self.millis:
            return str(millis_of(value) // self.millis)
        moment = _moment(value)
        if self.parts:
            return "".join(_part(part, moment) for part in self.parts)
        return iso_text(value)


def _part(part: str, moment: dt.datetime) -> str:
    if part in _LETTERS:
        if _LETTERS[part] == "%Y":
            return f"{moment.year:04}"
        return moment.strftime(_LETTERS[part])
    if part == "SSS":
        return f"{moment.microsecond // 1_000:03}"
    if part in ("XXX", "X", "Z"):
        if part == "Z":
            return "+0000"
        return "Z"
    if part.startswith("'"):
        return part[1:-1] or "'"
    return part


def _moment(value: dt.date) -> dt.datetime:
    """Return a date or time as a timestamp in UTC."""
    if not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
    if value.tzinfo:
        return value.astimezone(dt.UTC)
    return value.replace(tzinfo=dt.UTC)


def iso_text(value: dt.date) -> str:
    """Return a date as ISO text, a time as ISO text in UTC."""
    if not isinstance(value, dt.datetime):
        return value.isoformat()
    return _moment(value).isoformat().replace("+00:00", "Z")


def millis_of(value: dt.date) -> int:
    """Return milliseconds since 1970."""
    return (_moment(value) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
