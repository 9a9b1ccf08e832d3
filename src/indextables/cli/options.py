"""The arguments and options that many verbs share, and the table they name."""

from __future__ import annotations

from typing import Annotated

import typer

from indextables.errors import InvalidInputError

PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="The table: a folder, or a URL such as s3://bucket/logs.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-o", metavar="KEY=VALUE", help="A setting, for example aws.region=eu-west-1. May be repeated."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
VersionAsOf = Annotated[
    str | None, typer.Option("--version-as-of", metavar="N", help="The table at an older version: its number or tag.")
]
TimestampAsOf = Annotated[
    str | None,
    typer.Option("--timestamp-as-of", metavar="TIME", help="The table as it was then: 2026-11-15T12:00:00Z."),
]
Where = Annotated[
    str | None,
    typer.Option("--where", "-w", metavar="CONDITION", help="SQL condition: \"status >= 500 AND day = '2026-11-15'\"."),
]
Query = Annotated[str | None, typer.Option("--query", "-q", metavar="QUERY", help="Only rows that match a search.")]
Columns = Annotated[str | None, typer.Option("--columns", "-c", metavar="A,B", help="The columns to show.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Only show what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def settings_of(pairs: list[str] | None) -> dict[str, object]:
    """`key=value` texts as settings. Their names are checked where they are used, with the nearest match in the error."""
    settings: dict[str, object] = {}
    for text in pairs or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            hint = "Write it as key=value; `indextables settings` lists the keys."
            raise InvalidInputError(f"{text!r} is not a setting.", hint=hint, option=text)
        settings[key.strip()] = value
    return settings


def version_of(text: str | None) -> int | str | None:
    """A version as it was typed: a number, or a tag."""
    return int(text) if text is not None and text.removeprefix("-").isdecimal() else text


def names_of(text: str | None) -> list[str] | None:
    """Names with commas between them as a list."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
