"""What hands type by habit or by mistake: never a wrong answer without a word, and an error that
names the slip.
"""

from __future__ import annotations

import datetime as dt
import multiprocessing
import shutil
import time
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

import indextables
from indextables import Table
from indextables.errors import (
    IndexTablesError,
    InvalidInputError,
    TableNotFoundError,
    UnknownOptionError,
    VersionNotFoundError,
)
from indextables.log.log_files import version_path
from indextables.model.actions import AddAction
from indextables.table import verify_table
from indextables.web.report import write_report
from indextables.web.warehouse import Warehouse
from tests.support.rows import ids, rows, table_of

KINDS = (
    {"indexing.typemap.message": "none"},
    {"spark.indextables.indexing.typemap.message": "string"},
)


@pytest.mark.parametrize(
    "options", [*KINDS, {"indexing.nonindexed": "message"}, {"indexing.tokenizer.message": "raw"}]
)
def test_an_option_does_not_change_how_rows_that_are_there_are_found(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """A session has such options for every table with a column of that name."""
    table = table_of(tmp_path, appends=2)
    expected = table.search("message:timeout")["id"].to_pylist()
    assert expected
    other = Table.open(str(tmp_path), options=options)
    assert other.count(query="message:timeout") == len(expected)
    assert other.search("timeout", limit=100).num_rows == len(expected)
    assert other.delete(query="NOT message:timeout", dry_run=True).deleted_rows == 20 - len(
        expected
    )
    other.delete(query="NOT message:timeout")
    assert ids(Table.open(str(tmp_path))) == sorted(expected)


@pytest.mark.parametrize("names", [["id", "message", "message"], ["id", "ID", "message"]])
def test_two_columns_of_one_name_are_refused(tmp_path: Path, names: list[str]) -> None:
    table = table_of(tmp_path, appends=1)
    columns = {"id": pa.array([1]), "ID": pa.array([2]), "message": pa.array(["m"])}
    data = pa.Table.from_arrays([columns[name] for name in names], names=names)
    for merge_schema in (False, True):
        with pytest.raises(InvalidInputError, match="same name"):
            table.append(data, merge_schema=merge_schema)
    assert ids(Table.open(str(tmp_path))) == list(range(10))


def with_a_hole(path: Path) -> list[dt.datetime]:
    """A table of versions 0 to 6 without the file of version 3, and a moment after each of the
    versions 1 to 5.
    """
    table = table_of(path, options={"checkpoint.interval": 1_000})
    moments = []
    for n in range(5):
        time.sleep(0.03)
        table.append(rows([n]))
        time.sleep(0.03)
        moments.append(dt.datetime.now(dt.UTC))
    table.append(rows([5]))
    table.checkpoint()
    (path / version_path(3)).unlink()
    return moments


def test_a_moment_whose_version_is_gone_is_not_answered_by_an_older_one(tmp_path: Path) -> None:
    moments = with_a_hole(tmp_path)
    assert Table.open(str(tmp_path), timestamp=moments[0]).version == 1
    of_version_2 = Table.open(str(tmp_path)).history()["timestamp"].to_pylist()[-3]
    assert Table.open(str(tmp_path), timestamp=of_version_2).version == 2
    for moment in moments[1:]:  # nobody knows any more when version 3 came
        with pytest.raises(VersionNotFoundError, match="versions 3 to 5"):
            Table.open(str(tmp_path), timestamp=moment)
        with pytest.raises(VersionNotFoundError):
            Table.open(str(tmp_path)).restore(timestamp=moment)
    assert Table.open(str(tmp_path), timestamp=dt.datetime.now(dt.UTC)).version == 6


def test_verify_tells_of_a_hole_in_the_versions(tmp_path: Path) -> None:
    with_a_hole(tmp_path)
    findings = Table.open(str(tmp_path)).verify().findings
    assert [f.severity for f in findings if "3 to 3 are missing" in f.message] == ["warning"]


def append_in_child(path: str) -> None:
    Table.open(path).append(rows(range(100, 110)))


@pytest.mark.parametrize("tagged", [False, True])
def test_what_an_interrupted_cleaning_leaves_is_no_hole(tmp_path: Path, tagged: bool) -> None:
    """It takes versions from the oldest up, then states: one that is ended half way leaves the end
    of what was to go.
    """
    table = table_of(tmp_path, appends=3, options={"checkpoint.enabled": False})
    table.checkpoint()
    version, before = table.version, ids(table)
    if tagged:
        table.tag("kept", version=version)
    for n in range(4):
        table.append(rows([100 + n]))
    table.checkpoint()
    for gone in range(version + 2):
        (tmp_path / version_path(gone)).unlink()
    table.invalidate_cache()
    assert Table.open(str(tmp_path)).verify(full=True).findings == ()
    table.truncate_time_travel()
    assert table.verify(full=True).findings == ()
    assert (
        len(ids(table)),
        not tagged or ids(Table.open(str(tmp_path), version="kept")) == before,
    ) == (34, True)


def test_a_forked_process_writes(tmp_path: Path) -> None:
    """As `multiprocessing.Pool` does on Linux: the threads of its parent's libraries are not there."""
    table_of(tmp_path, appends=1)
    process = multiprocessing.get_context("fork").Process(
        target=append_in_child, args=(str(tmp_path),)
    )
    process.start()
    process.join(60)
    process.kill()
    assert process.exitcode == 0
    table = Table.open(str(tmp_path))
    assert ids(table) == [*range(10), *range(100, 110)]
    assert table.verify(full=True).healthy
    word = "timeout"
    assert table.count(query=f"message:{word}") == table.count(where=f"message LIKE '%{word}%'")


def test_an_unnamed_index_of_pandas_is_no_column(tmp_path: Path) -> None:
    table = table_of(tmp_path, appends=1)
    frame = rows(range(20, 30)).to_pandas()
    table.append(frame[frame["id"] > 24])
    assert ids(Table.open(str(tmp_path))) == [*range(10), *range(25, 30)]


SLIPS: dict[str, Any] = {
    "hours as text": lambda t: t.purge(older_than_hours="7 days", dry_run=True),
    "hours as duration": lambda t: t.purge(older_than_hours=dt.timedelta(days=7), dry_run=True),
    "splits as text": lambda t: t.merge(max_source_splits="2"),
    "options as text": lambda t: Table.open(t.path, options="x"),  # type: ignore[arg-type]
    "an option without a name": lambda t: Table.open(t.path, options={5: 4}),  # type: ignore[dict-item]
    "staleness as text": lambda t: Table.open(t.path, max_staleness="5s"),  # type: ignore[arg-type]
    "no time": lambda t: Table.open(t.path, timestamp=pd.NaT),
    "microseconds": lambda t: Table.open(t.path, timestamp=int(time.time() * 1e6)),
    "no statement": lambda t: indextables.sql(None),  # type: ignore[arg-type]
    "unset as text": lambda t: t.update_metadata(unset="checkpoint.interval"),
    "partition columns as text": lambda t: Table.create(
        f"{t.path}/other",
        schema=t.schema,
        partition_columns="level",  # type: ignore[arg-type]
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_an_error_of_ours_and_changes_nothing(tmp_path: Path, slip: str) -> None:
    table = table_of(tmp_path, appends=1)
    with pytest.raises(InvalidInputError) as raised:
        SLIPS[slip](table)
    assert isinstance(raised.value, IndexTablesError)
    assert raised.value.hint
    assert Table.open(str(tmp_path)).version == table.version


def test_a_setting_that_is_none_cannot_be_dropped(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    with pytest.raises(UnknownOptionError, match=r"checkpoint\.intervall"):
        table.update_metadata(unset=("checkpoint.intervall",))


@pytest.mark.parametrize("options", KINDS)
def test_an_option_does_not_change_the_index_of_splits_that_are_written_anew(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    table = table_of(tmp_path, appends=3)
    hits = table.count(query="message:timeout")
    other = Table.open(str(tmp_path), options=options)
    other.merge()
    assert Table.open(str(tmp_path)).count(query="message:timeout") == hits


def test_a_version_that_an_ended_writer_left_behind_is_no_hole(tmp_path: Path) -> None:
    """It came after the log was cleaned, and was not taken back."""
    table = table_of(tmp_path, appends=6, options={"checkpoint.interval": 1_000})
    stray = (tmp_path / version_path(2)).read_bytes()
    table.truncate_time_travel()
    assert not (tmp_path / version_path(2)).exists()
    (tmp_path / version_path(2)).write_bytes(stray)
    assert Table.open(str(tmp_path)).verify(full=True).healthy
    assert ids(Table.open(str(tmp_path))) == list(range(60))


def test_a_column_that_is_named_like_an_index_of_pandas_keeps_its_values(tmp_path: Path) -> None:
    """It is left out of a frame only where the table has no such column; of anything else never."""
    name = "__index_level_0__"
    table = Table.create(
        str(tmp_path / "t"), schema=pa.schema([("id", pa.int64()), (name, pa.int64())])
    )
    table.append(pa.table({"id": [1], name: [7]}))
    table.append(pd.DataFrame({"id": [2]}, index=[8]))
    found = Table.open(str(tmp_path / "t")).scan().read_all().sort_by("id")
    assert found[name].to_pylist() == [7, 8]
    with pytest.raises(IndexTablesError, match=name):
        table_of(tmp_path / "u").append(rows([1]).append_column(name, pa.array([1])))


def test_no_columns_are_still_so_many_rows(tmp_path: Path) -> None:
    table = table_of(tmp_path, appends=3)
    assert table.scan(columns=[]).read_all().num_rows == 30
    assert table.scan(columns=[], where="id < 15").read_all().num_rows == 15
    found = table.count(query="message:timeout")
    assert found > 2
    assert table.search("message:timeout", columns=[]).num_rows == found
    assert table.search("message:timeout", columns=[], limit=2).num_rows == 2


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("s3:/bucket/t", "s3://bucket/t"),
        ("~/t", "/t"),
        ("GS:/b", "GS://b"),
        ("~", "./~"),
        ("~root/t", "./~root"),
    ],
)
def test_what_only_looks_like_a_local_path_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError) as refused:
        Table.create(path, schema=pa.schema([("id", pa.int64())]))
    assert said in refused.value.hint and not list(tmp_path.iterdir())
    assert Table.create(f"./{path}", schema=pa.schema([("id", pa.int64())])).count() == 0


NUL = "a\0b"
DOORS: dict[str, Any] = {
    "open": lambda t: Table.open(f"{t.path}{NUL}"),
    "create": lambda t: Table.create(f"{t.path}{NUL}", schema=t.schema),
    "repair": lambda t: Table.repair(NUL),
    "repair at": lambda t: Table.repair(t.path, at=NUL),
    "repair from": lambda t: Table.repair(t.path, from_replica=NUL),
    "verify": lambda t: verify_table(f"file:///{t.path}%00"),
    "replica": lambda t: Table.open(t.path, options={"checkpoint.replica.location": NUL}),
    "view": lambda t: t.to_parquet_view(NUL),
    "temporary folder": lambda t: Table.open(
        t.path, options={"indexWriter.tempDirectoryPath": NUL}
    ),
    "cache": lambda t: Table.open(t.path, options={"cache.directoryPath": NUL}),
    "statement": lambda t: indextables.sql(f"DESCRIBE INDEXTABLES STATE '{t.path}{NUL}'"),
    "report": lambda t: write_report(t, NUL),
    "explorer": lambda t: Warehouse([NUL]).tables(),
    "split": lambda t: t.transaction().add(AddAction(path=NUL, size=1)),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_nul_in_a_path_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    monkeypatch.chdir(tmp_path)
    table = table_of(tmp_path / "t", appends=1)
    with pytest.raises(InvalidInputError) as raised:
        DOORS[door](table)
    assert "\0" not in str(raised.value) and "\\x00" in str(raised.value)
    assert Table.open(table.path).version == table.version


def test_a_replica_on_another_host_is_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    with pytest.raises(InvalidInputError, match="names the host 'backup'"):
        Table.open(
            table.path, options={"checkpoint.replica.location": f"file://backup{tmp_path}/r"}
        )


def test_creating_a_table_that_is_there_with_another_index_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("message", pa.string())])
    text = {"indexing.typemap.message": "text"}
    first = Table.create(str(tmp_path / "t"), schema=schema, options=text)
    assert (
        Table.create(str(tmp_path / "t"), schema=schema, options=text, exist_ok=True).version
        == first.version
    )
    assert Table.create(str(tmp_path / "t"), schema=schema, exist_ok=True).version == first.version
    with pytest.raises(IndexTablesError, match=r"indexing\.typemap\.message"):
        Table.create(
            str(tmp_path / "t"),
            schema=schema,
            options={"indexing.typemap.message": "string"},
            exist_ok=True,
        )
    Table.create(str(tmp_path / "u"), schema=schema)
    with pytest.raises(IndexTablesError, match=r"no .*indexing.typemap.message"):
        Table.create(str(tmp_path / "u"), schema=schema, options=text, exist_ok=True)


def test_an_append_to_a_folder_that_was_removed_leaves_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(TableNotFoundError):
        table.append(rows([1]))
    assert not (tmp_path / "t").exists()
