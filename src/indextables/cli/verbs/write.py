"""Writing verbs: create, append, overwrite, delete, update, upsert, and alter.

A schema is written as `ts timestamp, level string not null, message text`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, cast

import pyarrow as pa
import typer

from indextables.cli import output
from indextables.cli.rows_in.files import NAMES, RowFiles, expand_paths
from indextables.cli.rows_in.growing_file import RowTarget, follow_file
from indextables.cli.rows_in.text_lines import CHOICES, PRESETS, TextFormat
from indextables.cli.verb import (
    DryRun,
    Json,
    PathArgument,
    Query,
    Settings,
    Where,
    Yes,
    confirm,
    confirm_and_run,
    names_of,
    open_table,
    progress_bar,
    settings_of,
    verb,
)
from indextables.config import REGISTRY, STORE_GROUPS
from indextables.config.values import parse_bool
from indextables.errors import InvalidInputError, UnsupportedError, nearest
from indextables.model.report import Progress
from indextables.model.schema import field_from_json
from indextables.operations.alter import default_from_text
from indextables.operations.delete import DeleteReport
from indextables.operations.prose import SAMPLE_ROWS as PROSE_ROWS
from indextables.operations.prose import find_prose
from indextables.operations.update import UpdateReport
from indextables.operations.upsert import WhenMatched, WhenNotMatched
from indextables.table import Table

INDEX_KINDS = {"text": "text", "ip": "ip", "json": "json"}
"""Type names that declare how a string is indexed."""
_COLUMN = re.compile(
    r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>[^\s,]+))\s+(?P<type>[^,(]+(?:\([^)]*\))?[^,]*)"
)
_TYPES = (
    *(
        "string",
        "text",
        "ip",
        "json",
        "boolean",
        "int",
        "bigint",
        "float",
        "double",
        "decimal(p,s)",
    ),
    *("date", "timestamp", "timestamp_ntz", "binary", "vector(n)"),
)
_ELSEWHERE = {
    "int64": "bigint",
    "int32": "int",
    "float64": "double",
    "varchar": "string",
    "datetime": "timestamp",
    "bytes": "binary",
}
"""Type names of other systems."""
_HINT = "Write columns as 'name type', with commas between them: ts timestamp, level string, message text."


_VECTOR = re.compile(r"vector\(\s*(\d+)\s*\)", re.IGNORECASE)


def parse_schema(text: str) -> tuple[pa.Schema, dict[str, object]]:
    """Parse a schema, and return it with the indexing settings of its type names.

    Types are those of Spark SQL; `text`, `ip` and `json` are strings that are indexed as such, and
    `vector(384)` is a list of floats that is searched by similarity.
    """
    fields, settings, place = [], {}, 0
    while place < len(text):
        match = _COLUMN.match(text, place)
        if match is None:
            message = f"The schema cannot be understood at position {place}: {text[place : place + 30]!r}."
            raise InvalidInputError(message, hint=_HINT, schema=text, position=place)
        name, spelled = match["quoted"] or match["name"], match["type"].strip()
        vector = _VECTOR.fullmatch(spelled)
        if vector is not None:
            fields.append(pa.field(name, pa.list_(pa.float32())))
            settings[f"indexing.vectorDimension.{name}"] = vector[1]
        else:
            field, kind = _column(name, spelled)
            fields.append(field)
            if kind is not None:
                settings[f"indexing.typemap.{name}"] = kind
        place = match.end() + 1
    return pa.schema(fields), dict(settings)


def _column(name: str, spelled: str) -> tuple[pa.Field, str | None]:
    required = spelled.lower().endswith(" not null")
    word = spelled[: -len(" not null")].strip() if required else spelled
    kind = INDEX_KINDS.get(word.lower())
    try:
        return field_from_json(
            {"name": name, "type": "string" if kind else word, "nullable": not required}
        ), kind
    except UnsupportedError:
        raise InvalidInputError(
            f"Column {name!r} has no type {word!r}.",
            hint=f"{_nearest(word)}The types are {', '.join(_TYPES)}.",
            column=name,
            type=word,
        ) from None


def _nearest(word: str) -> str:
    name = word.lower()
    likely = _ELSEWHERE.get(name) or next(iter(nearest(name, _TYPES)), None)
    if likely is None:
        return ""
    return f"Did you mean {likely}? "


app = typer.Typer()
_WRITING = "Writing"
Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="Parquet, CSV, JSON lines, Arrow or text; - is stdin.",
    ),
]
Pattern = Annotated[
    str | None,
    typer.Option(
        "--pattern",
        metavar="PATTERN",
        help=f"{', '.join(PRESETS)}, or a regex.",
    ),
]
Continuation = Annotated[
    str | None,
    typer.Option(
        "--continuation", metavar="REGEX", help=r"Lines that continue the one before: '\s'."
    ),
]
TimeFormat = Annotated[
    str | None,
    typer.Option(
        "--time-format", metavar="FORMAT", help="[COLUMN=]'%Y-%m-%d %H:%M', iso, epoch or epoch_ms."
    ),
]
Encoding = Annotated[
    str, typer.Option("--encoding", metavar="NAME", help="Encoding of text files.")
]
Unmatched = Annotated[
    str,
    typer.Option("--unmatched", metavar="WHAT", help=f"Without a match: {', '.join(CHOICES)}."),
]
Follow = Annotated[
    bool,
    typer.Option("--follow", help="Append each line that is added to the file."),
]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help=f"{NAMES}."),
]
Delimiter = Annotated[
    str | None,
    typer.Option("--delimiter", metavar="MARK", help="Between the fields of a CSV: ';', '|', tab."),
]
Text = Annotated[
    list[str] | None,
    typer.Option("--text", metavar="COLUMN", help="Search a column by its words; repeatable."),
]
Substring = Annotated[
    list[str] | None,
    typer.Option("--substring", metavar="COLUMN", help="Index parts, for LIKE '%x%'; repeatable."),
]
Vector = Annotated[
    list[str] | None,
    typer.Option(
        "--vector", metavar="COLUMN=N", help="A column of vectors of N numbers; repeatable."
    ),
]
PartitionBy = Annotated[str | None, typer.Option(metavar="A,B", help="The partition columns.")]
MergeSchema = Annotated[
    bool, typer.Option("--merge-schema", help="Add columns that the table does not have.")
]
Note = Annotated[str | None, typer.Option("--note", metavar="TEXT", help="A note for the history.")]


@verb(
    app,
    "create",
    panel=_WRITING,
    example="create logs --schema 'ts timestamp, day date, level string, message text' --partition-by day",
)
def create(
    path: PathArgument,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS", help="The columns: 'ts timestamp, level string, message text'."
        ),
    ] = None,
    like: Annotated[
        str | None, typer.Option(metavar="FILE", help="Take the columns of a file.")
    ] = None,
    file_format: Format = None,
    delimiter: Delimiter = None,
    text: Text = None,
    substring: Substring = None,
    vector: Vector = None,
    partition_by: PartitionBy = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="A name for the table.")] = None,
    description: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the table is for.")
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave a table with the same columns as it is.")
    ] = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Create a table. Settings (-o) are stored in it, except those of the object store."""
    if (schema is None) == (like is None):
        raise InvalidInputError(
            "Nothing says which columns the table has.",
            hint="Give --schema or --like, one of them.",
        )
    columns, implied = (
        parse_schema(schema)
        if schema is not None
        else (_schema_of(RowFiles((str(like),), file_format, delimiter)), {})
    )
    table = Table.create(
        path,
        schema=columns,
        partition_columns=names_of(partition_by) or [],
        text=text or [],
        substring=substring or [],
        vector=_dimensions(vector or []),
        options={**implied, **settings_of(option)},
        exist_ok=if_not_exists,
        name=name,
        description=description,
    )
    output.value(table.to_dict(), as_json=json)


