"""INSERT INTO, INSERT OVERWRITE and the writers of a DataFrame."""

from __future__ import annotations

from decimal import Decimal

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.spark.cases.case import Case, Place

PARTS = "(1, 'x'), (2, 'x'), (3, 'y')"


def save(spark: SparkSession, place: Place) -> None:
    rows = spark.createDataFrame([(9, "saved")], "k INT, v STRING")
    rows.write.format("indextables").mode("append").save(place.path)


def save_other_order(spark: SparkSession, place: Place) -> None:
    rows = spark.createDataFrame([("saved", 9)], "v STRING, k INT")
    rows.write.format("indextables").mode("append").save(place.path)


def append_by_name(spark: SparkSession, place: Place) -> None:
    spark.createDataFrame([("new", 9)], "v STRING, k INT").writeTo(place.table).append()


def insert_by_position(spark: SparkSession, place: Place) -> None:
    spark.createDataFrame([(9, "new")], "other INT, names STRING").write.insertInto(place.table)


def overwrite_where(spark: SparkSession, place: Place) -> None:
    spark.createDataFrame([(9, "x")], "k INT, p STRING").writeTo(place.table).overwrite(
        f.col("p") == "x"
    )


def overwrite_partitions(spark: SparkSession, place: Place) -> None:
    spark.createDataFrame([(9, "y")], "k INT, p STRING").writeTo(place.table).overwritePartitions()


def replace_where(spark: SparkSession, place: Place) -> None:
    rows = spark.createDataFrame([(7, "x")], "k INT, p STRING")
    rows.write.format("indextables").mode("overwrite").option("replaceWhere", "p = 'x'").save(
        place.path
    )


def replace_where_outside(spark: SparkSession, place: Place) -> None:
    rows = spark.createDataFrame([(7, "y")], "k INT, p STRING")
    rows.write.format("indextables").mode("overwrite").option("replaceWhere", "p = 'x'").save(
        place.path
    )


def dynamic_save(spark: SparkSession, place: Place) -> None:
    rows = spark.createDataFrame([(7, "x")], "k INT, p STRING")
    rows.write.format("indextables").mode("overwrite").option(
        "partitionOverwriteMode", "dynamic"
    ).save(place.path)


def dynamic_save_as_table(spark: SparkSession, place: Place) -> None:
    rows = spark.createDataFrame([(7, "x")], "k INT, p STRING")
    writer = (
        rows.write.format("indextables")
        .mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
    )
    writer.partitionBy("p").saveAsTable(place.table)


def save_too_few(spark: SparkSession, place: Place) -> None:
    spark.createDataFrame([(9,)], "k INT").write.format("indextables").mode("append").save(
        place.path
    )


def save_too_many(spark: SparkSession, place: Place) -> None:
    rows = spark.createDataFrame([(9, "a", 1)], "k INT, v STRING, n INT")
    rows.write.format("indextables").mode("append").save(place.path)


def save_another_type(spark: SparkSession, place: Place) -> None:
    rows = spark.createDataFrame([("nine", "a")], "k STRING, v STRING")
    rows.write.format("indextables").mode("append").save(place.path)


