"""What a user of Delta types, by name and by path: each works, or raises with the way out; none is
a bare traceback.

A step is a statement (or a call of the DataFrame API) and what must be true: rows that it returns,
rows that a table then has, or what the error says. The steps of a story run in order on tables of
their own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import indextables.spark as its
from indextables import Table
from indextables.errors import ConflictError
from indextables.spark.compat import CAPABILITIES, STREAMS_HAVE_LIMITS
from tests.support.delta_steps import Rows, Step, frame, rows_of, run


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A database and a catalog of the tests' own."""
    folder = tmp_path_factory.mktemp("habits")
    spark.sql(f"CREATE DATABASE habits LOCATION '{folder}/habits'")
    spark.conf.set("spark.sql.catalog.lake", "indextables.WarehouseCatalog")
    spark.conf.set("spark.sql.catalog.lake.warehouse", f"{folder}/lake")
    spark.sql("USE habits")
    yield folder
    spark.sql("USE default")
    spark.sql("DROP DATABASE habits CASCADE")


COLUMNS = "(id BIGINT COMMENT 'the key', message STRING, day STRING)"
THREE: Rows = [(1, "connection timeout", "a"), (2, "all fine", "a"), (3, "timeout again", "b")]
VALUES = "VALUES (1, 'connection timeout', 'a'), (2, 'all fine', 'a'), (3, 'timeout again', 'b')"

MAKING = [
    Step(
        f"CREATE TABLE {{t}} {COLUMNS} USING indextables PARTITIONED BY (day) COMMENT 'logs of a day' "
        "TBLPROPERTIES ('indexing.typemap.message' = 'text', 'team' = 'search')",
        then=("SELECT * FROM {t}", []),
    ),
    Step("CREATE TABLE {t} (id INT) USING indextables", says=["TABLE_OR_VIEW_ALREADY_EXISTS"]),
    Step(
        "CREATE TABLE IF NOT EXISTS {t} (id INT) USING indextables",
        then=("SELECT count(*) FROM {t}", [(0,)]),
    ),
    Step(f"INSERT INTO {{t}} {VALUES}", then=("SELECT * FROM {t}", THREE)),
    Step("SELECT id FROM {t} WHERE message TEXTSEARCH 'timeout'", returns=[(1,), (3,)]),
    Step("SELECT id FROM {t} WHERE message TEXTSEARCH 'timeout' AND day = 'b'", returns=[(3,)]),
    Step("SELECT count(*), max(id) FROM {t} WHERE day = 'a'", returns=[(2, 2)]),
    Step(
        "INSERT INTO {t} (day, id, message) VALUES ('c', 4, 'named')",
        then=("SELECT max(id) FROM {t}", [(4,)]),
    ),
    Step(
        "INSERT INTO {t} BY NAME SELECT 'c' AS day, 'by name' AS message, 5L AS id",
        then=("SELECT message FROM {t} WHERE id = 5", [("by name",)]),
    ),
    Step(
        "INSERT OVERWRITE {t} PARTITION (day = 'c') SELECT 6L, 'only one'",
        then=("SELECT id FROM {t}", [(1,), (2,), (3,), (6,)]),
    ),
    Step("INSERT INTO {t} VALUES ('no number', 'x', 'a')", says=["CANNOT_SAFELY_CAST"]),
    Step("INSERT INTO {t} VALUES (1, 'x')", says=["INSERT_COLUMN_ARITY_MISMATCH"]),
    Step(
        "INSERT INTO {t} BY NAME SELECT 1L AS id, 'a' AS day, 'x' AS message, 1 AS extra",
        says=["TOO_MANY_DATA_COLUMNS"],
    ),
    Step("SELECT nothing FROM {t}", says=["UNRESOLVED_COLUMN"]),
    Step("SELECT * FROM {t} VERSION AS OF 1", returns=THREE),
    Step("SELECT count(*) FROM {t} VERSION AS OF 99", says=["INDEXTABLES_VERSION_NOT_FOUND", "99"]),
    Step("SELECT count(*) FROM {t} TIMESTAMP AS OF '2999-01-01'", returns=[(4,)]),
    Step(
        "SELECT count(*) FROM {t} TIMESTAMP AS OF '1999-01-01'",
        says=["INDEXTABLES_VERSION_NOT_FOUND"],
    ),
    Step("SHOW PARTITIONS {t}", returns=[("day=a",), ("day=b",), ("day=c",)]),
    Step("SHOW COLUMNS IN {t}", returns=[("id",), ("message",), ("day",)]),
    Step("SHOW TBLPROPERTIES {t} ('team')", returns=[("team", "search")]),
    Step("TRUNCATE TABLE {t}", then=("SELECT count(*) FROM {t}", [(0,)])),
    Step("SELECT count(*) FROM {t} VERSION AS OF 1", returns=[(3,)]),
    Step("DROP TABLE {t}"),
    Step("SELECT * FROM {t}", says=["TABLE_"]),
    Step("DROP TABLE {t}", says=["TABLE_OR_VIEW_NOT_FOUND"]),
    Step("DROP TABLE IF EXISTS {t}"),
]


@pytest.mark.parametrize("place", ["name", "lake", "path"])
def test_a_table_is_made_filled_looked_at_and_dropped(
    spark: SparkSession, home: Path, place: str
) -> None:
    name = {"name": "made", "lake": "lake.db.made", "path": f"indextables.`{home}/made_by_path`"}[
        place
    ]
    for step in MAKING:
        run(spark, step, {"t": name})


