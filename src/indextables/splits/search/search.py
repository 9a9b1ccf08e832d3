"""Search over one split, and what several splits found put together.

    statistics = total(term_statistics(split, query) for split in splits)       # makes scores comparable
    tables = [search_split(split, request, statistics) for split in splits]     # any process, any order
    merge_results(tables, request)

A request with a limit finds the best rows by score, or the first by a column; without one, every match, uncapped.

The order of a search's rows: by a column, with Spark's order of values, or by score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.errors import InvalidInputError
from indextables.model.column_ranges import ColumnRange
from indextables.model.predicate import Predicate
from indextables.model.schema import SCORE, SNIPPET
from indextables.splits.index.mapping import ColumnMapping
from indextables.splits.query.tree import Query
from indextables.splits.read.searchable import Mask, Rows, Searchable, rows_at
from indextables.splits.search.match import OpenQuery, open_query
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
from indextables.splits.search.snippets import Snippet, snippets


class OrderBy(Struct, frozen=True):
    """A column to sort by. Nulls come last either way; NaN is greater than every number."""

    column: str
    descending: bool = False

    @classmethod
    def parse(cls, text: str, columns: Sequence[str]) -> OrderBy:
        """`ts`, `ts asc` or `ts desc`."""
        name, _, direction = text.rpartition(" ")
        if text in columns:
            return cls(text)
        if name.strip() in columns and direction.lower() in ("asc", "desc"):
            return cls(name.strip(), direction.lower() == "desc")
        message = f"Rows cannot be ordered by {text!r}."
        raise InvalidInputError(message, hint=f"Name a column, with asc or desc: {', '.join(columns)}.", order_by=text)


def ranking(values: pa.Array | pa.ChunkedArray, order: OrderBy) -> npt.NDArray[np.int64]:
    """The places of the values in order; equal ones stay as they are."""
    direction = "descending" if order.descending else "ascending"
    keys = {"null": pc.is_null(values), "value": values, "place": pa.array(np.arange(len(values)))}
    sort = [("null", "ascending"), ("value", direction), ("place", "ascending")]
    if pa.types.is_floating(values.type):
        keys["nan"] = pc.fill_null(pc.is_nan(values), False)
        sort.insert(1, ("nan", direction))
    try:
        return np.asarray(pc.sort_indices(pa.table(keys), sort_keys=sort), np.int64)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
        message = f"Rows cannot be ordered by {order.column!r}, which is {values.type}."
        raise InvalidInputError(message, hint="Order by a column of numbers, text, dates or times.") from e


class SearchRequest(Struct, frozen=True):
    """What to search for and what to return. Frozen and picklable: workers get it as it is.

    `where` is bound to the table's schema. A `limit` without `order_by` means the best by score.
    """

    query: Query
    columns: tuple[str, ...]
    where: Predicate | None = None
    limit: int | None = None
    offset: int = 0
    score: bool = False
    snippet: Snippet | None = None
    order_by: OrderBy | None = None

    def check(self, schema: pa.Schema) -> None:
        """Refuse a request that a table with this schema cannot answer."""
        known = schema.names
        asked = [*self.columns, *([self.order_by.column] if self.order_by else [])]
        unknown = [name for name in asked if name not in known]
        if unknown:
            message = f"There is no column {', '.join(map(repr, unknown))}."
            raise InvalidInputError(message, hint=f"Known columns: {', '.join(known)}.", columns=known)
        if self.offset < 0 or (self.limit is not None and self.limit < 0):
            message = f"A limit of {self.limit} from offset {self.offset} makes no sense."
            raise InvalidInputError(message, hint="Give numbers from 0 up.", limit=self.limit, offset=self.offset)
        taken = [name for name in (SCORE, SNIPPET) if name in self.columns and self._adds(name)]
        if taken:
            message = f"The table has a column {taken[0]!r} of its own."
            raise InvalidInputError(message, hint="Leave it out of `columns`.", column=taken[0])
        if self.snippet is not None:
            self.snippet.check(schema)

    @property
    def by_score(self) -> bool:
        """Whether the rows come best first."""
        return self.limit is not None and self.order_by is None

    @property
    def scores(self) -> bool:
        """Whether scores are needed at all."""
        return self.score or self.by_score

    @property
    def wanted(self) -> int | None:
        """How many rows each split must deliver at most."""
        return None if self.limit is None else self.limit + self.offset

    def _adds(self, name: str) -> bool:
        return self.scores if name == SCORE else self.snippet is not None


def search_split(
    split: Searchable,
    request: SearchRequest,
    statistics: TermStatistics | None = None,
    own: TermStatistics | None = None,
) -> pa.Table:
    """What one split contributes: the wanted columns, `_score`, `_snippet`, and the column to order by.

    Without the `statistics` of the table, words weigh what they weigh in this split. Its `own` are counted unless given.
    """
    if own is None and _weighs(split, request, statistics):
        own = term_statistics(split, request.query)
    return read_hits(split, find_hits(split, request, statistics, own), request)


def merge_results(tables: Sequence[pa.Table], request: SearchRequest, schema: pa.Schema) -> pa.Table:
    """The rows of several splits as one result, in order, from the offset to the limit; `schema` is the table's."""
    found = pa.concat_tables([_no_rows(request, schema), *tables], promote_options="permissive")
    if request.by_score:
        order = np.argsort(-found.column(SCORE).to_numpy(), kind="stable")
        found = rows_at(found, order)
    elif request.order_by is not None:
        found = rows_at(found, ranking(found.column(_ORDER), request.order_by))
    found = found.slice(request.offset, request.limit)
    return found.drop_columns([_ORDER] if request.order_by else [])


