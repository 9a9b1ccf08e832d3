"""`indextables query`: SQL over tables by DuckDB, with searches in it; what DuckDB refuses is told
in our words.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from indextables import write_table
from tests.cli.calls import Call

pytest.importorskip("duckdb", reason="duckdb is not installed")


def test_tables_are_asked_in_sql(call: Call, made_once: Path) -> None:
    rows = json.loads(
        call(
            "query",
            "SELECT level, count(*) AS n FROM logs GROUP BY level ORDER BY n",
            made_once,
            "--json",
        ).out
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


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A table whose version 1 has the rows 1 and 2, version 2 the row 2, and version 3 the rows 2
    and 3.
    """
    table = write_table(
        str(tmp_path / "logs"), [{"id": 1, "note": "logs@v1"}, {"id": 2, "note": None}]
    )
    table.delete(where="id = 1")
    table.append([{"id": 3, "note": None}])
    table.tag("release", version=1)
    return tmp_path / "logs"


@pytest.mark.parametrize(
    ("statement", "ids"),
    [
        ("SELECT id FROM logs VERSION AS OF 1 ORDER BY id", [1, 2]),
        ("SELECT logs.id FROM logs@v1 ORDER BY logs.id", [1, 2]),
        ("SELECT old.id FROM logs VERSION AS OF 1 AS old ANTI JOIN logs ON old.id = logs.id", [1]),
        (
            "SELECT o.id FROM \"logs\" version as of 'release' o LEFT JOIN logs@v2 ON logs.id = o.id ORDER BY 1",
            [1, 2],
        ),
        ("SELECT id FROM logs EXCEPT SELECT id FROM LOGS /* before */ VERSION AS OF 2", [3]),
        ("SELECT id FROM logs TIMESTAMP AS OF '2100-01-01' ORDER BY id", [2, 3]),
        ("SELECT id FROM logs@v1 WHERE note = 'logs@v1' -- logs VERSION AS OF 7", [1]),
    ],
)
def test_older_versions_are_queried_by_number_tag_and_timestamp(
    call: Call, changed: Path, statement: str, ids: list[int]
) -> None:
    assert [row["id"] for row in json.loads(call("query", statement, changed, "--json").out)] == ids


def test_a_version_that_does_not_exist_is_refused(call: Call, changed: Path) -> None:
    assert (
        "version 99"
        in call("query", "SELECT * FROM logs VERSION AS OF 99", changed, code=3).err.lower()
    )
    assert "nope" in call("query", "SELECT * FROM logs VERSION AS OF 'nope'", changed, code=3).err
