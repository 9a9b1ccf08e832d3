"""A forked child of a process that used obstore hangs in its first request. This turns the hang into an error.

obstore runs its requests on threads that a fork does not copy, so nobody would ever answer. A child of a process that
has not used it is fine (that is how Spark's workers are made), and so is a child that was spawned.
"""

from __future__ import annotations

import os

from indextables.errors import StorageError


class _ForkGuard:
    """What this process, or the one it was forked from, did with obstore."""

    def __init__(self) -> None:
        self.used = False
        self.used_before_fork = False

    def forked(self) -> None:
        self.used_before_fork = self.used


_guard = _ForkGuard()
os.register_at_fork(after_in_child=_guard.forked)


def note_use(url: str) -> None:
    """Say that obstore is about to be used; StorageError in a forked child whose parent had used it."""
    if _guard.used_before_fork:
        message = f"The store {url} cannot be used in process {os.getpid()}: it was forked from one that used a store."
        hint = "Start processes with the 'spawn' method, or fork before any table or store is opened."
        raise StorageError(message, hint=hint, url=url, pid=os.getpid())
    _guard.used = True
