"""Splits that another engine wrote: their terms say which rows to look at, and the rows decide with the same analyzers.

Tantivy-py cannot open their term dictionary; `bundle_files.py` reads it, and the documents. Where a file has a form that
is not known there, nothing is ruled out and documents are read by tantivy: the same answer, slower. Merging rewrites
such a split into one of ours.

Values of its documents become Arrow arrays of the table's types.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import shutil
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tantivy

from indextables.errors import BadFileError, InvalidInputError, UnsupportedError
from indextables.model.column_ranges import ColumnRange
from indextables.model.predicate import And, Comparison, In, Or, Predicate, evaluate
from indextables.splits.format.source import ReadStats, SplitSource
from indextables.splits.index.mapping import TOKENIZERS, WHOLE_TOKENIZERS, ColumnMapping, DocMapping, is_nested
from indextables.splits.index.tantivy_files import COMPONENTS, TantivyErrors, footer_length, scratch_folder
from indextables.splits.read.bundle_files import (
    Bundle,
    BundledFile,
    DocumentStore,
    FieldTerms,
    SegmentTerms,
    UnknownFormError,
    bad_bundle,
    checksum,
    proven_meta,
    read_directory,
    term_of,
    unbundle,
)
from indextables.splits.read.searchable import Mask, Rows, SearcherView

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ARRAY_KEY = "_values"
"""An array is stored as an object under this key, since tantivy's json fields hold objects only."""


