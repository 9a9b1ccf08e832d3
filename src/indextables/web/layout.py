"""The frame of every explorer page (head, navigation) and small parts that pages share."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa

from indextables.config import VERSION
from indextables.errors import IndexTablesError
from indextables.model.report import Report
from indextables.splits.search.snippets import Span
from indextables.web.svg import Markup, element, is_harmless, join_markup, text

EMPTY = Markup("")
NULL = element("span", text("null"), class_="null")
PAGES = {
    "search": "Search",
    "schema": "Columns",
    "partitions": "Partitions",
    "files": "Files",
    "history": "History",
    "upkeep": "Upkeep",
    "report": "Report",
}
_FOLD = 240
_MARK, _MARK_END = Markup("<mark>"), Markup("</mark>")
_DOCTYPE = Markup("<!DOCTYPE html>\n")


def frame(
    title: str, *content: Markup, up: str, name: str | None = None, page: str = "", note: str = ""
) -> Markup:
    """Return a whole page. `up` is the path to the first page; `name` is the table of the
    navigation.
    """
    head = element("head", _head(up), element("title", text(f"{title} · IndexTables")))
    body = element(
        "body",
        element("a", text("Skip to the content"), href="#content", class_="skip"),
        _top(up, name, page),
        element("main", *content, id="content", tabindex="-1"),
        element(
            "footer",
            text(f"IndexTables {VERSION}"),
            element("span", text(note)),
            element("span", text("Press ? for keys"), class_="keys"),
        ),
    )
    return join_markup(_DOCTYPE, element("html", head, body, lang="en"), Markup("\n"))


@lru_cache(maxsize=16)
def _head(up: str) -> Markup:
    """Return the head of a page without its title."""
    return join_markup(
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="stylesheet", href=f"{up}assets/explorer.css"),
        element("link", rel="icon", href=f"{up}assets/icon.svg", type="image/svg+xml"),
        element("script", EMPTY, src=f"{up}assets/explorer.js", defer="defer"),
    )


@lru_cache(maxsize=256)
def _top(up: str, name: str | None, page: str) -> Markup:
    brand = element(
        "a", _mark(), element("span", text("IndexTables")), href=up or "./", class_="brand"
    )
    toggle = element(
        "button",
        text("Theme"),
        type="button",
        class_="theme quiet",
        data_theme_toggle="",
        aria_label="Light or dark",
    )
    if name is None:
        return element("header", brand, toggle, class_="top")
    links = [
        element(
            "a", text(title), href=key, class_="tab", aria_current="page" if key == page else None
        )
        for key, title in PAGES.items()
    ]
    here = element("span", text(name), class_="here")
    return element(
        "header",
        brand,
        here,
        element("nav", *links, aria_label="Pages of the table"),
        toggle,
        class_="top",
    )


def _mark() -> Markup:
    bars = [
        element("rect", x=3, y=4, width=18, height=4, rx=1.5, class_="m1"),
        element("rect", x=3, y=10, width=12, height=4, rx=1.5, class_="m2"),
        element("rect", x=3, y=16, width=7, height=4, rx=1.5, class_="m3"),
    ]
    return element(
        "svg", *bars, viewBox="0 0 24 24", width=22, height=22, aria_hidden="true", class_="logo"
    )


def table_address(name: str, page: str = "search") -> str:
    """Return the address of a table's page, relative to the first page."""
    return f"t/{quote(name, safe='')}/{page}"


def summary(error: IndexTablesError) -> str:
    """Return the message of an error in one line, without the pointer to a position in a query."""
    first, _, rest = error.message.strip().partition("\n")
    if isinstance(error.context.get("position"), int):
        return first.rstrip(":.") + "."
    return " ".join([first, *rest.split()])


def problem(error: IndexTablesError, *, of: str = "") -> Markup:
    """Render an error: message, position in the text, and hint."""
    position, source = error.context.get("position"), error.context.get("query") or of
    parts = [element("p", element("strong", text(summary(error))))]
    if isinstance(position, int) and source:
        place = max(0, min(position, len(source)))
        word = source[place : place + 1] or " "
        shown = [
            text(source[:place]),
            element("mark", text(word), class_="here"),
            text(source[place + 1 :]),
        ]
        parts.append(element("pre", *shown))
    return element("div", *parts, element("p", text(error.hint)), class_="problem", role="alert")


def cards(figures: Mapping[str, object]) -> Markup:
    """Render figures with their names."""
    items = [
        element("div", element("dt", text(name)), element("dd", text(value)), class_="card")
        for name, value in figures.items()
    ]
    return element("dl", *items, class_="cards")


