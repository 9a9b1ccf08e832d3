"""Which rows an overwrite replaces, for every API that writes, under every option and every mode of
the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql import functions as f

import indextables.spark as its
from indextables import Table

MODE = "spark.sql.sources.partitionOverwriteMode"
OPTION = "partitionOverwriteMode"
ALL = [(9, "b"), (10, "c")]
"""The rows of a table whose rows were all replaced; it had (1, "a") and (2, "b")."""
PARTITIONS = [(1, "a"), (9, "b"), (10, "c")]
"""The rows of a table where the partitions of the new rows were replaced, or what matches a
condition.
"""
REFUSED = "refused"
UNCHANGED = [(1, "a"), (2, "b")]
_numbers = count()

Write = Callable[[DataFrame, str, str | None], Any]


def v1(df: DataFrame, option: str | None) -> DataFrameWriter:
    writer = df.write.mode("overwrite")
    return writer if option is None else writer.option(OPTION, option)


def v2(df: DataFrame, name: str, option: str | None) -> DataFrameWriterV2:
    writer = df.writeTo(name).using("indextables")
    return writer if option is None else writer.option(OPTION.upper(), option)


def location(df: DataFrame, name: str) -> str:
    return str(df.sparkSession.sql(f"DESCRIBE DETAIL {name}").collect()[0]["location"])


def sql(text: str) -> Write:
    def run(df: DataFrame, name: str, option: str | None) -> Any:
        df.createOrReplaceTempView("new_rows")
        clause = "" if option is None else f" WITH ('{OPTION}' = '{option}')"
        return df.sparkSession.sql(text.format(t=f"{name}{clause}", name=name))

    return run


def through_a_view(df: DataFrame, name: str, option: str | None) -> Any:
    df.createOrReplaceTempView("new_rows")
    path = location(df, name)
    clause = "" if option is None else f", {OPTION} '{option}'"
    df.sparkSession.sql(
        f"CREATE OR REPLACE TEMP VIEW target USING indextables OPTIONS (path '{path}'{clause})"
    )
    return df.sparkSession.sql("INSERT OVERWRITE target SELECT * FROM new_rows")


FOLLOWS_THE_OPTION: dict[str, Write] = {
    "save": lambda df, t, o: v1(df, o).format("indextables").save(location(df, t)),
    "its.write": lambda df, t, o: its.write(
        df, location(df, t), mode="overwrite", options={OPTION: o} if o else {}
    ),
    "saveAsTable": lambda df, t, o: v1(df, o).format("indextables").saveAsTable(t),
    "partitionBy.saveAsTable": lambda df, t, o: (
        v1(df, o).format("indextables").partitionBy("day").saveAsTable(t)
    ),
    "insertInto": lambda df, t, o: v1(df, o).insertInto(t),
    "insertInto overwrite": lambda df, t, o: v1(df, o).insertInto(t, overwrite=True),
}
"""The option decides, else the session."""
STATEMENTS: dict[str, Write] = {
    "INSERT OVERWRITE": sql("INSERT OVERWRITE {t} SELECT * FROM new_rows"),
    "INSERT OVERWRITE TABLE": sql("INSERT OVERWRITE TABLE {t} SELECT * FROM new_rows"),
}
"""The same, but Spark reads the session: an option that contradicts it is refused."""
OF_A_PART: dict[str, Write] = {
    "writeTo.overwrite(condition)": lambda df, t, o: v2(df, t, o).overwrite(f.col("day") > "a"),
    "REPLACE WHERE": sql("INSERT INTO {t} REPLACE WHERE day > 'a' SELECT * FROM new_rows"),
}
OF_THE_WHOLE: dict[str, Write] = {
    "writeTo.overwrite(true)": lambda df, t, o: v2(df, t, o).overwrite(f.lit(True)),
    "writeTo.replace": lambda df, t, o: v2(df, t, o).partitionedBy(f.col("day")).replace(),
    "writeTo.createOrReplace": lambda df, t, o: (
        v2(df, t, o).partitionedBy(f.col("day")).createOrReplace()
    ),
}


def cells() -> Iterator[Any]:
    """Each API with an option and a mode of the session, and what the table then holds."""
    for session, other in (("static", "dynamic"), ("dynamic", "static")):
        for option in (None, other):
            dynamic = (option or session) == "dynamic"
            for name, write in FOLLOWS_THE_OPTION.items():
                yield name, write, option, session, PARTITIONS if dynamic else ALL
            for name, write in STATEMENTS.items():
                yield (
                    name,
                    write,
                    option,
                    session,
                    REFUSED if option == "static" else PARTITIONS if dynamic else ALL,
                )
            for name, write in OF_A_PART.items():
                yield name, write, option, session, REFUSED if option == "dynamic" else PARTITIONS
            for name, write in OF_THE_WHOLE.items():
                yield name, write, option, session, REFUSED if option == "dynamic" else ALL
            by_partitions = lambda df, t, o: v2(df, t, o).overwritePartitions()  # noqa: E731
            expected = REFUSED if option == "static" else PARTITIONS
            yield "writeTo.overwritePartitions", by_partitions, option, session, expected
            appending = lambda df, t, o: v2(df, t, o).append()  # noqa: E731
            expected = REFUSED if option == "dynamic" else [*UNCHANGED, *ALL]
            yield "writeTo.append", appending, option, session, expected
            if session == "static":
                yield "a view", through_a_view, option, session, PARTITIONS if dynamic else ALL
        static = sql("INSERT OVERWRITE {t} PARTITION (day = 'b') SELECT id FROM new_rows")
        yield "PARTITION (day = 'b')", static, None, session, [(1, "a"), (9, "b"), (10, "b")]
        dynamic_part = sql("INSERT OVERWRITE {t} PARTITION (day) SELECT * FROM new_rows")
        yield (
            "PARTITION (day)",
            dynamic_part,
            None,
            session,
            PARTITIONS if session == "dynamic" else ALL,
        )
        replacing = sql(
            "CREATE OR REPLACE TABLE {name} USING indextables PARTITIONED BY (day) AS SELECT * FROM new_rows"
        )
        yield "CREATE OR REPLACE", replacing, None, session, ALL


CELLS = [
    (f"{name}-{option}-{session}", write, option, session, rows)
    for name, write, option, session, rows in cells()
]


@pytest.fixture(scope="module")
def catalogs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A database of the session catalog and a catalog of a folder."""
    folder = tmp_path_factory.mktemp("overwrites")
    spark.sql(f"CREATE DATABASE overwrites LOCATION '{folder}/overwrites'")
    spark.conf.set("spark.sql.catalog.shore", "indextables.WarehouseCatalog")
    spark.conf.set("spark.sql.catalog.shore.warehouse", f"{folder}/shore")
    yield
    spark.sql("DROP DATABASE overwrites CASCADE")


