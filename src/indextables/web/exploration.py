"""One view of a table in the explorer: hits of a page, hit count, facets, histogram over time, cost
of the search.

    exploration = TableView(table, View(query="timeout"))
    exploration.page(), exploration.count(), exploration.facets(), exploration.histogram()

Each part is requested separately, so that the hits appear before slower parts are counted. Every
choice of a view is part of the address of its page, so a link shows the same view.
"""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import InvalidInputError
from indextables.model.predicate import Predicate, all_of, bound_predicate
from indextables.model.schema import find_column
from indextables.query.aggregate.result import aggregate_table
from indextables.query.explain import ScanReport, explain
from indextables.query.plan import ScanPlan, plan_scan, query_fields
from indextables.query.search import TableSearch
from indextables.query.search_pages import PageToken, SearchPage, page_behind
from indextables.query.task import ScanTask
from indextables.splits.index.mapping import ColumnMapping, is_text
from indextables.splits.index.values import plain_texts
from indextables.splits.query import tree
from indextables.splits.query.parser import parse
from indextables.splits.search.order import OrderBy
from indextables.splits.search.snippets import Span, spans
from indextables.table import Table
from indextables.web.layout import string_list

SIZES = (25, 50, 100, 250)
SHAPES = ("table", "records")
FURTHEST = 10_000
"""Number of hits that a page reaches by offset. Later pages continue where the previous page ended.
"""
_MOST_TEXT = 20_000


