"""The page of Spark versions shows what the recorded runs say."""

from __future__ import annotations

from tools.compatibility import VERSIONS, count_outcomes, counts_table, load_recorded
from tools.reference import DOCS


def line(test: str, outcome: str, reason: str = "") -> dict[str, str]:
    return {"test": test, "outcome": outcome, "reason": reason}


def test_the_last_outcome_of_a_test_counts_and_what_was_not_run_is_shown() -> None:
    run = count_outcomes(
        [
            {"collected": 5},
            line("a", "failed", "no"),
            line("b", "failed", "no"),
            line("c", "skipped", "Skipped: refused by design: x needs Spark 4.2"),
            line("a", "passed"),
        ]
    )
    assert (run["passed"], run["refused"], run["failed"]) == (1, ["c"], ["b"])
    row = counts_table({"4.0": {"date": "2026-01-02", **run}}).splitlines()[2]
    assert row == "| 4.0 | 2026-01-02 | 5 | 1 | 1 | 0 | 1 | 2 |"


def test_the_page_shows_every_version_and_every_recorded_failure() -> None:
    page = (DOCS / "reference" / "compatibility.md").read_text(encoding="utf-8")
    recorded = load_recorded()
    assert counts_table(recorded) in page
    assert all(f"| {version} |" in page for version in VERSIONS)
    for run in recorded.values():
        assert all(f"`{name}`" in page for name in run["failed"])
