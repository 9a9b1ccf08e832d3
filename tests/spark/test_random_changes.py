"""Random sequences of INSERT, UPDATE, DELETE and MERGE leave the rows that a model in plain Python
has.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from indextables import Table
from tests.spark.random_changes import COLUMNS, Model, Statement


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("changes")
    spark.sql(f"CREATE DATABASE changes LOCATION '{made}/changes'")
    yield made
    spark.sql("DROP DATABASE changes CASCADE")


def rows(spark: SparkSession, query: str) -> list[tuple[Any, ...]]:
    return sorted(
        (tuple(_plain(value) for value in row) for row in spark.sql(query).collect()), key=repr
    )


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, tuple) else value


def run(spark: SparkSession, folder: Path, seed: int) -> None:
    """Run one program and compare the table with the model after each statement, and older versions
    at the end.
    """
    rng = random.Random(seed)
    name, path = f"changes.t{seed}", f"{folder}/changes/t{seed}"
    table = rng.choice([name, f"indextables.`{path}`"])
    mode = rng.choice(["vector", "rewrite"])
    partitions = rng.choice(["", " PARTITIONED BY (day)"])
    properties = f"TBLPROPERTIES ('delete.mode' = '{mode}', 'indexing.typemap.v' = 'text')"
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING indextables{partitions} {properties}")
    model = Model(rng)
    done: list[str] = [f"{partitions} {mode}"]
    for statement in model.statements(6):
        sql = statement.sql.replace("{t}", table)
        done.append(sql or f"{statement.adds} with the default {statement.default}")
        if "PARTITION (" in sql and not partitions:
            continue
        apply(spark, path, sql, statement)
        model.apply(statement)
        assert rows(spark, f"SELECT * FROM {table}") == model.table_rows(), (
            f"program {seed}\n" + "\n".join(done)
        )
        model.versions[Table.open(path).version] = model.table_rows()
    for version in rng.sample(sorted(model.versions), min(2, len(model.versions))):
        found = rows(spark, f"SELECT * FROM {table} VERSION AS OF {version}")
        assert found == model.versions[version], f"program {seed}, version {version}\n" + "\n".join(
            done
        )
    found = rows(spark, f"SELECT id, n FROM {table} WHERE v TEXTSEARCH 'timeout'")
    expected = [
        (row.get("id"), row.get("n")) for row in model.rows if "timeout" in (row.get("v") or "")
    ]
    assert found == sorted(expected, key=repr), f"program {seed}, search\n" + "\n".join(done)
    assert Table.open(path).verify(full=True).healthy
    spark.sql(f"DROP TABLE {name}")


def apply(spark: SparkSession, path: str, sql: str, statement: Statement) -> None:
    if statement.default is not None:
        Table.open(path).alter.add_column(statement.adds[0], pa.int64(), default=statement.default)
        return
    if statement.changes is not None:
        spark.sql(sql)
        return
    before = Table.open(path).version
    with pytest.raises(PySparkException, match="several rows of the source"):
        spark.sql(sql)
    assert Table.open(path).version == before


def test_a_few_random_programs_leave_the_rows_of_the_model(
    spark: SparkSession, folder: Path
) -> None:
    for seed in range(3):
        run(spark, folder, seed)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_100_random_programs_leave_the_rows_of_the_model(spark: SparkSession, folder: Path) -> None:
    failures = []
    for seed in range(1000, 1100):
        try:
            run(spark, folder, seed)
        except (AssertionError, PySparkException) as error:
            failures.append(f"program {seed}: {str(error)[:3000]}")
    assert not failures, "\n\n".join([f"{len(failures)} programs differ", *failures])
