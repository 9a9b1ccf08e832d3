"""The parts of the page: a head, sections with a chart each, cards of figures, tables.

How the page looks, by day and by night.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from indextables.web.svg import Markup, element, joined, text

STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #1c2430; --soft: #5b6675; --line: #dfe3e8; --card: #f5f7f9;
  --write: #2a6fc9; --merge: #178a5c; --replace: #b77800; --remove: #c93c3c; --other: #8b95a1; --on: #ffffff;
  --c1: #2a6fc9; --c2: #178a5c; --c3: #b77800; --c4: #8a4fc0; --c5: #c2478a; --c6: #5b6675; --c7: #a7b0bb; }
@media (prefers-color-scheme: dark) { :root { --page: #14181d; --ink: #e6eaef; --soft: #9aa5b1; --line: #2d343d;
  --card: #1c2229; --write: #5b9bec; --merge: #3fb98a; --replace: #dca23a; --remove: #ec7070; --other: #7c8793;
  --on: #10151b; --c1: #5b9bec; --c2: #3fb98a; --c3: #dca23a; --c4: #b084e8; --c5: #e57fb5; --c6: #7c8793;
  --c7: #4d5763; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
main { max-width: 940px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 24px; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 40px 0 6px; }
p { margin: 4px 0 10px; color: var(--soft); } code { font: 13px ui-monospace, "DejaVu Sans Mono", monospace; }
code { overflow-wrap: anywhere; color: var(--ink); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(128px, 1fr)); gap: 10px; margin: 16px 0 0; }
.card { background: var(--card); border-radius: 8px; padding: 10px 14px; }
.card b { display: block; font-size: 19px; font-weight: 600; overflow-wrap: anywhere; }
.card span { color: var(--soft); font-size: 13px; }
.scroll { overflow-x: auto; } svg { display: block; width: 100%; min-width: 640px; height: auto; }
svg text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: var(--soft); }
svg text.name { fill: var(--ink); } svg text.strong { fill: var(--ink); font-weight: 600; }
svg text.on { fill: var(--ink); } svg text.on.strong { fill: var(--on); font-weight: 400; }
.grid { stroke: var(--line); stroke-width: 1; }
.write { fill: var(--write); } .merge { fill: var(--merge); } .replace { fill: var(--replace); }
.remove { fill: var(--remove); } .other { fill: var(--other); } .empty { fill: var(--line); } .gone { fill: var(--line); }
.heat { fill: var(--write); } .dot { fill-opacity: 0.55; }
.part-rows { fill: var(--c1); } .part-term { fill: var(--c2); } .part-idx { fill: var(--c3); } .part-pos { fill: var(--c4); }
.part-fieldnorm { fill: var(--c5); } .part-hot { fill: var(--c6); } .part-footer { fill: var(--c7); }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th { text-align: left; font-weight: 600; color: var(--soft); } td, th { padding: 5px 12px 5px 0; vertical-align: top; }
tr { border-bottom: 1px solid var(--line); } td { overflow-wrap: anywhere; }
td.number, th.number { text-align: right; white-space: nowrap; }
footer { margin-top: 48px; color: var(--soft); font-size: 13px; }
"""


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


def section(title: str, caption: str, *content: Markup) -> Markup:
    """A heading, a sentence on what is shown, and the thing itself."""
    return element("section", element("h2", text(title)), element("p", text(caption)), *content)


def scrolling(chart: Markup) -> Markup:
    """A chart that is scrolled, not squeezed, on a narrow screen."""
    return element("div", chart, class_="scroll")


def cards(figures: Mapping[str, str]) -> Markup:
    """Figures with their names."""
    items = [
        element("div", element("b", text(value)), element("span", text(name)), class_="card")
        for name, value in figures.items()
    ]
    return element("div", *items, class_="cards")


def table(rows: Sequence[Mapping[str, str]], *, numbers: Sequence[str] = ()) -> Markup:
    """Rows of texts; the columns in `numbers` stand to the right."""
    names = list(rows[0]) if rows else []
    head = [element("th", text(name), class_="number" if name in numbers else None) for name in names]
    lines = [
        element("tr", *(element("td", text(row[n] or " "), class_="number" if n in numbers else None) for n in names))
        for row in rows
    ]
    return element("table", element("thead", element("tr", *head)), element("tbody", *lines))
