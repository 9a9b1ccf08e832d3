"""A progress bar on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from indextables.model import report


@contextmanager
def drawn(title: str) -> Iterator[report.Progress]:
    """A bar that goes away when the work is done. A total of 0 is not known yet."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def step(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total or None, description=f"{title} {what}")

        yield step
