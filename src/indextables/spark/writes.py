"""Writing a DataFrame: checked on the driver, written by tasks, committed once by the driver."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession

from indextables import config
from indextables.config.spark import SparkWriteSettings
from indextables.errors import InvalidInputError, TableExistsError
from indextables.model.actions import AddAction
from indextables.spark.gathering import gathering
from indextables.spark.schemas import arrow_schema
from indextables.spark.session_settings import session_of, with_session
from indextables.spark.spreading import spread
from indextables.spark.table_write import (
    OVERWRITE_MODE,
    SESSION_OVERWRITE_MODE,
    PlannedWrite,
    WriteRequest,
    is_dynamic,
    plan_table_write,
)

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
    """Write a DataFrame to a table, which is created if need be. Returns the version, None if nothing was to be done.

    `mode` is append, overwrite, error (also: errorifexists) or ignore; the last two concern a table that exists. An
    overwrite replaces everything, what matches `replace_where`, or with `dynamic_partition_overwrite` the partitions
    that the data has; None leaves that to the option `partitionOverwriteMode`, then to the session's
    `spark.sql.sources.partitionOverwriteMode`. `txn=(app_id, version)` makes the write exactly-once.
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
