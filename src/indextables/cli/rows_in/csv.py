"""CSV files as batches of rows.

An empty field without quotes is null. Every other text is a value, including "", NA and null. The
texts of a column are converted to its known type, or to the type that all of them have.
"""

from __future__ import annotations

import csv
import re
import sys
from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from indextables.cli.output import DATE, TIME
from indextables.cli.rows_in import NOTHING_WRITTEN, misfit
from indextables.errors import InvalidInputError
from indextables.model.exact_values import UnfitError, exact_float
from indextables.model.schema import TIMESTAMP

UNFIT = (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnfitError)
"""Exceptions of a text that does not fit."""
_WHOLE = r"-?(0|[1-9]\d*)"
_NUMBER = r"-?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
_CANDIDATES = (
    (_WHOLE, pa.int64()),
    (_NUMBER, pa.float64()),
    (r"(?i:true|false)", pa.bool_()),
    (DATE, pa.date32()),
    (TIME, TIMESTAMP),
)
"""Patterns of texts that are converted to other types. 007 is not a number: its zeros would be
lost.
"""
_WITH_ZONE = r":\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"


def infer_type(texts: pa.Array) -> pa.DataType:
    """Infer the type that all texts have. A text such as a 13th month stays text."""
    non_null = texts.drop_null()
    for pattern, kind in _CANDIDATES:
        if len(non_null) and pc.all(pc.match_substring_regex(non_null, f"^({pattern})$")).as_py():
            if _fails(non_null, kind):
                return pa.string()
            return kind
    return pa.string()