REFUSED = [
    Step(
        "CREATE TABLE r (id INT NOT NULL) USING indextables",
        says=["INDEXTABLES_UNSUPPORTED", "IS NOT NULL"],
    ),
    Step(
        "CREATE TABLE r (id INT, t TIMESTAMP) USING indextables PARTITIONED BY (days(t))",
        says=["PARTITIONED BY"],
    ),
    Step(
        "CREATE TABLE r (id INT) USING indextables CLUSTER BY (id)",
        says=["CLUSTER BY", "PARTITIONED BY"],
    ),
    Step(
        "CREATE TABLE r (id INT) USING indextables TBLPROPERTIES ('delta.appendOnly' = 'true')",
        says=["delta.appendOnly", "another format"],
    ),
    Step(
        "CREATE TABLE r (m STRING) USING indextables TBLPROPERTIES ('indexing.typmap.m' = 'text')",
        says=["INDEXTABLES_UNKNOWN_OPTION", "indexing.typemap."],
    ),
    Step(
        "CREATE TABLE r USING indextables LOCATION '{home}/nothing'", says=["no columns are given"]
    ),
    Step("CREATE TABLE r (id INT DEFAULT 7) USING indextables", says=["default", "INSERT INTO"]),
    Step(
        "CREATE TABLE lake.db.r (id INT DEFAULT 7)",
        says=["INDEXTABLES_UNSUPPORTED", "default", "INSERT INTO"],
    ),
    Step("CREATE TABLE lake.db.r (id INT) USING parquet", says=["USING indextables"]),
    Step("CREATE TABLE lake.db.r (id INT) LOCATION '{home}/elsewhere'", says=["LOCATION"]),
    Step(
        "SELECT * FROM indextables.`{home}/nothing`",
        says=["INDEXTABLES_TABLE_NOT_FOUND", "{home}/nothing"],
    ),
    Step("SELECT * FROM lake.nowhere.x", says=["TABLE_OR_VIEW_NOT_FOUND"]),
]


def test_what_cannot_be_done_says_so_and_makes_nothing(spark: SparkSession, home: Path) -> None:
    for step in REFUSED:
        run(spark, step, {"home": str(home)})
    assert not spark.catalog.tableExists("r")


SELECTING = [
    Step("CREATE TABLE s USING indextables AS SELECT id, 'w ' || id AS message FROM range(4)"),
    Step("SELECT count(*) FROM s", returns=[(4,)]),
    Step(
        "CREATE OR REPLACE TABLE s USING indextables PARTITIONED BY (part) AS SELECT id % 2 AS part, id FROM range(6)",
        then=("SELECT part, count(*) FROM s GROUP BY part", [(0, 3), (1, 3)]),
    ),
    Step("SELECT message FROM s VERSION AS OF 1 WHERE id = 3", returns=[("w 3",)]),
    Step("SELECT message FROM s@v1 WHERE id = 3", returns=[("w 3",)], since=(4, 3)),
    Step(
        "CREATE OR REPLACE TABLE s USING indextables AS SELECT raise_error('no') AS id",
        says=["no"],
    ),
    Step("SELECT count(*) FROM s", returns=[(6,)]),
    Step("REPLACE TABLE s (word STRING) USING indextables", then=("SELECT * FROM s", [])),
    Step("REPLACE TABLE absent (word STRING) USING indextables", says=["TABLE_OR_VIEW_NOT_FOUND"]),
    Step("CREATE TABLE failed USING indextables AS SELECT raise_error('no') AS id", says=["no"]),
    Step("SELECT * FROM failed", says=["TABLE_OR_VIEW_NOT_FOUND"]),
    Step("CREATE TABLE outside USING indextables LOCATION '{home}/outside' AS SELECT 1L AS id"),
    Step("DROP TABLE outside"),
    Step(
        "CREATE TABLE again USING indextables LOCATION '{home}/outside'",
        then=("SELECT * FROM again", [(1,)]),
    ),
    Step("CREATE TABLE plain (id INT) USING parquet"),
    Step("INSERT INTO plain VALUES (1)", then=("SELECT * FROM plain", [(1,)])),
    Step(
        "CREATE TABLE plain_too USING parquet AS SELECT * FROM plain",
        then=("SELECT * FROM plain_too", [(1,)]),
    ),
    Step("CREATE OR REPLACE TABLE plain USING indextables AS SELECT 1 AS id", says=["DROP TABLE"]),
    Step("CREATE VIEW seen AS SELECT * FROM again", then=("SELECT * FROM seen", [(1,)])),
]


def test_queries_make_tables_in_one_version(spark: SparkSession, home: Path) -> None:
    for step in SELECTING:
        run(spark, step, {"home": str(home)})


