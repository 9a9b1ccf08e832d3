"""Every code block of the documents runs, page by page, in the order it is read; so does every cell
of the notebooks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.code_blocks import RUN, SHOWN, Block, PageRun, blocks_of

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.ipynb")),
]
BLOCKS = {page: blocks_of(page) for page in PAGES}
RUNNABLE = {page: [b for b in blocks if b.language in RUN] for page, blocks in BLOCKS.items()}
WITH_SPARK = [
    page for page, blocks in RUNNABLE.items() if any(block.needs_spark for block in blocks)
]
WITHOUT = [page for page, blocks in RUNNABLE.items() if blocks and page not in WITH_SPARK]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


Record = Callable[[str, object], None]


@pytest.mark.parametrize("page", WITHOUT, ids=name)
def test_the_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    monkeypatch.chdir(tmp_path)
    run = PageRun(tmp_path)
    for block in RUNNABLE[page]:
        run.run(block)
    record_property("code_blocks", len(RUNNABLE[page]))


@pytest.mark.timeout(900)
def test_the_blocks_of_the_pages_with_spark_run(tmp_path: Path, record_property: Record) -> None:
    """In one process of their own, so that they share one session and find their files where it was
    started.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.read_pages", *map(str, WITH_SPARK)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=840,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        page.name for page in WITH_SPARK
    ]
    for page in WITH_SPARK:
        record_property("code_blocks", len(RUNNABLE[page]))


def test_every_block_runs_or_is_only_shown() -> None:
    """A language that nobody runs would be a block that nobody tests."""
    every: list[Block] = [block for blocks in BLOCKS.values() for block in blocks]
    strange = [
        f"{name(b.page)}:{b.line} {b.language!r}" for b in every if b.language not in (*RUN, *SHOWN)
    ]
    assert not strange
    assert sum(map(len, RUNNABLE.values())) > 80
