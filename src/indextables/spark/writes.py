"""Write a DataFrame: checked on the driver, written by tasks, committed once by the driver.

Every write from Spark is a `RowWrite`: planned here, executed by tasks, finished by one commit. The
commit, not the plan, creates a missing table, so a failed job leaves nothing behind. Rows are
distributed over tasks so that few large splits result and every core has work. The driver knows the
splits of finished tasks even if the job fails.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark import AccumulatorParam
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from indextables import config
from indextables.config.spark import SparkWriteSettings
from indextables.errors import InvalidInputError, TableExistsError
from indextables.handle import open_log
from indextables.model.actions import AddAction
from indextables.model.arguments import transaction_id
from indextables.model.column_names import column_names
from indextables.model.conflicts import Operation
from indextables.model.predicate import Where
from indextables.operations.first_write import finish_rows, plan_rows
from indextables.operations.prose import ProseSample, log_prose_hint
from indextables.operations.row_write import RowWrite
from indextables.operations.table_write import abandon_rows
from indextables.operations.write_request import WriteRequest
from indextables.spark.compat import with_offsets
from indextables.spark.overwrites import (
    OVERWRITE_MODE,
    SESSION_OVERWRITE_MODE,
    OverwriteRequest,
    parse_mode,
)
from indextables.spark.schemas import arrow_schema, quoted
from indextables.spark.settings import check_workers, has_jvm, session_of, with_session
from indextables.table.frame_writer import index_settings

_MOST_TASKS = 100_000
_TARGET_SIZE = "spark.sql.adaptive.advisoryPartitionSizeInBytes"


@contextmanager
def spread(
    df: DataFrame, partition_columns: Sequence[str], settings: SparkWriteSettings
) -> Iterator[DataFrame]:
    """Distribute the rows to tasks of about the target size for the duration of the block."""
    if not settings.optimize or settings.distribution == "none":
        yield df
    elif partition_columns:
        with _rebalance(df, partition_columns, settings.target_bytes) as rows:
            yield rows
    else:
        yield _in_fewer_tasks(df, settings.target_bytes)


@contextmanager
def _rebalance(
    df: DataFrame, partition_columns: Sequence[str], target_bytes: int
) -> Iterator[DataFrame]:
    """Return the rows repartitioned by partition; otherwise every task would write a small split
    for every partition.

    Spark knows the sizes only after the shuffle, and takes the target size from the session, where
    it is set during the write.
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
    """Return the rows without a shuffle in at most as many tasks as their size or the cores
    require.

    Spark overestimates the size, in which case there are as many tasks as before.
    """
    spark = df.sparkSession
    if not has_jvm(spark):
        return df
    plan = df._jdf.queryExecution().optimizedPlan()
    tasks = max(
        spark.sparkContext.defaultParallelism,
        -(-int(str(plan.stats().sizeInBytes())) // target_bytes),
    )
    partitions = _repartition_number(plan)
    if tasks > _MOST_TASKS or (partitions is not None and partitions <= tasks):
        return df
    return df.coalesce(tasks)


def _repartition_number(plan: Any) -> int | None:
    """Return the number of a repartition() or coalesce() of the rows, which a further coalesce()
    would override.
    """
    while plan.nodeName() == "Project":
        plan = plan.children().head()
    if plan.nodeName() == "Repartition":
        return int(plan.numPartitions())
    return None


def results_accumulator(spark: SparkSession) -> Accumulator[list[Any]] | None:
    """Create a list that tasks append to, or None in a Connect session, which does not support it."""
    if has_jvm(spark):
        return spark.sparkContext.accumulator([], _Lists())
    return None


class _Lists(AccumulatorParam[list[Any]]):
    def zero(self, value: list[Any]) -> list[Any]:  # noqa: ARG002
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802
        return [*value1, *value2]


def write_operation(
    *, overwrite: bool, where: Where | None, dynamic_partitions: bool | None
) -> Operation:
    """Return what a write does. `dynamic_partitions` is what `OverwriteRequest.is_dynamic` returns;
    None leaves it to the session (`under_overwrite_mode`).
    """
    if where is not None and not overwrite:
        raise InvalidInputError("replaceWhere needs the mode overwrite.")
    if where is not None or dynamic_partitions:
        return Operation.REPLACE_WHERE
    if overwrite:
        return Operation.OVERWRITE
    return Operation.APPEND


def plan_table_write(
    path: str,
    data: pa.Schema,
    request: WriteRequest,
    *,
    partition_by: tuple[str, ...] | None = None,
    options: Mapping[str, object] | None = None,
) -> RowWrite:
    """Check a write against the table, or against what the table will be."""
    transaction_id(request.txn)
    return plan_rows(
        open_log(path, options), data, request, options=options, partition_columns=partition_by
    )


def finish(write: RowWrite, added: Sequence[AddAction], *, application: str | None) -> int | None:
    """Commit what the tasks wrote. Returns the version, or None if there was nothing to do or it
    was done before.
    """
    log = open_log(write.spec.url, write.options)
    _, version = finish_rows(
        log, write, added, parameters={"sparkApplicationId": application} if application else {}
    )
    return version


def abandon(write: RowWrite, added: Sequence[AddAction]) -> bool:
    """Delete what tasks wrote, unless it may be committed. Returns whether it was deleted."""
    return abandon_rows(open_log(write.spec.url, write.options), write, added)


MODES = ("append", "overwrite", "error", "errorifexists", "ignore")
_REPORT = pa.schema([("added", pa.binary()), ("refusal", pa.binary()), ("prose", pa.string())])


def write(
    df: DataFrame,
    path: str,
    *,
    mode: str = "append",
    text: Sequence[str] = (),
    substring: Sequence[str] = (),
    partition_by: str | Sequence[str] | None = None,
    replace_where: str | None = None,
    dynamic_partition_overwrite: bool | None = None,
    merge_schema: bool = False,
    options: Mapping[str, object] | None = None,
    user_metadata: str | Mapping[str, object] | None = None,
    txn: tuple[str, int] | None = None,
) -> int | None:
    """Write a DataFrame to a table, which is created if it does not exist.

    Args:
        df: The rows.
        path: A local path or a URL.
        mode: "append", "overwrite", "error" (or "errorifexists") or "ignore".
        text: String columns of a new table to search by their words.
        substring: String columns of a new table whose parts are indexed.
        partition_by: Partition columns of a new table.
        replace_where: The condition for the rows that an overwrite replaces.
        dynamic_partition_overwrite: Whether an overwrite replaces only the partitions of the data.
            None takes the option `partitionOverwriteMode`, then the setting of the session.
        merge_schema: Whether to add columns that the table does not have.
        options: Settings, over those of the session.
        user_metadata: A note for the history.
        txn: `(app_id, version)` makes the write exactly-once.

    Returns:
        The version; None if nothing was written.

    Raises:
        TableExistsError: The table exists and `mode` is "error".
        SchemaMismatchError: The rows do not fit the columns.
        ConflictError: Another writer changed the table in between.

    Example:
        its.write(df, "/data/logs", text=["message"], partition_by=["day"])
    """
    if mode not in MODES:
        raise InvalidInputError(
            f"There is no mode {mode!r}.", hint=f"Use {', '.join(MODES)}.", mode=mode
        )
    spark = session_of(df)
    settings = with_session(spark, options)
    schema = arrow_schema(df.schema)
    if text or substring:
        settings = dict(index_settings(path, schema, settings, text=text, substring=substring))
    overwriting = OverwriteRequest(
        "everything" if mode == "overwrite" else "nothing",
        option=_dynamic(dynamic_partition_overwrite, settings),
        session=parse_mode(
            spark.conf.get(SESSION_OVERWRITE_MODE, None), key=SESSION_OVERWRITE_MODE
        ),
        has_condition=replace_where is not None,
    )
    try:
        dynamic = overwriting.is_dynamic()
        plan = plan_table_write(
            path,
            schema,
            WriteRequest(
                operation=write_operation(
                    overwrite=mode == "overwrite", where=replace_where, dynamic_partitions=dynamic
                ),
                where=replace_where,
                dynamic_partitions=dynamic,
                merge_schema=merge_schema,
                exist_ok=mode in ("append", "overwrite"),
                user_metadata=json.dumps(user_metadata)
                if isinstance(user_metadata, Mapping)
                else user_metadata,
                txn=txn,
            ),
            partition_by=_names(partition_by),
            options=settings,
        )
        return run_write(df, plan, settings)
    except TableExistsError:
        if mode == "ignore":
            return None
        raise


def task_splits(df: DataFrame, plan: RowWrite, settings: Mapping[str, object]) -> list[AddAction]:
    """Return the splits that tasks have written. They are not part of the table yet."""
    table = (plan.new_metadata or plan.table).configuration
    spreading = config.resolve(options=settings, table=table).group(SparkWriteSettings)
    names = column_names(plan.schema_json)
    with spread(
        df, [names.logical_name(name) for name in plan.partition_columns], spreading
    ) as rows:
        return _run_tasks(df.sparkSession, rows, plan)


def run_write(df: DataFrame, plan: RowWrite, settings: Mapping[str, object]) -> int | None:
    """Write the rows of a planned write and commit them. Returns the version, or None if nothing
    changed.
    """
    added = task_splits(df, plan, settings)
    return finish(plan, added, application=df.sparkSession.conf.get("spark.app.id", None))


def _dynamic(argument: bool | None, settings: dict[str, object]) -> bool | None:
    """Return the caller's choice of dynamic partition overwrite; the option is removed from the
    settings.
    """
    keys = [key for key in settings if key.lower() == OVERWRITE_MODE.lower()]
    option = [parse_mode(str(settings.pop(key)), key=OVERWRITE_MODE) for key in keys]
    if argument is not None and any(dynamic not in (None, argument) for dynamic in option):
        raise InvalidInputError(
            f"dynamic_partition_overwrite is {argument}, and the option {OVERWRITE_MODE} says otherwise."
        )
    if argument is None:
        return next((dynamic for dynamic in option if dynamic is not None), None)
    return argument


def _names(columns: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if columns is None:
        return None
    if isinstance(columns, str):
        return (columns,)
    return tuple(columns)


def _run_tasks(spark: SparkSession, rows: DataFrame, write: RowWrite) -> list[AddAction]:
    """Run the tasks. If one fails, the splits of the others are deleted."""
    check_workers(spark)
    accumulator = results_accumulator(spark)
    try:
        # Numbered, because Spark takes a dot in a column's name for a field of a struct here.
        numbered = rows.toDF(*[f"c{place}" for place in range(len(rows.columns))])
        task = _task(write, rows.columns, accumulator)
        reports = numbered.mapInArrow(task, "added binary, refusal binary, prose string").collect()
    except BaseException:
        if accumulator is not None and accumulator.value:
            abandon(write, accumulator.value)
        raise
    added = [
        action
        for report in reports
        if report["added"]
        for action in pickle.loads(bytes(report["added"]))
    ]
    refusal = next((report["refusal"] for report in reports if report["refusal"]), None)
    if refusal is not None:
        abandon(write, added)
        raise pickle.loads(bytes(refusal))
    log_prose_hint(next((report["prose"] for report in reports if report["prose"]), None))
    return added


def _task(
    write: RowWrite, names: list[str], accumulator: Accumulator[list[AddAction]] | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sample = ProseSample(is_wanted=write.may_miss_text)
        try:
            added = write.run(
                sample.watch(with_offsets(batch.rename_columns(names)) for batch in batches)
            )
        except InvalidInputError as error:
            # Rows that cannot be written will not be writable at the next attempt either: told, not
            # raised.
            yield _report(refusal=pickle.dumps(error))
            return
        if accumulator is not None:
            accumulator.add(added)
        if added:
            yield _report(added=pickle.dumps(added), prose=sample.column)

    return run


def _report(
    *, added: bytes | None = None, refusal: bytes | None = None, prose: str | None = None
) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"added": added, "refusal": refusal, "prose": prose}], schema=_REPORT
    )
