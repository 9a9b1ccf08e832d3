"""Partition values as text: how they stand in folder names, and what a log entry of any writer means by them.

We record a value as it is and escape it, as Hive and Spark do, only in the folder's name. Another engine records the very
text that it puts into the folder's name: `a%2Fb` for `a/b`, `__HIVE_DEFAULT_PARTITION__` for null. Which of the two an
entry does is told by the entry itself: our folders never spell such a value as the log does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

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
