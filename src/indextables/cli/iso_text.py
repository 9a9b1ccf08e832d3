"""Text that is a date or a time: how it is recognised in files whose columns have no types."""

from __future__ import annotations

from datetime import UTC, datetime

DATE = r"\d{4}-\d\d-\d\d"
TIME = DATE + r"[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"


def moment(text: str) -> datetime:
    """ISO text as a time; without a zone it is in UTC."""
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
