"""The settings: all that there are, and those that a table keeps."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
import typer

from indextables.cli import options, output
from indextables.cli.opened import opened
from indextables.cli.verb import verb
from indextables.config import PREFIX, REGISTRY, STORE_GROUPS
from indextables.errors import UnknownOptionError, nearest

app = typer.Typer()


@verb(
    app,
    "configure",
    panel="Writing",
    example="configure logs -o checkpoint.interval=20 --description 'of the shop'\n"
    "configure logs --unset checkpoint.interval",
)
def configure(
    path: options.PathArgument,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="A new name for the table.")] = None,
    description: Annotated[str | None, typer.Option(metavar="TEXT", help="What the table is for.")] = None,
    unset: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="A setting that the table forgets. May be repeated.")
    ] = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Change the name, the description, or the settings (-o) that a table keeps."""
    table = opened(path, option)
    given = options.settings_of(option)
    forgotten = tuple(map(_kept_as, unset or ()))
    # How the store is reached is said with the same option; everything else is meant for the table.
    kept_settings = {key: value for key, value in given.items() if REGISTRY.find(key)[0].group not in STORE_GROUPS}
    table.update_metadata(name=name, description=description, options=kept_settings, unset=forgotten)
    kept = {"version": table.version, "name": table.metadata.name, "description": table.metadata.description}
    output.value({**kept, "settings": dict(table.metadata.configuration or {})}, as_json=json)


@verb(app, "settings", panel="More", example="settings\nsettings purge\nsettings --table logs indexing --json")
def settings(
    pattern: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="Only keys with this in them.", show_default=False)
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="PATH", help="Show the values in force for a table, too.")
    ] = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """List the settings: key, allowed values, default, what it does; and the value in force for a table."""
    given = None if table is None else opened(table, option).settings.given()
    found = [
        {
            "key": setting.key,
            "allowed": setting.type.allowed,
            "default": output.text_of(setting.default),
            **({} if given is None else {"value": output.text_of(given.get(key, setting.default))}),
            "what": setting.doc,
        }
        for key, setting in ((key, REGISTRY.settings[key]) for key in _matching(pattern or ""))
    ]
    output.rows(pa.Table.from_pylist(found), as_json=json)


def _matching(text: str) -> list[str]:
    """The keys with a text in them; else the family that it is a column of. A text that is in none is an error."""
    wanted = text.lower().removeprefix(PREFIX)
    found = [key for key in REGISTRY.settings if wanted in key.lower()]
    if found:
        return found
    try:
        return [REGISTRY.find(wanted)[0].key]
    except UnknownOptionError as error:
        words = {word.lower(): key for key in REGISTRY.settings for word in key.split(".")}
        near = [words[word] for word in nearest(wanted, words, count=3)]
        if error.context["nearest"] or not near:
            raise
        hint = f"Did you mean {' or '.join(map(repr, near))}?"
        raise UnknownOptionError(error.message, hint=hint, key=wanted, nearest=near) from None


def _kept_as(key: str) -> str:
    """The key as a table keeps it; one that does not exist is an error with the nearest match."""
    found, column = REGISTRY.find(key)
    return found.key if column is None else found.key[:-1] + column
