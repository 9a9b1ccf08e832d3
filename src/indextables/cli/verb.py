"""How a function becomes a verb of the command line: help with an example, and errors that say what to do.

Hints in the words of the command line, where the library's own speak of Python.

The table that a verb works on.
"""

from __future__ import annotations

import gc
import inspect
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from indextables import errors
from indextables.cli import output
from indextables.cli.options import settings_of
from indextables.cli.output import FAILED, code_of
from indextables.errors import IndexTablesError
from indextables.table import Table

_HINTS: dict[type[errors.IndexTablesError], str] = {
    errors.IndexTablesError: "Run again with --debug and report what it shows.",
    errors.TableNotFoundError: "Check the path, or create a table there: `indextables create --help`.",
    errors.VersionNotFoundError: "`indextables history PATH` shows which versions can be read.",
    errors.TableExistsError: "Choose another path, or pass --if-not-exists if the same schema is meant.",
    errors.CommitUnknownError: "Look for the transaction id in `indextables history PATH` before repeating.",
    errors.CorruptTableError: "`indextables verify PATH` lists everything that is damaged; then `indextables repair`.",
    errors.LogGapError: "Restore the missing file from a backup, or `indextables repair PATH --at NEW_PATH`.",
    errors.BadFileError: "Restore the file from a backup; `indextables verify PATH` shows what else is affected.",
    errors.MissingSplitError: "Restore the split from a backup, or `indextables repair PATH --at NEW_PATH`.",
}
_PHRASES = {
    "open the table with options={'purge.retentionCheckEnabled': False}": "pass -o purge.retentionCheckEnabled=false",
    "Table.repair(path, at=...)": "`indextables repair PATH --at NEW_PATH`",
    "Table.repair(path)": "`indextables repair PATH`",
    "verify()": "`indextables verify PATH`",
    "history()": "`indextables history PATH`",
    "Write with merge_schema=True": "Pass --merge-schema",
    "merge_schema=True": "--merge-schema",
    "Give where=..., query=..., or both; overwrite()": "Give --where, --query, or both; `indextables overwrite`",
    "Choose another port, or 0": "Choose another with --port, or --port 0",
}
"""What the library says, and how it is said here."""


def error_text(error: errors.IndexTablesError) -> dict[str, Any]:
    """An error as plain values, with a hint that a user of the command line can follow."""
    hint = _HINTS.get(type(error)) if error.hint == error.default_hint else None
    if hint is None:
        hint = error.hint
        for phrase, words in _PHRASES.items():
            hint = hint.replace(phrase, words)
    return {**error.to_dict(), "hint": hint}


def opened(
    path: str, option: list[str] | None, version_as_of: int | None = None, timestamp_as_of: str | None = None
) -> Table:
    """The table at a path: its newest version, an older one, or the one of a moment."""
    return Table.open(path, version=version_as_of, timestamp=timestamp_as_of, options=settings_of(option))


_Debug = Annotated[bool, typer.Option("--debug", help="Show logs, and where an error came from.")]


def verb(
    app: typer.Typer, name: str, *, panel: str, example: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a verb. Every verb has `--debug`; errors end it with a hint and a code of their kind."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def run(*args: Any, debug: bool = False, **kwargs: Any) -> None:
            if not gc.isenabled():  # everything is loaded; what is loaded stays
                gc.freeze()
                gc.enable()
            if debug:
                logging.basicConfig(level=logging.DEBUG)
            with reported(as_json=bool(kwargs.get("json")), debug=debug):
                function(*args, **kwargs)

        hints = {**get_type_hints(function, include_extras=True), "debug": _Debug}
        debug = inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False)
        given = [*inspect.signature(function).parameters.values(), debug]
        told = [parameter.replace(annotation=hints[parameter.name]) for parameter in given]
        run.__signature__ = inspect.Signature(told)  # type: ignore[attr-defined]
        run.__annotations__ = hints
        lines = (line if "indextables " in line else f"indextables {line}" for line in example.splitlines())
        shown = "\n\n".join(f"  {line}" for line in lines)
        app.command(name, rich_help_panel=panel, epilog=f"Example:\n\n{shown}", no_args_is_help=False)(run)
        return function

    return register


@contextmanager
def reported(*, as_json: bool, debug: bool) -> Iterator[None]:
    """Errors as a message and a hint on stderr (as JSON if asked for), without a traceback unless it is asked for."""
    try:
        yield
    except IndexTablesError as error:
        if debug:
            traceback.print_exc()
        output.error(error_text(error), as_json=as_json)
        raise typer.Exit(code_of(error)) from None
    except (typer.Exit, typer.Abort, KeyboardInterrupt):
        raise
    except Exception as error:  # noqa: BLE001 (it is reported, and the exit code says so)
        if isinstance(error, BrokenPipeError) and output.is_closed():
            # `| head` has seen enough; the rest goes nowhere, which is no error.
            output.drop()
            raise typer.Exit from None
        if debug:
            traceback.print_exc()
        told = {
            "kind": "unexpected",
            "message": f"{type(error).__name__}: {error}",
            "hint": "This should not happen. Run again with --debug and report what it shows.",
            "context": {},
        }
        output.error(told, as_json=as_json)
        raise typer.Exit(FAILED) from None
