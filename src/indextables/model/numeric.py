"""Numbers as text: one strict reader for literals, partition values and statistics."""

from __future__ import annotations

import decimal


def parse_float(text: str) -> float:
    """A floating point number from text, with `NaN`, `Infinity` and `-Infinity`; ValueError for anything else."""
    if "_" in text:
        raise ValueError(text)
    return float(text)


def parse_decimal(text: str) -> decimal.Decimal:
    """A finite decimal number from text; ValueError for anything else."""
    try:
        value = decimal.Decimal(text.strip())
    except decimal.InvalidOperation:
        raise ValueError(text) from None
    if not value.is_finite() or "_" in text:
        raise ValueError(text)
    return value
