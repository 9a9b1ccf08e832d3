"""Verbs of companions: indexes of Delta tables and Parquet folders that stay where they are."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from indextables.cli import output
from indextables.cli.verb import (
    DryRun,
    Json,
    PathArgument,
    Settings,
    names_of,
    open_table,
    run_verb,
    settings_of,
    verb,
)
from indextables.errors import InvalidInputError
from indextables.model.report import Progress
from indextables.operations.companion_sync import SyncReport
from indextables.table import Table

app = typer.Typer()
_PANEL = "Companions"


@verb(
    app,
    "companion",
    panel=_PANEL,
    example="companion events-index --source events --text message",
)
def companion(
    path: PathArgument,
    source: Annotated[
        str, typer.Option("--source", metavar="URL", help="The Delta table or Parquet folder.")
    ],
    source_format: Annotated[
        str | None,
        typer.Option("--format", metavar="WORD", help="delta or parquet; found out if left out."),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="COLUMNS", help="Columns to search by their words."),
    ] = None,
    include: Annotated[
        str | None, typer.Option("--include", metavar="COLUMNS", help="The only indexed columns.")
    ] = None,
    exclude: Annotated[
        str | None, typer.Option("--exclude", metavar="COLUMNS", help="Columns without an index.")
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", "-w", metavar="CONDITION", help="Only partitions.")
    ] = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Create an index of a table that stays where it is, and index its files."""
    table = Table.companion(
        path,
        source=source,
        format=source_format,
        text=names_of(text) or (),
        include=names_of(include) or (),
        exclude=names_of(exclude) or (),
        where=where,
        options=settings_of(option),
    )
    _sync(table, dry_run=False, as_json=json)


@verb(app, "sync", panel=_PANEL, example="sync events-index --follow 30")
def sync(
    path: PathArgument,
    follow: Annotated[
        float | None,
        typer.Option("--follow", metavar="SECONDS", help="Repeat until it is interrupted."),
    ] = None,
    dry_run: DryRun = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Index the files that the source of a companion has and the companion does not."""
    if follow is not None and (follow <= 0 or dry_run):
        raise InvalidInputError(
            f"--follow {follow:g} takes a number of seconds above 0, and no --dry-run.",
            hint="Write --follow 30.",
        )
    _sync(open_table(path, option), dry_run=dry_run, as_json=json)
    while follow is not None:
        time.sleep(follow)
        table = open_table(path, option)
        status = table.source_status()
        if status.synced_version != status.source_version:
            _sync(table, dry_run=False, as_json=json)


def _sync(table: Table, *, dry_run: bool, as_json: bool) -> None:
    def act(*, dry_run: bool, progress: Progress) -> SyncReport:
        return table.sync(dry_run=dry_run, progress=progress)

    run_verb("Indexing", act, dry_run=dry_run, as_json=as_json)


@verb(app, "source-status", panel=_PANEL, example="source-status events-index")
def source_status(path: PathArgument, option: Settings = None, json: Json = False) -> None:
    """Show how far a companion follows its source: versions, files and rows that are not indexed."""
    output.report(open_table(path, option).source_status(), as_json=json)
