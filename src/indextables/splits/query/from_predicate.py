"""Convert conditions to queries, so that an index answers equality and IN.

A condition is split into a query and a rest. A row fulfils the condition if it matches the query
and fulfils the rest. The rest repeats what the index holds only in part: addresses, which have
several spellings, words at paths, letters of any case.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from msgspec import Struct

from indextables.model.predicate import And, Column, Comparison, Constant, In, Or, Predicate
from indextables.splits.index.mapping import (
    EXACT_VALUE,
    WHOLE_TOKENIZERS,
    ColumnMapping,
    DocMapping,
)
from indextables.splits.index.values import (
    MAX_PATH_BYTES,
    has_long_term,
    is_encodable,
    parse_address,
    whole_term,
)
from indextables.splits.query import terms
from indextables.splits.query.terms import FULL_MASK
from indextables.splits.query.tree import Addresses, Bool, Equals, OneOf, Query, Target, Words

_Item = Words | Equals | Addresses
_REPLACED = "\ufffd"
_LONGEST_LIST = 10_000


class IndexedCondition(Struct, frozen=True):
    """A condition for the splits with one mapping: what the index answers, and what rows must
    fulfil besides.
    """

    query: Query | None
    rest: Predicate | None


class _Part(Struct, frozen=True):
    query: Query
    exact: bool


def split_condition(where: Predicate, mapping: DocMapping, schema: pa.Schema) -> IndexedCondition:
    """Return the query and the rest of a bound condition; `schema` has the columns of the rows."""
    children = where.children if isinstance(where, And) else (where,)
    parts = [(child, _convert(child, mapping, schema)) for child in children]
    queries = tuple(part.query for _, part in parts if part is not None)
    rest = tuple(child for child, part in parts if part is None or not part.exact)
    if not queries:
        return IndexedCondition(None, where)
    return IndexedCondition(_join_all(queries), _join_rest(rest))


def _join_all(queries: tuple[Query, ...]) -> Query:
    if len(queries) == 1:
        return queries[0]
    return Bool(must=queries)


def _join_rest(rest: tuple[Predicate, ...]) -> Predicate | None:
    if not rest:
        return None
    if len(rest) == 1:
        return rest[0]
    return And(rest)


def _convert(where: Predicate, mapping: DocMapping, schema: pa.Schema) -> _Part | None:
    """Return a query that every row matches for which the condition is true."""
    if isinstance(where, And | Or):
        children = where.children
        if isinstance(where, Or):
            children = tuple(child for child in children if not _is_never_true(child))
        parts = [_convert(child, mapping, schema) for child in children]
        known = [part for part in parts if part is not None]
        complete = len(known) == len(parts)
        if not known or (isinstance(where, Or) and not complete):
            return None
        queries = tuple(part.query for part in known)
        exact = complete and all(part.exact for part in known)
        if isinstance(where, And):
            return _Part(_join_all(queries), exact)
        return _Part(Bool(should=queries), exact)
    if isinstance(where, Comparison) and where.operator in ("=", "<=>"):
        return _convert_values(where.column, [where.literal.value], mapping, schema)
    if isinstance(where, In):
        values = [literal.value for literal in where.literals if literal.value is not None]
        if values:
            return _convert_values(where.column, values, mapping, schema)
        return None
    return None


def _is_never_true(where: Predicate) -> bool:
    if isinstance(where, Comparison):
        return where.literal.value is None and where.operator != "<=>"
    return isinstance(where, Constant) and where.value is not True


def _convert_values(
    column: Column, values: Sequence[object], mapping: DocMapping, schema: pa.Schema
) -> _Part | None:
    indexed = mapping.find(column.path[0])
    if indexed is None or indexed.is_unindexed_here or len(values) > _LONGEST_LIST:
        return None
    target = Target(indexed.name, tuple(column.path[1:]))
    items: list[_Item] = []
    for value in values:
        if not isinstance(value, str) or not is_encodable(value):
            return None
        item = _convert_value(value, target, indexed, schema)
        if item is None:
            return None
        items.append(item)
    query = items[0] if len(items) == 1 else OneOf(target, tuple(items))
    raw = indexed.kind == "string" and indexed.tokenizer == "raw"
    return _Part(query, raw or (isinstance(items[0], Equals) and indexed.exact == EXACT_VALUE))


def _convert_value(
    value: str, target: Target, indexed: ColumnMapping, schema: pa.Schema
) -> _Item | None:
    if indexed.kind == "json":
        return _convert_path(value, target, indexed, schema)
    if target.path or not value:
        return None
    if indexed.kind == "ip":
        address = parse_address(value)
        if address is None:
            return None
        return Addresses(target, int(address), FULL_MASK, value)
    if indexed.kind == "string":
        is_whole = indexed.tokenizer in WHOLE_TOKENIZERS and not has_long_term(value, indexed)
        if is_whole:
            return Words(target, value, quoted=True)
        return None
    whole = indexed.whole
    if whole is None or whole_term(value, whole) is None:
        return None
    return Equals(target, value)


def _convert_path(
    value: str, target: Target, indexed: ColumnMapping, schema: pa.Schema
) -> Words | None:
    """Return the phrase of a text at a path; None for a path that may not be in the index."""
    joined = "".join(target.path)
    if not joined or _REPLACED in joined or len(joined.encode()) > MAX_PATH_BYTES:
        return None
    kind = schema.field(indexed.name).type
    for key in target.path:
        # Of equal keys of a map the index has the last one only.
        if not pa.types.is_struct(kind) or kind.get_field_index(key) < 0:
            return None
        kind = kind.field(key).type
    if (
        not pa.types.is_string(kind)
        or has_long_term(value, indexed)
        or not terms.words_of(indexed, value)
    ):
        return None
    return Words(target, value, quoted=True)
