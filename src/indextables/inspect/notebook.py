"""How a notebook shows a table, and rows: `%load_ext indextables` shows searches, scans and histories well.

Those are plain Arrow tables, which have no HTML form of their own, and a library must not give them one unasked: hence an
extension.
"""

from __future__ import annotations

import re
from html import escape, unescape
from typing import Any

import pyarrow as pa
from msgspec import Struct

from indextables.inspect.figures import column_figures
from indextables.inspect.inspection import Inspection
from indextables.model.report import html_table, text_table

SHOWN_ROWS = 50
_SNIPPET = "_snippet"
_MARKED = re.compile(r"<b>(.*?)</b>", re.S)


def load_ipython_extension(ipython: Any) -> None:
    """Called by `%load_ext indextables`: from then on this session shows Arrow tables as tables."""
    ipython.display_formatter.formatters["text/html"].for_type(pa.Table, arrow_html)


def unload_ipython_extension(ipython: Any) -> None:
    """Called by `%unload_ext indextables`."""
    ipython.display_formatter.formatters["text/html"].pop(pa.Table, None)


def table_html(inspection: Inspection) -> str:
    """A table as HTML: what it is and holds, and its columns."""
    table, files = inspection.table, inspection.snapshot.files(columns=["size", "num_records"])
    facts = {
        "path": table.path,
        "version": table.version,
        "partitioned by": ", ".join(table.partition_columns),
        "splits": files.num_rows,
        "rows": _sum(files.column("num_records")),
        "bytes": _sum(files.column("size")),
    }
    columns = [{"column": c.column, "type": c.type, "index": c.index} for c in column_figures(inspection)]
    return html_table([{"": name, "value": value} for name, value in facts.items()]) + html_table(columns)


def _sum(numbers: pa.ChunkedArray) -> int:
    return sum(number or 0 for number in numbers.to_pylist())


def arrow_html(table: pa.Table) -> str:
    """An Arrow table as HTML: the first rows, how many more there are, and snippets with their words marked."""
    rows = [dict(zip(table.column_names, row, strict=True)) for row in zip(*_columns(table), strict=True)]
    more = table.num_rows - len(rows)
    caption = f"{table.num_rows:,} rows, {table.num_columns} columns{f'; {more:,} not shown' if more else ''}"
    return f"{html_table(rows, markup={_SNIPPET: _snippet_html})}<p>{caption}</p>"


class ShownRows(Struct, frozen=True):
    """Rows as a notebook shows them: HTML with what matched marked, or text where there is no notebook."""

    rows: pa.Table
    more: bool = False
    """Whether there are rows behind these, which nobody counted."""

    def _repr_html_(self) -> str:
        return arrow_html(self.rows) + ("<p>There are more.</p>" if self.more else "")

    def __str__(self) -> str:
        rows = [{k: _snippet_text(v) if k == _SNIPPET else v for k, v in row.items()} for row in self.rows.to_pylist()]
        lines = text_table(rows) or f"no rows of {', '.join(self.rows.column_names)}"
        return f"{lines}\n... and more" if self.more else lines

    __repr__ = __str__


def _columns(table: pa.Table) -> list[list[Any]]:
    return [column.slice(0, SHOWN_ROWS).to_pylist() for column in table.columns]


def _snippet_text(snippet: Any) -> Any:
    return snippet if snippet is None else unescape(_MARKED.sub(r"*\1*", str(snippet)))


def _snippet_html(snippet: Any) -> str:
    """A snippet whose only markup is its marks, whatever stands in it."""
    parts = _MARKED.split("" if snippet is None else str(snippet))
    clean = [escape(unescape(part)) for part in parts]
    return "".join(f"<b>{part}</b>" if index % 2 else part for index, part in enumerate(clean))
