"""The MCP server, asked by the client of the `mcp` package over pipes: five tools, limits, errors
with the way out.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from tests.cli.calls import COMMAND

mcp = pytest.importorskip("mcp", reason="mcp is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("assistant")
    schema = pa.schema([("id", pa.int64()), ("level", pa.string()), ("message", pa.string())])
    table = Table.create(
        str(root / "logs"), schema=schema, options={"indexing.typemap.message": "text"}
    )
    rows = [
        {
            "id": n,
            "level": "ERROR" if n % 3 == 0 else "INFO",
            "message": f"timeout {n} " + "x" * 2_000,
        }
        for n in range(150)
    ]
    table.append(rows)
    return root


def asked(folder: Path, *calls: tuple[str, dict[str, Any]]) -> list[tuple[bool, Any]]:
    """What the server answers to calls of tools: whether it is an error, and the text."""

    async def session() -> list[tuple[bool, Any]]:
        from mcp.client.stdio import stdio_client

        parameters = mcp.StdioServerParameters(command=COMMAND, args=["mcp", str(folder)])
        answers = []
        async with (
            stdio_client(parameters) as (reading, writing),
            mcp.ClientSession(reading, writing) as opened,
        ):
            await opened.initialize()
            listed = await opened.list_tools()
            assert [tool.name for tool in listed.tools] == [
                "describe",
                "search",
                "count",
                "aggregate",
                "history",
            ]
            assert all(tool.description for tool in listed.tools)
            for name, arguments in calls:
                answer = await opened.call_tool(name, arguments)
                answers.append((bool(answer.is_error), answer.content[0].text))
        return answers

    return asyncio.run(session())


def test_tools_look_at_tables(folder: Path) -> None:
    answers = asked(
        folder,
        ("describe", {}),
        ("describe", {"table": "logs"}),
        (
            "search",
            {
                "table": "logs",
                "query": "timeout AND level:ERROR",
                "limit": 3,
                "columns": ["id", "message"],
            },
        ),
        ("search", {"table": "logs", "query": "*", "limit": 1000, "order_by": "id desc"}),
        ("count", {"table": "logs", "where": "id < 10"}),
        ("aggregate", {"table": "logs", "aggregations": {"l": {"terms": {"field": "level"}}}}),
        (
            "aggregate",
            {"table": "logs", "aggregations": {"i": {"terms": {"field": "id", "size": 1000}}}},
        ),
        ("history", {"table": "logs"}),
        ("search", {"table": "logs", "query": "level:("}),
        ("describe", {"table": "log"}),
    )
    assert [error for error, _ in answers] == [False] * 8 + [True] * 2
    found = [json.loads(text) for error, text in answers if not error]
    assert found[0] == {"tables": ["logs"]}
    assert found[1]["rows"] == 150 and found[1]["columns"][2] == {
        "column": "message",
        "type": "string",
        "indexed_as": "text",
    }
    assert found[2]["matches"] == 50 and len(found[2]["rows"]) == 3
    assert (
        found[2]["rows"][0]["message"].endswith("more characters)")
        and len(found[2]["rows"][0]["message"]) < 1_100
    )
    assert (
        len(found[3]["rows"]) == 100
        and "At most 100 rows" in found[3]["note"]
        and found[3]["rows"][0]["id"] == 149
    )
    assert found[4]["count"] == 10
    assert found[5]["rows"] == [{"l": "INFO", "count": 100}, {"l": "ERROR", "count": 50}]
    assert len(found[6]["rows"]) == 100 and "of 150 rows" in found[6]["note"]
    assert [v["operation"] for v in found[7]["versions"]] == ["WRITE", "CREATE"]
    assert "position" in answers[8][1] and "Did you mean 'logs'?" in answers[9][1]
