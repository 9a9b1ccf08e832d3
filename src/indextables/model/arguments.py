"""Arguments as callers give them: of the type that is meant, or refused with what was expected and what was given.

Python checks no types. Without these, a wrong value shows up far from the call, or in the table itself.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from indextables.config.values import parse_size
from indextables.errors import InvalidInputError
from indextables.model.actions import MAX_LONG

RESERVED_APP_IDS = "indextables."
"""How the names of writers begin whose transactions the table itself records, such as a purge."""


Moment = datetime | str | int
"""A moment as people write it: a datetime, ISO text, or milliseconds since 1970."""


def text(name: str, value: Any) -> str:
    """A text."""
    if isinstance(value, str):
        return value
    raise unexpected(name, "a text", value)


def whole_number(name: str, value: Any, *, low: int | None = 0) -> int:
    """A whole number, numpy's included. True and false are none, nor is a text of digits."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or (low is not None and number < low) or number > MAX_LONG:
        raise unexpected(name, "a whole number" if low is None else f"a whole number from {low} up", value)
    return number


def number(name: str, value: Any, unit: str) -> float:
    """A number that a caller gave, such as 24 or 0.5; a text or a duration is refused."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise unexpected(name, f"a number of {unit}", value)


def names_list(name: str, value: Any) -> tuple[str, ...]:
    """Names that a caller gave as a list; a single text would be taken apart letter by letter."""
    if isinstance(value, str):
        raise InvalidInputError(f"{name} is a list of names, not the text {value!r}.", hint=f"Write [{value!r}].")
    if not isinstance(value, Iterable):
        raise unexpected(name, "a list of names", value)
    return tuple(text(f"A name in {name}", part) for part in value)


def transaction_id(txn: Any) -> tuple[str, int] | None:
    """The id of an exactly-once write: a name of the writer, and a number that rises with its writes."""
    if txn is None:
        return None
    if not isinstance(txn, tuple | list) or len(txn) != 2:
        raise unexpected("txn", "a pair (app_id, version)", txn, hint='Write it as txn=("my-job", 1).')
    if not text("The app_id of txn", txn[0]):
        raise unexpected("The app_id of txn", "the name of a writer", txn[0])
    if txn[0].startswith(RESERVED_APP_IDS):
        hint = "Choose another name. Nothing was changed."
        message = f"The app_id {txn[0]!r} of txn is kept for the table's own transactions."
        raise InvalidInputError(message, hint=hint, argument="txn")
    return txn[0], whole_number("The version of txn", txn[1])


def to_epoch_ms(moment: Moment) -> int:
    """Milliseconds since 1970. A moment without a time zone is in UTC."""
    if isinstance(moment, int) and not isinstance(moment, bool):
        return _bounded_ms(moment)
    try:
        if isinstance(moment, str) and moment.strip().lstrip("-").isdecimal():
            return _bounded_ms(int(moment))
        parsed = moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment).strip())
        aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        return round(aware.timestamp() * 1000)
    except InvalidInputError:
        raise
    except (ValueError, OverflowError, AttributeError):
        raise InvalidInputError(
            f"{moment!r} is not a moment in time.",
            hint="Give a datetime, ISO text such as 2026-01-31T12:00:00Z, or milliseconds since 1970.",
            timestamp=str(moment),
        ) from None


_LAST_MS = 253_402_300_800_000
"""The end of the year 9999."""


def _bounded_ms(milliseconds: int) -> int:
    """Refuse what can only be micro- or nanoseconds: as milliseconds they would mean the newest version, without a word."""
    if milliseconds < _LAST_MS:
        return milliseconds
    raise InvalidInputError(
        f"{milliseconds} ms since 1970 is after the year 9999.",
        hint="A moment is in milliseconds: divide microseconds by 1,000, nanoseconds by 1,000,000.",
        timestamp=str(milliseconds),
    )


def byte_size(name: str, size: int | str) -> int:
    """A size as people write it, in bytes; `name` is the argument that gives it."""
    try:
        return parse_size(size)
    except ValueError:
        message = f"{name} is {size!r}, which is not a size."
        hint = "Give bytes, or a text such as 100M or 4G."
        raise InvalidInputError(message, hint=hint, argument=name, size=str(size)) from None


def unexpected(name: str, expected: str, value: Any, *, hint: str | None = None) -> InvalidInputError:
    """The error that says what an argument is and what was given instead."""
    description = "None" if value is None else f"{_shown(value)} ({type(value).__name__})"
    return InvalidInputError(f"{name} is {expected}, not {description}.", hint=hint, argument=name)


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}..."
