"""A table with many splits of IndexTables for the JVM: copies of a golden table's splits under new
names, added to one log.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from msgspec.structs import replace

from indextables import Table
from indextables.model.file_list import to_actions
from tests.golden.golden_tables import GoldenTable


def many_splits(table: GoldenTable, folder: Path, copies: int) -> Table:
    """A copy of a golden table in which every live split is there so many times, the copies as hard
    links.
    """
    place = folder / table.path.name
    shutil.copytree(table.path, place)
    for path in place.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    opened = Table.open(str(place))
    with opened.transaction() as changes:
        for action in to_actions(opened.files()):
            source = place / action.path
            for number in range(copies - 1):
                name = f"{action.path.removesuffix('.split')}-{number}.split"
                os.link(source, place / name)
                changes.add(replace(action, path=name))
    return Table.open(str(place))
