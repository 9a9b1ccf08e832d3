"""Formats of times in the dialect of Elasticsearch: milliseconds and seconds since 1970, ISO text, and patterns of Java."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

from msgspec import Struct

from indextables.errors import shown
from indextables.web.query_dsl import refuse

_ISO = ("strict_date_optional_time_nanos", "strict_date_optional_time", "date_optional_time", "iso8601")
_EPOCH = {"epoch_millis": 1, "epoch_second": 1_000}
_LETTERS = {"yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_PART = re.compile(r"'([^']*)'|([A-Za-z])\2*|[^A-Za-z']+")


class TimeFormat(Struct, frozen=True):
    """How a time becomes text: a unit since 1970, ISO text, or the parts of a pattern."""

    millis: int = 0
    parts: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: Any, what: str) -> TimeFormat:
        """The first of the formats that a text names; one that is not known is refused."""
        first = str(text).split("||")[0]
        if first in _ISO:
            return cls()
        if first in _EPOCH:
            return cls(_EPOCH[first])
        matches = list(_PART.finditer(first)) if isinstance(text, str) else []
        parts = tuple(match[0] for match in matches)
        known = all(m[2] is None or m[0] in _LETTERS or m[0] in ("SSS", "XXX", "X", "Z") for m in matches)
        if not parts or "".join(parts) != first or not known:
            raise refuse(f"{what}: {shown(text)}", known=[*_EPOCH, *_ISO, "yyyy-MM-dd HH:mm:ss.SSS"])
        return cls(parts=parts)

    def text(self, value: dt.date) -> str:
        """A time in this format."""
        if self.millis:
            return str(millis_of(value) // self.millis)
        moment = _moment(value)
        return "".join(_part(part, moment) for part in self.parts) if self.parts else iso_text(value)


def _part(part: str, moment: dt.datetime) -> str:
    if part in _LETTERS:
        return f"{moment.year:04}" if _LETTERS[part] == "%Y" else moment.strftime(_LETTERS[part])
    if part == "SSS":
        return f"{moment.microsecond // 1_000:03}"
    if part in ("XXX", "X", "Z"):
        return "+0000" if part == "Z" else "Z"
    return (part[1:-1] or "'") if part.startswith("'") else part


def _moment(value: dt.date) -> dt.datetime:
    """A date or time as a timestamp in UTC."""
    if not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
    return value.astimezone(dt.UTC) if value.tzinfo else value.replace(tzinfo=dt.UTC)


def iso_text(value: dt.date) -> str:
    """A date as it is, a time as ISO text in UTC."""
    if not isinstance(value, dt.datetime):
        return value.isoformat()
    return _moment(value).isoformat().replace("+00:00", "Z")


def millis_of(value: dt.date) -> int:
    """Milliseconds since 1970."""
    return (_moment(value) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
