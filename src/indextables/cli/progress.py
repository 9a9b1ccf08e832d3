"""How far a long piece of work is: a bar on stderr, if a person is looking."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from indextables.model.report import Progress, silent


@contextmanager
def shown(title: str) -> Iterator[Progress]:
    """A progress to hand to a verb. Nothing is drawn where stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield silent
        return
    # Drawing with rich is loaded only when there is a terminal to draw on.
    with import_module("indextables.cli.bar").drawn(title) as progress:
        yield progress
