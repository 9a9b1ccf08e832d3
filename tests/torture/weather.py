"""What can go wrong with a table from outside: requests that fail at random, and files that are
damaged where they lie.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from indextables.log.log_files import LOG, version_of
from tests.support.fault_server import FaultServer, HttpFault
from tests.support.xml_bucket import Request, StoredObject

ANSWERS = (
    (500, "InternalError"),
    (503, "SlowDown"),
    (409, "ConditionalRequestConflict"),
    (403, "AccessDenied"),
)


class Storm:
    """Faults of requests, so many of them as `rate` says."""

    def __init__(self, rng: random.Random, server: FaultServer) -> None:
        self.rate = 0.0
        self.counts: Counter[str] = Counter()
        self._rng = rng
        server.weather = self

    def __call__(self, request: Request) -> HttpFault | None:
        if self._rng.random() >= self.rate:
            return None
        name, fault = self._rng.choice(list(_faults(request, self._rng)))
        self.counts[f"faults: {name}"] += 1
        return fault


def _faults(request: Request, rng: random.Random) -> Iterator[tuple[str, HttpFault]]:
    """What can happen to a request."""
    status, code = rng.choice(ANSWERS)
    yield "slow", HttpFault(delay_ms=rng.choice([5, 50, 200]), answers=True)
    yield "cut off before", HttpFault()
    yield f"answered {status}", HttpFault(status=status, code=code)
    if request.method in ("PUT", "POST", "DELETE"):
        yield "answer lost", HttpFault(takes_effect=True)
        yield "503, but it took effect", HttpFault(status=503, code="SlowDown", takes_effect=True)
        if request.headers.get("If-None-Match") == "*":
            yield (
                "412, but it was created",
                HttpFault(status=412, code="PreconditionFailed", takes_effect=True),
            )
    elif request.method == "GET" and request.key:
        yield "body damaged", HttpFault(answers=True, body="flipped")
        yield "body short", HttpFault(answers=True, body="short")
        yield "body empty", HttpFault(answers=True, body="empty")
    elif request.method == "GET":
        yield "stale listing", HttpFault(answers=True, hides=rng.randrange(1, 4))


class Ground(Protocol):
    """The files of a table where they lie, behind the back of the store."""

    def names(self) -> list[str]:
        """All of them."""

    def read(self, name: str) -> bytes:
        """What is in one."""

    def write(self, name: str, data: bytes | None) -> None:
        """Put something else there, without a trace in its time; None: take it away."""


class Folder:
    """A table on disk."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self) -> list[str]:
        """Relative to the table."""
        return sorted(
            str(path.relative_to(self._root)) for path in self._root.rglob("*") if path.is_file()
        )

    def read(self, name: str) -> bytes:
        """The file."""
        return (self._root / name).read_bytes()

    def write(self, name: str, data: bytes | None) -> None:
        """In place, with the time it had."""
        path = self._root / name
        if data is None:
            path.unlink()
            return
        times = path.stat() if path.exists() else None
        path.write_bytes(data)
        if times is not None:
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


class Bucket:
    """A table in a bucket of the fault server."""

    def __init__(self, server: FaultServer, folder: str) -> None:
        self._objects, self._prefix = server.bucket.objects, f"{folder}/"
        self._gone: dict[str, StoredObject] = {}

    def names(self) -> list[str]:
        """Relative to the table."""
        return sorted(
            key.removeprefix(self._prefix) for key in self._objects if key.startswith(self._prefix)
        )

    def read(self, name: str) -> bytes:
        """The object."""
        return self._objects[self._prefix + name].data

    def write(self, name: str, data: bytes | None) -> None:
        """In place, with the time and number it had."""
        key = self._prefix + name
        known = self._objects.get(key) or self._gone[key]
        if data is None:
            self._gone[key] = self._objects.pop(key)
        else:
            self._objects[key] = replace(known, data=data)


WAYS = ("flip", "cut", "empty", "swap", "delete")


def damage(ground: Ground, rng: random.Random) -> tuple[str, str, bytes] | None:
    """Damage one file that a version can be read without: a state, manifest, checkpoint, part or
    pointer.

    Returns how, which, and what it held.
    """
    chosen = [name for name in ground.names() if name.startswith(LOG) and version_of(name) is None]
    if not chosen:
        return None
    # The newest ones are those that are read.
    name = rng.choice(chosen[-4:] if rng.random() < 0.5 else chosen)
    held, how = ground.read(name), rng.choice(WAYS)
    if how == "flip" and held:
        at = rng.randrange(len(held))
        ground.write(name, held[:at] + bytes([held[at] ^ 1 << rng.randrange(8)]) + held[at + 1 :])
    elif how == "cut":
        ground.write(name, held[: rng.randrange(len(held)) if held else 0])
    elif how == "swap":
        alike = [other for other in chosen if other != name and other[-5:] == name[-5:]]
        ground.write(name, ground.read(rng.choice(alike)) if alike else b"")
    else:
        ground.write(name, None if how == "delete" else b"")
    return how, name, held
