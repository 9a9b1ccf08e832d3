"""The search page: search box, choices, hits as a table or as records, facets, histogram and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

import msgspec
import pyarrow as pa

from indextables.errors import IndexTablesError
from indextables.splits.search.snippets import Span
from indextables.table import Table
from indextables.web.exploration import (
    NEWEST,
    SCORE,
    SHAPES,
    SIZES,
    Facet,
    Histogram,
    HitPage,
    Steps,
    TableView,
    View,
)
from indextables.web.layout import (
    EMPTY,
    NULL,
    cards,
    column_texts,
    fold_text,
    frame,
    listing,
    mark_matches,
    plain,
    problem,
    value_text,
)
from indextables.web.svg import (
    Markup,
    element,
    elements,
    join_markup,
    label,
    number,
    rect,
    round_top,
    short,
    size,
    text,
    texts,
)

_SCORE = "_score"
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 960.0, 84.0, 40.0, 20.0
_WIDEST = 60.0
_SHORT_TEXT = 28
EXPORTS = {"csv": "CSV", "jsonl": "JSON lines", "parquet": "Parquet"}


def search_page(
    name: str,
    table: Table,
    view: View,
    exploration: TableView | None,
    hits: HitPage | None,
    *,
    parts: Sequence[Markup] = (),
    count: int | None = None,
) -> Markup:
    """Render the whole page. `parts` holds histogram and facets if they are requested together with
    the `count`.
    """
    wide = hits is not None and exploration is not None
    if exploration is not None and hits is not None:
        results = _results(exploration, hits, count)
    else:
        results = EMPTY
    if parts:
        panels = list(parts)
    else:
        if wide and exploration is not None:
            panels = [_later(view, exploration)]
        else:
            panels = []
    return frame(
        f"{view.query or 'Search'} · {name}",
        element("h1", text(f"Search {name}"), class_="sr"),
        _form(table, view),
        _chips(view),
        _version_note(table, view),
        *panels[:1],
        element(
            "div",
            *panels[1:],
            *([_facets_later(view)] if wide and not parts else []),
            results,
            class_="panes",
        ),
        up="../../",
        name=name,
        page="search",
        note=f"version {table.version}",
    )


def error_page(name: str, table: Table, view: View, error: IndexTablesError, *, of: str) -> Markup:
    """Render the search page with an error in place of the hits."""
    content = [
        element("h1", text(f"Search {name}"), class_="sr"),
        _form(table, view, error=problem(error, of=of)),
        _chips(view),
    ]
    return frame(
        f"{view.query or 'Search'} · {name}", *content, up="../../", name=name, page="search"
    )


_BEFORE_BOX = element("label", text("Search"), for_="q", class_="sr")
_AFTER_BOX = join_markup(
    element("button", text("Search"), type="submit", class_="go"),
    element(
        "ul", EMPTY, id="completions", role="listbox", aria_label="Completions", hidden="hidden"
    ),
)
_LIVE = element("p", EMPTY, id="live", role="status", class_="soft")


def _form(table: Table, view: View, *, error: Markup = EMPTY) -> Markup:
    box = element(
        "input",
        id="q",
        name="q",
        type="search",
        value=view.query,
        placeholder='timeout AND level:ERROR   "a phrase"   status:>=500',
        autocomplete="off",
        autocapitalize="off",
        spellcheck="false",
        role="combobox",
        aria_expanded="false",
        aria_controls="completions",
        aria_autocomplete="list",
        aria_describedby="live",
        enterkeyhint="search",
    )
    bar = element("div", _BEFORE_BOX, box, _AFTER_BOX, class_="bar")
    hidden = [
        element("input", type="hidden", name=key, value=value)
        for key, value in view.parameters("q", "where", "sort", "as", "n", "from", "since", "until")
    ]
    return element(
        "form",
        bar,
        _LIVE,
        error,
        _choices(table, view),
        *hidden,
        action="search",
        method="get",
        role="search",
        id="search",
    )


def _choices(table: Table, view: View) -> Markup:
    names = tuple(table.schema.names)
    return element(
        "div",
        _selects(names, view.sort, view.shape, view.size, best_first=bool(view.query)),
        _conditions(view.where, view.since, view.until),
        _column_picker(names, view),
        _versions(table, view),
        _exports(view),
        _COPY,
        class_="choices",
    )


_COPY = element(
    "button", text("Copy link"), type="button", class_="quiet", data_copy="", hidden="hidden"
)


@lru_cache(maxsize=64)
def _conditions(where: str, since: str, until: str) -> Markup:
    condition = element(
        "input",
        id="where",
        name="where",
        value=where,
        placeholder="status >= 500 AND day = '2026-11-15'",
        size="34",
    )
    low, high = (
        element("input", id=key, name=key, value=value, placeholder="2026-11-15T12:00Z", size="17")
        for key, value in (("since", since), ("until", until))
    )
    return _menu(
        "Condition and time",
        _label_control("Condition", "where", condition),
        _label_control("From", "since", low),
        _label_control("Until", "until", high),
        element("button", text("Apply"), type="submit"),
        id="conditions",
    )


@lru_cache(maxsize=512)
def _selects(
    names: tuple[str, ...], sort: str, shape: str, size: int, *, best_first: bool
) -> Markup:
    """Render the selection lists, which are the same for every query."""
    sorts = {
        "": "best first" if best_first else "newest first",
        SCORE: "by score",
        NEWEST: "newest first",
    }
    for name in names:
        sorts |= {name: f"{name} ↑", f"{name} desc": f"{name} ↓"}
    return join_markup(
        _label_control("Order", "sort", _select("sort", sorts, sort)),
        _label_control("Show as", "as", _select("as", {name: name for name in SHAPES}, shape)),
        _label_control("Hits", "n", _select("n", {str(n): str(n) for n in SIZES}, str(size))),
    )


def _label_control(name: str, for_: str, field: Markup) -> Markup:
    return element("div", element("label", text(name), for_=for_), field, class_="field")


def _select(name: str, values: Mapping[str, str], chosen: str) -> Markup:
    options = [
        element(
            "option", text(title), value=value, selected="selected" if value == chosen else None
        )
        for value, title in values.items()
    ]
    return element("select", *options, name=name, id=name, data_submit="")


def _menu(title: str, *content: Markup, id: str) -> Markup:  # noqa: A002
    return element(
        "details", element("summary", text(title)), element("div", *content, class_="menu"), id=id
    )


def _column_picker(names: tuple[str, ...], view: View) -> Markup:
    address = view.address(columns=(), offset=view.offset)
    every = element("a", text("all columns"), href=address)
    before = text(address + ("&" if "?" in address else "?"))
    links = [join_markup(a, before, b) for a, b in _only_links(names)]
    if view.columns:
        chosen = f"Columns ({len(view.columns)})"
    else:
        chosen = "Columns"
    return _menu(
        chosen, _column_boxes(names, view.columns), every, element("noscript", *links), id="columns"
    )


@lru_cache(maxsize=512)
def _column_boxes(names: tuple[str, ...], chosen: tuple[str, ...]) -> Markup:
    boxes = [
        element(
            "label",
            element(
                "input",
                type="checkbox",
                value=name,
                data_column="",
                checked="checked" if not chosen or name in chosen else None,
            ),
            text(name),
        )
        for name in names
    ]
    apply = element(
        "button", text("Show these"), type="button", data_apply_columns="", hidden="hidden"
    )
    return join_markup(
        element("fieldset", element("legend", text("Columns"), class_="sr"), *boxes), apply
    )


@lru_cache(maxsize=512)
def _only_links(names: tuple[str, ...]) -> list[tuple[Markup, Markup]]:
    """Return the text before and after the column name in links that show a single column."""
    return [
        (
            Markup('<a href="'),
            join_markup(
                text(urlencode({"c": name})), Markup('">'), text(f"only {name}"), Markup("</a>")
            ),
        )
        for name in names
    ]


def _versions(table: Table, view: View) -> Markup:
    """Render the version menu. Its entries load when it is opened; without scripts it links to the
    history.
    """
    later = element("div", EMPTY, data_open_load=view.address("versions"))
    without_scripts = element("noscript", element("a", text("History"), href="history"))
    return _menu(f"Version {table.version}", later, without_scripts, id="versions")


def versions_part(table: Table, view: View) -> Markup:
    """Render the searchable versions: a slider, and a link to each with the same choices."""
    rows = table.history(limit=30).to_pylist()
    newest = rows[0]["version"] if rows else table.version
    links = [
        element(
            "a",
            element("b", text(row["version"])),
            text(f" {row['operation'] or ''} "),
            element(
                "small",
                text("" if row["timestamp"] is None else f"{row['timestamp']:%Y-%m-%d %H:%M:%S}"),
            ),
            href=view.address(version=None if row["version"] == newest else row["version"]),
            aria_current="true" if row["version"] == table.version else None,
        )
        for row in rows
        if row["is_readable"]
    ]
    readable = [row["version"] for row in rows if row["is_readable"]]
    slider = element(
        "input",
        type="range",
        min=min(readable, default=0),
        max=newest,
        value=table.version,
        data_versions="",
        data_newest=newest,
        aria_label="Version",
        hidden="hidden",
    )
    return join_markup(slider, element("output", EMPTY), *links)


def _exports(view: View) -> Markup:
    address = view.address("export", offset=0)
    before = address + ("&" if "?" in address else "?")
    links = [
        element("a", text(title), href=f"{before}format={kind}", download="")
        for kind, title in EXPORTS.items()
    ]
    return _menu(
        "Export",
        element("p", text("Every hit, in the table's order."), class_="soft"),
        *links,
        id="exports",
    )


def _chips(view: View) -> Markup:
    """Render the active filters, each with a link that removes it."""
    chips = [_chip(f, f"the filter {f}", view.without_filter(f)) for f in view.filters]
    if view.where:
        chips.append(_chip(view.where, f"the condition {view.where}", view.address(where="")))
    if view.since or view.until:
        stretch = f"{view.since or '…'} to {view.until or '…'}"
        chips.append(_chip(stretch, f"the time {stretch}", view.address(since="", until="")))
    if chips:
        return element("p", *chips, class_="chips", aria_label="Filters", role="group")
    return EMPTY


def _chip(shown: str, what: str, address: str) -> Markup:
    cross = element("span", text(" ×"), aria_hidden="true")
    return element(
        "a", text(shown), cross, href=address, aria_label=f"Remove {what}", class_="chip"
    )


def _version_note(table: Table, view: View) -> Markup:
    if view.version is None:
        return EMPTY
    newest = element("a", text("Show the newest"), href=view.address(version=None))
    return element(
        "p",
        text(f"This is version {table.version}, not the newest. "),
        newest,
        class_="note",
        role="status",
    )


def _later(view: View, exploration: TableView) -> Markup:
    """Render a placeholder that loads after the hits; without scripts, a link to the complete page."""
    whole = element(
        "a",
        text("Show count, histogram and facets"),
        href=view.address(panels=True, offset=view.offset),
    )
    lazy = element(
        "div",
        EMPTY,
        data_load=view.address("histogram"),
        class_="histogram loading",
        aria_busy="true",
    )
    return join_markup(
        lazy if exploration.time_column is not None else EMPTY,
        element("noscript", element("p", whole)),
    )


def _facets_later(view: View) -> Markup:
    return element(
        "aside",
        EMPTY,
        data_load=view.address("facets"),
        class_="facets loading",
        aria_label="Facets",
        aria_busy="true",
    )


def _results(exploration: TableView, hits: HitPage, total: int | None) -> Markup:
    view, rows = exploration.view, hits.rows
    first, last = view.offset + 1, view.offset + rows.num_rows
    if rows.num_rows:
        about = element("span", text(f"Hits {number(first)} to {number(last)} "))
    else:
        about = element("span", text("No hits here. " if view.offset else "No row matches. "))
    count = EMPTY
    if rows.num_rows:
        later = view.address("count") if total is None else None
        count = element(
            "span", EMPTY if total is None else count_part(total), id="count", data_load=later
        )
    head = element(
        "div", element("h2", about, count, class_="count"), _pager(view, hits), class_="resulthead"
    )
    if view.shape == "records":
        body = _records(rows, hits.marks)
    else:
        body = _hit_table(rows, hits.marks, view)
    cost = element(
        "details",
        element("summary", text("What did this cost?")),
        element("div", EMPTY, data_open_load=view.address("cost", offset=view.offset)),
        element(
            "noscript", element("a", text("Show"), href=view.address("cost", offset=view.offset))
        ),
        class_="cost",
    )
    if hits.more or view.offset:
        bottom = element("div", _pager(view, hits, "Pages of hits, again"), class_="resulthead")
    else:
        bottom = EMPTY
    return element(
        "section",
        head,
        body if rows.num_rows else EMPTY,
        bottom,
        cost,
        id="hits",
        aria_label="Hits",
    )


def _pager(view: View, hits: HitPage, label: str = "Pages of hits") -> Markup:
    links = []
    if view.after:
        links.append(
            element("a", text("← First page"), href=view.address(offset=0), class_="button")
        )
    elif view.offset:
        links.append(
            element(
                "a",
                text("← Previous"),
                href=view.address(offset=max(0, view.offset - view.size)),
                rel="prev",
                class_="button",
            )
        )
    if hits.more:
        behind = view.address(offset=view.offset + view.size, after=hits.next)
        links.append(element("a", text("Next →"), href=behind, rel="next", class_="button"))
    if links:
        return element("nav", *links, class_="pager", aria_label=label)
    return EMPTY


Marks = Mapping[str, Sequence[Sequence[Span]]]


def _hit_table(rows: pa.Table, marks: Marks, view: View) -> Markup:
    names = [name for name in rows.schema.names if name != _SCORE]
    right = {
        n
        for n in names
        if pa.types.is_integer(rows.schema.field(n).type)
        or pa.types.is_floating(rows.schema.field(n).type)
    }
    base = view.address(sort="")
    heads = [
        _sort_head(name, view, f"{base}{'&' if '?' in base else '?'}", right) for name in names
    ]
    columns = [
        _cells(rows.column(name), marks.get(name), is_number=name in right) for name in names
    ]
    lines = elements(
        "tr",
        [join_markup(*cells) for cells in zip(*columns, strict=True)],
        tabindex="-1",
        class_="hit",
    )
    table = element(
        "table",
        element("caption", text("Hits"), class_="sr"),
        element("thead", element("tr", *heads)),
        element("tbody", *lines),
    )
    return element(
        "div",
        table,
        class_="scroll hits",
        tabindex="0",
        role="region",
        aria_label="Hits as a table",
    )


def _cells(
    column: pa.ChunkedArray, marks: Sequence[Sequence[Span]] | None, *, is_number: bool
) -> list[Markup]:
    """Render the cells of a column with one class. Short values do not wrap."""
    values = column_texts(column)
    narrow = max(map(len, filter(None, values)), default=0) <= _SHORT_TEXT
    kind = " ".join(k for k, yes in (("number", is_number), ("narrow", narrow)) if yes) or None
    if marks is not None:
        shown = [
            NULL if v is None else mark_matches(v, own)
            for v, own in zip(values, marks, strict=True)
        ]
    elif narrow:
        shown = texts([v or "" for v in values])
        if column.null_count:
            shown = [NULL if v is None else s for v, s in zip(values, shown, strict=True)]
    else:
        shown = [NULL if v is None else fold_text(v) for v in values]
    return elements("td", shown, class_=kind)


def _sort_head(name: str, view: View, before: str, right: set[str]) -> Markup:
    down = view.sort in (name, f"{name} asc")
    order: str | None = None
    if down:
        order = "ascending"
    elif view.sort == f"{name} desc":
        order = "descending"
    arrow = {"ascending": " ↑", "descending": " ↓"}.get(order or "", "")
    link = element(
        "a", text(name + arrow), href=before + urlencode({"sort": f"{name} desc" if down else name})
    )
    return element(
        "th", link, scope="col", aria_sort=order, class_="number" if name in right else None
    )


def _records(rows: pa.Table, marks: Marks) -> Markup:
    """Render hits as records, with a line for each column that has a value."""
    items = []
    for place, row in enumerate(rows.to_pylist(maps_as_pydicts="lossy")):
        lines = [
            join_markup(
                element("dt", text(name)),
                element("dd", _record_value(value, marks[name][place] if name in marks else ())),
            )
            for name, value in row.items()
            if value is not None and name != _SCORE
        ]
        score = row.get(_SCORE)
        if isinstance(score, float):
            about = element("p", text(f"score {score:.3f}"), class_="score")
        else:
            about = EMPTY
        items.append(element("li", about, element("dl", *lines), tabindex="-1", class_="hit"))
    return element("ol", *items, class_="records")


def _record_value(value: Any, marks: Sequence[Span]) -> Markup:
    if isinstance(value, dict | list):
        nested = value
    else:
        nested = _as_json(value)
    if nested is not None and not marks:
        pretty = msgspec.json.format(msgspec.json.encode(nested, enc_hook=str), indent=2).decode()
        return element("pre", text(pretty), class_="json")
    if isinstance(value, str):
        return mark_matches(value, marks)
    return plain(value)


def _as_json(value: Any) -> Any:
    """Parse a text that is a JSON object or list; return None for other texts."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return None


