"""The page of a table: written to a file, or served to a browser on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from indextables.cli import local_files, options, output
from indextables.cli.opened import opened
from indextables.cli.verb import verb
from indextables.web.report import write_report
from indextables.web.server import serve

app = typer.Typer()
_LOOK = "Looking"


@verb(app, "report", panel=_LOOK, example="report logs -o report.html")
def report(
    path: options.PathArgument,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where to write the page.")] = Path(
        "report.html"
    ),
    query: Annotated[
        str | None, typer.Option("--query", "-q", metavar="QUERY", help="The search whose cost is shown.")
    ] = None,
    version_as_of: options.VersionAsOf = None,
    timestamp_as_of: options.TimestampAsOf = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="A setting. May be repeated.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Write a page about a table that needs no network: versions, merges, partitions, sizes, the cost of a search."""
    table = opened(path, option, version_as_of, timestamp_as_of)
    with local_files.writing(out):
        written = write_report(table, out, query=query)
    if json:
        output.value({"path": str(written), "version": table.version}, as_json=True)
    else:
        typer.echo(f"{written}: the report on version {table.version} of {table.path}")


@verb(app, "ui", panel=_LOOK, example="ui logs --port 8321")
def ui(
    path: options.PathArgument,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8321,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Serve the page of a table, as it is now, on this machine only, with a box to search it. Ctrl-C ends it."""
    table = opened(path, option)

    def started(address: str) -> None:
        if json:
            output.value({"address": address}, as_json=True)
        else:
            typer.echo(f"{table.path} is shown at {address} (Ctrl-C ends it)")
        if browser:
            typer.launch(address)

    serve(table, port=port, started=started)