def calls() -> list[Step]:
    """The DataFrame API."""
    count = "SELECT count(*) FROM d"
    return [
        Step(
            lambda s: frame(s, 0, 1).write.format("indextables").saveAsTable("d"),
            then=(count, [(2,)]),
        ),
        Step(
            lambda s: frame(s, 2).write.format("indextables").saveAsTable("d"),
            says=["TABLE_OR_VIEW_ALREADY_EXISTS"],
        ),
        Step(
            lambda s: frame(s, 2).write.format("indextables").mode("ignore").saveAsTable("d"),
            then=(count, [(2,)]),
        ),
        Step(
            lambda s: frame(s, 2).write.format("indextables").mode("append").saveAsTable("d"),
            then=(count, [(3,)]),
        ),
        Step(lambda s: frame(s, 3).write.insertInto("d"), then=(count, [(4,)])),
        Step(lambda s: frame(s, 4).writeTo("d").append(), then=(count, [(5,)])),
        Step(
            lambda s: frame(s, 9).writeTo("d").overwrite(f.col("id") > 1),
            then=("SELECT id FROM d", [(0,), (1,), (9,)]),
        ),
        Step(
            lambda s: frame(s, 7).write.insertInto("d", overwrite=True),
            then=("SELECT id FROM d", [(7,)]),
        ),
        Step(
            lambda s: s.read.option("versionAsOf", 1).table("d").select("id"), returns=[(0,), (1,)]
        ),
        Step(lambda s: s.read.format("indextables").table("d").select("id"), returns=[(7,)]),
        Step(
            lambda s: frame(s, 1, 2).write.format("indextables").mode("overwrite").saveAsTable("d"),
            then=(count, [(2,)]),
        ),
        Step(
            lambda s: (
                frame(s, 1)
                .withColumn("n", f.lit(1))
                .write.mode("append")
                .format("indextables")
                .saveAsTable("d")
            ),
            says=["TOO_MANY_DATA_COLUMNS"],
        ),
        Step(
            lambda s: (
                frame(s, 1, 2)
                .writeTo("parts")
                .using("indextables")
                .partitionedBy(f.col("id"))
                .tableProperty("indexing.typemap.message", "text")
                .create()
            ),
            then=("SELECT id FROM parts WHERE message TEXTSEARCH 'row'", [(1,), (2,)]),
        ),
        Step(
            lambda s: frame(s, 2, word="new").writeTo("parts").overwritePartitions(),
            then=("SELECT message FROM parts", [("row 1",), ("new 2",)]),
        ),
        Step(
            lambda s: frame(s, 5).writeTo("parts").using("indextables").createOrReplace(),
            then=("SELECT id FROM parts", [(5,)]),
        ),
        Step(
            lambda s: (
                frame(s, 1, 2).write.format("indextables").partitionBy("id").saveAsTable("by_id")
            ),
            then=("SHOW PARTITIONS by_id", [("id=1",), ("id=2",)]),
        ),
        Step(
            lambda s: [(s.catalog.tableExists("d"), s.catalog.tableExists("e"))],
            returns=[(True, False)],
        ),
        Step(
            lambda s: [(t.name,) for t in s.catalog.listTables("habits", "by_*")],
            returns=[("by_id",)],
        ),
        Step(
            lambda s: [(c.name, c.isPartition) for c in s.catalog.listColumns("by_id")],
            returns=[("id", True), ("message", False)],
        ),
        Step(lambda s: s.catalog.cacheTable("d"), then=("SELECT id FROM d", [(1,), (2,)])),
        Step(lambda s: s.catalog.uncacheTable("d")),
    ]


def test_the_dataframe_api_by_name(spark: SparkSession, home: Path) -> None:
    for step in calls():
        run(spark, step, {})


def test_a_read_by_name_is_sparks_own_scan_and_a_search_is_the_index(
    spark: SparkSession, home: Path
) -> None:
    its.write(
        frame(spark, *range(20)), f"{home}/scanned", options={"indexing.typemap.message": "text"}
    )
    spark.sql(f"CREATE TABLE scanned USING indextables LOCATION '{home}/scanned'")

    def plan(sql: str) -> str:
        return str(spark.sql(sql)._jdf.queryExecution().executedPlan())

    for name in ("scanned", f"indextables.`{home}/scanned`"):
        scan = plan(f"SELECT message FROM {name} WHERE id > 3")
        assert (
            "FileScan parquet" in scan
            and "GreaterThan(id,3)" in scan
            and "ReadSchema: struct<id:bigint,message" in scan
        )
        assert "FileScan" not in plan(f"SELECT id FROM {name} WHERE message TEXTSEARCH 'row'")
    joined = spark.sql(
        "SELECT a.id FROM scanned a JOIN scanned b ON a.id = b.id WHERE a.message TEXTSEARCH '3' AND b.id < 10"
    )
    assert rows_of(joined) == [(3,)]
    assert "FileScan parquet" in str(joined._jdf.queryExecution().executedPlan())


def test_what_another_writer_adds_is_seen_at_once_and_a_frame_stays_where_it_was(
    spark: SparkSession, home: Path
) -> None:
    spark.sql("CREATE TABLE shared_table (id BIGINT) USING indextables")
    before = spark.table("shared_table")
    table = Table.open(f"{home}/habits/shared_table")
    table.append(pa.table({"id": [1]}))
    assert rows_of(spark.sql("SELECT * FROM shared_table")) == [(1,)]
    table.append(pa.table({"id": [2], "more": ["x"]}), merge_schema=True)
    assert rows_of(spark.sql("SELECT id, more FROM shared_table")) == [(1, None), (2, "x")]
    assert before.columns == ["id"]


def test_a_session_made_from_another_knows_the_names(spark: SparkSession, home: Path) -> None:
    spark.sql("CREATE TABLE known (id BIGINT) USING indextables")
    other = spark.newSession()
    assert rows_of(other.sql("SELECT * FROM habits.known")) == []
    assert rows_of(other.sql(f"SELECT * FROM indextables.`{home}/habits/known`")) == []


