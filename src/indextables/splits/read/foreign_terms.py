"""What the terms of another engine's splits say of their rows, without a document being read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.model.predicate import And, Comparison, In, Or, Predicate, evaluate
from indextables.splits.read.bundle_files import FieldTerms, ProvenFiles, SegmentTerms, UnknownFormError, term_of
from indextables.splits.read.foreign_columns import ForeignColumns
from indextables.splits.read.searchable import Mask

_SURE_BYTES = 39
"""Words of at most so many bytes are terms whatever the limit of the tokenizer was."""
_SURE_TOKENIZERS = ("raw", "default", "en_stem", "whitespace")
"""Those that make the same words here and there."""
EXACT_KINDS = ("i64", "u64", "f64", "bool", "text")
"""Kinds of terms that keep all of a value; moments are cut to seconds."""
_FEW_VALUES = 8
"""So many values are looked up by their terms, one by one; more are compared with all terms at once."""

_ORDERS = {"=": np.equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


class ForeignTerms:
    """The terms of a bundle, and what they say of its rows."""

    def __init__(self, columns: ForeignColumns, files: ProvenFiles, sizes: Sequence[int], stems: Sequence[str]) -> None:
        self._columns = columns
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
        """Rows that a predicate can be true for, by the values that are terms of the index."""
        try:
            return self._possible(bound)
        except (UnknownFormError, pa.ArrowException, OverflowError):
            return None

    def decides(self, bound: Predicate) -> bool:
        """Whether `may_match` knows the rows that a predicate is true for, and not only those it can be true for."""
        if isinstance(bound, (And, Or)):
            return all(self.decides(below) for below in bound.children)
        kind = self._asked_kind(bound)
        return kind is not None and kind != "date"

    def rows_with(self, column: str, terms: Sequence[str]) -> Mask | None:
        """Rows that can hold all of some terms of a column; None if the index cannot tell."""
        entry = self._columns.fields.entries.get(column)
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
        kind = self._columns.kinds[field.name]
        if kind not in EXACT_KINDS:
            return None
        place, values, start = np.full(self.num_rows, -1, np.int64), [], 0
        for terms, distinct, first in self._distinct(field.name):
            rows, numbers = terms.all_rows()
            place[first + rows] = start + numbers
            values.append(distinct)
            start += len(distinct)
        if kind == "text" and (place < 0).any():
            return None  # null, or a value that is too long for a term
        joined = pa.concat_arrays(values) if values else pa.nulls(0, field.type)
        return pc.cast(joined, field.type, safe=kind != "f64").take(pa.array(place, mask=place < 0))

    def _distinct(self, column: str) -> Iterator[tuple[FieldTerms, pa.Array, int]]:
        """The terms of a column in each segment, the values that they are, and the segment's first row."""
        fields, first = self._columns.fields, 0
        number, kind = fields.numbers[column], str(fields.entries[column]["type"])
        for segment, size in zip(self._terms, self._sizes, strict=True):
            terms = segment.of(number)
            if terms is not None:
                yield terms, terms.values(kind), first
            first += size

    def _with_term(self, column: str, term: bytes) -> Mask:
        """Rows that hold a term of a column."""
        found, number, first = np.zeros(self.num_rows, np.bool_), self._columns.fields.numbers[column], 0
        for segment, size in zip(self._terms, self._sizes, strict=True):
            terms = segment.of(number)
            place = terms.places.get(term) if terms is not None else None
            if terms is not None and place is not None:
                found[first + terms.rows(place)] = True
            first += size
        return found

    def _possible(self, bound: Predicate) -> Mask | None:
        if isinstance(bound, (And, Or)):
            known = [self._possible(below) for below in bound.children]
            masks = [mask for mask in known if mask is not None]
            if not masks or (isinstance(bound, Or) and len(masks) < len(known)):
                return None
            joined: Mask = (np.logical_and if isinstance(bound, And) else np.logical_or).reduce(masks)
            return joined
        kind = self._asked_kind(bound)
        if kind is None or not isinstance(bound, (Comparison, In)):
            return None
        return self._where_values(bound, self._columns.columns[bound.column.name], kind)

    def _asked_kind(self, bound: Predicate) -> str | None:
        """The kind of the terms that answer a comparison; None for one that they cannot answer."""
        if not isinstance(bound, (Comparison, In)) or len(bound.column.path) != 1:
            return None
        if isinstance(bound, Comparison) and bound.operator == "<=>":
            return None  # true for nulls, which are no terms
        field = self._columns.columns.get(bound.column.name)
        if field is None or field.type != bound.column.type:
            return None
        kind = self._columns.kinds[field.name]
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
            elif kind == "i64" and isinstance(bound, Comparison) and _is_ordered(bound):
                chosen = _ORDERS[bound.operator](distinct.to_numpy(), bound.literal.value)
            else:
                values = pa.table({field.name: pc.cast(distinct, field.type, safe=kind != "f64")})
                chosen = evaluate(bound, values).fill_null(False).to_numpy(zero_copy_only=False)
            if np.any(chosen):
                rows, numbers = terms.all_rows()
                found[first + rows[chosen[numbers]]] = True
        return found


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


def _is_ordered(bound: Comparison) -> bool:
    """Whether a comparison is one of order or equality with a number that a field of whole numbers can hold."""
    value = bound.literal.value
    return bound.operator in _ORDERS and type(value) is int and -(1 << 63) <= value < 1 << 63


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
