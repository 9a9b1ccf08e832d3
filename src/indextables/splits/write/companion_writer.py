"""Build a companion split: the index of the rows of some source files, without the rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from msgspec.structs import replace

from indextables.config.splits import SplitWriterSettings, StatsSettings
from indextables.errors import InvalidInputError
from indextables.model.source_file import SourceFile
from indextables.splits.format.container import SplitInfo, finish_split
from indextables.splits.format.parquet import ParquetBody
from indextables.splits.format.section_table import IndexedSource
from indextables.splits.index.builder import IndexBuilder
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.tantivy_files import scratch_folder, writing_errors
from indextables.splits.read.source_rows import SourceParquet
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