CHANGING = [
    Step(
        "CREATE TABLE {t} (id BIGINT, v STRING, day STRING) USING indextables PARTITIONED BY (day) "
        "TBLPROPERTIES ('indexing.typemap.v' = 'text')"
    ),
    Step("INSERT INTO {t} SELECT id, 'row ' || id, 'd' || (id % 2) FROM range(10)"),
    Step(
        "DELETE FROM {t} WHERE id = 3",
        returns=[(1, 0, 1, 0)],
        then=("SELECT count(*) FROM {t}", [(9,)]),
    ),
    Step("DELETE FROM {t} WHERE id = 3", returns=[(0, 0, 0, 0)]),
    Step(
        "DELETE FROM {t} AS x WHERE x.id IN (SELECT id FROM range(2)) AND x.day = 'd0'",
        returns=[(1, 0, 1, 0)],
    ),
    Step(
        "UPDATE {t} SET v = concat(v, ' changed'), day = 'd9' WHERE id < 5",
        returns=[(3, 3, 0, 0)],
        then=(
            "SELECT * FROM {t} WHERE v TEXTSEARCH 'changed'",
            [(1, "row 1 changed", "d9"), (2, "row 2 changed", "d9"), (4, "row 4 changed", "d9")],
        ),
    ),
    Step("DELETE FROM {t} WHERE v TEXTSEARCH 'changed'", returns=[(3, 0, 3, 0)]),
    Step(
        "DELETE FROM {t} WHERE v TEXTSEARCH 'row' AND id = 5",
        says=["INDEXTABLES_UNSUPPORTED", "its.delete"],
    ),
    Step("UPDATE {t} SET nothing = 1", says=["UNRESOLVED_COLUMN", "nothing"]),
    Step("UPDATE {t} SET v = nothing", says=["UNRESOLVED_COLUMN"]),
    Step("UPDATE {t} SET id = 'no number'", says=["CANNOT_SAFELY_CAST"]),
    Step(
        "MERGE INTO {t} t USING (SELECT id, 'merged' AS v, 'd1' AS day FROM range(8, 12)) s ON t.id = s.id "
        "WHEN MATCHED AND s.id = 8 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
        returns=[(4, 1, 1, 2)],
        then=(
            "SELECT id, v FROM {t}",
            [
                (5, "row 5"),
                (6, "row 6"),
                (7, "row 7"),
                (9, "merged"),
                (10, "merged"),
                (11, "merged"),
            ],
        ),
    ),
    Step(  # 'x' is no number, and no clause asks it to be one
        "MERGE INTO {t} t USING (SELECT id, if(id = 9, 'x', '4') AS n FROM range(9, 12)) s ON t.id = s.id "
        "WHEN MATCHED AND s.id = 10 THEN UPDATE SET v = 'number ' || CAST(s.n AS INT)",
        returns=[(1, 1, 0, 0)],
        then=(
            "SELECT id, v FROM {t} WHERE id > 8",
            [(9, "merged"), (10, "number 4"), (11, "merged")],
        ),
    ),
    Step(
        "MERGE INTO {t} t USING (SELECT 5L AS id) s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND t.id > 8 THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'left'",
        returns=[(5, 2, 3, 0)],
        then=("SELECT id, v FROM {t}", [(5, "row 5"), (6, "left"), (7, "left")]),
    ),
    Step(
        "MERGE INTO {t} t USING (SELECT 5L AS id UNION ALL SELECT 5L) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'x'",
        says=["INDEXTABLES_INVALID_INPUT", "several rows of the source", "Nothing was changed"],
    ),
    Step(
        "MERGE INTO {t} t USING (SELECT 5L AS id UNION ALL SELECT 5L) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        returns=[(1, 0, 1, 0)],
    ),
    Step(
        "MERGE INTO {t} t USING (SELECT 6L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
        says=["INDEXTABLES_SCHEMA_MISMATCH", "SCHEMA EVOLUTION"],
    ),
    Step(
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 9L AS id, 'n' AS v, 'd1' AS day, 7 AS extra) s "
        "ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        then=("SELECT id, extra FROM {t}", [(6, None), (7, None), (9, 7)]),
    ),
    Step("OPTIMIZE {t}", then=("SELECT count(*) FROM {t}", [(3,)])),
    Step("VACUUM {t} DRY RUN"),
    Step("VACUUM {t} RETAIN 0 HOURS", says=["INDEXTABLES_"]),
    Step("DESCRIBE DETAIL {t}"),
    Step("ANALYZE TABLE {t} COMPUTE STATISTICS"),
    Step("RESTORE TABLE {t} TO VERSION AS OF 1", then=("SELECT count(*) FROM {t}", [(10,)])),
    Step("OPTIMIZE {t} ZORDER BY (id)", says=["INDEXTABLES_QUERY_SYNTAX"]),
    Step("DELETE FROM {t}", returns=[(10, 0, 10, 0)], then=("SELECT count(*) FROM {t}", [(0,)])),
    Step("SELECT count(*) FROM {t} VERSION AS OF 1", returns=[(10,)]),
]


@pytest.mark.parametrize("place", ["name", "path"])
def test_rows_change_and_the_table_is_kept_in_order(
    spark: SparkSession, home: Path, place: str
) -> None:
    name = {"name": "changing", "path": f"indextables.`{home}/changing_by_path`"}[place]
    for step in CHANGING:
        run(spark, step, {"t": name})
    operations = [row.operation for row in spark.sql(f"DESCRIBE HISTORY {name}").collect()]
    assert operations[:2] == ["DELETE", "RESTORE"] and {"MERGE INTO", "UPDATE", "WRITE"} < {
        *operations
    }