@pytest.fixture
def table(spark: SparkSession, catalogs: None, request: pytest.FixtureRequest) -> Iterator[str]:
    """A table of two partitions, in the catalog that the test names."""
    name = f"{getattr(request, 'param', 'overwrites')}.t{next(_numbers)}"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, day STRING) USING indextables PARTITIONED BY (day)")
    path = spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]["location"]
    Table.open(path).append(pa.table({"id": [1, 2], "day": ["a", "b"]}))
    yield name
    spark.conf.unset(MODE)


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ALL, "id BIGINT, day STRING").coalesce(1)


def content(spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.table(table).collect())


@pytest.mark.parametrize(
    ("write", "option", "session", "expected"),
    [cell[1:] for cell in CELLS],
    ids=[cell[0] for cell in CELLS],
)
def test_every_api_replaces_what_the_option_or_the_session_names(
    spark: SparkSession,
    table: str,
    rows: DataFrame,
    write: Write,
    option: str | None,
    session: str,
    expected: Any,
) -> None:
    spark.conf.set(MODE, session)
    if expected is REFUSED:
        with pytest.raises(PySparkException, match="INDEXTABLES_INVALID_INPUT"):
            write(rows, table, option)
        assert content(spark, table) == UNCHANGED
        return
    write(rows, table, option)
    assert content(spark, table) == expected


@pytest.mark.parametrize("table", ["shore.db"], indirect=True)
@pytest.mark.parametrize(
    ("option", "session"), [("dynamic", "static"), ("static", "dynamic"), (None, "dynamic")]
)
@pytest.mark.parametrize("name", ["saveAsTable", "insertInto"])
def test_a_catalog_of_a_folder_replaces_the_same(
    spark: SparkSession, table: str, rows: DataFrame, name: str, option: str | None, session: str
) -> None:
    spark.conf.set(MODE, session)
    FOLLOWS_THE_OPTION[name](rows, table, option)
    assert content(spark, table) == (ALL if option == "static" else PARTITIONS)


