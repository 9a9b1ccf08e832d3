"""Rows from files: CSV, JSON lines, text, Parquet and Arrow, as they are or refused with file, line and column.

A value that does not fit its column is refused in the same words (`misfit`) whatever the file's format is.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from indextables.cli.output import note
from indextables.errors import InvalidInputError
from indextables.model.exact_values import UnfitError
from indextables.model.report import counted, was
from indextables.model.schema import type_name

NOTHING_WRITTEN = "Nothing was written."
_LONGEST = 60


def misfit(
    name: str, where: str, value: Any, field: pa.Field, *, guessed: bool, error: Exception | None = None
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
    reason = f"Reason: {error}. " if isinstance(error, UnfitError) else ""
    hint = (
        "The type was taken from the first rows; give it with `indextables create PATH --schema` before you append. "
        if guessed
        else "Mend the value, or the column it is in. "
    )
    return InvalidInputError(
        f"{name}, {where}: {quoted(value)} does not fit column {field.name!r}, which holds {_column_content(field.type)}.",
        hint=reason + hint + NOTHING_WRITTEN,
        file=name,
        place=where,
        column=field.name,
        type=type_name(field.type),
    )


def note_blank_lines(name: str, count: int, left_out: Counter[str]) -> None:
    """Report blank lines of a file, which are no rows."""
    if count:
        note(f"{name}: {counted(count, 'blank line')} {was(count)} left out.")
        left_out["blank_lines"] += count


def quoted(value: Any) -> str:
    """A value as an error quotes it: as it was written, and not too long."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _column_content(kind: pa.DataType) -> str:
    """What a column holds, in words and by the name of its type."""
    words = next((words for test, words in _WORDS if test(kind)), "")
    return f"{words} ({type_name(kind)})" if words else type_name(kind)


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
