"""A whole tree as one tantivy query, where every leaf of it is answered exactly; and what the index must have ready."""

from __future__ import annotations

from collections.abc import Callable

import tantivy

from indextables.splits.mapping import ColumnMapping, DocMapping
from indextables.splits.query import terms
from indextables.splits.query.translate import Answer, is_indexed_as_asked
from indextables.splits.query.tree import AllRows, Bool, Boost, Leaf, OneOf, Query, Words, leaves

Ask = Callable[[Leaf], Answer | None]


def whole_query(query: Query, ask: Ask) -> tantivy.Query | None:
    """The tantivy query of a tree, or None if the rows must be asked for some leaf."""
    if isinstance(query, AllRows):
        return tantivy.Query.all_query()
    if isinstance(query, Boost):
        below = whole_query(query.query, ask)
        return None if below is None else tantivy.Query.boost_query(below, query.factor)
    if isinstance(query, Bool):
        return _whole_bool(query, ask)
    found = ask(query)  # type: ignore[arg-type]
    return found.query if found is not None and found.exact else None


def _whole_bool(query: Bool, ask: Ask) -> tantivy.Query | None:
    clauses: list[tuple[tantivy.Occur, tantivy.Query]] = []
    if not query.must and not query.should:
        # Tantivy finds nothing for negations alone. Every row is the start, and adds nothing to a score.
        everything = tantivy.Query.const_score_query(tantivy.Query.all_query(), 0.0)
        clauses.append((tantivy.Occur.Must, everything))
    parts = (
        (tantivy.Occur.Must, query.must),
        (tantivy.Occur.Should, query.should),
        (tantivy.Occur.MustNot, query.must_not),
    )
    for occur, queries in parts:
        for below in queries:
            found = whole_query(below, ask)
            if found is None:
                return None
            clauses.append((occur, found))
    return tantivy.Query.boolean_query(clauses)


def index_needs(query: Query, mapping: DocMapping) -> tuple[tuple[str, ...], bool]:
    """The tantivy fields a query looks into, and whether it needs the places of words."""
    fields: list[str] = []
    positions = False
    for leaf in leaves(query):
        column = mapping.find(leaf.target.column)
        if column is not None and is_indexed_as_asked(leaf, column):
            fields.append(column.field)
            positions |= _needs_positions(leaf, column)
    return tuple(dict.fromkeys(fields)), positions


def needs_norms(query: Query, mapping: DocMapping) -> bool:
    """Whether the length of texts has a part in a query's scores: whole values are all one term long."""
    columns = [mapping.find(leaf.target.column) for leaf in leaves(query) if isinstance(leaf, Words)]
    return any(column is not None and column.kind in ("text", "json") for column in columns)


def _needs_positions(leaf: Leaf, column: ColumnMapping) -> bool:
    if isinstance(leaf, OneOf):
        return any(_needs_positions(item, column) for item in leaf.items)
    return isinstance(leaf, Words) and column.record == "position" and len(terms.words_of(column, leaf.text)) > 1
