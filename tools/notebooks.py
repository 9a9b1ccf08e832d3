"""Runs the notebooks and saves what their cells show, so that they are read whole on a forge:
`python -m tools.notebooks`.

The tests of the documents run the same cells in the same way and compare. Spark is started for
those that need it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import indextables.spark as its
from tests.support.code_blocks import PageRun, blocks_of
from tests.support.read_pages import SMALL

NOTEBOOKS = Path(__file__).parents[1] / "examples"


def save_outputs(notebook: Path) -> None:
    """Run a notebook in the folder where we are, and write what its cells show into it."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    run = PageRun(Path.cwd())
    for cell, block in zip(cells, blocks_of(notebook), strict=True):
        cell["outputs"], cell["execution_count"] = run.cell(block), block.line
    notebook.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(names: list[str]) -> None:
    """Those that are named, or all; Spark stays in the folder that it was started in, so each has a
    folder first.
    """
    for notebook in [NOTEBOOKS / name for name in names] or sorted(NOTEBOOKS.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            if any(block.needs_spark for block in blocks_of(notebook)):
                its.session("notebooks", master="local[1]", conf=SMALL)
            save_outputs(notebook)
            os.chdir(NOTEBOOKS)
        sys.stdout.write(f"{notebook.name}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
