"""Opening a split of either kind: one of ours, or another engine's bundle."""

from __future__ import annotations

import pyarrow as pa

from indextables.errors import BadFileError
from indextables.splits.bundle import is_bundle
from indextables.splits.cache import SplitCache
from indextables.splits.foreign import ForeignReader
from indextables.splits.reader import SplitReader
from indextables.splits.source import SplitSource


def open_split(
    source: SplitSource,
    schema: pa.Schema,
    *,
    footer_start: int | None = None,
    num_records: int | None = None,
    cache: SplitCache | None = None,
) -> SplitReader | ForeignReader:
    """A reader for the split; `schema` (the table's, without partition columns) types a foreign split's values.

    A number of records that differs from what the log says is `BadFileError`.
    """
    reader = _open(source, schema, footer_start, cache)
    if num_records is not None and reader.num_rows != num_records:
        message = f"The split {source.path} has {reader.num_rows} rows; the log says {num_records}."
        raise BadFileError(message, path=source.path, start=0, length=source.size)
    return reader


def _open(
    source: SplitSource, schema: pa.Schema, footer_start: int | None, cache: SplitCache | None
) -> SplitReader | ForeignReader:
    try:
        return SplitReader.open(source, footer_start=footer_start, cache=cache)
    except BadFileError:
        if source.size < 8 or not is_bundle(source.read_many([(source.size - 8, 8)])[0]):
            raise
    return ForeignReader.open(source, schema)
