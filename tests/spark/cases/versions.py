"""Time travel, RESTORE, history, statistics and the change feed."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tests.spark.cases.case import Case, Place


def version_option(spark: SparkSession, place: Place) -> DataFrame:
    return spark.read.format("indextables").option("versionAsOf", 1).load(place.path)


def version_option_by_name(spark: SparkSession, place: Place) -> DataFrame:
    return spark.read.option("versionAsOf", 1).table(place.table)


def two_options(spark: SparkSession, place: Place) -> DataFrame:
    read = (
        spark.read.format("indextables")
        .option("versionAsOf", 1)
        .option("timestampAsOf", "2999-01-01")
    )
    return read.load(place.path)


def wrong_version(spark: SparkSession, place: Place) -> DataFrame:
    return spark.read.format("indextables").option("versionAsOf", "first").load(place.path)


def pinned(spark: SparkSession, place: Place) -> DataFrame:
    """Return a frame that was made before its table changed."""
    frame = spark.read.format("indextables").load(place.path)
    spark.sql(place.fill("INSERT INTO {t} VALUES (9, 'late')"))
    return frame


def operations(spark: SparkSession, place: Place) -> list[tuple[str]]:
    return [(row.operation,) for row in spark.sql(place.fill("DESCRIBE HISTORY {t}")).collect()]


ROWS = "(1, 'a'), (2, 'b')"
MORE = "INSERT INTO {t} VALUES (3, 'c')"

VERSIONS = [
    Case(
        "an older version is read by its number",
        [MORE, "SELECT * FROM {t} VERSION AS OF 1"],
        rows=ROWS,
        returns=[(1, "a"), (2, "b")],
        then=[(1, "a"), (2, "b"), (3, "c")],
    ),
    Case(
        "an older version is read by the suffix of the name",
        [MORE, "SELECT * FROM {t}@v1"],
        rows=ROWS,
        returns=[(1, "a"), (2, "b")],
        only="name",
    ),
    Case(
        "the version before the first row is empty",
        "SELECT * FROM {t} VERSION AS OF 0",
        rows=ROWS,
        returns=[],
    ),
    Case(
        "a version that does not exist",
        "SELECT * FROM {t} VERSION AS OF 99",
        rows=ROWS,
        raises="INDEXTABLES_VERSION_NOT_FOUND",
        says=("99",),
        quick=True,
    ),
    Case(
        "a time after the last version is the last version",
        "SELECT * FROM {t} TIMESTAMP AS OF '2999-01-01'",
        rows=ROWS,
        returns=[(1, "a"), (2, "b")],
    ),
    Case(
        "a time before the first version",
        "SELECT * FROM {t} TIMESTAMP AS OF '1999-01-01'",
        rows=ROWS,
        raises="INDEXTABLES_VERSION_NOT_FOUND",
    ),
    Case(
        "a time that is not a time",
        "SELECT * FROM {t} TIMESTAMP AS OF 'soon'",
        rows=ROWS,
        raises="INVALID_TIME_TRAVEL_TIMESTAMP_EXPR",
    ),
    Case(
        "the time of now is the last version",
        "SELECT * FROM {t} TIMESTAMP AS OF current_timestamp()",
        rows=ROWS,
        only="name",
        returns=[(1, "a"), (2, "b")],
    ),
    Case(
        "the option versionAsOf by path",
        [MORE, version_option],
        rows=ROWS,
        returns=[(1, "a"), (2, "b")],
    ),
    Case(
        "the option versionAsOf by name",
        [MORE, version_option_by_name],
        rows=ROWS,
        returns=[(1, "a"), (2, "b")],
    ),
    Case(
        "a version and a time together", two_options, rows=ROWS, raises="PYTHON_DATA_SOURCE_ERROR"
    ),
    Case(
        "a version that is not a number",
        wrong_version,
        rows=ROWS,
        raises="PYTHON_DATA_SOURCE_ERROR",
        says=("first",),
    ),
    Case(
        "two versions of a table are joined",
        [MORE, "SELECT n.k FROM {t} n LEFT ANTI JOIN {t} VERSION AS OF 1 o ON n.k = o.k"],
        rows=ROWS,
        returns=[(3,)],
    ),
    Case(
        "a frame stays at the version it was made at",
        pinned,
        rows=ROWS,
        returns=[(1, "a"), (2, "b")],
    ),
    Case(
        "an older version is searched",
        ["DELETE FROM {t}", "SELECT k FROM {t} VERSION AS OF 1 WHERE v TEXTSEARCH 'b'"],
        properties="'indexing.typemap.v' = 'text'",
        rows=ROWS,
        returns=[(2,)],
    ),
    Case(
        "an older version after an update has the values before it",
        ["UPDATE {t} SET v = 'z'", "SELECT * FROM {t} VERSION AS OF 1"],
        rows=ROWS,
        returns=[(1, "a"), (2, "b")],
        then=[(1, "z"), (2, "z")],
    ),
    Case(
        "a version is restored by its number",
        ["DELETE FROM {t} WHERE k = 1", "RESTORE TABLE {t} TO VERSION AS OF 1"],
        rows=ROWS,
        then=[(1, "a"), (2, "b")],
        quick=True,
    ),
    Case(
        "a restored table goes on",
        [
            "DELETE FROM {t}",
            "RESTORE TABLE {t} TO VERSION AS OF 1",
            MORE,
            "DELETE FROM {t} WHERE k = 1",
        ],
        rows=ROWS,
        then=[(2, "b"), (3, "c")],
    ),
    Case(
        "a restored version has the columns of that version",
        ["ALTER TABLE {t} ADD COLUMN n INT", "RESTORE TABLE {t} TO VERSION AS OF 1"],
        rows=ROWS,
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "a version that does not exist is not restored",
        "RESTORE TABLE {t} TO VERSION AS OF 99",
        rows=ROWS,
        raises="INDEXTABLES_VERSION_NOT_FOUND",
        says=("99",),
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "a table is restored to a time",
        ["DELETE FROM {t}", "RESTORE TABLE {t} TO TIMESTAMP AS OF '1999-01-01'"],
        rows=ROWS,
        raises="INDEXTABLES_VERSION_NOT_FOUND",
        then=[],
    ),
    Case(
        "the history names what was done",
        [
            "DELETE FROM {t} WHERE k = 1",
            "UPDATE {t} SET v = 'x'",
            "RESTORE TABLE {t} TO VERSION AS OF 1",
            operations,
        ],
        rows=ROWS,
        returns=[("RESTORE",), ("UPDATE",), ("DELETE",), ("WRITE",), ("CREATE",)],
        quick=True,
    ),
    Case(
        "the history with a limit",
        [
            "DESCRIBE HISTORY {t} LIMIT 1",
            lambda s, p: [(s.sql(p.fill("DESCRIBE HISTORY {t} LIMIT 1")).count(),)],
        ],
        rows=ROWS,
        returns=[(1,)],
    ),
    Case(
        "a table has one row of detail",
        lambda s, p: [(s.sql(p.fill("DESCRIBE DETAIL {t}")).count(),)],
        rows=ROWS,
        returns=[(1,)],
    ),
    Case(
        "statistics are analyzed",
        ["ANALYZE TABLE {t} COMPUTE STATISTICS", "SELECT count(*), min(k), max(k) FROM {t}"],
        rows=ROWS,
        returns=[(2, 1, 2)],
    ),
    Case(
        "splits are optimized and the rows stay",
        [MORE, "DELETE FROM {t} WHERE k = 2", "OPTIMIZE {t}"],
        rows=ROWS,
        then=[(1, "a"), (3, "c")],
        quick=True,
    ),
    Case(
        "OPTIMIZE with ZORDER",
        "OPTIMIZE {t} ZORDER BY (k)",
        rows=ROWS,
        raises="INDEXTABLES_QUERY_SYNTAX",
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "VACUUM without retention is refused",
        "VACUUM {t} RETAIN 0 HOURS",
        rows=ROWS,
        raises="INDEXTABLES_",
        says=("retention",),
    ),
    Case(
        "VACUUM keeps what versions in its retention need",
        ["DELETE FROM {t}", "VACUUM {t}", "SELECT count(*) FROM {t} VERSION AS OF 1"],
        rows=ROWS,
        returns=[(2,)],
    ),
    Case(
        "changes by path",
        [
            "DELETE FROM {t} WHERE k = 2",
            "SELECT k, _change_type, _commit_version FROM table_changes_by_path('{path}', 1)",
        ],
        rows=ROWS,
        returns=[(1, "insert", 1), (2, "insert", 1), (2, "delete", 2)],
    ),
    Case(
        "changes by name",
        ["DELETE FROM {t} WHERE k = 2", "SELECT k, _change_type FROM table_changes('{t}', 2)"],
        rows=ROWS,
        returns=[(2, "delete")],
        only="name",
    ),
    Case(
        "an update in the changes",
        [
            "UPDATE {t} SET v = 'z' WHERE k = 2",
            "SELECT k, v, _change_type FROM table_changes_by_path('{path}', 2)",
        ],
        rows=ROWS,
        returns=[(2, "b", "update_preimage"), (2, "z", "update_postimage")],
    ),
]
