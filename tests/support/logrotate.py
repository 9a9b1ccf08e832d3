"""One rotation of a log file by the real logrotate."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

LOGROTATE = shutil.which("logrotate", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
"""The command, or None where it is not installed."""
_LONGEST_S = 60


def rotate(log: Path, modes: Sequence[str], *, keep: int) -> None:
    """Rotate a log once, in these modes, and keep up to `keep` rotated files. Its rules and its
    state lie next to it.
    """
    assert LOGROTATE is not None, "logrotate is not installed (apt-get install logrotate)"
    rules = log.with_name("rotate.conf")
    user = ["su root root"] if os.getuid() == 0 else []
    rules.write_text("\n".join([f"{log} {{", f"rotate {keep}", "nomail", *user, *modes, "}\n"]))
    rules.chmod(0o600)
    command = [LOGROTATE, "--force", "--state", str(log.with_name("rotate.state")), str(rules)]
    subprocess.run(command, check=True, capture_output=True, timeout=_LONGEST_S)
