"""The order of a search's rows: by a column, with Spark's order of values, or by score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.errors import InvalidInputError


class OrderBy(Struct, frozen=True):
    """A column to sort by. Nulls come last either way; NaN is greater than every number."""

    column: str
    descending: bool = False

    @classmethod
    def parse(cls, text: str, columns: Sequence[str]) -> OrderBy:
        """`ts`, `ts asc` or `ts desc`."""
        name, _, direction = text.rpartition(" ")
        if text in columns:
            return cls(text)
        if name.strip() in columns and direction.lower() in ("asc", "desc"):
            return cls(name.strip(), direction.lower() == "desc")
        message = f"Rows cannot be ordered by {text!r}."
        raise InvalidInputError(message, hint=f"Name a column, with asc or desc: {', '.join(columns)}.", order_by=text)


def ranking(values: pa.Array | pa.ChunkedArray, order: OrderBy) -> npt.NDArray[np.int64]:
    """The places of the values in order; equal ones stay as they are."""
    direction = "descending" if order.descending else "ascending"
    keys = {"null": pc.is_null(values), "value": values, "place": pa.array(np.arange(len(values)))}
    sort = [("null", "ascending"), ("value", direction), ("place", "ascending")]
    if pa.types.is_floating(values.type):
        keys["nan"] = pc.fill_null(pc.is_nan(values), False)
        sort.insert(1, ("nan", direction))
    try:
        return np.asarray(pc.sort_indices(pa.table(keys), sort_keys=sort), np.int64)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
        message = f"Rows cannot be ordered by {order.column!r}, which is {values.type}."
        raise InvalidInputError(message, hint="Order by a column of numbers, text, dates or times.") from e
