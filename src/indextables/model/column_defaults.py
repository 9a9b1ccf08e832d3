"""Defaults of columns: what rows hold that have no value of a column, because it is younger than they are.

A default stands in the metadata of its field: as our text (`indextables.default`), and as SQL under the keys by which Spark's
own Parquet reader fills columns that a file does not have. Rows that come without the column get it too.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from indextables.errors import InvalidInputError
from indextables.model.predicate.tree import Literal
from indextables.model.schema import is_atomic
from indextables.model.spark_types import METADATA_KEY, type_name
from indextables.model.stat_text import decode_value, encode_value

DEFAULT_KEY = "indextables.default"
_MARK = DEFAULT_KEY.encode()
SPARK_KEYS = ("CURRENT_DEFAULT", "EXISTS_DEFAULT")


def default_metadata(name: str, kind: pa.DataType, default: Any) -> dict[str, str]:
    """The entries of a field's metadata that say its default."""
    if not is_atomic(kind) or pa.types.is_binary(kind):
        hint = "Numbers, text, booleans, dates and times can have one."
        raise InvalidInputError(f"Column {name!r} is {type_name(kind)}, which has no default.", hint=hint, column=name)
    try:
        value = pa.scalar(default, kind)
        literal = str(Literal(value.as_py()))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        message = f"The default {default!r} of column {name!r} is no {type_name(kind)}: {error}."
        raise InvalidInputError(message, column=name) from None
    text = encode_value(value)
    if text is None:
        raise InvalidInputError(f"A default of NULL for {name!r} says nothing.", hint="Leave it out.", column=name)
    sql = f"CAST({literal} AS {type_name(kind)})"
    return {DEFAULT_KEY: text, **dict.fromkeys(SPARK_KEYS, sql)}


def default_of(field: pa.Field) -> pa.Scalar | None:
    """What a row holds that has no value of a column; None for null."""
    recorded = (field.metadata or {}).get(METADATA_KEY)
    if recorded is None or _MARK not in recorded:
        return None
    text = json.loads(recorded).get(DEFAULT_KEY)
    return None if text is None else pa.scalar(decode_value(str(text), field.type), field.type)


def absent_values(field: pa.Field, count: int) -> pa.Array:
    """The values of a column in rows that do not have it."""
    default = default_of(field)
    return pa.nulls(count, field.type) if default is None else pa.repeat(default, count)
