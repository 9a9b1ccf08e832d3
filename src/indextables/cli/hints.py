"""Hints in the words of the command line, where the library's own speak of Python."""

from __future__ import annotations

from typing import Any

from indextables import errors

_HINTS: dict[type[errors.IndexTablesError], str] = {
    errors.IndexTablesError: "Run again with --debug and report what it shows.",
    errors.TableNotFoundError: "Check the path, or create a table there: `indextables create --help`.",
    errors.VersionNotFoundError: "`indextables history PATH` shows which versions can be read.",
    errors.TableExistsError: "Choose another path, or pass --if-not-exists if the same schema is meant.",
    errors.CommitUnknownError: "Look for the transaction id in `indextables history PATH` before repeating.",
    errors.CorruptTableError: "`indextables verify PATH` lists everything that is damaged; then `indextables repair`.",
    errors.LogGapError: "Restore the missing file from a backup, or `indextables repair PATH --at NEW_PATH`.",
    errors.BadFileError: "Restore the file from a backup; `indextables verify PATH` shows what else is affected.",
    errors.MissingSplitError: "Restore the split from a backup, or `indextables repair PATH --at NEW_PATH`.",
}
_PHRASES = {
    "open the table with options={'purge.retentionCheckEnabled': False}": "pass -o purge.retentionCheckEnabled=false",
    "Table.repair(path, at=...)": "`indextables repair PATH --at NEW_PATH`",
    "Table.repair(path)": "`indextables repair PATH`",
    "verify()": "`indextables verify PATH`",
    "history()": "`indextables history PATH`",
    "Write with merge_schema=True": "Pass --merge-schema",
    "merge_schema=True": "--merge-schema",
    "Give where=..., query=..., or both; overwrite()": "Give --where, --query, or both; `indextables overwrite`",
    "Choose another port, or 0": "Choose another with --port, or --port 0",
}
"""What the library says, and how it is said here."""


def told(error: errors.IndexTablesError) -> dict[str, Any]:
    """An error as plain values, with a hint that a user of the command line can follow."""
    hint = _HINTS.get(type(error)) if error.hint == error.default_hint else None
    if hint is None:
        hint = error.hint
        for phrase, words in _PHRASES.items():
            hint = hint.replace(phrase, words)
    return {**error.to_dict(), "hint": hint}
