"""`table.alter`: what is refused changes nothing; settings, partitions, states, repair and other
handles follow the names.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from indextables import Table
from indextables.cli.app import app
from indextables.errors import ConflictError, IndexTablesError, InvalidInputError, UnsupportedError
from indextables.model import protocol as protocols

SCHEMA = pa.schema(
    [
        ("day", pa.int32()),
        ("id", pa.int32()),
        ("msg", pa.string()),
        ("p", pa.struct([("user", pa.string())])),
        ("tags", pa.list_(pa.struct([("k", pa.string())]))),
    ]
)


def made(path: Path, **options: object) -> Table:
    table = Table.create(
        str(path),
        schema=SCHEMA,
        partition_columns=["day"],
        options={"indexing.typemap.msg": "text", **options},
    )
    for n in range(2):
        row = {"day": n, "id": n, "msg": f"timeout {n}", "p": {"user": "bob"}, "tags": [{"k": "x"}]}
        table.append(pa.Table.from_pylist([row], schema=SCHEMA))
    return table


REFUSED: list[tuple[Callable[[Table], Any], str]] = [
    (lambda t: t.alter.rename_column("nothing", "x"), "no column 'nothing'"),
    (lambda t: t.alter.rename_column("p.nothing", "x"), "no column 'nothing' in 'p'"),
    (lambda t: t.alter.rename_column("id", "MSG"), "a column 'msg' already"),
    (lambda t: t.alter.rename_column("id", "_score"), "reserved"),
    (lambda t: t.alter.rename_column("id", ""), "name"),
    (lambda t: t.alter.drop_column("day"), "partition column"),
    (lambda t: t.alter.drop_column("p.user"), "last column"),
    (lambda t: t.alter.add_column("ID", "int"), "a column 'id' already"),
    (lambda t: t.alter.add_column("x", "nonsense"), "nonsense"),
    (lambda t: t.alter.add_column("x", 5), "Arrow type"),
    (lambda t: t.alter.add_column("x", "int", default="many"), "no int"),
    (lambda t: t.alter.add_column("x", pa.list_(pa.int32()), default=[1]), "no default"),
    (lambda t: t.alter.add_column("x", "int", after="nowhere"), "'nowhere'"),
    (lambda t: t.alter.add_column("x", "int", first=True, after="id"), "not both"),
    (lambda t: t.alter.add_column("x", "int", options={"indexing.typemap.x": "text"}), "x"),
    (lambda t: t.alter.add_column("id.x", "int"), "struct"),
    (lambda t: t.alter.widen_column("id", "smallint"), "cannot become"),
    (lambda t: t.alter.widen_column("msg", "int"), "cannot become"),
    (lambda t: t.alter.widen_column("day", "double"), "partition column"),
    (lambda t: t.alter.widen_column("id", "decimal(9,0)"), "cannot become"),
    (lambda t: t.alter.reorder(["id", "id"]), "twice"),
    (lambda t: t.alter.add_columns({"fresh": "int", "ID": "int"}), "'id' already"),
    (lambda t: t.alter.add_columns({"fresh": "int", "FRESH": "int"}), "'fresh' already"),
    (lambda t: t.alter.add_columns({}), "mapping of names"),
    (lambda t: t.alter.add_columns({"fresh": "int"}, comments={"other": "x"}), "not added"),
    (lambda t: t.alter.drop_columns(["msg", "nothing"]), "no column"),
    (lambda t: t.alter.drop_columns(["msg", "Msg"]), "once each"),
    (lambda t: t.alter.drop_columns(["id", "msg", "p", "tags"]), "only column"),
    (lambda t: t.alter.drop_columns([]), "at least one"),
    (lambda t: t.alter.reorder(["nothing"]), "no column"),
    (lambda t: t.overwrite(pa.table({"x": [1]}), overwrite_schema=True), "partition column 'day'"),
    (
        lambda t: t.overwrite(pa.table({"x": [1]}), overwrite_schema=True, where="day = 1"),
        "all rows",
    ),
    (
        lambda t: t.overwrite(pa.table({"x": [1]}), overwrite_schema=True, merge_schema=True),
        "not both",
    ),
]


@pytest.mark.parametrize(("change", "words"), REFUSED)
def test_what_cannot_be_done_raises_and_changes_nothing(
    tmp_path: Path, change: Callable[[Table], Any], words: str
) -> None:
    table = made(tmp_path / "t")
    with pytest.raises(IndexTablesError, match=words):
        change(table)
    assert Table.open(table.path).version == table.version == 2
    assert Table.open(table.path).protocol == protocols.NEW_TABLE_PROTOCOL


def test_settings_and_partitions_follow_the_names(tmp_path: Path) -> None:
    table = made(tmp_path / "t", **{"merge.clusterBy": "id", "indexing.defaultSearchFields": "msg"})
    table.alter.rename_column("msg", "message")
    table.alter.rename_column("id", "msg")
    table.alter.rename_column("day", "date")
    configuration = dict(table.metadata.configuration or {})
    assert configuration["indexing.typemap.message"] == "text"
    assert (configuration["merge.clusterBy"], configuration["indexing.defaultSearchFields"]) == (
        "msg",
        "message",
    )
    assert table.partition_columns == ["date"]
    table = Table.open(table.path)
    assert table.search("timeout", columns=["msg", "date"]).num_rows == 2
    assert table.files(where="date = 1").num_rows == 1
    assert table.inspect.partitions().column("partition").to_pylist() == [
        [("date", "0")],
        [("date", "1")],
    ]
    row = {"date": 1, "msg": 9, "message": "more timeout", "p": {"user": "al"}, "tags": []}
    table.append(pa.Table.from_pylist([row], schema=table.schema))
    assert table.merge(where="date = 1").merged_files == 2
    assert table.drop_partitions("date = 0").splits_removed == 1
    assert sorted(table.scan(columns=["msg"]).read_all().column("msg").to_pylist()) == [1, 9]
    with pytest.raises(InvalidInputError, match=r"merge.clusterBy names 'msg'"):
        table.alter.drop_column("msg")
    table.update_metadata(unset=("merge.clusterBy",))
    table.alter.drop_column("msg")
    with pytest.raises(InvalidInputError, match="date = 1 AND contains"):
        table.overwrite(table.scan().read_all(), where="date = 1 AND message LIKE '%more%'")
    table.overwrite(
        table.scan(where="message LIKE '%more%'").read_all(),
        where="date = 1 AND message LIKE '%more%'",
    )
    assert table.count() == 2


def test_the_mapping_survives_states_repair_and_older_releases_refuse_it(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.alter.rename_column("msg", "message")
    table.append(pa.table({"day": pa.array([5], pa.int32()), "message": ["a timeout"]}))
    table.compact()
    table.alter.rename_column("p.user", "name")
    assert set(table.protocol.reader_features or ()) - set(protocols.FEATURES) == {"columnMapping"}
    again = Table.open(table.path)
    assert again.count(query="message:timeout") == 3
    shutil.rmtree(tmp_path / "t" / "_transaction_log")
    Table.repair(table.path)
    mended = Table.open(table.path)
    assert mended.schema.names == ["day", "id", "message", "p", "tags"]
    assert mended.count(query="message:timeout") == 3
    assert "columnMapping" in (mended.protocol.reader_features or ())


def test_a_reader_without_the_feature_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path / "t")
    table.alter.rename_column("msg", "message")
    monkeypatch.setattr(protocols, "_KNOWN_FEATURES", frozenset(protocols.FEATURES))
    with pytest.raises(UnsupportedError, match="columnMapping"):
        Table.open(table.path, options={"transaction.cache.enabled": False}).count()


def test_rows_made_for_other_columns_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    other = Table.open(table.path)
    table.alter.rename_column("msg", "message")
    with pytest.raises(ConflictError):
        other.append(pa.table({"day": pa.array([1], pa.int32()), "msg": ["x"]}))
    assert table.refresh().count() == 2


def test_not_null_is_promised_only_where_it_holds(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.alter.set_nullable("id", False)
    with pytest.raises(IndexTablesError, match="id"):
        table.append(pa.table({"day": pa.array([1], pa.int32()), "msg": ["x"]}))
    table.alter.set_nullable("id", True)
    table.append(pa.table({"day": pa.array([1], pa.int32()), "msg": ["x"]}))
    with pytest.raises(InvalidInputError, match=r"1 null"):
        table.alter.set_nullable("id", False)
    table.alter.set_comment("id", "the number")
    assert '"comment":"the number"' in table.metadata.schema_string


def test_inside_of_lists(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.alter.rename_column("tags.element.k", "key")
    table.alter.add_column("tags.element.v", "string")
    assert table.scan(columns=["tags"]).read_all().to_pylist()[0] == {
        "tags": [{"key": "x", "v": None}]
    }


def test_the_command(tmp_path: Path) -> None:
    runner = CliRunner()
    table = made(tmp_path / "t")
    for words in (
        ["rename", "msg", "message"],
        ["add", "region", "string", "--default", "eu", "-o", "indexing.typemap.region=string"],
        ["widen", "id", "bigint"],
        ["reorder", "region,id"],
        ["nullable", "id", "true"],
        ["comment", "id", "a number"],
        ["drop", "tags"],
    ):
        outcome = runner.invoke(app, ["alter", table.path, *words, "--json"])
        assert outcome.exit_code == 0, outcome.output
    last = json.loads(outcome.output)
    assert list(last["columns"]) == ["region", "id", "day", "message", "p"]
    assert Table.open(table.path).count(query="region:eu") == 2


def test_a_dropped_name_comes_back_as_another_column(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.alter.drop_column("msg")
    table.alter.add_column("msg", "string")
    assert table.scan(columns=["msg"]).read_all().column("msg").null_count == 2
    table.alter.drop_column("msg")
    table.append(pa.table({"day": pa.array([7], pa.int32()), "msg": ["again"]}), merge_schema=True)
    table.merge()
    assert sorted(map(str, table.scan(columns=["msg"]).read_all().column("msg").to_pylist())) == [
        "None",
        "None",
        "again",
    ]
    assert Table.open(table.path, version=2).count(query="msg:timeout") == 2


def test_update_upsert_and_delete_follow_the_names(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    for before, after in (("msg", "x"), ("id", "msg"), ("x", "id"), ("day", "date")):
        table.alter.rename_column(before, after)
    assert table.update(set={"id": "upper(id)"}, where="msg = 1").updated_rows == 1
    assert table.count(query="id:TIMEOUT") == 2
    rows = pa.table(
        {
            "msg": pa.array([1, 8], pa.int32()),
            "date": pa.array([1, 2], pa.int32()),
            "id": ["new", "newer"],
        }
    )
    report = table.upsert(rows, on=["msg"])
    assert (report.updated_rows, report.inserted_rows) == (1, 1)
    by_key = {row["msg"]: row for row in table.scan().read_all().to_pylist()}
    assert by_key[1] == {
        "date": 1,
        "msg": 1,
        "id": "new",
        "p": {"user": "bob"},
        "tags": [{"k": "x"}],
    }
    assert by_key[8]["p"] is None
    assert table.delete(query="id:newer").deleted_rows == 1
    changes = table.changes(table.version, columns=["msg", "id"]).read_all().to_pylist()
    assert [(row["_change_type"], row["msg"], row["id"]) for row in changes] == [
        ("delete", 8, "newer")
    ]
    table.to_parquet_view(str(tmp_path / "plain"))
    plain = pa.parquet.read_table(tmp_path / "plain")
    assert sorted(plain.column("msg").to_pylist()) == [0, 1]
    assert "date" in plain.column_names
    assert sorted(table.scan(columns=["msg"]).read_all().column("msg").to_pylist()) == [0, 1]


def test_several_columns_are_one_version(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    assert (
        table.alter.add_columns({"a": "int", "p.deep": pa.string()}, comments={"a": "first"}) == 3
    )
    assert table.alter.add_columns(pa.schema([("b", pa.int64()), ("c", pa.string())])) == 4
    assert table.schema.names[-3:] == ["a", "b", "c"]
    assert {"user", "deep"} <= {field.name for field in table.schema.field("p").type}
    table.update(set={"a": "1", "b": "2"}, where="id = 1")
    assert table.scan(where="a = 1", columns=["b", "c"]).read_all().to_pylist() == [
        {"b": 2, "c": None}
    ]
    before = table.version
    assert table.alter.drop_columns(["a", "p.deep", "b"]) == before + 1
    table.alter.add_columns({"a": "string", "b": "string"})
    assert table.version == before + 2
    assert table.count(where="a IS NULL AND b IS NULL") == table.count() == 2
    names = [(step["operation_parameters"] or {}) for step in table.history(limit=2).to_pylist()]
    assert ["addColumns" in str(names[0]), "dropColumns" in str(names[1])] == [True, True]
