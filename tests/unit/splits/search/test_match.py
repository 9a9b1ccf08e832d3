"""Query to rows: who answers what, what is read, and that nothing can abort or be cut off."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tantivy

from indextables.config.indexing import IndexingSettings
from indextables.errors import BadFileError
from indextables.model.predicate import bind
from indextables.model.predicate import parse as where
from indextables.query.explain import explain_split
from indextables.splits.query.fields import QueryFields
from indextables.splits.query.parser import parse
from indextables.splits.read.searchable import Rows, SearcherView
from indextables.splits.search import hits
from indextables.splits.search.match import count_rows, find_rows, open_query
from tests.support.splits import log_rows, open_file, write_file
from tests.unit.splits.plain_split import PlainSplit, make_split

SETTINGS = IndexingSettings(typemap={"message": "text"})


@pytest.fixture
def split(tmp_path: Path) -> PlainSplit:
    return make_split(log_rows(600), SETTINGS, tmp_path / "index")


def rows(split: PlainSplit, query: str, **options: str) -> list[int]:
    fields = QueryFields(split.schema, split.mapping, ("message",))
    condition = bind(where(options["where"]), split.schema) if options else None
    found = find_rows(split, parse(query, fields), where=condition)
    assert count_rows(split, parse(query, fields), where=condition) == len(found)
    return [int(row) for row in found]


def test_the_index_alone_answers_words_and_reads_no_row(split: PlainSplit) -> None:
    expected = [
        i for i, m in enumerate(split.table["message"].to_pylist()) if "timeout" in m.split()
    ]
    assert rows(split, "timeout") == expected
    assert split.columns_read == []


def test_rows_are_read_only_where_the_index_leaves_a_doubt(split: PlainSplit) -> None:
    table = split.table.to_pylist()
    assert rows(split, "n5? AND latency:>20") == [
        i for i in range(50, 60) if table[i]["latency"] > 20
    ]
    assert split.columns_read == [("latency",)] * 2
    assert split.rows_read == 2 * 10
    expected = [
        i for i, r in enumerate(table) if "timeout" in r["message"].split() and r["latency"] > 50
    ]
    assert rows(split, "timeout AND latency:>50") == expected


def test_a_typed_predicate_narrows_the_rows(split: PlainSplit) -> None:
    table = split.table.to_pylist()
    expected = [
        i for i, r in enumerate(table) if "disk" in r["message"].split() and r["level"] == "ERROR"
    ]
    assert rows(split, "disk", where="level = 'ERROR'") == expected
    assert rows(split, "*", where="host IS NULL AND latency < 10") == [
        i for i, r in enumerate(table) if r["host"] is None and r["latency"] < 10
    ]


def test_columns_that_came_later_are_null(split: PlainSplit) -> None:
    wider = split.schema.append(pa.field("added", pa.string())).append(
        pa.field("st", pa.struct([("x", pa.int32())]))
    )
    fields = QueryFields(wider, split.mapping, ("message",))
    assert len(find_rows(split, parse("added:x", fields))) == 0
    assert len(find_rows(split, parse("-added:*", fields))) == split.num_rows
    for condition, count in (
        ("added IS NULL", 600),
        ("st.x = 1", 0),
        ("NOT added = 'x'", 0),
        ("added <=> NULL", 600),
    ):
        assert count_rows(split, parse("*", fields), where=bind(where(condition), wider)) == count


def found_in(split: PlainSplit, query: str, max_listed: int) -> list[int]:
    fields = QueryFields(split.schema, split.mapping, ("message",))
    with open_query(split, parse(query, fields)) as opened:
        whole = opened.whole()
        assert whole is not None
        return [
            int(row)
            for row in hits.IndexHits(split.open_index([]), "a", max_listed=max_listed).rows(whole)
        ]


def test_large_results_come_from_the_bitset_and_agree(
    split: PlainSplit, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    marked = hits.marked_rows

    def counted(view: SearcherView, query: tantivy.Query) -> Rows | None:
        calls.append(query)
        return marked(view, query)

    monkeypatch.setattr(hits, "marked_rows", counted)
    for query in ("timeout", "-disk", "message:n1*"):
        assert found_in(split, query, 0) == rows(split, query)
    assert len(calls) == 3
    assert not list(split.folder.glob("*.del"))


def test_a_bitset_that_disagrees_with_the_count_is_not_believed(
    split: PlainSplit, monkeypatch: pytest.MonkeyPatch
) -> None:
    for answer in (None, np.arange(3)):
        monkeypatch.setattr(hits, "marked_rows", lambda *_, answer=answer: answer)
        assert found_in(split, "timeout", 0) == rows(split, "timeout")


def test_limits_are_bounded(split: PlainSplit) -> None:
    fields = QueryFields(split.schema, split.mapping, ("message",))
    with open_query(split, parse("timeout", fields)) as opened:
        whole = opened.whole()
        assert whole is not None
        assert opened.hits is not None
        assert len(opened.hits.scored(whole, 1 << 40)[0]) == len(rows(split, "timeout"))
        assert len(opened.hits.scored(whole, 0)[0]) == len(opened.hits.scored(whole, -5)[0]) == 0


def test_a_damaged_index_is_our_error(split: PlainSplit, capfd: pytest.CaptureFixture[str]) -> None:
    meta = json.loads((split.folder / "meta.json").read_text(encoding="utf-8"))
    name = meta["segments"][0]["segment_id"].replace("-", "")
    path = split.folder / f"{name}.term"
    data = path.read_bytes()
    footer = len(data) - 200
    path.write_bytes(b"\xff" * footer + data[footer:])
    with pytest.raises(BadFileError, match=r"plain\.split"):
        rows(split, "timeout")
    capfd.readouterr()


def test_an_unindexed_split_is_scanned_with_the_same_answer(split: PlainSplit) -> None:
    queries = [
        "timeout",
        '"disk full"',
        "level:ERROR -host:host-03",
        "tim*",
        "dsik~1",
        "latency:>50 OR retry",
    ]
    found = [rows(split, q) for q in queries]
    split.indexed = False
    assert [rows(split, q) for q in queries] == found


def test_an_empty_split(tmp_path: Path) -> None:
    empty = make_split(log_rows(5).slice(0, 0), SETTINGS, tmp_path / "empty")
    assert rows(empty, "timeout") == rows(empty, "*") == rows(empty, "latency:>1") == []


def test_explain_says_who_answered(tmp_path: Path) -> None:
    reader = open_file(write_file(log_rows(20_000), tmp_path / "a.split"))
    fields = QueryFields(reader.schema, reader.mapping, ("message",))

    def report(text: str, columns: list[str] | None = None) -> dict[str, object]:
        return explain_split(reader, parse(text, fields), columns=columns).to_dict()

    word = report("n777")
    assert (word["matched"], word["rows"], word["rows_looked_at"], word["answered_by"]) == (
        1,
        20_000,
        0,
        "index",
    )
    assert word["requests"] and word["bytes_read"]
    both = report("n77? AND latency:>50")
    assert both["answered_by"] == "index, confirmed by rows"
    assert both["parts"] == [
        {"part": "message:n77?", "answered_by": "index"},
        {"part": "latency:{50.0 TO *]", "answered_by": "rows"},
    ]
    assert both["rows_looked_at"] == 10
    assert report("latency:>50")["answered_by"] == "rows"
    again = report("n777")
    assert again["bytes_read"] == 0
    assert report("n777", ["message"])["bytes_read"]


def test_row_groups_without_a_match_are_not_read(tmp_path: Path) -> None:
    table = log_rows(40_000)
    reader = open_file(write_file(table, tmp_path / "a.split"))
    fields = QueryFields(reader.schema, reader.mapping, ("message",))
    late = table["ts"][39_000].as_py().isoformat()
    found = explain_split(reader, parse(f"ts:>={late}", fields))
    assert (found.matched, found.rows_looked_at) == (1_000, 40_000 - 32_768)
    assert explain_split(reader, parse("ts:<2000-01-01", fields)).rows_looked_at == 0
    assert explain_split(reader, parse("level:[a TO z]", fields)).rows_looked_at == 0
    assert explain_split(reader, parse("-ts:*", fields)).matched == 0
    everything = explain_split(
        reader, parse("*", fields), where=bind(where(f"ts < TIMESTAMP '{late}'"), reader.schema)
    )
    assert everything.matched == 39_000


def test_patterns_and_lists_of_any_size(split: PlainSplit) -> None:
    assert rows(split, f"message:{'?' * 300}") == []
    assert rows(split, f"message:n{'*' * 1}{'?' * 200}*") == []
    assert rows(split, f"level:{'E*' * 150}") == []
    listed = " ".join(f"v{i}" for i in range(5_000))
    assert rows(split, f"level:IN [{listed} ERROR]") == rows(split, "level:ERROR")
    split.indexed = False
    assert rows(split, f"level:IN [{listed} ERROR]") == rows(split, "level:ERROR")
