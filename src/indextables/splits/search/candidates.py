"""Which splits of a table can hold a match, by the term filters of the splits that this process has
opened before.

The filters of splits with the same mapping and filter size are the rows of a matrix, so that a term
is looked up in all of them at once. A split without a filter, or one that was never opened, may
always hold a match.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.model.predicate import Predicate
from indextables.splits.format.term_filter import TermFilter, bit_positions, hash_terms
from indextables.splits.index.mapping import EXACT_VALUE, DocMapping
from indextables.splits.index.values import is_encodable, whole_term
from indextables.splits.query.to_tantivy import scored_terms
from indextables.splits.query.tree import Bool, Boost, Equals, OneOf, Query, Words
from indextables.splits.read.cache import SplitCache, memory_bound
from indextables.splits.search.prepared import prepare_condition, prepare_query

Mask = npt.NDArray[np.bool_]
_FIRST_ROWS = 64


class _FilterGroup:
    """The filters of the splits with one mapping and one filter size."""

    def __init__(self, mapping: DocMapping, fields: tuple[str, ...], size: int) -> None:
        self.mapping = mapping
        self.fields = frozenset(fields)
        self.size = size
        self.count = 0
        self.matrix = np.empty((_FIRST_ROWS, size), np.uint8)

    def add(self, bits: npt.NDArray[np.uint8]) -> int:
        """Add a filter; return its row."""
        if self.count == len(self.matrix):
            larger = np.empty((2 * self.count, self.size), np.uint8)
            larger[: self.count] = self.matrix
            self.matrix = larger
        self.matrix[self.count] = bits
        self.count += 1
        return self.count - 1

    def probe(self, rows: npt.NDArray[np.int64], field: str, text: str) -> Mask:
        """Return which of some rows may hold a term."""
        found = np.ones(len(rows), np.bool_)
        if field in self.fields and is_encodable(text):
            for bit in bit_positions(hash_terms(field, [text]), 8 * self.size)[0].tolist():
                found &= (self.matrix[rows, bit >> 3] >> (bit & 7) & 1).astype(np.bool_)
        return found


_Test = Callable[[_FilterGroup, npt.NDArray[np.int64]], Mask]


class TermFilters:
    """The term filters of opened splits, within a bound on memory."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._groups: dict[tuple[int, tuple[str, ...], int], _FilterGroup] = {}
        self._rows: dict[str, dict[str, tuple[_FilterGroup, int]]] = {}
        self._lock = threading.Lock()

    def add(self, store_url: str, path: str, mapping: DocMapping, term_filter: TermFilter) -> None:
        """Add the filter of a split, unless it is known or there is no memory for it."""
        rows = self._rows.setdefault(store_url, {})
        if path in rows or self._bytes >= self._max_bytes:
            return
        with self._lock:
            key = id(mapping), term_filter.fields, len(term_filter.bits)
            group = self._groups.get(key)
            if group is None:  # which holds the mapping, so that no other object has its identity
                group = self._groups[key] = _FilterGroup(
                    mapping, term_filter.fields, len(term_filter.bits)
                )
            rows[path] = group, group.add(term_filter.bits)
            self._bytes += len(term_filter.bits)

    def clear(self) -> None:
        """Remove all filters."""
        with self._lock:
            self._groups, self._rows, self._bytes = {}, {}, 0

    def find_candidates(
        self,
        store_url: str,
        paths: Sequence[str],
        query: Query | None,
        where: Predicate | None,
        schema: pa.Schema,
    ) -> Mask:
        """Return which splits may hold a row that matches a query and a condition."""

        def test(group: _FilterGroup, rows: npt.NDArray[np.int64]) -> Mask:
            if query is None:
                found = np.ones(len(rows), np.bool_)
            else:
                found = _may_match(group, rows, query)
            if where is None:
                condition = None
            else:
                condition = prepare_condition(where, group.mapping, schema).parts.query
            if condition is None:
                return found
            return found & _may_match(group, rows, condition)

        return self._test(store_url, paths, test)

    def find_holders(self, store_url: str, paths: Sequence[str], query: Query) -> Mask:
        """Return which splits may hold any of the terms by which a query is scored."""

        def test(group: _FilterGroup, rows: npt.NDArray[np.int64]) -> Mask:
            found = np.zeros(len(rows), np.bool_)
            for key, field in prepare_query(query, group.mapping).fields:
                found |= group.probe(rows, field, key.text)
            return found

        return self._test(store_url, paths, test)

    def _test(self, store_url: str, paths: Sequence[str], test: _Test) -> Mask:
        found = np.ones(len(paths), np.bool_)
        known = self._rows.get(store_url)
        if not known:
            return found
        by_group: dict[_FilterGroup, tuple[list[int], list[int]]] = {}
        for number, path in enumerate(paths):
            entry = known.get(path)
            if entry is not None:
                numbers, rows = by_group.setdefault(entry[0], ([], []))
                numbers.append(number)
                rows.append(entry[1])
        for group, (numbers, rows) in by_group.items():
            found[numbers] = test(group, np.array(rows, np.int64))
        return found


def _may_match(group: _FilterGroup, rows: npt.NDArray[np.int64], query: Query) -> Mask:
    """Return which of some rows may match a query: true wherever the filter does not exclude it."""
    everything = np.ones(len(rows), np.bool_)
    if isinstance(query, Boost):
        return _may_match(group, rows, query.query)
    if isinstance(query, Bool):
        for below in query.must:
            everything &= _may_match(group, rows, below)
        if query.needed:
            matched = np.zeros(len(rows), np.int32)
            for below in query.should:
                matched += _may_match(group, rows, below)
            everything &= matched >= query.needed
        return everything
    if isinstance(query, OneOf):
        any_item = np.zeros(len(rows), np.bool_)
        for item in query.items:
            any_item |= _may_match(group, rows, item)
        return any_item
    for field, text in _needed_terms(query, group.mapping):
        everything &= group.probe(rows, field, text)
    return everything


def _needed_terms(leaf: Query, mapping: DocMapping) -> list[tuple[str, str]]:
    """Return the fields and texts of terms that every matching row holds; none where that is not
    known.
    """
    if not isinstance(leaf, Words | Equals):
        return []
    column = mapping.find(leaf.target.column)
    if column is None or column.is_unindexed_here or leaf.target.path:
        return []
    if isinstance(leaf, Words):
        if column.kind not in ("text", "string"):
            return []
        return [(column.field, key.text) for key in scored_terms(leaf, column)]
    whole = column.whole
    if whole is None or column.exact != EXACT_VALUE or not isinstance(leaf.value, str):
        return []
    term = whole_term(leaf.value, whole)
    if isinstance(term, str):
        return [(whole.field, term)]
    return []


_NAME = "term filters"


def term_filters(cache: SplitCache) -> TermFilters:
    """Return the term filters of the splits that were opened with a cache."""
    known = cache.derived.get(_NAME)
    if not isinstance(known, TermFilters):
        known = cache.derived.setdefault(_NAME, TermFilters(memory_bound()))
    return known
