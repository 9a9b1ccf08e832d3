"""The report on a table: one page that can be mailed, kept and opened anywhere. It holds everything it shows.

What the bytes of splits are spent on, column by column.

What one search costs: how many splits are left after each kind of pruning, and how little of those is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from indextables.config.indexing import IndexingSettings
from indextables.config.release import VERSION
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
from indextables.scan.explain import ScanReport
from indextables.table import Table
from indextables.web.page import cards, page, scrolling, section, table
from indextables.web.svg import (
    LETTER,
    Markup,
    drawing,
    element,
    heat_map,
    joined,
    label,
    merges_chart,
    number,
    plural,
    rect,
    size,
    text,
    timeline_chart,
)

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
    """A bar for each column, the largest first, and one for what belongs to no column."""
    bars: dict[str, dict[str, int]] = {}
    for figure in components:
        own = bars.setdefault(figure.field if figure.field is not None else _SHARED, {})
        kind = figure.component if figure.component in KINDS else "footer"
        own[kind] = own.get(kind, 0) + figure.size_bytes
    order = sorted(bars, key=lambda name: (name == _SHARED, -sum(bars[name].values())))
    highest = max((sum(own.values()) for own in bars.values()), default=1) or 1
    lines = [
        _component_line(name, bars[name], highest, 16 + _COMPONENT_LINE * index) for index, name in enumerate(order)
    ]
    bottom = 16 + _COMPONENT_LINE * len(order)
    return drawing(_WIDTH, bottom + 36, *lines, _legend(bottom + 22), title="Bytes by column and component")


def _component_line(name: str, own: dict[str, int], highest: int, y: float) -> Markup:
    parts, x = [label(_COMPONENT_LEFT - 8, y + 13, name, room=_COMPONENT_LEFT - 12, text_anchor="end")], _COMPONENT_LEFT
    for kind in KINDS:
        width = (_WIDTH - _COMPONENT_LEFT - _COMPONENT_RIGHT) * own.get(kind, 0) / highest
        if width:
            title = f"{name}, {KINDS[kind]}: {size(own[kind])}"
            parts.append(rect(x, y, width, _COMPONENT_LINE - 8, class_=f"part-{kind}", title=title))
            x += width
    return joined(*parts, label(x + 6, y + 13, size(sum(own.values()))))


def _legend(y: float) -> Markup:
    parts, x = [], 8.0
    for kind, name in KINDS.items():
        parts += [rect(x, y - 9, 10, 10, class_=f"part-{kind}"), label(x + 15, y, name)]
        x += 32 + len(name) * LETTER
    return joined(*parts)


_LEFT, _ROOM, _LINE = 236.0, 470.0, 28.0


def cost_chart(finding: ScanReport, reading: ScanReport) -> Markup:
    """Two groups of bars: splits, and bytes of those that were opened, to find the rows and to read them."""
    splits, whole = finding.splits_considered, finding.bytes_in_opened_splits
    in_partitions = splits - finding.splits_pruned_by_partition
    in_bounds = in_partitions - finding.splits_skipped_by_statistics
    lines = [
        _line(0, "splits in the table", splits, splits, number(splits), "empty"),
        _line(1, "left by partition values", in_partitions, splits, number(in_partitions), "write"),
        _line(2, "left by column bounds", in_bounds, splits, number(in_bounds), "write"),
        _line(3, "bytes in opened splits", whole, whole, _told(whole, finding.splits_opened, "split"), "empty"),
        _bytes(4, "read to find the rows", finding, whole),
        _bytes(5, "read for all their columns", reading, whole),
    ]
    return drawing(_WIDTH, 24 + _LINE * len(lines), *lines, title="Cost of a search")


def _bytes(place: int, name: str, report: ScanReport, whole: int) -> Markup:
    told = _told(report.bytes_read, report.requests, "request")
    return _line(place, name, report.bytes_read, whole, told, "merge")


def _told(count: int, within: int, what: str) -> str:
    return f"{size(count)} in {plural(within, what)}"


def _line(place: int, name: str, value: int, whole: int, told: str, kind: str) -> Markup:
    y = 8 + _LINE * place + (10 if place > 2 else 0)
    width = _ROOM * min(1.0, value / whole) if whole else 0.0
    return joined(
        label(_LEFT - 10, y + 15, name, text_anchor="end"),
        rect(_LEFT, y + 3, max(width, 2.0 if value else 0.0), _LINE - 12, class_=kind, rx=1.5),
        label(_LEFT + width + 8, y + 15, told),
    )


_VERSIONS = 60
_MERGES = 8
_LISTED = 15


def write_report(opened: Table, out: str | Path, *, query: str | None = None, max_splits: int = 200) -> Path:
    """Write the report on a table to a file, and return where it is.

    `query` is the search whose cost is shown; without one an example is made from the table's own words. Splits are
    opened to see what their bytes are spent on: the largest ones, `max_splits` at most, and the page says how many.
    """
    path = Path(out)
    path.write_text(report_html(opened, query=query, max_splits=max_splits), encoding="utf-8")
    return path


def report_html(opened: Table, *, query: str | None = None, max_splits: int = 200) -> str:
    """The report on a table as the text of a page."""
    versions, merges = version_figures(opened.inspect, limit=_VERSIONS)
    parts = partition_figures(opened.inspect)
    sections = [_head(opened, parts), _timeline(versions)]
    if merges:
        told = "Each dot is a split, placed by its size. Merging changes no row: it makes fewer, larger splits."
        shown = _newest(len(merges), _MERGES, "merge")
        sections.append(section("Merges", f"{told}{shown}", scrolling(merges_chart(merges[-_MERGES:]))))
    if opened.partition_columns and parts:
        sections.append(_partitions(opened, parts))
    sections.append(_state(opened.state()))
    if parts:
        sections.append(_readable("Bytes by column", lambda: _components(opened, max_splits)))
        sections.append(_readable("Cost of a search", lambda: _search(opened, query, max_splits)))
    written = f"Written by indextables {VERSION} from version {opened.version}."
    name = opened.metadata.name or opened.path.rstrip("/").rpartition("/")[2]
    return page(f"{name}, version {opened.version}", *sections, element("footer", text(written)))


def _head(opened: Table, parts: list[PartitionFigure]) -> Markup:
    name = opened.metadata.name or opened.path.rstrip("/").rpartition("/")[2]
    figures = {
        "version": number(opened.version),
        "rows": number(sum(part.rows for part in parts)),
        "splits": number(sum(part.splits for part in parts)),
        "bytes": size(sum(part.size_bytes for part in parts)),
        "columns": number(len(opened.schema)),
        "partitions": number(len(parts)) if opened.partition_columns else "none",
    }
    about = [element("p", text(opened.metadata.description))] if opened.metadata.description else []
    place = element("p", element("code", text(opened.path)))
    return element("header", element("h1", text(name)), place, *about, cards(figures))


def _newest(found: int, shown: int, what: str) -> str:
    return f" The newest {shown} of {plural(found, what)} are drawn." if found > shown else ""


def _timeline(versions: list[VersionFigure]) -> Markup:
    told = "Every version, by what it did. Point at a bar for its time and figures."
    if versions and versions[0].version > 0:
        told += f" Versions before {versions[0].version} are not drawn."
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
    listed = table(rows, numbers=("version", "splits", "bytes"))
    return section("Timeline of versions", told, scrolling(timeline_chart(versions)), scrolling(listed))


def _partitions(opened: Table, parts: list[PartitionFigure]) -> Markup:
    drawn = heat_map(parts, opened.partition_columns)
    told = f"Rows in each partition by {', '.join(opened.partition_columns)}: the stronger the colour, the more rows."
    if len(opened.partition_columns) > 2:
        told += f" Partitions by {', '.join(opened.partition_columns[2:])} are added up."
    if drawn.left_out:
        told += f" The last ones are drawn; {number(drawn.left_out)} more are not."
    return section("Partitions", told, scrolling(drawn.chart))


def _state(report: StateReport) -> Markup:
    at = "none" if report.version is None else str(report.version)
    behind = report.latest_version - (report.version if report.version is not None else -1)
    told = "What a reader starts from instead of replaying the whole log."
    if report.needs_compaction:
        told += " It should be compacted: compact() writes it anew without tombstones."
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
    return section("State and tombstones", told, cards(figures))


def _readable(title: str, draw: Callable[[], Markup]) -> Markup:
    """A section about splits; where one of them is damaged, what is wrong with it instead."""
    try:
        return draw()
    except CorruptTableError as error:
        return section(title, f"The splits could not be read. {error}")


def _components(opened: Table, max_splits: int) -> Markup:
    components, looked_at = component_figures(opened.inspect, max_splits=max_splits)
    told = f"What the bytes of {plural(looked_at, 'split')} are spent on."
    if looked_at == max_splits:
        told += " These are the largest ones."
    return section("Bytes by column", told, scrolling(components_chart(components)))


def _search(opened: Table, query: str | None, max_splits: int) -> Markup:
    asked = query or example_query(opened)
    if asked is None:
        return section(
            "Cost of a search", "No example could be made from the first rows; give a query to see its cost."
        )
    finding, reading = search_figures(opened.inspect, asked, max_splits=max_splits)
    told = f"{plural(finding.rows_matched, 'row')} matched. "
    told += "The query was given." if query else "The query is an example from the table's first rows."
    if len(finding.splits) == max_splits:
        told += f" It was run over the {plural(max_splits, 'largest split')} it would open."
    shown = element("p", element("code", text(asked)))
    return section("Cost of a search", told, shown, scrolling(cost_chart(finding, reading)))


def example_query(opened: Table) -> str | None:
    """A search that finds something: the longest word of the first text in a text column; None if there is no such word."""
    kinds = opened.settings.group(IndexingSettings).typemap
    for name, kind in kinds.items():
        if kind != "text" or name not in opened.schema.names or not re.fullmatch(r"[A-Za-z_]\w*", name):
            continue
        rows = opened.scan(columns=[name], limit=20).read_all().column(name).to_pylist()
        words = [word for row in rows if row for word in re.findall(r"[A-Za-z]{4,20}", row)]
        if words:
            return f"{name}:{max(words, key=len).lower()}"
    return None
