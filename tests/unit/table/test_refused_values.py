"""Values that the log cannot hold are refused before anything is written, and the table stays as it
was.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import AddAction, Table
from indextables.errors import InvalidInputError
from indextables.log.transaction import Changes
from indextables.operations.table_write import plan_write
from indextables.operations.write_request import WriteRequest

ROWS = pa.table({"id": [1, 2]})
BAD_TXNS = [
    ("a", "b"),
    ("c", 1.5),
    ("c", True),
    ("c", -1),
    ("c", 2**63),
    ("c", None),
    ("", 1),
    ("indextables.purge", 10**6),
    ("indextables.", 1),
    (5, 1),
    ("a",),
    "abc",
    5,
]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(str(tmp_path / "t"), schema=ROWS.schema)


def files_of(table: Table) -> set[str]:
    return {str(path) for path in Path(table.path).rglob("*") if path.is_file()}


@pytest.mark.parametrize("txn", BAD_TXNS, ids=repr)
def test_a_transaction_id_that_is_none_is_refused_before_anything_is_written(
    table: Table, txn: Any
) -> None:
    before = files_of(table)
    with pytest.raises(InvalidInputError, match="txn"):
        table.append(ROWS, txn=txn)
    with pytest.raises(InvalidInputError, match="txn"):
        table.transaction(txn=txn)
    with pytest.raises(InvalidInputError, match="txn"):
        plan_write(table.handle, ROWS.schema, WriteRequest(txn=txn))
    assert files_of(table) == before


def test_the_message_says_what_a_transaction_id_is(table: Table) -> None:
    with pytest.raises(InvalidInputError) as caught:
        table.append(ROWS, txn=("a", "b"))  # type: ignore[arg-type]
    assert caught.value.message == "The version of txn is a whole number from 0 up, not 'b' (str)."


def test_what_numpy_and_json_make_of_a_transaction_id_is_understood(table: Table) -> None:
    number = pa.array([7]).to_numpy()[0]
    assert table.append(ROWS, txn=("job", number)) == 1
    assert table.append(ROWS, txn=["job", 7]) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("told", [5, object(), "\ud800"], ids=["number", "object", "surrogate"])
def test_user_metadata_that_is_no_text_is_refused_and_leaves_no_split(
    table: Table, told: Any
) -> None:
    before = files_of(table)
    with pytest.raises(InvalidInputError):
        table.append(ROWS, user_metadata=told)
    assert files_of(table) == before


@pytest.mark.parametrize("given", [{"name": 5}, {"description": ["x"]}], ids=repr)
def test_a_name_that_is_no_text_is_refused(
    table: Table, tmp_path: Path, given: dict[str, Any]
) -> None:
    with pytest.raises(
        InvalidInputError, match=r"version 1 of .*cannot be recorded: Expected `str"
    ):
        table.update_metadata(**given)
    with pytest.raises(InvalidInputError, match="cannot be recorded"):
        Table.create(str(tmp_path / "other"), schema=ROWS.schema, **given)
    assert not list((tmp_path / "other").rglob("*.json"))
    assert Table.open(table.path).version == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": "x"},
        {"size": True},
        {"size": 2**63},
        {"num_records": 1.5},
        {"stats": 5},
        {"tags": {"a": 1}},
        {"path": 5},
    ],
    ids=repr,
)
def test_a_split_of_the_wrong_types_is_refused_where_it_is_added(
    table: Table, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInputError, match=r"'add' of .* cannot be recorded: Expected"):
        table.transaction().add(AddAction(**{"path": "a.split", "size": 1, **wrong}))


def test_something_else_than_a_split_is_refused(table: Table) -> None:
    with pytest.raises(InvalidInputError, match=r"A split is an AddAction, not .a\.split."):
        table.transaction().add("a.split")  # type: ignore[arg-type]


def test_partition_values_are_recorded_as_the_texts_that_readers_see(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.int32())])
    table = Table.create(str(tmp_path / "t"), schema=schema, partition_columns=["day"])
    with table.transaction(check_splits=False) as tx:
        tx.add(AddAction(path="a.split", size=1, partition_values={"day": 5}))  # type: ignore[dict-item]
    assert dict(table.files().column("partition_values").to_pylist()[0]) == {"day": "5"}


def test_no_commit_can_write_what_cannot_be_read(table: Table) -> None:
    before = files_of(table)
    with pytest.raises(
        InvalidInputError, match=r"'commitInfo' of version 1 of .* cannot be recorded"
    ):
        table.handle.commit(Changes("APPEND", keep_empty=True, engine_info=5))  # type: ignore[arg-type]
    assert files_of(table) == before
