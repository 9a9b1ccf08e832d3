"""Rows in, splits out: a stream of Arrow batches becomes finished split files on local disk, in
bounded memory.

    with SplitWriter(schema, mapping, settings=settings) as writer:
        for batch in batches:
            for split in writer.write(batch):
                upload(split)
        for split in writer.finish():
            upload(split)

Rows keep their order within and across splits. The writer's folder, with every split in it, is gone
when it closes, however it closes. Rows belong to one partition; partition columns are not part of
the file, as in Hive and Delta. A new split is put at `<column>=<value>/splits/split-<uuid>.split`.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from indextables.config.splits import SplitWriterSettings, StatsSettings
from indextables.errors import InvalidInputError, SchemaMismatchError
from indextables.splits.format.container import SplitInfo, finish_split
from indextables.splits.format.parquet import ParquetBody
from indextables.splits.format.section_table import Origin
from indextables.splits.index.builder import CHUNK_ROWS, IndexBuilder
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.tantivy_files import MemoryFolder, scratch_folder, writing_errors
from indextables.splits.index.vectors import check_vectors
from indextables.splits.write.statistics import SplitStatistics
from indextables.storage.location import join, partition_folder


def new_split_name() -> str:
    """Return a unique split name."""
    return f"split-{uuid.uuid4()}.split"


def split_path(partition_values: Mapping[str, str | None], name: str) -> str:
    """Return the path of a split of a partition, relative to the table's root."""
    return join(partition_folder(partition_values), "splits", name)


_FIRST_GUESS = 1.2
"""Initial ratio of index size to row size, until a split is finished."""
_SMALL_BYTES = 8 << 20
"""Rows up to this size are indexed in memory if there is a file system in memory."""


