"""The Store protocol: the few things a table needs of an object store, and what each of them promises.

Paths are relative to the store's root, separated by `/`, never escaped; one that would lead out of it is an
`InvalidInputError`. Absence and failure are different answers: `NotFoundError` (or None from `head`) means the store
looked and the object is not there; every other failure is a `StorageError`. A listing is complete or it raises, and an
answer to a range holds what was asked for.

`indextables.testing.store_contract` holds every store to this. Stores may be used from many threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct

from indextables.errors import InvalidInputError


class PutOutcome(Enum):
    """What `put_if_absent` can say. What it means for a commit is decided by the commit, not by the store.

    EXISTS may be our own request that a retry met again, and UNKNOWN may have landed: only reading back can tell.
    """

    CREATED = "created"
    EXISTS = "exists"
    UNKNOWN = "unknown"


class ObjectInfo(Struct, frozen=True):
    """One object as a listing or `head` shows it. The time is the store's own clock; None means it did not say."""

    path: str
    size: int
    last_modified_ms: int | None
    tag: str | None = None
    """What tells two objects apart that had the same path, size and second; None if the store has nothing of the kind."""


def is_same_object(one: ObjectInfo, other: ObjectInfo) -> bool:
    """Whether two descriptions of an object at one path are of the same one.

    Some stores tell only one of a listing and a `head` in milliseconds, so times are compared in seconds.
    """
    times, tags = (one.last_modified_ms, other.last_modified_ms), (one.tag, other.tag)
    same_time = None in times or len({(ms or 0) // 1_000 for ms in times}) == 1
    return one.size == other.size and same_time and (None in tags or one.tag == other.tag)


def path_of(item: str | ObjectInfo) -> str:
    """The path of an object that is named by its path, or as it was listed."""
    return item if isinstance(item, str) else item.path


def paths_to_delete(store: Store, items: Iterable[str | ObjectInfo]) -> Iterator[str]:
    """The paths of objects to delete: of those that are given as they were listed, the ones that are still the same."""
    for item in items:
        if isinstance(item, str):
            yield item
        elif (found := store.head(item.path)) is not None and is_same_object(found, item):
            yield item.path


@runtime_checkable
class Store(Protocol):
    """An object store rooted at a table (or any other) folder."""

    @property
    def url(self) -> str:
        """Where the root is, without credentials."""
        ...

    def get(self, path: str) -> bytes:
        """The whole object. NotFoundError if it is not there."""
        ...

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`, exactly; BadFileError if the object is shorter. No bytes are always there."""
        ...

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several (start, length) ranges, answered in the order asked.

        A remote store makes a request of each, but for such as overlap: who asks has joined those that are near.
        """
        ...

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """Create the object whole, or not at all. Durable when it returns CREATED."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the object."""
        ...

    def put_file(self, path: str, source: Path) -> None:
        """Upload a local file as a new object, in parts where it is large."""
        ...

    def head(self, path: str) -> ObjectInfo | None:
        """Size and time of the object, or None if it is not there."""
        ...

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """Every object at or below the folder `prefix`, sorted by the bytes of the path, paged lazily.

        `start_after` is a path from the store's root, not from the prefix; it need not exist.
        """
        ...

    def unfinished(self) -> Iterator[ObjectInfo]:
        """Leftovers of writers, dead or still at work, that no listing shows; none where objects appear whole."""
        ...

    def delete(self, paths: Iterable[str | ObjectInfo]) -> None:
        """Delete these objects, unfinished ones too; one that is not there is no error.

        An object that is given as it was listed is deleted only if it is still that one: what another process has put in
        its place since stays.
        """
        ...

    def local_path(self, path: str) -> Path | None:
        """Where the object lies on this machine's disk, or None for a remote store."""
        ...


def check_range(path: str, start: int, length: int) -> None:
    """Refuse a range that begins before the object or has a negative length."""
    if start < 0 or length < 0:
        raise InvalidInputError(f"Bytes {start}+{length} of {path} are not a range.", path=path)
