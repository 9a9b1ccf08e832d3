"""How a function becomes a verb of the command line: help with an example, and errors that say what to do."""

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

from indextables.cli import hints, output
from indextables.cli.exit_codes import FAILED, code_of
from indextables.errors import IndexTablesError

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
        output.error(hints.told(error), as_json=as_json)
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
