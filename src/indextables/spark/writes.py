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
from indextables.errors import InvalidInputError, TableExistsError, TableNotFoundError
from indextables.model.actions import AddAction
from indextables.spark.gathering import gathering
from indextables.spark.schemas import arrow_schema
from indextables.spark.session_settings import session_of, with_session
from indextables.spark.spreading import spread
from indextables.spark.table_write import PlannedWrite, WriteRequest, plan_table_write
from indextables.table import Table

MODES = ("append", "overwrite", "error", "errorifexists", "ignore")
_REPORT = pa.schema([("added", pa.binary()), ("refused", pa.binary())])


def write(
    df: DataFrame,
    path: str,
    *,
    mode: str = "append",
    partition_by: str | Sequence[str] | None = None,
    replace_where: str | None = None,
    dynamic_partition_overwrite: bool = False,
    merge_schema: bool = False,
    options: Mapping[str, object] | None = None,
    user_metadata: str | Mapping[str, object] | None = None,
    txn: tuple[str, int] | None = None,
) -> int | None:
    """Write a DataFrame to a table, which is created if need be. Returns the version, None if nothing was to be done.

    `mode` is append, overwrite, error (also: errorifexists) or ignore; the last two concern a table that exists. An
    overwrite replaces everything, what matches `replace_where`, or with `dynamic_partition_overwrite` the partitions
    that the data has. `txn=(app_id, version)` makes the write exactly-once.
    """
    spark = session_of(df)
    settings = with_session(spark, options)
    if _is_done(path, mode, settings):
        return None
    request = WriteRequest(
        path=path,
        overwrite=mode == "overwrite",
        partition_by=_names(partition_by),
        replace_where=replace_where,
        dynamic_partitions=dynamic_partition_overwrite,
        merge_schema=merge_schema,
        user_metadata=json.dumps(user_metadata) if isinstance(user_metadata, Mapping) else user_metadata,
        txn=txn,
        settings=settings,
    )
    planned = plan_table_write(request, arrow_schema(df.schema))
    chosen = config.resolve(options=settings).group(SparkWriteSettings)
    with spread(df, planned.partition_columns, chosen) as rows:
        added = _run(spark, rows, planned)
    application = spark.conf.get("spark.app.id", None)
    return planned.finish(added, parameters={"sparkApplicationId": application} if application else {})


def _names(columns: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if columns is None:
        return None
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _is_done(path: str, mode: str, settings: Mapping[str, object]) -> bool:
    """Whether a table that exists leaves nothing to do (`ignore`) or is an error (`error`, `errorifexists`)."""
    if mode not in MODES:
        raise InvalidInputError(f"There is no mode {mode!r}.", hint=f"Use {', '.join(MODES)}.", mode=mode)
    if mode in ("append", "overwrite"):
        return False
    try:
        found = Table.open(path, options=settings)
    except TableNotFoundError:
        return False
    if mode != "ignore":
        raise TableExistsError(f"There is a table at {found.path} already.", hint="Use mode append or overwrite.")
    return True


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
