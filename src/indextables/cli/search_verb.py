"""`indextables search`: the best matches with their snippets, every match, or matches as they come in."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
import typer

from indextables.cli import matches, options, output
from indextables.cli.following import follow
from indextables.cli.verb import verb
from indextables.config.indexing import IndexingSettings
from indextables.errors import InvalidInputError
from indextables.table.reader import TableReader

app = typer.Typer()


@verb(
    app,
    "search",
    panel="Rows",
    example="search logs 'message:timeout AND level:ERROR' --limit 5\n"
    "search logs timeout --where \"day >= '2026-11-01'\" --json\n"
    "search logs level:ERROR --follow",
)
def search(
    path: options.PathArgument,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help='Words, "a phrase", column:word, column:>5, AND, OR, NOT.')
    ],
    where: options.Where = None,
    columns: options.Columns = None,
    limit: Annotated[int, typer.Option("--limit", "-l", min=0, help="How many of the best matches.")] = 10,
    every: Annotated[bool, typer.Option("--all", help="Every match, not only the best.")] = False,
    offset: Annotated[int, typer.Option(min=0, help="Leave out so many of the best.")] = 0,
    order_by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The first by a column, 'ts desc' for the last.")
    ] = None,
    snippet: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Text column to show a passage of; by default the first.")
    ] = None,
    follow_new: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on and show new matches as they are written.")
    ] = False,
    interval: Annotated[float, typer.Option(min=0.05, help="Seconds between looks at the table with --follow.")] = 1.0,
    version_as_of: options.VersionAsOf = None,
    timestamp_as_of: options.TimestampAsOf = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Search a table: the best matches, marked, with their scores.

    When piped, rows are lines with tabs between the values. In JSON a match has _score and _snippet, marked with <b>.
    """
    table = TableReader.open(
        path, version=version_as_of, timestamp=timestamp_as_of, options=options.settings_of(option)
    )
    if follow_new and (version_as_of is not None or timestamp_as_of is not None):
        raise InvalidInputError("An older version does not grow.", hint="Leave out --follow, or the version.")
    wanted = options.names_of(columns)
    wants_snippet = (json or output.is_terminal()) and order_by is None and not every
    marked = snippet or (first_text_column(table) if wants_snippet else None)
    found = table.search(
        query,
        where=where,
        columns=wanted,
        limit=None if every else limit,
        offset=offset,
        snippet=marked,
        order_by=order_by,
    )
    if follow_new:
        matches.show_as_they_come(found, marked=marked, as_json=json, first=True)
        for later in follow(table, query, where=where, columns=wanted, snippet=marked, interval=interval):
            matches.show_as_they_come(later, marked=marked, as_json=json, first=False)
    matches.show(found, marked=marked, as_json=json)
    if output.is_terminal() and not json:
        _say_how_many(table, query, where, found)


def _say_how_many(table: TableReader, query: str, where: str | None, found: pa.Table) -> None:
    count = table.count(query=query, where=where)
    output.note(f"{found.num_rows:,} of {count:,} matches in version {table.version}")


def first_text_column(table: TableReader) -> str | None:
    """The first column that is indexed as text, whose passages are worth showing."""
    kinds = {name.lower(): kind for name, kind in table.settings.group(IndexingSettings).typemap.items()}
    return next((name for name in table.schema.names if kinds.get(name.lower()) == "text"), None)
