"""A small table and a way to call the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from tests.cli.calls import Call
from tests.cli.rows import ROWS, SCHEMA


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three versions: created, two rows, one row."""
    path = tmp_path_factory.mktemp("cli") / "logs"
    options = {"indexing.typemap.message": "text"}
    table = Table.create(str(path), schema=SCHEMA, partition_columns=["day"], options=options)
    table.append(pa.Table.from_pylist(ROWS[:2], schema=SCHEMA))
    table.append(pa.Table.from_pylist(ROWS[2:], schema=SCHEMA), user_metadata="late")
    return path


@pytest.fixture
def logs(made_once: Path, tmp_path: Path) -> Path:
    """A copy of the table that may be changed."""
    shutil.copytree(made_once, tmp_path / "logs")
    return tmp_path / "logs"


@pytest.fixture
def call() -> Call:
    """Calls a verb in this process."""
    return Call()
