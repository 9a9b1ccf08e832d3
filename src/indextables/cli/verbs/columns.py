"""The verb that changes columns: alter. No split is touched by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from indextables.cli import options, output
from indextables.cli.verb import open_table, verb
from indextables.config import REGISTRY, STORE_GROUPS
from indextables.config.values import parse_bool
from indextables.errors import InvalidInputError
from indextables.table import Table
from indextables.table.alter import default_from_text

app = typer.Typer()


@verb(
    app,
    "alter",
    panel="Writing",
    example="alter logs add region string --default eu\nalter logs rename msg message\nalter logs widen bytes bigint\n"
    "alter logs drop payload.debug",
)
def alter(
    path: options.PathArgument,
    change: Annotated[
        str, typer.Argument(metavar="CHANGE", help="add, rename, drop, widen, reorder, nullable or comment.")
    ],
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="The column, or payload.user inside a struct.")],
    value: Annotated[
        str | None,
        typer.Argument(metavar="VALUE", help="The type, the new name, true or false, or the text.", show_default=False),
    ] = None,
    default: Annotated[str | None, typer.Option(metavar="VALUE", help="Of add: what rows without it hold.")] = None,
    comment: Annotated[str | None, typer.Option(metavar="TEXT", help="Of add: what the column is.")] = None,
    first: Annotated[bool, typer.Option("--first", help="Of add: before all others.")] = False,
    after: Annotated[str | None, typer.Option(metavar="COLUMN", help="Of add: after this one.")] = None,
    option: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Add, rename, drop, widen, reorder or describe a column. -o says how a new column is indexed."""
    table = open_table(path, option)
    settings = options.settings_of(option)
    # How the store is reached is said with the same option; everything else is meant for the column.
    of_column = {key: value for key, value in settings.items() if REGISTRY.find(key)[0].group not in STORE_GROUPS}

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
    version = _changed(table, change, column, value, changes)
    output.value({"version": version, "columns": {f.name: str(f.type) for f in table.schema}}, as_json=json)


def _changed(
    table: Table, change: str, column: str, value: str | None, changes: dict[str, Callable[[str], int]]
) -> int:
    if change == "drop":
        return table.alter.drop_column(column)
    if change == "reorder":
        return table.alter.reorder([name.strip() for name in ",".join(filter(None, (column, value))).split(",")])
    if change not in changes:
        hint = f"Known: {', '.join((*changes, 'drop', 'reorder'))}."
        raise InvalidInputError(f"There is no change {change!r} of a column.", hint=hint, change=change)
    if value is None:
        raise InvalidInputError(
            f"What {column!r} becomes is missing.", hint=f"Write: alter PATH {change} {column} VALUE."
        )
    return changes[change](value)
