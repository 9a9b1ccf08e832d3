"""Programs that tests run as processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.quick_jvm import QUICK_JVM

TOOLS = (
    "bash",
    "sh",
    "env",
    "dirname",
    "uname",
    "ps",
    "readlink",
    "cat",
    "ls",
    "rm",
    "expr",
    "sed",
    "grep",
    "tr",
)


def bare_path(folder: Path) -> str:
    """A PATH with what Spark's scripts need, no java, and a `python3` that is not the one we run
    with.
    """
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        if found:
            (folder / tool).symlink_to(found)
    wrong = folder / "python3"
    wrong.write_text("#!/bin/sh\necho 'this is the wrong python' >&2\nexit 3\n")
    wrong.chmod(0o755)
    return str(folder)


def run_program(
    code: str,
    folder: Path,
    *,
    environ: Mapping[str, str] | None = None,
    launcher: Sequence[str] = (sys.executable,),
    timeout: float = 280,
) -> str:
    """What a program prints; its errors are shown if it fails."""
    script = folder / "program.py"
    script.write_text(code)
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_", "PYTEST_"))
    }
    done = subprocess.run(
        [*launcher, str(script)],
        cwd=folder,
        env={**clean, **QUICK_JVM, **(environ or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    return done.stdout
