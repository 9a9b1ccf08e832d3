"""Everything that actors will load, loaded once: a process forked from here begins to act at once.

It is only imported, and nothing is used: a thread that runs would not survive the fork.
"""

from __future__ import annotations

import importlib
import pkgutil

import indextables
from tests.torture import actors

__all__ = ["actors"]

for _package in ("table", "operations", "query", "log", "splits", "wire", "storage"):
    for _found in pkgutil.walk_packages(
        [f"{indextables.__path__[0]}/{_package}"], f"indextables.{_package}."
    ):
        importlib.import_module(_found.name)
for _name in (
    "pandas",
    "polars",
    "polars_avro",
    "tantivy",
    "fastavro",
    "pyarrow.parquet",
    "pyarrow.dataset",
    "pyarrow.compute",
):
    importlib.import_module(_name)
