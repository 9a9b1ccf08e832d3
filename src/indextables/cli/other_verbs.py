"""sql and exit-codes."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
import typer

from indextables.cli import options, output
from indextables.cli.exit_codes import meanings
from indextables.cli.verb import verb
from indextables.commands import sql as run_statement

app = typer.Typer()
_MORE = "More"


@verb(app, "sql", panel=_MORE, example="sql \"DESCRIBE INDEXTABLES STATE 'logs'\"")
def sql(
    statement: Annotated[str, typer.Argument(metavar="STATEMENT", help="A statement of IndexTables SQL.")],
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Run a statement: MERGE SPLITS, PURGE, DESCRIBE INDEXTABLES ... A wrong one is answered with the list of them all."""
    output.rows(run_statement(statement, options.settings_of(option)), as_json=json)


@verb(app, "exit-codes", panel=_MORE, example="exit-codes")
def exit_codes(json: options.Json = False) -> None:
    """List the exit codes and what each says."""
    output.rows(pa.Table.from_pylist(meanings()), as_json=json)
