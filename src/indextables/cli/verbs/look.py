"""The verbs that look at a table: describe, history, files, partitions, state, diff and others."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pyarrow as pa
import typer

from indextables.cli import options, output
from indextables.cli.verb import open_table, verb
from indextables.table.description import describe_table, difference

app = typer.Typer()
_LOOK = "Looking"


@verb(app, "describe", panel=_LOOK, example="describe logs\ndescribe logs --version-as-of 3 --json")
def describe(
    path: options.PathArgument,
    version_as_of: options.VersionAsOf = None,
    timestamp_as_of: options.TimestampAsOf = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Say what a table is: rows, size, columns and how each is indexed, partitions, settings."""
    output.report(describe_table(open_table(path, option, version_as_of, timestamp_as_of)), as_json=json)


@verb(app, "history", panel=_LOOK, example="history logs --limit 5")
def history(
    path: options.PathArgument,
    limit: Annotated[int | None, typer.Option("--limit", "-l", min=1, help="Only the newest.")] = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """List what was committed, newest first, and which versions can still be read.

    Parameters and the engine of each commit are in the JSON; the text leaves them out.
    """
    versions = open_table(path, option).history(limit=limit)
    output.rows(versions if json else _readable_history(versions), as_json=json)


@verb(app, "files", panel=_LOOK, example="files logs --where \"day = '2026-11-01'\"")
def files(
    path: options.PathArgument,
    where: options.Where = None,
    version_as_of: options.VersionAsOf = None,
    timestamp_as_of: options.TimestampAsOf = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """List the splits of a table, or those that may hold a matching row.

    Everything that the log says of them is in the JSON; the text shows the first columns.
    """
    splits = open_table(path, option, version_as_of, timestamp_as_of).files(where=where)
    listing = splits if json else splits.select([n for n in _FILE_COLUMNS if n in splits.schema.names])
    output.rows(listing, as_json=json)


_FILE_COLUMNS = ("path", "size", "num_records", "added_at_version")


def _readable_history(versions: pa.Table) -> pa.Table:
    """The history for people: the metrics that are not 0 instead of their JSON."""
    operation_metrics = [_DECODE(text or "{}") for text in versions.column("operation_metrics").to_pylist()]
    metrics = [", ".join(f"{name}={value}" for name, value in row.items() if value) for row in operation_metrics]
    columns = versions.select(["version", "timestamp", "operation", "user_metadata", "is_readable", "tags"])
    return columns.append_column("metrics", pa.array(metrics, pa.string()))


_DECODE = msgspec.json.Decoder(dict[str, Any]).decode


@verb(app, "partitions", panel=_LOOK, example="partitions logs")
def partitions(
    path: options.PathArgument,
    version_as_of: options.VersionAsOf = None,
    timestamp_as_of: options.TimestampAsOf = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """List the partitions with their splits, rows and bytes."""
    output.rows(open_table(path, option, version_as_of, timestamp_as_of).inspect.partitions(), as_json=json)


@verb(app, "analyze", panel=_LOOK, example='analyze logs message "Gateway timeout"')
def analyze(
    path: options.PathArgument,
    column: Annotated[str, typer.Argument(help="A column whose text is cut into terms.")],
    text: Annotated[str, typer.Argument(help="The text to cut.")],
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Show the terms that a text becomes in the index of a column."""
    output.rows(open_table(path, option).inspect.analyze(column, text), as_json=json)


@verb(app, "state", panel=_LOOK, example="state logs")
def state(
    path: options.PathArgument,
    version_as_of: options.VersionAsOf = None,
    timestamp_as_of: options.TimestampAsOf = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Say what the newest state or checkpoint holds, and whether it should be compacted."""
    output.report(open_table(path, option, version_as_of, timestamp_as_of).state(), as_json=json)


@verb(app, "skipped-files", panel=_LOOK, example="skipped-files logs")
def skipped_files(path: options.PathArgument, option: options.Settings = None, json: options.Json = False) -> None:
    """List the splits that an operation could not process: why, how often, and until when they are left alone."""
    output.rows(open_table(path, option).skipped_files(), as_json=json)


@verb(app, "component-sizes", panel=_LOOK, example="component-sizes logs --where \"day = '2026-11-01'\"")
def component_sizes(
    path: options.PathArgument,
    where: options.Where = None,
    version_as_of: options.VersionAsOf = None,
    timestamp_as_of: options.TimestampAsOf = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """List what the bytes of each split are spent on: rows, and the parts of the index of each column."""
    output.rows(open_table(path, option, version_as_of, timestamp_as_of).component_sizes(where=where), as_json=json)


@verb(app, "diff", panel=_LOOK, example="diff logs 3 5\ndiff logs 3")
def diff(
    path: options.PathArgument,
    older: Annotated[int, typer.Argument(metavar="FROM", help="The one version.")],
    newer: Annotated[
        int | None, typer.Argument(metavar="TO", help="The other; by default the newest.", show_default=False)
    ] = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Compare two versions: splits, rows, columns and settings that came and went."""
    output.report(difference(open_table(path, option, older), open_table(path, option, newer)), as_json=json)