def facets_part(facets: Sequence[Facet], view: View, wide: Sequence[str] = ()) -> Markup:
    """Render the facets. Selecting a value adds a filter. Columns with many values load when
    opened.
    """
    if not facets and not wide:
        return element(
            "aside",
            element("p", text("No column has values that can be counted."), class_="soft"),
            class_="facets",
            aria_label="Facets",
        )
    counted = (
        element("section", element("h2", text(facet.column)), values_part(facet, view))
        for facet in facets
    )
    opened = (_facet_later(name, view) for name in wide)
    return element("aside", *counted, *opened, class_="facets", aria_label="Facets")


def _facet_later(column: str, view: View) -> Markup:
    """Render a facet that is counted when it is opened; without scripts, a link to its values."""
    address = f"facet?{urlencode([('facet', column), *view.parameters()])}"
    return element(
        "details",
        element("summary", text(column)),
        element("div", EMPTY, data_open_load=address),
        element("noscript", element("a", text("Show"), href=address)),
    )


def values_part(facet: Facet, view: View) -> Markup:
    """Render the values of a facet with their hit counts."""
    if not facet.values:
        return element("p", text("No hit has a value."), class_="soft")
    most = max(value.count for value in facet.values) or 1
    items = []
    for value in facet.values:
        share = element(
            "svg",
            rect(0, 0, 100 * value.count / most, 4, class_="share"),
            viewBox="0 0 100 4",
            preserveAspectRatio="none",
            aria_hidden="true",
        )
        chosen = value.filter in view.filters
        link = element(
            "a",
            element("span", text(value.label), class_="value"),
            element("span", text(number(value.count)), class_="n"),
            share,
            href=view.without_filter(value.filter) if chosen else view.with_filter(value.filter),
            aria_current="true" if chosen else None,
        )
        if not value.filter.startswith("NOT "):
            negation = f"NOT {value.filter}"
        else:
            negation = value.filter.removeprefix("NOT ")
        without = element(
            "a",
            text("−"),
            href=view.with_filter(negation),
            class_="not",
            aria_label=f"Without {value.label}",
        )
        items.append(element("li", link, without))
    return element("ul", *items)


