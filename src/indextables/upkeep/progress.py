"""How an operation tells how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called every time a step is done. The steps of one operation count to the same total."""

    def __call__(self, done: int, total: int, what: str) -> None:
        """`done` of `total` steps are behind us; `what` says which kind of step."""
        ...


def silent(done: int, total: int, what: str) -> None:
    """Nobody wants to know."""
