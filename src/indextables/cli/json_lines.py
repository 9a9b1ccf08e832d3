"""JSON lines as batches of rows: an object a line. A value that does not fit is named by its line and column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import msgspec
import pyarrow as pa

from indextables.cli.json_values import UNFIT, array_of, first_of_another_kind, first_unfit, inferred
from indextables.cli.misfit import NOTHING_WRITTEN, misfit, shown
from indextables.errors import InvalidInputError
from indextables.model.schema import normalize

_AT_ONCE = 20_000
Chunk = Sequence[tuple[int, dict[str, Any]]]
"""Rows with the numbers of their lines: empty lines are none."""


class JsonLines:
    """A stream of batches. Columns of `known` have its types; others those of the first lines, where ISO text is a time."""

    def __init__(self, lines: Iterable[bytes], known: pa.Schema | None, *, name: str) -> None:
        self._name = name
        self._decode = msgspec.json.Decoder(dict[str, Any]).decode
        self._known = {} if known is None else {field.name.lower(): field for field in known}
        chunks = self._decoded(lines)
        first: Chunk = next(chunks, [])
        names = dict.fromkeys(name for _, row in first for name in row)
        self.schema = pa.schema([self._field(name, first) for name in names] or list(self._known.values()))
        self._chunks = chain([first], chunks)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        names = set(self.schema.names)
        for chunk in self._chunks:
            for number, row in chunk:
                if not names.issuperset(row):
                    self._refuse_new_columns(number, sorted(set(row) - names))
            yield pa.RecordBatch.from_arrays([self._column(field, chunk) for field in self.schema], schema=self.schema)

    def _refuse_new_columns(self, number: int, extra: list[str]) -> None:
        raise InvalidInputError(
            f"{self._name}, line {number} has new columns: {', '.join(extra)}.",
            hint=f"Only columns of the first {_AT_ONCE} lines are known; put such a line among them. {NOTHING_WRITTEN}",
            file=self._name,
            line=number,
            columns=extra,
        )

    def _decoded(self, lines: Iterable[bytes]) -> Iterator[Chunk]:
        numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
        while chunk := list(islice(numbered, _AT_ONCE)):
            yield [(number, self._row(number, line)) for number, line in chunk]

    def _row(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            return self._decode(line)
        except UnicodeDecodeError:
            why = "its text is not UTF-8"
        except msgspec.DecodeError as error:
            why = str(error)
        raise InvalidInputError(
            f"{self._name}, line {number} is not a JSON object: {why}.",
            hint=f"Each line is one JSON object. {NOTHING_WRITTEN}",
            file=self._name,
            line=number,
        )

    def _field(self, name: str, rows: Chunk) -> pa.Field:
        if name.lower() in self._known:
            return pa.field(name, self._known[name.lower()].type)
        values = [row.get(name) for _, row in rows]
        try:
            found = inferred(values)
        except UNFIT:
            position = first_of_another_kind(values)
            raise InvalidInputError(
                f"{self._name}, line {rows[position][0]}: column {name!r} holds {shown(values[position])}, "
                "which is too large, or of another kind than the values before it.",
                hint=f"Give the values of a column one type. {NOTHING_WRITTEN}",
                file=self._name,
                line=rows[position][0],
                column=name,
            ) from None
        return normalize(pa.schema([pa.field(name, found)])).field(0)

    def _column(self, field: pa.Field, rows: Chunk) -> pa.Array:
        values = [row.get(field.name) for _, row in rows]
        try:
            return array_of(values, field.type)
        except UNFIT:
            number, row = rows[first_unfit(values, field.type)]
            guessed = field.name.lower() not in self._known
            raise misfit(self._name, f"line {number}", row[field.name], field, guessed=guessed) from None
