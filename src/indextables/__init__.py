"""ACID tables of full-text search indexes, for Spark, in Python.

import indextables
logs = indextables.write_table("/data/logs", frame, text=["message"])
logs.search("message:timeout", limit=10)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indextables import errors
    from indextables.commands import sql
    from indextables.config import VERSION as __version__  # noqa: N811
    from indextables.model.actions import AddAction
    from indextables.table import Table
    from indextables.table.frame_writer import write_table

    open_table = Table.open

# Loaded on first use: `import indextables` stays quick and brings in no engine.
_WHERE = {
    "AddAction": ("indextables.model.actions", "AddAction"),
    "Table": ("indextables.table", "Table"),
    "__version__": ("indextables.config", "VERSION"),
    "errors": ("indextables.errors", None),
    "load_ipython_extension": ("indextables.inspect.figures", "load_ipython_extension"),
    "open_table": ("indextables.table", "open_table"),
    "sql": ("indextables.commands", "sql"),
    "unload_ipython_extension": ("indextables.inspect.figures", "unload_ipython_extension"),
    "write_table": ("indextables.table.frame_writer", "write_table"),
}
_OPEN = "indextables.open_table(path)"
_ELSEWHERE = {
    **dict.fromkeys(
        ("open", "read", "read_table", "load", "load_table", "connect", "DeltaTable"), _OPEN
    ),
    **dict.fromkeys(
        ("create", "create_table", "write", "write_deltalake"),
        "indextables.write_table(path, rows)",
    ),
}
"""Functions of other libraries, and the call here."""


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        if name in _ELSEWHERE:
            elsewhere = f". Use {_ELSEWHERE[name]}"
        else:
            elsewhere = ""
        raise AttributeError(f"module 'indextables' has no attribute {name!r}{elsewhere}")
    module, attribute = _WHERE[name]
    found = import_module(module)
    if attribute is None:
        return found
    return getattr(found, attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])


__all__ = ["AddAction", "Table", "__version__", "errors", "open_table", "sql", "write_table"]
