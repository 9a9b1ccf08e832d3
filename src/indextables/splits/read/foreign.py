"""Read splits of another engine: their terms preselect rows, and the rows decide with the same
analyzers.

Tantivy-py cannot open their term dictionary; `bundle_files.py` reads it and the documents. For an
unknown file format nothing is preselected and tantivy reads the documents, which gives the same
answer more slowly. Merging rewrites such a split into one of ours.
"""

from __future__ import annotations

import operator
import shutil
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tantivy
from msgspec import Struct

from indextables.errors import BadFileError, InvalidInputError, UnsupportedError
from indextables.model.column_ranges import ColumnRange
from indextables.model.predicate import And, Comparison, In, Or, Predicate, evaluate
from indextables.splits.format.source import ReadStats, SplitSource
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.tantivy_files import COMPONENTS, TantivyErrors, scratch_folder
from indextables.splits.index.values import IncompleteValues
from indextables.splits.read.bundle_files import (
    TERM_NUMBERS,
    Bundle,
    FieldTerms,
    ProvenFiles,
    SegmentTerms,
    UnknownFormError,
    proven_meta,
    read_directory,
    term_number,
    term_of,
    unbundle,
    whole_if_small,
)
from indextables.splits.read.column_arrays import ColumnArray
from indextables.splits.read.foreign_columns import (
    ADDRESS,
    BundleFields,
    BundleMeta,
    DocumentStore,
    ForeignColumns,
    TablePart,
    decode_meta,
    plain_address,
    to_array,
)
from indextables.splits.read.searchable import Mask, Rows, SearcherView

_BATCH_ROWS = 4_096


_SURE_BYTES = 39
"""Words of at most this many bytes are terms under every token length limit."""
_SURE_TOKENIZERS = ("raw", "default", "en_stem", "whitespace")
"""Tokenizers that produce the same words in both engines."""
_EXACT_KINDS = ("i64", "u64", "f64", "bool", "text")
"""Kinds whose terms hold the complete value. Timestamps are cut to seconds."""
_FEW_VALUES = 8
"""Up to this many values are looked up one by one; more are compared with all terms at once."""

_ORDERS = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SECOND = 1_000_000_000
"""Nanoseconds per second, the unit of timestamp terms."""


