"""The command line has the verbs of `Table`: one that is added there is added here."""

from __future__ import annotations

import inspect

from indextables import Table
from indextables.cli.app import VERBS

OTHER_NAMES = {
    "truncate_time_travel": "truncate",
    "update_metadata": "configure",
    "tags": "tag",
    "untag": "tag",
}
FOR_PROGRAMS = {
    "open",
    "refresh",
    "to_dict",
    "transaction",
    "upgrade_protocol",
    "cache_stats",
    "metrics",
    "invalidate_cache",
    "prewarm",
    "head",
    "search_page",
    "to_pandas",
    "to_polars",
    "scan_polars",
    "to_duckdb",
}
"""What makes sense only while a program runs; `sql` reaches the last few."""


def test_every_verb_of_a_table_is_a_verb_of_the_command_line() -> None:
    methods = {
        name for name, _ in inspect.getmembers(Table, inspect.isroutine) if not name.startswith("_")
    }
    wanted = {name for name in methods - FOR_PROGRAMS if not name.endswith("_figures")}
    verbs = set(VERBS)
    assert {OTHER_NAMES.get(name, name.replace("_", "-")) for name in wanted} <= verbs
    assert methods >= FOR_PROGRAMS
