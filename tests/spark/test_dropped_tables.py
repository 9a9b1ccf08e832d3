"""DROP TABLE in the session's catalog removes a table as `Table.drop` does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from indextables import Table
from indextables.errors import IndexTablesError
from indextables.log.cache import PROCESS_CACHE
from indextables.log.log_files import version_path
from indextables.wire import version_file


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("dropped")
    spark.sql(f"CREATE DATABASE dropped LOCATION '{folder}/dropped'")
    yield folder / "dropped"
    spark.sql("DROP DATABASE dropped CASCADE")


def require_newer_writer(path: Path) -> Path:
    """Write a version after which only a later release may write to the table."""
    table = Table.open(str(path))
    version = path / version_path(table.version + 1)
    version.write_bytes(version_file.encode([replace(table.protocol, min_writer_version=5)]))
    PROCESS_CACHE.invalidate()
    return version


@pytest.mark.parametrize("statement", ["DROP TABLE dropped.t", "DROP TABLE dropped.t PURGE"])
def test_a_writer_with_an_open_handle_cannot_bring_back_a_dropped_table(
    spark: SparkSession, home: Path, statement: str
) -> None:
    spark.sql("CREATE TABLE dropped.t (id INT) USING indextables")
    spark.sql("INSERT INTO dropped.t VALUES (1)")
    handle = Table.open(str(home / "t"))
    spark.sql(statement)
    assert spark.sql("SHOW TABLES IN dropped LIKE 't'").count() == 0
    with pytest.raises(IndexTablesError):
        handle.checkpoint()
    assert not list(home.glob("t/**/*.split")) and not list(home.glob("t/**/*.json"))
    spark.sql("CREATE TABLE dropped.t (name STRING) USING indextables")
    assert spark.table("dropped.t").columns == ["name"]
    spark.sql(statement)


def test_a_table_that_this_release_must_not_write_to_keeps_its_name_and_its_files(
    spark: SparkSession, home: Path
) -> None:
    spark.sql("CREATE TABLE dropped.later (id INT) USING indextables")
    spark.sql("INSERT INTO dropped.later VALUES (1)")
    version = require_newer_writer(home / "later")
    for statement in ("DROP TABLE dropped.later", "DROP DATABASE dropped CASCADE"):
        with pytest.raises(PySparkException, match="INDEXTABLES_UNSUPPORTED"):
            spark.sql(statement)
    assert list(home.glob("later/**/*.split"))
    assert spark.sql("SHOW TABLES IN dropped LIKE 'later'").count() == 1
    version.unlink()
    PROCESS_CACHE.invalidate()
    spark.sql("DROP TABLE dropped.later")
    assert not list(home.glob("later/**/*.split"))


def test_the_files_of_an_external_table_stay(
    spark: SparkSession, home: Path, tmp_path: Path
) -> None:
    spark.sql(
        f"CREATE TABLE dropped.outside (id INT) USING indextables LOCATION '{tmp_path}/outside'"
    )
    spark.sql("INSERT INTO dropped.outside VALUES (1)")
    spark.sql("DROP TABLE dropped.outside")
    assert Table.open(str(tmp_path / "outside")).count() == 1


def test_a_name_whose_files_are_gone_already_is_dropped(spark: SparkSession, home: Path) -> None:
    spark.sql("CREATE TABLE dropped.gone (id INT) USING indextables")
    Table.drop(str(home / "gone"))
    spark.sql("DROP TABLE dropped.gone")
    assert spark.sql("SHOW TABLES IN dropped LIKE 'gone'").count() == 0
