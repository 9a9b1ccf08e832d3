"""Copies of tables of another engine."""

from __future__ import annotations

import shutil
from pathlib import Path

from indextables import Table
from tests.golden.golden_tables import GoldenTable


def copied(table: GoldenTable, tmp_path: Path) -> Table:
    shutil.copytree(table.path, tmp_path / table.path.name)
    return Table.open(str(tmp_path / table.path.name))
