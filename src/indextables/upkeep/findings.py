"""What a verification finds: where, how bad, and what it means."""

from __future__ import annotations

from dataclasses import dataclass

ERROR = "error"
"""Rows cannot be read, or not all of them, or an answer can be wrong."""
WARNING = "warning"
"""Something is damaged that the table can do without."""


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be."""

    check: str
    severity: str
    path: str | None
    message: str
