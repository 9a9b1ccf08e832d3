"""The report about a table: one self-contained page.

Its sections include the bytes of splits by column, and the cost of one search: the splits left
after each pruning step, and the bytes read. The page has a light and a dark theme.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from indextables.config import VERSION
from indextables.config.indexing import IndexingSettings
from indextables.errors import CorruptTableError
from indextables.inspect.figures import (
    ComponentFigure,
    PartitionFigure,
    VersionFigure,
    component_figures,
    partition_figures,
    search_figures,
    version_figures,
)
from indextables.log.checkpoint.checkpointer import StateReport
from indextables.query.explain import ScanReport
from indextables.storage.location import check_characters
from indextables.table import Table
from indextables.web.svg import (
    LETTER,
    Markup,
    drawing,
    element,
    heat_map,
    join_markup,
    label,
    merges_chart,
    number,
    plural,
    rect,
    size,
    text,
    timeline_chart,
)

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
    """Return a whole page. It loads no script, image or font."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", text(title)),
        _STYLE,
    )
    return join_markup(
        _DOCTYPE,
        element("html", head, element("body", element("main", *sections)), lang="en"),
        Markup("\n"),
    )


def section(title: str, caption: str, *content: Markup) -> Markup:
    """Render a heading, an introduction and the content."""
    return element("section", element("h2", text(title)), element("p", text(caption)), *content)


def scrolling(chart: Markup) -> Markup:
    """Wrap a chart so that it scrolls on a narrow screen instead of shrinking."""
    return element("div", chart, class_="scroll")


def cards(figures: Mapping[str, str]) -> Markup:
    """Render figures with their names."""
    items = [
        element("div", element("b", text(value)), element("span", text(name)), class_="card")
        for name, value in figures.items()
    ]
    return element("div", *items, class_="cards")


def table(rows: Sequence[Mapping[str, str]], *, numbers: Sequence[str] = ()) -> Markup:
    """Render rows of texts. The columns in `numbers` are right-aligned."""
    names = list(rows[0]) if rows else []
    head = [
        element("th", text(name), class_="number" if name in numbers else None) for name in names
    ]
    lines = [
        element(
            "tr",
            *(
                element("td", text(row[n] or " "), class_="number" if n in numbers else None)
                for n in names
            ),
        )
        for row in rows
    ]
    return element("table", element("thead", element("tr", *head)), element("tbody", *lines))


_WIDTH = 880.0
_COMPONENT_LEFT, _COMPONENT_RIGHT = 170.0, 84.0
_COMPONENT_LINE = 26.0
KINDS = {
    "rows": "rows (Parquet)",
    "term": "terms",
    "idx": "postings",
    "pos": "positions",
    "fieldnorm": "lengths",
    "hot": "hot section",
    "footer": "footer",
}
_SHARED = "(all columns)"


def components_chart(components: Sequence[ComponentFigure]) -> Markup:
    """Draw a bar per column, the largest first, and one for bytes that belong to no column."""
    bars: dict[str, dict[str, int]] = {}
    for figure in components:
        own = bars.setdefault(figure.field if figure.field is not None else _SHARED, {})
        if figure.component in KINDS:
            kind = figure.component
        else:
            kind = "footer"
        own[kind] = own.get(kind, 0) + figure.size_bytes
    order = sorted(bars, key=lambda name: (name == _SHARED, -sum(bars[name].values())))
    highest = max((sum(own.values()) for own in bars.values()), default=1) or 1
    lines = [
        _component_line(name, bars[name], highest, 16 + _COMPONENT_LINE * index)
        for index, name in enumerate(order)
    ]
    bottom = 16 + _COMPONENT_LINE * len(order)
    return drawing(
        _WIDTH, bottom + 36, *lines, _legend(bottom + 22), title="Bytes by column and component"
    )


def _component_line(name: str, own: dict[str, int], highest: int, y: float) -> Markup:
    parts, x = (
        [label(_COMPONENT_LEFT - 8, y + 13, name, width=_COMPONENT_LEFT - 12, text_anchor="end")],
        _COMPONENT_LEFT,
    )
    for kind in KINDS:
        width = (_WIDTH - _COMPONENT_LEFT - _COMPONENT_RIGHT) * own.get(kind, 0) / highest
        if width:
            title = f"{name}, {KINDS[kind]}: {size(own[kind])}"
            parts.append(rect(x, y, width, _COMPONENT_LINE - 8, class_=f"part-{kind}", title=title))
            x += width
    return join_markup(*parts, label(x + 6, y + 13, size(sum(own.values()))))


