"""Moments in time as people write them: a datetime, ISO text, or milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime

from indextables.errors import InvalidInputError

Moment = datetime | str | int


def to_epoch_ms(moment: Moment) -> int:
    """Milliseconds since 1970. A moment without a time zone is in UTC."""
    if isinstance(moment, int) and not isinstance(moment, bool):
        return moment
    try:
        if isinstance(moment, str) and moment.strip().lstrip("-").isdecimal():
            return int(moment)
        parsed = moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment).strip())
    except ValueError:
        raise InvalidInputError(
            f"{moment!r} is not a moment in time.",
            hint="Give a datetime, ISO text such as 2026-01-31T12:00:00Z, or milliseconds since 1970.",
            timestamp=str(moment),
        ) from None
    aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)
