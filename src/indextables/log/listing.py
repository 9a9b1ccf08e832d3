"""One listing of the log folder, read as what the log holds: versions, states, checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from msgspec import Struct

from indextables.log import names
from indextables.storage.store import ObjectInfo, Store

MOST_HOLES = 1_000
"""So many missing versions are told one by one."""


class LogListing(Struct, frozen=True):
    """What a listing showed. Versions below `first_version` were not asked for."""

    versions: Mapping[int, ObjectInfo]
    states: Mapping[int, ObjectInfo]
    checkpoints: Mapping[int, ObjectInfo]
    first_version: int = 0
    impossible: tuple[str, ...] = ()
    """Files named like versions that cannot be: nobody looks into them."""

    @property
    def newest(self) -> int:
        """The highest version that anything in the log speaks of; -1 for no table."""
        return max([*self.versions, *self.states, *self.checkpoints], default=-1)

    @property
    def is_empty(self) -> bool:
        """Whether there is no table here."""
        return self.newest < 0

    def missing(self, after: int, until: int) -> list[int]:
        """The versions in (after, until] that have no version file: all of them, or the first of very many.

        A file can be called anything: a hole is as long as a name says, and nobody walks through all of it.
        """
        holes = (v for v in range(after + 1, until + 1) if v not in self.versions)
        return list(islice(holes, MOST_HOLES))


def list_log(store: Store, *, first_version: int = 0) -> LogListing:
    """List the log from a version on. States and checkpoints are always all listed: their names sort after the versions."""
    start_after = names.before_version(first_version) if first_version else None
    return _read(store.list(names.LOG, start_after=start_after), first_version)


def _read(objects: Iterable[ObjectInfo], first_version: int) -> LogListing:
    versions: dict[int, ObjectInfo] = {}
    states: dict[int, ObjectInfo] = {}
    checkpoints: dict[int, ObjectInfo] = {}
    impossible: list[str] = []
    for info in objects:
        if names.is_impossible_version(info.path):
            impossible.append(info.path)
            continue
        version = names.version_of(info.path)
        if version is not None:
            versions[version] = info
            continue
        version = names.state_version_of(info.path)
        if version is not None:
            # `_manifest.avro` sorts before `_manifest.json` and wins where both are there.
            states.setdefault(version, info)
            continue
        version = names.checkpoint_version_of(info.path)
        if version is not None:
            checkpoints.setdefault(version, info)
    return LogListing(versions, states, checkpoints, first_version, tuple(impossible))
