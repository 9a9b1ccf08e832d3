"""After a failure the table holds all of a write or none of it, and no split that it names is ever
deleted.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import LongType, StructField, StructType

from indextables import Table
from indextables.errors import (
    CommitUnknownError,
    ConflictError,
    IndexTablesError,
    InvalidInputError,
)
from indextables.handle import TableHandle
from indextables.log.commit import Committer
from indextables.spark.source.options import SourceOptions
from indextables.spark.source.writer import (
    TableStreamWriter,
    TableWriter,
    WrittenSplits,
    commit_splits,
    plan_source_write,
    under_session,
)

SPARK_SCHEMA = StructType([StructField("id", LongType())])


def batches(start: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(range(start, start + 5), pa.int64())})


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


@pytest.fixture
def writer(path: str) -> TableWriter:
    return TableWriter(
        plan_source_write(SourceOptions.parse({"path": path}), SPARK_SCHEMA, overwrite=False)
    )


def tasks(writer: TableWriter | TableStreamWriter) -> list[WriterCommitMessage | None]:
    return [writer.write(iter([batches(n)])) for n in (0, 5)]


def splits_on_disk(path: str) -> int:
    return len(list(Path(path).rglob("*.split")))


def test_an_abort_after_a_commit_that_landed_deletes_nothing(
    path: str, writer: TableWriter
) -> None:
    messages = tasks(writer)
    writer.commit(messages)
    # The answer was lost: Spark thinks that the commit failed and asks to clean up.
    writer.abort(messages)
    assert Table.open(path).scan().read_all().num_rows == 10


def test_even_with_a_task_missing_what_is_committed_stays(path: str, writer: TableWriter) -> None:
    messages = tasks(writer)
    writer.commit(messages)
    writer.abort([*messages, None])
    assert Table.open(path).scan().read_all().num_rows == 10


def test_an_abort_before_any_commit_deletes_what_the_tasks_wrote(
    path: str, writer: TableWriter
) -> None:
    messages = [*tasks(writer), None]
    assert splits_on_disk(path) == 2
    writer.abort(messages)
    assert splits_on_disk(path) == 0
    assert not (Path(path) / "_transaction_log").exists()


def test_an_abort_deletes_nothing_of_others(path: str, writer: TableWriter) -> None:
    table = Table.create(path, schema=pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [100]}))
    planned = TableWriter(
        plan_source_write(SourceOptions.parse({"path": path}), SPARK_SCHEMA, overwrite=False)
    )
    messages = tasks(planned)
    table.append(pa.table({"id": [101]}))
    planned.abort([*messages, None])
    assert sorted(Table.open(path).scan().read_all()["id"].to_pylist()) == [100, 101]
    assert splits_on_disk(path) == 2


def test_a_commit_of_unknown_outcome_keeps_its_splits(
    path: str, writer: TableWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = tasks(writer)

    def unknown(*_: object, **__: object) -> int:
        raise CommitUnknownError("Nobody knows.")

    monkeypatch.setattr(TableHandle, "commit", unknown)
    with pytest.raises(CommitUnknownError):
        writer.commit(messages)
    writer.abort(messages)
    assert splits_on_disk(path) == 2


def test_a_commit_that_surely_failed_takes_its_splits_along(
    path: str, writer: TableWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = tasks(writer)

    def refused(*_: object, **__: object) -> int:
        raise ConflictError("Somebody was first.")

    monkeypatch.setattr(Committer, "_commit", refused)
    with pytest.raises(ConflictError):
        writer.commit(messages)
    writer.abort(messages)
    assert splits_on_disk(path) == 0


def test_two_first_writers_make_one_table(path: str, writer: TableWriter) -> None:
    other = TableWriter(
        plan_source_write(SourceOptions.parse({"path": path}), SPARK_SCHEMA, overwrite=False)
    )
    writer.commit(tasks(writer))
    other.commit(tasks(other))
    assert Table.open(path).count() == 20
    text = StructType([StructField("id", LongType()), StructField("more", LongType())])
    late = TableWriter(
        plan_source_write(SourceOptions.parse({"path": path + "2"}), text, overwrite=False)
    )
    Table.create(path + "2", schema=pa.schema([("id", pa.string())]))
    with pytest.raises(IndexTablesError):
        late.commit([])
    assert Table.open(path + "2").schema.names == ["id"]


def test_a_repeated_attempt_adds_nothing_twice(path: str, writer: TableWriter) -> None:
    first, again = writer.write(iter([batches(0)])), writer.write(iter([batches(0)]))
    assert {a.path for a in first.added}.isdisjoint(a.path for a in again.added)
    writer.commit([again])
    assert Table.open(path).count() == 5


def stream_message(writer: TableStreamWriter, start: int) -> WrittenSplits:
    return replace(writer.write(iter([batches(start)])), application="app", query_id="query")


def test_a_stream_batch_is_committed_once_however_often_it_comes(path: str) -> None:
    options = SourceOptions.parse({"path": path})
    writer = TableStreamWriter(
        plan_source_write(options, SPARK_SCHEMA, overwrite=False, streaming=True)
    )
    for batch in (0, 0, 1, 1):
        writer.commit([stream_message(writer, batch * 5)], batch)
    with pytest.raises(
        IndexTablesError, match="Batch 0 of the streaming query query was sent after its batch 1"
    ):
        writer.commit([stream_message(writer, 0)], 0)
    table = Table.open(path)
    assert sorted(table.scan().read_all()["id"].to_pylist()) == list(range(10))
    assert splits_on_disk(path) == table.files().num_rows == 2


def test_a_stream_batch_without_rows_leaves_no_version(path: str) -> None:
    options = SourceOptions.parse({"path": path})
    writer = TableStreamWriter(
        plan_source_write(options, SPARK_SCHEMA, overwrite=False, streaming=True)
    )
    writer.commit([stream_message(writer, 0)], 0)
    writer.commit([replace(writer.write(iter([])), query_id="query")], 1)
    assert Table.open(path).version == 1


def test_a_stream_batch_without_a_query_is_refused(path: str) -> None:
    options = SourceOptions.parse({"path": path})
    writer = TableStreamWriter(
        plan_source_write(options, SPARK_SCHEMA, overwrite=False, streaming=True)
    )
    with pytest.raises(IndexTablesError, match="which streaming query"):
        writer.commit([writer.write(iter([batches(0)]))], 0)


def test_settings_of_a_session_that_reach_only_a_task_are_checked_before_its_rows(
    path: str,
) -> None:
    plan = plan_source_write(SourceOptions.parse({"path": path}), SPARK_SCHEMA, overwrite=False)
    with pytest.raises(InvalidInputError, match="nope"):
        under_session(plan, {"spark.indextables.indexing.defaultSearchFields": "nope"})
    with pytest.raises(InvalidInputError, match="did not reach the writer in time"):
        under_session(plan, {"spark.indextables.indexing.typemap.id": "none"})
    settings = {
        "spark.indextables.indexing.maxDefaultSearchFields": "3",
        "spark.indextables.write.maxRowsPerSplit": "2",
    }
    write = under_session(plan, settings)
    commit_splits(plan, [WrittenSplits(write.run([batches(0)]), write)])
    table = Table.open(path)
    assert table.metadata.configuration == {
        "indexing.maxDefaultSearchFields": "3",
        "write.maxRowsPerSplit": "2",
    }
    assert table.files()["num_records"].to_pylist() == [2, 2, 1]


def test_a_planned_write_travels_and_shows_no_secret(path: str) -> None:
    options = SourceOptions.parse({"path": path, "aws.secretKey": "hunter2"})
    plan = plan_source_write(options, SPARK_SCHEMA, overwrite=False)
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert "hunter2" not in repr(plan) and path in repr(plan)