def _legend(y: float) -> Markup:
    parts, x = [], 8.0
    for kind, name in KINDS.items():
        parts += [rect(x, y - 9, 10, 10, class_=f"part-{kind}"), label(x + 15, y, name)]
        x += 32 + len(name) * LETTER
    return join_markup(*parts)


_LEFT, _ROOM, _LINE = 236.0, 470.0, 28.0


def cost_chart(finding: ScanReport, reading: ScanReport) -> Markup:
    """Draw two groups of bars: splits, and the bytes read from the opened splits to find and to
    fetch rows.
    """
    splits, whole = finding.splits_considered, finding.bytes_in_opened_splits
    in_partitions = splits - finding.splits_pruned_by_partition
    in_bounds = in_partitions - finding.splits_skipped_by_statistics
    lines = [
        _line(0, "splits in the table", splits, splits, number(splits), "empty"),
        _line(1, "left by partition values", in_partitions, splits, number(in_partitions), "write"),
        _line(2, "left by column bounds", in_bounds, splits, number(in_bounds), "write"),
        _line(
            3,
            "bytes in opened splits",
            whole,
            whole,
            _amount(whole, finding.splits_opened, "split"),
            "empty",
        ),
        _bytes(4, "read to find the rows", finding, whole),
        _bytes(5, "read for all their columns", reading, whole),
    ]
    return drawing(_WIDTH, 24 + _LINE * len(lines), *lines, title="Cost of a search")


def _bytes(place: int, name: str, report: ScanReport, whole: int) -> Markup:
    amount = _amount(report.bytes_read, report.requests, "request")
    return _line(place, name, report.bytes_read, whole, amount, "merge")


def _amount(count: int, within: int, what: str) -> str:
    return f"{size(count)} in {plural(within, what)}"


def _line(place: int, name: str, value: int, whole: int, amount: str, kind: str) -> Markup:
    y = 8 + _LINE * place + (10 if place > 2 else 0)
    width = _ROOM * min(1.0, value / whole) if whole else 0.0
    return join_markup(
        label(_LEFT - 10, y + 15, name, text_anchor="end"),
        rect(_LEFT, y + 3, max(width, 2.0 if value else 0.0), _LINE - 12, class_=kind, rx=1.5),
        label(_LEFT + width + 8, y + 15, amount),
    )


_VERSIONS = 60
_MERGES = 8
_LISTED = 15


def write_report(
    table: Table, out: str | Path, *, query: str | None = None, max_splits: int = 200
) -> Path:
    """Write the report about a table to a file and return its path.

    Args:
        table: The table.
        out: The file.
        query: The search whose cost is shown; by default a word of the table.
        max_splits: The number of largest splits that are opened to measure their parts.

    Example:
        write_report(t, "report.html")
    """
    path = Path(check_characters(str(out)))
    path.write_text(report_html(table, query=query, max_splits=max_splits), encoding="utf-8")
    return path


def report_html(table: Table, *, query: str | None = None, max_splits: int = 200) -> str:
    """Return the report about a table as HTML.

    Args:
        table: The table.
        query: As for `write_report`.
        max_splits: As for `write_report`.
    """
    versions, merges = version_figures(table.inspect, limit=_VERSIONS)
    parts = partition_figures(table.inspect)
    sections = [_head(table, parts), _timeline(versions)]
    if merges:
        caption = "Each dot is a split, placed by its size. Merging changes no row: it makes fewer, larger splits."
        newest = _newest(len(merges), _MERGES, "merge")
        sections.append(
            section("Merges", f"{caption}{newest}", scrolling(merges_chart(merges[-_MERGES:])))
        )
    if table.partition_columns and parts:
        sections.append(_partitions(table, parts))
    sections.append(_state(table.state()))
    if parts:
        sections.append(_readable("Bytes by column", lambda: _components(table, max_splits)))
        sections.append(_readable("Cost of a search", lambda: _search(table, query, max_splits)))
    footer = f"Written by indextables {VERSION} from version {table.version}."
    name = table.metadata.name or table.path.rstrip("/").rpartition("/")[2]
    return page(f"{name}, version {table.version}", *sections, element("footer", text(footer)))


def _head(table: Table, parts: list[PartitionFigure]) -> Markup:
    name = table.metadata.name or table.path.rstrip("/").rpartition("/")[2]
    figures = {
        "version": number(table.version),
        "rows": number(sum(part.rows for part in parts)),
        "splits": number(sum(part.splits for part in parts)),
        "bytes": size(sum(part.size_bytes for part in parts)),
        "columns": number(len(table.schema)),
        "partitions": number(len(parts)) if table.partition_columns else "none",
    }
    if table.metadata.description:
        about = [element("p", text(table.metadata.description))]
    else:
        about = []
    place = element("p", element("code", text(table.path)))
    return element("header", element("h1", text(name)), place, *about, cards(figures))


