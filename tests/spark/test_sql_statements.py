"""Every statement through `spark.sql`: recognised, run once, with the documented columns and types
and its effect.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.errors import IllegalArgumentException, ParseException
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
)

import indextables
import indextables.spark as its
from indextables import Table
from indextables.commands.parser import is_ours
from indextables.log.history import log_action_rows
from indextables.spark.extension import rewrite_operators
from indextables.spark.jvm import java_classes
from tests.spark.logs import Logs, make_logs
from tests.support.operator_words import LEFT_ALONE, OPERATIONS, SHARDS, SIGNS
from tests.support.typed_words import typed
from tests.unit.commands.statements import STATEMENTS

TYPES: dict[str, DataType] = {
    "s": StringType(),
    "l": LongType(),
    "i": IntegerType(),
    "d": DoubleType(),
    "b": BooleanType(),
    "ts": TimestampType(),
}
DOCUMENTED = {documented.name: documented for documented in STATEMENTS}


@dataclass(frozen=True)
class Run:
    """A statement, and what it must have done: to the table, and in the rows it returned."""

    sql: str
    holds: Callable[[Table, list[Row]], bool]
    first: str | None = None
    """Another statement, without which this one would have nothing to do."""


UNTOLD = ("timestamp", "duration_ms", "created_at", "last_modified")
"""Columns that another run, or a session in another time zone, tells otherwise."""


def rows_like(table: Table, rows: list[Row], sql: str) -> bool:
    """The rows are those that the statement gives without Spark."""
    wanted = indextables.sql(sql.format(p=table.path)).to_pylist()
    untimed = [{k: v for k, v in row.items() if k not in UNTOLD} for row in wanted]
    return [{k: v for k, v in r.asDict().items() if k in untimed[0]} for r in rows] == untimed


def as_without_spark(sql: str) -> Run:
    return Run(sql, lambda table, rows: rows_like(table, rows, sql))


RUNS: dict[str, Run] = {
    "tag": Run(
        "TAG INDEXTABLES '{p}' VERSION 1 AS 'release-7'",
        lambda t, r: (
            (r[0].tagged_version, r[0].version, Table.open(t.path, version="release-7").version)
            == (1, 4, 1)
        ),
    ),
    "untag": Run(
        "UNTAG INDEXTABLES '{p}' 'release-7'",
        lambda t, r: (r[0].tag, r[0].version, t.version) == ("release-7", 5, 5),
        "TAG INDEXTABLES '{p}' VERSION 1 AS 'release-7'",
    ),
    "log cache": Run(
        "DESCRIBE INDEXTABLES LOG CACHE FOR '{p}'",
        lambda t, r: {row.table_path for row in r} == {t.path},
    ),
    "enable profiler": Run(
        "ENABLE INDEXTABLES PROFILER",
        lambda _, r: (
            [row.status for row in r]
            == ["enabled"]
            != [
                row["status"] for row in indextables.sql("DISABLE INDEXTABLES PROFILER").to_pylist()
            ]
        ),
    ),
    "reset profiler": Run("RESET INDEXTABLES PROFILER", lambda _, r: isinstance(r, list)),
    "profiler cache": Run(
        "DESCRIBE INDEXTABLES PROFILER CACHE",
        lambda _, r: {"log_files", "log_metadata"} <= {row.cache for row in r},
    ),
    "data skipping": Run(
        "DESCRIBE INDEXTABLES DATA SKIPPING STATS",
        lambda _, r: "total_files_considered" in {row.metric_name for row in r},
    ),
    "flush data skipping": Run(
        "INVALIDATE INDEXTABLES DATA SKIPPING CACHE",
        lambda _, r: [row.status for row in r] == ["success"],
    ),
    "flush searchers": as_without_spark("FLUSH TANTIVY4SPARK SEARCHER CACHE"),
    "prewarm jobs": Run("DESCRIBE INDEXTABLES PREWARM JOBS", lambda t, r: isinstance(r, list)),
    "wait for prewarm jobs": Run(
        "WAIT FOR INDEXTABLES PREWARM JOBS '{p}' TIMEOUT '60'",
        lambda t, r: all(row.status == "completed" for row in r),
    ),
    "merge": Run(
        "MERGE SPLITS '{p}' WHERE day = '2024-03-09' TARGET SIZE 100M",
        lambda t, r: (
            (t.version, t.files().num_rows, r[0].merged_files, t.count()) == (4, 13, 3, 600)
        ),
    ),
    "purge": as_without_spark("PURGE INDEXTABLE '{p}' OLDER THAN 7 DAYS DRY RUN"),
    "erase": Run(
        "ERASE FROM '{p}' WHERE day = '2024-03-09' RETAIN 7 DAYS",
        lambda t, r: (
            (r[0].status, r[0].proved, t.count(where="day = '2024-03-09'")) == ("success", False, 0)
            and r[0].erased_rows == 600 - t.count()
        ),
    ),
    "expire": Run(
        "EXPIRE INDEXTABLES '{p}'",
        lambda t, r: (r[0].deleted_rows, t.version, t.count()) == (0, 3, 600),
    ),
    "drop_partitions": Run(
        "DROP INDEXTABLES PARTITIONS FROM '{p}' WHERE day <= '2024-03-09'",
        lambda t, r: r[0].partitions_dropped == 2 and t.count(where="day <= '2024-03-09'") == 0,
    ),
    "checkpoint": Run(
        "CHECKPOINT INDEXTABLES '{p}'",
        lambda t, r: r[0].checkpoint_version == 3 == t.state().version,
    ),
    "compact": Run(
        "COMPACT INDEXTABLES '{p}'", lambda t, r: r[0].num_files == 15 == t.state().num_files
    ),
    "truncate": Run(
        "TRUNCATE INDEXTABLES TIME TRAVEL '{p}'",
        lambda t, r: (
            r[0].files_preserved == 15 and t.history()["is_readable"].to_pylist().count(True) == 1
        ),
    ),
    "repair": Run(
        "REPAIR INDEXFILES TRANSACTION LOG '{p}/_transaction_log' AT LOCATION '{p}-copy/_transaction_log'",
        lambda t, r: r[0].valid_splits == 15 and Path(f"{t.path}-copy").exists() and t.version == 3,
    ),
    "restore": Run(
        "RESTORE INDEXTABLES '{p}' TO VERSION 1",
        lambda t, r: (r[0].version, r[0].restored_version, t.count()) == (4, 1, 200),
    ),
    "verify": Run("VERIFY INDEXTABLES '{p}' FULL", lambda _, r: r == []),
    "state": as_without_spark("DESCRIBE INDEXTABLES STATE '{p}'"),
    "transaction_log": Run(
        "DESCRIBE INDEXTABLES TRANSACTION LOG '{p}' INCLUDE ALL",
        lambda t, r: (
            [x.path for x in r if x.action_type == "add"]
            == [
                x["path"]
                for x in log_action_rows(t.handle.log, include_all=True).to_pylist()
                if x["action_type"] == "add"
            ]
        ),
    ),
    "history": as_without_spark("DESCRIBE INDEXTABLES HISTORY '{p}' LIMIT 2"),
    "skipped_files": Run("DESCRIBE INDEXTABLES SKIPPED FILES '{p}'", lambda _, r: r == []),
    "component_sizes": as_without_spark(
        "DESCRIBE INDEXTABLES COMPONENT SIZES '{p}' WHERE day = '2024-03-09'"
    ),
    "merge_jobs": Run("DESCRIBE INDEXTABLES MERGE JOBS", lambda _, r: isinstance(r, list)),
    "storage_stats": Run(
        "DESCRIBE INDEXTABLES STORAGE STATS", lambda t, r: t.path in {x.table_path for x in r}
    ),
    "environment": Run(
        "DESCRIBE INDEXTABLES ENVIRONMENT",
        lambda _, r: (
            indextables.__version__
            in {x.property_value for x in r if x.property_name == "indextables"}
        ),
    ),
    "disk_cache": Run("DESCRIBE INDEXTABLES DISK CACHE", lambda _, r: r[0].executor == "driver"),
    "flush": Run("FLUSH INDEXTABLES DISK CACHE", lambda _, r: r[0].executor == "driver"),
    "prewarm": Run(
        "PREWARM INDEXTABLES CACHE '{p}' ON FIELDS (message)",
        lambda _, r: r[0].splits_prewarmed == 15,
    ),
    "invalidate": Run(
        "INVALIDATE INDEXTABLES TRANSACTION LOG CACHE FOR '{p}'",
        lambda t, r: r[0].table_path == t.path,
    ),
    "vacuum": as_without_spark("VACUUM '{p}' RETAIN 168 HOURS DRY RUN"),
    "optimize": Run(
        "OPTIMIZE '{p}' WHERE day = '2024-03-09'",
        lambda t, r: (
            (t.version, t.files().num_rows, r[0].merged_files, t.count()) == (4, 13, 3, 600)
        ),
    ),
    "restore_table": Run(
        "RESTORE TABLE '{p}' TO VERSION AS OF 1",
        lambda t, r: (r[0].version, r[0].restored_version, t.count()) == (4, 1, 200),
    ),
    "table_history": as_without_spark("DESCRIBE HISTORY '{p}' LIMIT 2"),
    "detail": as_without_spark("DESCRIBE DETAIL '{p}'"),
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return make_logs(tmp_path_factory.mktemp("statements"))


@pytest.fixture
def table(logs: Logs, tmp_path: Path) -> Table:
    shutil.copytree(logs.path, tmp_path / "t")
    return Table.open(str(tmp_path / "t"))


def test_every_statement_is_here() -> None:
    assert RUNS.keys() == {
        name for name, documented in DOCUMENTED.items() if documented.value.offered
    }


def test_a_statement_that_is_not_offered_is_refused_by_us(spark: SparkSession) -> None:
    with pytest.raises(
        Exception,
        match="BUILD INDEXTABLES COMPANION is not offered: no statement makes a companion",
    ):
        spark.sql("BUILD INDEXTABLES COMPANION FOR DELTA 'x' AT LOCATION 'y'")
    assert spark.sql("SET spark.sql.shuffle.partitions").count() == 1


@pytest.mark.parametrize("name", RUNS)
def test_statements(spark: SparkSession, table: Table, name: str) -> None:
    run, documented = RUNS[name], DOCUMENTED[name]
    if run.first is not None:
        spark.sql(run.first.format(p=table.path))
    frame = spark.sql(run.sql.format(p=table.path) + " ; -- done")
    columns = [pair.split() for pair in documented.columns.split(",")]
    assert [(f.name, f.dataType) for f in frame.schema] == [
        (column, TYPES[kind]) for column, kind in columns
    ]
    assert run.holds(table.refresh(), frame.collect())
    with pytest.raises(IllegalArgumentException) as failure:
        spark.sql(documented.wrong)
    assert all(part in str(failure.value) for part in documented.error)


def test_a_statement_runs_once_however_often_its_rows_are_asked_for(
    spark: SparkSession, table: Table
) -> None:
    frame = spark.sql(f"RESTORE INDEXTABLES '{table.path}' TO VERSION 2")
    assert table.refresh().version == 4
    assert (frame.count(), frame.collect()[0].version, frame.where("version = 4").count()) == (
        1,
        4,
        1,
    )
    assert table.refresh().version == 4


def test_what_takes_long_is_done_by_the_workers(spark: SparkSession, table: Table) -> None:
    def jobs(sql: str) -> int:
        group = uuid4().hex
        spark.sparkContext.setJobGroup(group, sql)
        try:
            spark.sql(sql.format(p=table.path))
            return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))
        finally:
            for name in ("spark.jobGroup.id", "spark.job.description"):
                spark.sparkContext.setLocalProperty(name, None)  # type: ignore[arg-type]

    only_rows = jobs("DESCRIBE INDEXTABLES STATE '{p}'")
    assert jobs("VERIFY INDEXTABLES '{p}'") <= only_rows < jobs("VERIFY INDEXTABLES '{p}' FULL")
    assert jobs("MERGE SPLITS '{p}' TARGET SIZE 100M") > only_rows


def test_settings_of_the_session_are_heeded(spark: SparkSession, table: Table) -> None:
    purge = f"PURGE INDEXTABLE '{table.path}' OLDER THAN 1 HOURS DRY RUN"
    with pytest.raises(IllegalArgumentException, match="24"):
        spark.sql(purge)
    spark.conf.set("spark.indextables.purge.retentionCheckEnabled", "false")
    try:
        assert spark.sql(purge).collect()[0].retention_hours == 1
    finally:
        spark.conf.unset("spark.indextables.purge.retentionCheckEnabled")


def test_tables_by_name(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    names = {
        kind: f"{kind}_{uuid4().hex}"
        for kind in ("source", "native", "searched", "catalog", "both", "range")
    }
    its.table(spark, table.path).createOrReplaceTempView(names["native"])
    spark.sql(f"CREATE TEMP VIEW {names['source']} USING indextables OPTIONS (path '{table.path}')")
    spark.table(names["source"]).where("message TEXTSEARCH 'disk'").createOrReplaceTempView(
        names["searched"]
    )
    spark.sql(f"CREATE TABLE {names['catalog']} USING indextables OPTIONS (path '{table.path}')")
    other = its.write(spark.range(3), str(tmp_path / "other"))
    assert other is not None
    joined = its.table(spark, table.path).join(its.table(spark, str(tmp_path / "other")), "id")
    joined.createOrReplaceTempView(names["both"])
    spark.range(3).createOrReplaceTempView(names["range"])
    try:
        for kind in ("source", "native", "searched", "catalog"):
            assert (
                spark.sql(f"DESCRIBE INDEXTABLES STATE `{names[kind]}`").collect()[0].table_path
                == table.path
            )
        for kind, said in {"both": "reads 2 tables", "range": "no IndexTables table"}.items():
            with pytest.raises(IllegalArgumentException, match=said):
                spark.sql(f"DESCRIBE INDEXTABLES STATE {names[kind]}")
        with pytest.raises(
            IllegalArgumentException, match=r"TABLE_OR_VIEW_NOT_FOUND.*path in quotes"
        ):
            spark.sql("DESCRIBE INDEXTABLES STATE nothing_here")
    finally:
        spark.sql(f"DROP TABLE {names['catalog']}")


def test_what_is_not_ours_goes_to_spark(spark: SparkSession) -> None:
    spark.range(2).createOrReplaceTempView("indextables")
    assert [row.col_name for row in spark.sql("DESCRIBE indextables").collect()] == ["id"]
    assert spark.sql("DESCRIBE INDEXTABLES id").count() > 0
    spark.range(2).selectExpr("id AS enviroment").createOrReplaceTempView("indextables")
    assert spark.sql("DESC INDEXTABLES enviroment").count() > 0
    spark.catalog.dropTempView("indextables")
    with pytest.raises(ParseException, match="SELEC"):
        spark.sql("SELEC 1")


def test_a_slip_of_the_pen_gets_our_error(spark: SparkSession) -> None:
    with pytest.raises(IllegalArgumentException, match="Did you mean PURGE INDEXTABLE"):
        spark.sql("PURGE INDEXTABEL '/p'")
    with pytest.raises(
        IllegalArgumentException, match="Did you mean DESCRIBE INDEXTABLES TRANSACTION LOG"
    ):
        spark.sql("DESCRIBE INDEXTABLES TRANSACTON LOG '/p'")
    with pytest.raises(
        IllegalArgumentException, match="Did you mean DESCRIBE INDEXTABLES ENVIRONMENT"
    ):
        spark.sql("DESCRIBE INDEXTABLES ENVIROMENT")
    with pytest.raises(
        IllegalArgumentException, match="Did you mean DESCRIBE INDEXTABLES TRANSACTION LOG"
    ):
        spark.sql("DESC TANTIVY4SPARK TRANSACTIONLOG;")


def test_the_short_form_of_describe(spark: SparkSession, table: Table) -> None:
    assert spark.sql(f"DESC INDEXTABLES STATE '{table.path}'").collect()[0].table_path == table.path
    assert spark.sql(f"DESC HISTORY '{table.path}'").count() == 4


def test_statements_in_a_new_session_and_after_queries(spark: SparkSession, table: Table) -> None:
    assert spark.range(5).where("id > 1").count() == 3
    other = spark.newSession()
    its.install(spark)
    statement = f"DESCRIBE INDEXTABLES HISTORY '{table.path}'"
    assert other.sql(statement).count() == spark.sql(statement).count() == 4
    other.conf.set(
        "spark.indextables.no.such.setting", "1"
    )  # of another engine, perhaps: it is only warned of
    assert other.sql(statement).count() == 4


def _texts(seed: int, count: int) -> list[str]:
    """SQL of all sorts, ours and not."""
    rng = random.Random(seed)
    pieces = [*SHARDS, *SIGNS, *LEFT_ALONE, *(written for written, _ in OPERATIONS)]
    found: list[str] = [typed(rng) for _ in range(count)]
    found += [
        rng.choice(["", " "]).join(rng.choices(pieces, k=rng.randint(0, 14))) for _ in range(count)
    ]
    found += [form for documented in STATEMENTS for form in (*documented.forms, documented.wrong)]
    return [text for text in found if "\x01" not in text and "\ud800" not in text]


def test_the_driver_tells_statements_and_operators_apart_as_python_does(
    spark: SparkSession,
) -> None:
    classes: Any = java_classes(spark)
    texts = _texts(5, 3000)
    ours = classes.call("Statements", "which", "\x01".join(texts))
    # Misspelt statements are none of ours until Spark has failed to understand them.
    exact = [text for text, mine in zip(texts, ours, strict=True) if mine == "y"]
    assert len(exact) > 500
    assert [text for text in exact if not is_ours(text)] == []
    documented = [form for d in STATEMENTS for form in d.forms]
    assert classes.call("Statements", "which", "\x01".join(documented)) == "y" * len(documented)
    rewritten = classes.call("SearchOperators", "rewriteAll", "\x01".join(texts)).split("\x01")
    assert rewritten == [rewrite_operators(text) for text in texts]
