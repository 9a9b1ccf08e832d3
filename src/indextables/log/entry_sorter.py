"""Live entries in the order of their partition values, a bounded part of them in memory at a time.

First only the partition values are read, which gives every row its place; then the rows are gathered in groups of
consecutive places. A group reads a part again only if the part has rows in it, so a list that is nearly sorted already
is read about once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.model.actions import MetadataAction
from indextables.model.file_values import TextMaps
from indextables.model.schema import schema_from_json
from indextables.model.stat_text import decode_values

GROUP_ROWS = 200_000
ReadPart = Callable[[Sequence[str] | None], pa.Table]
"""Reads the live entries of one part: all columns, or those named."""

Places = np.ndarray[Any, np.dtype[np.int64]]


class EntrySorter(Struct, frozen=True):
    """Sorts the entries of several parts by the partition columns of a table; ties keep their order."""

    metadata: MetadataAction
    group_rows: int = GROUP_ROWS

    def sorted_groups(self, parts: Sequence[ReadPart], *, expected_rows: int) -> Iterator[pa.Table]:
        """All entries in order, in tables of at most `group_rows` rows."""
        if expected_rows <= self.group_rows:
            whole = pa.concat_tables([read(None) for read in parts])
            yield whole.take(pa.array(self._order([whole])))
            return
        keys = [read(["partition_values"]) for read in parts]
        starts = np.concatenate([[0], np.cumsum([table.num_rows for table in keys])])
        order = self._order(keys)
        for at in range(0, len(order), self.group_rows):
            yield _gathered(parts, starts, order[at : at + self.group_rows])

    def _order(self, tables: Sequence[pa.Table]) -> Places:
        """Row numbers over all tables, in the order of their partition values."""
        rows = sum(table.num_rows for table in tables)
        types = {f.name: f.type for f in schema_from_json(self.metadata.schema_string)}
        names = [name for name in self.metadata.partition_columns or () if name in types]
        if not names:
            return np.arange(rows)
        values = pa.concat_tables([table.select(["partition_values"]) for table in tables])
        maps = TextMaps(values.column("partition_values"))
        columns = {f"p{n}": decode_values(maps.lookup(name)[0], types[name]) for n, name in enumerate(names)}
        columns["row"] = pa.array(np.arange(rows))
        keys = [(name, "ascending", "at_start") for name in columns]
        order: Places = pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy().astype(np.int64)
        return order


def _gathered(parts: Sequence[ReadPart], starts: Places, wanted: Places) -> pa.Table:
    """The rows with these numbers, in this order."""
    pieces, places = [], []
    for part, first, last in zip(parts, starts, starts[1:], strict=False):
        chosen = np.flatnonzero((wanted >= first) & (wanted < last))
        if len(chosen):
            pieces.append(part(None).take(pa.array(wanted[chosen] - first)))
            places.append(chosen)
    return pa.concat_tables(pieces).take(pa.array(np.argsort(np.concatenate(places), kind="stable")))
