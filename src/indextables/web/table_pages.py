"""Pages about a table itself: columns, partitions, files, history, difference of two versions, and
maintenance.

Maintenance is only planned here. No page changes a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
import pyarrow as pa

from indextables.errors import IndexTablesError, InvalidInputError
from indextables.inspect.figures import column_figures, version_figures
from indextables.model.report import Report
from indextables.splits.index.analyzers import analyze
from indextables.table import Table
from indextables.table.description import describe_table, difference
from indextables.web.exploration import column_mappings
from indextables.web.layout import (
    EMPTY,
    Cell,
    cards,
    frame,
    listing,
    problem,
    report_parts,
    table_address,
)
from indextables.web.svg import Markup, element, number, size, text, timeline_chart
from indextables.web.warehouse import ShownTable, Warehouse

_PAGE = 200
_VERSIONS = 60
Parameters = Mapping[str, str]


def home_page(warehouse: Warehouse) -> Markup:
    """List every table with its size."""
    shown = warehouse.tables()
    items = [_table_card(warehouse, table) for table in shown]
    empty = element("p", text("There is no table here yet."), class_="soft")
    body = element("ul", *items, class_="tables") if items else empty
    return frame("Tables", element("h1", text("Tables")), body, up="")


def _table_card(warehouse: Warehouse, shown: ShownTable) -> Markup:
    try:
        table = warehouse.open(shown.name)
        about: list[Markup] = [
            element("p", text(table.metadata.description)) if table.metadata.description else EMPTY,
            element(
                "p",
                text(
                    f"{number(table.count())} rows · {number(len(table.schema))} columns · version {table.version}"
                ),
                class_="soft",
            ),
        ]
    except IndexTablesError as error:
        about = [problem(error)]
    title = element("a", text(shown.name), href=table_address(shown.name))
    return element("li", element("h2", title), *about, element("code", text(shown.path)))


def schema_page(name: str, table: Table, parameters: Parameters) -> Markup:
    """Show columns with their index kinds, settings, and a preview of an analyzer."""
    about = describe_table(table)
    figures = {
        "rows": number(about.rows),
        "splits": number(about.splits),
        "bytes": size(about.size_bytes),
        "version": number(about.version),
        "protocol": about.protocol,
    }
    mappings = column_mappings(table)
    columns = [
        {
            "column": c.column,
            "type": c.type,
            "may be null": "yes" if c.nullable else "no",
            "indexed as": c.index,
            "words": (m.tokenizer or "")
            if (m := mappings.get(c.column)) is not None and c.index == "text"
            else "",
        }
        for c in column_figures(table.inspect)
    ]
    settings = [{"key": row["key"], "value": row["value"]} for row in about.settings]
    return _page(
        name,
        table,
        "schema",
        element("h1", text(about.name or name)),
        element("p", text(about.description or "")) if about.description else EMPTY,
        element("p", element("code", text(table.path))),
        cards(figures),
        element("h2", text("Columns")),
        listing(columns, caption="Columns"),
        *_analyzer_preview(table, parameters),
        element("h2", text("Settings")),
        listing(settings, caption="Settings", empty="None but the defaults."),
    )


def _analyzer_preview(table: Table, parameters: Parameters) -> list[Markup]:
    """Show the terms that a column's analyzer makes of a text."""
    texts = {name: m for name, m in column_mappings(table).items() if m.indexed}
    if not texts:
        return []
    column, sample = parameters.get("column") or next(iter(texts)), parameters.get("text", "")
    options = [
        element("option", text(n), value=n, selected="selected" if n == column else None)
        for n in texts
    ]
    form = element(
        "form",
        element("label", text("A text"), for_="sample"),
        element("input", id="sample", name="text", value=sample, size="50", maxlength="2000"),
        element("label", text("in column"), for_="column"),
        element("select", *options, id="column", name="column"),
        element("button", text("Show words")),
        action="schema",
        class_="line",
    )
    parts = [element("h2", text("What becomes of a text")), form]
    if sample and column in texts:
        words = [
            {"word": token.text, "position": token.position, "from": token.start, "to": token.end}
            for token in analyze(sample[:2000], texts[column].tokenizer or "raw")
        ]
        parts.append(listing(words, caption="Words", empty="No word."))
    return parts


