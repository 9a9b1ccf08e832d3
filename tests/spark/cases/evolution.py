"""Schemas that change: with a write, with ALTER TABLE, with an overwrite."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.spark.cases.case import Case, Place


def merge_schema(spark: SparkSession, place: Place) -> None:
    rows = spark.createDataFrame([(9, "m", 1.5)], "k INT, v STRING, n DOUBLE")
    rows.write.format("indextables").mode("append").option("mergeSchema", "true").save(place.path)


def merge_schema_of_another_type(spark: SparkSession, place: Place) -> None:
    rows = spark.createDataFrame([("nine", "m")], "k STRING, v STRING")
    rows.write.format("indextables").mode("append").option("mergeSchema", "true").save(place.path)


def overwrite_schema(spark: SparkSession, place: Place) -> None:
    rows = spark.createDataFrame([(True, 9)], "flag BOOLEAN, n BIGINT")
    rows.write.format("indextables").mode("overwrite").option("overwriteSchema", "true").save(
        place.path
    )


def overwrite_without_permission(spark: SparkSession, place: Place) -> None:
    rows = spark.createDataFrame([(True, 9)], "flag BOOLEAN, n BIGINT")
    rows.write.format("indextables").mode("overwrite").save(place.path)


TWO = "(1, 'a'), (2, 'b')"

EVOLUTION = [
    Case(
        "an append with mergeSchema adds the column",
        merge_schema,
        rows=TWO,
        then=[(1, "a", None), (2, "b", None), (9, "m", 1.5)],
        quick=True,
    ),
    Case(
        "an append with mergeSchema does not change a type",
        merge_schema_of_another_type,
        rows=TWO,
        raises="PYTHON_DATA_SOURCE_ERROR",
        says=("'k'",),
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "an insert with schema evolution adds the column",
        "INSERT WITH SCHEMA EVOLUTION INTO {t} BY NAME SELECT 9 AS k, 'm' AS v, 1L AS n",
        rows=TWO,
        then=[(1, "a", None), (2, "b", None), (9, "m", 1)],
    ),
    Case(
        "an overwrite with overwriteSchema replaces the columns",
        overwrite_schema,
        rows=TWO,
        then=[(True, 9)],
        checks={"SELECT * FROM {t} VERSION AS OF 1": [(1, "a"), (2, "b")]},
        quick=True,
    ),
    Case(
        "an overwrite with other columns is refused without overwriteSchema",
        overwrite_without_permission,
        rows=TWO,
        raises="PYTHON_DATA_SOURCE_ERROR",
        says=("flag",),
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "an added column is null in the rows before it",
        [
            "ALTER TABLE {t} ADD COLUMNS (n INT, w STRING COMMENT 'why')",
            "INSERT INTO {t} VALUES (3, 'c', 30, 'x')",
        ],
        rows=TWO,
        then=[(1, "a", None, None), (2, "b", None, None), (3, "c", 30, "x")],
        checks={
            "SELECT k FROM {t} WHERE n IS NULL": [(1,), (2,)],
            "SELECT k FROM {t} WHERE n > 1": [(3,)],
        },
        quick=True,
    ),
    Case(
        "a column is not added in front",
        "ALTER TABLE {t} ADD COLUMN n INT FIRST",
        rows=TWO,
        raises="INDEXTABLES_UNSUPPORTED",
        says=("'n'", "ADD COLUMNS (n int)"),
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "a column is not added after another",
        "ALTER TABLE {t} ADD COLUMN n INT AFTER k",
        rows=TWO,
        raises="INDEXTABLES_UNSUPPORTED",
        says=("'n'", "ADD COLUMNS (n int)"),
    ),
    Case(
        "a column is not added with a default",
        "ALTER TABLE {t} ADD COLUMN n INT DEFAULT 7",
        rows=TWO,
        raises="INDEXTABLES_UNSUPPORTED",
        says=("'n'",),
    ),
    Case(
        "a column that is there cannot be added",
        "ALTER TABLE {t} ADD COLUMN V INT",
        rows=TWO,
        raises="FIELD_ALREADY_EXISTS",
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "a column inside a struct is added",
        [
            "ALTER TABLE {t} ADD COLUMN s.c INT",
            "INSERT INTO {t} VALUES (2, named_struct('a', 2, 'c', 3))",
        ],
        columns="k INT, s STRUCT<a: INT>",
        rows="(1, named_struct('a', 1))",
        then=[(1, (1, None)), (2, (2, 3))],
    ),
    Case(
        "a renamed column keeps its rows",
        [
            "ALTER TABLE {t} RENAME COLUMN v TO w",
            "UPDATE {t} SET w = upper(w) WHERE k = 1",
            "INSERT INTO {t} (w, k) VALUES ('new', 3)",
        ],
        rows=TWO,
        then=[(1, "A"), (2, "b"), (3, "new")],
        checks={
            "SELECT v FROM {t} VERSION AS OF 1": [("a",), ("b",)],
            "SELECT k FROM {t} WHERE w = 'b'": [(2,)],
        },
        quick=True,
    ),
    Case(
        "the old name of a renamed column is unknown",
        ["ALTER TABLE {t} RENAME COLUMN v TO w", "UPDATE {t} SET v = 'x'"],
        rows=TWO,
        raises="UNRESOLVED_COLUMN",
        says=("v",),
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "a column cannot take the name of another",
        "ALTER TABLE {t} RENAME COLUMN v TO k",
        rows=TWO,
        raises="FIELD_ALREADY_EXISTS",
    ),
    Case(
        "a column that does not exist cannot be renamed",
        "ALTER TABLE {t} RENAME COLUMN nothing TO w",
        rows=TWO,
        raises="UNRESOLVED_COLUMN",
        says=("nothing",),
    ),
    Case(
        "a dropped column comes back without its values",
        [
            "ALTER TABLE {t} DROP COLUMN v",
            "ALTER TABLE {t} ADD COLUMN v INT",
            "INSERT INTO {t} VALUES (3, 33)",
        ],
        rows=TWO,
        then=[(1, None), (2, None), (3, 33)],
        checks={"SELECT k FROM {t} WHERE v IS NULL": [(1,), (2,)]},
        quick=True,
    ),
    Case(
        "a column that does not exist cannot be dropped",
        "ALTER TABLE {t} DROP COLUMN nothing",
        rows=TWO,
        raises="UNRESOLVED_COLUMN",
        says=("nothing",),
    ),
    Case(
        "a partition column cannot be dropped",
        "ALTER TABLE {t} DROP COLUMN p",
        columns="k INT, p STRING",
        partitioned_by="p",
        rows="(1, 'x')",
        raises="INDEXTABLES_INVALID_INPUT",
        says=("p",),
        then=[(1, "x")],
    ),
    Case(
        "a partition column is renamed",
        ["ALTER TABLE {t} RENAME COLUMN p TO q", "INSERT INTO {t} VALUES (2, 'y')"],
        columns="k INT, p STRING",
        partitioned_by="p",
        rows="(1, 'x')",
        then=[(1, "x"), (2, "y")],
        checks={"SELECT k FROM {t} WHERE q = 'x'": [(1,)]},
    ),
    Case(
        "a type is widened",
        ["ALTER TABLE {t} ALTER COLUMN k TYPE BIGINT", "INSERT INTO {t} VALUES (10000000000, 'c')"],
        rows=TWO,
        then=[(1, "a"), (2, "b"), (10000000000, "c")],
        quick=True,
    ),
    Case(
        "a type is not narrowed",
        "ALTER TABLE {t} ALTER COLUMN k TYPE SMALLINT",
        rows=TWO,
        raises="NOT_SUPPORTED_CHANGE_COLUMN",
        says=("k",),
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "a text does not become a number",
        "ALTER TABLE {t} ALTER COLUMN v TYPE INT",
        rows=TWO,
        raises="NOT_SUPPORTED_CHANGE_COLUMN",
        says=("v",),
    ),
    Case(
        "columns are not put in another order",
        "ALTER TABLE {t} ALTER COLUMN v FIRST",
        rows=TWO,
        raises="INDEXTABLES_UNSUPPORTED",
        says=("CREATE OR REPLACE TABLE",),
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "a column gets a comment",
        "ALTER TABLE {t} ALTER COLUMN v COMMENT 'the value'",
        rows=TWO,
        checks={
            "SELECT count(*) FROM {t}": [(2,)],
            "DESCRIBE {t} v": [
                ("col_name", "v"),
                ("data_type", "string"),
                ("comment", "the value"),
            ],
        },
    ),
    Case(
        "a column cannot be made NOT NULL by ALTER",
        "ALTER TABLE {t} ALTER COLUMN v SET NOT NULL",
        rows=TWO,
        raises="_LEGACY_ERROR_TEMP_2330",
    ),
    Case(
        "a merge after columns were renamed and added",
        [
            "ALTER TABLE {t} RENAME COLUMN v TO w",
            "ALTER TABLE {t} ADD COLUMN n INT",
            "MERGE INTO {t} t USING {s} s ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        ],
        rows=TWO,
        source="SELECT * FROM VALUES (5, 2, 'B'), (6, 3, 'C') AS (n, k, w)",
        then=[(1, "a", None), (2, "B", 5), (3, "C", 6)],
    ),
    Case(
        "an older version keeps its columns",
        [
            "ALTER TABLE {t} ADD COLUMN n INT",
            "ALTER TABLE {t} DROP COLUMN v",
            "SELECT * FROM {t} VERSION AS OF 1",
        ],
        rows=TWO,
        returns=[(1, "a"), (2, "b")],
        then=[(1, None), (2, None)],
    ),
]
