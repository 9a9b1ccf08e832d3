"""The figures of docs/benchmarks.md and the README come from the results of the benchmarks, losses
included.
"""

from __future__ import annotations

from typing import Any

from tools.bench_table import HIGHLIGHTS, PAGES, highlights, replace_part, table


def _row(
    what: str, ours: float, peer: str = "", theirs: float | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "what": what,
        "ours": ours,
        "unit": "ms",
        "peer": peer,
        "theirs": theirs,
        "target": "",
        "met": None,
    } | {
        "note": {},
        **more,
    }


def _search(peer: str, theirs: float, **more: Any) -> dict[str, Any]:
    note = {
        "p95": 2.0,
        "p99": 3.0,
        "cpu_ms": 1.5,
        "their p95": 20.0,
        "their p99": 30.0,
        "their cpu_ms": 15.0,
    }
    return _row("top 10 of a word, first", 1.0, peer, theirs, note=note, **more)


RESULT = {
    "name": "search",
    "date": "2026-01-02",
    "machine": {"cores": 2, "python": "3.11.7", "system": "Linux"},
    "sizes": {"rows": 1_000_000, "words": 200},
    "versions": {"pylance": "14.0", "infino": "0.11"},
    "rows": [
        _search("Lance", 4.0, target="<= 0.8x", met=True),
        _search("infino", 0.25),
        _row("cold top 10", 400.0, target="<= 300", met=False),
        _row("count, speed", 100.0, "a scan", 50.0, unit="1/s"),
    ],
}


def test_each_engine_has_its_columns_with_percentiles_and_cpu() -> None:
    (line,) = [
        line
        for line in table([RESULT]).splitlines()
        if line.startswith("| top 10 of a word, first")
    ]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "top 10 of a word, first",
        "1 / 2 / 3",
        "1.5",
        "4 / 20 / 30",
        "15",
        "0.25 / 20 / 30",
        "15",
        "4.0 times better",
        "<= 0.8x met",
    ]


def test_what_was_measured_and_beside_whom_is_said() -> None:
    text = table([RESULT])
    assert (
        "1,000,000 rows, 200 words" in text
        and "Lance 14.0, infino 0.11" in text
        and "2 shared cores" in text
    )


def test_losses_and_missed_goals_are_named() -> None:
    text = table([RESULT])
    assert "- to infino: top 10 of a word, first (4.0 times)" in text
    assert "- goals of ours that were missed: cold top 10 (<= 300)" in text


def test_how_often_a_second_is_told_as_how_long() -> None:
    assert "| count | 10 ms | a scan: 20 ms | 2.0 times better |  |" in table([RESULT])


def test_only_the_part_between_the_marks_changes() -> None:
    page = "above\n<!-- numbers -->\nof last year\n<!-- end of numbers -->\nbelow\n"
    new = replace_part(page, "numbers", table([RESULT]))
    assert new.startswith("above\n<!-- numbers -->\nMeasured") and new.endswith(
        "<!-- end of numbers -->\nbelow\n"
    )
    assert "last year" not in new


def test_the_readme_shows_its_rows_with_peer_and_verdict() -> None:
    text = highlights([RESULT])
    assert "Measured 2026-01-02 on 2 shared cores" in text and "1,000,000 rows for searches" in text
    assert "| top 10 of a word | 1 ms | Lance: 4 ms | 4.0 times better |" in text


def test_both_pages_have_their_marks_and_the_readme_every_row() -> None:
    for name, page in PAGES.items():
        text = page.read_text(encoding="utf-8")
        assert text.count(f"<!-- {name} -->") == text.count(f"<!-- end of {name} -->") == 1
    readme = PAGES["highlights"].read_text(encoding="utf-8")
    assert [label for _, _, label in HIGHLIGHTS if f"| {label} |" not in readme] == []