class View(Struct, frozen=True):
    """The choices of a search page. Defaults are left out of the address."""

    query: str = ""
    where: str = ""
    filters: tuple[str, ...] = ()
    """Queries of the facet values that were selected."""
    since: str = ""
    until: str = ""
    """Start (inclusive) and end (exclusive) of the time range."""
    time: str = ""
    sort: str = ""
    columns: tuple[str, ...] = ()
    shape: str = "table"
    size: int = 50
    offset: int = 0
    after: str = ""
    """Token of the position where the previous page ended, for pages beyond the offset limit."""
    version: int | None = None
    panels: bool = False
    """Whether facets, histogram and count are part of the page itself, for browsers without
    scripts.
    """

    @classmethod
    def of(cls, parameters: Iterable[tuple[str, str]]) -> View:
        """Parse the parameters of an address; invalid ones raise an error."""
        several: dict[str, list[str]] = {}
        for key, value in parameters:
            if len(value) > _MOST_TEXT:
                raise InvalidInputError(
                    f"{key} has {len(value)} characters.", hint=f"At most {_MOST_TEXT}.", key=key
                )
            several.setdefault(key, []).append(value)
        one = {key: values[-1] for key, values in several.items()}
        size, offset = _number(one, "n", 50), _number(one, "from", 0)
        if not 1 <= size <= max(SIZES) or (offset + size > FURTHEST and not one.get("after")):
            hint = f"A page has up to {max(SIZES)} hits. From hit {FURTHEST:,} go on with Next; or narrow or export it."
            raise InvalidInputError(
                f"Hits {offset + 1:,} to {offset + size:,} are not shown.", hint=hint, offset=offset
            )
        shape = one.get("as") or "table"
        if shape not in SHAPES:
            raise InvalidInputError(
                f"Hits are not shown as {shape!r}.", hint="As table or as records.", shape=shape
            )
        return cls(
            query=one.get("q", "").strip(),
            where=one.get("where", "").strip(),
            filters=tuple(dict.fromkeys(f for f in several.get("f", []) if f.strip())),
            since=one.get("since", "").strip(),
            until=one.get("until", "").strip(),
            time=one.get("time", ""),
            sort=one.get("sort", ""),
            columns=tuple(dict.fromkeys(c for c in several.get("c", []) if c)),
            shape=shape,
            size=size,
            offset=offset,
            after=one.get("after", ""),
            version=_number(one, "v", 0) if one.get("v") else None,
            panels=one.get("panels") == "1",
        )

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Return every choice as key and value of an address."""
        yield from (("q", self.query), ("where", self.where))
        yield from (("f", text) for text in self.filters)
        yield from (
            ("since", self.since),
            ("until", self.until),
            ("time", self.time),
            ("sort", self.sort),
        )
        yield from (("c", name) for name in self.columns)
        yield "as", "" if self.shape == "table" else self.shape
        yield "n", "" if self.size == 50 else str(self.size)
        yield from (("from", str(self.offset or "")), ("after", self.after))
        yield "v", "" if self.version is None else str(self.version)
        yield "panels", "1" if self.panels else ""

    def parameters(self, *without: str) -> list[tuple[str, str]]:
        """Return the choices that differ from the defaults, without the excluded ones."""
        return [(key, value) for key, value in self.pairs() if value and key not in without]

    def address(self, page: str = "search", **changes: Any) -> str:
        """Return the address of a page with other choices. A changed search starts at the first
        hit.
        """
        if "offset" not in changes and changes:
            changes["offset"] = 0
        if changes:
            changes.setdefault("after", "")
        words = _words(replace(self, **changes) if changes else self)
        if words:
            return f"{page}?{words}"
        return page

    def with_filter(self, text: str) -> str:
        """Return the address with one more filter."""
        return self.address(filters=tuple(dict.fromkeys((*self.filters, text))))

    def without_filter(self, text: str) -> str:
        """Return the address without one of the filters."""
        return self.address(filters=tuple(f for f in self.filters if f != text))


@lru_cache(maxsize=256)
def _words(view: View) -> str:
    """Return the choices as strings. Cached: a page has several links to parts of the same view."""
    return urlencode(view.parameters())


def _number(one: dict[str, str], key: str, default: int) -> int:
    value = one.get(key, "")
    if not value:
        return default
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise InvalidInputError(
            f"{key}={value!r} is not a whole number.", hint="Give digits alone.", key=key
        )
    return int(value)


_FACETS, _VALUES = 8, 8
_SAMPLE = 1_000
_BUCKETS = 60
SCORE, NEWEST = "score", "newest"
_STEPS = (
    (1, "1s"),
    (5, "5s"),
    (10, "10s"),
    (30, "30s"),
    (60, "1m"),
    (300, "5m"),
    (600, "10m"),
    (1_800, "30m"),
    (3_600, "1h"),
    (10_800, "3h"),
    (21_600, "6h"),
    (43_200, "12h"),
    (86_400, "1d"),
    (604_800, "7d"),
)


class HitPage(Struct, frozen=True):
    """The hits of one page, the positions of the matches in their texts, and whether more hits
    follow.
    """

    rows: pa.Table
    marks: Mapping[str, Sequence[Sequence[Span]]]
    more: bool
    next: str = ""
    """Token of the end of the page, if the next page is beyond the offset limit."""


class FacetValue(Struct, frozen=True):
    """A value of a column, the number of hits that have it, and the filter that selects them."""

    label: str
    count: int
    filter: str


class Facet(Struct, frozen=True):
    """The most frequent values of a column among the hits."""

    column: str
    values: tuple[FacetValue, ...]


class TimeBar(Struct, frozen=True):
    """A time interval and the number of hits in it."""

    start: dt.datetime
    end: dt.datetime
    count: int


class Histogram(Struct, frozen=True):
    """The hits over time."""

    column: str
    step: str
    bars: tuple[TimeBar, ...]


class Steps(Struct, frozen=True):
    """The cost of a search: milliseconds per step, and counts of pruned, opened and read files."""

    milliseconds: Mapping[str, float]
    report: ScanReport


class TableView:
    """A view of a table. The constructor raises the syntax errors of the query, the condition and
    the filters.
    """

    def __init__(self, table: Table, view: View) -> None:
        self.table = table
        self.view = view
        self.token = PageToken.parse(view.after) if view.after else None
        self.now_ms = table.handle.log.now_ms() if self.token is None else self.token.now_ms
        fields = query_fields(table.handle)
        self.query = parse(view.query or "*", fields, now_ms=self.now_ms)
        filters = tuple(parse(text, fields, now_ms=self.now_ms) for text in view.filters)
        self.tree = tree.all_of((self.query, *filters)) if filters else self.query
        self.where = self._condition()

    @cached_property
    def time_columns(self) -> list[str]:
        """Return the timestamp columns, then the date columns."""
        timestamps = [f.name for f in self.table.schema if pa.types.is_timestamp(f.type)]
        return timestamps + [f.name for f in self.table.schema if pa.types.is_date(f.type)]

    @cached_property
    def time_column(self) -> str | None:
        """Return the column of the histogram: the chosen one, or the first timestamp or date
        column.
        """
        chosen = self.view.time
        if chosen and chosen not in self.time_columns:
            hint = f"Columns of times: {', '.join(self.time_columns) or 'none'}."
            raise InvalidInputError(f"{chosen!r} is no column of times.", hint=hint, column=chosen)
        return chosen or next(iter(self.time_columns), None)

    @cached_property
    def mappings(self) -> dict[str, ColumnMapping]:
        """Return the index kinds of the text and value columns."""
        return column_mappings(self.table)

    @cached_property
    def order(self) -> OrderBy | None:
        """Return the order of the hits, or None for order by score. Without a query the newest rows
        come first.
        """
        sort = self.view.sort or (SCORE if self.view.query else NEWEST)
        if sort == NEWEST:
            if self.time_column is None:
                return None
            return OrderBy(self.time_column, descending=True)
        if sort == SCORE:
            return None
        return OrderBy.parse(sort, self.table.schema.names)

    @cached_property
    def columns(self) -> list[str]:
        """Return the columns to show: the chosen ones, or all with time and text first."""
        if self.view.columns:
            return self.chosen_columns
        texts = {name for name, mapping in self.mappings.items() if mapping.kind == "text"}
        names = self.table.schema.names
        return sorted(
            names, key=lambda name: (name != self.time_column, name not in texts, names.index(name))
        )

    @property
    def chosen_columns(self) -> list[str]:
        """Return the chosen columns, or all in the order of the table."""
        return [
            find_column(self.table.schema, name) for name in self.view.columns
        ] or self.table.schema.names

    def page(self) -> HitPage:
        """Read the hits of the page and mark their matches."""
        view = self.view
        if self.token is not None:
            page = self._page_behind(self.columns, view.size)
            return HitPage(
                page.rows, self._marks(page.rows), page.next is not None, page.next or ""
            )
        rows = self._search(limit=view.size + 1, offset=view.offset).run(
            self.table.handle.log.store
        )
        shown, more = rows.slice(0, view.size), rows.num_rows > view.size
        last = view.offset + view.size
        if more and last + view.size > FURTHEST:
            following = self._page_behind(self.columns[:1], last).next
        else:
            following = None
        return HitPage(shown, self._marks(shown), more, following or "")

    def _page_behind(self, columns: Sequence[str], limit: int) -> SearchPage:
        """Return the page after the view's token, or the first hits."""
        plan = self._plan(columns, order_by=None if self.order is None else self.order.column)
        search = TableSearch.of(plan, limit=limit, order_by=self.order, paged=True)
        return page_behind(self.table.handle, search, self.token, now_ms=self.now_ms)

    def count(self) -> int:
        """Count the hits."""
        return hit_count(self.table, self.tree, self.where)

    def task(self, columns: Sequence[str]) -> ScanTask:
        """Plan the scan that reads the exported columns of every hit."""
        return self._task(columns)

    def facets(self) -> list[Facet]:
        """Count the most frequent values of columns with few values, among the hits."""
        names = facet_columns(self.table)
        if not names:
            return []
        spec = {
            f"f{n}": {"terms": {"field": name, "size": _VALUES}} for n, name in enumerate(names)
        }
        rows = aggregate_table(self._task(()), spec).to_pylist()
        by_name: dict[str, list[FacetValue]] = {name: [] for name in names}
        for row in rows:
            number = row.get("aggregation") or ("f0" if len(names) == 1 else None)
            if number is not None:
                name, value = names[int(number[1:])], row[number]
                by_name[name].append(
                    FacetValue(shown_value(value), row["count"], filter_of(name, value))
                )
        return [Facet(name, tuple(values)) for name, values in by_name.items() if values]

    @property
    def wide_columns(self) -> list[str]:
        """Return the value columns that have too many values to be counted on every page."""
        few = facet_columns(self.table)
        return [name for name in value_columns(self.table) if name not in few]

    def facet(self, column: str) -> Facet:
        """Count the most frequent values of one value column among the hits."""
        if column not in value_columns(self.table):
            hint = f"Columns of whole values: {', '.join(value_columns(self.table)) or 'none'}."
            raise InvalidInputError(
                f"The values of {column!r} cannot be counted.", hint=hint, column=column
            )
        rows = aggregate_table(
            self._task(()), {"f": {"terms": {"field": column, "size": _VALUES}}}
        ).to_pylist()
        values = (
            FacetValue(shown_value(r["f"]), r["count"], filter_of(column, r["f"])) for r in rows
        )
        return Facet(column, tuple(values))

    def histogram(self) -> Histogram | None:
        """Count the hits over time in about sixty bars. Returns None without a time column or
        without hits.
        """
        name = self.time_column
        if name is None:
            return None
        task = self._task(())
        ends = aggregate_table(
            task, {"low": {"min": {"field": name}}, "high": {"max": {"field": name}}}
        ).to_pylist()[0]
        if ends["low"] is None:
            return None
        low, high = _moment(ends["low"]), _moment(ends["high"])
        step, options = _interval(
            (high - low).total_seconds(), days=pa.types.is_date(self.table.schema.field(name).type)
        )
        spec = {"bar": {"date_histogram": {"field": name, "min_doc_count": 0, **options}}}
        rows = [r for r in aggregate_table(task, spec).to_pylist() if r["bar"] is not None]
        starts = [_moment(row["bar"]) for row in rows]
        if starts:
            ends_of = [*starts[1:], _after(starts[-1], options)]
        else:
            ends_of = []
        bars = (
            TimeBar(s, e, row["count"]) for s, e, row in zip(starts, ends_of, rows, strict=True)
        )
        return Histogram(name, step, tuple(bars))

    def steps(self) -> Steps:
        """Repeat the search step by step, and measure each step."""
        clock: dict[str, float] = {}
        with _Timer(clock, "read the query"):
            parse(self.view.query or "*", query_fields(self.table.handle), now_ms=self.now_ms)
        with _Timer(clock, "plan"):
            search = self._search(limit=self.view.size + 1, offset=self.view.offset)
            task = ScanTask(search.plan, self.table.handle.log.store)
        with _Timer(clock, "weigh the words"):
            search = search.weigh(task)
        with _Timer(clock, "find and read the page"):
            search.merged(task)
        with _Timer(clock, "count"):
            self._task(()).count()
        return Steps(clock, explain(self._task(())))

    def _search(self, *, limit: int, offset: int) -> TableSearch:
        plan = self._plan(self.columns, order_by=None if self.order is None else self.order.column)
        # Splits by their paths, as pages behind a token have them: so rows of one score are in the
        # same order in both.
        return TableSearch.of(plan.by_path(), limit=limit, offset=offset, order_by=self.order)

    def _plan(self, columns: Sequence[str], *, order_by: str | None = None) -> ScanPlan:
        return plan_scan(
            self.table.handle, query=self.tree, where=self.where, columns=columns, order_by=order_by
        )

    def _task(self, columns: Sequence[str]) -> ScanTask:
        return ScanTask(self._plan(columns), self.table.handle.log.store)

    def _condition(self) -> Predicate | None:
        schema = self.table.schema
        if self.view.where:
            parts = [bound_predicate(self.view.where, schema, now_ms=self.now_ms)]
        else:
            parts = []
        if self.view.since or self.view.until:
            if self.time_column is None:
                raise InvalidInputError(
                    "The table has no column of times.", hint="Leave out since and until."
                )
            field = self.table.schema.field(self.time_column)
            for text, compare in ((self.view.since, pc.greater_equal), (self.view.until, pc.less)):
                if text:
                    bound = pa.scalar(_parsed_moment(text, field.type), field.type)
                    parts.append(
                        bound_predicate(compare(pc.field(field.name), bound), self.table.schema)
                    )
        some = [part for part in parts if part is not None]
        if some:
            return all_of(some)
        return None

    def _marks(self, rows: pa.Table) -> dict[str, list[list[Span]]]:
        searched = set(tree.columns(self.tree))
        return {
            name: spans(string_list(plain_texts(rows.column(name))), self.tree, name, mapping)
            for name, mapping in self.mappings.items()
            if name in searched
            and name in rows.schema.names
            and is_text(rows.schema.field(name).type)
        }


