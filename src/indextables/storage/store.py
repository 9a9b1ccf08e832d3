"""The Store protocol: the operations that a table needs of an object store, and their guarantees.

Paths are relative to the store's root, separated by `/`, never escaped. A path outside the root is
an `InvalidInputError`. `NotFoundError` (or None from `head`) means that the object does not exist;
every other failure is a `StorageError`. A listing is complete or raises an error, and a range has
exactly the requested bytes. `tests.support.store_contract` tests these rules for every store.
Stores may be used from many threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct

from indextables.errors import InvalidInputError


class PutOutcome(Enum):
    """Result of `put_if_absent`. The commit protocol decides what it means for a commit.

    EXISTS may be caused by our own repeated request, and UNKNOWN may have landed: only reading back
    can tell.
    """

    CREATED = "created"
    EXISTS = "exists"
    UNKNOWN = "unknown"


class ObjectInfo(Struct, frozen=True):
    """One object as in a listing or `head`. The time is the store's clock; None if unknown."""

    path: str
    size: int
    last_modified_ms: int | None
    tag: str | None = None
    """Distinguishes objects with the same path, size and second; None if the store has no tags."""


def is_same_object(one: ObjectInfo, other: ObjectInfo) -> bool:
    """Return whether two descriptions of a path are of the same object.

    Times are compared in seconds, because some stores report milliseconds in only one of listing
    and `head`.
    """
    times, tags = (one.last_modified_ms, other.last_modified_ms), (one.tag, other.tag)
    same_time = None in times or len({(ms or 0) // 1_000 for ms in times}) == 1
    return one.size == other.size and same_time and (None in tags or one.tag == other.tag)


def path_of(item: str | ObjectInfo) -> str:
    """Return the path of an object given by its path or its description."""
    if isinstance(item, str):
        return item
    return item.path


def paths_to_delete(store: Store, items: Iterable[str | ObjectInfo]) -> Iterator[str]:
    """Return the paths to delete. Objects given by description are included only if they are
    unchanged.
    """
    for item in items:
        if isinstance(item, str):
            yield item
        elif (found := store.head(item.path)) is not None and is_same_object(found, item):
            yield item.path


@runtime_checkable
class Store(Protocol):
    """An object store rooted at a folder, usually of a table."""

    @property
    def url(self) -> str:
        """The root without credentials."""
        ...

    def get(self, path: str) -> bytes:
        """Read the whole object. Raises NotFoundError if it does not exist."""
        ...

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """Read exactly `length` bytes from `start`. Raises BadFileError if the object is shorter;
        length 0 always succeeds.
        """
        ...

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (start, length) ranges and return them in this order.

        A remote store sends a request for each, except for overlapping ones. The caller combines
        nearby ranges.
        """
        ...

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """Create the whole object, or nothing. Durable when it returns CREATED."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the object."""
        ...

    def put_file(self, path: str, source: Path) -> None:
        """Upload a local file as a new object, in parts where it is large."""
        ...

    def head(self, path: str) -> ObjectInfo | None:
        """Return size and time of the object, or None if it does not exist."""
        ...

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """List every object at or below the folder `prefix`, sorted by the bytes of the path, in
        lazily read pages.

        `start_after` is a path from the store's root, not from the prefix; it need not exist.
        """
        ...

    def list_unfinished(self) -> Iterator[ObjectInfo]:
        """List leftovers of running or dead writers that no listing contains; none where objects
        appear whole.
        """
        ...

    def delete(self, paths: Iterable[str | ObjectInfo]) -> None:
        """Delete these objects, unfinished ones too. Missing objects are ignored.

        An object given by its description is deleted only if it is unchanged.
        """
        ...

    def local_path(self, path: str) -> Path | None:
        """Return the path of the object on this machine's disk, or None for a remote store."""
        ...


def check_range(path: str, start: int, length: int) -> None:
    """Refuse a range with a negative start or length."""
    if start < 0 or length < 0:
        raise InvalidInputError(f"Bytes {start}+{length} of {path} are not a range.", path=path)
