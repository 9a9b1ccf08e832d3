"""Rows from files: CSV, JSON lines, text, Parquet and Arrow.

A value that does not fit its column is refused with file, line and column; `misfit` words the error
for every format.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from indextables.cli.output import note
from indextables.errors import InvalidInputError
from indextables.model.exact_values import UnfitError
from indextables.model.report import pluralize, was
from indextables.model.schema import type_name

NOTHING_WRITTEN = "Nothing was written."
_LONGEST = 60


def misfit(
    name: str,
    where: str,
    value: Any,
    field: pa.Field,
    *,
    guessed: bool,
    error: Exception | None = None,
) -> InvalidInputError:
    """The error for a value.

    Args:
        name: The file.
        where: The line of the value.
        value: The value as it was written.
        field: The column.
        guessed: Whether the column's type was taken from the first rows of the file.
        error: Why the value does not fit, if that is not obvious.
    """
    if isinstance(error, UnfitError):
        reason = f"Reason: {error}. "
    else:
        reason = ""
    if guessed:
        hint = "The type was taken from the first rows; give it with `indextables create PATH --schema` before you append. "
    else:
        hint = "Mend the value, or the column it is in. "
    return InvalidInputError(
        f"{name}, {where}: {quote(value)} does not fit column {field.name!r}, which holds {_column_content(field.type)}.",
        hint=reason + hint + NOTHING_WRITTEN,
        file=name,
        place=where,
        column=field.name,
        type=type_name(field.type),
    )


def note_blank_lines(name: str, count: int, left_out: Counter[str]) -> None:
    """Print a note about blank lines of a file, which are not rows."""
    if count:
        note(f"{name}: {pluralize(count, 'blank line')} {was(count)} left out.")
        left_out["blank_lines"] += count


def quote(value: Any) -> str:
    """Quote a value for an error message, shortened."""
    if isinstance(value, bool):
        text = {True: "true", False: "false"}[value]
    else:
        text = repr(value)
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}..."


def _column_content(kind: pa.DataType) -> str:
    """Describe the content of a column in words and by its type."""
    words = next((words for test, words in _WORDS if test(kind)), "")
    if words:
        return f"{words} ({type_name(kind)})"
    return type_name(kind)


_WORDS = (
    (pa.types.is_integer, "whole numbers"),
    (pa.types.is_floating, "numbers"),
    (pa.types.is_decimal, "decimal numbers"),
    (pa.types.is_boolean, "true or false"),
    (pa.types.is_string, "text"),
    (pa.types.is_date, "dates such as 2026-01-31"),
    (pa.types.is_timestamp, "times such as 2026-01-31T12:00:00Z"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_map, "objects"),
    (pa.types.is_list, "lists"),
    (pa.types.is_struct, "objects"),
)
