"""Build a companion split: the index of the rows of some source files, without the rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
from msgspec.structs import replace

from indextables.config.splits import SplitWriterSettings, StatsSettings
from indextables.errors import InvalidInputError
from indextables.model.source_file import SourceFile
from indextables.model.values import decode_value
from indextables.splits.format.container import SplitInfo, finish_split
from indextables.splits.format.parquet import ParquetBody
from indextables.splits.format.section_table import IndexedSource, Statistics
from indextables.splits.index.builder import IndexBuilder
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.segments import Layer, merge_segments
from indextables.splits.index.tantivy_files import Mask, scratch_folder, writing_errors
from indextables.splits.read.reader import SplitReader
from indextables.splits.read.source_rows import SourceParquet
from indextables.splits.write.merge import MergeSource, join_incomplete
from indextables.splits.write.statistics import SplitStatistics, indexed_fields

ROW_SCHEMA = pa.schema([pa.field("_row", pa.int64())])
"""The columns of a companion split as a Parquet file, which has no rows."""
_BATCH_ROWS = 65_536


@contextmanager
def build_companion_split(
    files: Sequence[tuple[SourceFile, SourceParquet]],
    schema: pa.Schema,
    mapping: DocMapping,
    *,
    source_format: str,
    source_id: str,
    settings: SplitWriterSettings,
    stats: StatsSettings,
) -> Iterator[SplitInfo]:
    """Create one local split that indexes all rows of these files, for the duration of the block.

    `schema` and `mapping` are the columns of the source without partition columns, by physical
    names. Only the columns that are indexed or have bounds are read.
    """
    names = {column.name for column in mapping.indexed}
    names.update(field.name for field in indexed_fields(schema, stats))
    read = pa.schema([f.remove_metadata() for f in schema if f.name in names])
    folder = scratch_folder("companion", settings.temp_directory)
    statistics = SplitStatistics(read, settings=stats, timestamp_column=_time(settings, read))
    body = ParquetBody(folder / "split", ROW_SCHEMA, DocMapping(()))
    try:
        builder = IndexBuilder(folder / "index", mapping, settings.heap_bytes)
        with writing_errors(str(folder), "Building a companion split"):
            for _, parquet in files:
                for batch in _batches(parquet, read):
                    builder.add(batch)
                    statistics.update(batch)
            layout = finish_split(
                body,
                builder.finish(),
                mapping=mapping,
                statistics=statistics.result(),
                incomplete=builder.incomplete,
                source=IndexedSource(
                    format=source_format,
                    source_id=source_id,
                    files=tuple(listed for listed, _ in files),
                ),
            )
        yield replace(SplitInfo.of(body.path, layout), rows_end=None)
    finally:
        body.discard()
        shutil.rmtree(folder, ignore_errors=True)


def _time(settings: SplitWriterSettings, schema: pa.Schema) -> str:
    """Return the column of the time range, if it is read."""
    name = settings.timestamp_column
    return name if name in schema.names else ""


def _batches(parquet: SourceParquet, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for table in parquet.iter_rows(None, schema.names):
        for batch in table.cast(schema).combine_chunks().to_batches(max_chunksize=_BATCH_ROWS):
            try:
                batch.validate(full=True)
            except pa.ArrowInvalid as error:
                raise InvalidInputError(
                    f"{parquet.path} has text that is not UTF-8: {error}.",
                    hint="Write the file again, or leave the column out with exclude=.",
                    path=parquet.path,
                ) from error
            yield batch


@contextmanager
def merge_companion_splits(
    sources: Sequence[tuple[SplitReader, Sequence[SourceFile], Mask]],
    mapping: DocMapping,
    types: Mapping[str, pa.DataType],
    *,
    settings: SplitWriterSettings,
) -> Iterator[SplitInfo]:
    """Create one local split from the indexes of several, for the duration of the block.

    Each source comes with the files that stay and a mask of their documents. No row is read: the
    segments are stacked. All sources have the doc mapping. `types` are the types of the columns
    whose bounds all sources record.
    """
    folder = scratch_folder("companion", settings.temp_directory)
    body = ParquetBody(folder / "split", ROW_SCHEMA, DocMapping(()))
    try:
        with writing_errors(str(folder), "Merging companion splits"):
            layers = [Layer(reader.segment, alive) for reader, _, alive in sources]
            segment = merge_segments(layers, mapping, folder / "merged")
            recorded = sources[0][0].table.indexed_source
            assert recorded is not None, "a companion split says what it indexes"
            layout = finish_split(
                body,
                segment,
                mapping=mapping,
                statistics=_join_statistics([r.table.statistics for r, _, _ in sources], types),
                incomplete=join_incomplete([MergeSource(r, alive) for r, _, alive in sources]),
                source=IndexedSource(
                    format=recorded.format,
                    source_id=recorded.source_id,
                    files=tuple(file for _, files, _ in sources for file in files),
                ),
            )
        yield replace(SplitInfo.of(body.path, layout), rows_end=None)
    finally:
        body.discard()
        shutil.rmtree(folder, ignore_errors=True)


def _join_statistics(parts: Sequence[Statistics], types: Mapping[str, pa.DataType]) -> Statistics:
    """Return bounds of all parts together, for columns that every part bounds. The time range is
    left out.
    """
    lows: dict[str, str] = {}
    highs: dict[str, str] = {}
    for name, kind in types.items():
        for bounds, texts, choose in (
            (lows, [part.min_values.get(name) for part in parts], min),
            (highs, [part.max_values.get(name) for part in parts], max),
        ):
            values = [(decode_value(text, kind), text) for text in texts if text is not None]
            if len(values) == len(parts) and all(value is not None for value, _ in values):
                bounds[name] = choose(values)[1]
    size = sum(part.uncompressed_size_bytes for part in parts)
    return Statistics(min_values=lows, max_values=highs, uncompressed_size_bytes=size)