def test_rows_of_others_are_left_to_spark(spark: SparkSession, home: Path) -> None:
    spark.sql("CREATE TABLE others (id INT) USING parquet")
    run(spark, Step("DELETE FROM others WHERE id = 1", says=["UNSUPPORTED_FEATURE"]), {})
    spark.sql("CREATE TABLE behind (id INT) USING indextables")
    spark.sql("CREATE OR REPLACE TEMP VIEW looked AS SELECT * FROM behind WHERE id > 1")
    run(spark, Step("DELETE FROM looked", says=["INDEXTABLES_UNSUPPORTED", "is a view"]), {})
    run(spark, Step("DELETE FROM nowhere", says=["TABLE_OR_VIEW_NOT_FOUND"]), {})
    run(spark, Step("OPTIMIZE others", says=["PARSE_SYNTAX_ERROR"]), {})


@pytest.mark.parametrize("mode", ["vector", "rewrite"])
def test_a_merge_does_what_a_dictionary_does(spark: SparkSession, home: Path, mode: str) -> None:
    """Random rows, keys with nulls, every kind of clause; the rows are compared one by one."""
    draw = random.Random(7)
    path = f"{home}/oracle_{mode}"
    rows: dict[int, tuple[Any, int]] = {}
    for number in range(300):
        rows[number] = (draw.choice([None, number]), draw.randrange(100))
    frame = spark.createDataFrame(
        [(key, value) for key, value in rows.values()], "k BIGINT, v BIGINT"
    )
    its.write(frame.repartition(3), path, options={"delete.mode": mode})
    expected = sorted((list(each) for each in rows.values()), key=repr)
    for _ in range(3):
        changes = {key: draw.randrange(100) for key in draw.sample(range(400), 60)}
        source = spark.createDataFrame([*changes.items(), (None, 1)], "k BIGINT, v BIGINT")
        report = (
            its.merge_into(source, path, on="target.k = source.k")
            .when_matched_delete(condition="source.v < 30")
            .when_matched_update(set={"v": "target.v + source.v"}, condition="source.v < 80")
            .when_not_matched_insert_all(condition="source.v > 20 OR source.k IS NULL")
            .when_not_matched_by_source_update(set={"v": "-1"}, condition="target.v = 50")
            .execute()
        )
        after: list[list[Any]] = []
        keys = {key for key, _ in expected if key is not None}
        for key, value in expected:
            given = changes.get(key) if key is not None else None
            if given is None:
                after.append([key, -1 if value == 50 else value])
            elif given >= 30:
                after.append([key, value + given if given < 80 else value])
        after += [
            [key, value] for key, value in changes.items() if key not in keys and value > 20
        ] + [[None, 1]]
        expected = sorted(after, key=repr)
        assert rows_of(its.table(spark, path)) == sorted((tuple(row) for row in expected), key=repr)
        assert (
            Table.open(path).count() == len(expected) and report.version == Table.open(path).version
        )
    assert its.verify(spark, path).healthy


def test_a_merge_that_meets_another_writer_changes_nothing(spark: SparkSession, home: Path) -> None:
    path = f"{home}/raced"
    its.write(frame(spark, 1, 2), path)
    merge = its.merge_into(frame(spark, 2, 3, word="new"), path, on="target.id = source.id")
    both = merge.when_matched_update_all().when_not_matched_insert_all()
    its.write(frame(spark, 3, word="first"), path)
    with pytest.raises(ConflictError):
        both.execute()
    assert rows_of(its.table(spark, path)) == [(1, "row 1"), (2, "row 2"), (3, "first 3")]
    report = its.update(spark, path, set={"message": "upper(message)"}, where="id = 3")
    assert (report.updated_rows, rows_of(its.table(spark, path))[-1]) == (1, (3, "FIRST 3"))


