"""Search over one split, and what several splits found put together.

    statistics = total(term_statistics(split, query) for split in splits)       # makes scores
    comparable tables = [search_split(split, request, statistics) for split in splits]     # any
    process, any order merge_results(tables, request)

A request with a limit finds the best rows by score, or the first in an order; without one, every
match, uncapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct

from indextables.errors import InvalidInputError
from indextables.model.predicate import Predicate
from indextables.model.schema import DISTANCE, HIGHLIGHT, SCORE, SNIPPET
from indextables.splits.index.mapping import ColumnMapping
from indextables.splits.query.tree import Query
from indextables.splits.read.searchable import Rows, Searchable, rows_at
from indextables.splits.search.match import OpenQuery, open_query
from indextables.splits.search.nearest import NearestTo, find_nearest
from indextables.splits.search.order import (
    After,
    OrderBy,
    first_at_an_end,
    first_rows,
    key_types,
    keys_of,
    ranking,
)
from indextables.splits.search.scores import (
    Hits,
    TermStatistics,
    best_hits,
    can_match,
    inverse_document_frequency,
    scored_rows,
    term_statistics,
    weighs_values,
)
from indextables.splits.search.snippets import Highlight, Snippet, highlights, snippets


class SearchRequest(Struct, frozen=True):
    """A search and its output. Frozen and picklable for workers.

    `where` is bound to the table's schema. A `limit` without `order_by` means best by score. A
    `paged` request gives every row the same score whatever its limit, so that the next page can
    continue `after` a row.
    """

    query: Query
    columns: tuple[str, ...]
    where: Predicate | None = None
    limit: int | None = None
    offset: int = 0
    score: bool = False
    snippet: Snippet | None = None
    order_by: OrderBy | tuple[OrderBy, ...] | None = None
    ranked: bool = False
    """Whether `_score` is one of the sort keys. An older table may have a column of that name."""
    paged: bool = False
    after: After | None = None
    highlight: Highlight | None = None
    nearest: NearestTo | None = None
    """The vector by whose distance rows are ordered; the scores of hits are then distances."""

    def check(self, schema: pa.Schema) -> None:
        """Refuse a request that a table with this schema cannot answer."""
        known = schema.names
        asked = [
            *self.columns,
            *(order.column for order in self.orders if not self.ranked or order.column != SCORE),
        ]
        unknown = [name for name in asked if name not in known]
        if unknown:
            message = f"There is no column {', '.join(map(repr, unknown))}."
            raise InvalidInputError(
                message, hint=f"Known columns: {', '.join(known)}.", columns=known
            )
        if self.offset < 0 or (self.limit is not None and self.limit < 0):
            message = f"A limit of {self.limit} from offset {self.offset} makes no sense."
            raise InvalidInputError(
                message, hint="Give numbers from 0 up.", limit=self.limit, offset=self.offset
            )
        taken = [
            name
            for name in (SCORE, SNIPPET, HIGHLIGHT, DISTANCE)
            if name in self.columns and self._adds(name)
        ]
        if taken:
            message = f"The table has a column {taken[0]!r} of its own."
            raise InvalidInputError(message, hint="Leave it out of `columns`.", column=taken[0])
        if self.snippet is not None:
            self.snippet.check(schema)
        if self.highlight is not None:
            self.highlight.check(schema)

    @property
    def orders(self) -> tuple[OrderBy, ...]:
        """Return the sort orders, the first first; empty for best by score."""
        order = self.order_by
        if order is None:
            return ()
        if isinstance(order, OrderBy):
            return (order,)
        return order

    @property
    def by_score(self) -> bool:
        """Whether rows come best first."""
        return self.limit is not None and self.order_by is None and self.nearest is None

    @property
    def scores(self) -> bool:
        """Whether scores are needed."""
        return self.score or self.by_score or self.ranked

    @property
    def wanted(self) -> int | None:
        """Maximum number of rows that each split must return."""
        if self.limit is None:
            return None
        return self.limit + self.offset

    def _adds(self, name: str) -> bool:
        if name == SCORE:
            return self.scores
        if name == DISTANCE:
            return self.nearest is not None
        return (self.snippet if name == SNIPPET else self.highlight) is not None


def search_split(
    split: Searchable,
    request: SearchRequest,
    statistics: TermStatistics | None = None,
    own: TermStatistics | None = None,
) -> pa.Table:
    """Return the contribution of one split: requested columns, `_score`, `_snippet`, and sort keys.

    Without the `statistics` of the table, words have the weight of this split. Its `own` statistics
    are computed unless given.
    """
    if own is None and _weighs(split, request, statistics):
        own = term_statistics(split, request.query)
    return read_hits(split, find_hits(split, request, statistics, own), request)


def merge_results(
    tables: Sequence[pa.Table], request: SearchRequest, schema: pa.Schema
) -> pa.Table:
    """Merge the rows of several splits in order, from offset to limit; `schema` is the table's."""
    nothing = _no_rows(request, schema)
    if (
        not nothing.num_columns
    ):  # tables of no columns are counted, and lose their count when they are concatenated
        batches = [batch for table in tables for batch in table.to_batches()]
        return pa.Table.from_batches(batches, nothing.schema).slice(request.offset, request.limit)
    same = len(tables) == 1 and tables[0].schema.equals(nothing.schema)
    if same:
        found = tables[0]
    else:
        found = pa.concat_tables([nothing, *tables], promote_options="permissive")
    if request.by_score:
        order = np.argsort(-found.column(SCORE).to_numpy(), kind="stable")
        found = rows_at(found, order)
    elif request.nearest is not None:
        found = rows_at(found, np.argsort(found.column(DISTANCE).to_numpy(), kind="stable"))
    elif request.orders:
        found = rows_at(found, ranking(_keys(found), request.orders))
    return _without_keys(found.slice(request.offset, request.limit))


