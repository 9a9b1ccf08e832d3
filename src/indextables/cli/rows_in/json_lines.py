"""JSON lines as batches of rows, one object per line.

Values are converted to the type of their column without loss; a value that does not fit is refused
with line and column (see `model/exact_values`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import msgspec
import pyarrow as pa

from indextables.cli.output import DATE, TIME
from indextables.cli.rows_in import NOTHING_WRITTEN, misfit, note_blank_lines, quote
from indextables.errors import InvalidInputError
from indextables.model.exact_values import UNFIT, array_of, first_unfit, is_finer_than_micros
from indextables.model.schema import TIMESTAMP, normalize


def infer_type(values: Sequence[Any]) -> pa.DataType:
    """Infer the type of a column from its values.

    ISO text is a time, unless a time would lose some of its digits. Raises one of `UNFIT` if the
    values have no common type.
    """
    present = [value for value in values if value is not None]
    kinds = set(map(type, present))
    if bool in kinds and len(kinds) > 1:
        raise TypeError("true and false are no numbers")
    if kinds == {str}:
        if all(map(re.compile(DATE).fullmatch, present)):
            return pa.date32()
        is_time = all(map(re.compile(TIME).fullmatch, present)) and not any(
            map(is_finer_than_micros, present)
        )
        if is_time:
            return TIMESTAMP
        return pa.string()
    type_ = pa.array(present).type
    if pa.types.is_null(type_):
        return pa.string()
    return type_


def first_of_another_kind(values: Sequence[Any]) -> int:
    """Return the position of the first value without a common type with those before it."""
    return bisect_left(
        range(1, len(values)), True, key=lambda count: _fails(infer_type, values[:count])
    )


def _fails(act: Callable[..., Any], *arguments: Any) -> bool:
    try:
        act(*arguments)
    except UNFIT:
        return True
    return False


_AT_ONCE = 20_000
Chunk = Sequence[tuple[int, dict[str, Any]]]
"""Rows with their line numbers, without empty lines."""


class JsonLines:
    """A stream of batches. Columns of `known` have its types, others the types of the first lines."""

    def __init__(
        self,
        lines: Iterable[bytes],
        schema: pa.Schema | None,
        *,
        name: str,
        left_out: Counter[str] | None = None,
    ) -> None:
        """`left_out` counts the lines that are not rows, for the report of the command."""
        self._name, self._blank = name, 0
        self._left_out = Counter() if left_out is None else left_out
        self._decode = msgspec.json.Decoder(dict[str, Any]).decode
        self._table_fields = (
            {} if schema is None else {field.name.lower(): field for field in schema}
        )
        chunks = self._decode_lines(lines)
        first: Chunk = next(chunks, [])
        names = dict.fromkeys(name for _, row in first for name in row)
        self.schema = pa.schema(
            [self._field(name, first) for name in names] or list(self._table_fields.values())
        )
        self._chunks = chain([first], chunks)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        names = set(self.schema.names)
        for chunk in self._chunks:
            for number, row in chunk:
                if not names.issuperset(row):
                    self._refuse_new_columns(number, sorted(set(row) - names))
            yield pa.RecordBatch.from_arrays(
                [self._column(field, chunk) for field in self.schema], schema=self.schema
            )

    def _refuse_new_columns(self, number: int, extra: list[str]) -> None:
        raise InvalidInputError(
            f"{self._name}, line {number} has new columns: {', '.join(extra)}.",
            hint=f"Only columns of the first {_AT_ONCE} lines are known; put such a line among them. {NOTHING_WRITTEN}",
            file=self._name,
            line=number,
            columns=extra,
        )

    def _decode_lines(self, lines: Iterable[bytes]) -> Iterator[Chunk]:
        numbered = self._number_lines(lines)
        while chunk := list(islice(numbered, _AT_ONCE)):
            yield [(number, self._row(number, line)) for number, line in chunk]

    def _number_lines(self, lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, line
            else:
                self._blank += 1
        note_blank_lines(self._name, self._blank, self._left_out)

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
        if name.lower() in self._table_fields:
            return pa.field(name, self._table_fields[name.lower()].type)
        values = [row.get(name) for _, row in rows]
        try:
            type_ = infer_type(values)
        except UNFIT:
            position = first_of_another_kind(values)
            raise InvalidInputError(
                f"{self._name}, line {rows[position][0]}: column {name!r} holds {quote(values[position])}, "
                "which is too large, or of another kind than the values before it.",
                hint=f"Give the values of a column one type. {NOTHING_WRITTEN}",
                file=self._name,
                line=rows[position][0],
                column=name,
            ) from None
        return normalize(pa.schema([pa.field(name, type_)])).field(0)

    def _column(self, field: pa.Field, rows: Chunk) -> pa.Array:
        values = [row.get(field.name) for _, row in rows]
        try:
            return array_of(values, field.type, json=True)
        except UNFIT as error:
            number, row = rows[first_unfit(values, field.type, json=True) or 0]
            guessed = field.name.lower() not in self._table_fields
            raise misfit(
                self._name, f"line {number}", row[field.name], field, guessed=guessed, error=error
            ) from None
