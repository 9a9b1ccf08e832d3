"""`Table.expire`: delete the rows that are older than the retention period of the table."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

from indextables.config.upkeep import ExpirySettings
from indextables.errors import InvalidInputError
from indextables.handle import TableHandle
from indextables.model.arguments import Moment, to_epoch_ms
from indextables.model.predicate import Column, Comparison, Literal, Predicate
from indextables.model.report import Progress
from indextables.model.schema import find_column
from indextables.operations.delete import DeleteReport, delete
from indextables.operations.jobs import Execute
from indextables.operations.row_removal import DeleteOutcome, DeleteTask


def expire(
    table: TableHandle,
    *,
    now: Moment | None,
    dry_run: bool,
    progress: Progress,
    execute: Execute[DeleteTask, DeleteOutcome] | None,
) -> DeleteReport:
    """Delete the rows whose time is over. See `Table.expire`."""
    table.check_writable()
    newest = table.read_newest()
    now_ms = table.log.now_ms() if now is None else to_epoch_ms(now)
    expired = expired_rows(newest.schema, newest.settings.group(ExpirySettings), now_ms)
    return delete(
        table, where=expired, query=None, dry_run=dry_run, progress=progress, execute=execute
    )


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def expired_rows(schema: pa.Schema, settings: ExpirySettings, now_ms: int) -> Predicate:
    """Return the condition of expired rows. A table without a retention column and period is an
    error.
    """
    check_retention(schema, settings)
    if not settings.column:
        raise InvalidInputError(
            "The table does not say for how long rows are kept.",
            hint="Set both: update_metadata(options={'retention.column': 'ts', 'retention.period': '30 days'}).",
        )
    column = find_column(schema, settings.column)
    limit = _EPOCH + dt.timedelta(milliseconds=now_ms - settings.period_ms)
    kind = schema.field(column).type
    value: dt.date = limit
    if pa.types.is_date(kind):
        value = limit.date()
    elif kind.tz is None:
        value = limit.replace(tzinfo=None)
    return Comparison("<", Column((column,)), Literal(value))


def check_retention(schema: pa.Schema, settings: ExpirySettings) -> None:
    """Refuse a retention without a column or a period, and a column that does not hold times."""
    if bool(settings.column) != bool(settings.period_ms):
        given, missing = ("column", "period") if settings.column else ("period", "column")
        raise InvalidInputError(
            f"retention.{given} is set and retention.{missing} is not.",
            hint="Set both, or neither.",
            key=missing,
        )
    if not settings.column:
        return
    column = find_column(schema, settings.column)
    kind = schema.field(column).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise InvalidInputError(
            f"Rows cannot grow old by {column!r}, which is {kind}.",
            hint="Name a column of dates or times.",
            column=column,
        )
