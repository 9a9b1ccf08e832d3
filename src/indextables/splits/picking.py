"""Rows of a table by their places. A few are cut out one by one, which is quicker than pyarrow's `take` of them."""

from __future__ import annotations

import pyarrow as pa

from indextables.splits.searchable import Rows

_FEW = 32


def rows_at(table: pa.Table, places: Rows) -> pa.Table:
    """These rows, in this order; repeats allowed."""
    if 0 < len(places) <= _FEW:
        # Combined, so that a few rows do not keep the whole of what they were cut from in memory.
        return pa.concat_tables([table.slice(place, 1) for place in places.tolist()]).combine_chunks()
    return table.take(pa.array(places))
