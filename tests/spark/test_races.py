"""Writers that began before another made the table, or made it anew: each ends as its mode says, or
as a conflict.

Half of these are the writers that Spark itself calls, without Spark; what its processes do is the
same calls.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

import indextables.spark as its
from indextables import Table
from indextables.errors import (
    ConflictError,
    IndexTablesError,
    InvalidInputError,
    SchemaMismatchError,
    TableExistsError,
)
from indextables.handle import TableHandle
from indextables.model.conflicts import Operation
from indextables.operations import table_write
from indextables.operations.write_request import WriteRequest
from indextables.spark.overwrites import under_overwrite_mode
from indextables.spark.source.options import SourceOptions
from indextables.spark.source.writer import TableStreamWriter, TableWriter, plan_source_write
from indextables.spark.writes import plan_table_write

COLUMNS = StructType([StructField("id", LongType()), StructField("day", IntegerType())])
STORED = pa.schema([("id", pa.int64()), ("day", pa.int32())])
BY_DAY = {"partitionColumns": "day"}
DYNAMIC = {**BY_DAY, "partitionOverwriteMode": "dynamic"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def rows(*ids: int, day: int = 0) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(ids, pa.int64()), pa.array([day] * len(ids), pa.int32())], schema=STORED
    )


def writer(
    path: str,
    *,
    overwrite: bool = False,
    columns: StructType = COLUMNS,
    options: dict[str, str] | None = None,
) -> TableWriter:
    return TableWriter(
        plan_source_write(
            SourceOptions.parse({"path": path, **(options or {})}), columns, overwrite=overwrite
        )
    )


def stream_writer(
    path: str, *, overwrite: bool = False, options: dict[str, str] | None = None
) -> TableStreamWriter:
    source = SourceOptions.parse({"path": path, **(options or {})})
    return TableStreamWriter(
        plan_source_write(source, COLUMNS, overwrite=overwrite, streaming=True)
    )


def batch_of(
    writer: TableStreamWriter, *ids: int, day: int = 0
) -> list[WriterCommitMessage | None]:
    return [replace(writer.write(iter([rows(*ids, day=day)])), query_id="query")]


def ids(path: str) -> list[int]:
    return sorted(Table.open(path).scan(columns=["id"]).read_all()["id"].to_pylist())


def assert_sound(path: str) -> None:
    """Nothing is damaged, and no split lies there that was never part of the table."""
    table = Table.open(path)
    assert table.verify(full=True).healthy
    named = {p for v in table.handle.log.since(-1, table.version) for p in v.added_paths}
    assert {str(p.relative_to(path)) for p in Path(path).rglob("*.split")} <= named


# Two writers that both found no table.


def test_of_two_overwrites_that_made_the_table_the_later_one_stays(path: str) -> None:
    one, two = writer(path, overwrite=True), writer(path, overwrite=True)
    first, second = one.write(iter([rows(1, 2)])), two.write(iter([rows(3)]))
    one.commit([first])
    two.commit([second])
    assert ids(path) == [3]
    assert_sound(path)


def test_dynamic_overwrites_of_a_new_table_replace_the_partitions_they_share(path: str) -> None:
    one, two = (writer(path, overwrite=True, options=DYNAMIC) for _ in range(2))
    first = one.write(iter([rows(1, 2), rows(10, day=1)]))
    second = two.write(iter([rows(3), rows(20, day=2)]))
    one.commit([first])
    two.commit([second])
    assert ids(path) == [3, 10, 20]
    assert_sound(path)


def test_a_condition_holds_for_a_table_that_another_made(path: str) -> None:
    where = {**BY_DAY, "replaceWhere": "day = 1"}
    one, two = (writer(path, overwrite=True, options=where) for _ in range(2))
    first, second = one.write(iter([rows(1, day=1)])), two.write(iter([rows(2, day=1)]))
    one.commit([first])
    two.commit([second])
    assert ids(path) == [2]
    assert_sound(path)


def test_rows_beside_the_condition_are_refused_even_if_there_is_no_table_yet(path: str) -> None:
    late = writer(path, overwrite=True, options={**BY_DAY, "replaceWhere": "day = 1"})
    with pytest.raises(InvalidInputError, match="do not match"):
        late.write(iter([rows(1, day=2)]))
    assert list(Path(path).rglob("*.split")) == []


def test_the_maker_of_a_table_writes_in_its_own_mode_too(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the maker's version 0 and its rows another one writes: an overwrite replaces that as
    well.
    """
    maker, other = writer(path, overwrite=True), writer(path, overwrite=True)
    first, second = maker.write(iter([rows(1, 2)])), other.write(iter([rows(3)]))
    commit = table_write.finish_write

    def late(table: TableHandle, *args: Any, **named: Any) -> int | None:
        monkeypatch.setattr(table_write, "finish_write", commit)
        other.commit([second])
        return commit(table, *args, **named)

    monkeypatch.setattr(table_write, "finish_write", late)
    maker.commit([first])
    assert ids(path) == [1, 2]
    assert_sound(path)