class SplitWriter:
    """Writes the rows of one partition into splits of the target size."""

    def __init__(
        self,
        schema: pa.Schema,
        mapping: DocMapping,
        *,
        settings: SplitWriterSettings,
        stats: StatsSettings | None = None,
        tags: Sequence[str] = (),
        origin: Origin | None = None,
    ) -> None:
        """`schema` and `mapping` are those of the file, without partition columns."""
        self.schema = schema.remove_metadata()
        self._mapping = mapping
        self._settings = settings
        self._stats = stats
        self._tags = tags
        self._origin = origin
        self._memory: MemoryFolder | None = None
        self._folder: Path | None = None
        if settings.temp_directory:
            self._folder = scratch_folder("write", settings.temp_directory)
        self._pending: list[pa.RecordBatch] = []
        """The first rows, until it is certain that they are many: then the folder is on disk."""
        self._pending_bytes = 0
        self._current: _OpenSplit | None = None
        self._count = 0
        self._rows = 0
        self._index_ratio = _FIRST_GUESS

    def write(self, batch: pa.RecordBatch) -> list[SplitInfo]:
        """Add rows and return the splits that became full."""
        batch = self._conform(batch)
        check_vectors(batch, self._mapping, rows_before=self._rows)
        self._rows += batch.num_rows
        if self._folder is None:
            self._pending.append(batch)
            self._pending_bytes += batch.nbytes
            if self._is_small():
                return []
            self._folder = scratch_folder("write", None)
            return self._write_pending()
        return self._write_batch(batch)

    def _is_small(self) -> bool:
        most = min(_SMALL_BYTES, self._settings.target_bytes)
        return self._pending_bytes <= most and self._rows < self._settings.max_rows

    def _write_pending(self) -> list[SplitInfo]:
        pending, self._pending = self._pending, []
        return [split for batch in pending for split in self._write_batch(batch)]

    def _write_batch(self, batch: pa.RecordBatch) -> list[SplitInfo]:
        full = []
        for start in range(0, batch.num_rows, CHUNK_ROWS):
            full += self._write_piece(batch.slice(start, CHUNK_ROWS))
        return full

    def finish(self) -> list[SplitInfo]:
        """Complete the last splits. Returns an empty list if there are none."""
        full: list[SplitInfo] = []
        if self._pending:
            self._memory = MemoryFolder.make()
            if self._memory is None:
                self._folder = scratch_folder("write", None)
            else:
                self._folder = self._memory.path
            full += self._write_pending()
        return full + self._finish_current()

    def _finish_current(self) -> list[SplitInfo]:
        if self._current is None:
            return []
        current, self._current = self._current, None
        with writing_errors(str(self._folder), "Completing a split"):
            info, self._index_ratio = current.finish()
        return [info]

    def close(self) -> None:
        """Remove the writer's folder and everything in it."""
        if self._current is not None:
            self._current.discard()
            self._current = None
        if self._memory is not None:
            self._memory.remove()
        elif self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._memory = self._folder = None

    def __enter__(self) -> SplitWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write_piece(self, piece: pa.RecordBatch) -> list[SplitInfo]:
        full = []
        while piece.num_rows:
            with writing_errors(str(self._folder), "Writing rows"):
                current = self._current = self._current or self._open()
                part = piece.slice(0, self._settings.max_rows - current.rows)
                piece = piece.slice(part.num_rows)
                current.add(part)
            if (
                current.rows >= self._settings.max_rows
                or self._estimate(current) >= self._settings.target_bytes
            ):
                full += self._finish_current()
        return full

    def _open(self) -> _OpenSplit:
        self._count += 1
        statistics = SplitStatistics(
            self.schema,
            settings=self._stats,
            timestamp_column=self._settings.timestamp_column,
            tags=self._tags,
            origin=self._origin,
        )
        assert self._folder is not None
        folder = self._folder / f"{self._count}"
        return _OpenSplit(folder, self.schema, self._mapping, self._settings.heap_bytes, statistics)

    def _estimate(self, current: _OpenSplit) -> float:
        return current.rows_bytes * (1 + self._index_ratio)

    def _conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with exactly the writer's columns, validated (invalid UTF-8 would damage
        the index).
        """
        missing = [name for name in self.schema.names if name not in batch.schema.names]
        if missing:
            raise SchemaMismatchError(
                f"The data has no column {', '.join(map(repr, missing))}.", missing=missing
            )
        batch = batch.select(self.schema.names)
        for field, actual in zip(self.schema, batch.schema, strict=True):
            if field.type != actual.type:
                message = f"Column {field.name!r} is {field.type} in the table and {actual.type} in the data."
                raise SchemaMismatchError(message, column=field.name)
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as e:
            raise InvalidInputError(f"The data is not valid Arrow: {e}.") from e
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)


class _OpenSplit:
    """One split under construction: rows, index and statistics."""

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema,
        mapping: DocMapping,
        heap_bytes: int,
        statistics: SplitStatistics,
    ) -> None:
        folder.mkdir()
        self._folder = folder
        self._mapping = mapping
        self._statistics = statistics
        self._body = ParquetBody(folder / "split", schema, mapping)
        self._index = (
            IndexBuilder(folder / "index", mapping, heap_bytes) if mapping.indexed else None
        )

    @property
    def rows(self) -> int:
        return self._body.rows

    @property
    def rows_bytes(self) -> float:
        return self._body.estimated_bytes

    def add(self, batch: pa.RecordBatch) -> None:
        if self._index:
            self._index.add(batch)
        self._body.write(batch)
        self._statistics.update(batch)

    def finish(self) -> tuple[SplitInfo, float]:
        """Return the finished split and the ratio of index size to row size."""
        segment = self._index.finish() if self._index else None
        layout = finish_split(
            self._body,
            segment,
            mapping=self._mapping,
            statistics=self._statistics.result(),
            incomplete=self._index.incomplete if self._index else {},
        )
        shutil.rmtree(self._folder / "index", ignore_errors=True)
        rows_bytes = layout.footer_start - layout.index_bytes
        return SplitInfo.of(self._body.path, layout), layout.index_bytes / max(rows_bytes, 1)

    def discard(self) -> None:
        self._body.discard()
        if self._index:
            self._index.discard()


def write_splits(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    mapping: DocMapping,
    *,
    settings: SplitWriterSettings,
    stats: StatsSettings | None = None,
    tags: Sequence[str] = (),
    origin: Origin | None = None,
) -> Generator[SplitInfo, None, None]:
    """Yield the splits of a stream of batches one at a time; each file exists until the next is
    requested.

    Closing the generator early also cleans up.
    """
    with SplitWriter(
        schema, mapping, settings=settings, stats=stats, tags=tags, origin=origin
    ) as writer:
        for batch in batches:
            for split in writer.write(batch):
                yield split
                split.path.unlink(missing_ok=True)
        yield from writer.finish()