def _dimensions(vectors: Sequence[str]) -> dict[str, int]:
    """Parse `COLUMN=N` for columns of vectors."""
    dimensions = {}
    for text in vectors:
        column, _, number = text.rpartition("=")
        if not column or not number.isdecimal():
            raise InvalidInputError(
                f"--vector cannot be {text!r}.", hint="Write --vector embedding=384."
            )
        dimensions[column] = int(number)
    return dimensions


@verb(
    app,
    "append",
    panel=_WRITING,
    example="append logs app.jsonl --create --text message --partition-by day",
)
def append(
    path: PathArgument,
    files: Files,
    file_format: Format = None,
    delimiter: Delimiter = None,
    pattern: Pattern = None,
    continuation: Continuation = None,
    time_format: TimeFormat = None,
    encoding: Encoding = "utf-8",
    unmatched: Unmatched = "fail",
    follow: Follow = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.01, help="How often --follow reads.")
    ] = 1.0,
    merge_schema: MergeSchema = False,
    create_missing: Annotated[
        bool, typer.Option("--create", help="Create a missing table like the first file.")
    ] = False,
    text: Text = None,
    substring: Substring = None,
    partition_by: PartitionBy = None,
    note: Note = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Append rows from files or standard input in one version.

    In CSV only an empty field without quotes is null. A time without a zone is in UTC. --follow
    commits continuously.
    """
    if not create_missing and (text or substring or partition_by):
        hint = (
            "Add --create, or leave them out; a column that --merge-schema adds gets words with "
            "-o indexing.typemap.COLUMN=text."
        )
        raise InvalidInputError(
            "--text, --substring and --partition-by go with --create.", hint=hint
        )
    form = TextFormat(pattern, continuation, time_format, encoding, unmatched)
    rows = _row_files(files, file_format, delimiter, form)
    target = RowTarget(
        path,
        options=settings_of(option),
        create=create_missing,
        text=tuple(text or ()),
        substring=tuple(substring or ()),
        partition_by=tuple(names_of(partition_by) or ()),
        merge_schema=merge_schema,
        note=note,
    )
    if follow:
        for followed in follow_file(rows, target, interval=interval, report=output.note):
            _report_write(*followed, as_json=json, left_out=rows.left_out)
        return
    with progress_bar("Appending") as progress:
        table, version = target.append(rows, progress)
    _report_write(table, version, as_json=json, left_out=rows.left_out)
    if create_missing and version == 1 and not text:
        _suggest_text(table)


def _suggest_text(table: Table) -> None:
    """Note which column of a new table looks like prose, and how to index its words."""
    rows = table.head(PROSE_ROWS)
    if rows.num_rows:
        column = find_prose(rows.combine_chunks().to_batches()[0])
    else:
        column = None
    if column is not None:
        output.note(
            f"The column {column} looks like prose, but is indexed by its whole values. "
            f"To search its words: indextables reindex {table.path} {column}=text"
        )


def _row_files(
    files: list[str], file_format: str | None, delimiter: str | None, form: TextFormat
) -> RowFiles:
    rows = RowFiles(expand_paths(files, file_format), file_format, delimiter, text=form)
    if form != TextFormat() and not rows.is_text:
        hint = "Add --format text, or leave out --pattern, --continuation, --time-format, --encoding and --unmatched."
        raise InvalidInputError("These options are for text, and the files are not.", hint=hint)
    form.check()
    return rows


@verb(
    app,
    "overwrite",
    panel=_WRITING,
    example="overwrite logs monday.parquet --where \"day = '2026-11-02'\"",
)
def overwrite(
    path: PathArgument,
    files: Files,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            "-w",
            metavar="CONDITION",
            help="Replace only rows that match; the new rows must too.",
        ),
    ] = None,
    file_format: Format = None,
    delimiter: Delimiter = None,
    merge_schema: MergeSchema = False,
    note: Note = None,
    yes: Yes = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Replace all or matching rows by the rows of files. Older versions keep the replaced rows
    until a purge.
    """
    table = open_table(path, option)
    if not yes:
        plan = {"replaced_rows": table.count(where=where), "rows": table.count()}
        summary = (
            f"{plan['replaced_rows']:,} of {plan['rows']:,} rows of {table.path} will be replaced."
        )
        confirm(summary, "Go on?", plan=plan, as_json=json)
    rows = RowFiles(expand_paths(files, file_format), file_format, delimiter, table.schema)
    with _rows_with_progress(rows, "Writing") as data:
        version = table.overwrite(data, where=where, merge_schema=merge_schema, user_metadata=note)
    _report_write(table, version, as_json=json, left_out=rows.left_out)


