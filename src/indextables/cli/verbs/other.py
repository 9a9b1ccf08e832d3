"""Verbs that are not about the rows of one table: configure, settings, sql, exit-codes, doctor,
report, ui, serve, mcp, jar, pack-env, demo.

The manual page is generated from the verbs themselves.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pyarrow as pa
import typer
from typer.main import get_command

from indextables.cli import output
from indextables.cli.demo import tell
from indextables.cli.output import meanings
from indextables.cli.rows_in import files
from indextables.cli.verb import (
    Json,
    PathArgument,
    Settings,
    TimestampAsOf,
    VersionAsOf,
    open_table,
    settings_of,
    verb,
)
from indextables.commands import Session
from indextables.commands import sql as run_statement
from indextables.commands.describe import describe_installation
from indextables.config import PREFIX, REGISTRY, STORE_GROUPS, VERSION
from indextables.errors import InvalidInputError, UnknownOptionError, UnsupportedError, nearest
from indextables.web.report import write_report
from indextables.web.warehouse import Warehouse

_MARKUP = re.compile(r"\[/?[a-z ]+\]")


def manual(group: Any) -> str:
    """Return the manual page of a group of verbs in roff."""
    lines = [
        f'.TH INDEXTABLES 1 "" "indextables {VERSION}" "User Commands"',
        ".SH NAME",
        "indextables \\- tables of full\\-text search indexes, on disk and on object stores",
        ".SH SYNOPSIS",
        ".B indextables",
        "\\fIVERB\\fR \\fIPATH\\fR [\\fIOPTIONS\\fR]",
        ".SH DESCRIPTION",
        _roff(inspect.cleandoc(group.help or "")),
        ".PP",
        "Every verb has \\fB\\-\\-help\\fR with an example, and \\fB\\-\\-json\\fR for programs.",
        ".SH VERBS",
    ]
    for name in group.commands:
        lines += _verb(name, group.commands[name])
    lines += [".SH EXIT STATUS"]
    for row in meanings():
        lines += [".TP", f".B {row['code']}", _roff(str(row["meaning"]))]
    return "\n".join(lines) + "\n"


def _verb(name: str, command: Any) -> Iterator[str]:
    parameters = [p for p in command.params if not getattr(p, "hidden", False)]
    arguments = " ".join(
        f"\\fI{_value(p)}\\fR" for p in parameters if p.param_type_name == "argument"
    )
    yield f".SS {_roff(name)} {arguments}"
    yield _roff(inspect.cleandoc(command.help or "").replace("\n\n", "\n"))
    for parameter in parameters:
        if parameter.param_type_name == "option":
            names = ", ".join(
                f"\\fB{_roff(n)}\\fR" for n in (*parameter.opts, *parameter.secondary_opts)
            )
            if parameter.is_flag:
                value = ""
            else:
                value = f" \\fI{_value(parameter)}\\fR"
            yield ".TP"
            yield f"{names}{value}"
            yield _roff(parameter.help or "")
    examples = [
        line.strip()
        for line in (command.epilog or "").splitlines()
        if line.strip().startswith("indextables ")
    ]
    for example in examples:
        yield ".PP"
        yield ".nf"
        yield _roff(example)
        yield ".fi"


def _value(parameter: Any) -> str:
    return _roff(parameter.metavar or str(parameter.name).upper())


def _roff(text: str) -> str:
    """Escape a text for roff."""
    plain = _MARKUP.sub("", text).replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(
        f"\\&{line}" if line.startswith((".", "'")) else line for line in plain.splitlines()
    )


app = typer.Typer()


@verb(
    app,
    "configure",
    panel="Writing",
    example="configure logs -o checkpoint.interval=20 --description 'of the shop'",
)
def configure(
    path: PathArgument,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="A new name for the table.")
    ] = None,
    description: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the table is for.")
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="A setting that the table forgets. May be repeated."),
    ] = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Change the name, the description, or the settings (-o) that a table stores."""
    table = open_table(path, option)
    settings = settings_of(option)
    forgotten = tuple(map(_recorded_key, unset or ()))
    # How the store is reached is said with the same option; everything else is meant for the table.
    table_settings = {
        key: value
        for key, value in settings.items()
        if REGISTRY.find(key)[0].group not in STORE_GROUPS
    }
    table.update_metadata(
        name=name, description=description, options=table_settings, unset=forgotten
    )
    answer = {
        "version": table.version,
        "name": table.metadata.name,
        "description": table.metadata.description,
    }
    output.value({**answer, "settings": dict(table.metadata.configuration or {})}, as_json=json)


