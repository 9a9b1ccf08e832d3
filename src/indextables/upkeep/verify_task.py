"""Some splits, checked: do they open, and on request, is every byte and every count as recorded?

A `VerifyTask` is plain values and travels by pickle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.errors import CorruptTableError, UnsupportedError
from indextables.model.schema import schema_from_json
from indextables.model.stat_text import decode_value
from indextables.splits.checking import check_bytes, check_end
from indextables.splits.source import SplitSource, open_source
from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.store import Store
from indextables.upkeep.findings import ERROR, Finding


class SplitRecord(Struct, frozen=True):
    """What the log says of a split."""

    path: str
    size: int
    num_records: int | None
    footer_start: int | None
    min_values: Mapping[str, str]
    max_values: Mapping[str, str]
    typed_bounds: bool
    """Whether the bounds were found by comparing values; another engine may have compared texts."""


class VerifyTask(Struct, frozen=True):
    """Splits to check."""

    spec: StoreSpec
    schema_json: str
    partition_columns: tuple[str, ...]
    splits: tuple[SplitRecord, ...]
    full: bool

    def run(self, *, store: Store | None = None) -> list[Finding]:
        """Everything that is wrong with these splits. A store that does not answer raises."""
        opened = store or open_store(self.spec)
        schema = schema_from_json(self.schema_json)
        body = pa.schema([f for f in schema if f.name not in self.partition_columns])
        return [finding for split in self.splits for finding in self._check(opened, split, body)]

    def _check(self, store: Store, split: SplitRecord, body: pa.Schema) -> Iterator[Finding]:
        try:
            source = open_source(store, split.path, size=split.size)
            rows = check_end(source, body, footer_start=split.footer_start)
            if split.num_records is not None and rows != split.num_records:
                message = f"The split has {rows} rows; the log says {split.num_records}."
                yield Finding("rows", ERROR, split.path, message)
            if self.full:
                yield from _check_rows(source, split, body, rows)
        except (CorruptTableError, UnsupportedError) as error:
            yield Finding("split", ERROR, split.path, error.message)


def _check_rows(source: SplitSource, split: SplitRecord, body: pa.Schema, rows: int) -> Iterator[Finding]:
    """Every byte by its checksum, every row counted, every value within the bounds that the log says."""
    counted = 0
    outside: set[str] = set()
    for batch in check_bytes(source, body, footer_start=split.footer_start):
        counted += batch.num_rows
        if split.typed_bounds:
            outside |= {name for name in batch.schema.names if name not in outside and _is_outside(split, batch, name)}
    if counted != rows:
        yield Finding("rows", ERROR, split.path, f"{counted} rows were read of a split of {rows}.")
    for name in sorted(outside):
        message = f"Column {name!r} holds values outside the bounds that the log says, so a filter could miss them."
        yield Finding("bounds", ERROR, split.path, message)


def _is_outside(split: SplitRecord, batch: pa.RecordBatch, name: str) -> bool:
    column = batch.column(name)
    for bounds, beyond in ((split.min_values, pc.less), (split.max_values, pc.greater)):
        text = bounds.get(name)
        bound = decode_value(text, column.type) if text is not None else None
        if bound is not None and pc.any(beyond(column, pa.scalar(bound, column.type))).as_py():
            return True
    return False
