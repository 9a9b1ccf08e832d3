"""Batches of rows as lines of JSON, the quickest way into tantivy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from indextables.splits.analyzers import ROW_FIELD
from indextables.splits.index_values import index_values
from indextables.splits.mapping import DocMapping

CHUNK_BYTES = 512 << 10
CHUNK_ROWS = 8_192


class Lines:
    """The lines of one chunk: the first one carries its row number, so that a segment's place can be told later."""

    def __init__(self, lines: list[str], text_bytes: int) -> None:
        self.lines = lines
        self.text_bytes = text_bytes


def batch_lines(
    batch: pa.RecordBatch, mapping: DocMapping, first_row: int, incomplete: Counter[str]
) -> Iterator[Lines]:
    """A batch as chunks of lines; values the index cannot hold completely are counted in `incomplete`."""
    texts: dict[str, pa.Array] = {}
    raw: dict[str, list[str | None]] = {}
    for column in mapping.indexed:
        values = index_values(column, batch.column(column.name))
        if values.incomplete:
            incomplete[column.name] += values.incomplete
        if values.is_json:
            raw[column.field] = values.texts.to_pylist()
        else:
            texts[column.field] = values.texts
    frame = _frame(texts)
    size = sum(a.nbytes for a in texts.values()) + sum(len(t or "") for column in raw.values() for t in column)
    step = max(1, min(CHUNK_ROWS, CHUNK_BYTES * batch.num_rows // max(size, 1)))
    for start in range(0, batch.num_rows, step):
        count = min(step, batch.num_rows - start)
        lines = _plain_lines(frame.slice(start, count), count)
        for field, values_of_field in raw.items():
            lines = _with_raw(lines, field, values_of_field[start : start + count])
        lines[0] = _with_member(lines[0], ROW_FIELD, str(first_row + start))
        yield Lines(lines, sum(map(len, lines)))


def _frame(texts: Mapping[str, pa.Array]) -> Any:
    # Only writers need polars; a search should not wait for its import.
    import polars as pl  # noqa: PLC0415

    return pl.DataFrame({field: pl.Series(field, array) for field, array in texts.items()})


def _plain_lines(frame: Any, count: int) -> list[str]:
    """JSON of the text columns. Tantivy refuses null; a name and null side by side can only be a member, never text."""
    if not frame.width:
        return ["{}"] * count
    text: str = frame.write_ndjson()
    for field in frame.columns:
        if frame[field].null_count():
            text = text.replace(f'"{field}":null', f'"{field}":[]')
    return text.removesuffix("\n").split("\n")


def _with_raw(lines: list[str], field: str, values: list[str | None]) -> list[str]:
    return [
        line if value is None else _with_member(line, field, value) for line, value in zip(lines, values, strict=True)
    ]


def _with_member(line: str, name: str, value: str) -> str:
    return f'{{"{name}":{value}{"}" if line == "{}" else f",{line[1:]}"}'
