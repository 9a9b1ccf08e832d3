"""Every exception the package raises, grouped by what a caller would do about it.

    IndexTablesError          kind, hint, context; picklable
    ├─ NotFoundError          look elsewhere
    │  ├─ TableNotFoundError
    │  └─ VersionNotFoundError        carries the range of versions that can be read
    ├─ AlreadyExistsError     choose another place
    │  └─ TableExistsError
    ├─ ConflictError          nothing was committed; another writer was first
    ├─ CommitUnknownError     it may have landed; nothing was cleaned up
    ├─ CleanupError           it has landed; cleaning up after it failed
    ├─ CheckpointError        the table is as it was; its checkpoint is not
    │  ├─ CheckpointWriteError        it could not be written
    │  └─ CheckpointValidationError   it was written, and is not what it should be
    ├─ UnsupportedError       the table needs a newer or another reader
    ├─ CorruptTableError      the table is damaged
    │  ├─ LogGapError                 a version is missing below a higher one
    │  ├─ BadFileError                a file is empty, cut short or garbled
    │  │  └─ CheckpointCorruptionError  ... that a state or checkpoint is made of
    │  └─ MissingSplitError           the log names a split that is not there
    ├─ SourceChangedError     a file of a companion's source is not what it was
    ├─ InvalidInputError      correct the request
    │  ├─ SchemaMismatchError
    │  ├─ QuerySyntaxError
    │  └─ UnknownOptionError          carries the nearest known keys
    ├─ RefusedError           the request is unsafe; the hint names the override
    └─ StorageError           the store did not answer as it should
       ├─ AccessDeniedError
       ├─ StorageFullError
       ├─ ThrottledError
       └─ UnavailableError

The message says what happened and to which path and version; the hint says what to do next; the
context holds the same facts as plain values for programs (`kind` and `context` are stable, wording
is not).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, ClassVar

LONGEST_NAME = 200
"""Characters of a name that a message repeats. Looking for names like it costs the square of its
length.
"""


LONGEST_MESSAGE = 20_000
"""Characters of a message or a hint: what is wrong may be a text of any length, and ends up in logs
and terminals.
"""


def _shorten(text: str) -> str:
    if len(text) <= LONGEST_MESSAGE:
        return text
    return f"{text[:LONGEST_MESSAGE]}..."


def show_value(value: object) -> str:
    """A value as a message repeats it: quoted, and cut where it is very long."""
    whole = value[: LONGEST_NAME + 1] if isinstance(value, str | bytes) else value
    text = repr(whole)
    if len(text) <= LONGEST_NAME + 2:
        return text
    return f"{text[:LONGEST_NAME]}..."


def nearest(name: str, known: Iterable[str], *, count: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the known names most similar to a misspelt one, the best first."""
    if len(name) > LONGEST_NAME:
        return []
    return difflib.get_close_matches(
        name, [k for k in known if len(k) <= LONGEST_NAME], n=count, cutoff=cutoff
    )


class IndexTablesError(Exception):
    """Root of every error of this package."""

    kind: ClassVar[str] = "error"
    default_hint: ClassVar[str] = "Run again with logging at DEBUG and report what it shows."

    def __init__(self, message: str, *, hint: str | None = None, **context: Any) -> None:
        self.message = _shorten(message)
        super().__init__(self.message)
        self.hint = _shorten(hint or self.default_hint)
        self.context = context

    def __str__(self) -> str:
        return f"{self.message} {self.hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.context)

    def to_dict(self) -> dict[str, Any]:
        """The error as plain values, the form that `--json` prints."""
        return {
            "kind": self.kind,
            "message": self.message,
            "hint": self.hint,
            "context": self.context,
        }


def _rebuild(
    cls: type[IndexTablesError], message: str, hint: str, context: dict[str, Any]
) -> IndexTablesError:
    return cls(message, hint=hint, **context)


class NotFoundError(IndexTablesError):
    """Something that was named does not exist."""

    kind = "not_found"
    default_hint = "Check the path; names are case-sensitive."


class TableNotFoundError(NotFoundError):
    """There is no table at the path."""

    kind = "table_not_found"
    default_hint = (
        "Check the path, or create the table with indextables.write_table(path, rows) or "
        "Table.create(path, schema=...)."
    )


class VersionNotFoundError(NotFoundError):
    """The version or timestamp lies outside what the table still holds."""

    kind = "version_not_found"
    default_hint = "Choose a version that history() shows as readable."


class AlreadyExistsError(IndexTablesError):
    """Something that was to be created is there already."""

    kind = "already_exists"
    default_hint = "Choose another path."


class TableExistsError(AlreadyExistsError):
    """A table exists at the path already."""

    kind = "table_exists"
    default_hint = (
        "Open it with Table.open(path), or pass exist_ok=True if the same schema is meant."
    )


