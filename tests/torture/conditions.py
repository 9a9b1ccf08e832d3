"""Bad conditions for a process to work in, and for a disk to be in. Each holds for one process or
one mount alone.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.torture.suite import Unavailable

NOBODY = 65_534
DAY_S = 86_400


def few_descriptors(amount: int) -> None:
    """So many files can be open beside those that are."""
    used = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + amount, used + amount))


def small_files(amount: int) -> None:
    """No file grows beyond so many bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (amount, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    )


def another_user(amount: int) -> None:
    """Somebody who owns nothing here."""
    if os.geteuid() != 0:
        raise Unavailable("only root can become another user")
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def no_links(amount: int) -> None:
    """A file system without hard links."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    os.link = refuse


def other_clock(amount: int) -> None:
    """The clock of this process is so many seconds ahead."""
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + amount
    time.time_ns = lambda: real_ns() + amount * 1_000_000_000


def clock_in_steps(amount: int) -> None:
    """The clock of this process jumps back and forth by so many seconds, every other second."""
    real, real_ns, since = time.time, time.time_ns, time.monotonic()

    def ahead() -> int:
        return amount * (int(time.monotonic() - since) % 2)

    time.time = lambda: real() + ahead()
    time.time_ns = lambda: real_ns() + ahead() * 1_000_000_000


CONDITIONS: dict[str, Callable[[int], None]] = {
    "too few descriptors": few_descriptors,
    "files of a bounded size": small_files,
    "another user": another_user,
    "no hard links": no_links,
    "another clock": other_clock,
    "a clock in steps": clock_in_steps,
}


class Disk:
    """A small disk of its own (tmpfs)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def remount(self, options: str) -> None:
        """Make it larger, or `ro`, or `rw`."""
        subprocess.run(
            ["mount", "-o", f"remount,{options}", str(self.path)], check=True, capture_output=True
        )


@contextmanager
def small_disk(kilobytes: int) -> Iterator[Disk]:
    """A disk of this size, gone afterwards."""
    if os.geteuid() != 0:
        raise Unavailable("only root can mount a small disk")
    folder = Path(tempfile.mkdtemp(prefix="torture-disk-"))
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k,mode=755", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True)
        if mounted.returncode:
            raise Unavailable(f"no disk can be mounted here: {mounted.stderr.strip()}")
        try:
            yield Disk(folder)
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)
    finally:
        folder.rmdir()
