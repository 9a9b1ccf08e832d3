"""Files on this machine that a command reads or writes beside its table: what can go wrong with them, in our own words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from indextables.errors import AccessDeniedError, InvalidInputError, NotFoundError, StorageError


@contextmanager
def reading(place: str | Path) -> Iterator[None]:
    """Names the file in what goes wrong while it is read."""
    try:
        yield
    except FileNotFoundError:
        hint = "Check the path; - reads standard input."
        raise NotFoundError(f"There is no file {str(place)!r}.", hint=hint, path=str(place)) from None
    except OSError as error:
        raise _failure("read", place, error) from error


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Names the file in what goes wrong while it is written."""
    try:
        yield
    except FileNotFoundError:
        message = f"There is no folder {str(place.parent)!r} to write {place.name} to."
        raise NotFoundError(message, hint="Make the folder first, or choose another.", path=str(place)) from None
    except OSError as error:
        raise _failure("written", place, error) from error


def _failure(act: str, place: str | Path, error: OSError) -> InvalidInputError | StorageError:
    path = str(place)
    if isinstance(error, IsADirectoryError):
        return InvalidInputError(f"{path} is a folder.", hint="Give the path of a file.", path=path)
    if isinstance(error, PermissionError):
        hint = f"Check the permissions of {path} and of the folder it is in."
        return AccessDeniedError(f"{path} may not be {act} by this user.", hint=hint, path=path)
    message = f"{path} cannot be {act}: {error.strerror or error}."
    return StorageError(message, hint="Check the disk and the path, then try again.", path=path)