_COUNTS: WeakKeyDictionary[Table, dict[tuple[int, tree.Query, Predicate | None], int]] = (
    WeakKeyDictionary()
)
_MOST_COUNTS = 1_000


def hit_count(table: Table, query: tree.Query, where: Predicate | None = None) -> int:
    """Return the number of matching rows. Cached per handle, because a version never changes."""
    counts = _COUNTS.setdefault(table, {})
    key = table.version, query, where
    count = counts.get(key)
    if count is None:
        count = ScanTask(
            plan_scan(table.handle, query=query, where=where, columns=()), table.handle.log.store
        ).count()
        if len(counts) >= _MOST_COUNTS:
            counts.clear()
        counts[key] = count
    return count


def column_mappings(table: Table) -> dict[str, ColumnMapping]:
    """Return the index kind of each text and value column, by name. JSON columns are searched by
    path instead.
    """
    columns = query_fields(table.handle).mapping.columns
    return {column.name: column for column in columns if column.kind in ("text", "string")}


def filter_of(column: str, value: Any) -> str:
    """Return the query for rows that have a value in a column, or null."""
    if value is None:
        return f"NOT {tree.Exists(tree.Target(column))}"
    if isinstance(value, bool):
        text = str(value).lower()
    else:
        text = shown_value(value)
    return str(tree.Words(tree.Target(column), text, quoted=True))


