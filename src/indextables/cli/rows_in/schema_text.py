"""A schema as people type it: `ts timestamp, level string not null, message text`."""

from __future__ import annotations

import re

import pyarrow as pa

from indextables.errors import InvalidInputError, UnsupportedError, nearest
from indextables.model.spark_types import field_from_json

INDEX_KINDS = {"text": "text", "ip": "ip", "json": "json"}
"""Words that are not types but say how text is indexed."""
_COLUMN = re.compile(r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>[^\s,]+))\s+(?P<type>[^,(]+(?:\([^)]*\))?[^,]*)")
_TYPES = (
    *("string", "text", "ip", "json", "boolean", "int", "bigint", "float", "double", "decimal(p,s)"),
    *("date", "timestamp", "timestamp_ntz", "binary"),
)
_ELSEWHERE = {
    "int64": "bigint",
    "int32": "int",
    "float64": "double",
    "varchar": "string",
    "datetime": "timestamp",
    "bytes": "binary",
}
"""Types by the names that other systems give them."""
_HINT = "Write columns as 'name type', with commas between them: ts timestamp, level string, message text."


def parse_schema(text: str) -> tuple[pa.Schema, dict[str, object]]:
    """The schema that a text means, and the indexing settings that its words stand for.

    The types are Spark SQL's; `text`, `ip` and `json` are strings that are indexed as such.
    """
    fields, settings, place = [], {}, 0
    while place < len(text):
        match = _COLUMN.match(text, place)
        if match is None:
            message = f"The schema cannot be understood at position {place}: {text[place : place + 30]!r}."
            raise InvalidInputError(message, hint=_HINT, schema=text, position=place)
        field, kind = _column(match["quoted"] or match["name"], match["type"].strip())
        fields.append(field)
        if kind is not None:
            settings[f"indexing.typemap.{field.name}"] = kind
        place = match.end() + 1
    return pa.schema(fields), dict(settings)


def _column(name: str, spelled: str) -> tuple[pa.Field, str | None]:
    required = spelled.lower().endswith(" not null")
    word = spelled[: -len(" not null")].strip() if required else spelled
    kind = INDEX_KINDS.get(word.lower())
    try:
        return field_from_json({"name": name, "type": "string" if kind else word, "nullable": not required}), kind
    except UnsupportedError:
        raise InvalidInputError(
            f"Column {name!r} has no type {word!r}.",
            hint=f"{_nearest(word)}The types are {', '.join(_TYPES)}.",
            column=name,
            type=word,
        ) from None


def _nearest(word: str) -> str:
    name = word.lower()
    known = _ELSEWHERE.get(name) or next(iter(nearest(name, _TYPES)), None)
    return "" if known is None else f"Did you mean {known}? "
