"""What the exit code of a command says, in one place: a code for each kind of error, as a handler would tell them apart."""

from __future__ import annotations

from indextables import errors

FAILED, USAGE, CORRUPT, INTERRUPTED = 1, 2, 8, 130
CODES: dict[type[errors.IndexTablesError], int] = {
    errors.IndexTablesError: FAILED,
    errors.InvalidInputError: USAGE,
    errors.NotFoundError: 3,
    errors.AlreadyExistsError: 4,
    errors.ConflictError: 5,
    errors.CommitUnknownError: 6,
    errors.UnsupportedError: 7,
    errors.CorruptTableError: CORRUPT,
    errors.RefusedError: 9,
    errors.StorageError: 10,
    errors.CleanupError: 11,
}
_MEANINGS = {
    0: "done",
    FAILED: "something went wrong that no other code names",
    USAGE: "the request is wrong: a misspelt option, a query that cannot be parsed, data that does not fit",
    3: "there is no such table, version or file",
    4: "there is a table already",
    5: "another writer was first; nothing was committed",
    6: "it is not known whether the commit landed; look into the history",
    7: "the table needs another release",
    CORRUPT: "the table is damaged, or `verify` found something",
    9: "the request is unsafe, or nobody confirmed it; nothing was changed",
    10: "the store failed",
    11: "the commit landed, but cleaning up after it failed",
    INTERRUPTED: "interrupted",
}


def code_of(error: errors.IndexTablesError) -> int:
    """The exit code of an error: that of the nearest kind above it."""
    return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)


def meanings() -> list[dict[str, object]]:
    """Every code, what it means, and the errors that lead to it."""
    kinds: dict[int, list[str]] = {}
    for kind, code in CODES.items():
        kinds.setdefault(code, []).append(kind.__name__)
    return [{"code": c, "meaning": text, "errors": ", ".join(kinds.get(c, []))} for c, text in _MEANINGS.items()]