ALTERING = [
    Step(
        "CREATE TABLE al (id BIGINT, v STRING) USING indextables TBLPROPERTIES ('indexing.typemap.v' = 'text')"
    ),
    Step("INSERT INTO al SELECT id, 'x ' || id FROM range(5)"),
    Step(
        "CREATE TABLE twin LIKE al",
        then=("SHOW TBLPROPERTIES twin", [("indexing.typemap.v", "text")]),
        since=CAPABILITIES["CREATE TABLE LIKE"],
    ),
    Step(
        "ALTER TABLE al SET TBLPROPERTIES ('team' = 'q')",
        then=("SHOW TBLPROPERTIES al ('team')", [("team", "q")]),
    ),
    Step(
        "ALTER TABLE al SET TBLPROPERTIES ('indexing.typemap.v' = 'string')", says=["INDEXTABLES_"]
    ),
    Step("ALTER TABLE al SET TBLPROPERTIES ('delta.appendOnly' = 'true')", says=["another format"]),
    Step("ALTER TABLE al UNSET TBLPROPERTIES ('team')"),
    Step(
        "COMMENT ON TABLE al IS 'said'",
        then=("SHOW TBLPROPERTIES al", [("indexing.typemap.v", "text")]),
    ),
    Step("CACHE TABLE al", then=("SELECT count(*) FROM al", [(5,)])),
    Step("INSERT INTO al VALUES (9, 'nine')", then=("SELECT count(*) FROM al", [(6,)])),
    Step("UPDATE al SET v = 'up' WHERE id = 9", then=("SELECT v FROM al WHERE id = 9", [("up",)])),
    Step("DELETE FROM al WHERE id = 9", then=("SELECT count(*) FROM al", [(5,)])),
    Step("RESTORE TABLE al TO VERSION AS OF 0", then=("SELECT count(*) FROM al", [(0,)])),
    Step("UNCACHE TABLE al"),
    Step("RESTORE al TO VERSION AS OF 1", then=("SELECT count(*) FROM al", [(5,)])),
    Step("ALTER TABLE al RENAME TO renamed", then=("SELECT count(*) FROM renamed", [(5,)])),
    Step("SELECT * FROM al", says=["TABLE_OR_VIEW_NOT_FOUND"]),
    Step(
        "ALTER TABLE renamed ADD COLUMNS (n INT COMMENT 'a number')",
        then=("SELECT n FROM renamed WHERE id = 1", [(None,)]),
    ),
    Step("ALTER TABLE renamed ADD COLUMN n INT", says=["FIELD_ALREADY_EXISTS"]),
    Step(
        "ALTER TABLE renamed ADD COLUMNS (one INT COMMENT 'first', two STRING)",
        then=("SELECT one, two FROM renamed WHERE id = 1", [(None, None)]),
    ),
    Step(
        "ALTER TABLE renamed DROP COLUMNS (one, two)", then=("SELECT count(*) FROM renamed", [(5,)])
    ),
    Step(
        "INSERT WITH SCHEMA EVOLUTION INTO renamed BY NAME SELECT 7L AS id, 'x' AS v, 1 AS n, 2 AS more",
        then=("SELECT n, more FROM renamed WHERE id = 7", [(1, 2)]),
    ),
    Step(
        lambda s: (
            frame(s, 7)
            .selectExpr("id", "'part' AS v", "1 AS n", "1 AS more")
            .write.format("indextables")
            .mode("overwrite")
            .option("replaceWhere", "id = 7")
            .saveAsTable("renamed")
        ),
        then=("SELECT count(*), max(v) FROM renamed", [(6, "x 4")]),
    ),
    Step(
        "ALTER TABLE renamed RENAME COLUMN v TO words",
        then=("SELECT words FROM renamed WHERE id = 4", [("x 4",)]),
    ),
    Step("SELECT v FROM renamed", says=["UNRESOLVED_COLUMN"]),
    Step("SELECT id FROM renamed WHERE words TEXTSEARCH '4'", returns=[(4,)]),
    Step(
        "ALTER TABLE renamed ALTER COLUMN n TYPE BIGINT",
        then=("SELECT n FROM renamed WHERE id = 7", [(1,)]),
    ),
    Step("ALTER TABLE renamed ALTER COLUMN n TYPE STRING", says=["'n'"]),
    Step(
        "ALTER TABLE renamed DROP COLUMN more",
        then=("SELECT * FROM renamed WHERE id = 7", [(7, "part", 1)]),
    ),
    Step("ALTER TABLE renamed DROP COLUMN IF EXISTS nowhere"),
    Step("ALTER TABLE renamed DROP COLUMN nowhere", says=["nowhere"]),
    Step("ALTER TABLE renamed ALTER COLUMN words COMMENT 'said'"),
    Step(
        "INSERT INTO renamed (id, words, n) VALUES (8, 'late words', 10000000000)",
        then=("SELECT id FROM renamed WHERE words TEXTSEARCH 'late OR part'", [(7,), (8,)]),
    ),
    Step(
        "UPDATE renamed SET words = upper(words) WHERE words = 'late words'",
        then=("SELECT words FROM renamed WHERE id = 8", [("LATE WORDS",)]),
    ),
    Step(
        "MERGE INTO renamed t USING (SELECT 8L AS id, 'merged' AS words) s ON t.id = s.id "
        "WHEN MATCHED AND t.words = 'LATE WORDS' THEN UPDATE SET words = s.words",
        then=("SELECT words, n FROM renamed WHERE id = 8", [("merged", 10000000000)]),
    ),
    Step(
        "DELETE FROM renamed WHERE words = 'merged'", then=("SELECT max(id) FROM renamed", [(7,)])
    ),
    Step(
        "ALTER TABLE renamed ADD COLUMNS (v STRING)", then=("SELECT count(v) FROM renamed", [(0,)])
    ),
    Step("CREATE TABLE pp (id INT, d STRING) USING indextables PARTITIONED BY (d)"),
    Step("INSERT INTO pp VALUES (1, 'a'), (2, 'b'), (3, 'c')"),
    Step("ALTER TABLE pp DROP PARTITION (d = 'a')", then=("SELECT id FROM pp", [(2,), (3,)])),
    Step("TRUNCATE TABLE pp PARTITION (d = 'b')", then=("SELECT id FROM pp", [(3,)])),
    Step("ALTER TABLE pp ADD PARTITION (d = 'z')", says=["INDEXTABLES_UNSUPPORTED", "INSERT INTO"]),
    Step("MSCK REPAIR TABLE pp", says=["NOT_SUPPORTED_COMMAND_FOR_V2_TABLE"]),
    Step(
        "SELECT id, _change_type FROM table_changes('pp', 1, 3)",
        returns=[(1, "insert"), (2, "insert"), (3, "insert"), (1, "delete"), (2, "delete")],
    ),
]