class ForeignTerms:
    """The terms of a bundle and the rows that they select."""

    def __init__(
        self,
        columns: ForeignColumns,
        files: ProvenFiles,
        sizes: Sequence[int],
        stems: Sequence[str],
        values: Callable[[Rows, str], list[Any]],
    ) -> None:
        self._columns = columns
        self._values = values
        self._files = files
        self._sizes = sizes
        self._stems = stems
        self._segments: list[SegmentTerms] | None = None
        self.num_rows = sum(sizes)

    @property
    def _terms(self) -> list[SegmentTerms]:
        if self._segments is None:
            records = self._columns.fields.records
            self._segments = [SegmentTerms(self._files, stem, records) for stem in self._stems]
        return self._segments

    def may_match(self, bound: Predicate) -> Mask | None:
        """Return the rows for which a predicate can be true, by the values in the index."""
        try:
            return self._possible(bound)
        except (UnknownFormError, pa.ArrowException, OverflowError, TypeError):
            return None

    def decides(self, bound: Predicate) -> bool:
        """Return whether `may_match` is exact for a predicate."""
        if isinstance(bound, (And, Or)):
            return all(self.decides(below) for below in bound.children)
        kind = self._asked_kind(bound)
        if kind == "date":  # values near to the one that they are compared with are looked at
            return (
                isinstance(bound, Comparison)
                and bound.column.name in self._columns.plain
                and _is_span(bound)
            )
        return kind is not None

    def rows_with(self, column: str, terms: Sequence[str]) -> Mask | None:
        """Return the rows that can hold all of some terms of a column, or None if the index cannot
        answer.
        """
        entry = self._columns.fields.entries.get(column)
        if (
            entry is None
            or entry["type"] != "text"
            or any(len(term.encode()) > _SURE_BYTES for term in terms)
        ):
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
        """Return a column from the terms of its values, or None if some value is not a term."""
        kind = self._columns.kinds[field.name]
        if kind not in _EXACT_KINDS:
            return None
        place, values, start = np.full(self.num_rows, -1, np.int64), [], 0
        for terms, first, size in self._fields(field.name):
            distinct = terms.values(kind)
            rows, numbers = terms.all_rows()
            place[_place(rows, first, size)] = start + numbers
            values.append(distinct)
            start += len(distinct)
        if kind == "text" and (place < 0).any():
            return None  # null, or a value that is too long for a term
        if values:
            joined = pa.concat_arrays(values)
        else:
            joined = pa.nulls(0, field.type)
        return pc.cast(joined, field.type, safe=kind != "f64").take(pa.array(place, mask=place < 0))

    def _fields(self, column: str) -> Iterator[tuple[FieldTerms, int, int]]:
        """Return the terms of a column in each segment, with the segment's first row and its row
        count.
        """
        number, first = self._columns.fields.numbers[column], 0
        for segment, size in zip(self._terms, self._sizes, strict=True):
            terms = segment.of(number)
            if terms is not None:
                yield terms, first, size
            first += size

    def _with_term(self, column: str, term: bytes) -> Mask:
        """Return the rows that hold a term of a column."""
        found = np.zeros(self.num_rows, np.bool_)
        for terms, first, size in self._fields(column):
            place = terms.place(term)
            if place is not None:
                found[_place(terms.rows(place), first, size)] = True
        return found

    def _possible(self, bound: Predicate) -> Mask | None:
        if isinstance(bound, Or):
            known = [self._possible(below) for below in bound.children]
            masks = [mask for mask in known if mask is not None]
            if len(masks) == len(known):
                return _join(np.logical_or, masks)
            return None
        masks, spans = [], dict[str, TermSpan]()
        for part in bound.children if isinstance(bound, And) else (bound,):
            kind = self._asked_kind(part)
            span = _span(part, kind)
            if (
                span is not None
            ):  # those of one column are one, so that only terms that are in all of them are read
                other = spans.get(span.column)
                spans[span.column] = span if other is None else span.within(other)
                continue
            if isinstance(part, (And, Or)):
                mask = self._possible(part)
            else:
                mask = self._by_values(part, kind)
            masks += [] if mask is None else [mask]
        return _join(np.logical_and, masks + [self._between(span) for span in spans.values()])

    def _by_values(self, bound: Predicate, kind: str | None) -> Mask | None:
        if kind is None or not isinstance(bound, (Comparison, In)):
            return None
        return self._where_values(bound, self._columns.columns[bound.column.name], kind)

    def _between(self, span: TermSpan) -> Mask:
        """Return the rows whose term is in a range."""
        found, kind = np.zeros(self.num_rows, np.bool_), self._columns.kinds[span.column]
        for terms, first, size in self._fields(span.column):
            _check_fit(terms.number_bounds(), kind, self._columns.columns[span.column].type)
            found[_place(terms.rows_between(span.low, span.high), first, size)] = True
            for edge in span.edges if span.column in self._columns.plain else ():
                rows = _place(terms.rows_between(edge.low, edge.high), first, size)
                self._drop_outside(found, rows, span.column, edge)
        return found

    def _drop_outside(self, found: Mask, rows: Rows, column: str, edge: SpanEdge) -> None:
        """Among rows whose terms are close to a timestamp, keep those whose values fulfil the
        comparison.
        """
        rows = rows[found[rows]]
        if len(rows):
            found[rows] = [
                v is not None and edge.holds(v, edge.moment) for v in self._values(rows, column)
            ]

    def _asked_kind(self, bound: Predicate) -> str | None:
        """Return the kind of the terms that answer a comparison, or None."""
        if not isinstance(bound, (Comparison, In)) or len(bound.column.path) != 1:
            return None
        if isinstance(bound, Comparison) and bound.operator == "<=>":
            return None  # true for nulls, which are no terms
        field = self._columns.columns.get(bound.column.name)
        if field is None or field.type != bound.column.type:
            return None
        kind = self._columns.kinds[field.name]
        if kind == "text" and not _is_sure(bound):
            return None
        return kind

    def _where_values(self, bound: Comparison | In, field: pa.Field, kind: str) -> Mask:
        sought = _sought(bound, kind)
        if sought is not None:
            masks = [self._with_term(field.name, term) for term in sought]
            return np.logical_or.reduce(masks) if masks else np.zeros(self.num_rows, np.bool_)
        found = np.zeros(self.num_rows, np.bool_)
        for terms, first, size in self._fields(field.name):
            distinct = terms.values(kind)
            if kind == "date":
                chosen = _possible_moments(bound, distinct, field.type)
            else:
                values = pa.table({field.name: pc.cast(distinct, field.type, safe=kind != "f64")})
                chosen = evaluate(bound, values).fill_null(False).to_numpy(zero_copy_only=False)
            found[_place(terms.rows_of(chosen), first, size)] = True
        return found