def partitions_page(name: str, table: Table, parameters: Parameters) -> Markup:
    """List the partitions in pages."""
    rows, pager = _page_of(table.inspect.partitions(), "partitions", parameters)
    lines = [
        {
            "partition": ", ".join(f"{key}={value}" for key, value in row["partition"])
            or "the whole table",
            "splits": row["splits"],
            "rows": row["rows"],
            "bytes": size(row["size_bytes"]),
        }
        for row in rows
    ]
    return _page(
        name,
        table,
        "partitions",
        element("h1", text("Partitions")),
        listing(lines, caption="Partitions"),
        pager,
    )


def files_page(name: str, table: Table, parameters: Parameters) -> Markup:
    """List the splits in pages. A condition selects the splits that can contain a matching row."""
    where = parameters.get("where", "").strip()
    form = element(
        "form",
        element("label", text("That may hold rows where"), for_="where"),
        element("input", id="where", name="where", value=where, size="50"),
        element("button", text("Show")),
        action="files",
        class_="line",
    )
    head = [element("h1", text("Files")), form]
    try:
        files = table.files(where=where or None)
    except IndexTablesError as error:
        return _page(name, table, "files", *head, problem(error, of=where))
    rows, pager = _page_of(files, "files", parameters)
    lines = [
        {
            "path": row["path"],
            "rows": row["num_records"],
            "bytes": size(row["size"]),
            "added at": row.get("added_at_version"),
        }
        for row in rows
    ]
    about = element("p", text(f"{number(files.num_rows)} splits."), class_="soft")
    return _page(name, table, "files", *head, about, listing(lines, caption="Files"), pager)


def history_page(name: str, table: Table, parameters: Parameters) -> Markup:
    """List the commits, and show the difference of two versions."""
    rows = table.history(limit=_VERSIONS).to_pylist()
    older, newer = parameters.get("from", ""), parameters.get("to", "")
    lines = [
        {
            "from": _radio("from", row["version"], older),
            "to": _radio("to", row["version"], newer or str(rows[0]["version"])),
            "version": row["version"],
            "time (UTC)": ""
            if row["timestamp"] is None
            else f"{row['timestamp']:%Y-%m-%d %H:%M:%S}",
            "operation": row["operation"] or "",
            "what": _metrics(row.get("operation_metrics")),
            "note": row["user_metadata"] or "",
            "rows then": _travel(row["version"]) if row["is_readable"] else "no longer readable",
        }
        for row in rows
    ]
    button = element("button", text("Compare the two"))
    form = element(
        "form", button, listing(lines, caption="Versions"), action="history", method="get"
    )
    versions, _ = version_figures(table.inspect, limit=_VERSIONS)
    chart = element(
        "div",
        timeline_chart(versions),
        class_="scroll chart",
        tabindex="0",
        role="region",
        aria_label="Timeline",
    )
    parts = [element("h1", text("History")), chart]
    if older and newer:
        parts.append(_difference(table, older, newer))
    if len(rows) == _VERSIONS:
        parts.append(element("p", text(f"The newest {_VERSIONS} versions."), class_="soft"))
    return _page(name, table, "history", *parts, form)


def _radio(group: str, version: int, chosen: str) -> Cell:
    box = element(
        "input",
        type="radio",
        name=group,
        value=version,
        checked="checked" if str(version) == chosen else None,
        aria_label=f"{group} version {version}",
    )
    return Cell(box)


def _travel(version: int) -> Cell:
    return Cell(
        element(
            "a",
            text("search"),
            href=f"search?{urlencode({'v': version})}",
            aria_label=f"Search version {version}",
        )
    )


def _metrics(metrics: str | None) -> str:
    values = msgspec.json.decode(metrics) if metrics else {}
    if isinstance(values, dict):
        return ", ".join(f"{key} {value}" for key, value in values.items() if value)
    return ""


def _difference(table: Table, older: str, newer: str) -> Markup:
    if not (older.isdigit() and newer.isdigit()):
        return problem(InvalidInputError("Versions are numbers.", hint="Choose two of the list."))
    first, second = sorted((int(older), int(newer)))
    try:
        versions = [
            Table.open(table.path, version=v, options=table.handle.options) for v in (first, second)
        ]
        report = difference(*versions)
    except IndexTablesError as error:
        return problem(error)
    return element(
        "section",
        element("h2", text(f"From {first} to {second}")),
        report_parts(report),
        class_="difference",
    )


