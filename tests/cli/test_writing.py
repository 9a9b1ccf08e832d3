"""create, append, overwrite, delete: from every kind of file, and from what does not fit."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from indextables import Table
from tests.cli.calls import Call
from tests.cli.rows import ROWS, SCHEMA

DATA = pa.Table.from_pylist(ROWS, schema=SCHEMA)
COLUMNS = "day string, level string, ms bigint, message text"


def file_of(folder: Path, kind: str) -> Path:
    path = folder / f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(DATA, path)
    elif kind == "csv":
        pa.csv.write_csv(DATA, path)
    elif kind == "tsv":
        pa.csv.write_csv(DATA, path, pa.csv.WriteOptions(delimiter="\t"))
    elif kind == "arrow":
        with pa.ipc.new_stream(str(path), SCHEMA) as stream:
            stream.write_table(DATA)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_create_from_a_schema(call: Call, tmp_path: Path) -> None:
    told = call(
        "create",
        tmp_path / "t",
        "--schema",
        COLUMNS,
        "--partition-by",
        "day",
        "--name",
        "logs",
        "--json",
    ).json
    assert (told["version"], told["name"], told["partition_columns"]) == (0, "logs", ["day"])
    table = Table.open(str(tmp_path / "t"))
    assert table.schema.field("ms").type == pa.int64()
    assert table.metadata.configuration == {"indexing.typemap.message": "text"}
    call("create", tmp_path / "t", "--schema", COLUMNS, "--partition-by", "day", "--if-not-exists")
    assert "--if-not-exists" in call("create", tmp_path / "t", "--schema", COLUMNS, code=4).err
    other = call("create", tmp_path / "t", "--schema", "a int", "--if-not-exists", code=2).err
    assert "another schema" in other
    assert "--merge-schema" not in other


def test_create_understands_types_and_says_which_it_does_not(call: Call, tmp_path: Path) -> None:
    call(
        "create",
        tmp_path / "t",
        "--schema",
        "`a b` decimal(10,2) not null, at timestamp, ip ip, j json",
    )
    schema = Table.open(str(tmp_path / "t")).schema
    assert (schema.field("a b").type, schema.field("a b").nullable) == (pa.decimal128(10, 2), False)
    assert "decimal(p,s)" in call("create", tmp_path / "u", "--schema", "a strng", code=2).err
    for word, meant in {
        "strng": "string",
        "bool": "boolean",
        "str": "string",
        "int64": "bigint",
    }.items():
        assert (
            f"Did you mean {meant}?"
            in call("create", tmp_path / "u", "--schema", f"a {word}", code=2).err
        )
    assert "position 6" in call("create", tmp_path / "u", "--schema", "a int,b", code=2).err
    assert "--like" in call("create", tmp_path / "u", code=2).err
    assert not (tmp_path / "u").exists()


@pytest.mark.parametrize("kind", ["parquet", "csv", "tsv", "jsonl", "arrow"])
def test_append_from_files(call: Call, tmp_path: Path, kind: str) -> None:
    call("create", tmp_path / "t", "--schema", COLUMNS)
    path = file_of(tmp_path, kind)
    told = call("append", tmp_path / "t", path, path, "--note", "twice", "--json").json
    assert told == {
        "path": str(tmp_path / "t"),
        "version": 1,
        "rows": 6,
        "written": True,
        "blank_lines": 0,
        "unmatched_lines": 0,
    }
    table = Table.open(str(tmp_path / "t"))
    assert table.scan().read_all().slice(0, 3).to_pylist() == DATA.to_pylist()
    assert table.history().to_pylist()[0]["user_metadata"] == "twice"


def test_append_from_standard_input_creates_a_table(call: Call, tmp_path: Path) -> None:
    lines = '{"at":"2026-11-01T10:00:00Z","day":"2026-11-01","n":1,"text":"one"}\n\n{"at":null,"n":2.5,"tags":["a"]}\n'
    words = (
        "append",
        tmp_path / "t",
        "-",
        "--format",
        "jsonl",
        "--create",
        "--text",
        "text",
        "--partition-by",
        "day",
    )
    assert "Version 1" in call(*words, stdin=lines).out
    table = Table.open(str(tmp_path / "t"))
    kinds = {field.name: str(field.type) for field in table.schema}
    assert kinds == {
        "at": "timestamp[us, tz=UTC]",
        "day": "date32[day]",
        "n": "double",
        "text": "string",
        "tags": "list<element: string>",
    }
    assert table.count(query="text:one") == 1
    assert (
        "stays at version" in call("append", tmp_path / "t", "-", "--format", "jsonl", stdin="").out
    )


def test_parts_of_a_column_are_indexed_for_a_new_table(call: Call, tmp_path: Path) -> None:
    call("create", tmp_path / "a", "--schema", "code string", "--substring", "code")
    call(
        "append",
        tmp_path / "b",
        "-",
        "--format",
        "jsonl",
        "--create",
        "--substring",
        "code",
        stdin='{"code":"abc"}\n',
    )
    for name in ("a", "b"):
        configuration = Table.open(str(tmp_path / name)).metadata.configuration
        assert configuration == {"indexing.substring.code": "True"}


@pytest.mark.parametrize("fits", [True, False])
def test_append_goes_into_the_table_that_another_makes_meanwhile(
    call: Call, tmp_path: Path, fits: bool
) -> None:
    first, late, path = tmp_path / "first.jsonl", tmp_path / "late.jsonl", str(tmp_path / "t")
    first.write_text('{"n":1}\n')
    os.mkfifo(late)

    def another() -> None:
        with late.open("w") as rows:  # opened when the rows of the first file have been read
            Table.create(path, schema=pa.schema([("n", pa.int64())]), partition_columns=[]).append(
                pa.table({"n": [0]})
            )
            if not fits:
                Table.open(path).append(pa.table({"n": [0], "more": ["x"]}), merge_schema=True)
            rows.write('{"n":2}\n')

    thread = threading.Thread(target=another)
    thread.start()
    told = call("append", path, first, late, "--create", code=0 if fits else 5)
    thread.join()
    table = Table.open(path)
    assert (table.version, table.count()) == (2, 3 if fits else 2)
    assert ("Version 2" in told.out) == fits
    assert len(list(Path(path).rglob("*.split"))) == table.files().num_rows


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('{"level":"INFO"}\n{"level":\n', "standard input, line 2 is not a JSON object"),
        (
            '{"ms":"many"}\n',
            "standard input, line 1: 'many' does not fit column 'ms', which holds whole numbers (bigint).",
        ),
        ('{"levle":"INFO"}\n', "'levle'"),
        ("[1]\n", "line 1 is not a JSON object"),
    ],
)
def test_lines_that_do_not_fit_are_named(call: Call, logs: Path, lines: str, told: str) -> None:
    assert told in call("append", logs, "-", "--format", "jsonl", stdin=lines, code=2).err
    assert Table.open(str(logs)).version == 2


def test_files_that_cannot_be_read(call: Call, logs: Path, tmp_path: Path) -> None:
    assert "There is no file" in call("append", logs, tmp_path / "no.csv", code=3).err
    assert "--format" in call("append", logs, tmp_path / "rows.xyz", code=2).err
    (tmp_path / "bad.parquet").write_text("not parquet")
    assert (
        "bad.parquet cannot be read" in call("append", logs, tmp_path / "bad.parquet", code=2).err
    )
    (tmp_path / "other.csv").write_text("ms,level\n1,INFO\n")
    (tmp_path / "one.csv").write_text("ms\n1\n")
    assert (
        "other columns"
        in call("append", logs, tmp_path / "one.csv", tmp_path / "other.csv", code=2).err
    )
    assert "--create" in call("append", logs, tmp_path / "one.csv", "--text", "message", code=2).err
    assert Table.open(str(logs)).version == 2


def test_new_columns_are_added_when_asked_for(call: Call, logs: Path, tmp_path: Path) -> None:
    (tmp_path / "wide.jsonl").write_text('{"message":"hello","host":"a1"}\n')
    assert "--merge-schema" in call("append", logs, tmp_path / "wide.jsonl", code=2).err
    call("append", logs, tmp_path / "wide.jsonl", "--merge-schema")
    assert Table.open(str(logs)).count(query="host:a1") == 1


def test_overwrite_replaces_what_matches(call: Call, logs: Path, tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"
    path.write_text('{"day":"2026-11-02","level":"INFO","message":"all clear"}\n')
    refused = call("overwrite", logs, path, "--where", "day = '2026-11-02'", code=9)
    assert "1 of 3 rows" in refused.err
    call("overwrite", logs, path, "--where", "day = '2026-11-02'", "--yes")
    assert (
        sorted(Table.open(str(logs)).scan().read_all().column("message").to_pylist())[0]
        == "all clear"
    )
    assert call("overwrite", logs, path, "--yes", "--json").json["rows"] == 1


def test_delete_shows_its_plan_and_waits_for_consent(call: Call, logs: Path) -> None:
    planned = call("delete", logs, "--where", "level = 'INFO'", "--dry-run", "--json").json
    assert planned["status"] == "dry_run"
    refused = call("delete", logs, "--where", "level = 'INFO'", code=9)
    assert "would be" in refused.err
    assert "--yes" in refused.err
    assert Table.open(str(logs)).count() == 3
    assert (
        call("delete", logs, "--query", "level:INFO", "--yes", "--json").json["deleted_rows"] == 1
    )
    unclear = call("delete", logs, "--yes", code=2).err
    assert "which rows" in unclear
    assert "--where, --query, or both; `indextables overwrite`" in unclear


def test_configure_changes_what_a_table_keeps(call: Call, logs: Path) -> None:
    told = call("configure", logs, "-o", "checkpoint.interval=20", "--name", "shop", "--json").json
    assert (told["version"], told["name"]) == (3, "shop")
    assert told["settings"]["checkpoint.interval"] == "20"
    told = call(
        "configure", logs, "--unset", "spark.indextables.checkpoint.interval", "--json"
    ).json
    assert (told["version"], "checkpoint.interval" in told["settings"]) == (4, False)
    assert (
        "'checkpoint.interval'"
        in call("configure", logs, "--unset", "checkpoint.intervall", code=2).err
    )
    assert call("configure", logs, "--json").json["version"] == 4
    refused = call("configure", logs, "-o", "cache.directoryPath=/tmp/c", code=2).err
    assert "cache.directoryPath cannot be stored in table metadata" in " ".join(refused.split())