@verb(app, "settings", panel="More", example="settings")
def settings(
    pattern: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="Only keys with this in them.", show_default=False),
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="PATH", help="Show the values in force for a table, too.")
    ] = None,
    option: Settings = None,
    json: Json = False,
) -> None:
    """List the settings: key, allowed values, default, meaning; and the value in effect for a
    table.
    """
    if table is None:
        values = None
    else:
        values = open_table(table, option).settings.given()
    rows = [
        {
            "key": setting.key,
            "allowed": setting.type.allowed,
            "default": output.text_of(setting.default),
            **(
                {}
                if values is None
                else {"value": output.text_of(values.get(key, setting.default))}
            ),
            "what": setting.doc,
        }
        for key, setting in ((key, REGISTRY.settings[key]) for key in _matching_keys(pattern or ""))
    ]
    output.rows(pa.Table.from_pylist(rows), as_json=json)


def _matching_keys(text: str) -> list[str]:
    """Return the keys that contain a text, or the key family of a column. No match is an error."""
    part = text.lower().removeprefix(PREFIX)
    keys = [key for key in REGISTRY.settings if part in key.lower()]
    if keys:
        return keys
    try:
        return [REGISTRY.find(part)[0].key]
    except UnknownOptionError as error:
        words = {word.lower(): key for key in REGISTRY.settings for word in key.split(".")}
        suggestions = [words[word] for word in nearest(part, words, count=3)]
        if error.context["nearest"] or not suggestions:
            raise
        hint = f"Did you mean {' or '.join(map(repr, suggestions))}?"
        raise UnknownOptionError(error.message, hint=hint, key=part, nearest=suggestions) from None


def _recorded_key(key: str) -> str:
    """Return the stored form of a key. An unknown key is an error with the nearest match."""
    setting, column = REGISTRY.find(key)
    if column is None:
        return setting.key
    return setting.key[:-1] + column


_MORE = "More"


@verb(app, "sql", panel=_MORE, example="sql \"DESCRIBE INDEXTABLES STATE 'logs'\"")
def sql(
    statement: Annotated[
        str, typer.Argument(metavar="STATEMENT", help="A statement of IndexTables SQL.")
    ],
    option: Settings = None,
    json: Json = False,
) -> None:
    """Run a statement: MERGE SPLITS, PURGE, DESCRIBE INDEXTABLES ... An unknown statement lists
    them all.
    """
    output.rows(run_statement(statement, settings_of(option)), as_json=json)


@verb(app, "man", panel=_MORE, example="man > indextables.1")
def man(json: Json = False) -> None:
    """Print the manual page: every verb with its options and examples, for `man`."""
    page = manual(get_command(import_module("indextables.cli.app").app))
    if json:
        output.value({"page": page}, as_json=True)
    else:
        typer.echo(page, nl=False)


@verb(app, "exit-codes", panel=_MORE, example="exit-codes")
def exit_codes(json: Json = False) -> None:
    """List the exit codes and their meanings."""
    output.rows(pa.Table.from_pylist(meanings()), as_json=json)


@verb(app, "doctor", panel=_MORE, example="doctor")
def doctor(json: Json = False) -> None:
    """Show what works here: versions of Python, Spark and Java, extras, and what this Spark lacks.

    `DESCRIBE INDEXTABLES ENVIRONMENT` shows the same for a running session, and its settings.
    """
    session, missing = Session(), []
    try:
        session = import_module("indextables.spark.extension").SparkStatements()
    except ModuleNotFoundError as error:
        reason = import_module("indextables.spark").explain_missing(error)
        missing = [{"kind": "capability", "name": "spark", "value": reason}]
    rows = [
        {"kind": kind, "name": name, "value": value}
        for kind, properties in describe_installation(session)
        for name, value in properties
    ]
    output.rows(pa.Table.from_pylist(rows + missing), as_json=json)


