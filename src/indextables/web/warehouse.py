"""The tables that a server shows: named tables, and all tables of named folders, each under a
unique name.

A folder is listed on each request, so a new table appears at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from indextables.errors import InvalidInputError, NotFoundError, nearest
from indextables.model.arguments import whole_number
from indextables.storage.location import check_characters
from indextables.table import Table

LOG_FOLDER = "_transaction_log"
_DEPTH = 3
_STALENESS = 1.0
"""Seconds for which an outdated version may be served."""


class ShownTable(Struct, frozen=True):
    """A table and its name in addresses."""

    name: str
    path: str


class Warehouse:
    """Tables by name, opened for reading only."""

    def __init__(
        self,
        paths: Sequence[str],
        options: Mapping[str, object] | None = None,
        *,
        max_staleness: float = _STALENESS,
    ) -> None:
        self._max_staleness = max_staleness
        self._opened: dict[str, tuple[Table, float]] = {}
        self.paths = tuple(paths)
        self.options = dict(options or {})

    def tables(self) -> list[ShownTable]:
        """Return every table ordered by name. A duplicate name gets a number."""
        found: dict[str, ShownTable] = {}
        paths = sorted(
            {path: None for root in self.paths for path in _tables_under(root)}, key=_name
        )
        for path in paths:
            name, number = _name(path), 2
            while name in found:
                name, number = f"{_name(path)}-{number}", number + 1
            found[name] = ShownTable(name, path)
        return list(found.values())

    def open(self, name: str, *, version: int | None = None) -> Table:
        """Open a table by name, at its newest or an older version.

        A recently used handle is returned again with its caches.
        """
        known = self._opened.get(name)
        if (
            version is None
            and known is not None
            and time.monotonic() - known[1] < self._max_staleness
        ):
            return known[0]
        shown = {table.name: table for table in self.tables()}
        if name not in shown:
            near = nearest(name, shown)
            if near:
                hint = f"Did you mean {near[0]!r}?"
            else:
                hint = f"The tables are {', '.join(shown) or 'none'}."
            raise NotFoundError(f"There is no table {name!r} here.", hint=hint, name=name)
        path = shown[name].path
        if version is not None:
            return Table.open(path, version=whole_number("version", version), options=self.options)
        table = Table.open(path, options=self.options, max_staleness=self._max_staleness)
        if (
            known is not None
            and known[0].version == table.version
            and known[0].metadata.id == table.metadata.id
        ):
            table = known[0]
        self._opened[name] = table, time.monotonic()
        return table

    def folder(self) -> str | None:
        """Return the folder of the tables if it is the only path, else None."""
        if len(self.paths) == 1 and _is_folder_of_tables(self.paths[0]):
            return self.paths[0].rstrip("/")
        return None

    def check(self) -> None:
        """Open every named table, so that a wrong path fails at once. A folder may be empty."""
        for path in self.paths:
            if not _is_folder_of_tables(path):
                Table.open(path, options=self.options)


def _tables_under(root: str) -> Iterator[str]:
    if not _is_folder_of_tables(root):
        yield root
        return
    yield from (str(place) for place in _walk(Path(root), _DEPTH))


def _is_folder_of_tables(path: str) -> bool:
    """Return whether a path is a local folder that is not a table. Remote paths are assumed to be
    tables.
    """
    if "://" in path:
        return False
    folder = Path(check_characters(path))
    if not folder.exists():
        raise NotFoundError(
            f"There is no folder {path!r}.",
            hint="Name a table, or a folder that holds tables.",
            path=path,
        )
    if not folder.is_dir():
        raise InvalidInputError(
            f"{path!r} is a file.", hint="Name the folder of a table.", path=path
        )
    return not (folder / LOG_FOLDER).is_dir()


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    for below in sorted(folder.iterdir()):
        if below.name.startswith((".", "_")) or not below.is_dir():
            continue
        if (below / LOG_FOLDER).is_dir():
            yield below
        elif (
            depth > 1 and not below.is_symlink()
        ):  # a link to a table is one; a link to a folder may lead in a circle
            yield from _walk(below, depth - 1)


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or "table"
