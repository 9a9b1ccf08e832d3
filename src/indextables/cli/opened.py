"""The table that a verb works on."""

from __future__ import annotations

from indextables.cli.options import settings_of
from indextables.table import Table


def opened(
    path: str, option: list[str] | None, version_as_of: int | None = None, timestamp_as_of: str | None = None
) -> Table:
    """The table at a path: its newest version, an older one, or the one of a moment."""
    return Table.open(path, version=version_as_of, timestamp=timestamp_as_of, options=settings_of(option))