def shown_value(value: Any) -> str:
    """Return a value of a column as text."""
    if value is None:
        return "(none)"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


_FEW: dict[tuple[str, int], list[str]] = {}


def facet_columns(table: Table) -> list[str]:
    """Return the columns whose values repeat in a sample of rows: values and partitions first, then
    numbers.
    """
    key = table.path, table.version
    if key not in _FEW:
        if len(_FEW) > 256:
            _FEW.clear()
        _FEW[key] = _with_few_values(table)
    return _FEW[key]


def value_columns(table: Table) -> list[str]:
    """Return the columns of whole values: strings that are not analyzed as text, integers, dates
    and booleans.
    """
    texts = column_mappings(table)
    return [f.name for f in table.schema if _is_facet(f, texts.get(f.name))]


def _with_few_values(table: Table) -> list[str]:
    whole = value_columns(table)
    if not whole:
        return []
    rows = table.scan(columns=whole, limit=_SAMPLE).read_all()
    most = min(rows.num_rows // 2, max(20, rows.num_rows // 20))
    few = [n for n in whole if len(rows.column(n).unique()) <= max(1, most)]
    order = sorted(
        few, key=lambda n: (pa.types.is_integer(table.schema.field(n).type), whole.index(n))
    )
    return order[:_FACETS]


def _is_facet(field: pa.Field, mapping: ColumnMapping | None) -> bool:
    kind = field.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind):
        return True
    return is_text(kind) and (mapping is None or mapping.kind == "string")