@verb(
    app,
    "delete",
    panel=_WRITING,
    example="delete logs --where \"level = 'DEBUG'\" --dry-run",
)
def delete(
    path: PathArgument,
    where: Where = None,
    query: Query = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Delete the rows that match a condition, a search, or both. Older versions keep them until a
    purge.
    """
    table = open_table(path, option)

    def act(*, dry_run: bool, progress: Progress) -> DeleteReport:
        return table.delete(where=where, query=query, dry_run=dry_run, progress=progress)

    confirm_and_run(
        f"Delete these rows of {table.path}", act, dry_run=dry_run, yes=yes, as_json=json
    )


@verb(
    app,
    "update",
    panel=_WRITING,
    example='update logs --set "level=upper(level)" --where "level = \'warn\'" --dry-run',
)
def update(
    path: PathArgument,
    assignments: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="COLUMN=EXPRESSION",
            help="What a column becomes, in SQL. May be repeated.",
        ),
    ],
    where: Where = None,
    query: Query = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    note: Note = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Set columns of the rows that match a condition, a search, or both; of all rows without
    either.
    """
    table = open_table(path, option)
    values = {}
    for text in assignments:
        column, equals, expression = text.partition("=")
        if not equals or not column.strip():
            raise InvalidInputError(
                f"{text!r} sets nothing.", hint="Write it as column=expression.", option=text
            )
        values[column.strip()] = expression.strip()

    def act(*, dry_run: bool, progress: Progress) -> UpdateReport:  # noqa: ARG001
        return table.update(
            set=values, where=where, query=query, dry_run=dry_run, user_metadata=note
        )

    confirm_and_run(
        f"Update these rows of {table.path}", act, dry_run=dry_run, yes=yes, as_json=json
    )


@verb(
    app,
    "upsert",
    panel=_WRITING,
    example="upsert users changed.parquet --on id",
)
def upsert(
    path: PathArgument,
    files: Files,
    on: Annotated[
        str, typer.Option("--on", metavar="A,B", help="The columns by which rows are the same.")
    ],
    when_matched: Annotated[
        str,
        typer.Option(
            "--when-matched", metavar="WAY", help="update, ignore or delete the row of the table."
        ),
    ] = "update",
    when_not_matched: Annotated[
        str,
        typer.Option(
            "--when-not-matched", metavar="WAY", help="insert or ignore the row of the file."
        ),
    ] = "insert",
    file_format: Format = None,
    delimiter: Delimiter = None,
    dry_run: DryRun = False,
    note: Note = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Upsert rows of files by key in one version: a row replaces the row with the same key."""
    table = open_table(path, option)
    with _rows_with_progress(
        RowFiles(tuple(files), file_format, delimiter, table.schema), "Writing"
    ) as data:
        report = table.upsert(
            data,
            on=names_of(on) or [],
            when_matched=cast(WhenMatched, when_matched),
            when_not_matched=cast(WhenNotMatched, when_not_matched),
            dry_run=dry_run,
            user_metadata=note,
        )
    output.report(report, as_json=json)


def _schema_of(rows: RowFiles) -> pa.Schema:
    with rows.open(lambda _done: None) as (schema, _):
        return schema


@contextmanager
def _rows_with_progress(rows: RowFiles, title: str) -> Iterator[Iterator[pa.RecordBatch]]:
    """Return the rows of files, and report progress."""
    with (
        progress_bar(title) as progress,
        rows.open(lambda done: progress(done, 0, "rows")) as (_, data),
    ):
        yield data


def _report_write(
    table: Table, version: int | None, *, as_json: bool, left_out: Mapping[str, int]
) -> None:
    report: dict[str, Any] = {"path": table.path, "version": table.version, "rows": table.count()}
    report |= {"written": version is not None}
    report |= {kind: left_out.get(kind, 0) for kind in ("blank_lines", "unmatched_lines")}
    if as_json:
        output.value(report, as_json=True)
    elif version is None:
        typer.echo(f"No rows: {table.path} stays at version {table.version}.")
    else:
        typer.echo(
            f"Version {version} of {table.path}: {report['rows']:,} row{'' if report['rows'] == 1 else 's'}."
        )


@verb(
    app,
    "alter",
    panel="Writing",
    example="alter logs add region string --default eu",
)
def alter(
    path: PathArgument,
    change: Annotated[
        str,
        typer.Argument(
            metavar="CHANGE", help="add, rename, drop, widen, reorder, nullable or comment."
        ),
    ],
    column: Annotated[
        str, typer.Argument(metavar="COLUMN", help="The column, or payload.user inside a struct.")
    ],
    value: Annotated[
        str | None,
        typer.Argument(
            metavar="VALUE",
            help="The type, the new name, true or false, or the text.",
            show_default=False,
        ),
    ] = None,
    default: Annotated[
        str | None, typer.Option(metavar="VALUE", help="Of add: what rows without it hold.")
    ] = None,
    comment: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Of add: what the column is.")
    ] = None,
    first: Annotated[bool, typer.Option("--first", help="Of add: before all others.")] = False,
    after: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of add: after this one.")
    ] = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Add, rename, drop, widen, reorder or describe a column. -o sets the index of a new column."""
    table = open_table(path, option)
    settings = settings_of(option)
    # How the store is reached is said with the same option; everything else is meant for the
    # column.
    of_column = {
        key: value
        for key, value in settings.items()
        if REGISTRY.find(key)[0].group not in STORE_GROUPS
    }

    def add(kind: str) -> int:
        return table.alter.add_column(
            column,
            kind,
            comment=comment,
            default=None if default is None else default_from_text(column, kind, default),
            first=first,
            after=after,
            options=of_column,
        )

    changes: dict[str, Callable[[str], int]] = {
        "add": add,
        "rename": lambda new: table.alter.rename_column(column, new),
        "widen": lambda kind: table.alter.widen_column(column, kind),
        "nullable": lambda word: table.alter.set_nullable(column, parse_bool(word)),
        "comment": lambda text: table.alter.set_comment(column, text or None),
    }
    version = _apply_change(table, change, column, value, changes)
    output.value(
        {"version": version, "columns": {f.name: str(f.type) for f in table.schema}}, as_json=json
    )


def _apply_change(
    table: Table,
    change: str,
    column: str,
    value: str | None,
    changes: dict[str, Callable[[str], int]],
) -> int:
    if change == "drop":
        return table.alter.drop_column(column)
    if change == "reorder":
        return table.alter.reorder(
            [name.strip() for name in ",".join(filter(None, (column, value))).split(",")]
        )
    if change not in changes:
        hint = f"Known: {', '.join((*changes, 'drop', 'reorder'))}."
        raise InvalidInputError(
            f"There is no change {change!r} of a column.", hint=hint, change=change
        )
    if value is None:
        raise InvalidInputError(
            f"What {column!r} becomes is missing.",
            hint=f"Write: alter PATH {change} {column} VALUE.",
        )
    return changes[change](value)
