"""Writing a DataFrame: checked on the driver, written by tasks, committed once by the driver.

How rows are spread over the tasks of a write: few large splits come out, and every core has work.

What tasks have done so far, known to the driver even if their job fails.

A write from Spark, whichever way it came: planned on the driver, run by tasks, finished by one commit.

A table that does not exist yet is created by the commit, not by the plan: a job that fails leaves nothing behind.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace
from pyspark import AccumulatorParam
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from indextables import config
from indextables.config.spark import SparkWriteSettings
from indextables.errors import InvalidInputError, TableExistsError
from indextables.model.actions import AddAction
from indextables.model.arguments import transaction_id
from indextables.model.conflicts import Operation
from indextables.spark.schemas import arrow_schema, quoted
from indextables.spark.settings import has_jvm, session_of, with_session
from indextables.table.handle import open_log
from indextables.table.planning import abandon_rows, finish_rows, plan_rows
from indextables.write.row_write import RowWrite

_MOST_TASKS = 100_000
_TARGET_SIZE = "spark.sql.adaptive.advisoryPartitionSizeInBytes"


@contextmanager
def spread(df: DataFrame, partition_columns: Sequence[str], chosen: SparkWriteSettings) -> Iterator[DataFrame]:
    """The rows in tasks of about the target size, while the block runs."""
    if not chosen.optimize:
        yield df
    elif partition_columns:
        with _together(df, partition_columns, chosen.target_bytes) as rows:
            yield rows
    else:
        yield _in_fewer_tasks(df, chosen.target_bytes)


@contextmanager
def _together(df: DataFrame, partition_columns: Sequence[str], target_bytes: int) -> Iterator[DataFrame]:
    """The rows with those of a partition brought together: else every task writes a small split for every partition.

    Spark knows the sizes only once it has shuffled, and takes the wanted size from the session: it is set there while
    the write runs.
    """
    spark = df.sparkSession
    before = spark.conf.get(_TARGET_SIZE, None)
    spark.conf.set(_TARGET_SIZE, str(target_bytes))
    try:
        yield df.hint("rebalance", *[f.col(quoted(name)) for name in partition_columns])
    finally:
        if before is None:
            spark.conf.unset(_TARGET_SIZE)
        else:
            spark.conf.set(_TARGET_SIZE, before)


def _in_fewer_tasks(df: DataFrame, target_bytes: int) -> DataFrame:
    """The rows without a shuffle, but in no more tasks than their size or the cores ask for.

    Spark's guess of the size errs on the large side, and then there are as many tasks as before.
    """
    spark = df.sparkSession
    if not has_jvm(spark):
        return df
    plan = df._jdf.queryExecution().optimizedPlan()
    most = max(spark.sparkContext.defaultParallelism, -(-int(str(plan.stats().sizeInBytes())) // target_bytes))
    given = _tasks_given(plan)
    if most > _MOST_TASKS or (given is not None and given <= most):
        return df
    return df.coalesce(most)


def _tasks_given(plan: Any) -> int | None:
    """The number of a repartition() or coalesce() that the rows come from, which a further coalesce() would replace."""
    while plan.nodeName() == "Project":
        plan = plan.children().head()
    return int(plan.numPartitions()) if plan.nodeName() == "Repartition" else None


def gathering(spark: SparkSession) -> Accumulator[list[Any]] | None:
    """A list that tasks add to. None in a Connect session, which has nothing of the kind."""
    return spark.sparkContext.accumulator([], _Lists()) if has_jvm(spark) else None


class _Lists(AccumulatorParam[list[Any]]):
    def zero(self, value: list[Any]) -> list[Any]:  # noqa: ARG002
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802
        return [*value1, *value2]


OVERWRITE_MODE = "partitionOverwriteMode"
SESSION_OVERWRITE_MODE = f"spark.sql.sources.{OVERWRITE_MODE}"


def is_dynamic(mode: str | None, *, key: str) -> bool | None:
    """What a partition overwrite mode says, in any case as Spark reads it; None if it is not given."""
    if not mode:
        return None
    if mode.lower() not in ("static", "dynamic"):
        message = f"{key} cannot be {mode!r}."
        raise InvalidInputError(message, hint="Allowed: static, dynamic. Nothing was written.", key=key)
    return mode.lower() == "dynamic"


class WriteRequest(Struct, frozen=True):
    """What somebody wants to be written. The settings may hold credentials: they stay out of the repr."""

    path: str
    overwrite: bool = False
    partition_by: tuple[str, ...] | None = None
    replace_where: str | None = None
    dynamic_partitions: bool | None = None
    """Whether an overwrite replaces the partitions of the data only; None leaves that to the session."""
    merge_schema: bool = False
    first: bool = False
    """Whether a table that exists is an error."""
    user_metadata: str | None = None
    txn: tuple[str, int] | None = None
    settings: Mapping[str, Any] = {}

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "settings")
        return f"WriteRequest({', '.join(shown)})"

    def __post_init__(self) -> None:
        transaction_id(self.txn)
        if self.replace_where is not None and not self.overwrite:
            raise InvalidInputError("replaceWhere needs the mode overwrite.")
        if self.dynamic_partitions and not self.overwrite:
            raise InvalidInputError("Dynamic partition overwrite needs the mode overwrite.")
        if self.dynamic_partitions and self.replace_where is not None:
            raise InvalidInputError("Give replaceWhere or dynamic partition overwrite, not both.")

    def under_session(self, mode: str | None) -> WriteRequest:
        """The request with the session's partition overwrite mode, where the request itself leaves it open."""
        if not self.overwrite or self.dynamic_partitions is not None or self.replace_where is not None:
            return self
        return replace(self, dynamic_partitions=is_dynamic(mode, key=SESSION_OVERWRITE_MODE))

    @property
    def operation(self) -> Operation:
        """The operation as the log names it."""
        if not self.overwrite:
            return Operation.APPEND
        partly = self.replace_where is not None or self.dynamic_partitions
        return Operation.REPLACE_WHERE if partly else Operation.OVERWRITE


