"""`indextables query`: SQL over tables by DuckDB, with searches in it; what DuckDB refuses is told in our words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.calls import Call

pytest.importorskip("duckdb", reason="duckdb is not installed")


def test_tables_are_asked_in_sql(call: Call, made_once: Path) -> None:
    rows = json.loads(
        call("query", "SELECT level, count(*) AS n FROM logs GROUP BY level ORDER BY n", made_once, "--json").out
    )
    assert rows == [{"level": "INFO", "n": 1}, {"level": "ERROR", "n": 2}]
    found = call("query", "SELECT message FROM logs_search('gateway')", made_once.parent).out
    assert "timeout while waiting for the gateway" in found and "disk" not in found


def test_what_cannot_be_asked_is_told(call: Call, made_once: Path, tmp_path: Path) -> None:
    for statement, said in (
        ("SELEC 1", "DuckDB refuses this"),
        ("SELECT * FROM nope", "The tables are logs"),
        ("SELECT * FROM logs_search('level:(')", "DuckDB refuses this"),
        ("CREATE TABLE x (a INT)", "This is no question"),
    ):
        assert said in call("query", statement, made_once, code=2).err
    assert "There is no table" in call("query", "SELECT 1", tmp_path, code=2).err
