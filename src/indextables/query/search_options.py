"""What a search returns: a new option is one field of `SearchOptions` and its use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import InvalidInputError
from indextables.handle import TableHandle
from indextables.model.arguments import names_list, text, whole_number
from indextables.model.predicate import Where
from indextables.model.schema import SCORE
from indextables.query import explain
from indextables.query.plan import plan_scan, query_fields
from indextables.query.search import TableSearch
from indextables.query.task import ScanTask
from indextables.query.vector_search import (
    Fusion,
    Hybrid,
    QueryVector,
    parse_vector,
    search_hybrid,
)
from indextables.splits.query.tree import AllRows, Query, Target
from indextables.splits.search.order import OrderBy
from indextables.splits.search.snippets import Highlight, Snippet

if TYPE_CHECKING:
    from indextables.query.explain import ScanReport


class SearchOptions(Struct, frozen=True, kw_only=True):
    """What a search returns, in which order, and how much of it. The fields are arguments of
    `Table.search`.
    """

    columns: Sequence[str] | None = None
    limit: int | None = None
    offset: int = 0
    score: bool = False
    snippet: str | None = None
    order_by: str | Sequence[str] | None = None
    search_after: str | None = None
    highlight: str | Sequence[str] | Mapping[str, Any] | None = None
    explain: bool = False
    vector: QueryVector | None = None
    hybrid: Hybrid | None = None


class ExplainedRows(Struct, frozen=True):
    """The rows of a search, and the report of what it pruned, opened and read."""

    rows: pa.Table
    report: ScanReport


def plan_search(
    table: TableHandle,
    query: str | None,
    options: SearchOptions,
    *,
    where: Where | None = None,
    paged: bool = False,
    now_ms: int | None = None,
) -> TableSearch:
    """Plan a search. `paged` orders it so that it can continue after any row; `now_ms` is the
    clock.
    """
    if query is not None:
        parsed: str | Query = text("query", query)
    elif options.vector is not None:
        parsed = AllRows()
    else:
        raise InvalidInputError(
            "A search needs a query or a vector.", hint='Write "*" to find every row.'
        )
    orders = () if options.order_by is None else parse_order(table, options.order_by)
    first = orders[0] if orders else None
    plan = plan_scan(
        table,
        query=parsed,
        where=where,
        columns=options.columns,
        order_by=first.column if first is not None and first.is_plain else None,
        now_ms=now_ms,
    )
    return TableSearch.of(
        plan,
        limit=None if options.limit is None else whole_number("limit", options.limit),
        offset=whole_number("offset", options.offset),
        score=options.score,
        snippet=None if options.snippet is None else Snippet(text("snippet", options.snippet)),
        order_by=orders,
        paged=paged,
        highlight=None if options.highlight is None else Highlight.parse(options.highlight),
        nearest=None if options.vector is None else parse_vector(table, options.vector),
    )


def search(
    table: TableHandle, query: str | None, options: SearchOptions, *, where: Where | None = None
) -> pa.Table | ExplainedRows:
    """Return the rows that match, with a report if the options ask for one."""
    _check_vector_options(query, options)
    if options.hybrid is not None:
        return _search_hybrid(table, query, options, where)
    planned = plan_search(table, query, options, where=where)
    if options.explain:
        return ExplainedRows(*explain.explain_search(planned, table.log.store))
    return planned.run(table.log.store)


def _check_vector_options(query: str | None, options: SearchOptions) -> None:
    """Refuse options that do not fit a search by a vector."""
    if options.vector is None:
        if options.hybrid is not None:
            raise InvalidInputError(
                "hybrid needs a vector.", hint='Write vector={"embedding": [0.1, 0.2]}.'
            )
        return
    if options.limit is None:
        raise InvalidInputError("A search by a vector needs a limit.", hint="Write limit=10.")
    excluded = {"order_by": options.order_by, "score": options.score}
    taken = next((name for name, value in excluded.items() if value), None)
    if taken is not None:
        raise InvalidInputError(
            f"A search by a vector is ordered by distance and takes no {taken}.",
            hint=f"Leave {taken} out.",
        )
    if options.hybrid is not None and query is None:
        raise InvalidInputError("hybrid needs a query and a vector.", hint="Pass a query.")
    if options.hybrid is not None and options.explain:
        raise InvalidInputError(
            "explain=True takes no hybrid.", hint="Explain the query and the vector alone."
        )


def _search_hybrid(
    table: TableHandle, query: str | None, options: SearchOptions, where: Where | None
) -> pa.Table:
    fusion = Fusion.parse(options.hybrid)
    now_ms = table.log.now_ms()
    words = replace(options, vector=None, hybrid=None)
    vector = replace(options, snippet=None, highlight=None)
    by_words = plan_search(table, query, words, where=where, now_ms=now_ms)
    by_vector = plan_search(table, None, vector, where=where, now_ms=now_ms)
    task = ScanTask(by_vector.plan, table.log.store)
    return search_hybrid(by_words, by_vector, fusion, task)


def parse_order(table: TableHandle, order_by: str | Sequence[str]) -> tuple[OrderBy, ...]:
    """Parse names of columns, paths in them and `_score`, each with asc, desc or a minus.

    The order by descending score alone is what a search with a limit has anyway: the result is
    empty then.
    """
    names = table.names.logical.names
    if isinstance(order_by, list | tuple):
        parts = names_list("order_by", order_by)
    else:
        order_by = text("order_by", order_by)
        if order_by in names:
            parts = (order_by,)
        else:
            parts = tuple(part.strip() for part in order_by.split(","))
    if len(parts) == 1 and parts[0] in names:
        return (OrderBy(parts[0]),)

    def resolve(path: tuple[str, ...]) -> Target | None:
        return query_fields(table).resolve(path)

    orders = tuple(OrderBy.parse(part, names, resolve) for part in parts)
    keys = [(order.column, order.path) for order in orders]
    for position, (column, path) in enumerate(keys):
        if (column, path) in keys[:position]:
            name = ".".join((column, *path))
            message = f"Rows are to be ordered by {name!r} more than once."
            raise InvalidInputError(message, hint="Name each column once.")
    if orders == (OrderBy(SCORE, descending=True),):
        return ()
    return orders
