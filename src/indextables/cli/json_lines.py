"""JSON lines as batches of rows: an object a line. A line that does not fit is named by its number."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import chain, islice
from typing import Any

import msgspec
import pyarrow as pa

from indextables.errors import InvalidInputError
from indextables.model.schema import normalize
from indextables.model.spark_types import TIMESTAMP

_AT_ONCE = 20_000
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")


class JsonLines:
    """A stream of batches. Columns of `known` have its types; others those of the first lines, where ISO text is a time."""

    def __init__(self, lines: Iterable[bytes], known: pa.Schema | None) -> None:
        self._decode = msgspec.json.Decoder(dict[str, Any]).decode
        self._chunks = self._decoded(lines)
        first = next(self._chunks, (1, []))
        self.schema = self._typed(first[1], known)
        self._chunks = chain([first], self._chunks)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        names = set(self.schema.names)
        for start, rows in self._chunks:
            for number, row in enumerate(rows, start):
                if not names.issuperset(row):
                    extra = sorted(set(row) - names)
                    hint = f"Only columns of the first {_AT_ONCE} lines are known; put such a line among them."
                    raise InvalidInputError(f"Line {number} has new columns: {', '.join(extra)}.", hint=hint)
            columns = [self._column(field, [row.get(field.name) for row in rows], start) for field in self.schema]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _decoded(self, lines: Iterable[bytes]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
        while chunk := list(islice(numbered, _AT_ONCE)):
            yield chunk[0][0], [self._row(number, line) for number, line in chunk]

    def _row(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            return self._decode(line)
        except msgspec.DecodeError as error:
            hint = "Each line is one JSON object; nothing was written."
            raise InvalidInputError(f"Line {number} is not a JSON object: {error}.", hint=hint, line=number) from None

    def _typed(self, rows: Sequence[dict[str, Any]], known: pa.Schema | None) -> pa.Schema:
        spelled = {} if known is None else {field.name.lower(): field for field in known}
        names = list(dict.fromkeys(name for row in rows for name in row))
        found = [
            pa.field(name, spelled[name.lower()].type)
            if name.lower() in spelled
            else pa.field(name, _inferred(name, [row.get(name) for row in rows]))
            for name in names
        ]
        return pa.schema(found or (known if known is not None else []))

    def _column(self, field: pa.Field, values: list[Any], start: int) -> pa.Array:
        convert = _converter(field.type)
        try:
            if convert is not None:
                values = [convert(value) if isinstance(value, str) else value for value in values]
            return pa.array(values, field.type)
        except (ValueError, TypeError, ArithmeticError) as error:
            end = start + len(values) - 1
            message = f"Column {field.name!r} of lines {start} to {end} does not fit {field.type}: {error}."
            raise InvalidInputError(message, hint="Mend the lines, or cast the column; nothing was written.") from None


def _inferred(name: str, values: list[Any]) -> pa.DataType:
    given = [value for value in values if value is not None]
    if given and all(isinstance(value, str) for value in given):
        if all(map(_DATE.fullmatch, given)):
            return pa.date32()
        return TIMESTAMP if all(map(_TIME.fullmatch, given)) else pa.string()
    try:
        found = pa.array(values).type
        return pa.string() if pa.types.is_null(found) else normalize(pa.schema([pa.field(name, found)])).field(0).type
    except pa.ArrowException as error:
        hint = "Give the values of a column one type."
        raise InvalidInputError(f"Column {name!r} has values of several types: {error}.", hint=hint) from None


def _converter(kind: pa.DataType) -> Callable[[str], Any] | None:
    """How text becomes a value of a type that JSON does not have."""
    if pa.types.is_date(kind):
        return date.fromisoformat
    if pa.types.is_timestamp(kind):
        return _moment
    if pa.types.is_decimal(kind):
        return Decimal
    return b64decode if pa.types.is_binary(kind) else None


def _moment(text: str) -> datetime:
    """ISO text as a time; without a zone it is in UTC."""
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
