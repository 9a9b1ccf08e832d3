"""What the applications of the torture write: batches of rows, each of one part, and what
operations make of them.
"""

from __future__ import annotations

from typing import Any

PARTS = 3
BATCH = 100
"""Rows of a batch."""


def after(live: list[int], op: dict[str, Any]) -> list[int]:
    """The batches of a table after an operation on it."""
    verb, number = op["verb"], op["batch"]
    if verb in ("append", "plain"):
        return [*live, number]
    if verb == "replace":
        return [*(b for b in live if b % PARTS != number % PARTS), number]
    if verb == "delete":
        return [b for b in live if b != op["gone"]]
    return [number] if verb == "overwrite" else list(live)
