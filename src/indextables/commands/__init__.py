"""The SQL command language: text -> command value -> verb of Table -> rows. No Spark here.

sql("DESCRIBE INDEXTABLES HISTORY '/data/logs' LIMIT 10")     runs a statement, returns an Arrow table
parse(text)                                                    a command, or None if the statement is not ours
execute(command, session=Session(options, resolve))            a command that was parsed already
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from indextables.commands.execute import execute
from indextables.commands.grammar import forms
from indextables.commands.parser import parse
from indextables.commands.results import RESULTS, rows, schema_of
from indextables.commands.session import Session
from indextables.commands.values import Command, TableName, TablePath
from indextables.errors import InvalidInputError


def sql(text: str, options: Mapping[str, object] | None = None) -> pa.Table:
    """Run one statement. `options` are settings, as for `Table.open`."""
    command = parse(text)
    if command is None:
        shown = " ".join(text.split())
        raise InvalidInputError(
            f"Not a statement of IndexTables: {shown if len(shown) <= 60 else shown[:60] + '...'!r}.",
            hint="The statements are:\n" + "\n".join(f"  {form}" for form in forms()),
        )
    return execute(command, session=Session(options or {}))


__all__ = [
    "RESULTS",
    "Command",
    "Session",
    "TableName",
    "TablePath",
    "execute",
    "parse",
    "rows",
    "schema_of",
    "sql",
]
