"""Every function of `indextables.spark` and every command of Spark SQL: whether it reads or changes
a table, and a call that really changes one.

`tests/spark/test_verb_table.py` finds them by reflection and runs the calls, and
`tools/reference.py` prints the table. A function or a command that is missing here fails the test.
Spark's commands are the classes of its logical plans: the parser makes one of each statement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import indextables.spark as its
from indextables import Table
from tests.api.verbs import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class SparkPlace:
    """A table to change, the session that changes it, and a folder for the progress of streams."""

    spark: SparkSession
    path: str
    folder: Path

    @property
    def name(self) -> str:
        """The table as SQL writes it."""
        return f"indextables.`{self.path}`"

    def new_rows(self, *ids: int) -> DataFrame:
        """A frame with a row per id."""
        rows = ", ".join(f"({i}, {i % 3}, timestamp'2100-01-01 00:00:00', 'late')" for i in ids)
        return self.spark.sql(f"SELECT * FROM VALUES {rows} AS t(id, day, ts, message)")


@dataclass(frozen=True)
class SparkChange:
    """A function or a command that changes a table, with a call of it."""

    name: str
    run: Callable[[SparkPlace], object]
    statement: str = ""
    """The statement of a command, with `{t}` for the table."""
    is_repeatable: bool = True
    """Whether the same call may be made after it was successful."""
    creates: bool = False
    """Whether it makes a table that is not there; a table that is there is refused."""
    drops: bool = False
    """Whether it removes the table."""
    is_quick: bool = False
    """Whether `make test` interrupts it too."""
    is_slow: bool = False
    """Whether `make test` leaves it out."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _sql(name: str, statement: str, conf: str = "", **ways: bool) -> SparkChange:
    def run(place: SparkPlace) -> None:
        key, _, value = conf.partition("=")
        before = place.spark.conf.get(key, None) if key else None
        if key:
            place.spark.conf.set(key, value)
        try:
            place.spark.sql(statement.replace("{t}", place.name)).collect()
        finally:
            if key and before is None:
                place.spark.conf.unset(key)
            elif key and before is not None:
                place.spark.conf.set(key, before)

    return SparkChange(name, run, statement, **ways)


def _stream(place: SparkPlace) -> None:
    source = place.folder / "source"
    if not source.exists():
        place.new_rows(100, 101).write.parquet(str(source))
    rows = place.spark.readStream.schema(place.new_rows(1).schema).parquet(str(source))
    query = its.write_stream(
        rows,
        place.path,
        checkpoint=str(place.folder / "progress"),
        trigger={"availableNow": True},
    )
    query.awaitTermination()


def _merge_into(place: SparkPlace) -> object:
    builder = its.merge_into(place.new_rows(7, 102), place.path, on="target.id = source.id")
    return builder.when_matched_update_all().when_not_matched_insert_all().execute()


def _create_like(place: SparkPlace) -> None:
    source = place.folder / "like"
    if not source.exists():
        Table.create(str(source), schema=SCHEMA)
    place.spark.sql(f"CREATE TABLE {place.name} LIKE indextables.`{source}`").collect()


AT_ONCE = {"purge.retentionCheckEnabled": False}
FUNCTIONS = (
    SparkChange(
        "its.write",
        lambda p: its.write(p.new_rows(100), p.path),
        is_repeatable=False,
        is_quick=True,
    ),
    SparkChange("its.write_stream", _stream, is_slow=True),
    SparkChange("its.delete", lambda p: its.delete(p.spark, p.path, where="id = 4")),
    SparkChange(
        "its.update",
        lambda p: its.update(p.spark, p.path, set={"message": "upper(message)"}, where="id < 9"),
    ),
    SparkChange("its.merge_into", _merge_into),
    SparkChange("its.merge", lambda p: its.merge(p.spark, p.path, target_size="1G")),
    SparkChange(
        "its.purge",
        lambda p: its.purge(
            p.spark, p.path, older_than_hours=0, log_retention_hours=0, options=AT_ONCE
        ),
    ),
    SparkChange(
        "its.sql",
        lambda p: its.sql(p.spark, f"COMPACT INDEXTABLES '{p.path}'").collect(),
    ),
)
FUNCTIONS_THAT_READ = _names(
    "aggregate count display explain install read_stream register search session table verify"
)

