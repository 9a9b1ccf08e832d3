"""ACID tables of full-text search indexes, for Spark, in Python.

from indextables import Table
Table.open("/data/logs").search("message:timeout", limit=10)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from indextables.config.release import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from indextables import errors
    from indextables.commands import sql
    from indextables.model.actions import AddAction
    from indextables.table import Table

# Loaded on first use: `import indextables` stays quick and brings in no engine.
_WHERE = {
    "AddAction": "indextables.model.actions",
    "Table": "indextables.table",
    "errors": "indextables",
    "sql": "indextables.commands",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'indextables' has no attribute {name!r}")
    if _WHERE[name] == "indextables":
        return import_module(f"indextables.{name}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])


__all__ = ["AddAction", "Table", "__version__", "errors", "sql"]
