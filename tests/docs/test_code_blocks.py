"""Every Python block in the documents runs, page by page, in the order it is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python( spark)?\n(.*?)^```", re.S | re.M)
WITH_BLOCKS = [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__page__"}
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        code = compile("\n" * line + match[2], str(page), "exec")
        exec(code, names)


def test_there_are_blocks() -> None:
    blocks = sum(len(BLOCK.findall(page.read_text(encoding="utf-8"))) for page in WITH_BLOCKS)
    print(f"{blocks} blocks on {len(WITH_BLOCKS)} pages")
    assert blocks > 0
