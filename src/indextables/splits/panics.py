"""Failures of tantivy as errors of ours. A panic in its Rust code arrives as a BaseException that nobody catches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from indextables.errors import BadFileError, IndexTablesError


def is_panic(error: BaseException) -> bool:
    """Whether an exception is a Rust panic (its class cannot be imported)."""
    return type(error).__name__ == "PanicException"


@contextmanager
def tantivy_errors(path: str, doing: str) -> Iterator[None]:
    """Within it, a panic or an error of tantivy becomes `BadFileError` that names the split and what was done."""
    try:
        yield
    except IndexTablesError:
        raise
    except (ValueError, OSError, KeyError, SystemError) as e:
        raise BadFileError(f"{doing} failed in the index of {path}: {e}.", path=path) from e
    except BaseException as e:
        if not is_panic(e):
            raise
        raise BadFileError(f"{doing} failed in the index of {path}: {e}.", path=path) from None
