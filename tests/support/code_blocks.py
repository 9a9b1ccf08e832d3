"""Runs the code blocks of a document as a reader would: in order, in one folder, each with what the ones before it left.

| block | runs as |
|---|---|
| python | Python, with the names of the page's earlier blocks |
| sql | statements of `indextables.sql` |
| bash | a shell that stops at the first failure; `indextables` is on its path |
| text, console | what a reader sees; not run |

A line `#> text` after a Python or shell line is a line of what is printed, and is compared; `...` in it stands for anything.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indextables import sql

RUN = ("python", "sql", "bash")
SHOWN = ("text", "console")
_FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^\1```$", re.S | re.M)
_EXPECTED = re.compile(r"^#> (.*)$", re.M)


@dataclass(frozen=True)
class Block:
    """One block: its language, its text, and the line of the page it begins at."""

    page: Path
    language: str
    text: str
    line: int

    @property
    def needs_spark(self) -> bool:
        """Whether it starts a Spark session."""
        return "its.session(" in self.text


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a Markdown page or the code cells of a notebook, in order."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        return [Block(page, "python", "".join(cell["source"]), n + 1) for n, cell in enumerate(cells)]
    return [Block(page, m[2], _outdented(m), text.count("\n", 0, m.start()) + 1) for m in _FENCE.finditer(text)]


def _outdented(match: re.Match[str]) -> str:
    return "".join(line.removeprefix(match[1]) for line in match[3].splitlines(keepends=True))


class PageRun:
    """One page being read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, Any] = {"__name__": "__page__"}

    def run(self, block: Block) -> None:
        """Run a block; what it prints must hold the lines it promises, in their order."""
        if block.language == "python":
            printed = self._python(block)
        elif block.language == "sql":
            printed = "\n".join(str(sql(statement).to_pylist()) for statement in _statements(block.text))
        else:
            printed = self._shell(block)
        _check_promises(block, printed)

    def _python(self, block: Block) -> str:
        text = re.sub(r"^%", "# %", block.text, flags=re.M)
        code = compile("\n" * block.line + text, str(block.page), "exec")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, self._names)
        return out.getvalue()

    def _shell(self, block: Block) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            cwd=self._folder,
            env={**os.environ, "PATH": path, "COLUMNS": "160"},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
        assert done.returncode == 0, f"{block.page}:{block.line}: {done.stdout}{done.stderr}"
        return done.stdout


def _statements(text: str) -> list[str]:
    return [statement.strip() for statement in re.split(r";\s*$", text, flags=re.M) if statement.strip()]


def _check_promises(block: Block, printed: str) -> None:
    lines = iter(printed.splitlines())
    for promised in _EXPECTED.findall(block.text):
        pattern = re.compile(".*".join(map(re.escape, promised.split("..."))))
        found = any(pattern.fullmatch(line.rstrip()) for line in lines)
        assert found, f"{block.page}:{block.line} promises {promised!r}, but prints\n{printed}"