def _place(rows: Rows, first: int, size: int) -> Rows:
    """Convert the rows of a segment to rows of the split."""
    if len(rows) and int(rows.max()) >= size:
        raise UnknownFormError("Postings name a document that is not there.")
    return rows + first


def _join(how: np.ufunc, masks: Sequence[Mask]) -> Mask | None:
    """Combine masks, or return None for none."""
    if not masks:
        return None
    joined: Mask = masks[0] if len(masks) == 1 else how.reduce(masks)
    return joined


class SpanEdge(Struct, frozen=True, gc=False):
    """Terms that are too close to a timestamp or a day to decide how their values compare to it."""

    low: int
    high: int
    holds: Callable[[int, int], bool]
    moment: int


class TermSpan(Struct, frozen=True, gc=False):
    """Numeric terms of a column from `low` up to but excluding `high`."""

    column: str
    low: int
    high: int
    edges: tuple[SpanEdge, ...] = ()

    def within(self, other: TermSpan) -> TermSpan:
        """Return the intersection of both."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return TermSpan(self.column, low, high, self.edges + other.edges)


def _is_span(bound: Comparison) -> bool:
    return bound.operator in _ORDERS and bound.literal.value is not None


def _span(bound: Predicate, kind: str | None) -> TermSpan | None:
    """Return the contiguous range of terms for which a comparison can be true, or None."""
    if kind is None or not isinstance(bound, Comparison) or not _is_span(bound):
        return None
    value, sign, name = bound.literal.value, bound.operator, bound.column.name
    edges: tuple[SpanEdge, ...] = ()
    if kind == "date":
        (low, high), moment = _seconds(value, bound.column.type)
        first, after = term_number(low * _SECOND, kind), term_number(high * _SECOND, kind)
        edges = (SpanEdge(first, after, _ORDERS[sign], moment),)
    elif kind in ("i64", "u64") and type(value) is int:
        first, after = (term_number(value + (sign in more), kind) for more in ((">",), ("<=", "=")))
    else:
        return None
    low = 0 if sign in ("<", "<=") else first
    return TermSpan(name, low, TERM_NUMBERS if sign in (">", ">=") else after, edges)


def _check_fit(bounds: tuple[int, int] | None, kind: str | None, column: pa.DataType) -> None:
    """Leave terms that their column cannot hold to the reader of values."""
    if bounds is None or kind not in ("i64", "u64"):
        return
    signed = pa.types.is_signed_integer(column)
    least, most = (
        (-(1 << column.bit_width - 1), 1 << column.bit_width - 1)
        if signed
        else (0, 1 << column.bit_width)
    )
    if bounds[0] < term_number(least, kind) or bounds[1] >= term_number(most, kind):
        raise UnknownFormError("A term is no value of its column.")


def _is_sure(bound: Comparison | In) -> bool:
    """Return whether a text is a term wherever it is a value. Long texts may have been left out."""
    if isinstance(bound, In):
        values = bound.literals
    elif bound.operator == "=":
        values = (bound.literal,)
    else:
        values = ()
    texts = [value.value for value in values]
    return bool(texts) and all(
        isinstance(text, str) and len(text.encode()) <= _SURE_BYTES for text in texts
    )


def _sought(bound: Comparison | In, kind: str) -> list[bytes] | None:
    """Return the terms of a comparison if a value has exactly one term, or None."""
    expected = {"i64": int, "u64": int, "text": str}.get(kind)
    if expected is None or (isinstance(bound, Comparison) and bound.operator != "="):
        return None
    values = [
        literal.value for literal in (bound.literals if isinstance(bound, In) else (bound.literal,))
    ]
    if len(values) > _FEW_VALUES or not all(type(value) is expected for value in values):
        return None
    return [term for value in values if (term := term_of(value, kind)) is not None]


def _possible_moments(bound: Comparison | In, seconds: pa.Array, kind: pa.DataType) -> Mask:
    """Return which timestamp terms an unordered comparison can be true for."""
    terms = seconds.to_numpy() // _SECOND
    if not isinstance(bound, In):
        return np.ones(len(terms), np.bool_)
    spans = [
        _seconds(literal.value, kind)[0] for literal in bound.literals if literal.value is not None
    ]
    found: Mask = np.logical_or.reduce(
        [np.zeros(len(terms), np.bool_), *((terms >= a) & (terms < b) for a, b in spans)]
    )
    return found


@lru_cache(maxsize=64, typed=True)
def _seconds(value: Any, kind: pa.DataType) -> tuple[tuple[int, int], int]:
    """Return the seconds (end exclusive) whose terms do not decide how values compare to a
    timestamp or a day, and its number.

    Terms are truncated to whole seconds towards 1970, values to microseconds or days downwards.
    Before 1970 a value is therefore up to a second below its term, and the first term of a day may
    belong to the day before.
    """
    scalar = pa.scalar(value, kind)
    if pa.types.is_date32(kind):
        day = int(scalar.cast(pa.int32()).as_py())
        return (day * 86_400, (day + 1) * 86_400 + 1), day
    number = int(scalar.cast(pa.int64()).as_py())
    return (number // 1_000_000, number // 1_000_000 + 2), number


class ForeignReader:
    """A split of another engine. Its files are unpacked into a folder that is deleted with the
    reader.
    """

    indexed = False

    def __init__(
        self, source: SplitSource, schema: pa.Schema, bundle: Bundle, meta: BundleMeta
    ) -> None:
        self._source = source
        self._bundle = bundle
        self._files = ProvenFiles(source, bundle)
        self._table = BundleFields.of(meta).under(schema)
        self._sizes = [segment.max_doc for segment in meta.segments]
        self._stems = [segment.stem for segment in meta.segments]
        self.num_rows = sum(self._sizes)
        self.schema = self._table.schema
        self.incomplete: Mapping[str, IncompleteValues] = {}
        self.terms = ForeignTerms(
            self._table, self._files, self._sizes, self._stems, self._stored_values
        )
        self._closing: Callable[[], object] = _nothing
        self._values: dict[str, pa.Array | None] = {}
        self._stores: dict[int, DocumentStore] = {}

    @classmethod
    def open(cls, source: SplitSource, schema: pa.Schema) -> ForeignReader:
        """Open a bundle; `schema` is the table's without partition columns."""
        source = whole_if_small(source)
        bundle = read_directory(source)
        try:
            meta = decode_meta(proven_meta(source, bundle))
            if any(segment.deletes is not None for segment in meta.segments):
                raise UnsupportedError(
                    f"The foreign split {source.path} holds deleted documents.", path=source.path
                )
            return cls(source, schema, bundle, meta)
        except (
            *(OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError),
            msgspec.DecodeError,
        ) as e:
            raise BadFileError(
                f"The foreign split {source.path} cannot be read: {e}.", path=source.path
            ) from e

    @cached_property
    def _folder(self) -> Path:
        """Return the folder of the bundle's files for tantivy."""
        folder = scratch_folder("foreign", None)
        try:
            unbundle(self._source, self._bundle, folder)
        except (OSError, ValueError, LookupError, TypeError) as e:
            shutil.rmtree(folder, ignore_errors=True)
            raise BadFileError(
                f"The foreign split {self.path} cannot be read: {e}.", path=self.path
            ) from e
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
    def stored_rows(self) -> int:
        """Number of rows, because deletions are not recorded in the split."""
        return self.num_rows

    @property
    def stats(self) -> ReadStats:
        """Requests and bytes so far."""
        return self._source.stats

    @property
    def mapping(self) -> DocMapping:
        """How the other engine indexed the columns, as our mapping."""
        return self._table.mapping

    def read_rows(
        self, rows: Rows | Mask | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Read rows by number, by mask, or all."""
        fields = self._columns(columns)
        if not fields:
            return pa.table({"": pa.nulls(len(self._numbers(rows)))}).select([])
        batches = [self._batch(part, fields) for part in _parts(self._numbers(rows))]
        return pa.Table.from_batches(
            batches, self._table.part([field.name for field in fields]).schema
        )

    def iter_rows(
        self,
        rows: Rows | Mask | None = None,
        *,
        columns: Sequence[str] | None = None,
        codes: bool = False,  # noqa: ARG002
    ) -> Iterator[pa.RecordBatch]:
        """Read rows as a stream. Texts are not dictionary codes."""
        fields = self._columns(columns)
        for part in _parts(self._numbers(rows)):
            yield self._batch(part, fields)

    def may_match(self, bound: Predicate) -> Mask | None:
        """Return the rows for which a predicate can be true, by the values in the index."""
        return self.terms.may_match(bound)

    def decides(self, bound: Predicate) -> bool:
        """Return whether `may_match` is exact for a predicate."""
        return self.terms.decides(bound)

    def rows_with(self, column: str, terms: Sequence[str]) -> Mask | None:
        """Return the rows that can hold all of some terms of a column, or None if the index cannot
        answer.
        """
        return self.terms.rows_with(column, terms)

    def column_array(self, column: str, rows: Rows | None) -> ColumnArray | None:  # noqa: ARG002
        """Return None: columns of another engine's split are read as they are."""
        return None

    def group_bounds(self, column: str) -> tuple[Rows, ColumnRange] | None:  # noqa: ARG002
        """Return None: bounds of row ranges are not known."""
        return None

    def open_index(
        self, fields: Iterable[str], *, positions: bool = False, norms: bool = False
    ) -> SearcherView:
        """Raise an error: the term dictionary has another format."""
        wanted = {"fields": sorted(fields), "positions": positions, "norms": norms}
        message = (
            f"The split {self.path} was written by another engine; its index cannot be searched."
        )
        raise UnsupportedError(
            message, hint="Scan its rows, or MERGE SPLITS to rewrite it.", path=self.path, **wanted
        )

    def check_files(self) -> None:
        """Verify every file of the bundle by its checksum."""
        for name in self._bundle.files:
            if name.rpartition(".")[2] in COMPONENTS:
                self._files.proven(name)

    def close(self) -> None:
        """Delete the unpacked files."""
        self._closing()

    @cached_property
    def _searcher(self) -> tantivy.Searcher:
        with TantivyErrors(self.path, "Opening"):
            index = tantivy.Index.open(str(self._folder))
            index.config_reader("manual")
            searcher = index.searcher()
        if searcher.num_docs != self.num_rows:
            raise BadFileError(
                f"The split {self.path} has {searcher.num_docs} documents, not {self.num_rows}."
            )
        return searcher

    def _batch(self, rows: Rows, fields: Sequence[pa.Field]) -> pa.RecordBatch:
        known: dict[str, pa.Array] = {}
        if len(rows) * 4 >= self.num_rows and not self._needs_documents(fields):
            values = {f.name: self._from_terms(f, rows) for f in fields}
            known = {name: array for name, array in values.items() if array is not None}
        left = [f for f in fields if f.name not in known] if known else fields
        if left:
            try:
                batch = self._from_documents(rows, self._table.part([f.name for f in left]))
                if not known:
                    return batch
                known |= zip(batch.schema.names, batch.columns, strict=True)
            except UnknownFormError:
                known |= self._from_tantivy(rows, left)
        schema = self._table.part([field.name for field in fields]).schema
        return pa.RecordBatch.from_arrays([known[f.name] for f in fields], schema=schema)

    def _needs_documents(self, fields: Sequence[pa.Field]) -> bool:
        """Return whether documents are read anyway and hold all requested columns."""
        table = self._table
        has_all = all(field.name in table.plain for field in fields)
        return has_all and any(table.kinds[field.name] not in _EXACT_KINDS for field in fields)

    def _from_terms(self, field: pa.Field, rows: Rows) -> pa.Array | None:
        """Return a column from the terms of its values if every value is a term, for many rows."""
        if field.name not in self._values:
            try:
                self._values[field.name] = self.terms.column(field)
            except (UnknownFormError, pa.ArrowException):
                self._values[field.name] = None
        values = self._values[field.name]
        if values is None:
            return None
        return values.take(pa.array(rows))

    def _from_documents(self, rows: Rows, part: TablePart) -> pa.RecordBatch:
        """Return columns from the stored documents."""
        return part.batch(self._documents(rows, part), self.path)

    def _stored_values(self, rows: Rows, column: str) -> list[Any]:
        """Return a column from the stored documents in their stored form."""
        (values,) = self._documents(rows, self._table.part([column]))
        return values

    def _documents(self, rows: Rows, part: TablePart) -> list[list[Any]]:
        """Return columns of stored documents in the order of the rows."""
        form = part.form
        if form is None:
            raise UnknownFormError("Such a column is read by tantivy.")
        sought: list[int] = rows.tolist()
        order = None
        if not all(map(operator.le, sought, sought[1:])):
            order = sorted(range(len(sought)), key=sought.__getitem__)
            sought = [sought[at] for at in order]
        columns, done, first = form.columns(len(sought)), 0, 0
        for segment, size in enumerate(self._sizes):
            last = bisect_left(sought, first + size, done)
            if last > done:
                numbers = [number - first for number in sought[done:last]]
                try:
                    self._store(segment).read(numbers, form, columns, done)
                except BadFileError as failure:
                    message = f"The split {self.path} is damaged: {failure.message}"
                    raise BadFileError(message, path=self.path) from failure
            done, first = last, first + size
        columns.pop()
        if order is None:
            return columns
        return [_reorder(column, order) for column in columns]

    def _from_tantivy(self, rows: Rows, fields: Sequence[pa.Field]) -> dict[str, pa.Array]:
        """Return columns through tantivy, from documents or fast fields. Supports every kind, and
        is slow.
        """
        starts = np.cumsum([0, *self._sizes])
        searcher, fields_of = self._searcher, self._table.fields
        segments = np.searchsorted(starts, rows, side="right") - 1
        places = [
            tantivy.DocAddress(int(s), int(row - starts[s]))
            for row, s in zip(rows, segments, strict=True)
        ]
        stored = [f for f in fields if fields_of.option(f.name, "stored")]
        values: dict[str, list[Any]] = {}
        with TantivyErrors(self.path, "Reading documents"):
            if stored:
                documents = [searcher.doc(place).to_dict() for place in places]
            else:
                documents = []
            for field in fields:
                if field in stored:
                    values[field.name] = [
                        _first(document.get(field.name)) for document in documents
                    ]
                else:
                    values[field.name] = searcher.fast_field_values(field.name, places)
                if fields_of.entries[field.name]["type"] == ADDRESS:
                    values[field.name] = [plain_address(value) for value in values[field.name]]
        return {f.name: to_array(values[f.name], f, self.path) for f in fields}

    def _store(self, segment: int) -> DocumentStore:
        """Return the document store of a segment."""
        if segment not in self._stores:
            self._stores[segment] = DocumentStore(
                self._files.proven(f"{self._stems[segment]}.store")
            )
        return self._stores[segment]

    def _columns(self, columns: Sequence[str] | None) -> list[pa.Field]:
        known = self._table.columns
        names = list(known) if columns is None else columns
        unknown = [name for name in names if name not in known]
        if unknown:
            message = f"The split {self.path} has no column {', '.join(map(repr, unknown))}."
            raise InvalidInputError(
                message, hint=f"Its columns: {', '.join(known)}.", columns=unknown
            )
        for name in names:
            if name not in self._table.readable:
                message = f"The split {self.path} does not store column {name!r}; its values cannot be read back."
                raise UnsupportedError(message, path=self.path, column=name)
        return [known[name] for name in names]

    def _numbers(self, rows: Rows | Mask | None) -> Rows:
        if rows is None:
            found = np.arange(self.num_rows)
        else:
            found = np.asarray(rows)
        if found.dtype == np.bool_:
            found = np.flatnonzero(found)
        numbers: Rows = found.astype(np.int64)
        if (numbers.view(np.uint64) >= self.num_rows).any():  # a number below 0 is a very large one
            raise InvalidInputError(f"Row numbers outside the {self.num_rows} rows of {self.path}.")
        return numbers


def _nothing() -> None:
    """Do nothing, for readers that have not unpacked files."""


def _reorder(values: Sequence[Any], order: Sequence[int]) -> list[Any]:
    """Return values at the positions that `order` lists."""
    found: list[Any] = [None] * len(values)
    for place, value in zip(order, values, strict=True):
        found[place] = value
    return found


def _parts(rows: Rows) -> Iterator[Rows]:
    for start in range(0, len(rows), _BATCH_ROWS):
        yield rows[start : start + _BATCH_ROWS]


def _first(values: list[Any] | None) -> Any:
    if values:
        return values[0]
    return None