class PlannedWrite(Struct, frozen=True):
    """A request that was checked against the table. It travels by pickle."""

    request: WriteRequest
    rows: RowWrite

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns that the table is, or will be, partitioned by."""
        return self.rows.plan.task.partition_columns

    def under_session(self, mode: str | None) -> PlannedWrite:
        """The write under the session's partition overwrite mode, which its planner may not have been told."""
        request = self.request.under_session(mode)
        if not request.dynamic_partitions or self.request.dynamic_partitions or not self.partition_columns:
            return self
        if self.rows.plan.metadata is not None:
            raise InvalidInputError(
                f"{SESSION_OVERWRITE_MODE} of the session did not reach the writer in time: it was about to change the "
                "columns or the index of the whole table.",
                hint=f"Pass {OVERWRITE_MODE} as an option of the write, or write with indextables.spark.write().",
                key=SESSION_OVERWRITE_MODE,
            )
        return PlannedWrite(request, replace(self.rows, operation=request.operation, dynamic_partitions=True))

    def run(self, batches: Iterable[pa.RecordBatch]) -> list[AddAction]:
        """One task's rows as splits."""
        return self.rows.run(batches)

    def finish(
        self,
        added: Sequence[AddAction],
        *,
        parameters: Mapping[str, Any] | None = None,
        txn: tuple[str, int] | None = None,
    ) -> int | None:
        """Commit what the tasks wrote; returns the version, None if there was nothing to do or it was done before."""
        request = self.request
        _, version = finish_rows(
            open_log(request.path, request.settings),
            self.rows,
            added,
            options=request.settings,
            parameters=parameters,
            txn=txn or request.txn,
            user_metadata=request.user_metadata,
        )
        return version

    def abandon(self, added: Sequence[AddAction]) -> bool:
        """Delete what tasks wrote, unless it may be committed; returns whether it was deleted."""
        settings = self.request.settings
        return abandon_rows(open_log(self.request.path, settings), self.rows, added)


def plan_table_write(request: WriteRequest, data: pa.Schema) -> PlannedWrite:
    """Check a request against the table, or against what the table will be."""
    write = plan_rows(
        open_log(request.path, request.settings),
        data,
        options=request.settings,
        partition_columns=request.partition_by,
        operation=request.operation,
        where=request.replace_where,
        dynamic_partitions=bool(request.dynamic_partitions),
        merge_schema=request.merge_schema,
        first=request.first,
    )
    return PlannedWrite(request, write)


MODES = ("append", "overwrite", "error", "errorifexists", "ignore")
_REPORT = pa.schema([("added", pa.binary()), ("refused", pa.binary())])