def to_array(values: Sequence[Any], field: pa.Field, path: str) -> pa.Array:
    """A column of document values in the column's type."""
    try:
        return pa.array([_convert(v, field.type, nested=False) for v in values], field.type)
    except (pa.ArrowException, ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as e:
        message = f"Column {field.name!r} of the split {path} does not fit the table's {field.type}: {e}."
        raise BadFileError(message, path=path, column=field.name) from e


def plain_address(value: Any) -> Any:
    """An address as people write it: the other engine stores `10.0.0.1` as `::ffff:10.0.0.1`."""
    if not isinstance(value, str):
        return value
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return value
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return value if mapped is None else str(mapped)


def _convert(value: Any, kind: pa.DataType, *, nested: bool) -> Any:
    if value is None:
        return None
    if pa.types.is_nested(kind):
        return _convert_nested(value, kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    if pa.types.is_timestamp(kind):
        return _moment(value, kind, nested)
    if pa.types.is_date(kind):
        moment = _moment(value, None, nested)
        return moment.date()
    if pa.types.is_decimal(kind):
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return base64.b64decode(value, validate=True) if isinstance(value, str) else bytes(value)
    if pa.types.is_floating(kind):
        return float(value)
    return value


def _convert_nested(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return {f.name: _convert(value.get(f.name), f.type, nested=True) for f in fields}
    if pa.types.is_map(kind):
        return [
            (_convert(_key(k, kind.key_type), kind.key_type, nested=True), _convert(v, kind.item_type, nested=True))
            for k, v in value.items()
        ]
    items = value[_ARRAY_KEY] if isinstance(value, dict) else value
    return [_convert(item, kind.value_type, nested=True) for item in items]


def _key(text: str, kind: pa.DataType) -> Any:
    """A map's key, which JSON can only hold as text."""
    if pa.types.is_integer(kind):
        return int(text)
    return text == "true" if pa.types.is_boolean(kind) else text


def _moment(value: Any, kind: pa.DataType | None, nested: bool) -> datetime.datetime:
    """A moment: tantivy's own date at the top, milliseconds since 1970 inside of a document."""
    if isinstance(value, int) and nested:
        value = _EPOCH + datetime.timedelta(milliseconds=value)
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    moment: datetime.datetime = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    return moment if kind is None or kind.tz else moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _plain(value: Any) -> Any:
    """A document's value as JSON can write it; tantivy reads texts that look like moments as moments."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value


_BATCH_ROWS = 4_096
_ADDRESS = "ip_addr"
_SURE_BYTES = 39
"""Words of at most so many bytes are terms whatever the limit of the tokenizer was."""
_SURE_TOKENIZERS = ("raw", "default", "en_stem", "whitespace")
"""Those that make the same words here and there."""
_DAY_NANOSECONDS = 86_400_000_000_000
_WHOLE_BYTES = 256 << 10
_PLAIN_TYPES = ("text", "i64", "u64", "f64", "bool", "date")
_PLAIN_CHECKS = (pa.types.is_string, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
_FEW_VALUES = 8
"""So many values are looked up by their terms, one by one; more are compared with all terms at once."""
_FAST_TYPES = ("i64", "u64", "f64", "bool")
"""What can be read back from its column where the documents do not store it."""


class ForeignTerms:
    """The terms of a bundle, and what they say of its rows."""

    def __init__(
        self,
        fields: Mapping[str, dict[str, Any]],
        schema: pa.Schema,
        sizes: Sequence[int],
        read: Callable[[], list[SegmentTerms]],
    ) -> None:
        self._fields = fields
        self._numbers_of = {name: number for number, name in enumerate(fields)}
        self._sizes = sizes
        self._read = read
        self.schema = schema
        self.num_rows = sum(sizes)

    @cached_property
    def _terms(self) -> list[SegmentTerms]:
        return self._read()

    def may_match(self, bound: Predicate) -> Mask | None:
        """Rows that a predicate can be true for, by the values that are terms of the index."""
        try:
            return self._possible(bound)
        except (UnknownFormError, pa.ArrowException, OverflowError):
            return None

    def decides(self, bound: Predicate) -> bool:
        """Whether `may_match` knows the rows that a predicate is true for, and not only those it can be true for."""
        if isinstance(bound, And | Or):
            return all(self.decides(below) for below in bound.children)
        kind = self._asked_kind(bound)
        return kind is not None and kind != "date"

    def rows_with(self, column: str, terms: Sequence[str]) -> Mask | None:
        """Rows that can hold all of some terms of a column; None if the index cannot tell."""
        entry = self._fields.get(column)
        if entry is None or entry["type"] != "text" or any(len(term.encode()) > _SURE_BYTES for term in terms):
            return None
        if (entry["options"].get("indexing") or {}).get("tokenizer") not in _SURE_TOKENIZERS:
            return None
        try:
            possible = np.ones(self.num_rows, np.bool_)
            for term in terms:
                possible &= self._with_term(column, term.encode())
        except UnknownFormError:
            return None
        return possible

    def column(self, field: pa.Field) -> pa.Array | None:
        """A column from the terms of its values; None where not every value is a term."""
        exact = ("i64", "u64", "f64", "bool", "text")
        kind = self._term_kind(field)
        if kind not in exact:
            return None
        place, values, start = np.full(self.num_rows, -1, np.int64), [], 0
        for terms, distinct, first in self._distinct(field.name):
            for number, term_place in enumerate(terms.places.values()):
                place[first + terms.rows(term_place)] = start + number
            values.append(distinct)
            start += len(distinct)
        if kind == "text" and (place < 0).any():
            return None  # null, or a value that is too long for a term
        joined = pa.concat_arrays(values) if values else pa.nulls(0, field.type)
        return pc.cast(joined, field.type, safe=kind != "f64").take(pa.array(place, mask=place < 0))

    def _term_kind(self, field: pa.Field) -> str | None:
        """What the terms of a column are, if each is a whole value."""
        entry = self._fields[field.name]
        kind, options = str(entry["type"]), entry.get("options", {})
        if kind == "text":
            whole = (options.get("indexing") or {}).get("tokenizer") == "raw"
            return kind if whole and pa.types.is_string(field.type) else None
        fits = {"i64": pa.types.is_signed_integer, "u64": pa.types.is_integer, "f64": pa.types.is_floating}
        fits |= {"bool": pa.types.is_boolean, "date": _is_moment}
        return kind if options.get("indexed") and kind in fits and fits[kind](field.type) else None

    def _distinct(self, column: str) -> Iterator[tuple[FieldTerms, pa.Array, int]]:
        """The terms of a column in each segment, the values that they are, and the segment's first row."""
        number, kind, first = self._numbers_of[column], str(self._fields[column]["type"]), 0
        for segment, size in zip(self._terms, self._sizes, strict=True):
            terms = segment.of(number)
            if terms is not None:
                yield terms, terms.values(kind), first
            first += size

    def _with_term(self, column: str, term: bytes) -> Mask:
        """Rows that hold a term of a column."""
        found, number, first = np.zeros(self.num_rows, np.bool_), self._numbers_of[column], 0
        for segment, size in zip(self._terms, self._sizes, strict=True):
            terms = segment.of(number)
            place = terms.places.get(term) if terms is not None else None
            if terms is not None and place is not None:
                found[first + terms.rows(place)] = True
            first += size
        return found

    def _possible(self, bound: Predicate) -> Mask | None:
        if isinstance(bound, And | Or):
            known = [self._possible(below) for below in bound.children]
            masks = [mask for mask in known if mask is not None]
            if not masks or (isinstance(bound, Or) and len(masks) < len(known)):
                return None
            joined: Mask = (np.logical_and if isinstance(bound, And) else np.logical_or).reduce(masks)
            return joined
        kind = self._asked_kind(bound)
        if kind is None or not isinstance(bound, Comparison | In):
            return None
        return self._where_values(bound, self.schema.field(bound.column.name), kind)

    def _asked_kind(self, bound: Predicate) -> str | None:
        """The kind of the terms that answer a comparison; None for one that they cannot answer."""
        if not isinstance(bound, Comparison | In) or len(bound.column.path) != 1:
            return None
        if isinstance(bound, Comparison) and bound.operator == "<=>":
            return None  # true for nulls, which are no terms
        name = bound.column.name
        if name not in self.schema.names or self.schema.field(name).type != bound.column.type:
            return None
        kind = self._term_kind(self.schema.field(name))
        return None if kind == "text" and not _is_sure(bound) else kind

    def _where_values(self, bound: Comparison | In, field: pa.Field, kind: str) -> Mask:
        sought = _sought(bound, kind)
        if sought is not None:
            masks = [self._with_term(field.name, term) for term in sought]
            return np.logical_or.reduce(masks) if masks else np.zeros(self.num_rows, np.bool_)
        found = np.zeros(self.num_rows, np.bool_)
        for terms, distinct, first in self._distinct(field.name):
            if kind == "date":
                chosen = _possible_moments(bound, distinct, field.type)
            else:
                values = pa.table({field.name: pc.cast(distinct, field.type, safe=kind != "f64")})
                chosen = evaluate(bound, values).fill_null(False).to_numpy(zero_copy_only=False)
            places = list(terms.places.values())
            for number in np.flatnonzero(chosen).tolist():
                found[first + terms.rows(places[number])] = True
        return found


class _WholeSource:
    """A small split that was read at once."""

    def __init__(self, source: SplitSource) -> None:
        self.path, self.size, self.identity, self.remote = source.path, source.size, source.identity, source.remote
        (self._data,) = source.read_many([(0, source.size)])
        self.stats = source.stats

    def span(self, start: int, end: int) -> memoryview:
        """A stretch of it, as it lies in memory."""
        return memoryview(self._data)[start:end]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self._data[start : start + length] for start, length in ranges]


def _span(source: SplitSource, file: BundledFile) -> memoryview:
    """A file of a bundle, where it lies if the bundle was read at once."""
    if isinstance(source, _WholeSource):
        return source.span(file.start, file.end)
    (data,) = source.read_many([(file.start, file.end - file.start)])
    return memoryview(data)


def whole_if_small(source: SplitSource) -> SplitSource:
    """A small split read at once: its files lie beside one another."""
    return _WholeSource(source) if source.size <= _WHOLE_BYTES and not isinstance(source, _WholeSource) else source


class ForeignReader:
    """A split of another engine. Its files are unpacked into a folder that goes with the reader."""

    indexed = False

    def __init__(self, source: SplitSource, schema: pa.Schema, bundle: Bundle, meta: dict[str, Any]) -> None:
        self._source = source
        self._bundle = bundle
        self._fields: dict[str, dict[str, Any]] = {entry["name"]: entry for entry in meta["schema"]}
        self._numbers_of = {name: number for number, name in enumerate(self._fields)}
        self._sizes = [int(segment["max_doc"]) for segment in meta["segments"]]
        self._stems = [str(segment["segment_id"]).replace("-", "") for segment in meta["segments"]]
        has_all = self._fields.keys() >= set(schema.names)
        self.schema = schema if has_all else pa.schema([f for f in schema if f.name in self._fields])
        self.incomplete: Mapping[str, int] = {}
        self._closing: Callable[[], object] = _nothing
        self._values: dict[str, pa.Array | None] = {}

    @classmethod
    def open(cls, source: SplitSource, schema: pa.Schema) -> ForeignReader:
        """Open a bundle; `schema` is the table's, without partition columns."""
        source = whole_if_small(source)
        bundle = read_directory(source)
        try:
            meta = msgspec.json.decode(proven_meta(source, bundle))
            if any(segment["deletes"] is not None for segment in meta["segments"]):
                raise UnsupportedError(f"The foreign split {source.path} holds deleted documents.", path=source.path)
            return cls(source, schema, bundle, meta)
        except (
            *(OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError),
            msgspec.DecodeError,
        ) as e:
            raise BadFileError(f"The foreign split {source.path} cannot be read: {e}.", path=source.path) from e

    @cached_property
    def _folder(self) -> Path:
        """The files of the bundle unpacked, for tantivy."""
        folder = scratch_folder("foreign", None)
        try:
            unbundle(self._source, self._bundle, folder)
        except (OSError, ValueError, LookupError, TypeError) as e:
            shutil.rmtree(folder, ignore_errors=True)
            raise BadFileError(f"The foreign split {self.path} cannot be read: {e}.", path=self.path) from e
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._closing = weakref.finalize(self, shutil.rmtree, folder, True)
        return folder

    @property
    def path(self) -> str:
        """The split's name in messages."""
        return self._source.path

    @property
    def num_rows(self) -> int:
        """How many documents the split has."""
        return sum(self._sizes)

    @property
    def stored_rows(self) -> int:
        """The same: what is deleted is not known here."""
        return self.num_rows

    @property
    def stats(self) -> ReadStats:
        """Requests and bytes so far."""
        return self._source.stats

    @cached_property
    def mapping(self) -> DocMapping:
        """How the other engine indexed the columns, in our terms."""
        columns = (_column(f, number, self._fields[f.name]) for number, f in enumerate(self.schema))
        return DocMapping(tuple(columns))

    def read_rows(self, rows: Rows | Mask | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by number, by mask, or all."""
        fields = self._columns(columns)
        if not fields:
            return pa.table({"": pa.nulls(len(self._numbers(rows)))}).select([])
        batches = [self._batch(part, fields) for part in _parts(self._numbers(rows))]
        return pa.Table.from_batches(batches, pa.schema(fields))

    def iter_rows(
        self,
        rows: Rows | Mask | None = None,
        *,
        columns: Sequence[str] | None = None,
        codes: bool = False,  # noqa: ARG002
    ) -> Iterator[pa.RecordBatch]:
        """The same as a stream; its texts are texts."""
        fields = self._columns(columns)
        for part in _parts(self._numbers(rows)):
            yield self._batch(part, fields)

    def may_match(self, bound: Predicate) -> Mask | None:
        """Rows that a predicate can be true for, by the values that are terms of the index."""
        return self.terms.may_match(bound)

    def decides(self, bound: Predicate) -> bool:
        """Whether `may_match` knows the rows that a predicate is true for, and not only those it can be true for."""
        return self.terms.decides(bound)

    def rows_with(self, column: str, terms: Sequence[str]) -> Mask | None:
        """Rows that hold all of some terms of a column; None if the index cannot tell."""
        return self.terms.rows_with(column, terms)

    def group_bounds(self, column: str) -> tuple[Rows, ColumnRange] | None:  # noqa: ARG002
        """Nothing is known of runs of rows."""
        return None

    def open_index(self, fields: Iterable[str], *, positions: bool = False, norms: bool = False) -> SearcherView:
        """Never possible: the term dictionary has another form."""
        wanted = {"fields": sorted(fields), "positions": positions, "norms": norms}
        message = f"The split {self.path} was written by another engine; its index cannot be searched."
        raise UnsupportedError(message, hint="Scan its rows, or MERGE SPLITS to rewrite it.", path=self.path, **wanted)

    def check_files(self) -> None:
        """Prove every file of the bundle by its checksum."""
        for name in self._bundle.files:
            if name.rpartition(".")[2] in COMPONENTS:
                self._file(name)

    def close(self) -> None:
        """Remove the unpacked files."""
        self._closing()

    @cached_property
    def _searcher(self) -> tantivy.Searcher:
        with TantivyErrors(self.path, "Opening"):
            index = tantivy.Index.open(str(self._folder))
            index.config_reader("manual")
            searcher = index.searcher()
        if searcher.num_docs != self.num_rows:
            raise BadFileError(f"The split {self.path} has {searcher.num_docs} documents, not {self.num_rows}.")
        return searcher

    def _batch(self, rows: Rows, fields: Sequence[pa.Field]) -> pa.RecordBatch:
        known = {f.name: self._from_terms(f, rows) for f in fields}
        left = [f for f in fields if known[f.name] is None]
        try:
            known |= self._from_documents(rows, left) if left else {}
        except UnknownFormError:
            known |= self._from_tantivy(rows, left)
        return pa.RecordBatch.from_arrays([known[f.name] for f in fields], schema=pa.schema(fields))

    def _from_terms(self, field: pa.Field, rows: Rows) -> pa.Array | None:
        """A column from the terms of its values, where many rows are wanted and every value is a term."""
        if len(rows) * 4 < self.num_rows:
            return None
        if field.name not in self._values:
            try:
                self._values[field.name] = self.terms.column(field)
            except (UnknownFormError, pa.ArrowException):
                self._values[field.name] = None
        values = self._values[field.name]
        return None if values is None else values.take(pa.array(rows))

    def _from_documents(self, rows: Rows, fields: Sequence[pa.Field]) -> dict[str, pa.Array]:
        """Columns from the stored documents."""
        if any(self._fields[f.name]["type"] not in _PLAIN_TYPES or not self._option(f.name, "stored") for f in fields):
            raise UnknownFormError("Such a column is read by tantivy.")
        starts = np.cumsum([0, *self._sizes])
        segments = np.searchsorted(starts, rows, side="right") - 1
        wanted = frozenset(self._numbers_of[f.name] for f in fields)
        order = np.argsort(rows, kind="stable")
        found: list[dict[int, Any]] = [{}] * len(rows)
        for number in np.unique(segments).tolist():
            here = order[segments[order] == number]
            documents = self._stores[number].documents(rows[here] - starts[number], wanted)
            for at, document in zip(here.tolist(), documents, strict=True):
                found[at] = document
        values = {f.name: [document.get(self._numbers_of[f.name]) for document in found] for f in fields}
        return {f.name: _plain_array(values[f.name], f, self._fields[f.name]["type"], self.path) for f in fields}

    def _from_tantivy(self, rows: Rows, fields: Sequence[pa.Field]) -> dict[str, pa.Array]:
        """Columns as tantivy reads them, from documents or from its own columns: any kind, slowly."""
        starts = np.cumsum([0, *self._sizes])
        searcher = self._searcher
        segments = np.searchsorted(starts, rows, side="right") - 1
        places = [tantivy.DocAddress(int(s), int(row - starts[s])) for row, s in zip(rows, segments, strict=True)]
        stored = [f for f in fields if self._option(f.name, "stored")]
        values: dict[str, list[Any]] = {}
        with TantivyErrors(self.path, "Reading documents"):
            documents = [searcher.doc(place).to_dict() for place in places] if stored else []
            for field in fields:
                if field in stored:
                    values[field.name] = [_first(document.get(field.name)) for document in documents]
                else:
                    values[field.name] = searcher.fast_field_values(field.name, places)
                if self._fields[field.name]["type"] == _ADDRESS:
                    values[field.name] = [plain_address(value) for value in values[field.name]]
        return {f.name: to_array(values[f.name], f, self.path) for f in fields}

    @cached_property
    def _stores(self) -> list[DocumentStore]:
        return [DocumentStore(self._file(f"{stem}.store")) for stem in self._stems]

    @cached_property
    def terms(self) -> ForeignTerms:
        """What its terms say."""
        return ForeignTerms(self._fields, self.schema, self._sizes, self._read_terms)

    def _read_terms(self) -> list[SegmentTerms]:
        """The terms of each segment."""
        records = [_record(entry) for entry in self._fields.values()]
        return [SegmentTerms(self._file(f"{stem}.term"), self._file(f"{stem}.idx"), records) for stem in self._stems]

    def _file(self, name: str) -> memoryview:
        """A file of the bundle, proven by its checksum."""
        file = self._bundle.files.get(name)
        if file is None:
            raise UnknownFormError(f"The bundle has no {name}.")
        data = _span(self._source, file)
        footer = footer_length(data, name)
        try:
            expected = checksum(data[-footer:-8])
        except msgspec.DecodeError as e:
            raise bad_bundle(self.path, file.start, len(data), f"the footer of {name} is garbled") from e
        if zlib.crc32(data[:-footer]) != expected:
            raise bad_bundle(self.path, file.start, len(data), f"the checksum of {name} differs")
        return data

    def _columns(self, columns: Sequence[str] | None) -> list[pa.Field]:
        names = list(self.schema.names) if columns is None else list(columns)
        unknown = [name for name in names if name not in self.schema.names]
        if unknown:
            message = f"The split {self.path} has no column {', '.join(map(repr, unknown))}."
            raise InvalidInputError(message, hint=f"Its columns: {', '.join(self.schema.names)}.", columns=unknown)
        for name in names:
            fast = self._fields[name]["type"] in _FAST_TYPES and self._option(name, "fast")
            if not fast and not self._option(name, "stored"):
                message = f"The split {self.path} does not store column {name!r}; its values cannot be read back."
                raise UnsupportedError(message, path=self.path, column=name)
        return [self.schema.field(name) for name in names]

    def _option(self, name: str, option: str) -> bool:
        return bool(self._fields[name].get("options", {}).get(option, False))

    def _numbers(self, rows: Rows | Mask | None) -> Rows:
        found = np.arange(self.num_rows) if rows is None else np.asarray(rows)
        if found.dtype == np.bool_:
            found = np.flatnonzero(found)
        numbers: Rows = found.astype(np.int64)
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= self.num_rows):
            raise InvalidInputError(f"Row numbers outside the {self.num_rows} rows of {self.path}.")
        return numbers


def _nothing() -> None:
    """What is to do when nothing was unpacked."""


def _record(entry: dict[str, Any]) -> str:
    """What the postings of a field hold besides documents."""
    indexing = entry.get("options", {}).get("indexing")
    return str(indexing.get("record", "basic")) if isinstance(indexing, dict) else "basic"


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.unit == "us"))


def _is_sure(bound: Comparison | In) -> bool:
    """Whether a text that is asked for is a term wherever it is a value: long ones may have been left out."""
    values = bound.literals if isinstance(bound, In) else (bound.literal,) if bound.operator == "=" else ()
    texts = [value.value for value in values]
    return bool(texts) and all(isinstance(text, str) and len(text.encode()) <= _SURE_BYTES for text in texts)


def _sought(bound: Comparison | In, kind: str) -> list[bytes] | None:
    """The terms that are asked for, where a value has one term alone; None for all else, which values must tell."""
    expected = {"i64": int, "u64": int, "text": str}.get(kind)
    if expected is None or (isinstance(bound, Comparison) and bound.operator != "="):
        return None
    values = [literal.value for literal in (bound.literals if isinstance(bound, In) else (bound.literal,))]
    if len(values) > _FEW_VALUES or not all(type(value) is expected for value in values):
        return None
    return [term for value in values if (term := term_of(value, kind)) is not None]


def _possible_moments(bound: Comparison | In, seconds: pa.Array, kind: pa.DataType) -> Mask:
    """Which terms of moments a comparison can be true for: they were cut to whole seconds towards 1970."""
    terms = seconds.to_numpy() // 1_000_000_000
    literals = bound.literals if isinstance(bound, In) else (bound.literal,)
    sought = [pa.scalar(literal.value, kind) for literal in literals if literal.value is not None]
    whole = np.array([_second(scalar, kind) for scalar in sought], np.int64)
    if isinstance(bound, In) or bound.operator == "=":
        return np.asarray(np.isin(terms, whole), np.bool_)
    if not len(whole) or bound.operator not in ("<", "<=", ">", ">="):
        return np.ones(len(terms), np.bool_)
    return np.asarray(terms <= whole[0] if bound.operator in ("<", "<=") else terms >= whole[0], np.bool_)


def _second(scalar: pa.Scalar, kind: pa.DataType) -> int:
    if pa.types.is_date32(kind):
        return int(scalar.cast(pa.int32()).as_py()) * 86_400
    number = int(scalar.cast(pa.int64()).as_py())
    return abs(number) // 1_000_000 * (1 if number >= 0 else -1)


def _plain_array(values: list[Any], field: pa.Field, stored: str, path: str) -> pa.Array:
    """Values of documents, which are of a tantivy type, in the type of their column."""
    kind = field.type
    if stored == "date":
        if pa.types.is_timestamp(kind) and kind.unit == "us":
            return pa.array([None if v is None else v // 1000 for v in values], kind)
        if pa.types.is_date32(kind):
            return pa.array([None if v is None else v // _DAY_NANOSECONDS for v in values], kind)
        values = [None if v is None else _EPOCH + datetime.timedelta(microseconds=v // 1000) for v in values]
    elif any(check(kind) for check in _PLAIN_CHECKS):
        try:
            return pa.array(values, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass  # said by `to_array` in words
    return to_array(values, field, path)


def _parts(rows: Rows) -> Iterator[Rows]:
    for start in range(0, len(rows), _BATCH_ROWS):
        yield rows[start : start + _BATCH_ROWS]


def _first(values: list[Any] | None) -> Any:
    return values[0] if values else None


def _column(field: pa.Field, number: int, entry: dict[str, Any]) -> ColumnMapping:
    """A tantivy field of another engine as a column of ours; what we cannot index alike is `none`."""
    options = entry.get("options", {})
    indexing = options.get("indexing") or {}
    known = indexing.get("tokenizer") in TOKENIZERS
    tokenizer = indexing["tokenizer"] if known else "default"
    name = f"c{number}"
    if entry["type"] == _ADDRESS and options.get("indexed"):
        return ColumnMapping(field.name, name, "ip")
    if entry["type"] == "json_object" and indexing:
        return ColumnMapping(field.name, name, "json", "default", indexing.get("record", "position"))
    if entry["type"] != "text" or not indexing or is_nested(field.type):
        return ColumnMapping(field.name, name, "none")
    if tokenizer in WHOLE_TOKENIZERS:
        return ColumnMapping(field.name, name, "string", tokenizer, "basic")
    return ColumnMapping(field.name, name, "text", tokenizer, indexing.get("record", "position"))
