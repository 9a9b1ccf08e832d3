"""Highlights: fragments of texts with the places of what was found, for every kind of clause."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import InvalidInputError

TEXTS = [
    "The disk is full. Nobody looked at the disk for weeks, and then the full moon came: disk full at last.",
    "Timeouts everywhere: timeout of the gateway, time after time.",
    None,
    "Nothing to see",
]
SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("title", pa.string())])
OPTIONS = {"indexing.typemap.message": "text", "indexing.typemap.title": "text"}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    made = Table.create(
        str(tmp_path_factory.mktemp("highlights") / "t"), schema=SCHEMA, options=OPTIONS
    )
    made.append(
        pa.table(
            {"id": range(4), "message": TEXTS, "title": ["Disk", "Gateway", "Disk", None]},
            schema=SCHEMA,
        )
    )
    return made


def fragments(
    table: Table, query: str, highlight: Any = "message", **options: Any
) -> dict[int, dict[str, Any]]:
    rows = table.search(query, highlight=highlight, **options).to_pylist()
    return {row["id"]: row["_highlight"] for row in rows}


def words(table: Table, query: str, row: int) -> list[str]:
    """What is marked in a row, checked against the text of the fragment it stands in."""
    marked = []
    for fragment in fragments(table, query)[row]["message"]:
        text, start = TEXTS[row] or "", fragment["start"]
        assert text[start : start + len(fragment["text"])] == fragment["text"]
        for mark in fragment["marks"]:
            inside = fragment["text"][mark["start"] - start : mark["end"] - start]
            assert inside == text[mark["start"] : mark["end"]]
            marked.append(inside)
    return marked


@pytest.mark.parametrize(
    ("query", "row", "expected"),
    [
        ("message:disk", 0, ["disk", "disk", "disk"]),
        ('message:"disk full"', 0, ["disk", "full"]),
        ('message:"at the di"*', 0, ["at", "the", "disk"]),
        ("message:time*", 1, ["Timeouts", "timeout", "time", "time"]),
        ("message:/time(out)?/", 1, ["timeout", "time", "time"]),
        ("message:gatewya~2", 1, ["gateway"]),
        ('message:"disk weeks"~3', 0, ["disk", "disk", "weeks", "disk"]),
        ("message:gateway AND NOT message:disk", 1, ["gateway"]),
    ],
)
def test_what_was_found_is_marked(table: Table, query: str, row: int, expected: list[str]) -> None:
    assert words(table, query, row) == expected


def test_several_columns_and_rows_without_a_match(table: Table) -> None:
    found = fragments(table, "message:disk OR title:disk OR title:gateway", ["title", "message"])
    assert [mark for part in found[0]["title"] for mark in part["marks"]] == [
        {"start": 0, "end": 4}
    ]
    assert found[1]["message"] == []
    assert found[2] == {
        "title": [{"start": 0, "text": "Disk", "marks": [{"start": 0, "end": 4}]}],
        "message": [],
    }


@pytest.mark.parametrize("length", [1, 12, 40, 1000])
@pytest.mark.parametrize("count", [1, 2, 50])
def test_fragments_have_the_number_and_length_that_was_asked_for(
    table: Table, count: int, length: int
) -> None:
    asked = {"columns": ["message"], "fragments": count, "length": length}
    shown = fragments(table, "message:disk OR message:full", asked)[0]["message"]
    assert 1 <= len(shown) <= count
    assert all(len(part["text"]) <= max(length, 4) and part["marks"] for part in shown)
    ends = [(part["start"], part["start"] + len(part["text"])) for part in shown]
    assert all(before[1] <= after[0] for before, after in pairwise(ends))
    if length == 1000:
        assert [part["text"] for part in shown] == [TEXTS[0]]
    if (count, length) == (50, 1):
        assert [part["text"] for part in shown] == ["disk", "full", "disk", "full", "disk", "full"]


def test_highlights_with_a_limit_an_order_pages_and_new_names(table: Table, tmp_path: Path) -> None:
    best = table.search("message:disk", limit=1, highlight="message", columns=["id"])
    assert best.column_names == ["id", "_score", "_highlight"]
    page = table.search_page(
        "message:disk", limit=1, order_by="id", highlight=["message"], columns=[]
    )
    assert page.rows.column("_highlight").to_pylist()[0]["message"][0]["marks"]
    renamed = Table.create(str(tmp_path / "t"), schema=SCHEMA, options=OPTIONS)
    renamed.append(pa.table({"id": [1], "message": ["disk full"], "title": ["x"]}, schema=SCHEMA))
    renamed.alter.rename_column("message", "body")
    assert fragments(renamed, "body:disk", "body")[1]["body"][0]["text"] == "disk full"
    assert (
        table.search("message:nowhere", limit=3, highlight="message").column("_highlight").type
        == best.schema.field("_highlight").type
    )


def test_highlights_that_make_no_sense_are_refused(table: Table) -> None:
    refused: list[tuple[Any, str]] = [
        ("id", "no text column 'id' to highlight"),
        (["nothing"], "no text column 'nothing'"),
        ({"columns": ["message"], "fragments": 0}, "fragments is a whole number from 1 up"),
        ({"columns": ["message"], "size": 3}, "not 'size'"),
        ([], "takes columns"),
        (5, "highlight is a list of names"),
    ]
    for highlight, message in refused:
        with pytest.raises(InvalidInputError, match=message):
            table.search("message:disk", highlight=highlight)


def test_a_long_text_with_many_marks_is_cut_quickly(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, options=OPTIONS)
    text = "disk full " * 20_000
    table.append(pa.table({"id": [1], "message": [text], "title": ["x"]}, schema=SCHEMA))
    shown = fragments(
        table, "message:disk", {"columns": ["message"], "fragments": 5, "length": 60}
    )[1]["message"]
    assert len(shown) == 5