_ROWS = "SELECT 101, 2, timestamp'2100-01-01 00:00:00', 'late'"
_SCHEMA = "(id INT, message STRING)"
_SOURCE = "(SELECT * FROM VALUES (7, 1, timestamp'2100-01-01 00:00:00', 'x'), (102, 0, null, 'y') AS v(id, day, ts, message))"
COMMANDS = (
    _sql("AppendData", f"INSERT INTO {{t}} {_ROWS}", is_repeatable=False, is_quick=True),
    _sql("OverwriteByExpression", f"INSERT OVERWRITE {{t}} {_ROWS}"),
    _sql(
        "OverwritePartitionsDynamic",
        f"INSERT OVERWRITE {{t}} {_ROWS}",
        "spark.sql.sources.partitionOverwriteMode=dynamic",
    ),
    _sql("DeleteFromTable", "DELETE FROM {t} WHERE id = 4", is_quick=True),
    _sql("UpdateTable", "UPDATE {t} SET message = upper(message) WHERE id < 9"),
    _sql(
        "MergeIntoTable",
        f"MERGE INTO {{t}} t USING {_SOURCE} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *",
    ),
    _sql("TruncateTable", "TRUNCATE TABLE {t}"),
    _sql("TruncatePartition", "TRUNCATE TABLE {t} PARTITION (day = 0)", is_repeatable=False),
    _sql("AddColumns", "ALTER TABLE {t} ADD COLUMN note STRING", is_repeatable=False),
    _sql("AlterColumns", "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT"),
    _sql("RenameColumn", "ALTER TABLE {t} RENAME COLUMN message TO text", is_repeatable=False),
    _sql("DropColumns", "ALTER TABLE {t} DROP COLUMN message", is_repeatable=False),
    _sql("SetTableProperties", "ALTER TABLE {t} SET TBLPROPERTIES ('merge.targetSize' = '2G')"),
    _sql(
        "UnsetTableProperties",
        "ALTER TABLE {t} UNSET TBLPROPERTIES IF EXISTS ('merge.targetSize')",
    ),
    _sql("CommentOnTable", "COMMENT ON TABLE {t} IS 'new'"),
    _sql("DropPartitions", "ALTER TABLE {t} DROP IF EXISTS PARTITION (day = 1)"),
    _sql("CreateTable", f"CREATE TABLE {{t}} {_SCHEMA}", is_repeatable=False, creates=True),
    _sql(
        "CreateTableAsSelect",
        f"CREATE TABLE {{t}} AS {_ROWS} AS id",
        is_repeatable=False,
        creates=True,
    ),
    SparkChange(
        "CreateTableLike",
        _create_like,
        "CREATE TABLE {t} LIKE other",
        is_repeatable=False,
        creates=True,
    ),
    _sql("ReplaceTable", f"CREATE OR REPLACE TABLE {{t}} {_SCHEMA}"),
    _sql("ReplaceTableAsSelect", f"CREATE OR REPLACE TABLE {{t}} AS {_ROWS}"),
    _sql("DropTable", "DROP TABLE {t}", is_repeatable=False, drops=True),
)
REFUSED = {
    "ReplaceColumns": "ALTER TABLE {t} REPLACE COLUMNS (id INT)",
    "RenameTable": "ALTER TABLE {t} RENAME TO indextables.other",
    "SetTableLocation": "ALTER TABLE {t} SET LOCATION '/elsewhere'",
    "SetTableSerDeProperties": "ALTER TABLE {t} SET SERDEPROPERTIES ('a' = 'b')",
    "AddPartitions": "ALTER TABLE {t} ADD PARTITION (day = 9)",
    "RenamePartitions": "ALTER TABLE {t} PARTITION (day = 0) RENAME TO PARTITION (day = 8)",
    "RecoverPartitions": "ALTER TABLE {t} RECOVER PARTITIONS",
    "RepairTable": "MSCK REPAIR TABLE {t}",
    "AlterTableClusterBy": "ALTER TABLE {t} CLUSTER BY (id)",
    "AlterTableCollation": "ALTER TABLE {t} DEFAULT COLLATION UNICODE",
    "AddConstraint": "ALTER TABLE {t} ADD CONSTRAINT c CHECK (id > 0)",
    "DropConstraint": "ALTER TABLE {t} DROP CONSTRAINT c",
    "CreateIndex": "CREATE INDEX i ON TABLE {t} (id)",
    "DropIndex": "DROP INDEX i ON TABLE {t}",
    "LoadData": "LOAD DATA INPATH '/elsewhere' INTO TABLE {t}",
}
"""Statements that tables refuse; nothing is changed."""
REWRITTEN = _names(
    "AddCheckConstraint DeleteFromTableWithFilters InsertOnlyMerge ReplaceData WriteDelta"
)
"""Plans that Spark makes of the commands above, with no statement of their own."""
OTHER_COMMANDS = _names(
    "AlterViewAs AlterViewSchemaBinding AnalyzeColumn AnalyzeTable AnalyzeTables CacheTable "
    "CacheTableAsSelect CloseCursor CommentOnNamespace CompoundBody CreateFlowCommand "
    "CreateFunction CreateMaterializedViewAsSelect CreateNamespace CreateStreamingTable "
    "CreateStreamingTableAsSelect CreateStreamingTableAutoCdc "
    "CreateUserDefinedFunction CreateVariable CreateView DeclareCursor DescribeColumn "
    "DescribeFunction DescribeNamespace DescribeRelation DescribeTablePartition DropFunction "
    "DropNamespace DropVariable DropView FetchCursor NoopCommand OpenCursor RefreshFunction "
    "RefreshTable SetCatalogAndNamespace SetNamespaceLocation SetNamespaceProperties "
    "SetVariable SetViewProperties ShowColumns ShowCreateTable ShowFunctions ShowPartitions "
    "ShowTablePartition ShowTableProperties ShowTables ShowTablesExtended ShowViews "
    "UncacheTable UnsetViewProperties"
)
"""Commands that read tables, or concern views, functions, namespaces, variables and caches."""