def histogram_part(histogram: Histogram | None, view: View) -> Markup:
    """Draw the hits over time. A bar links to its interval; with scripts, dragging selects several
    bars.
    """
    if histogram is None or not histogram.bars:
        return element(
            "div", element("p", text("No hit has a time."), class_="soft"), class_="histogram"
        )
    bars, highest = histogram.bars, round_top(max(bar.count for bar in histogram.bars))
    slot = min(_WIDEST, (_WIDTH - _LEFT) / len(bars))
    drawn = []
    for place, bar in enumerate(bars):
        tall = (_HEIGHT - 8) * bar.count / highest
        tip = f"{bar.start:%Y-%m-%d %H:%M:%S}: {number(bar.count)}"
        x = _LEFT + place * slot
        shape = [
            rect(x, 0, slot, _HEIGHT, class_="reach"),
            rect(
                x + 0.5,
                _HEIGHT - max(tall, 1.5 if bar.count else 0),
                max(0.5, slot - 1),
                max(tall, 1.5 if bar.count else 0),
                class_="bar",
                rx=1,
            ),
        ]
        address = view.address(since=_iso(bar.start), until=_iso(bar.end), time=view.time)
        drawn.append(
            element(
                "a",
                element("title", text(tip)),
                *shape,
                href=address,
                aria_label=tip,
                data_since=_iso(bar.start),
                data_until=_iso(bar.end),
            )
        )
    lines = [
        join_markup(
            element("line", x1=_LEFT, x2=_WIDTH, y1=y, y2=y, class_="grid"),
            label(_LEFT - 6, y + 4, short(highest * part), text_anchor="end"),
        )
        for part in (0.5, 1.0)
        for y in ((_HEIGHT - (_HEIGHT - 8) * part),)
    ]
    svg = element(
        "svg",
        *lines,
        *drawn,
        *_time_axis(histogram),
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT + _BOTTOM:g}",
        role="group",
        aria_label=f"Hits over {histogram.column}",
        data_brush="",
    )
    about = element(
        "p",
        text(f"{histogram.column}, a bar is {histogram.step}. Click or draw to zoom."),
        class_="soft",
    )
    return element("div", svg, about, class_="histogram")


