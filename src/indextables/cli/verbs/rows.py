"""The verbs that read rows: scan, changes, count, aggregate, explain, query."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from indextables.cli import options, output
from indextables.cli.rows_in import files
from indextables.cli.verb import open_table, verb
from indextables.errors import InvalidInputError
from indextables.web.warehouse import Warehouse

app = typer.Typer()
_ROWS = "Rows"


@verb(app, "scan", panel=_ROWS, example="scan logs --where 'status >= 500' --columns ts,message --limit 20")
def scan(
    path: options.PathArgument,
    where: options.Where = None,
    columns: options.Columns = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-l", min=0, help="At most so many rows; all by default.")
    ] = None,
    version_as_of: options.VersionAsOf = None,
    timestamp_as_of: options.TimestampAsOf = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Print rows, all or those that match a condition, as they are read."""
    table = open_table(path, option, version_as_of, timestamp_as_of)
    rows = table.scan(where=where, columns=options.names_of(columns), limit=limit)
    output.batches(rows.schema.names, rows, as_json=json)


@verb(app, "changes", panel=_ROWS, example="changes users 12\nchanges users 12 15 --columns id,name --json")
def changes(
    path: options.PathArgument,
    first: Annotated[int, typer.Argument(metavar="FROM", help="The first version.")],
    last: Annotated[
        int | None, typer.Argument(metavar="TO", help="The last; by default the newest.", show_default=False)
    ] = None,
    columns: options.Columns = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Print the rows that came and went with some versions, and what happened to each."""
    rows = open_table(path, option).changes(first, last, columns=options.names_of(columns))
    output.batches(rows.schema.names, rows, as_json=json)


@verb(app, "to-parquet-view", panel=_ROWS, example="to-parquet-view logs logs-parquet --version-as-of 12")
def to_parquet_view(
    path: options.PathArgument,
    directory: Annotated[str, typer.Argument(metavar="FOLDER", help="A new folder.")],
    version_as_of: options.VersionAsOf = None,
    timestamp_as_of: options.TimestampAsOf = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Write a version as plain Parquet files, for readers that know nothing of deleted rows."""
    table = open_table(path, option, version_as_of, timestamp_as_of)
    output.report(table.to_parquet_view(directory), as_json=json)


@verb(app, "count", panel=_ROWS, example="count logs --query 'message:timeout' --where \"level = 'ERROR'\"")
def count(
    path: options.PathArgument,
    query: options.Query = None,
    where: options.Where = None,
    version_as_of: options.VersionAsOf = None,
    timestamp_as_of: options.TimestampAsOf = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Count rows: all, or those that match."""
    number = open_table(path, option, version_as_of, timestamp_as_of).count(query=query, where=where)
    if json:
        output.value({"count": number}, as_json=True)
    else:
        typer.echo(number)


@verb(
    app,
    "aggregate",
    panel=_ROWS,
    example="aggregate logs --terms level\n"
    'aggregate logs \'{"ms": {"stats": {"field": "latency_ms"}}}\' --query message:timeout\n'
    "aggregate logs @spec.json --json",
)
def aggregate(
    path: options.PathArgument,
    spec: Annotated[
        str | None,
        typer.Argument(metavar="SPEC", help="The aggregations as JSON, or @file with it.", show_default=False),
    ] = None,
    terms: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Count rows by the values of a column. May be repeated.")
    ] = None,
    stats: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Least, greatest, sum and mean of a column. May be repeated."),
    ] = None,
    query: options.Query = None,
    where: options.Where = None,
    version_as_of: options.VersionAsOf = None,
    timestamp_as_of: options.TimestampAsOf = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Aggregate over every match, exactly: terms, histograms, ranges, statistics."""
    aggregations = {name: {"terms": {"field": name}} for name in terms or ()}
    aggregations |= {name: {"stats": {"field": name}} for name in stats or ()}
    aggregations |= {} if spec is None else _specification(spec)
    if not aggregations:
        raise InvalidInputError(
            "Nothing says what to aggregate.", hint="Give --terms COLUMN, --stats COLUMN, or a specification as JSON."
        )
    table = open_table(path, option, version_as_of, timestamp_as_of)
    output.rows(table.aggregate(aggregations, query=query, where=where), as_json=json)


@verb(app, "explain", panel=_ROWS, example="explain logs --query message:timeout --where \"day = '2026-11-01'\"")
def explain(
    path: options.PathArgument,
    query: options.Query = None,
    where: options.Where = None,
    columns: options.Columns = None,
    version_as_of: options.VersionAsOf = None,
    timestamp_as_of: options.TimestampAsOf = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Carry out a scan or search, and say what was pruned, opened and read for it."""
    table = open_table(path, option, version_as_of, timestamp_as_of)
    output.report(table.explain(query=query, where=where, columns=options.names_of(columns)), as_json=json)


@verb(app, "prewarm", panel=_ROWS, example="prewarm s3://bucket/logs --columns message")
def prewarm(
    path: options.PathArgument,
    columns: options.Columns = None,
    where: options.Where = None,
    version_as_of: options.VersionAsOf = None,
    timestamp_as_of: options.TimestampAsOf = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Fetch the indexes of some columns, or of all, into this machine's cache, ahead of searches."""
    table = open_table(path, option, version_as_of, timestamp_as_of)
    output.report(table.prewarm(columns=options.names_of(columns) or (), where=where), as_json=json)


def _specification(text: str) -> dict[str, Any]:
    if text.startswith("@"):
        with files.reading(text[1:]):
            document = Path(text[1:]).read_bytes()
    else:
        document = text.encode()
    try:
        return msgspec.json.decode(document, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = 'For example {"levels": {"terms": {"field": "level"}}}.'
        raise InvalidInputError(f"The specification is not JSON: {error}.", hint=hint) from None


@verb(
    app,
    "query",
    panel=_ROWS,
    example="query 'SELECT level, count(*) AS n FROM logs GROUP BY level' logs\n"
    "query \"SELECT ts, message FROM logs_search('timeout') ORDER BY _score DESC LIMIT 5\" logs",
)
def query(
    statement: Annotated[
        str, typer.Argument(metavar="SELECT", help="SQL of DuckDB; a table has the name of its folder.")
    ],
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="The tables, or folders of tables.")],
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Ask tables in SQL, by DuckDB and without Spark. `NAME_search('query')` is the rows that a search finds."""
    warehouse = Warehouse(paths, options.settings_of(option))
    warehouse.check()
    connection = None
    for shown in warehouse.tables():
        connection = warehouse.open(shown.name).to_duckdb(connection, shown.name)
    if connection is None:
        raise InvalidInputError("There is no table there.", hint="Name a table, or a folder that holds tables.")
    try:
        kinds = [part.type.name.removeprefix("STATEMENT_TYPE_") for part in connection.extract_statements(statement)]
        result = connection.sql(statement).to_arrow_table() if kinds in (["SELECT"], ["EXPLAIN"]) else None
    except Exception as error:
        if not type(error).__module__.startswith(("duckdb", "_duckdb")):
            raise
        hint = f"The tables are {', '.join(shown.name for shown in warehouse.tables())}."
        raise InvalidInputError(f"DuckDB refuses this: {error}", hint=hint, statement=statement) from None
    finally:
        connection.close()
    if result is None:
        raise InvalidInputError(
            "This is no question.", hint="Write a SELECT; tables are only read.", statement=statement
        )
    output.rows(result, as_json=json)
