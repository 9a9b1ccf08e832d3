"""A table with splits of release 0.1.0 beside splits with pages: one table to every verb."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables import Table
from tests.support.splits import SCRATCH, log_rows, old_splits, small_pages

OPTIONS = {
    "indexing.typemap.message": "text",
    "indexWriter.tempDirectoryPath": SCRATCH.temp_directory,
}


def mixed(path: Path) -> tuple[Table, pa.Table]:
    """Splits of both kinds by turns, and their rows."""
    rows = log_rows(4_000, seed=5)
    table = Table.create(str(path), schema=rows.schema, options=OPTIONS)
    for n in range(4):
        with old_splits() if n % 2 else small_pages(64, group_rows=512):
            table.append(rows.slice(n * 1_000, 1_000))
    return table, rows


def answers(table: Table, rows: pa.Table) -> list[object]:
    """What is asked of a table, each held against its rows."""
    has = pc.fill_null(pc.match_substring_regex(rows["message"], r"\btimeout\b"), False)
    matching = rows.filter(has).sort_by("ts")
    found = table.search("message:timeout").sort_by("ts")
    assert found.select(rows.column_names).equals(matching)
    assert table.count(query="message:timeout") == matching.num_rows
    newest = table.search("message:timeout", limit=7, order_by="ts desc")
    assert newest["ts"].to_pylist() == matching["ts"].to_pylist()[::-1][:7]
    late = rows["ts"][3_456].as_py()
    assert (
        table.count(where=f"ts >= TIMESTAMP '{late.isoformat()}'")
        == pc.sum(pc.greater_equal(rows["ts"], late)).as_py()
    )
    best = table.search("message:timeout AND message:disk", limit=9, score=True)
    levels = table.aggregate(
        {"levels": {"terms": {"field": "level"}}}, query="message:timeout"
    ).to_pylist()
    assert sum(row["count"] for row in levels) == matching.num_rows
    return [np.round(best["_score"].to_pylist(), 4).tolist(), sorted(map(str, levels))]


def test_old_and_new_splits_answer_together(tmp_path: Path) -> None:
    table, rows = mixed(tmp_path / "t")
    alone = Table.create(str(tmp_path / "one"), schema=rows.schema, options=OPTIONS)
    alone.append(rows)
    assert answers(table, rows) == answers(alone, rows)


def test_old_and_new_splits_are_merged_verified_and_restored(tmp_path: Path) -> None:
    table, rows = mixed(tmp_path / "t")
    before, version = answers(table, rows), table.version
    table.delete(where="latency < 10")
    left = rows.filter(pc.greater_equal(rows["latency"], 10))
    assert table.count() == left.num_rows < 4_000
    assert table.merge().merged_files
    assert table.files().num_rows == 1
    assert table.scan().read_all().sort_by("ts").equals(left.sort_by("ts"))
    assert not table.verify(full=True).findings
    table.restore(version=version)
    assert answers(table, rows) == before
    assert not table.verify(full=True).findings
    with old_splits():
        table.merge()
    assert answers(table, rows) == before
