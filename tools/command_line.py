"""The commands of the command line, from their live help."""

from __future__ import annotations

import re

from typer.main import get_command
from typer.testing import CliRunner

from indextables.cli.app import app
from indextables.cli.output import meanings

_STYLING = re.compile(r"\x1b\[[0-9;]*m")
_TERMINAL = {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1", "TERM": "dumb"}


def commands() -> list[str]:
    """The name of every command, in the order of the help."""
    return list(get_command(app).commands)  # type: ignore[attr-defined]


def command_line() -> str:
    """The help of every command, as a terminal of 100 columns shows it."""
    return "\n".join(f"### {name}\n\n```text\n{help_of(name)}\n```\n" for name in commands())


def help_of(name: str) -> str:
    """What `indextables NAME --help` prints."""
    shown = CliRunner(env=_TERMINAL).invoke(app, [name, "--help"], prog_name="indextables")
    if shown.exit_code:
        raise RuntimeError(f"{name} --help ended with {shown.exit_code}: {shown.output}")
    return "\n".join(
        line.rstrip() for line in _STYLING.sub("", shown.stdout).strip("\n").splitlines()
    )


def exit_codes() -> str:
    """Every exit code and what it says."""
    rows = [f"| {row['code']} | {row['meaning']} | {row['errors']} |" for row in meanings()]
    return "\n".join(["| code | meaning | errors |", "| --- | --- | --- |", *rows]) + "\n"
