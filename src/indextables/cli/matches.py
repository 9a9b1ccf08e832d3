"""Matches of a search: marked passages on a terminal, lines when piped, JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa
import typer

from indextables.cli import output

SCORE, SNIPPET = "_score", "_snippet"
_START, _END = "<b>", "</b>"


def show_as_they_come(found: pa.Table, *, marked: str | None, as_json: bool, first: bool) -> None:
    """Print matches of an output that does not end: a JSON object a line, and the names of the columns only once.

    There are no scores: those of rows that came at different times cannot be compared.
    """
    bare = found.drop_columns([SCORE]) if SCORE in found.schema.names else found
    if as_json:
        for row in bare.to_pylist(maps_as_pydicts="lossy"):
            typer.echo(msgspec.json.encode(row, enc_hook=str))
    elif output.is_terminal():
        show(bare, marked=marked, as_json=False)
    else:
        output.rows(_unmarked(bare), as_json=False, header=first)


def show(found: pa.Table, *, marked: str | None, as_json: bool) -> None:
    """Print the matches of a search."""
    if as_json:
        output.rows(found, as_json=True)
    elif output.is_terminal():
        for row in found.to_pylist(maps_as_pydicts="lossy"):
            _on_terminal(row, marked)
    else:
        output.rows(_unmarked(found), as_json=False)


def _on_terminal(row: Mapping[str, Any], marked: str | None) -> None:
    score, snippet = row.get(SCORE), row.get(SNIPPET)
    head = "" if score is None else _styled(f"{score:7.3f}", fg=typer.colors.GREEN) + "  "
    rest = {name: value for name, value in row.items() if name not in (SCORE, SNIPPET) and value is not None}
    if snippet:
        rest.pop(marked or "", None)
        typer.echo(head + _highlighted(snippet))
        head = " " * 9
    if rest:
        typer.echo(head + "  ".join(_styled(f"{name}=", dim=True) + str(value) for name, value in rest.items()))


def _highlighted(snippet: str) -> str:
    pieces = [piece for part in snippet.split(_START) for piece in part.split(_END, 1)]
    # Every second piece was between a start and an end.
    inside = [_styled(p, fg=typer.colors.YELLOW, bold=True) if n % 2 else p for n, p in enumerate(pieces)]
    return "".join(inside)


def _styled(text: str, **style: Any) -> str:
    return typer.style(text, **style) if output.has_colour() else text


def _unmarked(found: pa.Table) -> pa.Table:
    if SNIPPET not in found.schema.names:
        return found
    place = found.schema.get_field_index(SNIPPET)
    bare = [None if s is None else s.replace(_START, "").replace(_END, "") for s in found.column(place).to_pylist()]
    return found.set_column(place, SNIPPET, pa.array(bare, pa.string()))
