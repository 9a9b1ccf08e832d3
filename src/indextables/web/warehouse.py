"""The tables that are shown: those that were named, and all tables of folders that were named, each under a name of its own.

A folder is looked through when it is asked for, so a table that was made a moment ago is there.
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
"""Seconds for which a version may be shown that is not the newest any more."""


class ShownTable(Struct, frozen=True):
    """A table by the name it has in addresses."""

    name: str
    path: str


class Warehouse:
    """Tables by name. It opens them for reading; nothing here changes one."""

    def __init__(
        self, paths: Sequence[str], options: Mapping[str, object] | None = None, *, max_staleness: float = _STALENESS
    ) -> None:
        self._max_staleness = max_staleness
        self._opened: dict[str, tuple[Table, float]] = {}
        self.paths = tuple(paths)
        self.options = dict(options or {})

    def tables(self) -> list[ShownTable]:
        """Every table, in the order of their names; of two with one name the second has a number."""
        found: dict[str, ShownTable] = {}
        paths = sorted({path: None for root in self.paths for path in _tables_under(root)}, key=_name)
        for path in paths:
            name, number = _name(path), 2
            while name in found:
                name, number = f"{_name(path)}-{number}", number + 1
            found[name] = ShownTable(name, path)
        return list(found.values())

    def open(self, name: str, *, version: int | None = None) -> Table:
        """A table by its name, at its newest version or at an older one.

        A handle that was looked at a moment ago is handed out again, with all that it has worked out for its version.
        """
        known = self._opened.get(name)
        if version is None and known is not None and time.monotonic() - known[1] < self._max_staleness:
            return known[0]
        shown = {table.name: table for table in self.tables()}
        if name not in shown:
            near = nearest(name, shown)
            hint = f"Did you mean {near[0]!r}?" if near else f"The tables are {', '.join(shown) or 'none'}."
            raise NotFoundError(f"There is no table {name!r} here.", hint=hint, name=name)
        path = shown[name].path
        if version is not None:
            return Table.open(path, version=whole_number("version", version), options=self.options)
        table = Table.open(path, options=self.options, max_staleness=self._max_staleness)
        if known is not None and known[0].version == table.version and known[0].metadata.id == table.metadata.id:
            table = known[0]
        self._opened[name] = table, time.monotonic()
        return table

    def check(self) -> None:
        """Open every table that was named itself, so that a slip is told at once; a folder may still be empty."""
        for path in self.paths:
            if not _is_folder_of_tables(path):
                Table.open(path, options=self.options)


def _tables_under(root: str) -> Iterator[str]:
    if not _is_folder_of_tables(root):
        yield root
        return
    yield from (str(place) for place in _walk(Path(root), _DEPTH))


def _is_folder_of_tables(path: str) -> bool:
    """Whether a path is a local folder that is no table; stores elsewhere are taken at their word."""
    if "://" in path:
        return False
    folder = Path(check_characters(path))
    if not folder.exists():
        raise NotFoundError(
            f"There is no folder {path!r}.", hint="Name a table, or a folder that holds tables.", path=path
        )
    if not folder.is_dir():
        raise InvalidInputError(f"{path!r} is a file.", hint="Name the folder of a table.", path=path)
    return not (folder / LOG_FOLDER).is_dir()


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    for below in sorted(folder.iterdir()):
        if below.name.startswith((".", "_")) or not below.is_dir():
            continue
        if (below / LOG_FOLDER).is_dir():
            yield below
        elif depth > 1 and not below.is_symlink():  # a link to a table is one; a link to a folder may lead in a circle
            yield from _walk(below, depth - 1)


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or "table"