def _time_axis(histogram: Histogram) -> list[Markup]:
    bars = histogram.bars
    slot = min(_WIDEST, (_WIDTH - _LEFT) / len(bars))
    whole = (bars[-1].end - bars[0].start).total_seconds()
    if whole < 7_200:
        form = "%H:%M:%S"
    else:
        form = "%d %b %H:%M" if whole < 15 * 86_400 else "%Y-%m-%d"
    every = max(1, -(-len(bars) // 7))
    return [
        label(
            _LEFT + place * slot,
            _HEIGHT + 15,
            f"{bar.start:{form}}",
            class_="minor" if place // every % 3 else None,
        )
        for place, bar in enumerate(bars)
        if place % every == 0 and place * slot < _WIDTH - _LEFT - 80
    ]


def _iso(moment: Any) -> str:
    return str(moment.isoformat().replace("+00:00", "Z"))


def count_part(count: int) -> Markup:
    """Render the number of hits."""
    return text(f"of {number(count)}")


def cost_part(steps: Steps) -> Markup:
    """Render the time and bytes of a search."""
    report = steps.report
    times = {name: f"{value:.1f} ms" for name, value in steps.milliseconds.items()}
    figures = {
        "splits in the table": number(report.splits_considered),
        "left out by partition": number(report.splits_pruned_by_partition),
        "left out by statistics": number(report.splits_skipped_by_statistics),
        "answered by the log": number(report.splits_answered_by_log),
        "opened": number(report.splits_opened),
        "bytes read": size(report.bytes_read),
        "of bytes in opened splits": size(report.bytes_in_opened_splits),
    }
    rows = [
        {
            "split": s.path,
            "rows": s.rows,
            "matched": s.rows_matched,
            "answered by": s.answered_by,
            "requests": s.requests,
            "bytes": s.bytes_read,
        }
        for s in report.splits[:50]
    ]
    understood = element(
        "p",
        text("Read as "),
        element("code", text(report.query or "*")),
        text(f" {value_text(report.where or '')}"),
    )
    return element(
        "div",
        understood,
        cards(times),
        cards(figures),
        listing(rows, caption="Splits that were opened"),
        class_="cost-body",
    )
