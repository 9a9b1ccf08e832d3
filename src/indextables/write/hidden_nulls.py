"""Nulls that only look like nulls: below a struct that is null, its fields hold nothing, whatever they declare.

Arrow leaves them null; a Parquet writer refuses that for a field that may not be null, such as the parts of a variant.
They are given a value that nobody will ever see.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_FILLERS: tuple[tuple[Any, object], ...] = (
    (pa.types.is_binary, b""),
    (pa.types.is_string, ""),
    (pa.types.is_integer, 0),
    (pa.types.is_floating, 0.0),
    (pa.types.is_boolean, False),
)


def may_hide_nulls(kind: pa.DataType) -> bool:
    """Whether a type has a field below a struct that may not be null."""
    if pa.types.is_struct(kind):
        return any(not field.nullable or may_hide_nulls(field.type) for field in kind)
    if pa.types.is_map(kind):
        return may_hide_nulls(kind.item_type)
    return bool(pa.types.is_list(kind)) and may_hide_nulls(kind.value_type)


def filled(column: pa.Array) -> pa.Array:
    """The same values with a filler for every null that lies below a null and may not be one."""
    if column.offset:
        column = pa.concat_arrays([column])
    kind = column.type
    if pa.types.is_struct(kind):
        hidden = column.is_null()
        fields = [_field(column.field(i), field, hidden) for i, field in enumerate(kind)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=hidden)
    if pa.types.is_map(kind) and may_hide_nulls(kind):
        items = filled(column.items)
        made = pa.MapArray.from_arrays(column.offsets, column.keys, items, type=kind)
        return pc.if_else(column.is_valid(), made, pa.scalar(None, kind)) if column.null_count else made
    if pa.types.is_list(kind) and may_hide_nulls(kind):
        mask = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(column.offsets, filled(column.values), type=kind, mask=mask)
    return column


def _field(values: pa.Array, field: pa.Field, hidden: pa.BooleanArray) -> pa.Array:
    values = filled(values)
    if field.nullable or not values.null_count:
        return values
    filler = next((value for test, value in _FILLERS if test(field.type)), None)
    return values if filler is None else pc.if_else(hidden, pa.scalar(filler, field.type), values)
