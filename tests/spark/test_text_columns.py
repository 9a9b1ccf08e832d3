"""Columns that a statement, a DataFrame or a stream names as text, or as searched by their parts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

import indextables.spark as its
from indextables import Table
from indextables.errors import InvalidInputError
from indextables.spark.source.datasource import DefaultSource

INDEX = {"indexing.typemap.message": "text", "indexing.substring.code": "True"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(
        [("disk full", "ab-12"), ("all well", "cd-34")], "message string, code string"
    )


@pytest.fixture(autouse=True)
def no_names(spark: SparkSession) -> Iterator[None]:
    yield
    spark.sql("DROP TABLE IF EXISTS notes")


def check(path: str, times: int = 1) -> None:
    table = Table.open(path)
    assert table.count(query="message:disk") == times
    assert table.count(where="code LIKE '%b-1%'") == times
    assert {key: (table.metadata.configuration or {}).get(key) for key in INDEX} == INDEX


@pytest.mark.parametrize("clause", ["OPTIONS", "TBLPROPERTIES"])
def test_a_statement_names_the_columns(spark: SparkSession, path: str, clause: str) -> None:
    location = f"LOCATION '{path}'"
    places = f"OPTIONS (text = 'message', substring = 'code') {location}"
    if clause == "TBLPROPERTIES":
        places = f"{location} TBLPROPERTIES ('text' = 'message', 'substring' = '[\"code\"]')"
    spark.sql(f"CREATE TABLE notes (message STRING, code STRING) USING indextables {places}")
    spark.sql("INSERT INTO notes VALUES ('disk full', 'ab-12')")
    check(path)
    shown = {row["key"] for row in spark.sql("SHOW TBLPROPERTIES notes").collect()}
    assert shown == set(INDEX)


def test_so_does_a_statement_that_selects_rows(
    spark: SparkSession, path: str, rows: DataFrame
) -> None:
    rows.createOrReplaceTempView("new_notes")
    spark.sql(
        f"CREATE TABLE notes USING indextables OPTIONS (text = 'message', substring = 'code') LOCATION '{path}' "
        "AS SELECT * FROM new_notes"
    )
    check(path)
    spark.sql(
        "CREATE OR REPLACE TABLE notes USING indextables OPTIONS (substring = 'code') AS SELECT * FROM new_notes"
    )
    assert (Table.open(path).metadata.configuration or {}) == {"indexing.substring.code": "True"}


def test_a_table_that_exists_must_index_them_so(
    spark: SparkSession, path: str, rows: DataFrame
) -> None:
    its.write(rows, path, text=["message"])
    create = f"CREATE TABLE notes USING indextables OPTIONS ({{}}) LOCATION '{path}'"
    with pytest.raises(
        AnalysisException, match=r"substring names 'code', but .* does not index its parts"
    ):
        spark.sql(create.format("substring = 'code'"))
    spark.sql(create.format("text = 'message'"))
    assert spark.table("notes").count() == 2


def test_what_a_statement_cannot_name_is_refused_with_the_column(
    spark: SparkSession, path: str
) -> None:
    create = f"CREATE TABLE notes (message STRING, n INT) USING indextables OPTIONS ({{}}) LOCATION '{path}'"
    for options, message in {
        "text = 'mesage'": r"text names 'mesage', which is not a column\..*Did you mean 'message'",
        "text = 'message', 'indexing.typemap.message' = 'string'": (
            r"text names 'message', but the option indexing\.typemap\.message is 'string'"
        ),
        "text = 'n'": "'n'",
        "text = '[1]'": "Option 'text' cannot be",
    }.items():
        with pytest.raises(AnalysisException, match=message):
            spark.sql(create.format(options))
    assert not Path(path).exists()
    spark.sql(create.format("text = 'message'"))
    with pytest.raises(AnalysisException, match="text is chosen when a table is created"):
        spark.sql("ALTER TABLE notes SET TBLPROPERTIES ('text' = 'message')")


def test_a_frame_names_them_as_options(spark: SparkSession, path: str, rows: DataFrame) -> None:
    writer = rows.write.format("indextables").option("text", "message").option("substring", "code")
    writer.mode("append").save(path)
    writer.mode("append").save(path)
    check(path, times=2)
    with pytest.raises(AnalysisException, match=r"text names 'code', but .* indexes it as string"):
        rows.write.format("indextables").option("text", "message, code").mode("append").save(path)
    with pytest.raises(AnalysisException, match="text names 'mesage'"):
        rows.write.format("indextables").option("text", "mesage").mode("append").save(f"{path}2")
    rows.write.format("indextables").option("text", "message").option(
        "substring", "code"
    ).saveAsTable("notes")
    assert spark.sql("SELECT * FROM notes WHERE message TEXTSEARCH 'disk'").count() == 1
    assert Table.open(path).count() == 4


def test_a_stream_names_them(spark: SparkSession, path: str, rows: DataFrame) -> None:
    its.write(rows, f"{path}-from")
    incoming = its.read_stream(spark, f"{path}-from")
    arguments: dict[str, Any] = {
        "checkpoint": f"{path}-progress",
        "trigger": {"availableNow": True},
    }
    with pytest.raises(InvalidInputError, match="text names 'mesage'"):
        its.write_stream(incoming, path, text=["mesage"], **arguments)
    for _ in range(2):
        query = its.write_stream(incoming, path, text=["message"], substring=["code"], **arguments)
        query.awaitTermination()
    check(path)
    with pytest.raises(InvalidInputError, match="indexes it as string"):
        its.write_stream(incoming, path, text=["code"], **arguments)


def test_a_column_of_prose_is_named_once_when_the_table_is_made(
    spark: SparkSession, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    prose = spark.range(0, 40, 1, 4).selectExpr(
        "id", "repeat(concat('many words of ', id, ' '), 5) AS body"
    )
    with caplog.at_level(logging.WARNING, "indextables"):
        its.write(prose, path)
        its.write(prose, path)
        its.write(prose, f"{path}2", text=["body"])
    assert [record.message for record in caplog.records] == [
        "The column 'body' looks like prose, but is indexed by its whole values. "
        'Pass text=["body"] to search its words.'
    ]


def test_a_source_names_the_column_of_prose_too(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    schema = StructType([StructField("body", StringType())])
    batch = pa.record_batch({"body": ["many words of one sentence " * 3] * 10})
    with caplog.at_level(logging.WARNING, "indextables"):
        for _ in range(2):
            writer = DefaultSource({"path": path}).writer(schema, overwrite=False)
            writer.commit([writer.write(iter([batch]))])
    assert len(caplog.records) == 1 and "The column 'body' looks like prose" in caplog.text
    assert Table.open(path).count() == 20