PLANS: dict[str, Callable[[Table], Report]] = {
    "merge": lambda table: table.merge(dry_run=True),
    "purge": lambda table: table.purge(dry_run=True),
    "truncate time travel": lambda table: table.truncate_time_travel(dry_run=True),
    "checkpoint": lambda table: table.checkpoint(dry_run=True),
    "compact": lambda table: table.compact(dry_run=True),
}
"""The plans of maintenance operations, by verb."""


def upkeep_page(name: str, table: Table, parameters: Parameters) -> Markup:
    """Show the state, skipped files, maintenance plans, and the result of verification."""
    chosen = parameters.get("plan", "")
    links = [
        element(
            "a",
            text(f"What would {verb} do?"),
            href=f"upkeep?{urlencode({'plan': verb})}",
            class_="button",
        )
        for verb in PLANS
    ]
    parts = [element("h1", text("Upkeep")), element("p", *links, class_="buttons")]
    if chosen:
        parts.append(_part(f"What {chosen} would do", lambda: _plan(table, chosen)))
    check = [
        element(
            "a", text("Verify the log and every split"), href="upkeep?verify=1", class_="button"
        ),
        element("a", text("Verify every byte"), href="upkeep?verify=full", class_="button"),
    ]
    parts.append(element("p", *check, class_="buttons"))
    if parameters.get("verify"):
        parts.append(_part("Verified", lambda: table.verify(full=parameters["verify"] == "full")))
    parts.append(_part("State", table.state))
    skips = table.skipped_files().to_pylist()
    parts += [element("h2", text("Skipped splits")), listing(skips, caption="Skipped splits")]
    cache = {
        key.replace("_", " "): str(value) for key, value in table.cache_stats().to_dict().items()
    }
    parts += [element("h2", text("What this process remembers")), cards(cache)]
    return _page(name, table, "upkeep", *parts)


def _plan(table: Table, verb: str) -> Report:
    if verb not in PLANS:
        raise InvalidInputError(
            f"There is no plan of {verb!r}.", hint=f"Plans: {', '.join(PLANS)}.", verb=verb
        )
    return PLANS[verb](table)


def _part(title: str, make: Callable[[], Report]) -> Markup:
    try:
        body = report_parts(make())
    except IndexTablesError as error:
        body = problem(error)
    return element("section", element("h2", text(title)), body)


def _page_of(
    rows: pa.Table, page: str, parameters: Parameters
) -> tuple[list[dict[str, Any]], Markup]:
    """Render one page of a listing with links to the others."""
    start = parameters.get("start", "0")
    if start.isascii() and start.isdigit() and len(start) < 18:
        offset = int(start)
    else:
        offset = 0
    shown = rows.slice(min(offset, rows.num_rows), _PAGE).to_pylist()
    kept = {key: value for key, value in parameters.items() if key != "start" and value}
    links = []
    if offset:
        before = urlencode({**kept, "start": max(0, offset - _PAGE)})
        links.append(element("a", text("← Previous"), href=f"{page}?{before}", class_="button"))
    if offset + _PAGE < rows.num_rows:
        after = urlencode({**kept, "start": offset + _PAGE})
        links.append(element("a", text("Next →"), href=f"{page}?{after}", class_="button"))
    about = element(
        "span",
        text(f"{offset + 1:,} to {offset + len(shown):,} of {rows.num_rows:,} "),
        class_="soft",
    )
    return shown, element(
        "nav", about, *links, class_="pager", aria_label="Pages"
    ) if links else EMPTY


def _page(name: str, table: Table, page: str, *content: Markup) -> Markup:
    return frame(
        f"{page} · {name}",
        *content,
        up="../../",
        name=name,
        page=page,
        note=f"version {table.version}",
    )


def error_page(error: IndexTablesError, *, up: str, name: str | None = None) -> Markup:
    """Render a page for an error."""
    return frame(
        "Error", element("h1", text("This cannot be shown")), problem(error), up=up, name=name
    )
