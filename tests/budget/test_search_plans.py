"""What a ranked search asks for: one plan, and the statistics of its words once per split."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import indextables.spark as its
from indextables import Table
from indextables.query import plan as scan_plan
from indextables.query import search as table_search
from indextables.spark.source.options import ReadRequest, SourceOptions
from indextables.spark.source.reader import TableReader
from indextables.splits.search import search as split_search

SPLITS = 3
pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    schema = pa.schema([("id", pa.int64()), ("message", pa.string())])
    options = {"indexing.typemap.message": "text"}
    table = Table.create(str(tmp_path / "t"), schema=schema, options=options)
    for number in range(SPLITS):
        table.append(
            pa.table(
                {"id": [number, number + 10], "message": ["read timeout", f"word{number} timeout"]}
            )
        )
    return table


def counted(patch: pytest.MonkeyPatch, name: str, *modules: Any) -> list[Any]:
    """The first argument of each call of a function, by whatever module it is called."""
    calls: list[Any] = []
    function: Callable[..., Any] = getattr(modules[0], name)

    def counting(*args: Any, **named: Any) -> Any:
        calls.append(args[0])
        return function(*args, **named)

    for module in modules:
        patch.setattr(module, name, counting)
    return calls


@pytest.mark.parametrize("columns", [None, ["id"]])
def test_a_ranked_search_of_spark_is_planned_once(
    spark: SparkSession, table: Table, columns: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = counted(monkeypatch, "_plan", scan_plan)
    rows = its.search(
        spark, table.path, "message:timeout word1", columns=columns, limit=2
    ).collect()
    assert rows[0].id == 11
    assert len(plans) == 1


def test_words_are_counted_once_per_split(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = counted(monkeypatch, "term_statistics", table_search, split_search)
    best = table.search("message:timeout word1", limit=2)
    assert best["id"].to_pylist()[0] == 11
    assert len(counts) == SPLITS


def test_tasks_of_spark_do_not_count_words_again(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "message:timeout word1"
    best = {row["id"]: row["_score"] for row in table.search(query, limit=9).to_pylist()}
    options = {
        "path": table.path,
        "query": query,
        "limit": "9",
        "limitPerTask": "true",
        "read.splitsPerTask": "1",
    }
    source = SourceOptions.parse(options)
    reader = TableReader(source, ReadRequest.parse(source).schema(table))
    plans = counted(monkeypatch, "_plan", scan_plan)
    counts = counted(monkeypatch, "term_statistics", table_search, split_search)
    tasks = [pickle.loads(pickle.dumps(partition)) for partition in reader.partitions()]
    rows = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    assert {row["id"]: row["_score"] for row in rows} == best
    assert (len(plans), len(tasks), len(counts)) == (1, SPLITS, SPLITS)
