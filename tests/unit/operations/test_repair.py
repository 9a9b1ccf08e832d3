"""A table that cannot be opened is made whole again from what is left, and what is left is never
touched.
"""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import (
    LogGapError,
    MissingSplitError,
    RefusedError,
    TableExistsError,
    TableNotFoundError,
    VersionNotFoundError,
)
from tests.support.rows import ROWS, ids, rows, table_of
from tests.support.stores import contents, splits_on_disk, swap_logs

QUERIES = (
    "message:disk",
    'message:"disk full"',
    "level:WARN AND message:timeout",
    "message:n7",
    "NOT message:login",
)


def everything(table: Table) -> tuple[list[dict[str, Any]], list[int], pa.Schema]:
    found = sorted(table.scan().read_all().to_pylist(), key=lambda row: row["id"])
    return found, [table.count(query=query) for query in QUERIES], table.schema


def lose_the_log(table: Table) -> None:
    shutil.rmtree(Path(table.path) / "_transaction_log")


def test_rows_and_answers_come_back_from_the_splits_alone(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=5)
    before = everything(table)
    lose_the_log(table)
    splits = contents(table.path)
    report = Table.repair(table.path)
    assert (report.status, report.total_splits, report.valid_splits, report.missing_splits) == (
        "success",
        5,
        5,
        0,
    )
    assert (report.source_path, report.target_path, report.source_version) == (
        table.path,
        table.path,
        None,
    )
    fresh = Table.open(table.path)
    assert everything(fresh) == before
    assert fresh.version == 0
    assert fresh.metadata.configuration == {"indexing.typemap.message": "text"}
    assert {path: data for path, data in contents(table.path).items() if path in splits} == splits
    assert fresh.verify(full=True).findings == ()
    fresh.append(rows([77]))
    assert fresh.count(query="message:n77") == 1
    assert [t["operation"] for t in fresh.history().to_pylist()] == ["WRITE", "REPAIR"]


