"""Tables, reports and a progress bar on a terminal."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from indextables.model.report import Progress as ProgressCallback
from indextables.model.report import Report

_AT_ONCE = 500
"""Rows per layout: a scan of a million rows is shown in pages of this many."""
_DETAILS = 20
_COUNTED = ("rows", "records", "count", "splits", "files", "requests")
"""Words in the name of a number that is printed with thousands separators."""


def rows(names: Sequence[str], records: Iterable[Mapping[str, Any]]) -> None:
    """Print rows in columns, page by page."""
    console, rest = Console(highlight=False), iter(records)
    for number in itertools.count():
        page = list(itertools.islice(rest, _AT_ONCE))
        if not page and number:
            return
        console.print(_grid(names, page))
        if not page:
            console.print("[dim](no rows)[/]")
            return


def report(outcome: Report) -> None:
    """Print the summary of a report, then its details."""
    console = Console(highlight=False)
    summary = Grid(box=None, show_header=False, padding=(0, 2, 0, 0))
    summary.add_column(style="dim")
    summary.add_column(overflow="fold")
    for name, value in outcome.summary().items():
        summary.add_row(name, _text(name, value))
    console.print(summary)
    for name, records in outcome.details().items():
        if records:
            console.print(f"\n[bold]{name}[/] ({len(records)})")
            console.print(_grid(list(records[0]), records[:_DETAILS]))
        if len(records) > _DETAILS:
            console.print(f"[dim]... and {len(records) - _DETAILS} more; --json shows all[/]")


def _grid(names: Sequence[str], records: Sequence[Mapping[str, Any]]) -> Grid:
    grid = Grid(box=None, header_style="bold cyan", padding=(0, 2, 0, 0))
    columns = [name for name in names if any(row.get(name) is not None for row in records)] or list(
        names
    )
    for name in columns:
        numbers = all(isinstance(row.get(name), int | float | None) for row in records)
        grid.add_column(
            name,
            overflow="fold",
            justify="right" if numbers and not _is_flag(name, records) else "left",
        )
    for row in records:
        grid.add_row(*(_text(name, row.get(name)) for name in columns))
    return grid


def _is_flag(name: str, records: Sequence[Mapping[str, Any]]) -> bool:
    return any(isinstance(row.get(name), bool) for row in records)


def _text(name: str, value: Any) -> Text:
    return Text("".join(_parts(name, value)))


def _parts(name: str, value: Any) -> Iterator[str]:
    if value is None:
        return
    if isinstance(value, bool):
        yield "yes" if value else "no"
    elif isinstance(value, int) and ("bytes" in name or name == "size"):
        yield size(value)
    elif isinstance(value, int) and any(word in name for word in _COUNTED):
        yield f"{value:,}"
    elif isinstance(value, datetime):
        yield f"{value:%Y-%m-%d %H:%M:%S}" + (
            f".{value.microsecond // 1000:03}" if value.microsecond else ""
        )
    elif isinstance(value, float):
        yield f"{value:g}"
    elif isinstance(value, Mapping):
        yield ", ".join(f"{key}={''.join(_parts('', item))}" for key, item in value.items())
    elif isinstance(value, list | tuple):
        yield ", ".join("".join(_parts("", item)) for item in value)
    else:
        yield value.hex() if isinstance(value, bytes) else str(value)


def size(count: int) -> str:
    """Format bytes with a unit."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            if unit == "B":
                return f"{amount:.0f} {unit}"
            return f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


@contextmanager
def progress_bar(title: str) -> Iterator[ProgressCallback]:
    """Create a progress bar that disappears at the end. A total of 0 means unknown."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def step(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total or None, description=f"{title} {what}")

        yield step