_MOST_COMPLETED = 200


def values_of(table: Table, column: str, start: str = "") -> list[tuple[str, int]]:
    """Return the most frequent values of a column that start with a prefix, ignoring case.

    Without a prefix, a column with many values is sampled.
    """
    if column not in value_columns(table):
        return []
    is_wide = column not in facet_columns(table)
    if is_wide and (not start or not is_text(table.schema.field(column).type)):
        sample = table.scan(columns=[column], limit=_SAMPLE).read_all()
        tally = sample.column(column).combine_chunks().drop_null().value_counts().to_pylist()
        found = sorted(
            ((shown_value(pair["values"]), pair["counts"]) for pair in tally),
            key=lambda pair: -pair[1],
        )
    else:
        if is_wide:
            wanted = tree.Regex(tree.Target(column), f"{re.escape(start)}.*", ignore_case=True)
        else:
            wanted = None
        task = ScanTask(plan_scan(table.handle, query=wanted, columns=()), table.handle.log.store)
        rows = aggregate_table(
            task, {"value": {"terms": {"field": column, "size": _MOST_COMPLETED}}}
        ).to_pylist()
        found = [
            (shown_value(row["value"]), row["count"]) for row in rows if row["value"] is not None
        ]
    return [(value, count) for value, count in found if value.lower().startswith(start.lower())]


