"""Build one tantivy segment whose document numbers are the row numbers, from rows as JSON lines.

One writer thread indexes documents in the order they are added. When the heap is full, tantivy
closes a segment, so a large split has several. Some documents carry their row number; segments are
ordered by these and merged in that order. No folder holds so many segments that tantivy would merge
them automatically in another order.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tantivy

from indextables.errors import InvalidInputError
from indextables.splits.index.analyzers import ROW_FIELD
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.segments import (
    MIN_HEAP_BYTES,
    Layer,
    Segment,
    create_index,
    merge_segments,
    open_folder,
    segments_of,
)
from indextables.splits.index.tantivy_files import writing_errors
from indextables.splits.index.values import IncompleteValues, index_values

Rows = npt.NDArray[np.int64]
CHUNK_BYTES = 512 << 10
CHUNK_ROWS = 8_192


class Lines:
    """The lines of one chunk. The first carries its row number, which gives the position of its
    segment.
    """

    def __init__(self, lines: list[str], text_bytes: int) -> None:
        self.lines = lines
        self.text_bytes = text_bytes


def batch_lines(
    batch: pa.RecordBatch, mapping: DocMapping, first_row: int, incomplete: dict[str, list[Rows]]
) -> Iterator[Lines]:
    """Yield a batch as chunks of lines; add the rows of values that the index holds incompletely to
    `incomplete`.
    """
    texts: dict[str, pa.Array] = {}
    raw: dict[str, list[str | None]] = {}
    for column in mapping.indexed:
        values = index_values(column, batch.column(column.name))
        if len(values.incomplete):
            incomplete.setdefault(column.name, []).append(values.incomplete + first_row)
        if values.is_json:
            raw[column.field] = values.texts.to_pylist()
        else:
            texts[column.field] = values.texts
    frame = _frame(texts)
    size = sum(a.nbytes for a in texts.values()) + sum(
        len(t or "") for column in raw.values() for t in column
    )
    step = max(1, min(CHUNK_ROWS, CHUNK_BYTES * batch.num_rows // max(size, 1)))
    for start in range(0, batch.num_rows, step):
        count = min(step, batch.num_rows - start)
        lines = _plain_lines(frame.slice(start, count), count)
        for field, values_of_field in raw.items():
            lines = _with_raw(lines, field, values_of_field[start : start + count])
        lines[0] = _with_member(lines[0], ROW_FIELD, str(first_row + start))
        yield Lines(lines, sum(map(len, lines)))


_forked_with_polars = False
"""Whether this process was forked from one that had loaded polars. Its threads are missing, so a
call would hang.
"""


def _after_fork() -> None:
    global _forked_with_polars
    _forked_with_polars |= "polars" in sys.modules


os.register_at_fork(after_in_child=_after_fork)


def _frame(texts: Mapping[str, pa.Array]) -> Any:
    if _forked_with_polars:
        return pa.table(dict(texts))
    # Only writers need polars; a search should not wait for its import.
    import polars as pl  # noqa: PLC0415

    return pl.DataFrame({field: pl.Series(field, array) for field, array in texts.items()})


def _plain_lines(frame: Any, count: int) -> list[str]:
    """Return text columns as JSON. Tantivy does not accept null, so null members are removed."""
    if isinstance(frame, pa.Table):
        return _lines_of_table(frame)
    if not frame.width:
        return ["{}"] * count
    text: str = frame.write_ndjson()
    for field in frame.columns:
        if frame[field].null_count():
            text = text.replace(f'"{field}":null', f'"{field}":[]')
    return text.removesuffix("\n").split("\n")


def _lines_of_table(texts: pa.Table) -> list[str]:
    """Return the same lines without polars. Several times slower, and safe in a forked process."""
    encode = msgspec.json.Encoder().encode
    return [
        encode({name: [] if value is None else value for name, value in row.items()}).decode()
        for row in texts.to_pylist()
    ]


def _with_raw(lines: list[str], field: str, values: list[str | None]) -> list[str]:
    return [
        line if value is None else _with_member(line, field, value)
        for line, value in zip(lines, values, strict=True)
    ]


def _with_member(line: str, name: str, value: str) -> str:
    return f'{{"{name}":{value}{"}" if line == "{}" else f",{line[1:]}"}'


_MAX_SEGMENTS = 6
"""Maximum number of segments per folder: tantivy automatically merges eight segments of similar
size.
"""


_QUEUE_ROWS = 10_000
"""Maximum number of documents in tantivy's queue, whatever their size."""


