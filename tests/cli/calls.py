"""Calling the command line: in this process for most tests, as a process of its own for some."""

from __future__ import annotations

import errno
import io
import json
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from indextables.cli.app import app

COMMAND = str(Path(sys.executable).with_name("indextables"))


@dataclass(frozen=True)
class Answer:
    """What a call printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What was printed, as JSON."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[list[str]]:
        """What was printed, as lines of values."""
        return [line.split("\t") for line in self.out.splitlines()]


class Call:
    """`call("count", path)` gives an answer; a failure that is not expected fails the test with
    what was printed.
    """

    def __call__(self, *words: object, code: int = 0, stdin: str | None = None) -> Answer:
        result = CliRunner().invoke(
            app, [str(word) for word in words], input=stdin, env={"COLUMNS": "200"}
        )
        assert result.exit_code == code, (
            f"{words}: {result.exit_code}\n{result.output}\n{result.exception!r}"
        )
        return Answer(result.exit_code, result.stdout, result.stderr)


def process(*words: object, stdin: str | None = None, **environment: str) -> Answer:
    """A call as a process of its own, its output piped."""
    done = subprocess.run(
        [COMMAND, *map(str, words)],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def on_terminal(*words: object, typed: str = "") -> Answer:
    """A call as a process on a terminal, where somebody types."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ["COLUMNS"] = "200"
        os.execv(COMMAND, [COMMAND, *map(str, words)])
    os.write(terminal, typed.encode())
    shown = b""
    while True:
        try:
            got = os.read(terminal, 65536)
        except OSError:  # Linux's way to say that the other end is closed
            break
        if not got:
            break
        shown += got
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(terminal)
    return Answer(code, shown.decode().replace("\r\n", "\n"), "")


def forbid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a file may be opened by nobody, not even by a user who may open everything."""
    really = io.open

    def opened(file: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(file, str | Path) and Path(file) == path:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return really(file, *args, **kwargs)

    monkeypatch.setattr(io, "open", opened)
