"""JSON lines as batches of rows: an object a line. A value that does not fit is named by its line and column.

Values become those of their column without loss: what it cannot hold as it is written is refused. Arrow alone would cut 2.9
to 2 for a column of whole numbers, make 1.0 of `true`, and take a bare number for microseconds.
"""

from __future__ import annotations

import re
from base64 import b64decode
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from functools import partial
from itertools import chain, islice
from typing import Any

import msgspec
import pyarrow as pa

from indextables.cli.output import DATE, TIME, moment
from indextables.cli.rows_in import NOTHING_WRITTEN, misfit, quoted
from indextables.errors import InvalidInputError
from indextables.model.schema import TIMESTAMP, normalize

Convert = Callable[[Any], Any]
UNFIT = (ValueError, TypeError, ArithmeticError, pa.ArrowException)
"""What is raised for a value that does not fit."""
_EXACT_FLOATS = 2**53
_EXACT_DIGITS = 15


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The values as an array of a type; one of `UNFIT` is raised if any of them does not fit."""
    exact_types = next((types for test, types in _PLAIN if test(kind)), frozenset())
    if not exact_types or not exact_types.issuperset(map(type, values)):
        values = list(map(_or_none(_converter(kind)), values))
    return pa.array(values, kind)


def first_unfit(values: Sequence[Any], kind: pa.DataType) -> int:
    """The position of the first value that `array_of` does not take."""
    return next(position for position, value in enumerate(values) if _fails(array_of, [value], kind))


def inferred(values: Sequence[Any]) -> pa.DataType:
    """The type of a column of such values; ISO text is a time. One of `UNFIT` is raised if they have no type in common."""
    present = [value for value in values if value is not None]
    kinds = set(map(type, present))
    if bool in kinds and len(kinds) > 1:
        raise TypeError("true and false are no numbers")
    if kinds == {str}:
        if all(map(re.compile(DATE).fullmatch, present)):
            return pa.date32()
        return TIMESTAMP if all(map(re.compile(TIME).fullmatch, present)) else pa.string()
    type_ = pa.array(present).type
    return pa.string() if pa.types.is_null(type_) else type_


def first_of_another_kind(values: Sequence[Any]) -> int:
    """The position of the first value that has no type in common with those before it."""
    return bisect_left(range(1, len(values)), True, key=lambda count: _fails(inferred, values[:count]))


def _fails(act: Callable[..., Any], *arguments: Any) -> bool:
    try:
        act(*arguments)
    except UNFIT:
        return True
    return False


def _of(*kinds: type) -> Convert:
    """Takes a value of one of these types as it is; true and false are no numbers here."""

    def convert(value: Any) -> Any:
        if type(value) not in kinds:
            raise TypeError(f"a {type(value).__name__}")
        return value

    return convert


def _text(parse: Callable[[str], Any]) -> Convert:
    return lambda value: parse(_IS_TEXT(value))


def _whole(value: Any) -> int:
    if type(value) is float and value.is_integer() and abs(value) <= _EXACT_FLOATS:
        return int(value)
    return int(_IS_WHOLE(value))


def _decimal(value: Any) -> Decimal:
    number = Decimal(str(_HAS_DIGITS(value)))
    if type(value) is float and len(number.as_tuple().digits) > _EXACT_DIGITS:
        raise ValueError("more digits than a number of JSON keeps; as text they are kept")
    return number


def _list(kind: pa.DataType) -> Convert:
    inner = _or_none(_converter(kind.value_type))
    return lambda value: [inner(item) for item in _IS_LIST(value)]


def _struct(kind: pa.DataType) -> Convert:
    fields = {field.name: _or_none(_converter(field.type)) for field in kind}

    def converted(value: Any) -> dict[str, Any]:
        extra = _IS_OBJECT(value).keys() - fields.keys()
        if extra:
            raise ValueError(f"no fields {extra}")
        return {name: fields[name](item) for name, item in value.items()}

    return converted


def _map(kind: pa.DataType) -> Convert:
    keys, items = _converter(kind.key_type), _or_none(_converter(kind.item_type))
    return lambda value: [(keys(key), items(item)) for key, item in _IS_OBJECT(value).items()]


def _or_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _converter(kind: pa.DataType) -> Convert:
    """How a value of JSON, other than null, becomes one of a type."""
    converter = next((converter for test, converter in _CONVERTERS if test(kind)), None)
    return (lambda value: value) if converter is None else converter(kind)


_IS_TEXT, _IS_WHOLE, _IS_LIST, _IS_OBJECT = _of(str), _of(int), _of(list), _of(dict)
_HAS_DIGITS = _of(str, int, float)
_NONE = type(None)
_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], frozenset[type]], ...] = (
    (pa.types.is_integer, frozenset({int, _NONE})),
    (pa.types.is_floating, frozenset({int, float, _NONE})),
    (pa.types.is_boolean, frozenset({bool, _NONE})),
    (pa.types.is_string, frozenset({str, _NONE})),
)
"""The values of JSON that Arrow takes for a type without changing them."""
_CONVERTERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], Convert]], ...] = (
    (pa.types.is_integer, lambda _: _whole),
    (pa.types.is_floating, lambda _: _of(int, float)),
    (pa.types.is_boolean, lambda _: _of(bool)),
    (pa.types.is_string, lambda _: _IS_TEXT),
    (pa.types.is_date, lambda _: _text(date.fromisoformat)),
    (pa.types.is_timestamp, lambda _: _text(moment)),
    (pa.types.is_decimal, lambda _: _decimal),
    (pa.types.is_binary, lambda _: _text(partial(b64decode, validate=True))),
    (pa.types.is_map, _map),
    (pa.types.is_list, _list),
    (pa.types.is_struct, _struct),
)


_AT_ONCE = 20_000
Chunk = Sequence[tuple[int, dict[str, Any]]]
"""Rows with the numbers of their lines: empty lines are none."""


class JsonLines:
    """A stream of batches. Columns of `known` have its types; others those of the first lines, where ISO text is a time."""

    def __init__(self, lines: Iterable[bytes], schema: pa.Schema | None, *, name: str) -> None:
        self._name = name
        self._decode = msgspec.json.Decoder(dict[str, Any]).decode
        self._table_fields = {} if schema is None else {field.name.lower(): field for field in schema}
        chunks = self._decoded(lines)
        first: Chunk = next(chunks, [])
        names = dict.fromkeys(name for _, row in first for name in row)
        self.schema = pa.schema([self._field(name, first) for name in names] or list(self._table_fields.values()))
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
        if name.lower() in self._table_fields:
            return pa.field(name, self._table_fields[name.lower()].type)
        values = [row.get(name) for _, row in rows]
        try:
            type_ = inferred(values)
        except UNFIT:
            position = first_of_another_kind(values)
            raise InvalidInputError(
                f"{self._name}, line {rows[position][0]}: column {name!r} holds {quoted(values[position])}, "
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
            return array_of(values, field.type)
        except UNFIT:
            number, row = rows[first_unfit(values, field.type)]
            guessed = field.name.lower() not in self._table_fields
            raise misfit(self._name, f"line {number}", row[field.name], field, guessed=guessed) from None
