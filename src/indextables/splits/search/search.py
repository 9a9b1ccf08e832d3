"""Search over one split, and what several splits found put together.

    statistics = total(term_statistics(split, query) for split in splits)       # makes scores comparable
    tables = [search_split(split, request, statistics) for split in splits]     # any process, any order
    merge_results(tables, request)

A request with a limit finds the best rows by score, or the first by a column; without one, every match, uncapped.

The order of a search's rows: by a column, with Spark's order of values, or by score.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.errors import InvalidInputError
from indextables.model.predicate import Predicate
from indextables.model.schema import SCORE, SNIPPET
from indextables.splits.index.mapping import ColumnMapping
from indextables.splits.query.tree import Query
from indextables.splits.read.searchable import Searchable, rows_at
from indextables.splits.search.match import OpenQuery, open_query
from indextables.splits.search.scores import (
    Hits,
    TermStatistics,
    best_hits,
    inverse_document_frequency,
    scored_rows,
    term_statistics,
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
    if own is None and request.scores:
        own = term_statistics(split, request.query)
    weights = inverse_document_frequency(statistics or own, own) if own else {}
    with open_query(split, request.query, norms=request.scores, rarity=weights) as opened:
        return _read(split, _hits(opened, request), request)


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


def _hits(opened: OpenQuery, request: SearchRequest) -> Hits:
    """The rows to read, in order."""
    if request.by_score:
        return best_hits(opened, request.wanted or 0, request.where)
    rows = opened.rows(request.where)
    if request.order_by is not None and request.wanted is not None and len(rows) > request.wanted:
        name = request.order_by.column
        if name in opened.split.schema.names:
            values = opened.split.read_rows(rows, columns=[name]).column(name)
            rows = rows[ranking(values, request.order_by)[: request.wanted]]
        else:
            rows = rows[: request.wanted]
    scores = scored_rows(opened, rows) if request.score else np.zeros(len(rows), np.float32)
    return Hits(rows, scores)


def _read(split: Searchable, hits: Hits, request: SearchRequest) -> pa.Table:
    """The rows of the hits with everything the request names. Columns that the split lacks are null."""
    extra = [request.snippet.column] if request.snippet else []
    order = [request.order_by.column] if request.order_by else []
    stored = [n for n in dict.fromkeys([*request.columns, *extra, *order]) if n in split.schema.names]
    found = split.read_rows(hits.rows, columns=stored)
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
    if request.order_by is not None:
        table = table.append_column(_ORDER, _column(found, request.order_by.column, len(hits.rows)))
    return table if request.columns else table.drop_columns([""])


def _no_rows(request: SearchRequest, schema: pa.Schema) -> pa.Table:
    fields = [schema.field(name).remove_metadata() for name in request.columns]
    fields += [pa.field(SCORE, pa.float32())] if request.scores else []
    fields += [pa.field(SNIPPET, pa.string())] if request.snippet else []
    fields += [pa.field(_ORDER, schema.field(request.order_by.column).type)] if request.order_by else []
    return pa.schema(fields).empty_table()


def _column(table: pa.Table, name: str, rows: int) -> pa.ChunkedArray | pa.Array:
    return table.column(name) if name in table.column_names else pa.nulls(rows)
