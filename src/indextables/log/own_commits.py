"""Count the commits that this application made to each table, so that no cached snapshot is older
than its own commits.

A cached snapshot may be returned without a listing (`transaction.cache.expirationSeconds`). That
can hide commits of other applications for a while, never our own. Every cached snapshot carries the
table's mark at the time of the read; a commit moves the mark, and a snapshot with another mark is
read again.

The count of one process is kept in memory. A Spark application plans each read and write in a
separate process; these share a folder, in which each table has a file that grows by one byte per
commit.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections import Counter
from pathlib import Path

from msgspec import Struct

from indextables.config.registry import shared_folder

logger = logging.getLogger(__name__)


class CommitMark(Struct, frozen=True):
    """Number of commits to a table by this process, and by all processes of its Spark application."""

    in_process: int = 0
    in_application: int = 0

    @property
    def following(self) -> CommitMark:
        """Return the mark after one more commit of this process."""
        return CommitMark(self.in_process + 1, self.in_application + bool(shared_folder()))


class OwnCommits:
    """The marks of tables. Tables are named by `table_key`."""

    def __init__(self) -> None:
        """Start without commits."""
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def mark(self, table: str) -> CommitMark:
        """Return the current mark of a table."""
        with self._lock:
            count = self._counts.get(table, 0)
        path = _shared_path(table)
        try:
            shared = path.stat().st_size if path is not None else 0
        except OSError:
            shared = 0  # no process of the application has committed yet
        return CommitMark(count, shared)

    def add(self, table: str) -> CommitMark:
        """Count a commit and return the mark after it."""
        with self._lock:
            self._counts[table] += 1
            count = self._counts[table]
        path = _shared_path(table)
        try:
            shared = _append_byte(path) if path is not None else 0
        except OSError as failure:
            logger.warning(
                "other processes of this application may read %s late: %s", table, failure
            )
            shared = 0
        return CommitMark(count, shared)

    def renew_lock(self) -> None:
        """Replace the lock in a forked child, because a thread of the parent may hold it."""
        self._lock = threading.Lock()


def table_key(url: str, local_path: Path | None) -> str:
    """Return the name under which commits to a table are counted: one for all spellings of a local
    path.
    """
    if local_path is None:
        return url
    return os.path.realpath(local_path)


def _append_byte(path: Path) -> int:
    """Append one byte to a file that several processes share, and return its size."""
    with path.open("ab") as file:
        file.write(b".")
        file.flush()
        return os.fstat(file.fileno()).st_size


def _shared_path(table: str) -> Path | None:
    folder = shared_folder()
    if not folder:
        return None
    name = hashlib.sha256(table.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return Path(folder, f"indextables-commits-{name}")


OWN_COMMITS = OwnCommits()
os.register_at_fork(after_in_child=OWN_COMMITS.renew_lock)
