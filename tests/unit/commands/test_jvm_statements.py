"""Statements as users of IndexTables for the JVM write them: each runs, or is refused by us with
the way out.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table, sql
from indextables.commands.delta import NotOffered
from indextables.commands.parser import is_ours, parse
from indextables.errors import InvalidInputError, NotFoundError, QuerySyntaxError, UnsupportedError


@pytest.fixture
def path(tmp_path: Path) -> str:
    schema = pa.schema([("day", pa.string()), ("message", pa.string())])
    options = {"indexing.typemap.message": "text"}
    table = Table.create(
        str(tmp_path / "t"), schema=schema, partition_columns=["day"], options=options
    )
    for n in range(3):
        table.append(pa.table({"day": [f"2026-11-0{n + 1}"], "message": [f"word{n} timeout"]}))
    return table.path


@pytest.mark.parametrize(
    "statement",
    [
        "MERGE SPLITS '{}' TARGET SIZE '100M'",
        "MERGE SPLITS '{}' TARGET SIZE 4G MAX GROUPS '5' DRY RUN",
        "PURGE TANTIVY4SPARK '{}' OLDER THAN '7' DAYS DRY RUN",
        "DESCRIBE TANTIVY4SPARK STATE '{}'",
        "CHECKPOINT TANTIVY4SPARK '{}'",
        "REPAIR INDEX FILES TRANSACTION LOG '{}'",
        "INVALIDATE TRANSACTION LOG CACHE GLOBAL",
        "INVALIDATE TANTIVY4SPARK TRANSACTION LOG CACHE FOR '{}'",
        "FLUSH INDEXTABLES SEARCHER CACHE",
        "PREWARM INDEXTABLES CACHE '{}' FOR SEGMENTS (TERM_DICT, POSTINGS) ON FIELDS (message) "
        "WITH PERWORKER PARALLELISM OF 4 WHERE day = '2026-11-01'",
        "DESCRIBE INDEXTABLES PREWARM JOBS",
        "ENABLE INDEXTABLES PROFILER",
        "DESCRIBE TANTIVY4SPARK PROFILER",
        "DESCRIBE INDEXTABLES PROFILER CACHE",
        "RESET INDEXTABLES PROFILER",
        "RESET INDEXTABLES PROFILER CACHE",
        "DISABLE INDEXTABLES PROFILER",
        "DESCRIBE INDEXTABLES STORAGE STATS",
        "DESCRIBE INDEXTABLES DATA SKIPPING STATS",
        "FLUSH INDEXTABLES DATA SKIPPING STATS",
        "INVALIDATE INDEXTABLES DATA SKIPPING CACHE",
        "INVALIDATE TRANSACTION LOG CACHE",
        "MERGE SPLITS '{}' REWRITE",
        "WAIT FOR INDEXTABLES PREWARM JOBS TIMEOUT 60",
        "DROP TANTIVY4SPARK PARTITIONS FROM '{}' WHERE day = '2026-11-01'",
    ],
)
def test_their_statement_runs(path: str, statement: str) -> None:
    text = statement.format(path)
    command = parse(text)
    assert command is not None
    assert parse(str(command)) == command
    assert sql(text).schema == command.columns
    assert Table.open(path).count() == (2 if "DROP" in statement else 3)


def test_a_prewarm_says_what_it_fetches_beyond_what_was_named(path: str) -> None:
    row = sql(f"PREWARM INDEXTABLES CACHE '{path}' FOR SEGMENTS (TERM_DICT)").to_pylist()[0]
    assert row["splits_prewarmed"] == 3
    assert "whole index" in row["message"]
    with pytest.raises(QuerySyntaxError, match="there is no segment NOTHING"):
        sql(f"PREWARM INDEXTABLES CACHE '{path}' FOR SEGMENTS (NOTHING)")


def test_a_prewarm_in_the_background_is_a_job_that_can_be_waited_for(path: str) -> None:
    job = sql(f"PREWARM INDEXTABLES CACHE '{path}' ASYNC MODE").to_pylist()[0]["job_id"]
    ended = sql(f"WAIT FOR INDEXTABLES PREWARM JOBS JOB '{job}' TIMEOUT 120").to_pylist()
    assert [(row["job_id"], row["status"], row["splits_prewarmed"]) for row in ended] == [
        (job, "completed", 3)
    ]
    assert job in sql("DESCRIBE INDEXTABLES PREWARM JOBS").column("job_id").to_pylist()
    assert job in sql(f"WAIT FOR INDEXTABLES PREWARM JOBS '{path}'").column("job_id").to_pylist()
    with pytest.raises(NotFoundError, match="no prewarm job 'nothere'"):
        sql("WAIT FOR INDEXTABLES PREWARM JOBS JOB 'nothere'")


def test_a_prewarm_in_the_background_of_nothing_is_refused_at_once(
    tmp_path: Path, path: str
) -> None:
    with pytest.raises(NotFoundError, match="no table"):
        sql(f"PREWARM INDEXTABLES CACHE '{tmp_path}/nothere' ASYNC MODE")
    with pytest.raises(InvalidInputError, match="There is no column 'mesage'"):
        sql(f"PREWARM INDEXTABLES CACHE '{path}' ON FIELDS (mesage) ASYNC MODE")
    job = sql(
        f"PREWARM INDEXTABLES CACHE '{path}' WHERE day = '1999-01-01' ASYNC MODE"
    ).to_pylist()[0]["job_id"]
    row = sql(f"WAIT FOR INDEXTABLES PREWARM JOBS JOB '{job}'").to_pylist()[0]
    assert "No split holds rows that fit the condition" in row["message"]


def test_a_prewarm_in_the_background_that_fails_says_why(path: str) -> None:
    for split in Path(path).rglob("*.split"):
        split.unlink()
    job = sql(f"PREWARM INDEXTABLES CACHE '{path}' ASYNC MODE").to_pylist()[0]["job_id"]
    row = sql(f"WAIT FOR INDEXTABLES PREWARM JOBS JOB '{job}'").to_pylist()[0]
    assert row["status"] == "failed"
    assert ".split" in row["message"]


def test_a_flushed_searcher_searches_again(path: str) -> None:
    table = Table.open(path)
    assert table.search("timeout").num_rows == 3
    sql("FLUSH INDEXTABLES SEARCHER CACHE")
    assert table.search("timeout").num_rows == 3


@pytest.mark.parametrize("lead", NotOffered.leads)
def test_what_is_not_offered_is_refused_with_the_way_out(lead: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{lead} is not offered: ") as refusal:
        sql(f"{lead} 'name' = 'url' AT 'p';")
    assert refusal.value.hint


def test_a_merge_before_the_commit_is_refused(path: str) -> None:
    with pytest.raises(QuerySyntaxError, match=r"(?s)never before.*mergeOnWrite\.enabled"):
        sql(f"MERGE SPLITS '{path}' PRECOMMIT")
    with pytest.raises(QuerySyntaxError) as other:
        sql(f"MERGE SPLITS '{path}' NOW")
    assert "PRECOMMIT" not in str(other.value)


@pytest.mark.parametrize(
    "text", ["SET indextables.a = 1", "SET indextables", "RESET indextables.x", "REPAIR TABLE t"]
)
def test_what_spark_says_with_the_same_words_stays_sparks(text: str) -> None:
    assert not is_ours(text)


def test_the_profiler_tells_where_a_search_spent_its_time(path: str) -> None:
    assert sql("ENABLE INDEXTABLES PROFILER").to_pylist()[0]["status"] == "enabled"
    table = Table.open(path)
    assert table.search("timeout").num_rows == 3
    assert table.scan(where="message LIKE '%word1%'").read_all().num_rows == 1
    rows = {row["section"]: row for row in sql("DESCRIBE INDEXTABLES PROFILER").to_pylist()}
    assert {"plan_scan", "open_split", "open_index", "read_rows"} <= set(rows)
    for row in rows.values():
        assert row["calls"] > 0
        assert row["min_us"] <= row["avg_us"] <= row["max_us"]
        assert row["total_ms"] * 1000 == pytest.approx(row["avg_us"] * row["calls"])
    assert rows["open_split"]["calls"] >= 3
    before = sql("RESET INDEXTABLES PROFILER").num_rows
    assert before == len(rows)
    assert sql("DESCRIBE INDEXTABLES PROFILER").num_rows == 0
    assert sql("DISABLE INDEXTABLES PROFILER").to_pylist()[0]["status"] == "disabled"
    table.search("timeout")
    assert sql("DESCRIBE INDEXTABLES PROFILER").num_rows == 0


def test_splits_that_were_skipped_are_counted_until_they_are_flushed(path: str) -> None:
    sql("FLUSH INDEXTABLES DATA SKIPPING STATS")
    Table.open(path).count(where="day = '2026-11-01'")
    rows = {
        r["metric_name"]: r["metric_value"]
        for r in sql("DESCRIBE INDEXTABLES DATA SKIPPING STATS").to_pylist()
    }
    assert (
        rows["total_files_considered"],
        rows["partition_pruned_files"],
        rows["final_files_scanned"],
    ) == (
        "3",
        "2",
        "1",
    )
    assert rows["partition_skip_rate"] == rows["total_skip_rate"] == "66.7%"
    assert sql("INVALIDATE INDEXTABLES DATA SKIPPING CACHE").to_pylist()[0]["status"] == "success"
    assert sql("DESCRIBE INDEXTABLES DATA SKIPPING STATS").to_pylist()[0]["metric_value"] == "0"
