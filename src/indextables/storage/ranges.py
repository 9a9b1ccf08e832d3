"""Byte ranges of an object: what may be asked for, and what an answer must hold."""

from __future__ import annotations

from indextables.errors import InvalidInputError


def check_range(path: str, start: int, length: int) -> None:
    """Refuse a range that begins before the object or has a negative length."""
    if start < 0 or length < 0:
        raise InvalidInputError(f"Bytes {start}+{length} of {path} are not a range.", path=path)
