"""A table that is made for rows: it is there with them, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import TableExistsError
from indextables.table.first_rows import create_with_rows

ROWS = pa.record_batch({"id": [1, 2]})


def test_the_table_is_created_and_then_filled(tmp_path: Path) -> None:
    table, version = create_with_rows(str(tmp_path / "t"), ROWS, user_metadata="first")
    assert (version, table.count(), table.history().column("version").to_pylist()) == (1, 2, [1, 0])
    empty, version = create_with_rows(str(tmp_path / "u"), ROWS.slice(0, 0))
    assert (version, empty.version) == (None, 0)


def test_another_table_that_was_made_meanwhile_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "t"

    def rows() -> Iterator[pa.RecordBatch]:
        yield ROWS
        Table.create(str(path), schema=ROWS.schema)

    with pytest.raises(TableExistsError):
        create_with_rows(str(path), rows())
    assert (Table.open(str(path)).version, Table.open(str(path)).count()) == (0, 0)
    assert [file for file in path.rglob("*") if file.is_file() and "_transaction_log" not in file.parts] == []
