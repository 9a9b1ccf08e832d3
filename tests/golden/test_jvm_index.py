"""How columns are indexed in a table of IndexTables for the JVM: told by its splits, and never
changed unasked.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

from indextables import Table
from indextables.errors import InvalidInputError
from indextables.model.file_list import to_actions
from indextables.operations.verify import WARNING
from indextables.splits.format.source import open_source
from indextables.splits.index.live_indexing import mapping_columns, same_terms
from indextables.splits.read.table_split import open_split
from indextables.storage.local import LocalStore
from tests.golden.golden_tables import GoldenTable, for_each_jvm_table, for_each_table, jvm_table
from tests.support.jvm_copies import copied

ROW = {"id": 77_000, "message": "Timeout again"}


def more(table: Table, **values: object) -> pa.Table:
    row = {**ROW, **values}
    known = set(table.schema.names)
    return pa.Table.from_pylist(
        [row],
        pa.schema([table.schema.field(n) if n in known else pa.field(n, pa.string()) for n in row]),
    )


def found(table: Table, query: str) -> list[int]:
    ids: list[int] = sorted(
        Table.open(table.path).search(query, columns=["id"]).column("id").to_pylist()
    )
    return ids


@for_each_jvm_table
def test_the_log_tells_what_the_splits_hold(table: GoldenTable) -> None:
    _check_told(table)


@for_each_table
def test_the_log_of_a_golden_table_tells_what_the_splits_hold(table: GoldenTable) -> None:
    _check_told(table)


def _check_told(table: GoldenTable) -> None:
    opened = Table.open(str(table.path))
    body = pa.schema([f for f in opened.schema if f.name not in opened.partition_columns])
    files = opened.files()
    registry = opened.handle.snapshot.schema_registry
    for row in files.select(["path", "size", "doc_mapping_ref"]).to_pylist():
        if not (table.path / row["path"]).exists():
            continue
        reader = open_split(
            open_source(LocalStore(str(table.path)), row["path"], size=row["size"]), body
        )
        told = mapping_columns(registry[row["doc_mapping_ref"]], body)
        for column in reader.mapping.columns:
            assert same_terms(told[column.name], column), (column, told[column.name])
            assert told[column.name].record == column.record


def test_every_way_of_writing_keeps_the_words(tmp_path: Path) -> None:
    table = copied(jvm_table("t07_merged"), tmp_path)
    before = found(table, "message:timeout")
    assert before
    table.append(more(table))
    assert found(table, "message:timeout") == [*before, 77_000]
    table.overwrite(more(table, message="A timeout it was"), where="id = 77000")
    assert found(table, "message:timeout") == [*before, 77_000]
    table.delete(where=f"id = {before[0]}")
    assert found(table, "message:timeout") == [*before[1:], 77_000]
    table.merge(target_size="100M")
    assert found(table, "message:timeout") == [*before[1:], 77_000]
    table.append(more(table, id=77_001, extra="x"), merge_schema=True)
    assert found(table, "message:timeout") == [*before[1:], 77_000, 77_001]
    table.restore(version=table.version - 1)
    table.append(more(table, id=77_002))
    assert found(table, "message:timeout") == [*before[1:], 77_000, 77_002]
    table.overwrite(more(table, id=1))
    assert found(table, "message:timeout") == [1]
    assert Table.open(table.path).verify(full=True).findings == ()


def test_a_rebuilt_log_knows_the_words(tmp_path: Path) -> None:
    table = copied(jvm_table("t13_checkpointed"), tmp_path)
    before, both = found(table, "message:timeout"), found(table, "message:(timeout AND user)")
    assert both != found(table, "message:(timeout OR user)")
    shutil.rmtree(Path(table.path) / "_transaction_log")
    Table.repair(table.path)
    table = Table.open(table.path)
    assert found(table, "message:(timeout user)") == both
    table.append(more(table))
    table.merge(target_size="100M")
    assert found(table, "message:timeout") == [*before, 77_000]


def test_settings_that_say_what_the_splits_say_are_accepted(tmp_path: Path) -> None:
    table = copied(jvm_table("t07_merged"), tmp_path)
    table.update_metadata(name="renamed")
    table.update_metadata(options={"indexing.typemap.message": "text"})
    with pytest.raises(InvalidInputError, match="message"):
        table.update_metadata(options={"indexing.typemap.message": "string"})
    with pytest.raises(InvalidInputError, match="level"):
        table.update_metadata(options={"indexing.typemap.level": "text"})


def in_dispute(tmp_path: Path) -> tuple[Table, list[int]]:
    """A table whose words an earlier release turned into whole values in the rows that it appended."""
    table = copied(jvm_table("t07_merged"), tmp_path)
    other = Table.create(str(tmp_path / "other"), schema=table.schema)
    other.append(more(other))
    (action,) = other.files().to_pylist()
    source = tmp_path / "other" / action["path"]
    (tmp_path / "t07_merged" / "splits").mkdir()
    shutil.copy(source, tmp_path / "t07_merged" / action["path"])
    before = found(table, "message:timeout")
    written = to_actions(other.files())[0]
    mapping = other.handle.snapshot.schema_registry[str(written.doc_mapping_ref)]
    with table.transaction() as changes:
        changes.add(replace(written, doc_mapping_ref=None, doc_mapping_json=mapping))
    return Table.open(table.path), before


def test_splits_that_disagree_are_reported_and_not_merged(tmp_path: Path) -> None:
    table, before = in_dispute(tmp_path)
    (finding,) = table.verify().findings
    assert finding.severity == WARNING
    assert "'message'" in finding.message
    assert "string (raw, basic)" in finding.message
    assert "text (default, position)" in finding.message
    with pytest.raises(InvalidInputError, match="not decided"):
        table.append(more(table, id=5_000))
    table.merge(target_size="100M")
    assert found(table, "message:timeout") == before
    assert found(table, 'message:"Timeout again"') == [77_000]
    assert Table.open(table.path).count(where="id = 77000") == 1


def test_a_dispute_is_settled_by_the_configuration(tmp_path: Path) -> None:
    table, before = in_dispute(tmp_path)
    with pytest.raises(InvalidInputError, match="cannot be ip"):
        table.update_metadata(options={"indexing.typemap.message": "ip"})
    table.update_metadata(options={"indexing.typemap.message": "text"})
    table.append(more(table, id=77_001))
    table.merge(target_size="100M")
    table = Table.open(table.path)
    assert found(table, "message:timeout") == [*before, 77_000, 77_001]
    assert table.verify(full=True).findings == ()