_ORDER = "\0order "
"""Prefix of sort key names in a result; no column of a table starts with it."""


def _keys(table: pa.Table) -> pa.Table:
    names = [name for name in table.column_names if name.startswith(_ORDER)]
    return table.select(names).rename_columns([name.removeprefix(_ORDER) for name in names])


def _without_keys(table: pa.Table) -> pa.Table:
    names = [name for name in table.column_names if name.startswith(_ORDER)]
    if names:
        return table.drop_columns(names)
    return table


def find_hits(
    split: Searchable,
    request: SearchRequest,
    statistics: TermStatistics | None,
    own: TermStatistics | None,
    *,
    alone: bool = False,
) -> Hits:
    """Return the rows of one split that can be in the result, without reading their columns.

    `own` are the split's statistics, if its scores depend on them. If a split is `alone`, rows that
    are all in the result may come without sort keys, which are then read with them.
    """
    if own is not None and not can_match(request.query, split, own):
        return Hits(np.empty(0, np.int64), np.empty(0, np.float32))
    if own is not None:
        weights = inverse_document_frequency(statistics or own, own)
    else:
        weights = {}
    with open_query(
        split, request.query, where=request.where, norms=request.scores, idf=weights
    ) as opened:
        return _hits(opened, request, alone=alone)


def best_of(hits: Sequence[Hits], request: SearchRequest) -> tuple[Rows, Rows]:
    """Return which hits of which split form the result of a request with a limit, in order."""
    if len(hits) == 1:  # the best come first already
        only = np.arange(len(hits[0].rows))[request.offset : request.wanted]
        return np.zeros(len(only), np.int64), only
    lengths = [len(found.rows) for found in hits]
    number = np.repeat(np.arange(len(hits)), lengths)
    if lengths:
        place = np.concatenate([np.arange(length) for length in lengths])
    else:
        place = number
    if not request.orders:
        scores = np.concatenate([np.empty(0, np.float32), *(h.scores for h in hits)])
        order = np.argsort(scores if request.nearest else -scores, kind="stable")
    else:
        keys = [found.keys for found in hits if found.keys is not None]
        if keys:
            joined = pa.concat_tables(keys, promote_options="permissive")
        else:
            joined = None
        if joined is None:
            order = number
        else:
            order = ranking(joined, request.orders)
    order = order[request.offset : request.wanted]
    return number[order], place[order]


