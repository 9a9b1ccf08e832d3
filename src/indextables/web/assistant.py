"""Model Context Protocol server for assistants (the extra `mcp`), over standard input and output.

It has five tools, all read-only: describe, search, count, aggregate and history. Each tool limits
its output and states when a limit was reached, because an assistant reads everything that it
receives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from indextables.config import VERSION
from indextables.errors import IndexTablesError, RefusedError
from indextables.inspect.figures import column_figures
from indextables.query.task import ENOUGH
from indextables.web.warehouse import Warehouse

MOST_ROWS = 100
MOST_TEXT = 1_000
_SECONDS = 30.0
_INSTRUCTIONS = (
    'Tables of full-text search indexes. Call describe first. Queries are words, "a phrase", column:word, column:>5, '
    "column:[1 TO 9], AND, OR, NOT; `where` is an SQL condition over columns. Nothing can be changed."
)


class Assistant:
    """The tools of the server, over the tables of a warehouse."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse

    def server(self) -> MCPServer[Any]:
        """Return the server with its tools."""
        made: MCPServer[Any] = MCPServer(
            "indextables", version=VERSION, instructions=_INSTRUCTIONS, log_level="ERROR"
        )
        tools: tuple[Callable[..., str], ...] = (
            self.describe,
            self.search,
            self.count,
            self.aggregate,
            self.history,
        )
        for tool in tools:
            made.add_tool(tool, name=tool.__name__, description=tool.__doc__)
        return made

    def describe(self, table: str = "") -> str:
        """The names of the tables; with the name of one, its rows, columns, how each is indexed,
        and its partitions.
        """
        with _report_errors():
            if not table:
                return _json({"tables": [shown.name for shown in self.warehouse.tables()]})
            opened = self.warehouse.open(table)
            columns = [
                {"column": c.column, "type": c.type, "indexed_as": c.index}
                for c in column_figures(opened.inspect)
            ]
            about = {
                "table": table,
                "description": opened.metadata.description,
                "version": opened.version,
            }
            return _json(
                {
                    **about,
                    "rows": opened.count(),
                    "columns": columns,
                    "partitions": opened.partition_columns,
                }
            )

    def search(
        self,
        table: str,
        query: str,
        where: str = "",
        columns: list[str] | None = None,
        limit: int = 10,
        order_by: str = "",
    ) -> str:
        """The best rows for a query (or the first by `order_by`, such as "ts desc"); at most 100,
        long texts are cut.
        """
        with _report_errors():
            opened = self.warehouse.open(table)
            most = max(1, min(limit, MOST_ROWS))
            rows = opened.search(
                query, where=where or None, columns=columns, limit=most, order_by=order_by or None
            ).to_pylist(maps_as_pydicts="lossy")
            total = opened.count(query=query, where=where or None)
            answer: dict[str, Any] = {
                "version": opened.version,
                "matches": total,
                "rows": [_cut(row) for row in rows],
            }
            if limit > MOST_ROWS:
                answer["note"] = (
                    f"At most {MOST_ROWS} rows are shown; narrow the query or aggregate."
                )
            return _json(answer)

    def count(self, table: str, query: str = "", where: str = "") -> str:
        """How many rows a table has, or match a query and a condition."""
        with _report_errors():
            opened = self.warehouse.open(table)
            return _json(
                {
                    "version": opened.version,
                    "count": opened.count(query=query or None, where=where or None),
                }
            )

    def aggregate(
        self, table: str, aggregations: dict[str, Any], query: str = "", where: str = ""
    ) -> str:
        """Exact aggregations over all rows that match, for example {"levels": {"terms": {"field":
        "level"}}}.

        Kinds: terms, histogram, date_histogram, range, stats, min, max, sum, avg, value_count,
        cardinality, percentiles.
        """
        with _report_errors():
            opened = self.warehouse.open(table)
            rows = opened.aggregate(aggregations, query=query or None, where=where or None)
            answer: dict[str, Any] = {
                "version": opened.version,
                "rows": rows.slice(0, MOST_ROWS).to_pylist(),
            }
            if rows.num_rows > MOST_ROWS:
                answer["note"] = (
                    f"The first {MOST_ROWS} of {rows.num_rows} rows; use fewer or larger buckets."
                )
            return _json(answer)

    def history(self, table: str, limit: int = 10) -> str:
        """What was committed to a table, newest first; at most 100 versions."""
        with _report_errors():
            versions = self.warehouse.open(table).history(limit=max(1, min(limit, MOST_ROWS)))
            shown = versions.select(
                [
                    "version",
                    "timestamp",
                    "operation",
                    "operation_metrics",
                    "user_metadata",
                    "is_readable",
                ]
            )
            return _json({"versions": shown.to_pylist()})


@contextmanager
def _report_errors() -> Iterator[None]:
    """Run a tool within its time limit, and add the hint to the message of an error."""
    deadline = time.monotonic() + _SECONDS

    def enough() -> None:
        if time.monotonic() > deadline:
            hint = "Narrow it by a condition on a partition or a time."
            raise RefusedError(
                f"This took longer than {_SECONDS:g} seconds and was ended.", hint=hint
            )

    token = ENOUGH.set(enough)
    try:
        yield
    except IndexTablesError as error:
        raise ToolError(f"{error.message} {error.hint}") from None
    finally:
        ENOUGH.reset(token)


def _cut(row: dict[str, Any]) -> dict[str, Any]:
    """Truncate the long texts of a row and state how many characters were removed."""
    return {
        name: f"{value[:MOST_TEXT]}… ({len(value) - MOST_TEXT} more characters)"
        if isinstance(value, str) and len(value) > MOST_TEXT
        else value
        for name, value in row.items()
    }


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()
