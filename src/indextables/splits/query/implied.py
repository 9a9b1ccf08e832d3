"""What a query implies about whole values: a predicate that is true for every row it matches.

Splits and row groups whose bounds rule the predicate out need not be opened. It says less than the query, never more.
"""

from __future__ import annotations

from indextables.model.predicate import Column, Comparison, In, Literal, Predicate, TextMatch, all_of, any_of
from indextables.splits.mapping import DocMapping
from indextables.splits.query.terms import parse_pattern
from indextables.splits.query.tree import AllRows, Bool, Boost, Exists, Leaf, OneOf, Query, Range, Wildcard, Words
from indextables.splits.query.typed import to_predicate


def implied_predicate(query: Query, mapping: DocMapping) -> Predicate | None:
    """The predicate (not yet bound) that matching rows fulfil; None if nothing is implied.

    Negations imply nothing here: a row that holds null matches `-n:5`, and no comparison is true for it.
    """
    if isinstance(query, Boost):
        return implied_predicate(query.query, mapping)
    if isinstance(query, Bool):
        return _implied_by_all(query, mapping) if query.must else _implied_by_any(query, mapping)
    return None if isinstance(query, AllRows) else _implied_by_leaf(query, mapping)  # type: ignore[arg-type]


def _implied_by_all(query: Bool, mapping: DocMapping) -> Predicate | None:
    found = [p for below in query.must if (p := implied_predicate(below, mapping)) is not None]
    return all_of(found) if found else None


def _implied_by_any(query: Bool, mapping: DocMapping) -> Predicate | None:
    found = [implied_predicate(below, mapping) for below in query.should]
    known = [p for p in found if p is not None]
    return any_of(known) if known and len(known) == len(found) else None


def _implied_by_leaf(leaf: Leaf, mapping: DocMapping) -> Predicate | None:
    column, found = Column((leaf.target.column,)), mapping.find(leaf.target.column)
    kind = "none" if found is None else found.kind
    if kind == "none" or (isinstance(leaf, Exists | Range) and kind in ("string", "text")):
        return to_predicate(leaf)
    if kind != "string" or found is None or found.tokenizer != "raw":
        return None
    if isinstance(leaf, Words):
        return Comparison("=", column, Literal(leaf.text))
    if isinstance(leaf, OneOf):
        return In(column, tuple(Literal(item.text) for item in leaf.items if isinstance(item, Words)))
    if isinstance(leaf, Wildcard):
        first = parse_pattern(leaf.pattern)[0]
        return TextMatch("starts_with", column, first) if isinstance(first, str) else None
    return None
