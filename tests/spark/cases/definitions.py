"""CREATE, REPLACE, DROP, TBLPROPERTIES, SHOW and DESCRIBE, and what is refused when a table is
made.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.spark.cases.case import Case, Place


def rows_of_one_partition(spark: SparkSession, place: Place) -> DataFrame:
    """Return the rows of one partition, while the files of the others are missing."""
    for folder in ("p=y", "p=z"):
        shutil.rmtree(Path(place.path) / folder)
    return spark.sql(place.fill("SELECT k FROM {t} WHERE p = 'x' AND k > 0"))


ROWS = "(1, 'a'), (2, 'b')"

DEFINITIONS = [
    Case(
        "a table is created and empty",
        "CREATE TABLE {t} (a INT, b STRING) USING indextables",
        columns="",
        then=[],
        checks={"SHOW COLUMNS IN {t}": [("a",), ("b",)]},
    ),
    Case(
        "a table that exists is not created again",
        "CREATE TABLE {t} (a INT) USING indextables",
        rows=ROWS,
        raises="TABLE_OR_VIEW_ALREADY_EXISTS",
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "a table that exists is left as it is with IF NOT EXISTS",
        "CREATE TABLE IF NOT EXISTS {t} (other DOUBLE) USING indextables",
        rows=ROWS,
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "a table is created from a query",
        "CREATE TABLE {t} USING indextables AS SELECT id AS k, 'r' || id AS v FROM range(2)",
        columns="",
        then=[(0, "r0"), (1, "r1")],
        quick=True,
    ),
    Case(
        "a table with partitions is created from a query",
        "CREATE TABLE {t} USING indextables PARTITIONED BY (p) AS SELECT id AS k, id % 2 AS p FROM range(4)",
        columns="",
        then=[(0, 0), (1, 1), (2, 0), (3, 1)],
        checks={"SHOW PARTITIONS {t}": [("p=0",), ("p=1",)]},
    ),
    Case(
        "a query that fails creates no table",
        "CREATE TABLE {t} USING indextables AS SELECT raise_error('no') AS k",
        columns="",
        raises="USER_RAISED_EXCEPTION",
    ),
    Case(
        "a table from a query that exists is an error",
        "CREATE TABLE {t} USING indextables AS SELECT 1 AS k",
        rows=ROWS,
        raises="TABLE_OR_VIEW_ALREADY_EXISTS",
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "a table is replaced with other columns",
        "CREATE OR REPLACE TABLE {t} (n DOUBLE) USING indextables",
        rows=ROWS,
        then=[],
        checks={"SELECT count(*) FROM {t} VERSION AS OF 1": [(2,)]},
    ),
    Case(
        "a table is replaced by a query on itself",
        "CREATE OR REPLACE TABLE {t} USING indextables AS SELECT max(k) AS top FROM {t}",
        rows=ROWS,
        then=[(2,)],
        quick=True,
    ),
    Case(
        "a replacement that fails leaves the table",
        "CREATE OR REPLACE TABLE {t} USING indextables AS SELECT raise_error('no') AS k",
        rows=ROWS,
        raises="USER_RAISED_EXCEPTION",
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "a table that does not exist is not replaced",
        "REPLACE TABLE {t} (k INT) USING indextables",
        columns="",
        raises="TABLE_OR_VIEW_NOT_FOUND",
    ),
    Case(
        "a column name twice",
        "CREATE TABLE {t} (k INT, K STRING) USING indextables",
        columns="",
        raises="COLUMN_ALREADY_EXISTS",
    ),
    Case(
        "a partition column that is not a column",
        "CREATE TABLE {t} (k INT) USING indextables PARTITIONED BY (nothing)",
        columns="",
        raises="_LEGACY_ERROR_TEMP_3060",
        says=("nothing",),
    ),
    Case(
        "a partition column twice",
        "CREATE TABLE {t} (k INT, p INT) USING indextables PARTITIONED BY (p, p)",
        columns="",
        raises="_LEGACY_ERROR_TEMP_3058",
        says=("p",),
    ),
    Case(
        "a table partitioned by a transformation",
        "CREATE TABLE {t} (k INT, d TIMESTAMP) USING indextables PARTITIONED BY (days(d))",
        columns="",
        raises="INDEXTABLES_UNSUPPORTED",
        says=("PARTITIONED BY",),
    ),
    Case(
        "a table with buckets",
        "CREATE TABLE {t} (k INT) USING indextables CLUSTERED BY (k) INTO 4 BUCKETS",
        columns="",
        raises="INDEXTABLES_UNSUPPORTED",
    ),
    Case(
        "a table with clustering columns",
        "CREATE TABLE {t} (k INT) USING indextables CLUSTER BY (k)",
        columns="",
        raises="INDEXTABLES_UNSUPPORTED",
        says=("CLUSTER BY",),
    ),
    Case(
        "a column NOT NULL",
        "CREATE TABLE {t} (k INT NOT NULL) USING indextables",
        columns="",
        raises="INDEXTABLES_UNSUPPORTED",
        says=("k",),
        quick=True,
    ),
    Case(
        "a column with a default",
        "CREATE TABLE {t} (k INT DEFAULT 1) USING indextables",
        columns="",
        raises="INDEXTABLES_UNSUPPORTED",
        says=("k",),
    ),
    Case(
        "a generated column",
        "CREATE TABLE {t} (k INT, d INT GENERATED ALWAYS AS (k + 1)) USING indextables",
        columns="",
        raises="UNSUPPORTED_FEATURE",
        says=("d",),
    ),
    Case(
        "an identity column",
        "CREATE TABLE {t} (k BIGINT GENERATED ALWAYS AS IDENTITY) USING indextables",
        columns="",
        raises="UNSUPPORTED_FEATURE",
        says=("k",),
    ),
    Case(
        "a check constraint",
        "CREATE TABLE {t} (k INT, CONSTRAINT c CHECK (k > 0)) USING indextables",
        columns="",
        raises="UNSUPPORTED_FEATURE",
    ),
    Case(
        "a primary key",
        "CREATE TABLE {t} (k INT, PRIMARY KEY (k)) USING indextables",
        columns="",
        raises="UNSUPPORTED_FEATURE",
    ),
    Case(
        "a property of another format",
        "CREATE TABLE {t} (k INT) USING indextables TBLPROPERTIES ('delta.appendOnly' = 'true')",
        columns="",
        raises="INDEXTABLES_UNSUPPORTED",
        says=("delta.appendOnly",),
    ),
    Case(
        "a misspelt setting",
        "CREATE TABLE {t} (v STRING) USING indextables TBLPROPERTIES ('indexing.typmap.v' = 'text')",
        columns="",
        raises="INDEXTABLES_UNKNOWN_OPTION",
        says=("indexing.typemap",),
    ),
    Case(
        "a wrong kind of index",
        "CREATE TABLE {t} (v STRING) USING indextables TBLPROPERTIES ('indexing.typemap.v' = 'txt')",
        columns="",
        raises="INDEXTABLES_INVALID_INPUT",
        says=("txt",),
    ),
    Case(
        "a setting of a column that does not exist",
        "CREATE TABLE {t} (v STRING) USING indextables TBLPROPERTIES ('indexing.typemap.w' = 'text')",
        columns="",
        raises="INDEXTABLES_INVALID_INPUT",
        says=("w",),
    ),
    Case(
        "properties are set, shown and unset",
        [
            "ALTER TABLE {t} SET TBLPROPERTIES ('team' = 'a', 'note' = 'b')",
            "ALTER TABLE {t} UNSET TBLPROPERTIES ('note')",
            "SHOW TBLPROPERTIES {t}",
        ],
        rows=ROWS,
        returns=[("team", "a")],
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "a property that is not there is unset with IF EXISTS",
        "ALTER TABLE {t} UNSET TBLPROPERTIES IF EXISTS ('nothing')",
        rows=ROWS,
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "a table gets a comment",
        ["COMMENT ON TABLE {t} IS 'what it holds'", "SELECT count(*) FROM {t}"],
        rows=ROWS,
        returns=[(2,)],
    ),
    Case(
        "the columns of a table are described",
        "DESCRIBE {t}",
        columns="k INT COMMENT 'the key', v STRING, p STRING",
        partitioned_by="p",
        returns=[
            ("k", "int", "the key"),
            ("v", "string", None),
            ("p", "string", None),
            ("# Partition Information", "", ""),
            ("# col_name", "data_type", "comment"),
            ("p", "string", None),
        ],
    ),
    Case(
        "partitions are shown",
        "SHOW PARTITIONS {t}",
        columns="k INT, p STRING, q INT",
        partitioned_by="p, q",
        rows="(1, 'x', 1), (2, 'x', 2), (3, NULL, 1)",
        returns=[("p=x/q=1",), ("p=x/q=2",), ("p=null/q=1",)],
    ),
    Case(
        "some partitions are shown",
        "SHOW PARTITIONS {t} PARTITION (p = 'x')",
        columns="k INT, p STRING",
        partitioned_by="p",
        rows="(1, 'x'), (2, 'y')",
        returns=[("p=x",)],
    ),
    Case(
        "partitions of a table without partitions",
        "SHOW PARTITIONS {t}",
        rows=ROWS,
        raises="INVALID_PARTITION_OPERATION",
    ),
    Case(
        "a partition is dropped",
        "ALTER TABLE {t} DROP PARTITION (p = 'x')",
        columns="k INT, p STRING",
        partitioned_by="p",
        rows="(1, 'x'), (2, 'y')",
        then=[(2, "y")],
        quick=True,
    ),
    Case(
        "a partition of a date is dropped",
        "ALTER TABLE {t} DROP PARTITION (p = DATE'2024-01-02')",
        columns="k INT, p DATE",
        partitioned_by="p",
        rows="(1, DATE'2024-01-01'), (2, DATE'2024-01-02')",
        checks={"SELECT k FROM {t}": [(1,)]},
    ),
    Case(
        "a partition of a number is dropped",
        "ALTER TABLE {t} DROP PARTITION (p = 1.5)",
        columns="k INT, p DOUBLE",
        partitioned_by="p",
        rows="(1, 1.5), (2, 2)",
        then=[(2, 2.0)],
    ),
    Case(
        "a partition that does not exist is not dropped",
        "ALTER TABLE {t} DROP PARTITION (p = 'z')",
        columns="k INT, p STRING",
        partitioned_by="p",
        rows="(1, 'x')",
        raises="PARTITIONS_NOT_FOUND",
        then=[(1, "x")],
    ),
    Case(
        "a partition that does not exist is not dropped, with IF EXISTS",
        "ALTER TABLE {t} DROP IF EXISTS PARTITION (p = 'z')",
        columns="k INT, p STRING",
        partitioned_by="p",
        rows="(1, 'x')",
        then=[(1, "x")],
    ),
    Case(
        "a condition on the partition column opens no file of another partition",
        rows_of_one_partition,
        columns="k INT, p STRING",
        partitioned_by="p",
        rows="(1, 'x'), (2, 'y'), (3, 'z')",
        returns=[(1,)],
        quick=True,
    ),
    Case(
        "rows are truncated",
        "TRUNCATE TABLE {t}",
        rows=ROWS,
        then=[],
        checks={"SELECT count(*) FROM {t} VERSION AS OF 1": [(2,)]},
    ),
    Case(
        "a table is renamed",
        ["ALTER TABLE {t} RENAME TO {u}", "SELECT * FROM {u}"],
        rows=ROWS,
        returns=[(1, "a"), (2, "b")],
        only="name",
    ),
    Case(
        "a dropped table is gone",
        ["DROP TABLE {t}", "SELECT * FROM {t}"],
        rows=ROWS,
        raises="TABLE_OR_VIEW_NOT_FOUND",
        only="name",
        quick=True,
    ),
    Case(
        "a table that is dropped and created again is empty",
        ["DROP TABLE {t}", "CREATE TABLE {t} (k BIGINT) USING indextables"],
        rows=ROWS,
        then=[],
        only="name",
    ),
    Case(
        "a table that does not exist cannot be dropped",
        "DROP TABLE {t}",
        columns="",
        raises="TABLE_OR_VIEW_NOT_FOUND",
        only="name",
    ),
    Case(
        "a table that does not exist is dropped with IF EXISTS",
        "DROP TABLE IF EXISTS {t}",
        columns="",
        only="name",
    ),
    Case(
        "a table like another",
        [
            "CREATE TABLE {u} LIKE {t}",
            "INSERT INTO {u} VALUES (5, 'find me')",
            "SELECT k FROM {u} WHERE v TEXTSEARCH 'find'",
        ],
        properties="'indexing.typemap.v' = 'text'",
        rows=ROWS,
        returns=[(5,)],
        only="name",
    ),
    Case(
        "a view on a table is read but not written",
        ["CREATE OR REPLACE TEMP VIEW {s} AS SELECT * FROM {t}", "DELETE FROM {s}"],
        rows=ROWS,
        raises="INDEXTABLES_UNSUPPORTED",
        says=("is a view",),
        then=[(1, "a"), (2, "b")],
    ),
]
