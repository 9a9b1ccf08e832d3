"""Version files that are about to be written, proven to be readable before the store gets them.

A version file is never changed again, and one that cannot be read ends the table for everybody. Python checks no types, so
a wrong value of a caller can come this far: the bytes are read as every reader will read them, and refused if that fails.
The same goes for a file that is larger than readers inflate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, cast

from indextables.errors import BadFileError, InvalidInputError, RefusedError
from indextables.model.actions import ACTION_KEYS, Action, LogAction
from indextables.wire import version_file
from indextables.wire.compression import INFLATION_CAP_BYTES, deflate

A = TypeVar("A", bound=Action)
_HINT = "Give values of the types that the log has; nothing was written."


def encode_proven(actions: Iterable[LogAction], *, url: str, version: int, compress: bool = True) -> bytes:
    """The bytes of a version file that can be read again; InvalidInputError names the action that could not.

    RefusedError if the file would be larger than readers inflate.
    """
    written = list(actions)
    what = f"version {version} of {url}"
    lines, size = [], 0
    for action in written:
        lines.append(_encoded(action, what) + b"\n")
        size += len(lines[-1])
        if size > INFLATION_CAP_BYTES:
            raise _too_large(what, len(lines), len(written))
    plain = b"".join(lines)
    try:
        version_file.decode(plain, path=what)
    except BadFileError as error:
        raise _refused(written[error.context["line"] - 1], what, error) from error
    return deflate(plain) if compress else plain


def as_read_back(action: A, *, what: str) -> A:
    """An action as a reader of the log will see it, or an InvalidInputError."""
    try:
        return cast(A, version_file.decode(_encoded(action, what), path=what)[0])
    except BadFileError as error:
        raise _refused(action, what, error) from error


def _encoded(action: LogAction, what: str) -> bytes:
    try:
        return version_file.encode_action(action)
    except (TypeError, ValueError, OverflowError) as error:
        raise _refused(action, what, error) from error


def _too_large(what: str, fitting: int, count: int) -> RefusedError:
    return RefusedError(
        f"{what[0].upper()}{what[1:]} cannot be written: {fitting} of its {count} actions are more than "
        f"{INFLATION_CAP_BYTES >> 20} MiB, which is the most that readers accept of one version.",
        hint="Nothing was committed. Write in several smaller commits. What restore() cannot bring back at once can be "
        "written anew: t.overwrite(Table.open(path, version=N).scan()).",
        cap_bytes=INFLATION_CAP_BYTES,
        actions=count,
    )


def _refused(action: LogAction, what: str, error: Exception) -> InvalidInputError:
    key = ACTION_KEYS[type(action)] if isinstance(action, Action) else action.key
    why = error.context["why"] if isinstance(error, BadFileError) else str(error)
    return InvalidInputError(f"The {key!r} of {what} cannot be recorded: {why}.", hint=_HINT, action=key)