def write(
    df: DataFrame,
    path: str,
    *,
    mode: str = "append",
    partition_by: str | Sequence[str] | None = None,
    replace_where: str | None = None,
    dynamic_partition_overwrite: bool | None = None,
    merge_schema: bool = False,
    options: Mapping[str, object] | None = None,
    user_metadata: str | Mapping[str, object] | None = None,
    txn: tuple[str, int] | None = None,
) -> int | None:
    """Write `df` to the table at `path`, which is created if need be. Returns the version, None if nothing was to be done.

    `mode` is append, overwrite, error (also: errorifexists) or ignore; the last two concern a table that exists. An
    overwrite replaces everything, what matches `replace_where`, or with `dynamic_partition_overwrite` the partitions
    that the data has; None leaves that to the option `partitionOverwriteMode`, then to the session's
    `spark.sql.sources.partitionOverwriteMode`. `partition_by` names the partition columns of a new table; `merge_schema`,
    `user_metadata` and `txn=(app_id, version)`, which makes the write exactly-once, are as for `Table.append`. `options`
    are settings, over those of the session. Raises TableExistsError, SchemaMismatchError and ConflictError.

        its.write(df, "/data/logs", mode="overwrite", replace_where="day = '2026-11-02'")
    """
    if mode not in MODES:
        raise InvalidInputError(f"There is no mode {mode!r}.", hint=f"Use {', '.join(MODES)}.", mode=mode)
    spark = session_of(df)
    settings = with_session(spark, options)
    request = WriteRequest(
        path=path,
        overwrite=mode == "overwrite",
        partition_by=_names(partition_by),
        replace_where=replace_where,
        dynamic_partitions=_dynamic(dynamic_partition_overwrite, settings),
        merge_schema=merge_schema,
        first=mode not in ("append", "overwrite"),
        user_metadata=json.dumps(user_metadata) if isinstance(user_metadata, Mapping) else user_metadata,
        txn=txn,
        settings=settings,
    )
    request = request.under_session(spark.conf.get(SESSION_OVERWRITE_MODE, None))
    try:
        planned = plan_table_write(request, arrow_schema(df.schema))
        added = _written(spark, df, planned)
        application = spark.conf.get("spark.app.id", None)
        return planned.finish(added, parameters={"sparkApplicationId": application} if application else {})
    except TableExistsError:
        if mode == "ignore":
            return None
        raise


def _written(spark: SparkSession, df: DataFrame, planned: PlannedWrite) -> list[AddAction]:
    chosen = config.resolve(options=planned.request.settings).group(SparkWriteSettings)
    with spread(df, planned.partition_columns, chosen) as rows:
        return _run(spark, rows, planned)


def _dynamic(asked: bool | None, settings: dict[str, object]) -> bool | None:
    """Whether partitions are overwritten dynamically, as the caller says; the option is taken out of the settings."""
    keys = [key for key in settings if key.lower() == OVERWRITE_MODE.lower()]
    option = [is_dynamic(str(settings.pop(key)), key=OVERWRITE_MODE) for key in keys]
    if asked is not None and any(said not in (None, asked) for said in option):
        raise InvalidInputError(
            f"dynamic_partition_overwrite is {asked}, and the option {OVERWRITE_MODE} says otherwise."
        )
    return next((said for said in option if said is not None), None) if asked is None else asked


def _names(columns: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if columns is None:
        return None
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _run(spark: SparkSession, rows: DataFrame, planned: PlannedWrite) -> list[AddAction]:
    """Run the tasks. If one fails, what the others wrote is deleted: nobody can have committed it."""
    finished = gathering(spark)
    try:
        # Numbered, because Spark takes a dot in a column's name for a field of a struct here.
        numbered = rows.toDF(*[f"c{place}" for place in range(len(rows.columns))])
        task = _task(planned, rows.columns, finished)
        reports = numbered.mapInArrow(task, "added binary, refused binary").collect()
    except BaseException:
        if finished is not None and finished.value:
            planned.abandon(finished.value)
        raise
    added = [action for report in reports if report["added"] for action in pickle.loads(bytes(report["added"]))]
    refused = next((report["refused"] for report in reports if report["refused"]), None)
    if refused is not None:
        planned.abandon(added)
        raise pickle.loads(bytes(refused))
    return added


def _task(
    planned: PlannedWrite, names: list[str], finished: Accumulator[list[AddAction]] | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            added = planned.run(batch.rename_columns(names) for batch in batches)
        except InvalidInputError as error:
            # Rows that cannot be written will not be writable at the next attempt either: told, not raised.
            yield _report(refused=pickle.dumps(error))
            return
        if finished is not None:
            finished.add(added)
        if added:
            yield _report(added=pickle.dumps(added))

    return run


def _report(*, added: bytes | None = None, refused: bytes | None = None) -> pa.RecordBatch:
    return pa.record_batch([pa.array([added], pa.binary()), pa.array([refused], pa.binary())], schema=_REPORT)
