"""sql, settings and exit-codes."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
import typer

from indextables.cli import options, output
from indextables.cli.exit_codes import meanings
from indextables.cli.opened import opened
from indextables.cli.verb import verb
from indextables.commands import sql as run_statement
from indextables.config import PREFIX, REGISTRY

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


@verb(app, "settings", panel=_MORE, example="settings\nsettings purge\nsettings --table logs indexing --json")
def settings(
    pattern: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="Only keys with this in them.", show_default=False)
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="PATH", help="Show the values in force for a table, too.")
    ] = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """List the settings: key, allowed values, default, what it does; and the value in force for a table."""
    given = None if table is None else opened(table, option).settings.given()
    found = [
        {
            "key": setting.key,
            "allowed": setting.type.allowed,
            "default": output.text_of(setting.default),
            **({} if given is None else {"value": output.text_of(given.get(key, setting.default))}),
            "what": setting.doc,
        }
        for key, setting in REGISTRY.settings.items()
        if pattern is None or pattern.lower().removeprefix(PREFIX) in key.lower()
    ]
    output.rows(pa.Table.from_pylist(found), as_json=json)


@verb(app, "exit-codes", panel=_MORE, example="exit-codes")
def exit_codes(json: options.Json = False) -> None:
    """List the exit codes and what each says."""
    output.rows(pa.Table.from_pylist(meanings()), as_json=json)