def _interval(seconds: float, *, days: bool) -> tuple[str, dict[str, str]]:
    for step, name in _STEPS:
        if seconds / step <= _BUCKETS and not (days and step < 86_400):
            return name, {"fixed_interval": name}
    unit = "month" if seconds < _BUCKETS * 31 * 86_400 else "year"
    return f"1 {unit}", {"calendar_interval": unit}


def _after(start: dt.datetime, options: Mapping[str, str]) -> dt.datetime:
    if options.get("calendar_interval") == "year":
        if start.year < 9999:
            return start.replace(year=start.year + 1)
        return start
    if options.get("calendar_interval") == "month":
        later = (start.replace(day=28) + dt.timedelta(days=7)).replace(day=1)
        return later.replace(hour=start.hour, minute=start.minute)
    seconds = {name: step for step, name in _STEPS}[options["fixed_interval"]]
    return start + dt.timedelta(seconds=seconds)


def _moment(value: Any) -> dt.datetime:
    if not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
    if value.tzinfo is None:
        return value.replace(tzinfo=dt.UTC)
    return value.astimezone(dt.UTC)


def _parsed_moment(text: str, kind: pa.DataType) -> dt.date:
    try:
        moment = _moment(dt.datetime.fromisoformat(text))
    except ValueError:
        hint = "Write it as 2026-11-15 or 2026-11-15T12:00:00Z."
        raise InvalidInputError(f"{text!r} is no moment.", hint=hint, moment=text) from None
    if pa.types.is_date(kind):
        return moment.date()
    if kind.tz is None:
        return moment.replace(tzinfo=None)
    return moment


class _Timer:
    """Records the duration of a block."""

    def __init__(self, clock: dict[str, float], name: str) -> None:
        self.clock, self.name = clock, name

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.clock[self.name] = (time.perf_counter() - self.start) * 1000


Completion = tuple[str, str]
"""The text of a completion, and its description."""


def completions(table: Table, text: str, *, most: int = 12) -> Iterator[Completion]:
    """Return completions for a text that ends within a word: columns, or values of the column
    before the colon.
    """
    word = _last_word(text)
    column, colon, start = word.partition(":")
    if colon and column in table.schema.names:
        some = values_of(table, column, start.strip('"'))[:most]
        yield from ((filter_of(column, value), f"{count:,} rows") for value, count in some)
        return
    kinds = {f.name: str(f.type) for f in table.schema}
    names = [name for name in kinds if name.lower().startswith(word.lower().lstrip("(+-"))]
    yield from ((f"{tree.Target(name)}:", kinds[name]) for name in names[:most])


def _last_word(text: str) -> str:
    """Return the last word of a text. An open quotation mark belongs to it."""
    start = max(text.rfind(mark) for mark in " (") + 1
    if text.count('"') % 2:
        start = max(text[: text.rfind('"')].rfind(mark) for mark in " (") + 1
    return text[start:].lstrip("+-")