def test_statistics_come_back_too(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    before = {f["path"]: f for f in table.files().to_pylist()}
    lose_the_log(table)
    Table.repair(table.path)
    same = (
        "size",
        "num_records",
        "min_values",
        "max_values",
        "stats",
        "footer_start_offset",
        "hotcache_length",
    )
    for file in Table.open(table.path).files().to_pylist():
        assert {name: file[name] for name in same} == {
            name: before[file["path"]][name] for name in same
        }
    assert Table.open(table.path).files(where="id = 25").num_rows == 1


TYPED = pa.schema(
    [("d", pa.date32()), ("id", pa.int64()), ("n", pa.int16()), ("name", pa.string())]
)


def test_partitions_come_back_with_their_types_and_nulls(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=TYPED, partition_columns=["d", "name"])
    day = datetime.date(2024, 2, 29)
    values = [(day, 1, 5, "7"), (None, 2, 6, "a/b=c%"), (day, 3, None, None), (day, 4, 8, "")]
    table.append(
        pa.Table.from_pylist([dict(zip(TYPED.names, v, strict=True)) for v in values], schema=TYPED)
    )
    before = sorted(map(repr, table.scan().read_all().to_pylist()))
    lose_the_log(table)
    Table.repair(table.path)
    fresh = Table.open(table.path)
    assert (fresh.schema, fresh.partition_columns) == (TYPED, ["d", "name"])
    assert sorted(map(repr, fresh.scan().read_all().to_pylist())) == before
    assert fresh.count(where="d = DATE '2024-02-29' AND name = '7'") == 1


def test_what_was_merged_or_rewritten_does_not_come_twice(tmp_path: Path) -> None:
    # A deletion vector stands in the log: with the log it is lost (docs/explain/split.md).
    table = table_of(
        tmp_path / "t", appends=4, partitioned=True, options={"delete.mode": "rewrite"}
    )
    table.merge(max_source_splits=2)
    table.delete(where="id = 13")
    table.append(rows(range(40, 45)))
    table.merge()
    table.delete(query="message:timeout")
    before = everything(table)
    live = set(table.files().column("path").to_pylist())
    assert len(splits_on_disk(table.path)) > len(live) + 10
    lose_the_log(table)
    planned = Table.repair(table.path, dry_run=True)
    assert not (Path(table.path) / "_transaction_log").exists()
    report = Table.repair(table.path)
    assert planned.to_dict() == {**report.to_dict(), "status": "dry_run"}
    fresh = Table.open(table.path)
    assert set(fresh.files().column("path").to_pylist()) == live
    assert everything(fresh) == before
    assert {left.reason for left in report.left_out} == {"its rows are in another split"}


def test_a_schema_that_grew(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    table.append(rows([50]).append_column("extra", pa.array([1.5])), merge_schema=True)
    before = everything(table)
    lose_the_log(table)
    Table.repair(table.path)
    assert everything(Table.open(table.path)) == before


def test_how_columns_are_indexed_comes_back(tmp_path: Path) -> None:
    schema = pa.schema([(name, pa.string()) for name in ("a", "b", "c", "d")])
    options = {
        "indexing.typemap.a": "text",
        "indexing.tokenizer.a": "en_stem",
        "indexing.indexrecordoption.a": "freq",
        "indexing.typemap.b": "ip",
        "indexing.typemap.c": "none",
        "indexing.tokenizer.d": "lowercase_raw",
        "indexing.maxTokenLength": 100,
    }
    table = Table.create(str(tmp_path / "t"), schema=schema, options=options)
    table.append(pa.table({"a": ["running dogs"], "b": ["10.0.0.1"], "c": ["x"], "d": ["Y"]}))
    lose_the_log(table)
    Table.repair(table.path)
    fresh = Table.open(table.path)
    assert fresh.metadata.configuration == {key: str(value) for key, value in options.items()}
    assert (
        fresh.count(query="a:run"),
        fresh.count(query="b:10.0.0.0\\/8"),
        fresh.count(query="d:y"),
    ) == (1, 1, 1)


def test_splits_that_cannot_be_read_are_left_out_and_named(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    bad = sorted(splits_on_disk(table.path))[1]
    (Path(table.path) / bad).write_bytes(b"garbage")
    lose_the_log(table)
    report = Table.repair(table.path)
    assert (report.total_splits, report.valid_splits, report.missing_splits) == (3, 2, 1)
    assert [left.path for left in report.left_out] == [bad]
    assert len(ids(Table.open(table.path))) == 20


def test_a_log_that_is_there_is_mended_and_not_rebuilt(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    (Path(table.path) / "_transaction_log/00000000000000000001.json").unlink()
    before = contents(table.path)
    report = Table.repair(table.path)
    assert (report.source_version, report.missing_versions) == (2, (1,))
    assert before.items() <= contents(table.path).items()
    with pytest.raises(TableNotFoundError, match="no splits"):
        Table.repair(str(tmp_path / "nowhere"))


def test_a_clean_copy_leaves_out_what_is_missing(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=4)
    gone = sorted(splits_on_disk(table.path))[0]
    (Path(table.path) / gone).unlink()
    before = contents(table.path)
    planned = Table.repair(table.path, at=str(tmp_path / "copy"), dry_run=True)
    assert not (tmp_path / "copy").exists()
    report = Table.repair(
        f"{table.path}/_transaction_log", at=str(tmp_path / "copy/_transaction_log")
    )
    assert planned.to_dict() == {**report.to_dict(), "status": "dry_run"}
    assert contents(table.path) == before
    assert (
        report.source_version,
        report.total_splits,
        report.valid_splits,
        report.missing_splits,
    ) == (4, 4, 3, 1)
    assert [(left.path, left.reason) for left in report.left_out] == [(gone, "it is missing")]
    shutil.rmtree(Path(table.path) / "_transaction_log")
    shutil.copytree(tmp_path / "copy/_transaction_log", Path(table.path) / "_transaction_log")
    fresh = Table.open(table.path)
    assert (fresh.version, fresh.metadata.id, len(ids(fresh))) == (0, table.metadata.id, 30)
    assert fresh.verify(full=True).findings == ()


def test_a_log_with_a_hole_is_copied_without_the_version_that_is_lost(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=6)
    (Path(table.path) / "_transaction_log/00000000000000000005.json").unlink()
    table.invalidate_cache()
    with pytest.raises(LogGapError):
        Table.open(table.path)
    report = Table.repair(table.path, at=str(tmp_path / "copy"))
    assert (report.source_version, report.valid_splits, report.missing_versions) == (6, 5, (5,))
    assert "Version 5 was lost or cannot be read" in report.message


def test_a_garbled_version_is_copied_up_to_it(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    (Path(table.path) / "_transaction_log/00000000000000000003.json").write_bytes(b"{")
    table.invalidate_cache()
    assert Table.repair(table.path, at=str(tmp_path / "copy")).source_version == 2


def test_exactly_once_and_skips_are_copied(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    table.append(rows([90]), txn=("stream", 7))
    path = table.files().column("path").to_pylist()[0]
    with table.transaction(operation="SKIP") as tx:
        tx.skip(path, reason="broken")
    Table.repair(table.path, at=str(tmp_path / "copy"))
    copy = Table.open(str(tmp_path / "copy"))
    assert copy.append(rows([91]), txn=("stream", 7)) is None
    assert copy.skipped_files().column("path").to_pylist() == [path]
    assert (copy.schema, copy.protocol) == (ROWS, table.protocol)


def test_a_copy_goes_where_no_table_is(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    other = table_of(tmp_path / "u", appends=1)
    with pytest.raises(TableExistsError):
        Table.repair(table.path, at=other.path)
    with pytest.raises(RefusedError, match="written over it"):
        Table.repair(table.path, at=table.path)
    with pytest.raises(TableNotFoundError):
        Table.repair(str(tmp_path / "nowhere"), at=str(tmp_path / "copy"))


def test_a_copy_has_no_tags_of_versions_that_it_does_not_have(tmp_path: Path) -> None:
    """Its versions count from 0 again: the tag would name another version, as soon as there is one
    of its number.
    """
    table = table_of(tmp_path / "t", appends=3)
    table.tag("release", version=2)
    report = Table.repair(table.path, at=str(tmp_path / "copy"), dry_run=True)
    assert "'release'" in report.message
    assert "'release'" in Table.repair(table.path, at=str(tmp_path / "copy")).message
    shutil.copytree(tmp_path / "t" / "splits", tmp_path / "copy" / "splits")
    copy = Table.open(str(tmp_path / "copy"))
    for n in range(3):
        copy.append(rows([100 + n]))
    assert (copy.version, copy.tags(), copy.verify().findings) == (3, {}, ())
    with pytest.raises(VersionNotFoundError, match="no tag"):
        Table.open(copy.path, version="release")


def test_the_advice_for_a_missing_split_leads_to_every_other_row(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    lost = table.files().to_pylist()[1]
    (Path(table.path) / lost["path"]).unlink()
    with pytest.raises(MissingSplitError) as caught:
        ids(table)
    assert (
        "Table.repair(path, at='another place') and put it in the place of the table's log"
        in caught.value.hint
    )
    report = Table.repair(table.path, at=str(tmp_path / "another place"))
    assert "holds a log and no splits, and is not read there" in report.message
    swap_logs(report.message, keep=tmp_path / "damaged")
    left = Table.open(table.path)
    assert len(ids(left)) == 30 - lost["num_records"]
    assert left.verify(full=True).findings == ()
    left.append(rows([777]))
    assert left.count(query="message:n777") == 1