OTHERS: dict[str, tuple[dict[str, Any], type[IndexTablesError]]] = {
    "partitions": ({"schema": STORED, "partition_columns": ["day"]}, ConflictError),
    "more columns": ({"schema": STORED.append(pa.field("more", pa.string()))}, ConflictError),
    "fewer columns": ({"schema": pa.schema([("id", pa.int64())])}, SchemaMismatchError),
    "other types": (
        {"schema": pa.schema([("id", pa.string()), ("day", pa.int32())])},
        SchemaMismatchError,
    ),
}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("other", OTHERS)
def test_rows_for_another_layout_are_refused(path: str, other: str, overwrite: bool) -> None:
    late = writer(path, overwrite=overwrite)
    message = late.write(iter([rows(1)]))
    made, error = OTHERS[other]
    Table.create(path, **made)
    with pytest.raises(error):
        late.commit([message])
    assert ids(path) == []
    assert_sound(path)


def test_rows_for_another_index_are_refused(path: str) -> None:
    words = StructType([StructField("line", StringType())])
    late = writer(path, columns=words)
    message = late.write(iter([pa.record_batch({"line": ["gateway timeout"]})]))
    columns = pa.schema([("line", pa.string())])
    Table.create(path, schema=columns, options={"indexing.typemap.line": "text"})
    with pytest.raises(ConflictError, match="first to create"):
        late.commit([message])
    assert Table.open(path).count() == 0
    assert_sound(path)


def test_settings_of_the_index_are_checked_before_rows_are_written(path: str) -> None:
    with pytest.raises(InvalidInputError, match="partition column"):
        writer(path, options={**BY_DAY, "indexing.nonindexed": "day"})
    with pytest.raises(InvalidInputError, match="indexing settings"):
        writer(path, options={"indexing.typemap.nowhere": "text"})


# A table that was made anew while a write ran.


def recreated(path: str, **made: Any) -> Table:
    shutil.rmtree(Path(path) / "_transaction_log")
    table = Table.create(path, schema=STORED, **made)
    for n in (100, 101, 102):
        table.append(pa.Table.from_batches([rows(n)]))
    return table


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("by", [[], ["day"]])
def test_a_batch_is_not_committed_to_a_table_that_was_made_anew(
    path: str, by: list[str], overwrite: bool
) -> None:
    Table.create(path, schema=STORED).append(pa.Table.from_batches([rows(1)]))
    late = writer(path, overwrite=overwrite)
    message = late.write(iter([rows(2)]))
    recreated(path, partition_columns=by)
    with pytest.raises(ConflictError, match="another one than before"):
        late.commit([message])
    assert ids(path) == [100, 101, 102]
    assert Table.open(path).verify(full=True).healthy
    assert not any((Path(path) / action.path).exists() for action in message.added)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("by", [[], ["day"]])
def test_a_stream_batch_is_not_committed_to_a_table_that_was_made_anew(
    path: str, by: list[str], overwrite: bool
) -> None:
    Table.create(path, schema=STORED).append(pa.Table.from_batches([rows(1)]))
    messages = batch_of(stream_writer(path, overwrite=overwrite), 2)
    recreated(path, partition_columns=by)
    with pytest.raises(ConflictError, match="another one than before"):
        stream_writer(path, overwrite=overwrite).commit(messages, 0)
    assert ids(path) == [100, 101, 102]
    assert Table.open(path).verify(full=True).healthy


