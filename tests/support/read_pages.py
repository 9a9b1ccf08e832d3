"""Reads pages one after another in a process of its own: `python -m tests.support.read_pages PAGE...`.

For pages that start Spark: one session serves them all, and it stays in the folder it was started in.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from tests.support.code_blocks import RUN, PageRun, blocks_of


def main(pages: list[str]) -> None:
    """Run the blocks of each page in this folder, and empty the folder after each."""
    folder = Path.cwd()
    for page in map(Path, pages):
        started, run = time.perf_counter(), PageRun(folder)
        for block in blocks_of(page):
            if block.language in RUN:
                run.run(block)
        for left in folder.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        print(f"{page.name}: {time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
