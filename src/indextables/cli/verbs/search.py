"""The verb `search`: the best matches with snippets, every match, or matches as they arrive.

Matches are marked passages on a terminal, tab-separated lines in a pipe, or JSON. `--follow` shows
only new rows, so a merge or a deletion does not repeat a row.
"""

from __future__ import annotations

import html
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import typer

from indextables.cli import output
from indextables.cli.verb import (
    Columns,
    Json,
    PathArgument,
    Settings,
    TimestampAsOf,
    VersionAsOf,
    Where,
    names_of,
    open_table,
    verb,
)
from indextables.config.indexing import IndexingSettings
from indextables.errors import ConflictError, InvalidInputError
from indextables.model.conflicts import files_of_new_rows
from indextables.model.file_list import from_actions
from indextables.query import search_options
from indextables.query.plan import ScanPlan, entries, plan_scan
from indextables.query.search import TableSearch
from indextables.query.search_options import ExplainedRows, SearchOptions
from indextables.query.vector_search import Hybrid, QueryVector
from indextables.splits.search.snippets import Snippet
from indextables.table import Table

SCORE, SNIPPET = "_score", "_snippet"
_START, _END = "<b>", "</b>"


def show_as_they_come(
    matches: pa.Table, *, snippet_column: str | None, as_json: bool, first: bool
) -> None:
    """Print matches of an endless output: one JSON object per line, or lines with one header.

    Scores are left out, because scores of rows from different versions are not comparable.
    """
    if SCORE in matches.schema.names:
        without_scores = matches.drop_columns([SCORE])
    else:
        without_scores = matches
    if as_json:
        for row in without_scores.to_pylist(maps_as_pydicts="lossy"):
            typer.echo(msgspec.json.encode(row, enc_hook=str))
    elif output.is_terminal():
        show(without_scores, snippet_column=snippet_column, as_json=False)
    else:
        output.rows(_remove_marks(without_scores), as_json=False, header=first)


def show(matches: pa.Table, *, snippet_column: str | None, as_json: bool) -> None:
    """Print the matches of a search."""
    if as_json:
        output.rows(matches, as_json=True)
    elif output.is_terminal():
        for row in matches.to_pylist(maps_as_pydicts="lossy"):
            _on_terminal(row, snippet_column)
    else:
        output.rows(_remove_marks(matches), as_json=False)


def show_explained(found: ExplainedRows, *, snippet_column: str | None, as_json: bool) -> None:
    """Print the matches of a search and its report: one JSON object, or the report on stderr."""
    if as_json:
        rows = found.rows.to_pylist(maps_as_pydicts="lossy")
        output.value({"rows": rows, "report": found.report.to_dict()}, as_json=True)
        return
    show(found.rows, snippet_column=snippet_column, as_json=False)
    output.note(str(found.report))


def _on_terminal(row: Mapping[str, Any], snippet_column: str | None) -> None:
    score, snippet = row.get(SCORE), row.get(SNIPPET)
    if score is None:
        head = ""
    else:
        head = _style(f"{score:7.3f}", fg=typer.colors.GREEN) + "  "
    columns = {
        name: value
        for name, value in row.items()
        if name not in (SCORE, SNIPPET) and value is not None
    }
    if snippet:
        columns.pop(snippet_column or "", None)
        typer.echo(head + _highlight(snippet))
        head = " " * 9
    if columns:
        typer.echo(
            head
            + "  ".join(
                _style(f"{name}=", dim=True) + str(value) for name, value in columns.items()
            )
        )


def _highlight(snippet: str) -> str:
    pieces = [piece for part in snippet.split(_START) for piece in part.split(_END, 1)]
    # Every second piece was between a start and an end.
    passages = map(html.unescape, pieces)
    styled = [
        _style(p, fg=typer.colors.YELLOW, bold=True) if n % 2 else p for n, p in enumerate(passages)
    ]
    return "".join(styled)


def _style(text: str, **style: Any) -> str:
    if output.has_colour():
        return typer.style(text, **style)
    return text


def _remove_marks(matches: pa.Table) -> pa.Table:
    if SNIPPET not in matches.schema.names:
        return matches
    place = matches.schema.get_field_index(SNIPPET)
    snippets = matches.column(place).to_pylist()
    texts = [
        None if s is None else html.unescape(s.replace(_START, "").replace(_END, ""))
        for s in snippets
    ]
    return matches.set_column(place, SNIPPET, pa.array(texts, pa.string()))


def follow(
    table: Table,
    query: str,
    *,
    where: str | None,
    columns: Sequence[str] | None,
    snippet: str | None,
    interval: float,
) -> Iterator[pa.Table]:
    """Yield new matches after the table's version as they arrive, until interrupted."""
    while True:
        newest = table.refresh()
        if newest.version < table.version:
            raise ConflictError(
                f"{table.path} was followed up to version {table.version} and now ends at {newest.version}: an older copy "
                "was put in its place.",
                hint="Start again to see what is in it now.",
                path=table.path,
                version=table.version,
            )
        if newest.version > table.version:
            plan = plan_scan(newest.handle, query=query, where=where, columns=columns)
            matches = new_matches(newest, plan, after=table.version, snippet=snippet)
            if matches.num_rows:
                yield matches
        table = newest
        time.sleep(interval)


def new_matches(table: Table, plan: ScanPlan, *, after: int, snippet: str | None) -> pa.Table:
    """Return the matches among rows that were added after a version, in their order of arrival."""
    files = [f for v in table.handle.log.since(after, table.version) for f in files_of_new_rows(v)]
    splits = entries(from_actions(files))
    search = TableSearch.of(
        plan.with_splits(splits), snippet=None if snippet is None else Snippet(snippet)
    )
    return search.run()


