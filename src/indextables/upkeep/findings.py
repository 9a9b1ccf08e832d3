"""What a verification finds: where, how bad, and what it means."""

from __future__ import annotations

from msgspec import Struct

ERROR = "error"
"""Rows cannot be read, or not all of them, or an answer can be wrong."""
WARNING = "warning"
"""Something is damaged that the table can do without."""


class Finding(Struct, frozen=True):
    """One thing that is not as it should be."""

    check: str
    severity: str
    path: str | None
    message: str