def read_best(
    split_at: Callable[[int], Searchable],
    hits: Sequence[Hits],
    request: SearchRequest,
    schema: pa.Schema,
    each: Callable[[Callable[[int], pa.Table], Sequence[int]], Iterable[pa.Table]] = map,
) -> pa.Table:
    """Read the result of a request with a limit: only rows of the best hits, once per split."""
    number, place = best_of(hits, request)
    if len(number):
        winners = np.flatnonzero(np.bincount(number, minlength=len(hits))).tolist()
    else:
        winners = []
    # A table without rows still says what the columns are.
    winners = winners or list(range(len(hits)))[:1]
    # A table without columns has no rows: the sort keys represent them.
    ordered = not request.columns

    def read(at: int) -> pa.Table:
        return read_hits(split_at(at), hits[at].at(place[number == at]), request, ordered=ordered)

    none, found = _no_rows(request, schema, ordered=ordered), list(each(read, winners))
    same = len(found) == 1 and found[0].schema.equals(none.schema)
    if same:
        table = found[0]
    else:
        table = pa.concat_tables([none, *found], promote_options="permissive")
    if len(winners) > 1:
        # The rows came split by split: where each of the result is among them.
        places = np.empty(len(number), np.int64)
        places[np.argsort(number, kind="stable")] = np.arange(len(number))
        table = rows_at(table, places)
    if ordered:
        return _without_keys(table)
    return table


def _weighs(split: Searchable, request: SearchRequest, statistics: TermStatistics | None) -> bool:
    return request.scores and (statistics is not None or weighs_values(split, request.query))


def _hits(opened: OpenQuery, request: SearchRequest, *, alone: bool) -> Hits:
    """Return the rows to read, in order."""
    if request.nearest is not None:
        rows = opened.rows(request.where)
        return find_nearest(opened.split, rows, request.nearest, request.wanted or 0)
    if request.by_score:
        if request.paged:
            return _best_after(opened, request)
        return best_hits(opened, request.wanted or 0, request.where)
    if request.order_by is None:
        at_end = None
    else:
        at_end = _first_at_an_end(opened, request)
    if at_end is not None:
        return at_end
    rows, keys = opened.rows(request.where), None
    if request.ranked:
        every = Hits(rows, scored_rows(opened, rows))
        if request.wanted is not None:
            rows, keys = _first(
                opened, every.rows, request, lambda some: every.of(some).score_column()
            )
        return Hits(rows, every.of(rows).scores, keys)
    if (
        request.orders
        and request.wanted is not None
        and not (alone and len(rows) <= request.wanted)
    ):
        rows, keys = _first(opened, rows, request)
    if request.score:
        scores = scored_rows(opened, rows)
    else:
        scores = np.zeros(len(rows), np.float32)
    return Hits(rows, scores, keys)


_END_ROWS = 256
"""Minimum number of rows read at an end of a split before all matching rows are read."""


def _first_at_an_end(opened: OpenQuery, request: SearchRequest) -> Hits | None:
    """Return the first rows in the order of a request if they are found without all matching rows."""
    wanted = request.wanted
    if (
        wanted is None
        or not request.orders
        or request.ranked
        or request.where is not None
        or request.after is not None
    ):
        return None
    some = max(_END_ROWS, 2 * wanted)
    if not opened.has_more_than(2 * some):
        return None
    first = first_at_an_end(
        opened.split, lambda last: opened.end_rows(some, last=last), request.orders, wanted
    )
    if first is None:
        return None
    rows, keys = first
    return Hits(
        rows, scored_rows(opened, rows) if request.score else np.zeros(len(rows), np.float32), keys
    )


def _first(
    opened: OpenQuery,
    rows: Rows,
    request: SearchRequest,
    scores: Callable[[Rows], pa.Array] | None = None,
) -> tuple[Rows, pa.Table]:
    """Return the first rows in the order of a request with a limit."""
    return first_rows(
        opened.split, rows, request.orders, request.wanted or 0, after=request.after, scores=scores
    )


