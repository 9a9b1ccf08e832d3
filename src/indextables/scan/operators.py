"""Search operators of SQL as a query: each is a query over its own column, and all of them must match."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from indextables.model.schema import find_column
from indextables.splits.query.fields import QueryFields, check_fieldmatch, check_textsearch
from indextables.splits.query.parser import parse
from indextables.splits.query.tree import Query, all_of

_CHECKS = {"textsearch": check_textsearch, "fieldmatch": check_fieldmatch}


class SearchOperator(Struct, frozen=True):
    """`column TEXTSEARCH 'text'`, by the function it stands for; without a column the text is searched everywhere."""

    function: str
    column: str | None
    text: str


def searched(operators: Sequence[SearchOperator], query: str | None, fields: QueryFields) -> Query | None:
    """The query that rows must match for all operators, and for a query beside them; None if there is neither."""
    found = [] if query is None else [parse(query, fields)]
    found += [_query(operator, fields) for operator in operators]
    return all_of(tuple(found)) if found else None


def _query(operator: SearchOperator, fields: QueryFields) -> Query:
    if operator.column is None:
        return parse(operator.text, fields)
    column = find_column(fields.schema, operator.column)
    check = _CHECKS.get(operator.function)
    if check is not None:
        check(fields, column)
    return parse(operator.text, fields.within(column))
