"""The architecture page names functions and classes that exist in the files it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "indextables"
PAGE = ROOT / "docs" / "explain" / "architecture.md"
STEP = re.compile(r"^ *(?:-> )?(?P<name>[A-Za-z_.]+) {2,}(?P<file>[a-z_/A-Z]+\.(?:py|java))", re.M)
STEPS = [
    (match["name"], match["file"]) for match in STEP.finditer(PAGE.read_text(encoding="utf-8"))
]


def test_the_three_paths_are_found() -> None:
    assert len(STEPS) > 30


@pytest.mark.parametrize(("name", "file"), STEPS, ids=lambda part: part)
def test_a_step_is_defined_in_the_file_that_the_page_names(name: str, file: str) -> None:
    source = (PACKAGE / file).read_text(encoding="utf-8")
    for part in name.split("."):
        assert re.search(rf"\b(?:def|class|interface) {part}\b", source), (
            f"{file} defines no {part}"
        )
