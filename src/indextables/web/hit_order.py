"""The order of hits: what a `sort` means, the sort values of a hit in JSON, and the position that
`search_after` names.

| type | sort value |
|---|---|
| no value | null |
| floating point | a number, or `"NaN"`, `"Infinity"`, `"-Infinity"` |
| integer, string, boolean | as they are |
| decimal | its digits as text |
| date, timestamp | ISO text; a timestamp has all its microseconds and is in UTC |
| time, interval of time | nanoseconds of the day, microseconds, as a number |
| binary | base64 |
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from indextables.errors import InvalidInputError, show_value
from indextables.model.schema import SCORE
from indextables.query.search import PageEnd
from indextables.splits.index.mapping import is_text
from indextables.splits.query.terms import typed_value
from indextables.splits.search.order import OrderBy, key_types
from indextables.web.json_values import float_value
from indextables.web.query_dsl import options, refuse

_NUMBERING = ("_doc", "_shard_doc")
_SORT_KEYS = ("order", "unmapped_type", "missing", "format", "numeric_type")
ISO_FORMATS = ("strict_date_optional_time_nanos", "strict_date_optional_time", "date_optional_time")
"""Time formats that mean ISO text, the format of sort values and fields."""
_BEFORE_EVERY_SPLIT, _BEHIND_EVERY_SPLIT = "", "\U0010ffff"


class HitOrder(Struct, frozen=True):
    """The order of hits: by columns and `_score`, or by score if `keys` is empty.

    If it is `numbered`, a row number is the last sort value of rows with equal values.
    """

    keys: tuple[OrderBy, ...] = ()
    numbered: bool = False

    def values(self, rows: pa.Table) -> list[tuple[Any, ...]]:
        """Return the sort values of rows as JSON values."""
        columns = [[sort_value(value) for value in rows.column(key.column)] for key in self.keys]
        if columns:
            return list(zip(*columns, strict=True))
        return [()] * rows.num_rows

    def position(self, after: Any, schema: pa.Schema) -> HitPosition:
        """Return the position after which hits begin."""
        length = len(self.keys) + self.numbered
        if not self.keys or not isinstance(after, list) or len(after) != length:
            hint = (
                "Sort by columns, or by columns and _doc, and give the sort values of the last hit."
            )
            raise InvalidInputError(
                f"search_after needs {length} values of a sort by columns.", hint=hint
            )
        if any(key.column == SCORE for key in self.keys):
            hint = "Sort by columns alone: scores are no place to go on from."
            raise InvalidInputError("search_after does not go on behind a _score.", hint=hint)
        seen = after[-1] if self.numbered else 0
        if not isinstance(seen, int) or isinstance(seen, bool) or not 0 <= seen < 1 << 31:
            raise _wrong_value(seen, "_doc", "a whole number from 0 up")
        types = key_types(self.keys, schema)
        columns = {}
        for (name, kind), key, value in zip(types.items(), self.keys, after, strict=False):
            columns[name] = _to_array(value, kind, key.column)
        # Rows with the same values are in front of the position, unless they are numbered: `seen`
        # of them are then skipped.
        if self.numbered:
            split = _BEFORE_EVERY_SPLIT
        else:
            split = _BEHIND_EVERY_SPLIT
        end = PageEnd(pa.table(columns), split, -1)
        return HitPosition(end, seen, tuple(sort_value(column[0]) for column in columns.values()))


class HitPosition(Struct, frozen=True):
    """A position in an order of hits."""

    end: PageEnd
    seen: int
    """Number of rows with the same values in front of the position, where rows are numbered."""
    values: tuple[Any, ...]


def parse_sort(sort: Any, column: Callable[[Any], str]) -> HitOrder:
    """Parse the `sort` of a request; `column` resolves a field to its column."""
    if sort is None:
        clauses = []
    else:
        clauses = sort if isinstance(sort, list) else [sort]
    found = [_clause(clause) for clause in clauses]
    numbered = len(found) > 1 and found[-1][0] in _NUMBERING
    if numbered:
        keys = found[:-1]
    else:
        keys = [key for key in found if key[0] not in _NUMBERING]
    if not keys or keys == [(SCORE, True)]:
        return HitOrder((), numbered)
    columns = [name if name == SCORE else column(name) for name, _ in keys]
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(
            f"The sort names {twice!r} more than once.", hint="Name each column once."
        )
    return HitOrder(
        tuple(OrderBy(name, down) for name, (_, down) in zip(columns, keys, strict=True)), numbered
    )


def _clause(clause: Any) -> tuple[str, bool]:
    """Parse one part of a sort: its field, and whether it is descending."""
    pair = {clause: {}} if isinstance(clause, str) else clause
    if not isinstance(pair, Mapping) or len(pair) != 1:
        raise InvalidInputError("A sort names one column.", hint='Write [{"ts": "desc"}].')
    name, how = next(iter(pair.items()))
    if isinstance(how, str):
        given = {"order": how}
    else:
        given = options(how, _SORT_KEYS, f"the sort by {name!r}")
    if given.get("missing", "_last") != "_last":
        raise refuse(f"missing {given['missing']}", known=["_last"])
    if given.get("numeric_type") is not None:
        raise refuse(f"numeric_type of the sort by {name}")
    if given.get("format") not in (None, *ISO_FORMATS):
        raise refuse(f"format {given['format']} of the sort by {name}", known=ISO_FORMATS)
    order = str(given.get("order", "desc" if name == SCORE else "asc")).lower()
    if order not in ("asc", "desc"):
        raise refuse(f"order {order}", known=["asc", "desc"])
    return str(name), order == "desc"


def numbers_of(values: Sequence[tuple[Any, ...]], position: HitPosition | None) -> list[int]:
    """Number each row among the rows with equal values, continuing after a position."""
    found: list[int] = []
    for row, value in enumerate(values):
        if row and values[row - 1] == value:
            before = found[-1]
        else:
            if position is not None and value == position.values:
                before = position.seen
            else:
                before = 0
        found.append(before + 1)
    return found


def sort_value(value: pa.Scalar) -> Any:
    """Return a value as JSON that `search_after` converts back without loss."""
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        return value.cast(pa.int64()).as_py()
    plain = value.as_py()
    if isinstance(plain, float):
        return float_value(plain)
    if isinstance(plain, dt.datetime):
        moment = plain if plain.tzinfo else plain.replace(tzinfo=dt.UTC)
        return moment.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(plain, bytes):
        return base64.b64encode(plain).decode("ascii")
    if isinstance(plain, bool | int | str):
        return plain
    return str(plain)


def _to_array(value: Any, kind: pa.DataType, column: str) -> pa.Array:
    """Convert a sort value to an array of one value of a column's type."""
    try:
        return pa.array([None if value is None else _parse_value(value, kind)], kind)
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException):
        raise _wrong_value(value, column, f"a value of type {kind}") from None


def _parse_value(value: Any, kind: pa.DataType) -> Any:
    if is_text(kind) or pa.types.is_binary(kind):
        if not isinstance(value, str):
            raise TypeError(value)
        if is_text(kind):
            return value
        return base64.b64decode(value, validate=True)
    if pa.types.is_boolean(kind) != isinstance(value, bool) or not isinstance(
        value, bool | int | float | str
    ):
        raise TypeError(value)
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        return pa.scalar(value, pa.int64()).cast(kind)
    if isinstance(value, bool):
        return value
    typed = typed_value(str(value), kind)
    if pa.types.is_timestamp(kind) and kind.tz is None and typed.tzinfo is not None:
        return typed.astimezone(dt.UTC).replace(tzinfo=None)
    return typed


def _wrong_value(value: Any, column: str, expected: str) -> InvalidInputError:
    message = f"search_after has {show_value(value)} for {column!r}, which is not {expected}."
    return InvalidInputError(
        message, hint="Give the sort values of the last hit as they were.", column=column
    )
