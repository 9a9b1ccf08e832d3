"""What a search returns: a new option is one field of `SearchOptions` and its use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct

from indextables.errors import InvalidInputError
from indextables.handle import TableHandle
from indextables.model.arguments import names_list, text, whole_number
from indextables.model.predicate import Where
from indextables.model.schema import SCORE
from indextables.query import explain
from indextables.query.plan import plan_scan, query_fields
from indextables.query.search import TableSearch
from indextables.splits.query.tree import Target
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


class ExplainedRows(Struct, frozen=True):
    """The rows of a search, and the report of what it pruned, opened and read."""

    rows: pa.Table
    report: ScanReport


def plan_search(
    table: TableHandle,
    query: str,
    options: SearchOptions,
    *,
    where: Where | None = None,
    paged: bool = False,
    now_ms: int | None = None,
) -> TableSearch:
    """Plan a search. `paged` orders it so that it can continue after any row; `now_ms` is the
    clock.
    """
    orders = () if options.order_by is None else parse_order(table, options.order_by)
    first = orders[0] if orders else None
    plan = plan_scan(
        table,
        query=text("query", query),
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
    )


def search(
    table: TableHandle, query: str, options: SearchOptions, *, where: Where | None = None
) -> pa.Table | ExplainedRows:
    """Return the rows that match, with a report if the options ask for one."""
    planned = plan_search(table, query, options, where=where)
    if options.explain:
        return ExplainedRows(*explain.explain_search(planned, table.log.store))
    return planned.run(table.log.store)


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
