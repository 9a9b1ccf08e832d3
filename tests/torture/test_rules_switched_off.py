"""Every rule of the protocol earns its place: without it a test fails. The table is in
`tests/torture/rules.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from indextables.errors import IndexTablesError
from tests.torture.rules import RULES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/protocol.md").read_text("utf-8")
LISTED = {
    rule: (instead, test)
    for rule, instead, test in re.findall(
        r"^\| without ([A-Z]\d+) \| (.+?) \| `([^`]+)` \|$", PAGE, re.M
    )
}
QUICK = [name for name, rule in RULES.items() if not rule.explores]


@pytest.mark.parametrize("name", QUICK)
def test_with_the_rule_all_is_well(name: str, tmp_path: Path) -> None:
    RULES[name].prove(tmp_path)


@pytest.mark.parametrize("name", RULES)
def test_without_the_rule_a_test_fails(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RULES[name].off(monkeypatch)
    with pytest.raises((AssertionError, IndexTablesError, pytest.fail.Exception)) as failure:
        RULES[name].prove(tmp_path)
    # What was put in the rule's place fits, or the test would fail for no reason that the rule
    # knows of.
    assert "TypeError" not in str(failure.value)
    assert "AttributeError" not in str(failure.value)


@pytest.mark.parametrize("name", RULES)
def test_the_page_lists_it(name: str) -> None:
    rule = RULES[name]
    assert LISTED.get(name) == (rule.instead, rule.test)
    file, _, test = rule.test.partition("::")
    assert f"def {test}(" in (ROOT / file).read_text("utf-8")


def test_no_rule_that_keeps_rows_is_left_out() -> None:
    told = re.findall(r"^\| ([RSC]\d+) \|", PAGE, re.M)
    assert sorted(told) == sorted(RULES) == sorted(LISTED)
