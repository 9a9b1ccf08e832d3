"""Version files that are about to be written, proven to be readable before the store gets them.

A version file is never changed again, and one that cannot be read ends the table for everybody. Python checks no types, so
a wrong value of a caller can come this far: the bytes are read as every reader will read them, and refused if that fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, cast

from indextables.errors import BadFileError, InvalidInputError
from indextables.model.actions import ACTION_KEYS, Action, LogAction
from indextables.wire import version_file
from indextables.wire.compression import deflate

A = TypeVar("A", bound=Action)
_HINT = "Give values of the types that the log has; nothing was written."


def encode_proven(actions: Iterable[LogAction], *, url: str, version: int, compress: bool = True) -> bytes:
    """The bytes of a version file that can be read again; InvalidInputError names the action that could not."""
    written = list(actions)
    what = f"version {version} of {url}"
    plain = b"".join(line for action in written for line in (_encoded(action, what), b"\n"))
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


def _refused(action: LogAction, what: str, error: Exception) -> InvalidInputError:
    key = ACTION_KEYS[type(action)] if isinstance(action, Action) else action.key
    why = error.context["why"] if isinstance(error, BadFileError) else str(error)
    return InvalidInputError(f"The {key!r} of {what} cannot be recorded: {why}.", hint=_HINT, action=key)
