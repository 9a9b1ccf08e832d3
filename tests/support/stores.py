"""What a store on disk holds, and how old it says it is."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

HOUR_S = 3_600


def contents(root: Path | str) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too."""
    base = Path(root)
    return {
        str(p.relative_to(base)): p.read_bytes() for p in sorted(base.rglob("*")) if p.is_file()
    }


def age(root: Path | str, *, hours: float, paths: Iterable[str] | None = None) -> None:
    """Make files look older than they are: all of them, or some."""
    then = time.time() - hours * HOUR_S
    base = Path(root)
    chosen = (
        [p for p in base.rglob("*") if p.is_file()] if paths is None else [base / p for p in paths]
    )
    for path in chosen:
        os.utime(path, (then, then))


def splits_on_disk(root: Path | str) -> set[str]:
    """The splits in a folder, live or not."""
    return {path for path in contents(root) if path.endswith(".split")}


def swap_logs(advice: str, *, keep: Path) -> None:
    """Do to the word what a repair advises: the damaged log is moved away (to `keep`), the clean
    one into its place.
    """
    moves = re.search(r"move (/.+?) out of the table, and (/.+?) into its place", advice)
    assert moves is not None, advice
    damaged, clean = map(Path, moves.groups())
    damaged.rename(keep)
    clean.rename(damaged)