def _best_after(opened: OpenQuery, request: SearchRequest) -> Hits:
    """Return the best rows of a request that is answered in pages.

    All rows are always scored: with a limit tantivy adds up the parts of a score in another order,
    and a row whose score differs in its last bit between pages could be on two of them or on none.
    """
    hits, after = best_hits(opened, opened.split.num_rows, request.where), request.after
    if after is not None:
        last = np.float32(after.keys.column("0.0")[0].as_py())
        hits = hits.at(
            np.flatnonzero((hits.scores < last) | ((hits.scores == last) & (hits.rows > after.row)))
        )
    return hits.at(np.arange(min(len(hits.rows), request.wanted or 0)))


def read_hits(
    split: Searchable, hits: Hits, request: SearchRequest, *, ordered: bool = True
) -> pa.Table:
    """Read the columns of the hits. Columns that the split lacks are null. `ordered` adds the sort
    keys for `merge_results`.
    """
    extra = [request.snippet.column] if request.snippet else []
    extra += request.highlight.columns if request.highlight else ()
    if ordered:
        order = [order.column for order in request.orders if order.column != SCORE]
    else:
        order = []
    stored = [
        n for n in dict.fromkeys([*request.columns, *extra, *order]) if n in split.schema.names
    ]
    found = split.read_rows(hits.rows, columns=stored)
    if len(stored) == len({*request.columns, *extra, *order}):
        table = found.select(list(request.columns))
    else:
        table = pa.table({name: _column(found, name, len(hits.rows)) for name in request.columns})
    if not request.columns:
        table = pa.table({"": pa.nulls(len(hits.rows))})
    if request.scores:
        table = table.append_column(SCORE, hits.score_column())
    if request.nearest is not None:
        table = table.append_column(DISTANCE, hits.score_column())
    if request.snippet is not None:
        name = request.snippet.column
        column = split.mapping.find(name) or ColumnMapping(name, "", "none")
        texts = _column(found, name, len(hits.rows))
        table = table.append_column(
            SNIPPET, snippets(texts, request.query, column, request.snippet)
        )
    if request.highlight is not None:
        shown = {name: _column(found, name, len(hits.rows)) for name in request.highlight.columns}
        table = table.append_column(
            HIGHLIGHT, highlights(shown, request.query, split.mapping, request.highlight)
        )
    if ordered and request.orders:
        scores = hits.score_column() if request.scores else None
        keys = keys_of(found, len(hits.rows), request.orders, scores)
        for name in keys.column_names:
            table = table.append_column(f"{_ORDER}{name}", keys.column(name))
    if request.columns:
        return table
    return table.drop_columns([""])


_EMPTY: dict[tuple[object, ...], tuple[pa.Schema, pa.Table]] = {}
"""Cached empty tables, each with its schema, which the key identifies by identity."""
_MAX_EMPTY = 256


def _no_rows(request: SearchRequest, schema: pa.Schema, *, ordered: bool = True) -> pa.Table:
    """Return an empty result with the columns and types of the request."""
    order = request.orders if ordered else ()
    key = (
        id(schema),
        request.columns,
        request.scores,
        request.snippet is None,
        request.highlight,
        request.nearest is None,
        order,
    )
    known = _EMPTY.get(key)
    if known is not None and known[0] is schema:
        return known[1]
    if len(_EMPTY) >= _MAX_EMPTY:
        _EMPTY.clear()
    table = _empty(request, schema, ordered=ordered)
    _EMPTY[key] = schema, table
    return table


def _empty(request: SearchRequest, schema: pa.Schema, *, ordered: bool) -> pa.Table:
    fields = [schema.field(name).remove_metadata() for name in request.columns]
    fields += [pa.field(SCORE, pa.float32())] if request.scores else []
    fields += [pa.field(DISTANCE, pa.float32())] if request.nearest else []
    fields += [pa.field(SNIPPET, pa.string())] if request.snippet else []
    fields += [pa.field(HIGHLIGHT, request.highlight.type)] if request.highlight else []
    types = key_types(request.orders, schema) if ordered else {}
    fields += [pa.field(f"{_ORDER}{name}", kind) for name, kind in types.items()]
    return pa.schema(fields).empty_table()


def _column(table: pa.Table, name: str, rows: int) -> pa.ChunkedArray | pa.Array:
    if name in table.column_names:
        return table.column(name)
    return pa.nulls(rows)
