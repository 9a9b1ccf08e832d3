"""Read-only verbs: rows (scan, count, aggregate, changes) and table metadata (describe, history,
files, diff).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import typer

from indextables.cli import output
from indextables.cli.rows_in.files import reading
from indextables.cli.time_travel import replace_versions
from indextables.cli.verb import (
    Columns,
    Json,
    PathArgument,
    Query,
    Settings,
    TimestampAsOf,
    VersionAsOf,
    Where,
    names_of,
    open_table,
    settings_of,
    verb,
)
from indextables.errors import InvalidInputError
from indextables.table import Table
from indextables.table.description import describe_table, difference
from indextables.web.warehouse import Warehouse

app = typer.Typer()
_LOOK = "Looking"


@verb(app, "describe", panel=_LOOK, example="describe logs")
def describe(
    path: PathArgument,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Describe a table: rows, size, columns with their indexes, partitions, settings."""
    output.report(
        describe_table(open_table(path, option, version_as_of, timestamp_as_of)), as_json=json
    )


@verb(app, "history", panel=_LOOK, example="history logs --limit 5")
def history(
    path: PathArgument,
    limit: Annotated[
        int | None, typer.Option("--limit", "-l", min=1, help="Only the newest.")
    ] = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """List the commits, newest first, and which versions can still be read.

    The JSON form has the parameters and the engine of each commit.
    """
    versions = open_table(path, option).history(limit=limit)
    output.rows(versions if json else _readable_history(versions), as_json=json)


@verb(app, "files", panel=_LOOK, example="files logs --where \"day = '2026-11-01'\"")
def files(
    path: PathArgument,
    where: Where = None,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """List the splits of a table, or those that can contain a matching row.

    The text form shows the first columns, the JSON form all fields of the log.
    """
    splits = open_table(path, option, version_as_of, timestamp_as_of).files(where=where)
    if json:
        listing = splits
    else:
        listing = splits.select([n for n in _FILE_COLUMNS if n in splits.schema.names])
    output.rows(listing, as_json=json)


_FILE_COLUMNS = ("path", "size", "num_records", "added_at_version")


def _readable_history(versions: pa.Table) -> pa.Table:
    """Return the history for text output: the non-zero metrics in place of their JSON."""
    operation_metrics = [
        _DECODE(text or "{}") for text in versions.column("operation_metrics").to_pylist()
    ]
    metrics = [
        ", ".join(f"{name}={value}" for name, value in row.items() if value)
        for row in operation_metrics
    ]
    if versions.column("tags").null_count < versions.num_rows:
        tags = ["tags"]
    else:
        tags = []
    columns = versions.select(
        ["version", "timestamp", "operation", "user_metadata", "is_readable", *tags]
    )
    return columns.append_column("metrics", pa.array(metrics, pa.string()))


_DECODE = msgspec.json.Decoder(dict[str, Any]).decode


@verb(app, "partitions", panel=_LOOK, example="partitions logs")
def partitions(
    path: PathArgument,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """List the partitions with their splits, rows and bytes."""
    output.rows(
        open_table(path, option, version_as_of, timestamp_as_of).inspect.partitions(), as_json=json
    )


@verb(app, "analyze", panel=_LOOK, example='analyze logs message "Gateway timeout"')
def analyze(
    path: PathArgument,
    column: Annotated[str, typer.Argument(help="A column whose text is cut into terms.")],
    text: Annotated[str, typer.Argument(help="The text to cut.")],
    option: Settings = None,
    json: Json = False,
) -> None:
    """Show the terms that a column's analyzer makes of a text."""
    output.rows(open_table(path, option).inspect.analyze(column, text), as_json=json)


@verb(app, "state", panel=_LOOK, example="state logs")
def state(
    path: PathArgument,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Describe the newest state or checkpoint, and whether it should be compacted."""
    output.report(open_table(path, option, version_as_of, timestamp_as_of).state(), as_json=json)


@verb(app, "skipped-files", panel=_LOOK, example="skipped-files logs")
def skipped_files(path: PathArgument, option: Settings = None, json: Json = False) -> None:
    """List the splits that an operation could not process: reason, attempts, and the time of the
    next attempt.
    """
    output.rows(open_table(path, option).skipped_files(), as_json=json)


@verb(
    app,
    "component-sizes",
    panel=_LOOK,
    example="component-sizes logs --where \"day = '2026-11-01'\"",
)
def component_sizes(
    path: PathArgument,
    where: Where = None,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """List the bytes of each split by part: rows, and the index of each column."""
    output.rows(
        open_table(path, option, version_as_of, timestamp_as_of).component_sizes(where=where),
        as_json=json,
    )


@verb(app, "diff", panel=_LOOK, example="diff logs 3 5")
def diff(
    path: PathArgument,
    older: Annotated[str, typer.Argument(metavar="FROM", help="The one version, or its tag.")],
    newer: Annotated[
        str | None,
        typer.Argument(metavar="TO", help="The other; by default the newest.", show_default=False),
    ] = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Compare two versions: added and removed splits, rows, columns and settings."""
    output.report(
        difference(open_table(path, option, older), open_table(path, option, newer)), as_json=json
    )


_ROWS = "Rows"


@verb(
    app,
    "scan",
    panel=_ROWS,
    example="scan logs --where 'status >= 500' --columns ts,message --limit 20",
)
def scan(
    path: PathArgument,
    where: Where = None,
    columns: Columns = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-l", min=0, help="Maximum number of rows; all by default."),
    ] = None,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Print rows as they are read, all or those that match a condition."""
    table = open_table(path, option, version_as_of, timestamp_as_of)
    rows = table.scan(where=where, columns=names_of(columns), limit=limit)
    output.batches(rows.schema.names, rows, as_json=json)


@verb(app, "changes", panel=_ROWS, example="changes users 12")
def changes(
    path: PathArgument,
    first: Annotated[int, typer.Argument(metavar="FROM", help="The first version.")],
    last: Annotated[
        int | None,
        typer.Argument(metavar="TO", help="The last; by default the newest.", show_default=False),
    ] = None,
    columns: Columns = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Print the rows that a range of versions added, changed or deleted."""
    rows = open_table(path, option).changes(first, last, columns=names_of(columns))
    output.batches(rows.schema.names, rows, as_json=json)


@verb(
    app,
    "to-parquet-view",
    panel=_ROWS,
    example="to-parquet-view logs logs-parquet --version-as-of 12",
)
def to_parquet_view(
    path: PathArgument,
    directory: Annotated[str, typer.Argument(metavar="FOLDER", help="A new folder.")],
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Write a version as plain Parquet files, for readers without support for deletion vectors."""
    table = open_table(path, option, version_as_of, timestamp_as_of)
    output.report(table.to_parquet_view(directory), as_json=json)


@verb(
    app,
    "count",
    panel=_ROWS,
    example="count logs --query 'message:timeout' --where \"level = 'ERROR'\"",
)
def count(
    path: PathArgument,
    query: Query = None,
    where: Where = None,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Count rows: all, or those that match."""
    number = open_table(path, option, version_as_of, timestamp_as_of).count(
        query=query, where=where
    )
    if json:
        output.value({"count": number}, as_json=True)
    else:
        typer.echo(number)


@verb(
    app,
    "aggregate",
    panel=_ROWS,
    example="aggregate logs --terms level",
)
def aggregate(
    path: PathArgument,
    spec: Annotated[
        str | None,
        typer.Argument(
            metavar="SPEC", help="The aggregations as JSON, or @file with it.", show_default=False
        ),
    ] = None,
    terms: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Count rows by the values of a column. May be repeated."
        ),
    ] = None,
    stats: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Least, greatest, sum and mean of a column. May be repeated."
        ),
    ] = None,
    query: Query = None,
    where: Where = None,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Aggregate over every match, exactly: terms, histograms, ranges, statistics."""
    aggregations = {name: {"terms": {"field": name}} for name in terms or ()}
    aggregations |= {name: {"stats": {"field": name}} for name in stats or ()}
    aggregations |= {} if spec is None else _specification(spec)
    if not aggregations:
        raise InvalidInputError(
            "Nothing says what to aggregate.",
            hint="Give --terms COLUMN, --stats COLUMN, or a specification as JSON.",
        )
    table = open_table(path, option, version_as_of, timestamp_as_of)
    output.rows(table.aggregate(aggregations, query=query, where=where), as_json=json)


@verb(
    app,
    "explain",
    panel=_ROWS,
    example="explain logs --query message:timeout --where \"day = '2026-11-01'\"",
)
def explain(
    path: PathArgument,
    query: Query = None,
    where: Where = None,
    columns: Columns = None,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Run a scan or search, and report what was pruned, opened and read."""
    table = open_table(path, option, version_as_of, timestamp_as_of)
    output.report(table.explain(query=query, where=where, columns=names_of(columns)), as_json=json)


@verb(app, "prewarm", panel=_ROWS, example="prewarm s3://bucket/logs --columns message")
def prewarm(
    path: PathArgument,
    columns: Columns = None,
    where: Where = None,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Load the indexes of some or all columns into this machine's cache before searches."""
    table = open_table(path, option, version_as_of, timestamp_as_of)
    output.report(table.prewarm(columns=names_of(columns) or (), where=where), as_json=json)


def _specification(text: str) -> dict[str, Any]:
    if text.startswith("@"):
        with reading(text[1:]):
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
    example="query 'SELECT level, count(*) AS n FROM logs GROUP BY level' logs",
)
def query(
    statement: Annotated[
        str,
        typer.Argument(metavar="SELECT", help="SQL of DuckDB; a table has the name of its folder."),
    ],
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="The tables, or folders of tables.")
    ],
    option: Settings = None,
    json: Json = False,
) -> None:
    """Query tables in SQL with DuckDB, without Spark.

    `NAME_search('query')` returns the rows of a search. `NAME VERSION AS OF 3`, `NAME@v3` and `NAME
    TIMESTAMP AS OF '2026-11-01'` read older versions of a table.
    """
    settings = settings_of(option)
    warehouse = Warehouse(paths, settings)
    warehouse.check()
    connection = None
    for shown in warehouse.tables():
        connection = warehouse.open(shown.name).to_duckdb(connection, shown.name)
    if connection is None:
        raise InvalidInputError(
            "There is no table there.", hint="Name a table, or a folder that holds tables."
        )
    places = {shown.name: shown.path for shown in warehouse.tables()}
    try:
        statement, versions = replace_versions(statement, places, _reserved_words(connection))
        for named in versions:
            table = Table.open(
                places[named.table],
                version=named.version,
                timestamp=named.timestamp,
                options=settings,
            )
            connection = table.to_duckdb(connection, named.view)
        kinds = [
            part.type.name.removeprefix("STATEMENT_TYPE_")
            for part in connection.extract_statements(statement)
        ]
        if kinds in (["SELECT"], ["EXPLAIN"]):
            result = connection.sql(statement).to_arrow_table()
        else:
            result = None
    except Exception as error:
        if not type(error).__module__.startswith(("duckdb", "_duckdb")):
            raise
        hint = f"The tables are {', '.join(shown.name for shown in warehouse.tables())}."
        raise InvalidInputError(
            f"DuckDB refuses this: {error}", hint=hint, statement=statement
        ) from None
    finally:
        connection.close()
    if result is None:
        raise InvalidInputError(
            "This is no question.",
            hint="Write a SELECT; tables are only read.",
            statement=statement,
        )
    output.rows(result, as_json=json)


def _reserved_words(connection: Any) -> frozenset[str]:
    """Return the keywords that DuckDB does not accept as the alias of a table."""
    rows = connection.execute(
        "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')"
    ).fetchall()
    return frozenset(name for (name,) in rows)
