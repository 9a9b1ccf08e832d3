"""Tables as functions in FROM."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from indextables import Table
from tests.spark.logs import make_logs


def test_tables_as_functions(spark: SparkSession, tmp_path: Path) -> None:
    path = make_logs(tmp_path / "it's a table", commits=2).path
    table = Table.open(path)
    quoted = "'" + path.replace("'", "\\'") + "'"
    found = spark.sql(
        f"SELECT id FROM indextables_search({quoted}, 'message:timeout', 'ms > 10') WHERE level = 'ERROR'"
    )
    assert found.count() == table.count(query="message:timeout", where="ms > 10 AND level = 'ERROR'")
    files = spark.sql(
        f"SELECT sum(size) AS size, sum(num_records) AS n, max(path) AS p FROM indextables_files({quoted})"
    )
    assert files.collect()[0].asDict() == {
        "size": sum(table.files()["size"].to_pylist()),
        "n": 400,
        "p": max(table.files()["path"].to_pylist()),
    }
    history = spark.sql(f"SELECT version, operation FROM indextables_history({quoted}) WHERE version > 0")
    assert sorted(tuple(row) for row in history.collect()) == [(1, "WRITE"), (2, "WRITE")]
    state = spark.newSession().sql(f"SELECT latest_version, table_path FROM indextables_state({quoted})")
    assert [tuple(row) for row in state.collect()] == [(2, path)]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("indextables_search('/p')", r"Write indextables_search\('path', 'query'\)"),
        ("indextables_files(null)", r"Write indextables_files\('path'\)"),
        ("indextables_history('/nothing/here')", "nothing/here"),
    ],
)
def test_wrong_calls_are_explained(spark: SparkSession, call: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        spark.sql(f"SELECT * FROM {call}").collect()