_ORDER = "\0order"
"""The column to order by, under a name that no column of a table has."""


def find_hits(
    split: Searchable, request: SearchRequest, statistics: TermStatistics | None, own: TermStatistics | None
) -> Hits:
    """The rows of one split that can be in the result, without reading what is returned of them.

    `own` are the split's statistics, where its scores depend on them.
    """
    if own is not None and not can_match(request.query, split, own):
        return Hits(np.empty(0, np.int64), np.empty(0, np.float32))
    weights = inverse_document_frequency(statistics or own, own) if own is not None else {}
    with open_query(split, request.query, where=request.where, norms=request.scores, idf=weights) as opened:
        return _hits(opened, request)


def best_of(hits: Sequence[Hits], request: SearchRequest) -> tuple[Rows, Rows]:
    """Which hits are the result of a request with a limit, in order: of which split, and which of its hits."""
    if len(hits) == 1 and request.order_by is None:  # the best come first already
        only = np.arange(len(hits[0].rows))[request.offset : request.wanted]
        return np.zeros(len(only), np.int64), only
    lengths = [len(found.rows) for found in hits]
    number = np.repeat(np.arange(len(hits)), lengths)
    place = np.concatenate([np.arange(length) for length in lengths]) if lengths else number
    if request.order_by is None:
        order = np.argsort(-np.concatenate([np.empty(0, np.float32), *(h.scores for h in hits)]), kind="stable")
    else:
        values = [pa.table({"": found.values}) for found in hits if found.values is not None]
        joined = pa.concat_tables(values, promote_options="permissive") if values else None
        order = number if joined is None else ranking(joined.column(0), request.order_by)
    order = order[request.offset : request.wanted]
    return number[order], place[order]


def read_best(
    split_at: Callable[[int], Searchable],
    hits: Sequence[Hits],
    request: SearchRequest,
    schema: pa.Schema,
    each: Callable[[Callable[[int], pa.Table], Sequence[int]], Iterable[pa.Table]] = map,
) -> pa.Table:
    """The result of a request with a limit: rows are read of the best hits only, once of each split that has any."""
    number, place = best_of(hits, request)
    winners = np.flatnonzero(np.bincount(number, minlength=len(hits))).tolist() if len(number) else []
    # A table without rows still says what the columns are.
    winners = winners or list(range(len(hits)))[:1]
    # A table without columns has no rows: the column to order by stands in for them.
    ordered = not request.columns

    def read(at: int) -> pa.Table:
        return read_hits(split_at(at), hits[at].at(place[number == at]), request, ordered=ordered)

    none, found = _no_rows(request, schema, ordered=ordered), list(each(read, winners))
    same = len(found) == 1 and found[0].schema.equals(none.schema)
    table = found[0] if same else pa.concat_tables([none, *found], promote_options="permissive")
    if len(winners) > 1:
        # The rows came split by split: where each of the result is among them.
        places = np.empty(len(number), np.int64)
        places[np.argsort(number, kind="stable")] = np.arange(len(number))
        table = rows_at(table, places)
    return table.drop_columns([_ORDER] if ordered and request.order_by else [])


def _weighs(split: Searchable, request: SearchRequest, statistics: TermStatistics | None) -> bool:
    return request.scores and (statistics is not None or weighs_values(split, request.query))


def _hits(opened: OpenQuery, request: SearchRequest) -> Hits:
    """The rows to read, in order."""
    if request.by_score:
        return best_hits(opened, request.wanted or 0, request.where)
    rows, values = opened.rows(request.where), None
    if request.order_by is not None and request.wanted is not None:
        rows, values = first_rows(opened.split, rows, request.order_by, request.wanted)
    scores = scored_rows(opened, rows) if request.score else np.zeros(len(rows), np.float32)
    return Hits(rows, scores, values)


