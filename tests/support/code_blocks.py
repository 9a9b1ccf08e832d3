"""Runs the code blocks of a document as a reader would: in order, in one folder, each with what the
ones before it left.

| block | runs as |
|---|---|
| python | Python, with the names of the page's earlier blocks |
| sql | statements of `indextables.sql` |
| bash | a shell that stops at the first failure; `indextables` is on its path |
| text, console | what a reader sees; not run |

A line `#> text` (`# > text`, as formatters have it) after a line of Python or shell is a line of
what is printed, and is compared; `...` in it stands for anything.

The cells of a notebook hold what they showed when `python -m tools.notebooks` ran them: the same
words and the same rows must come out again, whatever the times, sizes and names of files are today.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from indextables import sql
from indextables.inspect.figures import arrow_html

RUN = ("python", "sql", "bash")
SHOWN = ("yaml", "ini", "text", "console")
_FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^\1```$", re.S | re.M)
_CHANGING = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]*[0-9][0-9a-zA-Z.,:_+-]*|-{2,}")
_EXPECTED = re.compile(r"^# ?> (.*)$", re.M)


@dataclass(frozen=True)
class Block:
    """One block: its language, its text, and the line of the page it begins at."""

    page: Path
    language: str
    text: str
    line: int
    outputs: tuple[dict[str, Any], ...] = ()
    """What the cell of a notebook shows."""

    @property
    def needs_spark(self) -> bool:
        """Whether it starts a Spark session."""
        return "its.session(" in self.text


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a Markdown page or the code cells of a notebook, in order."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        return [
            Block(page, "python", "".join(c["source"]), n + 1, tuple(c["outputs"]))
            for n, c in enumerate(cells)
        ]
    return [
        Block(page, m[2], _outdented(m), text.count("\n", 0, m.start()) + 1)
        for m in _FENCE.finditer(text)
    ]


def _outdented(match: re.Match[str]) -> str:
    return "".join(line.removeprefix(match[1]) for line in match[3].splitlines(keepends=True))


class PageRun:
    """One page being read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, Any] = {"__name__": "__page__"}

    def run(self, block: Block) -> None:
        """Run a block; what it prints must hold the lines it promises, in their order."""
        if block.page.suffix == ".ipynb":
            outputs = self.cell(block)
            now, then = comparable(outputs), comparable(block.outputs)
            assert now == then, f"{block.page.name}, cell {block.line} shows {now}, not {then}"
            printed = ""
        elif block.language == "python":
            printed = self._python(block)
        elif block.language == "sql":
            printed = "\n".join(
                str(sql(statement).to_pylist()) for statement in _statements(block.text)
            )
        else:
            printed = self._shell(block)
        _check_promises(block, printed)

    def cell(self, block: Block) -> list[dict[str, Any]]:
        """What a notebook shows below a cell: what was printed, and the value of its last line as
        HTML and as text.
        """
        *statements, last = ast.parse(re.sub(r"^%", "# %", block.text, flags=re.M)).body
        value = last.value if isinstance(last, ast.Expr) else None
        body = ast.Module(statements if value is not None else [*statements, last], type_ignores=[])
        out, shown = io.StringIO(), None
        with contextlib.redirect_stdout(out):
            exec(compile(body, str(block.page), "exec"), self._names)
            if value is not None:
                shown = eval(compile(ast.Expression(value), str(block.page), "eval"), self._names)
        outputs: list[dict[str, Any]] = []
        if out.getvalue():
            outputs.append(
                {"output_type": "stream", "name": "stdout", "text": self._lines(out.getvalue())}
            )
        if shown is not None:
            data = {"text/plain": self._lines(repr(shown))}
            html = (
                arrow_html(shown)
                if isinstance(shown, pa.Table)
                else getattr(shown, "_repr_html_", lambda: None)()
            )
            data |= {"text/html": self._lines(html)} if html else {}
            outputs.append(
                {
                    "output_type": "execute_result",
                    "execution_count": block.line,
                    "metadata": {},
                    "data": data,
                }
            )
        return outputs

    def _lines(self, text: str) -> list[str]:
        """The lines of a text, with paths as seen from the folder: those of another run are the
        same.
        """
        return text.replace(f"{self._folder}/", "").splitlines(keepends=True)

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


def comparable(outputs: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Outputs without what differs between two runs: numbers, hashes, times, and the room that they
    take.
    """
    data = [output.get("data") or {"stream": output["text"]} for output in outputs]
    kinds = [
        next(kind for kind in ("stream", "text/html", "text/plain") if kind in texts)
        for texts in data
    ]
    return [
        (kind, _CHANGING.sub("", "".join(texts[kind])).split())
        for kind, texts in zip(kinds, data, strict=True)
    ]


def _statements(text: str) -> list[str]:
    return [
        statement.strip() for statement in re.split(r";\s*$", text, flags=re.M) if statement.strip()
    ]


def _check_promises(block: Block, printed: str) -> None:
    lines = iter(printed.splitlines())
    for promised in _EXPECTED.findall(block.text):
        pattern = re.compile(".*".join(map(re.escape, promised.split("..."))))
        found = any(pattern.fullmatch(line.rstrip()) for line in lines)
        assert found, f"{block.page}:{block.line} promises {promised!r}, but prints\n{printed}"
