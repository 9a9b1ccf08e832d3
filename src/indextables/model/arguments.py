"""Validation of arguments: a value of the expected type, or an error with what was expected and
what was given.

Without these checks a wrong value shows up far from the call, or in the table itself.
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
"""Prefixes of writer ids whose transactions the table itself records, such as a purge."""


Moment = datetime | str | int
"""A timestamp argument: a datetime, ISO text, or milliseconds since 1970."""


def text(name: str, value: Any) -> str:
    """Return a text argument."""
    if isinstance(value, str):
        return value
    raise argument_error(name, "a text", value)


def whole_number(name: str, value: Any, *, low: int | None = 0) -> int:
    """Return an integer argument, including numpy integers but not booleans or texts."""
    try:
        if isinstance(value, bool):
            number = None
        else:
            number = operator.index(value)
    except TypeError:
        number = None
    if number is None or (low is not None and number < low) or number > MAX_LONG:
        raise argument_error(
            name, "a whole number" if low is None else f"a whole number from {low} up", value
        )
    return number


def number(name: str, value: Any, unit: str) -> float:
    """Return a numeric argument such as 24 or 0.5, but not a text or a duration."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise argument_error(name, f"a number of {unit}", value)


def names_list(name: str, value: Any) -> tuple[str, ...]:
    """Return a list of names. A single text is refused, because it would be split into letters."""
    if isinstance(value, str):
        raise InvalidInputError(
            f"{name} is a list of names, not the text {value!r}.", hint=f"Write [{value!r}]."
        )
    if not isinstance(value, Iterable):
        raise argument_error(name, "a list of names", value)
    return tuple(text(f"A name in {name}", part) for part in value)


def transaction_id(txn: Any) -> tuple[str, int] | None:
    """Return the id of an exactly-once write: a writer name and a number that increases with its
    writes.
    """
    if txn is None:
        return None
    if not isinstance(txn, tuple | list) or len(txn) != 2:
        raise argument_error(
            "txn", "a pair (app_id, version)", txn, hint='Write it as txn=("my-job", 1).'
        )
    if not text("The app_id of txn", txn[0]):
        raise argument_error("The app_id of txn", "the name of a writer", txn[0])
    if txn[0].startswith(RESERVED_APP_IDS):
        hint = "Choose another name. Nothing was changed."
        message = f"The app_id {txn[0]!r} of txn is kept for the table's own transactions."
        raise InvalidInputError(message, hint=hint, argument="txn")
    return txn[0], whole_number("The version of txn", txn[1])


def to_epoch_ms(moment: Moment) -> int:
    """Return milliseconds since 1970. A timestamp without a time zone is in UTC."""
    if isinstance(moment, int) and not isinstance(moment, bool):
        return _bounded_ms(moment)
    try:
        if isinstance(moment, str) and moment.strip().lstrip("-").isdecimal():
            return _bounded_ms(int(moment))
        if isinstance(moment, datetime):
            parsed = moment
        else:
            parsed = datetime.fromisoformat(str(moment).strip())
        aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        return round(aware.timestamp() * 1000)
    except InvalidInputError:
        raise
    except (ValueError, OverflowError, AttributeError):
        raise InvalidInputError(
            f"{moment!r} is not a timestamp.",
            hint="Give a datetime, ISO text such as 2026-01-31T12:00:00Z, or milliseconds since 1970.",
            timestamp=str(moment),
        ) from None


_LAST_MS = 253_402_300_800_000
"""The end of the year 9999."""


def _bounded_ms(milliseconds: int) -> int:
    """Refuse micro- and nanoseconds: read as milliseconds they would silently mean the newest
    version.
    """
    if milliseconds < _LAST_MS:
        return milliseconds
    raise InvalidInputError(
        f"{milliseconds} ms since 1970 is after the year 9999.",
        hint="A timestamp is in milliseconds: divide microseconds by 1,000, nanoseconds by 1,000,000.",
        timestamp=str(milliseconds),
    )


def byte_size(name: str, size: int | str) -> int:
    """Parse a size such as `10M` to bytes; `name` is the argument in errors."""
    try:
        return parse_size(size)
    except ValueError:
        message = f"{name} is {size!r}, which is not a size."
        hint = "Give bytes, or a text such as 100M or 4G."
        raise InvalidInputError(message, hint=hint, argument=name, size=str(size)) from None


def argument_error(
    name: str, expected: str, value: Any, *, hint: str | None = None
) -> InvalidInputError:
    """Return the error for an argument of the wrong type."""
    if value is None:
        description = "None"
    else:
        description = f"{_describe(value)} ({type(value).__name__})"
    return InvalidInputError(f"{name} is {expected}, not {description}.", hint=hint, argument=name)


def _describe(value: Any) -> str:
    shown = repr(value)
    if len(shown) <= 60:
        return shown
    return f"{shown[:60]}..."