def first_rows(split: Searchable, rows: Rows, order: OrderBy, count: int) -> tuple[Rows, pa.ChunkedArray]:
    """The first of these rows by a column, at least `count` of them if there are, and their values.

    Row groups are looked into in the order of their bounds, until none that is left can hold a better value.
    """
    name = order.column
    if name not in split.schema.names:
        return rows[:count], pa.chunked_array([pa.nulls(len(rows[:count]))])
    usable = len(rows) > count > 0 and has_usable_bounds(split.schema.field(name).type)
    groups = split.group_bounds(name) if usable else None
    if groups is None:
        return _ranked(rows, split.read_rows(rows, columns=[name]).column(name), order, count)
    starts, bounds = groups
    group = np.searchsorted(starts, rows, side="right") - 1
    best = best_first(bounds, order)
    # As many row groups as surely hold enough rows, the best first.
    enough = int(np.searchsorted(np.cumsum(np.bincount(group, minlength=len(best))[best]), count)) + 1
    chosen = np.zeros(len(best), np.bool_)
    chosen[best[:enough]] = True
    near = rows[chosen[group]]
    first, values = _ranked(near, split.read_rows(near, columns=[name]).column(name), order, count)
    rest = rows[(~chosen & can_compete(bounds, order, values[count - 1]))[group]]
    if not len(rest):
        return first, values
    # Ascending, so that equal values stay in the order of the rows.
    near = np.sort(np.concatenate([first, rest]))
    return _ranked(near, split.read_rows(near, columns=[name]).column(name), order, count)


def best_first(bounds: ColumnRange, order: OrderBy) -> Rows:
    """Parts of a table in the order of the best value that each can hold: unknown ones first, those of nulls last."""
    ends = bounds.high if order.descending else bounds.low
    unknown = pc.is_null(ends).to_numpy(zero_copy_only=False)
    key = np.where(~bounds.can_value, 2, np.where(unknown, 0, 1))
    ranks = ranking(ends, order)
    return ranks[np.argsort(key[ranks], kind="stable")]


def can_compete(bounds: ColumnRange, order: OrderBy, value: pa.Scalar) -> Mask:
    """Which parts can hold a value that comes before another, or is equal to it."""
    if not value.is_valid:
        return np.ones(len(bounds.low), np.bool_)
    near = pc.greater_equal(bounds.high, value) if order.descending else pc.less_equal(bounds.low, value)
    possible: Mask = pc.fill_null(near, True).to_numpy(zero_copy_only=False)
    return possible & bounds.can_value


def has_usable_bounds(kind: pa.DataType) -> bool:
    """Whether bounds of a type can be relied on for an order: NaN has no place in those of floating point numbers."""
    moment = pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.unit != "ns")
    return bool(moment or pa.types.is_integer(kind) or pa.types.is_string(kind))


def _ranked(rows: Rows, values: pa.ChunkedArray, order: OrderBy, count: int) -> tuple[Rows, pa.ChunkedArray]:
    best = ranking(values, order)[:count]
    return rows[best], values.take(pa.array(best))


def read_hits(split: Searchable, hits: Hits, request: SearchRequest, *, ordered: bool = True) -> pa.Table:
    """The rows of the hits with everything the request names. Columns that the split lacks are null.

    `ordered` adds the column to order by, for `merge_results`.
    """
    extra = [request.snippet.column] if request.snippet else []
    order = [request.order_by.column] if request.order_by and ordered else []
    stored = [n for n in dict.fromkeys([*request.columns, *extra, *order]) if n in split.schema.names]
    found = split.read_rows(hits.rows, columns=stored)
    if len(stored) == len({*request.columns, *extra, *order}):
        table = found.select(list(request.columns))
    else:
        table = pa.table({name: _column(found, name, len(hits.rows)) for name in request.columns})
    if not request.columns:
        table = pa.table({"": pa.nulls(len(hits.rows))})
    if request.scores:
        table = table.append_column(SCORE, hits.score_column())
    if request.snippet is not None:
        name = request.snippet.column
        column = split.mapping.find(name) or ColumnMapping(name, "", "none")
        texts = _column(found, name, len(hits.rows))
        table = table.append_column(SNIPPET, snippets(texts, request.query, column, request.snippet))
    if request.order_by is not None and ordered:
        table = table.append_column(_ORDER, _column(found, request.order_by.column, len(hits.rows)))
    return table if request.columns else table.drop_columns([""])


_EMPTY: dict[tuple[object, ...], tuple[pa.Schema, pa.Table]] = {}
"""Tables without rows that were made before, each with the schema it was made for, which its key names by identity."""
_MAX_EMPTY = 256


def _no_rows(request: SearchRequest, schema: pa.Schema, *, ordered: bool = True) -> pa.Table:
    """A result without rows: the columns and types of every result of the request."""
    order = request.order_by.column if request.order_by and ordered else None
    key = (id(schema), request.columns, request.scores, request.snippet is None, order)
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
    fields += [pa.field(SNIPPET, pa.string())] if request.snippet else []
    fields += [pa.field(_ORDER, schema.field(request.order_by.column).type)] if request.order_by and ordered else []
    return pa.schema(fields).empty_table()


def _column(table: pa.Table, name: str, rows: int) -> pa.ChunkedArray | pa.Array:
    return table.column(name) if name in table.column_names else pa.nulls(rows)