def _newest(total: int, limit: int, what: str) -> str:
    if total > limit:
        return f" The newest {limit} of {plural(total, what)} are drawn."
    return ""


def _timeline(versions: list[VersionFigure]) -> Markup:
    caption = "Every version, by what it did. Point at a bar for its time and figures."
    if versions and versions[0].version > 0:
        caption += f" Versions before {versions[0].version} are not drawn."
    rows = [
        {
            "version": str(v.version),
            "time (UTC)": "" if v.at is None else f"{v.at:%Y-%m-%d %H:%M:%S}",
            "operation": v.operation,
            "splits": "" if v.splits is None else number(v.splits),
            "bytes": "" if v.size_bytes is None else size(v.size_bytes),
            "readable": "yes" if v.is_readable else "no",
        }
        for v in reversed(versions[-_LISTED:])
    ]
    listing = table(rows, numbers=("version", "splits", "bytes"))
    return section(
        "Timeline of versions", caption, scrolling(timeline_chart(versions)), scrolling(listing)
    )


def _partitions(table: Table, parts: list[PartitionFigure]) -> Markup:
    chart = heat_map(parts, table.partition_columns)
    caption = f"Rows in each partition by {', '.join(table.partition_columns)}: the stronger the colour, the more rows."
    if len(table.partition_columns) > 2:
        caption += f" Partitions by {', '.join(table.partition_columns[2:])} are added up."
    if chart.left_out:
        caption += f" The last ones are drawn; {number(chart.left_out)} more are not."
    return section("Partitions", caption, scrolling(chart.chart))


def _state(report: StateReport) -> Markup:
    at = "none" if report.version is None else str(report.version)
    behind = report.latest_version - (report.version if report.version is not None else -1)
    caption = "What a reader starts from instead of replaying the whole log."
    if report.needs_compaction:
        caption += " It should be compacted: compact() rewrites it without tombstones."
    figures = {
        "form": report.format,
        "state at version": at,
        "versions after it": number(behind),
        "files in it": number(report.num_files),
        "manifests": number(report.num_manifests),
        "tombstones": f"{number(report.num_tombstones)} ({report.tombstone_ratio:.0%})",
        "skipped splits": number(report.num_skipped),
        "protocol": str(report.protocol_version),
    }
    return section("State and tombstones", caption, cards(figures))


def _readable(title: str, draw: Callable[[], Markup]) -> Markup:
    """Render a section about splits, or the error if one of them is damaged."""
    try:
        return draw()
    except CorruptTableError as error:
        return section(title, f"The splits could not be read. {error}")


def _components(table: Table, max_splits: int) -> Markup:
    components, split_count = component_figures(table.inspect, max_splits=max_splits)
    caption = f"What the bytes of {plural(split_count, 'split')} are spent on."
    if split_count == max_splits:
        caption += " These are the largest ones."
    return section("Bytes by column", caption, scrolling(components_chart(components)))


def _search(table: Table, query: str | None, max_splits: int) -> Markup:
    text_of_query = query or example_query(table)
    if text_of_query is None:
        return section(
            "Cost of a search",
            "No example could be made from the first rows; give a query to see its cost.",
        )
    finding, reading = search_figures(table.inspect, text_of_query, max_splits=max_splits)
    caption = f"{plural(finding.rows_matched, 'row')} matched. "
    caption += (
        "The query was given." if query else "The query is an example from the table's first rows."
    )
    if len(finding.splits) == max_splits:
        caption += f" It was run over the {plural(max_splits, 'largest split')} it would open."
    header = element("p", element("code", text(text_of_query)))
    return section("Cost of a search", caption, header, scrolling(cost_chart(finding, reading)))


def example_query(table: Table) -> str | None:
    """Return the longest word of the first text in a text column, or None."""
    kinds = table.settings.group(IndexingSettings).typemap
    for name, kind in kinds.items():
        if (
            kind != "text"
            or name not in table.schema.names
            or not re.fullmatch(r"[A-Za-z_]\w*", name)
        ):
            continue
        rows = table.scan(columns=[name], limit=20).read_all().column(name).to_pylist()
        words = [word for row in rows if row for word in re.findall(r"[A-Za-z]{4,20}", row)]
        if words:
            return f"{name}:{max(words, key=len).lower()}"
    return None
