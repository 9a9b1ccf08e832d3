"""Several splits become one: the same rows in the same order, without the deleted ones.

Rows are copied through Parquet as a stream. The index is merged from the sources' segments, which costs about half of
indexing anew; where that is not possible (another engine's split, a text column that a source does not have, an index
that proves damaged or a merge that fails its checks) the rows are indexed again on their way through.
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from msgspec import Struct

from indextables.config.splits import SplitWriterSettings, StatsSettings
from indextables.errors import CorruptTableError, InvalidInputError, SchemaMismatchError
from indextables.model.column_defaults import absent_values, default_of
from indextables.splits.format.container import finish_split
from indextables.splits.format.parquet import ParquetBody
from indextables.splits.format.section_table import MAX_ROWS, Origin
from indextables.splits.index.builder import IndexBuilder
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.segments import Layer, Segment, merge_segments
from indextables.splits.index.tantivy_errors import scratch_folder, tantivy_errors, writing_errors
from indextables.splits.index.tantivy_files import Mask
from indextables.splits.read.reader import SplitReader
from indextables.splits.read.searchable import Searchable
from indextables.splits.write.split_info import SplitInfo, SplitStatistics

log = logging.getLogger(__name__)


class MergeSource(Struct, frozen=True):
    """A split to merge, and which of its rows live (None: all)."""

    reader: Searchable
    alive: Mask | None = None

    def __post_init__(self) -> None:
        if self.alive is not None and len(self.alive) != self.reader.num_rows:
            message = f"A mask of {len(self.alive)} rows for the {self.reader.num_rows} rows of {self.reader.path}."
            raise InvalidInputError(message, path=self.reader.path)

    @property
    def rows(self) -> int:
        """How many rows it contributes."""
        return self.reader.num_rows if self.alive is None else int(np.count_nonzero(self.alive))


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
    """Within the block, one local split with all living rows of the sources (None if there is none).

    `schema` and `mapping` are those of the table now; columns that a source does not have are NULL. `reuse_index=False`
    indexes every row again.
    """
    if sum(source.rows for source in sources) > MAX_ROWS:
        raise InvalidInputError(f"A split holds at most {MAX_ROWS} rows.", hint="Merge fewer splits at once.")
    folder = scratch_folder("merge", settings.temp_directory)
    schema = schema.remove_metadata()
    statistics = SplitStatistics(
        schema, settings=stats, timestamp_column=settings.timestamp_column, tags=tags, origin=origin
    )
    try:
        nonempty = [source for source in sources if source.rows]
        reuse_index = reuse_index and not any(_fills_index(source.reader, schema, mapping) for source in nonempty)
        segment = _merged_segment(nonempty, mapping, folder) if reuse_index and nonempty else None
        with writing_errors(str(folder), "Merging splits"):
            info = (
                _merge(nonempty, schema, mapping, folder, statistics, segment, settings.heap_bytes)
                if nonempty
                else None
            )
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
    """Stream the rows; index them as well where there is no merged segment."""
    builder = IndexBuilder(folder / "index", mapping, heap_bytes) if not segment and mapping.indexed else None
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
            incomplete=builder.incomplete if builder else _incomplete(sources),
        )
    finally:
        body.discard()
    return SplitInfo.of(body.path, layout)


def align(batch: pa.RecordBatch, schema: pa.Schema, path: str) -> pa.RecordBatch:
    """A split's rows in the table's columns: missing ones are NULL, narrower types are widened without loss."""
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
    """Whether rows of a split get a value by default that its index does not know."""
    absent = [column.name for column in mapping.indexed if column.name not in reader.schema.names]
    return any(default_of(schema.field(name)) is not None for name in absent)


def can_merge_segment(reader: Searchable, mapping: DocMapping) -> bool:
    """Whether a split's segment fits under the mapping: the same fields, and at most fields without lengths after."""
    own, columns = reader.mapping.indexed, mapping.indexed
    added = columns[len(own) :]
    return (
        isinstance(reader, SplitReader)
        and reader.indexed
        and own == columns[: len(own)]
        and all(column.kind not in ("text", "grams") for column in added)
    )


def _merged_segment(sources: Sequence[MergeSource], mapping: DocMapping, folder: Path) -> Segment | None:
    """The merged segment, or None where the rows have to be indexed again."""
    readers = [s.reader for s in sources if isinstance(s.reader, SplitReader) and can_merge_segment(s.reader, mapping)]
    if len(readers) != len(sources) or not mapping.indexed:
        return None
    try:
        with tantivy_errors(str(folder), "Merging"):
            layers = [Layer(reader.segment, source.alive) for reader, source in zip(readers, sources, strict=True)]
            return merge_segments(layers, mapping, folder / "merged")
    except CorruptTableError as e:
        log.warning("Segments could not be merged, so rows are indexed again: %s", e.message)
        return None


def _incomplete(sources: Sequence[MergeSource]) -> Counter[str]:
    """Counts of the sources together; deleted rows may make it too high, never too low."""
    total: Counter[str] = Counter()
    for source in sources:
        total.update(source.reader.incomplete)
    return total
