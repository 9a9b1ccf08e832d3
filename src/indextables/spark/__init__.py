"""Tables in Spark: `import indextables.spark as its`.

spark = its.session()
its.write(df, "/data/logs", partition_by="day", text=["message"])
its.table(spark, "/data/logs").groupBy("day").count().show()
its.search(spark, "/data/logs", "message:timeout", limit=10).show()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indextables.spark.extension import install, register, sql
    from indextables.spark.reads import table
    from indextables.spark.row_changes import merge_into, update
    from indextables.spark.searches import aggregate, count, display, explain, search
    from indextables.spark.sessions import session
    from indextables.spark.source.datasource import read_stream, write_stream
    from indextables.spark.upkeep import delete, merge, purge, verify
    from indextables.spark.writes import write

# Loaded on first use: a worker that reads splits needs neither sessions nor writers.
_WHERE = {
    "aggregate": "searches",
    "count": "searches",
    "delete": "upkeep",
    "display": "searches",
    "explain": "searches",
    "install": "extension",
    "merge": "upkeep",
    "merge_into": "row_changes",
    "purge": "upkeep",
    "read_stream": "source.datasource",
    "register": "extension",
    "search": "searches",
    "session": "sessions",
    "sql": "extension",
    "table": "reads",
    "update": "row_changes",
    "verify": "upkeep",
    "write": "writes",
    "write_stream": "source.datasource",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'indextables.spark' has no attribute {name!r}")
    try:
        module = import_module(f"indextables.spark.{_WHERE[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("indextables"):
            raise
        raise ModuleNotFoundError(explain_missing(error), name=error.name) from error
    return getattr(module, name)


def explain_missing(error: ModuleNotFoundError) -> str:
    """Return why the package cannot be used here, and what to install."""
    name = error.name or ""
    if name.startswith("pyspark."):
        installed = import_module("pyspark").__version__
        return (
            f"indextables.spark needs Spark 4.0 to 4.3, and PySpark {installed} is installed. "
            "Install another: pip install 'indextables[spark]'. Without it, indextables.Table works "
            "in the driver and in tasks."
        )
    return f"indextables.spark needs {name}. Install it: pip install 'indextables[spark]'."


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])


__all__ = [
    "aggregate",
    "count",
    "delete",
    "display",
    "explain",
    "install",
    "merge",
    "merge_into",
    "purge",
    "read_stream",
    "register",
    "search",
    "session",
    "sql",
    "table",
    "update",
    "verify",
    "write",
    "write_stream",
]