@pytest.mark.parametrize("options", [{}, BY_DAY])
def test_a_stream_batch_made_for_no_table_fits_only_one_of_its_layout(
    path: str, options: dict[str, str]
) -> None:
    messages = batch_of(stream_writer(path, options=options), 2, day=7)
    Table.create(path, schema=STORED, partition_columns=["day"])
    committer = stream_writer(path, options=options)
    if options:
        committer.commit(messages, 0)
        assert Table.open(path).scan().read_all().to_pylist() == [{"id": 2, "day": 7}]
    else:
        with pytest.raises(ConflictError, match="first to create"):
            committer.commit(messages, 0)
        assert ids(path) == []
    assert_sound(path)


def test_without_what_the_tasks_were_planned_for_r18_a_table_is_damaged(path: str) -> None:
    messages = batch_of(stream_writer(path), 2, day=7)
    Table.create(path, schema=STORED, partition_columns=["day"])
    committer = stream_writer(path)
    forgotten = [replace(message, plan=committer._plan) for message in messages]  # type: ignore[type-var]
    committer.commit(forgotten, 0)
    assert not Table.open(path).verify(full=True).healthy


def test_a_stream_batch_is_not_committed_beside_a_change_of_the_columns(path: str) -> None:
    table = Table.create(path, schema=STORED)
    messages = batch_of(stream_writer(path), 2)
    table.append(pa.table({"id": [1], "more": ["x"]}), merge_schema=True)
    with pytest.raises(ConflictError):
        stream_writer(path).commit(messages, 0)
    committer = stream_writer(path)
    committer.commit(batch_of(committer, 2), 0)
    assert ids(path) == [1, 2]
    assert_sound(path)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_write_outlives_the_version_that_it_was_planned_on(path: str, overwrite: bool) -> None:
    table = Table.create(path, schema=STORED)
    late = writer(path, overwrite=overwrite)
    message = late.write(iter([rows(9)]))
    for n in range(3):
        table.append(pa.Table.from_batches([rows(n)]))
    table.truncate_time_travel()
    late.commit([message])
    assert ids(path) == ([9] if overwrite else [0, 1, 2, 9])


def test_a_write_to_a_table_that_is_gone_leaves_nothing_behind(path: str) -> None:
    Table.create(path, schema=STORED)
    late = writer(path)
    message = late.write(iter([rows(9)]))
    shutil.rmtree(Path(path) / "_transaction_log")
    with pytest.raises(IndexTablesError, match="no table"):
        late.commit([message])
    assert list(Path(path).rglob("*.split")) == []


# The same through Spark: tasks that wait for each other, so that every write is planned before any
# is committed.


