"""The table of promises holds: every row names tests that exist, and a reason where it differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.promises import HOW, Promise, promises
from tools.reference import with_parts

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
ROWS = promises()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.text} {row.promise[:50]}")
def test_a_promise_names_what_shows_it(row: Promise) -> None:
    assert row.how in HOW and row.promise and row.done
    if row.how == "otherwise":
        assert row.why, "a deviation has a reason"
    if row.how == "absent":
        assert row.test == "docs" and (ROOT / row.why).exists()
        return
    for test in row.test.split(", "):
        file, _, name = test.partition("::")
        source = (TESTS / file).read_text(encoding="utf-8")
        wanted = (f"def {name}(", f"class {name}(") if name else ("def test_", "class Test")
        assert any(text in source for text in wanted), test


def test_the_table_is_whole_and_on_its_page() -> None:
    assert {row.text for row in ROWS} == {"000", "001", "002", "003", "004"} and len(ROWS) > 280
    assert len({(row.text, row.promise) for row in ROWS}) == len(ROWS)
    page = with_parts((ROOT / "docs/reference/conformance.md").read_text(encoding="utf-8"))
    assert all(row.done.split("|")[0] in page for row in ROWS)
