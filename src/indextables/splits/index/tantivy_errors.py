"""Failures of tantivy and of the local disk it writes to as errors of ours.

A panic in its Rust code arrives as a BaseException that nobody catches.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from indextables.errors import BadFileError, IndexTablesError, StorageError


def is_panic(error: BaseException) -> bool:
    """Whether an exception is a Rust panic (its class cannot be imported)."""
    return type(error).__name__ == "PanicException"


@contextmanager
def writing_errors(folder: str, doing: str) -> Iterator[None]:
    """Within it, a failure to write local files becomes `StorageError` that names the folder and the setting for it."""
    try:
        yield
    except IndexTablesError:
        raise
    except (ValueError, OSError, SystemError) as e:
        raise _cannot_write(folder, doing, e) from e
    except BaseException as e:
        if not is_panic(e):
            raise
        raise _cannot_write(folder, doing, e) from None


def scratch_folder(purpose: str, directory: str | None) -> Path:
    """A new folder for unfinished files, in `indexWriter.tempDirectoryPath` if that is given."""
    with writing_errors(directory or tempfile.gettempdir(), "Making a folder for unfinished files"):
        return Path(tempfile.mkdtemp(prefix=f"indextables-{purpose}-", dir=directory or None))


def _cannot_write(folder: str, doing: str, error: BaseException) -> StorageError:
    hint = "Free some space, or set indexWriter.tempDirectoryPath to another disk."
    return StorageError(f"{doing} failed in the folder {folder}: {error}.", hint=hint, path=folder)


@contextmanager
def tantivy_errors(path: str, doing: str) -> Iterator[None]:
    """Within it, a panic or an error of tantivy becomes `BadFileError` that names the split and what was done."""
    try:
        yield
    except IndexTablesError:
        raise
    except (ValueError, TypeError, OSError, LookupError, SystemError, OverflowError, RecursionError) as e:
        raise BadFileError(f"{doing} failed in the index of {path}: {e}.", path=path) from e
    except BaseException as e:
        if not is_panic(e):
            raise
        raise BadFileError(f"{doing} failed in the index of {path}: {e}.", path=path) from None
