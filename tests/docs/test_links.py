"""No dead links: every relative link leads to a file, and its anchor to a heading; every page is in
the menu.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.reference import with_parts

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
] + sorted((ROOT / "docs").rglob("*.md"))
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?^```|`[^`\n]*`", re.S | re.M)


def headings(page: Path) -> set[str]:
    """The anchors of a page, as mkdocs makes them."""
    text = re.sub(
        r"^```.*?^```", "", with_parts(page.read_text(encoding="utf-8")), flags=re.S | re.M
    )
    found = re.findall(r"^#+ (.*)$", text, re.M)
    return {
        re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in found
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{link} leads nowhere"
        if path.suffix in (".py", ".java"):
            continue  # the anchor is a line of a source file
        assert not anchor or anchor in headings(path), f"{link} has no such heading"


def test_every_page_is_in_the_menu_or_listed_by_one_that_is() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    docs = ROOT / "docs"
    pages = [
        str(page.relative_to(docs)) for page in docs.rglob("*.md") if not page.name.startswith("0")
    ]
    assert [page for page in pages if page not in menu] == []
    named = re.findall(r"[\w-]+(?:/[\w-]+)*\.md", menu)
    assert [page for page in named if not (docs / page).exists()] == []
