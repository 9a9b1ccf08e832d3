"""A table that is made for rows: it is there with them, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import (
    ConflictError,
    InvalidInputError,
    SchemaMismatchError,
    TableExistsError,
)
from indextables.operations.first_write import create_with_rows
from indextables.operations.write_request import WriteRequest

ROWS = pa.record_batch({"id": [1, 2]})


def create(
    path: str, data: Any, *, exist_ok: bool = False, user_metadata: str | None = None, **how: Any
) -> tuple[Table, int | None]:
    """The new table, and the version of its rows."""
    request = WriteRequest(exist_ok=exist_ok, user_metadata=user_metadata)
    handle, version = create_with_rows(path, data, request=request, **how)
    return Table(handle), version


def test_the_table_is_created_and_then_filled(tmp_path: Path) -> None:
    table, version = create(str(tmp_path / "t"), ROWS, user_metadata="first")
    assert (version, table.count(), table.history().column("version").to_pylist()) == (1, 2, [1, 0])
    empty, version = create(str(tmp_path / "u"), ROWS.slice(0, 0))
    assert (version, empty.version) == (None, 0)


def test_another_table_that_was_made_meanwhile_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "t"

    def rows() -> Iterator[pa.RecordBatch]:
        yield ROWS
        Table.create(str(path), schema=ROWS.schema)

    with pytest.raises(TableExistsError):
        create(str(path), rows())
    assert (Table.open(str(path)).version, Table.open(str(path)).count()) == (0, 0)
    assert [
        file for file in path.rglob("*") if file.is_file() and "_transaction_log" not in file.parts
    ] == []


def made_meanwhile(path: Path, **made: Any) -> Iterator[pa.RecordBatch]:
    """Rows that take so long that another writer makes the table."""
    yield ROWS
    Table.create(str(path), **{"schema": ROWS.schema, **made}).append(
        pa.table(
            {name: pa.array([0], pa.int64()) for name in made.get("schema", ROWS.schema).names}
        )
    )


def splits_of(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*.split")}


def test_rows_go_into_the_table_that_another_made_if_that_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table, version = create(str(path), made_meanwhile(path), exist_ok=True)
    assert (version, table.count(), Table.open(str(path)).count()) == (2, 3, 3)


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (
            {
                "partition_columns": ["id"],
                "schema": pa.schema([("id", pa.int64()), ("b", pa.int64())]),
            },
            ConflictError,
        ),
        ({"schema": pa.schema([("id", pa.int64()), ("b", pa.int64())])}, ConflictError),
        ({"schema": pa.schema([("b", pa.int64())])}, SchemaMismatchError),
    ],
)
def test_rows_for_another_table_than_the_one_that_was_made_are_refused(
    tmp_path: Path, made: dict[str, Any], error: type[Exception]
) -> None:
    path = tmp_path / "t"
    with pytest.raises(error):
        create(str(path), made_meanwhile(path, **made), exist_ok=True)
    table = Table.open(str(path))
    assert (table.version, table.count()) == (1, 1)
    assert splits_of(path) == set(table.files().column("path").to_pylist())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"indexing.nonindexed": "part"}, "partition column"),
        ({"indexing.defaultSearchFields": "nope"}, "nope"),
        ({"indexing.typemap.id": "text"}, "id"),
    ],
)
def test_what_the_table_will_be_is_checked_before_a_row_is_read(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    rows = pa.record_batch({"id": [1, 2], "part": [1, 2]})

    def batches() -> Iterator[pa.RecordBatch]:
        yield rows
        raise AssertionError("the rows were read")

    with pytest.raises(InvalidInputError, match=message):
        create(str(tmp_path / "t"), batches(), partition_columns=["part"], options=options)
    assert list(tmp_path.rglob("*")) == []