def listing(rows: Sequence[Mapping[str, Any]], *, caption: str, empty: str = "None.") -> Markup:
    """Render rows as a scrolling table. Numbers are right-aligned. Markup is inserted unchanged."""
    if not rows:
        return element("p", text(empty), class_="soft")
    names = list(rows[0])
    right = {name for name in names if all(_is_number(row[name]) for row in rows)}
    head = [
        element("th", text(name), scope="col", class_="number" if name in right else None)
        for name in names
    ]
    lines = [
        element(
            "tr",
            *(
                element("td", _cell(row[name]), class_="number" if name in right else None)
                for name in names
            ),
        )
        for row in rows
    ]
    table = element(
        "table",
        element("caption", text(caption), class_="sr"),
        element("thead", element("tr", *head)),
        element("tbody", *lines),
    )
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption)


class Cell(msgspec.Struct, frozen=True):
    """A table cell that is already markup."""

    markup: Markup


def _cell(value: Any) -> Markup:
    if isinstance(value, Cell):
        return value.markup
    if _is_number(value) and value is not None and isinstance(value, int):
        return text(f"{value:,}")
    return plain(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def report_parts(report: Report, *, most: int = 100) -> Markup:
    """Render a report: the summary as figures, the details as listings."""
    summary = {
        key.replace("_", " "): "" if value is None else _figure(value)
        for key, value in report.summary().items()
    }
    parts = [cards(summary)]
    for name, rows in report.details().items():
        if rows:
            shown = f"{name} ({len(rows):,}{f', the first {most}' if len(rows) > most else ''})".replace(
                "_", " "
            )
            parts += [element("h3", text(shown)), listing(rows[:most], caption=shown)]
    return join_markup(*parts)


def _figure(value: Any) -> str:
    if isinstance(value, bool):
        if value:
            return "yes"
        return "no"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def plain(value: Any) -> Markup:
    """Render a value as text: times in ISO form, nested values as JSON, long texts collapsed."""
    if value is None:
        return NULL
    return fold_text(value_text(value))


def value_text(value: Any) -> str:
    """Return a value as the text of a cell."""
    if isinstance(value, str):
        return value
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ").removesuffix("+00:00")
    if isinstance(value, dict | list | tuple):
        return msgspec.json.encode(value, enc_hook=str).decode()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def fold_text(value: str) -> Markup:
    """Render a text. A long text shows its start and can be expanded."""
    if len(value) <= _FOLD:
        return text(value)
    return element(
        "details",
        element("summary", text(value[:_FOLD] + "…")),
        element("div", text(value), class_="whole"),
    )


def mark_matches(value: str, spans: Sequence[Span]) -> Markup:
    """Render a text with its matches marked. A long text starts at the first match and can be
    expanded.
    """
    if not spans:
        return fold_text(value)
    if len(value) <= _FOLD:
        return _passages(value, spans, 0, len(value))
    start = max(0, spans[0][0] - 80) if spans else 0
    end = start + _FOLD
    shown = join_markup(text("…" if start else ""), _passages(value, spans, start, end), text("…"))
    whole = _passages(value, spans, 0, len(value))
    return element("details", element("summary", shown), element("div", whole, class_="whole"))


def _passages(value: str, spans: Sequence[Span], start: int, end: int) -> Markup:
    own = Markup if is_harmless(value) else text
    parts, at = [], start
    for low, high in spans:
        if low < end and high > at:
            parts += [
                own(value[at : max(at, low)]),
                _MARK,
                own(value[max(at, low) : min(high, end)]),
                _MARK_END,
            ]
            at = min(high, end)
    return join_markup(*parts, own(value[at:end]))


def string_list(column: pa.ChunkedArray) -> list[str | None]:
    """Return the texts of an array as Python strings, without a scalar per value."""
    texts: list[str | None] = column.to_numpy(zero_copy_only=False).tolist()
    return texts


def column_texts(column: pa.ChunkedArray) -> list[str | None]:
    """Return the values of a column as cell texts, without a Python object per date or timestamp."""
    kind = column.type
    if pa.types.is_date32(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return string_list(column.cast(pa.string()))
    if pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC"):
        timestamps = string_list(column.cast(pa.timestamp("us")).cast(pa.string()))
        return [None if moment is None else moment.removesuffix(".000000") for moment in timestamps]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return string_list(column)
    values = column.to_pylist(maps_as_pydicts="lossy")
    if pa.types.is_float64(kind):
        return [None if v is None else str(v) for v in values]
    return [None if v is None else value_text(v) for v in values]
