"""Lengths of time by which a date histogram groups."""

from __future__ import annotations

import re

_SHORT = {"1m": "minute", "1h": "hour", "1d": "day", "1w": "week", "1M": "month", "1q": "quarter", "1y": "year"}
CALENDAR_UNITS = {**{unit: unit for unit in _SHORT.values()}, **_SHORT}
_MICROS = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def fixed_micros(text: str) -> int | None:
    """Microseconds of `500ms`, `30s`, `5m`, `1h` or `7d`; None for anything else."""
    match = re.fullmatch(r"(\d{1,9})(ms|s|m|h|d)", text.strip())
    return int(match[1]) * _MICROS[match[2]] or None if match else None
