"""Reads pages one after another in a process of its own: `python -m tests.support.read_pages
PAGE...`.

For pages that start Spark: one small session serves them all, and it stays in the folder it was
started in.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import indextables.spark as its
from tests.support.code_blocks import RUN, PageRun, blocks_of
from tests.support.quick_jvm import QUICK_JVM

SMALL = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
}


def main(pages: list[str]) -> None:
    """Run the blocks of each page in this folder, and empty the folder after each."""
    folder = Path.cwd()
    os.environ.update(QUICK_JVM)
    its.session("pages", master="local[1]", conf=SMALL)
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
