"""The SQL command language: text -> statement -> verb of Table -> rows. No Spark here.

sql("DESCRIBE INDEXTABLES HISTORY '/data/logs' LIMIT 10")     runs a statement, returns an Arrow
table parse(text)                                                    a statement, or None if it is
not ours parse(text).run(Session(options, resolve))                     a statement that was parsed
already
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from indextables.commands.parser import forms, parse
from indextables.commands.statement import Command, Session, TableName, TablePath
from indextables.errors import InvalidInputError
from indextables.model import arguments
from indextables.model.calls import checked_call


@checked_call
def sql(text: str, options: Mapping[str, object] | None = None) -> pa.Table:
    """Run one statement and return its rows.

    Args:
        text: The statement.
        options: Settings, as for `Table.open`.

    Raises:
        InvalidInputError: The text is not a statement of IndexTables.
        QuerySyntaxError: The statement is wrong.

    Example:
        sql("DESCRIBE INDEXTABLES HISTORY '/data/logs' LIMIT 10")
    """
    command = parse(arguments.text("A statement", text))
    if command is None:
        line = " ".join(text.split())
        raise InvalidInputError(
            f"Not a statement of IndexTables: {line if len(line) <= 60 else line[:60] + '...'!r}.",
            hint=f"{_SELECT if line.upper().startswith(('SELECT', 'WITH')) else ''}The statements are:\n"
            + "\n".join(f"  {form}" for form in forms()),
        )
    return command.run(Session(options or {}))


_SELECT = "For SELECT use spark.sql(...), or DuckDB: `indextables query` or Table.to_duckdb(). "

__all__ = ["Command", "Session", "TableName", "TablePath", "parse", "sql"]
