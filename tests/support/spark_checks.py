"""Statements and verbs that show what works with a version of Spark: a program for the Python that
has it.

    python -m tests.support.spark_checks results.json

The file says for each check "passed", "refused: ..." or "failed: ...".

What a version lacks must be refused with an error that names the version that has it: every other
error is a failure.
"""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables import Table
from indextables.spark.compat import SPARK
from indextables.spark.sessions import local_defaults

ROWS = [(1, "connection timeout", "a"), (2, "all fine", "a"), (3, "timeout again", "b")]
SCHEMA = "id long, message string, day string"
OPTIONS = {"indexing.typemap.message": "text"}


@dataclass(frozen=True)
class Place:
    """What the checks share: a session, a folder, and the table `logs` in it."""

    spark: SparkSession
    folder: str

    @property
    def logs(self) -> str:
        """The path of a table that the first check makes."""
        return f"{self.folder}/logs"

    def rows(self) -> DataFrame:
        """The rows of the table."""
        return self.spark.createDataFrame(ROWS, SCHEMA)


@dataclass(frozen=True)
class Check:
    """One thing that a user does, and what comes of it."""

    capability: str
    name: str
    run: Callable[[Place], Any]
    wanted: Any
    since: tuple[int, int] = (4, 0)


def ids(frame: DataFrame) -> list[int]:
    """The ids of some rows, in order."""
    return sorted(row["id"] for row in frame.collect())


def load(place: Place, **options: object) -> DataFrame:
    """A read of the data source."""
    return (
        place.spark.read.format("indextables")
        .options(**{k: str(v) for k, v in options.items()})
        .load(place.logs)
    )


def write_and_count(place: Place) -> int:
    """A new table."""
    its.write(place.rows(), place.logs, partition_by="day", options=OPTIONS)
    return its.table(place.spark, place.logs).count()


def copy_stream(place: Place, name: str, **options: object) -> list[int]:
    """A stream from the table into another, until nothing is left."""
    frame = its.read_stream(place.spark, place.logs, options=options)
    target = f"{place.folder}/{name}"
    its.write_stream(
        frame, target, checkpoint=f"{target}.checkpoint", trigger={"availableNow": True}
    ).awaitTermination()
    return sorted(Table.open(target).scan(columns=["id"]).read_all()["id"].to_pylist())