def parse_vector(text: str | None) -> QueryVector | None:
    """Parse `COLUMN=[0.1, 0.2]`, or `COLUMN=@file.npy` with a one-dimensional array."""
    if text is None:
        return None
    column, separator, value = text.partition("=")
    if not separator or not column:
        raise InvalidInputError(
            f"--vector cannot be {text!r}.", hint="Write --vector embedding=@file.npy."
        )
    try:
        if value.startswith("@"):
            return {column: np.load(value[1:], allow_pickle=False)}
        return {column: msgspec.json.decode(value, type=list[float])}
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise InvalidInputError(
            f"The vector {value!r} for {column!r} cannot be read: {error}.",
            hint="Pass a file of numpy, @file.npy, or a list of numbers, [0.1, 0.2].",
        ) from error


def parse_hybrid(text: str | None) -> Hybrid | None:
    """Parse `rrf` or `query=0.3,vector=0.7`."""
    if text is None:
        return None
    if text == "rrf":
        return "rrf"
    try:
        pairs = (part.split("=", 1) for part in text.split(","))
        return {"weights": {name.strip(): float(weight) for name, weight in pairs}}
    except ValueError:
        raise InvalidInputError(
            f"--hybrid cannot be {text!r}.", hint="Write --hybrid rrf or query=0.3,vector=0.7."
        ) from None


app = typer.Typer()


@verb(
    app,
    "search",
    panel="Rows",
    example="search logs 'message:timeout AND level:ERROR' --limit 5",
)
def search(
    path: PathArgument,
    query: Annotated[
        str | None,
        typer.Argument(
            metavar="QUERY",
            help='Words, "a phrase", column:word, column:>5, AND, OR, NOT.',
            show_default=False,
        ),
    ] = None,
    where: Where = None,
    columns: Columns = None,
    limit: Annotated[
        int, typer.Option("--limit", "-l", min=0, metavar="N", help="How many of the best matches.")
    ] = 10,
    every: Annotated[bool, typer.Option("--all", help="Every match, not only the best.")] = False,
    offset: Annotated[
        int, typer.Option(metavar="N", min=0, help="Leave out the first N matches.")
    ] = 0,
    order_by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Sort by a column: ts, 'ts desc'.")
    ] = None,
    snippet: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Text column to show a passage of.")
    ] = None,
    vector: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN=VECTOR", help="The rows nearest to a vector: @file.npy, or [0.1, 0.2]."
        ),
    ] = None,
    hybrid: Annotated[
        str | None,
        typer.Option(
            metavar="WAY", help="Combine QUERY and --vector: rrf, or query=0.3,vector=0.7."
        ),
    ] = None,
    follow_new: Annotated[
        bool, typer.Option("--follow", "-f", help="Show new matches as they are written.")
    ] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.05, help="How often --follow reads the table.")
    ] = 1.0,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also report what was pruned and read.")
    ] = False,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Search a table: the best matches, marked, with their scores.

    In a pipe, rows are tab-separated lines. In JSON a match has _score and _snippet, marked with
    <b>.
    """
    table = open_table(path, option, version_as_of, timestamp_as_of)
    if follow_new and (version_as_of is not None or timestamp_as_of is not None):
        raise InvalidInputError(
            "An older version does not grow.", hint="Leave out --follow, or the version."
        )
    if follow_new and explain:
        raise InvalidInputError(
            "--explain and --follow exclude each other.", hint="Leave out one of them."
        )
    if follow_new and (vector is not None or query is None):
        raise InvalidInputError(
            "--follow shows the matches of a query.", hint="Pass a query, and leave out --vector."
        )
    names = names_of(columns)
    wants_snippet = (
        (json or output.is_terminal()) and order_by is None and not every and query is not None
    )
    snippet_column = snippet or (first_text_column(table) if wants_snippet else None)
    found = search_options.search(
        table.handle,
        query,
        SearchOptions(
            columns=names,
            limit=None if every else limit,
            offset=offset,
            snippet=snippet_column,
            order_by=order_by,
            explain=explain,
            vector=parse_vector(vector),
            hybrid=parse_hybrid(hybrid),
        ),
        where=where,
    )
    if isinstance(found, ExplainedRows):
        show_explained(found, snippet_column=snippet_column, as_json=json)
        return
    matches = found
    if follow_new:
        show_as_they_come(matches, snippet_column=snippet_column, as_json=json, first=True)
        assert query is not None
        for later in follow(
            table, query, where=where, columns=names, snippet=snippet_column, interval=interval
        ):
            show_as_they_come(later, snippet_column=snippet_column, as_json=json, first=False)
    show(matches, snippet_column=snippet_column, as_json=json)
    cut = not every and not follow_new and vector is None and matches.num_rows == limit
    if vector is None and query is not None and ((output.is_terminal() and not json) or cut):
        _say_how_many(table, query, where, matches)


def _say_how_many(table: Table, query: str, where: str | None, matches: pa.Table) -> None:
    count = table.count(query=query, where=where)
    if output.is_terminal() or count > matches.num_rows:
        output.note(f"{matches.num_rows:,} of {count:,} matches in version {table.version}")


def first_text_column(table: Table) -> str | None:
    """Return the first column that is indexed as text, for snippets."""
    kinds = {
        name.lower(): kind for name, kind in table.settings.group(IndexingSettings).typemap.items()
    }
    return next((name for name in table.schema.names if kinds.get(name.lower()) == "text"), None)