HABITS = [
    Step(
        "CREATE TABLE hb (id BIGINT COMMENT 'key', m STRING, d STRING) USING indextables PARTITIONED BY (d) COMMENT 'c' "
        "TBLPROPERTIES ('indexing.typemap.m' = 'text', 'team' = 'x')"
    ),
    Step("INSERT INTO hb VALUES (1, 'a b', 'x'), (2, 'c', 'y')"),
    Step(
        "DESCRIBE hb m", returns=[("col_name", "m"), ("data_type", "string"), ("comment", "NULL")]
    ),
    Step("SHOW TABLES LIKE 'hb*'", returns=[("habits", "hb", False)]),
    Step("REFRESH TABLE hb"),
    Step("CACHE LAZY TABLE hb", then=("SELECT id FROM hb WHERE m TEXTSEARCH 'c'", [(2,)])),
    Step("UNCACHE TABLE hb"),
    Step(
        "ANALYZE TABLE hb COMPUTE STATISTICS FOR ALL COLUMNS",
        then=("SELECT count(*) FROM hb", [(2,)]),
    ),
    Step("SET spark.sql.sources.partitionOverwriteMode=dynamic"),
    Step("INSERT OVERWRITE hb SELECT 3L, 'z', 'y'", then=("SELECT id FROM hb", [(1,), (3,)])),
    Step("SET spark.sql.sources.partitionOverwriteMode=static"),
    Step(
        "INSERT OVERWRITE TABLE hb VALUES (9, 'n', 'q')", then=("SELECT * FROM hb", [(9, "n", "q")])
    ),
    Step(
        "INSERT INTO hb REPLACE WHERE d = 'q' SELECT 10L, 'r', 'q'",
        then=("SELECT * FROM hb", [(10, "r", "q")]),
    ),
    Step("SELECT count(*) FROM hb FOR SYSTEM_VERSION AS OF 1", returns=[(2,)]),
    Step(
        "CREATE TABLE hb2 LIKE hb",
        then=("SHOW TBLPROPERTIES hb2 ('indexing.typemap.m')", [("indexing.typemap.m", "text")]),
        since=CAPABILITIES["CREATE TABLE LIKE"],
    ),
    Step(
        "DROP TABLE hb2 PURGE",
        then=("SHOW TABLES LIKE 'hb2'", []),
        since=CAPABILITIES["CREATE TABLE LIKE"],
    ),
    Step(
        "ALTER TABLE hb SET LOCATION '{home}/zz'",
        says=["INDEXTABLES_UNSUPPORTED", "LOCATION '...'"],
    ),
    Step(
        "ALTER TABLE hb ADD CONSTRAINT positive CHECK (id > 0)",
        says=["UNSUPPORTED_FEATURE", "does not support table constraint"],
    ),
    Step(
        "ALTER TABLE hb CLUSTER BY (id)",
        says=["INDEXTABLES_UNSUPPORTED", "CREATE OR REPLACE TABLE"],
    ),
    Step("CREATE TABLE hb3 SHALLOW CLONE hb", says=["PARSE_SYNTAX_ERROR"]),
    Step("SELECT _metadata.row_index FROM hb", returns=[(0,)]),
    Step(
        lambda s: [(s.catalog.getTable("hb").tableType, s.catalog.isCached("hb"))],
        returns=[("MANAGED", False)],
    ),
    Step(lambda s: [(s.catalog.listColumns("hb")[0].description,)], returns=[("key",)]),
    Step(lambda s: s.catalog.refreshTable("hb")),
    Step(
        lambda s: s.catalog.createTable("hb4", schema=s.table("hb").schema, source="indextables"),
        then=("SELECT count(*) FROM hb4", [(0,)]),
    ),
    Step(lambda s: frame(s, 1).writeTo("absent").append(), says=["TABLE_OR_VIEW_NOT_FOUND"]),
    Step(
        lambda s: frame(s, 1).writeTo("hb4").using("indextables").replace(),
        then=("SELECT * FROM hb4", [(1, "row 1")]),
    ),
    Step(
        lambda s: (
            frame(s, 2)
            .write.format("indextables")
            .mode("overwrite")
            .option("overwriteSchema", "true")
            .saveAsTable("hb")
        ),
        then=("SELECT * FROM hb", [(2, "row 2")]),
    ),
    Step(
        lambda s: s.read.option("timestampAsOf", "2999-01-01").table("hb").select("id"),
        returns=[(2,)],
    ),
]


def test_other_habits(spark: SparkSession, home: Path) -> None:
    for step in HABITS:
        run(spark, step, {"home": str(home)})
    shown = str(spark.sql("SHOW CREATE TABLE hb4").collect()[0][0])
    assert "USING indextables" in shown and "LOCATION" in shown
    assert [row.col_name for row in spark.sql("DESCRIBE EXTENDED hb4").collect()][:2] == [
        "id",
        "message",
    ]
    columns = {row.col_name for row in spark.sql("DESCRIBE EXTENDED hb4").collect()}
    assert {"_score", "_snippet", "_metadata"} < columns


def test_tables_are_altered_and_what_is_cached_follows(spark: SparkSession, home: Path) -> None:
    for step in ALTERING:
        run(spark, step, {})