_LOOK = "Looking"


@verb(app, "report", panel=_LOOK, example="report logs -o report.html")
def report(
    path: PathArgument,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Where to write the page.")
    ] = Path("report.html"),
    query: Annotated[
        str | None,
        typer.Option("--query", "-q", metavar="QUERY", help="The search whose cost is shown."),
    ] = None,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="A setting. May be repeated."),
    ] = None,
    json: Json = False,
) -> None:
    """Write a self-contained report page: versions, merges, partitions, sizes, the cost of a
    search.
    """
    table = open_table(path, option, version_as_of, timestamp_as_of)
    with files.writing(out):
        file = write_report(table, out, query=query)
    if json:
        output.value({"path": str(file), "version": table.version}, as_json=True)
    else:
        typer.echo(f"{file}: the report on version {table.version} of {table.path}")


@verb(app, "ui", panel=_LOOK, example="ui logs --port 8321")
def ui(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Tables, and folders whose tables are all shown."),
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8321,
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = True,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Explore tables in a browser on this machine: search, facets, time, versions, exports. Ctrl-C
    stops it.
    """
    server = _with_extra("indextables.web.service", "web")
    warehouse = Warehouse(paths, settings_of(option))
    warehouse.check()

    def print_address(address: str) -> None:
        if json:
            output.value({"address": address}, as_json=True)
        else:
            typer.echo(f"{', '.join(paths)} is shown at {address} (Ctrl-C ends it)")
        if browser:
            typer.launch(address)

    server.serve(warehouse, port=port, started=print_address)


@verb(app, "serve", panel=_LOOK, example="serve logs --port 9200")
def serve(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Tables, and folders whose tables are all served."),
    ],
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; 0.0.0.0 is everywhere.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 9200,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="INDEXTABLES_TOKEN",
            metavar="TOKEN",
            help="The secret of every request; else one is made.",
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Processes that answer requests.")
    ] = 1,
    write: Annotated[
        bool, typer.Option("--write", help="Accept rows, with a token of their own.")
    ] = False,
    write_token: Annotated[
        str | None,
        typer.Option(
            envvar="INDEXTABLES_WRITE_TOKEN",
            metavar="TOKEN",
            help="The secret of requests that write; else one is made. It does not read.",
        ),
    ] = None,
    create: Annotated[
        bool,
        typer.Option("--create", help="Create a missing table in PATH when it is written to."),
    ] = False,
    option: Settings = None,
    json: Json = False,
) -> None:
    """Answer searches over HTTP, as JSON and in the dialect of Elasticsearch. With --write, accept
    rows by `_bulk` and from OpenTelemetry. Ctrl-C stops it.
    """
    server = _with_extra("indextables.web.service", "web")
    for secret in (token, write_token):
        if secret is not None and len(secret) < _SHORTEST_TOKEN:
            hint = "Take a long random text, or leave it out and one is made."
            message = f"A token has at least {_SHORTEST_TOKEN} characters."
            raise InvalidInputError(message, hint=hint)
    if token is not None and token == write_token:
        hint = "Take two: a shipper that writes must not read every row."
        raise InvalidInputError("The token and the write token are the same.", hint=hint)
    if write_token is not None and not write:
        output.note("Rows are not accepted, and the write token is not used: --write is missing.")
    if create and not write:
        hint = "Add --write, or leave out --create."
        raise InvalidInputError("--create is about tables that are written to.", hint=hint)
    warehouse = Warehouse(paths, settings_of(option))
    warehouse.check()
    if create and warehouse.folder() is None:
        hint = "Serve one local folder, which may be empty."
        raise InvalidInputError(f"Tables cannot be created in {', '.join(paths)}.", hint=hint)

    def print_address(address: str, secret: str, write_secret: str | None) -> None:
        tokens = {"token": secret}
        if write_secret is not None:
            tokens["write_token"] = write_secret
        if json:
            output.value({"address": address, **tokens}, as_json=True)
        else:
            shown = ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in tokens.items())
            typer.echo(f"{', '.join(paths)} is served at {address} ({shown}; Ctrl-C ends it)")

    server.serve_searches(
        warehouse,
        host=host,
        port=port,
        token=token,
        started=print_address,
        workers=workers,
        writing=server.Writing(write_token, create) if write else None,
    )


_SHORTEST_TOKEN = 16


@verb(app, "mcp", panel=_LOOK, example="mcp logs")
def mcp(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Tables, and folders whose tables are all shown."),
    ],
    option: Settings = None,
    json: Json = False,
) -> None:
    """Serve tables to an assistant by the Model Context Protocol over standard input and output.

    Its tools are describe, search, count, aggregate and history. They change nothing.
    """
    assistant = _with_extra("indextables.web.assistant", "mcp")
    warehouse = Warehouse(paths, settings_of(option))
    warehouse.check()
    if json:
        raise InvalidInputError("mcp speaks its own protocol.", hint="Leave out --json.")
    assistant.Assistant(warehouse).server().run("stdio")


@verb(app, "jar", panel=_MORE, example="jar --out indextables.jar")
def jar(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.")] = Path(
        "indextables.jar"
    ),
    json: Json = False,
) -> None:
    """Write the JAR that adds the statements of IndexTables to Spark SQL, for --jars and
    spark.jars.
    """
    file = _with_spark("indextables.spark.jvm").build_jar(out)
    if json:
        output.value({"path": str(file)}, as_json=True)
    else:
        typer.echo(f"{file}: pass it to Spark with --jars")


@verb(
    app,
    "pack-env",
    panel=_MORE,
    example="pack-env --out env.tar.gz",
)
def pack_env(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.")] = Path(
        "env.tar.gz"
    ),
    packages: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="NAME", help="An installed package to pack too; may be repeated."
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            "--python",
            metavar="PATH",
            help="The interpreter that every host has; this one if not given.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Pack this package and its dependencies for the workers of a Spark cluster, for --archives and
    spark.archives.
    """
    packed = _with_spark("indextables.spark.settings").pack_environment(
        out, packages=packages or (), python=python
    )
    if json:
        output.value(packed.to_dict(), as_json=True)
        return
    typer.echo(f"{packed.path}: {len(packed.packages)} packages, {packed.size_bytes >> 20} MB")
    typer.echo(f"Every host must have {packed.python}. Pass it to spark-submit:")
    typer.echo(f"  PYSPARK_PYTHON=./env/bin/python spark-submit --archives {packed.path}#env ...")


@verb(app, "demo", panel=_MORE, example="demo")
def demo(
    path: Annotated[
        Path,
        typer.Option(metavar="PATH", help="Where the table goes; an older demo there is replaced."),
    ] = Path("demo-table"),
    rows: Annotated[int, typer.Option(min=1000, help="How many log lines.")] = 200_000,
    json: Annotated[
        bool, typer.Option("--json", help="Tell the story on stderr, and print JSON at its end.")
    ] = False,
) -> None:
    """Run a tour with Spark: write, search, merge, travel in time, find damage. Takes under two
    minutes.
    """
    table = tell(_with_spark("indextables.spark"), path.absolute(), rows=rows, on_stderr=json)
    if json:
        output.value(table.to_dict(), as_json=True)


def _with_spark(module: str) -> ModuleType:
    return _with_extra(module, "spark")


def _with_extra(module: str, extra: str) -> ModuleType:
    """Import a module of an extra, or raise an error that names the extra to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("indextables"):
            raise
        hint = f"Install it: pip install 'indextables[{extra}]'."
        if extra == "spark":
            what = "Spark, and"
        else:
            what = f"the extra {extra}:"
        raise UnsupportedError(
            f"This needs {what} {error.name} is not installed.", hint=hint
        ) from None
