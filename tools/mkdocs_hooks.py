"""Hooks of mkdocs: generated parts go into their pages as the pages are built."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.reference import with_parts

SOURCE_LINK = re.compile(r"\[`([^`]+)`\]\((?:\.\./)+src/[^)]+\)")
"""Links to source files lead somewhere in a checkout; on the site the name alone is left."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs with the text of every page."""
    return SOURCE_LINK.sub(r"`\1`", with_parts(markdown))