class ConflictError(IndexTablesError):
    """Another writer committed a change that conflicts with this commit. Nothing was committed."""

    kind = "conflict"
    default_hint = "Nothing was committed. Read the table again and repeat the operation."


class CommitUnknownError(IndexTablesError):
    """The store never said whether the commit landed. It may have; nothing was cleaned up."""

    kind = "commit_unknown"
    default_hint = "Look for the transaction id in history() before repeating; the files it names were left in place."


class CleanupError(IndexTablesError):
    """The commit has landed, and cleaning up after it failed (raised where `cleanup.failurePolicy`
    is `fail`).
    """

    kind = "cleanup"
    default_hint = "Do not repeat the write: it is in the table. The next clean-up tries again."


class CheckpointError(IndexTablesError):
    """A checkpoint could not be made. The table is what its versions say: nothing of it depends on
    the checkpoint.
    """

    kind = "checkpoint"
    default_hint = (
        "The table can be read and written as before; the next writer, or CHECKPOINT, tries again."
    )


class CheckpointWriteError(CheckpointError):
    """A checkpoint could not be written; `__cause__` is what went wrong. Logged and counted, never
    raised by a commit.
    """

    kind = "checkpoint_write"


class CheckpointValidationError(CheckpointError):
    """A checkpoint that was read back is not what its versions lead to; nothing points to it."""

    kind = "checkpoint_validation"


class UnsupportedError(IndexTablesError):
    """The table or file needs something this release does not have."""

    kind = "unsupported"
    default_hint = "Upgrade indextables, or read the table with the engine that wrote it."


class CorruptTableError(IndexTablesError):
    """The table is damaged in a way that cannot be worked around."""

    kind = "corrupt_table"
    default_hint = "Run verify() for the full list of findings, then Table.repair()."


class LogGapError(CorruptTableError):
    """A version file is missing below a higher one."""

    kind = "log_gap"
    default_hint = (
        "Restore the missing file from a backup, open an older version by number, or run Table.repair(path): it keeps every "
        "version that can be read, and reports those that cannot."
    )


class BadFileError(CorruptTableError):
    """A file of the table is empty, cut short or garbled."""

    kind = "bad_file"
    default_hint = (
        "Restore the file from a backup, or run verify() to see what else is affected. Where the table cannot be opened, "
        "Table.repair(path) keeps every version that can be read."
    )


class CheckpointCorruptionError(BadFileError):
    """A file of a state or checkpoint is empty, cut short, garbled or missing."""

    kind = "checkpoint_corruption"
    default_hint = "CHECKPOINT INDEXTABLES or Table.repair(path) writes it again, from an older one or from the versions."


class MissingSplitError(CorruptTableError):
    """The log names a split that is not in the store."""

    kind = "missing_split"
    default_hint = (
        "Restore the split from a backup. To go on without its rows, write a clean log with Table.repair(path, at='another "
        "place') and put it in the place of the table's log, as the report says."
    )


class SourceChangedError(IndexTablesError):
    """A file of the source of a companion is missing, or is not the file that was listed."""

    kind = "source_changed"
    default_hint = (
        "Open the companion again to read the newest version of the source, and run sync() if its "
        "files were replaced."
    )


class InvalidInputError(IndexTablesError):
    """The request is not meaningful as given."""

    kind = "invalid_input"
    default_hint = "Correct the request and try again; nothing was changed."


class SchemaMismatchError(InvalidInputError):
    """The data does not fit the table's schema."""

    kind = "schema_mismatch"
    default_hint = "Bring the data into the table's schema."


class QuerySyntaxError(InvalidInputError):
    """A query or predicate cannot be understood."""

    kind = "query_syntax"
    default_hint = "Correct the query at the place shown."


class UnknownOptionError(InvalidInputError):
    """A setting or option has a name that does not exist."""

    kind = "unknown_option"
    default_hint = "Run `indextables settings` for the list of settings."


class RefusedError(IndexTablesError):
    """The request is understood but unsafe."""

    kind = "refused"
    default_hint = "Nothing was changed. Override the check only if you are sure."


class StorageError(IndexTablesError):
    """The store failed or gave an answer that cannot be used."""

    kind = "storage"
    default_hint = "Check the store's state and the credentials, then try again."


class AccessDeniedError(StorageError):
    """The store refused the credentials."""

    kind = "access_denied"
    default_hint = "Check the credentials and the permissions on this path."


class StorageFullError(StorageError):
    """The disk is full, the quota is used up, or the file would exceed a size limit. Nothing was
    written.
    """

    kind = "storage_full"
    default_hint = "Free some space or raise the quota, then try again."


class ThrottledError(StorageError):
    """The store asked to slow down and went on doing so through every retry."""

    kind = "throttled"
    default_hint = "Try again later, or with less parallelism."


class UnavailableError(StorageError):
    """The store could not be reached, or kept failing through every retry."""

    kind = "unavailable"
    default_hint = "Check the network and the endpoint, then try again."