def waiting(frame: DataFrame, meeting: Path, name: str, others: int = 2) -> DataFrame:
    """A frame whose task ends only when those of the others have begun."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        meeting.mkdir(exist_ok=True)
        (meeting / name).touch()
        until = time.monotonic() + 120
        while len(list(meeting.iterdir())) < others and time.monotonic() < until:
            time.sleep(0.05)
        yield from batches

    return frame.coalesce(1).mapInArrow(wait, frame.schema)


def at_once(*writes: Callable[[], Any]) -> list[Any]:
    """What came of each, started together."""
    results: list[Any] = [None] * len(writes)

    def run(n: int) -> None:
        try:
            results[n] = writes[n]()
        except Exception as error:
            results[n] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(writes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("mode", ["overwrite", "error", "ignore", "append"])
def test_two_first_writes_at_once(
    spark: SparkSession, tmp_path: Path, path: str, mode: str
) -> None:
    def one(start: int) -> int | None:
        frame = spark.range(start, start + 10).selectExpr("id", "1 as day")
        return its.write(waiting(frame, tmp_path / "meeting", str(start)), path, mode=mode)

    results = at_once(lambda: one(0), lambda: one(100))
    found, (zero, hundred) = ids(path), (list(range(10)), list(range(100, 110)))
    if mode == "append":
        assert sorted(results) == [1, 2]
        assert found == zero + hundred
    elif mode == "overwrite":
        assert sorted(results) == [1, 2]
        assert found == (zero if results[0] == 2 else hundred)
    else:
        lost = [
            n
            for n, result in enumerate(results)
            if result is None or isinstance(result, TableExistsError)
        ]
        assert len(lost) == 1
        assert found == (hundred if lost == [0] else zero)
        assert isinstance(results[lost[0]], TableExistsError) == (mode == "error")
    assert_sound(path)


def test_plain_overwrites_of_a_new_table_at_once(
    spark: SparkSession, tmp_path: Path, path: str
) -> None:
    def one(start: int) -> None:
        # Spark looks for the format in the session of the thread, which a new thread does not have.
        spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)  # type: ignore[union-attr]
        frame = spark.range(start, start + 10).selectExpr("id", "1 as day")
        waiting(frame, tmp_path / "meeting", str(start)).write.format("indextables").mode(
            "overwrite"
        ).save(path)

    assert at_once(lambda: one(0), lambda: one(100)) == [None, None]
    assert ids(path) in (list(range(10)), list(range(100, 110)))
    assert_sound(path)


@pytest.mark.parametrize("again", [False, True])
def test_a_table_is_made_partitioned_while_a_batch_of_a_stream_runs(
    spark: SparkSession, tmp_path: Path, path: str, again: bool
) -> None:
    source = Table.create(str(tmp_path / "source"), schema=STORED)
    source.append(pa.Table.from_batches([rows(1, 2, day=5)]))
    if again:
        Table.create(path, schema=STORED)

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import shutil

        import pyarrow as pa

        from indextables import Table

        shutil.rmtree(path, ignore_errors=True)
        columns = pa.schema([("id", pa.int64()), ("day", pa.int32())])
        Table.create(path, schema=columns, partition_columns=["day"])
        yield from batches

    frame = its.read_stream(spark, source.path)
    made = frame.mapInArrow(make, frame.schema)
    query = its.write_stream(
        made, path, checkpoint=str(tmp_path / "c"), trigger={"availableNow": True}
    )
    with pytest.raises(
        StreamingQueryException, match="another one than before" if again else "first to create"
    ):
        query.awaitTermination()
    assert ids(path) == []
    assert Table.open(path).verify(full=True).healthy
    query = its.write_stream(
        frame, path, checkpoint=str(tmp_path / "c"), trigger={"availableNow": True}
    )
    query.awaitTermination()
    assert sorted(Table.open(path).scan().read_all()["day"].to_pylist()) == [5, 5]
    assert_sound(path)


# The session's partition overwrite mode.

MODE = "spark.sql.sources.partitionOverwriteMode"


@pytest.fixture
def days(spark: SparkSession, path: str) -> Iterator[str]:
    """A table of three days."""
    its.write(
        spark.range(9).selectExpr("id", "cast(id % 3 as int) as day"), path, partition_by="day"
    )
    yield path
    spark.conf.unset(MODE)


def counts(path: str) -> dict[int, int]:
    found = Table.open(path).scan(columns=["day"]).read_all()["day"].to_pylist()
    return {day: found.count(day) for day in sorted(set(found))}


WAYS: dict[str, Callable[[DataFrame, str, dict[str, str]], Any]] = {
    "source": lambda df, path, options: (
        df.write.format("indextables").mode("overwrite").options(**options).save(path)
    ),
    "write": lambda df, path, options: its.write(df, path, mode="overwrite", options=options),
}


@pytest.fixture
def one(spark: SparkSession) -> DataFrame:
    """A row of day 1."""
    return spark.range(1).selectExpr("id + 50 as id", "1 as day")


@pytest.mark.parametrize("way", WAYS)
def test_the_sessions_partition_overwrite_mode_is_followed(
    spark: SparkSession, days: str, one: DataFrame, way: str
) -> None:
    spark.conf.set(MODE, "dynamic")
    WAYS[way](one, days, {})
    assert counts(days) == {0: 3, 1: 1, 2: 3}
    WAYS[way](one.limit(0), days, {})
    assert counts(days) == {0: 3, 1: 1, 2: 3}
    # An option is stronger than the session, and a condition needs no mode.
    WAYS[way](one, days, {"partitionOverwriteMode": "Static"})
    assert counts(days) == {1: 1}
    spark.conf.set(MODE, "static")
    WAYS[way](one.selectExpr("id", "2 as day"), days, {"partitionoverwritemode": "DYNAMIC"})
    assert counts(days) == {1: 1, 2: 1}
    WAYS[way](one, days, {})
    assert counts(days) == {1: 1}


@pytest.mark.parametrize("way", WAYS)
def test_a_partition_overwrite_mode_that_is_none_is_refused(
    spark: SparkSession, days: str, one: DataFrame, way: str
) -> None:
    with pytest.raises(
        Exception, match=r"(?s)partitionOverwriteMode cannot be 'dynamik'.*static, dynamic"
    ):
        WAYS[way](one, days, {"partitionOverwriteMode": "dynamik"})
    # Spark refuses such a setting where it is set, but not one that the session was started with.
    with pytest.raises(Exception, match=r"(?i)dynamik"):
        spark.conf.set(MODE, "dynamik")
    overwriting = WriteRequest(operation=Operation.OVERWRITE, dynamic_partitions=None)
    with pytest.raises(InvalidInputError, match=f"{MODE} cannot be 'dynamik'"):
        under_overwrite_mode(plan_table_write(days, STORED, overwriting), "dynamik")
    assert counts(days) == {0: 3, 1: 3, 2: 3}


def test_a_session_without_our_extension_follows_its_mode_too(
    spark: SparkSession, days: str
) -> None:
    plain = spark.newSession()
    plain.conf.set(MODE, "DYNAMIC")
    frame = plain.range(1).selectExpr("id + 50 as id", "1 as day")
    frame.write.format("indextables").mode("overwrite").save(days)
    assert counts(days) == {0: 3, 1: 1, 2: 3}
    frame.write.format("indextables").mode("append").save(days)
    assert counts(days) == {0: 3, 1: 2, 2: 3}
    frame.write.format("indextables").mode("overwrite").option("replaceWhere", "day = 1").save(days)
    assert counts(days) == {0: 3, 1: 1, 2: 3}


def test_insert_overwrite_never_replaces_more_than_the_session_says(
    spark: SparkSession, days: str
) -> None:
    view = "CREATE OR REPLACE TEMPORARY VIEW {} USING indextables OPTIONS (path '{}' {})"
    spark.sql(view.format("days", days, ""))
    spark.sql(view.format("day_by_day", days, ", partitionOverwriteMode 'dynamic'"))
    spark.conf.set(MODE, "dynamic")
    # Spark itself asks tables for this, and does not let a source in Python say that it can.
    with pytest.raises(AnalysisException, match="does not support dynamic overwrite"):
        spark.sql("INSERT OVERWRITE TABLE days SELECT 77L AS id, 1 AS day")
    assert counts(days) == {0: 3, 1: 3, 2: 3}
    spark.conf.unset(MODE)
    spark.sql("INSERT OVERWRITE TABLE day_by_day SELECT 77L AS id, 1 AS day")
    assert counts(days) == {0: 3, 1: 1, 2: 3}
    spark.sql("INSERT OVERWRITE TABLE days SELECT 77L AS id, 1 AS day")
    assert counts(days) == {1: 1}


@pytest.mark.parametrize("way", WAYS)
def test_a_table_without_partitions_is_overwritten_as_a_whole(
    spark: SparkSession, tmp_path: Path, one: DataFrame, way: str
) -> None:
    path = str(tmp_path / "flat")
    its.write(spark.range(9).selectExpr("id", "cast(id % 3 as int) as day"), path)
    spark.conf.set(MODE, "dynamic")
    try:
        WAYS[way](one, path, {})
        assert counts(path) == {1: 1}
        WAYS[way](one.limit(0), path, {})
        assert counts(path) == {}
    finally:
        spark.conf.unset(MODE)


def test_the_argument_and_the_option_must_agree(days: str, one: DataFrame) -> None:
    with pytest.raises(InvalidInputError, match="says otherwise"):
        its.write(
            one,
            days,
            mode="overwrite",
            dynamic_partition_overwrite=True,
            options={"partitionOverwriteMode": "static"},
        )
    its.write(one, days, mode="overwrite", dynamic_partition_overwrite=True)
    assert counts(days) == {0: 3, 1: 1, 2: 3}
