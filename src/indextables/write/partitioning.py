"""A batch cut into the partitions its rows belong to; rows keep their order inside each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.model.stat_text import encode_value

PartitionKey = tuple[str | None, ...]


def partitions(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[PartitionKey, pa.RecordBatch]]:
    """Each partition of the batch: its values as the log writes them, and its rows without the partition columns."""
    body = batch.drop_columns(list(columns)) if columns else batch
    if not columns:
        yield (), body
        return
    if batch.num_rows == 0:
        return
    codes, keys = _codes(batch, columns)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        rows = order[start:end]
        yield keys[int(codes[rows[0]])], body if len(starts) == 1 else body.take(pa.array(rows))


def _codes(batch: pa.RecordBatch, columns: Sequence[str]) -> tuple[np.ndarray, dict[int, PartitionKey]]:
    """A number for each row's combination of values, and what each number stands for."""
    total = np.zeros(batch.num_rows, dtype=np.int64)
    texts: list[list[str | None]] = []
    for name in columns:
        encoded = pc.dictionary_encode(batch.column(name), null_encoding="encode")
        texts.append([encode_value(value) for value in encoded.dictionary])
        total = total * len(encoded.dictionary) + encoded.indices.to_numpy()
    keys: dict[int, PartitionKey] = {}
    for code in np.unique(total):
        rest, values = int(code), []
        for choices in reversed(texts):
            rest, place = divmod(rest, len(choices))
            values.append(choices[place])
        keys[int(code)] = tuple(reversed(values))
    return total, keys
