"""Rows from files and from standard input: Parquet, CSV, JSON lines and Arrow, as a stream of batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from msgspec import Struct

from indextables.cli.json_lines import JsonLines
from indextables.errors import InvalidInputError, NotFoundError
from indextables.model.schema import normalize

STDIN = "-"
FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".arrows": "arrow",
}
_BLOCK_BYTES = 4 << 20


class RowFiles(Struct, frozen=True):
    """Files of rows, read one after another. `known` are the columns of a table, whose types are taken for text."""

    places: tuple[str, ...]
    format: str | None = None
    known: pa.Schema | None = None

    def rows(self, step: Callable[[int], None]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The columns of the first file, and the rows of all; `step` is told how many rows were read."""
        first = self._open(self.places[0])
        return first.schema, self._batches(first, normalize(first.schema), step)

    def _batches(self, first: Any, schema: pa.Schema, step: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        done = 0
        yield pa.RecordBatch.from_pylist([], schema=first.schema)
        for number, place in enumerate(self.places):
            source = first if number == 0 else self._open(place)
            if normalize(source.schema) != schema:
                raise InvalidInputError(
                    f"{place} has other columns than {self.places[0]}: {_names(source.schema)} instead of {_names(schema)}.",
                    hint="Append them one at a time; --merge-schema adds columns.",
                    path=place,
                )
            for batch in _named(place, source):
                done += batch.num_rows
                step(done)
                yield batch if batch.schema == first.schema else batch.cast(first.schema)

    def _open(self, place: str) -> Any:
        kind = self.format or FORMATS.get(Path(place).suffix.lower())
        if kind is None:
            known = ", ".join(sorted(set(FORMATS.values())))
            what = "standard input" if place == STDIN else place
            raise InvalidInputError(f"The format of {what} is not known.", hint=f"Pass --format: {known}.", path=place)
        if place != STDIN and (not Path(place).exists() or Path(place).is_dir()):
            raise NotFoundError(
                f"There is no file {place!r}.", hint="Check the path; - reads standard input.", path=place
            )
        try:
            return _OPENERS[kind](sys.stdin.buffer if place == STDIN else place, self.known)
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            raise _unreadable(place, error) from None


def _named(place: str, source: Any) -> Iterator[pa.RecordBatch]:
    try:
        yield from source
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _unreadable(place, error) from None


def _unreadable(place: str, error: Exception) -> InvalidInputError:
    return InvalidInputError(
        f"{place} cannot be read: {' '.join(str(error).split())}.",
        hint="Check the file, and --format if its name does not tell what it is; nothing was written.",
        path=place,
    )


def _types(known: pa.Schema | None) -> dict[str, pa.DataType]:
    return {} if known is None else {field.name: field.type for field in known}


def _csv(source: Any, known: pa.Schema | None, delimiter: str = ",") -> Any:
    return pa_csv.open_csv(
        source,
        read_options=pa_csv.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(column_types=_types(known), strings_can_be_null=True),
    )


def _json_lines(source: Any, known: pa.Schema | None) -> Any:
    return JsonLines(_lines(source) if isinstance(source, str) else source, known)


def _lines(place: str) -> Iterator[bytes]:
    with Path(place).open("rb") as file:
        yield from file


class _Parquet(Struct, frozen=True):
    """A Parquet file as a stream."""

    file: pq.ParquetFile

    @property
    def schema(self) -> pa.Schema:
        return self.file.schema_arrow

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.file.iter_batches())


def _parquet(source: Any, _known: pa.Schema | None) -> Any:
    # A Parquet file is read from its end, so what comes through a pipe is taken whole.
    return _Parquet(pq.ParquetFile(source if isinstance(source, str) else pa.BufferReader(source.read())))


def _arrow(source: Any, _known: pa.Schema | None) -> Any:
    return pa.ipc.open_stream(source)


_OPENERS: dict[str, Callable[[Any, pa.Schema | None], Any]] = {
    "parquet": _parquet,
    "csv": _csv,
    "tsv": lambda source, known: _csv(source, known, "\t"),
    "jsonl": _json_lines,
    "arrow": _arrow,
}


def _names(schema: Sequence[pa.Field]) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