def values(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert texts to values of a type. Raises one of `UNFIT` if a text does not fit. Times
    without a zone are in UTC.
    """
    if pa.types.is_string(kind):
        return texts
    if pa.types.is_binary(kind):
        return pc.cast(texts, kind)
    trimmed = pc.utf8_trim_whitespace(texts)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        zoned = pc.match_substring_regex(trimmed, _WITH_ZONE)
        whole = pc.if_else(
            pc.match_substring_regex(trimmed, f"^{DATE}$"), _with(trimmed, "T00:00:00"), trimmed
        )
        trimmed = pc.if_else(zoned, trimmed, _with(whole, "Z"))
    found = pc.cast(trimmed, kind)
    if pa.types.is_floating(kind):
        _check_floats(trimmed, found)
    return found


def _check_floats(texts: pa.Array, found: pa.Array) -> None:
    """Refuse a number that became infinite, and a whole number that was rounded."""
    digits = 8 if pa.types.is_float32(found.type) else 16
    doubtful = pc.or_(pc.is_inf(found), pc.match_substring_regex(texts, rf"^[+-]?\d{{{digits},}}$"))
    for position in pc.indices_nonzero(pc.fill_null(doubtful, False)).to_pylist():
        exact_float(texts[position].as_py(), found.type)


def first_unfit(texts: pa.Array, kind: pa.DataType) -> int:
    """Return the position of the first text that does not fit."""
    return bisect_left(
        range(1, len(texts)), True, key=lambda count: _fails(texts.slice(0, count), kind)
    )


def _with(texts: pa.Array, end: str) -> pa.Array:
    return pc.binary_join_element_wise(texts, end, "")


def _fails(texts: pa.Array, kind: pa.DataType) -> bool:
    try:
        values(texts, kind)
    except UNFIT:
        return True
    return False


_BLOCK_BYTES = 4 << 20
_OTHERS = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_IN_COLUMN = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?")
_NO_ROWS = "Empty CSV file"


class CsvRows:
    """A stream of batches. Columns of `known` have its types, others the types of the first rows.

    Fields are read as text and converted here, so that an error can name the row.
    """

    def __init__(
        self,
        source: BinaryIO,
        schema: pa.Schema | None,
        *,
        name: str,
        path: Path | None,
        delimiter: str,
        is_explicit: bool,
    ) -> None:
        """`path` is where the file can be read again; `sure` means that the user chose the
        delimiter.
        """
        self._name, self._path, self._delimiter = name, path, delimiter
        self._names = self._header(source)
        if not is_explicit:
            self._refuse_other_delimiters()
        self._types = {} if schema is None else {field.name.lower(): field.type for field in schema}
        batches = self._texts(source)
        first = next(batches, None)
        self.schema = pa.schema(
            [self._field(number, column, first) for number, column in enumerate(self._names)]
        )
        self._batches = batches if first is None else chain([first], batches)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        done = 0
        for batch in self._batches:
            columns = [
                self._values(field, batch.column(i), done) for i, field in enumerate(self.schema)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
            done += batch.num_rows

    def _header(self, source: BinaryIO) -> list[str]:
        text = _record(source)
        if not text:
            hint = f"A CSV file starts with the names of its columns. {NOTHING_WRITTEN}"
            raise InvalidInputError(f"{self._name} is empty.", hint=hint, file=self._name)
        try:
            return next(csv.reader([text.decode("utf-8-sig")], delimiter=self._delimiter))
        except UnicodeDecodeError:
            raise self._unreadable("line 1", "its text is not UTF-8") from None

    def _refuse_other_delimiters(self) -> None:
        (name, *more) = self._names
        other = next((mark for mark in _OTHERS if mark in name), None)
        if not more and other is not None:
            raise InvalidInputError(
                f"{self._name} seems to be delimited by {_OTHERS[other]}: its only column would be {name!r}.",
                hint=f"Pass --delimiter {'tab' if other == chr(9) else repr(other)}, or --delimiter "
                f"{'tab' if self._delimiter == chr(9) else repr(self._delimiter)} if that is the column's name.",
                file=self._name,
                delimiter=other,
            )

    def _texts(self, source: BinaryIO) -> Iterator[pa.RecordBatch]:
        try:
            yield from pa_csv.open_csv(
                source,
                # In one thread the rows are counted, and an error has the number of its row.
                read_options=pa_csv.ReadOptions(
                    block_size=_BLOCK_BYTES, column_names=self._names, use_threads=False
                ),
                parse_options=pa_csv.ParseOptions(
                    delimiter=self._delimiter, newlines_in_values=True
                ),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(self._names, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            if str(error) != _NO_ROWS:
                raise self._parse_error(str(error)) from None

    def _parse_error(self, message: str) -> InvalidInputError:
        field_counts = _RAGGED.search(message)
        if field_counts is not None:
            row, expected, fields = map(int, field_counts.groups())
            return self._unreadable(
                self._where(row), f"it has {fields} fields, and the header {expected}"
            )
        column_error = _IN_COLUMN.search(message)
        if column_error is not None:
            if column_error[2]:
                where = self._where(int(column_error[2]))
            else:
                where = "somewhere"
            return self._unreadable(
                where, f"the text of column {self._names[int(column_error[1])]!r} is not UTF-8"
            )
        return self._unreadable("after its header", " ".join(message.split()).rstrip("."))

    def _unreadable(self, where: str, why: str) -> InvalidInputError:
        message = f"{self._name}, {where} cannot be read: {why}."
        return InvalidInputError(
            message, hint=f"Mend the file. {NOTHING_WRITTEN}", file=self._name, place=where
        )

    def _field(self, number: int, column: str, first: pa.RecordBatch | None) -> pa.Field:
        type_ = self._types.get(column.lower())
        if type_ is None:
            if first is None:
                type_ = pa.string()
            else:
                type_ = infer_type(first.column(number))
        return pa.field(column, type_)

    def _values(self, field: pa.Field, texts: pa.Array, before: int) -> pa.Array:
        try:
            return values(texts, field.type)
        except UNFIT:
            position = first_unfit(texts, field.type)
            where, guessed = (
                self._where(before + position + 1),
                field.name.lower() not in self._types,
            )
            raise misfit(
                self._name, where, texts[position].as_py(), field, guessed=guessed
            ) from None

    def _where(self, row: int) -> str:
        """Return the line on which a row starts, or its row number if the input cannot be read
        again.
        """
        if self._path is None:
            return f"row {row}"
        csv.field_size_limit(sys.maxsize)
        with self._path.open(encoding="utf-8", errors="replace", newline="") as file:
            reader, line = csv.reader(file, delimiter=self._delimiter), 0
            for fields in reader:
                if fields and (row := row - 1) < 0:
                    break
                line = reader.line_num
        return f"line {line + 1}"


def _record(source: BinaryIO) -> bytes:
    """Return the first record with its continuation lines, or an empty text at the end of the file."""
    text = b""
    while line := source.readline():
        text += line
        if text.strip() and text.count(b'"') % 2 == 0:
            return text.strip(b"\r\n")
    return text.strip(b"\r\n")
