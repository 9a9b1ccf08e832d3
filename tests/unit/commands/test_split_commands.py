"""Statements about splits and their local cache, against tables of real rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.commands import parse, sql
from indextables.errors import InvalidInputError, QuerySyntaxError
from tests.golden.golden_tables import GoldenTable, for_each_table, jvm_table

ROWS = pa.table(
    {
        "id": pa.array(range(300), pa.int64()),
        "message": [f"line {n} says {n % 7} of {n * n}" for n in range(300)],
        "level": ["ERROR", "INFO", "WARN"] * 100,
        "day": ["2026-01-01"] * 150 + ["2026-01-02"] * 150,
    }
)


@pytest.fixture
def options(tmp_path: Path) -> dict[str, object]:
    """Settings of a local cache of this test's own."""
    return {"cache.directoryPath": str(tmp_path / "cache")}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table of two partitions, a split each."""
    where = str(tmp_path / "table")
    settings = {"indexing.typemap.message": "text"}
    table = Table.create(where, schema=ROWS.schema, partition_columns=["day"], options=settings)
    table.append(ROWS)
    return where


def ran(statement: str, options: dict[str, object]) -> list[dict[str, Any]]:
    """The rows of a statement, whose columns must be those documented."""
    found = sql(statement, options)
    command = parse(statement)
    assert command is not None and found.schema.equals(command.columns)
    return list(found.to_pylist())


def test_component_sizes_add_up_to_the_files(path: str, options: dict[str, object]) -> None:
    found = ran(f"DESCRIBE INDEXTABLES COMPONENT SIZES '{path}'", options)
    sizes = {f["path"]: f["size"] for f in Table.open(path).files().to_pylist()}
    assert len(sizes) == 2
    for split, size in sizes.items():
        rows = [r for r in found if r["split_path"] == split]
        assert sum(r["size_bytes"] for r in rows) == size == (Path(path) / split).stat().st_size
        assert json.loads(rows[0]["partition_values"]) == {
            "day": split.split("/")[0].removeprefix("day=")
        }
        assert {r["field"] for r in rows if r["component"] == "rows"} == {"id", "message", "level"}
        assert {r["component"] for r in rows if r["field"] == "message"} >= {
            "rows",
            "term",
            "idx",
            "pos",
            "fieldnorm",
        }
        assert {r["component"] for r in rows if r["field"] is None} == {"hot", "footer"}
        assert all(r["size_bytes"] >= 0 for r in rows)


def test_component_sizes_of_some_partitions(path: str, options: dict[str, object]) -> None:
    found = ran(f"DESCRIBE INDEXTABLES COMPONENT SIZES '{path}' WHERE day = '2026-01-02'", options)
    assert {json.loads(r["partition_values"])["day"] for r in found} == {"2026-01-02"}
    assert ran(f"DESCRIBE INDEXTABLES COMPONENT SIZES '{path}' WHERE day = 'never'", options) == []
    with pytest.raises(QuerySyntaxError, match="no column 'dya'"):
        ran(f"DESCRIBE INDEXTABLES COMPONENT SIZES '{path}' WHERE dya = '2026-01-02'", options)


@for_each_table
def test_component_sizes_of_foreign_splits(table: GoldenTable, options: dict[str, object]) -> None:
    found = ran(f"DESCRIBE INDEXTABLES COMPONENT SIZES '{table.path}'", options)
    sizes = {f["path"]: f["size"] for f in Table.open(str(table.path)).files().to_pylist()}
    assert {r["split_path"] for r in found} == set(sizes)
    for split in sizes:
        rows = [r for r in found if r["split_path"] == split]
        assert sum(r["size_bytes"] for r in rows) == (table.path / split).stat().st_size
        assert {"term", "idx", "hot"} <= {r["component"] for r in rows}


def test_prewarming_fills_the_cache_and_flushing_empties_it(
    path: str, options: dict[str, object]
) -> None:
    (empty,) = ran("DESCRIBE INDEXTABLES DISK CACHE", options)
    assert (empty["bytes"], empty["splits"], empty["hits"], empty["misses"]) == (0, 0, 0, 0)
    (warmed,) = ran(f"PREWARM INDEXTABLES CACHE '{path}' WHERE day = '2026-01-01'", options)
    assert warmed["splits_prewarmed"] == 1 and warmed["bytes"] > 0 and warmed["duration_ms"] >= 0
    (after,) = ran("DESCRIBE INDEXTABLES DISK CACHE", options)
    assert (
        after["splits"] == 1 and after["bytes"] > 0 and after["misses"] > 0 and after["hits"] == 0
    )
    ran(f"PREWARM INDEXTABLES CACHE '{path}'", options)
    (again,) = ran("DESCRIBE INDEXTABLES DISK CACHE", options)
    assert (
        again["splits"] == 2
        and again["hits"] == after["misses"]
        and again["hit_rate"] == pytest.approx(1 / 3)
    )
    (flushed,) = ran("FLUSH INDEXTABLES DISK CACHE", options)
    assert flushed["splits_freed"] == 2 and flushed["bytes_freed"] == again["bytes"]
    (end,) = ran("DESCRIBE INDEXTABLES DISK CACHE", options)
    assert (end["bytes"], end["splits"], end["executor"]) == (0, 0, "driver")


def test_prewarming_some_columns_fetches_less(path: str, options: dict[str, object]) -> None:
    (some,) = ran(f"PREWARM INDEXTABLES CACHE '{path}' ON FIELDS (LEVEL)", options)
    ran("FLUSH INDEXTABLES DISK CACHE", options)
    (every,) = ran(f"PREWARM INDEXTABLES CACHE '{path}'", options)
    assert some["splits_prewarmed"] == every["splits_prewarmed"] == 2
    assert 0 < some["bytes"] < every["bytes"]


def test_prewarming_passes_over_what_has_no_index(path: str, options: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match="There is no column 'mesage'"):
        ran(f"PREWARM INDEXTABLES CACHE '{path}' ON FIELDS (mesage)", options)
    (warmed,) = ran(f"PREWARM INDEXTABLES CACHE '{path}' ON FIELDS (message, id)", options)
    assert warmed["splits_prewarmed"] == 2 and "No index to fetch: id" in warmed["message"]
    (nothing,) = ran(f"PREWARM INDEXTABLES CACHE '{path}' ON FIELDS (id)", options)
    assert nothing["splits_prewarmed"] == 0 and "No index to fetch: id" in nothing["message"]
    with pytest.raises(InvalidInputError, match="has an index of 'id'"):
        strict = {**options, "prewarm.failOnMissingField": "true"}
        ran(f"PREWARM INDEXTABLES CACHE '{path}' ON FIELDS (message, id)", strict)


def test_prewarming_that_finds_no_split_says_so(path: str, options: dict[str, object]) -> None:
    (none,) = ran(f"PREWARM INDEXTABLES CACHE '{path}' WHERE day = '1999-01-01'", options)
    assert none["splits_prewarmed"] == 0
    assert none["message"] == "No split holds rows that fit the condition: nothing was fetched."
    (every,) = ran(f"PREWARM INDEXTABLES CACHE '{path}'", options)
    assert every["message"] == ""


def test_prewarming_tells_that_splits_of_the_jvm_engine_stay_where_they_are(
    options: dict[str, object],
) -> None:
    path = jvm_table("t07_merged").path
    for columns in ("", "ON FIELDS (message, level)"):
        (told,) = ran(f"PREWARM INDEXTABLES CACHE '{path}' {columns}", options)
        assert (told["splits_prewarmed"], told["bytes"]) == (0, 0)
        assert (
            "2 of 2 splits were written by IndexTables for the JVM, of which nothing is kept locally"
            in told["message"]
        )
        assert "REWRITE" in told["message"] and "No index" not in told["message"]


def test_a_search_after_prewarming_finds_everything_there(
    path: str, options: dict[str, object]
) -> None:
    ran(f"PREWARM INDEXTABLES CACHE '{path}'", options)
    (before,) = ran("DESCRIBE INDEXTABLES DISK CACHE", options)
    assert Table.open(path, options=options).count(query="message:says AND level:ERROR") == 100
    (after,) = ran("DESCRIBE INDEXTABLES DISK CACHE", options)
    assert after["misses"] == before["misses"] and after["hits"] > before["hits"]
