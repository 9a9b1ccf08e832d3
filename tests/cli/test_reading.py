"""search, scan, count, aggregate, explain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.calls import Call, forbid


def test_search_prints_the_best_matches_as_lines(call: Call, made_once: Path) -> None:
    answer = call("search", made_once, "gateway OR disk", "--columns", "level,message")
    assert answer.lines[0] == ["level", "message", "_score"]
    assert {line[1] for line in answer.lines[1:]} == {
        "timeout while waiting for the gateway",
        "disk full on data2",
    }


def test_search_as_json_has_scores_and_marked_snippets(call: Call, made_once: Path) -> None:
    (row,) = call("search", made_once, "gateway", "--json").json
    assert row["_snippet"] == "timeout while waiting for the <b>gateway</b>"
    assert row["_score"] > 0
    assert row["day"] == "2026-11-01"


def test_a_search_that_is_cut_says_so_beside_its_json(call: Call, made_once: Path) -> None:
    cut = call("search", made_once, "*", "--limit", "1", "--json")
    assert len(cut.json) == 1 and "1 of " in cut.err and "matches" in cut.err
    assert "matches" not in call("search", made_once, "gateway", "--json").err


def test_a_snippet_that_is_asked_for_is_plain_when_piped(call: Call, made_once: Path) -> None:
    answer = call("search", made_once, "gateway", "--columns", "level", "--snippet", "message")
    assert answer.lines == [
        ["level", "_score", "_snippet"],
        ["ERROR", answer.lines[1][1], "timeout while waiting for the gateway"],
    ]


def test_search_takes_conditions_order_and_versions(call: Call, made_once: Path) -> None:
    found = call("search", made_once, "level:ERROR", "--where", "ms > 1000", "--json").json
    assert [row["ms"] for row in found] == [1200]
    ordered = call(
        "search", made_once, "level:*", "--order-by", "message desc", "--limit", "1", "--json"
    ).json
    assert ordered[0]["message"] == "user 7 logged in"
    assert call("search", made_once, "disk", "--version-as-of", "1", "--json").json == []
    assert len(call("search", made_once, "level:ERROR", "--all", "--json").json) == 2
    assert (
        len(
            call("search", made_once, "level:ERROR", "--limit", "1", "--offset", "1", "--json").json
        )
        == 1
    )


def test_scan_streams_rows(call: Call, made_once: Path) -> None:
    answer = call("scan", made_once, "--where", "level = 'ERROR'", "--columns", "ms,message")
    assert answer.lines[0] == ["ms", "message"]
    assert sorted(answer.lines[1:]) == [
        ["", "disk full on data2"],
        ["1200", "timeout while waiting for the gateway"],
    ]
    assert len(call("scan", made_once, "--limit", "1", "--json").json) == 1
    assert call("scan", made_once, "--limit", "0", "--json").json == []


def test_count(call: Call, made_once: Path) -> None:
    assert call("count", made_once).out == "3\n"
    assert call(
        "count", made_once, "-q", "level:ERROR", "-w", "day = '2026-11-02'", "--json"
    ).json == {"count": 1}
    assert call("count", made_once, "--version-as-of", "1").out == "2\n"


def test_aggregate_by_words_and_by_specification(
    call: Call, made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("aggregate", made_once, "--terms", "level").lines == [
        ["level", "count"],
        ["ERROR", "2"],
        ["INFO", "1"],
    ]
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"ms": {"stats": {"field": "ms"}}}))
    (row,) = call("aggregate", made_once, f"@{spec}", "--json").json
    assert (row["ms.min"], row["ms.max"]) == (12, 1200)
    assert "JSON" in call("aggregate", made_once, "{", code=2).err
    assert "--terms" in call("aggregate", made_once, code=2).err
    assert "no file" in call("aggregate", made_once, "@nowhere.json", code=3).err
    assert "is a folder" in call("aggregate", made_once, f"@{tmp_path}", code=2).err
    forbid(spec, monkeypatch)
    assert (
        f"{spec} may not be read by this user"
        in call("aggregate", made_once, f"@{spec}", code=10).err
    )


def test_prewarm_says_what_was_fetched(call: Call, made_once: Path) -> None:
    told = call(
        "prewarm", made_once, "--columns", "message", "-w", "day = '2026-11-01'", "--json"
    ).json
    assert told["splits"] == 1
    assert "nope" in call("prewarm", made_once, "--columns", "nope", code=2).err


def test_explain_says_what_was_opened(call: Call, made_once: Path) -> None:
    told = call("explain", made_once, "-q", "timeout", "-w", "day = '2026-11-01'", "--json").json
    assert (
        told["splits_considered"],
        told["splits_pruned_by_partition"],
        told["rows_matched"],
    ) == (2, 1, 1)
    assert "splits_opened" in call("explain", made_once, "-q", "timeout").out


def test_a_column_is_named_once(call: Call, made_once: Path) -> None:
    for asked in (("scan", made_once), ("search", made_once, "gateway")):
        answer = call(*asked, "--columns", "level,message,level", code=2)
        assert (
            answer.err
            == "Error: Column 'level' is asked for more than once.\nHint: Name each column once.\n"
        )
