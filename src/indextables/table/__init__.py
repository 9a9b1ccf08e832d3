"""Table: every verb a person calls. The verbs delegate; the rooms below do the work."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indextables.table.whole import Table


def __getattr__(name: str) -> Any:
    # Loaded on first use, so that `indextables.table.reader` can be had without the engines of upkeep.
    if name == "Table":
        return import_module("indextables.table.whole").Table
    raise AttributeError(f"module 'indextables.table' has no attribute {name!r}")


__all__ = ["Table"]
