"""Convert functions to verbs of the command line: shared options, help, errors and confirmations.

A verb opens its table, shows progress on a terminal, and prints its plan and asks before it
destroys anything. Hints use the words of the command line in place of Python's.
"""

from __future__ import annotations

import gc
import inspect
import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Annotated, Any, Protocol, TypeVar, get_type_hints

import typer

from indextables import errors
from indextables.cli import output
from indextables.cli.output import FAILED, code_of
from indextables.errors import IndexTablesError, InvalidInputError, RefusedError
from indextables.model.report import Progress, Report, silent
from indextables.table import Table

PathArgument = Annotated[
    str,
    typer.Argument(metavar="PATH", help="The table: a folder, or a URL such as s3://bucket/logs."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-o", metavar="KEY=VALUE", help="A setting: aws.region=eu-west-1; repeatable."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
VersionAsOf = Annotated[
    str | None,
    typer.Option(
        "--version-as-of", metavar="N", help="The table at an older version: a number or tag."
    ),
]
TimestampAsOf = Annotated[
    str | None,
    typer.Option(
        "--timestamp-as-of", metavar="TIME", help="The table as it was then: 2026-11-15T12:00:00Z."
    ),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where", "-w", metavar="CONDITION", help="SQL: \"status >= 500 AND day = '2026-11-15'\"."
    ),
]
Query = Annotated[
    str | None,
    typer.Option("--query", "-q", metavar="QUERY", help="Only rows that match a search."),
]
Columns = Annotated[
    str | None, typer.Option("--columns", "-c", metavar="A,B", help="The columns to show.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Only show what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def settings_of(pairs: list[str] | None) -> dict[str, object]:
    """Parse `key=value` texts. Names are checked where they are used, with the nearest match in the
    error.
    """
    settings: dict[str, object] = {}
    for text in pairs or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            hint = "Write it as key=value; `indextables settings` lists the keys."
            raise InvalidInputError(f"{text!r} is not a setting.", hint=hint, option=text)
        settings[key.strip()] = value
    return settings


def version_of(text: str | None) -> int | str | None:
    """Parse a version: a number or a tag."""
    if text is not None and text.removeprefix("-").isdecimal():
        return int(text)
    return text


def names_of(text: str | None) -> list[str] | None:
    """Split names at commas."""
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


@contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """Return a progress callback for a verb. It draws only if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield silent
        return
    # Drawing with rich is loaded only when there is a terminal to draw on.
    with import_module("indextables.cli.terminal").progress_bar(title) as progress:
        yield progress


_HINTS: dict[type[errors.IndexTablesError], str] = {
    errors.IndexTablesError: "Run again with --debug and report what it shows.",
    errors.TableNotFoundError: "Check the path, or create a table there: `indextables append PATH FILE --create`, "
    "or `indextables create`.",
    errors.VersionNotFoundError: "`indextables history PATH` shows which versions can be read.",
    errors.TableExistsError: "Choose another path, or pass --if-not-exists if the same schema is meant.",
    errors.CommitUnknownError: "Look for the transaction id in `indextables history PATH` before repeating.",
    errors.CorruptTableError: "`indextables verify PATH` lists everything that is damaged; then `indextables repair`.",
    errors.LogGapError: "Restore the missing file from a backup, or run `indextables repair PATH`: it keeps every version "
    "that can be read, and reports those that cannot.",
    errors.BadFileError: "Restore the file from a backup; `indextables verify PATH` shows what else is affected. Where the "
    "table cannot be opened, `indextables repair PATH` keeps every version that can be read.",
    errors.MissingSplitError: "Restore the split from a backup. To go on without its rows, write a clean log with "
    "`indextables repair PATH --at NEW_PATH` and put it in the place of the table's log, as it says.",
}
_PHRASES = {
    "open the table with options={'purge.retentionCheckEnabled': False}": "pass -o purge.retentionCheckEnabled=false",
    "Table.repair(path, at='another place')": "`indextables repair PATH --at NEW_PATH`",
    "Table.repair()": "`indextables repair PATH`",
    "Table.repair(path)": "`indextables repair PATH`",
    "verify()": "`indextables verify PATH`",
    "history()": "`indextables history PATH`",
    "Write with merge_schema=True": "Pass --merge-schema",
    "merge_schema=True": "--merge-schema",
    "Give where=..., query=..., or both; overwrite()": "Give --where, --query, or both; `indextables overwrite`",
    "Choose another port, or 0": "Choose another with --port, or --port 0",
}
"""Hints of the library and their replacements on the command line."""

_REINDEX = re.compile(r'reindex\(\{"([^"`]+)": "(\w+)"\}\)')


def error_text(error: errors.IndexTablesError) -> dict[str, Any]:
    """Return the fields of an error, with a hint for a user of the command line."""
    if error.hint == error.default_hint:
        hint = _HINTS.get(type(error))
    else:
        hint = None
    if hint is None:
        hint = error.hint
        for phrase, words in _PHRASES.items():
            hint = hint.replace(phrase, words)
        hint = _REINDEX.sub(r"`indextables reindex PATH \1=\2`", hint)
    return {**error.to_dict(), "hint": hint}


def open_table(
    path: str,
    option: list[str] | None,
    version_as_of: str | None = None,
    timestamp_as_of: str | None = None,
) -> Table:
    """Open a table at its newest version, at an older one, or at a timestamp."""
    return Table.open(
        path,
        version=version_of(version_as_of),
        timestamp=timestamp_as_of,
        options=settings_of(option),
    )


_Debug = Annotated[bool, typer.Option("--debug", help="Show logs, and where an error came from.")]


def verb(
    app: typer.Typer, name: str, *, panel: str, example: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a verb. Every verb has `--debug`; an error prints its hint and sets
    the exit code.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def run(*args: Any, debug: bool = False, **kwargs: Any) -> None:
            if not gc.isenabled():  # everything is loaded; what is loaded stays
                gc.freeze()
                gc.enable()
            if debug:
                logging.basicConfig(level=logging.DEBUG)
            with error_reports(as_json=bool(kwargs.get("json")), debug=debug):
                function(*args, **kwargs)

        hints = {**get_type_hints(function, include_extras=True), "debug": _Debug}
        debug = inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False)
        parameters = [*inspect.signature(function).parameters.values(), debug]
        annotated = [
            parameter.replace(annotation=hints[parameter.name]) for parameter in parameters
        ]
        run.__dict__["__signature__"] = inspect.Signature(annotated)
        run.__annotations__ = hints
        epilog = f"Example: indextables {example}"
        app.command(name, rich_help_panel=panel, epilog=epilog, no_args_is_help=False)(run)
        return function

    return register


@contextmanager
def error_reports(*, as_json: bool, debug: bool) -> Iterator[None]:
    """Print errors as message and hint on stderr (as JSON with --json), with a traceback only on
    request.
    """
    try:
        yield
    except IndexTablesError as error:
        if debug:
            traceback.print_exc()
        output.error(error_text(error), as_json=as_json)
        raise typer.Exit(code_of(error)) from None
    except KeyboardInterrupt:
        output.report_interruption(as_json=as_json)
        raise typer.Exit(output.INTERRUPTED) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # noqa: BLE001 (it is reported, and the exit code says so)
        if isinstance(error, BrokenPipeError) and output.is_closed():
            # `| head` has seen enough; the rest goes nowhere, which is no error.
            output.drop()
            raise typer.Exit from None
        if debug:
            traceback.print_exc()
        problem = {
            "kind": "unexpected",
            "message": f"{type(error).__name__}: {error}",
            "hint": "This should not happen. Run again with --debug and report what it shows.",
            "context": {},
        }
        output.error(problem, as_json=as_json)
        raise typer.Exit(FAILED) from None


R = TypeVar("R", bound=Report, covariant=True)


class Act(Protocol[R]):
    """An operation with a dry run."""

    def __call__(self, *, dry_run: bool, progress: Progress) -> R:
        """Run the operation, or only plan it."""
        ...


def run_verb(title: str, act: Act[R], *, dry_run: bool, as_json: bool) -> R:
    """Run a non-destructive operation, or its dry run, and print the report."""
    with progress_bar(title) as progress:
        report = act(dry_run=dry_run, progress=progress)
    output.report(report, as_json=as_json)
    return report


def confirm_and_run(title: str, act: Act[R], *, dry_run: bool, yes: bool, as_json: bool) -> R:
    """Run a destructive operation after its plan was confirmed."""
    if not dry_run and not yes:
        preview: Report = act(dry_run=True, progress=silent)
        confirm(str(preview), f"{title}?", plan=preview.to_dict(), as_json=as_json)
    return run_verb(title, act, dry_run=dry_run, as_json=as_json)


def confirm(preview: str, question: str, *, plan: Mapping[str, Any], as_json: bool) -> None:
    """Print a plan on stderr and ask for confirmation.

    Without a terminal the operation is refused, and the plan is printed; with --json as part of the
    error.
    """
    on_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    if on_terminal or not as_json:
        output.note(preview)
    if not on_terminal:
        message = "This needs confirmation, and there is no terminal to ask; nothing was changed."
        raise RefusedError(message, hint="Pass --yes if you are sure.", plan=plan)
    if not _ask(question):
        raise RefusedError(
            "Not confirmed; nothing was changed.", hint="Pass --yes to go on without being asked."
        )


def _ask(question: str) -> bool:
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:  # Ctrl-C or the end of the input is an answer, too
        return False