def test_a_search_compared_with_a_column_is_decided_row_by_row(
    spark: SparkSession, home: Path
) -> None:
    spark.sql(
        "CREATE TABLE compared (id BIGINT, v STRING, wanted BOOLEAN) USING indextables "
        "TBLPROPERTIES ('indexing.typemap.v' = 'text')"
    )
    spark.sql(
        "INSERT INTO compared VALUES (1, 'x', true), (2, 'y', true), (3, 'x', false), (4, 'y', false), (5, 'x', null)"
    )
    for condition, ids in (
        ("(v TEXTSEARCH 'x') = wanted", [1, 4]),
        ("wanted <=> (v TEXTSEARCH 'x')", [1, 4]),
        ("(v TEXTSEARCH 'x') != wanted", [2, 3]),
        ("NOT ((v TEXTSEARCH 'x') = wanted)", [2, 3]),
        ("(v TEXTSEARCH 'x') = (id > 3)", [2, 5]),
    ):
        found = spark.sql(f"SELECT id FROM compared WHERE {condition}").collect()
        assert sorted(row.id for row in found) == ids, condition


@pytest.mark.parametrize("query", ["a) OR (b", "a)", "(a", "a) OR (id:[0 TO 9]", "a)) OR ((*"])
def test_a_delete_by_a_search_reaches_no_further_than_its_query(
    spark: SparkSession, home: Path, query: str
) -> None:
    path = f"{home}/unbalanced"
    rows = spark.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "id BIGINT, v STRING")
    its.write(rows, path, mode="overwrite", options={"indexing.typemap.v": "text"})
    for condition in (f"v TEXTSEARCH '{query}'", f"v TEXTSEARCH 'a' AND v TEXTSEARCH '{query}'"):
        run(
            spark,
            Step(
                f"DELETE FROM indextables.`{path}` WHERE {condition}",
                says=["INDEXTABLES_QUERY_SYNTAX"],
            ),
            {},
        )
    assert Table.open(path).count() == 3


CHANGES = [
    Step(
        "CREATE TABLE fed (id BIGINT, v STRING) USING indextables TBLPROPERTIES ('delete.mode' = 'vector')",
    ),
    Step("INSERT INTO fed VALUES (1, 'a'), (2, 'b'), (3, 'c')"),
    Step("DELETE FROM fed WHERE id = 2"),
    Step(
        "SELECT id, v, _change_type, _commit_version FROM table_changes('fed', 2)",
        returns=[(2, "b", "delete", 2)],
    ),
    Step("SELECT count(*) FROM table_changes('fed', 1, 1) WHERE id > 1", returns=[(2,)]),
    Step(
        "SELECT count(*) FROM table_changes('habits.fed', '2020-01-01', '2999-01-01 10:00:00')",
        returns=[(4,)],
    ),
    Step(
        "SELECT _change_type, count(*), min(id) FROM table_changes_by_path('{home}/habits/fed', 1) GROUP BY 1 LIMIT 5",
        returns=[("insert", 3, 1), ("delete", 1, 2)],
    ),
    Step(
        "SELECT id FROM table_changes('{home}/habits/fed', 1) ORDER BY id DESC LIMIT 1",
        returns=[(3,)],
    ),
    Step(
        lambda s: (
            s.read.format("indextables")
            .option("readChangeFeed", "true")
            .option("startingVersion", 2)
            .option("endingVersion", 2)
            .load(feed_path(s))
            .select("id", "_change_type")
        ),
        returns=[(2, "delete")],
    ),
    Step(
        lambda s: s.read.format("indextables").option("readChangeFeed", "true").load(feed_path(s)),
        says=["startingVersion"],
    ),
    Step(
        lambda s: s.read.option("readChangeFeed", "true").option("startingVersion", 1).table("fed"),
        says=["INDEXTABLES_UNSUPPORTED", "table_changes("],
    ),
    Step("SELECT * FROM table_changes('fed', 7)", says=["no changes from version 7"]),
    Step("SELECT * FROM table_changes('fed', 2, 1)", says=["versions in order"]),
    Step(
        "SELECT * FROM table_changes('fed', 'soon')", says=["INDEXTABLES_INVALID_INPUT", "'soon'"]
    ),
    Step(
        "SELECT * FROM table_changes('fed')",
        says=["INDEXTABLES_INVALID_INPUT", "table_changes('t', 1, 5)"],
    ),
    Step("SELECT * FROM table_changes('nowhere', 1)", says=["TABLE_OR_VIEW_NOT_FOUND"]),
    Step(
        "SELECT * FROM table_changes('fed', 1) WHERE v TEXTSEARCH 'a'",
        says=["INDEXTABLES_UNSUPPORTED", "A search must be on a column"],
    ),
]


def feed_path(spark: SparkSession) -> str:
    return str(spark.sql("DESCRIBE DETAIL fed").collect()[0]["location"])


def test_what_happened_to_rows_is_a_table_too(spark: SparkSession, home: Path) -> None:
    for step in CHANGES:
        run(spark, step, {"home": str(home)})


def test_streams_by_name(spark: SparkSession, home: Path) -> None:
    spark.sql("CREATE TABLE tap USING indextables AS SELECT id, 'm ' || id AS m FROM range(4)")
    limits = {"maxBytesPerTrigger": "1k"} if STREAMS_HAVE_LIMITS else {}
    for _ in range(2):
        stream = spark.readStream.options(**limits).table("tap").writeStream.format("indextables")
        query = (
            stream.option("checkpointLocation", f"{home}/progress")
            .trigger(availableNow=True)
            .toTable("sink")
        )
        query.awaitTermination()
    assert rows_of(spark.sql("SELECT count(*), sum(id) FROM sink")) == [(4, 6)]