class IndexBuilder:
    """Builds one segment from batches. The owner of `folder` removes it."""

    def __init__(
        self, folder: Path, mapping: DocMapping, heap_bytes: int, *, commit_bytes: int | None = None
    ) -> None:
        """A segment is closed when more than `commit_bytes` of text may wait in tantivy's queue."""
        self._incomplete: dict[str, list[Rows]] = {}
        self._folder = folder
        self._mapping = mapping
        self._heap_bytes = max(heap_bytes, MIN_HEAP_BYTES)
        self._commit_bytes = commit_bytes or self._heap_bytes // 2
        self._rows = 0
        self._part_start = 0
        self._fed_bytes = 0
        self._parts: list[Path] = []
        self._done: list[Segment] = []
        self._writer: tantivy.IndexWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Index the next rows."""
        for chunk in batch_lines(batch, self._mapping, self._rows, self._incomplete):
            writer = self._writer or self._open_part()
            with writing_errors(str(self._folder), "Indexing rows"):
                for line in chunk.lines:
                    writer.add_json(line)
            self._rows += len(chunk.lines)
            self._after_chunk(chunk)

    @property
    def incomplete(self) -> dict[str, IncompleteValues]:
        """The values that the index holds only partly, by column."""
        joined = {name: np.concatenate(parts) for name, parts in self._incomplete.items()}
        return {name: IncompleteValues(len(rows), rows) for name, rows in joined.items()}

    def finish(self) -> Segment:
        """Commit, and return one segment with every row in order."""
        self._close_part()
        if len(self._done) == 1:
            return self._done[0]
        layers = [Layer(segment, None) for segment in self._done]
        return merge_segments(layers, self._mapping, self._folder / "merged")

    def discard(self) -> None:
        """Release the writer after a failure."""
        self._writer = None

    def _open_part(self) -> tantivy.IndexWriter:
        folder = self._folder / f"part-{len(self._parts)}"
        self._parts.append(folder)
        self._part_start = self._rows
        self._fed_bytes = 0
        self._writer = create_index(folder, self._mapping).writer(self._heap_bytes, 1)
        return self._writer

    def _after_chunk(self, chunk: Lines) -> None:
        """Bound tantivy's queue and the number of segments."""
        assert self._writer is not None
        self._fed_bytes += chunk.text_bytes
        if (
            min(self._fed_bytes, chunk.text_bytes * _QUEUE_ROWS // len(chunk.lines))
            > self._commit_bytes
        ):
            with writing_errors(str(self._folder), "Indexing rows"):
                self._writer.commit()
            self._fed_bytes = 0
        if sum(1 for _ in self._parts[-1].glob("*.term")) >= _MAX_SEGMENTS:
            self._close_part()

    def _close_part(self) -> None:
        if self._writer is None:
            return
        with writing_errors(str(self._folder), "Indexing rows"):
            self._writer.commit()
            self._writer.wait_merging_threads()
            self._writer = None
            self._done += self._in_order(self._parts[-1])

    def _in_order(self, folder: Path) -> list[Segment]:
        """Return the segments of a folder in row order, verified by the row numbers they carry."""
        segments = segments_of(folder)
        if len(segments) > 1 or segments[0].rows != self._rows - self._part_start:
            starts = _segment_starts(folder, self._mapping, segments)
            segments = [segments[i] for i in sorted(range(len(segments)), key=lambda i: starts[i])]
            expected = self._part_start
            for start, segment in zip(sorted(starts), segments, strict=True):
                if start != expected:
                    raise _out_of_order(start, expected)
                expected += segment.rows
            if expected != self._rows:
                raise _out_of_order(expected, self._rows)
        return segments


def _segment_starts(folder: Path, mapping: DocMapping, segments: list[Segment]) -> list[int]:
    """Return the row number of every segment's first document."""
    searcher = open_folder(folder, mapping).searcher()
    query = tantivy.Query.exists_query(ROW_FIELD)
    count = searcher.search(query, limit=1, count=True).count
    places = [place for _, place in searcher.search(query, limit=max(count, 1), count=False).hits]
    rows = searcher.fast_field_values(ROW_FIELD, places)
    starts: dict[int, int] = {}
    for place, row in zip(places, rows, strict=True):
        if starts.setdefault(place.segment_ord, row - place.doc) != row - place.doc:
            raise _out_of_order(row, place.doc)
    return [starts.get(i, -1) for i in range(len(segments))]


def _out_of_order(actual: int, expected: int) -> InvalidInputError:
    message = f"Indexed rows are not where they should be (row {actual} in place of {expected})."
    return InvalidInputError(
        message, hint="Raise indexWriter.heapSize: single rows need more than it allows."
    )
