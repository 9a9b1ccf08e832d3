"""The parts of the page: a head, sections with a chart each, cards of figures, tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from indextables.web.style import STYLE
from indextables.web.svg import Markup, element, joined, text

_DOCTYPE = Markup("<!DOCTYPE html>\n")
_STYLE = Markup(f"<style>{STYLE}</style>")


def page(title: str, *sections: Markup) -> Markup:
    """A whole page. It asks for nothing else: no script, no picture, no font."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", text(title)),
        _STYLE,
    )
    return joined(_DOCTYPE, element("html", head, element("body", element("main", *sections)), lang="en"), Markup("\n"))


def section(title: str, told: str, *content: Markup) -> Markup:
    """A heading, a sentence on what is shown, and the thing itself."""
    return element("section", element("h2", text(title)), element("p", text(told)), *content)


def scrolling(chart: Markup) -> Markup:
    """A chart that is scrolled, not squeezed, on a narrow screen."""
    return element("div", chart, class_="scroll")


def cards(figures: Mapping[str, str]) -> Markup:
    """Figures with their names."""
    shown = [
        element("div", element("b", text(value)), element("span", text(name)), class_="card")
        for name, value in figures.items()
    ]
    return element("div", *shown, class_="cards")


def table(rows: Sequence[Mapping[str, str]], *, numbers: Sequence[str] = ()) -> Markup:
    """Rows of texts; the columns in `numbers` stand to the right."""
    names = list(rows[0]) if rows else []
    head = [element("th", text(name), class_="number" if name in numbers else None) for name in names]
    lines = [
        element("tr", *(element("td", text(row[n] or " "), class_="number" if n in numbers else None) for n in names))
        for row in rows
    ]
    return element("table", element("thead", element("tr", *head)), element("tbody", *lines))
