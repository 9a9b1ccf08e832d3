"""Retention by time: which rows are too old, by the table's own settings and a clock that is given."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

from indextables.config.upkeep import ExpirySettings
from indextables.errors import InvalidInputError
from indextables.model.predicate import Column, Comparison, Literal, Predicate
from indextables.model.schema import find_column

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def expired_rows(schema: pa.Schema, settings: ExpirySettings, now_ms: int) -> Predicate:
    """What rows fulfil whose time is over; a table that says no column and period is an error."""
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
    """Refuse a retention without a column or without a period, and a column that holds no times."""
    if bool(settings.column) != bool(settings.period_ms):
        given, missing = ("column", "period") if settings.column else ("period", "column")
        raise InvalidInputError(
            f"retention.{given} is set and retention.{missing} is not.", hint="Set both, or neither.", key=missing
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
