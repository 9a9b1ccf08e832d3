"""Every hit as a file: CSV, JSON lines or Parquet, written as it is read, so that its size does not matter."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from msgspec import Struct

from indextables.errors import InvalidInputError
from indextables.scan.task import ScanTask
from indextables.web.exploration import TableView


class ExportFormat(Struct, frozen=True):
    """How rows become bytes, and what they are called then."""

    suffix: str
    media_type: str
    encode: Callable[[pa.Schema, Iterator[pa.RecordBatch]], Iterator[bytes]]


def export(exploration: TableView, kind: str) -> tuple[ExportFormat, Iterator[bytes]]:
    """The format, and the bytes of every hit in the chosen columns, in the table's order."""
    if kind not in FORMATS:
        hint = f"The formats are {', '.join(FORMATS)}."
        raise InvalidInputError(f"There is no export as {kind!r}.", hint=hint, format=kind)
    task: ScanTask = exploration.task(exploration.chosen_columns)
    schema = task.plan.output_schema
    return FORMATS[kind], FORMATS[kind].encode(schema, task.batches())


def _csv(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    """CSV; nested values are JSON in it."""
    flat = pa.schema([pa.field(f.name, pa.string() if _is_odd(f.type) else f.type) for f in schema])
    sink = io.BytesIO()
    with pacsv.CSVWriter(sink, flat) as writer:
        yield from _taken(sink)
        for batch in batches:
            writer.write_batch(_flat(batch, flat))
            yield from _taken(sink)


def _is_odd(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _flat(batch: pa.RecordBatch, flat: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if _is_odd(field.type):
            texts = [None if v is None else _json(v).decode() for v in column.to_pylist(maps_as_pydicts="lossy")]
            column = pa.array(texts, pa.string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=flat)


def _json_lines(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:  # noqa: ARG001
    for batch in batches:
        rows = batch.to_pylist(maps_as_pydicts="lossy")
        if rows:
            yield b"".join(_json(row) + b"\n" for row in rows)


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=str)


def _parquet(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    sink = _Growing()
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for batch in batches:
            if batch.num_rows:
                writer.write_batch(batch)
            yield from sink.taken()
    yield from sink.taken()


class _Growing(io.RawIOBase):
    """A file that is only written on, whose bytes are taken away; it still knows where it is."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        """It is written on."""
        return True

    def write(self, data: Any) -> int:
        """Keep some bytes until they are taken."""
        part = bytes(data)
        self._parts.append(part)
        self._at += len(part)
        return len(part)

    def tell(self) -> int:
        """How many bytes were written."""
        return self._at

    def taken(self) -> Iterator[bytes]:
        """What was written since the last time."""
        parts, self._parts = self._parts, []
        if parts:
            yield b"".join(parts)


def _taken(sink: io.BytesIO) -> Iterator[bytes]:
    part = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    if part:
        yield part


FORMATS = {
    "csv": ExportFormat("csv", "text/csv; charset=utf-8", _csv),
    "jsonl": ExportFormat("jsonl", "application/x-ndjson", _json_lines),
    "parquet": ExportFormat("parquet", "application/vnd.apache.parquet", _parquet),
}
