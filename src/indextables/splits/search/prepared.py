"""What a query needs of every split with the same mapping, computed once and kept for all splits of
a table.
"""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa
from msgspec import Struct

from indextables.model.predicate import Predicate
from indextables.splits.index.mapping import DocMapping
from indextables.splits.query.from_predicate import IndexedCondition, split_condition
from indextables.splits.query.to_tantivy import (
    TermKey,
    field_name,
    index_needs,
    needs_norms,
    scored_terms,
)
from indextables.splits.query.tree import Query, Words, all_of, leaves

_LONGEST_NAME = 4_000
_MAX_PREPARED = 512


class PreparedQuery(Struct, frozen=True, dict=True):
    """A query for the splits with one mapping."""

    query: Query
    mapping: DocMapping

    @cached_property
    def needs(self) -> tuple[tuple[str, ...], bool]:
        """The index fields that the query searches, and whether it needs positions."""
        return index_needs(self.query, self.mapping)

    @cached_property
    def needs_norms(self) -> bool:
        """Whether scores depend on the length of texts."""
        return needs_norms(self.query, self.mapping)

    @cached_property
    def name(self) -> str | None:
        """Everything that the query says, under which its answers are remembered; None where that
        is very long.

        The query itself would not do: to Python, 1 and true are equal.
        """
        text = repr(self.query)
        if len(text) <= _LONGEST_NAME:
            return text
        return None

    @cached_property
    def leaf_keys(self) -> dict[Words, tuple[TermKey, ...]]:
        """The scored terms of each word or phrase in a column with a term dictionary."""
        found = {}
        for leaf in leaves(self.query):
            column = self.mapping.find(leaf.target.column)
            if isinstance(leaf, Words) and column is not None and column.kind in ("text", "string"):
                found[leaf] = scored_terms(leaf, column)
        return found

    @cached_property
    def keys(self) -> tuple[TermKey, ...]:
        """The terms by whose document frequency splits score the query."""
        found: dict[TermKey, None] = {}
        for leaf in leaves(self.query):
            column = self.mapping.find(leaf.target.column)
            if column is not None:
                found |= dict.fromkeys(scored_terms(leaf, column))
        return tuple(found)

    @cached_property
    def fields(self) -> tuple[tuple[TermKey, str], ...]:
        """The scored terms, each with the index field that holds it."""
        columns = {key: self.mapping.find(key.target.column) for key in self.keys}
        return tuple(
            (key, field_name(column, key.target))
            for key, column in columns.items()
            if column is not None
        )

    @cached_property
    def scored_columns(self) -> tuple[str, ...]:
        """The index fields of the columns of all scored terms."""
        columns = (self.mapping.find(key.target.column) for key in self.keys)
        return tuple(dict.fromkeys(column.field for column in columns if column is not None))


class PreparedCondition(Struct, frozen=True, dict=True):
    """A condition for the splits with one mapping and one schema."""

    where: Predicate
    mapping: DocMapping
    schema: pa.Schema

    @cached_property
    def parts(self) -> IndexedCondition:
        """The query that the index answers, and the rest."""
        return split_condition(self.where, self.mapping, self.schema)

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The index fields of the query."""
        query = self.parts.query
        if query is None:
            return ()
        return index_needs(query, self.mapping)[0]

    @cached_property
    def positions(self) -> bool:
        """Whether the query has phrases."""
        query = self.parts.query
        return query is not None and index_needs(query, self.mapping)[1]

    def join(self, query: Query, condition: Query) -> Query:
        """Return the query for rows that match two queries, the same object for the same objects."""
        key = id(query), id(condition)
        known = self._conjunctions.get(key)
        if known is None or known[0] is not query or known[1] is not condition:
            if len(self._conjunctions) >= _MAX_PREPARED:
                self._conjunctions.clear()
            known = self._conjunctions[key] = query, condition, all_of((query, condition))
        return known[2]

    @cached_property
    def _conjunctions(self) -> dict[tuple[int, int], tuple[Query, Query, Query]]:
        return {}


_CONDITIONS: dict[tuple[int, int, int], PreparedCondition] = {}


def prepare_condition(
    where: Predicate, mapping: DocMapping, schema: pa.Schema
) -> PreparedCondition:
    """Return the prepared form of a condition; the same object for the same objects."""
    key = id(where), id(mapping), id(schema)
    known = _CONDITIONS.get(key)
    if (
        known is not None
        and known.where is where
        and known.mapping is mapping
        and known.schema is schema
    ):
        return known
    if len(_CONDITIONS) >= _MAX_PREPARED:
        _CONDITIONS.clear()
    prepared = _CONDITIONS[key] = PreparedCondition(where, mapping, schema)
    return prepared


_PREPARED: dict[tuple[int, int], PreparedQuery] = {}


def prepare_query(query: Query, mapping: DocMapping) -> PreparedQuery:
    """Return the prepared form of a query; the same object for the same query and mapping objects."""
    key = id(query), id(mapping)
    known = _PREPARED.get(key)
    # The prepared query holds both objects, so that no other object has their identity.
    if known is not None and known.query is query and known.mapping is mapping:
        return known
    if len(_PREPARED) >= _MAX_PREPARED:
        _PREPARED.clear()
    prepared = _PREPARED[key] = PreparedQuery(query, mapping)
    return prepared
