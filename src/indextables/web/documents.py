"""Documents of log shippers as rows of a table.

A document is a JSON object. Values must fit their columns without loss, with two exceptions that
shippers need: digits of a timestamp below a microsecond are cut, and an object becomes JSON text in
a JSON column. A document that does not fit is refused with its reason; the others are converted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct, field

from indextables.config.indexing import IndexingSettings
from indextables.config.ingest import EVOLVE, JSON, STRICT, IngestSettings
from indextables.errors import InvalidInputError, show_value
from indextables.handle import TableHandle
from indextables.model.exact_values import UNFIT, array_of
from indextables.model.schema import TIMESTAMP

Document = Mapping[str, Any]
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)")
_BELOW_MICROS = re.compile(r"([.,]\d{6})\d+")
_NANOS_SINCE_1970 = 10**17


class Refusal(Struct, frozen=True):
    """Why a document was not written, in the words of Elasticsearch."""

    kind: str
    reason: str
    status: int = 400


class Rows(Struct, frozen=True):
    """Documents as rows: those that fit, and why the others do not."""

    table: pa.Table
    accepted: Sequence[int]
    """Positions of the documents of the rows."""
    refused: Mapping[int, Refusal]
    options: Mapping[str, str] = field(default_factory=dict)
    """How new columns are indexed."""


def unfit(reason: str) -> Refusal:
    """Return the refusal of a document with a value that does not fit."""
    return Refusal("document_parsing_exception", reason)


def rows_of(
    documents: Sequence[Document],
    table: TableHandle,
    refused: Mapping[int, Refusal] | None = None,
) -> Rows:
    """Convert documents to rows of the columns of a table, as its settings define.

    Args:
        documents: The documents.
        table: The table, at its newest version.
        refused: Documents that are refused already.
    """
    return _Conversion(documents, table, refused or {}).run()


def check_ingest_settings(table: TableHandle) -> None:
    """Raise an error if fields without a column go to a JSON column that the table does not have.

    Raises:
        InvalidInputError: The column is missing.
    """
    settings = table.settings.group(IngestSettings)
    name = settings.json_column
    if settings.schema == JSON and name not in table.schema.names:
        raise InvalidInputError(
            f"ingest.schema of {table.path} is json, and there is no column {name!r}.",
            hint="Set ingest.jsonColumn to a string column with indexing.typemap json.",
            path=table.path,
            column=name,
        )


class _Conversion:
    """The conversion of one batch of documents."""

    def __init__(
        self, documents: Sequence[Document], table: TableHandle, refused: Mapping[int, Refusal]
    ) -> None:
        self._settings = table.settings.group(IngestSettings)
        kinds = table.settings.group(IndexingSettings).typemap
        self._json = {name for name, kind in kinds.items() if kind == "json"}
        self._fields = {name.lower(): table.schema.field(name) for name in table.schema.names}
        self._documents = list(documents)
        self._refused = dict(refused)

    def run(self) -> Rows:
        unknown = self._unknown_names()
        if unknown and self._settings.schema == STRICT:
            self._refuse_unknown(unknown)
        elif unknown and self._settings.schema == EVOLVE:
            self._nest_all(unknown)
            unknown = self._unknown_names()
        elif unknown:
            self._documents = [self._move_unknown(d, unknown) for d in self._documents]
        given = {name.lower() for d in self._documents for name in d}
        fields = [f for key, f in self._fields.items() if key in given or not f.nullable]
        options: dict[str, str] = {}
        if not fields:  # without a column the number of rows would be lost
            fields = [next(iter(self._fields.values()))]
        if self._settings.schema == EVOLVE:
            for name in unknown:
                new = self._new_field(name)
                fields.append(new)
                self._fields[name.lower()] = new
                if name in self._json:
                    options[f"indexing.typemap.{name}"] = "json"
        self._refuse_repeated_names()
        columns = [self._column(each) for each in fields]
        accepted = [n for n in range(len(self._documents)) if n not in self._refused]
        rows = pa.table(columns, schema=pa.schema([f.with_nullable(True) for f in fields]))
        if self._refused:
            rows = rows.take(pa.array(accepted, pa.int64()))
        return Rows(rows, accepted, self._refused, options)

    def _unknown_names(self) -> dict[str, None]:
        """Return the names without a column in the order of their appearance. Nulls do not count."""
        names = dict.fromkeys(name for d in self._documents for name in d)
        candidates = {name for name in names if name.lower() not in self._fields}
        if not candidates:
            return {}
        return {
            name: None
            for name in names
            if name in candidates and any(d.get(name) is not None for d in self._documents)
        }

    def _refuse_unknown(self, unknown: Mapping[str, None]) -> None:
        for number, document in enumerate(self._documents):
            for name in document:
                if name in unknown and document[name] is not None:
                    reason = (
                        f"The table has no column {show_value(name)}, and ingest.schema is strict."
                    )
                    self._refused[number] = Refusal("strict_dynamic_mapping_exception", reason)
                    break

    def _nest_all(self, unknown: Mapping[str, None]) -> None:
        for number, document in enumerate(self._documents):
            try:
                self._documents[number] = nest(document, unknown)
            except ValueError as error:
                self._refused[number] = unfit(str(error))
                self._documents[number] = {}

    def _move_unknown(self, document: Document, unknown: Mapping[str, None]) -> Document:
        """Return a document whose fields without a column are in the JSON column."""
        moved = {name: v for name, v in document.items() if name in unknown and v is not None}
        if not moved:
            return document
        target = self._settings.json_column
        rest = {name: v for name, v in document.items() if name not in unknown}
        before = rest.get(target)
        if isinstance(before, dict):
            moved = {**before, **moved}
        elif before is not None:
            moved[target] = before
        return {**rest, target: moved}

    def _new_field(self, name: str) -> pa.Field:
        values = [d.get(name) for n, d in enumerate(self._documents) if n not in self._refused]
        kind = infer_type([value for value in values if value is not None])
        if kind is None:
            self._json.add(name)
        return pa.field(name, kind or pa.string())

    def _refuse_repeated_names(self) -> None:
        """Refuse documents that name one column twice in different case."""
        spelt = dict.fromkeys(name for d in self._documents for name in d)
        if len({name.lower() for name in spelt}) == len(spelt):
            return
        for number, document in enumerate(self._documents):
            if len({name.lower() for name in document}) < len(document):
                self._refused.setdefault(number, unfit("A column is named twice."))

    def _column(self, column: pa.Field) -> pa.Array:
        name, lower = column.name, column.name.lower()
        values = [document.get(name) for document in self._documents]
        other = {key for d in self._documents for key in d if key != name and key.lower() == lower}
        for key in other:
            values = [d.get(key, v) for d, v in zip(self._documents, values, strict=True)]
        prepare = self._preparation(column)
        if prepare is not None:
            values = [None if value is None else prepare(value) for value in values]
        for number in self._refused:
            values[number] = None
        if not column.nullable and None in values:
            self._refuse_missing(column, values)
            return self._fill_refused(column, values)
        try:
            return array_of(values, column.type, json=True)
        except UNFIT:
            return self._convert_each(column, values)

    def _preparation(self, column: pa.Field) -> Callable[[Any], Any] | None:
        """Return what is done to the values of a column before their conversion."""
        if column.name in self._json:
            return _json_text
        if pa.types.is_timestamp(column.type):
            return _cut_to_micros
        return None

    def _convert_each(self, column: pa.Field, values: list[Any]) -> pa.Array:
        for number, value in enumerate(values):
            try:
                array_of([value], column.type, json=True)
            except UNFIT as error:
                self._refuse_value(column, number, value, str(error).rstrip("."))
                values[number] = None
        return array_of(values, column.type, json=True)

    def _refuse_value(self, column: pa.Field, number: int, value: Any, why: str) -> None:
        reason = (
            f"failed to parse field [{column.name}] of type [{column.type}]: "
            f"{show_value(value)} does not fit: {why}."
        )
        self._refused.setdefault(number, unfit(reason))

    def _refuse_missing(self, column: pa.Field, values: Sequence[Any]) -> None:
        for number, value in enumerate(values):
            if value is None:
                reason = f"The column {column.name!r} must not be null."
                self._refused.setdefault(number, unfit(reason))

    def _fill_refused(self, column: pa.Field, values: list[Any]) -> pa.Array:
        """Convert the values of a column without nulls; refused documents have nulls."""
        return self._convert_each(column, values)


def infer_type(values: Sequence[Any]) -> pa.DataType | None:
    """Return the type of a new column by its non-null values; None for values that become JSON text.

    The first value decides. Whole numbers and numbers with fractions are both `double`; texts are
    timestamps if all of them are.
    """
    first = values[0]
    if isinstance(first, bool):
        return pa.bool_()
    if isinstance(first, int | float):
        numbers = [v for v in values if isinstance(v, int | float)]
        if any(isinstance(v, float) for v in numbers):
            return pa.float64()
        return pa.int64()
    if isinstance(first, str):
        if all(isinstance(v, str) and _TIME.fullmatch(v) for v in values):
            return TIMESTAMP
        return pa.string()
    if _is_list_of_texts(first) and all(map(_is_list_of_texts, values)):
        return pa.list_(pa.string())
    return None


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, str) for v in value)


def _json_text(value: Any) -> Any:
    """Return a value of a JSON column as text. A text stays as it is."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _cut_to_micros(value: Any) -> Any:
    if isinstance(value, str):
        return _BELOW_MICROS.sub(r"\1", value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _NANOS_SINCE_1970:
        return value // 1_000 * 1_000
    return value


def nest(document: Document, names: Collection[str]) -> Document:
    """Return a document in which some names with dots are objects, as in Elasticsearch.

    Raises:
        ValueError: A part of a name is a value of its own.
    """
    dotted = [name for name in document if "." in name and name in names]
    if not dotted:
        return document
    nested = {name: value for name, value in document.items() if name not in dotted}
    for name in dotted:
        *path, last = name.split(".")
        target = nested
        for part in path:
            inner = target.get(part, {})
            if not isinstance(inner, dict):
                raise ValueError(f"[{name}] is below [{part}], which is a value and not an object.")
            target[part] = dict(inner)
            target = target[part]
        if last in target:
            raise ValueError(f"[{name}] is given twice.")
        target[last] = document[name]
    return nested
