"""Rows of several splits in one order, in bounded memory: what a sorted merge writes.

The values to sort by are read first, of all rows; they alone say where each row goes. Then the rows are read in passes, each
of them the rows of one stretch of the result. Splits that follow each other already are each read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidInputError
from indextables.model.schema import is_atomic
from indextables.splits.index.tantivy_files import Mask
from indextables.splits.read.searchable import Rows
from indextables.splits.write.merge import MergeSource, align

Places = npt.NDArray[np.int64]

PASS_BYTES = 256 << 20
"""Memory that the rows of one pass may take, by the size of the first ones."""
_FEWEST_ROWS = 8_192


class RowOrder:
    """The living rows of some splits in the order of some columns. Rows that are equal stay in the order of the splits.

    Ascending; NaN comes after every number, and NULL last.
    """

    def __init__(
        self,
        sources: Sequence[MergeSource],
        schema: pa.Schema,
        columns: Sequence[str],
        *,
        pass_bytes: int = PASS_BYTES,
    ) -> None:
        self._sources = sources
        self._schema = schema
        self._keys = pa.schema([check_sortable(schema, name) for name in columns])
        self._pass_bytes = pass_bytes
        self._starts = np.cumsum([0, *(source.rows for source in sources)])

    @cached_property
    def places(self) -> Places:
        """The rows in order, by their place in the sources one after the other."""
        batches = [
            align(batch, self._keys, source.reader.path)
            for source in self._sources
            for batch in _rows(source, None, [n for n in self._keys.names if n in source.reader.schema.names])
        ]
        return _sorted_places(pa.Table.from_batches(batches, self._keys))

    @property
    def is_given(self) -> bool:
        """Whether the sources one after the other are in order as they are."""
        return bool((np.diff(self.places) > 0).all())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in order, in the table's columns."""
        step = self._rows_at_once()
        for start in range(0, len(self.places), step):
            yield from self._stretch(self.places[start : start + step]).to_batches(max_chunksize=_FEWEST_ROWS)

    def _stretch(self, places: Places) -> pa.Table:
        ascending = np.sort(places)
        batches = []
        for number, source in enumerate(self._sources):
            low, high = np.searchsorted(ascending, self._starts[number : number + 2])
            if low < high:
                own = ascending[low:high] - self._starts[number]
                batches += [align(b, self._schema, source.reader.path) for b in _rows(source, own, None)]
        rows = pa.Table.from_batches(batches, self._schema)
        return rows.take(pa.array(np.searchsorted(ascending, places)))

    def _rows_at_once(self) -> int:
        first = next((b for s in self._sources for b in _rows(s, np.arange(min(s.rows, 1_000)), None)), None)
        if first is None or not first.num_rows:
            return _FEWEST_ROWS
        return max(_FEWEST_ROWS, self._pass_bytes * int(first.num_rows) // max(int(first.nbytes), 1))


def check_sortable(schema: pa.Schema, name: str) -> pa.Field:
    """The field of a column that rows can be sorted by."""
    field = schema.field(name)
    if not is_atomic(field.type):
        message = f"Rows cannot be sorted by {name!r}, which is {field.type}."
        raise InvalidInputError(message, hint="Sort by columns of numbers, text, dates or times.", column=name)
    return field


def _rows(source: MergeSource, own: Places | None, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    """Living rows of a source, all or by their numbers among the living."""
    if columns is not None and not columns:
        yield pa.record_batch({"": pa.nulls(source.rows)})
        return
    rows: Rows | Mask | None = source.alive
    if own is not None:
        rows = own if source.alive is None else np.flatnonzero(source.alive)[own]
    yield from source.reader.iter_rows(rows, columns=columns)


def _sorted_places(keys: pa.Table) -> Places:
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for number, values in enumerate(keys.columns):
        columns[f"null{number}"] = pc.is_null(values)
        if pa.types.is_floating(values.type):
            columns[f"nan{number}"] = pc.fill_null(pc.is_nan(values), False)
        columns[f"value{number}"] = values
    columns["place"] = pa.array(np.arange(keys.num_rows))
    order = [(name, "ascending") for name in columns]
    return np.asarray(pc.sort_indices(pa.table(columns), sort_keys=order), np.int64)
