"""Merge several splits into one: the same rows in the same order, without the deleted ones.

Rows are streamed through Parquet. The index is merged from the sources' segments, which costs about
half of re-indexing. Where that is not possible (another engine's split, a text column that a source
lacks, a damaged index, a merge that fails its checks) the rows are re-indexed.

A sorted merge writes the rows of several splits in one order in bounded memory. The sort values of
all rows are read first and determine the position of each row. The rows are then read in passes,
each for one range of the result. Splits that already follow each other are read once.
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.config.splits import SplitWriterSettings, StatsSettings
from indextables.errors import CorruptTableError, InvalidInputError, SchemaMismatchError
from indextables.model.column_names import absent_values, default_of
from indextables.model.schema import is_atomic
from indextables.splits.format.container import SplitInfo, finish_split
from indextables.splits.format.parquet import ParquetBody
from indextables.splits.format.section_table import MAX_ROWS, Origin
from indextables.splits.index.builder import IndexBuilder
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.segments import Layer, Segment, merge_segments
from indextables.splits.index.tantivy_files import (
    Mask,
    TantivyErrors,
    scratch_folder,
    writing_errors,
)
from indextables.splits.index.values import IncompleteValues, keep_living
from indextables.splits.read.reader import SplitReader
from indextables.splits.read.searchable import Rows, Searchable
from indextables.splits.write.statistics import SplitStatistics

log = logging.getLogger(__name__)


class MergeSource(Struct, frozen=True):
    """A split to merge and its living rows (None: all)."""

    reader: Searchable
    alive: Mask | None = None

    def __post_init__(self) -> None:
        if self.alive is not None and len(self.alive) != self.reader.num_rows:
            message = f"A mask of {len(self.alive)} rows for the {self.reader.num_rows} rows of {self.reader.path}."
            raise InvalidInputError(message, path=self.reader.path)

    @property
    def rows(self) -> int:
        """Number of living rows."""
        if self.alive is None:
            return self.reader.num_rows
        return int(np.count_nonzero(self.alive))


@contextmanager
def merge_splits(
    sources: Sequence[MergeSource],
    schema: pa.Schema,
    mapping: DocMapping,
    *,
    settings: SplitWriterSettings,
    stats: StatsSettings | None = None,
    tags: Sequence[str] = (),
    origin: Origin | None = None,
    reuse_index: bool = True,
) -> Iterator[SplitInfo | None]:
    """Create one local split with all living rows of the sources for the duration of the block, or
    None without rows.

    `schema` and `mapping` are the table's current ones; missing columns are NULL.
    `reuse_index=False` re-indexes every row.
    """
    if sum(source.rows for source in sources) > MAX_ROWS:
        raise InvalidInputError(
            f"A split holds at most {MAX_ROWS} rows.", hint="Merge fewer splits at once."
        )
    folder = scratch_folder("merge", settings.temp_directory)
    schema = schema.remove_metadata()
    statistics = SplitStatistics(
        schema, settings=stats, timestamp_column=settings.timestamp_column, tags=tags, origin=origin
    )
    try:
        nonempty = [source for source in sources if source.rows]
        reuse_index = reuse_index and not any(
            _fills_index(source.reader, schema, mapping) for source in nonempty
        )
        if reuse_index and nonempty:
            segment = _merged_segment(nonempty, mapping, folder)
        else:
            segment = None
        with writing_errors(str(folder), "Merging splits"):
            if nonempty:
                info = _merge(
                    nonempty, schema, mapping, folder, statistics, segment, settings.heap_bytes
                )
            else:
                info = None
        yield info
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _merge(
    sources: Sequence[MergeSource],
    schema: pa.Schema,
    mapping: DocMapping,
    folder: Path,
    statistics: SplitStatistics,
    segment: Segment | None,
    heap_bytes: int,
) -> SplitInfo:
    """Stream the rows, and index them if there is no merged segment."""
    if not segment and mapping.indexed:
        builder = IndexBuilder(folder / "index", mapping, heap_bytes)
    else:
        builder = None
    body = ParquetBody(folder / "split", schema, mapping)
    try:
        for source in sources:
            for batch in source.reader.iter_rows(source.alive):
                aligned = align(batch, schema, source.reader.path)
                if builder:
                    builder.add(aligned)
                body.write(aligned)
                statistics.update(aligned)
        layout = finish_split(
            body,
            builder.finish() if builder else segment,
            mapping=mapping,
            statistics=statistics.result(),
            incomplete=builder.incomplete if builder else join_incomplete(sources),
        )
    finally:
        body.discard()
    return SplitInfo.of(body.path, layout)


def align(batch: pa.RecordBatch, schema: pa.Schema, path: str) -> pa.RecordBatch:
    """Convert a split's rows to the table's columns: missing ones are NULL, narrower types are
    widened.
    """
    arrays = []
    for field in schema:
        place = batch.schema.get_field_index(field.name)
        if place < 0:
            arrays.append(absent_values(field, batch.num_rows))
            continue
        try:
            arrays.append(batch.column(place).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
            message = f"Column {field.name!r} of the split {path} does not fit the table's {field.type}: {e}."
            raise SchemaMismatchError(message, path=path, column=field.name) from e
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _fills_index(reader: Searchable, schema: pa.Schema, mapping: DocMapping) -> bool:
    """Return whether rows of a split get a default value that its index does not contain."""
    absent = [column.name for column in mapping.indexed if column.name not in reader.schema.names]
    return any(default_of(schema.field(name)) is not None for name in absent)


def can_merge_segment(reader: Searchable, mapping: DocMapping) -> bool:
    """Return whether a split's segment fits the mapping: the same fields, and then at most fields
    without norms.
    """
    own, columns = reader.mapping.indexed, mapping.indexed
    added = columns[len(own) :]
    return (
        isinstance(reader, SplitReader)
        and reader.indexed
        and own == columns[: len(own)]
        and all(column.kind not in ("text", "grams", "whole", "hash") for column in added)
    )


def _merged_segment(
    sources: Sequence[MergeSource], mapping: DocMapping, folder: Path
) -> Segment | None:
    """Return the merged segment, or None if the rows must be re-indexed."""
    readers = [
        s.reader
        for s in sources
        if isinstance(s.reader, SplitReader) and can_merge_segment(s.reader, mapping)
    ]
    if len(readers) != len(sources) or not mapping.indexed:
        return None
    try:
        with TantivyErrors(str(folder), "Merging"):
            layers = [
                Layer(reader.segment, source.alive)
                for reader, source in zip(readers, sources, strict=True)
            ]
            return merge_segments(layers, mapping, folder / "merged")
    except CorruptTableError as e:
        log.warning("Segments could not be merged, so rows are indexed again: %s", e.message)
        return None


def join_incomplete(sources: Sequence[MergeSource]) -> dict[str, IncompleteValues]:
    """Return the incomplete values of all sources; where a source records a count alone, so does
    the result.

    Such a count includes deleted rows: it may be too high, never too low.
    """
    counts: Counter[str] = Counter()
    parts: dict[str, list[Rows] | None] = {}
    start = 0
    for source in sources:
        for name, values in source.reader.incomplete.items():
            living = keep_living(values, source.alive)
            counts[name] += living.count
            known = parts.setdefault(name, [])
            if known is None or living.rows is None:
                parts[name] = None
            else:
                known.append(living.rows + start)
        start += source.rows
    joined = {name: None if rows is None else np.concatenate(rows) for name, rows in parts.items()}
    return {
        name: IncompleteValues(counts[name], rows) for name, rows in joined.items() if counts[name]
    }


Places = npt.NDArray[np.int64]

PASS_BYTES = 256 << 20
"""Memory for the rows of one pass, by the size of the first rows."""
_FEWEST_ROWS = 8_192


class RowOrder:
    """The living rows of several splits, sorted by some columns.

    Ascending; NaN after every number, NULL last. Ties keep the order of the splits.
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
        """The rows in order, as positions in the concatenated sources."""
        batches = [
            align(batch, self._keys, source.reader.path)
            for source in self._sources
            for batch in _rows(
                source, None, [n for n in self._keys.names if n in source.reader.schema.names]
            )
        ]
        return _sorted_places(pa.Table.from_batches(batches, self._keys))

    @property
    def is_given(self) -> bool:
        """Whether the concatenated sources are already in order."""
        return bool((np.diff(self.places) > 0).all())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order with the table's columns."""
        step = self._rows_at_once()
        for start in range(0, len(self.places), step):
            yield from self._stretch(self.places[start : start + step]).to_batches(
                max_chunksize=_FEWEST_ROWS
            )

    def _stretch(self, places: Places) -> pa.Table:
        ascending = np.sort(places)
        batches = []
        for number, source in enumerate(self._sources):
            low, high = np.searchsorted(ascending, self._starts[number : number + 2])
            if low < high:
                own = ascending[low:high] - self._starts[number]
                batches += [
                    align(b, self._schema, source.reader.path) for b in _rows(source, own, None)
                ]
        rows = pa.Table.from_batches(batches, self._schema)
        return rows.take(pa.array(np.searchsorted(ascending, places)))

    def _rows_at_once(self) -> int:
        first = next(
            (b for s in self._sources for b in _rows(s, np.arange(min(s.rows, 1_000)), None)), None
        )
        if first is None or not first.num_rows:
            return _FEWEST_ROWS
        return max(
            _FEWEST_ROWS, self._pass_bytes * int(first.num_rows) // max(int(first.nbytes), 1)
        )


def check_sortable(schema: pa.Schema, name: str) -> pa.Field:
    """Return the field of a sortable column."""
    field = schema.field(name)
    if not is_atomic(field.type):
        message = f"Rows cannot be sorted by {name!r}, which is {field.type}."
        raise InvalidInputError(
            message, hint="Sort by columns of numbers, text, dates or times.", column=name
        )
    return field


def _rows(
    source: MergeSource, own: Places | None, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    """Yield living rows of a source, all or by their numbers among the living."""
    if columns is not None and not columns:
        yield pa.record_batch({"": pa.nulls(source.rows)})
        return
    rows: Rows | Mask | None = source.alive
    if own is not None:
        if source.alive is None:
            rows = own
        else:
            rows = np.flatnonzero(source.alive)[own]
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