def upsert(place: Place) -> tuple[int, int]:
    """A MERGE by the verb."""
    changes = place.spark.createDataFrame([(3, "timeout again", "b"), (4, "new", "c")], SCHEMA)
    report = (
        its.merge_into(changes, place.logs, on="target.id = source.id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
    ).execute()
    return report.updated_rows, report.inserted_rows


def saved(place: Place) -> list[int]:
    """A table by name through the writer of DataFrames."""
    place.rows().write.format("indextables").saveAsTable("saved")
    place.rows().where("id = 1").writeTo("saved").append()
    return ids(place.spark.table("saved"))


def replaced(place: Place) -> list[int]:
    """Part of a table replaced."""
    path = f"{place.folder}/replaced"
    place.rows().write.format("indextables").mode("append").save(path)
    new = place.spark.createDataFrame([(9, "new", "a")], SCHEMA)
    new.write.format("indextables").mode("overwrite").option("replaceWhere", "day = 'a'").save(path)
    return ids(place.spark.read.format("indextables").load(path))


def by_sql(
    statement: str, *rows: tuple[Any, ...]
) -> tuple[Callable[[Place], Any], list[tuple[Any, ...]]]:
    """A statement and the rows that it answers; none are compared where none are given."""

    def run(place: Place) -> Any:
        found = place.spark.sql(statement.replace("{logs}", place.logs)).collect()
        return [tuple(row) for row in found] if rows else []

    return run, list(rows)


def checks() -> Iterator[Check]:
    """All checks, in the order in which they build on each other."""
    verbs = "verbs of its.*"
    yield Check(verbs, "its.write, its.table", write_and_count, 3)
    yield Check(
        verbs,
        "its.search",
        lambda p: [
            r["_score"] > 0 for r in its.search(p.spark, p.logs, "timeout", limit=9).collect()
        ],
        [True, True],
    )
    yield Check(
        verbs, "its.count", lambda p: its.count(p.spark, p.logs, query="message:timeout"), 2
    )
    spec = {"days": {"terms": {"field": "day"}}}
    yield Check(
        verbs, "its.aggregate", lambda p: its.aggregate(p.spark, p.logs, spec).count() > 0, True
    )
    yield Check(
        verbs,
        "its.explain",
        lambda p: "timeout" in str(its.explain(p.spark, p.logs, query="message:timeout")),
        True,
    )
    yield Check(
        verbs,
        "its.update",
        lambda p: (
            its.update(p.spark, p.logs, set={"message": "'fine'"}, where="id = 2").updated_rows
        ),
        1,
    )
    yield Check(verbs, "its.merge_into", upsert, (1, 1))
    yield Check(
        verbs, "its.delete", lambda p: its.delete(p.spark, p.logs, where="id = 4").deleted_rows, 1
    )
    yield Check(verbs, "its.merge", lambda p: its.merge(p.spark, p.logs).version is not None, True)
    yield Check(
        verbs,
        "its.purge (dry run)",
        lambda p: its.purge(p.spark, p.logs, dry_run=True).dry_run,
        True,
    )
    yield Check(verbs, "its.verify", lambda p: its.verify(p.spark, p.logs, full=True).healthy, True)

    source = "data source"
    yield Check(source, "filters", lambda p: ids(load(p).where("id > 1 AND day = 'b'")), [3])
    yield Check(
        source,
        "query and where",
        lambda p: ids(load(p, query="message:timeout", where="id < 3")),
        [1],
    )
    yield Check(
        source,
        "limit and score",
        lambda p: load(p, query="message:timeout", limit=1, score=True).count(),
        1,
    )
    yield Check(
        source,
        "versionAsOf",
        lambda p: load(p, versionAsOf=1).where("message = 'all fine'").count(),
        1,
    )
    yield Check(
        source,
        "aggregation",
        lambda p: sorted(
            tuple(r) for r in load(p, query="message:timeout").groupBy("day").count().collect()
        ),
        [("a", 1), ("b", 1)],
    )
    yield Check(source, "overwrite with replaceWhere", replaced, [3, 9])
    yield Check(
        source,
        "change feed",
        lambda p: (
            load(p, readChangeFeed="true", startingVersion=1)
            .where("_change_type = 'insert'")
            .count()
            >= 3
        ),
        True,
    )

    operators = "search operators in SQL"
    table = "indextables.`{logs}`"
    name: str
    statement: str
    found: tuple[tuple[Any, ...], ...]
    for name, statement, found in (
        (
            "TEXTSEARCH",
            f"SELECT id FROM {table} WHERE message TEXTSEARCH 'timeout' ORDER BY id",
            ((1,), (3,)),
        ),
        (
            "INDEXQUERY",
            f"SELECT id FROM {table} WHERE message INDEXQUERY 'timeout AND again'",
            ((3,),),
        ),
        ("all columns", f"SELECT id FROM {table} WHERE * TEXTSEARCH 'again'", ((3,),)),
        (
            "in a subquery",
            f"SELECT id FROM {table} o WHERE EXISTS (SELECT 1 FROM {table} i WHERE i.id = o.id AND"
            " i.message TEXTSEARCH 'again')",
            ((3,),),
        ),
        (
            "in FILTER, with OR",
            f"SELECT count(*) FILTER (WHERE message TEXTSEARCH 'again' OR id = 2) FROM {table}",
            ((2,),),
        ),
        (
            "histogram",
            f"SELECT indextables_histogram(id, 2), count(*) FROM {table} GROUP BY 1 ORDER BY 1",
            ((0.0, 1), (2.0, 2)),
        ),
    ):
        yield Check(operators, name, *by_sql(statement, *found))

    statements = "statements"
    yield Check(
        statements, "DESCRIBE INDEXTABLES ENVIRONMENT", *by_sql("DESCRIBE INDEXTABLES ENVIRONMENT")
    )
    yield Check(
        statements, "DESCRIBE INDEXTABLES HISTORY", *by_sql("DESCRIBE INDEXTABLES HISTORY '{logs}'")
    )
    yield Check(statements, "MERGE SPLITS", *by_sql("MERGE SPLITS '{logs}'"))
    yield Check(statements, "VERIFY", *by_sql("VERIFY INDEXTABLE '{logs}'"))

    catalog = "tables by name"
    for name, statement, found in (
        (
            "CREATE TABLE",
            "CREATE TABLE t (id BIGINT, message STRING, day STRING) USING indextables PARTITIONED BY (day)"
            " TBLPROPERTIES ('indexing.typemap.message' = 'text')",
            (),
        ),
        ("INSERT INTO", "INSERT INTO t VALUES (1, 'a timeout', 'a'), (2, 'fine', 'b')", ()),
        ("UPDATE", "UPDATE t SET message = 'mended timeout' WHERE id = 2", ((1, 1, 0, 0),)),
        ("DELETE", "DELETE FROM t WHERE id = 1", ((1, 0, 1, 0),)),
        (
            "MERGE INTO",
            "MERGE INTO t USING (SELECT id, 'm' AS message, 'c' AS day FROM range(2, 4)) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            ((2, 1, 0, 1),),
        ),
        ("SELECT", "SELECT id, message FROM t ORDER BY id", ((2, "m"), (3, "m"))),
        ("VERSION AS OF", "SELECT count(*) FROM t VERSION AS OF 1", ((2,),)),
        ("SHOW PARTITIONS", "SHOW PARTITIONS t", (("day=c",),)),
        ("ALTER TABLE", "ALTER TABLE t ADD COLUMNS (n INT)", ()),
        ("CREATE TABLE AS SELECT", "CREATE TABLE u USING indextables AS SELECT id, n FROM t", ()),
        (
            "CREATE OR REPLACE TABLE AS SELECT",
            "CREATE OR REPLACE TABLE u USING indextables AS SELECT id FROM t",
            (),
        ),
        ("DESCRIBE HISTORY", "DESCRIBE HISTORY u", ()),
        ("table_changes", "SELECT count(*) > 0 FROM table_changes('t', 1)", ((True,),)),
        ("RESTORE TABLE", "RESTORE TABLE t TO VERSION AS OF 1", ()),
        ("DROP TABLE", "DROP TABLE u", ()),
    ):
        yield Check(catalog, name, *by_sql(statement, *found))
    yield Check(catalog, "CREATE TABLE LIKE", *by_sql("CREATE TABLE v LIKE t"), since=(4, 2))
    yield Check(catalog, "saveAsTable, writeTo", saved, [1, 1, 2, 3])

    streams = "streams"
    yield Check(
        streams, "source and sink", lambda p: copy_stream(p, "copy", ignoreChanges=True), [1, 2, 3]
    )
    yield Check(
        streams,
        "maxFilesPerTrigger",
        lambda p: copy_stream(p, "slow", maxFilesPerTrigger=1, ignoreChanges=True),
        [1, 2, 3],
        since=(4, 2),
    )


def outcome(check: Check, place: Place) -> str:
    """What became of a check."""
    try:
        found = check.run(place)
    except Exception as error:
        said = str(error).strip()
        needed = f"needs Spark {check.since[0]}.{check.since[1]}"
        if check.since > SPARK and needed in said:
            return f"refused: {needed}"
        return f"failed: {type(error).__name__}: {said[:300]}"
    if found != check.wanted:
        return f"failed: {found!r} instead of {check.wanted!r}"
    return "passed"


def run() -> dict[str, Any]:
    """The outcome of each check, and what it ran with."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
        settings["spark.sql.warehouse.dir"] = f"{folder}/warehouse"
        spark = its.session("checks", master="local[2]", conf=local_defaults() | settings)
        place = Place(spark, folder)
        found = {f"{check.capability}: {check.name}": outcome(check, place) for check in checks()}
        java = str(spark.sparkContext._jvm.System.getProperty("java.version"))  # type: ignore[union-attr]
        spark.stop()
    return {
        "pyspark": pyspark.__version__,
        "python": platform.python_version(),
        "java": java,
        "checks": found,
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(run(), indent=1))