def test_a_dynamic_overwrite_by_name_keeps_the_table_as_it_is_defined(
    spark: SparkSession, table: str, rows: DataFrame
) -> None:
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('team' = 'search')")
    writer = rows.write.format("indextables").mode("overwrite").option(OPTION, "dynamic")
    writer.saveAsTable(table)
    assert spark.sql(f"SHOW TBLPROPERTIES {table} ('team')").collect()[0]["value"] == "search"
    assert [row[0] for row in spark.sql(f"SHOW PARTITIONS {table}").collect()] == [
        "day=a",
        "day=b",
        "day=c",
    ]
    with pytest.raises(PySparkException, match="is partitioned by day, not by id"):
        rows.write.format("indextables").mode("overwrite").option(OPTION, "dynamic").partitionBy(
            "id"
        ).saveAsTable(table)
    wider = (
        rows.withColumn("more", f.lit(1))
        .write.format("indextables")
        .mode("overwrite")
        .option(OPTION, "dynamic")
    )
    with pytest.raises(PySparkException, match="INDEXTABLES_SCHEMA_MISMATCH"):
        wider.saveAsTable(table)
    with pytest.raises(
        PySparkException, match="Leave out replaceWhere and the dynamic partitionOverwriteMode"
    ):
        wider.option("overwriteSchema", "true").saveAsTable(table)
    rows.limit(0).write.format("indextables").mode("overwrite").option(
        OPTION, "dynamic"
    ).saveAsTable(table)
    assert content(spark, table) == PARTITIONS


def test_a_dynamic_overwrite_by_name_makes_the_table_that_is_not_there(
    spark: SparkSession, catalogs: None, rows: DataFrame
) -> None:
    name = f"overwrites.t{next(_numbers)}"
    writer = (
        rows.write.format("indextables")
        .mode("overwrite")
        .option(OPTION, "dynamic")
        .partitionBy("day")
    )
    writer.saveAsTable(name)
    assert content(spark, name) == ALL
    assert [row[0] for row in spark.sql(f"SHOW PARTITIONS {name}").collect()] == ["day=b", "day=c"]


@pytest.mark.parametrize("option", ["replaceWhere", "REPLACEWHERE"])
def test_a_condition_of_the_writer_is_kept_under_a_dynamic_session(
    spark: SparkSession, table: str, rows: DataFrame, option: str
) -> None:
    spark.conf.set(MODE, "dynamic")
    some = rows.where("day = 'c'")
    some.write.format("indextables").mode("overwrite").option(option, "day >= 'b'").saveAsTable(
        table
    )
    assert content(spark, table) == [(1, "a"), (10, "c")]
    some.write.mode("overwrite").option(option, "day > 'b'").insertInto(table)
    assert content(spark, table) == [(1, "a"), (10, "c")]
    writes: list[Callable[[], Any]] = [
        lambda: some.writeTo(table).option(option, "day > 'b'").overwrite(f.col("day") == "a"),
        lambda: some.writeTo(table).option(option, "day > 'b'").overwritePartitions(),
        lambda: (
            some.writeTo(table).using("indextables").option(option, "day > 'b'").createOrReplace()
        ),
        lambda: (
            some.write.mode("overwrite")
            .option(option, "day > 'b'")
            .option(OPTION, "dynamic")
            .insertInto(table)
        ),
    ]
    for write in writes:
        with pytest.raises(PySparkException, match="INDEXTABLES_INVALID_INPUT"):
            write()
    assert content(spark, table) == [(1, "a"), (10, "c")]


def test_a_stream_replaces_what_its_option_names_and_not_the_session(
    spark: SparkSession, table: str, rows: DataFrame, tmp_path: Path
) -> None:
    source = str(tmp_path / "source")
    its.write(rows, source)
    spark.conf.set(MODE, "dynamic")
    totals = (
        its.read_stream(spark, source)
        .groupBy("day")
        .agg(f.max("id").alias("id"))
        .select("id", "day")
    )

    def run(number: int, **options: str) -> None:
        writer = totals.writeStream.format("indextables").outputMode("complete").options(**options)
        writer = writer.option("checkpointLocation", str(tmp_path / f"checkpoint{number}")).trigger(
            availableNow=True
        )
        writer.toTable(table).awaitTermination()

    run(1, **{OPTION: "dynamic"})
    assert content(spark, table) == PARTITIONS
    run(2)
    assert content(spark, table) == ALL

    def each(batch: DataFrame, _: int) -> None:
        batch.write.format("indextables").mode("overwrite").option(OPTION, "dynamic").saveAsTable(
            table
        )

    spark.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    stream = (
        its.read_stream(spark, source).writeStream.foreachBatch(each).trigger(availableNow=True)
    )
    stream.option("checkpointLocation", str(tmp_path / "checkpoint3")).start().awaitTermination()
    assert content(spark, table) == PARTITIONS