INSERTS = [
    Case(
        "an insert of values goes by position",
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')",
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "an insert of a query goes by position, whatever the names",
        "INSERT INTO {t} SELECT 1 AS v, 'a' AS k",
        then=[(1, "a")],
    ),
    Case(
        "an insert by name goes by the names",
        "INSERT INTO {t} BY NAME SELECT 'a' AS v, 1 AS k",
        then=[(1, "a")],
        quick=True,
    ),
    Case(
        "an insert by name without a column leaves it null",
        "INSERT INTO {t} BY NAME SELECT 1 AS k",
        then=[(1, None)],
    ),
    Case(
        "an insert by name ignores case",
        "INSERT INTO {t} BY NAME SELECT 'a' AS V, 1 AS K",
        then=[(1, "a")],
    ),
    Case(
        "an insert by name of a column that the table lacks",
        "INSERT INTO {t} BY NAME SELECT 1 AS k, 'a' AS v, 2 AS extra",
        raises="INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS",
        says=("extra",),
        then=[],
    ),
    Case(
        "an insert with a list of columns",
        "INSERT INTO {t} (v, k) VALUES ('a', 1)",
        then=[(1, "a")],
    ),
    Case(
        "an insert with a list of some columns", "INSERT INTO {t} (k) VALUES (1)", then=[(1, None)]
    ),
    Case(
        "an insert with an unknown column in its list",
        "INSERT INTO {t} (k, nothing) VALUES (1, 2)",
        raises="UNRESOLVED_COLUMN",
        says=("nothing",),
        then=[],
    ),
    Case(
        "an insert with a column twice in its list",
        "INSERT INTO {t} (k, k) VALUES (1, 2)",
        raises="COLUMN_ALREADY_EXISTS",
        then=[],
    ),
    Case(
        "an insert of too few values",
        "INSERT INTO {t} VALUES (1)",
        raises="INSERT_COLUMN_ARITY_MISMATCH",
        then=[],
    ),
    Case(
        "an insert of too many values",
        "INSERT INTO {t} VALUES (1, 'a', 2)",
        raises="INSERT_COLUMN_ARITY_MISMATCH",
        then=[],
    ),
    Case(
        "an insert of a text for a number",
        "INSERT INTO {t} VALUES ('no number', 'a')",
        raises="INCOMPATIBLE_DATA_FOR_TABLE",
        then=[],
    ),
    Case(
        "an insert of a number that does not fit",
        "INSERT INTO {t} VALUES (10000000000L, 'a')",
        raises="CAST_OVERFLOW",
        then=[],
    ),
    Case(
        "an insert widens",
        "INSERT INTO {t} VALUES (1, 1)",
        columns="a BIGINT, b DECIMAL(6, 2)",
        then=[(1, Decimal("1.00"))],
    ),
    Case(
        "an insert with DEFAULT where there is no default inserts null",
        "INSERT INTO {t} VALUES (1, DEFAULT)",
        then=[(1, None)],
    ),
    Case(
        "an insert of the rows of a table",
        "INSERT INTO {t} TABLE {s}",
        source="SELECT 1 AS k, 'a' AS v",
        then=[(1, "a")],
    ),
    Case(
        "an insert of a table's own rows",
        "INSERT INTO {t} SELECT k + 10, v FROM {t}",
        rows="(1, 'a')",
        then=[(1, "a"), (11, "a")],
    ),
    Case(
        "an insert of no rows",
        "INSERT INTO {t} SELECT * FROM {t} WHERE false",
        rows="(1, 'a')",
        then=[(1, "a")],
    ),
    Case(
        "an insert after WITH",
        "WITH c AS (SELECT 5 AS k, 'w' AS v) INSERT INTO {t} SELECT * FROM c",
        then=[(5, "w")],
    ),
    Case(
        "an insert into one partition",
        "INSERT INTO {t} PARTITION (p = 'z') SELECT 9",
        columns="k INT, p STRING",
        partitioned_by="p",
        rows=PARTS,
        then=[(1, "x"), (2, "x"), (3, "y"), (9, "z")],
        quick=True,
    ),
    Case(
        "an overwrite replaces all rows",
        "INSERT OVERWRITE {t} VALUES (9, 'n')",
        rows="(1, 'a'), (2, 'b')",
        then=[(9, "n")],
        checks={"SELECT count(*) FROM {t} VERSION AS OF 1": [(2,)]},
        quick=True,
    ),
    Case(
        "an overwrite by a query on the table itself",
        "INSERT OVERWRITE {t} SELECT k + 1, v FROM {t}",
        rows="(1, 'a'), (2, 'b')",
        then=[(2, "a"), (3, "b")],
    ),
    Case(
        "an overwrite by a query without rows",
        "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE false",
        rows="(1, 'a')",
        then=[],
    ),
    Case(
        "an overwrite that fails leaves the rows",
        "INSERT OVERWRITE {t} SELECT k, raise_error('no') FROM {t}",
        rows="(1, 'a')",
        raises="USER_RAISED_EXCEPTION",
        then=[(1, "a")],
    ),
    Case(
        "an overwrite by name",
        "INSERT OVERWRITE {t} BY NAME SELECT 'n' AS v, 9 AS k",
        rows="(1, 'a')",
        then=[(9, "n")],
    ),
    Case(
        "an overwrite of one partition",
        "INSERT OVERWRITE {t} PARTITION (p = 'x') SELECT 9",
        columns="k INT, p STRING",
        partitioned_by="p",
        rows=PARTS,
        then=[(3, "y"), (9, "x")],
        quick=True,
    ),
    Case(
        "a static overwrite of a table with partitions replaces all",
        "INSERT OVERWRITE {t} VALUES (9, 'x')",
        columns="k INT, p STRING",
        partitioned_by="p",
        rows=PARTS,
        then=[(9, "x")],
    ),
    Case(
        "a dynamic overwrite replaces the partitions that the rows have",
        "INSERT OVERWRITE {t} VALUES (9, 'x'), (10, 'z')",
        columns="k INT, p STRING",
        partitioned_by="p",
        rows=PARTS,
        conf={"spark.sql.sources.partitionOverwriteMode": "dynamic"},
        then=[(3, "y"), (9, "x"), (10, "z")],
        quick=True,
    ),
    Case(
        "a dynamic overwrite by a query without rows changes nothing",
        "INSERT OVERWRITE {t} SELECT k, p FROM {t} WHERE false",
        columns="k INT, p STRING",
        partitioned_by="p",
        rows=PARTS,
        conf={"spark.sql.sources.partitionOverwriteMode": "dynamic"},
        then=[(1, "x"), (2, "x"), (3, "y")],
    ),
    Case(
        "an insert replaces what a condition matches",
        "INSERT INTO {t} REPLACE WHERE p = 'x' SELECT 9, 'x'",
        columns="k INT, p STRING",
        partitioned_by="p",
        rows=PARTS,
        then=[(3, "y"), (9, "x")],
    ),
    Case(
        "a frame is appended by path",
        save,
        rows="(1, 'a')",
        then=[(1, "a"), (9, "saved")],
        quick=True,
    ),
    Case(
        "a frame in another order is appended by name",
        save_other_order,
        rows="(1, 'a')",
        then=[(1, "a"), (9, "saved")],
    ),
    Case("writeTo appends by name", append_by_name, rows="(1, 'a')", then=[(1, "a"), (9, "new")]),
    Case(
        "insertInto appends by position",
        insert_by_position,
        rows="(1, 'a')",
        then=[(1, "a"), (9, "new")],
    ),
    Case(
        "writeTo overwrites what a condition matches",
        overwrite_where,
        columns="k INT, p STRING",
        partitioned_by="p",
        rows=PARTS,
        then=[(3, "y"), (9, "x")],
    ),
    Case(
        "writeTo overwrites partitions",
        overwrite_partitions,
        columns="k INT, p STRING",
        partitioned_by="p",
        rows=PARTS,
        then=[(1, "x"), (2, "x"), (9, "y")],
    ),
    Case(
        "an overwrite with replaceWhere",
        replace_where,
        columns="k INT, p STRING",
        partitioned_by="p",
        rows=PARTS,
        then=[(3, "y"), (7, "x")],
        quick=True,
    ),
    Case(
        "an overwrite with replaceWhere of rows that its condition does not match",
        replace_where_outside,
        columns="k INT, p STRING",
        partitioned_by="p",
        rows=PARTS,
        raises="PYTHON_EXCEPTION",
        then=[(1, "x"), (2, "x"), (3, "y")],
    ),
    Case(
        "a dynamic overwrite of a frame by name",
        dynamic_save_as_table,
        columns="k INT, p STRING",
        partitioned_by="p",
        rows=PARTS,
        then=[(3, "y"), (7, "x")],
    ),
    Case(
        "a dynamic overwrite of a frame by path",
        dynamic_save,
        columns="k INT, p STRING",
        partitioned_by="p",
        rows=PARTS,
        then=[(3, "y"), (7, "x")],
    ),
    Case(
        "a frame without a column leaves it null",
        save_too_few,
        rows="(1, 'a')",
        then=[(1, "a"), (9, None)],
    ),
    Case(
        "a frame with a column that the table lacks",
        save_too_many,
        rows="(1, 'a')",
        raises="PYTHON_DATA_SOURCE_ERROR",
        says=("'n'",),
        then=[(1, "a")],
    ),
    Case(
        "a frame with another type",
        save_another_type,
        rows="(1, 'a')",
        raises="PYTHON_DATA_SOURCE_ERROR",
        says=("'k'",),
        then=[(1, "a")],
    ),
    Case(
        "an insert into a table that does not exist",
        "INSERT INTO {t} VALUES (1)",
        columns="",
        raises="TABLE_OR_VIEW_NOT_FOUND",
        only="name",
    ),
]
