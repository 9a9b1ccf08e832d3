"""The states of a log."""

from __future__ import annotations

from pathlib import Path

from indextables.log import log_files


def states(path: Path) -> list[int]:
    return sorted(
        int(p.name.removeprefix("state-v")) for p in (path / log_files.LOG).glob("state-v*")
    )
