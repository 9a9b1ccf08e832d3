"""Every code block of the documents runs, page by page, in the order it is read; so does every cell of the notebooks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.code_blocks import RUN, SHOWN, Block, PageRun, blocks_of

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").glob("*.ipynb"))]
BLOCKS = {page: blocks_of(page) for page in PAGES}
RUNNABLE = {page: [b for b in blocks if b.language in RUN] for page, blocks in BLOCKS.items()}
WITH_SPARK = [page for page, blocks in RUNNABLE.items() if any(block.needs_spark for block in blocks)]
WITHOUT = [page for page, blocks in RUNNABLE.items() if blocks and page not in WITH_SPARK]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    run = PageRun(folder)
    for block in RUNNABLE[page]:
        run.run(block)


@pytest.mark.parametrize("page", WITHOUT, ids=name)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read(page, tmp_path, monkeypatch)


def test_the_blocks_of_the_pages_with_spark_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one test, so that they share one session whatever process runs them."""
    running = SparkSession.getActiveSession()
    for number, page in enumerate(WITH_SPARK):
        read(page, tmp_path / str(number), monkeypatch)
    session = SparkSession.getActiveSession()
    if running is None and session is not None:
        session.stop()


def test_every_block_runs_or_is_only_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """A language that nobody runs would be a block that nobody tests."""
    every: list[Block] = [block for blocks in BLOCKS.values() for block in blocks]
    strange = [f"{name(b.page)}:{b.line} {b.language!r}" for b in every if b.language not in (*RUN, *SHOWN)]
    counted = Counter(block.language for block in every)
    with capsys.disabled():
        ran = {language: counted[language] for language in RUN}
        print(f"\n{sum(ran.values())} code blocks run on {len(WITHOUT) + len(WITH_SPARK)} pages: {ran}")
    assert not strange
    assert counted["python"] > 40
