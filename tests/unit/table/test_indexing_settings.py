"""Settings of the index are checked where they are given: a table never holds one that its readers
stumble over.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import ConflictError, InvalidInputError
from indextables.log.transaction import Changes
from indextables.model.conflicts import Operation

SCHEMA = pa.schema(
    [("id", pa.int64()), ("level", pa.string()), ("m", pa.string()), ("day", pa.string())]
)
WRONG = {
    "a column that is not there": ({"indexing.typemap.zz": "text"}, "zz"),
    "a kind that does not exist": ({"indexing.typemap.m": "txt"}, "txt"),
    "a kind that the type cannot have": ({"indexing.typemap.id": "text"}, "id"),
    "a tokenizer that does not exist": ({"indexing.tokenizer.m": "bogus"}, "bogus"),
    "a partition column": ({"indexing.typemap.day": "text"}, "partition column"),
    "default fields that are not there": ({"indexing.defaultSearchFields": "nope"}, "nope"),
}


def rows(level: str = "an error", count: int = 2) -> pa.Table:
    columns = [pa.array(range(count)), [level] * count, ["one two"] * count, ["d"] * count]
    return pa.table([pa.array(c) for c in columns], schema=SCHEMA)


def created(path: Path, **options: str) -> Table:
    given = {f"indexing.typemap.{column}": kind for column, kind in options.items()}
    return Table.create(str(path / "t"), schema=SCHEMA, partition_columns=["day"], options=given)


@pytest.mark.parametrize(("options", "told"), WRONG.values(), ids=WRONG)
def test_a_table_is_not_made_with_them(tmp_path: Path, options: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        Table.create(str(tmp_path / "t"), schema=SCHEMA, partition_columns=["day"], options=options)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(("options", "told"), WRONG.values(), ids=WRONG)
def test_a_table_is_not_given_them(tmp_path: Path, options: dict[str, str], told: str) -> None:
    table = created(tmp_path)
    with pytest.raises(InvalidInputError, match=told):
        table.update_metadata(options=options)
    assert Table.open(table.path).version == 0


def test_how_rows_are_indexed_does_not_change_under_them(tmp_path: Path) -> None:
    table = created(tmp_path)
    table.update_metadata(options={"indexing.typemap.m": "text"})
    table.append(rows())
    with pytest.raises(InvalidInputError, match="'level' is recorded as string"):
        table.update_metadata(options={"indexing.typemap.level": "text"})
    with pytest.raises(InvalidInputError, match="'m' is recorded as text"):
        table.update_metadata(unset=("indexing.typemap.m",))
    assert table.update_metadata(options={"indexing.defaultSearchFields": "m"}) is not None


def test_a_table_that_has_a_wrong_one_can_be_mended(tmp_path: Path) -> None:
    table = created(tmp_path)
    table.append(rows())
    wrong = msgspec.structs.replace(table.metadata, configuration={"indexing.typemap.zz": "text"})
    table.handle.commit(Changes(Operation.METADATA, metadata=wrong))
    with pytest.raises(InvalidInputError, match="zz"):
        Table.open(table.path).search("one")
    Table.open(table.path).update_metadata(unset=("indexing.typemap.zz",))
    assert Table.open(table.path).count(query='level:"an error"') == 2


def test_a_new_column_is_indexed_as_its_first_write_says(tmp_path: Path) -> None:
    path = created(tmp_path, m="text").path
    Table.open(path).append(rows())
    wider = rows().append_column("note", pa.array(["hello there", "good bye"]))
    Table.open(path, options={"indexing.typemap.note": "text"}).append(wider, merge_schema=True)
    assert Table.open(path).count(query="note:hello") == 1
    assert Table.open(path).count(query="m:two") == 4
    Table.open(path).append(wider)
    assert Table.open(path).count(query="note:hello") == 2


def test_a_table_that_is_overwritten_is_indexed_anew(tmp_path: Path) -> None:
    path = created(tmp_path, m="text").path
    Table.open(path).append(rows())
    assert Table.open(path).count(query="level:error") == 0
    Table.open(
        path, options={"indexing.typemap.level": "text", "indexing.typemap.m": "string"}
    ).overwrite(rows())
    assert Table.open(path).count(query="level:error") == 2
    assert Table.open(path).count(query="m:two") == 0
    Table.open(path).append(rows())
    assert Table.open(path).count(query="level:error") == 4


def test_the_index_does_not_change_beside_rows_that_come_in(tmp_path: Path) -> None:
    path = created(tmp_path).path
    settler, writer = Table.open(path), Table.open(path)
    writer.append(rows())
    with pytest.raises(ConflictError, match="rows were added"):
        settler.update_metadata(options={"indexing.typemap.level": "text"})
    assert Table.open(path).count(query='level:"an error"') == 2


@pytest.mark.parametrize("first", ["configured", "overwritten"])
def test_rows_made_for_another_index_do_not_come_in(tmp_path: Path, first: str) -> None:
    path = created(tmp_path).path
    late = Table.open(path)
    options = {"indexing.typemap.level": "text"}
    if first == "configured":
        Table.open(path).update_metadata(options=options)
    else:
        Table.open(path, options=options).overwrite(rows())
    with pytest.raises(ConflictError, match="the index was changed"):
        late.append(rows())
    Table.open(path).append(rows())
    assert Table.open(path).count(query="level:error") == (2 if first == "configured" else 4)


def test_default_fields_may_change_beside_rows_that_come_in(tmp_path: Path) -> None:
    path = created(tmp_path, m="text").path
    settler, writer = Table.open(path), Table.open(path)
    writer.append(rows())
    assert settler.update_metadata(options={"indexing.defaultSearchFields": "m"}) == 2
    assert writer.append(rows()) == 3
