"""Streams: what is appended arrives once, in order, through restarts; batches are committed once,
through failures.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables import Table
from indextables.errors import InvalidInputError, QuerySyntaxError, VersionNotFoundError
from indextables.model.actions import TxnAction
from indextables.spark.source.stream_reader import DONE, Offset, StreamFiles
from tests.spark.compare import rows_of
from tests.spark.logs import log_rows, make_logs

NOW = {"availableNow": True}
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def rows(start: int, count: int = 10) -> pa.Table:
    return pa.table(
        {
            "id": list(range(start, start + count)),
            "text": [f"word{i}" for i in range(start, start + count)],
        }
    )


@pytest.fixture
def source(tmp_path: Path) -> Table:
    table = Table.create(str(tmp_path / "source"), schema=SCHEMA)
    for n in range(3):
        table.append(rows(n * 10))
    return table


@pytest.fixture
def copy(tmp_path: Path) -> Callable[..., list[int]]:
    """Runs a stream into another table until nothing is left, and says which ids are there."""
    target, checkpoint = str(tmp_path / "target"), str(tmp_path / "checkpoint")

    def run(frame: DataFrame, **options: object) -> list[int]:
        query = its.write_stream(frame, target, checkpoint=checkpoint, trigger=NOW, options=options)
        query.awaitTermination()
        return sorted(Table.open(target).scan(columns=["id"]).read_all()["id"].to_pylist())

    return run


def test_the_snapshot_then_what_is_appended(
    spark: SparkSession, source: Table, copy: Callable[..., list[int]], tmp_path: Path
) -> None:
    assert copy(its.read_stream(spark, source.path)) == list(range(30))
    source.append(rows(30))
    source.append(rows(40))
    assert copy(its.read_stream(spark, source.path)) == list(range(50))
    assert copy(its.read_stream(spark, source.path)) == list(range(50))
    versions = Table.open(str(tmp_path / "target")).history()
    assert versions.num_rows == 3


def test_small_batches(
    spark: SparkSession, source: Table, copy: Callable[..., list[int]], tmp_path: Path
) -> None:
    frame = its.read_stream(spark, source.path, max_files_per_trigger=1, starting_version=0)
    assert copy(frame) == list(range(30))
    assert Table.open(str(tmp_path / "target")).version == 3


def test_starting_version_and_filters(
    spark: SparkSession, source: Table, copy: Callable[..., list[int]]
) -> None:
    assert copy(
        its.read_stream(
            spark, source.path, starting_version=3, where="id < 25", query="text:word2*"
        )
    ) == [*range(20, 25)]


def test_a_merge_is_passed_over_and_a_removal_is_an_error(
    spark: SparkSession, source: Table, copy: Callable[..., list[int]]
) -> None:
    assert copy(its.read_stream(spark, source.path)) == list(range(30))
    old = source.files().to_pylist()[0]
    with source.transaction(operation="WRITE") as tx:
        tx.remove(old["path"])
    source.append(rows(90))
    with pytest.raises(StreamingQueryException, match="takes rows away"):
        copy(its.read_stream(spark, source.path))
    assert copy(its.read_stream(spark, source.path, ignore_changes=True)) == [
        *range(30),
        *range(90, 100),
    ]


def test_a_start_that_is_gone_is_an_error(
    spark: SparkSession, source: Table, copy: Callable[..., list[int]]
) -> None:
    source.checkpoint()
    for version in (0, 1):
        (Path(source.path) / "_transaction_log" / f"{version:020d}.json").unlink()
    with pytest.raises(
        StreamingQueryException, match=r"Version 1 of .* is not in the log any more"
    ):
        copy(its.read_stream(spark, source.path, starting_version=1))


def test_rows_that_were_purged_before_they_were_read_are_an_error(
    spark: SparkSession, source: Table, copy: Callable[..., list[int]]
) -> None:
    assert copy(its.read_stream(spark, source.path)) == list(range(30))
    source.append(rows(30))
    Table.open(source.path).merge()
    Table.open(source.path, options={"purge.retentionCheckEnabled": False}).purge(
        older_than_hours=0
    )
    with pytest.raises(StreamingQueryException, match=r"was removed from .* and purged"):
        copy(its.read_stream(spark, source.path))


def test_a_query_that_is_stopped_at_random_writes_every_row_once(
    spark: SparkSession, source: Table, copy: Callable[..., list[int]], tmp_path: Path
) -> None:
    for n in range(3, 12):
        source.append(rows(n * 10))
    rng = random.Random(4)
    target, checkpoint = str(tmp_path / "target"), str(tmp_path / "checkpoint")
    for _ in range(5):
        frame = its.read_stream(spark, source.path, starting_version=0, max_files_per_trigger=1)
        query = its.write_stream(frame, target, checkpoint=checkpoint)
        # Stopping cancels the tasks and the commit that are under way.
        time.sleep(rng.uniform(0.2, 2.5))
        query.stop()
    frame = its.read_stream(spark, source.path, starting_version=0, max_files_per_trigger=4)
    assert copy(frame) == list(range(120))


@pytest.mark.parametrize(
    ("asked", "kind", "message"),
    [
        ({"query": "zz:("}, QuerySyntaxError, "zz"),
        ({"where": "zz = 1"}, InvalidInputError, "zz"),
        (
            {"starting_version": "erliest"},
            InvalidInputError,
            "'erliest'. Allowed: a version from 0 up, or latest.",
        ),
        ({"starting_version": -1}, InvalidInputError, "'startingVersion' cannot be '-1'"),
        (
            {"starting_version": 99},
            VersionNotFoundError,
            "has no version 99 to start with: the newest is 3.",
        ),
        ({"max_files_per_trigger": -1}, InvalidInputError, "at least 1"),
        (
            {"options": {"maxBytesPerTrigger": "much"}},
            InvalidInputError,
            "'maxBytesPerTrigger' cannot be 'much'",
        ),
        (
            {"options": {"score": True, "query": "text:a"}},
            InvalidInputError,
            "no limit, scores or snippets",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_refused_where_it_is_asked_for(
    spark: SparkSession, source: Table, asked: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as caught:
        its.read_stream(spark, source.path, **asked)
    assert message in str(caught.value)


def test_a_stream_may_start_with_the_next_version(
    spark: SparkSession, source: Table, copy: Callable[..., list[int]]
) -> None:
    frame = its.read_stream(spark, source.path, starting_version=4)
    source.append(rows(30))
    assert copy(frame) == list(range(30, 40))


def test_a_version_that_is_not_there_yet_is_no_empty_stream(
    spark: SparkSession, source: Table, tmp_path: Path
) -> None:
    frame = spark.readStream.format("indextables").option("startingVersion", "99").load(source.path)
    with pytest.raises(StreamingQueryException, match="the newest is 3"):
        its.write_stream(
            frame, str(tmp_path / "t"), checkpoint=str(tmp_path / "c"), trigger=NOW
        ).awaitTermination()


def test_scores_make_no_sense_in_a_stream(
    spark: SparkSession, source: Table, tmp_path: Path
) -> None:
    frame = (
        spark.readStream.format("indextables")
        .option("query", "text:word1")
        .option("limit", "3")
        .load(source.path)
    )
    with pytest.raises(StreamingQueryException, match="no limit, scores or snippets"):
        its.write_stream(
            frame, str(tmp_path / "t"), checkpoint=str(tmp_path / "c"), trigger=NOW
        ).awaitTermination()


def test_a_batch_that_landed_is_not_written_again(
    spark: SparkSession, source: Table, tmp_path: Path
) -> None:
    target, checkpoint = tmp_path / "target", tmp_path / "checkpoint"
    frame = its.read_stream(spark, source.path, max_files_per_trigger=1, starting_version=0)
    its.write_stream(frame, str(target), checkpoint=str(checkpoint), trigger=NOW).awaitTermination()
    # The query died between its last commit to the table and the note of it in the checkpoint.
    newest = max((checkpoint / "commits").glob("[0-9]*"), key=lambda p: int(p.name))
    for note in (checkpoint / "commits").glob(f"*{newest.name}*"):
        note.unlink()
    its.write_stream(frame, str(target), checkpoint=str(checkpoint), trigger=NOW).awaitTermination()
    table = Table.open(str(target))
    assert sorted(table.scan(columns=["id"]).read_all()["id"].to_pylist()) == list(range(30))
    assert len(list(target.rglob("*.split"))) == table.files().num_rows


def test_the_log_names_query_and_batch(spark: SparkSession, source: Table, tmp_path: Path) -> None:
    target, checkpoint = tmp_path / "target", tmp_path / "checkpoint"
    query = its.write_stream(
        its.read_stream(spark, source.path),
        str(target),
        checkpoint=str(checkpoint),
        trigger=NOW,
        partition_by="id",
    )
    query.awaitTermination()
    query_id = json.loads((checkpoint / "metadata").read_text())["id"]
    table = Table.open(str(target))
    assert table.partition_columns == ["id"]
    newest = table.handle.log.since(table.version - 1, table.version)[0]
    noted = [(a.app_id, a.version) for a in newest.actions if isinstance(a, TxnAction)]
    assert noted == [(query_id, 0), (f"checkpoint {checkpoint}", UUID(query_id).int >> 65)]


def test_a_stream_adds_columns_when_asked(
    spark: SparkSession, source: Table, tmp_path: Path
) -> None:
    target, checkpoint = str(tmp_path / "target"), str(tmp_path / "checkpoint")
    Table.create(target, schema=pa.schema([("id", pa.int64())])).append(pa.table({"id": [100]}))
    frame = its.read_stream(spark, source.path)
    its.write_stream(
        frame, target, checkpoint=checkpoint, merge_schema=True, trigger=NOW
    ).awaitTermination()
    assert Table.open(target).count(where="text = 'word7'") == 1
    assert Table.open(target).count(where="text is null") == 1


def test_a_checkpoint_that_was_deleted_is_found_out(
    spark: SparkSession, source: Table, tmp_path: Path
) -> None:
    target, checkpoint = str(tmp_path / "target"), tmp_path / "checkpoint"

    def run(folder: Path) -> None:
        frame = its.read_stream(spark, source.path)
        its.write_stream(frame, target, checkpoint=str(folder), trigger=NOW).awaitTermination()

    run(checkpoint)
    checkpoint.rename(tmp_path / "aside")
    with pytest.raises(StreamingQueryException, match=r"checkpoint folder .* was made anew"):
        run(checkpoint)
    table = Table.open(target)
    assert (
        table.count() == 30
        and len(list((tmp_path / "target").rglob("*.split"))) == table.files().num_rows
    )
    shutil.rmtree(checkpoint)
    (tmp_path / "aside").rename(checkpoint)
    source.append(rows(30))
    run(checkpoint)
    assert Table.open(target).count() == 40
    run(tmp_path / "again")  # what the hint says
    assert Table.open(target).count() == 80


def test_two_queries_with_one_id_are_refused(
    spark: SparkSession, source: Table, tmp_path: Path
) -> None:
    target, checkpoint, twin = str(tmp_path / "target"), tmp_path / "checkpoint", tmp_path / "twin"

    def run(folder: Path) -> None:
        frame = its.read_stream(spark, source.path, starting_version=0, max_files_per_trigger=1)
        its.write_stream(frame, target, checkpoint=str(folder), trigger=NOW).awaitTermination()

    run(checkpoint)
    shutil.copytree(checkpoint, twin)
    for n in range(3, 6):
        source.append(rows(n * 10))
    run(checkpoint)
    assert Table.open(target).count() == 60
    with pytest.raises(StreamingQueryException, match="two queries run with one id"):
        run(twin)
    assert Table.open(target).count() == 60


def test_complete_mode_replaces_everything(
    spark: SparkSession, source: Table, tmp_path: Path
) -> None:
    frame = its.read_stream(spark, source.path, max_files_per_trigger=1, starting_version=0)
    totals = frame.selectExpr("id % 2 as half").groupBy("half").count()
    its.write_stream(
        totals, str(tmp_path / "t"), checkpoint=str(tmp_path / "c"), mode="complete", trigger=NOW
    ).awaitTermination()
    assert rows_of(its.table(spark, str(tmp_path / "t"))) == [("0", "15"), ("1", "15")]


def test_each_batch_is_merged_into_a_table_by_its_keys(
    spark: SparkSession, source: Table, tmp_path: Path
) -> None:
    target = Table.create(str(tmp_path / "target"), schema=SCHEMA)
    target.append(rows(5))
    source.append(pa.table({"id": [7, 30], "text": ["changed", "new"]}))

    def merge(batch: DataFrame, _: int) -> None:
        clauses = its.merge_into(batch, target.path, on="target.id = source.id")
        clauses.when_matched_update_all().when_not_matched_insert_all().execute()

    def upsert(batch: DataFrame, _: int) -> None:
        target.refresh().upsert(batch.toArrow(), on=["id"])

    def run(change: Callable[[DataFrame, int], None], folder: str) -> list[tuple[int, str]]:
        frame = its.read_stream(spark, source.path, max_files_per_trigger=1, starting_version=0)
        asked = frame.writeStream.foreachBatch(change).option(
            "checkpointLocation", str(tmp_path / folder)
        )
        asked.trigger(availableNow=True).start().awaitTermination()
        columns = Table.open(target.path).scan().read_all().to_pydict()
        return sorted(zip(columns["id"], columns["text"], strict=True))

    words = {n: f"word{n}" for n in range(30)} | {7: "changed", 30: "new"}
    assert run(merge, "merges") == sorted(words.items())
    assert Table.open(target.path).version == 5
    source.append(pa.table({"id": [8, 31], "text": ["changed too", "new too"]}))
    assert run(merge, "merges") == sorted((words | {8: "changed too", 31: "new too"}).items())
    assert run(upsert, "upserts") == sorted((words | {8: "changed too", 31: "new too"}).items())


def test_offsets_give_the_same_files_whenever_asked(tmp_path: Path) -> None:
    logs = make_logs(tmp_path, commits=3, rows=40)
    files = StreamFiles(logs.path, {}, ignore_changes=False)
    start, everything = Offset(3, 0, snapshot=True), []
    offset = start
    while (after := files.advance(offset, 3, max_files=2)) != offset:
        everything += [a.path for a in files.between(offset, after)[1]]
        offset = after
    assert offset.is_at(Offset(3, DONE))
    assert everything == [a.path for a in files.between(start, offset)[1]]
    assert sorted(everything) == sorted(Table.open(logs.path).files()["path"].to_pylist())
    Table.open(logs.path).append(log_rows(10, start=500))
    assert files.advance(offset, 3) == offset
    assert files.advance(offset, 4).is_at(Offset(4, DONE))
    one_each = files.advance(offset, 4, max_bytes=1)
    assert one_each.is_at(Offset(4, 1))
    assert Offset.of(json.loads(json.dumps(one_each.to_dict()))) == one_each


def test_a_table_that_is_created_anew_ends_the_stream_that_reads_it(
    spark: SparkSession, source: Table, copy: Callable[..., list[int]], tmp_path: Path
) -> None:
    frame = its.read_stream(spark, source.path)
    query = its.write_stream(
        frame, str(tmp_path / "target"), checkpoint=str(tmp_path / "checkpoint")
    )
    try:
        query.processAllAvailable()
        anew = Table.create(str(tmp_path / "anew"), schema=SCHEMA)
        for n in range(8):
            anew.append(rows(100 + 10 * n))
        Path(source.path).rename(
            tmp_path / "old"
        )  # two renames: the stream hardly meets a path without a table
        Path(anew.path).rename(source.path)
        with pytest.raises(StreamingQueryException, match="another table than the one"):
            query.awaitTermination(60)
    finally:
        query.stop()
    with pytest.raises(
        StreamingQueryException,
        match=r"another table than the one .* stream .* read up to version 3",
    ):
        copy(its.read_stream(spark, source.path))
    assert Table.open(str(tmp_path / "target")).count() == 30
